//! The server, what it does right now, and its workers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Frozen;
#[cfg(feature = "schema")]
use super::words;

/// A server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Server {
    /// Version of Rota.
    pub version: String,
    /// Version of the time-zone database.
    pub tzdb: String,
    /// Versions of the store's schema and engine.
    pub store: String,
    /// Partitions of the store.
    pub partitions: u32,
    /// Shards of all apps that may have a worker and not be sent yet.
    #[serde(default)]
    pub pending_max: u32,
    /// How fast dispatches of all apps together may begin, as in `50/s`; absent: as fast as they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// How many may begin at once, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// How many may begin now, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// The server's wall clock.
    pub now: String,
    /// Zone of jobs that name none.
    #[serde(default = "utc")]
    pub timezone: String,
    /// Whether it is a playground, see `rota dev`.
    pub is_dev: bool,
    /// Whether it takes work.
    pub is_ready: bool,
    /// Why it takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<String>,
    /// Why the clock lets no slot fire (`clock_suspect`, `clock_behind`), if it lets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<String>,
    /// The open freezes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frozen: Vec<Frozen>,
    /// Jobs that fire.
    pub jobs_enabled: u64,
    /// Jobs that are paused.
    pub jobs_paused: u64,
    /// Jobs without a further slot.
    pub jobs_finished: u64,
    /// Open runs.
    pub runs_open: u64,
    /// Open attempts.
    pub attempts_open: u64,
    /// Open attempts in doubt.
    pub in_doubt: u64,
    /// Slots that wait without a row.
    pub held: u64,
    /// Workers that beat.
    pub workers_online: u64,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// The live state that has no row, as the server last published it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Live {
    /// When the oldest part of this was published.
    pub at: String,
    /// Open attempts, oldest first, at most 1,000.
    pub attempts: Vec<OpenAttempt>,
    /// How many attempts are open.
    pub attempts_open: u64,
    /// The next slots, soonest first, at most 20.
    pub next: Vec<Next>,
    /// Slots that wait without a row, longest first, at most 1,000.
    pub held: Vec<Held>,
    /// Jobs that this version of Rota cannot read.
    pub broken: Vec<Broken>,
}

/// An open attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenAttempt {
    /// Its run, as it is printed.
    pub run: String,
    /// The job's id.
    pub job: u32,
    /// The job's name.
    pub job_name: String,
    /// Its shard.
    pub shard: u32,
    /// Its number.
    pub no: u32,
    /// The worker's name; `server` for URL jobs.
    pub worker_name: String,
    /// `dispatched`, `running`, `in_doubt` or `stopping`.
    #[cfg_attr(feature = "schema", schema(value_type = words::AttemptState))]
    pub state: String,
    /// Since when it is dispatched.
    pub at: String,
}

/// A slot to come.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Next {
    /// The job's id.
    pub job: u32,
    /// The job's name.
    pub job_name: String,
    /// The slot, in the job's zone.
    pub slot: String,
}

/// A slot that waits without a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Held {
    /// The job's id.
    pub job: u32,
    /// The job's name.
    pub job_name: String,
    /// The app.
    pub app: String,
    /// The slot, in the job's zone.
    pub slot: String,
    /// Whether it was due more than 60 s ago.
    pub is_overdue: bool,
    /// Why, in a word.
    pub why: String,
    /// Why, in a clause.
    pub text: String,
    /// Since when.
    pub since: String,
}

/// A stored job that this version of Rota cannot read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Broken {
    /// The job's id.
    pub job: u32,
    /// What is wrong with it.
    pub message: String,
}

/// A worker: what it registered, and what is known of it now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Worker {
    /// Its id.
    pub id: u32,
    /// Its app.
    pub app: String,
    /// Its name.
    pub name: String,
    /// This start of it.
    pub incarnation: u64,
    /// Where it is called.
    pub url: String,
    /// `online`, `draining`, `unreachable` or `offline`.
    #[cfg_attr(feature = "schema", schema(value_type = words::WorkerState))]
    pub state: String,
    /// What is wrong with it and what would help, if something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The handlers that it offers.
    pub handlers: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Attempts that it runs at once; 0 is unlimited.
    pub capacity: u32,
    /// Unreleased attempts.
    pub load: u32,
    /// Committed-or-sending attempts.
    pub sending: u32,
    /// Milliseconds since it was last heard; absent if it is not live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// When this incarnation registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_at: Option<String>,
}
