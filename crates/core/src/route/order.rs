//! The order in which tasks that are due together are routed: the biggest first, since a small one still finds room
//! where a big one no longer does (R. L. Graham, Bounds on Multiprocessing Timing Anomalies, 1969). Of equals, those with
//! the fewest members to choose from first, then by priority, then the longest due.

use std::cmp::{Ordering, Reverse};

use crate::time::UnixMs;

/// What the order goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// What it weighs.
    pub weight: u64,
    /// How many members may be chosen for it.
    pub members: u32,
    /// The higher first.
    pub priority: u8,
    /// When it is due.
    pub due: UnixMs,
    /// Its job.
    pub job: u64,
}

impl Turn {
    /// Which of two is routed first.
    #[must_use]
    pub fn cmp_biggest_first(&self, other: &Turn) -> Ordering {
        let key = |turn: &Turn| (Reverse(turn.weight), turn.members, Reverse(turn.priority), turn.due, turn.job);
        key(self).cmp(&key(other))
    }
}
