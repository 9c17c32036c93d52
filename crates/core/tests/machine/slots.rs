//! From the timeline to a row: lateness, overlap, held slots, caps, pauses, edits.

use rota_core::batch::{Row, RunState};
use rota_core::job::{JobState, Overlap, When};
use rota_core::partition::{Answer, Outcome};
use rota_core::time::UnixMs;
use rota_core::why::Why;

use super::rig::{Rig, START, echo, story};

#[test]
fn a_slot_fires_is_sent_after_its_commit_and_ends_after_its_result() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::Cron("* * * * *".into())));
    rig.pass(59_000);
    assert!(rig.sends.is_empty());
    rig.holds_commits = true;
    rig.pass(1_000);
    assert_eq!(rig.held.len(), 1);
    assert!(rig.sends.is_empty(), "nothing leaves before what it rests on is durable");
    rig.release_commits();
    let send = rig.take_send();
    assert_eq!(send.slot, UnixMs(START + 60_000));
    rig.accept(send.attempt);
    assert_eq!(rig.run(send.run).state, RunState::Dispatched);
    assert_eq!(rig.report(&send, Outcome::Success), Answer::Acknowledged(vec![send.attempt]));
    assert_eq!(story(&rig.runs()), ["60 success"]);
    assert_eq!(rig.report(&send, Outcome::Success), Answer::Acknowledged(vec![send.attempt]));
    assert_eq!(story(&rig.runs()), ["60 success"]);
}

/// Field case B032: after any outage the newest fires, and the job goes on.
#[test]
fn slots_older_than_a_minute_collapse_into_the_newest() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.restart(95_000);
    let rows = story(&rig.runs());
    assert_eq!(rows, ["10..80 x8 skipped/misfire", "90 dispatched"]);
}

#[test]
fn slots_up_to_a_minute_late_all_fire() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.restart(35_000);
    assert_eq!(story(&rig.runs()), ["10 dispatched", "20 dispatched", "30 dispatched"]);
}

#[test]
fn overlap_skip_leaves_a_row() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::EveryMs(10_000));
    spec.overlap = Overlap::SKIP;
    rig.job("tick", spec);
    rig.pass(20_000);
    let send = rig.take_send();
    assert_eq!(story(&rig.runs()), ["10 dispatched", "20 skipped/overlap"]);
    rig.accept(send.attempt);
    rig.report(&send, Outcome::Success);
    rig.pass(10_000);
    assert_eq!(rig.sends.len(), 1);
}

#[test]
fn a_slot_without_a_worker_is_held_and_fires_when_one_comes() {
    let mut rig = Rig::new();
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(10_000);
    let held = rig.snapshot().held;
    assert_eq!((held.len(), held[0].why, held[0].slot), (1, Why::NoWorker, UnixMs(START + 10_000)));
    assert!(rig.runs().is_empty());
    rig.pass(5_000);
    rig.worker(1);
    assert_eq!(rig.take_send().slot, UnixMs(START + 10_000));
    assert!(rig.snapshot().held.is_empty());
}

#[test]
fn a_fixed_delay_job_counts_from_the_end_of_its_run() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("loop", echo(When::DelayMs(10_000)));
    rig.pass(10_000);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.pass_beating(7_000, send.worker.clone().unwrap().id, &[send.attempt]);
    rig.report(&send, Outcome::Success);
    rig.pass(9_000);
    assert!(rig.sends.is_empty());
    rig.restart(1_000);
    assert_eq!(rig.take_send().slot, UnixMs(START + 27_000));
}

#[test]
fn a_one_shot_job_fires_once_and_is_finished() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("once", echo(When::OnceMs(START + 5_000)));
    rig.restart(6_000);
    let send = rig.take_send();
    assert_eq!(send.slot, UnixMs(START + 5_000));
    rig.restart(6_000);
    assert!(rig.sends.is_empty());
    let finished = rig.store.with(|state| state.jobs()[&job].last().unwrap().state);
    assert_eq!(finished, JobState::Finished);
}

#[test]
fn a_start_deadline_ends_a_wait() {
    let mut rig = Rig::new();
    let mut spec = echo(When::EveryMs(60_000));
    spec.timeout.start_ms = Some(5_000);
    rig.job("tick", spec);
    rig.pass(70_000);
    assert_eq!(story(&rig.runs()), ["60 skipped/start_deadline"]);
}

#[test]
fn a_batch_keeps_the_order_run_then_attempt() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    rig.holds_commits = true;
    rig.pass(10_000);
    let rows = &rig.held[0].rows;
    assert!(matches!((&rows[0], &rows[1]), (Row::Run(_), Row::Attempt(_))), "{rows:?}");
}
