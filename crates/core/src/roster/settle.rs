//! Which task is where, from how many there are; and why.

use super::board::Board;
use super::{Change, Plan, Stance, Task, View, Waits, Why};

/// Whether a task may stay with its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stay {
    /// It stays, whatever is best for the others.
    Fixed(usize),
    /// It may stay, or move.
    May(usize),
    /// It may not stay, or has no owner.
    Leaves(Why),
}

/// What is known of each task before anything is decided.
#[derive(Debug)]
pub(super) struct Stays {
    tasks: Vec<Stay>,
    /// By group: how many of it a zone may have.
    pub(super) zone_max: Vec<u32>,
}

impl Stays {
    pub(super) fn of(&self, task: usize) -> Stay {
        self.tasks[task]
    }
}

/// Says of each task whether it may stay.
pub(super) fn stays(view: &View<'_>) -> Stays {
    let mut sizes = vec![0_u32; view.groups.len()];
    for task in view.tasks {
        sizes[task.group as usize] += 1;
    }
    let zone_max = view.groups.iter().zip(sizes).map(|(group, size)| {
        let mut zones: Vec<u32> = view
            .nodes
            .iter()
            .zip(&group.nodes)
            .filter(|(node, is_allowed)| **is_allowed && node.stance != Stance::Leaves)
            .map(|(node, _)| node.zone)
            .collect();
        zones.sort_unstable();
        zones.dedup();
        let zones = u32::try_from(zones.len()).unwrap_or(u32::MAX);
        if group.is_spread && zones > 0 { size.div_ceil(zones) } else { u32::MAX }
    });
    Stays { zone_max: zone_max.collect(), tasks: view.tasks.iter().map(|task| stay(view, task)).collect() }
}

fn stay(view: &View<'_>, task: &Task) -> Stay {
    let group = &view.groups[task.group as usize];
    let pin =
        task.pin.map(|pin| pin as usize).filter(|pin| view.nodes[*pin].stance == Stance::Takes && group.nodes[*pin]);
    let Some(owner) = task.owner.map(|owner| owner as usize) else {
        return pin.map_or(Stay::Leaves(Why::Unowned), Stay::Fixed);
    };
    match (pin, view.nodes[owner].stance) {
        (Some(pin), _) => Stay::Fixed(pin),
        (None, Stance::Leaves) => Stay::Leaves(Why::OwnerLeaves),
        (None, _) if !group.nodes[owner] => Stay::Leaves(Why::NotAllowed),
        (None, Stance::Keeps) => Stay::Fixed(owner),
        (None, Stance::Takes) => Stay::May(owner),
    }
}

/// Fills the counts of a board with tasks: what has run for the longest stays.
pub(super) fn by_count(view: &View<'_>, stays: &Stays, board: &Board<'_>, is_exact: bool) -> Plan {
    let nodes = view.nodes.len();
    let mut owners: Vec<Option<u32>> = vec![None; view.tasks.len()];
    let mut pools: Vec<Vec<u32>> = vec![Vec::new(); view.groups.len()];
    // Those of a place that is to have fewer; all others just stay.
    let mut crowds: std::collections::BTreeMap<usize, Vec<(u64, u32)>> = std::collections::BTreeMap::new();
    for (ordinal, task) in (0_u32..).zip(view.tasks) {
        let group = task.group as usize;
        match stays.of(ordinal as usize) {
            Stay::Fixed(node) => owners[ordinal as usize] = Some(number(node)),
            Stay::May(node) if board.count[board.at(group, node)] < board.kept[board.at(group, node)] => {
                crowds.entry(board.at(group, node)).or_default().push((task.since, ordinal));
            }
            Stay::May(node) => owners[ordinal as usize] = Some(number(node)),
            Stay::Leaves(_) => pools[group].push(ordinal),
        }
    }
    for (at, mut crowd) in crowds {
        crowd.sort_unstable();
        let moved = crowd.split_off(board.count[at] as usize);
        for (_, task) in crowd {
            owners[task as usize] = Some(number(at % nodes));
        }
        pools[at / nodes].extend(moved.into_iter().map(|(_, task)| task));
    }
    for (group, mut pool) in pools.into_iter().enumerate() {
        pool.sort_unstable();
        let mut pool = pool.into_iter();
        for node in 0..nodes {
            let at = board.at(group, node);
            let missing = board.count[at].saturating_sub(board.kept[at]);
            for task in pool.by_ref().take(missing as usize) {
                owners[task as usize] = Some(number(node));
            }
        }
    }
    finish(view, stays, owners, is_exact)
}

/// The plan of owners that were found one by one.
pub(super) fn by_owner(view: &View<'_>, stays: &Stays, owners: &[Option<u32>]) -> Plan {
    finish(view, stays, owners.to_vec(), false)
}

fn finish(view: &View<'_>, stays: &Stays, owners: Vec<Option<u32>>, is_exact: bool) -> Plan {
    let crowd = Crowd::of(view, stays);
    let (mut changes, mut waiting) = (Vec::new(), Vec::new());
    for ((ordinal, task), owner) in (0_u32..).zip(view.tasks).zip(&owners) {
        if *owner != task.owner {
            let why = match stays.of(ordinal as usize) {
                Stay::Leaves(why) => why,
                Stay::Fixed(_) => Why::Pinned,
                Stay::May(node) => crowd.why(view, task, node),
            };
            changes.push(Change { task: ordinal, from: task.owner, to: *owner, why });
        }
        if owner.is_none() {
            waiting.push((ordinal, waits(view, task)));
        }
    }
    Plan { owners, changes, waiting, is_exact }
}

/// How much there was too much of.
struct Crowd {
    load: Vec<u32>,
    zone: std::collections::BTreeMap<(u32, u32), u32>,
    zone_max: Vec<u32>,
}

impl Crowd {
    fn of(view: &View<'_>, stays: &Stays) -> Crowd {
        let mut crowd = Crowd {
            load: vec![0; view.nodes.len()],
            zone: std::collections::BTreeMap::new(),
            zone_max: stays.zone_max.clone(),
        };
        for (ordinal, task) in view.tasks.iter().enumerate() {
            let (Stay::Fixed(node) | Stay::May(node)) = stays.of(ordinal) else { continue };
            crowd.load[node] += 1;
            if view.groups[task.group as usize].is_spread {
                *crowd.zone.entry((task.group, view.nodes[node].zone)).or_default() += 1;
            }
        }
        crowd
    }

    fn why(&self, view: &View<'_>, task: &Task, node: usize) -> Why {
        let zone = self.zone.get(&(task.group, view.nodes[node].zone)).copied().unwrap_or(0);
        if self.load[node] > view.nodes[node].tasks_max {
            Why::OverCapacity
        } else if zone > self.zone_max[task.group as usize] {
            Why::ZoneOverPart
        } else {
            Why::Balance
        }
    }
}

fn waits(view: &View<'_>, task: &Task) -> Waits {
    let takes = |node: &super::Node| node.stance == Stance::Takes;
    let group = &view.groups[task.group as usize];
    if !view.nodes.iter().any(takes) {
        Waits::NoNode
    } else if !view.nodes.iter().zip(&group.nodes).any(|(node, is_allowed)| takes(node) && *is_allowed) {
        Waits::NoneAllowed
    } else {
        Waits::AllFull
    }
}

fn number(node: usize) -> u32 {
    u32::try_from(node).expect("checked: ordinals have 32 bits")
}
