-- Which jobs a job waits for. Token 0: its definition says so; any other: a definition that is on its way, see
-- `Reservation::Upstreams`.
CREATE TABLE upstream (
    job      INTEGER NOT NULL,
    upstream INTEGER NOT NULL,
    token    INTEGER NOT NULL,
    PRIMARY KEY (job, upstream, token)
) WITHOUT ROWID;
CREATE INDEX upstream_by_upstream ON upstream (upstream, job);
