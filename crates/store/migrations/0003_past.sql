-- Why someone changed a job's state, in their words.
ALTER TABLE job_state ADD COLUMN reason TEXT;

-- The times in which a process had the store. alive_at is as exact as a minute; stopped_at is set by an end in order.
CREATE TABLE term (
    id         INTEGER PRIMARY KEY,
    started_at INTEGER NOT NULL,
    alive_at   INTEGER NOT NULL,
    stopped_at INTEGER,
    version    TEXT NOT NULL,
    tzdb       TEXT NOT NULL
);

-- Freezes of partitions, or of one app; those without thaw_at are open.
CREATE TABLE freeze (
    partition  INTEGER NOT NULL,
    id         INTEGER NOT NULL,
    app        INTEGER,
    after      INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    by         TEXT NOT NULL,
    reason     TEXT NOT NULL,
    thaw_until INTEGER,
    thaw_at    INTEGER,
    thaw_by    TEXT,
    missed     INTEGER,
    PRIMARY KEY (partition, id)
) WITHOUT ROWID;

-- Which run a run repeats, and the shards that it leaves out, as a list in JSON.
CREATE TABLE rerun (
    run    INTEGER PRIMARY KEY,
    of     INTEGER NOT NULL,
    reused TEXT NOT NULL
);
CREATE INDEX rerun_by_origin ON rerun (of, run);
