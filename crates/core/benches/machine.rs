//! What a machine costs: one run's life from its slot to its end, and the start with many idle jobs.
#![expect(clippy::unwrap_used, reason = "a bench's own set-up")]

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rota_core::batch::{Loaded, Row};
use rota_core::id::{AppId, Block, Epoch, Incarnation, JobId, PartitionId, Seq, Version, WorkerId};
use rota_core::job::{Definition, JobState, Spec, Target, When};
use rota_core::partition::{Config, Effect, Input, Machine, Outcome, ReplyTo, Report, SendOutcome};
use rota_core::time::{Mono, Now, UnixMs};
use rota_core::worker::{App, Protocol, Registration, Secret, WorkerState};

const START: i64 = 1_796_083_200_000;
const JOBS: u32 = 1_000;

fn definition(n: u32, schedule: When) -> Definition {
    let target = Target::Handler { name: "echo".into(), param: "hi".into() };
    Definition {
        id: JobId(JobId::FIRST.0 + n),
        version: Version(1),
        app: AppId(1),
        name: format!("job-{n}"),
        spec: Spec::new(schedule, target),
        state: JobState::Enabled,
        at: UnixMs(START),
        by: "bench".into(),
        managed_by: None,
        pause: None,
    }
}

fn worker(n: u32) -> (Registration, WorkerState) {
    let registration = Registration {
        id: WorkerId(n),
        app: AppId(1),
        name: format!("w{n}"),
        incarnation: Incarnation(1),
        url: "http://127.0.0.1:9".into(),
        protocol: Protocol::Http,
        handlers: vec!["echo".into()],
        labels: BTreeMap::new(),
        capacity: 0,
        list_max: 0,
        secret: Secret::default(),
        at: UnixMs(START),
    };
    (registration, WorkerState::Online)
}

fn loaded(jobs: Vec<Definition>) -> Loaded {
    Loaded {
        partition: PartitionId(0),
        epoch: Epoch(1),
        seq: Seq(0),
        mark: UnixMs(START),
        at: UnixMs(START),
        apps: vec![App {
            id: AppId(1),
            namespace: "default".into(),
            name: "etl".into(),
            pending_max: 1_000,
            rates: rota_core::rate::Rates::default(),
        }],
        jobs,
        exceptions: Vec::new(),
        workers: (1..=8).map(worker).collect(),
        open: Vec::new(),
        covered: Vec::new(),
        freezes: Vec::new(),
        backfills: Vec::new(),
    }
}

struct Shell {
    machine: Machine,
    now: Now,
    ids: u64,
    rows: u64,
    steps: u64,
}

impl Shell {
    fn step(&mut self, input: Input, out: &mut Vec<Effect>) {
        if self.machine.wants_ids(self.now) {
            self.machine.step(self.now, Input::Ids(Block::new(self.ids, self.ids + 16_384)), out);
            self.ids += 16_384;
        }
        self.steps += 1;
        self.machine.step(self.now, input, out);
    }

    /// One second: every job fires, is accepted and succeeds, in lists of up to a hundred.
    fn second(&mut self) -> u32 {
        self.now = Now { wall: self.now.wall.plus_ms(1_000), mono: self.now.mono.plus(1_000) };
        let mut done = 0;
        let mut out = Vec::new();
        let mut reports: BTreeMap<WorkerId, Vec<Report>> = BTreeMap::new();
        self.step(Input::Turn, &mut out);
        while !out.is_empty() || !reports.is_empty() {
            let mut next = Vec::new();
            for effect in std::mem::take(&mut out) {
                match effect {
                    Effect::Commit(batch) => {
                        self.rows += batch.rows.iter().filter(|row| matches!(row, Row::Run(_))).count() as u64;
                        self.step(Input::Committed(batch.seq), &mut next);
                    }
                    Effect::Send(send) => {
                        let outcome = SendOutcome::Accepted { next_beat: 1 };
                        self.step(Input::Sent { attempt: send.attempt, outcome }, &mut next);
                        reports.entry(send.worker.as_ref().unwrap().id).or_default().push(Report {
                            attempt: send.attempt,
                            run: send.run,
                            shard: send.shard,
                            no: send.no,
                            outcome: Outcome::Success,
                            message: None,
                        });
                    }
                    Effect::WakeIn(0) => self.step(Input::Turn, &mut next),
                    Effect::WakeIn(_)
                    | Effect::Publish(_)
                    | Effect::Reply(..)
                    | Effect::Cancel(_)
                    | Effect::Probe(_)
                    | Effect::AskUpstream(_)
                    | Effect::Ended(_) => {}
                }
            }
            for (worker, reports) in std::mem::take(&mut reports) {
                done += u32::try_from(reports.len()).unwrap();
                let results = Input::Results { worker, incarnation: Incarnation(1), reports, reply: ReplyTo(1) };
                self.step(results, &mut next);
            }
            self.step(Input::Turn, &mut next);
            next.retain(|effect| matches!(effect, Effect::Commit(_) | Effect::Send(_) | Effect::WakeIn(0)));
            out = next;
        }
        done
    }
}

fn lives(c: &mut Criterion) {
    let jobs = (0..JOBS).map(|n| definition(n, When::EveryMs(1_000))).collect();
    let now = Now { wall: UnixMs(START), mono: Mono(1_000_000) };
    let machine = Machine::new(Config::NATIVE, loaded(jobs), now);
    let mut shell = Shell { machine, now, ids: 1 << 40, rows: 0, steps: 0 };
    let mut group = c.benchmark_group("machine");
    group.throughput(Throughput::Elements(u64::from(JOBS)));
    group.bench_function("one_run_from_slot_to_end", |b| b.iter(|| assert_eq!(shell.second(), JOBS)));
    group.finish();
}

fn starts(c: &mut Criterion) {
    let jobs = |count: u32| (0..count).map(|n| definition(n, When::Cron("*/5 * * * *".into()))).collect::<Vec<_>>();
    let now = Now { wall: UnixMs(START), mono: Mono(1_000_000) };
    let mut group = c.benchmark_group("machine");
    group.sample_size(10);
    group.throughput(Throughput::Elements(100_000));
    group.bench_function("start_per_idle_job", |b| {
        b.iter_batched(
            || loaded(jobs(100_000)),
            |loaded| black_box(Machine::new(Config::NATIVE, loaded, now)),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, lives, starts);
criterion_main!(benches);
