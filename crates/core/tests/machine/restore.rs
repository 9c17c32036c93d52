//! What a store says that is a copy of an earlier one.

use rota_core::batch::{AttemptState, Batch, RunState};
use rota_core::freeze::Missed;
use rota_core::id::{Block, Seq};
use rota_core::job::{JobState, When};
use rota_core::partition::{Answer, Config, Input, Machine, Outcome, ProbeAnswer};
use rota_core::restore::{Counts, Since, rows};
use rota_core::why::Why;
use rota_port::store::{Outcome as Stored, Store};

use super::rig::{P0, Rig, START, echo, story};

/// The same, and thaws it at once.
fn restore(rig: &mut Rig, ms: u64, since: Since) -> Counts {
    let counts = restore_frozen(rig, ms, since);
    thaw(rig, Missed::Skip);
    counts
}

fn thaw(rig: &mut Rig, missed: Missed) {
    let answer = rig.answer(|reply| Input::Thaw { app: None, by: "test".into(), missed, reply });
    assert_eq!(answer, Answer::Thawed { is_new: true });
}

/// Lets `ms` pass that the store knows nothing of, decides about them, and starts a machine.
fn restore_frozen(rig: &mut Rig, ms: u64, since: Since) -> Counts {
    rig.advance(ms);
    let loaded = rig.store.claim(&[P0]).unwrap().remove(0);
    let first = rig.store.reserve_ids(rota_core::id::id_floor(rig.now.wall), 1_000).unwrap();
    let (rows, counts) = rows(&loaded, since, "restored", rig.now.wall, &mut Block::new(first, first + 1_000));
    let (at, seq) = (rig.now.wall, Seq(loaded.seq.0 + 1));
    let batch = Batch { partition: P0, epoch: loaded.epoch, seq, at, mark: at, floor: u64::MAX, rows };
    assert_eq!(rig.store.commit(&[batch]).unwrap(), [Stored::Applied]);
    let loaded = rig.store.claim(&[P0]).unwrap().remove(0);
    rig.machine = Machine::new(Config::NATIVE, loaded, rig.now);
    rig.sends.clear();
    rig.step(Input::Turn);
    counts
}

fn sent(rig: &Rig) -> Vec<i64> {
    rig.sends.iter().map(|send| (send.slot.0 - START) / 1_000).collect()
}

#[test]
fn nothing_starts_before_a_thaw_and_then_what_was_decided_does() {
    for (since, expected) in [
        (Since::Skip, ["10..70 x7 skipped/restored", "80..90 x2 skipped/frozen"].as_slice()),
        (Since::FireOnce, ["10..60 x6 skipped/restored", "70 dispatched", "80..90 x2 skipped/frozen"].as_slice()),
    ] {
        let mut rig = Rig::new();
        rig.worker(1);
        let job = rig.job("tick", echo(When::EveryMs(10_000)));
        restore_frozen(&mut rig, 75_000, since);
        rig.pass(20_000);
        assert!(rig.sends.is_empty(), "{:?}", story(&rig.runs()));
        assert!(matches!(rig.trigger(job), Answer::Refused(Why::Frozen)));
        thaw(&mut rig, Missed::Skip);
        rig.pass(1_000);
        let mut told = story(&rig.runs());
        told.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(told, expected);
    }
}

#[test]
fn skipped_slots_get_one_row_and_the_next_one_fires() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(10_000);
    rig.do_all();
    let counts = restore(&mut rig, 65_000, Since::Skip);
    assert_eq!(counts, Counts { slots: 6, firing: 0, runs: 0, fired: 0 });
    assert!(rig.sends.is_empty(), "nothing fires by itself");
    rig.pass(5_000);
    assert_eq!(story(&rig.runs()), ["10 success", "20..70 x6 skipped/restored", "80 dispatched"]);
}

#[test]
fn asked_to_the_newest_fires_and_one_row_stands_for_the_rest() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(10_000);
    rig.do_all();
    let counts = restore(&mut rig, 65_000, Since::FireOnce);
    assert_eq!(counts, Counts { slots: 5, firing: 1, runs: 0, fired: 0 });
    assert_eq!(sent(&rig), [70]);
    rig.pass(5_000);
    assert_eq!(story(&rig.runs()), ["10 success", "20..60 x5 skipped/restored", "70 dispatched", "80 dispatched"]);
}

#[test]
fn a_single_slot_since_then_is_covered_or_fires() {
    for (since, expected) in [(Since::Skip, "10 skipped/restored"), (Since::FireOnce, "10 dispatched")] {
        let mut rig = Rig::new();
        rig.worker(1);
        rig.job("tick", echo(When::EveryMs(10_000)));
        restore(&mut rig, 12_000, since);
        assert_eq!(story(&rig.runs()), [expected]);
    }
}

#[test]
fn a_held_slot_is_decided_too() {
    for (since, expected) in [
        (Since::Skip, vec!["10..30 x3 skipped/restored"]),
        (Since::FireOnce, vec!["10..20 x2 skipped/restored", "30 dispatched"]),
    ] {
        let mut rig = Rig::new();
        rig.job("tick", echo(When::EveryMs(10_000)));
        rig.pass(15_000);
        assert!(rig.runs().is_empty(), "it waits for a worker");
        restore(&mut rig, 15_000, since);
        rig.worker(1);
        assert_eq!(story(&rig.runs()), expected);
    }
}

#[test]
fn what_was_open_is_lost_and_never_sent_again() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let send = rig.take_send();
    rig.accept(send.attempt);
    let counts = restore(&mut rig, 60_000, Since::FireOnce);
    assert_eq!(counts, Counts { slots: 0, firing: 0, runs: 1, fired: 0 });
    let run = rig.run(send.run);
    assert_eq!((run.state, run.why), (RunState::Lost, Some(Why::Restored)));
    let attempt = rig.attempts(send.run).remove(0);
    assert_eq!((attempt.state, attempt.why, attempt.released_at), (AttemptState::Lost, Some(Why::Restored), None));
    assert_eq!(rig.snapshot().workers[0].load, 1, "its code may run on");
    rig.pass_beating(10_000, worker, &[send.attempt]);
    rig.step(Input::Probed { attempt: send.attempt, answer: ProbeAnswer::NeverSeen });
    assert!(rig.sends.is_empty(), "that a worker has forgotten it proves nothing");
    assert_eq!(rig.snapshot().workers[0].load, 0, "but its place is free");
    assert_eq!(rig.run(send.run).state, RunState::Lost);
}

#[test]
fn a_result_that_comes_after_all_is_kept_and_changes_nothing() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let send = rig.take_send();
    restore(&mut rig, 60_000, Since::Skip);
    rig.report(&send, Outcome::Success);
    assert_eq!(rig.run(send.run).state, RunState::Lost);
    assert!(rig.attempts(send.run)[0].released_at.is_some());
    assert_eq!(rig.snapshot().workers[0].load, 0);
}

#[test]
fn what_waited_for_its_first_dispatch_is_lost_too() {
    let mut rig = Rig::new();
    let job = rig.job("job", echo(When::Manual));
    let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
    restore(&mut rig, 60_000, Since::FireOnce);
    rig.worker(1);
    assert!(rig.sends.is_empty());
    assert_eq!((rig.run(run).state, rig.run(run).why), (RunState::Lost, Some(Why::Restored)));
}

#[test]
fn a_kill_stays_a_kill() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.kill(send.run);
    restore(&mut rig, 60_000, Since::Skip);
    assert_eq!((rig.run(send.run).state, rig.run(send.run).why), (RunState::Killed, Some(Why::KilledByUser)));
}

#[test]
fn a_fixed_delay_goes_on_whether_it_was_armed_or_its_run_was_open() {
    for is_open in [false, true] {
        let mut rig = Rig::new();
        rig.worker(1);
        rig.job("poll", echo(When::DelayMs(10_000)));
        if is_open {
            rig.pass(10_000);
            rig.take_send();
        }
        restore(&mut rig, 60_000, Since::Skip);
        assert!(rig.sends.is_empty(), "{is_open}");
        rig.pass(10_000);
        assert_eq!(rig.sends.len(), 1, "{is_open}: {:?}", story(&rig.runs()));
    }
}

#[test]
fn an_armed_instant_fires_once_if_it_shall() {
    for when in [When::DelayMs(10_000), When::OnceMs(START + 10_000)] {
        let mut rig = Rig::new();
        rig.worker(1);
        rig.job("job", echo(when));
        assert_eq!(restore(&mut rig, 60_000, Since::FireOnce).firing, 1);
        assert_eq!(sent(&rig), [10]);
    }
}

#[test]
fn a_one_shot_that_may_have_run_is_finished() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("once", echo(When::OnceMs(START + 10_000)));
    restore(&mut rig, 60_000, Since::Skip);
    rig.pass(60_000);
    assert_eq!(story(&rig.runs()), ["10 skipped/restored"]);
    assert_eq!(rig.store.with(|state| state.jobs()[&job].last().unwrap().state), JobState::Finished);
}

#[test]
fn one_that_comes_later_still_comes() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("once", echo(When::OnceMs(START + 100_000)));
    restore(&mut rig, 60_000, Since::Skip);
    rig.pass(40_000);
    assert_eq!(sent(&rig), [100]);
}

#[test]
fn a_pause_stays_and_covers_its_slots_itself() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.set_state(job, JobState::Paused);
    restore(&mut rig, 35_000, Since::FireOnce);
    assert!(rig.runs().is_empty());
    rig.set_state(job, JobState::Enabled);
    assert_eq!(story(&rig.runs()), ["10..30 x3 skipped/paused"]);
}

#[test]
fn rows_above_the_mark_are_not_covered_again() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(1_000)));
    rig.job("held", {
        let mut spec = echo(When::EveryMs(1_000));
        spec.route.labels = "disk=ssd".to_owned();
        spec
    });
    // The held job keeps the mark back for a while, and the other one fires above it.
    rig.silence(1_500);
    rig.do_all();
    let fired = rig.runs().len();
    assert_eq!(fired, 1);
    restore(&mut rig, 10_000, Since::Skip);
    let runs = rig.runs();
    assert_eq!(story(&runs), ["1 success", "2..11 x10 skipped/restored", "1..11 x11 skipped/restored"]);
}
