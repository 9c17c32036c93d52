//! How many tasks of each group each node has: what the solvers for equal weights work on.

use super::settle::{Stay, Stays};
use super::{Group, Node, Stance, View};

/// A share of [`super::SHARE_MAX`] still makes each further unit dearer.
const SCALE: u64 = 1_024;

/// Counts by group and node, and what bounds them.
pub(super) struct Board<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) groups: &'a [Group],
    /// How many of them may stay where they are, by group and node.
    pub(super) kept: Vec<u32>,
    /// How many there are to be, by group and node.
    pub(super) count: Vec<u32>,
    /// How many of each group have no node yet.
    pub(super) waiting: Vec<u32>,
    /// How many tasks each node has in all, pinned ones with them.
    pub(super) load: Vec<u32>,
    /// How many of them stay whatever happens, and do not count in `count`.
    pub(super) pinned: Vec<u32>,
    zones: usize,
    /// By group and zone; pinned ones with them.
    zone: Vec<u32>,
    /// By group: how many a zone may have.
    zone_max: Vec<u32>,
}

impl<'a> Board<'a> {
    /// What may stay is where it was, but for what is too much; all else waits. Also, how many of `moves_max` that took.
    pub(super) fn new(view: &View<'a>, stays: &Stays, moves_max: u32) -> (Board<'a>, u32) {
        let (nodes, groups) = (view.nodes.len(), view.groups.len());
        let zones = view.nodes.iter().map(|node| node.zone as usize + 1).max().unwrap_or(0);
        let mut board = Board {
            nodes: view.nodes,
            groups: view.groups,
            kept: vec![0; nodes * groups],
            count: Vec::new(),
            waiting: vec![0; groups],
            load: vec![0; nodes],
            pinned: vec![0; nodes],
            zones,
            zone: vec![0; zones * groups],
            zone_max: stays.zone_max.clone(),
        };
        for (ordinal, task) in view.tasks.iter().enumerate() {
            let group = task.group as usize;
            match stays.of(ordinal) {
                Stay::Fixed(node) => {
                    board.pinned[node] += 1;
                    board.occupy(group, node);
                }
                Stay::May(node) => {
                    board.kept[group * nodes + node] += 1;
                    board.occupy(group, node);
                }
                Stay::Leaves(_) => board.waiting[group] += 1,
            }
        }
        board.count = board.kept.clone();
        board.clip_nodes();
        let moves = board.clip_zones(moves_max);
        (board, moves)
    }

    /// Takes from each node what is beyond its limit, from the largest groups first.
    fn clip_nodes(&mut self) {
        for node in 0..self.nodes.len() {
            while self.load[node] > self.nodes[node].tasks_max {
                let largest = (0..self.groups.len()).max_by_key(|group| self.count[self.at(*group, node)]);
                let Some(group) = largest.filter(|group| self.count[self.at(*group, node)] > 0) else { break };
                self.take(group, node);
                self.waiting[group] += 1;
            }
        }
    }

    /// Takes from each zone what is beyond its part, from the most loaded nodes first.
    fn clip_zones(&mut self, moves_max: u32) -> u32 {
        let mut moves = 0;
        for group in (0..self.groups.len()).filter(|group| self.groups[*group].is_spread) {
            for zone in 0..self.zones {
                while moves < moves_max && self.zone_count(group, zone) > self.zone_max[group] {
                    let there = (0..self.nodes.len())
                        .filter(|node| self.zone_of(*node) == zone && self.count[self.at(group, *node)] > 0);
                    let Some(node) = there.max_by_key(|node| (self.take_cost(*node), *node)) else { break };
                    self.take(group, node);
                    (self.waiting[group], moves) = (self.waiting[group] + 1, moves + 1);
                }
            }
        }
        moves
    }

    fn occupy(&mut self, group: usize, node: usize) {
        self.load[node] += 1;
        self.zone[group * self.zones + self.nodes[node].zone as usize] += 1;
    }

    /// Takes over the counts of its only group.
    pub(super) fn set_counts(&mut self, counts: Vec<u32>) {
        debug_assert_eq!(self.groups.len(), 1, "a board of one group");
        let all: u32 = self.count.iter().sum::<u32>() + self.waiting[0];
        self.waiting[0] = all - counts.iter().sum::<u32>();
        for (node, count) in counts.iter().enumerate() {
            self.load[node] = self.pinned[node] + count;
        }
        self.count = counts;
    }

    pub(super) fn at(&self, group: usize, node: usize) -> usize {
        group * self.nodes.len() + node
    }

    /// Whether a node may take one of a group, apart from zones.
    pub(super) fn takes(&self, group: usize, node: usize) -> bool {
        self.nodes[node].stance == Stance::Takes && self.groups[group].nodes[node]
    }

    pub(super) fn has_room(&self, node: usize) -> bool {
        self.load[node] < self.nodes[node].tasks_max
    }

    pub(super) fn is_spread(&self, group: usize) -> bool {
        self.groups[group].is_spread
    }

    pub(super) fn zone_of(&self, node: usize) -> usize {
        self.nodes[node].zone as usize
    }

    pub(super) fn zones(&self) -> usize {
        self.zones
    }

    pub(super) fn zone_has_room(&self, group: usize, zone: usize) -> bool {
        self.zone[group * self.zones + zone] < self.zone_max[group]
    }

    pub(super) fn zone_count(&self, group: usize, zone: usize) -> u32 {
        self.zone[group * self.zones + zone]
    }

    /// What a further task at a node costs: its part of the sum of loads squared over shares.
    pub(super) fn add_cost(&self, node: usize) -> u64 {
        cost(self.load[node], self.nodes[node].share)
    }

    /// What one less saves.
    pub(super) fn take_cost(&self, node: usize) -> u64 {
        cost(self.load[node] - 1, self.nodes[node].share)
    }

    /// Puts one of a group to a node.
    pub(super) fn add(&mut self, group: usize, node: usize) {
        let at = self.at(group, node);
        self.count[at] += 1;
        self.occupy(group, node);
    }

    /// Takes one of a group from a node.
    pub(super) fn take(&mut self, group: usize, node: usize) {
        let at = self.at(group, node);
        self.count[at] -= 1;
        self.load[node] -= 1;
        self.zone[group * self.zones + self.nodes[node].zone as usize] -= 1;
    }

    /// Whether one less of a group at a node undoes a start rather than moving what stays.
    pub(super) fn is_beyond_kept(&self, group: usize, node: usize) -> bool {
        let at = self.at(group, node);
        self.count[at] > self.kept[at]
    }

    /// Whether one more of a group at a node brings back what stays rather than starting one.
    pub(super) fn is_below_kept(&self, group: usize, node: usize) -> bool {
        let at = self.at(group, node);
        self.count[at] < self.kept[at]
    }
}

/// What a task beyond `load` others costs.
pub(super) fn cost(load: u32, share: u32) -> u64 {
    (2 * u64::from(load) + 1) * SCALE / u64::from(share)
}

/// How many tasks a node may have so that none of them costs more than `most`.
pub(super) fn count_within(most: u64, share: u32) -> u64 {
    let odd = ((most + 1) * u64::from(share) - 1) / SCALE;
    odd.div_ceil(2)
}
