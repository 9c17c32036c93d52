//! Reading, on connections of its own that cannot write.
//!
//! A question sees one state of the file: it runs in one read transaction. Which runs a job has, where
//! the file does not say, is taken from memory first, so that it is never newer than what the
//! transaction sees, nor misses what was answered before. The work that a question may take is bounded.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rota_core::alert::{self, Alarm};
use rota_core::batch::{Attempt, Run};
use rota_core::id::{AppId, JobId, RunId, Version, WorkerId};
use rota_core::job::{Definition, JobState};
use rota_core::time::UnixMs;
use rota_core::worker::{App, Registration, WorkerState};
use rota_port::alerts::{StoredAlert, StoredNotice};
use rota_port::query::{Query, RUNS_MAX, RunFilter};
use rota_port::store::{Error, StoredSecret, Token};
use rusqlite::types::Type;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Params, Row, params};

use crate::alerts;
use crate::byjob::{ByJob, Pairs};
use crate::claim::attempts;
use crate::codec::{self, DEFINITION_COLUMNS, RUN_COLUMNS, WORKER_COLUMNS};
use crate::failure::of;
use crate::key::Key;
use crate::migrate;
use crate::reserve::scope_of;
use crate::segment::{self, Segment, position};
use crate::sqlite::read_app;

/// Connections that are kept while nobody asks.
const IDLE_MAX: usize = 3;
/// Pages that a reader keeps, in KiB.
const CACHE_KIB: i32 = 2 << 10;
/// How long a reader waits for a recovery after a crash, in milliseconds.
const WAIT_MS: u64 = 2_000;
/// Segments in which a short suffix is looked for, newest first.
const SUFFIX_SEGMENTS: usize = 3;
/// From so many digits on a suffix names few enough ids to try each.
const SUFFIX_DIGITS_RARE: u32 = 6;
/// Runs of a job that are looked at at once.
const PAGE: usize = 2_000;
/// Instructions of the engine after which a question's work is looked at.
const WORK_UNIT: i32 = 10_000;
/// Units of work that one question may take: some ten million runs looked at.
const WORK_MAX: u32 = 6_000;

const TOO_MUCH_WORK: &str = "the search looked at too many runs; narrow it by job, or by a later start";

type Known = (Registration, WorkerState);

/// Reads of a data directory. Cheap to share; every thread that asks has a connection meanwhile.
pub struct SqliteQuery {
    file: PathBuf,
    key: Key,
    byjob: Arc<ByJob>,
    work_max: u32,
    idle: Mutex<Vec<Reader>>,
}

/// A connection, and the work that the present question has taken.
struct Reader {
    conn: Connection,
    work: Arc<AtomicU32>,
}

impl fmt::Debug for SqliteQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteQuery").field("file", &self.file).finish_non_exhaustive()
    }
}

impl SqliteQuery {
    pub(crate) fn new(file: PathBuf, key: Key, byjob: Arc<ByJob>) -> SqliteQuery {
        SqliteQuery { file, key, byjob, work_max: WORK_MAX, idle: Mutex::new(Vec::new()) }
    }

    /// What sealed values are opened with.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Lets a question take so many units of ten thousand instructions.
    #[must_use]
    pub fn with_work_max(mut self, work_max: u32) -> SqliteQuery {
        self.work_max = work_max;
        self
    }

    /// Runs `question` in a read transaction. A connection that met an error is not used again.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        let idle = self.idle.lock().expect("nothing panics while it holds this lock").pop();
        let reader = idle.map_or_else(|| self.connect(), Ok).map_err(of)?;
        reader.work.store(0, Ordering::Relaxed);
        let conn = &reader.conn;
        let answer = begin(conn).and_then(|()| question(conn)).and_then(|answer| end(conn).map(|()| answer));
        if answer.is_ok() {
            let mut idle = self.idle.lock().expect("nothing panics while it holds this lock");
            if idle.len() < IDLE_MAX {
                idle.push(reader);
            }
        }
        answer.map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Error::Unavailable(TOO_MUCH_WORK.into()),
            Some(_) | None => of(error),
        })
    }

    fn connect(&self) -> rusqlite::Result<Reader> {
        // A log left by a crash is recovered by whoever comes first, so the file is not opened read-only.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut conn = Connection::open_with_flags(&self.file, flags)?;
        conn.busy_timeout(Duration::from_millis(WAIT_MS))?;
        conn.execute_batch(&format!("PRAGMA query_only = ON; PRAGMA cache_size = -{CACHE_KIB};"))?;
        conn.set_prepared_statement_cache_capacity(64);
        let work = Arc::new(AtomicU32::new(0));
        let (taken, work_max) = (Arc::clone(&work), self.work_max);
        conn.progress_handler(WORK_UNIT, Some(move || taken.fetch_add(1, Ordering::Relaxed) >= work_max))?;
        Ok(Reader { conn, work })
    }

    pub(crate) fn byjob(&self) -> &ByJob {
        &self.byjob
    }

    fn definition(&self, sql: &str, values: impl Params) -> Result<Option<Definition>, Error> {
        let sql = format!("SELECT {DEFINITION_COLUMNS} {sql}");
        self.ask(|conn| {
            conn.prepare_cached(&sql)?.query_row(values, |row| codec::definition(row, &self.key)).optional()
        })
    }

    fn definitions(&self, sql: &str, values: impl Params) -> Result<Vec<Definition>, Error> {
        self.ask(|conn| {
            let mut statement = conn.prepare_cached(sql)?;
            statement.query_map(values, |row| codec::definition(row, &self.key))?.collect()
        })
    }

    fn known(&self, sql: &str, values: impl Params) -> Result<Vec<Known>, Error> {
        let sql = format!("SELECT {WORKER_COLUMNS} FROM worker {sql} ORDER BY id");
        self.ask(|conn| {
            let mut statement = conn.prepare_cached(&sql)?;
            statement.query_map(values, |row| codec::worker(row, &self.key))?.collect()
        })
    }
}

fn begin(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached("BEGIN")?.execute([]).map(drop)
}

fn end(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached("COMMIT")?.execute([]).map(drop)
}

impl Query for SqliteQuery {
    fn apps(&self) -> Result<Vec<App>, Error> {
        self.ask(|conn| {
            let mut statement =
                conn.prepare_cached("SELECT id, namespace, name, pending_max, rates FROM app ORDER BY id")?;
            statement.query_map([], read_app)?.collect()
        })
    }

    fn tokens(&self) -> Result<Vec<Token>, Error> {
        self.ask(|conn| {
            let mut statement = conn.prepare_cached("SELECT hash, scope, app, at FROM token ORDER BY id")?;
            statement.query_map([], token)?.collect()
        })
    }

    fn secrets(&self) -> Result<Vec<StoredSecret>, Error> {
        self.ask(|conn| {
            let sql = "SELECT namespace, name, value, at, by FROM secret ORDER BY namespace, name";
            let mut statement = conn.prepare_cached(sql)?;
            statement.query_map([], |row| codec::secret(row, &self.key))?.collect()
        })
    }

    fn retired_secrets(&self) -> Result<Vec<StoredSecret>, Error> {
        self.ask(|conn| {
            let sql = "SELECT namespace, name, value, at, by FROM retired_secret ORDER BY id";
            let mut statement = conn.prepare_cached(sql)?;
            statement.query_map([], |row| codec::secret(row, &self.key))?.collect()
        })
    }

    fn alerts(&self) -> Result<Vec<StoredAlert>, Error> {
        self.ask(alerts::read)
    }

    fn alarms(&self) -> Result<Vec<(alert::Key, Alarm)>, Error> {
        self.ask(alerts::read_alarms)
    }

    fn notices(&self) -> Result<Vec<StoredNotice>, Error> {
        self.ask(alerts::read_notices)
    }

    fn alert_ends(&self, limit: u32) -> Result<Vec<RunId>, Error> {
        self.ask(|conn| alerts::read_ends(conn, limit))
    }

    fn jobs_with_secrets(&self, after: JobId, limit: u32) -> Result<Vec<Definition>, Error> {
        let sql = format!(
            "SELECT {DEFINITION_COLUMNS} FROM definition d INDEXED BY definition_with_secret JOIN job j ON j.id = d.key >> 32 \
             WHERE d.names_secret = 1 AND d.key > ?1 AND d.key = (j.id << 32) + j.version AND j.state <> ?2 \
             ORDER BY d.key LIMIT ?3"
        );
        let above = codec::definition_key(after, Version(u32::MAX));
        let deleted = codec::job_state(JobState::Deleted);
        self.definitions(&sql, params![above, deleted, limit.min(RUNS_MAX)])
    }

    fn job(&self, job: JobId) -> Result<Option<Definition>, Error> {
        let sql = "FROM job j JOIN definition d ON d.key = (j.id << 32) + j.version WHERE j.id = ?1";
        self.definition(sql, [job.0])
    }

    fn job_named(&self, namespace: &str, name: &str) -> Result<Option<Definition>, Error> {
        let sql = "FROM job_name n JOIN job j ON j.id = n.job JOIN definition d ON d.key = (j.id << 32) + j.version \
             WHERE n.namespace = ?1 AND n.name = ?2";
        self.definition(sql, [namespace, name])
    }

    fn job_version(&self, job: JobId, version: Version) -> Result<Option<Definition>, Error> {
        self.definition("FROM definition d WHERE d.key = ?1", [codec::definition_key(job, version)])
    }

    fn jobs(&self, app: Option<AppId>, after: JobId, limit: u32) -> Result<Vec<Definition>, Error> {
        let of_app = if app.is_some() { "j.app = ?4" } else { "?4 IS NULL" };
        let sql = format!(
            "SELECT {DEFINITION_COLUMNS} FROM job j JOIN definition d ON d.key = (j.id << 32) + j.version \
             WHERE {of_app} AND j.id > ?1 AND j.state <> ?2 ORDER BY j.id LIMIT ?3"
        );
        let deleted = codec::job_state(JobState::Deleted);
        let values = params![after.0, deleted, limit.min(RUNS_MAX), app.map(|app| app.0)];
        self.definitions(&sql, values)
    }

    fn dependents(&self, job: JobId, limit: u32) -> Result<Vec<JobId>, Error> {
        let sql = "SELECT DISTINCT job FROM upstream WHERE upstream = ?1 ORDER BY job LIMIT ?2";
        self.ask(|conn| {
            conn.prepare_cached(sql)?.query_map(params![job.0, limit], |row| row.get(0).map(JobId))?.collect()
        })
    }

    fn run(&self, run: RunId) -> Result<Option<Run>, Error> {
        self.ask(|conn| {
            let segments = segment::load(conn)?;
            run_in(conn, segments[position(&segments, run)].id, run)
        })
    }

    fn runs_with_suffix(&self, value: u64, digits: u32) -> Result<Vec<RunId>, Error> {
        self.ask(|conn| {
            let segments = segment::load(conn)?;
            match 32_u64.checked_pow(digits).filter(|modulus| *modulus < 1 << 53) {
                None => {
                    let run = RunId(value);
                    let found = run_in(conn, segments[position(&segments, run)].id, run)?;
                    Ok(found.into_iter().map(|run| run.id).collect())
                }
                Some(modulus) if digits >= SUFFIX_DIGITS_RARE => rare_suffix(conn, &segments, value, modulus),
                Some(modulus) => short_suffix(conn, &segments, value, modulus),
            }
        })
    }

    fn attempts(&self, run: RunId) -> Result<Vec<Attempt>, Error> {
        self.ask(|conn| {
            let segments = segment::load(conn)?;
            let segment = segments[position(&segments, run)].id;
            let sql = format!("SELECT {RUN_COLUMNS} FROM run_{segment} WHERE id = ?1");
            let mut statement = conn.prepare_cached(&sql)?;
            let first = statement.query_row([run.0.cast_signed()], codec::first_attempt).optional()?;
            attempts(conn, segment, run, first.flatten())
        })
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<Run>, Error> {
        let filter = RunFilter { limit: filter.limit.min(RUNS_MAX), ..filter.clone() };
        let pairs = if filter.job.is_some() { self.byjob.snapshot() } else { BTreeMap::new() };
        self.ask(|conn| Search { conn, filter: &filter, pairs: &pairs, found: Vec::new() }.run())
    }

    fn workers(&self, app: Option<AppId>) -> Result<Vec<Known>, Error> {
        self.known("WHERE ?1 IS NULL OR app = ?1", [app.map(|app| app.0)])
    }

    fn worker(&self, worker: WorkerId) -> Result<Option<Known>, Error> {
        self.known("WHERE id = ?1", [worker.0]).map(|mut all| all.pop())
    }

    fn worker_named(&self, app: AppId, name: &str) -> Result<Option<Known>, Error> {
        let sql = "WHERE id = (SELECT id FROM worker_name WHERE app = ?1 AND name = ?2)";
        self.known(sql, params![app.0, name]).map(|mut all| all.pop())
    }

    fn version(&self) -> Result<String, Error> {
        let schema = self.ask(migrate::version)?;
        Ok(format!("schema {schema}, SQLite {}", rusqlite::version()))
    }
}

fn token(row: &Row<'_>) -> rusqlite::Result<Token> {
    let odd = || rusqlite::Error::FromSqlConversionFailure(1, Type::Integer, "a token's scope cannot be".into());
    let scope = scope_of(row.get(1)?, row.get(2)?).ok_or_else(odd)?;
    Ok(Token { hash: row.get(0)?, scope, at: UnixMs(row.get(3)?) })
}

pub(crate) fn run_in(conn: &Connection, segment: u32, run: RunId) -> rusqlite::Result<Option<Run>> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM run_{segment} WHERE id = ?1");
    conn.prepare_cached(&sql)?.query_row([run.0.cast_signed()], codec::run).optional()
}

/// Tries every id with the suffix, newest first.
fn rare_suffix(conn: &Connection, segments: &[Segment], value: u64, modulus: u64) -> rusqlite::Result<Vec<RunId>> {
    let mut found = Vec::new();
    for segment in segments.iter().rev() {
        let range = format!("SELECT min(id), max(id) FROM run_{}", segment.id);
        let range = conn.prepare_cached(&range)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(lowest), Some(highest)) = range else { continue };
        let (lowest, highest): (i64, i64) = (lowest, highest);
        let sql = format!("SELECT 1 FROM run_{} WHERE id = ?1", segment.id);
        let mut statement = conn.prepare_cached(&sql)?;
        let (value, modulus) = ((value % modulus).cast_signed(), modulus.cast_signed());
        let mut id = highest - (highest - value).rem_euclid(modulus);
        while id >= lowest {
            if statement.exists([id])? {
                found.push(RunId(id.cast_unsigned()));
                if found.len() == 2 {
                    return Ok(found);
                }
            }
            id -= modulus;
        }
    }
    Ok(found)
}

/// Searches the newest segments that hold anything.
fn short_suffix(conn: &Connection, segments: &[Segment], value: u64, modulus: u64) -> rusqlite::Result<Vec<RunId>> {
    let mut found = Vec::new();
    for segment in segments.iter().rev().take(SUFFIX_SEGMENTS) {
        let sql = format!("SELECT id FROM run_{} WHERE id % ?1 = ?2 ORDER BY id DESC LIMIT 2", segment.id);
        let mut statement = conn.prepare_cached(&sql)?;
        let values = params![modulus.cast_signed(), (value % modulus).cast_signed()];
        for id in statement.query_map(values, |row| row.get::<_, i64>(0))? {
            found.push(RunId(id?.cast_unsigned()));
        }
    }
    found.truncate(2);
    Ok(found)
}

/// A search over the ledger, newest first: segments are ranges of ids, so their order is the order.
struct Search<'s> {
    conn: &'s Connection,
    filter: &'s RunFilter,
    pairs: &'s BTreeMap<u32, Pairs>,
    found: Vec<Run>,
}

impl Search<'_> {
    fn run(mut self) -> rusqlite::Result<Vec<Run>> {
        let segments = segment::load(self.conn)?;
        let below = self.filter.before.unwrap_or(RunId(u64::MAX));
        for segment in segments[..=position(&segments, below)].iter().rev() {
            let is_too_old = |since| segment.at_max.is_some_and(|at_max| at_max < since);
            if self.is_full() {
                break;
            } else if self.filter.since.is_some_and(is_too_old) {
                continue;
            }
            match self.filter.job {
                Some(job) => match self.pairs.get(&segment.id) {
                    Some(pairs) if pairs.is_whole() => {
                        self.pages(segment.id, |below| Ok(pairs.newest(job, below, PAGE)))?
                    }
                    Some(_) | None if segment.is_indexed => {
                        let conn = self.conn;
                        self.pages(segment.id, |below| indexed(conn, segment.id, job, below))?;
                    }
                    Some(_) | None => self.scan(segment.id)?,
                },
                None => self.scan(segment.id)?,
            }
        }
        Ok(self.found)
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.filter.limit as usize
    }

    fn keep(&mut self, run: Run) {
        if self.filter.fits(&run) {
            self.found.push(run);
        }
    }

    /// Looks at the runs that `page` names, page after page; the last page is a short one.
    fn pages(&mut self, segment: u32, page: impl Fn(RunId) -> rusqlite::Result<Vec<RunId>>) -> rusqlite::Result<()> {
        let mut below = self.filter.before.unwrap_or(RunId(u64::MAX));
        loop {
            let runs = page(below)?;
            for run in &runs {
                if self.is_full() {
                    return Ok(());
                }
                if let Some(run) = run_in(self.conn, segment, *run)? {
                    self.keep(run);
                }
            }
            match runs.last() {
                Some(last) if runs.len() == PAGE => below = *last,
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Looks at every run of the segment.
    fn scan(&mut self, segment: u32) -> rusqlite::Result<()> {
        let sql = format!(
            "SELECT {RUN_COLUMNS} FROM run_{segment} WHERE id < ?1 AND (?2 IS NULL OR state = ?2) \
             AND (?3 IS NULL OR job = ?3) AND (?4 IS NULL OR app = ?4) ORDER BY id DESC"
        );
        let filter = self.filter;
        let below = filter.before.map_or(i64::MAX, |before| i64::try_from(before.0).unwrap_or(i64::MAX));
        let values = params![
            below,
            filter.state.map(codec::run_state),
            filter.job.map(|job| job.0),
            filter.app.map(|app| app.0)
        ];
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query(values)?;
        while !self.is_full() {
            let Some(row) = rows.next()? else { break };
            self.keep(codec::run(row)?);
        }
        Ok(())
    }
}

fn indexed(conn: &Connection, segment: u32, job: JobId, below: RunId) -> rusqlite::Result<Vec<RunId>> {
    let sql = format!("SELECT run FROM byjob_{segment} WHERE job = ?1 AND run < ?2 ORDER BY run DESC LIMIT ?3");
    let mut statement = conn.prepare_cached(&sql)?;
    let values = params![job.0, i64::try_from(below.0).unwrap_or(i64::MAX), PAGE as i64];
    statement.query_map(values, |row| row.get::<_, i64>(0).map(|run| RunId(run.cast_unsigned())))?.collect()
}
