//! The one shape of every refusal.

use serde::{Deserialize, Serialize};

/// Why a request was refused: what is wrong, where, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Error {
    /// A word that programs may rely on; each has a page under `docs/errors`.
    pub code: String,
    /// One clause for people.
    pub message: String,
    /// The field that is wrong, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
