//! The native worker protocol over HTTP.
//!
//! Worker → server, under `/api/v1/workers`, with the app's worker token: `POST` [`Register`],
//! `{id}/beat` [`Beat`], `{id}/results` [`Results`], `{id}/logs` [`Logs`] (answered 204), `{id}/drain` and
//! `DELETE {id}` [`Leave`].
//!
//! Server → worker, under `{url}/internal/tasks/`, with the worker's own secret as bearer:
//! `execute` [`Execute`], `cancel` and `probe` [`Enquiry`]; and `GET {url}/internal/identity` [`Identity`],
//! without a secret, when a worker registers.
//!
//! Ids are integers below 2^53. Times are RFC 3339; durations are milliseconds.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A worker registers: at its start, and whenever the server answers `worker_unknown`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Tenant boundary.
    #[serde(default = "default_namespace")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub namespace: String,
    /// The app; the token must be the app's.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub app: String,
    /// Unique in the app, and best stable over restarts.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub name: String,
    /// This start of the process: any positive number below 2^53 that no other start has.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 9007199254740991i64))]
    pub incarnation: u64,
    /// Where the server calls this worker, as `http://host:port`.
    #[cfg_attr(feature = "schema", schema(max_length = 2048))]
    pub url: String,
    /// What the server's calls carry as bearer; made by the worker, at least 16 characters.
    #[cfg_attr(feature = "schema", schema(min_length = 16, max_length = 1024))]
    pub callback_secret: String,
    /// The handlers that it offers.
    #[cfg_attr(feature = "schema", schema(max_items = 1000))]
    pub handlers: Vec<String>,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Attempts that it runs at once; 0 is unlimited.
    #[serde(default)]
    pub capacity: u32,
    /// Attempts that one call to `execute-list` may bring it; 0: it takes them one at a time.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "schema", schema(maximum = 1000))]
    pub list_max: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The namespace of whoever names none.
#[must_use]
pub fn default_namespace() -> String {
    "default".to_owned()
}

/// The answer to [`Register`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Registered {
    /// The worker's id, for the paths of its further calls.
    pub worker: u32,
    /// `online`, or `unreachable` if the address could not be reached.
    #[cfg_attr(feature = "schema", schema(value_type = crate::rest::words::WorkerState))]
    pub state: String,
    /// What is wrong with the address, if it could not be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How often to beat, in milliseconds.
    pub beat_ms: u64,
    /// Silence after which this worker's attempts count as lost, in milliseconds.
    pub dead_ms: u64,
}

/// A worker says that it is alive, and what it holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// This start of the process.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 9007199254740991i64))]
    pub incarnation: u64,
    /// Counts the beats of this incarnation, from 1. `running` and `finished` were composed after
    /// every answer that named a `next_beat` at or below this.
    pub no: u64,
    /// Attempts that it runs.
    #[cfg_attr(feature = "schema", schema(max_items = 10000))]
    pub running: Vec<u64>,
    /// Attempts that have finished, whose results are not acknowledged yet.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 10000))]
    pub finished: Vec<u64>,
    /// Attempts that it runs at once, if that changed since it registered; 0 is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Its labels, if they changed since it registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// The answer to [`Beat`], `drain` and `DELETE`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkerNow {
    /// `online`, `draining`, `unreachable` or `offline`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::rest::words::WorkerState))]
    pub state: String,
}

/// A worker drains or leaves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Leave {
    /// This start of the process.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 9007199254740991i64))]
    pub incarnation: u64,
}

/// A worker reports finished attempts; again and again, until they are acknowledged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// This start of the process.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 9007199254740991i64))]
    pub incarnation: u64,
    /// What finished.
    #[cfg_attr(feature = "schema", schema(max_items = 10000))]
    pub results: Vec<AttemptResult>,
}

/// One finished attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AttemptResult {
    /// The attempt.
    pub attempt: u64,
    /// Its run.
    pub run: u64,
    /// Its shard.
    pub shard: u32,
    /// Its number.
    pub no: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// What the handler said; cut by the server beyond 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How an attempt ended on its worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The handler succeeded.
    Success,
    /// The handler failed.
    Failed,
    /// It was stopped at its deadline.
    Timeout,
    /// It was stopped because the server asked for it.
    Killed,
}

/// The answer to [`Results`]: what is durable, and need not be reported again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Acknowledged {
    /// The attempts.
    pub acknowledged: Vec<u64>,
}

/// Lines that attempts printed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// This start of the process.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 9007199254740991i64))]
    pub incarnation: u64,
    /// The lines, by attempt.
    #[cfg_attr(feature = "schema", schema(max_items = 10000))]
    pub logs: Vec<LogLines>,
}

/// Lines of one attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LogLines {
    /// Its run.
    pub run: u64,
    /// Its shard.
    pub shard: u32,
    /// Its number.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000))]
    pub no: u32,
    /// The lines, without their ends.
    pub lines: Vec<String>,
    /// Whether no more follow.
    #[serde(default)]
    pub is_last: bool,
}

/// The server asks a worker to run an attempt. Answered 202 with [`Accepted`], or 409 with [`Refused`].
///
/// The same attempt again is answered 202 and not run again. Its parameter does not print: it may hold secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execute {
    /// The incarnation that it is meant for; another one refuses.
    pub incarnation: u64,
    /// The sender's term; a worker refuses one that is lower than the highest that it has seen.
    pub epoch: u64,
    /// The attempt.
    pub attempt: u64,
    /// Its run.
    pub run: u64,
    /// Its shard, from 0.
    pub shard: u32,
    /// Shards of the run.
    pub shards: u32,
    /// Its number within the shard, from 1.
    pub no: u32,
    /// The same for all attempts of a shard: `run/shard`.
    pub idempotency_key: String,
    /// The job's id.
    pub job: u32,
    /// The job's name.
    pub job_name: String,
    /// The job's version.
    pub version: u32,
    /// What made the run: `schedule`, `manual` or `api`.
    pub origin: String,
    /// The slot, with the offset of the job's zone.
    pub slot: String,
    /// Zone of the slot.
    pub zone: String,
    /// The handler.
    pub handler: String,
    /// Its parameter.
    pub param: String,
    /// How long it may run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// In a list, the trace that the attempt belongs to; alone, a header says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// Several dispatches in one call, to a worker that registered with a `list_max`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExecuteList {
    /// The dispatches, in the order in which they were routed; at least one, each attempt once.
    pub tasks: Vec<Execute>,
}

/// What became of each dispatch of a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListAccepted {
    /// The number of the next beat that the worker composes.
    pub next_beat: u64,
    /// How many it has, and will report: all of the list but `refused`.
    pub accepted: u32,
    /// Those that it does not run, and never will under their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<ListRefused>,
}

/// A dispatch of a list that its worker refuses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListRefused {
    /// The attempt.
    pub attempt: u64,
    /// Why.
    pub refused: Refusal,
}

impl fmt::Debug for Execute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Execute");
        shown.field("attempt", &self.attempt).field("run", &self.run).field("shard", &self.shard);
        shown.field("no", &self.no).field("job_name", &self.job_name).field("handler", &self.handler);
        shown.finish_non_exhaustive()
    }
}

/// The worker has the attempt, and will report it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Accepted {
    /// The number of the next beat that the worker composes.
    pub next_beat: u64,
}

/// The worker does not run the attempt, and never will under this number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// Why.
    pub refused: Refusal,
}

/// Why a worker refuses an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// It is meant for another start of this worker.
    ForeignIncarnation,
    /// A newer term has spoken to this worker.
    StaleEpoch,
    /// It was cancelled, or a probe for it was answered `never_seen`.
    Cancelled,
    /// The worker drains.
    Draining,
    /// The worker does not offer the handler.
    UnknownHandler,
    /// The worker runs as much as it may.
    Full,
}

/// The server asks after an attempt (`probe`), or wants it stopped (`cancel`). Answered 200 with [`Status`],
/// or 409 with [`Refused`] `stale_epoch` if a newer term has spoken to the worker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Enquiry {
    /// The incarnation that the attempt was meant for.
    pub incarnation: u64,
    /// The sender's term.
    pub epoch: u64,
    /// The attempt.
    pub attempt: u64,
    /// Its run.
    pub run: u64,
    /// Its shard.
    pub shard: u32,
    /// Its number.
    pub no: u32,
}

/// What a worker knows of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum Status {
    /// It was never seen; from now on it is refused.
    NeverSeen,
    /// It runs; after a cancel: it is being stopped.
    Running {
        /// The number of the next beat that the worker composes.
        next_beat: u64,
    },
    /// It has finished.
    Finished {
        /// Its result.
        result: AttemptResult,
    },
    /// Another start of this worker is here.
    ForeignIncarnation,
}

/// Who listens at an address.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// The worker's name.
    pub name: String,
    /// This start of it.
    pub incarnation: u64,
}
