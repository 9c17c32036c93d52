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
