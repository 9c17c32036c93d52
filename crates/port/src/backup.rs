//! Copies of everything durable, taken while a server runs.

use std::io::{self, Write};

use rota_core::time::UnixMs;

use crate::store;

/// What goes into a backup beside the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// The key of the secrets in the database.
    pub has_key: bool,
    /// What attempts printed.
    pub has_logs: bool,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another one is under way.
    #[error("another backup is under way")]
    Busy,
    /// The store cannot be copied.
    #[error("the store cannot be copied")]
    Store(#[from] store::Error),
    /// What was copied cannot be read, or what is written to does not take it.
    #[error("a file cannot be read or written")]
    File(#[from] io::Error),
}

/// Makes backups.
pub trait Backup: Send + Sync {
    /// Writes one whole backup, as it is at one moment not before `now`, while commits go on. Blocks until it is
    /// written or cannot be. What was written before an error is no backup, and is recognised as none.
    fn write(&self, now: UnixMs, contents: Contents, to: &mut dyn Write) -> Result<(), Error>;
}
