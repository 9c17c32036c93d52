//! Alerts: who is told, of what, and how often.
//!
//! A [`Rule`] is what a user wrote: a channel, and what it hears of. [`judge`] tells from a run that ended, or from what
//! is live, which [`Event`]s of a job are there and which are over. [`book::Book`] decides from those when somebody is
//! told: once when it begins, again at most every so often, once when it is over. [`text`] words it.
//!
//! Absent on purpose: clocks, channels that speak, rows. All of it is pure; a restart that gives the book back what it
//! gave away comes to the same decisions.

pub mod book;
pub mod judge;
mod rule;
pub mod text;

use serde::{Deserialize, Serialize};

use crate::id::{JobId, RunId};
use crate::time::UnixMs;

pub use rule::{Channel, Encryption, Language, NO_WORKER_MS, Rule, fill};

/// A rule's number within a store, from 1; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AlertId(pub u32);

/// What can be the matter with a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A run failed or took too long, after its last retry.
    Failed,
    /// A run was lost.
    Lost,
    /// Slots were skipped that should have run.
    Missed,
    /// No worker can take what is due.
    NoWorker,
    /// A run started, or should have started, longer ago than a bound allows.
    Late,
    /// A run goes on for longer than a bound allows.
    Running,
    /// There was no success for longer than a bound allows.
    NoSuccess,
}

impl Event {
    /// Every event.
    pub const ALL: &'static [Event] =
        &[Event::Failed, Event::Lost, Event::Missed, Event::NoWorker, Event::Late, Event::Running, Event::NoSuccess];

    /// The word that API, CLI and job file show.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Event::Failed => "failed",
            Event::Lost => "lost",
            Event::Missed => "missed",
            Event::NoWorker => "no_worker",
            Event::Late => "late",
            Event::Running => "running",
            Event::NoSuccess => "no_success",
        }
    }

    /// The event with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Event> {
        Event::ALL.iter().copied().find(|event| event.word() == word)
    }

    /// Whether `when` may name it; the others have a bound of their own instead.
    #[must_use]
    pub fn is_named(self) -> bool {
        matches!(self, Event::Failed | Event::Lost | Event::Missed | Event::NoWorker)
    }

    /// The number that stores keep; a number once used stays.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The event with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Event> {
        Event::ALL.iter().copied().find(|event| event.code() == code)
    }
}

/// What at most one alarm is open for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Key {
    /// The rule.
    pub alert: AlertId,
    /// The job.
    pub job: JobId,
    /// The event.
    pub event: Event,
}

/// What is known of an event. Instants are Unix times in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// The run that shows it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Its slot, or the slot that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<i64>,
    /// The run's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The reason, as a word of [`crate::why::Why`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How late, or for how long, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// How many slots were missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u64>,
}

/// The state of one event of one job, for one rule: the row that a store keeps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Alarm {
    /// Since when it is, or was, open.
    pub since: i64,
    /// When it was over; none while it is open.
    pub over: Option<i64>,
    /// What the channel was told last.
    pub told: Told,
    /// When the channel was last told that it is open.
    pub told_at: Option<i64>,
    /// Occurrences that the channel has not been told of yet.
    pub untold: u64,
    /// Who said that they care for it; it is not repeated then.
    pub acked_by: Option<String>,
    /// What is known of the last occurrence.
    pub facts: Facts,
}

/// What a channel believes of an alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// Nothing, or that it is over.
    Over,
    /// That it is open.
    Open,
}

/// Something that a channel is to be told: a row until it is delivered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Notice {
    /// What kind of news it is.
    pub kind: Kind,
    /// Of what. A digest names the first of many.
    pub key: Key,
    /// What is known of it.
    pub facts: Facts,
    /// Since when it is, or was, open.
    pub since: i64,
    /// How often it came since the channel was last told.
    pub count: u64,
    /// In a digest: the others that it stands for, the first of them by key, and how many there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<(Kind, Key)>,
    /// In a digest: how many it stands for, with those that are not listed.
    #[serde(default)]
    pub others_count: u64,
}

/// The kinds of news.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It began.
    Opened,
    /// It goes on.
    Again,
    /// It is over.
    Resolved,
    /// It came and went while the channel was not told.
    Passed,
    /// Somebody tries the channel.
    Test,
}

impl Kind {
    /// The word that a webhook gets.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Opened => "opened",
            Kind::Again => "again",
            Kind::Resolved => "resolved",
            Kind::Passed => "passed",
            Kind::Test => "test",
        }
    }
}

impl Alarm {
    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.over.is_none()
    }

    /// Since when, as an instant.
    #[must_use]
    pub fn since(&self) -> UnixMs {
        UnixMs(self.since)
    }
}
