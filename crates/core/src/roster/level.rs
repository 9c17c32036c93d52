//! Several groups: puts what waits where there is the least, then moves from the most to the least loaded, one by one.
//! That is nearly always the best; [`super::cancel`] finds what it misses.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::board::Board;

/// For one node that has too much, how many of the least loaded ones are looked at.
const LOOK_MAX: usize = 64;

/// Gives each waiting task a node, the groups with the fewest nodes first; what finds none goes on waiting.
pub(super) fn place(board: &mut Board<'_>) {
    let mut groups: Vec<usize> = (0..board.groups.len()).filter(|group| board.waiting[*group] > 0).collect();
    groups.sort_by_key(|group| ((0..board.nodes.len()).filter(|node| board.takes(*group, *node)).count(), *group));
    for group in groups {
        let can =
            |board: &Board<'_>, node: usize| board.has_room(node) && board.zone_has_room(group, board.zone_of(node));
        let mut heap: BinaryHeap<Reverse<(u64, usize)>> = (0..board.nodes.len())
            .filter(|node| board.takes(group, *node) && can(board, *node))
            .map(|node| Reverse((board.add_cost(node), node)))
            .collect();
        while board.waiting[group] > 0 {
            let Some(Reverse((_, node))) = heap.pop() else { break };
            if !can(board, node) {
                continue;
            }
            board.add(group, node);
            board.waiting[group] -= 1;
            heap.push(Reverse((board.add_cost(node), node)));
        }
    }
}

/// Moves single tasks while that makes the whole more even, at most so many; says how many are left.
pub(super) fn level(board: &mut Board<'_>, moves_max: u32) -> u32 {
    let nodes = 0..board.nodes.len();
    let movable = |board: &Board<'_>, node: usize| board.load[node] > board.pinned[node];
    let mut adds: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut takes: BTreeSet<(u64, Reverse<usize>)> = BTreeSet::new();
    for node in nodes {
        if board.has_room(node) {
            adds.insert((board.add_cost(node), node));
        }
        if movable(board, node) {
            takes.insert((board.take_cost(node), Reverse(node)));
        }
    }
    let mut left = moves_max;
    while left > 0
        && let Some((_, Reverse(from))) = takes.last().copied()
    {
        let Some((group, to)) = find(board, &adds, from) else {
            takes.pop_last();
            continue;
        };
        for node in [from, to] {
            adds.remove(&(board.add_cost(node), node));
            if board.load[node] > 0 {
                takes.remove(&(board.take_cost(node), Reverse(node)));
            }
        }
        if !board.is_beyond_kept(group, from) {
            left -= 1;
        }
        board.take(group, from);
        board.add(group, to);
        for node in [from, to] {
            if board.has_room(node) {
                adds.insert((board.add_cost(node), node));
            }
            if movable(board, node) {
                takes.insert((board.take_cost(node), Reverse(node)));
            }
        }
    }
    left
}

/// A group of which one should move from a node, and where to: what was only just put there, before what stays.
fn find(board: &Board<'_>, adds: &BTreeSet<(u64, usize)>, from: usize) -> Option<(usize, usize)> {
    let saved = board.take_cost(from);
    for (price, to) in adds.iter().take(LOOK_MAX) {
        if *price >= saved {
            return None;
        }
        let fits = |group: &usize| {
            board.count[board.at(*group, from)] > 0
                && board.takes(*group, *to)
                && (board.zone_of(from) == board.zone_of(*to) || board.zone_has_room(*group, board.zone_of(*to)))
        };
        let rank = |group: &usize| (!board.is_beyond_kept(*group, from), !board.is_below_kept(*group, *to), *group);
        if let Some(group) = (0..board.groups.len()).filter(fits).min_by_key(rank) {
            return Some((group, *to));
        }
    }
    None
}
