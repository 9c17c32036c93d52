//! Runs the work that a Rota server dispatches.
//!
//! A worker is a process of an app. It registers with the server, says now and then that it is alive,
//! runs the attempts that the server sends, reports how they ended until the server has acknowledged
//! it, and drains before it goes. Code is a handler: an async function with a [`Context`].
//!
//! ```no_run
#![doc = include_str!("../examples/hello.rs")]
//! ```
//!
//! What a handler can count on:
//! - an attempt starts at most once in this process, whatever is lost or doubled on the network;
//! - it learns that it is to stop by [`Context::cancelled`]: killed, past its deadline, or left behind
//!   by a worker that goes. After [`Builder::stop_grace`] it is dropped. Once told to stop, the attempt
//!   ends as what stopped it, whatever the handler still answers;
//! - its result is kept in memory until the server has it. If the process dies before that, the server
//!   asks its successor, learns that the attempt is gone, and follows the job's delivery mode.
//!
//! [`Builder::builtins`] and [`Builder::allow_shell`] offer handlers for which no code is needed.
//!
//! The crate needs a Tokio runtime; the multi-threaded one is best, so that a handler that computes
//! for long does not keep the worker from beating.
#![deny(missing_docs)]

mod attempts;
mod backoff;
mod builder;
mod builtin;
mod client;
mod clock;
mod context;
mod courier;
mod endpoint;
mod error;
mod handler;
mod identity;
mod journal;
mod listen;
mod live;
mod logs;
mod run;
mod session;
mod slot;
mod supervisor;
mod text;
mod worker;

pub use builder::Builder;
pub use context::Context;
pub use error::Error;
pub use handler::IntoMessage;
pub use worker::{Status, Worker};
