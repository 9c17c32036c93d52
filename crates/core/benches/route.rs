//! What a choice costs, with what it changes: one pick, its reservation, and the release of an earlier one; beside a
//! linear scan for the least weight.
#![expect(clippy::unwrap_used, reason = "a bench's own set-up")]

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rota_core::route::{Bound, Draw, Hash, Load, Member, NOTHING, OnBusy, Pool, Rule, Scope, Score, Seat, Task, Unit};
use rota_core::time::Mono;

const CORE: u64 = 1_000_000;

fn amounts(cpu: u64, memory: u64) -> [u64; rota_core::limits::RESOURCES_MAX] {
    let mut amounts = NOTHING;
    (amounts[0], amounts[1]) = (cpu, memory);
    amounts
}

fn rules() -> Vec<(&'static str, Rule)> {
    let ring = |bound| Rule::ConsistentHash { hash: Hash::Xxh3, points: 100, bound };
    let bound = Bound { percent: 125, unit: Unit::Weight };
    let fit =
        |sample| Rule::ResourceFit { score: Score::Least, weights: amounts(1, 1), sample, overcommit_percent: 100 };
    vec![
        ("FIRST", Rule::First),
        ("LAST", Rule::Last),
        ("BUSYOVER", Rule::Busyover { on_busy: OnBusy::LeastLoaded }),
        ("TASK_ROUND_ROBIN", Rule::TaskRoundRobin),
        ("APP_ROUND_ROBIN", Rule::AppRoundRobin { by_size: true }),
        ("RANDOM", Rule::Random { by_size: true }),
        ("LFU", Rule::Lfu { scope: Scope::App, window_ms: 86_400_000 }),
        ("LRU", Rule::Lru { scope: Scope::App }),
        ("CONSISTENT_HASH", ring(None)),
        ("CONSISTENT_HASH 1.25", ring(Some(bound))),
        ("LEAST_INFLIGHT", Rule::LeastInflight { choices: 0 }),
        ("LEAST_INFLIGHT 2", Rule::LeastInflight { choices: 2 }),
        ("TASK_WEIGHT", Rule::Weight { choices: 0 }),
        ("TASK_WEIGHT 2", Rule::Weight { choices: 2 }),
        ("RESOURCE_FIT", fit(0)),
        ("RESOURCE_FIT all", fit(u32::MAX)),
    ]
}

/// Workers of three sizes, each with some tasks.
fn pool(count: u32, draw: &mut Draw) -> Pool {
    let sizes = [2 * CORE, 4 * CORE, 8 * CORE];
    let member = |n: u32| {
        let size = sizes[(n % 3) as usize];
        Member { name: format!("worker-{n}"), size, zone: n % 3, has: amounts(size / 1_000, 16_384) }
    };
    let mut seat =
        || Seat::Able(Load { tasks: 2, weight: draw.below(2 * CORE), taken: amounts(draw.below(1_000), 512) });
    let seats = (0..count).map(|_| seat()).collect();
    Pool::new((0..count).map(member).collect(), seats, 1)
}

fn change(pool: &mut Pool, at: u32, by: impl Fn(&mut Load)) {
    let Seat::Able(mut load) = pool.seat(at) else { unreachable!("nobody refuses here") };
    by(&mut load);
    pool.set(at, Seat::Able(load));
}

fn choices(criterion: &mut Criterion) {
    for (name, rule) in rules() {
        let mut group = criterion.benchmark_group(name);
        for count in [100, 1_000, 10_000] {
            let mut draw = Draw::new(7);
            let mut pool = pool(count, &mut draw);
            let needs = if name.starts_with("RESOURCE") { amounts(50, 64) } else { NOTHING };
            let mut running = VecDeque::new();
            let mut turn = 0;
            group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
                bencher.iter(|| {
                    turn += 1;
                    let (job, weight) = (draw.below(1_000), draw.below(CORE));
                    let key = Hash::Xxh3.place("1000000017").wrapping_mul(job | 1);
                    let task = Task { key, needs: &needs, app_turn: turn, job_turn: turn, ..Task::of(job, weight) };
                    let at = pool.pick(&rule, &task, Mono(turn)).unwrap();
                    change(&mut pool, at, |load| (load.tasks, load.weight) = (load.tasks + 1, load.weight + weight));
                    running.push_back((at, weight));
                    if running.len() > count as usize {
                        let (at, weight) = running.pop_front().unwrap();
                        change(&mut pool, at, |load| {
                            (load.tasks, load.weight) = (load.tasks - 1, load.weight - weight)
                        });
                    }
                    black_box(at)
                });
            });
        }
        group.finish();
    }
}

fn scan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("linear scan for the least weight");
    for count in [100_u32, 1_000, 10_000] {
        let mut draw = Draw::new(7);
        let mut loads: Vec<(u64, u64)> = (0..count).map(|n| (draw.below(2 * CORE), CORE << (n % 3))).collect();
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                let weight = draw.below(CORE);
                let full = |(load, size): &(u64, u64)| u128::from(load + weight) * u128::from(8 * CORE / size);
                let at = (0..loads.len()).min_by_key(|at| full(&loads[*at])).unwrap();
                loads[at].0 = (loads[at].0 + weight) % (2 * CORE);
                black_box(at)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, choices, scan);
criterion_main!(benches);
