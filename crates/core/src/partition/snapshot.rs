//! The live state that has no row, published for reads. Immutable, stamped with its age.

use crate::batch::{AttemptState, RunState};
use crate::freeze::Freeze;
use crate::id::{AppId, AttemptId, BackfillId, Incarnation, JobId, PartitionId, RunId, WorkerId};
use crate::label::Labels;
use crate::time::UnixMs;
use crate::why::Why;
use crate::worker::WorkerState;

/// Open attempts and held slots listed in a snapshot; more are only counted.
pub const LISTED_MAX: usize = 1_000;

/// What a partition looked like.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// The partition.
    pub partition: PartitionId,
    /// When.
    pub at: UnixMs,
    /// Jobs by state: enabled, paused, finished.
    pub jobs: [u64; 3],
    /// Workers.
    pub workers: Vec<Worker>,
    /// Slots that wait without a row.
    pub held: Vec<Held>,
    /// Further such slots of jobs that name alerts, which must not be overlooked.
    pub held_alerting: Vec<Held>,
    /// How many slots wait, by app and reason.
    pub held_counts: Vec<(AppId, Why, u64)>,
    /// Ended runs whose children wait to be fired, by app.
    pub notes: Vec<NotesWaiting>,
    /// Shards of admitted runs that wait, at most [`LISTED_MAX`].
    pub waiting: Vec<Waiting>,
    /// Of those that are not listed, the first that lacks a worker of each job that names alerts.
    pub waiting_alerting: Vec<Waiting>,
    /// Open attempts, oldest first, at most [`LISTED_MAX`].
    pub attempts: Vec<Open>,
    /// How many attempts are open.
    pub attempts_open: u64,
    /// How many of them are in doubt.
    pub in_doubt: u64,
    /// Open runs.
    pub runs_open: u64,
    /// Backfills that have not ended, oldest first.
    pub backfills: Vec<Backfilling>,
    /// What stands between apps and their dispatches; those to which nothing applies are absent.
    pub valves: Vec<ValveState>,
    /// The next slots, soonest first, at most 20.
    pub next: Vec<(JobId, UnixMs)>,
    /// Jobs whose stored definition this binary cannot compile, with the reason.
    pub broken: Vec<(JobId, String)>,
    /// Freezes that are open.
    pub frozen: Vec<Freeze>,
    /// Why nothing fires, if nothing does.
    pub suspended: Option<Why>,
    /// Since the load: rows written for slots, by app, state and reason.
    pub slots: Vec<(AppId, RunState, Option<Why>, u64)>,
    /// Since the load: outcomes of dispatches by app.
    pub dispatches: Vec<(AppId, DispatchResult, u64)>,
    /// Since the load: late results that changed nothing.
    pub late_results: u64,
    /// Since the load: lateness of scheduled runs, see [`LATENESS_BOUNDS_MS`]; the last is beyond all bounds.
    pub lateness: [u64; LATENESS_BOUNDS_MS.len() + 1],
    /// The sum of that lateness in milliseconds.
    pub lateness_sum_ms: u64,
}

/// How far an app is from what it may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValveState {
    /// The app.
    pub app: AppId,
    /// Shards that are admitted and not yet sent.
    pub pending: u32,
    /// Tokens of the app's rate, if it has one.
    pub tokens: Option<u32>,
    /// Milliseconds until there is one; 0 if there is one, or no rate.
    pub token_ms: u64,
    /// Tokens of its groups of workers, by their selector.
    pub groups: Vec<(String, u32)>,
}

/// Upper bounds of the lateness histogram, in milliseconds.
pub const LATENESS_BOUNDS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 60_000];

/// What became of a dispatch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DispatchResult {
    /// The worker accepted it.
    Accepted,
    /// Nothing was sent, or it was refused.
    NotStarted,
    /// It was in doubt.
    InDoubt,
    /// The answer was the result.
    Finished,
}

impl DispatchResult {
    /// The word that metrics show.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            DispatchResult::Accepted => "accepted",
            DispatchResult::NotStarted => "not_started",
            DispatchResult::InDoubt => "in_doubt",
            DispatchResult::Finished => "finished",
        }
    }
}

/// A worker, live.
#[derive(Clone, PartialEq, Debug)]
pub struct Worker {
    /// The worker; 0 for a host of URL jobs.
    pub id: WorkerId,
    /// Its app.
    pub app: AppId,
    /// Its name, or the host.
    pub name: String,
    /// This start of it.
    pub incarnation: Incarnation,
    /// Where it is called.
    pub url: String,
    /// Its state.
    pub state: WorkerState,
    /// Its labels.
    pub labels: Labels,
    /// Its handlers.
    pub handlers: Vec<String>,
    /// Attempts that it runs at once; 0 is unlimited.
    pub capacity: u32,
    /// Unreleased attempts.
    pub load: u32,
    /// What they weigh together, in millionths of a core.
    pub weight: u64,
    /// Committed-or-sending attempts.
    pub sending: u32,
    /// Milliseconds since it was last heard.
    pub silent_ms: u64,
}

/// A slot that waits without a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The job.
    pub job: JobId,
    /// The slot.
    pub slot: UnixMs,
    /// Why it waits.
    pub why: Why,
    /// Since when.
    pub since: UnixMs,
}

/// A backfill that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backfilling {
    /// The backfill.
    pub id: BackfillId,
    /// Its job.
    pub job: JobId,
    /// Slots of it that have a row.
    pub made: u64,
    /// Its runs that are open, or still hold a place.
    pub open: u64,
    /// Why it makes no run now.
    pub waits: Option<Why>,
}

/// Ended runs that have not fired jobs of an app yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotesWaiting {
    /// The app.
    pub app: AppId,
    /// What the first of them waits for.
    pub why: Why,
    /// How many there are.
    pub count: u64,
    /// When the first of them ended.
    pub since: UnixMs,
}

/// A shard of an admitted run that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Its run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// Its number.
    pub shard: u32,
    /// Why it waits.
    pub why: Why,
    /// For whom, if it may go to no other.
    pub worker: Option<WorkerId>,
    /// Milliseconds until its next attempt, if it waits for a time.
    pub left_ms: Option<u64>,
}

/// An open attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// Its shard.
    pub shard: u32,
    /// Its number.
    pub no: u32,
    /// Its worker.
    pub worker: WorkerId,
    /// Its state.
    pub state: AttemptState,
    /// Since when it is dispatched.
    pub at: UnixMs,
}
