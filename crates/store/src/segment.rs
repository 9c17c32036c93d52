//! The ledger's parts: which there are, and which one a run's id belongs to.
//!
//! A segment owns the ids from its start to the start of the next one, whatever happens: a run that is
//! inserted late, from a block of ids that was taken before the newest segment began, goes to an older
//! segment. Ids below the oldest start (their segment was dropped) belong to the oldest one there is.

use rota_core::id::RunId;
use rota_core::time::UnixMs;
use rusqlite::Connection;

use crate::codec::{ATTEMPT_COLUMNS, RUN_COLUMNS};
use crate::plain;

/// Runs after which a segment is sealed.
pub(crate) const ROWS_MAX: u64 = 1_000_000;
/// Age after which a segment with rows is sealed: a day, in milliseconds.
pub(crate) const AGE_MAX_MS: i64 = 24 * 3_600_000;

/// One part of the ledger.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: u32,
    /// Its first id.
    pub(crate) start: u64,
    /// When it began; 0 until the first upkeep, which knows the time.
    pub(crate) began_at: UnixMs,
    /// When it was sealed; none for the open one.
    pub(crate) sealed_at: Option<UnixMs>,
    /// Once sealed: no run in it was decided later than this.
    pub(crate) at_max: Option<UnixMs>,
    /// Whether its by-job table is whole.
    pub(crate) is_indexed: bool,
    /// What is in it, as far as it was counted.
    pub(crate) tally: Tally,
    sql: [String; Hot::COUNT],
}

/// Counts over a segment's runs up to an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// Runs with an id up to this one are counted; `u64::MAX`: all.
    pub(crate) upto: u64,
    /// Runs.
    pub(crate) runs: u64,
    /// Runs that have not ended.
    pub(crate) open: u64,
    /// The latest end.
    pub(crate) ended_max: UnixMs,
}

impl Tally {
    /// Nothing was counted, of a segment read from the file.
    const UNKNOWN: Tally = Tally { upto: 0, runs: 0, open: 0, ended_max: UnixMs(0) };
    /// Everything was counted, of a segment that begins.
    pub(crate) const EMPTY: Tally = Tally { upto: u64::MAX, ..Tally::UNKNOWN };

    /// Whether every run was counted.
    pub(crate) fn is_whole(&self) -> bool {
        self.upto == u64::MAX
    }

    /// Counts one more run.
    pub(crate) fn add(&mut self, ended_at: Option<UnixMs>) {
        self.runs += 1;
        match ended_at {
            Some(ended) => self.ended_max = self.ended_max.max(ended),
            None => self.open += 1,
        }
    }
}

/// The statements that nearly every commit uses, one text each per segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hot {
    InsertRun,
    SetRun,
    SetOpenRun,
    InsertFirst,
    SetFirst,
    SetBoth,
    InsertAttempt,
    SetAttempt,
    InsertMany,
    InsertSome,
    EndMany,
    EndSome,
}

impl Hot {
    pub(crate) const COUNT: usize = 12;
    /// Runs in one statement.
    pub(crate) const GROUP_LARGE: usize = 32;
    pub(crate) const GROUP_SMALL: usize = 8;
    const ALL: [Hot; Hot::COUNT] = [
        Hot::InsertRun,
        Hot::SetRun,
        Hot::SetOpenRun,
        Hot::InsertFirst,
        Hot::SetFirst,
        Hot::SetBoth,
        Hot::InsertAttempt,
        Hot::SetAttempt,
        Hot::InsertMany,
        Hot::InsertSome,
        Hot::EndMany,
        Hot::EndSome,
    ];

    /// An instant that is not there yet is negative (see [`crate::codec`]); one that is never goes away.
    fn sql(self, segment: u32) -> String {
        match self {
            Hot::InsertRun => format!(
                "INSERT INTO run_{segment} ({RUN_COLUMNS}) VALUES \
                 (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22)"
            ),
            Hot::SetRun => {
                format!("UPDATE run_{segment} SET state=?2, why=?3, ended_at=coalesce(?4,ended_at) WHERE id=?1")
            }
            Hot::SetOpenRun => format!(
                "UPDATE run_{segment} SET state=?2, why=?3, ended_at=coalesce(?4,ended_at) WHERE id=?1 AND ended_at<0"
            ),
            Hot::InsertFirst => format!(
                "UPDATE run_{segment} SET a_worker=?2, a_incarnation=?3, a_state=?4, a_why=?5, a_at=?6, \
                 a_ended_at=?7, a_released_at=?8, a_message=?9 WHERE id=?1 AND a_state IS NULL"
            ),
            Hot::SetFirst => format!(
                "UPDATE run_{segment} SET a_state=?2, a_why=?3, a_ended_at=coalesce(?4,a_ended_at), \
                 a_released_at=coalesce(?5,a_released_at), a_message=?6 WHERE id=?1 AND a_state IS NOT NULL"
            ),
            Hot::SetBoth => format!(
                "UPDATE run_{segment} SET state=?2, why=?3, ended_at=coalesce(?4,ended_at), a_state=?5, a_why=?6, \
                 a_ended_at=coalesce(?7,a_ended_at), a_released_at=coalesce(?8,a_released_at), a_message=?9 \
                 WHERE id=?1 AND ended_at<0 AND a_state IS NOT NULL"
            ),
            Hot::InsertAttempt => {
                format!(
                    "INSERT INTO attempt_{segment} ({ATTEMPT_COLUMNS}) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)"
                )
            }
            Hot::SetAttempt => format!(
                "UPDATE attempt_{segment} SET state=?4, why=?5, ended_at=coalesce(?6,ended_at), \
                 released_at=coalesce(?7,released_at), message=?8 WHERE run=?1 AND shard=?2 AND no=?3"
            ),
            Hot::InsertMany => plain::insert_sql(segment, Hot::GROUP_LARGE),
            Hot::InsertSome => plain::insert_sql(segment, Hot::GROUP_SMALL),
            Hot::EndMany => plain::end_sql(segment, Hot::GROUP_LARGE),
            Hot::EndSome => plain::end_sql(segment, Hot::GROUP_SMALL),
        }
    }
}

impl Segment {
    pub(crate) fn new(id: u32, start: u64, began_at: UnixMs, tally: Tally) -> Segment {
        let sql = Hot::ALL.map(|hot| hot.sql(id));
        Segment { id, start, began_at, sealed_at: None, at_max: None, is_indexed: false, tally, sql }
    }

    /// The text of a hot statement.
    pub(crate) fn sql(&self, hot: Hot) -> &str {
        &self.sql[hot as usize]
    }
}

/// The position of the segment that an id belongs to; `segments` is ordered by start.
pub(crate) fn position(segments: &[Segment], run: RunId) -> usize {
    segments.partition_point(|segment| segment.start <= run.0).max(1) - 1
}

/// Makes a segment's tables and its row, within the caller's transaction.
pub(crate) fn create(conn: &Connection, id: u32, start: u64, began_at: UnixMs) -> rusqlite::Result<()> {
    conn.execute_batch(&format!(
        "CREATE TABLE run_{id} (
            id INTEGER PRIMARY KEY, app INTEGER NOT NULL, job INTEGER NOT NULL, version INTEGER NOT NULL,
            origin INTEGER NOT NULL, slot INTEGER NOT NULL, slot_last INTEGER, slots INTEGER NOT NULL,
            state INTEGER NOT NULL, why TEXT, shards INTEGER NOT NULL, at INTEGER NOT NULL,
            ended_at INTEGER NOT NULL, param TEXT,
            a_worker INTEGER, a_incarnation INTEGER, a_state INTEGER, a_why TEXT, a_at INTEGER,
            a_ended_at INTEGER, a_released_at INTEGER, a_message TEXT);
         CREATE TABLE attempt_{id} (
            run INTEGER NOT NULL, shard INTEGER NOT NULL, no INTEGER NOT NULL, id INTEGER NOT NULL,
            worker INTEGER NOT NULL, incarnation INTEGER NOT NULL, state INTEGER NOT NULL, why TEXT,
            at INTEGER NOT NULL, ended_at INTEGER NOT NULL, released_at INTEGER NOT NULL, message TEXT,
            PRIMARY KEY (run, shard, no)) WITHOUT ROWID;
         CREATE TABLE byjob_{id} (job INTEGER NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (job, run)) WITHOUT ROWID;"
    ))?;
    let insert = "INSERT INTO segment (id, start, began_at) VALUES (?1, ?2, ?3)";
    conn.execute(insert, (id, start.cast_signed(), began_at.0)).map(drop)
}

/// Removes a segment's tables and its row, within the caller's transaction.
pub(crate) fn remove(conn: &Connection, id: u32) -> rusqlite::Result<()> {
    conn.execute_batch(&format!("DROP TABLE run_{id}; DROP TABLE attempt_{id}; DROP TABLE byjob_{id};"))?;
    conn.execute("DELETE FROM segment WHERE id = ?1", [id]).map(drop)
}

/// Whether a segment holds no run.
pub(crate) fn is_empty(conn: &Connection, id: u32) -> rusqlite::Result<bool> {
    conn.prepare(&format!("SELECT 1 FROM run_{id} LIMIT 1"))?.exists([]).map(|any| !any)
}

/// All segments, ordered by start; nothing of them is counted yet.
pub(crate) fn load(conn: &Connection) -> rusqlite::Result<Vec<Segment>> {
    let sql = "SELECT id, start, began_at, sealed_at, at_max, is_indexed FROM segment ORDER BY start";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let began_at = UnixMs(row.get(2)?);
        let segment = Segment::new(row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned(), began_at, Tally::UNKNOWN);
        Ok(Segment {
            sealed_at: row.get::<_, Option<i64>>(3)?.map(UnixMs),
            at_max: row.get::<_, Option<i64>>(4)?.map(UnixMs),
            is_indexed: row.get(5)?,
            ..segment
        })
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_belong_to_ranges() {
        let of = |id, start| Segment::new(id, start, UnixMs(0), Tally::EMPTY);
        let segments = [of(2, 100), of(5, 200), of(3, 300)];
        for (run, expected) in [(1, 0), (100, 0), (199, 0), (200, 1), (299, 1), (300, 2), (u64::MAX, 2)] {
            assert_eq!(position(&segments, RunId(run)), expected, "{run}");
        }
    }
}
