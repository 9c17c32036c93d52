//! A copy of the database as it is at one moment, made while it is written to.

use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, ffi};

use crate::dir::{database_in, private};
use crate::migrate;

/// Pages that are copied between two looks at whether all are.
const PAGES: i32 = 1_024;
/// How long the copy waits for a recovery after a crash, in milliseconds.
const WAIT_MS: u64 = 2_000;

/// The copy, in a file of its own beside the database. It is removed with this.
pub(super) struct Copy {
    file: PathBuf,
    pub(super) facts: Facts,
}

/// What the copy holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    pub(super) schema: u32,
    pub(super) partitions: u16,
    pub(super) era: u64,
}

impl Copy {
    pub(super) fn make(dir: &Path) -> rusqlite::Result<Copy> {
        let file = part_in(dir);
        // One that a crash left behind is in the way.
        let _ = std::fs::remove_file(&file);
        let from = Connection::open_with_flags(
            database_in(dir),
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        from.busy_timeout(std::time::Duration::from_millis(WAIT_MS))?;
        // From the first read on, this connection sees one state, and the copy never has to begin anew.
        from.execute_batch("BEGIN")?;
        let facts = Facts {
            schema: migrate::version(&from)?,
            partitions: from.query_row("SELECT value FROM meta WHERE name = 'partitions'", [], |row| row.get(0))?,
            era: era(&from)?,
        };
        let copy = Copy { file, facts };
        let made = private().truncate(true).open(&copy.file);
        made.map_err(|error| cannot(format!("cannot make {}: {error}", copy.file.display())))?;
        let mut to = Connection::open(&copy.file)?;
        to.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        let backup = Backup::new(&from, &mut to)?;
        loop {
            match backup.step(PAGES)? {
                StepResult::Done => break,
                StepResult::More => {}
                // Nobody else has the copy, and readers of the database never wait.
                other @ (StepResult::Busy | StepResult::Locked | _) => {
                    return Err(cannot(format!("the copy was interrupted: {other:?}")));
                }
            }
        }
        drop(backup);
        from.execute_batch("COMMIT")?;
        Ok(copy)
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }
}

fn cannot(text: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), Some(text))
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.file) {
            tracing::warn!(file = %self.file.display(), %error, "backup_copy_left");
        }
    }
}

/// Where the copy is made.
pub(crate) fn part_in(dir: &Path) -> PathBuf {
    dir.join("backup.part")
}

/// The era of a store: 0, or when it was last restored.
pub(super) fn era(conn: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT coalesce((SELECT value FROM meta WHERE name = 'era'), 0)";
    conn.query_row(sql, [], |row| row.get(0).map(i64::cast_unsigned))
}
