//! The routing simulator: how many machines a workload needs under each strategy, and how few any strategy could need.
//!
//! A workload is replayed on clusters of growing size until what is asked of the machines stays within a target. Whom a
//! run goes to is decided by `rota_core::route` itself: there is no copy of a strategy here.
//!
//! Absent on purpose: clocks, files, the network. A workload comes in as text or is made up from a seed; the same input
//! and seed give the same figures, on however many threads.
#![deny(missing_docs)]

pub mod bounds;
mod chance;
pub mod closed;
pub mod cluster;
pub mod cpu;
pub mod generate;
pub mod read;
pub mod report;
pub mod search;
pub mod shift;
pub mod strategy;
pub mod study;
pub mod traits;
pub mod verdict;
pub mod workload;
