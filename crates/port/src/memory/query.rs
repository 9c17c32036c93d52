//! Reading.

use std::collections::BTreeSet;

use rota_core::alert::{Alarm, Key};
use rota_core::batch::{Attempt, Run};
use rota_core::id::{AppId, JobId, RunId, Version, WorkerId};
use rota_core::job::{Definition, JobState};
use rota_core::worker::{App, Registration, WorkerState};

use super::MemoryStore;
use crate::alerts::{StoredAlert, StoredNotice};
use crate::query::{Query, RUNS_MAX, RunFilter};
use crate::store::{Error, StoredSecret, Token};

type Known = (Registration, WorkerState);

impl Query for MemoryStore {
    fn apps(&self) -> Result<Vec<App>, Error> {
        self.with(|state| Ok(state.apps.values().map(|(app, _)| app.clone()).collect()))
    }

    fn tokens(&self) -> Result<Vec<Token>, Error> {
        self.with(|state| Ok(state.tokens.clone()))
    }

    fn retired_secrets(&self) -> Result<Vec<StoredSecret>, Error> {
        self.with(|state| Ok(state.retired.clone()))
    }

    fn secrets(&self) -> Result<Vec<StoredSecret>, Error> {
        self.with(|state| Ok(state.secrets.values().cloned().collect()))
    }

    fn alerts(&self) -> Result<Vec<StoredAlert>, Error> {
        self.with(|state| Ok(state.alerts.values().cloned().collect()))
    }

    fn alarms(&self) -> Result<Vec<(Key, Alarm)>, Error> {
        self.with(|state| Ok(state.read_alarms()))
    }

    fn notices(&self) -> Result<Vec<StoredNotice>, Error> {
        self.with(|state| Ok(state.read_notices()))
    }

    fn alert_ends(&self, limit: u32) -> Result<Vec<RunId>, Error> {
        self.with(|state| Ok(state.read_ends(limit)))
    }

    fn jobs_with_secrets(&self, after: JobId, limit: u32) -> Result<Vec<Definition>, Error> {
        self.with(|state| {
            let above = state.jobs.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
            let living = above.filter_map(|(_, all)| all.last()).filter(|current| current.state != JobState::Deleted);
            let using = living.filter(|current| current.spec.target.names_secret());
            Ok(using.take(limit.min(RUNS_MAX) as usize).cloned().collect())
        })
    }

    fn job(&self, job: JobId) -> Result<Option<Definition>, Error> {
        self.with(|state| Ok(state.current(job).cloned()))
    }

    fn job_named(&self, namespace: &str, name: &str) -> Result<Option<Definition>, Error> {
        self.with(|state| {
            let taken = state.job_names.get(&(namespace.to_owned(), name.to_owned()));
            Ok(taken.and_then(|taken| state.current(taken.job)).cloned())
        })
    }

    fn job_version(&self, job: JobId, version: Version) -> Result<Option<Definition>, Error> {
        self.with(|state| {
            let versions = state.jobs.get(&job);
            Ok(versions.and_then(|all| all.iter().find(|definition| definition.version == version)).cloned())
        })
    }

    fn jobs(&self, app: Option<AppId>, after: JobId, limit: u32) -> Result<Vec<Definition>, Error> {
        self.with(|state| {
            let above = state.jobs.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
            let living = above.filter_map(|(_, all)| all.last()).filter(|current| current.state != JobState::Deleted);
            let ours = living.filter(|current| app.is_none_or(|app| app == current.app));
            Ok(ours.take(limit.min(RUNS_MAX) as usize).cloned().collect())
        })
    }

    fn dependents(&self, job: JobId, limit: u32) -> Result<Vec<JobId>, Error> {
        self.with(|state| {
            let found = state.upstreams.iter().filter(|(_, upstream, _)| *upstream == job).map(|(of, _, _)| *of);
            let found: BTreeSet<JobId> = found.collect();
            Ok(found.into_iter().take(limit as usize).collect())
        })
    }

    fn run(&self, run: RunId) -> Result<Option<Run>, Error> {
        self.with(|state| Ok(state.runs.get(&run).cloned()))
    }

    fn runs_with_suffix(&self, value: u64, digits: u32) -> Result<Vec<RunId>, Error> {
        let fits = |id: u64| match 32_u64.checked_pow(digits) {
            Some(modulus) => id % modulus == value % modulus,
            None => id == value,
        };
        self.with(|state| Ok(state.runs.keys().rev().filter(|run| fits(run.0)).take(2).copied().collect()))
    }

    fn attempts(&self, run: RunId) -> Result<Vec<Attempt>, Error> {
        self.with(|state| Ok(state.attempts_of(run).cloned().collect()))
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<Run>, Error> {
        self.with(|state| {
            let below = state.runs.range(..filter.before.unwrap_or(RunId(u64::MAX)));
            let fitting = below.rev().map(|(_, run)| run).filter(|run| filter.fits(run));
            Ok(fitting.take(filter.limit.min(RUNS_MAX) as usize).cloned().collect())
        })
    }

    fn workers(&self, app: Option<AppId>) -> Result<Vec<Known>, Error> {
        self.with(|state| {
            let ours = state.workers.values().filter(|(worker, _)| app.is_none_or(|app| app == worker.app));
            Ok(ours.cloned().collect())
        })
    }

    fn worker(&self, worker: WorkerId) -> Result<Option<Known>, Error> {
        self.with(|state| Ok(state.workers.get(&worker).cloned()))
    }

    fn worker_named(&self, app: AppId, name: &str) -> Result<Option<Known>, Error> {
        self.with(|state| {
            let id = state.worker_names.get(&(app, name.to_owned()));
            Ok(id.and_then(|id| state.workers.get(id)).cloned())
        })
    }

    fn version(&self) -> Result<String, Error> {
        Ok("in memory".to_owned())
    }
}
