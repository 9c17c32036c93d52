-- Within which span a run was asked for, as a header `traceparent` has it. Most runs have none.
CREATE TABLE trace (
    run    INTEGER PRIMARY KEY,
    parent TEXT NOT NULL
);
