//! Reading the past: what was in force when, when the server was up, and every row of a schedule in order.
//!
//! Apart from [`crate::query::Query`], since only explanations and audits need it. Absent on purpose: judgement. What the
//! past means is said by whoever asks.

use std::sync::Arc;

use rota_core::backfill::Backfill;
use rota_core::batch::{Exception, Origin, Rerun, Run, RunState, Shards};
use rota_core::child::{Link, Note};
use rota_core::freeze::Freeze;
use rota_core::id::{AppId, BackfillId, JobId, PartitionId, RunId, Version};
use rota_core::job::{Definition, JobState};
use rota_core::time::UnixMs;
use rota_core::trace::Parent;
use rota_core::why::Why;

use crate::query::RunFilter;
use crate::store::Error;

/// Rows of the ledger that one call gives at most.
pub const COVERED_MAX: u32 = 50_000;
/// Everything else that one call gives at most.
pub const PAST_MAX: u32 = 1_000;

/// Reads of the past; called from any thread, sees every batch whose commit was answered.
pub trait History: Send + Sync {
    /// Versions of a job from this one on, oldest first, at most [`PAST_MAX`].
    fn job_versions(&self, job: JobId, from: Version) -> Result<Vec<Definition>, Error>;
    /// Changes of state without a new version, oldest first, at most [`PAST_MAX`].
    fn state_changes(&self, filter: &StateFilter) -> Result<Vec<StateChange>, Error>;
    /// Runs of a job from this id on, oldest first, at most [`PAST_MAX`].
    fn runs_from(&self, job: JobId, from: RunId, limit: u32) -> Result<Vec<Run>, Error>;
    /// Rows of all jobs from this id on, oldest first, at most [`COVERED_MAX`].
    fn ledger(&self, from: RunId, limit: u32) -> Result<Vec<Covered>, Error>;
    /// How far the slots of partitions and jobs are covered.
    fn standing(&self) -> Result<Standing, Error>;
    /// How far the slots of one job are covered; none if there was never such a job.
    fn standing_of(&self, job: JobId) -> Result<Option<JobStanding>, Error>;
    /// When a process had the store, newest first, at most [`PAST_MAX`].
    fn terms(&self) -> Result<Vec<Term>, Error>;
    /// Freezes, the open ones first, then the newest, at most [`PAST_MAX`].
    fn freezes(&self) -> Result<Vec<Freeze>, Error>;
    /// What a run of origin `rerun` repeats.
    fn rerun(&self, run: RunId) -> Result<Option<Arc<Rerun>>, Error>;
    /// A backfill.
    fn backfill(&self, id: BackfillId) -> Result<Option<Backfill>, Error>;
    /// Backfills, newest first, at most [`PAST_MAX`].
    fn backfills(&self, filter: &BackfillFilter) -> Result<Vec<Backfill>, Error>;
    /// The backfill that a run of origin `backfill` belongs to.
    fn backfill_of(&self, run: RunId) -> Result<Option<BackfillId>, Error>;
    /// Runs of a backfill, newest first, and the `before` that reads on; none if there are no more. A page may be short.
    fn backfill_runs(&self, id: BackfillId, filter: &RunFilter) -> Result<(Vec<Run>, Option<RunId>), Error>;
    /// The run that stands for a run of state `merged`.
    fn merged_into(&self, run: RunId) -> Result<Option<RunId>, Error>;
    /// What is known of a run's shards beside its row and its attempts.
    fn shards(&self, run: RunId) -> Result<Option<Arc<Shards>>, Error>;
    /// Whose end fired a run or row of origin `upstream`.
    fn child(&self, run: RunId) -> Result<Option<Link>, Error>;
    /// What the end of a run has fired, oldest first, at most [`PAST_MAX`].
    fn children_of(&self, parent: RunId) -> Result<Vec<Link>, Error>;
    /// What the end of a run shall fire, and nobody has answered yet, in order.
    fn notes_of(&self, parent: RunId) -> Result<Vec<Note>, Error>;
    /// The span within which a run was asked for.
    fn trace_parent(&self, run: RunId) -> Result<Option<Arc<Parent>>, Error>;
    /// The runs that repeat a run, oldest first, at most [`PAST_MAX`].
    fn reruns_of(&self, run: RunId) -> Result<Vec<RunId>, Error>;
}

/// Which backfills.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackfillFilter {
    /// Of this job.
    pub job: Option<JobId>,
    /// Only those that have not ended.
    pub is_open: bool,
    /// With an id below this, to read on.
    pub before: Option<BackfillId>,
    /// At most so many.
    pub limit: u32,
}

/// Which changes of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StateFilter {
    /// Of this job.
    pub job: Option<JobId>,
    /// To this state.
    pub state: Option<JobState>,
    /// At or after this.
    pub since: Option<UnixMs>,
    /// With a number above this, to read on.
    pub after: u64,
}

/// A change of a job's state without a new version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateChange {
    /// Later changes have higher numbers.
    pub no: u64,
    /// The job.
    pub job: JobId,
    /// Its new state.
    pub state: JobState,
    /// When.
    pub at: UnixMs,
    /// Who.
    pub by: Arc<str>,
    /// Why, in their words.
    pub reason: Option<Arc<str>>,
}

/// A row of the ledger, as far as audits and counts need it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Covered {
    /// Its run.
    pub run: RunId,
    /// The app.
    pub app: AppId,
    /// The job.
    pub job: JobId,
    /// The version that made it.
    pub version: Version,
    /// What made it.
    pub origin: Origin,
    /// The first slot.
    pub slot: UnixMs,
    /// The last slot.
    pub slot_last: UnixMs,
    /// How many.
    pub slots: u64,
    /// Its state.
    pub state: RunState,
    /// Why.
    pub why: Option<Why>,
    /// Shards; 0 for rows without a dispatch.
    pub shards: u32,
    /// When it was decided.
    pub at: UnixMs,
    /// When it ended.
    pub ended_at: Option<UnixMs>,
}

impl Covered {
    /// The same of a whole row.
    #[must_use]
    pub fn of(run: &Run) -> Covered {
        Covered {
            run: run.id,
            app: run.app,
            job: run.job,
            version: run.version,
            origin: run.origin,
            slot: run.slot,
            slot_last: run.slot_last,
            slots: run.slots,
            state: run.state,
            why: run.why,
            shards: run.shards,
            at: run.at,
            ended_at: run.ended_at,
        }
    }
}

/// How far slots are covered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// Each partition's mark: all slots up to it have rows, but for the jobs with an exception.
    pub marks: Vec<(PartitionId, UnixMs)>,
    /// The exceptions, in order of job.
    pub exceptions: Vec<(JobId, Exception)>,
    /// Rows with ids below this were dropped by the retention, or some of them were.
    pub swept: u64,
}

/// How far the slots of one job are covered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobStanding {
    /// Its partition's mark.
    pub mark: UnixMs,
    /// Its exception.
    pub exception: Option<Exception>,
    /// See [`Standing::swept`].
    pub swept: u64,
}

/// A time in which one process had the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// When it began.
    pub started_at: UnixMs,
    /// When it was last known to go on; as exact as a minute.
    pub alive_at: UnixMs,
    /// When it ended in order; none if it goes on, or was cut off.
    pub stopped_at: Option<UnixMs>,
    /// The version of Rota.
    pub version: String,
    /// The version of the time-zone database.
    pub tzdb: String,
}

impl Term {
    /// The last instant at which it is known to have gone on.
    #[must_use]
    pub fn last_at(&self) -> UnixMs {
        self.stopped_at.unwrap_or(self.alive_at)
    }
}
