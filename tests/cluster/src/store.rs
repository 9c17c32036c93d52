//! The model store: what is durable, by the contract of a store and of a batch, in the simplest form.
//!
//! It fences by epoch and sequence, applies a batch at once or not at all, and loads what a claim
//! must return from rows at or above `floor` and listed ones only, as a real store does. It says
//! what each batch changed, so that checks look at changes and not at everything.

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use rota_core::backfill::Backfill;
use rota_core::batch::{
    Attempt, AttemptState, Batch, Exception, Loaded, OpenBackfill, OpenRun, Origin, Rerun, Row, Run, Shards,
};
use rota_core::child::{Link, Note};
use rota_core::freeze::{Freeze, Missed, Thaw};
use rota_core::id::{
    AppId, AttemptId, BackfillId, Block, Epoch, Incarnation, JobId, PartitionId, RunId, Seq, Version, WorkerId,
    id_floor,
};
use rota_core::job::{Definition, JobState};
use rota_core::time::UnixMs;
use rota_core::trace::Parent;
use rota_core::worker::{App, Registration, WorkerState};

use crate::check::{Broken, Rule};

/// A run with its attempts, ordered by (shard, no).
#[derive(Clone, Debug)]
pub struct RunRow {
    /// Its row.
    pub run: Run,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
}

impl RunRow {
    /// Whether nothing of it can happen any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.run.state.is_terminal() && self.attempts.iter().all(is_released)
    }

    /// One attempt.
    #[must_use]
    pub fn attempt(&self, id: AttemptId) -> Option<&Attempt> {
        self.attempts.iter().find(|a| a.id == id)
    }
}

/// Whether an attempt occupies nothing any more.
#[must_use]
pub fn is_released(attempt: &Attempt) -> bool {
    attempt.released_at.is_some() || attempt.state == AttemptState::NotStarted
}

/// A job with all its versions.
#[derive(Clone, Debug)]
pub struct JobRow {
    /// What is in force.
    pub current: Definition,
    /// Every version.
    pub versions: BTreeMap<Version, Definition>,
}

/// Everything durable of a partition.
#[derive(Debug, Default)]
pub struct Part {
    /// The stored epoch.
    pub epoch: Epoch,
    /// The last applied batch.
    pub seq: Seq,
    /// The mark.
    pub mark: i64,
    /// When the last batch was closed.
    pub at: i64,
    /// See [`Batch::floor`].
    pub floor: u64,
    /// Apps.
    pub apps: BTreeMap<AppId, App>,
    /// Jobs, deleted ones too.
    pub jobs: BTreeMap<JobId, JobRow>,
    /// Exceptions.
    pub exceptions: BTreeMap<JobId, Exception>,
    /// Workers, offline ones too.
    pub workers: BTreeMap<WorkerId, (Registration, WorkerState)>,
    /// Every start of a worker that was ever registered.
    pub registered: BTreeSet<(WorkerId, Incarnation)>,
    /// All runs.
    pub runs: BTreeMap<RunId, RunRow>,
    /// Runs listed as open.
    pub listed: BTreeSet<RunId>,
    /// What runs repeat.
    pub reruns: BTreeMap<RunId, Arc<Rerun>>,
    /// Which run stands for a merged one.
    pub merged: BTreeMap<RunId, RunId>,
    /// Ends that nobody has answered, by number.
    pub notes: BTreeMap<u64, Note>,
    /// Within which span runs were asked for.
    pub parents: BTreeMap<RunId, Arc<Parent>>,
    /// What is known of the shards of runs.
    pub shards: BTreeMap<RunId, Arc<Shards>>,
    /// Backfills.
    pub backfills: BTreeMap<BackfillId, Backfill>,
    /// Which backfill a run belongs to.
    pub backfill_runs: BTreeMap<RunId, BackfillId>,
    /// Freezes.
    pub freezes: BTreeMap<u64, Freeze>,
    /// Runs that are not closed, by job.
    pub unclosed: BTreeMap<JobId, BTreeSet<RunId>>,
    /// The same, of all jobs.
    pub unclosed_all: BTreeSet<RunId>,
    /// The highest id of a row.
    pub id_max: u64,
}

/// What one batch changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// The mark before it.
    pub mark_before: i64,
    /// New runs, in order.
    pub runs_new: Vec<RunId>,
    /// Runs whose state was set.
    pub runs_set: Vec<RunId>,
    /// New attempts, in order.
    pub attempts_new: Vec<(RunId, AttemptId)>,
    /// Attempts as they were before they were set.
    pub attempts_set: Vec<(RunId, Attempt)>,
    /// New versions of jobs, and the instant at which they are in force.
    pub defined: Vec<(JobId, Version)>,
    /// Jobs whose state was set, and when.
    pub states: Vec<(JobId, JobState, i64)>,
    /// What came of ended parents.
    pub links: Vec<Link>,
    /// Workers that registered, or whose state was set.
    pub workers_set: BTreeSet<WorkerId>,
    /// Exceptions as they were before they were set.
    pub exceptions: Vec<(JobId, Option<Exception>)>,
    /// Backfills that were asked for, or whose rows were set.
    pub backfills: Vec<BackfillId>,
}

/// What became of a batch.
#[derive(Debug)]
pub enum Applied {
    /// It is durable, and changed this.
    Changed(Box<Changes>),
    /// It was durable before.
    Repeated,
    /// Another term owns the partition, or a batch is missing.
    Fenced,
}

/// The store of the cluster.
#[derive(Debug)]
pub struct Store {
    parts: Vec<Part>,
    /// Every id of a row, of all partitions.
    ids: BTreeSet<u64>,
    ids_high: u64,
    note_last: u64,
    /// Whether a batch of a term that is over is refused; only a planted fault says no.
    pub is_fencing: bool,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new(partitions: u16) -> Store {
        let empty = || Part { floor: u64::MAX, ..Part::default() };
        let parts = (0..partitions).map(|_| empty()).collect();
        Store { parts, ids: BTreeSet::new(), ids_high: 0, note_last: 0, is_fencing: true }
    }

    /// A partition.
    #[must_use]
    pub fn part(&self, partition: PartitionId) -> &Part {
        &self.parts[usize::from(partition.0)]
    }

    /// A partition, for what lies outside batches (apps), and for planted faults.
    pub fn part_mut(&mut self, partition: PartitionId) -> &mut Part {
        &mut self.parts[usize::from(partition.0)]
    }

    /// All partitions.
    pub fn parts(&self) -> impl Iterator<Item = (PartitionId, &Part)> {
        (0u16..).map(PartitionId).zip(self.parts.iter())
    }

    /// Takes ids.
    pub fn reserve_ids(&mut self, now: UnixMs, count: u64) -> Block {
        let first = self.ids_high.max(id_floor(now));
        self.ids_high = first + count;
        Block::new(first, first + count)
    }

    /// The number of the next note.
    pub fn next_note(&mut self) -> u64 {
        self.note_last += 1;
        self.note_last
    }

    /// A fault for mutants: the high-water mark comes from an old copy.
    pub fn restore_ids(&mut self, high: u64) {
        self.ids_high = high;
    }

    /// The ids' high-water mark.
    #[must_use]
    pub fn ids_high(&self) -> u64 {
        self.ids_high
    }

    /// Begins a term.
    pub fn claim(&mut self, partition: PartitionId) -> Result<Loaded, Broken> {
        let part = &mut self.parts[usize::from(partition.0)];
        part.epoch.0 += 1;
        part.load(partition)
    }

    /// Applies a batch, whole or not at all.
    pub fn commit(&mut self, batch: &Batch) -> Result<Applied, Broken> {
        let part = &mut self.parts[usize::from(batch.partition.0)];
        if self.is_fencing && batch.epoch != part.epoch {
            return Ok(Applied::Fenced);
        }
        if batch.seq <= part.seq {
            return Ok(Applied::Repeated);
        }
        if batch.seq.0 != part.seq.0 + 1 {
            return Ok(Applied::Fenced);
        }
        let mut changes = Changes { mark_before: part.mark, ..Changes::default() };
        for row in &batch.rows {
            part.apply(row, &mut changes)?;
            let id = match row {
                Row::Run(run) => run.id.0,
                Row::Attempt(attempt) if attempt.id != attempt.run.first_attempt() => attempt.id.0,
                _ => continue,
            };
            if !self.ids.insert(id) {
                return Err(Rule::Ids.broken(format!("id {id} was given out twice, by different partitions")));
            }
        }
        part.seq = batch.seq;
        part.mark = batch.mark.0;
        part.at = batch.at.0;
        part.floor = batch.floor;
        Ok(Applied::Changed(Box::new(changes)))
    }
}

impl Part {
    fn load(&self, partition: PartitionId) -> Result<Loaded, Broken> {
        let is_found = |id: &RunId| id.0 >= self.floor || self.listed.contains(id);
        if let Some(hidden) = self.unclosed_all.iter().find(|id| !is_found(id)) {
            return Err(Rule::Quiescence.broken(format!("the floor {} hides the open run {hidden}", self.floor)));
        }
        let open = self.unclosed_all.iter().map(|id| self.open_run(*id)).collect();
        let mut covered: BTreeMap<JobId, UnixMs> = BTreeMap::new();
        for (id, row) in &self.runs {
            if row.run.origin != Origin::Schedule || row.run.slot_last.0 <= self.mark {
                continue;
            }
            if !is_found(id) {
                return Err(
                    Rule::Slots.broken(format!("the floor {} hides {id}, whose slot is above the mark", self.floor))
                );
            }
            let last = covered.entry(row.run.job).or_insert(row.run.slot_last);
            *last = (*last).max(row.run.slot_last);
        }
        let living = |job: &&JobRow| job.current.state != JobState::Deleted;
        Ok(Loaded {
            partition,
            epoch: self.epoch,
            seq: self.seq,
            mark: UnixMs(self.mark),
            at: UnixMs(self.at),
            apps: self.apps.values().cloned().collect(),
            jobs: self.jobs.values().filter(living).map(|j| j.current.clone()).collect(),
            exceptions: self.exceptions.iter().map(|(j, e)| (*j, *e)).collect(),
            workers: self.workers.values().filter(|(_, s)| *s != WorkerState::Offline).cloned().collect(),
            open,
            covered: covered.into_iter().collect(),
            freezes: self.freezes.values().cloned().collect(),
            backfills: self.backfills.values().filter(|b| b.is_open()).map(|b| self.open_backfill(b)).collect(),
        })
    }

    fn open_backfill(&self, backfill: &Backfill) -> OpenBackfill {
        let job = &self.jobs[&backfill.job];
        let is_current = job.current.version == backfill.version && job.current.state != JobState::Deleted;
        let definition = (!is_current).then(|| job.versions[&backfill.version].clone());
        OpenBackfill { backfill: backfill.clone(), definition }
    }

    fn open_run(&self, id: RunId) -> OpenRun {
        let row = &self.runs[&id];
        let job = &self.jobs[&row.run.job];
        let is_current = job.current.version == row.run.version && job.current.state != JobState::Deleted;
        OpenRun {
            run: row.run.clone(),
            attempts: row.attempts.clone(),
            definition: (!is_current).then(|| job.versions[&row.run.version].clone()),
            is_listed: self.listed.contains(&id),
            rerun: self.reruns.get(&id).cloned(),
            shards: self.shards.get(&id).cloned(),
            backfill: self.backfill_runs.get(&id).copied(),
            parent: self.parents.get(&id).cloned(),
        }
    }

    fn apply(&mut self, row: &Row, changes: &mut Changes) -> Result<(), Broken> {
        match row {
            Row::Run(run) => return self.insert_run(run, changes),
            Row::RunSet { run, job: _, state, why, ended_at } => {
                let known = self.run_mut(*run)?;
                if known.run.state.is_terminal() {
                    let text = format!("{run} was {} and is set to {}", known.run.state.word(), state.word());
                    return Err(Rule::Terminal.broken(text));
                }
                known.run.state = *state;
                known.run.why = *why;
                known.run.ended_at = *ended_at;
                changes.runs_set.push(*run);
                self.settle_closed(*run);
            }
            Row::Attempt(attempt) => return self.insert_attempt(attempt, changes),
            Row::AttemptSet(attempt) => return self.set_attempt(attempt, changes),
            Row::Definition(definition) => {
                let job = self.jobs.entry(definition.id);
                let job = job.or_insert_with(|| JobRow { current: (**definition).clone(), versions: BTreeMap::new() });
                job.current = (**definition).clone();
                if job.versions.insert(definition.version, (**definition).clone()).is_some() {
                    return Err(
                        Rule::Batch.broken(format!("job {} has version {} twice", definition.id, definition.version))
                    );
                }
                changes.defined.push((definition.id, definition.version));
            }
            Row::JobState { job, state, at, .. } => {
                let Some(known) = self.jobs.get_mut(job) else {
                    return Err(Rule::Batch.broken(format!("job {job} changes its state and is not known")));
                };
                known.current.state = *state;
                changes.states.push((*job, *state, at.0));
            }
            Row::Request { .. } => {}
            Row::Rerun(rerun) => {
                self.reruns.insert(rerun.run, Arc::clone(rerun));
            }
            Row::Trace { run, parent } => {
                self.parents.insert(*run, Arc::clone(parent));
            }
            Row::Merged { run, into } => {
                self.merged.insert(*run, *into);
            }
            Row::Child(link) => {
                if self.notes.remove(&link.note).is_none_or(|note| note.parent != link.parent) {
                    let text =
                        format!("{} answers note {} of {}, which is not there", link.run, link.note, link.parent);
                    return Err(Rule::Children.broken(text));
                }
                changes.links.push(*link);
            }
            Row::Shards(shards) => {
                let before = self.shards.insert(shards.run, Arc::clone(shards));
                let is_kept = |before: &Arc<Shards>| {
                    before.workers == shards.workers && shards.settled.starts_with(&before.settled)
                };
                if before.is_some_and(|before| !is_kept(&before)) {
                    return Err(Rule::Shards.broken(format!("what was known of the shards of {} changes", shards.run)));
                }
            }
            Row::Backfill(backfill) => {
                let before = self.backfills.insert(backfill.id, (**backfill).clone());
                if before.is_some_and(|before| !before.is_open()) {
                    return Err(Rule::Backfill.broken(format!("backfill {} had ended, and is set", backfill.id)));
                }
                changes.backfills.push(backfill.id);
            }
            Row::BackfillRun { run, backfill } => {
                self.backfill_runs.insert(*run, *backfill);
            }
            Row::Freeze(freeze) => {
                self.freezes.insert(freeze.id, (**freeze).clone());
            }
            Row::Worker { worker, state } => {
                self.workers.insert(worker.id, ((**worker).clone(), *state));
                changes.workers_set.insert(worker.id);
                self.registered.insert((worker.id, worker.incarnation));
            }
            Row::WorkerState { worker, state } => {
                let Some(known) = self.workers.get_mut(worker) else {
                    return Err(Rule::Batch.broken(format!("worker {worker} changes its state and is not known")));
                };
                known.1 = *state;
                changes.workers_set.insert(*worker);
            }
            Row::Exception { job, exception } => {
                let before = match exception {
                    Some(exception) => self.exceptions.insert(*job, *exception),
                    None => self.exceptions.remove(job),
                };
                changes.exceptions.push((*job, before));
            }
            Row::Listed { run, is_open } => {
                if *is_open {
                    self.run_mut(*run)?;
                    self.listed.insert(*run);
                } else {
                    self.listed.remove(run);
                }
            }
        }
        Ok(())
    }

    fn run_mut(&mut self, run: RunId) -> Result<&mut RunRow, Broken> {
        self.runs.get_mut(&run).ok_or_else(|| Rule::Batch.broken(format!("{run} is changed and is not known")))
    }

    fn take_id(&mut self, id: u64, what: &str) -> Result<(), Broken> {
        if id <= self.id_max {
            return Err(Rule::Ids.broken(format!("{what} {id} comes after {}", self.id_max)));
        }
        self.id_max = id;
        Ok(())
    }

    fn insert_run(&mut self, run: &Run, changes: &mut Changes) -> Result<(), Broken> {
        self.take_id(run.id.0, "run")?;
        let Some(job) = self.jobs.get(&run.job) else {
            return Err(Rule::Batch.broken(format!("{} is of job {}, which is not known", run.id, run.job)));
        };
        if !job.versions.contains_key(&run.version) {
            return Err(
                Rule::Batch.broken(format!("{} is of version {} of job {}, not known", run.id, run.version, run.job))
            );
        }
        self.check_ice(run)?;
        self.runs.insert(run.id, RunRow { run: run.clone(), attempts: Vec::new() });
        changes.runs_new.push(run.id);
        if !run.state.is_terminal() {
            self.unclosed_all.insert(run.id);
            self.unclosed.entry(run.job).or_default().insert(run.id);
        }
        Ok(())
    }

    /// Whether an open freeze is for this app.
    #[must_use]
    pub fn is_frozen(&self, app: AppId) -> bool {
        self.freezes.values().any(|freeze| freeze.is_open() && freeze.is_for(app))
    }

    /// No run is made of what is frozen, nor of a slot of a span whose thaw skips what was missed.
    fn check_ice(&self, run: &Run) -> Result<(), Broken> {
        if run.shards > 0 && self.is_frozen(run.app) {
            return Err(Rule::Frozen.broken(format!("{} of job {} is made while its app is frozen", run.id, run.job)));
        }
        let was_frozen = |freeze: &&Freeze| {
            let is_within = |thaw: &Thaw| run.slot > freeze.after && run.slot <= thaw.until;
            freeze.is_for(run.app) && freeze.thaw.as_ref().is_some_and(is_within)
        };
        let mut spans = self.freezes.values().filter(was_frozen).filter_map(|freeze| freeze.thaw.as_ref()).peekable();
        let is_skipped = spans.peek().is_some() && spans.all(|thaw| thaw.missed == Missed::Skip);
        if run.origin == Origin::Schedule && run.shards > 0 && is_skipped {
            let text = format!("{} of job {} fires slot {}, which its thaw skips", run.id, run.job, run.slot);
            return Err(Rule::Frozen.broken(text));
        }
        Ok(())
    }

    fn insert_attempt(&mut self, attempt: &Attempt, changes: &mut Changes) -> Result<(), Broken> {
        if attempt.id != attempt.run.first_attempt() {
            self.take_id(attempt.id.0, "attempt")?;
        }
        let app = self.run_mut(attempt.run)?.run.app;
        if self.is_frozen(app) {
            return Err(Rule::Frozen.broken(format!("attempt {} of app {app} begins, which is frozen", attempt.id)));
        }
        let row = self.run_mut(attempt.run)?;
        let key = (attempt.shard, attempt.no);
        let at = row.attempts.partition_point(|a| (a.shard, a.no) < key);
        let is_next = if attempt.no == 1 {
            true
        } else {
            at > 0 && (row.attempts[at - 1].shard, row.attempts[at - 1].no + 1) == key
        };
        let is_taken = row.attempts.get(at).is_some_and(|a| (a.shard, a.no) == key);
        if is_taken || !is_next || attempt.shard >= row.run.shards || row.run.state.is_terminal() {
            let text = format!(
                "attempt {} of shard {} of {} ({}) has no place",
                attempt.no,
                attempt.shard,
                attempt.run,
                row.run.state.word()
            );
            return Err(Rule::Batch.broken(text));
        }
        row.attempts.insert(at, attempt.clone());
        changes.attempts_new.push((attempt.run, attempt.id));
        Ok(())
    }

    fn set_attempt(&mut self, attempt: &Attempt, changes: &mut Changes) -> Result<(), Broken> {
        let row = self.run_mut(attempt.run)?;
        let found = row.attempts.iter_mut().find(|a| (a.shard, a.no) == (attempt.shard, attempt.no));
        let Some(known) = found.filter(|a| a.id == attempt.id) else {
            return Err(
                Rule::Batch.broken(format!("attempt {} of {} is changed and is not known", attempt.id, attempt.run))
            );
        };
        changes.attempts_set.push((attempt.run, known.clone()));
        *known = attempt.clone();
        self.settle_closed(attempt.run);
        Ok(())
    }

    fn settle_closed(&mut self, run: RunId) {
        let row = &self.runs[&run];
        let (job, is_closed) = (row.run.job, row.is_closed());
        let of_job = self.unclosed.entry(job).or_default();
        if is_closed {
            of_job.remove(&run);
            self.unclosed_all.remove(&run);
        } else {
            of_job.insert(run);
            self.unclosed_all.insert(run);
        }
    }
}
