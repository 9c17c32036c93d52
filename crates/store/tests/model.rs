//! Whatever is written, in whatever order: the SQLite store and the reference tell the same.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use rota_core::batch::{Attempt, AttemptState, Batch, Exception, Origin, Row, Run, RunState};
use rota_core::id::{
    AppId, AttemptId, Epoch, Incarnation, JobId, PartitionId, RunId, Seq, Version, WorkerId, partition_of,
};
use rota_core::job::{Definition, JobState, Spec, Target, When};
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::{Protocol, Registration, Secret, WorkerState};
use rota_port::memory::MemoryStore;
use rota_port::query::{Query, RunFilter};
use rota_port::store::{Reservation, Reserved, Store};
use rota_store::{SqliteQuery, SqliteStore};

const PARTITIONS: u16 = 4;
const T: i64 = 1_800_000_000_000;

/// One step; numbers choose among what exists.
#[derive(Clone, Debug)]
enum Step {
    /// A run; with its first attempt, or without.
    Run {
        partition: u8,
        job: u8,
        slot: i16,
        range: u8,
        state: u8,
        has_first: bool,
        is_new_block: bool,
    },
    /// Runs as nearly all are, one after the other.
    Plain {
        partition: u8,
        count: u8,
    },
    /// Runs end as nearly all do, one after the other, some of them for the second time.
    EndPlain {
        from: u8,
        count: u8,
    },
    /// Another attempt of some run.
    Attempt {
        run: u8,
        shard: u8,
    },
    /// Some attempt ends, or is released, or both; and its run with it, or not.
    End {
        run: u8,
        attempt: u8,
        state: u8,
        is_released: bool,
        ends_run: bool,
        run_first: bool,
        message: Option<String>,
    },
    /// Some run's state changes without an attempt.
    Set {
        run: u8,
        state: u8,
    },
    Define {
        job: u8,
    },
    JobState {
        job: u8,
        state: u8,
    },
    /// Jobs come to the same state together, and lose their exceptions.
    Finish {
        from: u8,
        count: u8,
    },
    Worker {
        worker: u8,
        state: u8,
    },
    WorkerState {
        worker: u8,
        state: u8,
    },
    Exception {
        job: u8,
        at: Option<i16>,
        is_armed: bool,
    },
    Listed {
        run: u8,
        is_open: bool,
    },
    /// What was gathered becomes durable.
    Commit {
        mark: u8,
        floor: Option<u8>,
    },
    Upkeep {
        days: u8,
    },
    Claim,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let message = proptest::option::of("[a-zäß☃]{0,20}");
    prop_oneof![
        8 => (any::<u8>(), any::<u8>(), any::<i16>(), 0..3_u8, any::<u8>(), any::<bool>(), proptest::bool::weighted(0.1)).prop_map(
            |(partition, job, slot, range, state, has_first, is_new_block)| {
                Step::Run { partition, job, slot, range, state, has_first, is_new_block }
            }
        ),
        1 => (any::<u8>(), 1..80_u8).prop_map(|(partition, count)| Step::Plain { partition, count }),
        2 => (any::<u8>(), 1..80_u8).prop_map(|(from, count)| Step::EndPlain { from, count }),
        3 => (any::<u8>(), 0..3_u8).prop_map(|(run, shard)| Step::Attempt { run, shard }),
        6 => (any::<u8>(), any::<u8>(), any::<u8>(), any::<bool>(), any::<bool>(), any::<bool>(), message).prop_map(
            |(run, attempt, state, is_released, ends_run, run_first, message)| {
                Step::End { run, attempt, state, is_released, ends_run, run_first, message }
            }
        ),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(run, state)| Step::Set { run, state }),
        3 => any::<u8>().prop_map(|job| Step::Define { job }),
        1 => (any::<u8>(), 1..60_u8).prop_map(|(from, count)| Step::Finish { from, count }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(job, state)| Step::JobState { job, state }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(worker, state)| Step::Worker { worker, state }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(worker, state)| Step::WorkerState { worker, state }),
        1 => (any::<u8>(), any::<Option<i16>>(), any::<bool>())
            .prop_map(|(job, at, is_armed)| Step::Exception { job, at, is_armed }),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(run, is_open)| Step::Listed { run, is_open }),
        6 => (any::<u8>(), any::<Option<u8>>()).prop_map(|(mark, floor)| Step::Commit { mark, floor }),
        1 => (1..3_u8).prop_map(|days| Step::Upkeep { days }),
        1 => Just(Step::Claim),
        1 => Just(Step::Reopen),
    ]
}

/// Both stores, and what the steps need to know to write what could be.
struct Pair {
    dir: tempfile::TempDir,
    memory: MemoryStore,
    sqlite: Option<(SqliteStore, SqliteQuery)>,
    apps: Vec<(AppId, PartitionId)>,
    headers: BTreeMap<PartitionId, (Epoch, Seq)>,
    jobs: Vec<(JobId, AppId, u32)>,
    runs: Vec<Run>,
    attempts: Vec<Attempt>,
    workers: Vec<Registration>,
    rows: BTreeMap<PartitionId, Vec<Row>>,
    blocks: BTreeMap<PartitionId, u64>,
    mark: i64,
    now: i64,
}

impl Pair {
    fn new() -> Pair {
        let dir = tempfile::tempdir().unwrap();
        let mut pair = Pair {
            memory: MemoryStore::new(PARTITIONS),
            sqlite: Some(open(&dir)),
            dir,
            apps: Vec::new(),
            headers: BTreeMap::new(),
            jobs: Vec::new(),
            runs: Vec::new(),
            attempts: Vec::new(),
            workers: Vec::new(),
            rows: BTreeMap::new(),
            blocks: BTreeMap::new(),
            mark: T,
            now: T,
        };
        for n in 0..5 {
            let name = format!("app-{n}");
            let what = Reservation::App {
                namespace: "shop".to_owned(),
                name: name.clone(),
                pending_max: Some(n),
                rates: None,
            };
            let Reserved::App(app) = pair.both(|store| store.reserve(&what)).unwrap() else { panic!("it is given") };
            pair.apps.push((app.id, partition_of("shop", &name, PARTITIONS)));
        }
        pair.claim();
        pair
    }

    /// Calls both, and gives the answer that both gave.
    fn both<T: PartialEq + std::fmt::Debug>(&mut self, call: impl Fn(&mut dyn Store) -> T) -> T {
        let sqlite = call(&mut self.sqlite.as_mut().unwrap().0);
        assert_eq!(sqlite, call(&mut self.memory));
        sqlite
    }

    fn same<T: PartialEq + std::fmt::Debug>(&self, ask: impl Fn(&dyn Query) -> T) {
        assert_eq!(ask(&self.sqlite.as_ref().unwrap().1), ask(&self.memory));
    }

    fn claim(&mut self) {
        let all: Vec<PartitionId> = (0..PARTITIONS).map(PartitionId).collect();
        for loaded in self.both(|store| store.claim(&all)).unwrap() {
            self.headers.insert(loaded.partition, (loaded.epoch, loaded.seq));
        }
    }

    fn write(&mut self, app: AppId, row: Row) {
        let partition = self.apps.iter().find(|(id, _)| *id == app).unwrap().1;
        self.rows.entry(partition).or_default().push(row);
    }

    fn mint(&mut self, partition: PartitionId, is_new_block: bool) -> u64 {
        if is_new_block || !self.blocks.contains_key(&partition) {
            let block = self.both(|store| store.reserve_ids(1_000, 1_000)).unwrap();
            self.blocks.insert(partition, block);
        }
        let next = self.blocks.get_mut(&partition).unwrap();
        *next += 1;
        *next
    }

    fn run(&mut self, step: &Step) {
        match step.clone() {
            Step::Run { partition, job, slot, range, state, has_first, is_new_block } => {
                let (app, partition) = *pick(&self.apps, partition).unwrap();
                let (job, version) = pick(&self.jobs, job).map_or((JobId(7), 1), |(job, _, version)| (*job, *version));
                let state = RunState::ALL[usize::from(state) % RunState::ALL.len()];
                let slot = UnixMs(T + i64::from(slot));
                let run = Run {
                    id: RunId(self.mint(partition, is_new_block)),
                    app,
                    job,
                    version: Version(version),
                    origin: if range == 2 { Origin::Api } else { Origin::Schedule },
                    slot,
                    slot_last: slot.plus_ms(i64::from(range) * 500),
                    slots: u64::from(range) + 1,
                    state,
                    why: state.is_terminal().then_some(Why::Paused),
                    shards: 3,
                    at: UnixMs(self.now),
                    ended_at: state.is_terminal().then_some(UnixMs(self.now + 1)),
                    param: (range == 2).then(|| "param".into()),
                };
                self.write(app, Row::Run(Box::new(run.clone())));
                if has_first {
                    let first = self.attempt(&run, 0, 1);
                    self.write(app, Row::Attempt(Box::new(first)));
                }
                self.runs.push(run);
            }
            Step::Plain { partition, count } => {
                let (app, partition) = *pick(&self.apps, partition).unwrap();
                for n in 0..count {
                    let run = self.plain(app, partition, n);
                    let first = self.attempt(&run, 0, 1);
                    self.write(app, Row::Run(Box::new(run.clone())));
                    self.write(app, Row::Attempt(Box::new(first)));
                    self.runs.push(run);
                }
            }
            Step::EndPlain { from, count } => {
                let from = usize::from(from) % self.runs.len().max(1);
                for run in self.runs.iter().skip(from).take(usize::from(count)).cloned().collect::<Vec<_>>() {
                    self.end_plain(&run);
                }
            }
            Step::Attempt { run, shard } => {
                let Some(run) = pick(&self.runs, run).cloned() else { return };
                let shard = u32::from(shard);
                let before = self.attempts.iter().filter(|attempt| attempt.run == run.id && attempt.shard == shard);
                let no = u32::try_from(before.count()).unwrap() + 1;
                let attempt = self.attempt(&run, shard, no);
                self.write(run.app, Row::Attempt(Box::new(attempt)));
            }
            Step::End { run, attempt, state, is_released, ends_run, run_first, message } => {
                let Some(run) = pick(&self.runs, run).cloned() else { return };
                let of_run: Vec<usize> =
                    (0..self.attempts.len()).filter(|at| self.attempts[*at].run == run.id).collect();
                let Some(at) = pick(&of_run, attempt).copied() else { return };
                let now = UnixMs(self.now + 9);
                let attempt = &mut self.attempts[at];
                attempt.state = AttemptState::ALL[usize::from(state) % AttemptState::ALL.len()];
                attempt.why = (state % 3 == 0).then_some(Why::HandlerFailed);
                attempt.ended_at = attempt.ended_at.or(attempt.state.is_terminal().then_some(now));
                attempt.released_at = attempt.released_at.or(is_released.then_some(now));
                attempt.message = message.map(Into::into);
                let set = Row::AttemptSet(Box::new(attempt.clone()));
                let end = Row::RunSet {
                    run: run.id,
                    job: run.job,
                    state: RunState::Failed,
                    why: Some(Why::Edited),
                    ended_at: Some(now),
                };
                match (ends_run, run_first) {
                    (false, _) => self.write(run.app, set),
                    (true, false) => [set, end].into_iter().for_each(|row| self.write(run.app, row)),
                    (true, true) => [end, set].into_iter().for_each(|row| self.write(run.app, row)),
                }
            }
            Step::Set { run, state } => {
                let Some(run) = pick(&self.runs, run).cloned() else { return };
                // Terminal runs end, and stay ended.
                let state = RunState::ALL[3 + usize::from(state) % (RunState::ALL.len() - 3)];
                let ended_at = Some(UnixMs(self.now + 5));
                self.write(run.app, Row::RunSet { run: run.id, job: run.job, state, why: None, ended_at });
            }
            Step::Define { job } => self.define(job),
            Step::JobState { job, state } => {
                let Some((job, app, _)) = pick(&self.jobs, job).copied() else { return };
                let state = [JobState::Enabled, JobState::Paused, JobState::Finished, JobState::Deleted]
                    [usize::from(state % 4)];
                self.write(app, Row::JobState { job, state, at: UnixMs(self.now), by: "someone".into(), reason: None });
            }
            Step::Finish { from, count } => {
                let from = usize::from(from) % self.jobs.len().max(1);
                let jobs: Vec<_> = self.jobs.iter().skip(from).take(usize::from(count)).copied().collect();
                for (job, app, _) in &jobs {
                    self.write(*app, Row::Exception { job: *job, exception: None });
                }
                for (job, app, _) in jobs {
                    let (state, at) = (JobState::Finished, UnixMs(self.now));
                    self.write(app, Row::JobState { job, state, at, by: "schedule".into(), reason: None });
                }
            }
            Step::Worker { worker, state } => self.register(worker, state),
            Step::WorkerState { worker, state } => {
                let Some(worker) = pick(&self.workers, worker).cloned() else { return };
                self.write(worker.app, Row::WorkerState { worker: worker.id, state: worker_state(state) });
            }
            Step::Exception { job, at, is_armed } => {
                let Some((job, app, _)) = pick(&self.jobs, job).copied() else { return };
                let at = at.map(|at| UnixMs(T + i64::from(at)));
                let exception = at.map(|at| match (is_armed, at.0 % 2) {
                    (true, _) => Exception::Armed(at),
                    (false, 0) => Exception::Covered(at),
                    (false, _) => Exception::Judged { covered: at, until: at.plus_ms(7) },
                });
                self.write(app, Row::Exception { job, exception });
            }
            Step::Listed { run, is_open } => {
                let Some(run) = pick(&self.runs, run).cloned() else { return };
                self.write(run.app, Row::Listed { run: run.id, is_open });
            }
            Step::Commit { mark, floor } => self.commit(mark, floor),
            Step::Upkeep { days } => {
                self.now += i64::from(days) * 24 * 3_600_000;
                let now = UnixMs(self.now);
                self.memory.upkeep(now).unwrap();
                let sqlite = &mut self.sqlite.as_mut().unwrap().0;
                assert!((0..1_000).any(|_| !sqlite.upkeep(now).unwrap()));
            }
            Step::Claim => {
                self.commit(0, Some(0));
                self.claim();
            }
            Step::Reopen => {
                self.sqlite = None;
                self.sqlite = Some(open(&self.dir));
            }
        }
    }

    fn plain(&mut self, app: AppId, partition: PartitionId, n: u8) -> Run {
        let slot = UnixMs(T + i64::from(n));
        Run {
            id: RunId(self.mint(partition, false)),
            app,
            job: self.jobs.first().map_or(JobId(7), |(job, _, _)| *job),
            version: Version(1),
            origin: Origin::Schedule,
            slot,
            slot_last: slot,
            slots: 1,
            state: RunState::Dispatched,
            why: None,
            // Now and then one that is not plain.
            shards: if n % 50 == 49 { 2 } else { 1 },
            at: UnixMs(self.now),
            ended_at: None,
            param: None,
        }
    }

    fn end_plain(&mut self, run: &Run) {
        let Some(first) = self.attempts.iter_mut().find(|a| (a.run, a.shard, a.no) == (run.id, 0, 1)) else { return };
        let at = UnixMs(self.now + 3);
        (first.state, first.why, first.message) = (AttemptState::Success, None, None);
        (first.ended_at, first.released_at) = (Some(at), Some(at));
        let set = Row::AttemptSet(Box::new(first.clone()));
        self.write(run.app, set);
        let (state, why, ended_at) = (RunState::Success, None, Some(at));
        self.write(run.app, Row::RunSet { run: run.id, job: run.job, state, why, ended_at });
    }

    fn attempt(&mut self, run: &Run, shard: u32, no: u32) -> Attempt {
        let partition = self.apps.iter().find(|(id, _)| *id == run.app).unwrap().1;
        let id = if (shard, no) == (0, 1) { run.id.0 } else { self.mint(partition, false) };
        let attempt = Attempt {
            id: AttemptId(id),
            run: run.id,
            shard,
            no,
            worker: WorkerId(3),
            incarnation: Incarnation(5),
            state: AttemptState::Dispatched,
            why: None,
            at: run.at.plus_ms(i64::from(shard)),
            ended_at: None,
            released_at: None,
            message: None,
        };
        self.attempts.push(attempt.clone());
        attempt
    }

    fn define(&mut self, job: u8) {
        let at = usize::from(job % 80);
        if at >= self.jobs.len() {
            let app = pick(&self.apps, job).unwrap().0;
            let what = Reservation::JobName { app, name: format!("job-{}", self.jobs.len()), at: UnixMs(self.now) };
            let Reserved::Job(id) = self.both(|store| store.reserve(&what)).unwrap() else { return };
            self.jobs.push((id, app, 0));
        }
        let at = at.min(self.jobs.len() - 1);
        self.jobs[at].2 += 1;
        let (id, app, version) = self.jobs[at];
        let target = Target::Handler { name: "echo".to_owned(), param: format!("{job}") };
        let definition = Definition {
            id,
            version: Version(version),
            app,
            name: format!("job-{at}"),
            spec: Spec::new(When::EveryMs(1_000), target),
            state: JobState::Enabled,
            at: UnixMs(self.now),
            by: "someone".to_owned(),
            managed_by: job.is_multiple_of(3).then(|| "shop".to_owned()),
            pause: None,
        };
        self.write(app, Row::Definition(Box::new(definition)));
    }

    fn register(&mut self, worker: u8, state: u8) {
        let app = pick(&self.apps, worker).unwrap().0;
        let what = Reservation::WorkerName { app, name: format!("w{}", worker % 3) };
        let Reserved::Worker(id) = self.both(|store| store.reserve(&what)).unwrap() else { panic!("the app exists") };
        let registration = Registration {
            id,
            app,
            name: format!("w{}", worker % 3),
            incarnation: Incarnation(u64::from(state)),
            url: "http://h:1".to_owned(),
            protocol: Protocol::Http,
            handlers: vec!["echo".to_owned()],
            labels: [("n".to_owned(), worker.to_string())].into(),
            capacity: 4,
            list_max: 0,
            secret: Secret(format!("secret {worker}")),
            at: UnixMs(self.now),
        };
        self.workers.push(registration.clone());
        self.write(app, Row::Worker { worker: registration.into(), state: worker_state(state) });
    }

    fn commit(&mut self, mark: u8, floor: Option<u8>) {
        self.mark += i64::from(mark);
        let floor = floor.map_or(u64::MAX, |floor| pick(&self.runs, floor).map_or(0, |run| run.id.0));
        let mut batches = Vec::new();
        for (partition, rows) in std::mem::take(&mut self.rows) {
            let (epoch, seq) = self.headers.get_mut(&partition).unwrap();
            seq.0 += 1;
            let (epoch, seq) = (*epoch, *seq);
            batches.push(Batch { partition, epoch, seq, at: UnixMs(self.now), mark: UnixMs(self.mark), floor, rows });
        }
        self.both(|store| store.commit(&batches)).unwrap();
    }

    fn compare(&self) {
        let filter = RunFilter { limit: 500, ..RunFilter::default() };
        self.same(|query| query.runs(&filter));
        for job in self.jobs.iter().map(|(job, _, _)| *job).chain([JobId(7)]) {
            for state in [None, Some(RunState::Failed)] {
                self.same(|query| query.runs(&RunFilter { job: Some(job), state, ..filter.clone() }));
            }
            self.same(|query| query.job(job));
            self.same(|query| query.job_version(job, Version(1)));
        }
        for (app, _) in &self.apps {
            self.same(|query| query.runs(&RunFilter { app: Some(*app), limit: 3, ..filter.clone() }));
            self.same(|query| query.jobs(Some(*app), JobId(0), 100));
            self.same(|query| query.workers(Some(*app)));
        }
        self.same(|query| query.runs(&RunFilter { since: Some(UnixMs(self.now)), ..filter.clone() }));
        for run in &self.runs {
            self.same(|query| query.run(run.id));
            self.same(|query| query.attempts(run.id));
        }
        // A shorter suffix is looked for among recent runs only, and each store has its own idea of those.
        for digits in [6, 7, 11] {
            let value = self.runs.last().map_or(1, |run| run.id.0);
            self.same(|query| query.runs_with_suffix(value, digits));
        }
    }
}

fn pick<T>(from: &[T], number: u8) -> Option<&T> {
    from.get(usize::from(number) % from.len().max(1))
}

fn worker_state(number: u8) -> WorkerState {
    [WorkerState::Online, WorkerState::Draining, WorkerState::Unreachable, WorkerState::Offline]
        [usize::from(number % 4)]
}

fn open(dir: &tempfile::TempDir) -> (SqliteStore, SqliteQuery) {
    let (store, query) = rota_store::open(dir.path(), PARTITIONS).unwrap();
    (store.with_segment_rows_max(20), query)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn both_stores_tell_the_same(steps in proptest::collection::vec(step(), 1..250)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.run(step);
            if matches!(step, Step::Upkeep { .. } | Step::Reopen) {
                pair.compare();
            }
        }
        pair.run(&Step::Claim);
        pair.compare();
        pair.run(&Step::Reopen);
        pair.run(&Step::Claim);
        pair.compare();
    }
}
