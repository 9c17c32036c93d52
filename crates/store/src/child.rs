//! Notes of ended parents: written with the end, taken away with the answer.

use std::collections::BTreeSet;

use rota_core::batch::{Batch, Row, RunState};
use rota_core::child::{Link, Note, is_end, is_fired_by};
use rota_core::id::{AppId, JobId, PartitionId, RunId, Version};
use rota_core::time::UnixMs;
use rota_core::upstream::Ended;
use rota_port::child::Notes;
use rota_port::store::Error;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};

use crate::commit::Writer;
use crate::failure::{of, wrong};
use crate::query::SqliteQuery;

const NOTE_COLUMNS: &str = "no, job, app, version, parent, state, slot, at";

/// The number that a store keeps for how a run has to end.
pub(crate) fn code(when: Ended) -> u8 {
    match when {
        Ended::Success => 0,
        Ended::Failure => 1,
        Ended::Completion => 2,
    }
}

fn ended(code: u8) -> Option<Ended> {
    [Ended::Success, Ended::Failure, Ended::Completion].into_iter().find(|when| self::code(*when) == code)
}

/// Jobs that fire others, or did once: whoever is not among them has no edge.
pub(crate) fn load_parents(conn: &Connection) -> rusqlite::Result<BTreeSet<JobId>> {
    let mut statement = conn.prepare("SELECT DISTINCT upstream FROM upstream WHERE fires IS NOT NULL AND token = 0")?;
    statement.query_map([], |row| row.get(0).map(JobId))?.collect()
}

/// A child that an end fires.
struct Fired {
    job: JobId,
    app: AppId,
    version: Version,
}

impl Writer<'_> {
    /// Notes the ends that a batch holds, for the children that there are after it.
    pub(crate) fn note_ends(&mut self, batch: &Batch) -> Result<(), Error> {
        if self.store.parents.is_empty() && self.changes.parents.is_empty() {
            return Ok(());
        }
        for row in &batch.rows {
            if let Row::RunSet { run, job, state, .. } = row
                && is_end(*state)
                && (self.store.parents.contains(job) || self.changes.parents.contains(job))
            {
                self.note_child(batch, *run, *job, *state)?;
            }
        }
        Ok(())
    }

    fn note_child(&mut self, batch: &Batch, parent: RunId, of_job: JobId, state: RunState) -> Result<(), Error> {
        let fired = fired(self.conn, of_job, state).map_err(of)?;
        if fired.is_empty() {
            return Ok(());
        }
        let segment = self.store.segments[self.segment_of(parent)].id;
        let sql = format!("SELECT slot FROM run_{segment} WHERE id = ?1");
        let slot = self
            .conn
            .prepare_cached(&sql)
            .and_then(|mut found| found.query_row([parent.0.cast_signed()], |row| row.get::<_, i64>(0)).optional());
        let slot = slot.map_err(of)?.ok_or_else(|| wrong(format!("there is no run {parent}")))?;
        for Fired { job, app, version } in fired {
            let partition = self.store.partition_of_app(app).ok_or_else(|| wrong(format!("there is no app {app}")))?;
            let insert = "INSERT INTO note (partition, job, app, version, parent, state, slot, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let (parent, state) = (parent.0.cast_signed(), state.code());
            self.cold(insert, params![partition.0, job.0, app.0, version.0, parent, state, slot, batch.at.0])?;
            self.changes.notes += 1;
        }
        Ok(())
    }
}

fn fired(conn: &Connection, parent: JobId, state: RunState) -> rusqlite::Result<Vec<Fired>> {
    let sql = "SELECT u.job, j.app, j.version, u.fires FROM upstream u JOIN job j ON j.id = u.job \
         WHERE u.upstream = ?1 AND u.token = 0 AND u.fires IS NOT NULL ORDER BY u.job";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([parent.0])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let when = ended(row.get(3)?).ok_or_else(|| odd(3))?;
        if is_fired_by(when, state) {
            found.push(Fired { job: JobId(row.get(0)?), app: AppId(row.get(1)?), version: Version(row.get(2)?) });
        }
    }
    Ok(found)
}

/// Keeps what came of a note, and takes the note away.
pub(crate) fn answer(conn: &Connection, link: &Link) -> rusqlite::Result<()> {
    let values = params![link.run.0.cast_signed(), link.parent.0.cast_signed(), link.note.cast_signed()];
    conn.prepare_cached("INSERT INTO child (run, parent, note) VALUES (?1, ?2, ?3)")?.execute(values)?;
    conn.prepare_cached("DELETE FROM note WHERE no = ?1")?.execute([link.note.cast_signed()]).map(drop)
}

/// Whose end fired a run.
pub(crate) fn link(conn: &Connection, run: RunId) -> rusqlite::Result<Option<Link>> {
    let mut statement = conn.prepare_cached("SELECT run, parent, note FROM child WHERE run = ?1")?;
    statement.query_row([run.0.cast_signed()], read_link).optional()
}

/// What the end of a run has fired, oldest first.
pub(crate) fn links_of(conn: &Connection, parent: RunId, limit: u32) -> rusqlite::Result<Vec<Link>> {
    let sql = "SELECT run, parent, note FROM child WHERE parent = ?1 ORDER BY run LIMIT ?2";
    conn.prepare_cached(sql)?.query_map(params![parent.0.cast_signed(), limit], read_link)?.collect()
}

/// What the end of a run shall fire yet.
pub(crate) fn notes_of(conn: &Connection, parent: RunId) -> rusqlite::Result<Vec<Note>> {
    let sql = format!("SELECT {NOTE_COLUMNS} FROM note WHERE parent = ?1 ORDER BY no");
    conn.prepare_cached(&sql)?.query_map([parent.0.cast_signed()], read_note)?.collect()
}

/// Notes of a partition above a number, in order.
pub(crate) fn notes(conn: &Connection, partition: PartitionId, after: u64, limit: u32) -> rusqlite::Result<Vec<Note>> {
    let sql = format!("SELECT {NOTE_COLUMNS} FROM note WHERE partition = ?1 AND no > ?2 ORDER BY no LIMIT ?3");
    conn.prepare_cached(&sql)?.query_map(params![partition.0, after.cast_signed(), limit], read_note)?.collect()
}

fn read_link(row: &SqlRow<'_>) -> rusqlite::Result<Link> {
    let number = |column| row.get(column).map(i64::cast_unsigned);
    Ok(Link { run: RunId(number(0)?), parent: RunId(number(1)?), note: number(2)? })
}

fn read_note(row: &SqlRow<'_>) -> rusqlite::Result<Note> {
    let number = |column| row.get(column).map(i64::cast_unsigned);
    Ok(Note {
        no: number(0)?,
        job: JobId(row.get(1)?),
        app: AppId(row.get(2)?),
        version: Version(row.get(3)?),
        parent: RunId(number(4)?),
        state: RunState::from_code(row.get(5)?).ok_or_else(|| odd(5))?,
        slot: UnixMs(row.get(6)?),
        at: UnixMs(row.get(7)?),
    })
}

fn odd(column: usize) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, "an end that cannot be".into())
}

impl Notes for SqliteQuery {
    fn partitions_noted(&self, after: u64) -> Result<Vec<(PartitionId, u64)>, Error> {
        self.ask(|conn| {
            let sql = "SELECT partition, max(no) FROM note WHERE no > ?1 GROUP BY partition ORDER BY partition";
            let mut statement = conn.prepare_cached(sql)?;
            let found = statement.query_map([after.cast_signed()], |row| {
                Ok((PartitionId(row.get(0)?), row.get::<_, i64>(1)?.cast_unsigned()))
            })?;
            found.collect()
        })
    }

    fn notes(&self, partition: PartitionId, after: u64, limit: u32) -> Result<Vec<Note>, Error> {
        self.ask(|conn| notes(conn, partition, after, limit))
    }

    fn notes_left(&self, partition: PartitionId, upto: u64) -> Result<u32, Error> {
        self.ask(|conn| {
            let sql = "SELECT count(*) FROM note WHERE partition = ?1 AND no <= ?2";
            conn.prepare_cached(sql)?.query_row(params![partition.0, upto.cast_signed()], |row| row.get(0))
        })
    }
}
