//! Runs, their attempts, their logs, and their stories.

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::words;

/// A row of the ledger: a run, or the reason why a slot or a range of slots had none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Run {
    /// As it is printed: `r…`.
    pub run: String,
    /// As a number.
    pub id: u64,
    /// The job's id.
    pub job: u32,
    /// The job's name, also if it is deleted.
    pub job_name: String,
    /// The app.
    pub app: String,
    /// The version of the job that made it.
    pub version: u32,
    /// `schedule`, `manual`, `api`, `rerun` or `backfill`.
    #[cfg_attr(feature = "schema", schema(value_type = words::Origin))]
    pub origin: String,
    /// The slot in the job's zone, or the moment of the trigger.
    pub slot: String,
    /// The last slot of a range; absent for one slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_last: Option<String>,
    /// How many slots it covers.
    pub slots: u64,
    /// `pending`, `dispatched`, `running`, `success`, `failed`, `timeout`, `killed`, `lost`,
    /// `skipped`, `merged`, `discarded` or `rejected`.
    #[cfg_attr(feature = "schema", schema(value_type = words::RunState))]
    pub state: String,
    /// Whether the state is final.
    pub is_ended: bool,
    /// The reason, in a word, if it is not on its happy path; of an open run, why its first waiting shard waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Shards; 0 for rows without a dispatch.
    pub shards: u32,
    /// When it was decided.
    pub at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// From the slot to the decision, for scheduled runs, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ms: Option<i64>,
    /// From the decision to the end, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<i64>,
    /// The worker of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The highest number of attempts that a shard had; lists leave it at 0 for runs of more than 16 shards.
    pub tries: u32,
    /// Attempts that a shard may have before the job's retries are spent.
    pub tries_max: u32,
    /// The beginning of what the last attempt said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The run that it repeats, of origin `rerun`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun_of: Option<String>,
    /// The backfill that it belongs to, of origin `backfill`: `b…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<String>,
    /// The run whose end fired it, of origin `upstream`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_by: Option<String>,
    /// The run that stands for it, if it is `merged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<String>,
}

/// A run with all its attempts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunDetail {
    /// The run.
    #[serde(flatten)]
    pub run: Run,
    /// The parameter that replaced the job's, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// Its attempts, by shard and number; at most 1,000.
    pub attempts: Vec<Attempt>,
    /// What to give as `after` to `GET /runs/{run}/attempts` for those beyond; absent if these are all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_next: Option<String>,
    /// Its shards that wait, as the server last published it.
    #[serde(default)]
    pub waiting: Vec<Waiting>,
}

/// A shard that is admitted and waits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Waiting {
    /// The shard, from 0.
    pub shard: u32,
    /// Why, in a word.
    pub why: String,
    /// Why, in a clause.
    pub text: String,
    /// The worker that it is for, if it may go to no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Milliseconds until its next attempt, if it waits for a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
}

/// One dispatch of a shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// Its id.
    pub id: u64,
    /// Its shard, from 0.
    pub shard: u32,
    /// Its number within the shard, from 1.
    pub no: u32,
    /// The worker's id; absent for URL jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<u32>,
    /// The worker's name; `server` for URL jobs.
    pub worker_name: String,
    /// `dispatched`, `running`, `in_doubt`, `stopping`, `success`, `failed`, `timeout`, `killed`, `lost` or `not_started`.
    #[cfg_attr(feature = "schema", schema(value_type = words::AttemptState))]
    pub state: String,
    /// The reason, in a word, if it is not on its happy path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it was decided.
    pub at: String,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// When its place was given away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<String>,
    /// What the handler said; at most 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What happened to a run, in words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Story {
    /// The run.
    pub run: Run,
    /// Job, slot, version and outcome in one line.
    pub title: String,
    /// What happened, in order.
    pub lines: Vec<StoryLine>,
    /// What to type next.
    pub hints: Vec<String>,
}

/// One line of a story.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StoryLine {
    /// When, in the job's zone; absent for facts without an instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What the line is about: `due`, `gate`, `shard 3 try 1`, `not retried`, `next slot`.
    pub about: String,
    /// What there is to say.
    pub text: String,
}

/// A part of an attempt's log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LogWindow {
    /// The run.
    pub run: String,
    /// The shard.
    pub shard: u32,
    /// The attempt's number.
    pub attempt: u32,
    /// Where the part begins, in bytes.
    pub from: u64,
    /// Whole lines, each with its end.
    pub text: String,
    /// Where to read on.
    pub next: u64,
    /// Bytes that are there.
    pub len: u64,
    /// Whether no more will be written.
    pub is_closed: bool,
}

/// A run, or a shard of it, was killed: the kill is durable, what it started is being stopped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Killed {
    /// As it is printed: `r…`.
    pub run: String,
    /// As a number.
    pub id: u64,
    /// The shard that was killed; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    /// The run's state now: `killed`, or one that has not ended while what it started is being stopped.
    #[cfg_attr(feature = "schema", schema(value_type = words::RunState))]
    pub state: String,
}
