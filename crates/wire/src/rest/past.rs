//! The past of jobs and slots: history, explanations, audits, and who is at the top.

use serde::{Deserialize, Serialize};

use super::{Run, StoryLine};

/// A change of a job: a new version, or a new state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobEvent {
    /// When, in the job's zone.
    pub at: String,
    /// Who.
    pub by: String,
    /// `version` or `state`.
    pub kind: String,
    /// The version that was in force after it.
    pub version: u32,
    /// The state after it: `enabled`, `paused`, `finished` or `deleted`. Of a version, the state that the job has or had
    /// at last while it was in force.
    pub state: String,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a version changed, key by key; empty for the first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// A key of a job's specification that two versions differ in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Change {
    /// The key, as in `retry.max`.
    pub key: String,
    /// What it was; absent if it was not given. What is secret shows as `***`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Two versions of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobDiff {
    /// The job's id.
    pub job: u32,
    /// Its name.
    pub job_name: String,
    /// The older version.
    pub from: u32,
    /// The newer version.
    pub to: u32,
    /// When the newer took effect.
    pub at: String,
    /// Who made it.
    pub by: String,
    /// What differs.
    pub changes: Vec<Change>,
}

/// Why a job's state shall change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// In the words of whoever asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of an instant of a job, with a row or without.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SlotStory {
    /// The job's id.
    pub job: u32,
    /// Its name.
    pub job_name: String,
    /// The slot that was meant, or the instant if none was, in the job's zone.
    pub at: String,
    /// What explains it: `covered`, `server_down`, `held`, `behind_held`, `due`, `frozen`, `paused`, `suspended`, `future`, `not_created`,
    /// `edited`, `calendar`, `outside_active`, `jitter`, `no_match`, `not_scheduled`, `ended`, `deleted`, `pruned`, `unreadable` or `hole`.
    pub code: String,
    /// Whether the ledger is at fault: a slot that should have a row has none.
    pub is_hole: bool,
    /// The same in one line.
    pub title: String,
    /// The version that was in force, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The row that covers it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// The slot before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The slot after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// What there is to say, in order.
    pub lines: Vec<StoryLine>,
    /// What to type next.
    pub hints: Vec<String>,
}

/// One line of an audit's answer, which is a stream of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditLine {
    /// How far it is.
    Progress {
        /// Rows read.
        rows: u64,
    },
    /// What does not agree.
    Finding(AuditFinding),
    /// A job that this version of Rota cannot read, and did not audit.
    Unreadable {
        /// The job's id.
        job: u32,
        /// What is wrong with it.
        message: String,
    },
    /// The end.
    Summary(AuditSummary),
    /// The end, if it came too early.
    Broken(crate::error::Error),
}

/// A slot on which ledger and schedule do not agree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditFinding {
    /// The job's id.
    pub job: u32,
    /// Its name.
    pub job_name: String,
    /// `hole`, `double`, `unfounded` or `miscounted`.
    pub what: String,
    /// The slot, or the first of them, in the job's zone.
    pub slot: String,
    /// The last of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_last: Option<String>,
    /// How many.
    pub slots: u64,
    /// The row at fault; a hole has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// What an audit counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditSummary {
    /// The first instant that was looked at.
    pub since: String,
    /// The last one.
    pub until: String,
    /// Whether it begins later than asked, since the retention has dropped what was before.
    pub is_cut: bool,
    /// Jobs.
    pub jobs: u64,
    /// Rows.
    pub rows: u64,
    /// Slots that they cover.
    pub slots: u64,
    /// Slots without a row.
    pub holes: u64,
    /// Slots with more than one.
    pub doubles: u64,
    /// Rows without a slot, or that count others than they cover.
    pub unfounded: u64,
    /// Slots that are due and still wait.
    pub waiting: u64,
    /// Jobs that could not be read.
    pub unreadable: u64,
    /// Findings that were counted and not listed.
    pub unlisted: u64,
    /// Whether everything agrees.
    pub is_clean: bool,
}

/// Jobs in order of what is wrong with them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Top {
    /// `failing`, `late` or `slow`.
    pub by: String,
    /// Runs decided from here on were counted.
    pub since: String,
    /// Whether it begins later than asked: there were more runs than one answer counts.
    pub is_cut: bool,
    /// Runs counted.
    pub runs: u64,
    /// The jobs, worst first.
    pub items: Vec<TopJob>,
}

/// What a job did in a span.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TopJob {
    /// The job's id.
    pub job: u32,
    /// Its name.
    pub job_name: String,
    /// Its app.
    pub app: String,
    /// Runs that ended.
    pub runs: u64,
    /// Those that failed, timed out or were lost.
    pub failures: u64,
    /// The same for a thousand runs.
    pub failures_per_mille: u64,
    /// Slots that had no run.
    pub skipped: u64,
    /// From slot to decision, of scheduled runs.
    pub late: Spread,
    /// From decision to end.
    pub took: Spread,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// How long things took, in milliseconds. Percentiles are right to an eighth; the largest is exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Half of them took at most this.
    pub p50_ms: i64,
    /// All but one in a hundred took at most this.
    pub p99_ms: i64,
    /// The longest.
    pub max_ms: i64,
}

/// A job's last failure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LastFailure {
    /// The run.
    pub run: String,
    /// When it ended, in the job's zone.
    pub at: String,
    /// How.
    pub state: String,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The beginning of what its last attempt said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Lets nothing be started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FreezeAsk {
    /// Why; everybody sees it.
    pub reason: String,
    /// Only of this app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
}

/// Ends a freeze.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ThawAsk {
    /// What becomes of the slots that were frozen: `skip` (if absent) or `fire_once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
    /// The freeze of this app; if absent, the one of everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
}

/// What is frozen now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FrozenNow {
    /// Whether this call changed anything.
    pub is_changed: bool,
    /// The open freezes.
    pub frozen: Vec<Frozen>,
}

/// An open freeze: scheduled slots wait, triggers are refused, what runs goes on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Frozen {
    /// The app; absent if it is everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Since when.
    pub since: String,
    /// Who wanted it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Whether only a part of the server is frozen: a freeze or a thaw was interrupted, and should be asked for again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
}

/// Runs again what has ended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RerunAsk {
    /// Only the shards that did not succeed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed_shards: bool,
    /// Unique per job for seven days: the same id with the same body is answered with the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The run that a rerun made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Rerun {
    /// As it is printed: `r…`.
    pub run: String,
    /// As a number.
    pub id: u64,
    /// The run that it repeats.
    pub rerun_of: String,
    /// The job's name.
    pub job_name: String,
    /// The version of the job that both are of.
    pub version: u32,
    /// The slot that both have.
    pub slot: String,
    /// Shards in all.
    pub shards: u32,
    /// Shards that run again.
    pub shards_run: u32,
    /// Whether an earlier request with this `request_id` made it.
    pub is_repeated: bool,
}
