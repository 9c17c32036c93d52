-- Attempts that one call may bring a worker; 0 for workers that take them one at a time.
ALTER TABLE worker ADD COLUMN list_max INTEGER NOT NULL DEFAULT 0;

-- Which run stands for a run of state `merged`.
CREATE TABLE merged (
    run      INTEGER PRIMARY KEY,
    into_run INTEGER NOT NULL
);

-- kind 2: covered up to at, and judged up to until.
ALTER TABLE exception ADD COLUMN until INTEGER;

-- How fast dispatches of an app may begin, as JSON.
ALTER TABLE app ADD COLUMN rates TEXT NOT NULL DEFAULT '{}';

-- Alert rules of namespaces. A number is never used again.
CREATE TABLE alert (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    rule        TEXT NOT NULL,
    at          INTEGER NOT NULL,
    by          TEXT NOT NULL,
    undelivered INTEGER NOT NULL DEFAULT 0,
    last_error  TEXT,
    UNIQUE (namespace, name)
);

-- What is the matter with which job, and what the rule's channel knows of it.
CREATE TABLE alarm (
    alert INTEGER NOT NULL,
    job   INTEGER NOT NULL,
    event INTEGER NOT NULL,
    alarm TEXT NOT NULL,
    PRIMARY KEY (alert, job, event)
) WITHOUT ROWID;

-- Messages that wait to be delivered.
CREATE TABLE notice (
    id      INTEGER PRIMARY KEY,
    alert   INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    notice  TEXT NOT NULL,
    tries   INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    error   TEXT
);

-- Runs of jobs that name a rule, which have ended, and which nobody has judged yet.
CREATE TABLE alert_end (
    run INTEGER PRIMARY KEY
);

-- What is known of a run's shards beside its row and its attempts: whose those of a broadcast are, and those that are
-- settled whatever their attempts say, each as (shard, state, why, at); both as lists in JSON.
CREATE TABLE shards (
    run     INTEGER PRIMARY KEY,
    workers TEXT NOT NULL,
    settled TEXT NOT NULL
);

-- Which jobs a job waits for. Token 0: its definition says so; any other: a definition that is on its way, see
-- `Reservation::Upstreams`.
CREATE TABLE upstream (
    job      INTEGER NOT NULL,
    upstream INTEGER NOT NULL,
    token    INTEGER NOT NULL,
    PRIMARY KEY (job, upstream, token)
) WITHOUT ROWID;
CREATE INDEX upstream_by_upstream ON upstream (upstream, job);
