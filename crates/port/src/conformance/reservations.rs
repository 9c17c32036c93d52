//! Names, requests, tokens and ids belong to one at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use rota_core::batch::Row;
use rota_core::id::{AppId, JobId, RunId, id_floor};
use rota_core::job::{Definition, JobState, Spec};
use rota_core::limits;
use rota_core::rate::{Limit, Rate, Rates};
use rota_core::upstream::{Edge, Ended, OnSkip, Period};
use rota_core::worker::{App, WorkerState};

use super::Open;
use super::fixture::{Bench, T, definition, registration, worker};
use crate::store::{Error, JOB_NAME_UNUSED_MS, REQUEST_KEPT_MS, Reservation, Reserved, Scope, Token};

fn job_name(app: AppId, name: &str) -> Reservation {
    Reservation::JobName { app, name: name.to_owned(), at: T }
}

/// An app is found by its name; its settings change only if new ones are given.
pub fn the_same_app_is_made_once(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let app = |namespace: &str, pending_max| Reservation::App {
        namespace: namespace.to_owned(),
        name: "pay".to_owned(),
        pending_max,
        rates: None,
    };
    let expected = |pending_max| {
        Reserved::App(App {
            id: AppId(1),
            namespace: "shop".to_owned(),
            name: "pay".to_owned(),
            pending_max,
            rates: Rates::default(),
        })
    };
    assert_eq!(bench.reserve(app("shop", None)), expected(limits::PENDING_MAX));
    assert_eq!(bench.reserve(app("shop", Some(5))), expected(5));
    assert_eq!(bench.reserve(app("shop", None)), expected(5));
    assert!(matches!(bench.reserve(app("bank", None)), Reserved::App(other) if other.id != bench.app));
    assert_eq!(bench.query.apps().unwrap().len(), 2);
    let bench = bench.reopen(open);
    assert_eq!(bench.loaded.apps[0].pending_max, 5);
}

/// The rates of an app are replaced as a whole, and kept with its other settings.
pub fn rates_of_an_app_are_kept(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let limit = |count| Limit { rate: Rate { count, per_ms: 1_000 }, burst: None };
    let rates = Rates { app: Some(limit(50)), groups: [("zone=a".to_owned(), limit(10))].into() };
    let app = |rates: Option<Rates>| Reservation::App {
        namespace: "shop".to_owned(),
        name: "pay".to_owned(),
        pending_max: None,
        rates,
    };
    let is = |reserved: Reserved, expected: &Rates| matches!(reserved, Reserved::App(app) if app.rates == *expected);
    assert!(is(bench.reserve(app(Some(rates.clone()))), &rates));
    assert!(is(bench.reserve(app(None)), &rates));
    let mut bench = bench.reopen(open);
    assert_eq!(bench.loaded.apps[0].rates, rates);
    assert_eq!(bench.query.apps().unwrap()[0].rates, rates);
    assert!(is(bench.reserve(app(Some(Rates::default()))), &Rates::default()));
}

/// Names are unique in a namespace, whichever of its apps they are for; ids are never given twice.
pub fn a_job_name_is_taken_until_it_is_given_back(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let other = super::fixture::app(&mut *bench.store, "ship");
    assert_eq!(bench.reserve(job_name(AppId(99), "settle")), Reserved::Unknown);
    assert_eq!(bench.reserve(job_name(bench.app, "settle")), Reserved::Job(JobId::FIRST));
    assert_eq!(bench.reserve(job_name(other, "settle")), Reserved::Taken(JobId::FIRST));
    assert_eq!(bench.query.job_named("shop", "settle"), Ok(None));
    assert_eq!(bench.reserve(Reservation::JobNameBack { job: JobId::FIRST }), Reserved::Done);
    let second = JobId(JobId::FIRST.0 + 1);
    assert_eq!(bench.reserve(job_name(other, "settle")), Reserved::Job(second));
    let mut bench = bench.reopen(open);
    assert_eq!(bench.reserve(job_name(bench.app, "settle")), Reserved::Taken(second));
    bench.commit(vec![Row::Definition(Box::new(definition(second, 1, other, "settle")))]);
    assert_eq!(bench.reserve(Reservation::JobNameBack { job: second }), Reserved::Taken(second));
    assert_eq!(bench.query.job_named("shop", "settle").unwrap().map(|job| job.id), Some(second));
    assert_eq!(bench.query.job_named("bank", "settle"), Ok(None));
}

/// Deleting a job frees its name; its id and its definition stay.
pub fn a_deleted_jobs_name_is_free_and_its_id_dead(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    bench.commit(vec![Row::JobState { job, state: JobState::Deleted, at: T, by: Arc::from("someone"), reason: None }]);
    assert_eq!(bench.query.job_named("shop", "settle"), Ok(None));
    assert_eq!(bench.query.job(job).unwrap().map(|job| job.state), Some(JobState::Deleted));
    let next = bench.job("settle");
    assert!(next > job);
    assert_eq!(bench.query.job_named("shop", "settle").unwrap().map(|job| job.id), Some(next));
    assert_eq!(bench.reserve(Reservation::JobNameBack { job }), Reserved::Done);
    assert_eq!(bench.query.job_named("shop", "settle").unwrap().map(|job| job.id), Some(next));
}

/// A name whose definition never came is given back by upkeep, one with a definition is not.
pub fn an_unused_job_name_is_free_after_an_hour(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let used = bench.job("used");
    let Reserved::Job(unused) = bench.reserve(job_name(bench.app, "unused")) else { panic!("the name is new") };
    bench.store.upkeep(T.plus_ms(JOB_NAME_UNUSED_MS - 1)).unwrap();
    assert_eq!(bench.reserve(job_name(bench.app, "unused")), Reserved::Taken(unused));
    super::upkeep::all(&mut *bench.store, T.plus_ms(2 * JOB_NAME_UNUSED_MS));
    assert!(matches!(bench.reserve(job_name(bench.app, "unused")), Reserved::Job(job) if job > unused));
    assert_eq!(bench.reserve(job_name(bench.app, "used")), Reserved::Taken(used));
}

/// A worker that comes again under its name is the same worker.
pub fn a_worker_keeps_its_id(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let other = super::fixture::app(&mut *bench.store, "ship");
    let name = |app, name: &str| Reservation::WorkerName { app, name: name.to_owned() };
    assert_eq!(bench.reserve(name(AppId(99), "w1")), Reserved::Unknown);
    let Reserved::Worker(w1) = bench.reserve(name(bench.app, "w1")) else { panic!("the app exists") };
    assert!(w1.0 > 0, "0 stands for URL jobs");
    assert!(matches!(bench.reserve(name(other, "w1")), Reserved::Worker(id) if id != w1));
    assert!(matches!(bench.reserve(name(bench.app, "w2")), Reserved::Worker(id) if id != w1));
    assert_eq!(bench.query.worker_named(bench.app, "w1"), Ok(None));
    bench.commit(vec![worker(&registration(w1, bench.app, "w1"), WorkerState::Online)]);
    let mut bench = bench.reopen(open);
    assert_eq!(bench.reserve(name(bench.app, "w1")), Reserved::Worker(w1));
    let known = Some((registration(w1, bench.app, "w1"), WorkerState::Online));
    assert_eq!(bench.query.worker_named(bench.app, "w1"), Ok(known));
}

fn request(job: JobId, id: &str, body: u8, after_ms: i64) -> Reservation {
    Reservation::Request { job, request_id: id.to_owned(), body_hash: [body; 32], at: T.plus_ms(after_ms) }
}

/// The same request gets the same answer, another body under its id is refused, and what was refused
/// may be asked again.
pub fn a_request_is_answered_once(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (job, other) = (bench.job("settle"), bench.job("report"));
    let back = Reservation::RequestBack { job, request_id: "r-1".to_owned() };
    assert_eq!(bench.reserve(request(JobId(5), "r-1", 1, 0)), Reserved::Unknown);
    assert_eq!(bench.reserve(request(job, "r-1", 1, 0)), Reserved::New);
    assert_eq!(bench.reserve(request(job, "r-1", 1, 1)), Reserved::Answered(None));
    assert_eq!(bench.reserve(request(job, "r-1", 2, 1)), Reserved::OtherBody);
    assert_eq!(bench.reserve(request(other, "r-1", 2, 1)), Reserved::New);
    bench.commit(vec![Row::Request { job, request_id: "r-1".into(), run: RunId(7) }]);
    assert_eq!(bench.reserve(request(job, "r-1", 1, 1)), Reserved::Answered(Some(RunId(7))));
    let mut bench = bench.reopen(open);
    assert_eq!(bench.reserve(request(job, "r-1", 1, 2)), Reserved::Answered(Some(RunId(7))));
    // The server died before it answered that one: it was never carried out.
    assert_eq!(bench.reserve(request(other, "r-1", 2, 2)), Reserved::New);
    assert_eq!(bench.reserve(back), Reserved::Done);
    assert_eq!(bench.reserve(request(job, "r-1", 2, 3)), Reserved::New);
}

/// Seven days later the id may be used anew, whether or not upkeep has passed by.
pub fn a_request_is_forgotten_after_seven_days(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    for id in ["r-1", "r-2"] {
        assert_eq!(bench.reserve(request(job, id, 1, 0)), Reserved::New);
    }
    assert_eq!(bench.reserve(request(job, "r-1", 2, REQUEST_KEPT_MS - 1)), Reserved::OtherBody);
    assert_eq!(bench.reserve(request(job, "r-1", 2, REQUEST_KEPT_MS)), Reserved::New);
    super::upkeep::all(&mut *bench.store, T.plus_ms(REQUEST_KEPT_MS + 1));
    assert_eq!(bench.reserve(request(job, "r-1", 2, REQUEST_KEPT_MS + 2)), Reserved::Answered(None));
    assert_eq!(bench.reserve(request(job, "r-2", 2, REQUEST_KEPT_MS + 2)), Reserved::New);
}

/// Revoking a scope leaves its newest token, and other scopes alone.
pub fn tokens_are_kept_until_they_are_revoked(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let token = |hash, scope| Token { hash: [hash; 32], scope, at: T };
    let (mine, theirs) = (Scope::Worker(bench.app), Scope::Worker(AppId(bench.app.0 + 1)));
    let all = [
        token(1, Scope::Admin),
        token(2, mine.clone()),
        token(3, mine.clone()),
        token(4, theirs),
        token(5, Scope::Read),
        token(6, mine.clone()),
    ];
    for token in &all {
        assert_eq!(bench.reserve(Reservation::Token(token.clone())), Reserved::Done);
    }
    assert_eq!(bench.reserve(Reservation::Token(all[0].clone())), Reserved::Done);
    assert_eq!(bench.query.tokens(), Ok(all.to_vec()));
    for _ in 0..2 {
        assert_eq!(bench.reserve(Reservation::TokensBack { scope: mine.clone() }), Reserved::Done);
        assert_eq!(bench.query.tokens().unwrap().iter().map(|token| token.hash[0]).collect::<Vec<_>>(), [1, 4, 5, 6]);
    }
    let bench = bench.reopen(open);
    assert_eq!(bench.query.tokens().unwrap().len(), 4);
}

/// Blocks never overlap, and grow, also when the store is opened again or the clock stands behind.
pub fn ids_are_disjoint_and_grow(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let floor = id_floor(T);
    let mut starts = vec![bench.store.reserve_ids(floor, 100).unwrap()];
    assert!(starts[0] >= floor);
    starts.push(bench.store.reserve_ids(0, 100).unwrap());
    let mut bench = bench.reopen(open);
    starts.push(bench.store.reserve_ids(floor, 100).unwrap());
    starts.push(bench.store.reserve_ids(floor + 10_000_000, 100).unwrap());
    assert!(starts[3] >= floor + 10_000_000);
    assert!(starts.windows(2).all(|pair| pair[1] >= pair[0] + 100), "{starts:?}");
    assert_eq!(starts.iter().collect::<BTreeSet<_>>().len(), 4);
    let too_many = bench.store.reserve_ids(1 << 53, 1);
    assert!(matches!(too_many, Err(Error::Corrupt(_))), "ids stay below 2^53: {too_many:?}");
}

fn after(edges: &[JobId], definition: Definition) -> Row {
    let edge = |job: &JobId| Edge {
        job: *job,
        name: format!("job {job}"),
        when: Ended::Success,
        period: Period::SameSlot,
        on_skip: OnSkip::Skip,
        deadline_ms: None,
    };
    let spec = Spec { after: edges.iter().map(edge).collect(), ..definition.spec };
    Row::Definition(Box::new(Definition { spec, ..definition }))
}

/// Of definitions that would close a cycle together, one is refused, whether or not the others are durable.
pub fn no_job_can_be_made_to_wait_for_itself(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let [a, b, c] = ["a", "b", "c"].map(|name| bench.job(name));
    let wait = |job, upstreams: &[JobId], token| Reservation::Upstreams { job, upstreams: upstreams.to_vec(), token };
    assert_eq!(bench.reserve(wait(a, &[a], 1)), Reserved::Cycle(vec![a, a]));
    assert_eq!(bench.reserve(wait(a, &[b], 2)), Reserved::Done);
    assert_eq!(bench.reserve(wait(b, &[c], 3)), Reserved::Done);
    assert_eq!(bench.reserve(wait(c, &[a], 4)), Reserved::Cycle(vec![c, a, b, c]));
    assert_eq!(bench.query.dependents(a, 9), Ok(vec![]), "what was refused leaves nothing behind");
    assert_eq!(bench.query.dependents(b, 9), Ok(vec![a]));
    // The same edge by two definitions stands until both are given back.
    assert_eq!(bench.reserve(wait(a, &[b], 5)), Reserved::Done);
    assert_eq!(bench.reserve(Reservation::UpstreamsBack { job: a, token: 2 }), Reserved::Done);
    assert_eq!(bench.reserve(wait(c, &[a], 6)), Reserved::Cycle(vec![c, a, b, c]));
    assert_eq!(bench.reserve(Reservation::UpstreamsBack { job: a, token: 5 }), Reserved::Done);
    assert_eq!(bench.reserve(wait(c, &[a], 7)), Reserved::Done);
    // A process that is gone has nothing on its way.
    let mut bench = bench.reopen(open);
    bench.store.begin(T, "0.1.0", "2026a").unwrap();
    assert_eq!(bench.query.dependents(a, 9), Ok(vec![]));
}

/// A version's edges take the place of those before it; a deletion takes them away.
pub fn upstream_jobs_follow_the_current_version(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let [a, b, c] = ["a", "b", "c"].map(|name| bench.job(name));
    assert_eq!(bench.reserve(Reservation::Upstreams { job: a, upstreams: vec![b], token: 1 }), Reserved::Done);
    bench.commit(vec![after(&[b], definition(a, 2, bench.app, "a")), after(&[b], definition(c, 2, bench.app, "c"))]);
    assert_eq!(bench.query.dependents(b, 9), Ok(vec![a, c]));
    assert_eq!(bench.query.dependents(b, 1), Ok(vec![a]));
    let stored = bench.query.job(a).unwrap().unwrap();
    assert_eq!((stored.spec.after.len(), stored.spec.after[0].job), (1, b));
    bench.commit(vec![after(&[c], definition(a, 3, bench.app, "a"))]);
    let mut bench = bench.reopen(open);
    bench.store.begin(T, "0.1.0", "2026a").unwrap();
    assert_eq!((bench.query.dependents(b, 9), bench.query.dependents(c, 9)), (Ok(vec![c]), Ok(vec![a])));
    let cycle = Reservation::Upstreams { job: b, upstreams: vec![a], token: 2 };
    assert_eq!(bench.reserve(cycle.clone()), Reserved::Cycle(vec![b, a, c, b]));
    let state = JobState::Deleted;
    bench.commit(vec![Row::JobState { job: a, state, at: T, by: Arc::from("someone"), reason: None }]);
    assert_eq!(bench.query.dependents(c, 9), Ok(vec![]));
    assert_eq!(bench.reserve(cycle), Reserved::Done);
}
