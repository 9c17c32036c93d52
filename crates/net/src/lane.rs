//! A lane: one thread that does I/O for a fixed share of the calls.
//!
//! Calls enter in vectors and answers leave in vectors: what became ready while the lane was busy goes
//! out together. A lane's tasks belong to its `JoinSet`; one that panics takes the lane with it, and the
//! next call that is handed to a lane that died panics in its caller. Nothing is lost in silence.
//!
//! Absent on purpose: retries, and any knowledge of what a call means, but for its templates, which are filled in
//! as it comes in.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rota_core::id::{AppId, PartitionId};
use rota_core::partition::Input;
use rota_port::executor::{Outbound, Outcomes};
use rota_port::secrets::{Secrets, Vault};
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep_until};

use crate::secret;

/// Between two looks at calls and connections that wait.
pub(crate) const TICK_MS: u64 = 50;
const TICK: Duration = Duration::from_millis(TICK_MS);

/// What a lane does with calls. Everything here runs on the lane's thread, and none of it waits.
pub(crate) trait Desk {
    /// What a task of this desk returns when it ends.
    type Ended: 'static;
    /// Takes a call.
    fn take(&mut self, tasks: &mut JoinSet<Self::Ended>, partition: PartitionId, call: Outbound);
    /// One of its tasks has ended.
    fn ended(&mut self, tasks: &mut JoinSet<Self::Ended>, ended: Self::Ended);
    /// Looks at what waits; false if nothing does, and no further look is needed until the next call.
    fn tick(&mut self, tasks: &mut JoinSet<Self::Ended>) -> bool;
}

/// Answers that wait for the end of the lane's turn.
pub(crate) struct Outbox {
    ready: RefCell<Vec<(PartitionId, Input)>>,
    bell: Notify,
    secrets: Arc<Secrets>,
}

impl Outbox {
    /// Puts an answer in.
    pub(crate) fn put(&self, partition: PartitionId, input: Input) {
        let mut ready = self.ready.borrow_mut();
        if ready.is_empty() {
            self.bell.notify_one();
        }
        ready.push((partition, input));
    }

    /// Takes what is in it. What comes next is probably as much.
    fn take(&self) -> Vec<(PartitionId, Input)> {
        let mut ready = self.ready.borrow_mut();
        let room = Vec::with_capacity(ready.len());
        std::mem::replace(&mut *ready, room)
    }

    /// Puts an answer in that carries the words of a peer of this app; secrets do not pass.
    pub(crate) fn put_said(&self, partition: PartitionId, app: AppId, mut input: Input) {
        secret::clean(&mut input, || self.vault(app));
        self.put(partition, input);
    }

    /// The secrets that an app's jobs may use.
    pub(crate) fn vault(&self, app: AppId) -> Arc<Vault> {
        self.secrets.of(app)
    }
}

/// Calls that have not reached the lane's thread yet. Bounded by what machines may have outstanding.
struct Inbox {
    calls: Mutex<Vec<(PartitionId, Outbound)>>,
    is_stopped: AtomicBool,
    bell: Notify,
}

/// The handle of a lane; dropping it stops the lane. Calls that are open then stay unanswered, as after
/// a crash: what they meant is decided when the partition is loaded again.
pub(crate) struct Lane {
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl Lane {
    /// Starts a lane. The desk is made on the lane's own thread, so that it need not be `Send`.
    pub(crate) fn start<D: Desk + 'static>(
        name: String,
        outcomes: Arc<dyn Outcomes>,
        secrets: Arc<Secrets>,
        desk: impl FnOnce(Rc<Outbox>) -> D + Send + 'static,
    ) -> io::Result<Lane> {
        let inbox =
            Arc::new(Inbox { calls: Mutex::new(Vec::new()), is_stopped: AtomicBool::new(false), bell: Notify::new() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let its_inbox = inbox.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let outbox = Rc::new(Outbox { ready: RefCell::new(Vec::new()), bell: Notify::new(), secrets });
            let desk = desk(outbox.clone());
            LocalSet::new().block_on(&runtime, run(desk, &its_inbox, &outbox, &*outcomes));
            // Name lookups that hang must not keep the process from stopping.
            runtime.shutdown_background();
        })?;
        Ok(Lane { inbox, thread: Some(thread) })
    }

    /// Hands calls to the lane.
    pub(crate) fn submit(&self, calls: impl Iterator<Item = (PartitionId, Outbound)>) {
        let is_dead = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        assert!(!is_dead, "the thread of an I/O lane has died; its panic was printed");
        let mut waiting = self.inbox.calls.lock().expect("no code panics while it holds the inbox");
        waiting.extend(calls);
        drop(waiting);
        self.inbox.bell.notify_one();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.inbox.is_stopped.store(true, Ordering::Release);
        self.inbox.bell.notify_one();
        // A lane that panicked has said so; panicking once more while dropping would only hide it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn run<D: Desk>(mut desk: D, inbox: &Inbox, outbox: &Outbox, outcomes: &dyn Outcomes) {
    let mut tasks = JoinSet::new();
    let mut tick_at = None;
    // One timer for the lane's whole life; it is only set anew when the next look is another one.
    let mut bell = pin!(sleep_until(Instant::now()));
    while !inbox.is_stopped.load(Ordering::Acquire) {
        let calls = std::mem::take(&mut *inbox.calls.lock().expect("no code panics while it holds the inbox"));
        if !calls.is_empty() {
            tick_at = tick_at.or_else(|| Some(Instant::now() + TICK));
        }
        for (partition, mut call) in calls {
            if let Outbound::Send(send) = &mut call
                && let Err(unsendable) = secret::fill(&outbox.secrets, send)
            {
                outbox.put(partition, unsendable);
                continue;
            }
            desk.take(&mut tasks, partition, call);
        }
        if tick_at.is_some_and(|at| at <= Instant::now()) {
            tick_at = desk.tick(&mut tasks).then(|| Instant::now() + TICK);
        }
        let ready = outbox.take();
        if !ready.is_empty() {
            outcomes.deliver(ready);
        }
        if let Some(at) = tick_at
            && bell.deadline() != at
        {
            bell.as_mut().reset(at);
        }
        // Every branch is cancel-safe. All of them lead to the same turn, so their order only says what
        // is looked at first: ends of tasks, because they may leave calls behind that need another.
        tokio::select! {
            biased;
            Some(ended) = tasks.join_next() => match ended {
                Ok(ended) => desk.ended(&mut tasks, ended),
                Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
                Err(_aborted) => {}
            },
            () = outbox.bell.notified() => {}
            () = inbox.bell.notified() => {}
            () = &mut bell, if tick_at.is_some() => {}
        }
    }
}

/// Takes every item out of a queue that is to go, keeping the order of the rest.
pub(crate) fn take_where<T>(queue: &mut VecDeque<T>, mut is_to_go: impl FnMut(&T) -> bool) -> Vec<T> {
    let mut gone = Vec::new();
    if queue.iter().any(&mut is_to_go) {
        for item in std::mem::take(queue) {
            if is_to_go(&item) {
                gone.push(item);
            } else {
                queue.push_back(item);
            }
        }
    }
    gone
}
