//! Rota's outbound stack. Whatever Rota calls over a network, it calls through here.
//!
//! [`http::HttpExecutor`] dispatches to native workers, [`url::UrlExecutor`] makes the requests of URL
//! jobs, [`dial::identify`] asks who listens at an address that registers, [`message::Messenger`] carries messages of
//! alerts over HTTP and SMTP. All of them connect through
//! one place, which asks [`policy::Policy`] about every address *after* it was resolved.
//!
//! Invariants:
//! - every call is answered exactly once, in vectors, and nothing is ever sent twice;
//! - `NotStarted` is only said of a call of which no byte was written, or which was refused in type;
//! - every connect, exchange, body and wait has a bound;
//! - templates are filled in before a call is queued, and what peers say has no secret's value in it when it leaves.
//!
//! Absent on purpose: redirects, proxies, cookies, compression, HTTP/2, retries.
#![deny(missing_docs)]

mod connect;
mod connection;
pub mod dial;
mod endpoint;
pub mod http;
mod lane;
pub mod mail;
pub mod message;
pub mod policy;
mod secret;
pub mod tls;
mod trace;
pub mod url;

use std::sync::Arc;

use rota_core::id::RunId;
use rota_core::time::Mono;

pub use endpoint::BadUrl;

/// The server's monotonic clock; the one in which a dispatch's `send_by` was set.
pub type Clock = Arc<dyn Fn() -> Mono + Send + Sync>;

/// What every attempt of a shard carries, so that a receiver can tell a repetition: `run/shard`.
#[must_use]
pub fn idempotency_key(run: RunId, shard: u32) -> String {
    format!("{}/{shard}", run.0)
}
