//! The writer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use rota_core::batch::{Batch, Loaded};
use rota_core::id::{AppId, JobId, PartitionId, partition_of};
use rota_core::time::UnixMs;
use rota_core::worker::App;
use rota_port::alerts::Watch;
use rota_port::store::{Error, Outcome, Reservation, Reserved, Store};
use rusqlite::types::Type;
use rusqlite::{Connection, Row};

use crate::byjob::ByJob;
use crate::commit::{self, Changes};
use crate::dir::DataDir;
use crate::failure::{of, transaction};
use crate::key::Key;
use crate::past::OwnTerm;
use crate::segment::{self, Segment};
use crate::upkeep::{self, Chores};

/// The one writer of a data directory; it has the directory to itself as long as it lives.
pub struct SqliteStore {
    pub(crate) conn: Connection,
    pub(crate) partitions: u16,
    pub(crate) key: Key,
    /// As they are in the file; only [`Store::reserve`] changes them.
    pub(crate) apps: BTreeMap<AppId, (App, PartitionId)>,
    /// As they are in the file, ordered by start, with what was counted; never empty, the last is open.
    pub(crate) segments: Vec<Segment>,
    pub(crate) byjob: Arc<ByJob>,
    pub(crate) chores: Chores,
    pub(crate) watch: Arc<Watch>,
    /// Jobs that fire others, or did once.
    pub(crate) parents: BTreeSet<JobId>,
    /// Notes of ended parents since it was opened.
    noted: u64,
    /// The term that this process writes, once it has begun.
    pub(crate) term: Option<OwnTerm>,
    /// Runs after which a segment is sealed.
    pub(crate) rows_max: u64,
    /// Dropped last: the lock goes after the connection is closed.
    _dir: DataDir,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("partitions", &self.partitions).finish_non_exhaustive()
    }
}

impl SqliteStore {
    pub(crate) fn new(
        conn: Connection,
        dir: DataDir,
        partitions: u16,
        key: Key,
        apps: BTreeMap<AppId, (App, PartitionId)>,
        segments: Vec<Segment>,
        byjob: Arc<ByJob>,
    ) -> SqliteStore {
        assert!(!segments.is_empty(), "a store is founded with its first segment");
        let chores = Chores::default();
        let rows_max = segment::ROWS_MAX;
        let watch = Arc::default();
        SqliteStore {
            conn,
            partitions,
            key,
            apps,
            segments,
            byjob,
            chores,
            watch,
            parents: BTreeSet::new(),
            noted: 0,
            term: None,
            rows_max,
            _dir: dir,
        }
    }

    /// Seals a segment after so many runs instead of a million.
    #[must_use]
    pub fn with_segment_rows_max(mut self, rows_max: u64) -> SqliteStore {
        assert!(rows_max > 0, "a segment holds at least one run");
        self.rows_max = rows_max;
        self
    }

    /// Which jobs name an alert rule, and which of their runs are open.
    #[must_use]
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// Lets the database grow to so many pages of 4 KiB and no further, as if the disk were full then.
    pub fn limit_pages(&self, pages_max: Option<u32>) -> Result<(), Error> {
        // The engine's own maximum.
        let pages_max = pages_max.unwrap_or(u32::MAX - 1);
        self.conn.query_row(&format!("PRAGMA max_page_count = {pages_max}"), [], |_| Ok(())).map_err(of)
    }

    pub(crate) fn partition_of_app(&self, app: AppId) -> Option<PartitionId> {
        self.apps.get(&app).map(|(_, partition)| *partition)
    }

    /// After a commit: brings what is known in memory up to what is in the file.
    fn absorb(&mut self, changes: Changes) {
        self.chores.note_commit(changes.rows);
        for (position, tally) in changes.tallies.into_iter().enumerate() {
            if let Some(tally) = tally {
                self.segments[position].tally = tally;
            }
        }
        self.byjob.push(changes.pairs);
        self.parents.extend(changes.parents);
        self.noted += changes.notes;
        if !self.watch.is_idle() || changes.has_definition {
            self.watch.note_durable(&changes.ends);
        }
    }
}

impl Store for SqliteStore {
    fn partitions(&self) -> u16 {
        self.partitions
    }

    fn begin(&mut self, at: UnixMs, version: &str, tzdb: &str) -> Result<(), Error> {
        self.begin_term(at, version, tzdb)
    }

    fn end(&mut self, at: UnixMs) -> Result<(), Error> {
        self.end_term(at)
    }

    fn claim(&mut self, partitions: &[PartitionId]) -> Result<Vec<Loaded>, Error> {
        let loaded = self.claim_all(partitions)?;
        self.watch.load(&loaded);
        Ok(loaded)
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        if let Some(batch) = batches.first() {
            upkeep::seal_if_full(self, batch.at)?;
        }
        let mut changes = Changes::new(self.segments.len());
        let outcomes = transaction(&self.conn, || commit::apply(self, batches, &mut changes))?;
        self.absorb(changes);
        Ok(outcomes)
    }

    fn noted(&self) -> u64 {
        self.noted
    }

    fn reserve_ids(&mut self, floor: u64, count: u64) -> Result<u64, Error> {
        self.take_ids(floor, count)
    }

    fn reserve_all(&mut self, what: &[Reservation]) -> Result<Vec<Reserved>, Error> {
        self.reserve_group(what)
    }

    fn sweep(&mut self, before: UnixMs, floor: u64) -> Result<u32, Error> {
        upkeep::sweep(self, before, floor)
    }

    fn upkeep(&mut self, now: UnixMs) -> Result<bool, Error> {
        upkeep::slice(self, now)
    }
}

/// All apps, each with its partition.
pub(crate) fn load_apps(conn: &Connection, partitions: u16) -> rusqlite::Result<BTreeMap<AppId, (App, PartitionId)>> {
    let mut statement = conn.prepare_cached("SELECT id, namespace, name, pending_max, rates FROM app ORDER BY id")?;
    let rows = statement.query_map([], read_app)?;
    rows.map(|app| {
        let app = app?;
        let partition = partition_of(&app.namespace, &app.name, partitions);
        Ok((app.id, (app, partition)))
    })
    .collect()
}

/// A row of (id, namespace, name, pending_max, rates).
pub(crate) fn read_app(row: &Row<'_>) -> rusqlite::Result<App> {
    let rates = serde_json::from_str(row.get_ref(4)?.as_str()?);
    let rates = rates.map_err(|e| rusqlite::Error::FromSqlConversionFailure(4, Type::Text, Box::new(e)))?;
    let (id, pending_max) = (AppId(row.get(0)?), row.get(3)?);
    Ok(App { id, namespace: row.get(1)?, name: row.get(2)?, pending_max, rates })
}
