//! Wall clocks that jump, step back, or stand behind those of the term before.

use rota_core::batch::RunState;
use rota_core::job::{JobState, When};
use rota_core::partition::{Answer, Input, Outcome, SendOutcome};
use rota_core::time::UnixMs;
use rota_core::why::Why;

use super::rig::{P0, Rig, START, echo, story};

const HOUR_MS: i64 = 3_600_000;

#[test]
fn a_jump_of_the_wall_clock_fires_nothing_until_it_is_stable() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.now.wall = rig.now.wall.plus_ms(600_000);
    rig.step(Input::Turn);
    rig.pass(5_000);
    assert!(rig.sends.is_empty());
    assert_eq!(rig.snapshot().suspended, Some(Why::ClockSuspect));
    rig.now.wall = rig.now.wall.plus_ms(-600_000);
    rig.pass(31_000);
    assert_eq!(rig.snapshot().suspended, None);
    assert_eq!(story(&rig.runs()), ["10 dispatched", "20 dispatched", "30 dispatched"]);
}

#[test]
fn a_jump_of_more_than_a_day_waits_for_an_operator() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.shift_wall(25 * HOUR_MS);
    rig.pass(120_000);
    assert_eq!((rig.sends.len(), rig.snapshot().suspended), (0, Some(Why::ClockSuspect)));
    rig.step(Input::ConfirmClock);
    assert_eq!((rig.sends.len(), rig.snapshot().suspended), (1, None));
    rig.check_ledger();
}

#[test]
fn a_host_that_slept_is_late_and_its_clock_is_believed() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.shift_wall(25 * HOUR_MS);
    rig.step(Input::Slept(25 * 3_600_000));
    assert_eq!(rig.snapshot().suspended, None);
    rig.step(Input::Turn);
    assert_eq!(rig.sends.len(), 1);
    assert_eq!(story(&rig.runs())[0], "10..89990 x8999 skipped/misfire");
    rig.check_ledger();
}

#[test]
fn slots_of_a_suspended_time_say_so_and_later_misfires_do_not() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    for shift in [2, -2, 2, -2] {
        rig.shift_wall(shift * HOUR_MS);
        rig.pass(25_000);
    }
    rig.pass(9_000);
    assert_eq!(story(&rig.runs()), ["10..90 x9 skipped/clock_suspect", "100 dispatched"]);
    rig.advance(100_000);
    rig.step(Input::Turn);
    assert_eq!(story(&rig.runs())[2..], ["110..190 x9 skipped/misfire"]);
    assert_eq!(rig.covered(job), (1..=19).map(|n| n * 10).collect::<Vec<i64>>());
}

#[test]
fn a_pause_under_a_suspect_clock_is_covered() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(15_000);
    rig.shift_wall(2 * HOUR_MS);
    rig.set_state(job, JobState::Paused);
    rig.shift_wall(-2 * HOUR_MS);
    rig.pass(60_000);
    rig.set_state(job, JobState::Enabled);
    rig.pass(10_000);
    assert_eq!(rig.covered(job), [10, 20, 30, 40, 50, 60, 70, 80]);
    rig.check_ledger();
}

#[test]
fn an_edit_under_a_suspect_clock_fires_nothing_and_covers_nothing_ahead() {
    for has_turned in [true, false] {
        let mut rig = Rig::new();
        rig.worker(1);
        let job = rig.job("tick", echo(When::EveryMs(10_000)));
        rig.pass(5_000);
        rig.shift_wall(2 * HOUR_MS);
        if has_turned {
            rig.step(Input::Turn);
        }
        rig.edit(job, 1, echo(When::EveryMs(10_000)));
        assert!(rig.sends.is_empty(), "fired slot {} of a clock that is suspect", rig.sends[0].slot);
        assert!(rig.runs().is_empty());
        rig.shift_wall(-2 * HOUR_MS);
        rig.pass(40_000);
        assert_eq!(rig.covered(job), [10, 20, 30, 40]);
        rig.check_ledger();
    }
}

#[test]
fn a_resumption_under_a_suspect_clock_covers_nothing_ahead() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.set_state(job, JobState::Paused);
    rig.pass(15_000);
    rig.shift_wall(2 * HOUR_MS);
    rig.set_state(job, JobState::Enabled);
    rig.shift_wall(-2 * HOUR_MS);
    rig.pass(60_000);
    assert!(rig.runs().iter().all(|run| run.slot_last <= rig.now.wall), "{:?}", story(&rig.runs()));
    assert_eq!(rig.covered(job), [10, 20, 30, 40, 50, 60, 70]);
    rig.check_ledger();
}

#[test]
fn a_deletion_under_a_suspect_clock_discards_nothing_ahead() {
    let mut rig = Rig::new();
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(25_000);
    rig.shift_wall(2 * HOUR_MS);
    rig.set_state(job, JobState::Deleted);
    assert_eq!(story(&rig.runs()), ["10..20 x2 discarded/deleted"]);
}

#[test]
fn a_held_start_deadline_survives_a_small_step_of_the_clock() {
    let mut rig = Rig::new();
    rig.job("front", echo(When::EveryMs(60_000)));
    let mut spec = echo(When::EveryMs(60_000));
    spec.timeout.start_ms = Some(5_000);
    let job = rig.job("behind", spec);
    rig.silence(60_000);
    rig.shift_wall(-1);
    rig.advance(5_001);
    rig.step(Input::Turn);
    rig.silence(30_000);
    let own: Vec<_> = rig.runs().into_iter().filter(|run| run.job == job).collect();
    assert_eq!(story(&own), ["60 skipped/start_deadline"]);
}

#[test]
fn no_start_deadline_is_decided_by_a_suspect_clock() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.timeout.start_ms = Some(120_000);
    let job = rig.job("waiting", spec);
    let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
    let send = rig.take_send();
    rig.shift_wall(HOUR_MS);
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::NotStarted(Why::RefusedFull) });
    assert_eq!(rig.run(run).state, RunState::Dispatched);
    rig.shift_wall(-HOUR_MS);
    rig.pass(5_000);
    assert_eq!(rig.take_send().run, run);
}

#[test]
fn a_clock_behind_the_mark_is_said_and_fires_nothing_again() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(600_000);
    rig.shift_wall(-300_000);
    rig.restart(0);
    rig.pass(60_000);
    assert!(rig.sends.is_empty());
    assert_eq!(rig.snapshot().suspended, Some(Why::ClockBehind));
    rig.pass(250_000);
    assert_eq!(rig.snapshot().suspended, None);
    assert_eq!(rig.covered(job), (1..=61).map(|n| n * 10).collect::<Vec<i64>>());
    rig.check_ledger();
}

#[test]
fn a_fixed_delay_job_does_not_wait_for_the_mark() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("loop", echo(When::DelayMs(10_000)));
    rig.pass(10_000);
    rig.shift_wall(-HOUR_MS);
    rig.pass(40_000);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.report(&send, Outcome::Success);
    rig.pass(9_000);
    assert!(rig.sends.is_empty());
    rig.pass(1_000);
    assert_eq!(rig.sends.len(), 1, "{:?}", rig.snapshot().next);
}

#[test]
fn a_fixed_delay_job_is_not_armed_in_a_false_future() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("loop", echo(When::DelayMs(10_000)));
    rig.pass(10_000);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.shift_wall(20 * HOUR_MS);
    rig.report(&send, Outcome::Success);
    rig.shift_wall(-20 * HOUR_MS);
    rig.pass(40_000);
    assert_eq!(rig.sends.len(), 1, "{:?}", rig.snapshot().next);
}

#[test]
fn versions_and_states_take_effect_no_earlier_than_what_is_covered() {
    let mut rig = Rig::new();
    rig.worker(1);
    let old = rig.job("old", echo(When::EveryMs(10_000)));
    rig.pass(35_000);
    rig.shift_wall(-20_000);
    rig.restart(0);
    let mark = rig.store.with(|state| state.header(P0).mark);
    assert!(mark >= UnixMs(START + 30_000));
    let new = rig.job("new", echo(When::EveryMs(10_000)));
    rig.edit(old, 1, echo(When::EveryMs(10_000)));
    rig.set_state(new, JobState::Paused);
    rig.set_state(new, JobState::Enabled);
    let times = rig.store.with(|state| {
        let versions = [state.jobs()[&new][0].at, state.jobs()[&old][1].at];
        versions.into_iter().chain(state.history().iter().map(|change| change.at)).collect::<Vec<_>>()
    });
    assert_eq!(times.len(), 4);
    assert!(times.iter().all(|at| *at >= mark), "{times:?} against the mark {mark}");
    rig.pass(40_000);
    assert_eq!((rig.covered(old), rig.covered(new)), (vec![10, 20, 30, 40, 50], vec![40, 50]));
    rig.check_ledger();
}

#[test]
fn a_pause_never_takes_back_what_is_covered() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(15_000);
    rig.shift_wall(50_000);
    rig.step(Input::Turn);
    rig.edit(job, 1, echo(When::EveryMs(10_000)));
    rig.shift_wall(-50_000);
    rig.restart(0);
    rig.set_state(job, JobState::Paused);
    rig.edit(job, 2, echo(When::EveryMs(10_000)));
    rig.pass(5_000);
    rig.set_state(job, JobState::Enabled);
    rig.pass(60_000);
    assert_eq!(rig.covered(job), [10, 20, 30, 40, 50, 60, 70, 80]);
    rig.check_ledger();
}

#[test]
fn an_edit_with_a_clock_behind_covers_no_slot_above_the_mark_again() {
    let mut rig = Rig::new();
    let mut nowhere = echo(When::EveryMs(60_000));
    nowhere.route.labels = "disk=ssd".into();
    rig.job("held", nowhere);
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(60_000)));
    rig.pass(60_000);
    assert_eq!(rig.store.with(|state| state.header(P0).mark), UnixMs(START + 59_999));
    assert_eq!(rig.covered(job), [60]);
    rig.shift_wall(-50_000);
    rig.restart(0);
    rig.edit(job, 1, echo(When::EveryMs(60_000)));
    rig.set_state(job, JobState::Paused);
    rig.set_state(job, JobState::Enabled);
    rig.pass(115_000);
    assert_eq!(rig.covered(job), [60, 120]);
    rig.check_ledger();
}

#[test]
fn a_start_deadline_that_came_while_the_clock_was_suspect_is_met_soon_after() {
    for hours in [1, -1] {
        let mut rig = Rig::new();
        rig.job("front", echo(When::EveryMs(600_000)));
        let mut spec = echo(When::EveryMs(600_000));
        spec.timeout.start_ms = Some(5_000);
        let job = rig.job("behind", spec);
        rig.silence(600_000);
        rig.shift_wall(hours * HOUR_MS);
        rig.silence(6_000);
        assert!(rig.runs().is_empty());
        rig.shift_wall(-hours * HOUR_MS);
        rig.silence(60_000);
        let own: Vec<_> = rig.runs().into_iter().filter(|run| run.job == job).collect();
        assert_eq!(story(&own), ["600 skipped/start_deadline"], "after a jump of {hours} h");
    }
}
