//! Backups: a tar archive of the database as it was at one moment, with what belongs to it, and a manifest that proves
//! that all of it is there.
//!
//! The moment is that of a read transaction, so commits go on meanwhile; what they write stays in the log until the copy
//! is made. Logs of attempts are copied as they are, each file for itself: they are evidence, not the ledger.
//!
//! Invariants: the manifest comes last, so an archive with a manifest is whole, and its sums say that it is unharmed;
//! without the key no secret of a backup can be read.
//!
//! Absent on purpose: increments, compression (both belong to whatever stores the archive), and more than one at a time.

mod copy;
mod restore;
mod tar;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};

use rota_core::time::UnixMs;
use rota_port::backup::{Backup, Contents, Error};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use restore::{Restore, RestoreError, Restored, Secrets, restore};

pub(crate) use copy::part_in;

use crate::dir::{DataDir, database_in, key_in};
use crate::failure::of;
use crate::open::OpenError;

/// The form of the archive that this binary writes, and the newest that it reads.
const FORMAT: u32 = 1;
const DATABASE: &str = "rota.db";
const KEY: &str = "rota.key";
const LOGS: &str = "logs/";
const MANIFEST: &str = "manifest.json";
const PIECE: usize = 256 << 10;

/// What an archive says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of the archive.
    pub format: u32,
    /// The version of Rota that wrote it.
    pub version: String,
    /// The schema of the database.
    pub schema: u32,
    /// Partitions of the store.
    pub partitions: u16,
    /// When the copy was begun, in milliseconds since 1970; whatever was committed before is in it.
    pub taken_at_ms: i64,
    /// The era of the store: 0, or when it was last restored.
    pub era: u64,
    /// Whether the key of the secrets is in it.
    pub has_key: bool,
    /// Whether the logs of attempts are in it.
    pub has_logs: bool,
    /// Every other file, in order.
    pub files: Vec<Entry>,
}

/// One file of an archive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// Backups of a data directory that this process has open.
#[derive(Debug)]
pub struct SqliteBackup {
    dir: PathBuf,
    busy: Mutex<()>,
}

impl SqliteBackup {
    /// For the directory of an open store.
    #[must_use]
    pub fn new(dir: &Path) -> SqliteBackup {
        SqliteBackup { dir: dir.to_owned(), busy: Mutex::new(()) }
    }
}

impl Backup for SqliteBackup {
    fn write(&self, now: UnixMs, contents: Contents, to: &mut dyn Write) -> Result<(), Error> {
        let _turn = match self.busy.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::WouldBlock) => return Err(Error::Busy),
            // Whoever panicked had nothing in memory that another backup would need.
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
        };
        write(&self.dir, now, contents, to)
    }
}

/// Writes a backup of a directory that no server has open; it is locked meanwhile.
pub fn write_offline(dir: &Path, now: UnixMs, contents: Contents, to: &mut dyn Write) -> Result<(), OfflineError> {
    let file = database_in(dir);
    if !file.exists() {
        return Err(OfflineError::Nothing { dir: dir.to_owned() });
    }
    let _lock = DataDir::open(dir)?;
    Ok(write(dir, now, contents, to)?)
}

/// Why a directory could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// There is nothing in it.
    #[error("{dir} holds no database; --data names the directory of a server", dir = dir.display())]
    Nothing {
        /// The directory.
        dir: PathBuf,
    },
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be copied.
    #[error(transparent)]
    Backup(#[from] Error),
}

fn write(dir: &Path, now: UnixMs, contents: Contents, to: &mut dyn Write) -> Result<(), Error> {
    let copy = copy::Copy::make(dir).map_err(of).map_err(Error::Store)?;
    let mtime_s = u64::try_from(now.0 / 1_000).unwrap_or(0);
    let mut archive = Archive { to, mtime_s, files: Vec::new() };
    let mut database = File::open(copy.path())?;
    let bytes = database.metadata()?.len();
    archive.file(DATABASE, bytes, &mut database)?;
    if contents.has_key {
        let key = std::fs::read(key_in(dir))?;
        archive.file(KEY, key.len() as u64, &mut key.as_slice())?;
    }
    if contents.has_logs {
        logs(&dir.join("logs"), &mut archive)?;
    }
    let facts = copy.facts;
    let manifest = Manifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        schema: facts.schema,
        partitions: facts.partitions,
        taken_at_ms: now.0,
        era: facts.era,
        has_key: contents.has_key,
        has_logs: contents.has_logs,
        files: archive.files,
    };
    let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    tar::begin(to, MANIFEST, text.len() as u64, mtime_s)?;
    to.write_all(&text)?;
    tar::pad(to, text.len() as u64)?;
    tar::finish(to)?;
    Ok(to.flush()?)
}

/// Every file of the logs, each as it is when its turn comes; one that is swept meanwhile is left out.
fn logs(dir: &Path, archive: &mut Archive<'_>) -> io::Result<()> {
    let mut names: Vec<String> = match std::fs::read_dir(dir) {
        Ok(entries) => entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    names.sort_unstable();
    for name in names.iter().filter(|name| is_log_name(name)) {
        match std::fs::read(dir.join(name)) {
            Ok(bytes) => archive.file(&format!("{LOGS}{name}"), bytes.len() as u64, &mut bytes.as_slice())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Names that logs have: none of them leads anywhere else.
fn is_log_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '_';
    !name.is_empty()
        && name.len() <= 80
        && !name.starts_with('.')
        && name.chars().all(is_plain)
        && !name.ends_with(".new")
}

/// An archive that is being written.
struct Archive<'a> {
    to: &'a mut dyn Write,
    mtime_s: u64,
    files: Vec<Entry>,
}

impl Archive<'_> {
    fn file(&mut self, name: &str, bytes: u64, from: &mut dyn Read) -> io::Result<()> {
        tar::begin(self.to, name, bytes, self.mtime_s)?;
        let sha256 = pass(from, self.to, bytes)?;
        tar::pad(self.to, bytes)?;
        self.files.push(Entry { name: name.to_owned(), bytes, sha256 });
        Ok(())
    }
}

/// Carries so many bytes over; their sum.
fn pass(from: &mut dyn Read, to: &mut dyn Write, bytes: u64) -> io::Result<String> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; PIECE];
    let mut left = bytes;
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        from.read_exact(&mut buffer[..want])?;
        sum.update(&buffer[..want]);
        to.write_all(&buffer[..want])?;
        left -= want as u64;
    }
    Ok(hex(&sum.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
