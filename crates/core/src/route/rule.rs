//! What a job says of how its worker is chosen.

use super::fit::{Amounts, Score};
use super::ring::Hash;

/// How a worker is chosen among those that can take a task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// The first in the order of registration.
    First,
    /// The last in the order of registration.
    Last,
    /// The first that is alive. Since only those that are alive can take a task, it chooses as [`Rule::First`] does.
    Failover,
    /// The first, in the order of registration, on which nothing of the same job runs.
    Busyover {
        /// What if the job runs on all of them.
        on_busy: OnBusy,
    },
    /// One after the other, by a counter of the job that begins at a place of its own.
    TaskRoundRobin,
    /// One after the other, by a counter of the app.
    AppRoundRobin {
        /// Larger ones more often.
        by_size: bool,
    },
    /// By chance.
    Random {
        /// Larger ones more often.
        by_size: bool,
    },
    /// The one that was chosen least often within a window.
    Lfu {
        /// Whose choices are counted.
        scope: Scope,
        /// The window, in milliseconds. It slides by a twenty-fourth of itself.
        window_ms: u64,
    },
    /// The one whose last choice lies furthest back.
    Lru {
        /// Whose choices are counted.
        scope: Scope,
    },
    /// The one to which a key belongs.
    ConsistentHash {
        /// How places on the ring are computed.
        hash: Hash,
        /// Points of each member.
        points: u32,
        /// Members that carry more than a part of the mean are passed over.
        bound: Option<Bound>,
    },
    /// The one with the fewest unreleased attempts for its size, the new one included; among so many by chance, or all
    /// if that is 0.
    LeastInflight {
        /// Members that are looked at.
        choices: u32,
    },
    /// The one with the least weight of unreleased attempts for its size, the task's included; among so many by chance,
    /// or all if that is 0. What a task weighs is not the rule's to say.
    Weight {
        /// Members that are looked at.
        choices: u32,
    },
    /// The one with the best score of those in which the task's requests have room.
    ResourceFit {
        /// How room is scored.
        score: Score,
        /// How much each resource counts.
        weights: Amounts,
        /// Members with room that are looked at; 0 for all of up to 500, and of more the larger of 100 and a twentieth.
        sample: u32,
        /// Percent of what there is that may be requested.
        overcommit_percent: u32,
    },
}

/// What becomes of a task if its job runs everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum OnBusy {
    /// It waits.
    #[default]
    Queue,
    /// It goes to the member with the fewest tasks for its size.
    LeastLoaded,
    /// It fails.
    Fail,
}

/// Whose choices are counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Scope {
    /// Those of all jobs of the pool that go by the same.
    #[default]
    App,
    /// Those of the task's job.
    Job,
}

/// How much more than the mean a member may carry. V. Mirrokni, M. Thorup, M. Zadimoghaddam, Consistent Hashing with
/// Bounded Loads, SODA 2018.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bound {
    /// Of the mean, by size; at least 100.
    pub percent: u32,
    /// What is carried.
    pub unit: Unit,
}

/// What a load is measured in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Unit {
    /// Weights of unreleased attempts.
    #[default]
    Weight,
    /// Unreleased attempts.
    Count,
}
