//! Reads see every batch whose commit was answered.

use rota_core::batch::{Origin, Row, Run, RunState};
use rota_core::id::{AppId, JobId, RunId, Version, WorkerId};
use rota_core::worker::WorkerState;

use super::Open;
use super::fixture::{Bench, ID, T, app_elsewhere, definition, registration, row, success, worker};
use crate::query::RunFilter;

fn ids(bench: &Bench, filter: &RunFilter) -> Vec<u64> {
    bench.query.runs(filter).unwrap().iter().map(|run| run.id.0 - ID).collect()
}

/// Every field of a filter narrows, and a page goes on where the one before ended.
pub fn runs_are_filtered_newest_first(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (settle, report) = (bench.job("settle"), bench.job("report"));
    let (other, _) = app_elsewhere(&mut *bench.store, bench.partition);
    let runs = [
        bench.run(1, settle),
        Run { origin: Origin::Manual, ..bench.run(2, report) },
        Run { at: T.plus_ms(1_000), ..bench.run(3, settle) },
        bench.skipped(4, report),
        Run { app: other, ..bench.run(5, JobId(7)) },
        Run { at: T.plus_ms(2_000), ..bench.run(6, settle) },
    ];
    bench.commit(runs.iter().rev().map(row).collect());
    bench.commit(vec![success(&runs[0])]);
    let all = RunFilter { limit: 100, ..RunFilter::default() };
    let check = |filter: RunFilter, expected: &[u64]| assert_eq!(ids(&bench, &filter), expected, "{filter:?}");
    check(all.clone(), &[6, 5, 4, 3, 2, 1]);
    check(RunFilter { limit: 0, ..all.clone() }, &[]);
    check(RunFilter { limit: 2, ..all.clone() }, &[6, 5]);
    check(RunFilter { limit: 2, before: Some(runs[4].id), ..all.clone() }, &[4, 3]);
    check(RunFilter { before: Some(RunId(1)), ..all.clone() }, &[]);
    check(RunFilter { job: Some(settle), ..all.clone() }, &[6, 3, 1]);
    check(RunFilter { job: Some(settle), limit: 1, before: Some(runs[5].id), ..all.clone() }, &[3]);
    check(RunFilter { job: Some(settle), state: Some(RunState::Success), ..all.clone() }, &[1]);
    check(RunFilter { job: Some(JobId(8)), ..all.clone() }, &[]);
    check(RunFilter { app: Some(other), ..all.clone() }, &[5]);
    check(RunFilter { state: Some(RunState::Dispatched), ..all.clone() }, &[6, 5, 3, 2]);
    check(RunFilter { origin: Some(Origin::Manual), ..all.clone() }, &[2]);
    check(RunFilter { since: Some(T.plus_ms(1_000)), ..all.clone() }, &[6, 3]);
    check(RunFilter { app: Some(bench.app), job: Some(report), state: Some(RunState::Skipped), ..all }, &[4]);
}

/// Wherever a store keeps the runs of a job, none is missing and none comes twice.
pub fn a_jobs_runs_are_found_before_and_after_upkeep(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (settle, report) = (bench.job("settle"), bench.job("report"));
    let job = |n: u64| if n.is_multiple_of(3) { settle } else { report };
    let write = |bench: &mut Bench, numbers: Vec<u64>| {
        let rows = numbers.iter().map(|n| row(&bench.skipped(*n, job(*n)))).collect();
        bench.commit(rows);
    };
    let filter = RunFilter { job: Some(settle), limit: 1_000, ..RunFilter::default() };
    let expect = |bench: &Bench, highest: u64| {
        let expected: Vec<u64> = (1..=highest).rev().filter(|n| n.is_multiple_of(3)).collect();
        assert_eq!(ids(bench, &filter), expected);
    };
    // Ids of other blocks come in between.
    write(&mut bench, (201..=400).collect());
    write(&mut bench, (1..=200).collect());
    expect(&bench, 400);
    super::upkeep::all(&mut *bench.store, T.plus_ms(2 * 24 * 3_600_000));
    expect(&bench, 400);
    bench.store.reserve_ids(ID + 1_000, 1).unwrap();
    super::upkeep::all(&mut *bench.store, T.plus_ms(4 * 24 * 3_600_000));
    write(&mut bench, (401..=450).collect());
    expect(&bench, 450);
    let mut bench = bench.reopen(open);
    expect(&bench, 450);
    write(&mut bench, (451..=500).collect());
    expect(&bench, 500);
    super::upkeep::all(&mut *bench.store, T.plus_ms(6 * 24 * 3_600_000));
    write(&mut bench, (501..=510).collect());
    expect(&bench, 510);
}

/// A suffix names a run as soon as it is the only one; at most two are given, newest first.
pub fn a_run_is_found_by_its_suffix(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let numbers = [0, 1, 32, 1_024 + 1, 1 << 30];
    bench.commit(numbers.iter().map(|n| row(&bench.run(*n, job))).collect());
    let check = |n: u64, digits: u32, expected: &[u64]| {
        let (value, _) = RunId::parse_suffix(&RunId(ID + n).to_string()).unwrap();
        let value = 32_u64.checked_pow(digits).map_or(value, |modulus| value % modulus);
        let found = bench.query.runs_with_suffix(value, digits).unwrap();
        assert_eq!(found.iter().map(|run| run.0 - ID).collect::<Vec<_>>(), expected, "{n}, {digits} digits");
    };
    check(0, 1, &[1 << 30, 32]);
    check(1, 1, &[1_025, 1]);
    check(1, 2, &[1_025, 1]);
    check(1, 6, &[1]);
    check(32, 2, &[32]);
    check(0, 6, &[1 << 30, 0]);
    check(0, 7, &[0]);
    check(7, 3, &[]);
    check(7, 9, &[]);
    check(1_025, 11, &[1_025]);
    check(66, 11, &[]);
    check(1 << 30, 13, &[1 << 30]);
}

/// Jobs come in order of id, of one app or of all; deleted ones are not among them.
pub fn jobs_are_paged_by_id(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let jobs: Vec<JobId> = (0..6).map(|n| bench.job(&format!("job-{n}"))).collect();
    let (other, _) = app_elsewhere(&mut *bench.store, bench.partition);
    bench.commit(vec![
        Row::JobState {
            job: jobs[2],
            state: rota_core::job::JobState::Deleted,
            at: T,
            by: "someone".into(),
            reason: None,
        },
        Row::Definition(Box::new(definition(JobId(50), 1, other, "elsewhere"))),
    ]);
    let check = |app: Option<AppId>, after: JobId, limit: u32, expected: &[JobId]| {
        let found = bench.query.jobs(app, after, limit).unwrap();
        assert_eq!(found.iter().map(|job| job.id).collect::<Vec<_>>(), expected);
    };
    check(None, JobId(0), 3, &[JobId(50), jobs[0], jobs[1]]);
    check(None, jobs[1], 3, &[jobs[3], jobs[4], jobs[5]]);
    check(None, jobs[5], 3, &[]);
    check(Some(other), JobId(0), 3, &[JobId(50)]);
    check(Some(bench.app), jobs[0], 2, &[jobs[1], jobs[3]]);
}

/// An edit hides no version.
pub fn versions_of_a_job_stay_readable(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let versions: Vec<_> = (1..=3).map(|version| definition(job, version, bench.app, "settle")).collect();
    bench.commit(versions[1..].iter().map(|version| Row::Definition(Box::new(version.clone()))).collect());
    for version in &versions {
        assert_eq!(bench.query.job_version(job, version.version), Ok(Some(version.clone())));
    }
    assert_eq!(bench.query.job_version(job, Version(4)), Ok(None));
    assert_eq!(bench.query.job(job), Ok(Some(versions[2].clone())));
    assert_eq!(bench.query.job_named("shop", "settle"), Ok(Some(versions[2].clone())));
    assert_eq!(bench.query.job(JobId(5)), Ok(None));
    assert!(!bench.query.version().unwrap().is_empty());
}

/// Workers are found whatever their state is.
pub fn workers_are_found(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (other, _) = app_elsewhere(&mut *bench.store, bench.partition);
    let (w1, w2) = (registration(WorkerId(1), bench.app, "w1"), registration(WorkerId(2), other, "w2"));
    bench.commit(vec![worker(&w1, WorkerState::Offline), worker(&w2, WorkerState::Online)]);
    let known = |state| Some((w1.clone(), state));
    assert_eq!(bench.query.worker(w1.id), Ok(known(WorkerState::Offline)));
    assert_eq!(bench.query.worker(WorkerId(3)), Ok(None));
    assert_eq!(bench.query.workers(Some(bench.app)), Ok(vec![(w1.clone(), WorkerState::Offline)]));
    assert_eq!(bench.query.workers(None).unwrap().len(), 2);
    bench.commit(vec![Row::WorkerState { worker: w1.id, state: WorkerState::Unreachable }]);
    assert_eq!(bench.query.worker(w1.id), Ok(known(WorkerState::Unreachable)));
}
