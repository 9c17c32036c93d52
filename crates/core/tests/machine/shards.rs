//! Shards: broadcasts, how many must succeed, what becomes of the lost, kills of one of them, retries elsewhere.

use rota_core::batch::{AttemptState, RunState};
use rota_core::id::{RunId, WorkerId};
use rota_core::job::{Delivery, JobState, Retry, Spec, When};
use rota_core::limits;
use rota_core::partition::{Answer, Dispatch, Holder, Input, Outcome, ProbeAnswer, SendOutcome};
use rota_core::shards::{OnLoss, Success};
use rota_core::why::Why;
use rota_core::worker::WorkerState;

use super::rig::{Rig, echo, story};

fn split(shards: u32) -> Spec {
    Spec { shards, ..echo(When::Manual) }
}

fn broadcast() -> Spec {
    let mut spec = echo(When::Manual);
    spec.sharding.rules.is_broadcast = true;
    spec
}

fn triggered(rig: &mut Rig, spec: Spec) -> RunId {
    let job = rig.job("job", spec);
    let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
    run
}

fn end(rig: &Rig, run: RunId) -> (RunState, Option<Why>) {
    let run = rig.run(run);
    (run.state, run.why)
}

/// What was sent, as (shard, worker), in the order of shards.
fn sent(rig: &Rig) -> Vec<(u32, u32)> {
    let mut sent: Vec<(u32, u32)> =
        rig.sends.iter().map(|send| (send.shard, send.worker.as_ref().unwrap().id.0)).collect();
    sent.sort_unstable();
    sent
}

/// Takes the sends, in the order of shards, all accepted.
fn accepted(rig: &mut Rig) -> Vec<Dispatch> {
    let mut sends = std::mem::take(&mut rig.sends);
    sends.sort_by_key(|send| send.shard);
    for send in &sends {
        rig.accept(send.attempt);
    }
    sends
}

fn kill_shard(rig: &mut Rig, run: RunId, shard: u32) -> Answer {
    rig.answer(|reply| Input::Kill { run, shard: Some(shard), reply })
}

fn deregister(rig: &mut Rig, id: u32) {
    let worker = rig.snapshot().workers.iter().find(|worker| worker.id.0 == id).unwrap().clone();
    rig.answer(|reply| Input::Deregister { worker: worker.id, incarnation: worker.incarnation, reply });
}

const FAILED: Outcome = Outcome::Failed(Why::HandlerFailed);

#[test]
fn a_broadcast_reaches_every_eligible_worker_and_nobody_else() {
    let mut rig = Rig::new();
    for id in 1..=4 {
        rig.worker(id);
    }
    let other = WorkerId(3);
    let incarnation = rig.snapshot().workers.iter().find(|worker| worker.id == other).unwrap().incarnation;
    rig.answer(|reply| Input::Drain { worker: other, incarnation, reply });
    let run = triggered(&mut rig, broadcast());
    assert_eq!(sent(&rig), [(0, 1), (1, 2), (2, 4)]);
    assert_eq!(rig.run(run).shards, 3);
    assert!(rig.sends.iter().all(|send| send.shards == 3));
    rig.worker(5);
    rig.do_all();
    assert_eq!(end(&rig, run), (RunState::Success, None));
    assert!(rig.sends.is_empty(), "the set is frozen");
}

#[test]
fn a_broadcast_without_a_worker_is_held_with_its_reason() {
    let mut rig = Rig::new();
    let mut spec = broadcast();
    spec.schedule = When::EveryMs(10_000);
    spec.route.labels = "disk=ssd".to_owned();
    let job = rig.job("tick", spec);
    rig.silence(10_000);
    assert_eq!(rig.snapshot().held[0].why, Why::NoWorker);
    assert_eq!(rig.trigger(job), Answer::Refused(Why::NoWorker));
    rig.worker(1);
    assert_eq!(rig.snapshot().held[0].why, Why::NoWorkerForLabels);
    assert_eq!(rig.runs(), []);
    let mut able = rig.registration(1, 1);
    able.labels = [("disk".to_owned(), "ssd".to_owned())].into();
    rig.register(able, Holder::None);
    assert_eq!(sent(&rig), [(0, 1)]);
    assert_eq!(story(&rig.runs()), ["10 dispatched"]);
}

#[test]
fn an_edit_owes_a_row_for_a_broadcast_that_reaches_nobody() {
    let mut rig = Rig::new();
    let mut spec = broadcast();
    spec.schedule = When::EveryMs(10_000);
    let job = rig.job("tick", spec.clone());
    rig.silence(10_000);
    assert!(matches!(rig.edit(job, 1, spec), Answer::Defined { .. }));
    assert_eq!(story(&rig.runs()), ["10 rejected/no_worker"]);
}

#[test]
fn a_shard_of_a_broadcast_waits_for_its_worker_and_stands_in_nobodys_way() {
    let mut rig = Rig::new();
    let mut small = rig.registration(1, 1);
    rig.worker(1);
    small.capacity = 1;
    rig.register(small, Holder::None);
    rig.worker(2);
    let job = rig.job("job", broadcast());
    rig.trigger(job);
    let first = accepted(&mut rig);
    let Answer::Triggered(second) = rig.trigger(job) else { panic!("it is triggered") };
    assert_eq!(sent(&rig), [(1, 2)]);
    let waiting = rig.snapshot().waiting[0];
    assert_eq!((waiting.shard, waiting.why, waiting.worker), (0, Why::NoCapacity, Some(WorkerId(1))));
    assert_eq!(rig.run(second).state, RunState::Pending);
    let plain = rig.job("plain", echo(When::Manual));
    rig.trigger(plain);
    assert_eq!(rig.sends.len(), 2, "others of the pool go on");
    rig.restart(500);
    assert_eq!(rig.snapshot().waiting[0].worker, Some(WorkerId(1)), "a restart knows whose it is");
    rig.report(&first[0], Outcome::Success);
    assert_eq!(sent(&rig), [(0, 1)]);
    assert_eq!(rig.snapshot().waiting, []);
}

#[test]
fn a_shard_whose_worker_has_gone_is_over_or_goes_elsewhere() {
    for (on_loss, crashes) in
        [(None, false), (None, true), (Some(OnLoss::Reassign), false), (Some(OnLoss::Reassign), true)]
    {
        let mut rig = Rig::new();
        rig.workers(2);
        let mut spec = broadcast();
        spec.sharding.rules.on_loss = on_loss;
        let run = triggered(&mut rig, spec);
        let sends = std::mem::take(&mut rig.sends);
        let (to_first, to_second) = (&sends[0], &sends[1]);
        rig.step(Input::Sent { attempt: to_first.attempt, outcome: SendOutcome::NotStarted(Why::ConnectFailed) });
        rig.accept(to_second.attempt);
        assert_eq!(rig.snapshot().waiting[0].worker, to_first.worker.as_ref().map(|worker| worker.id));
        rig.silence(2_000);
        rig.sends.clear();
        let gone = to_first.worker.as_ref().unwrap().id.0;
        deregister(&mut rig, gone);
        if crashes {
            rig.restart(500);
            // Its worker is back; what was decided of its shard stays decided.
            let again = rig.registration(gone, 7);
            rig.register(again, Holder::None);
            for probe in std::mem::take(&mut rig.probes).into_iter().filter(|probe| probe.shard == to_first.shard) {
                rig.step(Input::Probed { attempt: probe.attempt, answer: ProbeAnswer::NeverSeen });
            }
        }
        rig.report(to_second, Outcome::Success);
        match on_loss {
            None => assert_eq!(end(&rig, run), (RunState::Lost, Some(Why::TargetGone)), "crash {crashes}"),
            Some(_) => {
                rig.silence(3_000);
                rig.do_all();
                assert_eq!(end(&rig, run), (RunState::Success, None), "crash {crashes}");
            }
        }
    }
}

#[test]
fn a_broadcast_goes_to_a_worker_by_its_name_whatever_process_that_is() {
    let mut rig = Rig::new();
    rig.workers(2);
    let mut spec = broadcast();
    spec.retry = Retry { max: 1, ..Retry::default() };
    let run = triggered(&mut rig, spec);
    let sends = accepted(&mut rig);
    rig.replace_worker(1, 2);
    let again: Vec<_> = rig.sends.iter().map(|send| (send.shard, send.no, send.worker.as_ref().unwrap())).collect();
    assert_eq!((again[0].0, again[0].1), (0, 2));
    assert_eq!((again[0].2.id, again[0].2.incarnation.0), (WorkerId(1), 2));
    rig.do_all();
    rig.report(&sends[1], Outcome::Success);
    assert_eq!(end(&rig, run), (RunState::Success, None));
}

#[test]
fn a_run_is_a_success_with_as_many_shards_as_its_job_requires() {
    let cases = [
        (Success::All, 4, (RunState::Failed, Some(Why::HandlerFailed))),
        (Success::All, 5, (RunState::Success, None)),
        (Success::Count(3), 3, (RunState::Success, Some(Why::Partial))),
        (Success::Count(3), 2, (RunState::Failed, Some(Why::HandlerFailed))),
        (Success::Percent(60), 3, (RunState::Success, Some(Why::Partial))),
        (Success::Percent(61), 3, (RunState::Failed, Some(Why::HandlerFailed))),
        (Success::Percent(10), 5, (RunState::Success, None)),
        (Success::BestEffort, 1, (RunState::Success, Some(Why::Partial))),
        (Success::BestEffort, 0, (RunState::Failed, Some(Why::HandlerFailed))),
    ];
    for (success, good, expected) in cases {
        for crashes in [false, true] {
            let mut rig = Rig::new();
            rig.worker(1);
            let mut spec = split(5);
            spec.sharding.rules.success = success;
            let run = triggered(&mut rig, spec);
            let sends = accepted(&mut rig);
            for send in &sends {
                assert!(!rig.run(run).state.is_terminal(), "every shard runs to its end");
                let outcome = if (send.shard as usize) < good { Outcome::Success } else { FAILED };
                rig.report(send, outcome);
                if crashes && send.shard == 2 {
                    rig.restart(500);
                }
            }
            assert_eq!(end(&rig, run), expected, "{success:?}, {good} of 5, crash {crashes}");
        }
    }
}

#[test]
fn a_quorum_of_more_than_there_are_workers_is_never_reached() {
    let mut rig = Rig::new();
    rig.workers(2);
    let mut spec = broadcast();
    spec.sharding.rules.success = Success::Count(3);
    let run = triggered(&mut rig, spec);
    rig.do_all();
    assert_eq!(end(&rig, run), (RunState::Failed, Some(Why::QuorumMissed)));
}

/// Field case B098: the part of a dead worker is done by another, or the run is no success.
#[test]
fn a_lost_shard_is_made_anew_elsewhere_at_no_cost_or_is_over() {
    let lost = |on_loss, delivery| {
        let mut rig = Rig::new();
        rig.workers(2);
        let mut spec = split(2);
        spec.sharding.rules.on_loss = on_loss;
        spec.delivery = Some(delivery);
        spec.retry = Retry { max: 1, delay_ms: 60_000, ..Retry::default() };
        let run = triggered(&mut rig, spec);
        let sends = accepted(&mut rig);
        let dead = sends[0].worker.as_ref().unwrap().id.0;
        deregister(&mut rig, dead);
        rig.report(&sends[1], Outcome::Success);
        let again: Vec<(u32, u32)> = rig.sends.iter().map(|send| (send.shard, send.no)).collect();
        let state = rig.run(run).state;
        (again, state.is_terminal().then_some(state))
    };
    assert_eq!(lost(Some(OnLoss::Reassign), Delivery::AtLeastOnce), (vec![(0, 2)], None));
    assert_eq!(lost(Some(OnLoss::Reassign), Delivery::AtMostOnce), (vec![], Some(RunState::Lost)));
    assert_eq!(lost(Some(OnLoss::Fail), Delivery::AtLeastOnce), (vec![], Some(RunState::Lost)));
    assert_eq!(lost(None, Delivery::AtLeastOnce), (vec![], None), "it is in its retry's pause");
}

#[test]
fn a_shard_that_kills_its_workers_is_not_carried_on_for_ever() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = split(1);
    spec.sharding.rules.on_loss = Some(OnLoss::Reassign);
    spec.retry = Retry { max: 1, ..Retry::default() };
    let run = triggered(&mut rig, spec);
    for incarnation in 2.. {
        let send = rig.take_send();
        rig.accept(send.attempt);
        if incarnation == 5 {
            rig.restart(100); // the count goes on
            rig.step(Input::Probed { attempt: send.attempt, answer: ProbeAnswer::Running { next_beat: 9 } });
        }
        rig.replace_worker(1, incarnation);
        if rig.run(run).state.is_terminal() {
            break;
        }
    }
    assert_eq!(end(&rig, run), (RunState::Lost, Some(Why::WorkerRestarted)));
    assert_eq!(rig.attempts(run).len(), limits::REASSIGNED_MAX + 1);
}

#[test]
fn what_a_worker_stops_unasked_is_lost_with_it() {
    let mut rig = Rig::new();
    rig.workers(2);
    let mut spec = split(1);
    spec.sharding.rules.on_loss = Some(OnLoss::Reassign);
    let run = triggered(&mut rig, spec);
    let first = accepted(&mut rig).remove(0);
    rig.report(&first, Outcome::Killed);
    let attempts = rig.attempts(run);
    assert_eq!((attempts[0].state, attempts[0].why), (AttemptState::Lost, Some(Why::WorkerStopped)));
    rig.do_all();
    assert_eq!(end(&rig, run), (RunState::Success, None));
}

#[test]
fn one_shard_is_killed_and_the_others_go_on() {
    for crashes in [false, true] {
        let mut rig = Rig::new();
        rig.worker(1);
        let run = triggered(&mut rig, split(3));
        let sends = accepted(&mut rig);
        assert_eq!(kill_shard(&mut rig, run, 1), Answer::Killing);
        assert_eq!(rig.cancels.iter().map(|cancel| cancel.attempt).collect::<Vec<_>>(), [sends[1].attempt]);
        assert_eq!(rig.attempts(run)[1].state, AttemptState::Stopping);
        if crashes {
            rig.restart(500);
        }
        // It had finished before the cancel came: the kill is final nonetheless.
        rig.report(&sends[1], Outcome::Success);
        rig.report(&sends[0], Outcome::Success);
        rig.report(&sends[2], Outcome::Success);
        assert_eq!(end(&rig, run), (RunState::Killed, Some(Why::KilledByUser)), "crash {crashes}");
    }
}

#[test]
fn a_killed_shard_counts_as_one_that_did_not_succeed() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = split(3);
    spec.sharding.rules.success = Success::Count(2);
    let run = triggered(&mut rig, spec);
    let sends = accepted(&mut rig);
    assert_eq!(kill_shard(&mut rig, run, 0), Answer::Killing);
    rig.report(&sends[0], Outcome::Killed);
    rig.report(&sends[1], Outcome::Success);
    rig.report(&sends[2], Outcome::Success);
    assert_eq!(end(&rig, run), (RunState::Success, Some(Why::Partial)));
}

#[test]
fn a_shard_that_waits_is_killed_at_once_and_stays_so() {
    for crashes in [false, true] {
        let mut rig = Rig::new();
        let mut spec = split(2);
        spec.retry = Retry { max: 3, ..Retry::default() };
        let run = triggered(&mut rig, spec);
        assert_eq!(kill_shard(&mut rig, run, 0), Answer::Killing);
        if crashes {
            rig.restart(500);
        }
        rig.worker(1);
        assert_eq!(sent(&rig), [(1, 1)], "crash {crashes}");
        rig.do_all();
        assert_eq!(end(&rig, run), (RunState::Killed, Some(Why::KilledByUser)));
    }
}

#[test]
fn a_late_success_does_not_revive_a_killed_shard() {
    for crashes in [false, true] {
        let mut rig = Rig::new();
        rig.workers(2);
        let mut spec = split(2);
        spec.timeout.attempt_ms = Some(2_000);
        spec.retry = Retry { max: 1, ..Retry::default() };
        let run = triggered(&mut rig, spec);
        let sends = accepted(&mut rig);
        rig.report(&sends[1], Outcome::Success);
        rig.pass(20_000); // it times out, and its worker does not listen
        let retry = accepted(&mut rig).remove(0);
        assert_eq!((retry.shard, retry.no), (0, 2));
        assert_eq!(kill_shard(&mut rig, run, 0), Answer::Killing);
        if crashes {
            rig.restart(500);
        }
        rig.report(&sends[0], Outcome::Success);
        rig.report(&retry, Outcome::Killed);
        assert_eq!(end(&rig, run), (RunState::Killed, Some(Why::KilledByUser)), "crash {crashes}");
    }
}

/// Field case B086: a kill that does nothing is shown as such, and the place stays taken.
#[test]
fn a_kill_that_nobody_confirms_stays_stopping_and_is_asked_again() {
    let mut rig = Rig::new();
    rig.worker(1);
    let run = triggered(&mut rig, split(2));
    let sends = accepted(&mut rig);
    kill_shard(&mut rig, run, 0);
    rig.report(&sends[1], Outcome::Success);
    rig.cancels.clear();
    rig.pass(60_000);
    assert!(rig.cancels.len() >= 5, "{}", rig.cancels.len());
    assert_eq!(rig.attempts(run)[0].state, AttemptState::Stopping);
    assert_eq!(rig.run(run).state, RunState::Running);
    assert_eq!(rig.snapshot().workers[0].load, 1, "it keeps its place");
    rig.pass(600_000);
    let attempt = &rig.attempts(run)[0];
    assert_eq!((attempt.state, attempt.why), (AttemptState::Killed, Some(Why::PresumedGone)));
    assert_eq!(rig.run(run).state, RunState::Killed);
}

#[test]
fn a_kill_says_what_it_cannot_do() {
    let mut rig = Rig::new();
    rig.worker(1);
    let run = triggered(&mut rig, split(2));
    let sends = accepted(&mut rig);
    assert_eq!(kill_shard(&mut rig, run, 2), Answer::Refused(Why::ShardUnknown));
    rig.report(&sends[0], Outcome::Success);
    assert_eq!(kill_shard(&mut rig, run, 0), Answer::Refused(Why::ShardEnded));
    assert_eq!(kill_shard(&mut rig, run, 1), Answer::Killing);
    assert_eq!(kill_shard(&mut rig, run, 1), Answer::Killing, "asked again, answered again");
    rig.report(&sends[1], Outcome::Killed);
    assert!(matches!(kill_shard(&mut rig, run, 1), Answer::Refused(Why::RunEnded | Why::RunUnknown)));
}

#[test]
fn a_retry_goes_elsewhere_if_another_can_take_it() {
    let mut rig = Rig::new();
    rig.workers(3);
    let mut spec = split(1);
    spec.retry = Retry { max: 3, elsewhere: true, ..Retry::default() };
    let run = triggered(&mut rig, spec);
    let mut went = Vec::new();
    for n in 0..4 {
        let send = accepted(&mut rig).remove(0);
        went.push(send.worker.as_ref().unwrap().id.0);
        if n == 1 {
            rig.restart(100); // who failed is known after a restart
        }
        rig.report(&send, FAILED);
    }
    let distinct: std::collections::BTreeSet<u32> = went[..3].iter().copied().collect();
    assert_eq!(distinct.len(), 3, "{went:?}");
    assert_eq!(end(&rig, run), (RunState::Failed, Some(Why::HandlerFailed)));
}

#[test]
fn a_retry_that_nobody_else_can_take_goes_to_the_same() {
    let mut rig = Rig::new();
    rig.workers(2);
    deregister(&mut rig, 2);
    let mut spec = split(1);
    spec.retry = Retry { max: 1, elsewhere: true, ..Retry::default() };
    let run = triggered(&mut rig, spec);
    let send = accepted(&mut rig).remove(0);
    rig.report(&send, FAILED);
    assert_eq!(sent(&rig), [(0, 1)]);
    rig.do_all();
    assert_eq!(end(&rig, run), (RunState::Success, None));
}

#[test]
fn what_never_started_is_not_charged_and_is_sent_to_another_at_once() {
    let mut rig = Rig::new();
    rig.workers(2);
    let mut spec = split(2);
    spec.retry = Retry { max: 1, delay_ms: 60_000, ..Retry::default() };
    let run = triggered(&mut rig, spec);
    let sends = std::mem::take(&mut rig.sends);
    rig.step(Input::Sent { attempt: sends[0].attempt, outcome: SendOutcome::NotStarted(Why::ConnectFailed) });
    let again = rig.take_send();
    assert_eq!((again.shard, again.no), (0, 2));
    assert_ne!(again.worker.as_ref().unwrap().id, sends[0].worker.as_ref().unwrap().id);
    rig.accept(sends[1].attempt);
    rig.accept(again.attempt);
    rig.report(&again, FAILED);
    rig.report(&sends[1], FAILED);
    rig.pass(61_000);
    let retries: Vec<(u32, u32)> = rig.sends.iter().map(|send| (send.shard, send.no)).collect();
    assert_eq!(retries, [(0, 3), (1, 2)], "each shard has its own retry");
    let sends = accepted(&mut rig);
    rig.report(&sends[0], FAILED);
    rig.report(&sends[1], Outcome::Success);
    assert_eq!(end(&rig, run), (RunState::Failed, Some(Why::HandlerFailed)));
}

#[test]
fn shards_of_a_broadcast_end_with_their_deadlines_and_their_job() {
    let waits = || {
        let mut rig = Rig::new();
        rig.workers(2);
        let mut spec = broadcast();
        spec.timeout.start_ms = Some(5_000);
        let job = rig.job("job", spec);
        let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
        let sends = std::mem::take(&mut rig.sends);
        rig.step(Input::Sent { attempt: sends[0].attempt, outcome: SendOutcome::NotStarted(Why::RefusedFull) });
        rig.accept(sends[1].attempt);
        rig.report(&sends[1], Outcome::Success);
        (rig, job, run)
    };
    let (mut rig, _, run) = waits();
    for _ in 0..60 {
        rig.silence(100);
        for send in std::mem::take(&mut rig.sends) {
            rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::NotStarted(Why::RefusedFull) });
        }
    }
    assert_eq!(end(&rig, run), (RunState::Failed, Some(Why::DispatchFailed)));
    let (mut rig, job, run) = waits();
    rig.set_state(job, JobState::Deleted);
    assert_eq!(rig.run(run).state, RunState::Discarded);
    assert_eq!(rig.machine.pending(), 0);
    assert_eq!(rig.snapshot().workers[0].state, WorkerState::Online);
}
