//! Ranges of the past that run on demand.

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::words;

/// A range of the past that a job shall run, or that is only looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BackfillAsk {
    /// The first instant: RFC 3339, or `2026-11-01`, or `2026-11-01 02:00`, in the job's zone.
    pub from: String,
    /// The first instant after the range, not later than now; now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How fast its runs are made: `10/s` (if absent), `30/m`, `100/h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<String>,
    /// How many of its runs may be open at once, from 1 to 10,000; absent: as many as the pace makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
    /// Why, in the words of whoever asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Unique per job for seven days: the same id with the same body is answered with the same backfill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// What a backfill would do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BackfillPlan {
    /// The job's id.
    pub job: u32,
    /// Its name.
    pub job_name: String,
    /// The version that would run.
    pub version: u32,
    /// The first instant, in the job's zone.
    pub from: String,
    /// The first instant after the range.
    pub to: String,
    /// Slots in the range.
    pub total: u64,
    /// The first few of them.
    pub first: Vec<String>,
    /// The last few, without those that are among the first.
    pub last: Vec<String>,
    /// How fast its runs would be made.
    pub pace: String,
    /// How many of them may be open at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
    /// How long it takes to make all runs at this pace: the least that the backfill takes.
    pub takes_ms: u64,
    /// What else it waits for, and what it does not wait for; one sentence each.
    pub notes: Vec<String>,
}

/// A range of the past that runs, or ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Backfill {
    /// As it is printed: `b…`.
    pub backfill: String,
    /// As a number.
    pub id: u64,
    /// The job's id.
    pub job: u32,
    /// The job's name, also if it is deleted.
    pub job_name: String,
    /// The app.
    pub app: String,
    /// The version of the job that runs.
    pub version: u32,
    /// The first instant, in the job's zone.
    pub from: String,
    /// The first instant after the range.
    pub to: String,
    /// `running`, `done` or `cancelled`.
    #[cfg_attr(feature = "schema", schema(value_type = words::BackfillState))]
    pub state: String,
    /// Why it was cancelled, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Slots that have a run.
    pub made: u64,
    /// Slots of the range.
    pub total: u64,
    /// The first slot without a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How fast its runs are made.
    pub pace: String,
    /// How many of its runs may be open at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
    /// While it runs: its runs that are open, or still hold a place, as the server last published it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<u64>,
    /// While it runs: why it makes no run now, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The same in a clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_text: Option<String>,
    /// While it runs: how long the rest takes at its pace, at the least, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// When it was asked for.
    pub at: String,
    /// By whom.
    pub by: String,
    /// What for, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Who cancelled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Whether an earlier request with the same `request_id` asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_repeated: bool,
}

/// Lets a backfill make no more runs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BackfillCancel {
    /// Kill its open runs; else they go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kill: bool,
}
