//! Why a worker does not start, or ends before it was asked to.

use std::io;
use std::path::PathBuf;

/// Why a worker does not start, or ended before it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is wrong.
    #[error("{field}: {reason}")]
    Invalid {
        /// The setting.
        field: &'static str,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// The address to listen on cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The journal cannot be opened.
    #[error("cannot open the journal {}", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// The server refuses this worker, and will not change its mind by itself.
    #[error("the server refuses this worker: {status} {}", say(error))]
    Refused {
        /// The status of its answer.
        status: u16,
        /// What it says.
        error: rota_wire::error::Error,
    },
    /// A part of the worker panicked; that is a bug of the SDK, not of a handler.
    #[error("a part of the worker panicked: {0}")]
    Broken(&'static str),
}

impl Error {
    pub(crate) fn invalid(field: &'static str, reason: impl Into<String>) -> Error {
        Error::Invalid { field, reason: reason.into() }
    }
}

/// A server's refusal in one clause, with field and hint where it names them.
pub(crate) fn say(error: &rota_wire::error::Error) -> String {
    let mut text = format!("{}: {}", error.code, error.message);
    if let Some(field) = &error.field {
        text.push_str(&format!(" (field {field})"));
    }
    if let Some(hint) = &error.hint {
        text.push_str(&format!("; {hint}"));
    }
    text
}
