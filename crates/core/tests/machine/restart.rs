//! What a new term finds.

use rota_core::batch::{AttemptState, RunState};
use rota_core::job::{Delivery, JobState, Retry, When};
use rota_core::partition::{Answer, Config, Input, Outcome, ProbeAnswer};
use rota_core::time::Mono;

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

/// Field case B053: no slot vanishes between the decision and its row.
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
    assert_eq!(rig.snapshot().waiting.len(), 1);
    rig.worker(1);
    assert_eq!(rig.take_send().run, run);
}

#[test]
fn a_deleted_jobs_waiting_shard_is_settled_once() {
    for is_killed in [false, true] {
        let mut rig = Rig::with(Config { send_credits: 1, ..Config::NATIVE });
        rig.worker(1);
        let mut spec = echo(When::Manual);
        spec.shards = 2;
        let job = rig.job("job", spec);
        rig.trigger(job);
        let send = rig.take_send();
        rig.silence(2_000);
        if is_killed {
            assert_eq!(rig.kill(send.run), Answer::Killing);
        }
        rig.set_state(job, JobState::Deleted);
        rig.restart(1_000);
        assert_eq!(rig.machine.pending(), 0);
        rig.report(&send, Outcome::Success);
        let state = if is_killed { RunState::Killed } else { RunState::Discarded };
        assert_eq!(rig.run(send.run).state, state);
        assert!(rig.sends.is_empty());
    }
}

#[test]
fn a_run_that_waited_is_not_pending_after_a_restart() {
    let mut rig = Rig::new();
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let worker = rig.worker(1);
    let send = rig.take_send();
    rig.restart(100);
    rig.pass_beating(10_000, worker, &[send.attempt]);
    assert_eq!(rig.run(send.run).state, RunState::Running);
}

#[test]
fn a_time_out_is_not_prolonged_by_a_restart() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.timeout.attempt_ms = Some(60_000);
    let job = rig.job("job", spec);
    rig.trigger(job);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.pass_beating(50_000, worker, &[send.attempt]);
    rig.now.mono = Mono(0); // another process: its clock starts anew
    rig.restart(1_000);
    rig.pass_beating(8_000, worker, &[send.attempt]);
    assert!(rig.cancels.is_empty());
    rig.pass_beating(2_000, worker, &[send.attempt]);
    assert_eq!(rig.cancels.len(), 1);
}

#[test]
fn a_shard_that_timed_out_at_most_once_is_not_decided_anew() {
    for is_late_result in [false, true] {
        let mut rig = Rig::new();
        let worker = rig.worker(1);
        let mut spec = echo(When::Manual);
        (spec.shards, spec.delivery) = (2, Some(Delivery::AtMostOnce));
        spec.retry = Retry { max: 1, delay_ms: 1_000, ..Retry::default() };
        spec.timeout.attempt_ms = Some(20_000);
        let job = rig.job("job", spec);
        rig.trigger(job);
        let sends = std::mem::take(&mut rig.sends);
        let both: Vec<_> = sends.iter().map(|send| send.attempt).collect();
        rig.accept(both[0]);
        rig.pass_beating(35_000, worker, &both);
        assert_eq!(rig.attempts(sends[0].run)[0].state, AttemptState::Timeout);
        if is_late_result {
            rig.report(&sends[0], Outcome::Success);
        } else {
            rig.beat(worker, 5_000, &both[1..]);
        }
        assert!(rig.attempts(sends[0].run)[0].released_at.is_some());
        rig.pass_beating(3_000, worker, &both[1..]);
        assert!(rig.sends.is_empty());
        rig.restart(1_000);
        rig.pass_beating(5_000, worker, &both[1..]);
        assert!(rig.sends.iter().all(|send| send.shard != 0), "shard 0 was settled: {:?}", rig.sends);
        let attempts = rig.attempts(sends[0].run);
        assert_eq!(attempts.iter().filter(|attempt| attempt.shard == 0).count(), 1);
    }
}
