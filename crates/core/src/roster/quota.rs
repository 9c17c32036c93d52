//! One group whose tasks may be anywhere: counts in closed form.
//!
//! The cheapest units are taken until all tasks have a node; of the units that cost as much as the last one, those come
//! first that a node holds already. A node keeps at most the lesser of what it has and its count; since every most even
//! spread has the same counts but for those last units, no other one keeps more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::board::{Board, cost, count_within};

/// The count of each node, and whether that is the best that there is; nothing if the board is not so simple.
pub(super) fn counts(board: &Board<'_>, moves_max: u32) -> Option<(Vec<u32>, bool)> {
    let is_simple = board.groups.len() == 1
        && !board.is_spread(0)
        && (0..board.nodes.len()).all(|node| board.pinned[node] == 0 || !board.takes(0, node));
    if !is_simple {
        return None;
    }
    let total = u64::from(board.waiting[0]) + board.count.iter().map(|count| u64::from(*count)).sum::<u64>();
    let best = best(board, total);
    let moves: u64 = board.count.iter().zip(&best).map(|(count, best)| u64::from(count.saturating_sub(*best))).sum();
    Some(if moves <= u64::from(moves_max) { (best, true) } else { (bounded(board, &best, moves_max), false) })
}

fn best(board: &Board<'_>, total: u64) -> Vec<u32> {
    let room = |node: usize| if board.takes(0, node) { board.nodes[node].tasks_max } else { 0 };
    let within = |node: usize, most: u64| {
        u32::try_from(count_within(most, board.nodes[node].share)).unwrap_or(u32::MAX).min(room(node))
    };
    let nodes = 0..board.nodes.len();
    let sum = |most: u64| nodes.clone().map(|node| u64::from(within(node, most))).sum::<u64>();
    let most = cost(u32::try_from(total).unwrap_or(u32::MAX), 1);
    if sum(most) <= total {
        return nodes.map(|node| within(node, most)).collect();
    }
    // The least price at which there are units enough.
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if sum(middle) >= total { high = middle } else { low = middle + 1 }
    }
    let below = |node: usize| low.checked_sub(1).map_or(0, |price| within(node, price));
    let mut counts: Vec<u32> = nodes.clone().map(below).collect();
    let mut last: Vec<usize> = nodes.filter(|node| within(*node, low) > counts[*node]).collect();
    last.sort_by_key(|node| (board.kept[*node] <= counts[*node], board.kept[*node], *node));
    let missing = total - counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    for node in last.into_iter().take(usize::try_from(missing).unwrap_or(usize::MAX)) {
        counts[node] += 1;
    }
    counts
}

/// Goes towards the best counts by so many moves: from the most loaded, to the least loaded.
fn bounded(board: &Board<'_>, best: &[u32], moves_max: u32) -> Vec<u32> {
    let mut counts = board.count.clone();
    let price = |node: usize, load: u32| cost(load, board.nodes[node].share);
    let over = (0..counts.len()).filter(|node| counts[*node] > best[*node]);
    let mut donors: BinaryHeap<(u64, Reverse<usize>)> =
        over.map(|node| (price(node, counts[node] - 1), Reverse(node))).collect();
    let mut units = board.waiting[0];
    for _ in 0..moves_max {
        let Some((_, Reverse(node))) = donors.pop() else { break };
        (counts[node], units) = (counts[node] - 1, units + 1);
        if counts[node] > best[node] {
            donors.push((price(node, counts[node] - 1), Reverse(node)));
        }
    }
    let under = (0..counts.len()).filter(|node| counts[*node] < best[*node]);
    let mut takers: BinaryHeap<Reverse<(u64, usize)>> =
        under.map(|node| Reverse((price(node, counts[node]), node))).collect();
    for _ in 0..units {
        let Some(Reverse((_, node))) = takers.pop() else { break };
        counts[node] += 1;
        if counts[node] < best[node] {
            takers.push(Reverse((price(node, counts[node]), node)));
        }
    }
    counts
}
