//! Apps and their tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An app.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct App {
    /// Its id.
    pub id: u32,
    /// Tenant boundary.
    pub namespace: String,
    /// Unique in its namespace; `@url` holds the jobs that call URLs without naming an app.
    pub name: String,
    /// Shards that may be admitted and not yet sent.
    pub pending_max: u32,
    /// How fast its dispatches may begin, as in `50/s`; absent: as fast as they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// How many may begin at once, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The rates of groups of its workers, by label selector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, AppRate>,
    /// Where it stands.
    #[serde(default)]
    pub valve: Valve,
}

/// A rate.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AppRate {
    /// `50/s`, `10/m`, `3/h` or `1/10s`.
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub rate: String,
    /// How many may begin at once; absent: what comes in a second, and at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000000))]
    pub burst: Option<u32>,
}

/// What stands between an app and its dispatches, as its machine last published it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Valve {
    /// Shards that are admitted and not yet sent.
    pub pending: u32,
    /// Tokens of its rate, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// Tokens of its groups, by label selector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, u32>,
    /// How many slots wait, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, u64>,
}

/// Makes an app, or changes its settings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AppPut {
    /// Shards that may be admitted and not yet sent; absent: as it is, or 1,000 for a new app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub pending_max: Option<u32>,
    /// How fast its dispatches may begin, as in `50/s`, `10/m`, `3/h` or `1/10s`; `none`: as fast as they can; absent:
    /// as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub rate: Option<String>,
    /// How many may begin at once, with `rate`; absent: what comes in a second, and at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000000))]
    pub burst: Option<u32>,
    /// The rates of groups of its workers, by label selector, in place of those before; absent: as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeMap<String, AppRate>>,
}

/// Asks for a worker token of an app. The newest two tokens of an app are valid, so that they can be rotated.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenAsk {
    /// A token that exists elsewhere and shall be valid here: at least 16 characters, not a well-known one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 16, max_length = 1024))]
    pub adopt: Option<String>,
}

/// A token was made, or taken over.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokenMade {
    /// Whose.
    pub app: String,
    /// The token, shown this once; absent if it was taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}
