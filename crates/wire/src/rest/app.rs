//! Apps and their tokens.

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
