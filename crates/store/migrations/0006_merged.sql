-- Which run stands for a run of state `merged`.
CREATE TABLE merged (
    run      INTEGER PRIMARY KEY,
    into_run INTEGER NOT NULL
);
