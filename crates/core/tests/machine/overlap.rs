//! Overlap policies: who gets a place, who waits for one, who is cancelled for one, and that a restart decides the same.

use rota_core::batch::{AttemptState, Origin, RunState};
use rota_core::id::{JobId, RunId};
use rota_core::job::{Delivery, JobState, Overlap, Retry, Spec, Target, When};
use rota_core::overlap::Mode;
use rota_core::partition::{Answer, Dispatch, Input, Outcome};
use rota_core::why::Why;
use rota_port::history::History;
use rota_port::memory::MemoryStore;

use super::rig::{Rig, echo, story};

fn limited(schedule: When, overlap: Overlap) -> Spec {
    Spec { overlap, ..echo(schedule) }
}

fn ask(rig: &mut Rig, job: JobId, param: &str) -> Answer {
    let param = Some(param.into());
    rig.answer(|reply| Input::Trigger { job, param, request_id: None, origin: Origin::Api, parent: None, reply })
}

fn run_of(answer: &Answer) -> RunId {
    answer.run().unwrap_or_else(|| panic!("a run is made: {answer:?}"))
}

fn finish(rig: &mut Rig, send: &Dispatch) {
    rig.accept(send.attempt);
    rig.report(send, Outcome::Success);
}

fn states(rig: &Rig) -> Vec<String> {
    let word = |run: &rota_core::batch::Run| match run.why {
        Some(why) => format!("{}/{why}", run.state.word()),
        None => run.state.word().to_owned(),
    };
    rig.runs().iter().map(word).collect()
}

#[test]
fn a_maximum_lets_so_many_run_beside_each_other() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", limited(When::Manual, Overlap { max: Some(2), ..Overlap::ALLOW }));
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    assert_eq!(rig.trigger(job), Answer::Refused(Why::Overlap));
    let send = rig.sends.remove(0);
    finish(&mut rig, &send);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
}

#[test]
fn a_queue_is_bounded_and_served_in_order() {
    let mut rig = Rig::new();
    rig.worker(1);
    let queue = Overlap { queue: Some(2), ..Overlap::of(Mode::Queue) };
    let job = rig.job("tick", limited(When::EveryMs(10_000), queue));
    rig.pass(40_000);
    let expected = ["10 dispatched", "20 pending/overlap", "30 pending/overlap", "40 skipped/queue_full"];
    assert_eq!(story(&rig.runs()), expected);
    assert_eq!(rig.trigger(job), Answer::Refused(Why::QueueFull));
    let waiting = rig.snapshot().waiting;
    assert_eq!(waiting.iter().map(|w| w.why).collect::<Vec<_>>(), [Why::Overlap, Why::Overlap]);
    let send = rig.take_send();
    finish(&mut rig, &send);
    let second = rig.take_send();
    assert_eq!((second.slot.0 - send.slot.0, rig.runs()[1].why), (10_000, None));
    finish(&mut rig, &second);
    assert_eq!(rig.take_send().slot.0 - send.slot.0, 20_000);
}

#[test]
fn whoever_waits_takes_nothing_of_the_cap_and_the_mark_goes_on() {
    let mut rig = Rig::new();
    rig.worker(1);
    let wide = Spec { shards: 40, ..limited(When::Manual, Overlap::of(Mode::Queue)) };
    let job = rig.job("wide", wide);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    for _ in 0..30 {
        assert!(matches!(rig.trigger(job), Answer::Queued(_)), "1,200 waiting shards would be more than the cap");
    }
    let other = rig.job("other", echo(When::EveryMs(1_000)));
    assert!(matches!(rig.trigger(other), Answer::Triggered(_)));
    rig.pass(10_000);
    let mark = rig.store.with(|state| state.header(super::rig::P0)).mark;
    assert!(rig.now.wall.since_ms(mark) <= 1_000, "the mark stands at {mark}");
}

#[test]
fn a_run_that_waits_ends_with_its_start_deadline_or_a_kill() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = limited(When::Manual, Overlap::of(Mode::Queue));
    spec.timeout.start_ms = Some(30_000);
    let job = rig.job("job", spec);
    rig.trigger(job);
    let (late, killed) = (run_of(&rig.trigger(job)), run_of(&rig.trigger(job)));
    assert_eq!(rig.kill(killed), Answer::Killing);
    rig.pass(31_000);
    assert_eq!((rig.run(late).state, rig.run(late).why), (RunState::Failed, Some(Why::StartDeadline)));
    assert_eq!((rig.run(killed).state, rig.run(killed).why), (RunState::Killed, Some(Why::KilledByUser)));
    assert!(rig.attempts(late).is_empty() && rig.attempts(killed).is_empty());
}

#[test]
fn a_retry_in_backoff_keeps_the_place() {
    let mut rig = Rig::new();
    rig.worker(1);
    let retry = Retry { max: 1, delay_ms: 20_000, ..Retry::default() };
    let job = rig.job("job", Spec { retry, ..limited(When::Manual, Overlap::of(Mode::Queue)) });
    let first = run_of(&rig.trigger(job));
    let next = run_of(&rig.trigger(job));
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.report(&send, Outcome::Failed(Why::HandlerFailed));
    assert!(rig.sends.is_empty(), "the run waits for its retry");
    rig.pass(20_000);
    let again = rig.take_send();
    assert_eq!((again.run, again.no), (first, 2));
    finish(&mut rig, &again);
    assert_eq!(rig.take_send().run, next);
}

#[test]
fn a_place_is_kept_until_the_attempt_is_released() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = limited(When::Manual, Overlap::of(Mode::Queue));
    (spec.timeout.attempt_ms, spec.delivery) = (Some(10_000), Some(Delivery::AtMostOnce));
    let job = rig.job("job", spec);
    let first = run_of(&rig.trigger(job));
    rig.trigger(job);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.pass_beating(60_000, worker, &[send.attempt]);
    assert_eq!(rig.run(first).state, RunState::Timeout, "it has ended");
    assert!(rig.sends.is_empty(), "and its code may still run");
    rig.report(&send, Outcome::Killed);
    assert_eq!(rig.sends.len(), 1);
}

#[test]
fn cancel_running_cancels_before_it_sends_and_begins_at_once() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", limited(When::EveryMs(10_000), Overlap::of(Mode::CancelRunning)));
    rig.pass(10_000);
    let first = rig.take_send();
    rig.accept(first.attempt);
    rig.holds_commits = true;
    rig.silence(10_000);
    assert!(rig.sends.is_empty() && rig.cancels.is_empty(), "nothing leaves before the batch is durable");
    let rows: Vec<&rota_core::batch::Row> = rig.held.iter().flat_map(|batch| &batch.rows).collect();
    let place = |is: &dyn Fn(&rota_core::batch::Row) -> bool| rows.iter().position(|row| is(row)).unwrap();
    let stops = place(&|row| matches!(row, rota_core::batch::Row::AttemptSet(a) if a.state == AttemptState::Stopping));
    let begins = place(&|row| matches!(row, rota_core::batch::Row::Run(_)));
    assert!(stops < begins);
    rig.release_commits();
    assert_eq!(rig.cancels.len(), 1);
    let second = rig.take_send();
    assert_eq!(second.slot.0 - first.slot.0, 10_000);
    rig.report(&first, Outcome::Killed);
    assert_eq!(states(&rig)[0], "killed/cancelled_by_overlap");
    assert_eq!(rig.attempts(first.run)[0].why, Some(Why::CancelledByOverlap));
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    rig.report(&second, Outcome::Success);
    assert_eq!(rig.run(second.run).state, RunState::Killed, "a cancelled run stays one");
}

#[test]
fn cancel_running_takes_the_place_even_of_the_only_capacity() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.answer(|reply| {
        let beat = rota_core::partition::Beat {
            worker: rota_core::id::WorkerId(1),
            incarnation: rota_core::id::Incarnation(1),
            no: 1,
            running: Vec::new(),
            finished: Vec::new(),
            capacity: Some(1),
            labels: None,
        };
        Input::Beat { beat: Box::new(beat), reply }
    });
    let job = rig.job("job", limited(When::EveryMs(10_000), Overlap::of(Mode::CancelRunning)));
    rig.pass(10_000);
    let first = rig.take_send();
    rig.accept(first.attempt);
    rig.pass(10_000);
    assert_eq!((rig.cancels.len(), rig.sends.len()), (1, 0), "the one that runs has the only capacity");
    rig.report(&first, Outcome::Killed);
    assert_eq!(rig.take_send().slot.0 - first.slot.0, 10_000);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
}

#[test]
fn cancel_and_wait_begins_once_the_place_is_free_and_the_newest_waits() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", limited(When::Manual, Overlap::of(Mode::CancelAndWait)));
    rig.trigger(job);
    let first = rig.take_send();
    rig.accept(first.attempt);
    let Answer::Queued(second) = rig.trigger(job) else { panic!("it waits") };
    let Answer::Queued(third) = rig.trigger(job) else { panic!("it waits") };
    assert_eq!((rig.cancels.len(), rig.sends.len()), (1, 0));
    assert_eq!((rig.run(second).state, rig.run(second).why), (RunState::Discarded, Some(Why::CancelledByOverlap)));
    rig.report(&first, Outcome::Killed);
    assert_eq!(rig.take_send().run, third);
    rig.pass(1_000);
    assert_eq!(states(&rig), ["killed/cancelled_by_overlap", "discarded/cancelled_by_overlap", "dispatched"]);
}

#[test]
fn cancel_and_wait_of_what_was_not_sent_yet_begins_at_once() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", limited(When::Manual, Overlap::of(Mode::CancelAndWait)));
    rig.holds_commits = true;
    let (one, two) = (rig.reply(), rig.reply());
    for reply in [one, two] {
        rig.step(Input::Trigger { job, param: None, request_id: None, origin: Origin::Api, parent: None, reply });
    }
    rig.release_commits();
    rig.pass(1_000);
    assert_eq!(states(&rig), ["killed/cancelled_by_overlap", "dispatched"]);
    assert_eq!(rig.take_send().run, rig.runs()[1].id);
}

#[test]
fn merge_lets_one_wait_for_all_that_come() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", limited(When::EveryMs(10_000), Overlap::of(Mode::Merge)));
    rig.pass(40_000);
    let rows = ["10 dispatched", "20 pending/overlap", "30 merged/merged", "40 merged/merged"];
    assert_eq!(story(&rig.runs()), rows);
    let ids: Vec<RunId> = rig.runs().iter().map(|run| run.id).collect();
    let into = |store: &MemoryStore, run| store.merged_into(run).unwrap();
    assert_eq!((into(&rig.store, ids[2]), into(&rig.store, ids[3])), (Some(ids[1]), Some(ids[1])));
    let Answer::Merged { run, into: waits } = rig.trigger(job) else { panic!("it is merged") };
    assert_eq!((waits, into(&rig.store, run)), (ids[1], Some(ids[1])));
    assert_eq!((rig.run(run).origin, rig.run(run).state), (Origin::Manual, RunState::Merged));
    let send = rig.take_send();
    finish(&mut rig, &send);
    assert_eq!(rig.take_send().run, ids[1]);
    rig.pass(10_000);
    assert_eq!(story(&rig.runs())[5..], ["50 pending/overlap"]);
}

#[test]
fn a_key_gives_each_value_its_own_places() {
    let mut rig = Rig::new();
    rig.worker(1);
    let overlap = Overlap { key: Some("tenant".into()), ..Overlap::of(Mode::Queue) };
    let target = Target::Handler { name: "echo".into(), param: "tenant=a".into() };
    let job = rig.job("job", Spec { target, ..limited(When::Manual, overlap) });
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    assert!(matches!(ask(&mut rig, job, "tenant=b"), Answer::Triggered(_)));
    assert!(matches!(ask(&mut rig, job, r#"{"tenant": "a"}"#), Answer::Queued(_)));
    let Answer::Queued(waits) = ask(&mut rig, job, "x=1 tenant=b") else { panic!("b is taken") };
    assert!(matches!(ask(&mut rig, job, "nothing"), Answer::Triggered(_)));
    assert!(matches!(ask(&mut rig, job, ""), Answer::Queued(_)), "without a value they share places");
    let b = rig.sends.remove(1);
    assert_eq!(b.param.as_deref(), Some("tenant=b"));
    rig.sends.clear();
    finish(&mut rig, &b);
    assert_eq!(rig.take_send().run, waits);
}

#[test]
fn a_restart_finds_who_holds_and_who_waits() {
    for runs_on in [false, true] {
        let mut rig = Rig::new();
        rig.worker(1);
        let job = rig.job("tick", limited(When::EveryMs(10_000), Overlap::of(Mode::Queue)));
        rig.pass(30_000);
        let first = rig.take_send();
        rig.accept(first.attempt);
        if !runs_on {
            rig.report(&first, Outcome::Success);
            assert_eq!(rig.take_send().slot.0 - first.slot.0, 10_000);
        }
        rig.restart(5_000);
        assert!(rig.sends.is_empty(), "the place is held by what is asked after");
        let waiting = rig.snapshot().waiting.len();
        assert_eq!(waiting, if runs_on { 2 } else { 1 });
        let open: Vec<RunId> = rig.runs().iter().filter(|run| !run.state.is_terminal()).map(|run| run.id).collect();
        rig.kill(open[0]);
        rig.report(&first, Outcome::Killed);
        assert!(matches!(rig.trigger(job), Answer::Queued(_)));
    }
}

#[test]
fn a_restart_between_release_and_begin_lets_the_same_run_begin() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", limited(When::Manual, Overlap::of(Mode::Queue)));
    rig.trigger(job);
    let send = rig.take_send();
    let (second, third) = (run_of(&rig.trigger(job)), run_of(&rig.trigger(job)));
    rig.accept(send.attempt);
    rig.holds_commits = true;
    let reply = rig.reply();
    rig.step(super::rig::results(&send, Outcome::Success, None, reply));
    rig.crash(1);
    assert_eq!(rig.run(send.run).state, RunState::Success);
    let waiting: Vec<RunId> = rig.snapshot().waiting.iter().map(|w| w.run).collect();
    let begun = rig.attempts(second).len() + rig.sends.len();
    assert!(begun > 0 && waiting == [third], "{waiting:?}");
}

#[test]
fn an_edit_seats_everybody_under_the_new_policy() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", limited(When::Manual, Overlap::of(Mode::Queue)));
    for _ in 0..4 {
        rig.trigger(job);
    }
    assert_eq!(rig.sends.len(), 1);
    rig.edit(job, 1, limited(When::Manual, Overlap { max: Some(2), ..Overlap::of(Mode::Queue) }));
    assert_eq!(rig.sends.len(), 2, "there is a second place");
    rig.edit(job, 2, limited(When::Manual, Overlap::SKIP));
    assert_eq!((rig.sends.len(), rig.snapshot().waiting.len()), (2, 2), "who waits goes on waiting");
    assert_eq!(rig.trigger(job), Answer::Refused(Why::Overlap));
    rig.edit(job, 3, echo(When::Manual));
    assert_eq!((rig.sends.len(), rig.snapshot().waiting.len()), (4, 0), "there is no limit");
    rig.edit(job, 4, limited(When::Manual, Overlap::of(Mode::CancelAndWait)));
    assert!(matches!(rig.trigger(job), Answer::Queued(_)));
    assert_eq!(rig.cancels.len(), 4);
}

#[test]
fn a_deletion_discards_who_waits() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", limited(When::Manual, Overlap::of(Mode::Queue)));
    rig.trigger(job);
    let waits = run_of(&rig.trigger(job));
    rig.set_state(job, JobState::Deleted);
    assert_eq!((rig.run(waits).state, rig.run(waits).why), (RunState::Discarded, Some(Why::Deleted)));
}

/// Field case B073: one at a time in the whole cluster, whoever is chosen.
#[test]
fn three_workers_in_turn_run_one_at_a_time() {
    let mut rig = Rig::new();
    rig.workers(3);
    let mut spec = limited(When::EveryMs(5_000), Overlap::SKIP);
    spec.route.strategy = rota_core::job::Strategy::AppRoundRobin;
    rig.job("tick", spec);
    let mut ended = 0;
    for second in 1..=60 {
        rig.pass(1_000);
        assert!(rig.sends.len() <= 1, "two run at once");
        let is_over = rig.sends.first().is_some_and(|send| rig.now.wall.since_ms(send.slot) >= 14_000);
        if is_over {
            let send = rig.take_send();
            finish(&mut rig, &send);
            ended += 1;
        }
        assert!(ended <= second / 14);
    }
    let count = |word: &str| states(&rig).iter().filter(|state| *state == word).count();
    assert_eq!((states(&rig).len(), count("skipped/overlap")), (12, 8));
}

/// Field case B074: the end of a lost run frees its place, and the next slot runs.
#[test]
fn a_lost_run_frees_its_place() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("tick", limited(When::EveryMs(60_000), Overlap::SKIP));
    rig.pass(60_000);
    let send = rig.take_send();
    rig.accept(send.attempt);
    rig.replace_worker(1, 2);
    rig.silence(1_000);
    assert_eq!(rig.run(send.run).state, RunState::Lost);
    rig.pass(60_000);
    assert_eq!(rig.take_send().slot.0 - send.slot.0, 60_000);
}

/// Field case B035: what was missed obeys the overlap policy.
#[test]
fn slots_that_come_together_run_one_after_the_other() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.job("serial", limited(When::EveryMs(10_000), Overlap::of(Mode::Queue)));
    rig.restart(60_000);
    let mut ran = 0;
    while let Some(send) = rig.sends.first().cloned() {
        assert_eq!(rig.sends.len(), 1);
        rig.sends.clear();
        finish(&mut rig, &send);
        ran += 1;
    }
    assert_eq!(ran, 6);
}
