-- What is known of a run's shards beside its row and its attempts: whose those of a broadcast are, and those that are
-- settled whatever their attempts say, each as (shard, state, why, at); both as lists in JSON.
CREATE TABLE shards (
    run     INTEGER PRIMARY KEY,
    workers TEXT NOT NULL,
    settled TEXT NOT NULL
);
