//! The mark: all slots up to it are covered by rows, but for those of jobs with an exception.

use rota_core::batch::{Exception, Row};
use rota_core::id::{JobId, Version};
use rota_core::job::{JobState, When};
use rota_core::partition::{Answer, Config, Input};
use rota_core::time::UnixMs;
use rota_core::why::Why;

use super::rig::{P0, Rig, START, echo, story};

fn mark(rig: &Rig) -> i64 {
    rig.store.with(|state| state.header(P0).mark.0) - START
}

fn exceptions(rig: &Rig) -> Vec<(JobId, Exception)> {
    rig.store.with(|state| state.exceptions().iter().map(|(job, (_, exception))| (*job, *exception)).collect())
}

#[test]
fn a_held_slot_is_not_lost_by_a_restart() {
    let mut rig = Rig::new();
    rig.job("held", echo(When::EveryMs(60_000)));
    rig.pass(61_000);
    rig.advance(9_000);
    let id = rig.store.with(|state| state.exceptions().len());
    assert_eq!(id, 0, "nothing was written for it yet");
    // Another job's batches carry the mark past the held slot, which then needs an exception.
    rig.job("other", echo(When::Manual));
    assert_eq!(rig.store.with(|state| state.exceptions().len()), 1);
    rig.restart(1_000);
    rig.worker(1);
    assert_eq!(rig.take_send().slot, UnixMs(START + 60_000));
    assert_eq!(rig.store.with(|state| state.exceptions().len()), 0);
    rig.restart(1_000);
    assert!(rig.sends.is_empty(), "covered once");
}

#[test]
fn a_slot_that_is_held_again_behind_its_exception_is_not_lost() {
    let mut rig = Rig::with(Config { send_credits: 1, backlog_runs_max: 0, ..Config::NATIVE });
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let mut nowhere = echo(When::EveryMs(20_000));
    nowhere.route.labels = "disk=ssd".into();
    rig.job("nowhere", nowhere);
    rig.pass(15_000);
    rig.job("first", echo(When::Manual));
    let (covered, until) = (UnixMs(START + 9_999), UnixMs(START + 10_000));
    assert_eq!(exceptions(&rig), [(job, Exception::Judged { covered, until })]);
    // At 20 s there is one credit: slot 10 fires, slot 20 is held in the same pass, and so is the other job's.
    rig.advance(5_000);
    rig.worker(1);
    assert_eq!(rig.sends.len(), 1);
    rig.silence(1_000);
    rig.job("second", echo(When::Manual));
    rig.silence(2_000);
    rig.job("third", echo(When::Manual));
    assert!(mark(&rig) > 20_000);
    rig.check_ledger();
    rig.restart(100);
    for id in 2..=4 {
        rig.worker(id);
    }
    rig.pass(10_000);
    assert_eq!(rig.covered(job), [10, 20, 30]);
}

#[test]
fn a_slot_that_comes_back_behind_a_full_batch_is_not_lost() {
    let mut rig = Rig::new();
    rig.jobs("tick", 520, |_| echo(When::EveryMs(1_000)));
    rig.silence(1_000);
    rig.advance(999);
    rig.step(Input::Turn);
    rig.advance(200);
    rig.step(Input::Turn);
    rig.holds_commits = true;
    rig.workers(20);
    // Each batch could be the last one before a crash.
    let mut batches = 0;
    while !rig.held.is_empty() {
        rig.release_one();
        batches += 1;
        rig.check_ledger();
    }
    assert!(batches > 2, "the slots fill more than a batch");
    assert!(mark(&rig) > 2_000);
}

#[test]
fn a_lasting_overload_is_worked_off_in_the_order_of_its_slots_and_costs_no_exceptions() {
    let mut rig = Rig::with(Config { send_credits: 1, backlog_runs_max: 600, ..Config::NATIVE });
    // Some 27 runs a second are due, and 8 of them can be sent.
    rig.jobs("tick", 40, |n| echo(When::EveryMs(1_000 + 25 * n as u64)));
    rig.workers(8);
    for _ in 0..200 {
        rig.pass(1_000);
        rig.do_all();
    }
    let runs = rig.runs();
    assert!(runs.len() > 1_500, "{} runs are more than the backlog may leave above the mark", runs.len());
    assert!(runs.iter().all(|run| run.slots == 1), "what our own valve holds is no misfire");
    assert_eq!(exceptions(&rig), []);
    let last: std::collections::BTreeMap<JobId, UnixMs> = runs.iter().map(|run| (run.job, run.slot)).collect();
    let (first, last) = (last.values().min().unwrap(), last.values().max().unwrap());
    assert!(last.0 - first.0 <= 3_000, "every job is equally late: {first:?} to {last:?}");
    assert!(mark(&rig) + START >= first.0);
    let floor = rig.store.with(|state| state.header(P0).floor);
    let above = runs.iter().filter(|run| run.id.0 >= floor).count();
    assert!(above <= 600, "a restart looks through {above} runs");
    rig.check_ledger();
}

#[test]
fn rows_above_the_mark_are_found_by_every_load() {
    let mut rig = Rig::new();
    let mut nowhere = echo(When::EveryMs(60_000));
    nowhere.route.labels = "disk=ssd".into();
    rig.job("nowhere", nowhere);
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(60_000)));
    rig.pass(60_000);
    rig.do_all();
    for name in ["a", "b", "c"] {
        rig.restart(100);
        // This term's batch says how far the next load has to look back.
        rig.job(name, echo(When::Manual));
        assert_eq!((mark(&rig), rig.covered(job)), (59_999, vec![60]));
    }
    rig.pass(60_000);
    assert_eq!(rig.covered(job), [60, 120]);
    rig.check_ledger();
}

/// Field case B023: one bad job stops no other.
#[test]
fn a_definition_that_this_binary_cannot_read_loses_no_slot() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.job("other", echo(When::EveryMs(10_000)));
    rig.pass(15_000);
    let mut broken = rig.definition(job, "tick", echo(When::Cron("not a schedule".into())));
    (broken.version, broken.at) = (Version(2), rig.now.wall);
    rig.write_behind_its_back(vec![Row::Definition(Box::new(broken.clone()))]);
    rig.restart(0);
    assert_eq!(rig.snapshot().broken.len(), 1);
    assert_eq!(rig.trigger(job), Answer::Refused(Why::Invalid));
    rig.pass(20_000);
    assert!(mark(&rig) >= 30_000);
    // A binary that can read it comes.
    (broken.version, broken.spec) = (Version(3), echo(When::EveryMs(10_000)));
    rig.write_behind_its_back(vec![Row::Definition(Box::new(broken))]);
    rig.restart(0);
    assert_eq!(rig.snapshot().broken, []);
    assert_eq!(rig.covered(job), [10, 20, 30]);
}

#[test]
fn a_definition_that_this_binary_cannot_read_can_be_edited_and_deleted() {
    for is_edited in [true, false] {
        let mut rig = Rig::new();
        let job = rig.job("tick", echo(When::EveryMs(10_000)));
        rig.trigger(job);
        let mut broken = rig.definition(job, "tick", echo(When::Cron("not a schedule".into())));
        broken.version = Version(2);
        rig.write_behind_its_back(vec![Row::Definition(Box::new(broken))]);
        rig.restart(0);
        if is_edited {
            assert!(matches!(rig.edit(job, 2, echo(When::EveryMs(10_000))), Answer::Defined { .. }));
        } else {
            let deleted = Answer::StateSet { state: JobState::Deleted, next: None };
            assert_eq!(rig.set_state(job, JobState::Deleted), deleted);
        }
        assert_eq!(rig.snapshot().broken, []);
        rig.worker(1);
        rig.pass(10_000);
        rig.do_all();
        let expected: &[&str] = if is_edited { &["0 success", "10 success"] } else { &["0 discarded/deleted"] };
        assert_eq!(story(&rig.runs()), expected);
    }
}
