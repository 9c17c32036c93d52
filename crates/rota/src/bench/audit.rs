//! The ledger beside what the workers saw, slot by slot, after the measured server has stopped.

use std::path::Path;

use anyhow::Result;
use rota_core::batch::{Origin, RunState};
use rota_core::id::{JobId, RunId, id_floor};
use rota_core::time::UnixMs;
use rota_port::history::{COVERED_MAX, History};
use rota_port::query::Query;
use serde::Serialize;

use super::record::Record;

/// Partitions of the measured server's store.
pub(super) const PARTITIONS: u16 = 64;
const PAGE: u32 = 1_000;
/// A row's id may have been taken from its block so long before its slot.
const ID_EARLY_MS: i64 = 600_000;
/// Findings that are named.
const FINDINGS_SHOWN: usize = 10;

/// What the two say of the slots that count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct Audit {
    /// Rows of slots in the span.
    pub(super) rows: u64,
    /// Slots without a row.
    pub(super) holes: u64,
    /// Slots with more than one row.
    pub(super) covered_twice: u64,
    /// Rows that say success of slots that no worker started, or that cover no slot.
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

/// Holes and doubles are found by the same audit that `rota audit` asks for.
fn compare_rows<S: Query + History>(store: &S, record: &Record) -> Result<Audit> {
    let span = record.span();
    let (from, until) = (UnixMs(span.from_ms), UnixMs(span.to_ms - 1));
    let mut ledger = rota_core::audit::Audit::new(from, until);
    let mut after = JobId(0);
    loop {
        let page = store.jobs(None, after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.id;
        for job in page.iter().filter(|job| record.has_job(job.id.0)) {
            // What is due and still waits when the server stops counts as a hole here.
            ledger.add(std::slice::from_ref(job), None, until, None)?;
        }
    }
    let (mut audit, mut findings) = (Audit::default(), Vec::new());
    let mut next = RunId(id_floor(from.plus_ms(-ID_EARLY_MS)));
    loop {
        let page = store.ledger(next, COVERED_MAX)?;
        let Some(last) = page.last() else { break };
        next = RunId(last.run.0 + 1);
        for row in page.iter().filter(|row| row.origin == Origin::Schedule && record.has_job(row.job.0)) {
            let (slot, slot_last) = (row.slot, row.slot_last);
            if slot < from || slot > until {
                continue;
            }
            let covers = rota_core::audit::Row { run: row.run, job: row.job, slot, slot_last, slots: row.slots };
            ledger.row(&covers, &mut |finding| findings.push(finding));
            audit.rows += 1;
            if row.state != RunState::Success {
                audit.other += 1;
            } else if !record.has_start(row.job.0, slot.0) {
                audit.unfounded += 1;
            }
        }
    }
    let counts = ledger.finish(&mut |finding| findings.push(finding));
    for finding in findings.iter().take(FINDINGS_SHOWN) {
        tracing::warn!(job = finding.job.0, slot = %finding.slot, what = finding.what.word(), "audit_finding");
    }
    (audit.holes, audit.covered_twice) = (counts.holes, counts.doubles);
    audit.unfounded += counts.unfounded;
    Ok(audit)
}

#[cfg(test)]
mod tests {
    use rota_core::batch::{Batch, Row, Run};
    use rota_core::id::{AppId, PartitionId, Seq, Version};
    use rota_core::job::{Definition, JobState, Spec, Target, When};
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
        let app =
            Reservation::App { namespace: "default".to_owned(), name: "a".to_owned(), pending_max: None, rates: None };
        store.reserve(&app).unwrap();
        let job = |id: u32| {
            let target = Target::Handler { name: "h".to_owned(), param: String::new() };
            Row::Definition(Box::new(Definition {
                id: JobId(id),
                version: Version(1),
                app: AppId(1),
                name: format!("job-{id}"),
                spec: Spec::new(When::EveryMs(1_000), target),
                state: JobState::Enabled,
                at: UnixMs(500),
                by: String::new(),
                managed_by: None,
                pause: None,
            }))
        };
        let rows = vec![
            job(1),
            job(2),
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
