//! Workers that come, take over, fall silent, drain and go.

use rota_core::batch::{AttemptState, RunState};
use rota_core::id::{Incarnation, WorkerId};
use rota_core::job::{Retry, Spec, When};
use rota_core::limits;
use rota_core::partition::{Answer, Beat, Dispatch, Holder, Input, ProbeAnswer, SendOutcome};
use rota_core::why::Why;
use rota_core::worker::WorkerState;

use super::rig::{Rig, echo};

fn triggered(rig: &mut Rig, spec: Spec) -> Dispatch {
    let job = rig.job("job", spec);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    rig.take_send()
}

fn beat_as(rig: &mut Rig, incarnation: u64, no: u64) {
    let beat = rig.beat_of(WorkerId(1), Incarnation(incarnation), no, &[]);
    rig.answer(|reply| Input::Beat { beat: Box::new(beat), reply });
}

#[test]
fn what_an_offline_worker_accepted_is_lost_in_the_end() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.silence(14_000);
    let send = triggered(&mut rig, echo(When::Manual));
    rig.silence(2_000);
    assert_eq!(rig.snapshot().workers[0].state, WorkerState::Offline);
    rig.accept(send.attempt);
    rig.silence(14_000);
    assert_eq!(rig.run(send.run).state, RunState::Running);
    rig.silence(2_000);
    let attempt = &rig.attempts(send.run)[0];
    assert_eq!((attempt.state, attempt.why), (AttemptState::Lost, Some(Why::WorkerSilent)));
    assert_eq!(rig.run(send.run).state, RunState::Lost);
}

#[test]
fn a_take_over_after_silence_strands_nothing() {
    let mut rig = Rig::new();
    rig.worker(1);
    let send = triggered(&mut rig, echo(When::Manual));
    rig.accept(send.attempt);
    // The dead time is over, and no turn has looked at it yet.
    rig.advance(15_000);
    let next = rig.registration(1, 2);
    assert!(matches!(rig.register(next, Holder::Silent), Answer::Registered(_)));
    assert_eq!(rig.run(send.run).state, RunState::Lost);
    assert_eq!(rig.snapshot().workers[0].load, 1, "its code may still run");
    for no in 0..=120 {
        rig.silence(5_000);
        beat_as(&mut rig, 2, no);
    }
    assert_eq!(rig.snapshot().workers[0].load, 0);
}

#[test]
fn a_send_goes_only_to_the_incarnation_that_its_row_names() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.holds_commits = true;
    let reply = rig.reply();
    rig.step(Input::Trigger {
        job,
        param: None,
        request_id: None,
        origin: rota_core::batch::Origin::Api,
        parent: None,
        reply,
    });
    rig.silence(16_000);
    let registration = Box::new(rig.registration(1, 2));
    let reply = rig.reply();
    rig.step(Input::Register { registration, is_reachable: true, holder: Holder::Silent, reply });
    rig.release_commits();
    let send = rig.take_send();
    let rows: Vec<_> = rig.attempts(send.run).iter().map(|row| (row.state, row.why, row.incarnation.0)).collect();
    let first = (AttemptState::NotStarted, Some(Why::WorkerRestarted), 1);
    assert_eq!(rows, [first, (AttemptState::Dispatched, None, 2)]);
    assert_eq!((send.no, send.worker.unwrap().incarnation), (2, Incarnation(2)));
}

#[test]
fn a_beat_changes_the_capacity_only_if_it_names_one() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    for (no, said, expected) in [(1, Some(4), 4), (2, None, 4), (3, Some(0), 0)] {
        let beat = Beat { capacity: said, ..rig.beat_of(worker, Incarnation(1), no, &[]) };
        rig.answer(|reply| Input::Beat { beat: Box::new(beat), reply });
        let stored = rig.store.with(|state| state.workers()[&worker].0.capacity);
        assert_eq!(stored, expected, "after {said:?}");
    }
}

#[test]
fn a_worker_known_only_from_an_attempt_has_to_register() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let send = triggered(&mut rig, echo(When::Manual));
    rig.accept(send.attempt);
    rig.silence(16_000);
    rig.restart(1_000);
    let beat = Beat { capacity: Some(4), ..rig.beat_of(worker, Incarnation(1), 9, &[send.attempt]) };
    let answer = rig.answer(|reply| Input::Beat { beat: Box::new(beat), reply });
    assert_eq!(answer, Answer::Refused(Why::WorkerUnknown));
    let drained = rig.answer(|reply| Input::Drain { worker, incarnation: Incarnation(1), reply });
    assert_eq!(drained, Answer::Refused(Why::WorkerUnknown));
    let (stored, state) = rig.store.with(|state| state.workers()[&worker].clone());
    assert_eq!((stored.url.as_str(), state), ("http://127.0.0.1:1", WorkerState::Offline));
    let again = rig.registration(1, 1);
    assert_eq!(rig.register(again, Holder::None), Answer::Registered(WorkerState::Online));
    assert_eq!(rig.beat(worker, 10, &[send.attempt]), Answer::Beaten(WorkerState::Online));
}

#[test]
fn a_drain_and_an_unreachable_address_outlive_a_silence() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    rig.answer(|reply| Input::Drain { worker, incarnation: Incarnation(1), reply });
    rig.silence(16_000);
    assert_eq!(rig.snapshot().workers[0].state, WorkerState::Offline);
    assert_eq!(rig.beat(worker, 3, &[]), Answer::Beaten(WorkerState::Draining));
    let registration = Box::new(rig.registration(1, 1));
    rig.answer(|reply| Input::Register { registration, is_reachable: false, holder: Holder::None, reply });
    rig.silence(16_000);
    assert_eq!(rig.beat(worker, 4, &[]), Answer::Beaten(WorkerState::Unreachable));
}

#[test]
fn what_was_learnt_of_an_earlier_holder_says_nothing_of_the_living_one() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.replace_worker(1, 2);
    let send = triggered(&mut rig, echo(When::Manual));
    rig.accept(send.attempt);
    // Incarnation 3 was dialled for while 1 still held the name.
    let late = rig.registration(1, 3);
    assert_eq!(rig.register(late.clone(), Holder::Gone(Incarnation(1))), Answer::Refused(Why::WorkerIdTaken));
    assert_eq!(rig.register(late, Holder::Alive(Incarnation(1))), Answer::Refused(Why::WorkerIdTaken));
    assert_eq!(rig.snapshot().attempts[0].state, AttemptState::Running);
    rig.report(&send, rota_core::partition::Outcome::Success);
    assert_eq!(rig.run(send.run).state, RunState::Success);
}

#[test]
fn the_end_of_one_incarnation_proves_nothing_about_those_before_it() {
    let mut rig = Rig::new();
    rig.worker(1);
    let send = triggered(&mut rig, echo(When::Manual));
    rig.accept(send.attempt);
    rig.silence(15_000);
    let second = rig.registration(1, 2);
    assert!(matches!(rig.register(second, Holder::Silent), Answer::Registered(_)));
    rig.replace_worker(1, 3);
    let attempt = &rig.attempts(send.run)[0];
    assert_eq!((attempt.state, attempt.released_at), (AttemptState::Lost, None));
    assert_eq!(rig.snapshot().workers[0].load, 1);
}

/// Field case B101: whoever leaves gets nothing more.
#[test]
fn a_queued_send_to_a_worker_that_goes_is_taken_back() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.retry = Retry { max: 1, ..Retry::default() };
    let send = triggered(&mut rig, spec);
    rig.answer(|reply| Input::Deregister { worker, incarnation: Incarnation(1), reply });
    assert_eq!(rig.cancels.iter().map(|enquiry| enquiry.attempt).collect::<Vec<_>>(), [send.attempt]);
    let attempt = &rig.attempts(send.run)[0];
    assert_eq!((attempt.state, attempt.released_at), (AttemptState::Lost, attempt.ended_at));
}

#[test]
fn another_incarnation_at_another_address_proves_nothing() {
    for is_restarted in [false, true] {
        let mut rig = Rig::new();
        rig.worker(1);
        let send = triggered(&mut rig, echo(When::Manual));
        rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
        rig.silence(15_000);
        let mut twin = rig.registration(1, 2);
        twin.url = "http://127.0.0.1:9".into();
        assert!(matches!(rig.register(twin, Holder::Silent), Answer::Registered(_)));
        if is_restarted {
            rig.restart(100);
            rig.step(Input::Probed { attempt: send.attempt, answer: ProbeAnswer::ForeignIncarnation });
            assert_eq!(rig.attempts(send.run)[0].released_at, None);
            continue;
        }
        rig.probes.clear();
        rig.silence(2_000);
        let asked = rig.probes[0].worker.clone().unwrap();
        assert_eq!((asked.url.as_str(), asked.incarnation), ("http://127.0.0.1:1", Incarnation(1)));
        // There it is a proof.
        rig.step(Input::Probed { attempt: send.attempt, answer: ProbeAnswer::ForeignIncarnation });
        assert!(rig.attempts(send.run)[0].released_at.is_some());
    }
}

#[test]
fn a_worker_that_stays_away_is_forgotten_and_may_come_back() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.worker(2);
    let send = triggered(&mut rig, echo(When::Manual));
    let kept = send.worker.clone().unwrap().id;
    rig.accept(send.attempt);
    rig.silence(16_000);
    rig.advance(limits::OFFLINE_KEPT_MS);
    rig.step(Input::Turn);
    rig.silence(2_000);
    let known: Vec<_> = rig.snapshot().workers.iter().map(|worker| worker.id).collect();
    assert!(known.len() <= 1 && known.iter().all(|id| *id == kept), "{known:?}");
    let gone = if kept == WorkerId(1) { 2 } else { 1 };
    let registration = rig.registration(gone, 2);
    assert_eq!(rig.register(registration, Holder::None), Answer::Registered(WorkerState::Online));
    let job = rig.job("next", echo(When::Manual));
    rig.trigger(job);
    assert_eq!(rig.take_send().worker.unwrap().id, WorkerId(gone));
}

#[test]
fn a_worker_that_left_is_unknown_until_it_registers_anew() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let left = rig.answer(|reply| Input::Deregister { worker, incarnation: Incarnation(1), reply });
    assert_eq!(left, Answer::WorkerSet(WorkerState::Offline));
    assert_eq!(rig.beat(worker, 9, &[]), Answer::Refused(Why::WorkerUnknown));
    let again = rig.registration(1, 1);
    assert_eq!(rig.register(again, Holder::None), Answer::Registered(WorkerState::Online));
    assert_eq!(rig.beat(worker, 10, &[]), Answer::Beaten(WorkerState::Online));
}

#[test]
fn shards_that_no_worker_takes_do_not_count_against_the_server() {
    let mut rig = Rig::new();
    let mut wide = echo(When::Manual);
    wide.shards = 900;
    let job = rig.job("wide", wide);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    assert_eq!(rig.machine.pending(), 0);
}
