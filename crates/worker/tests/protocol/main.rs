//! The worker against a server that a test controls, over real HTTP and with real processes.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod contract;
#[cfg(target_os = "linux")]
mod shell;
#[path = "../support/mod.rs"]
mod support;
