//! The API over a real machine and the reference store: only the network to workers is a model.
#![expect(clippy::unwrap_used, reason = "all of this is test code")]

mod access;
mod backfills;
mod backup;
mod conditions;
mod contract;
mod fleet;
mod jobs;
mod parts;
mod past;
mod runs;
mod secrets;
mod serving;
mod streams;
mod upstream;
mod world;
