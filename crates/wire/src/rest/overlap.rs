//! What happens to a run while earlier ones of its job hold their places.

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::words;

/// An overlap policy: its name alone, or with what it goes by.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(
    untagged,
    expecting = "expected `allow`, `skip`, `queue`, `cancel_running`, `cancel_and_wait`, `merge`, or an object with `policy`"
)]
pub enum Overlap {
    /// The policy, with its defaults.
    #[cfg_attr(feature = "schema", schema(value_type = words::OverlapPolicy))]
    Word(String),
    /// The policy, with what it goes by.
    Rule(OverlapRule),
}

/// An overlap policy with what it goes by.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OverlapRule {
    /// `allow`: beside the others, up to `max`. `skip`: not at all. `queue`: in its turn. `cancel_running`: at once, and
    /// what runs is cancelled. `cancel_and_wait`: once what was cancelled has stopped. `merge`: at most one waits, and
    /// stands for those that come meanwhile.
    #[cfg_attr(feature = "schema", schema(value_type = words::OverlapPolicy))]
    pub policy: String,
    /// How many may run at once; with `allow` any number if absent, with `queue` and `merge` one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10000))]
    pub max: Option<u32>,
    /// How many may wait, with `queue`; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000))]
    pub queue: Option<u32>,
    /// A part of the parameter, by its name: runs with different values of it do not overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub key: Option<String>,
}
