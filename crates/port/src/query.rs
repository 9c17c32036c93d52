//! Reading what is durable. No read enters a machine.

use rota_core::alert::{Alarm, Key};
use rota_core::batch::{Attempt, Origin, Run, RunState};
use rota_core::id::{AppId, JobId, RunId, Version, WorkerId};
use rota_core::job::Definition;
use rota_core::time::UnixMs;
use rota_core::worker::{App, Registration, WorkerState};

use crate::alerts::{StoredAlert, StoredNotice};
use crate::store::{Error, StoredSecret, Token};

/// Reads of a store; called from any thread, sees every batch whose commit was answered.
pub trait Query: Send + Sync {
    /// All apps.
    fn apps(&self) -> Result<Vec<App>, Error>;
    /// All tokens.
    fn tokens(&self) -> Result<Vec<Token>, Error>;
    /// All secrets, ordered by (namespace, name).
    fn secrets(&self) -> Result<Vec<StoredSecret>, Error>;
    /// Values that were replaced or removed, oldest first, each with the moment at which that was: the last
    /// [`RETIRED_MAX`](crate::secrets::RETIRED_MAX) of each namespace, until a sweep of what ended before that moment.
    fn retired_secrets(&self) -> Result<Vec<StoredSecret>, Error>;
    /// Living jobs whose current version names a secret, with an id above `after`, in order of id.
    fn jobs_with_secrets(&self, after: JobId, limit: u32) -> Result<Vec<Definition>, Error>;
    /// All alert rules, ordered by (namespace, name).
    fn alerts(&self) -> Result<Vec<StoredAlert>, Error>;
    /// All alarms, in order of key.
    fn alarms(&self) -> Result<Vec<(Key, Alarm)>, Error>;
    /// Messages that wait to be delivered, oldest first.
    fn notices(&self) -> Result<Vec<StoredNotice>, Error>;
    /// Ends of watched runs that nobody has judged yet, in order of id.
    fn alert_ends(&self, limit: u32) -> Result<Vec<RunId>, Error>;
    /// The current definition of a job, also of a deleted one.
    fn job(&self, job: JobId) -> Result<Option<Definition>, Error>;
    /// The living job with this name.
    fn job_named(&self, namespace: &str, name: &str) -> Result<Option<Definition>, Error>;
    /// One version of a job.
    fn job_version(&self, job: JobId, version: Version) -> Result<Option<Definition>, Error>;
    /// Living jobs with an id above `after`, in order of id.
    fn jobs(&self, app: Option<AppId>, after: JobId, limit: u32) -> Result<Vec<Definition>, Error>;
    /// Jobs that have this one upstream, or whose definition on its way will, in order of id.
    fn dependents(&self, job: JobId, limit: u32) -> Result<Vec<JobId>, Error>;
    /// A run.
    fn run(&self, run: RunId) -> Result<Option<Run>, Error>;
    /// Recent runs whose id is `value` modulo `32^digits`, newest first, at most two.
    fn runs_with_suffix(&self, value: u64, digits: u32) -> Result<Vec<RunId>, Error>;
    /// Its attempts, ordered by (shard, no).
    fn attempts(&self, run: RunId) -> Result<Vec<Attempt>, Error>;
    /// Runs, newest first.
    fn runs(&self, filter: &RunFilter) -> Result<Vec<Run>, Error>;
    /// All workers that are not forgotten, with their last durable state.
    fn workers(&self, app: Option<AppId>) -> Result<Vec<(Registration, WorkerState)>, Error>;
    /// One worker.
    fn worker(&self, worker: WorkerId) -> Result<Option<(Registration, WorkerState)>, Error>;
    /// One worker by name.
    fn worker_named(&self, app: AppId, name: &str) -> Result<Option<(Registration, WorkerState)>, Error>;
    /// The versions of schema and engine, for people.
    fn version(&self) -> Result<String, Error>;
}

/// Which runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunFilter {
    /// Of this app.
    pub app: Option<AppId>,
    /// Of this job.
    pub job: Option<JobId>,
    /// In this state.
    pub state: Option<RunState>,
    /// Of this origin.
    pub origin: Option<Origin>,
    /// Decided at or after this.
    pub since: Option<UnixMs>,
    /// With an id below this, to read on.
    pub before: Option<RunId>,
    /// At most so many; a store gives at most 1,000.
    pub limit: u32,
}

/// Rows that one answer holds at most.
pub const RUNS_MAX: u32 = 1_000;

impl RunFilter {
    /// Whether a run passes, whatever `limit` says.
    #[must_use]
    pub fn fits(&self, run: &Run) -> bool {
        self.app.is_none_or(|app| app == run.app)
            && self.job.is_none_or(|job| job == run.job)
            && self.state.is_none_or(|state| state == run.state)
            && self.origin.is_none_or(|origin| origin == run.origin)
            && self.since.is_none_or(|since| run.at >= since)
            && self.before.is_none_or(|before| run.id < before)
    }
}
