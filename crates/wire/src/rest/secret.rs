//! Secrets: what jobs use by name, and nobody reads.

use serde::{Deserialize, Serialize};

/// Sets a secret. It has no `Debug`: what it holds is not for logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SecretPut {
    /// What `{{secret.NAME}}` is filled in with from the next dispatch on; at most 32 KiB.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 32768))]
    pub value: String,
}

/// A secret as it is listed: whatever its value is, it is not shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Secret {
    /// Its name in templates, after `secret.`.
    pub name: String,
    /// When its value was set.
    pub at: String,
    /// Who set it.
    pub by: String,
    /// Jobs whose current version names it.
    pub used_by: Vec<String>,
    /// What should be known about its value, if anything should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A secret was removed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SecretRemoved {
    /// Its name.
    pub name: String,
    /// Jobs that still name it: their attempts fail with `secret_unknown`.
    pub used_by: Vec<String>,
}
