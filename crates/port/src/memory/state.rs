//! What a store keeps, as maps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rota_core::alert::{Alarm, Key};
use rota_core::backfill::Backfill;
use rota_core::batch::{Attempt, Exception, Rerun, Run, Shards};
use rota_core::child::{Link, Note};
use rota_core::freeze::Freeze;
use rota_core::id::{AppId, BackfillId, Epoch, JobId, PartitionId, RunId, Seq, WorkerId};
use rota_core::job::Definition;
use rota_core::time::UnixMs;
use rota_core::trace::Parent;
use rota_core::worker::{App, Registration, WorkerState};

use crate::alerts::{StoredAlert, StoredNotice, Watch};
use crate::history::{StateChange, Term};
use crate::secrets::RETIRED_MAX;
use crate::store::{StoredSecret, Token};

/// A partition's row: whose term it is, and how far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The current term.
    pub epoch: Epoch,
    /// The last applied batch.
    pub seq: Seq,
    /// All slots up to this instant are covered, but for exceptions.
    pub mark: UnixMs,
    /// When the last batch was closed.
    pub at: UnixMs,
    /// See [`rota_core::batch::Batch::floor`].
    pub floor: u64,
}

impl Header {
    /// A partition that nobody has claimed yet.
    pub const NEW: Header = Header { epoch: Epoch(0), seq: Seq(0), mark: UnixMs(0), at: UnixMs(0), floor: u64::MAX };
}

/// An attempt's key: run, shard, number.
pub(super) type AttemptKey = (RunId, u32, u32);

/// A job's name that is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenName {
    pub(super) job: JobId,
    pub(super) at: UnixMs,
    /// Whether a definition uses it; one that none uses for an hour is free again.
    pub(super) is_used: bool,
}

/// A request that was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) body_hash: [u8; 32],
    pub(super) at: UnixMs,
    pub(super) run: Option<RunId>,
}

/// Every row.
#[derive(Debug)]
pub struct State {
    pub(super) headers: Vec<Header>,
    pub(super) ids_next: u64,
    pub(super) apps: BTreeMap<AppId, (App, PartitionId)>,
    /// Versions of each job, oldest first; never empty.
    pub(super) jobs: BTreeMap<JobId, Vec<Definition>>,
    pub(super) history: Vec<StateChange>,
    pub(super) exceptions: BTreeMap<JobId, (PartitionId, Exception)>,
    pub(super) workers: BTreeMap<WorkerId, (Registration, WorkerState)>,
    pub(super) runs: BTreeMap<RunId, Run>,
    pub(super) attempts: BTreeMap<AttemptKey, Attempt>,
    pub(super) listed: BTreeMap<RunId, PartitionId>,
    pub(super) job_names: BTreeMap<(String, String), TakenName>,
    pub(super) jobs_next: JobId,
    pub(super) worker_names: BTreeMap<(AppId, String), WorkerId>,
    pub(super) requests: BTreeMap<(JobId, String), Request>,
    pub(super) tokens: Vec<Token>,
    /// By namespace and name.
    pub(super) secrets: BTreeMap<(String, String), StoredSecret>,
    pub(super) retired: Vec<StoredSecret>,
    pub(super) terms: Vec<Term>,
    pub(super) freezes: BTreeMap<(PartitionId, u64), Freeze>,
    pub(super) reruns: BTreeMap<RunId, Arc<Rerun>>,
    pub(super) parents: BTreeMap<RunId, Arc<Parent>>,
    pub(super) merged: BTreeMap<RunId, RunId>,
    /// By number.
    pub(super) notes: BTreeMap<u64, (PartitionId, Note)>,
    pub(super) notes_next: u64,
    pub(super) links: BTreeMap<RunId, Link>,
    pub(super) alerts: BTreeMap<(String, String), StoredAlert>,
    pub(super) alerts_next: u32,
    pub(super) alarms: BTreeMap<Key, Alarm>,
    pub(super) notices: BTreeMap<u64, StoredNotice>,
    pub(super) alert_ends: BTreeSet<RunId>,
    pub(super) watch: Arc<Watch>,
    pub(super) shards: BTreeMap<RunId, Arc<Shards>>,
    pub(super) backfills: BTreeMap<BackfillId, (PartitionId, Backfill)>,
    pub(super) backfill_runs: BTreeMap<RunId, BackfillId>,
    /// Job, upstream job, and the token of the definition on its way that says so; 0 for one that is durable.
    pub(super) upstreams: BTreeSet<(JobId, JobId, u64)>,
    /// Rows with ids below this may have been swept.
    pub(super) swept: u64,
}

impl State {
    pub(super) fn new(partitions: u16) -> State {
        State {
            headers: vec![Header::NEW; usize::from(partitions)],
            ids_next: 1,
            apps: BTreeMap::new(),
            jobs: BTreeMap::new(),
            history: Vec::new(),
            exceptions: BTreeMap::new(),
            workers: BTreeMap::new(),
            runs: BTreeMap::new(),
            attempts: BTreeMap::new(),
            listed: BTreeMap::new(),
            job_names: BTreeMap::new(),
            jobs_next: JobId::FIRST,
            worker_names: BTreeMap::new(),
            requests: BTreeMap::new(),
            tokens: Vec::new(),
            secrets: BTreeMap::new(),
            retired: Vec::new(),
            terms: Vec::new(),
            freezes: BTreeMap::new(),
            reruns: BTreeMap::new(),
            parents: BTreeMap::new(),
            merged: BTreeMap::new(),
            notes: BTreeMap::new(),
            notes_next: 1,
            links: BTreeMap::new(),
            alerts: BTreeMap::new(),
            alerts_next: 1,
            alarms: BTreeMap::new(),
            notices: BTreeMap::new(),
            alert_ends: BTreeSet::new(),
            watch: Arc::default(),
            shards: BTreeMap::new(),
            backfills: BTreeMap::new(),
            backfill_runs: BTreeMap::new(),
            upstreams: BTreeSet::new(),
            swept: 0,
        }
    }

    pub(super) fn partitions(&self) -> u16 {
        u16::try_from(self.headers.len()).expect("made from a u16")
    }

    /// A partition's row.
    #[must_use]
    pub fn header(&self, partition: PartitionId) -> Header {
        self.headers[usize::from(partition.0)]
    }

    /// The ledger.
    #[must_use]
    pub fn runs(&self) -> &BTreeMap<RunId, Run> {
        &self.runs
    }

    /// All attempts, by run, shard and number.
    #[must_use]
    pub fn attempts(&self) -> &BTreeMap<(RunId, u32, u32), Attempt> {
        &self.attempts
    }

    /// The attempts of a run.
    pub fn attempts_of(&self, run: RunId) -> impl Iterator<Item = &Attempt> {
        self.attempts.range((run, 0, 0)..=(run, u32::MAX, u32::MAX)).map(|(_, attempt)| attempt)
    }

    /// All versions of all jobs, oldest first.
    #[must_use]
    pub fn jobs(&self) -> &BTreeMap<JobId, Vec<Definition>> {
        &self.jobs
    }

    /// Every change of a job's state without a new version, in order.
    #[must_use]
    pub fn history(&self) -> &[StateChange] {
        &self.history
    }

    /// Where jobs stand that the mark does not describe.
    #[must_use]
    pub fn exceptions(&self) -> &BTreeMap<JobId, (PartitionId, Exception)> {
        &self.exceptions
    }

    /// All backfills.
    pub fn backfills(&self) -> impl Iterator<Item = &Backfill> {
        self.backfills.values().map(|(_, backfill)| backfill)
    }

    /// Which backfill each run of one belongs to.
    #[must_use]
    pub fn backfill_runs(&self) -> &BTreeMap<RunId, BackfillId> {
        &self.backfill_runs
    }

    /// All workers.
    #[must_use]
    pub fn workers(&self) -> &BTreeMap<WorkerId, (Registration, WorkerState)> {
        &self.workers
    }

    /// Runs that are listed as open.
    pub fn listed(&self) -> BTreeSet<RunId> {
        self.listed.keys().copied().collect()
    }

    /// The partition of an app.
    #[must_use]
    pub fn partition_of(&self, app: AppId) -> Option<PartitionId> {
        self.apps.get(&app).map(|(_, partition)| *partition)
    }

    /// Keeps a value that is no longer in use, and of a namespace no more than are looked for.
    pub(super) fn retire(&mut self, secret: StoredSecret, at: UnixMs) {
        let namespace = secret.namespace.clone();
        self.retired.push(StoredSecret { at, ..secret });
        let is_ours = |secret: &StoredSecret| secret.namespace == namespace;
        if self.retired.iter().filter(|secret| is_ours(secret)).count() > RETIRED_MAX
            && let Some(oldest) = self.retired.iter().position(is_ours)
        {
            self.retired.remove(oldest);
        }
    }

    pub(super) fn current(&self, job: JobId) -> Option<&Definition> {
        self.jobs.get(&job).and_then(|versions| versions.last())
    }

    pub(super) fn begin(&mut self, at: UnixMs, version: &str, tzdb: &str) {
        let committed = self.headers.iter().map(|header| header.at).max().unwrap_or(UnixMs(0));
        if let Some(before) = self.terms.last_mut().filter(|before| before.stopped_at.is_none()) {
            before.alive_at = before.alive_at.max(committed).min(at.max(before.started_at));
        }
        self.upstreams.retain(|(_, _, token)| *token == 0);
        let (version, tzdb) = (version.to_owned(), tzdb.to_owned());
        self.terms.push(Term { started_at: at, alive_at: at, stopped_at: None, version, tzdb });
    }

    pub(super) fn sweep(&mut self, before: UnixMs, floor: u64) -> u32 {
        let mut swept = 0;
        let (listed, last) = (&self.listed, &mut self.swept);
        self.runs.retain(|id, run| {
            let is_kept = run.ended_at.is_none_or(|ended| ended >= before) || id.0 >= floor || listed.contains_key(id);
            swept += u32::from(!is_kept);
            *last = if is_kept { *last } else { id.0 + 1 };
            is_kept
        });
        let runs = &self.runs;
        self.attempts.retain(|(run, _, _), _| runs.contains_key(run));
        self.reruns.retain(|run, _| runs.contains_key(run));
        self.links.retain(|run, _| runs.contains_key(run));
        self.shards.retain(|run, _| runs.contains_key(run));
        self.backfill_runs.retain(|run, _| runs.contains_key(run));
        let (runs_of, last) = (&self.backfill_runs, self.swept);
        let has_runs = |id: &BackfillId| runs_of.values().any(|of| of == id);
        self.backfills.retain(|id, (_, backfill)| backfill.is_open() || id.0 >= last || has_runs(id));
        self.retired.retain(|secret| secret.at >= before);
        self.parents.retain(|run, _| runs.contains_key(run));
        swept
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rota_core::batch::{Origin, Row, RunState};
    use rota_core::id::Version;

    pub(in super::super) fn ended_run(id: RunId, ended_at: UnixMs) -> Row {
        Row::Run(Box::new(Run {
            id,
            app: AppId(1),
            job: JobId::FIRST,
            version: Version(1),
            origin: Origin::Schedule,
            slot: ended_at,
            slot_last: ended_at,
            slots: 1,
            state: RunState::Skipped,
            why: None,
            shards: 0,
            at: ended_at,
            ended_at: Some(ended_at),
            param: None,
        }))
    }
}
