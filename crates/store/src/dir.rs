//! The data directory: whose it is, and where its files are.
//!
//! It belongs to one process, proved by an exclusive lock on `rota.lock` that is held for the life of
//! the store. The lock goes with its process, however that ends; what the file says is for people.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rota_core::time::UnixMs;

use crate::open::OpenError;

/// A directory that this process has for itself.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Closing it gives the lock away.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if it is not there, and takes its lock.
    pub(crate) fn open(path: &Path) -> Result<DataDir, OpenError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|source| OpenError::file("make the directory", path, source))?;
        let lock_path = path.join("rota.lock");
        let opened = private().truncate(false).open(&lock_path);
        let mut lock = opened.map_err(|source| OpenError::file("open", &lock_path, source))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(holder(path, &mut lock)),
            Err(TryLockError::Error(source)) => return Err(OpenError::file("lock", &lock_path, source)),
        }
        let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        written.map_err(|source| OpenError::file("write", &lock_path, source))?;
        Ok(DataDir { path: path.to_owned(), _lock: lock })
    }

    /// The database.
    pub(crate) fn database(&self) -> PathBuf {
        database_in(&self.path)
    }

    /// The key that secrets are stored under.
    pub(crate) fn key(&self) -> PathBuf {
        key_in(&self.path)
    }
}

/// The database of a data directory.
pub(crate) fn database_in(dir: &Path) -> PathBuf {
    dir.join("rota.db")
}

/// The key of a data directory.
pub(crate) fn key_in(dir: &Path) -> PathBuf {
    dir.join("rota.key")
}

/// Where a restore works until it is done.
pub(crate) fn restoring_in(dir: &Path) -> PathBuf {
    dir.join("restoring")
}

/// Opens for reading and writing, and makes a file that only its owner may read.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

/// The process that has the lock. It wrote the file when it took it, so the file's time is its start.
fn holder(dir: &Path, lock: &mut File) -> OpenError {
    let mut text = String::new();
    let read = lock.read_to_string(&mut text);
    let pid = read.ok().and_then(|_| text.trim().parse().ok());
    let since = lock.metadata().and_then(|metadata| metadata.modified()).ok();
    let since = since.and_then(|time| i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok());
    OpenError::InUse { dir: dir.to_owned(), pid, since: since.map(UnixMs) }
}
