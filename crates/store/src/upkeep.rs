//! What a store does for itself between commits, in slices of a few milliseconds.
//!
//! A segment's life: it is open; it is sealed when it is full or old; its by-job table is filled, in
//! order, once the blocks of ids that were taken before its end are nearly used up; it is dropped as a
//! whole. After a start, the runs of segments without a by-job table are counted first.

use std::sync::Arc;

use rota_core::id::{JobId, RunId};
use rota_core::time::UnixMs;
use rota_port::store::{Error, JOB_NAME_UNUSED_MS, REQUEST_KEPT_MS};
use rusqlite::params;

use crate::byjob::Pair;
use crate::failure::{of, transaction};
use crate::past;
use crate::reserve::ids_next;
use crate::segment::{self, AGE_MAX_MS, Segment, Tally};
use crate::sqlite::SqliteStore;

/// Runs counted in a slice.
const COUNTED_PER_SLICE: i64 = 20_000;
/// Rows of a by-job table filled in a slice.
const FILLED_PER_SLICE: usize = 2_000;
/// From a segment's sealing to the filling of its by-job table: late runs go to memory meanwhile.
const SETTLE_MS: i64 = 15_000;
/// Between two looks for rows that have expired.
const EXPIRE_EVERY_MS: i64 = 60_000;
/// Rows that expire in a slice.
const EXPIRED_PER_SLICE: i64 = 500;
/// Rows after which a checkpoint is worth its fsync.
const CHECKPOINT_ROWS: u64 = 20_000;
/// A quiet store moves its log into the file after this time.
const CHECKPOINT_AGE_MS: i64 = 10_000;

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Chores {
    expired_at: Option<UnixMs>,
    filling: Option<Filling>,
    /// Rows committed since the last checkpoint of ours.
    rows: u64,
    checkpoint_at: Option<UnixMs>,
}

impl Chores {
    pub(crate) fn note_commit(&mut self, rows: u64) {
        self.rows += rows;
    }
}

/// A by-job table that is being filled.
#[derive(Debug)]
struct Filling {
    segment: u32,
    pairs: Arc<Vec<Pair>>,
    done: usize,
}

/// Does one thing that waits; says whether more does.
pub(crate) fn slice(store: &mut SqliteStore, now: UnixMs) -> Result<bool, Error> {
    date_open(store, now)?;
    store.note_alive(now)?;
    if count(store)? {
        return Ok(true);
    }
    let open = open_segment(store);
    if open.tally.runs >= store.rows_max || (open.tally.runs > 0 && now.since_ms(open.began_at) >= AGE_MAX_MS) {
        seal(store, now)?;
        return Ok(true);
    }
    if fill(store, now)? || expire(store, now)? {
        return Ok(true);
    }
    checkpoint(store, now)?;
    Ok(false)
}

/// Begins a new segment if the open one is full.
pub(crate) fn seal_if_full(store: &mut SqliteStore, now: UnixMs) -> Result<(), Error> {
    if open_segment(store).tally.runs >= store.rows_max { seal(store, now) } else { Ok(()) }
}

fn open_segment(store: &SqliteStore) -> &Segment {
    store.segments.last().expect("there is always an open segment")
}

/// The segment that a store was founded with begins when the time is first known.
fn date_open(store: &mut SqliteStore, now: UnixMs) -> Result<(), Error> {
    let open = open_segment(store);
    if open.began_at != UnixMs(0) {
        return Ok(());
    }
    let values = (open.id, now.0);
    store.conn.execute("UPDATE segment SET began_at = ?2 WHERE id = ?1", values).map_err(of)?;
    store.segments.last_mut().expect("there is always an open segment").began_at = now;
    Ok(())
}

/// Counts runs of a segment whose by-job table is not whole; says whether it did.
fn count(store: &mut SqliteStore) -> Result<bool, Error> {
    let waits = |segment: &&mut Segment| !segment.is_indexed && !segment.tally.is_whole();
    let Some(segment) = store.segments.iter_mut().rev().find(waits) else { return Ok(false) };
    let sql = format!("SELECT id, job, ended_at FROM run_{} WHERE id > ?1 ORDER BY id LIMIT ?2", segment.id);
    let mut statement = store.conn.prepare_cached(&sql).map_err(of)?;
    let mut rows = statement.query(params![segment.tally.upto.cast_signed(), COUNTED_PER_SLICE]).map_err(of)?;
    let (mut tally, mut pairs) = (segment.tally, Vec::new());
    while let Some(row) = rows.next().map_err(of)? {
        let mut read = || -> rusqlite::Result<()> {
            let id = row.get::<_, i64>(0)?.cast_unsigned();
            let ended_at: i64 = row.get(2)?;
            tally.add((ended_at >= 0).then_some(UnixMs(ended_at)));
            tally.upto = id;
            pairs.push((segment.id, Pair::new(JobId(row.get(1)?), RunId(id))));
            Ok(())
        };
        read().map_err(of)?;
    }
    let is_last = (pairs.len() as u64) < COUNTED_PER_SLICE.cast_unsigned();
    if is_last {
        tally.upto = u64::MAX;
    }
    segment.tally = tally;
    store.byjob.push(pairs);
    if is_last {
        store.byjob.complete(segment.id);
    }
    Ok(true)
}

/// Ends the open segment and begins the next one, with the ids that nobody has taken yet.
fn seal(store: &mut SqliteStore, now: UnixMs) -> Result<(), Error> {
    let sealed = open_segment(store);
    let (sealed_id, sealed_start) = (sealed.id, sealed.start);
    let id = store.segments.iter().map(|segment| segment.id).max().expect("not empty") + 1;
    let start = transaction(&store.conn, || {
        // Every run has an id that was taken; but should one not, it stays where it is found.
        let highest = format!("SELECT coalesce(max(id), 0) FROM run_{sealed_id}");
        let highest: i64 = store.conn.query_row(&highest, [], |row| row.get(0)).map_err(of)?;
        let start = ids_next(&store.conn).map_err(of)?.max(sealed_start + 1).max(highest.cast_unsigned() + 1);
        let update = "UPDATE segment SET sealed_at = ?2, at_max = ?2 WHERE id = ?1";
        store.conn.execute(update, (sealed_id, now.0)).map_err(of)?;
        segment::create(&store.conn, id, start, now).map_err(of)?;
        Ok(start)
    })?;
    let sealed = store.segments.last_mut().expect("there is always an open segment");
    (sealed.sealed_at, sealed.at_max) = (Some(now), Some(now));
    store.segments.push(Segment::new(id, start, now, Tally::EMPTY));
    store.byjob.begin(id);
    Ok(())
}

/// Fills a by-job table a bit further; says whether it did.
fn fill(store: &mut SqliteStore, now: UnixMs) -> Result<bool, Error> {
    if store.chores.filling.is_none() {
        let is_due = |segment: &&Segment| {
            !segment.is_indexed && segment.sealed_at.is_some_and(|sealed| now.since_ms(sealed) >= SETTLE_MS)
        };
        let Some(segment) = store.segments.iter().find(is_due).map(|segment| segment.id) else { return Ok(false) };
        let (pairs, _) = store.byjob.sort(segment);
        store.chores.filling = Some(Filling { segment, pairs, done: 0 });
    }
    let filling = store.chores.filling.as_ref().expect("begun just now, if not before");
    let (segment, done) = (filling.segment, filling.done);
    let end = filling.pairs.len().min(done + FILLED_PER_SLICE);
    transaction(&store.conn, || {
        // After a restart, a part may be there already.
        let sql = format!("INSERT INTO byjob_{segment} (job, run) VALUES (?1, ?2) ON CONFLICT DO NOTHING");
        let mut insert = store.conn.prepare_cached(&sql).map_err(of)?;
        for pair in &filling.pairs[done..end] {
            insert.execute(params![pair.job().0, pair.run().0.cast_signed()]).map_err(of)?;
        }
        Ok(())
    })?;
    let is_done = end == filling.pairs.len();
    if let Some(filling) = store.chores.filling.as_mut() {
        filling.done = end;
    }
    if is_done {
        finish_filling(store, segment)?;
    }
    Ok(true)
}

/// The sorted pairs are in the table; what came late follows, or the table is whole.
fn finish_filling(store: &mut SqliteStore, segment: u32) -> Result<(), Error> {
    let (pairs, late) = store.byjob.sort(segment);
    if late > 0 {
        store.chores.filling = Some(Filling { segment, pairs, done: 0 });
        return Ok(());
    }
    store.conn.execute("UPDATE segment SET is_indexed = 1 WHERE id = ?1", [segment]).map_err(of)?;
    if let Some(indexed) = store.segments.iter_mut().find(|known| known.id == segment) {
        indexed.is_indexed = true;
    }
    store.byjob.forget(segment);
    store.chores.filling = None;
    Ok(())
}

/// Removes requests and unused names whose time is over; says whether more wait.
fn expire(store: &mut SqliteStore, now: UnixMs) -> Result<bool, Error> {
    if store.chores.expired_at.is_some_and(|at| now.since_ms(at) < EXPIRE_EVERY_MS) {
        return Ok(false);
    }
    let removed = transaction(&store.conn, || {
        let requests = "DELETE FROM request WHERE id IN (SELECT id FROM request ORDER BY id LIMIT ?2) AND at <= ?1";
        let values = params![now.plus_ms(-REQUEST_KEPT_MS).0, EXPIRED_PER_SLICE];
        let removed = store.conn.execute(requests, values).map_err(of)?;
        let names = "DELETE FROM job_name WHERE is_used = 0 AND at <= ?1";
        store.conn.execute(names, [now.plus_ms(-JOB_NAME_UNUSED_MS).0]).map_err(of)?;
        Ok(removed)
    })?;
    let more_wait = removed as u64 == EXPIRED_PER_SLICE.cast_unsigned();
    if !more_wait {
        store.chores.expired_at = Some(now);
    }
    Ok(more_wait)
}

/// Moves the log into the file, as far as readers let it; commits do the same when the log is long.
fn checkpoint(store: &mut SqliteStore, now: UnixMs) -> Result<(), Error> {
    let chores = &mut store.chores;
    let last = *chores.checkpoint_at.get_or_insert(now);
    let is_old = chores.rows > 0 && now.since_ms(last) >= CHECKPOINT_AGE_MS;
    if chores.rows < CHECKPOINT_ROWS && !is_old {
        return Ok(());
    }
    store.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(of)?;
    (chores.rows, chores.checkpoint_at) = (0, Some(now));
    Ok(())
}

/// Drops sealed segments in which everything ended before `before`.
pub(crate) fn sweep(store: &mut SqliteStore, before: UnixMs, floor: u64) -> Result<u32, Error> {
    let mut swept = 0;
    let mut at = 0;
    while at + 1 < store.segments.len() {
        if may_drop(store, at, before, floor)? {
            let id = store.segments[at].id;
            let (start, end) = (store.segments[at].start, store.segments[at + 1].start);
            transaction(&store.conn, || {
                segment::remove(&store.conn, id).and_then(|()| past::note_sweep(&store.conn, start, end)).map_err(of)
            })?;
            store.segments.remove(at);
            store.byjob.forget(id);
            store.chores.filling.take_if(|filling| filling.segment == id);
            swept += 1;
        } else {
            at += 1;
        }
    }
    past::forget_secrets(&store.conn, before).map_err(of)?;
    Ok(swept)
}

/// The cheap questions first: most segments are too young.
fn may_drop(store: &mut SqliteStore, at: usize, before: UnixMs, floor: u64) -> Result<bool, Error> {
    let segment = &store.segments[at];
    let end = store.segments[at + 1].start;
    if segment.at_max.is_none_or(|at_max| at_max >= before) || end > floor {
        return Ok(false);
    }
    let start = if at == 0 { 0 } else { segment.start };
    let listed = "SELECT 1 FROM listed WHERE run >= ?1 AND run < ?2";
    let is_listed = store
        .conn
        .prepare_cached(listed)
        .and_then(|mut statement| statement.exists(params![start.cast_signed(), end.cast_signed()]))
        .map_err(of)?;
    if is_listed {
        return Ok(false);
    }
    if !segment.tally.is_whole() {
        let tally = count_whole(store, segment.id).map_err(of)?;
        // One without an index is counted in slices, together with its pairs.
        if segment.is_indexed {
            store.segments[at].tally = tally;
        }
        return Ok(tally.open == 0 && tally.ended_max < before);
    }
    Ok(segment.tally.open == 0 && segment.tally.ended_max < before)
}

fn count_whole(store: &SqliteStore, segment: u32) -> rusqlite::Result<Tally> {
    let sql = format!("SELECT count(*), coalesce(sum(ended_at < 0), 0), coalesce(max(ended_at), 0) FROM run_{segment}");
    store.conn.query_row(&sql, [], |row| {
        Ok(Tally {
            upto: u64::MAX,
            runs: row.get::<_, i64>(0)?.cast_unsigned(),
            open: row.get::<_, i64>(1)?.cast_unsigned(),
            ended_max: UnixMs(row.get(2)?),
        })
    })
}
