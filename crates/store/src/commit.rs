//! Applying batches, within one transaction.
//!
//! A run and its first attempt are one row, so neighbours that concern both become one statement, and
//! neighbours that look alike become one in groups ([`crate::groups`]). All lookups are by row id or by the primary key of an attempt.

use std::collections::BTreeSet;

use rota_core::batch::{Attempt, Batch, Row, Run, RunState};
use rota_core::child::parents;
use rota_core::id::{Epoch, JobId, RunId, Seq};
use rota_core::job::{Definition, JobState};
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::{Registration, WorkerState};
use rota_port::store::{Error, Outcome};
use rusqlite::{CachedStatement, Connection, ToSql, params};

use crate::backfills;
use crate::byjob::Pair;
use crate::child;
use crate::codec;
use crate::failure::{of, wrong};
use crate::past;
use crate::segment::{Hot, Segment, Tally, position};
use crate::sqlite::SqliteStore;

/// What the writer knows in memory and will hold true once the transaction has committed.
pub(crate) struct Changes {
    /// By position of the segment; none if it did not change.
    pub(crate) tallies: Vec<Option<Tally>>,
    /// New runs, for segments without an index.
    pub(crate) pairs: Vec<(u32, Pair)>,
    /// Rows applied.
    pub(crate) rows: u64,
    /// Ends of runs that alerts hear of.
    pub(crate) ends: Vec<RunId>,
    pub(crate) has_definition: bool,
    /// Jobs that fire others by definitions of this transaction.
    pub(crate) parents: BTreeSet<JobId>,
    /// New notes of ended parents.
    pub(crate) notes: u64,
}

impl Changes {
    pub(crate) fn new(segments: usize) -> Changes {
        Changes {
            tallies: vec![None; segments],
            pairs: Vec::new(),
            rows: 0,
            ends: Vec::new(),
            has_definition: false,
            parents: BTreeSet::new(),
            notes: 0,
        }
    }
}

/// Applies each batch that its partition's row lets through.
pub(crate) fn apply(store: &SqliteStore, batches: &[Batch], changes: &mut Changes) -> Result<Vec<Outcome>, Error> {
    let mut writer = Writer { store, conn: &store.conn, changes, hot: Vec::new() };
    batches.iter().map(|batch| writer.batch(batch)).collect()
}

/// A change of a run's state.
#[derive(Clone, Copy)]
pub(crate) struct RunSet {
    run: RunId,
    state: RunState,
    why: Option<Why>,
    ended_at: Option<UnixMs>,
}

impl RunSet {
    pub(crate) fn of(row: &Row) -> Option<RunSet> {
        if let Row::RunSet { run, job: _, state, why, ended_at } = row {
            Some(RunSet { run: *run, state: *state, why: *why, ended_at: *ended_at })
        } else {
            None
        }
    }
}

pub(crate) struct Writer<'s> {
    pub(crate) store: &'s SqliteStore,
    pub(crate) conn: &'s Connection,
    pub(crate) changes: &'s mut Changes,
    /// Statements taken from the cache once per transaction, by position of the segment.
    hot: Vec<(usize, [Option<CachedStatement<'s>>; Hot::COUNT])>,
}

impl<'s> Writer<'s> {
    fn batch(&mut self, batch: &Batch) -> Result<Outcome, Error> {
        let (epoch, seq, mark) = self.header(batch)?;
        if batch.epoch != epoch || batch.seq.0 > seq.0 + 1 {
            return Ok(Outcome::Fenced { stored: seq });
        }
        if batch.seq <= seq {
            return Ok(Outcome::Repeated);
        }
        if batch.mark < mark {
            return Err(wrong(format!("the mark of partition {} went back", batch.partition)));
        }
        let mut rows = batch.rows.as_slice();
        while !rows.is_empty() {
            let taken = self.rows(batch, rows)?;
            rows = &rows[taken..];
        }
        self.changes.rows += batch.rows.len() as u64;
        self.note_ends(batch)?;
        for run in self.store.watch.ends_of(batch) {
            self.cold("INSERT OR IGNORE INTO alert_end (run) VALUES (?1)", params![run.0.cast_signed()])?;
            self.changes.ends.push(run);
        }
        let floor = i64::try_from(batch.floor).unwrap_or(i64::MAX);
        let sql = "UPDATE partition SET seq = ?2, mark = ?3, at = ?4, floor = ?5 WHERE id = ?1";
        let values = params![batch.partition.0, batch.seq.0.cast_signed(), batch.mark.0, batch.at.0, floor];
        self.cold(sql, values)?;
        Ok(Outcome::Applied)
    }

    fn header(&self, batch: &Batch) -> Result<(Epoch, Seq, UnixMs), Error> {
        assert!(batch.partition.0 < self.store.partitions, "a machine exists only for a partition that does");
        let mut statement =
            self.conn.prepare_cached("SELECT epoch, seq, mark FROM partition WHERE id = ?1").map_err(of)?;
        let read = statement.query_row([batch.partition.0], |row| {
            let number = |column| row.get(column).map(i64::cast_unsigned);
            Ok((Epoch(number(0)?), Seq(number(1)?), UnixMs(row.get(2)?)))
        });
        read.map_err(of)
    }

    /// Applies the first row, and those after it that go into the same statement.
    fn rows(&mut self, batch: &Batch, rows: &[Row]) -> Result<usize, Error> {
        let taken = self.group(batch, rows)?;
        if taken > 0 {
            return Ok(taken);
        }
        match (&rows[0], rows.get(1)) {
            (Row::Run(run), Some(Row::Attempt(attempt))) if is_first_of(attempt, run.id) => {
                self.insert_run(run, Some(attempt))?;
                return Ok(2);
            }
            (Row::AttemptSet(attempt), Some(next)) | (next, Some(Row::AttemptSet(attempt))) => {
                if let Some(set) = RunSet::of(next).filter(|set| is_first_of(attempt, set.run)) {
                    self.set_both(attempt, set)?;
                    return Ok(2);
                }
            }
            (_, Some(_) | None) => {}
        }
        self.row(batch, &rows[0])?;
        Ok(1)
    }

    pub(crate) fn row(&mut self, batch: &Batch, row: &Row) -> Result<(), Error> {
        match row {
            Row::Run(run) => self.insert_run(run, None),
            Row::RunSet { run, job: _, state, why, ended_at } => {
                self.set_run(RunSet { run: *run, state: *state, why: *why, ended_at: *ended_at })
            }
            Row::Attempt(attempt) => self.insert_attempt(attempt),
            Row::AttemptSet(attempt) => self.set_attempt(attempt),
            Row::Definition(definition) => self.define(definition),
            Row::JobState { job, state, at, by, reason } => self.set_job(*job, *state, *at, by, reason.as_deref()),
            Row::Rerun(rerun) => past::insert_rerun(self.conn, rerun).map_err(of),
            Row::Trace { run, parent } => past::insert_trace(self.conn, *run, parent).map_err(of),
            Row::Merged { run, into } => past::insert_merged(self.conn, *run, *into).map_err(of),
            Row::Child(link) => child::answer(self.conn, link).map_err(of),
            Row::Shards(shards) => past::set_shards(self.conn, shards).map_err(of),
            Row::Freeze(freeze) => past::insert_freeze(self.conn, batch.partition, freeze).map_err(of),
            Row::Backfill(backfill) => backfills::insert(self.conn, batch.partition, backfill).map_err(of),
            Row::BackfillRun { run, backfill } => backfills::insert_run(self.conn, *run, *backfill).map_err(of),
            Row::Worker { worker, state } => self.register(worker, *state),
            Row::WorkerState { worker, state } => {
                let sql = "UPDATE worker SET state = ?2 WHERE id = ?1";
                let changed = self.cold(sql, params![worker.0, codec::worker_state(*state)])?;
                one(changed, || format!("there is no worker {worker}"))
            }
            Row::Exception { job, exception: Some(exception) } => {
                let (kind, at, until) = codec::exception(*exception);
                let sql =
                    "INSERT OR REPLACE INTO exception (job, partition, kind, at, until) VALUES (?1, ?2, ?3, ?4, ?5)";
                self.cold(sql, params![job.0, batch.partition.0, kind, at, until]).map(drop)
            }
            Row::Exception { job, exception: None } => {
                self.cold("DELETE FROM exception WHERE job = ?1", params![job.0]).map(drop)
            }
            Row::Request { job, request_id, run } => {
                let sql = "UPDATE request SET run = ?3 WHERE job = ?1 AND request_id = ?2";
                self.cold(sql, params![job.0, &**request_id, run.0.cast_signed()]).map(drop)
            }
            Row::Listed { run, is_open: true } => {
                let sql = "INSERT OR REPLACE INTO listed (run, partition) VALUES (?1, ?2)";
                self.cold(sql, params![run.0.cast_signed(), batch.partition.0]).map(drop)
            }
            Row::Listed { run, is_open: false } => {
                self.cold("DELETE FROM listed WHERE run = ?1", params![run.0.cast_signed()]).map(drop)
            }
        }
    }

    fn insert_run(&mut self, run: &Run, first: Option<&Attempt>) -> Result<(), Error> {
        let at = self.segment_of(run.id);
        if let Some(attempt) = first {
            check_id(attempt)?;
        }
        let statement = self.hot(at, Hot::InsertRun)?;
        codec::run_params(run, first, |values| statement.execute(values)).map_err(of)?;
        let segment = &self.store.segments[at];
        if segment.is_indexed {
            // A whole table stays whole: the rare late run goes into it at once.
            let sql = format!("INSERT INTO byjob_{} (job, run) VALUES (?1, ?2)", segment.id);
            self.cold(&sql, params![run.job.0, run.id.0.cast_signed()])?;
        }
        if segment.at_max.is_some_and(|at_max| run.at > at_max) {
            let sql = "UPDATE segment SET at_max = max(at_max, ?2) WHERE id = ?1";
            self.cold(sql, params![segment.id, run.at.0])?;
        }
        let tally = self.tally(at);
        // Above `upto`, whoever counts comes across it in the file.
        if run.id.0 <= tally.upto {
            tally.add(run.ended_at);
            if !segment.is_indexed {
                self.changes.pairs.push((segment.id, Pair::new(run.job, run.id)));
            }
        }
        Ok(())
    }

    fn set_run(&mut self, set: RunSet) -> Result<(), Error> {
        let at = self.segment_of(set.run);
        let id = set.run.0.cast_signed();
        let (state, why, ended_at) =
            (codec::run_state(set.state), codec::why(set.why), codec::set_instant(set.ended_at));
        let was_open = self.hot(at, Hot::SetOpenRun)?.execute(params![id, state, why, ended_at]).map_err(of)? == 1;
        if was_open {
            self.note_end(at, set);
            return Ok(());
        }
        let changed = self.hot(at, Hot::SetRun)?.execute(params![id, state, why, ended_at]).map_err(of)?;
        one(changed, || format!("there is no run {}", set.run))
    }

    pub(crate) fn set_both(&mut self, attempt: &Attempt, set: RunSet) -> Result<(), Error> {
        let at = self.segment_of(set.run);
        let values = params![
            set.run.0.cast_signed(),
            codec::run_state(set.state),
            codec::why(set.why),
            codec::set_instant(set.ended_at),
            codec::attempt_state(attempt.state),
            codec::why(attempt.why),
            codec::set_instant(attempt.ended_at),
            codec::set_instant(attempt.released_at),
            attempt.message.as_deref(),
        ];
        let changed = self.hot(at, Hot::SetBoth)?.execute(values).map_err(of)?;
        if changed == 1 {
            self.note_end(at, set);
            return Ok(());
        }
        self.set_attempt(attempt)?;
        self.set_run(set)
    }

    /// An open run was set.
    fn note_end(&mut self, at: usize, set: RunSet) {
        let tally = self.tally(at);
        if let Some(ended) = set.ended_at.filter(|_| set.run.0 <= tally.upto) {
            tally.open = tally.open.checked_sub(1).expect("a counted run was open until now");
            tally.ended_max = tally.ended_max.max(ended);
        }
    }

    fn insert_attempt(&mut self, attempt: &Attempt) -> Result<(), Error> {
        check_id(attempt)?;
        let at = self.segment_of(attempt.run);
        let run = attempt.run.0.cast_signed();
        let incarnation = attempt.incarnation.0.cast_signed();
        let (state, why) = (codec::attempt_state(attempt.state), codec::why(attempt.why));
        let ended_at = codec::instant(attempt.ended_at, attempt.at);
        let released_at = codec::instant(attempt.released_at, attempt.at);
        let message = attempt.message.as_deref();
        if is_first(attempt) {
            let values =
                params![run, attempt.worker.0, incarnation, state, why, attempt.at.0, ended_at, released_at, message];
            let changed = self.hot(at, Hot::InsertFirst)?.execute(values).map_err(of)?;
            return one(changed, || format!("there is no run {} without an attempt", attempt.run));
        }
        let sql = format!("SELECT 1 FROM run_{} WHERE id = ?1", self.store.segments[at].id);
        let has_run = self.conn.prepare_cached(&sql).and_then(|mut found| found.exists([run])).map_err(of)?;
        one(usize::from(has_run), || format!("there is no run {}", attempt.run))?;
        let values = params![
            run,
            attempt.shard,
            attempt.no,
            attempt.id.0.cast_signed(),
            attempt.worker.0,
            incarnation,
            state,
            why,
            attempt.at.0,
            ended_at,
            released_at,
            message
        ];
        self.hot(at, Hot::InsertAttempt)?.execute(values).map(drop).map_err(of)
    }

    fn set_attempt(&mut self, attempt: &Attempt) -> Result<(), Error> {
        let at = self.segment_of(attempt.run);
        let run = attempt.run.0.cast_signed();
        let (state, why) = (codec::attempt_state(attempt.state), codec::why(attempt.why));
        let ended_at = codec::set_instant(attempt.ended_at);
        let released_at = codec::set_instant(attempt.released_at);
        let message = attempt.message.as_deref();
        let changed = if is_first(attempt) {
            let values = params![run, state, why, ended_at, released_at, message];
            self.hot(at, Hot::SetFirst)?.execute(values)
        } else {
            let values = params![run, attempt.shard, attempt.no, state, why, ended_at, released_at, message];
            self.hot(at, Hot::SetAttempt)?.execute(values)
        };
        one(changed.map_err(of)?, || format!("there is no attempt {}", attempt.id))
    }

    fn define(&mut self, definition: &Definition) -> Result<(), Error> {
        let Some((app, _)) = self.store.apps.get(&definition.app) else {
            return Err(wrong(format!("job {} names app {}, which does not exist", definition.id, definition.app)));
        };
        let (id, version) = (definition.id, definition.version);
        let state = codec::job_state(definition.state);
        let upsert = "INSERT INTO job (id, app, version, state) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (id) DO UPDATE SET version = excluded.version, state = excluded.state \
             WHERE excluded.version > version";
        let changed = self.cold(upsert, params![id.0, definition.app.0, version.0, state])?;
        one(changed, || format!("job {id} has version {version} already"))?;
        let (spec, headers) = codec::spec_params(definition, &self.store.key)?;
        let insert = "INSERT INTO definition (key, app, name, spec, state, at, by, headers, names_secret, managed_by, \
             pause_by, pause_at, pause_reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let pause = definition.pause.as_ref();
        let values = params![
            codec::definition_key(id, version),
            definition.app.0,
            definition.name,
            spec,
            state,
            definition.at.0,
            definition.by,
            headers,
            definition.spec.target.names_secret(),
            definition.managed_by,
            pause.map(|pause| &pause.by),
            pause.map(|pause| pause.at.0),
            pause.and_then(|pause| pause.reason.as_deref()),
        ];
        self.cold(insert, values)?;
        let name = "INSERT INTO job_name (namespace, name, job, at, is_used) VALUES (?1, ?2, ?3, ?4, 1) \
             ON CONFLICT DO NOTHING";
        self.cold(name, params![app.namespace, definition.name, id.0, definition.at.0])?;
        self.cold("UPDATE job_name SET is_used = 1 WHERE job = ?1 AND is_used = 0", params![id.0])?;
        self.store.watch.define(definition);
        self.changes.has_definition = true;
        self.cold("DELETE FROM upstream WHERE job = ?1", params![id.0])?;
        let is_fired = !parents(&definition.spec).is_empty();
        for edge in &definition.spec.after {
            let fires = is_fired.then(|| child::code(edge.when));
            let insert = "INSERT INTO upstream (job, upstream, token, fires) VALUES (?1, ?2, 0, ?3)";
            self.cold(insert, params![id.0, edge.job.0, fires])?;
            if is_fired {
                self.changes.parents.insert(edge.job);
            }
        }
        self.free_if_deleted(id, definition.state)
    }

    fn set_job(
        &mut self,
        job: JobId,
        state: JobState,
        at: UnixMs,
        by: &str,
        reason: Option<&str>,
    ) -> Result<(), Error> {
        let code = codec::job_state(state);
        let changed = self.cold("UPDATE job SET state = ?2 WHERE id = ?1", params![job.0, code])?;
        one(changed, || format!("there is no job {job}"))?;
        let current = "UPDATE definition SET state = ?2, pause_by = ?3, pause_at = ?4, pause_reason = ?5 \
             WHERE key = (?1 << 32) + (SELECT version FROM job WHERE id = ?1)";
        let is_paused = state == JobState::Paused;
        let (pause_by, pause_at) = (is_paused.then_some(by), is_paused.then_some(at.0));
        self.cold(current, params![job.0, code, pause_by, pause_at, reason.filter(|_| is_paused)])?;
        let history = "INSERT INTO job_state (job, state, at, by, reason) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.cold(history, params![job.0, code, at.0, by, reason])?;
        self.free_if_deleted(job, state)
    }

    fn free_if_deleted(&mut self, job: JobId, state: JobState) -> Result<(), Error> {
        if state == JobState::Deleted {
            self.cold("DELETE FROM job_name WHERE job = ?1", params![job.0])?;
            self.cold("DELETE FROM upstream WHERE job = ?1", params![job.0])?;
        }
        Ok(())
    }

    fn register(&mut self, worker: &Registration, state: WorkerState) -> Result<(), Error> {
        let context = codec::secret_context(worker.id, worker.incarnation);
        let sql = format!(
            "INSERT OR REPLACE INTO worker ({}) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)",
            codec::WORKER_COLUMNS
        );
        let values = params![
            worker.id.0,
            worker.app.0,
            worker.name,
            worker.incarnation.0.cast_signed(),
            worker.url,
            worker.protocol.word(),
            serde_json::to_string(&worker.handlers).expect("a list of texts"),
            serde_json::to_string(&worker.labels).expect("a map of texts"),
            worker.capacity,
            self.store.key.seal(&worker.secret.0, &context)?,
            worker.at.0,
            codec::worker_state(state),
            worker.list_max,
        ];
        self.cold(&sql, values).map(drop)
    }

    pub(crate) fn segment_of(&self, run: RunId) -> usize {
        position(&self.store.segments, run)
    }

    pub(crate) fn tally(&mut self, at: usize) -> &mut Tally {
        let known: &Segment = &self.store.segments[at];
        self.changes.tallies[at].get_or_insert(known.tally)
    }

    pub(crate) fn hot(&mut self, at: usize, hot: Hot) -> Result<&mut CachedStatement<'s>, Error> {
        let found = self.hot.iter().position(|(segment, _)| *segment == at);
        let index = found.unwrap_or_else(|| {
            self.hot.push((at, Default::default()));
            self.hot.len() - 1
        });
        let place = &mut self.hot[index].1[hot as usize];
        if place.is_none() {
            *place = Some(self.conn.prepare_cached(self.store.segments[at].sql(hot)).map_err(of)?);
        }
        Ok(place.as_mut().expect("set just now"))
    }

    pub(crate) fn cold(&self, sql: &str, values: &[&dyn ToSql]) -> Result<usize, Error> {
        self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute(values)).map_err(of)
    }
}

fn is_first(attempt: &Attempt) -> bool {
    attempt.shard == 0 && attempt.no == 1
}

fn is_first_of(attempt: &Attempt, run: RunId) -> bool {
    attempt.run == run && is_first(attempt)
}

/// Attempt 1 of shard 0 has no id of its own: it is its run's.
fn check_id(attempt: &Attempt) -> Result<(), Error> {
    let fits = is_first(attempt) == (attempt.id == attempt.run.first_attempt());
    one(usize::from(fits), || {
        format!("attempt {} cannot be attempt {} of shard {}", attempt.id, attempt.no, attempt.shard)
    })
}

fn one(changed: usize, what: impl FnOnce() -> String) -> Result<(), Error> {
    if changed == 1 { Ok(()) } else { Err(wrong(what())) }
}
