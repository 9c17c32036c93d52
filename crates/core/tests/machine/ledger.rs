//! The promise of the ledger, asked of what is durable: each slot is covered by exactly one row.

use std::collections::BTreeMap;

use rota_core::batch::{Exception, Origin, Run};
use rota_core::id::JobId;
use rota_core::job::{Definition, JobState, When};
use rota_port::memory::State;

use super::rig::{P0, Rig, START};

impl Rig {
    /// The slots of an `every` job that have a row, in seconds since the start; twice if they have two.
    pub(crate) fn covered(&self, job: JobId) -> Vec<i64> {
        let mut slots: Vec<i64> = self.covered_ms(job).iter().map(|slot| (slot - START) / 1_000).collect();
        slots.sort_unstable();
        slots
    }

    fn covered_ms(&self, job: JobId) -> Vec<i64> {
        self.store.with(|state| {
            let period = period(&state.jobs()[&job]).expect("an `every` job");
            let own = |run: &&Run| run.job == job && run.origin == Origin::Schedule;
            state.runs().values().filter(own).flat_map(|run| slots_of(run, period)).collect()
        })
    }

    /// What is durable covers each slot up to the mark, or to the job's exception, exactly once, with a
    /// row of the version that was in force. Looks at `every` jobs whose period was never edited.
    pub(crate) fn check_ledger(&self) {
        self.store.with(check_ledger);
    }
}

fn check_ledger(state: &State) {
    let mut rows: BTreeMap<JobId, Vec<&Run>> = BTreeMap::new();
    for run in state.runs().values().filter(|run| run.origin == Origin::Schedule) {
        rows.entry(run.job).or_default().push(run);
    }
    for (job, versions) in state.jobs() {
        let Some(period) = period(versions) else { continue };
        let rows = rows.remove(job).unwrap_or_default();
        let mut covered: Vec<i64> = rows.iter().flat_map(|run| slots_of(run, period)).collect();
        covered.sort_unstable();
        let twice = covered.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0] - START);
        assert_eq!(twice, None, "a slot of {job} is covered twice");
        for run in rows {
            let at = versions.iter().position(|definition| definition.version == run.version).unwrap();
            assert!(versions[at].at < run.slot, "{run:?} lies before its version, of {}", versions[at].at);
            let is_followed = versions.get(at + 1).is_some_and(|next| next.at < run.slot_last);
            assert!(!is_followed, "{run:?} lies after its version");
        }
        if versions.last().unwrap().state == JobState::Deleted {
            continue;
        }
        let until = match state.exceptions().get(job) {
            Some((_, Exception::Covered(to) | Exception::Judged { covered: to, .. })) => *to,
            Some((_, Exception::Armed(_))) | None => state.header(P0).mark,
        };
        let mut slot = versions[0].at.0 - versions[0].at.0.rem_euclid(period) + period;
        while slot <= until.0 {
            assert!(covered.binary_search(&slot).is_ok(), "slot {} of {job} is lost", slot - START);
            slot += period;
        }
    }
}

/// The period of an `every` job.
fn period(versions: &[Definition]) -> Option<i64> {
    match versions.last()?.spec.schedule {
        When::EveryMs(ms) => Some(ms.cast_signed()),
        When::Cron(_) | When::DelayMs(_) | When::OnceMs(_) | When::Manual => None,
    }
}

/// The slots of an `every` job that a row covers.
fn slots_of(run: &Run, period: i64) -> Vec<i64> {
    let slots: Vec<i64> = (0..run.slots).map(|n| run.slot.0 + n.cast_signed() * period).collect();
    assert_eq!(slots.last(), Some(&run.slot_last.0), "a row counts its slots: {run:?}");
    slots
}
