//! Stories against the real binary: whole processes, real sockets, real files. What a story trusts is what workers and
//! files say by themselves, and only then what the server says.
//!
//! One file per story; the others are what stories are told with: [`server`], [`api`], [`fake`], [`folder`], [`journal`],
//! [`ledger`], [`recorder`], [`clock`].
#![expect(clippy::unwrap_used, reason = "all of this is tests, also what stands outside of test functions")]

mod api;
mod clock;
mod fake;
mod folder;
mod journal;
mod ledger;
mod process;
mod rates;
mod recorder;
mod server;

mod alerts;
mod backfill;
mod bad_input;
mod bad_store;
mod children;
mod clock_steps;
mod cron;
mod docs;
mod first_screen;
mod isolation;
mod job_file;
mod kill_nine;
mod misfire;
mod operators;
mod overlap;
mod past;
mod protocol;
mod restart_under_attempt;
mod restore;
mod secrets;
mod shards;
mod shell;
mod shipped;
mod simulate;
mod streams;
#[cfg(feature = "otlp")]
mod traces;
mod upstream;
