//! The durable store of a server: SQLite for rows, segment files for what attempts print.
//!
//! [`open()`] gives the one writer ([`SqliteStore`]) and a reader ([`SqliteQuery`]) of a data directory,
//! which belongs to one process at a time. Invariants:
//!
//! - A commit is one transaction; it is answered after it is on the disk.
//! - A batch applies only under its partition's epoch and right after the batch before it.
//! - Tables that every run touches have keys that grow with time, and nothing else: a page touched at
//!   random costs 4 KiB of log, whatever the row.
//! - What the writer keeps in memory (how full segments are, which runs a job has in segments without
//!   an index) can be built anew from the file, and is changed only after a commit succeeded.
//!
//! Absent on purpose: decisions, clocks, retries, async. Times are parameters.

mod alerts;
mod backfills;
pub mod backup;
mod byjob;
mod child;
mod claim;
mod codec;
mod commit;
mod dir;
mod failure;
mod groups;
mod key;
pub mod logs;
mod migrate;
mod open;
mod past;
mod plain;
mod query;
mod reserve;
mod segment;
mod sqlite;
mod upkeep;

pub use open::{OpenError, open};
pub use query::SqliteQuery;
pub use sqlite::SqliteStore;
