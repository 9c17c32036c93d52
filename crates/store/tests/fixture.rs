//! A store written under an older schema opens with everything that was in it.
//!
//! Each fixture is the dump of a database (`sqlite3 rota.db .dump`) that [`write`] filled under that
//! schema, and the key beside it in hexadecimal. A new schema adds one; none is ever changed.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::path::Path;
use std::sync::Arc;

use rota_core::alert::{Alarm, AlertId, Channel, Event, Facts, Key, Kind, Notice, Rule, Told};
use rota_core::backfill::{Backfill, End};
use rota_core::batch::{
    Attempt, AttemptState, Batch, Exception, Origin, Rerun, Row, Run, RunState, SettledShard, Shards,
};
use rota_core::child::Link;
use rota_core::freeze::{Freeze, Missed, Thaw};
use rota_core::id::{
    AppId, AttemptId, BackfillId, Epoch, Incarnation, JobId, PartitionId, RunId, Seq, Version, WorkerId,
};
use rota_core::job::{Definition, JobState, Spec, Target, When};
use rota_core::misfire::Pace;
use rota_core::rate::{Limit, Rate, Rates};
use rota_core::time::UnixMs;
use rota_core::trace::Parent;
use rota_core::upstream::{Edge, Ended, OnSkip, Period};
use rota_core::why::Why;
use rota_core::worker::{Protocol, Registration, Secret, WorkerState};
use rota_port::alerts::{StoredNotice, Work};
use rota_port::child::Notes;
use rota_port::history::{BackfillFilter, History, StateFilter};
use rota_port::memory::MemoryStore;
use rota_port::query::{Query, RunFilter};
use rota_port::store::{Outcome, Reservation, Reserved, Scope, Store, StoredSecret, Token};
use rusqlite::Connection;

const T: UnixMs = UnixMs(1_800_000_000_000);

/// A bit of everything that a schema holds.
fn write(store: &mut dyn Store, schema: u32) {
    if schema >= 3 {
        store.begin(T, "0.1.0", "2026a").unwrap();
    }
    let limit = Limit { rate: Rate { count: 50, per_ms: 1_000 }, burst: Some(100) };
    let rates = (schema >= 5).then(|| Rates { app: Some(limit), groups: [("zone=a".to_owned(), limit)].into() });
    let app = Reservation::App { namespace: "shop".to_owned(), name: "pay".to_owned(), pending_max: Some(9), rates };
    let Reserved::App(app) = store.reserve(&app).unwrap() else { panic!("an app is always given") };
    let name = Reservation::JobName { app: app.id, name: "settle".to_owned(), at: T };
    let Reserved::Job(job) = store.reserve(&name).unwrap() else { panic!("the name is new") };
    let name = Reservation::WorkerName { app: app.id, name: "w1".to_owned() };
    let Reserved::Worker(worker) = store.reserve(&name).unwrap() else { panic!("the app exists") };
    let token = Token { hash: [3; 32], scope: Scope::Worker(app.id), at: T };
    assert_eq!(store.reserve(&Reservation::Token(token)), Ok(Reserved::Done));
    let first = store.reserve_ids(1_000, 100).unwrap();
    let loaded = store.claim(&[PartitionId(0)]).unwrap().remove(0);
    let managed_by = (schema >= 4).then(|| "shop".to_owned());
    let definition = Definition {
        id: job,
        version: Version(1),
        app: app.id,
        name: "settle".to_owned(),
        spec: Spec::new(
            When::Cron("0 2 * * *".to_owned()),
            Target::Handler { name: "settle".to_owned(), param: "date".to_owned() },
        ),
        state: JobState::Enabled,
        at: T,
        by: "someone".to_owned(),
        managed_by,
        pause: None,
    };
    let registration = Registration {
        id: worker,
        app: app.id,
        name: "w1".to_owned(),
        incarnation: Incarnation(77),
        url: "http://10.0.0.1:9000".to_owned(),
        protocol: Protocol::Http,
        handlers: vec!["settle".to_owned()],
        labels: [("disk".to_owned(), "ssd".to_owned())].into(),
        capacity: 4,
        list_max: if schema >= 5 { 7 } else { 0 },
        secret: Secret("a secret".to_owned()),
        at: T,
    };
    let run = |n: u64, state: RunState, why| Run {
        id: RunId(first + n),
        app: app.id,
        job,
        version: Version(1),
        origin: Origin::Schedule,
        slot: T.plus_ms(n.cast_signed()),
        slot_last: T.plus_ms(n.cast_signed() * 2),
        slots: n + 1,
        state,
        why,
        shards: 2,
        at: T,
        ended_at: state.is_terminal().then_some(T.plus_ms(50)),
        param: None,
    };
    let attempt = |run: &Run, shard: u32, no: u32, id: u64| Attempt {
        id: AttemptId(id),
        run: run.id,
        shard,
        no,
        worker,
        incarnation: Incarnation(77),
        state: AttemptState::Failed,
        why: Some(Why::HandlerFailed),
        at: T,
        ended_at: Some(T.plus_ms(40)),
        released_at: None,
        message: Some("period \"closed\"".into()),
    };
    let open = run(1, RunState::Running, None);
    let reason = (schema >= 4).then(|| "until v2".into());
    let judged = Exception::Judged { covered: T, until: T.plus_ms(5) };
    let exception = if schema >= 5 { judged } else { Exception::Covered(T) };
    let mut rows = vec![
        Row::Definition(Box::new(definition.clone())),
        Row::Worker { worker: registration.into(), state: WorkerState::Online },
        Row::Run(Box::new(open.clone())),
        Row::Attempt(Box::new(attempt(&open, 0, 1, open.id.0))),
        Row::Attempt(Box::new(attempt(&open, 0, 2, first + 20))),
        Row::Attempt(Box::new(attempt(&open, 1, 1, first + 21))),
        Row::Definition(Box::new(Definition { version: Version(2), ..definition })),
        Row::JobState { job, state: JobState::Paused, at: T, by: "someone".into(), reason },
        Row::Exception { job, exception: Some(exception) },
        Row::Listed { run: open.id, is_open: true },
        Row::Run(Box::new(run(2, RunState::Skipped, Some(Why::Misfire)))),
        Row::Run(Box::new(run(3, RunState::Success, None))),
    ];
    if schema >= 3 {
        let again = Run { origin: Origin::Rerun, slots: 1, ..run(4, RunState::Running, None) };
        let thaw = Thaw { until: T.plus_ms(9), at: T.plus_ms(8), by: "eve".into(), missed: Missed::FireOnce };
        let freeze = Freeze {
            id: 1,
            app: Some(app.id),
            after: T,
            at: T.plus_ms(1),
            by: "ann".into(),
            reason: "the disk burns".into(),
            thaw: Some(thaw),
        };
        let reason = Some("until v2".into());
        rows.extend([
            Row::Rerun(Rerun { run: again.id, of: open.id, reused: vec![1] }.into()),
            Row::Run(Box::new(again)),
            Row::JobState { job, state: JobState::Paused, at: T.plus_ms(2), by: "ann".into(), reason },
            Row::Freeze(Box::new(freeze)),
        ]);
    }
    if schema >= 5 {
        let merged = Run { shards: 0, slots: 1, ..run(5, RunState::Merged, Some(Why::Merged)) };
        rows.extend([Row::Merged { run: merged.id, into: open.id }, Row::Run(Box::new(merged))]);
        let settled = SettledShard { shard: 1, state: RunState::Killed, why: Why::KilledByUser, at: T.plus_ms(3) };
        rows.push(Row::Shards(
            Shards { run: open.id, workers: vec![worker, WorkerId(9)], settled: vec![settled] }.into(),
        ));
    }
    if schema >= 6 {
        rows.extend(backfills(job, run(6, RunState::Running, None)));
    }
    let (epoch, seq) = (loaded.epoch, Seq(loaded.seq.0 + 1));
    let batch = Batch { partition: PartitionId(0), epoch, seq, at: T.plus_ms(60), mark: T, floor: first + 2, rows };
    store.commit(&[batch]).unwrap();
    let request = Reservation::Request { job, request_id: "r-1".to_owned(), body_hash: [9; 32], at: T };
    assert_eq!(store.reserve(&request), Ok(Reserved::New));
    if schema >= 2 {
        write_secrets(store, app.id, epoch, first + 2);
    }
    if schema >= 5 {
        write_alerts(store, job);
        write_upstream(store, (app.id, job), epoch, first + 2);
    }
    if schema >= 6 {
        let (namespace, name, by) = ("shop".to_owned(), "PARTNER".to_owned(), "someone".to_owned());
        let secret = StoredSecret { namespace, name, value: Secret("a newer value".to_owned()), at: T.plus_ms(80), by };
        assert_eq!(store.reserve(&Reservation::Secret(secret)), Ok(Reserved::Done));
        write_children(store, &run(7, RunState::Running, None), epoch, first + 2);
    }
}

/// A job that another's ends fire: one end that is answered, and one that is not; one that was asked for within a span.
fn write_children(store: &mut dyn Store, parent: &Run, epoch: Epoch, floor: u64) {
    let name = Reservation::JobName { app: parent.app, name: "tidy".to_owned(), at: T };
    let Reserved::Job(job) = store.reserve(&name).unwrap() else { panic!("the name is new") };
    let target = Target::Handler { name: "tidy".to_owned(), param: String::new() };
    let (when, period, on_skip) = (Ended::Failure, Period::SameSlot, OnSkip::Skip);
    let edge = Edge { job: parent.job, name: "settle".to_owned(), when, period, on_skip, deadline_ms: None };
    let definition = Definition {
        id: job,
        version: Version(1),
        app: parent.app,
        name: "tidy".to_owned(),
        spec: Spec { after: vec![edge], ..Spec::new(When::Manual, target) },
        state: JobState::Enabled,
        at: T,
        by: "someone".to_owned(),
        managed_by: None,
        pause: None,
    };
    let next = Run { id: RunId(parent.id.0 + 1), ..parent.clone() };
    let end = |run: &Run| {
        let (run, job, ended_at) = (run.id, run.job, Some(T.plus_ms(90)));
        Row::RunSet { run, job, state: RunState::Failed, why: Some(Why::HandlerFailed), ended_at }
    };
    let fired = Run {
        id: RunId(parent.id.0 + 2),
        job,
        origin: Origin::Upstream,
        state: RunState::Skipped,
        why: Some(Why::Paused),
        shards: 0,
        ended_at: Some(T.plus_ms(95)),
        ..parent.clone()
    };
    let link = Link { run: fired.id, parent: parent.id, note: 1 };
    let within = Parent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    let batches = [
        vec![
            Row::Definition(Box::new(definition)),
            Row::Run(Box::new(parent.clone())),
            Row::Trace { run: parent.id, parent: Arc::new(within) },
            Row::Run(Box::new(next.clone())),
            end(parent),
            end(&next),
        ],
        vec![Row::Run(Box::new(fired)), Row::Child(link)],
    ];
    for (seq, rows) in (4..).map(Seq).zip(batches) {
        let batch = Batch { partition: PartitionId(0), epoch, seq, at: T.plus_ms(90), mark: T, floor, rows };
        assert_eq!(store.commit(&[batch]), Ok(vec![Outcome::Applied]));
    }
}

/// A backfill that goes on, with one of its runs, and one that was cancelled.
fn backfills(job: JobId, run: Run) -> Vec<Row> {
    let running = Backfill {
        id: BackfillId(run.id.0 - 1),
        job,
        version: Version(1),
        from: T.plus_ms(-100),
        to: T,
        next: Some(T.plus_ms(-50)),
        made: 1,
        made_at: Some(T.plus_ms(-3)),
        total: 9,
        pace: Pace { runs: 30, per_ms: 60_000 },
        parallel: Some(2),
        at: T,
        by: "ann".into(),
        reason: Some("the price was wrong".into()),
        end: None,
    };
    let end = End::Cancelled { at: T.plus_ms(7), by: "eve".into(), why: Why::CancelledByUser };
    let cancelled = Backfill { id: BackfillId(run.id.0 - 2), end: Some(end), ..running.clone() };
    let link = Row::BackfillRun { run: run.id, backfill: running.id };
    let run = Run { origin: Origin::Backfill, slots: 1, slot_last: run.slot, ..run };
    vec![Row::Backfill(Box::new(running)), Row::Backfill(Box::new(cancelled)), Row::Run(Box::new(run)), link]
}

/// A rule, an alarm, a message, and the end of a run that nobody has judged: what schema 5 has more of alerts.
fn write_alerts(store: &mut dyn Store, job: JobId) {
    let channel = Channel::Slack { url: "{{secret.SLACK}}".to_owned() };
    let rule = Rule { when: [Event::Failed].into(), late_ms: Some(5_000), ..Rule::new(channel) };
    let (namespace, name, by) = ("shop".to_owned(), "oncall".to_owned(), "someone".to_owned());
    let set = Reservation::Alert { namespace, name, rule: Box::new(rule), at: T, by };
    assert_eq!(store.reserve(&set), Ok(Reserved::Done));
    let key = Key { alert: AlertId(1), job, event: Event::Failed };
    let facts = Facts { slot: Some(T.0), ..Facts::default() };
    let alarm = Alarm {
        since: T.0,
        over: None,
        told: Told::Open,
        told_at: Some(T.0),
        untold: 1,
        acked_by: None,
        facts: facts.clone(),
    };
    let notice = Notice { kind: Kind::Opened, key, facts, since: T.0, count: 1, others: Vec::new(), others_count: 0 };
    let notice = StoredNotice { id: 1, at: T, notice, tries: 2, next_at: T.plus_ms(5), error: Some("no".to_owned()) };
    let work = Work { alarms: vec![(key, Some(alarm))], notices: vec![notice], ..Work::default() };
    assert_eq!(store.reserve(&Reservation::AlertWork(Box::new(work))), Ok(Reserved::Done));
}

/// A secret, and a job that names it in a header.
fn write_secrets(store: &mut dyn Store, app: AppId, epoch: Epoch, floor: u64) {
    let name = Reservation::JobName { app, name: "ping".to_owned(), at: T };
    let Reserved::Job(job) = store.reserve(&name).unwrap() else { panic!("the name is new") };
    let secret = StoredSecret {
        namespace: "shop".to_owned(),
        name: "PARTNER".to_owned(),
        value: Secret("a value".to_owned()),
        at: T,
        by: "someone".to_owned(),
    };
    assert_eq!(store.reserve(&Reservation::Secret(secret)), Ok(Reserved::Done));
    let target = Target::Url {
        method: "POST".to_owned(),
        url: "https://partner.example/ping".to_owned(),
        headers: [("Authorization".to_owned(), "Bearer {{secret.PARTNER}}".to_owned())].into(),
        body: String::new(),
    };
    let definition = Definition {
        id: job,
        version: Version(1),
        app,
        name: "ping".to_owned(),
        spec: Spec::new(When::Manual, target),
        state: JobState::Enabled,
        at: T,
        by: "someone".to_owned(),
        managed_by: None,
        pause: None,
    };
    let rows = vec![Row::Definition(Box::new(definition))];
    let batch = Batch { partition: PartitionId(0), epoch, seq: Seq(2), at: T.plus_ms(70), mark: T, floor, rows };
    assert_eq!(store.commit(&[batch]), Ok(vec![Outcome::Applied]));
}

/// A job that waits for another.
fn write_upstream(store: &mut dyn Store, (app, settle): (AppId, JobId), epoch: Epoch, floor: u64) {
    let name = Reservation::JobName { app, name: "report".to_owned(), at: T };
    let Reserved::Job(job) = store.reserve(&name).unwrap() else { panic!("the name is new") };
    let target = Target::Handler { name: "report".to_owned(), param: String::new() };
    let (when, period, on_skip) = (Ended::Completion, Period::Window, OnSkip::Run);
    let edge = Edge { job: settle, name: "settle".to_owned(), when, period, on_skip, deadline_ms: Some(60_000) };
    let definition = Definition {
        id: job,
        version: Version(1),
        app,
        name: "report".to_owned(),
        spec: Spec { after: vec![edge], ..Spec::new(When::Cron("0 2 * * *".to_owned()), target) },
        state: JobState::Enabled,
        at: T,
        by: "someone".to_owned(),
        managed_by: None,
        pause: None,
    };
    let rows = vec![Row::Definition(Box::new(definition))];
    let batch = Batch { partition: PartitionId(0), epoch, seq: Seq(3), at: T.plus_ms(80), mark: T, floor, rows };
    assert_eq!(store.commit(&[batch]), Ok(vec![Outcome::Applied]));
}

fn restore(fixture: &str, key: &str, dir: &Path) {
    Connection::open(dir.join("rota.db")).unwrap().execute_batch(fixture).unwrap();
    let bytes = key.trim().as_bytes().chunks(2);
    let key: Vec<u8> = bytes.map(|hex| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap()).collect();
    std::fs::write(dir.join("rota.key"), key).unwrap();
}

#[test]
fn a_store_of_schema_1_opens_with_everything() {
    check(1, include_str!("fixtures/v1.sql"), include_str!("fixtures/v1.key.hex"));
}

#[test]
fn a_store_of_schema_2_opens_with_everything() {
    check(2, include_str!("fixtures/v2.sql"), include_str!("fixtures/v2.key.hex"));
}

#[test]
fn a_store_of_schema_3_opens_with_everything() {
    past(check(3, include_str!("fixtures/v3.sql"), include_str!("fixtures/v3.key.hex")));
}

#[test]
fn a_store_of_schema_4_opens_with_everything() {
    past(check(4, include_str!("fixtures/v4.sql"), include_str!("fixtures/v4.key.hex")));
}

#[test]
fn a_store_of_schema_5_opens_with_everything() {
    let (store, query) = check(5, include_str!("fixtures/v5.sql"), include_str!("fixtures/v5.key.hex"));
    assert_eq!(query.alerts(), store.alerts());
    assert_eq!(query.alarms(), store.alarms());
    assert_eq!(query.notices(), store.notices());
    past((store, query));
}

#[test]
fn a_store_of_schema_6_opens_with_everything() {
    let (store, query) = check(6, include_str!("fixtures/v6.sql"), include_str!("fixtures/v6.key.hex"));
    let all = BackfillFilter { limit: 9, ..BackfillFilter::default() };
    assert_eq!(query.backfills(&all), store.backfills(&all));
    assert_eq!(query.backfills(&all).unwrap().len(), 2);
    assert_eq!(query.notes(PartitionId(0), 0, 10), store.notes(PartitionId(0), 0, 10));
    assert_eq!(query.notes(PartitionId(0), 0, 10).unwrap().len(), 1);
    for run in query.runs(&RunFilter { limit: 10, ..RunFilter::default() }).unwrap() {
        assert_eq!(query.child(run.id), store.child(run.id));
        assert_eq!(query.children_of(run.id), store.children_of(run.id));
        assert_eq!(query.trace_parent(run.id), store.trace_parent(run.id));
    }
    assert_eq!(query.retired_secrets(), store.retired_secrets());
    assert_eq!(query.retired_secrets().unwrap().len(), 1);
    past((store, query));
}

fn past((store, query): (MemoryStore, rota_store::SqliteQuery)) {
    assert_eq!(query.terms(), store.terms());
    assert_eq!(query.freezes(), store.freezes());
    assert_eq!(query.state_changes(&StateFilter::default()), store.state_changes(&StateFilter::default()));
}

/// Compares a fixture with what the reference store makes of the same calls; gives both.
fn check(schema: u32, fixture: &str, key: &str) -> (MemoryStore, rota_store::SqliteQuery) {
    let dir = tempfile::tempdir().unwrap();
    restore(fixture, key, dir.path());
    let (mut store, query) = rota_store::open(dir.path(), 2).unwrap();
    let mut model = MemoryStore::new(2);
    write(&mut model, schema);
    let partitions = [PartitionId(0), PartitionId(1)];
    let loaded = store.claim(&partitions).unwrap();
    assert_eq!(loaded, model.claim(&partitions).unwrap());
    assert_eq!((loaded[0].epoch, loaded[0].open.len()), (Epoch(2), [1, 1, 2, 2, 2, 3][schema as usize - 1]));
    assert_eq!(loaded[0].jobs.len(), [1, 2, 2, 2, 3, 4][schema as usize - 1]);
    let all = RunFilter { limit: 10, ..RunFilter::default() };
    assert_eq!(query.runs(&all), Query::runs(&model, &all));
    assert_eq!(query.runs(&all).unwrap().len(), [3, 3, 4, 4, 5, 9][schema as usize - 1]);
    for run in query.runs(&all).unwrap() {
        assert_eq!(query.merged_into(run.id), model.merged_into(run.id));
    }
    assert_eq!(query.tokens(), model.tokens());
    assert_eq!(query.secrets(), model.secrets());
    assert_eq!(query.jobs_with_secrets(JobId(0), 10), model.jobs_with_secrets(JobId(0), 10));
    let job = loaded[0].jobs[0].id;
    assert_eq!(query.dependents(job, 10), model.dependents(job, 10));
    let of_job = RunFilter { job: Some(job), ..all };
    assert_eq!(query.runs(&of_job), Query::runs(&model, &of_job));
    assert_eq!(query.worker(WorkerId(1)), Query::worker(&model, WorkerId(1)));
    for what in [
        Reservation::Request { job, request_id: "r-1".to_owned(), body_hash: [9; 32], at: T },
        Reservation::JobName { app: loaded[0].apps[0].id, name: "settle".to_owned(), at: T },
        Reservation::JobName { app: loaded[0].apps[0].id, name: "next".to_owned(), at: T },
    ] {
        assert_eq!(store.reserve(&what), model.reserve(&what));
    }
    assert_eq!(store.reserve_ids(0, 10), model.reserve_ids(0, 10));
    drop(dir.keep());
    (model, query)
}
