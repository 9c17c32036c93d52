//! Doubt, retries, time-outs, loss and release.

use rota_core::batch::{AttemptState, RunState};
use rota_core::id::{Incarnation, RunId};
use rota_core::job::{Delivery, Retry, Spec, Strategy, Target, When};
use rota_core::partition::{Answer, CancelAnswer, Config, Dispatch, Holder, Input, Outcome, ProbeAnswer, SendOutcome};
use rota_core::why::Why;

use super::rig::{Rig, echo, results, story};

fn triggered(rig: &mut Rig, spec: Spec) -> Dispatch {
    let job = rig.job("job", spec);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    rig.take_send()
}

fn retried(retries: u32) -> Spec {
    let mut spec = echo(When::Manual);
    spec.retry = Retry { max: retries, delay_ms: 3_000, ..Retry::default() };
    spec
}

fn states(rig: &Rig, run: RunId) -> Vec<String> {
    let word = |why: Option<Why>| why.map_or(String::new(), |why| format!("/{why}"));
    rig.attempts(run).iter().map(|a| format!("{}{}", a.state.word(), word(a.why))).collect()
}

/// Field case B101: an address that is stale costs no run.
#[test]
fn a_failed_connect_moves_the_shard_to_another_worker_at_once() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.worker(2);
    let first = triggered(&mut rig, echo(When::Manual));
    rig.step(Input::Sent { attempt: first.attempt, outcome: SendOutcome::NotStarted(Why::ConnectFailed) });
    let second = rig.take_send();
    assert_ne!(first.worker.unwrap().id, second.worker.clone().unwrap().id);
    assert_eq!((second.no, second.run), (2, first.run));
    assert_eq!(states(&rig, first.run), ["not_started/connect_failed", "dispatched"]);
}

#[test]
fn what_cannot_be_sent_fails_without_a_word_against_the_worker() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let send = triggered(&mut rig, retried(1));
    let missing = SendOutcome::Unsendable(Why::SecretUnknown, "secret A is not set".into());
    rig.step(Input::Sent { attempt: send.attempt, outcome: missing.clone() });
    assert_eq!(states(&rig, send.run), ["failed/secret_unknown"]);
    assert_eq!(rig.attempts(send.run)[0].message.as_deref(), Some("secret A is not set"));
    assert_eq!(rig.snapshot().workers[0].load, 0);
    // It is a failure like any other: retried after the delay, and counted; the same worker gets it.
    assert!(rig.sends.is_empty());
    rig.pass_beating(3_000, worker, &[]);
    let again = rig.take_send();
    rig.step(Input::Sent { attempt: again.attempt, outcome: missing });
    let run = rig.run(send.run);
    assert_eq!((run.state, run.why), (RunState::Failed, Some(Why::SecretUnknown)));
}

#[test]
fn a_doubt_is_probed_and_never_seen_is_proof() {
    let mut rig = Rig::new();
    rig.worker(1);
    let send = triggered(&mut rig, echo(When::Manual));
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
    assert_eq!(rig.probes.len(), 1);
    assert_eq!(rig.snapshot().in_doubt, 1);
    rig.step(Input::Probed { attempt: send.attempt, answer: ProbeAnswer::Silent });
    rig.silence(2_000);
    assert_eq!(rig.probes.len(), 2);
    rig.step(Input::Probed { attempt: send.attempt, answer: ProbeAnswer::NeverSeen });
    assert_eq!(rig.take_send().no, 2);
    assert_eq!(states(&rig, send.run), ["not_started/never_seen", "dispatched"]);
}

#[test]
fn an_unresolved_doubt_means_what_the_delivery_says() {
    for (delivery, expected) in [(Delivery::AtLeastOnce, RunState::Pending), (Delivery::AtMostOnce, RunState::Lost)] {
        let mut rig = Rig::new();
        let worker = rig.worker(1);
        let mut spec = retried(5);
        spec.delivery = Some(delivery);
        let send = triggered(&mut rig, spec);
        rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
        rig.pass_beating(61_000, worker, &[]);
        let is_resent = !rig.sends.is_empty();
        assert_eq!(is_resent, delivery == Delivery::AtLeastOnce);
        assert_eq!(states(&rig, send.run)[0], "lost/in_doubt");
        assert_eq!(rig.run(send.run).state == RunState::Lost, expected == RunState::Lost);
        // Its code may still run: it keeps its place until something is proven.
        assert_eq!(rig.snapshot().workers[0].load, 1 + u32::from(is_resent));
        rig.pass_beating(600_000, worker, &rig.sends.iter().map(|s| s.attempt).collect::<Vec<_>>());
        assert_eq!(rig.snapshot().workers[0].load, u32::from(is_resent));
    }
}

#[test]
fn failures_are_retried_after_the_delay_and_counted() {
    let mut rig = Rig::new();
    rig.worker(1);
    let first = triggered(&mut rig, retried(1));
    rig.accept(first.attempt);
    rig.report(&first, Outcome::Failed(Why::HandlerFailed));
    rig.pass(2_000);
    assert!(rig.sends.is_empty());
    rig.restart(1_000);
    let second = rig.take_send();
    rig.accept(second.attempt);
    rig.report(&second, Outcome::Failed(Why::HandlerFailed));
    rig.pass(10_000);
    assert!(rig.sends.is_empty());
    assert_eq!(states(&rig, first.run), ["failed/handler_failed", "failed/handler_failed"]);
    assert_eq!(story(&rig.runs())[0].split(' ').nth(1), Some("failed/handler_failed"));
}

#[test]
fn a_time_out_that_is_not_confirmed_ends_and_keeps_its_place() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.timeout.attempt_ms = Some(20_000);
    let send = triggered(&mut rig, spec);
    rig.accept(send.attempt);
    rig.pass_beating(20_000, worker, &[send.attempt]);
    assert_eq!(rig.cancels.len(), 1);
    assert_eq!(states(&rig, send.run), ["stopping/attempt_timeout"]);
    rig.step(Input::Cancelled { attempt: send.attempt, answer: CancelAnswer::Silent });
    rig.pass_beating(10_000, worker, &[send.attempt]);
    assert_eq!(rig.run(send.run).state, RunState::Timeout);
    assert_eq!(rig.snapshot().workers[0].load, 1);
    rig.beat(worker, 2_000, &[]);
    assert_eq!(rig.snapshot().workers[0].load, 0);
    assert!(rig.attempts(send.run)[0].released_at.is_some());
}

#[test]
fn a_silent_worker_loses_its_attempts_and_a_late_success_still_counts() {
    let mut rig = Rig::new();
    rig.worker(1);
    let send = triggered(&mut rig, retried(3));
    rig.accept(send.attempt);
    rig.silence(15_000);
    assert_eq!(states(&rig, send.run), ["lost/worker_silent"]);
    rig.report(&send, Outcome::Success);
    assert_eq!(rig.run(send.run).state, RunState::Success);
    assert_eq!(states(&rig, send.run), ["lost/late_success"]);
    rig.worker(2);
    rig.pass(10_000);
    assert!(rig.sends.is_empty());
}

#[test]
fn a_late_success_stops_its_successor() {
    let mut rig = Rig::new();
    rig.worker(1);
    let first = triggered(&mut rig, retried(3));
    rig.accept(first.attempt);
    rig.silence(15_000);
    rig.worker(2);
    rig.pass(3_000);
    let second = rig.take_send();
    rig.accept(second.attempt);
    rig.report(&first, Outcome::Success);
    assert_eq!(rig.cancels.len(), 1);
    assert!(!rig.run(first.run).state.is_terminal(), "terminal only after its last attempt is");
    rig.report(&second, Outcome::Killed);
    assert_eq!(rig.run(first.run).state, RunState::Success);
}

#[test]
fn absence_counts_only_in_beats_composed_after_the_acceptance() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let send = triggered(&mut rig, echo(When::Manual));
    rig.beat(worker, 6, &[]);
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::Accepted { next_beat: 8 } });
    rig.beat(worker, 7, &[]);
    assert_eq!(states(&rig, send.run), ["dispatched"]);
    rig.beat(worker, 8, &[]);
    assert_eq!(states(&rig, send.run), ["lost/vanished"]);
}

#[test]
fn another_incarnation_takes_over_only_from_one_that_is_gone() {
    let mut rig = Rig::new();
    rig.worker(1);
    let send = triggered(&mut rig, retried(1));
    rig.accept(send.attempt);
    let next = rig.registration(1, 2);
    assert_eq!(rig.register(next.clone(), Holder::Alive(Incarnation(1))), Answer::Refused(Why::WorkerIdTaken));
    assert_eq!(rig.register(next.clone(), Holder::Silent), Answer::Refused(Why::WorkerIdTaken));
    assert!(matches!(rig.register(next, Holder::Gone(Incarnation(1))), Answer::Registered(_)));
    assert_eq!(states(&rig, send.run), ["lost/worker_restarted"]);
    rig.pass(3_000);
    assert_eq!(rig.take_send().worker.unwrap().incarnation, Incarnation(2));
}

#[test]
fn a_worker_that_never_answers_holds_no_more_than_its_credits() {
    let mut rig = Rig::with(Config { send_credits: 4, ..Config::NATIVE });
    rig.worker(1);
    rig.worker(2);
    let mut spec = echo(When::Manual);
    spec.route.strategy = Strategy::AppRoundRobin;
    let job = rig.job("job", spec);
    let mut to_first = 0;
    for _ in 0..50 {
        assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
        for send in std::mem::take(&mut rig.sends) {
            if send.worker.as_ref().unwrap().name == "w1" {
                to_first += 1;
            } else {
                rig.accept(send.attempt);
                rig.report(&send, Outcome::Success);
            }
        }
    }
    assert_eq!(to_first, 4);
    let done = rig.runs().iter().filter(|run| run.state == RunState::Success).count();
    assert_eq!(done, 46);
}

#[test]
fn shards_run_side_by_side_and_a_run_fails_if_one_does() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.worker(2);
    let mut spec = echo(When::Manual);
    spec.shards = 3;
    let job = rig.job("job", spec);
    rig.trigger(job);
    let sends = std::mem::take(&mut rig.sends);
    assert_eq!(sends.iter().map(|s| (s.shard, s.shards)).collect::<Vec<_>>(), [(0, 3), (1, 3), (2, 3)]);
    for send in &sends {
        rig.accept(send.attempt);
        let outcome = if send.shard == 1 { Outcome::Failed(Why::HandlerFailed) } else { Outcome::Success };
        rig.report(send, outcome);
    }
    let run = rig.run(sends[0].run);
    assert_eq!((run.state, run.why), (RunState::Failed, Some(Why::HandlerFailed)));
}

#[test]
fn a_url_job_needs_no_worker_and_its_answer_is_its_result() {
    let mut rig = Rig::new();
    let send = triggered(&mut rig, url("POST"));
    assert!(send.worker.is_none());
    let outcome = SendOutcome::Finished(Outcome::Success, Some("pong".into()));
    rig.step(Input::Sent { attempt: send.attempt, outcome });
    let attempt = &rig.attempts(send.run)[0];
    assert_eq!((attempt.state, attempt.message.as_deref()), (AttemptState::Success, Some("pong")));
}

#[test]
fn a_late_success_stops_a_successor_that_is_not_durable_yet() {
    for is_restarted in [false, true] {
        let mut rig = Rig::new();
        let worker = rig.worker(1);
        let mut spec = retried(3);
        spec.retry.delay_ms = 0;
        let first = triggered(&mut rig, spec);
        rig.accept(first.attempt);
        rig.holds_commits = true;
        let reply = rig.reply();
        if is_restarted {
            let registration = Box::new(rig.registration(1, 2));
            let holder = Holder::Gone(Incarnation(1));
            rig.step(Input::Register { registration, is_reachable: true, holder, reply });
        } else {
            let beat = Box::new(rig.beat_of(worker, Incarnation(1), 5, &[]));
            rig.step(Input::Beat { beat, reply });
        }
        let reply = rig.reply();
        rig.step(results(&first, Outcome::Success, None, reply));
        rig.release_commits();
        assert!(rig.sends.is_empty());
        assert_eq!(states(&rig, first.run), ["lost/late_success", "killed/superseded"]);
        assert_eq!(rig.run(first.run).state, RunState::Success);
    }
}

/// Field case B076: a late result is kept and counted, and changes no end.
#[test]
fn a_late_failure_is_kept_on_its_attempt() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let send = triggered(&mut rig, retried(3));
    rig.accept(send.attempt);
    rig.beat(worker, 5, &[]);
    assert_eq!(states(&rig, send.run), ["lost/vanished"]);
    rig.report_with(&send, Outcome::Failed(Why::HandlerFailed), Some("boom"));
    assert_eq!(states(&rig, send.run), ["lost/vanished"]);
    assert_eq!(rig.attempts(send.run)[0].message.as_deref(), Some("boom"));
    assert_eq!(rig.snapshot().late_results, 1);
}

#[test]
fn a_doubt_is_dispatched_again_whatever_the_start_deadline() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.timeout.start_ms = Some(30_000);
    let send = triggered(&mut rig, spec);
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
    rig.pass_beating(51_000, worker, &[]);
    rig.answer(|reply| Input::Drain { worker, incarnation: Incarnation(1), reply });
    rig.silence(15_000);
    rig.worker(2);
    assert_eq!(rig.sends.len(), 1, "{:?} {:?}", rig.run(send.run).state, rig.run(send.run).why);
}

#[test]
fn a_run_that_waited_is_not_pending_once_it_runs() {
    let mut rig = Rig::new();
    let job = rig.job("job", echo(When::Manual));
    let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
    rig.silence(2_000);
    assert_eq!(rig.run(run).state, RunState::Pending);
    rig.worker(1);
    let send = rig.take_send();
    assert_eq!(rig.run(run).state, RunState::Dispatched);
    rig.accept(send.attempt);
    assert_eq!(rig.run(run).state, RunState::Running);
}

#[test]
fn a_time_out_is_forgotten_with_its_attempt() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.timeout.attempt_ms = Some(3_600_000);
    let job = rig.job("job", spec);
    for _ in 0..3 {
        rig.trigger(job);
        let send = rig.take_send();
        rig.accept(send.attempt);
        assert_eq!(rig.mentions("AttemptTimeout("), 1);
        rig.report(&send, Outcome::Success);
        assert_eq!(rig.mentions("AttemptTimeout("), 0);
    }
}

#[test]
fn a_kill_of_a_doubt_is_confirmed_by_absence() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let send = triggered(&mut rig, echo(When::Manual));
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
    assert_eq!(rig.kill(send.run), Answer::Killing);
    rig.step(Input::Cancelled { attempt: send.attempt, answer: CancelAnswer::Stopping { next_beat: 9 } });
    rig.beat(worker, 8, &[]);
    assert_eq!(states(&rig, send.run), ["stopping/killed_by_user"]);
    rig.beat(worker, 9, &[]);
    assert_eq!(states(&rig, send.run), ["killed/killed_by_user"]);
    assert_eq!(rig.run(send.run).state, RunState::Killed);
    assert_eq!(rig.snapshot().workers[0].load, 0);
}

fn url(method: &str) -> Spec {
    let target = Target::Url {
        method: method.into(),
        url: "https://partner.example/ping".into(),
        headers: std::collections::BTreeMap::new(),
        body: String::new(),
    };
    Spec::new(When::Manual, target)
}

#[test]
fn a_url_call_that_was_not_sent_in_time_is_made_again() {
    let mut rig = Rig::new();
    let first = triggered(&mut rig, url("POST"));
    let outcome = SendOutcome::NotStarted(Why::SendDeadline);
    rig.step(Input::Sent { attempt: first.attempt, outcome });
    let second = rig.take_send();
    assert_eq!(states(&rig, first.run), ["not_started/send_deadline", "dispatched"]);
    let outcome = SendOutcome::NotStarted(Why::ConnectFailed);
    rig.step(Input::Sent { attempt: second.attempt, outcome });
    assert_eq!(rig.run(first.run).state, RunState::Failed, "a host has no other candidate");
}

#[test]
fn a_url_call_in_doubt_is_repeated_at_growing_distances_until_it_times_out() {
    let mut rig = Rig::new();
    let mut spec = url("GET");
    spec.timeout.attempt_ms = Some(20_000);
    let first = triggered(&mut rig, spec);
    let mut send = first.clone();
    for wait_ms in [1_000, 2_000, 4_000] {
        rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
        rig.silence(wait_ms - 1);
        assert!(rig.sends.is_empty(), "not within {wait_ms} ms");
        rig.silence(1);
        send = rig.take_send();
    }
    rig.silence(20_000);
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
    assert_eq!(states(&rig, first.run)[2..], ["lost/in_doubt", "timeout/attempt_timeout"]);
    assert_eq!(rig.run(first.run).state, RunState::Timeout);
}

#[test]
fn a_url_call_in_doubt_is_not_repeated_at_most_once() {
    let mut rig = Rig::new();
    let send = triggered(&mut rig, url("POST"));
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
    rig.silence(60_000);
    assert!(rig.sends.is_empty());
    assert_eq!(rig.run(send.run).state, RunState::Lost);
}

#[test]
fn what_a_beat_has_listed_was_started_whatever_a_late_answer_says() {
    for finished in [false, true] {
        let mut rig = Rig::new();
        let worker = rig.worker(1);
        let send = triggered(&mut rig, retried(1));
        let mut beat = rig.beat_of(worker, Incarnation(1), 1, &[]);
        let listed = if finished { &mut beat.finished } else { &mut beat.running };
        listed.push(send.attempt);
        rig.answer(|reply| Input::Beat { beat: Box::new(beat), reply });
        // A copy of the call came late, to whoever has the address now.
        let outcome = SendOutcome::NotStarted(Why::RefusedForeignIncarnation);
        rig.step(Input::Sent { attempt: send.attempt, outcome });
        assert_eq!(states(&rig, send.run), ["dispatched"], "finished: {finished}");
        assert_eq!(rig.snapshot().attempts[0].state, AttemptState::Running);
        assert_eq!(rig.snapshot().workers[0].load, 1);
    }
}
