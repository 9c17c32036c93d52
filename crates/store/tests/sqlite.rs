//! What only a store in files can suffer.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rota_core::batch::{Attempt, AttemptState, Batch, Loaded, Origin, Row, Run, RunState};
use rota_core::id::{
    AppId, AttemptId, Epoch, Incarnation, JobId, PartitionId, RunId, Seq, Version, WorkerId, partition_of,
};
use rota_core::job::{Definition, JobState, Spec, Target, When};
use rota_core::time::UnixMs;
use rota_core::worker::{Protocol, Registration, Secret, WorkerState};
use rota_port::query::{Query, RunFilter};
use rota_port::store::{Error, Outcome, Reservation, Reserved, Store, StoredSecret};
use rota_store::{OpenError, SqliteQuery, SqliteStore, open};
use rusqlite::Connection;

const T: UnixMs = UnixMs(1_800_000_000_000);
const DAY_MS: i64 = 24 * 3_600_000;

/// Whether a file of the directory holds these bytes.
fn is_anywhere(dir: &Path, bytes: &[u8]) -> bool {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.map(|path| std::fs::read(path).unwrap()).any(|file| file.windows(bytes.len()).any(|window| window == bytes))
}

#[test]
fn no_file_holds_a_secret_or_the_value_of_a_header() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::open(dir.path());
    let secret = StoredSecret {
        namespace: "shop".to_owned(),
        name: "PARTNER".to_owned(),
        value: Secret("value-of-partner".to_owned()),
        at: T,
        by: "someone".to_owned(),
    };
    assert_eq!(bench.store.reserve(&Reservation::Secret(secret.clone())), Ok(Reserved::Done));
    let target = Target::Url {
        method: "POST".to_owned(),
        url: "https://partner.example/a-plain-path".to_owned(),
        headers: [("x-key".to_owned(), "value-of-header".to_owned())].into(),
        body: String::new(),
    };
    let definition = Definition {
        id: JobId(7),
        version: Version(1),
        app: bench.app,
        name: "ping".to_owned(),
        spec: Spec::new(When::Manual, target),
        state: JobState::Enabled,
        at: T,
        by: "someone".to_owned(),
        managed_by: None,
        pause: None,
    };
    bench.commit(vec![Row::Definition(Box::new(definition.clone()))]);
    assert!(is_anywhere(dir.path(), b"a-plain-path"), "what is not sealed is found, so the search sees what is there");
    assert!(!is_anywhere(dir.path(), b"value-of-partner") && !is_anywhere(dir.path(), b"value-of-header"));
    // A sealed value opens under its own name only.
    let file = Connection::open(dir.path().join("rota.db")).unwrap();
    let copied =
        "INSERT INTO secret (namespace, name, value, at, by) SELECT namespace, 'OTHER', value, at, by FROM secret";
    assert_eq!(bench.query.secrets(), Ok(vec![secret]));
    file.execute(copied, []).unwrap();
    assert!(matches!(bench.query.secrets(), Err(Error::Corrupt(_))));
    assert_eq!(bench.query.job(JobId(7)), Ok(Some(definition)));
}

struct Bench {
    store: SqliteStore,
    query: SqliteQuery,
    app: AppId,
    partition: PartitionId,
    epoch: Epoch,
    seq: Seq,
    loaded: Loaded,
}

impl Bench {
    fn open(dir: &Path) -> Bench {
        Bench::with(open(dir, 4).unwrap())
    }

    fn with((mut store, query): (SqliteStore, SqliteQuery)) -> Bench {
        let what =
            Reservation::App { namespace: "shop".to_owned(), name: "pay".to_owned(), pending_max: None, rates: None };
        let Ok(Reserved::App(app)) = store.reserve(&what) else { panic!("an app is always given") };
        let partition = partition_of("shop", "pay", 4);
        let loaded = store.claim(&[partition]).unwrap().remove(0);
        Bench { store, query, app: app.id, partition, epoch: loaded.epoch, seq: loaded.seq, loaded }
    }

    fn batch(&self, rows: Vec<Row>) -> Batch {
        let (partition, epoch, seq) = (self.partition, self.epoch, Seq(self.seq.0 + 1));
        Batch { partition, epoch, seq, at: T, mark: T, floor: 0, rows }
    }

    fn commit(&mut self, rows: Vec<Row>) {
        let batch = self.batch(rows);
        self.apply(&batch);
    }

    fn apply(&mut self, batch: &Batch) {
        assert_eq!(self.store.commit(std::slice::from_ref(batch)), Ok(vec![Outcome::Applied]));
        self.seq = batch.seq;
    }

    fn upkeep(&mut self, now: UnixMs) {
        let is_done = (0..10_000).any(|_| !self.store.upkeep(now).unwrap());
        assert!(is_done, "upkeep comes to an end");
    }

    fn of_job(&self, job: u32) -> Vec<u64> {
        let filter = RunFilter { job: Some(JobId(job)), limit: 1_000, ..RunFilter::default() };
        self.query.runs(&filter).unwrap().iter().map(|run| run.id.0).collect()
    }

    fn run(&self, id: u64, job: u32) -> Run {
        Run {
            id: RunId(id),
            app: self.app,
            job: JobId(job),
            version: Version(1),
            origin: Origin::Schedule,
            slot: T,
            slot_last: T,
            slots: 1,
            state: RunState::Dispatched,
            why: None,
            shards: 1,
            at: T,
            ended_at: None,
            param: None,
        }
    }
}

fn sent(run: &Run, no: u32) -> Row {
    Row::Attempt(Box::new(Attempt {
        id: AttemptId(run.id.0 + u64::from(no) - 1),
        run: run.id,
        shard: 0,
        no,
        worker: WorkerId(1),
        incarnation: Incarnation(1),
        state: AttemptState::Dispatched,
        why: None,
        at: T,
        ended_at: None,
        released_at: None,
        message: None,
    }))
}

fn row(run: &Run) -> Row {
    Row::Run(Box::new(run.clone()))
}

fn ended(run: &Run, at: UnixMs) -> Row {
    Row::RunSet { run: run.id, job: run.job, state: RunState::Failed, why: None, ended_at: Some(at) }
}

/// A run whose parameter is large.
fn heavy(bench: &Bench, id: u64) -> Row {
    row(&Run { param: Some("x".repeat(100_000).into()), ..bench.run(id, 1) })
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_second_server_is_refused_and_told_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), 4).unwrap();
    let refused = open(dir.path(), 4).unwrap_err();
    let own = std::process::id();
    assert!(matches!(refused, OpenError::InUse { pid: Some(pid), since: Some(_), .. } if pid == own), "{refused}");
    assert!(refused.to_string().contains(&format!("in use by process {own} since 20")), "{refused}");
    drop(first);
    open(dir.path(), 4).unwrap();
}

#[test]
fn a_copy_taken_while_it_is_open_opens_with_everything_that_was_answered() {
    let (dir, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut bench = Bench::open(dir.path());
    for id in 0..300 {
        let run = bench.run(1_000 + id, 1);
        bench.commit(vec![row(&run), sent(&run, 1)]);
    }
    copy(dir.path(), crashed.path());
    let again = Bench::open(crashed.path());
    assert_eq!(again.loaded.open.len(), 300);
    assert_eq!((again.loaded.epoch, again.loaded.seq), (Epoch(bench.epoch.0 + 1), bench.seq));
}

#[test]
fn a_full_disk_changes_nothing_and_passes() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::open(dir.path());
    bench.store.limit_pages(Some(60)).unwrap();
    let mut id = 0;
    let full = loop {
        let batch = bench.batch(vec![heavy(&bench, id)]);
        match bench.store.commit(std::slice::from_ref(&batch)) {
            Ok(outcomes) => {
                assert_eq!(outcomes, [Outcome::Applied]);
                bench.seq = batch.seq;
            }
            Err(error) => break (batch, error),
        }
        id += 1;
        assert!(id < 100, "the disk gets full");
    };
    assert!(matches!(&full.1, Error::Unavailable(why) if why.contains("full")), "{:?}", full.1);
    assert_eq!(bench.query.run(RunId(id)), Ok(None));
    assert!(bench.store.reserve_ids(0, 10).is_ok(), "what needs no room goes on");
    assert!(matches!(bench.store.commit(std::slice::from_ref(&full.0)), Err(Error::Unavailable(_))));
    bench.store.limit_pages(None).unwrap();
    bench.apply(&full.0);
    assert!(bench.query.run(RunId(id)).unwrap().is_some());
    let seq = bench.seq;
    drop(bench);
    assert_eq!(Bench::open(dir.path()).loaded.seq, seq);
}

#[test]
fn a_locked_file_is_unavailable_until_it_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::open(dir.path());
    let batch = bench.batch(vec![row(&bench.run(1, 1))]);
    let other = Connection::open(dir.path().join("rota.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(bench.store.commit(std::slice::from_ref(&batch)), Err(Error::Unavailable(_))));
    assert!(matches!(bench.store.claim(&[bench.partition]), Err(Error::Unavailable(_))));
    assert!(matches!(bench.store.reserve_ids(0, 1), Err(Error::Unavailable(_))));
    assert_eq!(bench.query.run(RunId(1)), Ok(None), "readers are not held up");
    other.execute_batch("ROLLBACK").unwrap();
    bench.apply(&batch);
}

#[test]
fn another_number_of_partitions_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 4).unwrap());
    let refused = open(dir.path(), 8).unwrap_err();
    assert!(matches!(refused, OpenError::Partitions { stored: 4, asked: 8 }), "{refused}");
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 4).unwrap());
    let file = dir.path().join("rota.db");
    let newer = Connection::open(&file).unwrap();
    let known: u32 = newer.query_row("SELECT max(version) FROM schema_version", [], |row| row.get(0)).unwrap();
    newer.execute("INSERT INTO schema_version (version) VALUES (99)", []).unwrap();
    drop(newer);
    let refused = open(dir.path(), 4).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 99, known: k } if k == known), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("schema 99") && text.contains(&format!("schema {known} ")), "{text}");
    let count = Connection::open(&file).unwrap().query_row("SELECT count(*) FROM schema_version", [], |row| row.get(0));
    assert_eq!(count, Ok(known + 1));
}

#[test]
fn what_is_no_database_or_anothers_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rota.db");
    std::fs::write(&file, "this is not a database, but it is long enough to be taken for one ".repeat(100)).unwrap();
    let refused = open(dir.path(), 4).unwrap_err();
    assert!(matches!(&refused, OpenError::Corrupt { .. }), "{refused:?}");
    assert!(refused.to_string().contains("rota.db"), "{refused}");
    std::fs::remove_file(&file).unwrap();
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let refused = open(dir.path(), 4).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused:?}");
}

#[test]
fn a_damaged_page_is_reported_and_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::open(dir.path());
    for id in 0..50 {
        bench.commit(vec![heavy(&bench, id)]);
    }
    drop(bench);
    let file = dir.path().join("rota.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let pages = bytes.len() / 4096;
    for page in 1..pages {
        bytes[page * 4096..(page + 1) * 4096].fill(0xAB);
    }
    std::fs::write(&file, bytes).unwrap();
    match open(dir.path(), 4) {
        Err(OpenError::Corrupt { .. }) => {}
        other => panic!("a damaged database cannot be opened: {other:?}"),
    }
}

#[test]
fn the_key_must_be_the_one_of_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::open(dir.path());
    let worker = Registration {
        id: WorkerId(1),
        app: bench.app,
        name: "w1".to_owned(),
        incarnation: Incarnation(1),
        url: "http://h".to_owned(),
        protocol: Protocol::Http,
        handlers: vec![],
        labels: [].into(),
        capacity: 1,
        list_max: 0,
        secret: Secret("very-secret-words".to_owned()),
        at: T,
    };
    bench.commit(vec![Row::Worker { worker: worker.into(), state: WorkerState::Online }]);
    drop(bench);
    for name in ["rota.db", "rota.db-wal"] {
        let bytes = std::fs::read(dir.path().join(name)).unwrap_or_default();
        assert!(!bytes.windows(17).any(|window| window == b"very-secret-words"), "{name} tells the secret");
    }
    let key = dir.path().join("rota.key");
    let right = std::fs::read(&key).unwrap();
    std::fs::write(&key, [7; 32]).unwrap();
    assert!(matches!(open(dir.path(), 4), Err(OpenError::KeyWrong { .. })));
    std::fs::remove_file(&key).unwrap();
    assert!(matches!(open(dir.path(), 4), Err(OpenError::KeyMissing { .. })));
    std::fs::write(&key, right).unwrap();
    assert_eq!(Bench::open(dir.path()).loaded.workers[0].0.secret.0, "very-secret-words");
}

#[test]
fn files_are_for_their_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let mut bench = Bench::open(&dir);
    bench.commit(vec![row(&bench.run(1, 1))]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(names.iter().any(|path| path.ends_with("rota.db-wal")), "{names:?}");
    for path in names {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn segments_begin_when_full_and_late_ids_go_to_the_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let (store, query) = open(dir.path(), 4).unwrap();
    let mut bench = Bench::with((store.with_segment_rows_max(10), query));
    let mut next = bench.store.reserve_ids(1_000, 100).unwrap();
    let mut job_runs = Vec::new();
    for _ in 0..12 {
        // Each block outlives the segment that it was taken in.
        let block = bench.store.reserve_ids(0, 100).unwrap();
        for id in (block..block + 5).chain(next..next + 3) {
            bench.commit(vec![row(&bench.run(id, 7)), row(&bench.run(id + 50, 8))]);
            job_runs.push(id);
        }
        next += 3;
    }
    job_runs.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(bench.of_job(7), job_runs);
    bench.upkeep(T.plus_ms(60_000));
    assert_eq!(bench.of_job(7), job_runs);
    let tables = Connection::open(dir.path().join("rota.db")).unwrap();
    let indexed: i64 =
        tables.query_row("SELECT count(*) FROM segment WHERE is_indexed = 1", [], |row| row.get(0)).unwrap();
    assert!(indexed > 5, "{indexed} segments have their by-job table");
    // Into a segment that has its table already.
    bench.commit(vec![row(&bench.run(next, 7))]);
    job_runs.push(next);
    job_runs.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(bench.of_job(7), job_runs);
    drop((bench, tables));
    let mut bench = Bench::open(dir.path());
    assert_eq!(bench.of_job(7), job_runs);
    bench.upkeep(T.plus_ms(120_000));
    assert_eq!(bench.of_job(7), job_runs);
}

#[test]
fn a_whole_segment_is_dropped_and_one_that_is_needed_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (store, query) = open(dir.path(), 4).unwrap();
    let mut bench = Bench::with((store.with_segment_rows_max(10), query));
    // Three full segments and an open one: all ended; one still open; one listed.
    let mut firsts = Vec::new();
    for segment in 0..4 {
        let block = bench.store.reserve_ids(1_000, 100).unwrap();
        firsts.push(block);
        for id in block..block + 10 {
            let run = bench.run(id, 7);
            let mut rows = vec![row(&run), sent(&run, 1), sent(&run, 2)];
            if segment != 1 || id != block {
                rows.push(ended(&run, T.plus_ms(1)));
            }
            if segment == 2 && id == block {
                rows.push(Row::Listed { run: run.id, is_open: true });
            }
            bench.commit(rows);
        }
        if segment < 3 {
            // The next commit seals, and a block that is taken then belongs to the next segment.
            bench.commit(vec![]);
        }
    }
    let old = T.plus_ms(7 * DAY_MS);
    let check = |bench: &Bench, expected: [bool; 4]| {
        let there = [0, 1, 2, 3].map(|n| bench.query.run(RunId(firsts[n])).unwrap().is_some());
        assert_eq!(there, expected);
        for (first, there) in firsts.iter().zip(there) {
            assert_eq!(bench.query.attempts(RunId(*first)).unwrap().len(), if there { 2 } else { 0 });
        }
    };
    assert_eq!(bench.store.sweep(T, u64::MAX), Ok(0), "all are younger");
    assert_eq!(bench.store.sweep(old, firsts[0] + 1), Ok(0), "the floor is within the first");
    assert_eq!(bench.store.sweep(old, u64::MAX), Ok(1));
    check(&bench, [false, true, true, true]);
    // An id of the dropped segment's range, inserted late, has its place.
    let late = bench.run(firsts[0] + 50, 7);
    bench.commit(vec![row(&late), ended(&late, T.plus_ms(2))]);
    bench.upkeep(T.plus_ms(60_000));
    assert!(bench.of_job(7).contains(&late.id.0));
    drop(bench);
    let mut bench = Bench::open(dir.path());
    // After a restart, too; the last one was sealed meanwhile.
    assert_eq!(bench.store.sweep(old, u64::MAX), Ok(1));
    check(&bench, [false, true, true, false]);
    let still_open = bench.run(firsts[1], 7);
    bench.commit(vec![ended(&still_open, T.plus_ms(3))]);
    assert_eq!(bench.store.sweep(T.plus_ms(3), u64::MAX), Ok(0), "it ended just now");
    bench.commit(vec![Row::Listed { run: RunId(firsts[2]), is_open: false }]);
    assert_eq!(bench.store.sweep(old, u64::MAX), Ok(2));
    check(&bench, [false; 4]);
    let id = bench.store.reserve_ids(0, 1).unwrap();
    let last = bench.run(id, 7);
    bench.commit(vec![row(&last), ended(&last, T)]);
    assert_eq!(bench.store.sweep(old, u64::MAX), Ok(0), "the open segment stays");
    assert_eq!(bench.of_job(7), [last.id.0]);
}

#[test]
fn upkeep_moves_the_log_into_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::open(dir.path());
    bench.upkeep(T);
    bench.commit((0..40).map(|id| heavy(&bench, id)).collect());
    let file = dir.path().join("rota.db");
    let before = std::fs::metadata(&file).unwrap().len();
    bench.upkeep(T.plus_ms(60_000));
    let after = std::fs::metadata(&file).unwrap().len();
    assert!(after > before + 3_000_000, "{before} bytes before, {after} after");
}

#[test]
fn a_search_that_looks_at_too_much_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (store, query) = open(dir.path(), 4).unwrap();
    let mut bench = Bench::with((store, query.with_work_max(1)));
    bench.commit((0..5_000).map(|id| row(&bench.run(1_000 + id, 7))).collect());
    let rare = RunFilter { state: Some(RunState::Merged), limit: 10, ..RunFilter::default() };
    let refused = bench.query.runs(&rare);
    assert!(matches!(&refused, Err(Error::Unavailable(why)) if why.contains("narrow it")), "{refused:?}");
    for _ in 0..5 {
        assert_eq!(bench.query.runs(&RunFilter { limit: 10, ..RunFilter::default() }).unwrap().len(), 10);
    }
}

#[test]
fn a_run_that_comes_while_a_by_job_table_is_filled_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, query) = open(dir.path(), 4).unwrap();
    let mut bench = Bench::with((store.with_segment_rows_max(5_000), query));
    let block = bench.store.reserve_ids(1_000, 10_000).unwrap();
    bench.commit((0..5_000).map(|n| row(&bench.run(block + n, 7))).collect());
    bench.commit(vec![]);
    let (late, settled) = (block + 9_000, T.plus_ms(20_000));
    for _ in 0..2 {
        assert_eq!(bench.store.upkeep(settled), Ok(true), "a slice of three is filled");
    }
    bench.commit(vec![row(&bench.run(late, 7))]);
    assert_eq!(bench.of_job(7)[..2], [late, block + 4_999]);
    bench.upkeep(settled);
    assert_eq!(bench.of_job(7)[..2], [late, block + 4_999]);
    let file = Connection::open(dir.path().join("rota.db")).unwrap();
    let filled = "SELECT count(*), (SELECT is_indexed FROM segment WHERE id = 1) FROM byjob_1";
    let filled = file.query_row(filled, [], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, bool>(1)?)));
    assert_eq!(filled, Ok((5_001, true)));
}
