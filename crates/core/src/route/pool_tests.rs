//! Each rule against its own words: a scan of all members, and laws of balance and of disruption.

use proptest::prelude::*;

use super::*;
use crate::route::fit::Score;
use crate::route::rule::Bound;

const HASH: Rule = Rule::ConsistentHash { hash: Hash::Xxh3, points: 100, bound: None };
const BOUNDED: Rule =
    Rule::ConsistentHash { hash: Hash::Xxh3, points: 100, bound: Some(Bound { percent: 125, unit: Unit::Weight }) };

fn rules() -> Vec<Rule> {
    let fit = |score| Rule::ResourceFit { score, weights: amounts(1, 1), sample: 0, overcommit_percent: 100 };
    vec![
        Rule::First,
        Rule::Last,
        Rule::Failover,
        Rule::Busyover { on_busy: OnBusy::Queue },
        Rule::Busyover { on_busy: OnBusy::LeastLoaded },
        Rule::TaskRoundRobin,
        Rule::AppRoundRobin { by_size: true },
        Rule::AppRoundRobin { by_size: false },
        Rule::Random { by_size: true },
        Rule::Random { by_size: false },
        Rule::Lfu { scope: Scope::App, window_ms: 86_400_000 },
        Rule::Lfu { scope: Scope::Job, window_ms: 1 },
        Rule::Lru { scope: Scope::App },
        Rule::Lru { scope: Scope::Job },
        HASH,
        BOUNDED,
        Rule::ConsistentHash {
            hash: Hash::Md5Xxl,
            points: 100,
            bound: Some(Bound { percent: 100, unit: Unit::Count }),
        },
        Rule::LeastInflight { choices: 0 },
        Rule::LeastInflight { choices: 2 },
        Rule::Weight { choices: 0 },
        Rule::Weight { choices: 3 },
        fit(Score::Least),
        fit(Score::Most),
        fit(Score::Balanced),
        fit(Score::Ratio(vec![(0, 0), (100, 100)])),
    ]
}

fn amounts(cpu: u64, memory: u64) -> Amounts {
    let mut amounts = NOTHING;
    (amounts[0], amounts[1]) = (cpu, memory);
    amounts
}

fn member(name: usize, size: u64) -> Member {
    let zone = u32::try_from(name % 3).unwrap();
    Member { name: format!("w{name}"), size, zone, has: amounts(size.saturating_mul(1_000), 8_192) }
}

fn load(tasks: u32, weight: u64) -> Seat {
    Seat::Able(Load { tasks, weight, taken: NOTHING })
}

/// A pool whose members carry this many tasks of weight 1 and have this size.
fn pool(loads: &[(u32, u64)]) -> Pool {
    let members = (0..).zip(loads).map(|(name, (_, size))| member(name, *size)).collect();
    let seats = loads.iter().map(|(tasks, _)| load(*tasks, u64::from(*tasks))).collect();
    Pool::new(members, seats, 1)
}

/// One task more on a member.
fn reserve(pool: &mut Pool, at: u32, weight: u64) {
    let Seat::Able(mut carries) = pool.seat(at) else { panic!("it refuses") };
    (carries.tasks, carries.weight) = (carries.tasks + 1, carries.weight.saturating_add(weight));
    pool.set(at, Seat::Able(carries));
}

/// Whom a rule picks one after the other, each reserved before the next.
fn picks(pool: &mut Pool, rule: &Rule, tasks: impl Iterator<Item = Task<'static>>) -> Vec<u32> {
    let mut picked = Vec::new();
    for (turn, task) in (0..).zip(tasks) {
        let task = Task { app_turn: turn, job_turn: turn, key: Hash::Xxh3.place(&task.job.to_string()), ..task };
        let at = pool.pick(rule, &task, Mono(turn)).unwrap();
        reserve(pool, at, task.weight);
        picked.push(at);
    }
    picked
}

fn check(rule: &Rule, loads: &[(u32, u64)], weights: &[u64], expected: &[u32]) {
    let tasks = weights.iter().map(|weight| Task::of(7, *weight));
    assert_eq!(picks(&mut pool(loads), rule, tasks), expected, "{rule:?}");
}

#[test]
fn each_rule_does_as_it_says() {
    let even = &[(3, 1), (0, 1), (1, 1)];
    check(&Rule::First, even, &[1, 1], &[0, 0]);
    check(&Rule::Last, even, &[1, 1], &[2, 2]);
    check(&Rule::AppRoundRobin { by_size: true }, even, &[1; 4], &[0, 1, 2, 0]);
    check(&Rule::AppRoundRobin { by_size: true }, &[(0, 1), (0, 2), (0, 1)], &[1; 8], &[0, 1, 2, 1, 0, 1, 2, 1]);
    check(&Rule::AppRoundRobin { by_size: false }, &[(0, 1), (0, 2), (0, 1)], &[1; 4], &[0, 1, 2, 0]);
    check(&Rule::LeastInflight { choices: 0 }, even, &[1], &[1]);
    check(&Rule::LeastInflight { choices: 0 }, &[(3, 16), (1, 4)], &[1], &[0]);
    check(&Rule::Weight { choices: 0 }, even, &[5, 1, 1], &[1, 2, 2]);
    // One big task more fills the small one more than the large one.
    check(&Rule::Weight { choices: 0 }, &[(0, 2), (3, 8)], &[4], &[1]);
    check(&Rule::Weight { choices: 0 }, &[(0, 2), (3, 8)], &[1], &[0]);
    let first = u32::try_from(mix(7) % 3).unwrap();
    check(&Rule::Lru { scope: Scope::App }, even, &[1; 3], &[first, (first + 1) % 3, (first + 2) % 3]);
}

#[test]
fn busyover_takes_whom_its_job_does_not_run_on() {
    let mut pool = pool(&[(0, 1), (4, 1), (2, 1)]);
    let mut pick =
        |runs_on, on_busy| pool.pick(&Rule::Busyover { on_busy }, &Task { runs_on, ..Task::of(1, 1) }, Mono(0));
    assert_eq!(pick(&[0], OnBusy::Queue), Ok(1));
    assert_eq!(pick(&[0, 1, 2], OnBusy::Queue), Err(Nobody::Busy));
    assert_eq!(pick(&[0, 1, 2], OnBusy::Fail), Err(Nobody::Busy));
    assert_eq!(pick(&[0, 1, 2], OnBusy::LeastLoaded), Ok(0));
}

#[test]
fn a_window_forgets_what_has_left_it() {
    let rule = Rule::Lfu { scope: Scope::App, window_ms: 2_400 };
    let mut pool = pool(&[(0, 1), (0, 1)]);
    pool.set(1, Seat::Refused(Why::NoCredit));
    for at in 0..3 {
        assert_eq!(pool.pick(&rule, &Task::of(1, 1), Mono(at * 1_000)), Ok(0));
    }
    pool.set(1, load(0, 0));
    for _ in 0..3 {
        assert_eq!(pool.pick(&rule, &Task::of(1, 1), Mono(2_100)), Ok(1));
    }
    // Of the first one's three choices two have left the window, of the second one's none.
    assert_eq!(pool.pick(&rule, &Task::of(1, 1), Mono(3_500)), Ok(0));
}

#[test]
fn turns_by_size_go_on_for_ever() {
    let mut pool = pool(&[(0, 1), (0, 3)]);
    let rule = Rule::AppRoundRobin { by_size: true };
    for _ in 0..100 {
        let picked: Vec<u32> = (0..1_000).map(|_| pool.pick(&rule, &Task::of(1, 1), Mono(0)).unwrap()).collect();
        let small = picked.iter().filter(|at| **at == 0).count();
        assert!((249..=251).contains(&small), "{small}");
    }
}

#[test]
fn who_was_away_does_not_catch_up() {
    let mut pool = pool(&[(0, 1), (0, 3)]);
    let rule = Rule::AppRoundRobin { by_size: true };
    pool.set(0, Seat::Refused(Why::NoCredit));
    for _ in 0..30 {
        assert_eq!(pool.pick(&rule, &Task::of(1, 1), Mono(0)), Ok(1));
    }
    pool.set(0, load(0, 0));
    let picked: Vec<u32> = (0..40).map(|_| pool.pick(&rule, &Task::of(1, 1), Mono(0)).unwrap()).collect();
    assert_eq!(picked.iter().filter(|at| **at == 0).count(), 10);
}

#[test]
fn a_job_stays_where_it_was_while_that_carries_little_more_than_the_mean() {
    let mut pool = pool(&[(1, 1), (2, 1), (1, 1)]);
    let task = Task { stay: Some((1, 50)), ..Task::of(1, 1) };
    assert_eq!(pool.pick(&Rule::Weight { choices: 0 }, &task, Mono(0)), Ok(1));
    reserve(&mut pool, 1, 1);
    assert_eq!(pool.pick(&Rule::Weight { choices: 0 }, &task, Mono(0)), Ok(0));
    let shuns = Task { shuns: &[0, 1], ..task };
    assert_eq!(pool.pick(&Rule::Weight { choices: 0 }, &shuns, Mono(0)), Ok(2));
}

#[test]
fn a_job_is_spread_over_zones_before_its_rule_is_asked() {
    let mut pool = pool(&[(0, 1), (9, 1), (8, 1), (0, 1), (7, 1)]);
    for (spread, expected) in [([0, 0, 1], 0), ([1, 0, 0], 4), ([1, 1, 0], 2), ([2, 1, 1], 4)] {
        let task = Task { spread: Some(&spread), ..Task::of(1, 1) };
        assert_eq!(pool.pick(&Rule::Weight { choices: 0 }, &task, Mono(0)), Ok(expected), "{spread:?}");
    }
    // If nobody of a zone can take it, the next zone does.
    pool.set(2, Seat::Refused(Why::NoCredit));
    let task = Task { spread: Some(&[1, 1, 0]), ..Task::of(1, 1) };
    assert_eq!(pool.pick(&Rule::Weight { choices: 0 }, &task, Mono(0)), Ok(0));
}

#[test]
fn why_nobody_is_chosen_is_told() {
    for rule in rules() {
        let mut empty = Pool::new(Vec::new(), Vec::new(), 1);
        assert_eq!(empty.pick(&rule, &Task::of(1, 1), Mono(0)), Err(Nobody::Empty), "{rule:?}");
        let mut pool = pool(&[(0, 1), (0, 1)]);
        let big = amounts(1_001, 0);
        let task = Task { needs: &big, ..Task::of(1, 1) };
        assert_eq!(pool.pick(&rule, &task, Mono(0)), Err(Nobody::NoRoom), "{rule:?}");
        let task = Task { shuns: &[0, 1], ..Task::of(1, 1) };
        assert_eq!(pool.pick(&rule, &task, Mono(0)), Err(Nobody::Shunned), "{rule:?}");
        pool.set(0, Seat::Refused(Why::NoCredit));
        pool.set(1, Seat::Refused(Why::Rate));
        assert_eq!(pool.pick(&rule, &Task::of(1, 1), Mono(0)), Err(Nobody::Refused(Why::Rate)), "{rule:?}");
    }
}

/// Counts of tasks for each member after many picks.
fn counts(members: usize, rule: &Rule, tasks: impl Iterator<Item = Task<'static>>) -> Vec<u32> {
    let mut pool = pool(&vec![(0, 1); members]);
    picks(&mut pool, rule, tasks);
    (0..u32::try_from(members).unwrap())
        .map(|at| if let Seat::Able(load) = pool.seat(at) { load.tasks } else { 0 })
        .collect()
}

#[test]
fn equal_tasks_are_spread_evenly() {
    let jobs = || (0..1_000).map(|job| Task::of(job, 1));
    for rule in [
        Rule::AppRoundRobin { by_size: true },
        Rule::LeastInflight { choices: 0 },
        Rule::Weight { choices: 0 },
        Rule::Lru { scope: Scope::App },
        Rule::Lfu { scope: Scope::App, window_ms: 86_400_000 },
    ] {
        assert_eq!(counts(10, &rule, jobs()), [100; 10], "{rule:?}");
    }
    let bounded = counts(40, &BOUNDED, jobs());
    assert!(bounded.iter().all(|count| (1..=32).contains(count)), "{bounded:?}");
    let hashed = counts(40, &HASH, jobs());
    assert!(hashed.iter().any(|count| *count > 32), "the bound is what holds the others: {hashed:?}");
    let two = counts(10, &Rule::LeastInflight { choices: 2 }, jobs());
    assert!(two.iter().all(|count| (95..=105).contains(count)), "{two:?}");
}

#[test]
fn larger_ones_are_taken_more_often_by_chance() {
    let mut pool = pool(&[(0, 1), (0, 3)]);
    let mut counts = [0; 2];
    for _ in 0..4_000 {
        counts[pool.pick(&Rule::Random { by_size: true }, &Task::of(1, 1), Mono(0)).unwrap() as usize] += 1;
    }
    assert!((900..1_100).contains(&counts[0]), "{counts:?}");
}

/// What a rule picks, by a look at all members; none where chance or memory decides.
fn scan(pool: &Pool, rule: &Rule, task: &Task<'_>) -> Option<Option<u32>> {
    let count = u32::try_from(pool.len()).unwrap();
    let able = |at: &u32| matches!(pool.seat(*at), Seat::Able(_)) && !task.shuns.contains(at);
    let turned = |start: u64| {
        let start = u32::try_from(start % u64::from(count.max(1))).unwrap();
        (0..count).map(move |n| (start + n) % count).filter(able)
    };
    let mut by_size: Vec<u32> = (0..count).collect();
    by_size.sort_by_key(|at| pool.sizes[*at as usize]);
    let fullness = |at: u32, add: u64, is_weight: bool| {
        let Seat::Able(load) = pool.seat(at) else { panic!("it is able") };
        let (carried, second) = if is_weight { (load.weight, load.tasks) } else { (u64::from(load.tasks), 0) };
        (u128::from(carried) + u128::from(add), u128::from(pool.sizes[at as usize]), second)
    };
    let emptiest = |start: u64, add: u64, is_weight: bool| {
        let start = usize::try_from(start % u64::from(count.max(1))).unwrap();
        let order = (0..by_size.len()).map(|n| by_size[(start + n) % by_size.len()]).filter(able);
        order.reduce(|best, other| {
            let (a, b) = (fullness(best, add, is_weight), fullness(other, add, is_weight));
            if (b.0 * a.1, b.2) < (a.0 * b.1, a.2) { other } else { best }
        })
    };
    Some(match rule {
        Rule::First | Rule::Failover => turned(0).next(),
        Rule::Last => turned(0).next_back(),
        Rule::Busyover { on_busy: OnBusy::Queue | OnBusy::Fail } => turned(0).find(|at| !task.runs_on.contains(at)),
        Rule::Busyover { on_busy: OnBusy::LeastLoaded } => {
            turned(0).find(|at| !task.runs_on.contains(at)).or_else(|| emptiest(task.job_turn, 1, false))
        }
        Rule::TaskRoundRobin => turned((mix(task.job) >> 1) + task.job_turn).next(),
        Rule::AppRoundRobin { by_size: false } => turned(task.app_turn).next(),
        Rule::Weight { choices: 0 } => emptiest(task.app_turn, task.weight, true),
        Rule::ConsistentHash { hash, points, bound: None } => {
            let ring = Ring::new(pool.members.iter().map(|member| member.name.as_str()), *hash, *points);
            ring.from(task.key).find(able)
        }
        Rule::LeastInflight { .. }
        | Rule::AppRoundRobin { .. }
        | Rule::Random { .. }
        | Rule::Lfu { .. }
        | Rule::Lru { .. }
        | Rule::ConsistentHash { .. }
        | Rule::Weight { .. }
        | Rule::ResourceFit { .. } => return None,
    })
}

fn seat() -> impl Strategy<Value = Seat> {
    let weight = prop_oneof![Just(0), 0..9u64, Just(1 << 40)];
    prop_oneof![
        4 => (0..6u32, weight).prop_map(|(tasks, weight)| load(tasks, weight)),
        1 => prop::sample::select(REFUSALS.to_vec()).prop_map(Seat::Refused),
    ]
}

proptest! {
    #[test]
    fn a_pick_is_what_a_scan_would_pick_and_always_one_that_can(
        start in prop::collection::vec((seat(), prop_oneof![Just(1), Just(4), Just(1 << 40)]), 0..12),
        changes in prop::collection::vec((any::<prop::sample::Index>(), seat(), any::<u64>()), 0..30),
        weight in prop_oneof![Just(0), Just(1), Just(1 << 40)],
        shuns in prop::collection::vec(0..12u32, 0..3),
        runs_on in prop::collection::vec(0..12u32, 0..12),
        seed: u64,
    ) {
        let members = (0..).zip(&start).map(|(name, (_, size))| member(name, *size)).collect();
        let mut pool = Pool::new(members, start.iter().map(|(seat, _)| *seat).collect(), seed);
        for (at, seat, turn) in changes {
            if !start.is_empty() {
                pool.set(u32::try_from(at.index(start.len())).unwrap(), seat);
            }
            let task = Task { shuns: &shuns, runs_on: &runs_on, app_turn: turn, job_turn: turn >> 3, key: mix(turn), ..Task::of(turn % 5, weight) };
            for rule in rules() {
                let again = pool.clone().pick(&rule, &task, Mono(turn >> 30));
                let picked = pool.pick(&rule, &task, Mono(turn >> 30));
                prop_assert_eq!(picked, again, "what is picked follows from what went before");
                if let Ok(at) = picked {
                    prop_assert!(matches!(pool.seat(at), Seat::Able(_)) && !shuns.contains(&at), "{:?} takes {}", rule, at);
                }
                if let Some(expected) = scan(&pool, &rule, &task) {
                    prop_assert_eq!(picked.ok(), expected, "{:?}", rule);
                }
                let is_possible = (0..start.len()).any(|at| {
                    let at = u32::try_from(at).unwrap();
                    matches!(pool.seat(at), Seat::Able(_)) && !shuns.contains(&at) && !runs_on.contains(&at)
                });
                prop_assert!(picked.is_ok() || !is_possible, "{:?} finds nobody: {:?}", rule, picked);
            }
        }
    }

    #[test]
    fn a_bounded_member_carries_little_more_than_the_mean(
        weights in prop::collection::vec(1..50u64, 1..200),
        members in 1..12usize,
    ) {
        let mut pool = pool(&vec![(0, 1); members]);
        for (job, weight) in (0..).zip(&weights) {
            let task = Task { key: Hash::Xxh3.place(&format!("{job}")), ..Task::of(job, *weight) };
            let at = pool.pick(&BOUNDED, &task, Mono(0)).unwrap();
            reserve(&mut pool, at, *weight);
            let all: u64 = weights[..=usize::try_from(job).unwrap()].iter().sum();
            let Seat::Able(load) = pool.seat(at) else { panic!("it refuses") };
            // Before this task it was below 1.25 times the mean with it.
            prop_assert!(u128::from(load.weight - weight) * 100 * members as u128 <= u128::from(all) * 125);
        }
    }

    #[test]
    fn zones_differ_by_one_where_all_can_take_more(tasks in 1..60usize, members in 3..10usize) {
        let mut pool = pool(&vec![(0, 1); members]);
        let mut counts = [0_u32; 3];
        for turn in 0..tasks {
            let task = Task { spread: Some(&counts), job_turn: turn as u64, ..Task::of(1, 1) };
            let at = pool.pick(&Rule::Weight { choices: 0 }, &task, Mono(0)).unwrap();
            reserve(&mut pool, at, 1);
            counts[pool.member(at).zone as usize] += 1;
        }
        prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{:?}", counts);
    }
}
