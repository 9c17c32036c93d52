//! What narrows a schedule: clock changes, calendars, bounds.

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::words;

/// How a cron schedule meets a change of the clocks: `default`, `quartz`, or a rule of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "expected `default`, `quartz`, or an object with `gap` and `overlap`")]
pub enum Dst {
    /// `default`: no slot is lost and none is doubled. `quartz`: as Quartz does it.
    Policy(String),
    /// A rule of its own.
    Rule(DstRule),
}

/// What becomes of slots in a gap of the clock, and in an overlap. What is absent is as by default.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DstRule {
    /// `run_after`: once, at the first instant after the gap. `skip`: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::DstGap>))]
    pub gap: Option<String>,
    /// `first`, `last` or `both` of the two passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::DstOverlap>))]
    pub overlap: Option<String>,
}

/// When a schedule has no slots, in the job's zone.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Calendar {
    /// Dates (`2026-10-01`), days of every year (`12-25`), weekdays (`sat`), ranges of each
    /// (`2026-10-01..2026-10-07`, `12-24..01-02`, `sat-sun`) and daily windows (`22:00-06:00`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Dates and ranges of dates that are working days whatever `exclude` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
}

/// From when until when a schedule has slots, both ends in.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Active {
    /// A date in the job's zone, or an instant, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// A date in the job's zone, which is still in, or an instant, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// What becomes of slots whose time has passed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Misfire {
    /// `fire_once` (if absent): the newest that is due stands for all. `skip`: none that counts as misfired runs.
    /// `catch_up`: all run, the oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::MisfirePolicy>))]
    pub policy: Option<String>,
    /// A duration, from one second: a slot that is later counts as misfired; `60s` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<String>,
    /// A duration, no shorter than the threshold: how late a slot may be and still run; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// For `catch_up`: so many of the missed slots run, the newest; 1,000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10000))]
    pub max: Option<u32>,
    /// For `catch_up`: how fast they run, as in `10/s` (if absent), `30/m` or `100/h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<String>,
}
