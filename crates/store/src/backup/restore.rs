//! From an archive to a directory that a server can be started on.
//!
//! Everything is made in a folder inside the directory and moved up at the very end, the database last; until then the
//! directory is one that no server starts on. The directory is locked meanwhile.
//!
//! After it, nothing that was given out after the backup can be taken for anything that is given out now: ids begin
//! above the present time, and every epoch above whatever terms there can have been since, one a millisecond.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rota_core::batch::{Batch, Row};
use rota_core::id::{Block, PartitionId, Seq, id_floor};
use rota_core::restore::{Counts, Since, answers, rows};
use rota_core::time::UnixMs;
use rota_port::store::{Error, Store};
use rusqlite::Connection;

use super::{DATABASE, FORMAT, KEY, LOGS, MANIFEST, Manifest, copy, is_log_name, pass, tar};
use crate::child;
use crate::claim;
use crate::dir::{DataDir, database_in, key_in, private, restoring_in};
use crate::failure::of;
use crate::key::{self, Key};
use crate::migrate::MIGRATIONS;
use crate::open::{KEY_CHECK, OpenError, open_in};
use crate::sqlite::SqliteStore;

/// A manifest is a few lines for each file.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// Epochs that a clock of a few seconds' difference may have used up beside one a millisecond.
const EPOCHS_SPARE: u64 = 100_000;
/// Ids may run ahead of time by a few reserves; a minute is more than that.
const IDS_SPARE: u64 = 60 << 20;
/// Rows of one commit.
const ROWS_PER_COMMIT: usize = 20_000;
/// Partitions looked at at once.
const CHUNK: usize = 8;
/// Notes answered in one commit.
const NOTES_PER_COMMIT: u32 = 5_000;

/// Where the key of the secrets comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Secrets {
    /// From the archive.
    Inside,
    /// From this file.
    File(PathBuf),
    /// Nowhere: what was sealed is dropped, and workers register anew.
    Dropped,
}

/// What to restore, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restore {
    /// The directory; it must be empty, or not be there.
    pub dir: PathBuf,
    /// What to do with the slots since the backup.
    pub since: Since,
    /// The key.
    pub secrets: Secrets,
    /// Now.
    pub now: UnixMs,
}

/// What was restored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// Of the backup.
    pub manifest: Manifest,
    /// What was decided about the time since.
    pub counts: Counts,
}

/// Why nothing was restored. The directory is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is something in the directory.
    #[error("{dir} is not empty ({found} is in it); restore into a new directory, and keep the old one until the new one works", dir = dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// What is in it.
        found: String,
    },
    /// The archive has no manifest at its end.
    #[error("the backup is cut off or damaged: {0}")]
    Damaged(String),
    /// A newer binary wrote it.
    #[error(
        "the backup was written by Rota {version} ({what} {found}), and this binary knows {what} {known} at most; restore with that version or a newer one"
    )]
    Newer {
        /// Its version.
        version: String,
        /// Of what.
        what: &'static str,
        /// Its number.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The key is not in it.
    #[error(
        "the backup holds no key, and without it no secret in it can be read; give the key file of the old directory, or drop the secrets: workers register anew by themselves"
    )]
    NoKey,
    /// The clock.
    #[error(
        "the wall clock stands at {now}, before the backup was taken at {taken_at}; set it right first, since ids grow with time"
    )]
    ClockBehind {
        /// Now.
        now: UnixMs,
        /// Then.
        taken_at: UnixMs,
    },
    /// A directory or file cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store refuses.
    #[error("the restored database cannot be used")]
    Store(#[from] Error),
}

/// Restores an archive. Nothing fires before a server is started on the directory.
pub fn restore(archive: &mut dyn Read, what: &Restore) -> Result<Restored, RestoreError> {
    let lock = DataDir::open(&what.dir)?;
    check_empty(&what.dir)?;
    let part = restoring_in(&what.dir);
    let made = DirBuilder::new().mode(0o700).create(&part);
    made.map_err(|source| OpenError::file("make the directory", &part, source))?;
    let restored = fill(archive, what, &part).and_then(|restored| {
        move_up(&part, &what.dir).map_err(|source| OpenError::file("move what was restored to", &what.dir, source))?;
        Ok(restored)
    });
    if restored.is_err()
        && let Err(error) = std::fs::remove_dir_all(&part)
    {
        tracing::warn!(dir = %part.display(), %error, "restore_left");
    }
    drop(lock);
    restored
}

fn check_empty(dir: &Path) -> Result<(), RestoreError> {
    let entries = std::fs::read_dir(dir).map_err(|source| OpenError::file("look into", dir, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| OpenError::file("look into", dir, source))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Ours, and what a file system of its own begins with.
        if !["rota.lock", "lost+found"].contains(&name.as_str()) {
            return Err(RestoreError::NotEmpty { dir: dir.to_owned(), found: name });
        }
    }
    Ok(())
}

fn fill(archive: &mut dyn Read, what: &Restore, part: &Path) -> Result<Restored, RestoreError> {
    let manifest = unpack(archive, part)?;
    check(&manifest, what.now)?;
    place_key(&manifest, what, part)?;
    let file = database_in(part);
    prepare(&file, &manifest, what).map_err(|error| OpenError::database(&file, error))?;
    let (mut store, _) = open_in(DataDir::open(part)?, manifest.partitions)?;
    let reason = format!("restored from the backup of {}; look first", UnixMs(manifest.taken_at_ms));
    let counts = decide(&mut store, what, &reason)?;
    Ok(Restored { manifest, counts })
}

/// Writes every file into the folder; the manifest must come last, and say the same of them.
fn unpack(archive: &mut dyn Read, part: &Path) -> Result<Manifest, RestoreError> {
    let torn = |error: io::Error| {
        let is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
        RestoreError::Damaged(if is_cut { "it ends in the middle".to_owned() } else { error.to_string() })
    };
    let mut found = Vec::new();
    loop {
        let Some((name, bytes)) = tar::next(archive).map_err(torn)? else {
            return Err(RestoreError::Damaged("it has no manifest".to_owned()));
        };
        if name == MANIFEST {
            return read_manifest(archive, bytes, &found);
        }
        let is_ours = [DATABASE, KEY].contains(&name.as_str()) || name.strip_prefix(LOGS).is_some_and(is_log_name);
        if !is_ours {
            return Err(RestoreError::Damaged(format!("there is no place for `{name}`")));
        }
        let path = part.join(&name);
        let to_file = |source| OpenError::file("write", &path, source);
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(to_file)?;
        }
        let mut file = private().truncate(true).open(&path).map_err(to_file)?;
        let sha256 = pass(archive, &mut file, bytes).map_err(torn)?;
        file.sync_all().map_err(to_file)?;
        tar::skip_pad(archive, bytes).map_err(torn)?;
        found.push(super::Entry { name, bytes, sha256 });
    }
}

fn read_manifest(archive: &mut dyn Read, bytes: u64, found: &[super::Entry]) -> Result<Manifest, RestoreError> {
    let damaged = |text: &str| RestoreError::Damaged(text.to_owned());
    if bytes > MANIFEST_BYTES_MAX {
        return Err(damaged("its manifest is too large"));
    }
    let mut text = Vec::new();
    archive.take(bytes).read_to_end(&mut text).map_err(|error| RestoreError::Damaged(error.to_string()))?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| RestoreError::Damaged(format!("its manifest: {error}")))?;
    if let Some(entry) = manifest.files.iter().find(|entry| !found.contains(entry)) {
        return Err(RestoreError::Damaged(format!("{} is not what the manifest says", entry.name)));
    }
    if manifest.files.len() != found.len() || !manifest.files.iter().any(|entry| entry.name == DATABASE) {
        return Err(damaged("its files are not those of the manifest"));
    }
    Ok(manifest)
}

fn check(manifest: &Manifest, now: UnixMs) -> Result<(), RestoreError> {
    let schema = MIGRATIONS.last().map_or(0, |step| step.version);
    for (what, found, known) in [("format", manifest.format, FORMAT), ("schema", manifest.schema, schema)] {
        if found > known {
            return Err(RestoreError::Newer { version: manifest.version.clone(), what, found, known });
        }
    }
    let taken_at = UnixMs(manifest.taken_at_ms);
    if now < taken_at { Err(RestoreError::ClockBehind { now, taken_at }) } else { Ok(()) }
}

fn place_key(manifest: &Manifest, what: &Restore, part: &Path) -> Result<(), RestoreError> {
    let to = key_in(part);
    match &what.secrets {
        Secrets::Inside if manifest.has_key => Ok(()),
        Secrets::Inside => Err(RestoreError::NoKey),
        Secrets::File(from) => {
            let bytes = std::fs::read(from).map_err(|source| OpenError::file("read", from, source))?;
            let written = private().truncate(true).open(&to).and_then(|mut file| file.write_all(&bytes));
            Ok(written.map_err(|source| OpenError::file("write", &to, source))?)
        }
        Secrets::Dropped => Ok(key::make(&to)?),
    }
}

/// What must be true before anything reads the store: its epochs and ids are above all that there can have been.
fn prepare(file: &Path, manifest: &Manifest, what: &Restore) -> rusqlite::Result<()> {
    let conn = Connection::open(file)?;
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(code, Some(verdict)));
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    // A term takes more than a millisecond, so there were fewer of them.
    let terms = u64::try_from(what.now.since_ms(UnixMs(manifest.taken_at_ms))).unwrap_or(0) + EPOCHS_SPARE;
    conn.execute("UPDATE partition SET epoch = epoch + ?1", [terms.cast_signed()])?;
    let first = id_floor(what.now) + IDS_SPARE;
    conn.execute("UPDATE meta SET value = max(value, ?1) WHERE name = 'ids_next'", [first.cast_signed()])?;
    let era = (copy::era(&conn)? + 1).max(u64::try_from(what.now.0 / 1_000).unwrap_or(0));
    conn.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('era', ?1)", [era.cast_signed()])?;
    if what.secrets == Secrets::Dropped {
        drop_secrets(&conn, file)?;
    }
    conn.execute_batch("COMMIT")
}

/// Takes everything out that was sealed under a key which is not there.
fn drop_secrets(conn: &Connection, file: &Path) -> rusqlite::Result<()> {
    conn.execute("DELETE FROM worker", [])?;
    let has = |table| {
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
        conn.query_row(sql, [table], |row| row.get::<_, u32>(0)).map(|count| count > 0)
    };
    if has("retired_secret")? {
        conn.execute("DELETE FROM retired_secret", [])?;
    }
    if has("secret")? {
        conn.execute_batch("DELETE FROM secret; UPDATE definition SET headers = NULL WHERE headers IS NOT NULL")?;
    }
    let dir = file.parent().expect("the database lies in a directory");
    let key = Key::open(&key_in(dir), false).and_then(|key| Ok(key.seal("rota", KEY_CHECK)?));
    let check = key.map_err(|error| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
        rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
    })?;
    conn.execute("UPDATE meta SET value = ?1 WHERE name = ?2", (check, KEY_CHECK))?;
    Ok(())
}

/// Decides about everything since the backup, partition by partition.
fn decide(store: &mut SqliteStore, what: &Restore, reason: &str) -> Result<Counts, RestoreError> {
    let all: Vec<PartitionId> = (0..store.partitions()).map(PartitionId).collect();
    let mut counts = Counts::default();
    for chunk in all.chunks(CHUNK) {
        for loaded in store.claim(chunk)? {
            let wanted = 2 * loaded.jobs.len() as u64 + 1;
            let first = store.reserve_ids(id_floor(what.now), wanted)?;
            let (rows, found) = rows(&loaded, what.since, reason, what.now, &mut Block::new(first, first + wanted));
            counts.slots += found.slots;
            counts.firing += found.firing;
            counts.runs += found.runs;
            let mark = loaded.mark.max(what.now);
            let mut parts: Vec<&[Row]> = rows.chunks(ROWS_PER_COMMIT).collect();
            // The last one moves the mark, also if there is nothing to write.
            let last = parts.pop().unwrap_or(&[]);
            let mut seq = loaded.seq;
            let mut commit = |rows: &[Row], mark: UnixMs, floor: u64| {
                seq = Seq(seq.0 + 1);
                let (partition, epoch) = (loaded.partition, loaded.epoch);
                store.commit(&[Batch { partition, epoch, seq, at: what.now, mark, floor, rows: rows.to_vec() }])
            };
            for rows in parts {
                commit(rows, loaded.mark, 0)?;
            }
            commit(last, mark, u64::MAX)?;
        }
    }
    for partition in all {
        counts.fired += answer_notes(store, partition, what.now)?;
    }
    let conn = &store.conn;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(of)?;
    Ok(counts)
}

/// Answers every note of a partition, those of runs that were closed just now too; gives how many there were.
fn answer_notes(store: &mut SqliteStore, partition: PartitionId, now: UnixMs) -> Result<u64, RestoreError> {
    let mut count = 0;
    loop {
        let notes = child::notes(&store.conn, partition, 0, NOTES_PER_COMMIT).map_err(of)?;
        if notes.is_empty() {
            return Ok(count);
        }
        let first = store.reserve_ids(id_floor(now), notes.len() as u64)?;
        let mut ids = Block::new(first, first + notes.len() as u64);
        let header = claim::header(&store.conn, partition).map_err(of)?;
        let (epoch, seq, mark) = (header.epoch, Seq(header.seq.0 + 1), header.mark);
        let rows = answers(&notes, now, &mut ids);
        store.commit(&[Batch { partition, epoch, seq, at: now, mark, floor: u64::MAX, rows }])?;
        count += notes.len() as u64;
    }
}

/// The database last: without it, the directory is still one that was never used.
fn move_up(part: &Path, dir: &Path) -> io::Result<()> {
    for name in ["rota.key", "logs", DATABASE] {
        let from = part.join(name);
        if from.exists() {
            File::open(&from)?.sync_all()?;
            std::fs::rename(from, dir.join(name))?;
        }
    }
    std::fs::remove_dir_all(part)?;
    File::open(dir)?.sync_all()
}
