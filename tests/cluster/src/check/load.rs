//! Invariant 6: a worker's load is the number of its unreleased attempts, no more and no less.
//!
//! Compared only when a machine has nothing on its way to the store, so that both sides speak of the same.

use std::collections::BTreeMap;

use rota_core::id::WorkerId;
use rota_core::partition::Snapshot;

use super::{Rule, Verdict};
use crate::store::{Part, is_released};

/// Compares what a machine published with the rows.
pub fn published(part: &Part, snapshot: &Snapshot) -> Verdict {
    let mut rows: BTreeMap<WorkerId, u32> = BTreeMap::new();
    for id in &part.unclosed_all {
        for attempt in part.runs[id].attempts.iter().filter(|a| !is_released(a)) {
            *rows.entry(attempt.worker).or_default() += 1;
        }
    }
    let mut shown: BTreeMap<WorkerId, u32> = BTreeMap::new();
    for worker in &snapshot.workers {
        *shown.entry(worker.id).or_default() += worker.load;
    }
    for worker in rows.keys().chain(shown.keys()) {
        let (rows, shown) = (rows.get(worker).copied().unwrap_or(0), shown.get(worker).copied().unwrap_or(0));
        if rows != shown {
            return Err(Rule::Load.broken(format!("worker {worker} has load {shown}, and {rows} unreleased attempts")));
        }
    }
    let open = part.unclosed_all.iter().filter(|id| !part.runs[id].run.state.is_terminal()).count() as u64;
    if snapshot.runs_open != open && snapshot.runs_open != part.unclosed_all.len() as u64 {
        return Err(Rule::Load.broken(format!("{} open runs are published, the rows have {open}", snapshot.runs_open)));
    }
    Ok(())
}
