//! Alert rules, and the ends of runs that they hear of.

use std::collections::BTreeSet;

use rota_core::alert::{Alarm, AlertId, Channel, Event, Facts, Key, Kind, Notice, Rule, Told};
use rota_core::batch::{Row, Run, RunState};
use rota_core::id::{JobId, RunId};
use rota_core::job::Definition;

use super::Open;
use super::fixture::{Bench, ID, T, definition};
use crate::alerts::{StoredNotice, Tried, Work};
use crate::store::{Reservation, Reserved};

fn rule(url: &str) -> Rule {
    let channel = Channel::Webhook { url: url.to_owned(), bearer: None };
    Rule { when: BTreeSet::from([Event::Failed]), ..Rule::new(channel) }
}

fn set(namespace: &str, name: &str, url: &str) -> Reservation {
    let (namespace, name, rule) = (namespace.to_owned(), name.to_owned(), Box::new(rule(url)));
    Reservation::Alert { namespace, name, rule, at: T, by: "someone".to_owned() }
}

fn gone(name: &str) -> Reservation {
    Reservation::AlertBack { namespace: "shop".to_owned(), name: name.to_owned() }
}

fn key(alert: AlertId) -> Key {
    Key { alert, job: JobId(7), event: Event::Lost }
}

fn alarm() -> Alarm {
    let facts = Facts { run: Some(RunId(ID)), why: Some("worker_silent".to_owned()), ..Facts::default() };
    Alarm { since: T.0, over: None, told: Told::Open, told_at: Some(T.0), untold: 2, acked_by: None, facts }
}

fn notice(id: u64, alert: AlertId) -> StoredNotice {
    let facts = Facts { slots: Some(3), ..Facts::default() };
    let others = vec![(Kind::Resolved, key(alert))];
    let notice = Notice { kind: Kind::Opened, key: key(alert), facts, since: T.0, count: 4, others, others_count: 9 };
    StoredNotice { id, at: T, notice, tries: 0, next_at: T.plus_ms(1), error: None }
}

/// A rule keeps its number when it is set again, and the number of one that is gone is not given again.
pub fn an_alert_is_set_replaced_and_removed(open: Open<'_>) {
    let mut bench = Bench::open(open);
    for what in
        [set("shop", "oncall", "http://a/"), set("bank", "oncall", "http://b/"), set("shop", "late", "http://c/")]
    {
        assert_eq!(bench.reserve(what), Reserved::Done);
    }
    let first = bench.query.alerts().unwrap();
    let names: Vec<_> = first.iter().map(|alert| (alert.namespace.as_str(), alert.name.as_str())).collect();
    assert_eq!(names, [("bank", "oncall"), ("shop", "late"), ("shop", "oncall")]);
    assert_eq!(bench.reserve(set("shop", "oncall", "http://d/")), Reserved::Done);
    let mut bench = bench.reopen(open);
    let again = bench.query.alerts().unwrap();
    assert_eq!((again[2].id, &again[2].rule), (first[2].id, &rule("http://d/")));
    assert_eq!(bench.reserve(gone("late")), Reserved::Done);
    assert_eq!(bench.reserve(gone("late")), Reserved::Unknown);
    assert_eq!(bench.reserve(set("shop", "new", "http://e/")), Reserved::Done);
    let new = bench.query.alerts().unwrap().into_iter().find(|alert| alert.name == "new").unwrap();
    assert!(first.iter().all(|alert| alert.id < new.id), "{new:?} has the number of one before");
}

/// What followed from ends and deliveries is kept as a whole, and goes with its rule.
pub fn what_alerts_came_to_is_kept(open: Open<'_>) {
    let mut bench = Bench::open(open);
    bench.reserve(set("shop", "oncall", "http://a/"));
    let alert = bench.query.alerts().unwrap()[0].id;
    let other = AlertId(alert.0 + 100);
    let alarms = vec![(key(alert), Some(alarm())), (key(other), Some(alarm()))];
    let notices = vec![notice(1, alert), notice(2, alert), notice(3, alert), notice(4, other)];
    let work = Work { alarms, notices, ..Work::default() };
    assert_eq!(bench.reserve(Reservation::AlertWork(Box::new(work))), Reserved::Done);
    let mut bench = bench.reopen(open);
    assert_eq!(bench.query.alarms(), Ok(vec![(key(alert), alarm())]));
    assert_eq!(bench.query.notices(), Ok([1, 2, 3].map(|id| notice(id, alert)).into()));

    let again = Tried::Again { next_at: T.plus_ms(9), error: "refused".to_owned() };
    let given_up = Tried::GivenUp { error: "too long".to_owned() };
    let tried = vec![(1, Tried::Delivered), (2, again), (3, given_up), (77, Tried::Delivered)];
    let over = Alarm { over: Some(T.0 + 1), acked_by: Some("ann".to_owned()), ..alarm() };
    let work = Work { alarms: vec![(key(alert), Some(over.clone()))], tried, ..Work::default() };
    bench.reserve(Reservation::AlertWork(Box::new(work)));
    assert_eq!(bench.query.alarms(), Ok(vec![(key(alert), over)]));
    let waits = StoredNotice { tries: 1, next_at: T.plus_ms(9), error: Some("refused".to_owned()), ..notice(2, alert) };
    assert_eq!(bench.query.notices(), Ok(vec![waits]));
    let stored = bench.query.alerts().unwrap().remove(0);
    assert_eq!((stored.undelivered, stored.last_error.as_deref()), (1, Some("too long")));
    bench.reserve(Reservation::AlertWork(Box::new(Work { alarms: vec![(key(alert), None)], ..Work::default() })));
    assert_eq!(bench.query.alarms(), Ok(Vec::new()));
    bench.reserve(gone("oncall"));
    assert_eq!(bench.query.notices(), Ok(Vec::new()));
}

/// The ends of runs whose job names a rule are noted in the batch that has them, until they are heard.
pub fn ends_of_watched_runs_are_noted(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (watched, other) = (bench.job("watched"), bench.job("other"));
    let mut named = definition(watched, 2, bench.app, "watched");
    named.spec.alerts = vec!["oncall".to_owned()];
    bench.commit(vec![Row::Definition(Box::new(named.clone()))]);
    let skipped = Run { state: RunState::Skipped, ended_at: Some(T), shards: 0, ..bench.run(1, watched) };
    let set =
        |run: &Run, state| Row::RunSet { run: run.id, job: run.job, state, why: None, ended_at: Some(T.plus_ms(9)) };
    let (a, b, c) = (bench.run(2, watched), bench.run(3, other), bench.run(4, watched));
    let rows = vec![skipped.clone(), a.clone(), b.clone(), c.clone()].into_iter().map(|run| Row::Run(Box::new(run)));
    bench.commit(rows.collect());
    bench.commit(vec![Row::RunSet { run: a.id, job: a.job, state: RunState::Running, why: None, ended_at: None }]);
    assert_eq!(bench.query.alert_ends(10), Ok(vec![skipped.id]));
    bench.commit(vec![set(&a, RunState::Failed), set(&b, RunState::Failed)]);
    assert_eq!(bench.query.alert_ends(10), Ok(vec![skipped.id, a.id]));
    assert_eq!(bench.query.alert_ends(1), Ok(vec![skipped.id]));
    // After a restart what is open is known again.
    let mut bench = bench.reopen(open);
    assert_eq!(bench.query.alert_ends(10), Ok(vec![skipped.id, a.id]));
    bench.commit(vec![set(&c, RunState::Success)]);
    assert_eq!(bench.query.alert_ends(10), Ok(vec![skipped.id, a.id, c.id]));
    let heard = vec![a.id, skipped.id];
    bench.reserve(Reservation::AlertWork(Box::new(Work { heard, ..Work::default() })));
    assert_eq!(bench.query.alert_ends(10), Ok(vec![c.id]));
    // A job that names none any more is not heard of.
    named = Definition { version: rota_core::id::Version(3), ..definition(watched, 3, bench.app, "watched") };
    let d = bench.run(5, watched);
    bench.commit(vec![Row::Definition(Box::new(named)), Row::Run(Box::new(d.clone()))]);
    bench.commit(vec![set(&d, RunState::Failed)]);
    assert_eq!(bench.query.alert_ends(10), Ok(vec![c.id]));
}
