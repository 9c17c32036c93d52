//! Group commits: the life of runs, inserted as dispatched and ended as a success, two rows each time.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run says so by a panic")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rota_core::batch::{Attempt, AttemptState, Batch, Origin, Row, Run, RunState};
use rota_core::id::{AppId, AttemptId, Epoch, Incarnation, JobId, PartitionId, RunId, Seq, Version, WorkerId};
use rota_core::time::UnixMs;
use rota_port::store::{Outcome, Reservation, Store};
use rota_store::SqliteStore;

const T: i64 = 1_800_000_000_000;
/// Runs that are under way between their insertion and their end.
const UNDER_WAY: u64 = 5_000;

/// A partition that runs jobs without a pause.
struct Load {
    store: SqliteStore,
    epoch: Epoch,
    seq: Seq,
    next: u64,
    now: i64,
}

impl Load {
    fn new(dir: &std::path::Path) -> Load {
        let (mut store, _query) = rota_store::open(dir, 1).unwrap();
        let app =
            Reservation::App { namespace: "shop".to_owned(), name: "pay".to_owned(), pending_max: None, rates: None };
        store.reserve(&app).unwrap();
        let loaded = store.claim(&[PartitionId(0)]).unwrap().remove(0);
        let next = store.reserve_ids(rota_core::id::id_floor(UnixMs(T)), 1 << 40).unwrap();
        Load { store, epoch: loaded.epoch, seq: loaded.seq, next, now: T }
    }

    /// The next batch of about `rows` rows: new runs, and the ends of older ones.
    fn batch(&mut self, rows: usize) -> Batch {
        self.now += 5;
        let mut written = Vec::with_capacity(rows);
        for _ in 0..rows / 4 {
            let (run, attempt) = dispatched(self.next, self.now);
            written.push(Row::Run(Box::new(run)));
            written.push(Row::Attempt(Box::new(attempt)));
            self.next += 1;
        }
        for back in (1..=rows as u64 / 4).rev() {
            let id = self.next - UNDER_WAY - back;
            let (run, attempt) = dispatched(id, self.now);
            let end = Some(UnixMs(self.now));
            let attempt = Attempt { state: AttemptState::Success, ended_at: end, released_at: end, ..attempt };
            written.push(Row::AttemptSet(Box::new(attempt)));
            written.push(Row::RunSet { run: run.id, job: run.job, state: RunState::Success, why: None, ended_at: end });
        }
        self.seq.0 += 1;
        let (epoch, seq) = (self.epoch, self.seq);
        let (at, floor) = (UnixMs(self.now), self.next - UNDER_WAY);
        Batch { partition: PartitionId(0), epoch, seq, at, mark: at, floor, rows: written }
    }

    /// Fills what is under way.
    fn warm(&mut self) {
        let rows = (0..2 * UNDER_WAY).flat_map(|n| {
            let (run, attempt) = dispatched(self.next + n, self.now);
            [Row::Run(Box::new(run)), Row::Attempt(Box::new(attempt))]
        });
        let rows = rows.collect();
        self.next += 2 * UNDER_WAY;
        self.seq.0 += 1;
        let at = UnixMs(self.now);
        let (epoch, seq) = (self.epoch, self.seq);
        self.commit(Batch { partition: PartitionId(0), epoch, seq, at, mark: at, floor: 0, rows });
    }

    fn commit(&mut self, batch: Batch) {
        let outcomes = self.store.commit(&[batch]).unwrap();
        assert_eq!(black_box(outcomes), [Outcome::Applied]);
    }
}

fn dispatched(id: u64, now: i64) -> (Run, Attempt) {
    let run = Run {
        id: RunId(id),
        app: AppId(1),
        job: JobId(JobId::FIRST.0 + u32::try_from(id % 5_000).unwrap()),
        version: Version(1),
        origin: Origin::Schedule,
        slot: UnixMs(now - 3),
        slot_last: UnixMs(now - 3),
        slots: 1,
        state: RunState::Dispatched,
        why: None,
        shards: 1,
        at: UnixMs(now),
        ended_at: None,
        param: None,
    };
    let attempt = Attempt {
        id: AttemptId(id),
        run: run.id,
        shard: 0,
        no: 1,
        worker: WorkerId(u32::try_from(id % 8).unwrap() + 1),
        incarnation: Incarnation(0x1f_f00d_f00d_f00d),
        state: AttemptState::Dispatched,
        why: None,
        at: run.at,
        ended_at: None,
        released_at: None,
        message: None,
    };
    (run, attempt)
}

fn commits(c: &mut Criterion) {
    let mut group = c.benchmark_group("commit");
    group.measurement_time(Duration::from_secs(5)).warm_up_time(Duration::from_secs(1)).sample_size(20);
    for rows in [100_usize, 500, 2_000] {
        let dir = tempfile::tempdir().unwrap();
        let mut load = Load::new(dir.path());
        load.warm();
        let load = std::cell::RefCell::new(load);
        // A run's life is four rows.
        group.throughput(Throughput::Elements(rows as u64 / 4));
        group.bench_with_input(BenchmarkId::new("rows", rows), &rows, |bench, rows| {
            let next = || load.borrow_mut().batch(*rows);
            bench.iter_batched(next, |batch| load.borrow_mut().commit(batch), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, commits);
criterion_main!(benches);
