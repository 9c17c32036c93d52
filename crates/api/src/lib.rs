//! Rota's inbound side: REST for people and programs, the native worker protocol, metrics, and the page.
//!
//! A handler reads its request strictly, asks a machine through [`rota_port::intake::Intake`] or the store through
//! [`rota_port::query::Query`], and shows the answer. It decides nothing about runs.
//!
//! Invariants:
//! - every refusal is a [`rota_wire::error::Error`] whose [`Code`] has one status and a page under `docs/errors`;
//! - only `/livez`, `/readyz` and the page without data are open; everything else needs a token of the right scope;
//! - a command that was taken is carried to its end, even if its caller goes away;
//! - beats and results never read the store;
//! - bodies, lists, connections, reads and waits are bounded.
//!
//! Absent on purpose: outbound calls (a [`Dialer`] is handed in), users and roles, TLS, gRPC.

mod alert_spec;
mod alerts;
mod apps;
mod audit;
mod auth;
mod backfill;
mod backup;
mod batch;
mod body;
mod canonical;
mod changes;
mod code;
mod cursor;
mod directory;
mod downtime;
mod duration;
mod endpoint;
mod feed;
mod fleet;
mod follow;
mod freeze;
mod held;
mod herald;
mod history;
mod jobs;
mod metrics;
mod misfire;
mod mistake;
mod moment;
mod ndjson;
mod nearest;
mod no_slot;
mod openapi;
mod page;
mod parent;
mod path;
mod patient;
mod protocol;
mod rates;
mod refusal;
mod register;
mod rerun;
mod route;
mod router;
mod routes;
mod runs;
mod secrets;
mod serve;
mod shard_story;
mod shards;
mod slot_story;
mod spec;
mod spread;
mod state;
mod status;
mod story;
mod stream;
mod strict;
mod tag;
mod tokens;
mod top;
mod trigger;
mod upstream;
mod view;
mod when;

pub use alert_spec::canonical_alert;
pub use auth::{hash, mint};
pub use canonical::{Canonical, canonical};
pub use code::Code;
pub use herald::{AlertCounts, Herald};
pub use openapi::openapi;
pub use router::router;
pub use serve::{serve, serve_up_to};
pub use state::{Clock, Dialer, Entropy, Parts, Settings, State, Unanswered};
pub use status::is_live;
