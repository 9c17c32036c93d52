//! Freezes, thaws and reruns.

use rota_core::batch::{Origin, Run, RunState};
use rota_core::freeze::Missed;
use rota_core::id::AppId;
use rota_core::jitter::offset_ms;
use rota_core::job::{Overlap, Retry, Spec, When};
use rota_core::partition::{Answer, Input, Outcome, RerunOrder};
use rota_core::time::UnixMs;
use rota_core::why::Why;

use super::rig::{Rig, START, echo};

fn freeze(rig: &mut Rig, app: Option<AppId>) -> Answer {
    rig.answer(|reply| Input::Freeze { app, by: "ann".into(), reason: "the disk burns".into(), reply })
}

fn thaw(rig: &mut Rig, missed: Missed) -> Answer {
    rig.answer(|reply| Input::Thaw { app: None, by: "eve".into(), missed, reply })
}

fn frozen(rig: &Rig) -> Vec<Run> {
    rig.runs().into_iter().filter(|run| run.why == Some(Why::Frozen)).collect()
}

#[test]
fn nothing_starts_while_it_is_frozen_and_one_row_covers_what_was_missed() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(20_000);
    rig.do_all();
    let fired = rig.runs().len();
    assert_eq!(freeze(&mut rig, None), Answer::Frozen { is_new: true });
    assert_eq!(freeze(&mut rig, None), Answer::Frozen { is_new: false });
    assert_eq!(rig.trigger(job), Answer::Refused(Why::Frozen));
    rig.pass(45_000);
    assert_eq!((rig.runs().len(), rig.sends.len()), (fired, 0));
    assert_eq!((rig.snapshot().held[0].why, rig.snapshot().frozen.len()), (Why::Frozen, 1));
    // A new term knows it, and so does the one after that of the thaw.
    rig.restart(10_000);
    rig.pass(1_000);
    assert_eq!((rig.runs().len(), rig.snapshot().held.len()), (fired, 1));
    assert_eq!(thaw(&mut rig, Missed::Skip), Answer::Thawed { is_new: true });
    assert_eq!(thaw(&mut rig, Missed::Skip), Answer::Thawed { is_new: false });
    let skipped = frozen(&rig);
    assert_eq!((skipped.len(), skipped[0].slots, skipped[0].state), (1, 5, RunState::Skipped), "{skipped:?}");
    rig.pass(10_000);
    assert_eq!(rig.sends.len(), 1, "it goes on");
}

#[test]
fn a_thaw_that_is_not_durable_never_was_and_one_that_is_holds() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", echo(When::EveryMs(10_000)));
    freeze(&mut rig, None);
    rig.pass(30_000);
    for durable in [0, 1] {
        rig.holds_commits = true;
        let reply = rig.reply();
        rig.enter(Input::Thaw { app: None, by: "eve".into(), missed: Missed::FireOnce, reply });
        rig.enter(Input::Turn);
        rig.crash(durable);
        assert_eq!((rig.snapshot().frozen.len(), frozen(&rig).len()), (1 - durable, durable));
    }
    rig.pass(1_000);
    let skipped = frozen(&rig);
    assert_eq!((skipped.len(), skipped[0].slots), (1, 2), "{skipped:?}");
    let newest = rig.runs().into_iter().find(|run| run.shards == 1).unwrap();
    assert_eq!(newest.slot, skipped[0].slot_last.plus_ms(10_000));
}

#[test]
fn what_was_missed_fires_at_a_pace() {
    let mut rig = Rig::new();
    rig.workers(4);
    rig.jobs("tick", 100, |_| echo(When::EveryMs(60_000)));
    freeze(&mut rig, None);
    rig.pass(61_000);
    thaw(&mut rig, Missed::FireOnce);
    let at_once = rig.sends.len();
    assert!(at_once <= 20, "{at_once} at once");
    assert!(rig.snapshot().held.iter().all(|held| held.why == Why::Thawing), "{:?}", rig.snapshot().held[0]);
    for _ in 0..10 {
        rig.advance(100);
        rig.step(Input::Turn);
        rig.do_all();
    }
    assert_eq!((frozen(&rig).len(), rig.runs().len(), rig.snapshot().held.len()), (0, 100, 0));
}

#[test]
fn a_retry_waits_for_the_thaw_and_what_runs_goes_on() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let retried = Spec { retry: Retry { max: 1, delay_ms: 1_000, ..Retry::default() }, ..echo(When::Manual) };
    let job = rig.job("job", retried);
    rig.trigger(job);
    let send = rig.take_send();
    rig.accept(send.attempt);
    freeze(&mut rig, None);
    rig.pass_beating(3_000, worker, &[send.attempt]);
    rig.report(&send, Outcome::Failed(Why::HandlerFailed));
    rig.pass(10_000);
    assert_eq!((rig.sends.len(), rig.snapshot().waiting[0].why), (0, Why::Frozen));
    thaw(&mut rig, Missed::Skip);
    assert_eq!(rig.take_send().no, 2);
}

#[test]
fn a_pause_and_an_edit_within_a_freeze_cover_their_own() {
    let mut rig = Rig::new();
    rig.worker(1);
    let paused = rig.job("paused", echo(When::EveryMs(10_000)));
    let edited = rig.job("edited", echo(When::EveryMs(10_000)));
    freeze(&mut rig, None);
    rig.pass(20_000);
    rig.set_state(paused, rota_core::job::JobState::Paused);
    rig.edit(edited, 1, echo(When::EveryMs(5_000)));
    rig.pass(20_000);
    thaw(&mut rig, Missed::FireOnce);
    rig.pass(1_000);
    let of = |job| rig.runs().into_iter().filter(|run| run.job == job).collect::<Vec<_>>();
    assert_eq!(of(paused).len(), 0, "its pause goes on");
    let rows: Vec<_> = of(edited).iter().map(|run| (run.version.0, run.slots, run.state)).collect();
    let expected = [(1, 2, RunState::Skipped), (2, 3, RunState::Skipped), (2, 1, RunState::Dispatched)];
    assert_eq!(rows, expected);
}

#[test]
fn a_rerun_keeps_version_slot_and_shards_and_leaves_out_what_succeeded() {
    let mut rig = Rig::new();
    rig.worker(1);
    let spec = Spec { shards: 3, overlap: Overlap::SKIP, ..echo(When::Manual) };
    let job = rig.job("job", spec.clone());
    let Answer::Triggered(first) = rig.trigger(job) else { panic!("it may run") };
    let mut definition = rig.definition(job, "job", spec.clone());
    definition.version = rota_core::id::Version(1);
    rig.edit(job, 1, Spec { shards: 1, ..spec });
    let original = rig.run(first);
    let order = |reused: &[u32]| RerunOrder {
        of: first,
        definition: definition.clone(),
        slot: original.slot,
        param: Some("x".into()),
        reused: reused.to_vec(),
        workers: Vec::new(),
        request_id: None,
        parent: None,
    };
    let ask = |rig: &mut Rig, reused: &[u32]| {
        let order = Box::new(order(reused));
        rig.answer(|reply| Input::Rerun { order, reply })
    };
    assert_eq!(ask(&mut rig, &[]), Answer::Refused(Why::Overlap), "the first one holds the place");
    rig.do_all();
    rig.pass(5_000);
    assert_eq!(ask(&mut rig, &[0, 1, 2]), Answer::Refused(Why::Invalid), "nothing would be left");
    let Answer::Triggered(again) = ask(&mut rig, &[0, 2]) else { panic!("it may run") };
    let run = rig.run(again);
    assert_eq!((run.origin, run.version.0, run.slot, run.shards), (Origin::Rerun, 1, original.slot, 3));
    let send = rig.take_send();
    assert_eq!((send.shard, send.shards, send.no, send.param.as_deref()), (1, 3, 1, Some("x")));
    // A new term knows which shards are settled.
    rig.restart(100);
    rig.report(&send, Outcome::Success);
    assert_eq!((rig.run(again).state, rig.attempts(again).len()), (RunState::Success, 1));
    freeze(&mut rig, None);
    assert_eq!(ask(&mut rig, &[0]), Answer::Refused(Why::Frozen));
}

#[test]
fn what_a_thaw_fires_still_waits_for_its_jitter() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::EveryMs(600_000));
    spec.jitter_ms = 300_000;
    let job = rig.job("tick", spec);
    freeze(&mut rig, None);
    rig.pass(601_000);
    let slot = UnixMs(START + 600_000);
    let offset = offset_ms(job, slot, 300_000);
    assert!(offset > 10_000, "the slot of this job starts {offset} ms after itself");
    thaw(&mut rig, Missed::FireOnce);
    rig.pass(offset - 2_000);
    assert!(rig.sends.is_empty());
    rig.pass(3_000);
    assert_eq!(rig.sends.iter().map(|send| send.slot).collect::<Vec<_>>(), [slot]);
}

#[test]
fn a_slot_that_waited_for_its_jitter_before_a_freeze_waits_for_it_after_the_thaw() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::EveryMs(600_000));
    spec.jitter_ms = 300_000;
    let job = rig.job("tick", spec);
    rig.pass(601_000);
    let slot = UnixMs(START + 600_000);
    let offset = offset_ms(job, slot, 300_000);
    assert!(offset > 20_000, "the slot of this job starts {offset} ms after itself");
    freeze(&mut rig, None);
    rig.restart(5_000);
    rig.pass(2_000);
    thaw(&mut rig, Missed::FireOnce);
    rig.pass(offset - 10_000);
    assert!(rig.sends.is_empty());
    rig.pass(5_000);
    assert_eq!(rig.sends.iter().map(|send| send.slot).collect::<Vec<_>>(), [slot]);
}
