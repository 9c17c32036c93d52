//! Who owns which event task: a pure solver over ordinals.
//!
//! [`plan`] takes what is, and says what should be, with a reason for each change. It holds:
//!
//! * A task has at most one owner, and only one that may own it: alive, not leaving, allowed by its group, within its limits.
//! * Of tasks of equal weight as many as possible have an owner; they are spread as evenly as the groups allow, and of all
//!   such spreads it takes one with the fewest starts. So what is balanced already does not move, and where all nodes will
//!   do a new task moves no other. Tasks of different weights are spread to within a tolerance, as far as single moves go.
//! * It is deterministic, has no memory, and applied to its own outcome changes nothing.
//!
//! What must move (its owner is gone or may no longer own it) moves at once; what moves only for the sake of balance is
//! bounded by [`Limits::moves_max`].
//!
//! Absent on purpose: clocks, names, and what is between two owners (a stop that is acknowledged, a lease that has lapsed).
//! Nodes and tasks are ordinals in an order that the caller keeps, which is what decides ties.

mod board;
mod cancel;
mod level;
mod quota;
mod settle;
mod weigh;

#[cfg(test)]
mod tests;

use board::Board;

/// Shares are at most this, so that a unit more always costs more.
pub const SHARE_MAX: u32 = 1_000;

/// What a node does with event tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stance {
    /// It keeps what it has, and takes more.
    Takes,
    /// It keeps what it has: silent, but not yet given up, or not long enough back.
    Keeps,
    /// All must go: it is being drained, or is dead.
    Leaves,
}

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it does with event tasks.
    pub stance: Stance,
    /// How much of the whole it carries, against the other nodes' shares; 1 to [`SHARE_MAX`].
    pub share: u32,
    /// How many tasks it may own.
    pub tasks_max: u32,
    /// Where it is, for groups that spread: an ordinal.
    pub zone: u32,
}

/// Tasks that may be owned by the same nodes. Tasks of one group are interchangeable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// For each node, whether it may own one.
    pub nodes: Vec<bool>,
    /// Whether no zone may own more than its part of the group, rounded up.
    pub is_spread: bool,
}

/// An event task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// Its group.
    pub group: u32,
    /// What it weighs, against others; at least 1.
    pub weight: u32,
    /// The node that owns it.
    pub owner: Option<u32>,
    /// When it came to its owner, as a number that grows: what has run for the longest is moved last.
    pub since: u64,
    /// The node that somebody moved it to by hand. It stays there for as long as that node takes tasks.
    pub pin: Option<u32>,
}

/// What bounds a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How many tasks may move for the sake of balance alone.
    pub moves_max: u32,
    /// For tasks of different weights: how far from its part a node may be, in thousandths of it.
    pub tolerance_permille: u32,
}

/// What a plan starts from.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// All nodes.
    pub nodes: &'a [Node],
    /// All groups.
    pub groups: &'a [Group],
    /// All tasks that should have an owner.
    pub tasks: &'a [Task],
}

/// Why a task changes hands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Why {
    /// It had no owner.
    Unowned,
    /// Its owner is dead, or is being drained.
    OwnerLeaves,
    /// Its group does not allow its owner (any more).
    NotAllowed,
    /// Its owner has more than it may have.
    OverCapacity,
    /// Its zone has more than its part of the group.
    ZoneOverPart,
    /// It was moved by hand.
    Pinned,
    /// So that all have their part.
    Balance,
}

/// Why a task has no owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Waits {
    /// There is no node that takes tasks.
    NoNode,
    /// None of those that take tasks may own it.
    NoneAllowed,
    /// All that may own it are full, or their zone is.
    AllFull,
}

/// One task that changes hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The task.
    pub task: u32,
    /// Whose it was.
    pub from: Option<u32>,
    /// Whose it becomes.
    pub to: Option<u32>,
    /// Why.
    pub why: Why,
}

/// What should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The owner of each task.
    pub owners: Vec<Option<u32>>,
    /// What changes, in the order of tasks.
    pub changes: Vec<Change>,
    /// Which tasks have no owner, and why, in the order of tasks.
    pub waiting: Vec<(u32, Waits)>,
    /// Whether it is proven that no plan is more even, and none of those that are as even has fewer starts.
    pub is_exact: bool,
}

impl Plan {
    /// How many tasks move for the sake of balance alone.
    #[must_use]
    pub fn moves(&self) -> usize {
        self.changes.iter().filter(|change| change.why == Why::Balance).count()
    }
}

/// Says who should own what.
///
/// # Panics
///
/// If an ordinal is not one of the view's, a share is not within 1 to [`SHARE_MAX`], or a weight is 0.
#[must_use]
pub fn plan(view: &View<'_>, limits: &Limits) -> Plan {
    check(view);
    let is_even = view.tasks.windows(2).all(|pair| pair[0].weight == pair[1].weight);
    let stays = settle::stays(view);
    if !is_even {
        return settle::by_owner(view, &stays, &weigh::owners(view, &stays, limits));
    }
    let (mut board, spent) = Board::new(view, &stays, limits.moves_max);
    let moves_max = limits.moves_max - spent;
    let is_exact = match quota::counts(&board, moves_max) {
        Some((counts, is_exact)) => {
            board.set_counts(counts);
            is_exact
        }
        None => {
            level::place(&mut board);
            let left = level::level(&mut board, moves_max);
            cancel::cancel(&mut board, left)
        }
    };
    settle::by_count(view, &stays, &board, is_exact)
}

fn check(view: &View<'_>) {
    let nodes = view.nodes.len();
    assert!(u32::try_from(view.tasks.len()).is_ok() && u32::try_from(nodes).is_ok(), "ordinals have 32 bits");
    assert!(view.nodes.iter().all(|node| (1..=SHARE_MAX).contains(&node.share)), "a share is 1 to {SHARE_MAX}");
    assert!(view.groups.iter().all(|group| group.nodes.len() == nodes), "a group speaks of every node");
    for task in view.tasks {
        assert!((task.group as usize) < view.groups.len() && task.weight > 0, "a task has a group and a weight");
        let is_known = |node: Option<u32>| node.is_none_or(|node| (node as usize) < nodes);
        assert!(is_known(task.owner) && is_known(task.pin), "owners and pins are nodes of the view");
    }
}
