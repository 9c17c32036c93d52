//! What a plan of 100,000 event tasks on 1,000 nodes costs, and how many tasks it starts; beside rendezvous hashing and
//! average allocation, which know nothing of who owned what.
#![expect(clippy::unwrap_used, reason = "a bench's own set-up")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use rota_core::roster::{Group, Limits, Node, Stance, Task, View, plan};
use rota_core::route::{Draw, Hash};

const TASKS: u32 = 100_000;
const NODES: u32 = 1_000;
const FREE: Limits = Limits { moves_max: u32::MAX, tolerance_permille: 20 };

/// One thing that happens to a balanced roster.
struct Case {
    name: &'static str,
    nodes: Vec<Node>,
    tasks: Vec<Task>,
}

fn node() -> Node {
    Node { stance: Stance::Takes, share: 1, tasks_max: u32::MAX, zone: 0 }
}

fn groups(count: usize, nodes: usize) -> Vec<Group> {
    let mut draw = Draw::new(11);
    let one = |draw: &mut Draw| Group { nodes: (0..nodes).map(|_| draw.below(10) < 4).collect(), is_spread: false };
    if count == 1 {
        return vec![Group { nodes: vec![true; nodes], is_spread: false }];
    }
    (0..count).map(|_| one(&mut draw)).collect()
}

/// Balanced by the solver itself, over all nodes but those that only join later.
fn balanced(nodes: &[Node], groups: &[Group], mut weight: impl FnMut() -> u32) -> Vec<Task> {
    let count = u32::try_from(groups.len()).unwrap();
    let task = |n: u32, weight: u32| Task { group: n % count, weight, owner: None, since: u64::from(n), pin: None };
    let mut tasks: Vec<Task> = (0..TASKS).map(|n| task(n, weight())).collect();
    let plan = plan(&View { nodes, groups, tasks: &tasks }, &FREE);
    for (task, owner) in tasks.iter_mut().zip(plan.owners) {
        task.owner = owner;
    }
    tasks
}

fn cases(groups: &[Group], mut weight: impl FnMut() -> u32) -> Vec<Case> {
    let count = NODES as usize;
    let mut early = vec![node(); count];
    early[7].stance = Stance::Leaves;
    let joined = balanced(&early, groups, &mut weight);
    let tasks = balanced(&vec![node(); count], groups, &mut weight);
    let mut tenth = vec![node(); count];
    tenth.iter_mut().step_by(10).for_each(|node| node.stance = Stance::Leaves);
    let mut draw = Draw::new(3);
    let scattered = tasks.iter().map(|task| Task { owner: u32::try_from(draw.below(u64::from(NODES))).ok(), ..*task });
    let scattered: Vec<Task> = scattered.collect();
    let unowned = tasks.iter().map(|task| Task { owner: None, ..*task }).collect();
    vec![
        Case { name: "nothing happens", nodes: vec![node(); count], tasks: tasks.clone() },
        Case { name: "one dies", nodes: early, tasks: tasks.clone() },
        Case { name: "one joins", nodes: vec![node(); count], tasks: joined },
        Case { name: "a tenth dies", nodes: tenth, tasks },
        Case { name: "from a random start", nodes: vec![node(); count], tasks: scattered },
        Case { name: "from nothing", nodes: vec![node(); count], tasks: unowned },
    ]
}

fn starts(tasks: &[Task], owners: &[Option<u32>]) -> usize {
    tasks.iter().zip(owners).filter(|(task, owner)| owner.is_some() && **owner != task.owner).count()
}

/// Each task to the node that draws the most for it (D. G. Thaler, C. V. Ravishankar, 1996).
fn rendezvous(nodes: &[Node], places: &[u64], tasks: &[Task]) -> Vec<Option<u32>> {
    let alive: Vec<u32> = (0..).zip(nodes).filter(|(_, node)| node.stance == Stance::Takes).map(|(n, _)| n).collect();
    let draw = |task: u64, node: u32| {
        let mixed =
            (places[node as usize] ^ task.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 31)
    };
    tasks.iter().map(|task| alive.iter().copied().max_by_key(|node| draw(task.since + 1, *node))).collect()
}

/// The first part of the tasks to the first node, and so on.
fn average(nodes: &[Node], tasks: &[Task]) -> Vec<Option<u32>> {
    let alive: Vec<u32> = (0..).zip(nodes).filter(|(_, node)| node.stance == Stance::Takes).map(|(n, _)| n).collect();
    (0..tasks.len()).map(|at| Some(alive[at * alive.len() / tasks.len()])).collect()
}

fn rosters(criterion: &mut Criterion) {
    let places: Vec<u64> = (0..NODES).map(|node| Hash::Xxh3.place(&format!("node-{node}"))).collect();
    for count in [1, 10, 50] {
        let groups = groups(count, NODES as usize);
        let mut group = criterion.benchmark_group(format!("equal weights, {count} groups"));
        group.sample_size(10);
        for case in cases(&groups, || 1) {
            let view = View { nodes: &case.nodes, groups: &groups, tasks: &case.tasks };
            let found = plan(&view, &FREE);
            let name =
                format!("{}: {} starts, exact: {}", case.name, starts(&case.tasks, &found.owners), found.is_exact);
            group.bench_function(name, |bencher| bencher.iter(|| black_box(plan(&view, &FREE))));
        }
    }
    let groups = groups(1, NODES as usize);
    let mut draw = Draw::new(5);
    let mut group = criterion.benchmark_group("weights of 50 to 150");
    group.sample_size(10);
    for case in cases(&groups, || 50 + u32::try_from(draw.below(101)).unwrap()) {
        let view = View { nodes: &case.nodes, groups: &groups, tasks: &case.tasks };
        let found = plan(&view, &FREE);
        let name = format!("{}: {} starts", case.name, starts(&case.tasks, &found.owners));
        group.bench_function(name, |bencher| bencher.iter(|| black_box(plan(&view, &FREE))));
    }
    group.finish();
    others(criterion, &groups, &places);
}

fn others(criterion: &mut Criterion, groups: &[Group], places: &[u64]) {
    let mut group = criterion.benchmark_group("without memory");
    group.sample_size(10);
    for case in cases(groups, || 1) {
        let all = vec![node(); case.nodes.len()];
        let mut early = all.clone();
        early[7].stance = Stance::Leaves;
        // What each had made of the nodes that there were before.
        let before = if case.name == "one joins" { &early } else { &all };
        let had = |owners: Vec<Option<u32>>| -> Vec<Task> {
            case.tasks.iter().zip(owners).map(|(task, owner)| Task { owner, ..*task }).collect()
        };
        let (hashed, averaged) = (had(rendezvous(before, places, &case.tasks)), had(average(before, &case.tasks)));
        let name = |name: &str, starts: usize| format!("{name}, {}: {starts} starts", case.name);
        let hash = name("rendezvous", starts(&hashed, &rendezvous(&case.nodes, places, &hashed)));
        group.bench_function(hash, |bencher| bencher.iter(|| black_box(rendezvous(&case.nodes, places, &hashed))));
        let mean = name("average", starts(&averaged, &average(&case.nodes, &averaged)));
        group.bench_function(mean, |bencher| bencher.iter(|| black_box(average(&case.nodes, &averaged))));
    }
    group.finish();
}

criterion_group!(benches, rosters);
criterion_main!(benches);
