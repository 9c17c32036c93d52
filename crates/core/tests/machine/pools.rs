//! Queues, caps, credits and refusals: who waits for what, and who goes on meanwhile.

use rota_core::id::{Incarnation, JobId, WorkerId};
use rota_core::job::{Delivery, Overlap, When};
use rota_core::limits;
use rota_core::partition::{Answer, Config, Input, Outcome, ProbeAnswer, SendOutcome};
use rota_core::why::Why;

use super::rig::{Rig, echo, story};

/// Field case B044: a slot that finds no room is held once, and not fired again and again.
#[test]
fn the_cap_holds_what_may_not_enter_and_nothing_is_lost() {
    let mut rig = Rig::new();
    for id in 1..=64 {
        rig.worker(id);
    }
    let count = 1_500;
    for n in 0..count {
        rig.job(&format!("j{n}"), echo(When::Cron("1 0 * * *".into())));
    }
    rig.pass(55_000);
    rig.holds_commits = true;
    rig.pass(5_000);
    assert!(rig.machine.pending() <= 1_000);
    assert!(rig.snapshot().held.iter().any(|held| held.why == Why::Cap));
    rig.release_commits();
    while rig.sends.len() < count {
        let before = rig.sends.len();
        rig.step(Input::Turn);
        assert!(rig.sends.len() > before, "{} of {count} sent", rig.sends.len());
    }
    assert_eq!(rig.runs().len(), count);
}

#[test]
fn a_run_wider_than_the_servers_cap_enters_alone() {
    let mut rig = Rig::with(Config { pending_max: 200, ..Config::NATIVE });
    rig.workers(10);
    let mut spec = echo(When::EveryMs(10_000));
    spec.shards = 300;
    rig.job("wide", spec);
    rig.step(Input::Permits(200));
    rig.pass(10_000);
    assert_eq!(rig.sends.len(), 300, "{:?}", rig.snapshot().held);
}

#[test]
fn no_pool_takes_the_whole_cap_for_long() {
    let mut rig = Rig::new();
    rig.step(Input::Permits(20));
    rig.jobs("crowd", 30, |_| echo(When::EveryMs(1_000)));
    let mut spec = echo(When::EveryMs(1_000));
    spec.route.labels = "zone!=mars".into();
    let other = rig.job("other", spec);
    rig.workers(2);
    rig.holds_commits = true;
    let mut fired = 0;
    for _ in 0..30 {
        // One batch a second, of at most twenty runs, while thirty-one are due.
        rig.advance(1_000);
        for id in [1, 2] {
            let beat = Box::new(rig.beat_of(WorkerId(id), Incarnation(1), 1, &[]));
            let reply = rig.reply();
            rig.enter(Input::Beat { beat, reply });
        }
        rig.step(Input::Turn);
        rig.release_one();
        for send in std::mem::take(&mut rig.sends) {
            fired += usize::from(send.job == other);
            let outcome = SendOutcome::Finished(Outcome::Success, None);
            rig.enter(Input::Sent { attempt: send.attempt, outcome });
        }
    }
    assert!(fired > 10, "the other pool fired {fired} times in 30 s");
}

#[test]
fn a_waiting_run_says_what_it_waits_for() {
    let mut rig = Rig::new();
    let mut spec = echo(When::Manual);
    spec.retry.max = 1;
    spec.retry.delay_ms = 60_000;
    let job = rig.job("job", spec);
    let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
    let waiting = rig.snapshot().waiting;
    assert_eq!((waiting.len(), waiting[0].run, waiting[0].why, waiting[0].left_ms), (1, run, Why::NoWorker, None));
    rig.worker(1);
    assert_eq!(rig.snapshot().waiting, []);
    let send = rig.take_send();
    rig.report(&send, Outcome::Failed(Why::HandlerFailed));
    let waiting = rig.snapshot().waiting;
    assert_eq!((waiting[0].why, waiting[0].left_ms), (Why::Backoff, Some(60_000)));
}

#[test]
fn held_slots_say_what_they_wait_for_now() {
    let mut rig = Rig::with(Config { send_credits: 1, ..Config::NATIVE });
    rig.jobs("tick", 3, |_| echo(When::EveryMs(60_000)));
    rig.silence(60_000);
    assert_eq!(rig.snapshot().held_counts, [(rig.app, Why::NoWorker, 3)]);
    rig.worker(1);
    rig.silence(1_000);
    assert_eq!(rig.snapshot().held_counts, [(rig.app, Why::NoCredit, 2)]);
}

#[test]
fn what_our_valve_made_late_is_no_misfire_even_if_overlap_skips_it() {
    let mut rig = Rig::with(Config { send_credits: 1, ..Config::NATIVE });
    let worker = rig.worker(1);
    let blocker = rig.job("blocker", echo(When::Manual));
    rig.trigger(blocker);
    let blocking = rig.take_send();
    let mut spec = echo(When::EveryMs(10_000));
    spec.overlap = Overlap::SKIP;
    let job = rig.job("tick", spec);
    rig.pass_beating(185_000, worker, &[]);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    rig.accept(blocking.attempt);
    let own: Vec<_> = rig.runs().into_iter().filter(|run| run.job == job).collect();
    assert!(own.iter().all(|run| run.why != Some(Why::Misfire)), "{:?}", story(&own));
    assert_eq!(rig.covered(job), (1..=18).map(|n| n * 10).collect::<Vec<i64>>());
}

#[test]
fn queues_do_not_grow_behind_a_front_that_waits() {
    let mut rig = Rig::new();
    rig.job("front", echo(When::EveryMs(1_000)));
    let mut spec = echo(When::EveryMs(1_000));
    spec.timeout.start_ms = Some(500);
    rig.silence(1_000);
    let behind = rig.job("behind", spec);
    let jobs_named = rig.mentions("JobIx(");
    rig.silence(10_000);
    let settled = rig.mentions("JobIx(");
    assert!(settled >= jobs_named);
    rig.silence(200_000);
    assert!(rig.covered(behind).len() > 100, "it was held and skipped again and again");
    assert!(rig.mentions("JobIx(") <= settled + 2, "{} against {settled}", rig.mentions("JobIx("));
}

#[test]
fn nine_thousand_start_deadlines_at_once_are_all_met() {
    let mut rig = Rig::new();
    rig.jobs("tick", 9_000, |_| {
        let mut spec = echo(When::Cron("1 0 * * *".into()));
        spec.timeout.start_ms = Some(5_000);
        spec
    });
    rig.silence(64_000);
    assert_eq!(rig.snapshot().held_counts, [(rig.app, Why::NoWorker, 9_000)]);
    // The least that a machine may have without asking for more.
    rig.lend_ids(8_200);
    rig.holds_commits = true;
    rig.silence(2_000);
    let longest = rig.held.iter().map(|batch| batch.rows.len()).max().unwrap();
    // A row for each slot, and one for the exception that goes with it.
    assert!(longest <= 2 * limits::BATCH_ROWS_MAX, "{longest} rows in a batch");
    rig.release_commits();
    rig.silence(15_000);
    assert_eq!(rig.runs().len(), 9_000);
}

#[test]
fn long_runs_are_listed_in_batches_of_bounded_length() {
    let mut rig = Rig::new();
    rig.workers(11);
    let job = rig.job("job", echo(When::Manual));
    for _ in 0..700 {
        let reply = rig.reply();
        rig.enter(Input::Trigger {
            job,
            param: None,
            request_id: None,
            origin: rota_core::batch::Origin::Api,
            parent: None,
            reply,
        });
    }
    rig.step(Input::Turn);
    assert_eq!(rig.sends.len(), 700);
    rig.holds_commits = true;
    rig.advance(1_500);
    rig.step(Input::Turn);
    let longest = rig.held.iter().map(|batch| batch.rows.len()).max().unwrap();
    assert!(longest <= limits::BATCH_ROWS_MAX + 1, "{longest} rows in a batch");
    rig.release_commits();
    rig.silence(1_000);
    assert_eq!(rig.store.with(|state| state.listed().len()), 700);
}

#[test]
fn one_burst_of_refusals_is_one_refusal() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    for _ in 0..8 {
        rig.trigger(job);
    }
    for send in std::mem::take(&mut rig.sends) {
        rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::NotStarted(Why::RefusedFull) });
    }
    assert!(rig.sends.is_empty());
    rig.silence(1_000);
    assert_eq!(rig.sends.len(), 8, "a worker that refused once is left alone for long");
    let send = rig.sends.remove(0);
    rig.sends.clear();
    rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::NotStarted(Why::RefusedFull) });
    rig.silence(1_000);
    assert!(rig.sends.is_empty(), "the second time it is left alone for longer");
    rig.silence(1_000);
    assert_eq!(rig.sends.len(), 1);
}

#[test]
fn a_worker_that_answers_again_gets_its_credits_back() {
    let mut rig = Rig::with(Config { send_credits: 4, ..Config::NATIVE });
    let worker = rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.delivery = Some(Delivery::AtMostOnce);
    let job: JobId = rig.job("job", spec);
    for _ in 0..4 {
        rig.trigger(job);
    }
    for send in std::mem::take(&mut rig.sends) {
        rig.step(Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt });
    }
    rig.pass_beating(61_000, worker, &[]);
    assert_eq!((rig.snapshot().in_doubt, rig.snapshot().workers[0].sending), (0, 4));
    rig.trigger(job);
    assert!(rig.sends.is_empty());
    rig.probes.clear();
    rig.pass_beating(20_000, worker, &[]);
    assert!(!rig.probes.is_empty(), "what is decided but not known is still asked after");
    for probe in std::mem::take(&mut rig.probes) {
        rig.step(Input::Probed { attempt: probe.attempt, answer: ProbeAnswer::NeverSeen });
    }
    assert_eq!(rig.sends.len(), 1);
    assert_eq!(rig.snapshot().workers[0].load, 1);
}

#[test]
fn what_came_to_wait_for_our_valve_is_no_misfire() {
    let mut rig = Rig::with(Config { send_credits: 2, ..Config::NATIVE });
    let names = ["a", "b", "c", "d", "e"];
    let jobs = names.map(|name| rig.job(name, echo(When::EveryMs(10_000))));
    rig.silence(10_000);
    assert_eq!(rig.snapshot().held_counts, [(rig.app, Why::NoWorker, 5)]);
    // Two slots go; the others wait for credits from now on.
    let worker = rig.worker(1);
    let sends = std::mem::take(&mut rig.sends);
    assert_eq!(sends.len(), 2);
    rig.pass_beating(175_000, worker, &[]);
    for send in sends {
        rig.enter(Input::Sent { attempt: send.attempt, outcome: SendOutcome::Accepted { next_beat: 1_000_000 } });
    }
    rig.step(Input::Turn);
    for _ in 0..100 {
        rig.do_all();
    }
    let misfires: Vec<_> = rig.runs().into_iter().filter(|run| run.why == Some(Why::Misfire)).collect();
    assert_eq!(story(&misfires), [] as [&str; 0]);
    for job in jobs {
        assert_eq!(rig.covered(job), (1..=18).map(|n| n * 10).collect::<Vec<i64>>());
    }
}
