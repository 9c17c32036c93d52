//! What events carry.

use serde::{Deserialize, Serialize};

use super::run::{Run, Waiting};
#[cfg(feature = "schema")]
use super::words;

/// Event `log`: what an attempt printed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LogPart {
    /// The shard, from 0.
    pub shard: u32,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// Where the part begins, in bytes of the attempt's log.
    pub from: u64,
    /// Whole lines, each with its end.
    pub text: String,
}

/// Event `run` of a log that is followed: the run is not as it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Followed {
    /// The run.
    pub run: Run,
    /// What its first waiting shard waits for, if it is for longer than a moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// Event `dropped`: changes that this stream does not tell, since they came faster than they were read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Dropped {
    /// How many, also of runs that this stream is not about.
    pub dropped: u64,
}

/// Event `end`: the last of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StreamEnd {
    /// `ended`: there is no more. `shutdown`, `slow` or `failed`: ask again, with `Last-Event-ID`.
    #[cfg_attr(feature = "schema", schema(value_type = words::StreamEnding))]
    pub reason: String,
    /// What that means, in a clause.
    pub text: String,
}
