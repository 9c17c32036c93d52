//! Many changes of jobs in one call.

use serde::{Deserialize, Serialize};

use super::{JobNow, JobSaved, JobSpec};
use crate::error::Error;

/// Changes that one call may bring, and names that one may ask for.
pub const BATCH_MAX: usize = 1_000;

/// Changes of jobs, each carried out as if it had come alone: one that is refused does not stop the others.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The job file that the changes come from, by its name; absent: they are made by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub managed_by: Option<String>,
    /// At most 1,000, each of another job.
    #[cfg_attr(feature = "schema", schema(max_items = 1000))]
    pub changes: Vec<JobChange>,
}

/// One change of one job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobChange {
    /// What is done.
    pub op: Op,
    /// The job, by its name or id; absent for `create`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// What the job shall be; for `create` and `edit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<JobSpec>,
    /// The version that the change is made on top of; absent: whatever version there is. Not for `create`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Why the job is paused; with `pause`, or with a specification that is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 1000))]
    pub reason: Option<String>,
}

/// What a change does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Makes a job.
    Create,
    /// Changes a job.
    Edit,
    /// Pauses a job.
    Pause,
    /// Resumes a job.
    Resume,
    /// Deletes a job.
    Delete,
}

/// What became of the changes, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BatchDone {
    /// One for each change.
    pub results: Vec<Changed>,
}

/// What became of a change: one of the three.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Changed {
    /// It was made or edited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<JobSaved>,
    /// It was paused, resumed or deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<JobNow>,
    /// It was refused, as a call of its own would have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// Asks for jobs by their names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobsNamed {
    /// At most 1,000.
    #[cfg_attr(feature = "schema", schema(max_items = 1000))]
    pub names: Vec<String>,
}
