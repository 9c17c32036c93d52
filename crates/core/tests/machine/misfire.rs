//! Slots whose time has passed: what each policy makes of them, and that it is decided once.

use rota_core::batch::{Exception, RunState};
use rota_core::freeze::Missed;
use rota_core::id::JobId;
use rota_core::job::{JobState, Misfire, Overlap, Spec, When};
use rota_core::misfire::{Pace, Policy};
use rota_core::overlap::Mode;
use rota_core::partition::{Config, Input};
use rota_core::time::UnixMs;
use rota_core::why::Why;

use super::rig::{Rig, START, echo, story};

const HOUR: u64 = 3_600_000;
const A_SECOND: Pace = Pace { runs: 1, per_ms: 1_000 };

fn missing(period_ms: u64, misfire: Misfire) -> Spec {
    Spec { misfire, ..echo(When::EveryMs(period_ms)) }
}

fn policy(policy: Policy) -> Misfire {
    Misfire { policy, ..Misfire::default() }
}

fn catch_up(pace: Pace) -> Misfire {
    Misfire { pace: Some(pace), ..policy(Policy::CatchUp) }
}

fn exception(rig: &Rig, job: JobId) -> Option<Exception> {
    rig.store.with(|state| state.exceptions().get(&job).map(|(_, exception)| *exception))
}

/// The slots that were sent, in seconds since the start, in order.
fn sent(rig: &mut Rig) -> Vec<i64> {
    let slots = rig.sends.iter().map(|send| (send.slot.0 - START) / 1_000).collect();
    rig.do_all();
    slots
}

#[test]
fn skip_leaves_one_row_for_what_is_too_late_and_fires_what_is_not() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", missing(10_000, policy(Policy::Skip)));
    rig.restart(95_000);
    assert_eq!(sent(&mut rig), [40, 50, 60, 70, 80, 90]);
    assert_eq!(story(&rig.runs())[0], "10..30 x3 skipped/misfire");
    rig.check_ledger();
}

/// B030: late by less than the grace runs once; later, it leaves a visible row, and the next slot fires.
#[test]
fn b030_a_slot_within_the_threshold_is_no_misfire() {
    for (late_s, expected) in [(50, "3600 success"), (310, "3600 skipped/misfire")] {
        let mut rig = Rig::new();
        rig.worker(1);
        rig.job("hourly", missing(HOUR, Misfire { threshold_ms: Some(300_000), ..policy(Policy::Skip) }));
        rig.restart(HOUR + late_s * 1_000);
        rig.do_all();
        assert_eq!(story(&rig.runs()), [expected]);
        rig.restart(HOUR - late_s * 1_000);
        assert_eq!(sent(&mut rig), [7_200], "the next slot fires as ever");
        rig.check_ledger();
    }
}

/// B034: the window is the job's own.
#[test]
fn b034_the_newest_fires_only_within_its_window() {
    for (late_s, expected) in [(180, "3600 success"), (7_080 - 3_600, "3600 success"), (3_601, "3600 skipped/misfire")]
    {
        let mut rig = Rig::new();
        rig.worker(1);
        rig.job("rare", missing(HOUR, Misfire { within_ms: Some(HOUR), ..Misfire::default() }));
        rig.advance(late_s * 1_000);
        rig.restart(HOUR);
        rig.do_all();
        assert_eq!(story(&rig.runs())[0], expected, "{late_s} s late");
        rig.check_ledger();
    }
}

#[test]
fn catch_up_runs_all_that_was_missed_oldest_first_at_its_pace() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", missing(10_000, catch_up(A_SECOND)));
    rig.restart(95_000);
    assert_eq!(sent(&mut rig), [10]);
    let held = rig.snapshot().held;
    assert_eq!((held.len(), held[0].why, held[0].slot), (1, Why::CatchUp, UnixMs(START + 20_000)));
    assert_eq!(rig.snapshot().held_counts, [(rig.app, Why::CatchUp, 1)]);
    let (covered, until) = (UnixMs(START + 19_999), UnixMs(START + 95_000));
    assert_eq!(exception(&rig, job), Some(Exception::Judged { covered, until }));
    rig.silence(999);
    assert_eq!(sent(&mut rig), [0; 0]);
    rig.silence(1);
    assert_eq!(sent(&mut rig), [20]);
    rig.pass(2_000);
    assert_eq!(sent(&mut rig), [30, 40]);
    rig.restart(0);
    assert_eq!(sent(&mut rig), [50]);
    rig.pass(2_000);
    assert_eq!(sent(&mut rig), [60, 70], "also when what is left is hardly late");
    rig.pass(3_000);
    assert_eq!(sent(&mut rig), [80, 90, 100]);
    rig.pass(1_000);
    assert_eq!(exception(&rig, job), None);
    rig.pass(10_000);
    assert_eq!(sent(&mut rig), [110]);
    assert!(rig.runs().iter().all(|run| run.state == RunState::Success && run.slots == 1));
    rig.check_ledger();
}

#[test]
fn what_is_too_old_or_too_much_is_one_row() {
    let mut rig = Rig::new();
    rig.worker(1);
    let misfire = Misfire { within_ms: Some(200_000), max: Some(3), ..catch_up(Pace::DEFAULT) };
    rig.job("few", missing(10_000, misfire));
    rig.job("young", missing(10_000, Misfire { max: None, ..misfire }));
    rig.restart(305_000);
    for _ in 0..26 {
        rig.pass(1_000);
        rig.do_all();
    }
    let mut rows = story(&rig.runs());
    rows.retain(|row| row.contains("skipped"));
    assert_eq!(rows, ["10..270 x27 skipped/misfire", "10..100 x10 skipped/misfire"]);
    let runs = rig.runs().iter().filter(|run| run.state == RunState::Success).count();
    assert_eq!(runs, 3 + 20 + 6, "and three slots of each since");
    rig.check_ledger();
}

#[test]
fn a_verdict_outlives_restarts() {
    let mut rig = Rig::new();
    rig.worker(1);
    let misfire = Misfire { within_ms: Some(100_000), ..catch_up(A_SECOND) };
    let job = rig.job("tick", missing(10_000, misfire));
    rig.restart(95_000);
    assert_eq!(sent(&mut rig), [10]);
    rig.pass(1_000);
    assert_eq!(sent(&mut rig), [20]);
    // At 396 s, what was not judged before is: 100 to 290 are too old, 300 to 390 are not.
    rig.restart(300_000);
    assert_eq!(sent(&mut rig), [30], "it was judged to run, however late");
    rig.restart(0);
    rig.pass(30_000);
    assert_eq!(sent(&mut rig)[..6], [40, 50, 60, 70, 80, 90]);
    let mut rows = story(&rig.runs());
    rows.retain(|row| row.contains("skipped"));
    assert_eq!(rows, ["100..290 x20 skipped/misfire"]);
    assert_eq!(rig.covered(job)[..2], [10, 20]);
    rig.check_ledger();
}

#[test]
fn a_range_and_the_verdict_on_what_follows_are_durable_together() {
    for durable in 0..3 {
        let mut rig = Rig::new();
        rig.job("tick", missing(10_000, Misfire { max: Some(2), ..catch_up(A_SECOND) }));
        rig.restart(95_000);
        let rows = story(&rig.runs());
        assert_eq!(rows, ["10..70 x7 skipped/misfire"], "no worker: nothing fires");
        rig.holds_commits = true;
        rig.workers(1);
        rig.crash(durable);
        rig.restart(HOUR);
        rig.workers(1);
        rig.pass(3_000);
        rig.do_all();
        let rows = story(&rig.runs());
        assert!(rows.iter().any(|row| row.starts_with("80 ")), "{durable} batches: {rows:?}");
        assert!(rows.iter().any(|row| row.starts_with("90 ")), "{durable} batches: {rows:?}");
        rig.check_ledger();
    }
}

#[test]
fn a_held_slot_keeps_its_verdict_over_a_restart() {
    let mut rig = Rig::new();
    let job = rig.job("tick", missing(HOUR, policy(Policy::Skip)));
    rig.pass(HOUR + 1_000);
    assert_eq!(exception(&rig, job), None, "nothing is written at once");
    rig.silence(2_000);
    let slot = UnixMs(START + HOUR.cast_signed());
    let judged = Exception::Judged { covered: UnixMs(slot.0 - 1), until: slot };
    assert_eq!(exception(&rig, job), Some(judged), "though nothing else makes a batch");
    rig.restart(HOUR / 2);
    rig.worker(1);
    assert_eq!(sent(&mut rig), [3_600], "it was in time when it was looked at");
    rig.check_ledger();
}

/// Field case B032: many missed slots cost no more than few.
#[test]
fn a_weeks_outage_is_a_handful_of_rows() {
    for (misfire, runs) in [
        (policy(Policy::Skip), 61),
        (Misfire::default(), 1),
        (Misfire { max: Some(5), ..policy(Policy::CatchUp) }, 5),
        (Misfire { within_ms: Some(70_000), ..policy(Policy::CatchUp) }, 71),
    ] {
        let mut rig = Rig::new();
        rig.workers(10);
        let job = rig.job("tick", missing(1_000, misfire));
        rig.restart(7 * 24 * HOUR);
        for _ in 0..80 {
            rig.advance(100);
            rig.step(Input::Turn);
            rig.do_all();
        }
        let rows: Vec<_> =
            rig.runs().into_iter().filter(|run| run.job == job && run.state == RunState::Skipped).collect();
        assert_eq!(rows.len(), 1, "{misfire:?}");
        let last = UnixMs(START + 7 * 24 * HOUR.cast_signed());
        let fired = rig.runs().iter().filter(|run| run.state == RunState::Success && run.slot <= last).count();
        assert_eq!((rows[0].slots + fired as u64, fired), (604_800, runs), "{misfire:?}");
        rig.check_ledger();
    }
}

#[test]
fn what_our_own_valve_held_is_no_misfire() {
    for misfire in [policy(Policy::Skip), Misfire { threshold_ms: Some(1_000), ..policy(Policy::Skip) }] {
        let mut rig = Rig::with(Config { send_credits: 1, ..Config::NATIVE });
        rig.workers(1);
        rig.jobs("tick", 4, |_| missing(1_000, misfire));
        for _ in 0..200 {
            rig.pass(1_000);
            rig.do_all();
        }
        assert!(rig.runs().iter().all(|run| run.slots == 1 && run.state != RunState::Skipped));
        rig.check_ledger();
    }
}

#[test]
fn slots_that_came_while_the_clock_was_suspect_are_not_missed() {
    for policy in [Policy::Skip, Policy::FireOnce, Policy::CatchUp] {
        let mut rig = Rig::new();
        rig.worker(1);
        rig.job("tick", missing(60_000, self::policy(policy)));
        rig.shift_wall(600_000);
        rig.pass(31_000);
        rig.do_all();
        assert_eq!(story(&rig.runs()), ["60..540 x9 skipped/clock_suspect", "600 success"], "{policy:?}");
        rig.check_ledger();
    }
}

/// B035: catching up obeys the job's overlap.
#[test]
fn b035_slots_that_are_caught_up_obey_the_overlap_policy() {
    let fast = catch_up(Pace { runs: 1_000, per_ms: 1_000 });
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", Spec { overlap: Overlap::SKIP, ..missing(100_000, fast) });
    rig.restart(650_000);
    rig.silence(1_000);
    let count = |rig: &Rig, state| rig.runs().iter().filter(|run| run.state == state).count();
    assert_eq!((count(&rig, RunState::Dispatched), count(&rig, RunState::Skipped)), (1, 5));
    rig.check_ledger();

    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", Spec { overlap: Overlap::of(Mode::Queue), ..missing(100_000, fast) });
    rig.restart(650_000);
    let mut order = Vec::new();
    for _ in 0..6 {
        rig.pass(1_000);
        assert_eq!(rig.sends.len(), 1, "one at a time");
        order.extend(sent(&mut rig));
    }
    assert_eq!(order, [100, 200, 300, 400, 500, 600]);
    rig.check_ledger();
}

#[test]
fn a_job_that_catches_up_can_be_paused_edited_deleted_and_frozen() {
    for what in ["pause", "edit", "delete", "freeze"] {
        let mut rig = Rig::new();
        rig.worker(1);
        let spec = missing(10_000, catch_up(A_SECOND));
        let job = rig.job("tick", spec.clone());
        rig.restart(205_000);
        rig.pass(2_000);
        rig.do_all();
        match what {
            "pause" => {
                rig.set_state(job, JobState::Paused);
                rig.restart(20_000);
                rig.set_state(job, JobState::Enabled);
            }
            "edit" => drop(rig.edit(job, 1, spec)),
            "delete" => drop(rig.set_state(job, JobState::Deleted)),
            _ => {
                rig.answer(|reply| Input::Freeze { app: None, by: "ann".into(), reason: "fire".into(), reply });
                rig.pass(20_000);
                assert_eq!(rig.sends.len(), 0);
                rig.restart(100);
                rig.answer(|reply| Input::Thaw { app: None, by: "ann".into(), missed: Missed::Skip, reply });
            }
        }
        rig.restart(500);
        rig.pass(40_000);
        rig.do_all();
        rig.check_ledger();
        assert!(rig.runs().iter().all(|run| run.why != Some(Why::Misfire)), "{what}: {:?}", story(&rig.runs()));
    }
}

#[test]
fn a_start_deadline_bounds_what_is_caught_up() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = missing(10_000, catch_up(Pace::DEFAULT));
    spec.timeout.start_ms = Some(80_000);
    rig.job("tick", spec);
    rig.restart(205_000);
    rig.do_all();
    assert_eq!(story(&rig.runs())[..2], ["10..120 x12 skipped/misfire", "130 success"]);
}
