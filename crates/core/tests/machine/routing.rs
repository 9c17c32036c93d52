//! Strategies in the machine: whom each chooses, the heavy first, and loads that a restart finds again.

use rota_core::id::AttemptId;
use rota_core::job::{Spec, Strategy, When};
use rota_core::partition::{Answer, Outcome};
use rota_core::route::Options;

use crate::rig::{Rig, echo};

const CORE: u64 = 1_000_000;

fn routed(schedule: When, strategy: Strategy, options: Options) -> Spec {
    let mut spec = echo(schedule);
    spec.route.strategy = strategy;
    spec.route.options = options;
    spec
}

fn weighing(weight: u64) -> Options {
    Options { weight: Some(weight), ..Options::default() }
}

/// Whom a job's runs go to, one after the other, none of them ending.
fn check(strategy: Strategy, options: Options, expected: &[&str]) {
    let mut rig = Rig::new();
    for id in 1..=3 {
        rig.worker(id);
    }
    let job = rig.job("job", routed(When::Manual, strategy, options));
    let chosen: Vec<String> = (0..expected.len())
        .map(|_| {
            assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
            let send = rig.take_send();
            rig.accept(send.attempt);
            send.worker.unwrap().name.clone()
        })
        .collect();
    assert_eq!(chosen, expected, "{strategy:?}");
}

#[test]
fn each_strategy_chooses_as_it_says() {
    let usual = Options::default;
    check(Strategy::First, usual(), &["w1", "w1", "w1"]);
    check(Strategy::Failover, usual(), &["w1", "w1"]);
    check(Strategy::Last, usual(), &["w3", "w3", "w3"]);
    check(Strategy::AppRoundRobin, usual(), &["w1", "w2", "w3", "w1"]);
    check(Strategy::Default, usual(), &["w1", "w2", "w3", "w1"]);
    let by_job = Options { by_job: Some(true), ..usual() };
    for (strategy, options) in [
        (Strategy::TaskRoundRobin, usual()),
        (Strategy::Lru, usual()),
        (Strategy::Lru, by_job.clone()),
        (Strategy::Lfu, usual()),
        (Strategy::Lfu, by_job),
    ] {
        let mut rig = Rig::new();
        rig.workers(3);
        let job = rig.job("job", routed(When::Manual, strategy, options));
        let names: Vec<String> = (0..6)
            .map(|_| {
                rig.trigger(job);
                rig.take_send().worker.unwrap().name.clone()
            })
            .collect();
        assert_eq!(names[..3], names[3..], "{strategy:?} goes round");
        let mut first: Vec<&String> = names[..3].iter().collect();
        first.sort();
        first.dedup();
        assert_eq!(first.len(), 3, "{strategy:?} takes each once: {names:?}");
    }
}

#[test]
fn a_job_stays_at_its_place_on_the_ring_while_others_come_and_go() {
    let mut rig = Rig::new();
    rig.workers(4);
    let options = Options { as_xxl: Some(true), ..Options::default() };
    let job = rig.job("job", routed(When::Manual, Strategy::ConsistentHash, options));
    let whom = |rig: &mut Rig| {
        rig.trigger(job);
        let send = rig.take_send();
        rig.accept(send.attempt);
        send.worker.unwrap().name.clone()
    };
    let first = whom(&mut rig);
    assert_eq!(whom(&mut rig), first);
    rig.worker(5);
    let after = whom(&mut rig);
    assert!(after == first || after == "w5", "it moved from {first} to {after}");
}

#[test]
fn of_what_is_due_together_the_heavy_is_placed_first() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.worker(2);
    // By their ids the light ones came first, and left no empty worker for the heavy ones.
    for (n, weight) in [1, 1, 4, 4, 2, 2].into_iter().enumerate() {
        let when = When::EveryMs(10_000);
        rig.job(&format!("job-{n}"), routed(when, Strategy::TaskWeight, weighing(weight * CORE)));
    }
    rig.pass(10_000);
    let first = rig.sends.iter().map(|send| send.job).min().unwrap().0;
    let order: Vec<(u32, &str)> =
        rig.sends.iter().map(|send| (send.job.0 - first, send.worker.as_ref().unwrap().name.as_str())).collect();
    assert_eq!(order.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [2, 3, 4, 5, 0, 1]);
    for pair in order.chunks(2) {
        assert_ne!(pair[0].1, pair[1].1, "equals lie apart: {order:?}");
    }
    assert_eq!(weights(&rig), [7 * CORE, 7 * CORE]);
}

fn weights(rig: &Rig) -> Vec<u64> {
    rig.snapshot().workers.iter().map(|worker| worker.weight).collect()
}

#[test]
fn loads_are_the_same_after_a_restart_and_go_with_their_attempts() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.worker(2);
    let heavy = rig.job("heavy", routed(When::Manual, Strategy::TaskWeight, weighing(3 * CORE)));
    let light = rig.job("light", routed(When::Manual, Strategy::TaskWeight, weighing(CORE)));
    for job in [heavy, light, light, light] {
        rig.trigger(job);
    }
    let sends = std::mem::take(&mut rig.sends);
    for send in &sends {
        rig.accept(send.attempt);
    }
    assert_eq!(weights(&rig), [3 * CORE, 3 * CORE]);
    let edited = routed(When::Manual, Strategy::TaskWeight, weighing(9 * CORE));
    let answer = rig.edit(heavy, 1, edited);
    assert!(!matches!(answer, Answer::Refused(_)), "{answer:?}");
    rig.restart(1_000);
    assert_eq!(weights(&rig), [3 * CORE, 3 * CORE], "a run weighs what its version said");
    let running: Vec<AttemptId> = sends.iter().map(|send| send.attempt).collect();
    assert_eq!(running.len(), 4);
    rig.report(&sends[0], Outcome::Success);
    assert_eq!(weights(&rig).iter().sum::<u64>(), 3 * CORE);
}
