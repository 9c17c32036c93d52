//! The past can be read as it was written.

use std::sync::Arc;

use rota_core::backfill::{Backfill, End};
use rota_core::batch::{OpenBackfill, Origin, Rerun, Row, Run, RunState, SettledShard, Shards};
use rota_core::freeze::{Freeze, Missed, Thaw};
use rota_core::id::{BackfillId, JobId, RunId, Version, WorkerId};
use rota_core::job::JobState;
use rota_core::misfire::Pace;
use rota_core::time::UnixMs;
use rota_core::trace::Parent;
use rota_core::why::Why;

use super::Open;
use super::fixture::{Bench, ID, JUDGED, T, definition, row, success};
use crate::history::{BackfillFilter, Covered, JobStanding, StateFilter};
use crate::query::RunFilter;

fn frozen(id: u64, thaw: Option<Missed>) -> Freeze {
    let thaw = thaw.map(|missed| Thaw { until: T.plus_ms(9), at: T.plus_ms(8), by: "eve".into(), missed });
    Freeze { id, app: None, after: T, at: T.plus_ms(1), by: "ann".into(), reason: "the disk burns".into(), thaw }
}

/// Every version and every change of state, with who and why.
pub fn the_history_of_a_job_stays_readable(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (settle, report) = (bench.job("settle"), bench.job("report"));
    let said = |job, state, at: i64, reason: Option<&str>| Row::JobState {
        job,
        state,
        at: T.plus_ms(at),
        by: "ann".into(),
        reason: reason.map(Arc::from),
    };
    bench.commit(vec![
        said(settle, JobState::Paused, 1, Some("until v2")),
        said(report, JobState::Deleted, 2, None),
        Row::Definition(Box::new(definition(settle, 2, bench.app, "settle"))),
        said(settle, JobState::Enabled, 3, None),
    ]);
    let bench = bench.reopen(open);
    let past = &bench.query;
    let versions =
        |from| past.job_versions(settle, Version(from)).unwrap().iter().map(|d| d.version.0).collect::<Vec<_>>();
    assert_eq!((versions(1), versions(2), versions(3)), (vec![1, 2], vec![2], vec![]));
    let changes = |filter: StateFilter| {
        let changes = past.state_changes(&filter).unwrap();
        assert!(changes.is_sorted_by_key(|change| change.no) && changes.iter().all(|change| &*change.by == "ann"));
        changes.iter().map(|change| (change.job, change.state, change.at.since_ms(T))).collect::<Vec<_>>()
    };
    let all = [(settle, JobState::Paused, 1), (report, JobState::Deleted, 2), (settle, JobState::Enabled, 3)];
    assert_eq!(changes(StateFilter::default()), all);
    assert_eq!(changes(StateFilter { job: Some(settle), ..StateFilter::default() }), [all[0], all[2]]);
    assert_eq!(changes(StateFilter { state: Some(JobState::Deleted), ..StateFilter::default() }), [all[1]]);
    assert_eq!(changes(StateFilter { since: Some(T.plus_ms(2)), ..StateFilter::default() }), all[1..]);
    let first = past.state_changes(&StateFilter::default()).unwrap().remove(0);
    assert_eq!(first.reason.as_deref(), Some("until v2"));
    assert_eq!(changes(StateFilter { after: first.no, ..StateFilter::default() }), all[1..]);
}

/// Rows are read in order of their ids, of one job or of all, before and after upkeep.
pub fn rows_are_read_in_order(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (settle, report) = (bench.job("settle"), bench.job("report"));
    let runs = [
        bench.run(1, settle),
        bench.skipped(2, report),
        Run { origin: Origin::Manual, ..bench.run(3, settle) },
        Run { slot_last: T.plus_ms(4_000), slots: 5, ..bench.skipped(4, settle) },
    ];
    bench.commit(runs.iter().rev().map(row).collect());
    bench.commit(vec![success(&runs[0]), success(&runs[2]), Row::Exception { job: report, exception: Some(JUDGED) }]);
    let look = |bench: &Bench| {
        let ids = |from: u64, limit| {
            let found = bench.query.runs_from(settle, RunId(ID + from), limit).unwrap();
            found.iter().map(|run| run.id.0 - ID).collect::<Vec<_>>()
        };
        assert_eq!((ids(0, 9), ids(2, 9), ids(0, 2), ids(5, 9)), (vec![1, 3, 4], vec![3, 4], vec![1, 3], vec![]));
        let ledger = bench.query.ledger(RunId(ID + 1), 9).unwrap();
        assert_eq!(ledger.iter().map(|row| row.run.0 - ID).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let whole = bench.query.run(RunId(ID + 4)).unwrap().unwrap();
        assert_eq!(ledger[3], Covered::of(&whole));
        assert_eq!(bench.query.ledger(RunId(ID + 2), 1).unwrap()[0].run, RunId(ID + 2));
        let standing = bench.query.standing().unwrap();
        assert!(standing.marks.contains(&(bench.partition, T)));
        assert_eq!((standing.exceptions, standing.swept), (vec![(report, JUDGED)], 0));
        let standing = |exception| Some(JobStanding { mark: T, exception, swept: 0 });
        assert_eq!(bench.query.standing_of(settle).unwrap(), standing(None));
        assert_eq!(bench.query.standing_of(report).unwrap(), standing(Some(JUDGED)));
        assert_eq!(bench.query.standing_of(JobId(7)).unwrap(), None);
    };
    look(&bench);
    super::upkeep::all(&mut *bench.store, T.plus_ms(2 * 24 * 3_600_000));
    super::upkeep::all(&mut *bench.store, T.plus_ms(3 * 24 * 3_600_000));
    look(&bench);
    look(&bench.reopen(open));
}

/// A freeze is found by whoever claims next, and by whoever asks; the later row of one replaces the earlier.
pub fn freezes_are_kept(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let of_app = Freeze { app: Some(bench.app), ..frozen(2, None) };
    bench.commit(vec![Row::Freeze(Box::new(frozen(1, None))), Row::Freeze(Box::new(of_app.clone()))]);
    assert_eq!(bench.claim().freezes, [frozen(1, None), of_app.clone()]);
    bench.commit(vec![Row::Freeze(Box::new(frozen(1, Some(Missed::FireOnce))))]);
    let bench = bench.reopen(open);
    assert_eq!(bench.loaded.freezes, [frozen(1, Some(Missed::FireOnce)), of_app.clone()]);
    assert_eq!(bench.query.freezes().unwrap(), [of_app, frozen(1, Some(Missed::FireOnce))]);
}

/// Which run a run repeats.
pub fn reruns_are_linked(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let run = Run { origin: Origin::Rerun, ..bench.run(5, job) };
    let rerun = Arc::new(Rerun { run: run.id, of: RunId(ID), reused: vec![0, 2] });
    bench.commit(vec![row(&run), Row::Rerun(Arc::clone(&rerun))]);
    let loaded = bench.claim();
    assert_eq!(loaded.open[0].rerun, Some(Arc::clone(&rerun)));
    assert_eq!(bench.query.rerun(run.id).unwrap(), Some(rerun));
    assert_eq!(bench.query.rerun(RunId(ID)).unwrap(), None);
    assert_eq!(bench.query.reruns_of(RunId(ID)).unwrap(), [run.id]);
}

/// A backfill is found by whoever claims next until it has ended, with the version that it runs, and so are its runs.
pub fn backfills_are_kept(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (settle, report) = (bench.job("settle"), bench.job("report"));
    let backfill = |id: u64, job| Backfill {
        id: BackfillId(ID + id),
        job,
        version: Version(1),
        from: T.plus_ms(-10_000),
        to: T,
        next: Some(T.plus_ms(-5_000)),
        made: 5,
        made_at: Some(T.plus_ms(-7)),
        total: 10,
        pace: Pace { runs: 30, per_ms: 60_000 },
        parallel: None,
        at: T,
        by: "ann".into(),
        reason: None,
        end: None,
    };
    let first = Backfill { parallel: Some(3), reason: Some("the price was wrong".into()), ..backfill(0, settle) };
    let other = backfill(1, report);
    let runs = [5, 6, 7].map(|n| Run { origin: Origin::Backfill, ..bench.run(n, settle) });
    let linked = |n: usize| Row::BackfillRun { run: runs[n].id, backfill: first.id };
    let rows: Vec<Row> = runs.iter().map(row).chain([linked(0), linked(1), linked(2)]).collect();
    bench.commit(vec![Row::Backfill(Box::new(first.clone())), Row::Backfill(Box::new(other.clone()))]);
    bench.commit([rows, vec![success(&runs[1])]].concat());
    bench.commit(vec![Row::Definition(Box::new(definition(settle, 2, bench.app, "settle")))]);
    let loaded = bench.claim();
    let old = Some(definition(settle, 1, bench.app, "settle"));
    let expected = [(first.clone(), old), (other.clone(), None)];
    let expected = expected.map(|(backfill, definition)| OpenBackfill { backfill, definition });
    assert_eq!(loaded.backfills, expected);
    assert_eq!(loaded.open.iter().map(|open| open.backfill).collect::<Vec<_>>(), [Some(first.id), Some(first.id)]);

    let done = Backfill { next: None, made: 10, end: Some(End::Done { at: T.plus_ms(9) }), ..first.clone() };
    let why = Why::CancelledByUser;
    let cancelled = Backfill { end: Some(End::Cancelled { at: T.plus_ms(8), by: "eve".into(), why }), ..other };
    bench.commit(vec![Row::Backfill(Box::new(done.clone()))]);
    assert_eq!(bench.claim().backfills, expected[1..]);
    bench.commit(vec![Row::Backfill(Box::new(cancelled.clone()))]);
    let bench = bench.reopen(open);
    assert_eq!(bench.loaded.backfills, []);
    assert_eq!(bench.query.backfill(done.id).unwrap(), Some(done.clone()));
    assert_eq!(bench.query.backfill(BackfillId(7)).unwrap(), None);
    let list = |filter| bench.query.backfills(&BackfillFilter { limit: 9, ..filter }).unwrap();
    assert_eq!(list(BackfillFilter::default()), [cancelled.clone(), done.clone()]);
    assert_eq!(list(BackfillFilter { before: Some(cancelled.id), ..BackfillFilter::default() }), [done]);
    assert_eq!(list(BackfillFilter { job: Some(report), ..BackfillFilter::default() }), [cancelled]);
    assert_eq!(list(BackfillFilter { is_open: true, ..BackfillFilter::default() }), []);
    assert_eq!(bench.query.backfill_of(runs[2].id).unwrap(), Some(first.id));
    assert_eq!(bench.query.backfill_of(RunId(ID)).unwrap(), None);
    let of = |filter: RunFilter| {
        let (found, next) = bench.query.backfill_runs(first.id, &filter).unwrap();
        (found.iter().map(|run| run.id.0 - ID).collect::<Vec<_>>(), next)
    };
    assert_eq!(of(RunFilter { limit: 9, ..RunFilter::default() }), (vec![7, 6, 5], None));
    assert_eq!(of(RunFilter { limit: 2, ..RunFilter::default() }), (vec![7, 6], Some(runs[1].id)));
    let rest = RunFilter { limit: 2, before: Some(runs[1].id), ..RunFilter::default() };
    assert_eq!(of(rest), (vec![5], None));
    let good = RunFilter { limit: 9, state: Some(RunState::Success), ..RunFilter::default() };
    assert_eq!(of(good), (vec![6], None));
}

/// Which run stands for a merged one.
pub fn merged_runs_name_what_stands_for_them(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let (waits, run) = (bench.run(5, job), Run { state: RunState::Merged, shards: 0, ..bench.run(6, job) });
    bench.commit(vec![row(&waits), row(&run), Row::Merged { run: run.id, into: waits.id }]);
    let bench = bench.reopen(open);
    assert_eq!(bench.query.merged_into(run.id).unwrap(), Some(waits.id));
    assert_eq!(bench.query.merged_into(waits.id).unwrap(), None);
}

/// The span within which a run was asked for comes back with it, for as long as its row is kept.
pub fn a_run_stays_in_the_trace_that_asked_for_it(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let (run, other) = (Run { origin: Origin::Api, ..bench.run(5, job) }, bench.run(6, job));
    let parent = Parent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00").map(Arc::new).unwrap();
    bench.commit(vec![row(&run), Row::Trace { run: run.id, parent: Arc::clone(&parent) }, row(&other)]);
    let mut bench = bench.reopen(open);
    let found: Vec<_> = bench.claim().open.iter().map(|open| (open.run.id, open.parent.clone())).collect();
    assert_eq!(found, [(run.id, Some(Arc::clone(&parent))), (other.id, None)]);
    assert_eq!(bench.query.trace_parent(run.id).unwrap(), Some(parent));
    assert_eq!(bench.query.trace_parent(other.id).unwrap(), None);
}

/// Whose the shards of a run are, and which are settled; what was noted last holds.
pub fn shards_are_noted(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let run = Run { shards: 3, state: RunState::Running, ..bench.run(5, job) };
    let workers = vec![WorkerId(4), WorkerId(9), WorkerId(5)];
    let first = Arc::new(Shards { run: run.id, workers, settled: Vec::new() });
    bench.commit(vec![row(&run), Row::Shards(Arc::clone(&first))]);
    assert_eq!(bench.claim().open[0].shards, Some(Arc::clone(&first)));
    let gone = SettledShard { shard: 2, state: RunState::Lost, why: Why::TargetGone, at: T };
    let killed = SettledShard { shard: 0, state: RunState::Killed, why: Why::KilledByUser, at: T.plus_ms(5) };
    let last = Arc::new(Shards { settled: vec![gone, killed], ..(*first).clone() });
    bench.commit(vec![Row::Shards(Arc::clone(&last))]);
    let mut bench = bench.reopen(open);
    assert_eq!(bench.claim().open[0].shards, Some(Arc::clone(&last)));
    assert_eq!(bench.query.shards(run.id).unwrap(), Some(last));
    assert_eq!(bench.query.shards(RunId(ID)).unwrap(), None);
}

/// The times of processes, and how the last one ended.
pub fn terms_are_noted(open: Open<'_>) {
    let mut bench = Bench::open(open);
    bench.store.begin(T, "0.1.0", "2026a").unwrap();
    bench.store.end(T.plus_ms(500)).unwrap();
    let mut bench = bench.reopen(open);
    bench.store.begin(T.plus_ms(1_000), "0.2.0", "2026b").unwrap();
    bench.store.upkeep(T.plus_ms(100_000)).unwrap();
    let terms = bench.query.terms().unwrap();
    let shown: Vec<_> = terms.iter().map(|term| (term.started_at, term.last_at(), term.stopped_at)).collect();
    let ended: Option<UnixMs> = Some(T.plus_ms(500));
    assert_eq!(shown, [(T.plus_ms(1_000), T.plus_ms(100_000), None), (T, T.plus_ms(500), ended)]);
    assert_eq!((terms[0].version.as_str(), terms[1].tzdb.as_str()), ("0.2.0", "2026a"));
}
