//! Logs of attempts: not rows, but segment files beside the database.

use rota_core::id::RunId;
use rota_core::time::UnixMs;

use crate::store::Error;

/// Which attempt's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogKey {
    /// The run.
    pub run: RunId,
    /// The shard, from 0.
    pub shard: u32,
    /// The attempt's number, from 1.
    pub no: u32,
}

/// A window of a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Where it begins, in bytes of the whole log.
    pub from: u64,
    /// Its text; whole lines, each with its end.
    pub text: String,
    /// Where to read on.
    pub next: u64,
    /// Bytes that are there.
    pub len: u64,
    /// Whether no more will be written.
    pub is_closed: bool,
}

/// Writes and reads logs. Head and tail of an attempt's log are kept up to a bound; the cut between
/// them is a line of its own that names how many bytes are missing.
pub trait Logs: Send + Sync {
    /// Adds lines (each without its end) at a time, without waiting for the disk; lines beyond the
    /// writer's queue are dropped, counted, and marked in the log.
    fn append(&self, key: LogKey, at: UnixMs, lines: Vec<String>);
    /// No more lines follow.
    fn close(&self, key: LogKey);
    /// At most `bytes_max` bytes from `from` on; an empty window if there is no log.
    fn read(&self, key: LogKey, from: u64, bytes_max: u32) -> Result<Window, Error>;
}
