//! The jobs that name a rule: what is known of them, and what is live.

use std::collections::BTreeMap;
use std::sync::Arc;

use rota_core::alert::judge::Live;
use rota_core::alert::{AlertId, Event};
use rota_core::batch::RunState;
use rota_core::id::JobId;
use rota_core::job::{Definition, JobState};
use rota_core::partition::Snapshot;
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_port::alerts::{OpenRun, StoredAlert, Watch};
use rota_port::history::{History, StateFilter};
use rota_port::query::{Query, RunFilter};
use rota_port::store::Error;

/// A job that names rules.
pub(super) struct Watched {
    pub(super) definition: Definition,
    pub(super) namespace: String,
    pub(super) app: String,
    /// From when on the time without a success counts, if it fires.
    pub(super) success_since: Option<UnixMs>,
}

/// All rules, by number and by what jobs call them.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) by_id: BTreeMap<AlertId, Arc<StoredAlert>>,
    by_name: BTreeMap<(String, String), AlertId>,
}

impl Rules {
    pub(super) fn new(alerts: Vec<StoredAlert>) -> Rules {
        let by_name = alerts.iter().map(|alert| ((alert.namespace.clone(), alert.name.clone()), alert.id)).collect();
        Rules { by_id: alerts.into_iter().map(|alert| (alert.id, Arc::new(alert))).collect(), by_name }
    }

    /// Those that a job names.
    pub(super) fn of<'r>(&'r self, job: &'r Watched) -> impl Iterator<Item = &'r Arc<StoredAlert>> {
        let ids = job.definition.spec.alerts.iter().filter_map(|name| {
            // Jobs name few rules, and this is no hot path.
            self.by_name.get(&(job.namespace.clone(), name.clone()))
        });
        ids.filter_map(|id| self.by_id.get(id))
    }
}

/// Reads rows.
pub(super) struct Reader {
    pub(super) query: Arc<dyn Query>,
    pub(super) history: Arc<dyn History>,
    apps: BTreeMap<rota_core::id::AppId, (String, String)>,
}

impl Reader {
    pub(super) fn new(query: Arc<dyn Query>, history: Arc<dyn History>) -> Reader {
        Reader { query, history, apps: BTreeMap::new() }
    }

    /// A job with its names; none if there is no such job.
    pub(super) fn job(&mut self, job: JobId) -> Result<Option<Watched>, Error> {
        let Some(definition) = self.query.job(job)? else { return Ok(None) };
        if !self.apps.contains_key(&definition.app) {
            let apps = self.query.apps()?;
            self.apps = apps.into_iter().map(|app| (app.id, (app.namespace, app.name))).collect();
        }
        let Some((namespace, app)) = self.apps.get(&definition.app).cloned() else { return Ok(None) };
        Ok(Some(Watched { definition, namespace, app, success_since: None }))
    }

    /// From when on the time without a success counts: the last success, or when it began to fire, if that was later.
    pub(super) fn success_since(&self, job: &Definition) -> Result<Option<UnixMs>, Error> {
        if job.state != JobState::Enabled {
            return Ok(None);
        }
        let (id, limit) = (job.id, 1);
        let filter = RunFilter { job: Some(id), state: Some(RunState::Success), limit, ..RunFilter::default() };
        let last = self.query.runs(&filter)?.first().and_then(|run| run.ended_at);
        let filter = StateFilter { job: Some(id), state: Some(JobState::Enabled), ..StateFilter::default() };
        let resumed = self.history.state_changes(&filter)?.last().map(|change| change.at);
        let first = self.query.job_version(id, rota_core::id::Version(1))?.map(|version| version.at);
        Ok([last, resumed, first].into_iter().flatten().max())
    }
}

/// What is live of each watched job.
pub(super) struct Lives {
    by_job: BTreeMap<JobId, Live>,
}

impl Lives {
    /// What the machines last published, and which runs are open. None while the clock cannot be believed.
    pub(super) fn of(snapshots: &[Arc<Snapshot>], watch: &Watch, is_watched: impl Fn(JobId) -> bool) -> Option<Lives> {
        if snapshots.iter().any(|snapshot| snapshot.suspended.is_some()) {
            return None;
        }
        let mut by_job: BTreeMap<JobId, Live> = BTreeMap::new();
        for snapshot in snapshots {
            for held in snapshot.held.iter().chain(&snapshot.held_alerting).filter(|held| is_watched(held.job)) {
                by_job.entry(held.job).or_default().waiting.push((held.slot, held.why, held.since));
            }
            for waiting in
                snapshot.waiting.iter().chain(&snapshot.waiting_alerting).filter(|waiting| is_watched(waiting.job))
            {
                let lacks = matches!(waiting.why, Why::NoWorker | Why::NoWorkerForHandler | Why::NoWorkerForLabels);
                // How late it is, is told from its run.
                if lacks && let Some(run) = watch.open_run(waiting.run) {
                    by_job.entry(waiting.job).or_default().waiting.push((run.at, waiting.why, run.at));
                }
            }
        }
        for OpenRun { run, job, slot, at } in watch.open_runs() {
            by_job.entry(job).or_default().open.push((run, slot, at));
        }
        Some(Lives { by_job })
    }

    pub(super) fn take(&mut self, job: &Watched) -> Live {
        let live = self.by_job.remove(&job.definition.id).unwrap_or_default();
        Live { success_since: job.success_since, jitter_ms: job.definition.spec.jitter_ms, ..live }
    }
}

/// Whether a rule of the job asks for what `event` is about.
pub(super) fn hears(rules: &Rules, job: &Watched, event: Event) -> bool {
    rules.of(job).any(|alert| alert.rule.hears(event))
}
