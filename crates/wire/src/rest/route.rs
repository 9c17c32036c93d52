//! How a worker is chosen.

use serde::{Deserialize, Serialize};
use serde_json::Number;

#[cfg(feature = "schema")]
use super::words;

/// How a worker is chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The strategy; absent: what Rota thinks best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::Strategy>))]
    pub strategy: Option<String>,
    /// A label selector: `disk=ssd, zone in (a|b), !gpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// What a task of the job weighs, in cores, with every strategy; absent: 0.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<f64>, exclusive_minimum = 0, example = 0.5))]
    pub weight: Option<Number>,
    /// How many workers are looked at, by chance; absent or 0: all. For `LEAST_INFLIGHT`, `TASK_WEIGHT` and `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(maximum = 16))]
    pub choices: Option<u32>,
    /// Whether workers with a larger capacity are chosen more often; absent: they are. For `APP_ROUND_ROBIN` and
    /// `RANDOM`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_weighted: Option<bool>,
    /// Whose choices are counted: those of all jobs, or the job's own; absent: `app`. For `LFU` and `LRU`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::RouteScope>))]
    pub scope: Option<String>,
    /// Over how long choices are counted: `24h`, which is also what absent means. For `LFU`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// How places on the ring are computed: `md5_xxl` gives those of XXL-JOB; absent: `xxh3`. For `CONSISTENT_HASH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::RouteHash>))]
    pub hash: Option<String>,
    /// Points of each worker on the ring; absent: 100. For `CONSISTENT_HASH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000))]
    pub vnodes: Option<u32>,
    /// How many times the mean load a worker may carry before others take what belongs to it, from 1; absent: there is
    /// no bound. For `CONSISTENT_HASH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<f64>, minimum = 1, maximum = 100, example = 1.25))]
    pub max_load_factor: Option<Number>,
    /// What that load is: the weight of tasks, or their number; absent: `weight`. For `CONSISTENT_HASH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::LoadUnit>))]
    pub load_unit: Option<String>,
}
