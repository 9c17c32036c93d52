//! The worker's live state: the attempts machine under its lock, and who is told when it changes.
//!
//! The lock is held for one step of the machine, never across an await.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rota_wire::worker::{Accepted, AttemptResult, Beat, Enquiry, Execute, Outcome, Refusal, Status};
use tokio::sync::Notify;

use crate::attempts::{Attempts, Verdict};
use crate::clock::Clock;
use crate::context::{Context, Stop, StopReason};
use crate::handler::Handler;
use crate::journal::Journal;
use crate::logs::{Log, Queue};
use crate::run;
use crate::supervisor::Supervisor;

pub(crate) struct Live {
    pub(crate) name: String,
    pub(crate) incarnation: u64,
    pub(crate) capacity: u32,
    pub(crate) handlers: BTreeMap<String, Handler>,
    pub(crate) stop_grace: Duration,
    pub(crate) journal: Option<Journal>,
    pub(crate) logs: Arc<Queue>,
    pub(crate) supervisor: Supervisor,
    pub(crate) clock: Clock,
    pub(crate) state: Mutex<State>,
    /// There are results to report.
    pub(crate) results_ready: Notify,
    /// The server does not know this worker.
    pub(crate) is_unknown: Notify,
    /// The last running attempt has ended.
    idle: Notify,
}

/// What the lock protects.
pub(crate) struct State {
    attempts: Attempts,
    /// How to stop what runs.
    stops: HashMap<u64, Arc<Stop>>,
}

impl State {
    pub(crate) fn new(attempts: Attempts) -> Mutex<State> {
        Mutex::new(State { attempts, stops: HashMap::new() })
    }
}

/// The parts of [`Live`] that are given when a worker is built.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) incarnation: u64,
    pub(crate) capacity: u32,
    pub(crate) handlers: BTreeMap<String, Handler>,
    pub(crate) stop_grace: Duration,
    pub(crate) journal: Option<Journal>,
    pub(crate) attempts: Attempts,
    pub(crate) clock: Clock,
}

impl Live {
    pub(crate) fn new(parts: Parts) -> Arc<Live> {
        Arc::new(Live {
            name: parts.name,
            incarnation: parts.incarnation,
            capacity: parts.capacity,
            handlers: parts.handlers,
            stop_grace: parts.stop_grace,
            journal: parts.journal,
            logs: Queue::new(),
            supervisor: Supervisor::new(),
            clock: parts.clock,
            state: State::new(parts.attempts),
            results_ready: Notify::new(),
            is_unknown: Notify::new(),
            idle: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock, or the worker is broken anyway")
    }

    /// The server asks to run an attempt: decided, started, answered.
    pub(crate) fn execute(
        self: &Arc<Self>,
        ask: Execute,
        slot_ms: i64,
        traceparent: Option<String>,
    ) -> Result<Accepted, Refusal> {
        let stop = Arc::new(Stop::default());
        let next_beat = {
            let mut state = self.state();
            match state.attempts.execute(self.clock.now(), &ask) {
                Verdict::Known(next_beat) => return Ok(Accepted { next_beat }),
                Verdict::Refused(refusal) => return Err(refusal),
                Verdict::Start(next_beat) => {
                    state.stops.insert(ask.attempt, Arc::clone(&stop));
                    next_beat
                }
            }
        };
        let handler = Arc::clone(self.handlers.get(&ask.handler).expect("the machine starts only what is offered"));
        let log = Log::new(ask.run, ask.shard, ask.no, Arc::clone(&self.logs));
        let context = Context::new(ask, slot_ms, traceparent, self.stop_grace, Arc::clone(&stop), log);
        self.supervisor.spawn("attempt", run::attempt(Arc::clone(self), handler, context, stop));
        Ok(Accepted { next_beat })
    }

    pub(crate) fn probe(&self, ask: &Enquiry) -> Result<Status, Refusal> {
        self.state().attempts.probe(self.clock.now(), ask)
    }

    /// As a probe; and what runs is told to stop.
    pub(crate) fn cancel(&self, ask: &Enquiry) -> Result<Status, Refusal> {
        let mut state = self.state();
        let status = state.attempts.probe(self.clock.now(), ask)?;
        if matches!(status, Status::Running { .. }) {
            let stop = state.stops.get(&ask.attempt).expect("what runs can be stopped");
            stop.ask(StopReason::Killed);
        }
        Ok(status)
    }

    /// An attempt ended.
    pub(crate) fn finish(&self, attempt: u64, outcome: Outcome, message: Option<String>) {
        let is_last = {
            let mut state = self.state();
            state.stops.remove(&attempt);
            state.attempts.finish(attempt, outcome, message)
        };
        self.results_ready.notify_one();
        if is_last {
            self.idle.notify_waiters();
        }
    }

    /// The next beat. Its number and its lists are one step of the machine.
    pub(crate) fn beat(&self) -> Beat {
        let (no, running, finished) = self.state().attempts.beat();
        Beat { incarnation: self.incarnation, no, running, finished, capacity: Some(self.capacity), labels: None }
    }

    pub(crate) fn has_reports(&self) -> bool {
        self.state().attempts.has_reports()
    }

    pub(crate) fn reports(&self) -> Vec<AttemptResult> {
        self.state().attempts.reports()
    }

    pub(crate) fn settle(&self, acknowledged: &[u64]) {
        self.state().attempts.settle(self.clock.now(), acknowledged);
    }

    pub(crate) fn unacknowledged(&self) -> usize {
        self.state().attempts.unacknowledged()
    }

    /// From now on everything new is refused.
    pub(crate) fn drain(&self) {
        self.state().attempts.drain();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.state().attempts.is_draining()
    }

    pub(crate) fn running(&self) -> usize {
        self.state().attempts.running()
    }

    /// Waits until nothing runs.
    pub(crate) async fn idle(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // Listening before looking: an end in between is not missed.
            idle.as_mut().enable();
            if self.running() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Tells everything that runs to stop.
    pub(crate) fn stop_all(&self) {
        for stop in self.state().stops.values() {
            stop.ask(StopReason::Leaving);
        }
    }
}
