//! Jobs that are fired by the ends of others' runs.

use rota_core::batch::{Origin, Row, Run, RunState};
use rota_core::child::Link;
use rota_core::freeze::Missed;
use rota_core::id::{Block, JobId, RunId};
use rota_core::job::{JobState, Overlap, Spec, When};
use rota_core::overlap::Mode;
use rota_core::partition::{Answer, Input, Outcome, RerunOrder};
use rota_core::restore;
use rota_core::time::UnixMs;
use rota_core::upstream::{Edge, Ended, OnSkip, Period};
use rota_core::why::Why;
use rota_port::child::Notes as _;
use rota_port::history::History as _;
use rota_port::store::{Reservation, Reserved, Store as _};

use super::rig::{P0, Rig, START, echo, story};

fn edge(job: JobId, when: Ended) -> Edge {
    let (period, on_skip) = (Period::SameSlot, OnSkip::Skip);
    Edge { job, name: format!("job-{job}"), when, period, on_skip, deadline_ms: None }
}

fn child_of(edges: Vec<Edge>) -> Spec {
    Spec { after: edges, ..echo(When::Manual) }
}

/// A rig with a worker, a minutely job, and one that its ends fire.
fn family(when: Ended) -> (Rig, JobId, JobId) {
    let mut rig = Rig::new();
    rig.worker(1);
    let parent = rig.job("parent", echo(When::Cron("* * * * *".into())));
    let child = rig.job("child", child_of(vec![edge(parent, when)]));
    (rig, parent, child)
}

fn runs_of(rig: &Rig, job: JobId) -> Vec<Run> {
    rig.runs().into_iter().filter(|run| run.job == job).collect()
}

fn story_of(rig: &Rig, job: JobId) -> Vec<String> {
    story(&runs_of(rig, job))
}

fn notes(rig: &Rig) -> usize {
    rig.store.notes(P0, 0, u32::MAX).unwrap().len()
}

/// The only send, ended so.
fn end(rig: &mut Rig, outcome: Outcome) {
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.report(&send, outcome);
}

#[test]
fn an_end_fires_the_child_once_with_the_slot_of_its_parent() {
    let (mut rig, parent, child) = family(Ended::Success);
    rig.pass(61_500);
    end(&mut rig, Outcome::Success);
    assert_eq!((notes(&rig), story_of(&rig, child).len()), (1, 0), "durable, and nobody has carried it");
    rig.carry_notes();
    assert_eq!(story_of(&rig, child), ["60 dispatched"]);
    assert_eq!(notes(&rig), 0, "taken away with the run");
    let (of, run) = (runs_of(&rig, parent)[0].id, runs_of(&rig, child).remove(0));
    assert_eq!((run.origin, run.version.0, run.param), (Origin::Upstream, 1, None));
    assert_eq!(rig.store.child(run.id), Ok(Some(Link { run: run.id, parent: of, note: 1 })));
    assert_eq!(rig.store.children_of(of).unwrap().len(), 1);
    assert_eq!(rig.take_send().slot, UnixMs(START + 60_000));
}

#[test]
fn a_note_that_is_told_again_fires_nothing_even_after_it_was_answered() {
    let (mut rig, _, child) = family(Ended::Success);
    rig.pass(61_000);
    end(&mut rig, Outcome::Success);
    let told = rig.store.notes(P0, 0, 10).unwrap();
    rig.holds_commits = true;
    rig.step(Input::Children(told.clone()));
    rig.step(Input::Children(told.clone()));
    assert_eq!((notes(&rig), rig.held.len()), (1, 1), "on its way");
    rig.release_commits();
    // Read before the answer was durable, and told after it.
    rig.step(Input::Children(told));
    assert_eq!(story_of(&rig, child), ["60 dispatched"]);
}

#[test]
fn an_edge_asks_for_how_a_run_ends() {
    let failed = Outcome::Failed(Why::HandlerFailed);
    for (when, on_success, on_failure) in [(Ended::Success, 1, 0), (Ended::Failure, 0, 1), (Ended::Completion, 1, 1)] {
        for (outcome, expected) in [(Outcome::Success, on_success), (failed, on_failure)] {
            let (mut rig, _, child) = family(when);
            rig.pass(61_000);
            end(&mut rig, outcome);
            rig.carry_notes();
            assert_eq!(runs_of(&rig, child).len(), expected, "{when:?} {outcome:?}");
        }
    }
}

#[test]
fn what_never_ran_ends_nothing_and_fires_nothing() {
    let (mut rig, parent, child) = family(Ended::Completion);
    rig.restart(600_000); // a misfire: one slot fires, the others have a row
    assert!(story_of(&rig, parent)[0].ends_with("skipped/misfire"), "{:?}", story_of(&rig, parent));
    rig.carry_notes();
    assert_eq!((notes(&rig), runs_of(&rig, child).len()), (0, 0));
}

#[test]
fn a_late_success_of_a_failed_run_fires_nothing() {
    let (mut rig, parent, child) = family(Ended::Success);
    rig.pass(61_000);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.silence(60_000);
    assert_eq!(story_of(&rig, parent)[0], "60 lost/worker_silent");
    rig.report(&send, Outcome::Success);
    rig.carry_notes();
    assert_eq!((notes(&rig), runs_of(&rig, child).len()), (0, 0));
}

#[test]
fn every_run_of_the_parent_counts_whatever_made_it() {
    let (mut rig, parent, child) = family(Ended::Success);
    rig.set_state(parent, JobState::Paused);
    let Answer::Triggered(first) = rig.trigger(parent) else { panic!("it runs") };
    end(&mut rig, Outcome::Failed(Why::HandlerFailed));
    rig.carry_notes();
    assert!(runs_of(&rig, child).is_empty());
    let definition = rig.store.with(|state| state.jobs()[&parent][0].clone());
    let slot = rig.run(first).slot;
    let order = RerunOrder {
        of: first,
        definition,
        slot,
        param: None,
        reused: Vec::new(),
        workers: Vec::new(),
        request_id: None,
        parent: None,
    };
    rig.answer(|reply| Input::Rerun { order: Box::new(order), reply });
    end(&mut rig, Outcome::Success);
    rig.carry_notes();
    assert_eq!(runs_of(&rig, child).iter().map(|run| run.slot).collect::<Vec<_>>(), [slot]);
}

#[test]
fn a_chain_goes_on_with_the_same_slot() {
    let (mut rig, _, child) = family(Ended::Success);
    let last = rig.job("last", child_of(vec![edge(child, Ended::Success)]));
    rig.pass(61_000);
    for _ in 0..3 {
        end(&mut rig, Outcome::Success);
        rig.carry_notes();
    }
    assert_eq!((story_of(&rig, child), story_of(&rig, last)), (vec!["60 success".into()], vec!["60 success".into()]));
}

#[test]
fn several_parents_fire_each_by_itself() {
    let (mut rig, parent, _) = family(Ended::Success);
    let other = rig.job("other", echo(When::Manual));
    let both = rig.job("both", child_of(vec![edge(parent, Ended::Success), edge(other, Ended::Failure)]));
    rig.trigger(other);
    end(&mut rig, Outcome::Failed(Why::HandlerFailed));
    rig.carry_notes();
    assert_eq!(runs_of(&rig, both).len(), 1);
    end(&mut rig, Outcome::Success);
    rig.pass(61_000);
    end(&mut rig, Outcome::Success);
    rig.carry_notes();
    assert_eq!(runs_of(&rig, both).len(), 2);
}

#[test]
fn all_shards_of_a_parent_fire_one_child() {
    let mut rig = Rig::new();
    rig.worker(1);
    let parent = rig.job("parent", Spec { shards: 4, ..echo(When::Manual) });
    let child = rig.job("child", Spec { shards: 4, ..child_of(vec![edge(parent, Ended::Success)]) });
    rig.trigger(parent);
    let sends = std::mem::take(&mut rig.sends);
    for send in &sends {
        assert_eq!(notes(&rig), 0);
        rig.accept(send.attempt);
        rig.report(send, Outcome::Success);
    }
    // Each says so again.
    for send in &sends {
        rig.report(send, Outcome::Success);
        rig.report(send, Outcome::Failed(Why::HandlerFailed));
    }
    rig.carry_notes();
    assert_eq!(runs_of(&rig, child).iter().map(|run| run.shards).collect::<Vec<_>>(), [4]);
}

#[test]
fn a_crash_between_the_end_and_the_child_loses_nothing_and_doubles_nothing() {
    // The answer is lost, durable and unheard, or not there yet.
    for (told, durable, before) in [(false, 0, 0), (true, 0, 0), (true, 1, 1)] {
        let (mut rig, _, child) = family(Ended::Success);
        rig.pass(61_000);
        end(&mut rig, Outcome::Success);
        if told {
            rig.holds_commits = true;
            rig.carry_notes();
            rig.crash(durable);
        } else {
            rig.restart(0);
        }
        assert_eq!(runs_of(&rig, child).len(), before, "{told} {durable}");
        rig.carry_notes();
        assert_eq!((notes(&rig), runs_of(&rig, child).len()), (0, 1), "{told} {durable}");
    }
}

#[test]
fn a_paused_child_gets_a_row() {
    let (mut rig, parent, child) = family(Ended::Success);
    rig.set_state(child, JobState::Paused);
    rig.pass(61_000);
    end(&mut rig, Outcome::Success);
    rig.carry_notes();
    assert_eq!((story_of(&rig, child), notes(&rig)), (vec!["60 skipped/paused".to_owned()], 0));
    let of = runs_of(&rig, parent)[0].id;
    assert_eq!(rig.store.children_of(of).unwrap().len(), 1, "it is linked too");
}

#[test]
fn a_deleted_child_gets_a_row_for_what_ended_before() {
    let (mut rig, _, child) = family(Ended::Success);
    rig.pass(61_000);
    end(&mut rig, Outcome::Success);
    rig.set_state(child, JobState::Deleted);
    rig.carry_notes();
    assert_eq!((story_of(&rig, child), notes(&rig)), (vec!["60 discarded/deleted".to_owned()], 0));
    rig.pass(60_000);
    end(&mut rig, Outcome::Success);
    assert_eq!(notes(&rig), 0, "it has no edge any more");
}

#[test]
fn an_edit_decides_about_ends_that_come_after_it() {
    let (mut rig, parent, child) = family(Ended::Success);
    rig.pass(61_000);
    end(&mut rig, Outcome::Success);
    rig.edit(child, 1, child_of(vec![edge(parent, Ended::Failure)]));
    rig.carry_notes();
    assert_eq!(
        runs_of(&rig, child).iter().map(|run| run.version.0).collect::<Vec<_>>(),
        [2],
        "owed, by the new version"
    );
    end(&mut rig, Outcome::Success);
    rig.pass(60_000);
    end(&mut rig, Outcome::Success);
    assert_eq!(notes(&rig), 0);
    rig.edit(child, 2, child_of(vec![]));
    rig.pass(60_000);
    end(&mut rig, Outcome::Failed(Why::HandlerFailed));
    assert_eq!(notes(&rig), 0);
}

#[test]
fn a_child_that_is_made_while_its_parent_runs_hears_of_that_run() {
    let mut rig = Rig::new();
    rig.worker(1);
    let parent = rig.job("parent", echo(When::Manual));
    rig.trigger(parent);
    let child = rig.job("child", child_of(vec![edge(parent, Ended::Success)]));
    end(&mut rig, Outcome::Success);
    rig.carry_notes();
    assert_eq!(runs_of(&rig, child).len(), 1);
}

fn freeze(rig: &mut Rig) {
    let (app, by, reason) = (Some(rig.app), "ann".into(), "the disk burns".into());
    rig.answer(|reply| Input::Freeze { app, by, reason, reply });
}

fn thaw(rig: &mut Rig, missed: Missed) {
    let (app, by) = (Some(rig.app), "ann".into());
    rig.answer(|reply| Input::Thaw { app, by, missed, reply });
}

#[test]
fn what_ended_in_a_freeze_waits_and_is_answered_as_the_thaw_says() {
    for (missed, expected) in [(Missed::FireOnce, "60 dispatched"), (Missed::Skip, "60 skipped/frozen")] {
        for restarts in [false, true] {
            let (mut rig, _, child) = family(Ended::Success);
            rig.pass(61_000);
            let send = rig.take_send();
            rig.accept(send.attempt);
            freeze(&mut rig);
            rig.advance(1_000);
            rig.report(&send, Outcome::Success);
            rig.carry_notes();
            assert_eq!((runs_of(&rig, child).len(), notes(&rig)), (0, 1));
            let waiting = rig.snapshot().notes;
            assert_eq!(
                waiting.iter().map(|it| (it.app, it.why, it.count)).collect::<Vec<_>>(),
                [(rig.app, Why::Frozen, 1)]
            );
            rig.advance(1_000);
            thaw(&mut rig, missed);
            if restarts {
                rig.restart(100);
                rig.carry_notes();
            }
            rig.step(Input::Turn);
            assert_eq!((story_of(&rig, child).first().map(String::as_str), notes(&rig)), (Some(expected), 0));
        }
    }
}

#[test]
fn a_full_cap_lets_notes_wait_and_loses_none() {
    let (mut rig, parent, child) = family(Ended::Success);
    let what = Reservation::App { namespace: "default".into(), name: "etl".into(), pending_max: Some(1), rates: None };
    let Ok(Reserved::App(app)) = rig.store.reserve(&what) else { panic!("it is there") };
    rig.step(Input::App(app));
    rig.set_state(parent, JobState::Paused);
    rig.trigger(parent);
    let send = rig.take_send();
    // Nobody takes it: it is below the cap no longer.
    let filler = rig.job(
        "filler",
        Spec {
            target: rota_core::job::Target::Handler { name: "unknown".into(), param: String::new() },
            ..echo(When::Manual)
        },
    );
    assert!(matches!(rig.trigger(filler), Answer::Triggered(_)));
    rig.accept(send.attempt);
    rig.report(&send, Outcome::Success);
    rig.carry_notes();
    rig.pass(5_000);
    assert_eq!((notes(&rig), runs_of(&rig, child).len()), (1, 0));
    assert_eq!(rig.snapshot().notes[0].why, Why::Cap);
    let waits: Vec<RunId> = runs_of(&rig, filler).iter().map(|run| run.id).collect();
    rig.kill(waits[0]);
    assert_eq!((notes(&rig), runs_of(&rig, child).len()), (0, 1), "it is tried again as soon as there is room");
}

#[test]
fn overlap_says_to_a_child_what_it_says_to_any_run() {
    for (overlap, expected) in [
        (Overlap::of(Mode::Skip), vec!["60 dispatched", "120 skipped/overlap"]),
        (Overlap::of(Mode::Queue), vec!["60 dispatched", "120 pending/overlap"]),
        (Overlap::of(Mode::Merge), vec!["60 dispatched", "120 pending/overlap", "180 merged/merged"]),
    ] {
        let (mut rig, _, child) = family(Ended::Success);
        let edges = rig.store.with(|state| state.jobs()[&child][0].spec.after.clone());
        rig.edit(child, 1, Spec { overlap, ..child_of(edges) });
        for _ in 0..expected.len() {
            rig.pass(60_500);
            let at = rig.sends.iter().position(|send| send.job != child).expect("the parent's");
            let send = rig.sends.remove(at);
            rig.accept(send.attempt);
            rig.report(&send, Outcome::Success);
            rig.carry_notes();
        }
        assert_eq!(story_of(&rig, child), expected);
        assert_eq!(notes(&rig), 0);
    }
}

#[test]
fn a_child_has_no_slots_and_no_start_deadline_by_its_parents_slot() {
    let (mut rig, parent, _) = family(Ended::Success);
    let mut spec = child_of(vec![edge(parent, Ended::Success)]);
    spec.timeout.start_ms = Some(5_000);
    let child = rig.job("timed", spec);
    rig.pass(61_000);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.pass(30_000);
    rig.report(&send, Outcome::Success);
    rig.carry_notes();
    assert_eq!(story_of(&rig, child), ["60 dispatched"], "its slot is half a minute old, and it is not late");
}

#[test]
fn edges_of_a_child_say_nothing_of_slots() {
    let mut rig = Rig::new();
    let parent = rig.job("parent", echo(When::Manual));
    let refused = |change: &dyn Fn(&mut Edge)| {
        let mut edge = edge(parent, Ended::Success);
        change(&mut edge);
        let spec = child_of(vec![edge]);
        let job = spec.compile(JobId(9), rota_core::id::Version(1), rig.app, "child", JobState::Enabled);
        job.err().map(|invalid| (invalid.field, invalid.message.split('`').nth(1).map(str::to_owned)))
    };
    assert_eq!(refused(&|_| {}), None);
    assert_eq!(refused(&|edge| edge.period = Period::Latest), Some(("after", Some("period".into()))));
    assert_eq!(refused(&|edge| edge.on_skip = OnSkip::Run), Some(("after", Some("on_skip".into()))));
    assert_eq!(refused(&|edge| edge.deadline_ms = Some(60_000)), Some(("after", Some("deadline".into()))));
}

#[test]
fn a_restored_copy_fires_nothing_that_may_have_fired() {
    let (mut rig, parent, child) = family(Ended::Success);
    rig.pass(61_000);
    end(&mut rig, Outcome::Success);
    let told = rig.store.notes(P0, 0, 10).unwrap();
    let first = rig.store.reserve_ids(rota_core::id::id_floor(rig.now.wall), 10).unwrap();
    let rows: Vec<Row> = restore::answers(&told, rig.now.wall, &mut Block::new(first, first + 10));
    rig.write_behind_its_back(rows);
    rig.restart(0);
    rig.carry_notes();
    let (runs, of) = (runs_of(&rig, child), runs_of(&rig, parent)[0].id);
    assert_eq!((story(&runs), notes(&rig)), (vec!["60 skipped/restored".to_owned()], 0));
    assert_eq!((runs[0].origin, runs[0].state), (Origin::Upstream, RunState::Skipped));
    assert_eq!(rig.store.child(runs[0].id).unwrap().map(|link| link.parent), Some(of));
}
