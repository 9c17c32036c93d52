-- What a server needs to know of itself: numbers by name.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;

-- A partition's term, and how far it has come. Every batch checks and writes its row.
CREATE TABLE partition (
    id    INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    mark  INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    floor INTEGER NOT NULL
);

CREATE TABLE app (
    id          INTEGER PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    pending_max INTEGER NOT NULL,
    UNIQUE (namespace, name)
);

-- The current version of each job. Deleted jobs stay: their ids are dead for ever.
CREATE TABLE job (
    id      INTEGER PRIMARY KEY,
    app     INTEGER NOT NULL,
    version INTEGER NOT NULL,
    state   INTEGER NOT NULL
);
CREATE INDEX job_by_app ON job (app, id);

-- All versions; the key is job << 32 | version, so that the versions of a job lie together.
CREATE TABLE definition (
    key   INTEGER PRIMARY KEY,
    app   INTEGER NOT NULL,
    name  TEXT NOT NULL,
    spec  TEXT NOT NULL,
    state INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    by    TEXT NOT NULL
);

-- Changes of state without a new version.
CREATE TABLE job_state (
    id    INTEGER PRIMARY KEY,
    job   INTEGER NOT NULL,
    state INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    by    TEXT NOT NULL
);
CREATE INDEX job_state_by_job ON job_state (job, id);

CREATE TABLE job_name (
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    job       INTEGER NOT NULL UNIQUE,
    at        INTEGER NOT NULL,
    is_used   INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
CREATE INDEX job_name_unused ON job_name (at) WHERE is_used = 0;

-- kind 0: covered up to at; kind 1: armed at.
CREATE TABLE exception (
    job       INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    kind      INTEGER NOT NULL,
    at        INTEGER NOT NULL
);

CREATE TABLE listed (
    run       INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL
);

CREATE TABLE worker (
    id          INTEGER PRIMARY KEY,
    app         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    url         TEXT NOT NULL,
    protocol    TEXT NOT NULL,
    handlers    TEXT NOT NULL,
    labels      TEXT NOT NULL,
    capacity    INTEGER NOT NULL,
    secret      BLOB NOT NULL,
    at          INTEGER NOT NULL,
    state       INTEGER NOT NULL
);

CREATE TABLE worker_name (
    id   INTEGER PRIMARY KEY,
    app  INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (app, name)
);

-- In order of arrival, so that old ones are found without an index.
CREATE TABLE request (
    id         INTEGER PRIMARY KEY,
    job        INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    body_hash  BLOB NOT NULL,
    at         INTEGER NOT NULL,
    run        INTEGER,
    UNIQUE (job, request_id)
);

CREATE TABLE token (
    id    INTEGER PRIMARY KEY,
    hash  BLOB NOT NULL UNIQUE,
    scope INTEGER NOT NULL,
    app   INTEGER,
    at    INTEGER NOT NULL
);

-- The ledger's parts, each an id range from its start to the start of the next. Segment n has the
-- tables run_n and attempt_n, and byjob_n once it is sealed; the newest one is open.
CREATE TABLE segment (
    id         INTEGER PRIMARY KEY,
    start      INTEGER NOT NULL UNIQUE,
    began_at   INTEGER NOT NULL,
    sealed_at  INTEGER,
    at_max     INTEGER,
    is_indexed INTEGER NOT NULL DEFAULT 0
);
