//! Notes of ended parents, and what comes of them.

use rota_core::batch::{Batch, Origin, Row, Run, RunState};
use rota_core::child::{Link, Note};
use rota_core::id::{JobId, PartitionId, RunId, Seq, Version};
use rota_core::job::{Definition, JobState, Spec, When};
use rota_core::upstream::{Edge, Ended, OnSkip, Period};

use super::Open;
use super::fixture::{Bench, T, app_elsewhere, definition, done, first};
use crate::store::{Outcome, Reservation, Reserved};

fn edge(job: JobId, when: Ended) -> Edge {
    let (period, on_skip) = (Period::SameSlot, OnSkip::Skip);
    Edge { job, name: format!("job-{job}"), when, period, on_skip, deadline_ms: None }
}

/// A version of a job that these ends fire.
fn child(of: &Definition, version: u32, after: Vec<Edge>) -> Row {
    let spec = Spec { schedule: When::Manual, after, ..of.spec.clone() };
    Row::Definition(Box::new(Definition { version: Version(version), spec, ..of.clone() }))
}

fn set(run: &Run, state: RunState) -> Row {
    let ended_at = state.is_terminal().then_some(T.plus_ms(9));
    Row::RunSet { run: run.id, job: run.job, state, why: None, ended_at }
}

fn row(run: &Run) -> Row {
    Row::Run(Box::new(run.clone()))
}

fn notes(bench: &Bench) -> Vec<(JobId, RunId, RunState)> {
    let found = bench.query.notes(bench.partition, 0, 1_000).unwrap();
    assert!(found.is_sorted_by(|a, b| a.no < b.no));
    found.iter().map(|note| (note.job, note.parent, note.state)).collect()
}

/// An end is noted with its row, for each job that asks for it, and stays until it is answered.
pub fn ends_of_parents_are_noted(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (settle, report, waits) = (bench.job("settle"), bench.job("report"), bench.job("waits"));
    let of_report = definition(report, 1, bench.app, "report");
    let mut with_slots = definition(waits, 2, bench.app, "waits");
    with_slots.spec.after = vec![edge(settle, Ended::Completion)];
    let runs: Vec<Run> = (1..5).map(|n| bench.run(n, settle)).collect();
    // It runs already when its child is made.
    bench.commit(vec![row(&runs[0])]);
    bench.commit(vec![child(&of_report, 2, vec![edge(settle, Ended::Success)]), Row::Definition(Box::new(with_slots))]);
    let skipped = Run { slot: T.plus_ms(5), slot_last: T.plus_ms(5), ..bench.skipped(9, settle) };
    bench.commit(runs[1..].iter().chain([&skipped]).map(row).chain([set(&runs[0], RunState::Running)]).collect());
    assert_eq!((notes(&bench), bench.store.noted()), (vec![], 0));
    let batch = bench.batch(vec![
        set(&runs[0], RunState::Success),
        set(&runs[1], RunState::Failed),
        set(&runs[2], RunState::Discarded),
        set(&runs[3], RunState::Success),
    ]);
    bench.apply(batch.clone());
    assert_eq!(bench.store.commit(&[batch]), Ok(vec![Outcome::Repeated]));
    assert_eq!(bench.store.noted(), 2);
    let bench = bench.reopen(open);
    let expected = [(report, runs[0].id, RunState::Success), (report, runs[3].id, RunState::Success)];
    assert_eq!(notes(&bench), expected);
    let told = bench.query.notes(bench.partition, 0, 1).unwrap();
    let (job, app, version, parent) = (report, bench.app, Version(2), runs[0].id);
    let no = told[0].no;
    assert_eq!(told, [Note { no, job, app, version, parent, state: RunState::Success, slot: T, at: T }]);
    assert_eq!(bench.query.notes(bench.partition, no, 9).unwrap().len(), 1);
    assert_eq!(bench.query.notes_left(bench.partition, no), Ok(1));
    assert_eq!(bench.query.notes_of(parent), Ok(told));
    let last = no + 1;
    assert_eq!(bench.query.partitions_noted(no), Ok(vec![(bench.partition, last)]));
    assert_eq!(bench.query.partitions_noted(last), Ok(vec![]));
}

/// The batch that answers a note takes it away; the number is never used again.
pub fn an_answer_takes_its_note_away(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (settle, report) = (bench.job("settle"), bench.job("report"));
    let of_report = definition(report, 1, bench.app, "report");
    bench.commit(vec![child(&of_report, 2, vec![edge(settle, Ended::Completion)])]);
    let (parent, next) = (bench.run(1, settle), bench.run(2, settle));
    bench.commit(vec![row(&parent), row(&next)]);
    bench.commit(vec![set(&parent, RunState::Killed)]);
    let note = bench.query.notes(bench.partition, 0, 9).unwrap().remove(0);
    let run = Run { origin: Origin::Upstream, version: Version(2), ..bench.run(3, report) };
    let link = Link { run: run.id, parent: parent.id, note: note.no };
    bench.commit(vec![row(&run), Row::Child(link)]);
    assert_eq!(bench.query.run(run.id).unwrap().map(|run| run.origin), Some(Origin::Upstream));
    let mut bench = bench.reopen(open);
    assert_eq!(notes(&bench), []);
    assert_eq!(bench.loaded.open.iter().map(|open| open.run.id).collect::<Vec<_>>(), [next.id, run.id]);
    assert_eq!((bench.query.child(run.id), bench.query.child(parent.id)), (Ok(Some(link)), Ok(None)));
    assert_eq!((bench.query.children_of(parent.id), bench.query.children_of(run.id)), (Ok(vec![link]), Ok(vec![])));
    bench.commit(vec![set(&next, RunState::Lost)]);
    assert!(bench.query.notes(bench.partition, 0, 9).unwrap()[0].no > note.no);
}

/// The version in force when a run ends decides; a deleted child hears of nothing.
pub fn notes_follow_the_current_version(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let (settle, report) = (bench.job("settle"), bench.job("report"));
    let of_report = definition(report, 1, bench.app, "report");
    let runs: Vec<Run> = (1..50).map(|n| bench.run(n, settle)).collect();
    bench.commit(runs.iter().flat_map(|run| [row(run), Row::Attempt(Box::new(first(run)))]).collect());
    bench.commit(vec![set(&runs[0], RunState::Failed)]);
    // In one batch with the definition that asks for it.
    let asks = child(&of_report, 2, vec![edge(settle, Ended::Failure)]);
    bench.commit(vec![set(&runs[1], RunState::Failed), asks, set(&runs[2], RunState::Success)]);
    assert_eq!(notes(&bench), [(report, runs[1].id, RunState::Failed)]);
    bench.commit(vec![child(&of_report, 3, vec![edge(settle, Ended::Success)])]);
    // Many at once, as a store may write them in groups.
    let ends = runs[3..40].iter().flat_map(|run| {
        let first = done(&first(run));
        let ended =
            Row::RunSet { run: run.id, job: run.job, state: RunState::Success, why: None, ended_at: first.ended_at };
        [Row::AttemptSet(Box::new(first)), ended]
    });
    bench.commit(ends.collect());
    assert_eq!(notes(&bench).len(), 1 + 37);
    let mut bench = bench.reopen(open);
    let (state, by) = (JobState::Deleted, "someone".into());
    bench.commit(vec![Row::JobState { job: report, state, at: T, by, reason: None }]);
    bench.commit(vec![set(&runs[40], RunState::Success)]);
    assert_eq!(notes(&bench).len(), 1 + 37, "what ended before stays, to be answered");
}

/// A note lies in the partition of the job that it fires.
pub fn a_note_lies_where_its_child_does(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let settle = bench.job("settle");
    let (app, elsewhere): (_, PartitionId) = app_elsewhere(&mut *bench.store, bench.partition);
    let loaded = bench.store.claim(&[elsewhere]).unwrap().remove(0);
    let Reserved::Job(job) = bench.reserve(Reservation::JobName { app, name: "there".to_owned(), at: T }) else {
        panic!("the name is new")
    };
    let rows = vec![child(&definition(job, 1, app, "there"), 1, vec![edge(settle, Ended::Success)])];
    let (epoch, seq) = (loaded.epoch, Seq(loaded.seq.0 + 1));
    let batch = Batch { partition: elsewhere, epoch, seq, at: T, mark: T, floor: u64::MAX, rows };
    assert_eq!(bench.store.commit(&[batch]), Ok(vec![Outcome::Applied]));
    let run = bench.run(1, settle);
    bench.commit(vec![row(&run)]);
    bench.commit(vec![set(&run, RunState::Success)]);
    assert_eq!(notes(&bench), []);
    let there = bench.query.notes(elsewhere, 0, 9).unwrap();
    assert_eq!(there.iter().map(|note| (note.job, note.app, note.parent)).collect::<Vec<_>>(), [(job, app, run.id)]);
}
