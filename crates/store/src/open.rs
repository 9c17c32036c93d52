//! Opening a data directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rota_core::time::UnixMs;
use rota_port::store::Error;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use crate::backup::part_in;
use crate::byjob::ByJob;
use crate::child;
use crate::dir::{DataDir, private, restoring_in};
use crate::key::Key;
use crate::migrate::{APPLICATION_ID, MIGRATIONS, migrate};
use crate::query::SqliteQuery;
use crate::segment::Tally;
use crate::sqlite::{SqliteStore, load_apps};
use crate::{failure, segment};

/// Pages that the writer keeps, in KiB: what the runs of some ten seconds touch.
const WRITER_CACHE_KIB: i32 = 32 << 10;
/// How long the writer waits for another program that locks the file, in milliseconds.
const WRITER_WAIT_MS: u32 = 100;
/// Log pages after which a commit moves them into the file: 32 MiB.
const CHECKPOINT_PAGES: u32 = 8_192;
/// Distinct statements that stay prepared: a dozen for each of some segments, and all the others.
const STATEMENTS_MAX: usize = 256;

/// What keeps a data directory from being opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{dir} is in use by {holder}; stop it, or choose another directory", dir = dir.display(), holder = holder_text(*pid, *since))]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process that has it.
        pid: Option<u32>,
        /// Since when.
        since: Option<UnixMs>,
    },
    /// A newer binary made it.
    #[error(
        "the database has schema {found}, and this binary knows schema {known} at most; start the newer binary again, or restore the copy made before the upgrade"
    )]
    Newer {
        /// The file's schema.
        found: u32,
        /// This binary's.
        known: u32,
    },
    /// It is damaged, or no database.
    #[error("{file} cannot be read as a database ({reason}); restore a backup, or move the directory away to begin anew", file = file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// It is another program's.
    #[error("{file} is a database, but not one of Rota; choose another directory", file = file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The number of partitions is fixed when a store is made.
    #[error("the store was made with {stored} partitions, not {asked}; set {stored}, the number cannot be changed")]
    Partitions {
        /// What it was made with.
        stored: u16,
        /// What was asked for.
        asked: u16,
    },
    /// A restore into it did not end.
    #[error("a restore into {dir} did not end; remove the directory and restore again", dir = dir.display())]
    Restoring {
        /// The directory.
        dir: PathBuf,
    },
    /// The key of its secrets is gone.
    #[error("{path} is missing, the key of the secrets in the database; put it back from where the directory was copied", path = path.display())]
    KeyMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The key is another one's.
    #[error("{path} is not the key of this database; put back the one that belongs to it", path = path.display())]
    KeyWrong {
        /// The key.
        path: PathBuf,
    },
    /// A migration failed; nothing of it was applied.
    #[error("the migration to schema {version} failed; nothing was changed")]
    Migration {
        /// The schema it leads to.
        version: u32,
        /// Why.
        source: Error,
    },
    /// A file cannot be used.
    #[error("cannot {what} {path}", path = path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database cannot be used now.
    #[error("the database cannot be used")]
    Store(#[from] Error),
}

impl OpenError {
    pub(crate) fn file(what: &'static str, path: &Path, source: std::io::Error) -> OpenError {
        OpenError::File { what, path: path.to_owned(), source }
    }

    pub(crate) fn database(file: &Path, error: rusqlite::Error) -> OpenError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                OpenError::Corrupt { file: file.to_owned(), reason: error.to_string() }
            }
            Some(_) | None => OpenError::Store(failure::of(error)),
        }
    }
}

fn holder_text(pid: Option<u32>, since: Option<UnixMs>) -> String {
    let pid = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
    since.map_or(pid.clone(), |since| format!("{pid} since {since}"))
}

/// Opens the directory's store, and makes it if there is none: its one writer, and a reader.
///
/// `partitions` must be what the store was made with. The directory stays locked until the writer is
/// dropped.
pub fn open(dir: &Path, partitions: u16) -> Result<(SqliteStore, SqliteQuery), OpenError> {
    assert!(partitions > 0, "a store has at least one partition");
    let locked = DataDir::open(dir)?;
    if restoring_in(dir).exists() {
        return Err(OpenError::Restoring { dir: dir.to_owned() });
    }
    // A backup that was under way when the process before ended.
    let _ = std::fs::remove_file(part_in(dir));
    open_in(locked, partitions)
}

/// The same in a directory that is locked already.
pub(crate) fn open_in(dir: DataDir, partitions: u16) -> Result<(SqliteStore, SqliteQuery), OpenError> {
    let file = dir.database();
    private().truncate(false).open(&file).map_err(|source| OpenError::file("open", &file, source))?;
    let conn = connect(&file).map_err(|e| OpenError::database(&file, e))?;
    let is_new = migrate(&conn, &file, MIGRATIONS)?;
    let key = Key::open(&dir.key(), is_new || !has_key_check(&conn).map_err(|e| OpenError::database(&file, e))?)?;
    found(&conn, partitions, &key, &dir)?;
    let read = |e| OpenError::database(&file, e);
    let mut segments = segment::load(&conn).map_err(read)?;
    let apps = load_apps(&conn, partitions).map_err(read)?;
    let byjob = Arc::new(ByJob::new(segments.iter().filter(|segment| !segment.is_indexed).map(|segment| segment.id)));
    for segment in &mut segments {
        // What is empty is counted.
        if segment::is_empty(&conn, segment.id).map_err(read)? {
            segment.tally = Tally::EMPTY;
            byjob.complete(segment.id);
        }
    }
    let query = SqliteQuery::new(file.clone(), key.clone(), Arc::clone(&byjob));
    let parents = child::load_parents(&conn).map_err(read)?;
    let mut store = SqliteStore::new(conn, dir, partitions, key, apps, segments, byjob);
    store.parents = parents;
    Ok((store, query))
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(file, flags)?;
    conn.busy_timeout(std::time::Duration::from_millis(u64::from(WRITER_WAIT_MS)))?;
    conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    conn.execute_batch(&format!(
        "PRAGMA synchronous = FULL;
         PRAGMA cache_size = -{WRITER_CACHE_KIB};
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
         PRAGMA journal_size_limit = 67108864;
         PRAGMA temp_store = MEMORY;
         PRAGMA foreign_keys = OFF;"
    ))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(conn)
}

pub(crate) const KEY_CHECK: &str = "key_check";

fn has_key_check(conn: &Connection) -> rusqlite::Result<bool> {
    meta::<Vec<u8>>(conn, KEY_CHECK).map(|check| check.is_some())
}

fn meta<T: rusqlite::types::FromSql>(conn: &Connection, name: &str) -> rusqlite::Result<Option<T>> {
    conn.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).optional()
}

/// Writes what a new store begins with, all at once; checks it in a store that exists.
fn found(conn: &Connection, partitions: u16, key: &Key, dir: &DataDir) -> Result<(), OpenError> {
    let read = |e| OpenError::database(&dir.database(), e);
    if let Some(stored) = meta::<u16>(conn, "partitions").map_err(read)? {
        if stored != partitions {
            return Err(OpenError::Partitions { stored, asked: partitions });
        }
        let check = meta::<Vec<u8>>(conn, KEY_CHECK).map_err(read)?.unwrap_or_default();
        return match key.unseal(&check, KEY_CHECK) {
            Some(_) => Ok(()),
            None => Err(OpenError::KeyWrong { path: dir.key() }),
        };
    }
    let check = key.seal("rota", KEY_CHECK)?;
    failure::transaction(conn, || {
        let write = || -> rusqlite::Result<()> {
            conn.pragma_update(None, "application_id", APPLICATION_ID)?;
            let mut meta = conn.prepare("INSERT INTO meta (name, value) VALUES (?1, ?2)")?;
            meta.execute(("partitions", partitions))?;
            meta.execute((KEY_CHECK, &check))?;
            meta.execute(("ids_next", 1))?;
            meta.execute(("jobs_next", rota_core::id::JobId::FIRST.0))?;
            let header = "INSERT INTO partition (id, epoch, seq, mark, at, floor) VALUES (?1, 0, 0, 0, 0, ?2)";
            let mut header = conn.prepare(header)?;
            for id in 0..partitions {
                header.execute((id, i64::MAX))?;
            }
            segment::create(conn, 1, 0, UnixMs(0))
        };
        write().map_err(failure::of)
    })?;
    Ok(())
}
