//! Every decision of Rota, without I/O.
//!
//! A [`partition::Machine`] is the sole owner of a partition's live state. Everything that happens
//! enters it as an [`partition::Input`]; everything it wants leaves it as a [`partition::Effect`].
//!
//! Absent on purpose: clocks, randomness, async, threads, storage, wire formats. `now` is a
//! parameter; ids come from blocks that are handed in; whoever calls `step` carries its effects out.
#![deny(missing_docs)]

pub mod alert;
pub mod audit;
pub mod backfill;
pub mod batch;
pub mod child;
pub mod clock;
pub mod closed;
pub mod freeze;
pub mod id;
pub mod jitter;
pub mod job;
pub mod label;
pub mod limits;
pub mod misfire;
pub mod overlap;
pub mod partition;
pub mod rate;
pub mod restore;
pub mod retry;
pub mod roster;
pub mod route;
pub mod shards;
pub mod target;
pub mod template;
pub mod time;
pub mod trace;
pub mod upstream;
mod url;
pub mod valve;
mod when;
pub mod why;
pub mod worker;
