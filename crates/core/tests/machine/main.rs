//! The life of slots, attempts and requests in one machine, over the reference store.
#![expect(clippy::unwrap_used, reason = "a test's own set-up")]

mod attempts;
mod backfill;
mod children;
mod clauses;
mod clock;
mod edits;
mod field;
mod freeze;
mod ledger;
mod mark;
mod misfire;
mod narrow;
mod overlap;
mod pools;
mod published;
mod random;
mod rates;
mod requests;
mod restart;
mod restore;
mod retries;
mod rig;
mod routing;
mod shards;
mod slots;
mod upstream;
mod workers;
