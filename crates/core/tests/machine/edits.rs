//! Edits, pauses and deletions: which slots are whose.

use rota_core::id::Version;
use rota_core::job::{JobState, Overlap, When};
use rota_core::partition::{Answer, Config, Input};
use rota_core::time::UnixMs;
use rota_core::why::Why;

use super::rig::{Rig, START, echo, story};

#[test]
fn a_pause_is_covered_by_one_row() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(10_000);
    rig.set_state(job, JobState::Paused);
    rig.pass(35_000);
    rig.restart(5_000);
    rig.set_state(job, JobState::Enabled);
    rig.pass(10_000);
    assert_eq!(story(&rig.runs()), ["10 running", "20..50 x4 skipped/paused", "60 dispatched"]);
}

#[test]
fn an_edit_splits_the_slots_between_the_versions() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(15_000);
    let definition = Box::new(rig.definition(job, "tick", echo(When::EveryMs(4_000))));
    let stale = definition.clone();
    let answer = rig.answer(|reply| Input::Define { definition, expected: Some(Version(1)), reply });
    assert_eq!(answer, Answer::Defined { job, version: Version(2), next: Some(UnixMs(START + 16_000)) });
    rig.restart(2_000);
    let versions: Vec<(u32, i64)> = rig.runs().iter().map(|r| (r.version.0, (r.slot.0 - START) / 1_000)).collect();
    assert_eq!(versions, [(1, 10), (2, 16)]);
    let answer = rig.answer(|reply| Input::Define { definition: stale, expected: Some(Version(1)), reply });
    assert_eq!(answer, Answer::Refused(Why::VersionConflict));
}

#[test]
fn a_state_is_set_only_if_the_job_is_as_it_was_seen() {
    let mut rig = Rig::new();
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let mut ask = |state, expected| {
        rig.answer(|reply| Input::SetState { job, state, expected, by: "test".into(), reason: None, reply })
    };
    let seen = (Version(1), JobState::Enabled);
    for other in [(Version(2), JobState::Enabled), (Version(1), JobState::Paused)] {
        for state in [JobState::Paused, JobState::Deleted] {
            assert_eq!(ask(state, Some(other)), Answer::Refused(Why::VersionConflict));
        }
    }
    assert_eq!(ask(JobState::Paused, Some(seen)), Answer::StateSet { state: JobState::Paused, next: None });
    assert_eq!(ask(JobState::Deleted, Some(seen)), Answer::Refused(Why::VersionConflict), "it is paused by now");
    assert_eq!(
        ask(JobState::Deleted, Some((Version(1), JobState::Paused))),
        Answer::StateSet { state: JobState::Deleted, next: None }
    );
    assert_eq!(ask(JobState::Deleted, Some(seen)), Answer::Refused(Why::JobUnknown));
}

#[test]
fn a_deleted_job_discards_what_waits_and_never_fires_again() {
    let mut rig = Rig::new();
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(25_000);
    rig.set_state(job, JobState::Deleted);
    rig.worker(1);
    rig.restart(30_000);
    assert!(rig.sends.is_empty());
    assert_eq!(story(&rig.runs()), ["10..20 x2 discarded/deleted"]);
    assert_eq!(rig.trigger(job), Answer::Refused(Why::JobUnknown));
}

#[test]
fn a_paused_one_shot_job_that_is_edited_after_its_time_is_covered_once() {
    let mut rig = Rig::new();
    let job = rig.job("once", echo(When::OnceMs(START + 10_000)));
    rig.pass(5_000);
    rig.set_state(job, JobState::Paused);
    rig.pass(10_000);
    rig.edit(job, 1, echo(When::OnceMs(START + 10_000)));
    rig.pass(5_000);
    rig.set_state(job, JobState::Enabled);
    rig.worker(1);
    rig.pass(5_000);
    assert_eq!(story(&rig.runs()), ["10 skipped/paused"]);
}

#[test]
fn an_edit_keeps_the_slots_that_our_own_valve_held() {
    let mut rig = Rig::with(Config { send_credits: 1, ..Config::NATIVE });
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(35_000);
    assert_eq!((rig.sends.len(), rig.snapshot().held[0].why), (1, Why::NoCredit));
    rig.edit(job, 1, echo(When::EveryMs(10_000)));
    assert_eq!(story(&rig.runs()), ["10 dispatched", "20 pending", "30 pending"]);
    for _ in 0..3 {
        rig.do_all();
    }
    assert_eq!(story(&rig.runs()), ["10 success", "20 success", "30 success"]);
    rig.check_ledger();
}

#[test]
fn an_edit_of_a_long_backlog_writes_a_bounded_number_of_rows() {
    for overlap in [Overlap::ALLOW, Overlap::SKIP] {
        let mut rig = Rig::with(Config { send_credits: 1, ..Config::NATIVE });
        rig.worker(1);
        let mut spec = echo(When::EveryMs(1_000));
        spec.overlap = overlap;
        let blocker = rig.job("blocker", echo(When::Manual));
        rig.trigger(blocker);
        let job = rig.job("tick", spec.clone());
        rig.pass(600_000);
        assert_eq!((rig.snapshot().held[0].why, rig.snapshot().held[0].slot), (Why::NoCredit, UnixMs(START + 1_000)));
        rig.edit(job, 1, spec);
        let own: Vec<_> = rig.runs().into_iter().filter(|run| run.job == job).collect();
        assert!((2..200).contains(&own.len()), "{} rows", own.len());
        assert!(own.iter().all(|run| run.why != Some(Why::Misfire)), "{:?}", story(&own));
        assert_eq!(rig.covered(job), (1..=600).collect::<Vec<i64>>());
        rig.check_ledger();
    }
}

#[test]
fn an_edit_of_a_long_backlog_mints_no_more_ids_than_there_are() {
    let mut rig = Rig::with(Config { send_credits: 1, ..Config::NATIVE });
    rig.worker(1);
    let blocker = rig.job("blocker", echo(When::Manual));
    rig.trigger(blocker);
    let mut wide = echo(When::EveryMs(1_000));
    wide.shards = 900;
    let job = rig.job("wide", wide.clone());
    rig.pass(30_000);
    rig.lend_ids(8_200);
    rig.edit(job, 1, wide);
    assert_eq!(rig.covered(job), (1..=30).collect::<Vec<i64>>());
    rig.check_ledger();
}

#[test]
fn a_pause_leaves_the_due_slot_of_a_fixed_delay_job_a_row() {
    let mut rig = Rig::new();
    let job = rig.job("loop", echo(When::DelayMs(10_000)));
    rig.pass(12_000);
    assert_eq!(rig.snapshot().held.len(), 1);
    rig.set_state(job, JobState::Paused);
    rig.restart(5_000);
    rig.set_state(job, JobState::Enabled);
    assert_eq!(story(&rig.runs()), ["10 skipped/paused"]);
}

#[test]
fn a_fixed_delay_job_that_was_not_due_at_its_pause_is_armed_anew() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("loop", echo(When::DelayMs(10_000)));
    rig.pass(5_000);
    rig.set_state(job, JobState::Paused);
    rig.pass(20_000);
    rig.set_state(job, JobState::Enabled);
    rig.pass(10_000);
    assert_eq!(story(&rig.runs()), ["35 dispatched"]);
}

#[test]
fn a_held_slot_that_is_paused_is_covered_once() {
    let mut rig = Rig::new();
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(25_000);
    rig.set_state(job, JobState::Paused);
    rig.restart(10_000);
    rig.set_state(job, JobState::Enabled);
    rig.worker(1);
    rig.pass(10_000);
    assert_eq!(story(&rig.runs()), ["10..30 x3 skipped/paused", "40 dispatched"]);
    rig.check_ledger();
}

#[test]
fn a_one_shot_job_is_refused_outside_the_calendar() {
    let mut rig = Rig::new();
    let job = rig.job("once", echo(When::Manual));
    for at in [i64::MIN + 1, -1, i64::MAX] {
        assert_eq!(rig.edit(job, 1, echo(When::OnceMs(at))), Answer::Refused(Why::Invalid), "{at}");
    }
    assert!(matches!(rig.edit(job, 1, echo(When::OnceMs(0))), Answer::Defined { .. }));
}
