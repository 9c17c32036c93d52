//! Backups of a store in use, and what is made of them.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::{self, Write};
use std::path::Path;

use rota_core::batch::{Batch, Origin, Row, Run, RunState};
use rota_core::id::{AppId, Epoch, Incarnation, JobId, PartitionId, RunId, Seq, Version, WorkerId, partition_of};
use rota_core::job::{Definition, JobState, Spec, Target, When};
use rota_core::restore::Since;
use rota_core::time::UnixMs;
use rota_core::upstream::{Edge, Ended, OnSkip, Period};
use rota_core::why::Why;
use rota_core::worker::{Protocol, Registration, Secret, WorkerState};
use rota_port::backup::{Backup, Contents, Error};
use rota_port::child::Notes;
use rota_port::history::History;
use rota_port::logs::{LogKey, Logs};
use rota_port::query::{Query, RunFilter};
use rota_port::store::{Outcome, Reservation, Reserved, Scope, Store, StoredSecret, Token};
use rota_store::backup::{
    OfflineError, Restore, RestoreError, Restored, Secrets, SqliteBackup, restore, write_offline,
};
use rota_store::logs::{FileLogs, Limits};
use rota_store::{OpenError, SqliteQuery, SqliteStore, open};

const T: UnixMs = UnixMs(1_800_000_000_000);
const ALL: Contents = Contents { has_key: true, has_logs: true };

/// A store in use: an app, a job that fires every ten seconds, a worker with a secret, a token.
struct Shop {
    store: SqliteStore,
    app: AppId,
    job: JobId,
    partition: PartitionId,
    epoch: Epoch,
    seq: Seq,
}

impl Shop {
    fn open(dir: &Path) -> Shop {
        let (mut store, _) = open(dir, 4).unwrap();
        let what =
            Reservation::App { namespace: "shop".to_owned(), name: "pay".to_owned(), pending_max: None, rates: None };
        let Ok(Reserved::App(app)) = store.reserve(&what) else { panic!("an app is always given") };
        let what = Reservation::JobName { app: app.id, name: "settle".to_owned(), at: T };
        let Ok(Reserved::Job(job)) = store.reserve(&what) else { panic!("the name is free") };
        let what = Reservation::WorkerName { app: app.id, name: "w1".to_owned() };
        assert_eq!(store.reserve(&what), Ok(Reserved::Worker(WorkerId(1))));
        let token = Token { hash: [3; 32], scope: Scope::Worker(app.id), at: T };
        assert_eq!(store.reserve(&Reservation::Token(token)), Ok(Reserved::Done));
        let partition = partition_of("shop", "pay", 4);
        let loaded = store.claim(&[partition]).unwrap().remove(0);
        let mut shop = Shop { store, app: app.id, job, partition, epoch: loaded.epoch, seq: loaded.seq };
        shop.commit(vec![shop.definition(), shop.registration()]);
        shop
    }

    fn definition(&self) -> Row {
        let target = Target::Handler { name: "settle".to_owned(), param: String::new() };
        Row::Definition(Box::new(Definition {
            id: self.job,
            version: Version(1),
            app: self.app,
            name: "settle".to_owned(),
            spec: Spec::new(When::EveryMs(10_000), target),
            state: JobState::Enabled,
            at: T,
            by: "someone".to_owned(),
            managed_by: None,
            pause: None,
        }))
    }

    fn registration(&self) -> Row {
        let worker = Registration {
            id: WorkerId(1),
            app: self.app,
            name: "w1".to_owned(),
            incarnation: Incarnation(77),
            url: "http://10.0.0.1:9000".to_owned(),
            protocol: Protocol::Http,
            handlers: vec!["settle".to_owned()],
            labels: [].into(),
            capacity: 4,
            list_max: 0,
            secret: Secret("a secret".to_owned()),
            at: T,
        };
        Row::Worker { worker: worker.into(), state: WorkerState::Online }
    }

    /// A secret of the namespace, and a job with a header.
    fn keep_secrets(&mut self) {
        let (namespace, name, by) = ("shop".to_owned(), "PARTNER".to_owned(), "someone".to_owned());
        let secret = StoredSecret { namespace, name, value: Secret("a secret".to_owned()), at: T, by };
        assert_eq!(self.store.reserve(&Reservation::Secret(secret)), Ok(Reserved::Done));
        let what = Reservation::JobName { app: self.app, name: "ping".to_owned(), at: T };
        let Ok(Reserved::Job(ping)) = self.store.reserve(&what) else { panic!("the name is free") };
        let Row::Definition(mut definition) = self.definition() else { panic!("it is one") };
        (definition.id, definition.name) = (ping, "ping".to_owned());
        definition.spec.schedule = When::Manual;
        definition.spec.target = Target::Url {
            method: "GET".to_owned(),
            url: "https://partner.example/".to_owned(),
            headers: [("Authorization".to_owned(), "a secret".to_owned())].into(),
            body: String::new(),
        };
        self.commit(vec![Row::Definition(definition)]);
    }

    fn commit(&mut self, rows: Vec<Row>) {
        self.seq = Seq(self.seq.0 + 1);
        let (partition, epoch, seq) = (self.partition, self.epoch, self.seq);
        let batch = Batch { partition, epoch, seq, at: T, mark: T, floor: 0, rows };
        assert_eq!(self.store.commit(&[batch]), Ok(vec![Outcome::Applied]));
    }

    /// A run that is open; its id.
    fn run(&mut self) -> u64 {
        let id = self.store.reserve_ids(1_000, 1).unwrap();
        let run = Run {
            id: RunId(id),
            app: self.app,
            job: self.job,
            version: Version(1),
            origin: Origin::Manual,
            slot: T,
            slot_last: T,
            slots: 1,
            state: RunState::Pending,
            why: None,
            shards: 1,
            at: T,
            ended_at: None,
            param: Some("x".repeat(5_000).into()),
        };
        self.commit(vec![Row::Run(Box::new(run))]);
        id
    }
}

fn taken(dir: &Path, contents: Contents) -> Vec<u8> {
    let mut archive = Vec::new();
    SqliteBackup::new(dir).write(T, contents, &mut archive).unwrap();
    archive
}

fn to(dir: &Path) -> Restore {
    Restore { dir: dir.to_owned(), since: Since::Skip, secrets: Secrets::Inside, now: T.plus_ms(65_000) }
}

fn restored(archive: &[u8], what: &Restore) -> Result<Restored, RestoreError> {
    restore(&mut &*archive, what)
}

fn runs(query: &SqliteQuery) -> Vec<(RunState, Option<Why>, u64)> {
    let filter = RunFilter { limit: 1_000, ..RunFilter::default() };
    query.runs(&filter).unwrap().iter().map(|run| (run.state, run.why, run.slots)).collect()
}

#[test]
fn nothing_that_was_given_out_since_can_be_given_out_again() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut shop = Shop::open(old.path());
    shop.run();
    let archive = taken(old.path(), ALL);
    let given_out = (0..5).map(|_| shop.run()).max().unwrap();
    let later = shop.store.claim(&[shop.partition]).unwrap().remove(0);

    let dir = new.path().join("data");
    let done = restored(&archive, &to(&dir)).unwrap();
    assert_eq!((done.manifest.taken_at_ms, done.manifest.era, done.manifest.partitions), (T.0, 0, 4));
    assert_eq!((done.counts.slots, done.counts.runs), (6, 1));
    let (mut store, query) = open(&dir, 4).unwrap();
    let loaded = store.claim(&[shop.partition]).unwrap().remove(0);
    assert!(loaded.epoch.0 > later.epoch.0 + 65_000, "more than one term a millisecond: {}", loaded.epoch);
    assert!(store.reserve_ids(0, 1).unwrap() > given_out.max(rota_core::id::id_floor(T.plus_ms(65_000))));
    assert_eq!((loaded.jobs.len(), loaded.workers.len(), loaded.open.len()), (1, 1, 0));
    assert_eq!(loaded.mark, T.plus_ms(65_000));
    assert_eq!(loaded.workers[0].0.secret, Secret("a secret".to_owned()));
    assert_eq!(query.tokens().unwrap().len(), 1);
    let lost = (RunState::Lost, Some(Why::Restored), 1);
    assert_eq!(runs(&query), [(RunState::Skipped, Some(Why::Restored), 6), lost]);
    drop(store);

    // A backup of what was restored knows that it was.
    let again = new.path().join("again");
    let done = restored(&taken(&dir, ALL), &to(&again)).unwrap();
    assert_eq!(done.manifest.era, u64::try_from(T.plus_ms(65_000).0 / 1_000).unwrap());
}

#[test]
fn what_ended_runs_were_about_to_fire_is_not_fired() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut shop = Shop::open(old.path());
    let what = Reservation::JobName { app: shop.app, name: "tidy".to_owned(), at: T };
    let Ok(Reserved::Job(job)) = shop.store.reserve(&what) else { panic!("the name is free") };
    let Row::Definition(mut child) = shop.definition() else { panic!("it is one") };
    let (when, period, on_skip) = (Ended::Completion, Period::SameSlot, OnSkip::Skip);
    let after = vec![Edge { job: shop.job, name: "settle".to_owned(), when, period, on_skip, deadline_ms: None }];
    (child.id, child.name) = (job, "tidy".to_owned());
    child.spec = Spec { schedule: When::Manual, after, ..child.spec };
    shop.commit(vec![Row::Definition(child)]);
    let (ended, _open) = (RunId(shop.run()), shop.run());
    let end = Row::RunSet { run: ended, job: shop.job, state: RunState::Success, why: None, ended_at: Some(T) };
    shop.commit(vec![end]);
    let dir = new.path().join("data");
    let done = restored(&taken(old.path(), ALL), &to(&dir)).unwrap();
    assert_eq!((done.counts.runs, done.counts.fired), (1, 2), "also by the run that is closed with the restore");
    let (mut store, query) = open(&dir, 4).unwrap();
    assert_eq!(query.notes(shop.partition, 0, 10), Ok(vec![]));
    let of_child = RunFilter { job: Some(job), limit: 10, ..RunFilter::default() };
    let rows = query.runs(&of_child).unwrap();
    let told = rows.iter().map(|run| (run.origin, run.state, run.why, run.slot.0 > 0)).collect::<Vec<_>>();
    assert_eq!(told, [(Origin::Upstream, RunState::Skipped, Some(Why::Restored), true); 2]);
    assert_eq!(query.children_of(ended).unwrap().len(), 1);
    assert_eq!(store.claim(&[shop.partition]).unwrap()[0].mark, T.plus_ms(65_000));
}

/// Takes the archive, and lets the shop sell on with every piece of it.
struct Busy<'a> {
    shop: &'a mut Shop,
    archive: Vec<u8>,
    sold: u64,
}

impl Write for Busy<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.shop.run();
        self.sold += 1;
        self.archive.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_backup_is_of_one_moment_and_commits_go_on_meanwhile() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut shop = Shop::open(old.path());
    for _ in 0..200 {
        shop.run();
    }
    let mut busy = Busy { shop: &mut shop, archive: Vec::new(), sold: 0 };
    SqliteBackup::new(old.path()).write(T, ALL, &mut busy).unwrap();
    let Busy { archive, sold, .. } = busy;
    assert!(sold > 5, "{sold}");
    let dir = new.path().join("data");
    assert_eq!(restored(&archive, &to(&dir)).unwrap().counts.runs, 200);
    assert!(!old.path().join("backup.part").exists());
}

/// Asks for a second backup while the first is written.
struct Greedy<'a>(&'a SqliteBackup);

impl Write for Greedy<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(matches!(self.0.write(T, ALL, &mut Vec::new()), Err(Error::Busy)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn there_is_one_at_a_time() {
    let old = tempfile::tempdir().unwrap();
    let _shop = Shop::open(old.path());
    let backup = SqliteBackup::new(old.path());
    backup.write(T, ALL, &mut Greedy(&backup)).unwrap();
    backup.write(T, ALL, &mut Vec::new()).unwrap();
}

#[test]
fn what_is_cut_off_or_changed_is_refused_and_leaves_nothing() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(Shop::open(old.path()));
    let archive = taken(old.path(), ALL);
    let mut broken: Vec<Vec<u8>> = (1..8).map(|part| archive[..archive.len() * part / 8].to_vec()).collect();
    // Within the database; a page of it that no check of SQLite would miss, or miss.
    for at in [600, 5_000, archive.len() / 2] {
        let mut changed = archive.clone();
        changed[at] ^= 1;
        broken.push(changed);
    }
    broken.push(b"no archive at all".repeat(100));
    broken.push(Vec::new());
    for (case, archive) in broken.iter().enumerate() {
        let refused = restored(archive, &to(new.path())).unwrap_err();
        assert!(matches!(refused, RestoreError::Damaged(_)), "{case}: {refused}");
        let left: Vec<_> = std::fs::read_dir(new.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["rota.lock"], "{case}");
    }
    restored(&archive, &to(new.path())).unwrap();
}

#[test]
fn a_directory_that_holds_something_is_left_alone() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shop = Shop::open(old.path());
    let archive = taken(old.path(), ALL);
    let refused = restored(&archive, &to(old.path())).unwrap_err();
    assert!(matches!(refused, RestoreError::Open(OpenError::InUse { .. })), "{refused}");
    drop(shop);
    let refused = restored(&archive, &to(old.path())).unwrap_err();
    assert!(matches!(refused, RestoreError::NotEmpty { .. }), "{refused}");
    std::fs::write(new.path().join("something"), "x").unwrap();
    let refused = restored(&archive, &to(new.path())).unwrap_err();
    assert!(refused.to_string().contains("something is in it"), "{refused}");
}

#[test]
fn a_directory_in_which_a_restore_did_not_end_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("restoring")).unwrap();
    assert!(matches!(open(dir.path(), 4).unwrap_err(), OpenError::Restoring { .. }));
}

#[test]
fn what_a_crash_left_of_a_backup_goes_with_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("backup.part"), "half a copy").unwrap();
    let _shop = Shop::open(dir.path());
    assert!(!dir.path().join("backup.part").exists());
}

#[test]
fn a_clock_before_the_backup_is_refused() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(Shop::open(old.path()));
    let archive = taken(old.path(), ALL);
    let what = Restore { now: T.plus_ms(-1), ..to(new.path()) };
    assert!(matches!(restored(&archive, &what).unwrap_err(), RestoreError::ClockBehind { .. }));
}

#[test]
fn without_the_key_it_is_asked_for_or_done_without() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut shop = Shop::open(old.path());
    shop.keep_secrets();
    drop(shop);
    let archive = taken(old.path(), Contents::default());
    assert!(!archive.windows(8).any(|window| window == b"a secret"));
    let refused = restored(&archive, &to(new.path())).unwrap_err();
    assert!(matches!(refused, RestoreError::NoKey), "{refused}");

    let given = new.path().join("given");
    let key = Secrets::File(old.path().join("rota.key"));
    restored(&archive, &Restore { secrets: key, ..to(&given) }).unwrap();
    let (_, query) = open(&given, 4).unwrap();
    assert_eq!(query.workers(None).unwrap()[0].0.secret, Secret("a secret".to_owned()));

    let wrong = new.path().join("wrong");
    let other = new.path().join("other.key");
    std::fs::write(&other, [7; 32]).unwrap();
    let refused = restored(&archive, &Restore { secrets: Secrets::File(other), ..to(&wrong) }).unwrap_err();
    assert!(matches!(refused, RestoreError::Open(OpenError::KeyWrong { .. })), "{refused}");

    let without = new.path().join("without");
    restored(&archive, &Restore { secrets: Secrets::Dropped, ..to(&without) }).unwrap();
    let (mut store, query) = open(&without, 4).unwrap();
    assert!(query.workers(None).unwrap().is_empty());
    let claimed = store.claim(&[partition_of("shop", "pay", 4)]).unwrap();
    assert_eq!(claimed[0].jobs.len(), 2, "all but the secrets is there");
    let Target::Url { headers, .. } = &claimed[0].jobs[1].spec.target else { panic!("it calls a URL") };
    assert!(headers.is_empty() && query.secrets().unwrap().is_empty());
}

#[test]
fn a_directory_is_copied_offline_if_nobody_has_it() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let nothing = write_offline(new.path(), T, ALL, &mut Vec::new()).unwrap_err();
    assert!(matches!(nothing, OfflineError::Nothing { .. }), "{nothing}");
    let shop = Shop::open(old.path());
    let in_use = write_offline(old.path(), T, ALL, &mut Vec::new()).unwrap_err();
    assert!(matches!(in_use, OfflineError::Open(OpenError::InUse { .. })), "{in_use}");
    drop(shop);
    let mut archive = Vec::new();
    write_offline(old.path(), T, ALL, &mut archive).unwrap();
    assert_eq!(restored(&archive, &to(new.path())).unwrap().counts.slots, 6);
}

#[test]
fn logs_come_with_it_if_they_shall() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(Shop::open(old.path()));
    let key = LogKey { run: RunId(7), shard: 0, no: 1 };
    let logs = FileLogs::open(&old.path().join("logs"), Limits::STANDARD).unwrap();
    logs.append(key, T, vec!["one".to_owned(), "two".to_owned()]);
    let expected = logs.read(key, 0, 1_000).unwrap();
    assert!(expected.text.contains("two"));
    let archive = taken(old.path(), ALL);
    restored(&archive, &to(new.path())).unwrap();
    let found = FileLogs::open(&new.path().join("logs"), Limits::STANDARD).unwrap();
    assert_eq!(found.read(key, 0, 1_000).unwrap().text, expected.text);
    let none = taken(old.path(), Contents { has_key: true, has_logs: false });
    assert!(none.len() < archive.len());
}
