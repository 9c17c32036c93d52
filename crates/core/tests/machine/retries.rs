//! Retries by outcome and pause, and the deadline of a whole run.

use rota_core::batch::RunState;
use rota_core::id::RunId;
use rota_core::job::{Delivery, Retry, Spec, When};
use rota_core::partition::{Answer, Dispatch, Input, Outcome, ProbeAnswer, SendOutcome};
use rota_core::retry::{self, Backoff};
use rota_core::why::Why;

use super::rig::{Rig, echo};

fn with_retry(retry: Retry) -> Spec {
    let mut spec = echo(When::Manual);
    spec.retry = retry;
    spec
}

fn triggered(rig: &mut Rig, spec: Spec) -> Dispatch {
    let job = rig.job("job", spec);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    rig.take_send()
}

fn fail(rig: &mut Rig, send: &Dispatch) {
    rig.accept(send.attempt);
    rig.report(send, Outcome::Failed(Why::HandlerFailed));
}

fn end(rig: &Rig, run: RunId) -> (RunState, Option<Why>) {
    let run = rig.run(run);
    (run.state, run.why)
}

/// Milliseconds until the next send, looked for every 100 ms for at most a minute.
fn wait_for_send(rig: &mut Rig) -> Option<(u64, Dispatch)> {
    for step in 0..600 {
        if !rig.sends.is_empty() {
            return Some((step * 100, rig.take_send()));
        }
        rig.silence(100);
    }
    None
}

#[test]
fn exponential_pauses_double_up_to_their_cap() {
    let mut rig = Rig::new();
    rig.worker(1);
    let retry =
        Retry { max: 4, delay_ms: 1_000, backoff: Backoff::Exponential, cap_ms: Some(3_000), ..Retry::default() };
    let mut send = triggered(&mut rig, with_retry(retry));
    let mut pauses = Vec::new();
    for _ in 0..4 {
        fail(&mut rig, &send);
        let (pause, next) = wait_for_send(&mut rig).unwrap();
        pauses.push(pause);
        send = next;
    }
    assert_eq!(pauses, [1_000, 2_000, 3_000, 3_000]);
    fail(&mut rig, &send);
    assert_eq!(end(&rig, send.run), (RunState::Failed, Some(Why::HandlerFailed)));
}

#[test]
fn a_restart_waits_as_long_as_was_decided_before() {
    let retry = Retry { max: 3, delay_ms: 3_000, backoff: Backoff::Exponential, jitter: true, ..Retry::default() };
    let pause_of = |crashes: bool| {
        let mut rig = Rig::new();
        rig.worker(1);
        let first = triggered(&mut rig, with_retry(retry));
        fail(&mut rig, &first);
        let (_, second) = wait_for_send(&mut rig).unwrap();
        fail(&mut rig, &second);
        if crashes {
            rig.restart(500);
        } else {
            rig.silence(500);
        }
        let (pause, third) = wait_for_send(&mut rig).unwrap();
        assert_eq!(third.no, 3);
        pause
    };
    let pause = pause_of(false);
    assert!((2_500..=5_500).contains(&pause), "{pause}");
    assert_eq!(pause_of(true), pause);
}

#[test]
fn only_the_ends_that_are_named_are_tried_again() {
    let only_lost = retry::When { failed: false, timeout: false, lost: true };
    let mut rig = Rig::new();
    rig.worker(1);
    let send = triggered(&mut rig, with_retry(Retry { max: 2, when: only_lost, ..Retry::default() }));
    fail(&mut rig, &send);
    assert_eq!(end(&rig, send.run), (RunState::Failed, Some(Why::HandlerFailed)));

    let mut rig = Rig::new();
    rig.worker(1);
    let send = triggered(&mut rig, with_retry(Retry { max: 2, when: only_lost, ..Retry::default() }));
    rig.accept(send.attempt);
    rig.silence(15_000); // its worker is lost
    rig.worker(2);
    assert_eq!(rig.take_send().no, 2);
}

#[test]
fn a_run_that_takes_too_long_in_all_is_stopped_and_not_tried_again() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = with_retry(Retry { max: 9, delay_ms: 1_000, ..Retry::default() });
    (spec.shards, spec.timeout.run_ms) = (2, Some(20_000));
    let job = rig.job("job", spec);
    rig.trigger(job);
    let sends = std::mem::take(&mut rig.sends);
    rig.accept(sends[0].attempt);
    rig.accept(sends[1].attempt);
    rig.pass_beating(19_500, worker, &[sends[0].attempt, sends[1].attempt]);
    assert!(rig.cancels.is_empty());
    rig.report(&sends[1], Outcome::Failed(Why::HandlerFailed)); // its retry is due after the run's deadline
    rig.pass_beating(1_000, worker, &[sends[0].attempt]);
    assert_eq!(rig.cancels.iter().map(|cancel| cancel.shard).collect::<Vec<_>>(), [0]);
    assert_eq!(rig.run(sends[0].run).state, RunState::Running);
    rig.report(&sends[0], Outcome::Killed);
    assert_eq!(end(&rig, sends[0].run), (RunState::Timeout, Some(Why::RunTimeout)));
    rig.pass(10_000);
    assert!(rig.sends.is_empty());
    assert_eq!(rig.mentions("RunDeadline("), 0);
}

#[test]
fn a_success_within_the_grace_of_an_overdue_run_counts() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.timeout.run_ms = Some(10_000);
    let send = triggered(&mut rig, spec);
    rig.accept(send.attempt);
    rig.pass_beating(10_000, worker, &[send.attempt]);
    assert_eq!(rig.cancels.len(), 1);
    rig.report(&send, Outcome::Success);
    assert_eq!(end(&rig, send.run), (RunState::Success, None));
}

#[test]
fn an_overdue_run_is_not_prolonged_by_a_restart() {
    for delivery in [Delivery::AtLeastOnce, Delivery::AtMostOnce] {
        let mut rig = Rig::new();
        let worker = rig.worker(1);
        let mut spec = with_retry(Retry { max: 5, ..Retry::default() });
        (spec.timeout.run_ms, spec.delivery) = (Some(30_000), Some(delivery));
        let send = triggered(&mut rig, spec);
        rig.accept(send.attempt);
        rig.pass_beating(25_000, worker, &[send.attempt]);
        rig.restart(10_000);
        rig.pass_beating(1_000, worker, &[send.attempt]);
        assert_eq!(rig.cancels.len(), 1, "{delivery:?}");
        rig.pass_beating(20_000, worker, &[send.attempt]);
        assert_eq!(end(&rig, send.run), (RunState::Timeout, Some(Why::RunTimeout)), "{delivery:?}");
    }
}

#[test]
fn a_run_that_waits_for_a_worker_ends_with_its_deadline() {
    let mut rig = Rig::new();
    let mut spec = echo(When::Manual);
    spec.timeout.run_ms = Some(5_000);
    let job = rig.job("job", spec);
    let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
    rig.silence(6_000);
    assert_eq!(end(&rig, run), (RunState::Timeout, Some(Why::RunTimeout)));
}

#[test]
fn what_no_worker_would_start_ends_as_dispatch_failed() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.timeout.start_ms = Some(5_000);
    let send = triggered(&mut rig, spec);
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::NotStarted(Why::ConnectFailed) });
    for _ in 0..60 {
        rig.silence(100);
        for send in std::mem::take(&mut rig.sends) {
            rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::NotStarted(Why::ConnectFailed) });
        }
    }
    assert_eq!(end(&rig, send.run), (RunState::Failed, Some(Why::DispatchFailed)));
}

#[test]
fn an_overdue_doubt_is_asked_about_until_its_place_is_free() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.timeout.run_ms = Some(5_000);
    let send = triggered(&mut rig, spec);
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
    rig.pass_beating(16_000, worker, &[]);
    assert_eq!(end(&rig, send.run), (RunState::Timeout, Some(Why::RunTimeout)));
    assert_eq!(rig.snapshot().workers[0].load, 1);
    rig.probes.clear();
    rig.pass_beating(15_000, worker, &[]);
    assert!(!rig.probes.is_empty());
    rig.step(Input::Probed { attempt: send.attempt, answer: ProbeAnswer::NeverSeen });
    assert_eq!(rig.snapshot().workers[0].load, 0);
}
