//! Freezes: spans of time in which scheduled slots do not fire, because an operator said so.
//!
//! Invariants: while a freeze is open, no slot of its apps gets a row and no shard of them is dispatched anew; once it is
//! over, the slots of its span that had no row are covered as its [`Thaw`] says. Both follow from the stored freeze
//! alone, so that a restart decides the same. What a job's own pause covers is not touched.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::AppId;
use crate::time::UnixMs;

/// A freeze of a partition, or of one of its apps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Freeze {
    /// Unique within its partition; later ones are higher.
    pub id: u64,
    /// The app that it is for; none for all.
    pub app: Option<AppId>,
    /// Slots after this are frozen; those up to here were decided, or waited, before.
    pub after: UnixMs,
    /// When.
    pub at: UnixMs,
    /// Who.
    pub by: Arc<str>,
    /// Why, in the operator's words.
    pub reason: Arc<str>,
    /// How it ended, if it did.
    pub thaw: Option<Thaw>,
}

/// The end of a freeze.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thaw {
    /// The last instant of the frozen span.
    pub until: UnixMs,
    /// When.
    pub at: UnixMs,
    /// Who.
    pub by: Arc<str>,
    /// What becomes of the slots of the span.
    pub missed: Missed,
}

/// What becomes of slots that were frozen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// One row per job says that they had no run.
    #[default]
    Skip,
    /// The newest of each job fires, and one row covers those before it.
    FireOnce,
}

impl Missed {
    /// The word that API and CLI show.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Missed::Skip => "skip",
            Missed::FireOnce => "fire_once",
        }
    }

    /// The number that stores keep.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Missed::Skip => 0,
            Missed::FireOnce => 1,
        }
    }

    /// The choice with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Missed> {
        [Missed::Skip, Missed::FireOnce].into_iter().find(|missed| missed.code() == code)
    }
}

impl Freeze {
    /// Whether it is for this app.
    #[must_use]
    pub fn is_for(&self, app: AppId) -> bool {
        self.app.is_none_or(|only| only == app)
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.thaw.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back() {
        for missed in [Missed::Skip, Missed::FireOnce] {
            assert_eq!(Missed::from_code(missed.code()), Some(missed));
        }
        assert_eq!(Missed::from_code(9), None);
    }
}
