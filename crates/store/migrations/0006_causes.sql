-- What asks for runs beside schedules, people and programs: ranges of the past, and the ends of other runs; and within
-- which span a run was asked for.

-- Ranges of the past that were asked to run. next is the first slot without a row, if there is one. Without ended_at it
-- has not ended; with a why it was cancelled, else every slot has its run.
CREATE TABLE backfill (
    id          INTEGER PRIMARY KEY,
    partition   INTEGER NOT NULL,
    job         INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    since       INTEGER NOT NULL,
    until       INTEGER NOT NULL,
    next        INTEGER,
    made        INTEGER NOT NULL,
    made_at     INTEGER,
    total       INTEGER NOT NULL,
    pace_runs   INTEGER NOT NULL,
    pace_per_ms INTEGER NOT NULL,
    parallel    INTEGER,
    at          INTEGER NOT NULL,
    by          TEXT NOT NULL,
    reason      TEXT,
    ended_at    INTEGER,
    ended_by    TEXT,
    why         TEXT
);
CREATE INDEX backfill_by_job ON backfill (job, id);
CREATE INDEX backfill_open ON backfill (partition, id) WHERE ended_at IS NULL;

-- Which backfill a run belongs to.
CREATE TABLE backfill_run (
    run      INTEGER PRIMARY KEY,
    backfill INTEGER NOT NULL
);
CREATE INDEX backfill_run_by_backfill ON backfill_run (backfill, run);

-- How a run of the upstream job has to end to fire the job; NULL for jobs that wait for it. Jobs that fired nothing
-- until now were refused, so no row needs it.
ALTER TABLE upstream ADD COLUMN fires INTEGER;

-- Ends of runs that nobody has answered yet, each in the partition of the job that it fires. A number is never used
-- again.
CREATE TABLE note (
    no        INTEGER PRIMARY KEY AUTOINCREMENT,
    partition INTEGER NOT NULL,
    job       INTEGER NOT NULL,
    app       INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    parent    INTEGER NOT NULL,
    state     INTEGER NOT NULL,
    slot      INTEGER NOT NULL,
    at        INTEGER NOT NULL
);
CREATE INDEX note_by_partition ON note (partition, no);
CREATE INDEX note_by_parent ON note (parent);

-- Whose end fired a run.
CREATE TABLE child (
    run    INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    note   INTEGER NOT NULL
);
CREATE INDEX child_by_parent ON child (parent);

-- Within which span a run was asked for, as a header `traceparent` has it. Most runs have none.
CREATE TABLE trace (
    run    INTEGER PRIMARY KEY,
    parent TEXT NOT NULL
);

-- Values of secrets that were replaced or removed at `at`, sealed as they were: what got one may still say it.
CREATE TABLE retired_secret (
    id        INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    value     BLOB NOT NULL,
    at        INTEGER NOT NULL,
    by        TEXT NOT NULL
);
CREATE INDEX retired_secret_by_namespace ON retired_secret (namespace, id);
