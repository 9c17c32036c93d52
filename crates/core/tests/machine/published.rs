//! What a snapshot shows when more waits than it lists.

use rota_core::job::{Spec, When};
use rota_core::partition::{Answer, Input, LISTED_MAX};
use rota_core::why::Why;
use rota_port::store::{Reservation, Reserved, Store};

use super::rig::{Rig, echo};

fn alerting(schedule: When) -> Spec {
    Spec { alerts: vec!["oncall".to_owned()], ..echo(schedule) }
}

/// The judge of alerts reads snapshots: a job that names one is seen behind however many others.
#[test]
fn what_alerts_ask_for_is_published_beyond_what_is_listed() {
    let mut rig = Rig::new();
    let count = LISTED_MAX + 200;
    // Those that are held come in the order of their making; the last ones are beyond the list.
    let is_last = |n: usize| n >= count - 2;
    rig.jobs("tick", count, |n| match is_last(n) {
        true => alerting(When::EveryMs(60_000)),
        false => echo(When::EveryMs(60_000)),
    });
    rig.silence(61_000);
    let snapshot = rig.snapshot();
    assert_eq!(snapshot.held.len(), LISTED_MAX);
    let whys: Vec<Why> = snapshot.held_alerting.iter().map(|held| held.why).collect();
    assert_eq!(whys, [Why::NoWorker; 2]);
    assert!(snapshot.held_alerting.iter().all(|held| snapshot.held.iter().all(|other| other.job != held.job)));
}

#[test]
fn of_runs_that_wait_beyond_the_list_the_first_shard_of_each_such_job_is_published() {
    let mut rig = Rig::new();
    let (namespace, name) = ("default".to_owned(), "etl".to_owned());
    let what = Reservation::App { namespace, name, pending_max: Some(5_000), rates: None };
    let Ok(Reserved::App(app)) = rig.store.reserve(&what) else { panic!("the app is there") };
    rig.step(Input::App(app));
    let wide = |shards, spec| Spec { shards, ..spec };
    let specs = [
        ("first", wide(900, echo(When::Manual))),
        ("second", wide(300, echo(When::Manual))),
        ("watched", wide(30, alerting(When::Manual))),
        ("quiet", wide(5, echo(When::Manual))),
    ];
    let jobs = specs.map(|(name, spec)| rig.job(name, spec));
    for job in jobs {
        assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    }
    let snapshot = rig.snapshot();
    assert_eq!(snapshot.waiting.len(), LISTED_MAX);
    let beyond: Vec<_> = snapshot.waiting_alerting.iter().map(|waiting| (waiting.job, waiting.why)).collect();
    assert_eq!(beyond, [(jobs[2], Why::NoWorker)]);
}
