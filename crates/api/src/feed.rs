//! Runs as they change, for all who watch: one task reads what changed and tells it to every stream.
//!
//! The task lives as long as somebody watches. A stream that does not keep up loses the oldest changes, and is told how
//! many. A change is a row that became durable: admitted, dispatched, ended. A run that changes often between two looks
//! is told once, as it is then.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rota_core::batch::Run;
use rota_core::id::{AppId, JobId, RunId};
use rota_wire::rest;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender};

use crate::refusal::Refusal;
use crate::state::State;
use crate::stream::{End, Sink};
use crate::view::Names;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// Changes that a stream may lie behind.
const BEHIND_MAX: usize = 2_048;
/// Runs that are read in one go.
const READ_RUNS: usize = 200;

/// What is told.
#[derive(Debug)]
enum Change {
    Run { app: AppId, job: JobId, namespace: Option<String>, run: Box<rest::Run> },
    Dropped(u64),
}

/// Where changes are told, while somebody watches.
#[derive(Default)]
pub(crate) struct Feed(Mutex<Option<Sender<Arc<Change>>>>);

/// Which runs a stream is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) namespace: String,
    pub(crate) app: Option<AppId>,
    pub(crate) job: Option<JobId>,
    pub(crate) state: Option<&'static str>,
}

impl Feed {
    fn sender(&self) -> MutexGuard<'_, Option<Sender<Arc<Change>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch: what changes from now on is told.
    fn watch(state: &Arc<State>) -> Receiver<Arc<Change>> {
        let mut slot = state.feed.sender();
        if let Some(sender) = &*slot {
            return sender.subscribe();
        }
        let (sender, receiver) = broadcast::channel(BEHIND_MAX);
        *slot = Some(sender.clone());
        let watching = state.intake.tap().watch();
        let (task, closing) = (state.clone(), state.closing.clone());
        state.spawn(async move {
            tokio::select! {
                biased;
                () = closing.cancelled() => {}
                () = tell(&task, &sender) => {}
            }
            drop(watching);
        });
        receiver
    }

    /// Whether nobody watches any more; then the next who does begins anew.
    fn is_left(&self) -> bool {
        let mut slot = self.sender();
        let is_left = slot.as_ref().is_none_or(|sender| sender.receiver_count() == 0);
        if is_left {
            *slot = None;
        }
        is_left
    }
}

async fn tell(state: &Arc<State>, sender: &Sender<Arc<Change>>) {
    let tap = state.intake.tap();
    loop {
        tokio::time::sleep(LOOK).await;
        if state.feed.is_left() {
            return;
        }
        let changed = tap.take();
        let mut dropped = changed.dropped;
        // Each once, in the order of their ids.
        let runs: Vec<RunId> = BTreeSet::from_iter(changed.runs).into_iter().collect();
        for runs in runs.chunks(READ_RUNS).map(<[RunId]>::to_vec) {
            let count = runs.len() as u64;
            match state.read(move |state| read(state, &runs)).await {
                Ok(changes) => {
                    for change in changes {
                        // Whoever left meanwhile is told nothing.
                        let _left = sender.send(Arc::new(change));
                    }
                }
                Err(refusal) => {
                    tracing::debug!(code = refusal.code.word(), "feed_not_read");
                    dropped += count;
                }
            }
        }
        if dropped > 0 {
            let _left = sender.send(Arc::new(Change::Dropped(dropped)));
        }
    }
}

fn read(state: &State, runs: &[RunId]) -> Result<Vec<Change>, Refusal> {
    let mut names = Names::new(state);
    let mut changes = Vec::with_capacity(runs.len());
    for id in runs {
        let Some(run) = state.query.run(*id)? else { continue };
        let Run { app, job, .. } = run;
        let namespace = state.app(app)?.map(|app| app.namespace);
        changes.push(Change::Run { app, job, namespace, run: Box::new(names.listed(&run)?) });
    }
    Ok(changes)
}

/// Starts to watch at once, and sends what changes until the reader goes away.
pub(crate) fn stream(state: &Arc<State>, wanted: Wanted) -> impl FnOnce(Sink) -> BoxedEnd + use<> {
    let receiver = Feed::watch(state);
    move |sink| Box::pin(send(receiver, wanted, sink))
}

type BoxedEnd = std::pin::Pin<Box<dyn Future<Output = End> + Send>>;

async fn send(mut receiver: Receiver<Arc<Change>>, wanted: Wanted, mut sink: Sink) -> End {
    loop {
        let sent = tokio::select! {
            // Changes first; both can be dropped and lose nothing.
            biased;
            change = receiver.recv() => match change {
                Ok(change) => pass_on(&change, &wanted, &mut sink).await,
                Err(RecvError::Lagged(dropped)) => sink.send("dropped", None, &rest::Dropped { dropped }).await,
                Err(RecvError::Closed) => return End::Shutdown,
            },
            paused = sink.idle() => paused,
        };
        if let Err(end) = sent {
            return end;
        }
    }
}

async fn pass_on(change: &Change, wanted: &Wanted, sink: &mut Sink) -> Result<(), End> {
    match change {
        Change::Dropped(dropped) => sink.send("dropped", None, &rest::Dropped { dropped: *dropped }).await,
        Change::Run { app, job, namespace, run } => {
            let is_wanted = namespace.as_ref().is_none_or(|namespace| *namespace == wanted.namespace)
                && wanted.app.is_none_or(|wanted| wanted == *app)
                && wanted.job.is_none_or(|wanted| wanted == *job)
                && wanted.state.is_none_or(|wanted| wanted == run.state);
            if is_wanted { sink.send("run", None, run).await } else { sink.beat().await }
        }
    }
}
