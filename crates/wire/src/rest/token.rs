//! Tokens of people and programs. Those of workers belong to their app, see [`super::TokenAsk`].

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::words;

/// Asks for a token. The newest two of the scope `read` are valid, so that they can be rotated.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenNew {
    /// What it shall open: `read`.
    #[cfg_attr(feature = "schema", schema(value_type = words::NewScope))]
    pub scope: String,
}

/// A token was made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokenShown {
    /// What it opens.
    #[cfg_attr(feature = "schema", schema(value_type = words::NewScope))]
    pub scope: String,
    /// The token, shown this once.
    pub token: String,
}

/// A valid token, as it is listed: whatever it is, it is not shown again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Token {
    /// `admin`, `read` or `worker`.
    #[cfg_attr(feature = "schema", schema(value_type = words::TokenScope))]
    pub scope: String,
    /// Of a worker token, the app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// When it was made.
    pub at: String,
    /// The beginning of its SHA-256, in hexadecimal, to tell it from others.
    pub digest: String,
}
