//! The one place that spawns.
//!
//! A task that panics is a bug of this crate (a handler's panic is caught before it gets here): it
//! trips [`Supervisor::broken`], and the worker ends loudly instead of going on without that part.
//! Dropping or stopping the supervisor drops every task's future, wherever it waits.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Spawns tasks, ends them together, and tells if one panicked.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    tasks: TaskTracker,
    stop: CancellationToken,
    broken: CancellationToken,
    culprit: Arc<Mutex<Option<&'static str>>>,
}

impl Supervisor {
    pub(crate) fn new() -> Supervisor {
        Supervisor {
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            broken: CancellationToken::new(),
            culprit: Arc::new(Mutex::new(None)),
        }
    }

    /// Runs a task until it ends or the supervisor is stopped.
    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let alarm = Alarm { name, broken: self.broken.clone(), culprit: Arc::clone(&self.culprit) };
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let _alarm = alarm;
            tokio::select! {
                // The stop first: nothing may start another step after it.
                biased;
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Waits until a task has panicked; says which.
    pub(crate) async fn broken(&self) -> &'static str {
        self.broken.cancelled().await;
        let culprit = self.culprit.lock().expect("nothing panics while it holds this lock");
        (*culprit).unwrap_or("a task")
    }

    /// Drops every task's future, and waits until all are gone, but no longer than this: a handler
    /// that blocks its thread cannot be dropped.
    pub(crate) async fn stop(&self, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::error!(tasks = self.tasks.len(), "tasks_do_not_stop");
        }
    }

    /// Stops every task when it is dropped.
    pub(crate) fn stop_on_drop(&self) -> tokio_util::sync::DropGuard {
        self.stop.clone().drop_guard()
    }
}

struct Alarm {
    name: &'static str,
    broken: CancellationToken,
    culprit: Arc<Mutex<Option<&'static str>>>,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Ok(mut culprit) = self.culprit.lock() {
                culprit.get_or_insert(self.name);
            }
            self.broken.cancel();
        }
    }
}
