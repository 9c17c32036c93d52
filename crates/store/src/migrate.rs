//! Bringing a file to this binary's schema. Forward only; a file from a newer binary is left alone.
//!
//! A new migration is a new file in `migrations/` and a line here; one that was released never changes.

use std::path::Path;

use rota_port::store::Error;
use rusqlite::{Connection, OptionalExtension};

use crate::failure;
use crate::open::OpenError;

/// Marks the file as ours ("rota" in ASCII), so that another program's database is not taken for one.
pub(crate) const APPLICATION_ID: i32 = 0x726f_7461;

/// One step of the schema.
pub(crate) struct Migration {
    /// The schema's version after it, counting from 1.
    pub(crate) version: u32,
    pub(crate) sql: &'static str,
}

/// All steps, in order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("../migrations/0001_first.sql") },
    Migration { version: 2, sql: include_str!("../migrations/0002_secrets.sql") },
    Migration { version: 3, sql: include_str!("../migrations/0003_past.sql") },
    Migration { version: 4, sql: include_str!("../migrations/0004_managed.sql") },
    Migration { version: 5, sql: include_str!("../migrations/0005_policies.sql") },
    Migration { version: 6, sql: include_str!("../migrations/0006_causes.sql") },
];

/// Applies what is missing. Before it changes a schema that is in use, it copies the file aside.
/// Answers whether the database is new.
pub(crate) fn migrate(conn: &Connection, file: &Path, steps: &[Migration]) -> Result<bool, OpenError> {
    let found = version(conn).map_err(|e| OpenError::database(file, e))?;
    let known = steps.last().map_or(0, |step| step.version);
    if found > known {
        return Err(OpenError::Newer { found, known });
    }
    let is_new = found == 0;
    if is_new {
        check_empty(conn, file)?;
    } else if found < known {
        set_aside(conn, file, found)?;
    }
    for step in steps.iter().filter(|step| step.version > found) {
        apply(conn, step).map_err(|source| OpenError::Migration { version: step.version, source })?;
    }
    Ok(is_new)
}

/// The schema's version; 0 if there is none.
pub(crate) fn version(conn: &Connection) -> rusqlite::Result<u32> {
    let has_table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'";
    if conn.query_row(has_table, [], |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    conn.query_row("SELECT coalesce(max(version), 0) FROM schema_version", [], |row| row.get(0))
}

/// A file without our version table that holds tables is not ours.
fn check_empty(conn: &Connection, file: &Path) -> Result<(), OpenError> {
    let tables = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, u32>(0));
    match tables.map_err(|e| OpenError::database(file, e))? {
        0 => Ok(()),
        _ => Err(OpenError::Foreign { file: file.to_owned() }),
    }
}

/// Everything is moved from the log into the file first, so that the file alone is the whole database.
fn set_aside(conn: &Connection, file: &Path, version: u32) -> Result<(), OpenError> {
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(|e| OpenError::database(file, e))?;
    let copy = file.with_extension(format!("db.v{version}"));
    let copied = std::fs::copy(file, &copy).and_then(|_| std::fs::File::open(&copy)?.sync_all());
    copied.map_err(|source| OpenError::file("copy the database to", &copy, source))
}

fn apply(conn: &Connection, step: &Migration) -> Result<(), Error> {
    failure::transaction(conn, || {
        let table = "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)";
        conn.execute_batch(table).map_err(failure::of)?;
        conn.execute_batch(step.sql).map_err(failure::of)?;
        conn.execute("INSERT INTO schema_version (version) VALUES (?1)", [step.version]).map_err(failure::of)?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: &str = "ALTER TABLE app ADD COLUMN note TEXT NOT NULL DEFAULT ''";
    const BROKEN: &str = "ALTER TABLE app ADD COLUMN other TEXT; ALTER TABLE nothing ADD COLUMN x";

    fn steps(more: &[&'static str]) -> Vec<Migration> {
        let first = MIGRATIONS.iter().map(|step| step.sql);
        let all = first.chain(more.iter().copied());
        all.zip(1..).map(|(sql, version)| Migration { version, sql }).collect()
    }

    #[test]
    fn steps_go_forward_and_leave_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rota.db");
        let conn = Connection::open(&file).unwrap();
        assert!(migrate(&conn, &file, MIGRATIONS).unwrap());
        let first = version(&conn).unwrap();
        conn.execute("INSERT INTO app (namespace, name, pending_max) VALUES ('n', 'a', 1)", []).unwrap();
        assert!(!migrate(&conn, &file, MIGRATIONS).unwrap());
        assert!(!migrate(&conn, &file, &steps(&[SECOND])).unwrap());
        assert_eq!(version(&conn).unwrap(), first + 1);
        let note: String = conn.query_row("SELECT note FROM app WHERE name = 'a'", [], |row| row.get(0)).unwrap();
        assert_eq!(note, "");
        let copy = Connection::open(dir.path().join(format!("rota.db.v{first}"))).unwrap();
        assert_eq!(version(&copy).unwrap(), first);
        assert_eq!(copy.query_row("SELECT count(*) FROM app", [], |row| row.get::<_, u32>(0)).unwrap(), 1);
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rota.db");
        let conn = Connection::open(&file).unwrap();
        migrate(&conn, &file, MIGRATIONS).unwrap();
        let before = version(&conn).unwrap();
        assert!(matches!(migrate(&conn, &file, &steps(&[BROKEN])), Err(OpenError::Migration { .. })));
        assert_eq!(version(&conn).unwrap(), before);
        assert!(conn.prepare("SELECT other FROM app").is_err());
    }

    #[test]
    fn a_newer_schema_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rota.db");
        let conn = Connection::open(&file).unwrap();
        migrate(&conn, &file, &steps(&[SECOND])).unwrap();
        let refused = migrate(&conn, &file, MIGRATIONS).unwrap_err();
        let known = MIGRATIONS.last().unwrap().version;
        assert!(
            matches!(refused, OpenError::Newer { found, known: k } if found == known + 1 && k == known),
            "{refused}"
        );
    }
}
