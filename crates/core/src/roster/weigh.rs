//! Tasks of different weights. To make their makespan least with few moves is NP-hard (G. Aggarwal, R. Motwani, A. Zhu, The
//! Load Rebalancing Problem, 2003), so this is a search: what has no owner goes, heaviest first, to whoever is loaded
//! least; then single tasks, or two against each other, go from the most loaded node to the least loaded one, until all are
//! within the tolerance of their part, or nothing helps.
//!
//! A node's part is that of the *level*: the mean without tasks that are larger than it by themselves. Beside such a giant
//! everyone else would always lie below the plain mean, and nobody would give anything to a node that joins.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::settle::{Stay, Stays};
use super::{Limits, Stance, View};

/// For one node that has too much, how many of the least loaded ones are looked at.
const LOOK_MAX: usize = 8;
/// A load of one at a share of one.
const SCALE: u64 = 1_000;

/// The owner of each task.
pub(super) fn owners(view: &View<'_>, stays: &Stays, limits: &Limits) -> Vec<Option<u32>> {
    let mut scale = Scale::new(view, stays);
    scale.clip();
    let mut left = limits.moves_max;
    // What has moved may have made room, or be in nobody's way any more.
    loop {
        scale.place();
        let before = left;
        left = scale.level(limits.tolerance_permille, left);
        if left == before {
            return scale.owners;
        }
    }
}

struct Scale<'a> {
    view: &'a View<'a>,
    zone_max: &'a [u32],
    owners: Vec<Option<u32>>,
    nodes: Vec<Pan>,
    zone: std::collections::BTreeMap<(u32, u32), u32>,
    /// Nodes that take tasks, by what they carry for their share.
    order: BTreeSet<(u64, usize)>,
}

/// What a node carries.
#[derive(Default)]
struct Pan {
    weight: u64,
    count: u32,
    /// Tasks that may be moved: the lightest first; of equals, what came last.
    movable: BTreeSet<(u32, Reverse<u64>, u32)>,
    /// Further ones, in no order: most nodes are never asked.
    unsorted: Vec<u32>,
}

impl<'a> Scale<'a> {
    fn new(view: &'a View<'a>, stays: &'a Stays) -> Scale<'a> {
        let mut scale = Scale {
            view,
            zone_max: &stays.zone_max,
            owners: vec![None; view.tasks.len()],
            nodes: view.nodes.iter().map(|_| Pan::default()).collect(),
            zone: std::collections::BTreeMap::new(),
            order: BTreeSet::new(),
        };
        for (ordinal, _) in (0_u32..).zip(view.tasks) {
            match stays.of(ordinal as usize) {
                Stay::Fixed(node) => scale.load(ordinal, node, false),
                Stay::May(node) => scale.load(ordinal, node, true),
                Stay::Leaves(_) => {}
            }
        }
        let takes = |node: &usize| view.nodes[*node].stance == Stance::Takes;
        scale.order = (0..view.nodes.len()).filter(takes).map(|node| (scale.relative(node), node)).collect();
        scale
    }

    fn relative(&self, node: usize) -> u64 {
        self.nodes[node].weight * SCALE / u64::from(self.view.nodes[node].share)
    }

    fn put(&mut self, task: u32, node: usize) {
        self.order.remove(&(self.relative(node), node));
        self.load(task, node, true);
        self.order.insert((self.relative(node), node));
    }

    /// Puts a task to a node that is in no order.
    fn load(&mut self, task: u32, node: usize, is_movable: bool) {
        let spec = &self.view.tasks[task as usize];
        let pan = &mut self.nodes[node];
        (pan.weight, pan.count) = (pan.weight + u64::from(spec.weight), pan.count + 1);
        if is_movable {
            pan.unsorted.push(task);
        }
        self.count_zone(node, task, 1);
        self.owners[task as usize] = u32::try_from(node).ok();
    }

    /// Puts a node's tasks into order.
    fn sort(&mut self, node: usize) {
        let pan = &mut self.nodes[node];
        for task in pan.unsorted.drain(..) {
            let spec = &self.view.tasks[task as usize];
            pan.movable.insert((spec.weight, Reverse(spec.since), task));
        }
    }

    fn lift(&mut self, task: u32, node: usize) {
        let spec = &self.view.tasks[task as usize];
        self.order.remove(&(self.relative(node), node));
        let pan = &mut self.nodes[node];
        (pan.weight, pan.count) = (pan.weight - u64::from(spec.weight), pan.count - 1);
        pan.movable.remove(&(spec.weight, Reverse(spec.since), task));
        self.count_zone(node, task, -1);
        self.owners[task as usize] = None;
        self.order.insert((self.relative(node), node));
    }

    fn count_zone(&mut self, node: usize, task: u32, by: i32) {
        let group = self.view.tasks[task as usize].group;
        if self.view.groups[group as usize].is_spread {
            let count = self.zone.entry((group, self.view.nodes[node].zone)).or_default();
            *count = count.saturating_add_signed(by);
        }
    }

    /// Whether a node may own a task, if it came from another one.
    fn fits(&self, task: u32, node: usize, from: Option<usize>) -> bool {
        let group = self.view.tasks[task as usize].group;
        let at = &self.view.nodes[node];
        let zone_has_room = || {
            from.is_some_and(|from| self.view.nodes[from].zone == at.zone)
                || self.zone.get(&(group, at.zone)).copied().unwrap_or(0) < self.zone_max[group as usize]
        };
        at.stance == Stance::Takes && self.view.groups[group as usize].nodes[node] && zone_has_room()
    }

    fn has_room(&self, node: usize) -> bool {
        self.nodes[node].count < self.view.nodes[node].tasks_max
    }

    /// Takes from each node what is beyond its limit, the lightest first.
    fn clip(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].count > self.view.nodes[node].tasks_max {
                self.sort(node);
            }
            while self.nodes[node].count > self.view.nodes[node].tasks_max
                && let Some((_, _, task)) = self.nodes[node].movable.first().copied()
            {
                self.lift(task, node);
            }
        }
    }

    fn place(&mut self) {
        let mut orphans: Vec<u32> =
            (0_u32..).zip(&self.owners).filter(|(_, owner)| owner.is_none()).map(|(task, _)| task).collect();
        orphans.sort_by_key(|task| (Reverse(self.view.tasks[*task as usize].weight), *task));
        for task in orphans {
            let fits = |(_, node): &&(u64, usize)| self.has_room(*node) && self.fits(task, *node, None);
            let Some((_, node)) = self.order.iter().find(fits).copied() else { continue };
            self.put(task, node);
        }
    }

    /// What a share of one carries if all have their part.
    fn part(&self) -> u64 {
        let takes = |node: &usize| self.view.nodes[*node].stance == Stance::Takes;
        let mut shares: u64 =
            (0..self.nodes.len()).filter(takes).map(|node| u64::from(self.view.nodes[node].share)).sum();
        let mut whole: u64 = (0..self.nodes.len()).filter(takes).map(|node| self.nodes[node].weight).sum();
        let nodes = self.order.len().max(1) as u64;
        let mean_share = (shares / nodes).max(1);
        // Each giant lowers the level, and may make another one.
        let mut above = u64::MAX;
        loop {
            let part = whole * mean_share / shares.max(1);
            let is_giant = |weight: &u64| *weight > part && *weight < above;
            let is_counted = |owner: &Option<u32>| owner.is_some_and(|node| takes(&(node as usize)));
            let counted = self.view.tasks.iter().zip(&self.owners).filter(|(_, owner)| is_counted(owner));
            let giants: Vec<u64> = counted.map(|(task, _)| u64::from(task.weight)).filter(is_giant).collect();
            let fit = giants.len() as u64 * mean_share;
            if giants.is_empty() || fit >= shares {
                break;
            }
            (whole, shares, above) = (whole - giants.iter().sum::<u64>(), shares - fit, part + 1);
        }
        whole * SCALE / shares.max(1)
    }

    /// Moves at most so many; says how many are left.
    fn level(&mut self, tolerance_permille: u32, moves_max: u32) -> u32 {
        let part = self.part();
        let margin = part * u64::from(tolerance_permille) / 1_000;
        let (low, high) = (part.saturating_sub(margin), part + margin);
        // A node from which nothing helps is left alone.
        let mut stuck: BTreeSet<usize> = BTreeSet::new();
        let mut left = moves_max;
        while left > 0
            && let Some((most, from)) = self.order.iter().rev().find(|(_, node)| !stuck.contains(node)).copied()
            && let Some((least, _)) = self.order.first().copied()
            && (most > high || least < low)
            && most > least
        {
            self.sort(from);
            let least: Vec<usize> = self.order.iter().take(LOOK_MAX).map(|(_, node)| *node).collect();
            least.iter().for_each(|node| self.sort(*node));
            let step = least.iter().find_map(|to| self.step(from, *to, left));
            match step {
                Some((task, back, to)) => {
                    self.lift(task, from);
                    self.put(task, to);
                    left -= 1;
                    if let Some(back) = back {
                        self.lift(back, to);
                        self.put(back, from);
                        left -= 1;
                    }
                }
                None => {
                    stuck.insert(from);
                }
            }
        }
        left
    }

    /// A task that should go from one node to another, and one that should come back for it.
    fn step(&self, from: usize, to: usize, left: u32) -> Option<(u32, Option<u32>, usize)> {
        let (a, b) = (u64::from(self.view.nodes[from].share), u64::from(self.view.nodes[to].share));
        let (most, least) = (self.nodes[from].weight, self.nodes[to].weight);
        // What would make both equal for their shares.
        let ideal = (most * b).checked_sub(least * a).map(|gap| gap / (a + b)).filter(|ideal| *ideal > 0)?;
        let bound = u32::try_from(ideal).unwrap_or(u32::MAX);
        // Beyond twice the ideal, the two would only have changed places.
        let helps = |weight: u64| weight < 2 * ideal;
        let of =
            |node: usize, (_, _, task): &&(u32, Reverse<u64>, u32), other: usize| self.fits(*task, other, Some(node));
        if self.has_room(to) {
            let over = self.nodes[from].movable.range((bound, Reverse(u64::MAX), 0)..).take(LOOK_MAX);
            let under = self.nodes[from].movable.range(..(bound, Reverse(u64::MAX), 0)).rev().take(LOOK_MAX);
            let covers = over.filter(|(weight, _, _)| helps(u64::from(*weight))).find(|key| of(from, key, to));
            let below = || under.clone().find(|key| of(from, key, to));
            if let Some((_, _, task)) = covers.or_else(below) {
                return Some((*task, None, to));
            }
        }
        if left < 2 {
            return None;
        }
        // The largest difference that helps, of few on either side.
        let mut best: Option<(u64, u32, u32)> = None;
        for heavy in self.nodes[from].movable.iter().rev().take(LOOK_MAX).filter(|key| of(from, key, to)) {
            for light in self.nodes[to].movable.iter().take(LOOK_MAX).filter(|key| of(to, key, from)) {
                let gain = u64::from(heavy.0.saturating_sub(light.0));
                let distance = gain.abs_diff(ideal);
                if gain > 0 && helps(gain) && best.is_none_or(|(found, _, _)| distance < found) {
                    best = Some((distance, heavy.2, light.2));
                }
            }
        }
        best.map(|(_, heavy, light)| (heavy, Some(light), to))
    }
}
