//! The whole cluster on one event queue: machines, a model store, network, clocks, workers and operators.
//!
//! One seed is one story. There is no async runtime, no thread and no real time in it; everything
//! random comes from the seed. After every event the invariants of [`check`] hold, or the seed fails.
//!
//! [`world`] is the loop. [`server`], [`commit`], [`intake`], [`calls`] and [`upstream`] are the shell of a server, [`store`] the model of a
//! store, [`worker`] and [`fleet`] the workers, [`operator`] the people, [`chaos`] the faults, [`ending`] the end.
//! [`oracle`] is what workers recorded; [`check`] holds the invariants; [`story`] tells what happened.
//!
//! Absent on purpose: forwarding between servers (a request to the wrong server is dropped), HTTP, SQL.
#![expect(clippy::wildcard_enum_match_arm, reason = "checks look at the few variants that concern them")]

pub mod calls;
pub mod chaos;
pub mod check;
pub mod children;
pub mod clock;
pub mod commit;
pub mod ending;
pub mod event;
pub mod fleet;
pub mod intake;
pub mod mutant;
pub mod operator;
pub mod oracle;
pub mod queue;
pub mod rng;
pub mod runner;
pub mod scenario;
pub mod server;
pub mod store;
pub mod story;
pub mod upstream;
pub mod words;
pub mod worker;
pub mod world;
