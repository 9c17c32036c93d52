//! Reading the past, for explanations and audits; and the terms of processes, which are part of it.

use std::sync::Arc;

use rota_core::backfill::Backfill;
use rota_core::batch::{Rerun, Run, RunState, SettledShard, Shards};
use rota_core::child::{Link, Note};
use rota_core::freeze::{Freeze, Missed, Thaw};
use rota_core::id::{AppId, BackfillId, JobId, PartitionId, RunId, Version, WorkerId, partition_of};
use rota_core::job::Definition;
use rota_core::limits;
use rota_core::time::UnixMs;
use rota_core::trace::Parent;
use rota_core::why::Why;
use rota_port::history::{
    BackfillFilter, COVERED_MAX, Covered, History, JobStanding, PAST_MAX, Standing, StateChange, StateFilter, Term,
};
use rota_port::query::RunFilter;
use rota_port::store::Error;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::backfills;
use crate::child;
use crate::codec::{self, COVERED_COLUMNS, DEFINITION_COLUMNS, RUN_COLUMNS};
use crate::failure::of;
use crate::query::{SqliteQuery, run_in};
use crate::segment::{self, Segment, position};
use crate::sqlite::SqliteStore;

/// Between two notes that the process goes on, in milliseconds.
const ALIVE_EVERY_MS: i64 = 60_000;
/// Where the end of what was swept is kept.
const SWEPT: &str = "swept";

const FREEZE_COLUMNS: &str = "id, app, after, at, by, reason, thaw_until, thaw_at, thaw_by, missed";

/// The term that this process writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnTerm {
    id: i64,
    alive_at: UnixMs,
}

impl SqliteStore {
    /// Notes that this process has the store, and until when the one before is known to have had it.
    pub(crate) fn begin_term(&mut self, at: UnixMs, version: &str, tzdb: &str) -> Result<(), Error> {
        let begin = || -> rusqlite::Result<i64> {
            let before = "UPDATE term SET alive_at = min(max(alive_at, (SELECT coalesce(max(at), 0) FROM partition)), \
                 max(?1, started_at)) WHERE stopped_at IS NULL AND id = (SELECT max(id) FROM term)";
            self.conn.execute(before, [at.0])?;
            // Definitions that were on their way to another process will never arrive.
            self.conn.execute("DELETE FROM upstream WHERE token <> 0", [])?;
            let insert = "INSERT INTO term (started_at, alive_at, version, tzdb) VALUES (?1, ?1, ?2, ?3)";
            self.conn.execute(insert, params![at.0, version, tzdb])?;
            Ok(self.conn.last_insert_rowid())
        };
        let id = crate::failure::transaction(&self.conn, || begin().map_err(of))?;
        self.term = Some(OwnTerm { id, alive_at: at });
        Ok(())
    }

    pub(crate) fn end_term(&mut self, at: UnixMs) -> Result<(), Error> {
        let Some(term) = self.term.take() else { return Ok(()) };
        let update = "UPDATE term SET alive_at = ?2, stopped_at = ?2 WHERE id = ?1";
        self.conn.execute(update, [term.id, at.0]).map(drop).map_err(of)
    }

    /// Notes now and then that this process goes on.
    pub(crate) fn note_alive(&mut self, now: UnixMs) -> Result<(), Error> {
        let Some(term) = self.term.filter(|term| now.since_ms(term.alive_at) >= ALIVE_EVERY_MS) else { return Ok(()) };
        self.conn.execute("UPDATE term SET alive_at = ?2 WHERE id = ?1", [term.id, now.0]).map_err(of)?;
        self.term = Some(OwnTerm { alive_at: now, ..term });
        Ok(())
    }

    /// A partition's open freezes and the last of the others, in order of id.
    pub(crate) fn freezes_of(&self, partition: PartitionId) -> rusqlite::Result<Vec<Freeze>> {
        let sql = format!("SELECT {FREEZE_COLUMNS} FROM freeze WHERE partition = ?1 ORDER BY id DESC");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([partition.0])?;
        let (mut freezes, mut thawed) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let freeze = read_freeze(row)?;
            thawed += usize::from(!freeze.is_open());
            if freeze.is_open() || thawed <= limits::THAWED_MAX {
                freezes.push(freeze);
            }
        }
        freezes.reverse();
        Ok(freezes)
    }
}

/// Notes within a sweep's transaction that ids below `end` may be gone, and forgets what belonged to them.
pub(crate) fn note_sweep(conn: &Connection, start: u64, end: u64) -> rusqlite::Result<()> {
    let upsert = "INSERT INTO meta (name, value) VALUES (?1, ?2) \
         ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)";
    conn.execute(upsert, params![SWEPT, end.cast_signed()])?;
    for table in ["rerun", "merged", "shards", "backfill_run", "child", "trace"] {
        let forget = format!("DELETE FROM {table} WHERE run >= ?1 AND run < ?2");
        conn.execute(&forget, [start.cast_signed(), end.cast_signed()])?;
    }
    backfills::forget(conn, end)
}

/// Forgets the values of secrets that went out of use before what is kept.
pub(crate) fn forget_secrets(conn: &Connection, before: UnixMs) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM retired_secret WHERE at < ?1")?.execute([before.0]).map(drop)
}

pub(crate) fn insert_freeze(conn: &Connection, partition: PartitionId, freeze: &Freeze) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT OR REPLACE INTO freeze (partition, {FREEZE_COLUMNS}) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"
    );
    let thaw = freeze.thaw.as_ref();
    let values = params![
        partition.0,
        freeze.id.cast_signed(),
        freeze.app.map(|app| app.0),
        freeze.after.0,
        freeze.at.0,
        &*freeze.by,
        &*freeze.reason,
        thaw.map(|thaw| thaw.until.0),
        thaw.map(|thaw| thaw.at.0),
        thaw.map(|thaw| &*thaw.by),
        thaw.map(|thaw| thaw.missed.code()),
    ];
    conn.prepare_cached(&sql)?.execute(values).map(drop)
}

/// A row of [`FREEZE_COLUMNS`].
fn read_freeze(row: &Row<'_>) -> rusqlite::Result<Freeze> {
    let odd = |column: usize| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, "a freeze that cannot be".into())
    };
    let thaw = match row.get::<_, Option<i64>>(7)? {
        Some(at) => Some(Thaw {
            until: UnixMs(row.get(6)?),
            at: UnixMs(at),
            by: row.get(8)?,
            missed: Missed::from_code(row.get(9)?).ok_or_else(|| odd(9))?,
        }),
        None => None,
    };
    Ok(Freeze {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        app: row.get::<_, Option<u32>>(1)?.map(AppId),
        after: UnixMs(row.get(2)?),
        at: UnixMs(row.get(3)?),
        by: row.get(4)?,
        reason: row.get(5)?,
        thaw,
    })
}

pub(crate) fn insert_rerun(conn: &Connection, rerun: &Rerun) -> rusqlite::Result<()> {
    let reused = serde_json::to_string(&rerun.reused).expect("numbers are plain data");
    let values = params![rerun.run.0.cast_signed(), rerun.of.0.cast_signed(), reused];
    conn.prepare_cached("INSERT INTO rerun (run, of, reused) VALUES (?1, ?2, ?3)")?.execute(values).map(drop)
}

pub(crate) fn insert_merged(conn: &Connection, run: RunId, into: RunId) -> rusqlite::Result<()> {
    let values = params![run.0.cast_signed(), into.0.cast_signed()];
    conn.prepare_cached("INSERT INTO merged (run, into_run) VALUES (?1, ?2)")?.execute(values).map(drop)
}

/// What a run repeats.
pub(crate) fn rerun(conn: &Connection, run: RunId) -> rusqlite::Result<Option<Arc<Rerun>>> {
    let mut statement = conn.prepare_cached("SELECT of, reused FROM rerun WHERE run = ?1")?;
    let read = |row: &Row<'_>| {
        let reused = serde_json::from_str(row.get_ref(1)?.as_str()?);
        let reused = reused.map_err(|e| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, Box::new(e)))?;
        Ok(Arc::new(Rerun { run, of: RunId(row.get::<_, i64>(0)?.cast_unsigned()), reused }))
    };
    statement.query_row([run.0.cast_signed()], read).optional()
}

pub(crate) fn set_shards(conn: &Connection, shards: &Shards) -> rusqlite::Result<()> {
    let workers: Vec<u32> = shards.workers.iter().map(|worker| worker.0).collect();
    let settled: Vec<_> = shards.settled.iter().map(|it| (it.shard, it.state, it.why, it.at.0)).collect();
    let json = "numbers and words are plain data";
    let workers = serde_json::to_string(&workers).expect(json);
    let values = params![shards.run.0.cast_signed(), workers, serde_json::to_string(&settled).expect(json)];
    let sql = "INSERT OR REPLACE INTO shards (run, workers, settled) VALUES (?1, ?2, ?3)";
    conn.prepare_cached(sql)?.execute(values).map(drop)
}

/// What is known of a run's shards beside its row and its attempts.
pub(crate) fn shards(conn: &Connection, run: RunId) -> rusqlite::Result<Option<Arc<Shards>>> {
    let mut statement = conn.prepare_cached("SELECT workers, settled FROM shards WHERE run = ?1")?;
    let read = |row: &Row<'_>| {
        let odd = |column| move |e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e));
        let workers: Vec<u32> = serde_json::from_str(row.get_ref(0)?.as_str()?).map_err(odd(0))?;
        let settled: Vec<(u32, RunState, Why, i64)> =
            serde_json::from_str(row.get_ref(1)?.as_str()?).map_err(odd(1))?;
        let settled =
            settled.into_iter().map(|(shard, state, why, at)| SettledShard { shard, state, why, at: UnixMs(at) });
        let workers = workers.into_iter().map(WorkerId).collect();
        Ok(Arc::new(Shards { run, workers, settled: settled.collect() }))
    };
    statement.query_row([run.0.cast_signed()], read).optional()
}

/// Whether anything is known of any run's shards, so that most stores are not asked for each run.
pub(crate) fn has_shards(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT 1 FROM shards LIMIT 1")?.exists([])
}

pub(crate) fn insert_trace(conn: &Connection, run: RunId, parent: &Parent) -> rusqlite::Result<()> {
    let values = params![run.0.cast_signed(), parent.to_string()];
    conn.prepare_cached("INSERT INTO trace (run, parent) VALUES (?1, ?2)")?.execute(values).map(drop)
}

/// The span within which a run was asked for.
pub(crate) fn trace_parent(conn: &Connection, run: RunId) -> rusqlite::Result<Option<Arc<Parent>>> {
    let mut statement = conn.prepare_cached("SELECT parent FROM trace WHERE run = ?1")?;
    let read = |row: &Row<'_>| {
        let odd = || rusqlite::Error::FromSqlConversionFailure(0, Type::Text, "no traceparent".into());
        Parent::parse(row.get_ref(0)?.as_str()?).map(Arc::new).ok_or_else(odd)
    };
    statement.query_row([run.0.cast_signed()], read).optional()
}

/// Whether any run was asked for within a trace, so that most stores are not asked for each run.
pub(crate) fn has_traces(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT 1 FROM trace LIMIT 1")?.exists([])
}

impl History for SqliteQuery {
    fn job_versions(&self, job: JobId, from: Version) -> Result<Vec<Definition>, Error> {
        let sql = format!(
            "SELECT {DEFINITION_COLUMNS} FROM definition d WHERE d.key BETWEEN ?1 AND ?2 ORDER BY d.key LIMIT ?3"
        );
        let (first, last) = (codec::definition_key(job, from), codec::definition_key(job, Version(u32::MAX)));
        self.ask(|conn| {
            conn.prepare_cached(&sql)?
                .query_map(params![first, last, PAST_MAX], |row| codec::definition(row, self.key()))?
                .collect()
        })
    }

    fn state_changes(&self, filter: &StateFilter) -> Result<Vec<StateChange>, Error> {
        // With a job, its index leads; the comparison with NULL would hide it from the engine.
        let of_job = if filter.job.is_some() { "job = ?1" } else { "?1 IS NULL" };
        let sql = format!(
            "SELECT id, job, state, at, by, reason FROM job_state WHERE {of_job} AND (?2 IS NULL OR state = ?2) \
             AND (?3 IS NULL OR at >= ?3) AND id > ?4 ORDER BY id LIMIT ?5"
        );
        let values = params![
            filter.job.map(|job| job.0),
            filter.state.map(codec::job_state),
            filter.since.map(|since| since.0),
            filter.after.cast_signed(),
            PAST_MAX
        ];
        self.ask(|conn| {
            let mut statement = conn.prepare_cached(&sql)?;
            let change = |row: &Row<'_>| {
                Ok(StateChange {
                    no: row.get::<_, i64>(0)?.cast_unsigned(),
                    job: JobId(row.get(1)?),
                    state: codec::read_job_state(row, 2)?,
                    at: UnixMs(row.get(3)?),
                    by: row.get(4)?,
                    reason: row.get(5)?,
                })
            };
            statement.query_map(values, change)?.collect()
        })
    }

    fn runs_from(&self, job: JobId, from: RunId, limit: u32) -> Result<Vec<Run>, Error> {
        let pairs = self.byjob().snapshot();
        let limit = limit.min(PAST_MAX) as usize;
        self.ask(|conn| {
            let segments = segment::load(conn)?;
            let mut found = Vec::new();
            for segment in &segments[position(&segments, from)..] {
                let left = limit - found.len();
                if left == 0 {
                    break;
                }
                match pairs.get(&segment.id).filter(|pairs| pairs.is_whole()) {
                    Some(pairs) => take(conn, segment, &pairs.oldest(job, from, left), &mut found)?,
                    None if segment.is_indexed => {
                        take(conn, segment, &indexed_from(conn, segment, job, from, left)?, &mut found)?;
                    }
                    None => scan_from(conn, segment, job, from, left, &mut found)?,
                }
            }
            Ok(found)
        })
    }

    fn ledger(&self, from: RunId, limit: u32) -> Result<Vec<Covered>, Error> {
        let limit = limit.min(COVERED_MAX) as usize;
        self.ask(|conn| {
            let segments = segment::load(conn)?;
            let mut found = Vec::new();
            for segment in &segments[position(&segments, from)..] {
                let left = limit - found.len();
                if left == 0 {
                    break;
                }
                let sql =
                    format!("SELECT {COVERED_COLUMNS} FROM run_{} WHERE id >= ?1 ORDER BY id LIMIT ?2", segment.id);
                let mut statement = conn.prepare_cached(&sql)?;
                let from = i64::try_from(from.0).unwrap_or(i64::MAX);
                for row in statement.query_map(params![from, left as i64], codec::covered)? {
                    found.push(row?);
                }
            }
            Ok(found)
        })
    }

    fn standing(&self) -> Result<Standing, Error> {
        self.ask(|conn| {
            let mut statement = conn.prepare_cached("SELECT id, mark FROM partition ORDER BY id")?;
            let marks = statement.query_map([], |row| Ok((PartitionId(row.get(0)?), UnixMs(row.get(1)?))))?;
            let marks = marks.collect::<rusqlite::Result<_>>()?;
            let mut statement = conn.prepare_cached("SELECT job, kind, at, until FROM exception ORDER BY job")?;
            let exceptions = statement.query_map([], |row| Ok((JobId(row.get(0)?), codec::read_exception(row, 1)?)))?;
            let exceptions = exceptions.collect::<rusqlite::Result<_>>()?;
            let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
            let swept = statement.query_row([SWEPT], |row| row.get::<_, i64>(0)).optional()?;
            Ok(Standing { marks, exceptions, swept: swept.unwrap_or(0).cast_unsigned() })
        })
    }

    fn standing_of(&self, job: JobId) -> Result<Option<JobStanding>, Error> {
        self.ask(|conn| {
            let app = "SELECT a.namespace, a.name, (SELECT count(*) FROM partition) FROM job j \
                 JOIN app a ON a.id = j.app WHERE j.id = ?1";
            let partition = conn.prepare_cached(app)?.query_row([job.0], |row| {
                let (namespace, name): (String, String) = (row.get(0)?, row.get(1)?);
                Ok(partition_of(&namespace, &name, row.get(2)?))
            });
            let Some(partition) = partition.optional()? else { return Ok(None) };
            let mark = "SELECT mark FROM partition WHERE id = ?1";
            let mark = conn.prepare_cached(mark)?.query_row([partition.0], |row| row.get(0).map(UnixMs))?;
            let mut statement = conn.prepare_cached("SELECT kind, at, until FROM exception WHERE job = ?1")?;
            let exception = statement.query_row([job.0], |row| codec::read_exception(row, 0)).optional()?;
            let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
            let swept = statement.query_row([SWEPT], |row| row.get::<_, i64>(0)).optional()?;
            Ok(Some(JobStanding { mark, exception, swept: swept.unwrap_or(0).cast_unsigned() }))
        })
    }

    fn terms(&self) -> Result<Vec<Term>, Error> {
        let sql = "SELECT started_at, alive_at, stopped_at, version, tzdb FROM term ORDER BY id DESC LIMIT ?1";
        self.ask(|conn| {
            let mut statement = conn.prepare_cached(sql)?;
            let term = |row: &Row<'_>| {
                Ok(Term {
                    started_at: UnixMs(row.get(0)?),
                    alive_at: UnixMs(row.get(1)?),
                    stopped_at: row.get::<_, Option<i64>>(2)?.map(UnixMs),
                    version: row.get(3)?,
                    tzdb: row.get(4)?,
                })
            };
            statement.query_map([PAST_MAX], term)?.collect()
        })
    }

    fn freezes(&self) -> Result<Vec<Freeze>, Error> {
        let sql =
            format!("SELECT {FREEZE_COLUMNS} FROM freeze ORDER BY thaw_at IS NULL DESC, at DESC, id DESC LIMIT ?1");
        self.ask(|conn| conn.prepare_cached(&sql)?.query_map([PAST_MAX], read_freeze)?.collect())
    }

    fn rerun(&self, run: RunId) -> Result<Option<Arc<Rerun>>, Error> {
        self.ask(|conn| rerun(conn, run))
    }

    fn child(&self, run: RunId) -> Result<Option<Link>, Error> {
        self.ask(|conn| child::link(conn, run))
    }

    fn children_of(&self, parent: RunId) -> Result<Vec<Link>, Error> {
        self.ask(|conn| child::links_of(conn, parent, PAST_MAX))
    }

    fn notes_of(&self, parent: RunId) -> Result<Vec<Note>, Error> {
        self.ask(|conn| child::notes_of(conn, parent))
    }

    fn shards(&self, run: RunId) -> Result<Option<Arc<Shards>>, Error> {
        self.ask(|conn| shards(conn, run))
    }

    fn backfill(&self, id: BackfillId) -> Result<Option<Backfill>, Error> {
        self.ask(|conn| backfills::one(conn, id))
    }

    fn backfills(&self, filter: &BackfillFilter) -> Result<Vec<Backfill>, Error> {
        self.ask(|conn| backfills::list(conn, filter))
    }

    fn backfill_of(&self, run: RunId) -> Result<Option<BackfillId>, Error> {
        self.ask(|conn| backfills::of_run(conn, run))
    }

    fn backfill_runs(&self, id: BackfillId, filter: &RunFilter) -> Result<(Vec<Run>, Option<RunId>), Error> {
        self.ask(|conn| backfills::runs(conn, id, filter))
    }

    fn merged_into(&self, run: RunId) -> Result<Option<RunId>, Error> {
        self.ask(|conn| {
            let mut statement = conn.prepare_cached("SELECT into_run FROM merged WHERE run = ?1")?;
            let read = |row: &Row<'_>| Ok(RunId(row.get::<_, i64>(0)?.cast_unsigned()));
            statement.query_row([run.0.cast_signed()], read).optional()
        })
    }

    fn trace_parent(&self, run: RunId) -> Result<Option<Arc<Parent>>, Error> {
        self.ask(|conn| trace_parent(conn, run))
    }

    fn reruns_of(&self, run: RunId) -> Result<Vec<RunId>, Error> {
        let sql = "SELECT run FROM rerun WHERE of = ?1 ORDER BY run LIMIT ?2";
        self.ask(|conn| {
            let mut statement = conn.prepare_cached(sql)?;
            let values = params![run.0.cast_signed(), PAST_MAX];
            statement.query_map(values, |row| Ok(RunId(row.get::<_, i64>(0)?.cast_unsigned())))?.collect()
        })
    }
}

/// Reads runs by their ids.
fn take(conn: &Connection, segment: &Segment, runs: &[RunId], found: &mut Vec<Run>) -> rusqlite::Result<()> {
    for run in runs {
        found.extend(run_in(conn, segment.id, *run)?);
    }
    Ok(())
}

fn indexed_from(
    conn: &Connection,
    segment: &Segment,
    job: JobId,
    from: RunId,
    limit: usize,
) -> rusqlite::Result<Vec<RunId>> {
    let sql = format!("SELECT run FROM byjob_{} WHERE job = ?1 AND run >= ?2 ORDER BY run LIMIT ?3", segment.id);
    let mut statement = conn.prepare_cached(&sql)?;
    let values = params![job.0, i64::try_from(from.0).unwrap_or(i64::MAX), limit as i64];
    statement.query_map(values, |row| row.get::<_, i64>(0).map(|run| RunId(run.cast_unsigned())))?.collect()
}

fn scan_from(
    conn: &Connection,
    segment: &Segment,
    job: JobId,
    from: RunId,
    limit: usize,
    found: &mut Vec<Run>,
) -> rusqlite::Result<()> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM run_{} WHERE id >= ?1 AND job = ?2 ORDER BY id LIMIT ?3", segment.id);
    let mut statement = conn.prepare_cached(&sql)?;
    let values = params![i64::try_from(from.0).unwrap_or(i64::MAX), job.0, limit as i64];
    for run in statement.query_map(values, codec::run)? {
        found.push(run?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_that_was_cut_off_lasted_as_long_as_it_is_known_to_have() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, query) = crate::open(dir.path(), 1).unwrap();
        store.begin_term(UnixMs(1_000), "0.1.0", "2026a").unwrap();
        store.note_alive(UnixMs(30_000)).unwrap();
        store.note_alive(UnixMs(70_000)).unwrap();
        assert_eq!(query.terms().unwrap()[0].last_at(), UnixMs(70_000), "noted once a minute");
        store.conn.execute("UPDATE partition SET at = 90000", []).unwrap();
        store.begin_term(UnixMs(200_000), "0.2.0", "2026b").unwrap();
        store.end_term(UnixMs(250_000)).unwrap();
        store.begin_term(UnixMs(300_000), "0.2.0", "2026b").unwrap();
        let ends: Vec<_> =
            query.terms().unwrap().iter().map(|term| (term.started_at.0, term.last_at().0, term.stopped_at)).collect();
        let expected = [(300_000, 300_000, None), (200_000, 250_000, Some(UnixMs(250_000))), (1_000, 90_000, None)];
        assert_eq!(ends, expected);
        assert_eq!(query.terms().unwrap()[2].tzdb, "2026a");
    }
}
