//! What narrows a schedule: jitter, calendars, bounds, and the end of a job that has no slot left.

use rota_core::jitter::offset_ms;
use rota_core::job::{Active, Calendar, JobState, Spec, When};
use rota_core::partition::{Answer, Input, Outcome, SendOutcome};
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_port::store::Store as _;

use super::rig::{Rig, START, echo, story};

fn jittered(when: When, jitter_ms: u64) -> Spec {
    let mut spec = echo(when);
    spec.jitter_ms = jitter_ms;
    spec
}

fn state_of(rig: &Rig, job: rota_core::id::JobId) -> JobState {
    rig.store.with(|state| state.jobs()[&job].last().unwrap().state)
}

#[test]
fn a_jittered_slot_starts_so_long_after_itself_and_stays_nominal() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", jittered(When::Cron("* * * * *".into()), 10_000));
    let slot = UnixMs(START + 60_000);
    let offset = offset_ms(job, slot, 10_000);
    assert!(offset > 2, "the test needs some time to look into");
    rig.pass(60_000);
    rig.silence(offset - 1);
    assert!(rig.sends.is_empty() && rig.runs().is_empty());
    let held = rig.snapshot().held;
    assert_eq!((held.len(), held[0].slot, held[0].why, held[0].since), (1, slot, Why::Jitter, slot));
    rig.silence(1);
    assert_eq!(rig.take_send().slot, slot);
    assert_eq!(story(&rig.runs()), ["60 dispatched"]);
    assert!(rig.snapshot().held.is_empty());
    assert_eq!(rig.snapshot().lateness[0], 1, "lateness counts from the start");
}

#[test]
fn the_start_is_the_same_after_a_restart() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", jittered(When::Cron("* * * * *".into()), 10_000));
    let offset = offset_ms(job, UnixMs(START + 60_000), 10_000);
    rig.pass(60_000);
    rig.restart(1);
    rig.silence(offset - 2);
    assert!(rig.sends.is_empty());
    rig.silence(1);
    assert_eq!(rig.sends.len(), 1);
}

#[test]
fn waiting_for_jitter_is_no_misfire_and_lateness_counts_from_its_end() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", jittered(When::Cron("*/5 * * * *".into()), 240_000));
    // Down over the slot: later than a minute after it, and yet not a minute after its latest start.
    rig.restart(300_000 + 240_000 + 59_000);
    assert_eq!(story(&rig.runs()), ["300 dispatched"]);
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", jittered(When::Cron("*/5 * * * *".into()), 60_000));
    rig.restart(600_000 + 60_000 + 61_000);
    assert_eq!(story(&rig.runs()), ["300 skipped/misfire", "600 dispatched"]);
}

#[test]
fn no_slot_of_a_job_overtakes_another_and_none_starts_later_than_the_whole_jitter() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", jittered(When::EveryMs(2_000), 30_000));
    let mut last = 0;
    let mut count = 0;
    for _ in 0..200 {
        rig.pass(1_000);
        for send in std::mem::take(&mut rig.sends) {
            assert!(send.slot.0 > last, "{} after {last}", send.slot.0);
            let late = rig.now.wall.0 - send.slot.0;
            // A turn comes each second.
            assert!((0..=31_000).contains(&late), "{late}");
            last = send.slot.0;
            count += 1;
            rig.accept(send.attempt);
            rig.report(&send, Outcome::Success);
        }
    }
    assert!(count >= 84, "{count} of 100 slots, but for those that wait");
}

#[test]
fn a_job_that_waits_for_its_jitter_holds_up_nobody_and_not_the_mark() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("slow", jittered(When::Cron("* * * * *".into()), 3_600_000));
    rig.job("quick", echo(When::EveryMs(10_000)));
    rig.pass(80_000);
    assert_eq!(rig.sends.len(), 8);
    // Another term finds the slot where it was.
    rig.restart(1_000);
    let held: Vec<_> = rig.snapshot().held.iter().map(|held| (held.slot, held.why)).collect();
    assert_eq!(held, [(UnixMs(START + 60_000), Why::Jitter)]);
    let mark = rig.store.claim(&[super::rig::P0]).unwrap().remove(0).mark;
    assert!(mark >= UnixMs(START + 70_000), "the mark stays behind at {mark}");
}

#[test]
fn a_worker_that_is_missing_when_the_jitter_is_over_is_waited_for() {
    let mut rig = Rig::new();
    rig.job("tick", jittered(When::Cron("* * * * *".into()), 5_000));
    rig.silence(60_000);
    assert_eq!(rig.snapshot().held[0].why, Why::Jitter);
    rig.silence(5_000);
    assert_eq!(rig.snapshot().held[0].why, Why::NoWorker);
    rig.worker(1);
    assert_eq!(rig.take_send().slot, UnixMs(START + 60_000));
}

#[test]
fn a_job_paused_or_deleted_while_it_waits_for_its_jitter_does_not_start() {
    for state in [JobState::Paused, JobState::Deleted] {
        let mut rig = Rig::new();
        rig.worker(1);
        let job = rig.job("tick", jittered(When::Cron("* * * * *".into()), 10_000));
        rig.pass(60_000);
        rig.set_state(job, state);
        rig.pass(30_000);
        assert!(rig.sends.is_empty(), "{state:?}");
    }
}

#[test]
fn a_start_deadline_counts_from_the_start() {
    let mut rig = Rig::new();
    let mut spec = jittered(When::Cron("* * * * *".into()), 10_000);
    spec.timeout.start_ms = Some(1_000);
    let job = rig.job("tick", spec);
    let offset = offset_ms(job, UnixMs(START + 60_000), 10_000);
    rig.silence(60_000 + offset + 900);
    assert!(rig.runs().is_empty());
    rig.silence(1_200);
    assert_eq!(story(&rig.runs()), ["60 skipped/start_deadline"]);
}

#[test]
fn an_excluded_slot_is_none_and_a_job_whose_bounds_have_passed_is_finished() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::EveryMs(10_000));
    spec.calendar = Calendar { exclude: vec!["00:00:15-00:00:35".to_owned()], include: Vec::new() };
    spec.active = Active { from: None, until: Some("2026-12-01T00:00:55Z".to_owned()) };
    let job = rig.job("tick", spec);
    rig.pass(45_000);
    assert_eq!(story(&rig.runs()), ["10 dispatched", "40 dispatched"]);
    assert_eq!(state_of(&rig, job), JobState::Enabled);
    rig.pass(10_000);
    assert_eq!(story(&rig.runs()), ["10 dispatched", "40 dispatched", "50 dispatched"]);
    assert_eq!(state_of(&rig, job), JobState::Finished);
    rig.restart(60_000);
    assert_eq!(rig.runs().len(), 3);
}

#[test]
fn a_fixed_delay_waits_for_the_calendar_and_ends_with_its_bounds() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::DelayMs(10_000));
    spec.calendar = Calendar { exclude: vec!["00:00:15-00:00:30".to_owned()], include: Vec::new() };
    spec.active = Active { from: None, until: Some("2026-12-01T00:00:35Z".to_owned()) };
    let job = rig.job("loop", spec);
    let mut slots = Vec::new();
    for _ in 0..60 {
        rig.pass(1_000);
        while !rig.sends.is_empty() {
            let send = rig.take_send();
            slots.push(send.slot.0 - START);
            rig.accept(send.attempt);
            rig.report(&send, Outcome::Success);
        }
    }
    assert_eq!(slots, [10_000, 30_000]);
    assert_eq!(state_of(&rig, job), JobState::Finished);
}

#[test]
fn after_a_step_back_of_the_clock_the_edge_of_a_calendar_is_not_covered_twice() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::DelayMs(10_000));
    spec.calendar = Calendar { exclude: vec!["00:00:05-00:00:30".to_owned()], include: Vec::new() };
    let job = rig.job("loop", spec.clone());
    rig.pass(30_000);
    let send = rig.take_send();
    assert_eq!(send.slot, UnixMs(START + 30_000));
    rig.accept(send.attempt);
    rig.report(&send, Outcome::Success);
    rig.shift_wall(-18_000);
    let answer = rig.edit(job, 1, spec);
    let Answer::Defined { next: Some(next), .. } = answer else { panic!("{answer:?}") };
    assert!(next > UnixMs(START + 30_000), "{next} has a row");
}

#[test]
fn a_specification_of_an_older_version_is_read() {
    let spec = echo(When::Cron("0 2 * * *".into()));
    let stored = serde_json::to_value(&spec).unwrap();
    for key in ["dst", "calendar", "active", "jitter_ms"] {
        assert!(stored.get(key).is_none(), "{key} is stored though it says nothing");
    }
    assert_eq!(serde_json::from_value::<Spec>(stored).unwrap(), spec);
}

#[test]
fn a_start_deadline_counts_from_the_start_and_not_from_the_slot() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = jittered(When::EveryMs(600_000), 300_000);
    spec.timeout.start_ms = Some(5_000);
    let job = rig.job("tick", spec);
    let offset = offset_ms(job, UnixMs(START + 600_000), 300_000);
    assert!(offset > 30_000, "the slot of this job starts {offset} ms after itself");
    rig.pass(600_000 + offset);
    let send = rig.take_send();
    // Nobody takes it, and the clock is set back by less than it lies behind the slot.
    rig.shift_wall(-10_000);
    let mut sends = vec![send.attempt];
    for _ in 0..60 {
        for attempt in sends.drain(..) {
            rig.step(Input::Sent { attempt, outcome: SendOutcome::NotStarted(Why::ConnectFailed) });
        }
        rig.silence(100);
        sends.extend(rig.sends.drain(..).map(|send| send.attempt));
    }
    assert!(!rig.run(send.run).state.is_terminal(), "it is not 5 s after its start yet");
}
