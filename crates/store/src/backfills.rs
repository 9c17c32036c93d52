//! Backfills: their rows, and which run belongs to which.

use rota_core::backfill::{Backfill, End};
use rota_core::batch::{OpenBackfill, Run};
use rota_core::id::{BackfillId, JobId, PartitionId, RunId, Version};
use rota_core::job::{Definition, JobState};
use rota_core::misfire::Pace;
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_port::history::{BackfillFilter, PAST_MAX};
use rota_port::query::{RUNS_MAX, RunFilter};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::codec::{self, DEFINITION_COLUMNS};
use crate::query::run_in;
use crate::segment::{self, position};
use crate::sqlite::SqliteStore;

const COLUMNS: &str = "id, job, version, since, until, next, made, total, pace_runs, pace_per_ms, parallel, at, by, reason, \
     ended_at, ended_by, why, made_at";
/// Runs of a backfill that are looked at for one page of a filtered list.
const LOOKED_AT_MAX: u32 = 20_000;

pub(crate) fn insert(conn: &Connection, partition: PartitionId, backfill: &Backfill) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT OR REPLACE INTO backfill (partition, {COLUMNS}) \
         VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19)"
    );
    let (ended_by, why) = match &backfill.end {
        Some(End::Cancelled { by, why, .. }) => (Some(&**by), Some(why.word())),
        Some(End::Done { .. }) | None => (None, None),
    };
    let values = params![
        partition.0,
        backfill.id.0.cast_signed(),
        backfill.job.0,
        backfill.version.0,
        backfill.from.0,
        backfill.to.0,
        backfill.next.map(|next| next.0),
        backfill.made.cast_signed(),
        backfill.total.cast_signed(),
        backfill.pace.runs,
        backfill.pace.per_ms.cast_signed(),
        backfill.parallel,
        backfill.at.0,
        &*backfill.by,
        backfill.reason.as_deref(),
        backfill.end.as_ref().map(|end| end.at().0),
        ended_by,
        why,
        backfill.made_at.map(|at| at.0),
    ];
    conn.prepare_cached(&sql)?.execute(values).map(drop)
}

/// A row of [`COLUMNS`].
fn read(row: &Row<'_>) -> rusqlite::Result<Backfill> {
    let odd = |column: usize| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, "a backfill that cannot be".into())
    };
    let number = |column| row.get(column).map(i64::cast_unsigned);
    let why = match row.get_ref(16)?.as_str_or_null()? {
        None => None,
        Some(word) => Some(Why::parse(word).ok_or_else(|| odd(16))?),
    };
    let at = row.get::<_, Option<i64>>(14)?.map(UnixMs);
    let end = match (at, why) {
        (None, None) => None,
        (Some(at), None) => Some(End::Done { at }),
        (Some(at), Some(why)) => Some(End::Cancelled { at, by: row.get(15)?, why }),
        (None, Some(_)) => return Err(odd(14)),
    };
    Ok(Backfill {
        id: BackfillId(number(0)?),
        job: JobId(row.get(1)?),
        version: Version(row.get(2)?),
        from: UnixMs(row.get(3)?),
        to: UnixMs(row.get(4)?),
        next: row.get::<_, Option<i64>>(5)?.map(UnixMs),
        made: number(6)?,
        made_at: row.get::<_, Option<i64>>(17)?.map(UnixMs),
        total: number(7)?,
        pace: Pace { runs: row.get(8)?, per_ms: number(9)? },
        parallel: row.get(10)?,
        at: UnixMs(row.get(11)?),
        by: row.get(12)?,
        reason: row.get(13)?,
        end,
    })
}

pub(crate) fn insert_run(conn: &Connection, run: RunId, backfill: BackfillId) -> rusqlite::Result<()> {
    let values = params![run.0.cast_signed(), backfill.0.cast_signed()];
    conn.prepare_cached("INSERT INTO backfill_run (run, backfill) VALUES (?1, ?2)")?.execute(values).map(drop)
}

/// The backfill that a run belongs to.
pub(crate) fn of_run(conn: &Connection, run: RunId) -> rusqlite::Result<Option<BackfillId>> {
    let mut statement = conn.prepare_cached("SELECT backfill FROM backfill_run WHERE run = ?1")?;
    let read = |row: &Row<'_>| row.get(0).map(|id: i64| BackfillId(id.cast_unsigned()));
    statement.query_row([run.0.cast_signed()], read).optional()
}

/// Forgets, within a sweep's transaction, those that have ended and have no runs left.
pub(crate) fn forget(conn: &Connection, end: u64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM backfill WHERE id < ?1 AND ended_at IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM backfill_run r WHERE r.backfill = backfill.id)";
    conn.execute(sql, [end.cast_signed()]).map(drop)
}

impl SqliteStore {
    /// A partition's backfills that have not ended, in order of id.
    pub(crate) fn backfills_of(&self, partition: PartitionId) -> rusqlite::Result<Vec<OpenBackfill>> {
        let sql = format!("SELECT {COLUMNS} FROM backfill WHERE partition = ?1 AND ended_at IS NULL ORDER BY id");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let open = statement.query_map([partition.0], read)?.collect::<rusqlite::Result<Vec<Backfill>>>()?;
        let with_definition = |backfill: Backfill| {
            let definition = self.other_version(backfill.job, backfill.version)?;
            Ok(OpenBackfill { backfill, definition })
        };
        open.into_iter().map(with_definition).collect()
    }

    /// A version of a job, if it is not the current one of a living job.
    pub(crate) fn other_version(&self, job: JobId, version: Version) -> rusqlite::Result<Option<Definition>> {
        let current = "SELECT 1 FROM job WHERE id = ?1 AND version = ?2 AND state <> ?3";
        let deleted = codec::job_state(JobState::Deleted);
        if self.conn.prepare_cached(current)?.exists(params![job.0, version.0, deleted])? {
            return Ok(None);
        }
        let sql = format!("SELECT {DEFINITION_COLUMNS} FROM definition d WHERE d.key = ?1");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let key = codec::definition_key(job, version);
        statement.query_row([key], |row| codec::definition(row, &self.key)).optional()
    }
}

/// One backfill.
pub(crate) fn one(conn: &Connection, id: BackfillId) -> rusqlite::Result<Option<Backfill>> {
    let sql = format!("SELECT {COLUMNS} FROM backfill WHERE id = ?1");
    conn.prepare_cached(&sql)?.query_row([id.0.cast_signed()], read).optional()
}

/// Backfills, newest first.
pub(crate) fn list(conn: &Connection, filter: &BackfillFilter) -> rusqlite::Result<Vec<Backfill>> {
    // With a job, its index leads; the comparison with NULL would hide it from the engine.
    let of_job = if filter.job.is_some() { "job = ?1" } else { "?1 IS NULL" };
    let is_open = if filter.is_open { "AND ended_at IS NULL" } else { "" };
    let sql = format!("SELECT {COLUMNS} FROM backfill WHERE {of_job} {is_open} AND id < ?2 ORDER BY id DESC LIMIT ?3");
    let before = filter.before.map_or(i64::MAX, |before| i64::try_from(before.0).unwrap_or(i64::MAX));
    let values = params![filter.job.map(|job| job.0), before, filter.limit.min(PAST_MAX)];
    conn.prepare_cached(&sql)?.query_map(values, read)?.collect()
}

/// Runs of a backfill that a filter lets pass, newest first, and from where on to look for more of them.
pub(crate) fn runs(
    conn: &Connection,
    id: BackfillId,
    filter: &RunFilter,
) -> rusqlite::Result<(Vec<Run>, Option<RunId>)> {
    let segments = segment::load(conn)?;
    let sql = "SELECT run FROM backfill_run WHERE backfill = ?1 AND run < ?2 ORDER BY run DESC LIMIT ?3";
    let before = filter.before.map_or(i64::MAX, |before| i64::try_from(before.0).unwrap_or(i64::MAX));
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![id.0.cast_signed(), before, LOOKED_AT_MAX])?;
    let (mut found, mut looked_at, mut last) = (Vec::new(), 0, None);
    while let Some(row) = rows.next()? {
        let run = RunId(row.get::<_, i64>(0)?.cast_unsigned());
        (looked_at, last) = (looked_at + 1, Some(run));
        found.extend(run_in(conn, segments[position(&segments, run)].id, run)?.filter(|run| filter.fits(run)));
        if found.len() >= filter.limit.min(RUNS_MAX) as usize {
            return Ok((found, last));
        }
    }
    Ok((found, last.filter(|_| looked_at >= LOOKED_AT_MAX)))
}
