//! What a new term finds.

use rota_core::batch::{AttemptState, RunState};
use rota_core::job::When;
use rota_core::partition::{Answer, Input, Outcome, ProbeAnswer};

use super::rig::{Rig, echo, story};

#[test]
fn an_open_attempt_is_in_doubt_after_a_restart_and_its_worker_says_what_it_is() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.restart(5_000);
    assert_eq!((rig.probes.len(), rig.snapshot().in_doubt, rig.snapshot().workers[0].load), (1, 1, 1));
    rig.step(Input::Probed { attempt: send.attempt, answer: ProbeAnswer::Running { next_beat: 9 } });
    assert_eq!(rig.snapshot().in_doubt, 0);
    rig.beat(worker, 8, &[]);
    rig.report(&send, Outcome::Success);
    assert_eq!(rig.run(send.run).state, RunState::Success);
    assert!(rig.sends.is_empty(), "it was never sent again");
}

#[test]
fn a_beat_resolves_a_doubt() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let send = rig.take_send();
    rig.restart(500);
    rig.beat(worker, 3, &[send.attempt]);
    assert_eq!(rig.snapshot().in_doubt, 0);
    assert_eq!(rig.snapshot().attempts[0].state, AttemptState::Running);
}

#[test]
fn nobody_is_lost_at_once_after_a_long_absence() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.restart(3_600_000);
    rig.pass(10_000);
    assert_eq!(rig.attempts(send.run)[0].state, AttemptState::Dispatched);
    rig.beat(worker, 700, &[send.attempt]);
    rig.report(&send, Outcome::Success);
    assert_eq!(rig.run(send.run).state, RunState::Success);
}

#[test]
fn what_was_not_durable_fires_again_and_what_was_does_not() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(10_000);
    rig.take_send();
    rig.holds_commits = true;
    rig.pass(10_000);
    assert!(!rig.held.is_empty());
    rig.holds_commits = false;
    rig.restart(1_000);
    assert_eq!(story(&rig.runs()), ["10 dispatched", "20 dispatched"]);
    let slots: Vec<i64> = rig.sends.iter().map(|send| (send.slot.0 - super::rig::START) / 1_000).collect();
    assert_eq!(slots, [20]);
}

#[test]
fn a_waiting_shard_waits_on_after_a_restart() {
    let mut rig = Rig::new();
    let job = rig.job("job", echo(When::Manual));
    let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
    assert_eq!(rig.run(run).state, RunState::Pending);
    rig.restart(1_000);
    assert_eq!(rig.machine.pending(), 1);
    rig.worker(1);
    assert_eq!(rig.take_send().run, run);
}
