//! Makes counts the best there are, and proves it: as long as a cycle of single steps costs less than nothing, it is gone
//! through (M. Klein, A Primal Method for Minimal Cost Flows, 1967). Where there is none, nothing is better.
//!
//! Tasks flow from groups over zones (of groups that spread) to nodes, and from nodes to the sink. A unit at a node costs
//! its part of the sum of loads squared over shares, a start costs next to nothing beside that, and a task without a node
//! more than everything. A cycle is found by R. Bellman's and L. R. Ford's relaxation, in the graph of predecessors.

use super::board::Board;

/// A start weighs one; a unit of load so much.
const LOAD: i128 = 1 << 40;
/// A task without a node weighs so much.
const WAITING: i128 = 1 << 90;
/// After so many relaxations it ends, with what is good but not proven to be the best.
const WORK_MAX: u64 = 200_000_000;

/// Goes through all cycles that make it better, while they move at most so many; says whether the end was reached.
pub(super) fn cancel(board: &mut Board<'_>, moves_max: u32) -> bool {
    let mut graph = Graph::new(board);
    let (mut left, mut work) = (i64::from(moves_max), 0);
    while work < WORK_MAX {
        let cycles = graph.cycles(board, &mut work);
        if cycles.is_empty() {
            return work < WORK_MAX;
        }
        for cycle in cycles {
            let starts = graph.starts(board, &cycle);
            let is_for_waiting = cycle.iter().any(|(from, to)| [*from, *to].contains(&graph.nowhere()));
            if !is_for_waiting && starts > left {
                return false;
            }
            left -= if is_for_waiting { 0 } else { starts.max(0) };
            graph.go(board, &cycle);
        }
    }
    false
}

/// Vertices are nodes, groups, zones of groups, nowhere, and the sink, in this order.
struct Graph {
    nodes: usize,
    groups: usize,
    zones: usize,
    cost: Vec<i128>,
    before: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl Graph {
    fn new(board: &Board<'_>) -> Graph {
        let mut graph = Graph {
            nodes: board.nodes.len(),
            groups: board.groups.len(),
            zones: board.zones(),
            cost: Vec::new(),
            before: Vec::new(),
        };
        let vertices = graph.sink() + 1;
        (graph.cost, graph.before) = (vec![0; vertices], vec![NONE; vertices]);
        graph
    }

    fn group(&self, group: usize) -> usize {
        self.nodes + group
    }

    fn zone(&self, group: usize, zone: usize) -> usize {
        self.nodes + self.groups + group * self.zones + zone
    }

    fn nowhere(&self) -> usize {
        self.nodes + self.groups + self.groups * self.zones
    }

    fn sink(&self) -> usize {
        self.nowhere() + 1
    }

    /// Relaxes until nothing changes, or there are cycles.
    fn cycles(&mut self, board: &Board<'_>, work: &mut u64) -> Vec<Vec<(usize, usize)>> {
        self.cost.fill(0);
        self.before.fill(NONE);
        loop {
            if !self.relax_all(board, work) || *work >= WORK_MAX {
                return Vec::new();
            }
            let cycles = self.found();
            if !cycles.is_empty() {
                return cycles;
            }
        }
    }

    fn relax_all(&mut self, board: &Board<'_>, work: &mut u64) -> bool {
        let (nowhere, sink) = (self.nowhere(), self.sink());
        let mut is_better = false;
        for group in 0..self.groups {
            is_better |= self.relax_zones(board, group);
            is_better |= self.relax(self.group(group), nowhere, 0);
            if board.waiting[group] > 0 {
                is_better |= self.relax(nowhere, self.group(group), 0);
            }
            for node in 0..self.nodes {
                let from =
                    if board.is_spread(group) { self.zone(group, board.zone_of(node)) } else { self.group(group) };
                if board.takes(group, node) {
                    is_better |= self.relax(from, node, i128::from(!board.is_below_kept(group, node)));
                }
                if board.count[board.at(group, node)] > 0 {
                    is_better |= self.relax(node, from, -i128::from(board.is_beyond_kept(group, node)));
                }
            }
        }
        for node in 0..self.nodes {
            if board.has_room(node) {
                is_better |= self.relax(node, sink, LOAD * i128::from(board.add_cost(node)));
            }
            if board.load[node] > board.pinned[node] {
                is_better |= self.relax(sink, node, -LOAD * i128::from(board.take_cost(node)));
            }
        }
        is_better |= self.relax(nowhere, sink, WAITING);
        if board.waiting.iter().any(|waiting| *waiting > 0) {
            is_better |= self.relax(sink, nowhere, -WAITING);
        }
        *work += (2 * self.nodes * (self.groups + 1)) as u64;
        is_better
    }

    fn relax_zones(&mut self, board: &Board<'_>, group: usize) -> bool {
        let mut is_better = false;
        for zone in (0..self.zones).filter(|_| board.is_spread(group)) {
            if board.zone_has_room(group, zone) {
                is_better |= self.relax(self.group(group), self.zone(group, zone), 0);
            }
            if board.zone_count(group, zone) > 0 {
                is_better |= self.relax(self.zone(group, zone), self.group(group), 0);
            }
        }
        is_better
    }

    fn relax(&mut self, from: usize, to: usize, cost: i128) -> bool {
        let is_better = self.cost[from] + cost < self.cost[to];
        if is_better {
            (self.cost[to], self.before[to]) = (self.cost[from] + cost, from);
        }
        is_better
    }

    /// The cycles in the graph of predecessors, as steps.
    fn found(&self) -> Vec<Vec<(usize, usize)>> {
        let mut seen = vec![NONE; self.before.len()];
        let mut cycles = Vec::new();
        for start in 0..self.before.len() {
            let mut at = start;
            while at != NONE && seen[at] == NONE {
                seen[at] = start;
                at = self.before[at];
            }
            if at == NONE || seen[at] != start {
                continue;
            }
            let (mut cycle, end) = (Vec::new(), at);
            loop {
                cycle.push((self.before[at], at));
                at = self.before[at];
                if at == end {
                    break;
                }
            }
            cycles.push(cycle);
        }
        cycles
    }

    /// How many more starts a cycle comes to.
    fn starts(&self, board: &Board<'_>, cycle: &[(usize, usize)]) -> i64 {
        let of = |(from, to): &(usize, usize)| match (self.group_of(*from), self.group_of(*to)) {
            (Some(group), None) if *to < self.nodes => i64::from(!board.is_below_kept(group, *to)),
            (None, Some(group)) if *from < self.nodes => -i64::from(board.is_beyond_kept(group, *from)),
            _ => 0,
        };
        cycle.iter().map(of).sum()
    }

    fn group_of(&self, vertex: usize) -> Option<usize> {
        if vertex < self.nodes || vertex >= self.nowhere() {
            None
        } else if vertex < self.nodes + self.groups {
            Some(vertex - self.nodes)
        } else {
            Some((vertex - self.nodes - self.groups) / self.zones)
        }
    }

    fn go(&self, board: &mut Board<'_>, cycle: &[(usize, usize)]) {
        for (from, to) in cycle {
            match (self.group_of(*from), self.group_of(*to)) {
                (Some(group), None) if *to < self.nodes => board.add(group, *to),
                (None, Some(group)) if *from < self.nodes => board.take(group, *from),
                (Some(group), None) => board.waiting[group] += 1,
                (None, Some(group)) => board.waiting[group] -= 1,
                // Loads follow from counts, and a zone's count from those of its nodes.
                _ => {}
            }
        }
    }
}
