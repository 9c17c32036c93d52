//! Cases from the field that no other test has for its subject; the numbers are those of the case list.

use rota_core::batch::{AttemptState, RunState};
use rota_core::id::{Incarnation, RunId, WorkerId};
use rota_core::job::{Misfire, Overlap, Retry, Spec, Strategy, When};
use rota_core::misfire::Policy;
use rota_core::partition::{Answer, Beat, Dispatch, Input, Outcome};
use rota_core::why::Why;

use super::rig::{Rig, START, echo, story};

fn allow(schedule: When) -> Spec {
    Spec { overlap: Overlap::ALLOW, ..echo(schedule) }
}

fn triggered(rig: &mut Rig, spec: Spec, name: &str) -> Dispatch {
    let job = rig.job(name, spec);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    rig.take_send()
}

/// What a preview shows is what fires, in the nights in which clocks change too.
#[test]
fn b026_a_preview_is_what_fires() {
    const HOUR_MS: u64 = 3_600_000;
    // From 2027-03-27T22:00Z and 2027-10-30T22:00Z on: in both nights clocks change in Berlin.
    for (days, cron) in
        [(116, "0 30 2 * * ?"), (333, "0 30 2 * * ?"), (116, "0 0/20 1-3 * * ?"), (333, "0 0/20 1-3 * * ?")]
    {
        let mut rig = Rig::new();
        rig.advance((days * 24 + 22) * HOUR_MS);
        let worker = rig.worker(1);
        let mut spec = allow(When::Cron(cron.to_owned()));
        spec.zone = "Europe/Berlin".to_owned();
        let job = rig.job("tick", spec.clone());
        let schedule = rig.definition(job, "tick", spec).compile().unwrap().schedule.unwrap();
        let until = rig.now.wall.plus_ms(5 * 3_600_000);
        let preview: Vec<i64> = schedule.between(rig.now.wall, until).map(|slot| slot.0).collect();
        assert!(!preview.is_empty());
        for beat in 0..5 * 720 {
            rig.advance(5_000);
            rig.beat(worker, beat, &[]);
            rig.do_all();
        }
        let fired: Vec<i64> = rig.runs().iter().map(|run| run.slot.0).collect();
        assert_eq!(fired, preview, "{cron} after {days} days");
    }
}

/// The shell slept for 95 s over two slots: what is due follows from what is covered, not from how long ago it was.
#[test]
fn b039_a_gap_between_two_looks_loses_no_slot() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = allow(When::EveryMs(60_000));
    spec.misfire = Misfire { policy: Policy::CatchUp, ..Misfire::default() };
    rig.job("tick", spec);
    rig.pass(30_000);
    rig.advance(95_000);
    rig.beat(worker, 2_000, &[]);
    rig.pass(20_000);
    rig.do_all();
    let slots: Vec<i64> = rig.runs().iter().map(|run| (run.slot.0 - START) / 1_000).collect();
    assert_eq!(slots, [60, 120]);
}

/// The worker reports, and dies a second later: what has ended is not run again.
#[test]
fn b048_what_has_ended_is_not_run_again_though_its_worker_dies() {
    let mut rig = Rig::new();
    rig.workers(2);
    let send = triggered(&mut rig, Spec { retry: Retry { max: 3, ..Retry::default() }, ..echo(When::Manual) }, "job");
    rig.accept(send.attempt);
    rig.report(&send, Outcome::Success);
    rig.silence(300_000);
    rig.restart(1_000);
    rig.silence(60_000);
    assert!(rig.sends.is_empty());
    assert_eq!((rig.run(send.run).state, rig.attempts(send.run).len()), (RunState::Success, 1));
}

/// Ten jobs a second, no worker for an hour: each job holds one slot, and there is one reason with a count.
#[test]
fn b070_an_hour_without_a_worker_is_a_reason_and_a_handful_of_rows() {
    let mut rig = Rig::new();
    rig.jobs("tick", 10, |_| echo(When::EveryMs(1_000)));
    rig.silence(3_600_000);
    let snapshot = rig.snapshot();
    assert_eq!(
        snapshot.held_counts.iter().map(|(_, why, count)| (*why, *count)).collect::<Vec<_>>(),
        [(Why::NoWorker, 10)]
    );
    assert!(rig.runs().len() <= 10 * 60, "{} rows", rig.runs().len());
    assert!(rig.sends.is_empty());
    rig.worker(1);
    rig.pass(2_000);
    let covered: u64 = rig.runs().iter().map(|run| run.slots).sum();
    assert!(covered >= 36_000, "every slot is covered all the same: {covered}");
}

/// A thousand runs fail together: their retries do not come back together.
#[test]
fn b071_retries_of_what_failed_together_are_spread() {
    let retry = Retry { max: 1, delay_ms: 60_000, jitter: true, ..Retry::default() };
    let mut seconds = std::collections::BTreeMap::new();
    for run in 0..1_000_u64 {
        *seconds.entry(retry.pause_ms(RunId((1 << 40) + run * 3), 0, 1) / 1_000).or_insert(0) += 1;
    }
    assert!(seconds.values().all(|count| *count <= 70), "{seconds:?}");
    assert!(seconds.len() >= 29, "{seconds:?}");
}

/// The result is there before the answer to the send.
#[test]
fn b080_a_result_that_overtakes_its_acceptance_counts() {
    for is_restarted in [false, true] {
        let mut rig = Rig::new();
        rig.worker(1);
        let send = triggered(&mut rig, echo(When::Manual), "job");
        rig.report(&send, Outcome::Success);
        if is_restarted {
            rig.restart(500);
        } else {
            rig.accept(send.attempt);
        }
        rig.pass(60_000);
        let attempts = rig.attempts(send.run);
        assert_eq!((rig.run(send.run).state, attempts.len()), (RunState::Success, 1));
        assert_eq!((attempts[0].state, rig.snapshot().workers[0].load), (AttemptState::Success, 0));
    }
}

/// A kill names its run: one that has ended is said to have, and the next one is not touched.
#[test]
fn b088_a_kill_of_a_run_that_has_just_ended_leaves_the_next_alone() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let first = rig.take_send();
    rig.accept(first.attempt);
    rig.report(&first, Outcome::Success);
    rig.trigger(job);
    let second = rig.take_send();
    rig.accept(second.attempt);
    assert!(matches!(rig.kill(first.run), Answer::Refused(Why::RunEnded | Why::RunUnknown)));
    assert!(rig.cancels.is_empty());
    rig.report(&second, Outcome::Success);
    assert_eq!(rig.run(second.run).state, RunState::Success);
}

/// Whoever left is chosen by no strategy, however often it was chosen before.
#[test]
fn b092_a_worker_that_left_is_never_chosen() {
    for strategy in [Strategy::Default, Strategy::LeastInflight, Strategy::AppRoundRobin] {
        let mut rig = Rig::new();
        rig.workers(3);
        let mut spec = allow(When::Manual);
        spec.route.strategy = strategy;
        let job = rig.job("job", spec);
        let chosen = |rig: &mut Rig| -> Vec<u32> {
            for _ in 0..60 {
                assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
            }
            let to = rig.sends.iter().map(|send| send.worker.as_ref().unwrap().id.0).collect();
            rig.do_all();
            to
        };
        assert!(chosen(&mut rig).contains(&3));
        let (worker, incarnation) = (WorkerId(3), Incarnation(1));
        rig.answer(|reply| Input::Deregister { worker, incarnation, reply });
        assert!(!chosen(&mut rig).contains(&3), "{strategy:?}");
    }
}

/// Labels are those of workers, and hold from the beat that brings them; what runs stays.
#[test]
fn b097_labels_that_change_take_effect_at_once_and_move_nothing() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let plain = triggered(&mut rig, echo(When::Manual), "plain");
    rig.accept(plain.attempt);
    let mut spec = echo(When::Manual);
    spec.route.labels = "disk=ssd".to_owned();
    let job = rig.job("picky", spec);
    rig.trigger(job);
    assert_eq!((rig.sends.len(), rig.snapshot().waiting[0].why), (0, Why::NoWorkerForLabels));
    let labels = [("disk".to_owned(), "ssd".to_owned())].into();
    let beat = Beat { labels: Some(labels), ..rig.beat_of(worker, Incarnation(1), 9, &[plain.attempt]) };
    rig.answer(|reply| Input::Beat { beat: Box::new(beat), reply });
    let picky = rig.take_send();
    rig.accept(picky.attempt);
    let beat =
        Beat { labels: Some([].into()), ..rig.beat_of(worker, Incarnation(1), 10, &[plain.attempt, picky.attempt]) };
    rig.answer(|reply| Input::Beat { beat: Box::new(beat), reply });
    assert!(rig.cancels.is_empty());
    rig.report(&plain, Outcome::Success);
    rig.report(&picky, Outcome::Success);
    assert_eq!(story(&rig.runs()).iter().filter(|run| run.ends_with("success")).count(), 2);
}
