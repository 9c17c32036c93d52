//! Which runs changed, for whoever watches: noted where rows become durable, taken where runs are shown.
//!
//! While nobody watches, noting costs one load. What is not taken in time is dropped and counted: a watcher must not
//! make a server wait, or grow.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rota_core::batch::{Batch, Row};
use rota_core::id::RunId;

/// Changes that wait to be taken.
pub const CHANGES_WAITING_MAX: usize = 20_000;

/// Runs that changed.
#[derive(Debug, Default)]
pub struct Tap {
    watchers: AtomicUsize,
    changed: Mutex<Changed>,
}

/// What was noted since the last time that it was taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changed {
    /// The runs, in the order of their changes; one that changed twice may be there twice.
    pub runs: Vec<RunId>,
    /// Changes that found no place.
    pub dropped: u64,
}

/// As long as one is there, changes are noted.
#[derive(Debug)]
pub struct Watching(Arc<Tap>);

impl Tap {
    /// Begins to note changes.
    #[must_use]
    pub fn watch(self: &Arc<Tap>) -> Watching {
        self.watchers.fetch_add(1, Ordering::Relaxed);
        Watching(Arc::clone(self))
    }

    /// Notes what a batch changed, once it is durable.
    pub fn note(&self, batch: &Batch) {
        if self.watchers.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut changed = self.changed();
        for run in batch.rows.iter().filter_map(run_of) {
            if changed.runs.last() == Some(&run) {
                continue;
            }
            if changed.runs.len() < CHANGES_WAITING_MAX {
                changed.runs.push(run);
            } else {
                changed.dropped += 1;
            }
        }
    }

    /// Takes what was noted.
    #[must_use]
    pub fn take(&self) -> Changed {
        std::mem::take(&mut *self.changed())
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if self.0.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            // Nobody wants what was noted.
            let _unwanted = self.0.take();
        }
    }
}

fn run_of(row: &Row) -> Option<RunId> {
    match row {
        Row::Run(run) => Some(run.id),
        Row::RunSet { run, .. } => Some(*run),
        Row::Attempt(attempt) | Row::AttemptSet(attempt) => Some(attempt.run),
        Row::Definition(_)
        | Row::JobState { .. }
        | Row::Worker { .. }
        | Row::WorkerState { .. }
        | Row::Exception { .. }
        | Row::Request { .. }
        | Row::Rerun(_)
        | Row::Merged { .. }
        | Row::Child(_)
        | Row::Shards(_)
        | Row::Trace { .. }
        | Row::Freeze(_)
        | Row::Backfill(_)
        | Row::BackfillRun { .. }
        | Row::Listed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use rota_core::batch::RunState;
    use rota_core::id::{Epoch, JobId, PartitionId, Seq};
    use rota_core::time::UnixMs;

    use super::*;

    fn batch(runs: std::ops::Range<u64>) -> Batch {
        let row =
            |run| Row::RunSet { run: RunId(run), job: JobId(1), state: RunState::Success, why: None, ended_at: None };
        Batch {
            partition: PartitionId(0),
            epoch: Epoch(1),
            seq: Seq(1),
            at: UnixMs(0),
            mark: UnixMs(0),
            floor: 0,
            rows: runs.flat_map(|run| [row(run), row(run)]).collect(),
        }
    }

    #[test]
    fn changes_are_noted_while_somebody_watches() {
        let tap = Arc::new(Tap::default());
        tap.note(&batch(0..3));
        assert_eq!(tap.take(), Changed::default());
        let (first, second) = (tap.watch(), tap.watch());
        drop(first);
        tap.note(&batch(3..5));
        assert_eq!(tap.take(), Changed { runs: vec![RunId(3), RunId(4)], dropped: 0 });
        tap.note(&batch(5..6));
        drop(second);
        assert_eq!(tap.take(), Changed::default(), "nobody wants it any more");
    }

    #[test]
    fn what_finds_no_place_is_counted() {
        let tap = Arc::new(Tap::default());
        let _watching = tap.watch();
        let places = CHANGES_WAITING_MAX as u64;
        tap.note(&batch(0..places));
        tap.note(&batch(places..places + 7));
        let changed = tap.take();
        assert_eq!((changed.runs.len(), changed.dropped), (CHANGES_WAITING_MAX, 14));
    }
}
