//! Names and places that requests need at once: which app, which worker of which app. Read-through over the store.
//!
//! What is here never changes its meaning: an app's id, name and namespace, a worker's id, app and name are for ever.
//! Settings may be as old as the last time that this server saw them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rota_core::id::{AppId, RunId, WorkerId};
use rota_core::worker::App;

/// Runs whose app is remembered, for the writers of logs.
const RUNS_MAX: usize = 4_096;

/// A worker, as far as requests need it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Worker {
    pub(crate) app: AppId,
    pub(crate) name: String,
    pub(crate) url: String,
    /// Why its address could not be reached when it registered.
    pub(crate) trouble: Option<String>,
}

#[derive(Default)]
struct Inner {
    apps: BTreeMap<AppId, App>,
    names: BTreeMap<(String, String), AppId>,
    workers: BTreeMap<WorkerId, Worker>,
    runs: BTreeMap<RunId, (AppId, u32)>,
    runs_in_order: VecDeque<RunId>,
}

#[derive(Default)]
pub(crate) struct Directory(Mutex<Inner>);

impl Directory {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put_app(&self, app: App) {
        let mut inner = self.inner();
        inner.names.insert((app.namespace.clone(), app.name.clone()), app.id);
        inner.apps.insert(app.id, app);
    }

    pub(crate) fn app(&self, id: AppId) -> Option<App> {
        self.inner().apps.get(&id).cloned()
    }

    pub(crate) fn app_named(&self, namespace: &str, name: &str) -> Option<App> {
        let inner = self.inner();
        let id = inner.names.get(&(namespace.to_owned(), name.to_owned()))?;
        inner.apps.get(id).cloned()
    }

    pub(crate) fn put_worker(&self, id: WorkerId, worker: Worker) {
        self.inner().workers.insert(id, worker);
    }

    pub(crate) fn worker(&self, id: WorkerId) -> Option<Worker> {
        self.inner().workers.get(&id).cloned()
    }

    /// The app of a worker.
    pub(crate) fn app_of(&self, id: WorkerId) -> Option<AppId> {
        self.inner().workers.get(&id).map(|worker| worker.app)
    }

    /// Remembers whose a run is, and how many shards it has.
    pub(crate) fn put_run(&self, run: RunId, app: AppId, shards: u32) {
        let mut inner = self.inner();
        if inner.runs.insert(run, (app, shards)).is_none() {
            inner.runs_in_order.push_back(run);
        }
        if inner.runs_in_order.len() > RUNS_MAX
            && let Some(oldest) = inner.runs_in_order.pop_front()
        {
            inner.runs.remove(&oldest);
        }
    }

    pub(crate) fn run(&self, run: RunId) -> Option<(AppId, u32)> {
        self.inner().runs.get(&run).copied()
    }
}
