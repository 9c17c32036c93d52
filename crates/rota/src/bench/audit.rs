//! The ledger beside what the workers saw, slot by slot, after the measured server has stopped.

use std::path::Path;

use anyhow::Result;
use rota_core::batch::{Origin, RunState};
use rota_core::time::UnixMs;
use rota_port::query::{Query, RunFilter};
use serde::Serialize;

use super::record::Record;

/// Partitions of the measured server's store.
pub(super) const PARTITIONS: u16 = 64;
const PAGE: u32 = 1_000;

/// What the two say of the slots that count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct Audit {
    /// Rows of slots in the span.
    pub(super) rows: u64,
    /// Slots without a row.
    pub(super) holes: u64,
    /// Slots with more than one row.
    pub(super) covered_twice: u64,
    /// Rows that say success of slots that no worker started.
    pub(super) unfounded: u64,
    /// Rows that are not `success`.
    pub(super) other: u64,
}

impl Audit {
    /// Whether ledger and workers agree.
    pub(super) fn is_broken(&self) -> bool {
        self.holes > 0 || self.covered_twice > 0 || self.unfounded > 0
    }
}

/// Reads the whole ledger of the span. Blocks for some seconds a million rows.
pub(super) fn compare(data: &Path, record: &Record) -> Result<Audit> {
    let (_lock, query) = rota_store::open(data, PARTITIONS)?;
    compare_rows(&query, record)
}

fn compare_rows(query: &dyn Query, record: &Record) -> Result<Audit> {
    let span = record.span();
    let mut covered = record.empty();
    let mut audit = Audit::default();
    let mut filter = RunFilter {
        origin: Some(Origin::Schedule),
        // A slot is decided at its instant or later, but for the resolution of the clock.
        since: Some(UnixMs(span.from_ms - 1_000)),
        limit: PAGE,
        ..RunFilter::default()
    };
    loop {
        let page = query.runs(&filter)?;
        let Some(last) = page.last() else { break };
        filter.before = Some(last.id);
        for run in &page {
            // Ranges cover every slot between their ends; none is expected here, and each counts as its first.
            if !covered.start_slot(run.job.0, run.slot.0) {
                continue;
            }
            audit.rows += 1;
            if run.state != RunState::Success {
                audit.other += 1;
            } else if !record.has_start(run.job.0, run.slot.0) {
                audit.unfounded += 1;
            }
        }
    }
    let figures = covered.figures();
    (audit.holes, audit.covered_twice) = (figures.missing, figures.doubled);
    Ok(audit)
}

#[cfg(test)]
mod tests {
    use rota_core::batch::{Batch, Row, Run};
    use rota_core::id::{AppId, JobId, PartitionId, RunId, Seq, Version};
    use rota_port::store::{Reservation, Store as _};

    use super::super::record::Span;
    use super::*;

    fn row(id: u64, job: u32, slot: i64, state: RunState) -> Row {
        Row::Run(Box::new(Run {
            id: RunId(id),
            app: AppId(1),
            job: JobId(job),
            version: Version(1),
            origin: Origin::Schedule,
            slot: UnixMs(slot),
            slot_last: UnixMs(slot),
            slots: 1,
            state,
            why: None,
            shards: 1,
            at: UnixMs(slot + 1),
            ended_at: state.is_terminal().then_some(UnixMs(slot + 2)),
            param: None,
        }))
    }

    #[test]
    fn holes_doubles_and_unfounded_successes_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, query) = rota_store::open(folder.path(), 1).unwrap();
        let loaded = store.claim(&[PartitionId(0)]).unwrap().remove(0);
        let app = Reservation::App { namespace: "default".to_owned(), name: "a".to_owned(), pending_max: None };
        store.reserve(&app).unwrap();
        let rows = vec![
            row(10, 1, 1_000, RunState::Success),
            row(11, 1, 2_000, RunState::Success),
            row(12, 1, 2_000, RunState::Success),
            row(13, 2, 1_000, RunState::Failed),
            row(14, 2, 9_000, RunState::Success),
        ];
        let batch = Batch {
            partition: loaded.partition,
            epoch: loaded.epoch,
            seq: Seq(loaded.seq.0 + 1),
            at: UnixMs(10_000),
            mark: UnixMs(9_000),
            floor: u64::MAX,
            rows,
        };
        store.commit(&[batch]).unwrap();

        let mut record = Record::new(Span { from_ms: 1_000, to_ms: 3_000 }, [(1, 1_000), (2, 1_000)].into_iter());
        record.start(1, 1_000, 1, 1_001);
        record.start(2, 1_000, 1, 1_001);
        let audit = compare_rows(&query, &record).unwrap();
        assert_eq!(audit, Audit { rows: 4, holes: 1, covered_twice: 1, unfounded: 2, other: 1 });
        assert!(audit.is_broken());
    }
}
