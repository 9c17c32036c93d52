//! What a handler gets to know, and can do.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rota_wire::worker::Execute;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::logs::Log;

/// Why an attempt is being stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StopReason {
    /// The server asked for it.
    Killed,
    /// Its time is over.
    Deadline,
    /// The worker goes, and it did not end in time.
    Leaving,
}

/// How an attempt is told to stop. The first reason counts.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    reason: Mutex<Option<StopReason>>,
    token: CancellationToken,
}

impl Stop {
    pub(crate) fn ask(&self, reason: StopReason) {
        self.reason.lock().expect("nothing panics while it holds this lock").get_or_insert(reason);
        self.token.cancel();
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.reason.lock().expect("nothing panics while it holds this lock")
    }

    pub(crate) async fn asked(&self) {
        self.token.cancelled().await;
    }
}

/// One attempt, as its handler sees it. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    facts: Arc<Facts>,
}

struct Facts {
    ask: Execute,
    slot_ms: i64,
    traceparent: Option<String>,
    deadline: Option<Instant>,
    stop_grace: Duration,
    stop: Arc<Stop>,
    log: Log,
}

impl Context {
    pub(crate) fn new(
        ask: Execute,
        slot_ms: i64,
        traceparent: Option<String>,
        stop_grace: Duration,
        stop: Arc<Stop>,
        log: Log,
    ) -> Context {
        let deadline = ask.timeout_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        Context { facts: Arc::new(Facts { ask, slot_ms, traceparent, deadline, stop_grace, stop, log }) }
    }

    /// The W3C Trace Context that the call carried, for what this attempt causes elsewhere; none if it is not traced.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.facts.traceparent.as_deref()
    }

    /// The handler's name.
    #[must_use]
    pub fn handler(&self) -> &str {
        &self.facts.ask.handler
    }

    /// The job's parameter; empty if it has none.
    #[must_use]
    pub fn param(&self) -> &str {
        &self.facts.ask.param
    }

    /// The job's id.
    #[must_use]
    pub fn job(&self) -> u32 {
        self.facts.ask.job
    }

    /// The job's name.
    #[must_use]
    pub fn job_name(&self) -> &str {
        &self.facts.ask.job_name
    }

    /// The job's version that made the run.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.facts.ask.version
    }

    /// What made the run: `schedule`, `manual` or `api`.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.facts.ask.origin
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.facts.ask.run
    }

    /// The shard of the run that this is, from 0.
    #[must_use]
    pub fn shard(&self) -> u32 {
        self.facts.ask.shard
    }

    /// How many shards the run has.
    #[must_use]
    pub fn shards(&self) -> u32 {
        self.facts.ask.shards
    }

    /// The attempt's id, unique in the installation.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.facts.ask.attempt
    }

    /// The attempt's number within its shard, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.facts.ask.no
    }

    /// The same for all attempts of a shard: what a receiver of effects can deduplicate by.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.facts.ask.idempotency_key
    }

    /// The slot: the nominal instant, in RFC 3339 with the offset of the job's zone.
    #[must_use]
    pub fn slot(&self) -> &str {
        &self.facts.ask.slot
    }

    /// The slot in milliseconds since 1970.
    #[must_use]
    pub fn slot_ms(&self) -> i64 {
        self.facts.slot_ms
    }

    /// The name of the job's zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.facts.ask.zone
    }

    /// When the attempt is told to stop, if its job has a time limit.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.facts.deadline
    }

    /// What is left until the deadline; zero beyond it.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        self.facts.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// How long the attempt may go on after it was told to stop, before it is dropped.
    #[must_use]
    pub fn stop_grace(&self) -> Duration {
        self.facts.stop_grace
    }

    /// Whether it was told to stop: killed, past its deadline, or left behind by a worker that goes.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.facts.stop.token.is_cancelled()
    }

    /// Waits until it is told to stop.
    pub async fn cancelled(&self) {
        self.facts.stop.token.cancelled().await;
    }

    /// A token that is cancelled when the attempt is told to stop, for code that takes one.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        // A child: whoever cancels it stops what hangs on it, not the attempt.
        self.facts.stop.token.child_token()
    }

    /// Writes to the run's log; each line of the text is a line there.
    pub fn log(&self, text: impl AsRef<str>) {
        self.facts.log.add(text.as_ref());
    }

    /// Writes how far it is to the run's log.
    pub fn progress(&self, percent: u8) {
        self.facts.log.add_line(format!("progress {} %", percent.min(100)));
    }

    /// Writes one line that is within the limit.
    pub(crate) fn log_line(&self, line: String) {
        self.facts.log.add_line(line);
    }

    /// No line after this one goes anywhere.
    pub(crate) fn close_log(&self) {
        self.facts.log.close();
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("handler", &self.handler())
            .field("run", &self.run())
            .field("shard", &self.shard())
            .field("number", &self.number())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
