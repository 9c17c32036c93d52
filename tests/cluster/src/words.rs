//! Inputs and batches in few words, for stories.

use rota_core::batch::{Batch, Row};
use rota_core::partition::{Holder, Input, Outcome, Report};

/// An input.
#[must_use]
pub fn short(input: &Input) -> String {
    match input {
        Input::Turn => "turn".to_owned(),
        Input::Define { definition, expected, .. } => {
            let spec = &definition.spec;
            let expected = expected.map(|version| version.0);
            format!(
                "define job {} {:?} {:?} {:?} shards {} retries {} timeout {:?}, expected {expected:?}",
                definition.id,
                spec.schedule,
                spec.overlap,
                spec.delivery,
                spec.shards,
                spec.retry.max,
                spec.timeout.attempt_ms
            )
        }
        Input::SetState { job, state, expected, by, .. } => {
            format!("{by} wants job {job} {state:?}, expected {expected:?}")
        }
        Input::Trigger { job, origin, .. } => format!("trigger job {job} ({origin:?})"),
        Input::Kill { run, .. } => format!("kill {run}"),
        Input::Register { registration, is_reachable, holder, .. } => {
            let holder = match holder {
                Holder::None => String::new(),
                other => format!(", holder {other:?}"),
            };
            let reach = if *is_reachable { "" } else { ", unreachable" };
            format!("register w{}.{} at {}{reach}{holder}", registration.id, registration.incarnation, registration.url)
        }
        Input::Beat { beat, .. } => {
            let ids = |ids: &[rota_core::id::AttemptId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
            let (running, finished) = (ids(&beat.running), ids(&beat.finished));
            format!(
                "beat {} of w{}.{}: runs {running:?}, finished {finished:?}",
                beat.no, beat.worker, beat.incarnation
            )
        }
        Input::Results { worker, incarnation, reports, .. } => {
            let reports: Vec<String> = reports.iter().map(report).collect();
            format!("results of w{worker}.{incarnation}: {}", reports.join(", "))
        }
        Input::Sent { attempt, outcome } => format!("a{attempt} sent: {outcome:?}"),
        Input::Probed { attempt, answer } => format!("a{attempt} probed: {answer:?}"),
        Input::Cancelled { attempt, answer } => format!("a{attempt} cancelled: {answer:?}"),
        other => format!("{other:?}"),
    }
}

fn report(report: &Report) -> String {
    let outcome = match report.outcome {
        Outcome::Success => "success".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    };
    format!("a{} {outcome}", report.attempt)
}

/// The rows of a batch.
#[must_use]
pub fn rows(batch: &Batch) -> String {
    batch.rows.iter().map(row).collect::<Vec<_>>().join("; ")
}

fn row(row: &Row) -> String {
    match row {
        Row::Request { request_id, run, .. } => format!("request {request_id} is {run}"),
        Row::Run(run) => {
            let range =
                if run.slot == run.slot_last { String::new() } else { format!("..{} x{}", run.slot_last, run.slots) };
            let (state, why) = (run.state.word(), run.why.map_or("", |why| why.word()));
            format!("+{} job {} v{} {:?} {}{range} {state} {why}", run.id, run.job, run.version, run.origin, run.slot)
        }
        Row::RunSet { run, state, why, .. } => {
            format!("{run} is {} {}", state.word(), why.map_or("", |why| why.word()))
        }
        Row::Attempt(a) => {
            format!("+a{} shard {} no {} of {} on w{}.{}", a.id, a.shard, a.no, a.run, a.worker, a.incarnation)
        }
        Row::AttemptSet(a) => {
            let released = if a.released_at.is_some() { ", released" } else { "" };
            format!("a{} is {} {}{released}", a.id, a.state.word(), a.why.map_or("", |why| why.word()))
        }
        Row::Definition(d) => format!("job {} v{} at {} {:?}", d.id, d.version, d.at, d.state),
        Row::Rerun(rerun) => format!("{} repeats {} without {:?}", rerun.run, rerun.of, rerun.reused),
        Row::Trace { run, parent } => format!("{run} is asked for within {parent}"),
        Row::Merged { run, into } => format!("{run} is merged into {into}"),
        Row::Child(link) => format!("{} answers note {}: {} has ended", link.run, link.note, link.parent),
        Row::Shards(shards) => format!("{} has shards of {:?}, {:?}", shards.run, shards.workers, shards.settled),
        Row::Freeze(freeze) => format!("{freeze:?}"),
        Row::Backfill(b) => {
            let (state, next) = (b.state(), b.next.map(|next| next.to_string()));
            format!(
                "backfill {} of job {} v{} is {state}: {}/{}, next {next:?}",
                b.id, b.job, b.version, b.made, b.total
            )
        }
        Row::BackfillRun { run, backfill } => format!("{run} is of backfill {backfill}"),
        Row::JobState { job, state, at, .. } => format!("job {job} {state:?} at {at}"),
        Row::Worker { worker, state } => format!("w{}.{} {}", worker.id, worker.incarnation, state.word()),
        Row::WorkerState { worker, state } => format!("w{worker} {}", state.word()),
        Row::Exception { job, exception } => format!("job {job} {exception:?}"),
        Row::Listed { run, is_open } => format!("{run} {}listed", if *is_open { "" } else { "un" }),
    }
}
