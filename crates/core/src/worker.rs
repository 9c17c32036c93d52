//! Apps and the workers that registered for them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{AppId, Incarnation, WorkerId};
use crate::label::Labels;
use crate::rate::Rates;
use crate::time::UnixMs;

/// A fleet of workers that run the same code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct App {
    /// The app.
    pub id: AppId,
    /// Tenant boundary.
    pub namespace: String,
    /// Unique in its namespace. `@url` is the app of jobs that call URLs.
    pub name: String,
    /// Shards that may be admitted and not yet sent.
    pub pending_max: u32,
    /// How fast its dispatches may begin.
    pub rates: Rates,
}

impl App {
    /// The name of the app that holds a namespace's URL jobs; it has no workers.
    pub const URL: &'static str = "@url";
}

/// How a worker is reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Native, over HTTP.
    Http,
    /// No worker: a request to a URL.
    Url,
}

impl Protocol {
    /// The word that API and metrics show.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Url => "url",
        }
    }
}

/// A secret; it never prints.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a worker said when it registered. Durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// The worker; kept as long as its name is.
    pub id: WorkerId,
    /// Its app.
    pub app: AppId,
    /// Unique in its app.
    pub name: String,
    /// This start of it.
    pub incarnation: Incarnation,
    /// Where it is called.
    pub url: String,
    /// How it is called.
    pub protocol: Protocol,
    /// The handlers that it offers, sorted.
    pub handlers: Vec<String>,
    /// Its labels.
    pub labels: Labels,
    /// Attempts that it runs at once; 0 is unlimited.
    pub capacity: u32,
    /// Attempts that one call may bring it; 0 or 1: one at a time.
    pub list_max: u32,
    /// What calls to it carry.
    pub secret: Secret,
    /// When this incarnation registered.
    pub at: UnixMs,
}

/// A worker's state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    /// It beats, and gets work.
    Online,
    /// It finishes what it has and gets nothing new.
    Draining,
    /// It registered, but its address could not be reached; it gets no work.
    Unreachable,
    /// It deregistered, or was silent for the dead time.
    Offline,
}

impl WorkerState {
    /// The word that API and metrics show.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            WorkerState::Online => "online",
            WorkerState::Draining => "draining",
            WorkerState::Unreachable => "unreachable",
            WorkerState::Offline => "offline",
        }
    }
}
