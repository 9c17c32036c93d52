//! The thin shells around Rota's machines: threads, clocks, the committer, and the intake over them.
//!
//! [`Engine::start`] claims a store's partitions and runs their machines; a [`Handle`] carries requests
//! and outcomes in. Between the threads go vectors, never single messages.
//!
//! Absent on purpose: SQL, HTTP, an async runtime, and every decision. What fires, what is written and
//! what is sent is up to `rota_core::partition::Machine`; this crate carries inputs in and effects out.
#![deny(missing_docs)]

mod children;
pub mod clock;
mod engine;
mod failure;
mod gauges;
mod handle;
mod ids;
mod machines;
mod mailbox;
mod outbox;
mod permits;
mod replies;
mod shared;
mod upstreams;
mod writer;

pub use engine::{Config, Engine, Error};
pub use failure::Failure;
pub use handle::Handle;
