//! Slots that wait for upstream jobs: held, asked about, fired or covered with the reason.

use rota_core::batch::RunState;
use rota_core::id::{JobId, RunId};
use rota_core::job::{JobState, Misfire, Spec, When};
use rota_core::misfire::Policy;
use rota_core::partition::{Input, Outcome};
use rota_core::time::UnixMs;
use rota_core::upstream::{Edge, Ended, OnSkip, Period};
use rota_core::why::Why;
use rota_port::store::Store as _;

use super::rig::{P0, Rig, START, echo, story};

fn edge(job: JobId) -> Edge {
    let (when, period, on_skip) = (Ended::Success, Period::SameSlot, OnSkip::Skip);
    Edge { job, name: format!("job {job}"), when, period, on_skip, deadline_ms: None }
}

fn minutely(edges: Vec<Edge>) -> Spec {
    Spec { after: edges, ..echo(When::Cron("* * * * *".into())) }
}

/// A rig with a worker, an upstream job and one that waits for it.
fn pair(change: impl FnOnce(&mut Edge)) -> (Rig, JobId, JobId) {
    let mut rig = Rig::new();
    rig.worker(1);
    let up = rig.job("up", minutely(vec![]));
    let mut after = edge(up);
    change(&mut after);
    let down = rig.job("down", minutely(vec![after]));
    (rig, up, down)
}

fn story_of(rig: &Rig, job: JobId) -> Vec<String> {
    let runs: Vec<_> = rig.runs().into_iter().filter(|run| run.job == job).collect();
    story(&runs)
}

fn held(rig: &Rig) -> Vec<(JobId, i64, Why)> {
    rig.snapshot().held.iter().map(|held| (held.job, (held.slot.0 - START) / 1_000, held.why)).collect()
}

#[test]
fn a_slot_waits_for_its_upstream_slot_and_fires_once_that_succeeded() {
    let (mut rig, up, down) = pair(|_| {});
    rig.pass(61_000);
    rig.judge();
    assert_eq!(held(&rig), [(down, 60, Why::Upstream)]);
    assert_eq!(rig.snapshot().held_counts, [(rig.app, Why::Upstream, 1)]);
    rig.do_all();
    assert_eq!(story_of(&rig, up), ["60 success"]);
    assert!(story_of(&rig, down).is_empty(), "nobody has looked since");
    rig.judge();
    assert_eq!(story_of(&rig, down), ["60 dispatched"]);
    assert!(held(&rig).is_empty() && rig.asks.is_empty());
}

#[test]
fn an_upstream_run_that_fails_covers_the_slot_at_once() {
    let (mut rig, up, down) = pair(|_| {});
    rig.pass(61_000);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.report(&send, Outcome::Failed(Why::HandlerFailed));
    rig.judge();
    assert_eq!(story_of(&rig, up), ["60 failed/handler_failed"]);
    assert_eq!(story_of(&rig, down), ["60 skipped/upstream_failed"]);
}

#[test]
fn an_upstream_slot_without_a_run_skips_the_slot_or_lets_it_run() {
    for (on_skip, expected) in
        [(OnSkip::Skip, vec!["60 skipped/upstream_skipped"]), (OnSkip::Run, vec!["60 dispatched"])]
    {
        let (mut rig, up, down) = pair(|edge| edge.on_skip = on_skip);
        rig.set_state(up, JobState::Paused);
        rig.pass(61_000);
        rig.judge();
        assert_eq!(story_of(&rig, down), expected, "{on_skip:?}");
    }
}

#[test]
fn a_deadline_ends_the_wait_whoever_notices_it() {
    let deadline = |edge: &mut Edge| edge.deadline_ms = Some(20_000);
    let (mut rig, _, down) = pair(deadline);
    rig.pass(81_000);
    rig.judge();
    assert_eq!(story_of(&rig, down), ["60 skipped/upstream_deadline"]);
    // Nobody answers: the machine ends the wait itself.
    let (mut rig, _, down) = pair(deadline);
    rig.pass(60_000 + 20_000 + 9_000);
    assert_eq!(held(&rig), [(down, 60, Why::Upstream)]);
    rig.pass(3_000);
    assert_eq!(story_of(&rig, down), ["60 skipped/upstream_deadline"]);
}

#[test]
fn a_start_deadline_ends_the_wait_too() {
    let mut rig = Rig::new();
    rig.worker(1);
    let up = rig.job("up", minutely(vec![]));
    let mut spec = minutely(vec![edge(up)]);
    spec.timeout.start_ms = Some(5_000);
    let down = rig.job("down", spec);
    rig.pass(64_000);
    assert_eq!(held(&rig), [(down, 60, Why::Upstream)]);
    rig.pass(3_000);
    assert_eq!(story_of(&rig, down), ["60 skipped/start_deadline"]);
}

#[test]
fn waiting_is_no_misfire_and_a_restart_asks_again() {
    let (mut rig, _, down) = pair(|_| {});
    rig.pass(61_000);
    rig.do_all();
    // Held until long after a misfire's minute, through another term.
    rig.restart(600_000);
    assert_eq!(held(&rig)[0], (down, 60, Why::Upstream));
    rig.judge();
    assert_eq!(story_of(&rig, down), ["60 dispatched"]);
    rig.judge();
    let second = &story_of(&rig, down)[1];
    assert_eq!(second, "120 skipped/upstream_skipped", "its upstream slot was a misfire of the outage");
}

#[test]
fn a_misfire_counts_from_the_end_of_the_wait() {
    let mut rig = Rig::new();
    rig.worker(1);
    let up = rig.job("up", minutely(vec![]));
    let mut spec = minutely(vec![Edge { deadline_ms: Some(600_000), ..edge(up) }]);
    spec.misfire = Misfire { policy: Policy::Skip, ..Misfire::default() };
    let down = rig.job("down", spec);
    rig.restart(1_200_000);
    // A minute of grace, after ten of waiting.
    assert_eq!(story_of(&rig, down), ["60..480 x8 skipped/misfire"]);
    assert_eq!(held(&rig)[0], (down, 540, Why::Upstream));
}

#[test]
fn who_waits_holds_up_nobody_and_not_the_mark() {
    let (mut rig, _, down) = pair(|_| {});
    rig.job("other", echo(When::EveryMs(10_000)));
    rig.pass(120_000);
    assert_eq!(held(&rig), [(down, 60, Why::Upstream)]);
    assert_eq!(rig.sends.len(), 12 + 2);
    rig.restart(1_000);
    let mark = rig.store.claim(&[P0]).unwrap().remove(0).mark;
    assert!(mark >= UnixMs(START + 110_000), "the mark stays behind at {mark}");
}

#[test]
fn dependents_that_wait_leave_their_upstream_job_the_whole_cap() {
    let mut rig = Rig::with(rota_core::partition::Config { pending_max: 2, ..rota_core::partition::Config::NATIVE });
    let up = rig.job("up", minutely(vec![]));
    rig.jobs("down", 50, |_| minutely(vec![edge(up)]));
    rig.step(Input::Permits(2));
    rig.pass(61_000);
    // Nobody is there to run anything; whoever comes finds the upstream job first.
    rig.judge();
    assert_eq!(rig.asks.len(), 50);
    rig.worker(1);
    let send = rig.take_send();
    assert_eq!(send.job, up);
    rig.accept(send.attempt);
    rig.report(&send, Outcome::Success);
    for _ in 0..100 {
        rig.judge();
        rig.do_all();
        rig.step(Input::Turn);
    }
    let done = rig.runs().iter().filter(|run| run.job != up && run.state == RunState::Success).count();
    assert_eq!(done, 50);
}

#[test]
fn an_edit_covers_what_waits_and_never_fires_it() {
    let (mut rig, _, down) = pair(|_| {});
    rig.pass(130_000);
    assert_eq!(held(&rig), [(down, 60, Why::Upstream)]);
    rig.edit(down, 1, echo(When::Cron("* * * * *".into())));
    assert_eq!(story_of(&rig, down), ["60..120 x2 skipped/edited"]);
    rig.pass(60_000);
    assert_eq!(story_of(&rig, down)[1], "180 dispatched", "the new version waits for nobody");
}

#[test]
fn what_is_met_stays_met_while_the_slot_waits_for_a_worker() {
    let mut rig = Rig::new();
    let up = rig.job("up", minutely(vec![]));
    let down = rig.job("down", minutely(vec![edge(up)]));
    rig.worker(1);
    rig.pass(61_000);
    rig.do_all();
    rig.step(Input::Drain {
        worker: rota_core::id::WorkerId(1),
        incarnation: rota_core::id::Incarnation(1),
        reply: rota_core::partition::ReplyTo(900),
    });
    rig.judge();
    assert_eq!(held(&rig), [(down, 60, Why::NoWorker)]);
    rig.pass(5_000);
    assert_eq!(held(&rig)[0], (down, 60, Why::NoWorker));
    assert!(rig.asks.is_empty(), "it is not asked about twice");
}

#[test]
fn whoever_watches_hears_of_every_end_once_it_is_durable() {
    let (mut rig, up, _) = pair(|_| {});
    rig.pass(61_000);
    rig.step(Input::WatchEnds(up));
    assert_eq!(std::mem::take(&mut rig.ended), [up], "what ended before the watch began");
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.holds_commits = true;
    let reply = rig.reply();
    rig.step(super::rig::results(&send, Outcome::Success, None, reply));
    assert!(rig.ended.is_empty(), "the end is not durable yet");
    rig.release_commits();
    assert_eq!(rig.ended, [up]);
    rig.ended.clear();
    rig.set_state(up, JobState::Paused);
    rig.pass(60_000);
    rig.set_state(up, JobState::Enabled);
    assert_eq!(rig.ended, [up], "a pause covered a slot");
}

#[test]
fn rows_that_a_waiting_slot_needs_are_not_swept() {
    let (mut rig, _, _) = pair(|_| {});
    rig.pass(61_000);
    rig.do_all();
    let first: RunId = rig.runs()[0].id;
    rig.pass(120_000);
    rig.do_all();
    assert!(rig.machine.floor() <= first.0);
    for _ in 0..5 {
        rig.judge();
        rig.do_all();
    }
    assert!(rig.asks.is_empty() && rig.machine.floor() > first.0);
}

#[test]
fn an_answer_to_what_is_no_longer_asked_changes_nothing() {
    let (mut rig, up, down) = pair(|_| {});
    rig.step(Input::Upstream { job: down, slot: UnixMs(START + 60_000), verdict: Ok(()) });
    rig.step(Input::Upstream { job: JobId(7), slot: UnixMs(START), verdict: Ok(()) });
    rig.pass(61_000);
    rig.step(Input::Upstream { job: down, slot: UnixMs(START), verdict: Ok(()) });
    rig.step(Input::Upstream { job: up, slot: UnixMs(START + 60_000), verdict: Err(Why::UpstreamFailed) });
    assert_eq!(held(&rig), [(down, 60, Why::Upstream)]);
    rig.set_state(down, JobState::Deleted);
    assert_eq!(story_of(&rig, down), ["60 discarded/deleted"]);
}
