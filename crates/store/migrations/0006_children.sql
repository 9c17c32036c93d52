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
