//! What SQLite's errors mean for the caller, and the transaction in which they are met.

use rota_port::store::Error;
use rusqlite::{Connection, ErrorCode, ffi};

/// An error before COMMIT: nothing was changed.
pub(crate) fn of(error: rusqlite::Error) -> Error {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OperationInterrupted
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly,
        ) => Error::Unavailable(text.into()),
        // Whatever else it says, and whatever it does not say: a row that cannot be, or a file that is damaged.
        Some(_) | None => Error::Corrupt(text.into()),
    }
}

/// An error at COMMIT. A full disk or a lock refused it whole; after anything else, only a recovery
/// can say whether it is in the log.
fn at_commit(error: rusqlite::Error) -> Error {
    let text = error.to_string();
    let refused = match error.sqlite_error() {
        Some(ffi::Error {
            code: ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, ..
        }) => true,
        Some(ffi::Error { code: ErrorCode::SystemIoFailure, extended_code }) => {
            // After a failed fsync nobody knows what reached the disk.
            ![ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC].contains(extended_code)
        }
        Some(_) | None => false,
    };
    if refused { Error::Unavailable(text.into()) } else { Error::Unknown(text.into()) }
}

/// Runs `body` in one transaction. An error of it rolls everything back.
pub(crate) fn transaction<T>(conn: &Connection, body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    run(conn, "BEGIN IMMEDIATE").map_err(of)?;
    let done = body().and_then(|value| run(conn, "COMMIT").map(|()| value).map_err(at_commit));
    // SQLite has rolled back by itself after some errors.
    if done.is_err() && !conn.is_autocommit() {
        run(conn, "ROLLBACK").map_err(|e| Error::Unknown(format!("cannot roll back: {e}").into()))?;
    }
    done
}

fn run(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

/// A row that contradicts the others.
pub(crate) fn wrong(text: impl Into<String>) -> Error {
    Error::Corrupt(text.into().into())
}
