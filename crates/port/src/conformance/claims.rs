//! A claim gives back what is durable of a partition, and only that.

use std::sync::Arc;

use rota_core::batch::{Attempt, AttemptState, Batch, Exception, Loaded, OpenRun, Origin, Row, Run, RunState};
use rota_core::id::{Epoch, JobId, RunId, Seq, Version, WorkerId};
use rota_core::job::{Definition, JobState, Pause};
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::{Registration, WorkerState};

use super::Open;
use super::fixture::{
    Bench, ID, JUDGED, T, app_elsewhere, attempt, definition, done, first, registration, row, sent, set, success,
    worker,
};

/// Nothing was written, so nothing is open and no slot is covered.
pub fn a_new_store_is_empty(open: Open<'_>) {
    let bench = Bench::open(open);
    let loaded = &bench.loaded;
    assert_eq!((loaded.partition, loaded.epoch, loaded.seq), (bench.partition, Epoch(1), Seq(0)));
    assert_eq!((loaded.mark, loaded.at), (UnixMs(0), UnixMs(0)));
    assert_eq!(loaded.apps.iter().map(|app| app.id).collect::<Vec<_>>(), [bench.app]);
    assert_eq!((loaded.jobs.len(), loaded.exceptions.len(), loaded.workers.len()), (0, 0, 0));
    assert_eq!((loaded.open.len(), loaded.covered.len()), (0, 0));
}

/// Every kind of row, and what a claim must make of them.
fn write_everything(bench: &mut Bench) -> Loaded {
    let (settle, report) = (bench.job("settle"), bench.job("report"));
    let settle_2 = Definition { at: T.plus_ms(1), by: "x".to_owned(), ..definition(settle, 2, bench.app, "settle") };
    let (w1, w2) = (registration(WorkerId(1), bench.app, "w1"), registration(WorkerId(2), bench.app, "w2"));
    let w1_again =
        Registration { incarnation: rota_core::id::Incarnation(8), url: "http://h:1".to_owned(), ..w1.clone() };
    let run = Run {
        origin: Origin::Api,
        state: RunState::Pending,
        why: Some(Why::NoWorker),
        shards: 3,
        param: Some("{}".into()),
        ..bench.run(9, settle)
    };
    let attempts = [first(&run), attempt(&run, 1, 1, ID + 10), attempt(&run, 1, 2, ID + 11)];
    let failed = Attempt {
        state: AttemptState::Failed,
        why: Some(Why::HandlerFailed),
        ended_at: Some(T.plus_ms(9)),
        released_at: Some(T.plus_ms(10)),
        message: Some("period closed".into()),
        ..attempts[1].clone()
    };
    bench.commit(vec![
        row(&run),
        sent(&attempts[0]),
        sent(&attempts[1]),
        Row::Definition(Box::new(settle_2.clone())),
        Row::JobState {
            job: report,
            state: JobState::Paused,
            at: T,
            by: Arc::from("ann"),
            reason: Some("until v2".into()),
        },
        worker(&w1, WorkerState::Online),
        worker(&w2, WorkerState::Unreachable),
        Row::Exception { job: settle, exception: Some(Exception::Armed(T)) },
        Row::Exception { job: report, exception: Some(JUDGED) },
    ]);
    let last = bench.batch(vec![
        Row::RunSet { run: run.id, job: run.job, state: RunState::Running, why: None, ended_at: None },
        set(&failed),
        sent(&attempts[2]),
        worker(&w1_again, WorkerState::Online),
        Row::WorkerState { worker: w2.id, state: WorkerState::Draining },
        Row::Exception { job: settle, exception: None },
        Row::Listed { run: run.id, is_open: true },
    ]);
    bench.apply(Batch { mark: T.plus_ms(5), at: T.plus_ms(6), ..last });
    let pause = Pause { by: "ann".to_owned(), at: T, reason: Some("until v2".to_owned()) };
    let paused =
        Definition { state: JobState::Paused, pause: Some(pause), ..definition(report, 1, bench.app, "report") };
    Loaded {
        partition: bench.partition,
        epoch: Epoch(bench.epoch.0 + 1),
        seq: bench.seq,
        mark: T.plus_ms(5),
        at: T.plus_ms(6),
        apps: bench.loaded.apps.clone(),
        jobs: vec![settle_2, paused],
        exceptions: vec![(report, JUDGED)],
        workers: vec![(w1_again, WorkerState::Online), (w2, WorkerState::Draining)],
        open: vec![OpenRun {
            definition: Some(definition(settle, 1, bench.app, "settle")),
            attempts: vec![attempts[0].clone(), failed, attempts[2].clone()],
            run: Run { state: RunState::Running, why: None, ..run },
            is_listed: true,
            rerun: None,
            shards: None,
            backfill: None,
            parent: None,
        }],
        covered: vec![],
        freezes: vec![],
        backfills: vec![],
    }
}

/// Every kind of row comes back as it was written and changed.
pub fn a_claim_gives_back_what_was_written(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let expected = write_everything(&mut bench);
    assert_eq!(bench.claim(), expected);
}

/// A store that is opened again gives back the same.
pub fn what_was_written_survives_reopening(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let expected = write_everything(&mut bench);
    let bench = bench.reopen(open);
    assert_eq!(bench.loaded, expected);
}

/// Two partitions, claimed together or alone, never mix.
pub fn a_partition_gets_only_what_is_its_own(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let mine = write_everything(&mut bench);
    let (app, other) = app_elsewhere(&mut *bench.store, bench.partition);
    let claimed = bench.store.claim(&[other]).unwrap().remove(0);
    let job = JobId(JobId::FIRST.0 + 50);
    let run = Run { app, ..bench.run(5, job) };
    let theirs = Batch {
        partition: other,
        epoch: claimed.epoch,
        seq: Seq(1),
        floor: ID + 5,
        rows: vec![
            Row::Definition(Box::new(definition(job, 1, app, "elsewhere"))),
            worker(&registration(WorkerId(3), app, "w3"), WorkerState::Online),
            Row::Exception { job, exception: Some(Exception::Armed(T)) },
            row(&run),
        ],
        ..bench.batch(vec![])
    };
    bench.store.commit(&[theirs]).unwrap();
    let both = bench.store.claim(&[other, bench.partition]).unwrap();
    assert_eq!(both[1], mine);
    assert_eq!(both[0].jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [job]);
    assert_eq!(both[0].workers.iter().map(|(worker, _)| worker.id).collect::<Vec<_>>(), [WorkerId(3)]);
    assert_eq!(both[0].exceptions, [(job, Exception::Armed(T))]);
    assert_eq!(both[0].open.iter().map(|open| &open.run).collect::<Vec<_>>(), [&run]);
}

/// What is gone is not loaded, but for the definition that an open run still needs.
pub fn deleted_jobs_and_offline_workers_are_not_loaded(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let run = bench.run(1, job);
    bench.commit(vec![
        worker(&registration(WorkerId(1), bench.app, "w1"), WorkerState::Online),
        Row::WorkerState { worker: WorkerId(1), state: WorkerState::Offline },
        worker(&registration(WorkerId(2), bench.app, "w2"), WorkerState::Offline),
        row(&run),
        Row::JobState { job, state: JobState::Deleted, at: T, by: Arc::from("someone"), reason: None },
    ]);
    let loaded = bench.claim();
    assert_eq!((loaded.jobs.len(), loaded.workers.len()), (0, 0));
    let gone = Definition { state: JobState::Deleted, ..definition(job, 1, bench.app, "settle") };
    assert_eq!(loaded.open[0].definition, Some(gone));
}

/// Below the floor only listed runs are looked at; from the floor on all are.
pub fn open_runs_are_listed_or_at_the_floor_or_above(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let runs: Vec<Run> = (1..=5).map(|n| bench.run(n, job)).collect();
    bench.commit(runs.iter().map(row).collect());
    let closed = bench.batch(vec![
        success(&runs[0]),
        Row::Listed { run: runs[1].id, is_open: true },
        Row::Listed { run: runs[3].id, is_open: true },
        success(&runs[2]),
    ]);
    bench.apply(Batch { floor: runs[3].id.0, ..closed });
    let open_now = |loaded: Loaded| -> Vec<(RunId, bool)> {
        loaded.open.iter().map(|open| (open.run.id, open.is_listed)).collect()
    };
    assert_eq!(open_now(bench.claim()), [(runs[1].id, true), (runs[3].id, true), (runs[4].id, false)]);
    let none = bench.batch(vec![Row::Listed { run: runs[1].id, is_open: false }, success(&runs[1]), success(&runs[4])]);
    bench.apply(Batch { floor: u64::MAX, ..none });
    assert_eq!(open_now(bench.claim()), [(runs[3].id, true)]);
}

/// A run that has ended is loaded as long as one of its attempts holds its place.
pub fn unreleased_attempts_keep_a_run_open(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let (one, two, three) = (bench.run(1, job), bench.run(2, job), bench.run(10, job));
    let held = |attempt: &Attempt| Attempt { released_at: None, ..done(attempt) };
    let other = attempt(&two, 1, 1, ID + 3);
    bench.commit(vec![row(&one), sent(&first(&one)), row(&two), sent(&first(&two)), sent(&other), row(&three)]);
    bench.commit(vec![
        set(&held(&first(&one))),
        success(&one),
        set(&done(&first(&two))),
        set(&held(&other)),
        success(&two),
        success(&three),
    ]);
    let open: Vec<_> = bench.claim().open.into_iter().map(|open| (open.run.id, open.attempts)).collect();
    assert_eq!(open, [(one.id, vec![held(&first(&one))]), (two.id, vec![done(&first(&two)), held(&other)])]);
    bench.commit(vec![set(&done(&first(&one))), set(&done(&other))]);
    assert_eq!(bench.claim().open, []);
}

/// A run keeps the version that made it.
pub fn a_run_of_an_older_version_brings_its_definition(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let two = Row::Definition(Box::new(definition(job, 2, bench.app, "settle")));
    let of_two = Run { version: Version(2), ..bench.run(2, job) };
    bench.commit(vec![row(&bench.run(1, job)), two, row(&of_two)]);
    let versions: Vec<_> = bench.claim().open.into_iter().map(|open| open.definition.map(|d| d.version)).collect();
    assert_eq!(versions, [Some(Version(1)), None]);
}

/// Of scheduled rows above the mark, the last slot counts; of listed ones too.
pub fn slots_above_the_mark_are_covered_up_to_the_last(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (settle, report, at_mark) = (bench.job("settle"), bench.job("report"), bench.job("at-mark"));
    let at = |n, job, slot, slot_last| Run {
        slot: T.plus_ms(slot),
        slot_last: T.plus_ms(slot_last),
        ..bench.skipped(n, job)
    };
    let by_hand = Run { origin: Origin::Manual, ..at(5, report, 900, 900) };
    let listed = at(1, report, 40, 60);
    let ranges = [(2, settle, 10, 70), (3, settle, 71, 71), (4, report, 1, 5), (6, settle, 9, 9), (7, at_mark, 50, 50)];
    let ranges = ranges.map(|(n, job, slot, slot_last)| at(n, job, slot, slot_last));
    let mut rows: Vec<Row> = ranges.iter().chain([&listed, &by_hand]).map(row).collect();
    rows.push(Row::Listed { run: listed.id, is_open: true });
    let batch = Batch { mark: T.plus_ms(50), floor: ID + 2, ..bench.batch(rows) };
    bench.apply(batch);
    assert_eq!(bench.claim().covered, [(settle, T.plus_ms(71)), (report, T.plus_ms(60))]);
}

/// Attempts are ordered by shard, then number, in claims and in reads.
pub fn attempts_of_many_shards_come_in_order(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let run = Run { shards: 40, ..bench.run(1, job) };
    let mut expected = vec![first(&run)];
    for shard in 0..40 {
        for no in 1..=3 {
            if (shard, no) != (0, 1) {
                expected.push(attempt(&run, shard, no, ID + 2 + u64::from(shard * 3 + no)));
            }
        }
    }
    let mut rows = vec![row(&run)];
    rows.extend(expected.iter().rev().map(sent));
    bench.commit(rows);
    expected[77] = done(&expected[77]);
    bench.commit(vec![set(&expected[77])]);
    assert_eq!(bench.query.attempts(run.id), Ok(expected.clone()));
    assert_eq!(bench.claim().open[0].attempts, expected);
}

/// A run may be written without an attempt, and get it in a later batch.
pub fn a_first_attempt_may_follow_its_run(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let run = Run { state: RunState::Pending, ..bench.run(1, job) };
    bench.commit(vec![row(&run)]);
    assert_eq!(bench.query.attempts(run.id), Ok(vec![]));
    let later = Attempt { at: run.at.plus_ms(400), ..first(&run) };
    bench.commit(vec![
        sent(&later),
        Row::RunSet { run: run.id, job: run.job, state: RunState::Dispatched, why: None, ended_at: None },
    ]);
    assert_eq!(bench.query.attempts(run.id), Ok(vec![later.clone()]));
    bench.commit(vec![success(&run), set(&done(&later))]);
    assert_eq!(bench.query.attempts(run.id), Ok(vec![done(&later)]));
    assert!(bench.query.run(run.id).unwrap().is_some_and(|run| run.state == RunState::Success));
}

/// A late result is kept on its attempt; who ran it, and when it was sent, stays as it was.
pub fn sets_change_only_what_can_change(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let run = bench.run(1, job);
    bench.commit(vec![row(&run), sent(&first(&run))]);
    let lost = Attempt { state: AttemptState::Lost, why: Some(Why::WorkerSilent), message: None, ..done(&first(&run)) };
    let ended = Some(T.plus_ms(20));
    bench.commit(vec![
        set(&lost),
        Row::RunSet { run: run.id, job: run.job, state: RunState::Lost, why: Some(Why::WorkerSilent), ended_at: ended },
    ]);
    let late = Attempt { message: Some("late: done".into()), worker: WorkerId(9), at: T.plus_ms(99), ..lost.clone() };
    bench.commit(vec![set(&late)]);
    assert_eq!(bench.query.attempts(run.id), Ok(vec![Attempt { message: late.message, ..lost }]));
    let expected = Run { state: RunState::Lost, why: Some(Why::WorkerSilent), ended_at: ended, ..run.clone() };
    assert_eq!(bench.query.run(run.id), Ok(Some(expected)));
}
