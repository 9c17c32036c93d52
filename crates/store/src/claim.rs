//! Beginning a term: raising epochs, and reading everything durable of a partition.

use std::collections::{BTreeMap, BTreeSet};

use rota_core::batch::{Attempt, Exception, Loaded, OpenRun, Origin, Run};
use rota_core::id::{AppId, Epoch, JobId, PartitionId, RunId, Seq};
use rota_core::job::{Definition, JobState};
use rota_core::time::UnixMs;
use rota_core::worker::{Registration, WorkerState};
use rota_port::store::Error;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::backfills;
use crate::codec::{self, ATTEMPT_COLUMNS, DEFINITION_COLUMNS, RUN_COLUMNS, WORKER_COLUMNS};
use crate::failure::{of, transaction};
use crate::past;
use crate::segment::position;
use crate::sqlite::SqliteStore;

/// What is read for all claimed partitions at once, by partition.
type By<T> = BTreeMap<PartitionId, Vec<T>>;

/// A partition's row.
pub(crate) struct Header {
    pub(crate) epoch: Epoch,
    pub(crate) seq: Seq,
    pub(crate) mark: UnixMs,
    at: UnixMs,
    floor: u64,
}

/// What one scan over the recent ledger gives.
#[derive(Default)]
struct Recent {
    open: By<OpenRun>,
    covered: BTreeMap<PartitionId, BTreeMap<JobId, UnixMs>>,
}

impl SqliteStore {
    /// Requests that no batch of an earlier term has answered were never carried out.
    fn forget_unanswered(&self, partition: PartitionId) -> Result<(), Error> {
        let apps: Vec<u32> = self.apps.iter().filter(|(_, (_, of))| *of == partition).map(|(id, _)| id.0).collect();
        for app in apps {
            let sql = "DELETE FROM request WHERE run IS NULL AND job IN (SELECT id FROM job WHERE app = ?1)";
            self.conn.prepare_cached(sql).and_then(|mut s| s.execute([app])).map_err(of)?;
        }
        Ok(())
    }

    pub(crate) fn claim_all(&mut self, partitions: &[PartitionId]) -> Result<Vec<Loaded>, Error> {
        transaction(&self.conn, || {
            for partition in partitions {
                assert!(partition.0 < self.partitions, "a server claims only partitions that exist");
                let raise = "UPDATE partition SET epoch = epoch + 1 WHERE id = ?1";
                self.conn.prepare_cached(raise).and_then(|mut s| s.execute([partition.0])).map_err(of)?;
                self.forget_unanswered(*partition)?;
            }
            Ok(())
        })?;
        let headers: BTreeMap<PartitionId, Header> = partitions
            .iter()
            .map(|partition| Ok((*partition, header(&self.conn, *partition)?)))
            .collect::<rusqlite::Result<_>>()
            .map_err(of)?;
        let mut recent = Scan::run(self, &headers)?;
        let mut exceptions = self.exceptions(&headers).map_err(of)?;
        let mut workers = self.living_workers(&headers).map_err(of)?;
        let mut loaded = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let header = &headers[partition];
            let apps = self.apps.values().filter(|(_, of)| of == partition).map(|(app, _)| app.clone());
            let apps: Vec<_> = apps.collect();
            let covered = recent.covered.remove(partition).unwrap_or_default();
            loaded.push(Loaded {
                partition: *partition,
                epoch: header.epoch,
                seq: header.seq,
                mark: header.mark,
                at: header.at,
                jobs: self.living_jobs(apps.iter().map(|app| app.id)).map_err(of)?,
                apps,
                exceptions: exceptions.remove(partition).unwrap_or_default(),
                workers: workers.remove(partition).unwrap_or_default(),
                open: recent.open.remove(partition).unwrap_or_default(),
                covered: covered.into_iter().collect(),
                freezes: self.freezes_of(*partition).map_err(of)?,
                backfills: self.backfills_of(*partition).map_err(of)?,
            });
        }
        Ok(loaded)
    }

    fn living_jobs(&self, apps: impl Iterator<Item = AppId>) -> rusqlite::Result<Vec<Definition>> {
        let sql = format!(
            "SELECT {DEFINITION_COLUMNS} FROM job j JOIN definition d ON d.key = (j.id << 32) + j.version \
             WHERE j.app = ?1 AND j.state <> {} ORDER BY j.id",
            codec::job_state(JobState::Deleted)
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut jobs = Vec::new();
        for app in apps {
            for definition in statement.query_map([app.0], |row| codec::definition(row, &self.key))? {
                jobs.push(definition?);
            }
        }
        jobs.sort_unstable_by_key(|definition| definition.id);
        Ok(jobs)
    }

    fn exceptions(&self, headers: &BTreeMap<PartitionId, Header>) -> rusqlite::Result<By<(JobId, Exception)>> {
        let mut statement =
            self.conn.prepare_cached("SELECT job, partition, kind, at, until FROM exception ORDER BY job")?;
        let mut rows = statement.query([])?;
        let mut all: By<(JobId, Exception)> = By::new();
        while let Some(row) = rows.next()? {
            let partition = PartitionId(row.get(1)?);
            if headers.contains_key(&partition) {
                all.entry(partition).or_default().push((JobId(row.get(0)?), codec::read_exception(row, 2)?));
            }
        }
        Ok(all)
    }

    fn living_workers(
        &self,
        headers: &BTreeMap<PartitionId, Header>,
    ) -> rusqlite::Result<By<(Registration, WorkerState)>> {
        let sql = format!("SELECT {WORKER_COLUMNS} FROM worker WHERE state <> ?1 ORDER BY id");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([codec::worker_state(WorkerState::Offline)])?;
        let mut all: By<(Registration, WorkerState)> = By::new();
        while let Some(row) = rows.next()? {
            let partition = self.partition_of_app(AppId(row.get(1)?));
            if let Some(partition) = partition.filter(|partition| headers.contains_key(partition)) {
                all.entry(partition).or_default().push(codec::worker(row, &self.key)?);
            }
        }
        Ok(all)
    }
}

/// One pass over the listed runs and over all from the lowest floor on, for all partitions. The
/// contract of `Batch::floor` says that nothing else can be open or above a mark.
struct Scan<'s> {
    store: &'s SqliteStore,
    headers: &'s BTreeMap<PartitionId, Header>,
    listed: BTreeMap<RunId, PartitionId>,
    has_shards: bool,
    has_traces: bool,
    recent: Recent,
}

impl<'s> Scan<'s> {
    fn run(store: &'s SqliteStore, headers: &'s BTreeMap<PartitionId, Header>) -> Result<Recent, Error> {
        let listed = listed(&store.conn, headers).map_err(of)?;
        let has_shards = past::has_shards(&store.conn).map_err(of)?;
        let has_traces = past::has_traces(&store.conn).map_err(of)?;
        let mut scan = Scan { store, headers, listed, has_shards, has_traces, recent: Recent::default() };
        for (run, partition) in scan.listed.clone() {
            let segment = store.segments[position(&store.segments, run)].id;
            let sql = format!("SELECT {RUN_COLUMNS} FROM run_{segment} WHERE id = ?1");
            let mut statement = store.conn.prepare_cached(&sql).map_err(of)?;
            let read = statement.query_row([run.0.cast_signed()], run_and_first).optional().map_err(of)?;
            if let Some((run, first)) = read {
                let attempts = attempts(&store.conn, segment, run.id, first).map_err(of)?;
                scan.look(partition, run, attempts)?;
            }
        }
        let floor = headers.values().map(|header| header.floor).min().unwrap_or(u64::MAX);
        for segment in &store.segments[position(&store.segments, RunId(floor))..] {
            scan.segment(segment.id, floor)?;
        }
        for open in scan.recent.open.values_mut() {
            open.sort_unstable_by_key(|open| open.run.id);
        }
        Ok(scan.recent)
    }

    /// All runs of a segment from the floor on that are not listed.
    fn segment(&mut self, segment: u32, floor: u64) -> Result<(), Error> {
        let conn = &self.store.conn;
        let floor = i64::try_from(floor).unwrap_or(i64::MAX);
        let sql = format!("SELECT DISTINCT run FROM attempt_{segment} WHERE run >= ?1");
        let mut statement = conn.prepare_cached(&sql).map_err(of)?;
        let with_more = statement.query_map([floor], |row| row.get::<_, i64>(0)).map_err(of)?;
        let with_more: BTreeSet<i64> = with_more.collect::<rusqlite::Result<_>>().map_err(of)?;
        let sql = format!("SELECT {RUN_COLUMNS} FROM run_{segment} WHERE id >= ?1 ORDER BY id");
        let mut statement = conn.prepare_cached(&sql).map_err(of)?;
        let mut rows = statement.query([floor]).map_err(of)?;
        while let Some(row) = rows.next().map_err(of)? {
            let (run, first) = run_and_first(row).map_err(of)?;
            let partition = self.store.partition_of_app(run.app);
            let is_ours = |of: &PartitionId| self.headers.get(of).is_some_and(|header| run.id.0 >= header.floor);
            let Some(partition) = partition.filter(is_ours).filter(|_| !self.listed.contains_key(&run.id)) else {
                continue;
            };
            let attempts = if with_more.contains(&run.id.0.cast_signed()) {
                attempts(conn, segment, run.id, first).map_err(of)?
            } else {
                first.into_iter().collect()
            };
            self.look(partition, run, attempts)?;
        }
        Ok(())
    }

    fn look(&mut self, partition: PartitionId, run: Run, attempts: Vec<Attempt>) -> Result<(), Error> {
        if run.origin == Origin::Schedule && run.slot_last > self.headers[&partition].mark {
            let covered = self.recent.covered.entry(partition).or_default();
            let last = covered.entry(run.job).or_insert(run.slot_last);
            *last = run.slot_last.max(*last);
        }
        if run.state.is_terminal() && attempts.iter().all(|attempt| attempt.released_at.is_some()) {
            return Ok(());
        }
        let definition = self.store.other_version(run.job, run.version).map_err(of)?;
        let is_listed = self.listed.contains_key(&run.id);
        let rerun = match run.origin {
            Origin::Rerun => past::rerun(&self.store.conn, run.id).map_err(of)?,
            Origin::Schedule | Origin::Manual | Origin::Api | Origin::Backfill | Origin::Upstream => None,
        };
        let backfill = match run.origin {
            Origin::Backfill => backfills::of_run(&self.store.conn, run.id).map_err(of)?,
            Origin::Schedule | Origin::Manual | Origin::Api | Origin::Rerun | Origin::Upstream => None,
        };
        let shards = if self.has_shards { past::shards(&self.store.conn, run.id).map_err(of)? } else { None };
        let parent = if self.has_traces { past::trace_parent(&self.store.conn, run.id).map_err(of)? } else { None };
        let open = OpenRun { run, attempts, definition, is_listed, rerun, shards, backfill, parent };
        self.recent.open.entry(partition).or_default().push(open);
        Ok(())
    }
}

pub(crate) fn header(conn: &Connection, partition: PartitionId) -> rusqlite::Result<Header> {
    let mut statement = conn.prepare_cached("SELECT epoch, seq, mark, at, floor FROM partition WHERE id = ?1")?;
    statement.query_row([partition.0], |row| {
        let number = |column| row.get(column).map(i64::cast_unsigned);
        let floor = number(4)?;
        Ok(Header {
            epoch: Epoch(number(0)?),
            seq: Seq(number(1)?),
            mark: UnixMs(row.get(2)?),
            at: UnixMs(row.get(3)?),
            floor: if floor == i64::MAX.cast_unsigned() { u64::MAX } else { floor },
        })
    })
}

fn listed(
    conn: &Connection,
    headers: &BTreeMap<PartitionId, Header>,
) -> rusqlite::Result<BTreeMap<RunId, PartitionId>> {
    let mut statement = conn.prepare_cached("SELECT run, partition FROM listed")?;
    let rows =
        statement.query_map([], |row| Ok((RunId(row.get::<_, i64>(0)?.cast_unsigned()), PartitionId(row.get(1)?))))?;
    rows.filter(|row| row.as_ref().map_or(true, |(_, partition)| headers.contains_key(partition))).collect()
}

fn run_and_first(row: &Row<'_>) -> rusqlite::Result<(Run, Option<Attempt>)> {
    Ok((codec::run(row)?, codec::first_attempt(row)?))
}

/// All attempts of a run, ordered by (shard, no); `first` is the one in the run's own row.
pub(crate) fn attempts(
    conn: &Connection,
    segment: u32,
    run: RunId,
    first: Option<Attempt>,
) -> rusqlite::Result<Vec<Attempt>> {
    let sql = format!("SELECT {ATTEMPT_COLUMNS} FROM attempt_{segment} WHERE run = ?1 ORDER BY shard, no");
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map([run.0.cast_signed()], codec::attempt)?;
    // Attempt 1 of shard 0 comes before all others.
    first.into_iter().map(Ok).chain(rows).collect()
}
