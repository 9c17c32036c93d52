use proptest::prelude::*;

use super::board::{cost, count_within};
use super::*;

const FREE: Limits = Limits { moves_max: u32::MAX, tolerance_permille: 20 };

fn node() -> Node {
    Node { stance: Stance::Takes, share: 1, tasks_max: u32::MAX, zone: 0 }
}

fn anywhere(nodes: usize) -> Group {
    Group { nodes: vec![true; nodes], is_spread: false }
}

fn owned_by(owner: Option<u32>) -> Task {
    Task { group: 0, weight: 1, owner, since: 0, pin: None }
}

/// What is to be compared: tasks without an owner, loads, starts.
fn worth(view: &View<'_>, owners: &[Option<u32>]) -> (usize, u64, usize) {
    let mut loads = vec![0_u32; view.nodes.len()];
    let mut price = 0;
    for owner in owners.iter().flatten() {
        let node = *owner as usize;
        price += cost(loads[node], view.nodes[node].share);
        loads[node] += 1;
    }
    let starts = owners.iter().zip(view.tasks).filter(|(to, task)| to.is_some() && **to != task.owner).count();
    (owners.iter().filter(|owner| owner.is_none()).count(), price, starts)
}

/// Nothing that may not be.
fn assert_sound(view: &View<'_>, plan: &Plan) {
    let stays = settle::stays(view);
    let mut loads = vec![0_u32; view.nodes.len()];
    for (ordinal, task) in view.tasks.iter().enumerate() {
        let Some(owner) = plan.owners[ordinal] else {
            assert!(plan.waiting.iter().any(|(waiting, _)| *waiting as usize == ordinal), "who waits is listed");
            continue;
        };
        let at = &view.nodes[owner as usize];
        assert!(view.groups[task.group as usize].nodes[owner as usize], "its group allows its owner");
        assert_ne!(at.stance, Stance::Leaves, "nobody is left with a node that leaves");
        assert!(at.stance == Stance::Takes || task.owner == Some(owner), "only those that take get more");
        loads[owner as usize] += 1;
        let pin = task.pin.filter(|pin| view.nodes[*pin as usize].stance == Stance::Takes);
        let pin = pin.filter(|pin| view.groups[task.group as usize].nodes[*pin as usize]);
        assert!(pin.is_none_or(|pin| pin == owner), "a pin is obeyed");
    }
    let pinned =
        |node: u32| (0..view.tasks.len()).filter(|task| stays.of(*task) == settle::Stay::Fixed(node as usize)).count();
    for (ordinal, load) in (0_u32..).zip(loads) {
        let most = view.nodes[ordinal as usize].tasks_max as usize;
        assert!(load as usize <= most.max(pinned(ordinal)), "nobody has more than it may");
    }
    let changed: Vec<u32> = plan.changes.iter().map(|change| change.task).collect();
    let differs = |(task, owner): (&Task, &Option<u32>)| task.owner != *owner;
    let expected: Vec<u32> = (0..)
        .zip(view.tasks.iter().zip(&plan.owners))
        .filter(|(_, pair)| differs(*pair))
        .map(|(task, _)| task)
        .collect();
    assert_eq!(changed, expected, "all that changes is listed, and nothing else");
}

/// The best worth of all assignments there are.
fn by_trying(view: &View<'_>) -> (usize, u64, usize) {
    let stays = settle::stays(view);
    let (mut owners, mut free) = (vec![None; view.tasks.len()], Vec::new());
    for (task, owner) in owners.iter_mut().enumerate() {
        match stays.of(task) {
            settle::Stay::Fixed(node) => *owner = u32::try_from(node).ok(),
            settle::Stay::May(_) | settle::Stay::Leaves(_) => free.push(task),
        }
    }
    let mut best = worth(view, &owners);
    try_next(view, &stays.zone_max, &mut owners, &free, &mut best);
    best
}

fn try_next(
    view: &View<'_>,
    zone_max: &[u32],
    owners: &mut Vec<Option<u32>>,
    free: &[usize],
    best: &mut (usize, u64, usize),
) {
    *best = (*best).min(worth(view, owners));
    let Some((task, free)) = free.split_first() else { return };
    for node in 0..u32::try_from(view.nodes.len()).unwrap() {
        if may_get(view, zone_max, owners, *task, node) {
            owners[*task] = Some(node);
            try_next(view, zone_max, owners, free, best);
            owners[*task] = None;
        }
    }
    try_next(view, zone_max, owners, free, best);
}

/// Whether a node may get a task beside all that have an owner.
fn may_get(view: &View<'_>, zone_max: &[u32], owners: &[Option<u32>], task: usize, node: u32) -> bool {
    let (group, at) = (view.tasks[task].group, &view.nodes[node as usize]);
    let load = owners.iter().filter(|owner| **owner == Some(node)).count();
    let is_beside = |(other, owner): &(&Task, &Option<u32>)| {
        other.group == group && owner.is_some_and(|owner| view.nodes[owner as usize].zone == at.zone)
    };
    let in_zone = view.tasks.iter().zip(owners).filter(is_beside).count();
    at.stance == Stance::Takes
        && view.groups[group as usize].nodes[node as usize]
        && load < at.tasks_max as usize
        && in_zone < zone_max[group as usize] as usize
}

fn stance() -> impl Strategy<Value = Stance> {
    prop_oneof![6 => Just(Stance::Takes), 1 => Just(Stance::Leaves)]
}

fn any_node() -> impl Strategy<Value = Node> {
    (stance(), 1..3_u32, prop_oneof![3 => Just(u32::MAX), 1 => 0..4_u32], 0..2_u32)
        .prop_map(|(stance, share, tasks_max, zone)| Node { stance, share, tasks_max, zone })
}

type Case = (Vec<Node>, Vec<Group>, Vec<Task>);

/// Small worlds with everything that there is, of equal weights.
fn world(nodes: usize, tasks: usize, groups: usize) -> impl Strategy<Value = Case> {
    (1..=nodes, 1..=groups).prop_flat_map(move |(nodes, groups)| {
        let group = (proptest::collection::vec(proptest::bool::weighted(0.7), nodes), proptest::bool::weighted(0.2))
            .prop_map(|(nodes, is_spread)| Group { nodes, is_spread });
        let (n, g) = (u32::try_from(nodes).unwrap(), u32::try_from(groups).unwrap());
        let task = (0..g, proptest::option::weighted(0.8, 0..n), 0..9_u64, proptest::option::weighted(0.1, 0..n))
            .prop_map(|(group, owner, since, pin)| Task { group, weight: 1, owner, since, pin });
        (
            proptest::collection::vec(any_node(), nodes),
            proptest::collection::vec(group, groups),
            proptest::collection::vec(task, 0..=tasks),
        )
    })
}

fn with_owners(tasks: &[Task], plan: &Plan) -> Vec<Task> {
    tasks.iter().zip(&plan.owners).map(|(task, owner)| Task { owner: *owner, ..*task }).collect()
}

#[test]
fn what_is_within_a_price_costs_no_more() {
    for share in [1, 2, 3, 7, SHARE_MAX] {
        for price in (0..5_000).chain([1 << 30]) {
            let count = u32::try_from(count_within(price, share)).unwrap();
            assert!(count == 0 || cost(count - 1, share) <= price, "{count} of {share} within {price}");
            assert!(cost(count, share) > price, "{count} and one more of {share} within {price}");
        }
    }
}

#[test]
fn what_is_balanced_does_not_move_whoever_has_the_one_more() {
    for extra in 0..3 {
        let nodes = [node(); 3];
        let mut tasks: Vec<Task> = (0..6).map(|n| owned_by(Some(n % 3))).collect();
        tasks.push(owned_by(Some(extra)));
        let plan = plan(&View { nodes: &nodes, groups: &[anywhere(3)], tasks: &tasks }, &FREE);
        assert_eq!(plan.changes, []);
        assert!(plan.is_exact);
    }
}

#[test]
fn a_node_that_joins_gets_its_part_and_nobody_else_gets_anything() {
    let nodes = [node(); 4];
    let tasks: Vec<Task> = (0..99).map(|n| Task { since: u64::from(n), ..owned_by(Some(n % 3)) }).collect();
    let plan = plan(&View { nodes: &nodes, groups: &[anywhere(4)], tasks: &tasks }, &FREE);
    assert_eq!(plan.changes.len(), 24);
    assert!(plan.changes.iter().all(|change| change.to == Some(3) && change.why == Why::Balance));
    assert!(plan.changes.iter().all(|change| change.task >= 74), "what came last is what moves");
}

#[test]
fn a_node_that_dies_leaves_its_tasks_to_the_others_and_nothing_else_moves() {
    let mut nodes = [node(); 4];
    nodes[1].stance = Stance::Leaves;
    let tasks: Vec<Task> = (0..100).map(|n| owned_by(Some(n % 4))).collect();
    let plan = plan(&View { nodes: &nodes, groups: &[anywhere(4)], tasks: &tasks }, &Limits { moves_max: 0, ..FREE });
    assert_eq!(plan.changes.len(), 25);
    assert!(plan.changes.iter().all(|change| change.from == Some(1) && change.why == Why::OwnerLeaves));
}

#[test]
fn whoever_waits_is_told_for_what() {
    let full = Node { tasks_max: 1, ..node() };
    let leaving = Node { stance: Stance::Leaves, ..node() };
    let none = Group { nodes: vec![false], is_spread: false };
    for (nodes, group, expected) in [
        ([leaving], anywhere(1), vec![(0, Waits::NoNode), (1, Waits::NoNode)]),
        ([node()], none, vec![(0, Waits::NoneAllowed), (1, Waits::NoneAllowed)]),
        ([full], anywhere(1), vec![(1, Waits::AllFull)]),
    ] {
        let tasks = [owned_by(None), owned_by(None)];
        let plan = plan(&View { nodes: &nodes, groups: &[group], tasks: &tasks }, &FREE);
        assert_eq!(plan.waiting, expected);
    }
    let nobody = plan(&View { nodes: &[], groups: &[anywhere(0)], tasks: &[owned_by(None)] }, &FREE);
    assert_eq!(nobody.waiting, [(0, Waits::NoNode)]);
}

#[test]
fn a_task_that_only_full_nodes_may_own_makes_another_one_move() {
    let nodes = [Node { tasks_max: 1, ..node() }, Node { tasks_max: 1, ..node() }];
    let groups = [anywhere(2), Group { nodes: vec![true, false], is_spread: false }];
    let tasks = [owned_by(Some(0)), Task { group: 1, ..owned_by(None) }];
    let plan = plan(&View { nodes: &nodes, groups: &groups, tasks: &tasks }, &Limits { moves_max: 0, ..FREE });
    assert_eq!(plan.owners, [Some(1), Some(0)]);
}

#[test]
fn a_giant_keeps_nobody_from_giving_to_a_node_that_joins() {
    let nodes = [node(); 5];
    let mut tasks: Vec<Task> = (0..300).map(|n| Task { weight: 2, ..owned_by(Some(1 + n % 3)) }).collect();
    tasks.push(Task { weight: 5_000, ..owned_by(Some(0)) });
    let plan = plan(&View { nodes: &nodes, groups: &[anywhere(5)], tasks: &tasks }, &FREE);
    let at = |node: u32| plan.owners.iter().filter(|owner| **owner == Some(node)).count();
    assert_eq!(at(0), 1, "the giant has a node to itself");
    for node in 1..5 {
        assert!((73..=77).contains(&at(node)), "node {node} has {}", at(node));
    }
    assert!(plan.moves() <= 76, "{} moves", plan.moves());
}

proptest! {
    /// No assignment has fewer tasks without an owner, or is more even, or needs fewer starts.
    #[test]
    fn no_other_assignment_is_better((nodes, groups, tasks) in world(4, 6, 3)) {
        let view = View { nodes: &nodes, groups: &groups, tasks: &tasks };
        let plan = plan(&view, &FREE);
        assert_sound(&view, &plan);
        prop_assert!(plan.is_exact);
        prop_assert_eq!(worth(&view, &plan.owners), by_trying(&view));
    }

    /// The closed form and the search find the same.
    #[test]
    fn the_closed_form_is_as_good_as_the_search((nodes, _, tasks) in world(6, 60, 1)) {
        let groups = [anywhere(nodes.len())];
        let tasks: Vec<Task> = tasks.into_iter().map(|task| Task { pin: None, ..task }).collect();
        let view = View { nodes: &nodes, groups: &groups, tasks: &tasks };
        let closed = plan(&view, &FREE);
        assert_sound(&view, &closed);
        // A second group that nobody is in makes it search.
        let searched = plan(&View { groups: &[groups[0].clone(), groups[0].clone()], ..view }, &FREE);
        assert_sound(&view, &searched);
        prop_assert!(closed.is_exact && searched.is_exact);
        prop_assert_eq!(worth(&view, &closed.owners), worth(&view, &searched.owners));
    }

    /// What was planned is left as it is.
    #[test]
    fn a_plan_of_a_plan_changes_nothing(
        (nodes, groups, tasks) in world(6, 40, 3), weights in proptest::collection::vec(1..9_u32, 40), even: bool,
    ) {
        let weigh = |(task, weight): (&Task, &u32)| Task { weight: if even { 1 } else { *weight }, ..*task };
        let tasks: Vec<Task> = tasks.iter().zip(&weights).map(weigh).collect();
        let first = plan(&View { nodes: &nodes, groups: &groups, tasks: &tasks }, &FREE);
        let tasks = with_owners(&tasks, &first);
        let second = plan(&View { nodes: &nodes, groups: &groups, tasks: &tasks }, &FREE);
        prop_assert_eq!(&second.changes, &Vec::new());
        prop_assert_eq!(&second.waiting, &first.waiting);
    }

    /// What is new goes somewhere, and moves nothing that is balanced.
    #[test]
    fn a_new_task_moves_no_other_one((nodes, _, tasks) in world(6, 40, 1), new in 1..40_usize) {
        let groups = [anywhere(nodes.len())];
        let tasks: Vec<Task> = tasks.into_iter().map(|task| Task { pin: None, ..task }).collect();
        let first = plan(&View { nodes: &nodes, groups: &groups, tasks: &tasks }, &FREE);
        let mut tasks = with_owners(&tasks, &first);
        let before = tasks.len();
        tasks.extend((0..new).map(|_| owned_by(None)));
        let second = plan(&View { nodes: &nodes, groups: &groups, tasks: &tasks }, &FREE);
        prop_assert!(second.changes.iter().all(|change| change.task as usize >= before));
    }

    /// No more moves than allowed, with any weights; and mandatory ones are not held up.
    #[test]
    fn moves_for_balance_are_bounded(
        (nodes, groups, tasks) in world(6, 40, 3), moves_max in 0..6_u32, weights in proptest::collection::vec(1..9_u32, 40),
    ) {
        for is_even in [true, false] {
            let weigh = |(task, weight): (&Task, &u32)| Task { weight: if is_even { 1 } else { *weight }, ..*task };
            let tasks: Vec<Task> = tasks.iter().zip(&weights).map(weigh).collect();
            let view = View { nodes: &nodes, groups: &groups, tasks: &tasks };
            let bounded = plan(&view, &Limits { moves_max, ..FREE });
            assert_sound(&view, &bounded);
            let free = plan(&view, &FREE);
            if is_even && nodes.iter().all(|node| node.tasks_max == u32::MAX) && !groups.iter().any(|group| group.is_spread) {
                prop_assert!(bounded.moves() <= moves_max as usize, "{} moves", bounded.moves());
                prop_assert_eq!(bounded.waiting, free.waiting);
            }
        }
    }

    /// Tasks of different weights come close to their part where nothing is in the way.
    #[test]
    fn weights_come_within_a_task_of_their_part(
        count in 1..8_usize, weights in proptest::collection::vec(1..100_u32, 1..200), seed: u64,
    ) {
        let nodes = vec![node(); count];
        let tasks: Vec<Task> = (0_u64..).zip(&weights).map(|(n, weight)| {
            let owner = u32::try_from(seed.rotate_left(u32::try_from(n % 64).unwrap()) % count as u64).unwrap();
            Task { weight: *weight, ..owned_by(Some(owner)) }
        }).collect();
        let plan = plan(&View { nodes: &nodes, groups: &[anywhere(count)], tasks: &tasks }, &FREE);
        let mut loads = vec![0_u64; count];
        for (task, owner) in tasks.iter().zip(&plan.owners) {
            loads[owner.unwrap() as usize] += u64::from(task.weight);
        }
        let heaviest = u64::from(*weights.iter().max().unwrap());
        let (most, least) = (loads.iter().max().unwrap(), loads.iter().min().unwrap());
        prop_assert!(most - least <= heaviest.max(most * 4 / 100 + 1), "{loads:?}");
    }
}
