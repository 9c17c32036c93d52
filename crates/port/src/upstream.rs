//! What is known of upstream jobs, read from the store and judged by [`rota_core::upstream`].
//!
//! The order of the reads matters: how far a job is covered comes first, its definition next, its rows last. What changes
//! meanwhile then shows as "not yet", and never as a slot that there is not.

use rota_core::batch::{Origin, Run, RunState};
use rota_core::id::{JobId, RunId, id_floor};
use rota_core::job::JobState;
use rota_core::partition::AskUpstream;
use rota_core::time::UnixMs;
use rota_core::upstream::{self, Edge, Evidence, Fact, ID_LAG_MS, Span, Verdict, together};
use rota_core::why::Why;

use crate::child::Notes;
use crate::history::{History, PAST_MAX};
use crate::query::{Query, RunFilter};
use crate::store::Error;

/// Rows that are looked at together, newest first.
const PAGE: u32 = 100;

/// Reads of what is now, of what was, and of what nobody has answered yet.
pub trait Reads: Query + History + Notes {}

impl<T: Query + History + Notes> Reads for T {}

/// What an edge says of a slot, and by which rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Looked {
    /// What it says.
    pub verdict: Verdict,
    /// The upstream job's rows that it was judged by, oldest first.
    pub rows: Vec<Run>,
}

/// Judges all upstream jobs of a slot, at this instant.
pub fn judge(reads: &dyn Reads, ask: &AskUpstream, now: UnixMs) -> Result<Verdict, Error> {
    let mut verdicts = Vec::with_capacity(ask.edges.len());
    for edge in ask.edges.iter() {
        verdicts.push(look(reads, reads, edge, ask.slot, ask.previous, now)?.verdict);
    }
    Ok(together(verdicts))
}

/// Judges one upstream job for a slot whose predecessor was `previous`, at this instant.
pub fn look(
    query: &dyn Query,
    history: &dyn History,
    edge: &Edge,
    slot: UnixMs,
    previous: Option<UnixMs>,
    now: UnixMs,
) -> Result<Looked, Error> {
    let span = edge.span(slot, previous);
    let (evidence, rows) = evidence(query, history, edge, span)?;
    let verdict = match upstream::judge(edge, span, &evidence) {
        Verdict::NotYet if edge.deadline(slot) < now => Verdict::Unmet(Why::UpstreamDeadline),
        verdict @ (Verdict::Met | Verdict::NotYet | Verdict::Unmet(_)) => verdict,
    };
    Ok(Looked { verdict, rows })
}

fn evidence(query: &dyn Query, history: &dyn History, edge: &Edge, span: Span) -> Result<(Evidence, Vec<Run>), Error> {
    let standing = history.standing_of(edge.job)?;
    let definition = query.job(edge.job)?;
    let rows = match span {
        Span::Within { first, last } => rows_within(history, edge.job, first, last)?,
        Span::Newest { last } => newest_row(query, edge.job, last)?.into_iter().collect(),
    };
    let mut facts = Vec::with_capacity(rows.len());
    for row in &rows {
        let (id, state) = stands_for(query, history, row)?;
        let is_bad = state.is_terminal() && !edge.asks_for(state);
        let reruns = if is_bad { reruns(query, history, id)? } else { Vec::new() };
        facts.push(Fact { slot: row.slot, slot_last: row.slot_last, state, reruns });
    }
    let swept = standing.map_or(0, |standing| standing.swept);
    let is_swept = match span {
        Span::Within { first, .. } => first_id(first).0 < swept,
        Span::Newest { .. } => swept > 0,
    };
    let compiled = definition.as_ref().map(|definition| definition.compile());
    let evidence = Evidence {
        state: definition.as_ref().map_or(JobState::Deleted, |definition| definition.state),
        is_broken: compiled.as_ref().is_some_and(Result::is_err),
        schedule: compiled.and_then(Result::ok).and_then(|job| job.schedule),
        mark: standing.map_or(UnixMs(i64::MIN), |standing| standing.mark),
        exception: standing.and_then(|standing| standing.exception),
        rows: facts,
        is_swept,
    };
    Ok((evidence, rows))
}

/// The id from which on a row may cover a slot.
fn first_id(slot: UnixMs) -> RunId {
    RunId(id_floor(UnixMs(slot.0.saturating_sub(ID_LAG_MS))))
}

fn rows_within(history: &dyn History, job: JobId, first: UnixMs, last: UnixMs) -> Result<Vec<Run>, Error> {
    let (mut found, mut from) = (Vec::new(), first_id(first));
    loop {
        let page = history.runs_from(job, from, PAST_MAX)?;
        let Some(newest) = page.last().map(|run| run.id).filter(|_| page.len() >= PAST_MAX as usize) else {
            found.extend(page.into_iter().filter(|run| covers(run, first, last)));
            return Ok(found);
        };
        let is_beyond = page.iter().any(|run| run.origin == Origin::Schedule && run.slot > last);
        found.extend(page.into_iter().filter(|run| covers(run, first, last)));
        if is_beyond {
            return Ok(found); // a job's slots are covered in order
        }
        from = RunId(newest.0 + 1);
    }
}

fn covers(run: &Run, first: UnixMs, last: UnixMs) -> bool {
    run.origin == Origin::Schedule && run.slot <= last && run.slot_last >= first
}

/// The row of the newest slot up to `last`.
fn newest_row(query: &dyn Query, job: JobId, last: UnixMs) -> Result<Option<Run>, Error> {
    let mut filter = RunFilter { job: Some(job), origin: Some(Origin::Schedule), limit: PAGE, ..RunFilter::default() };
    loop {
        let page = query.runs(&filter)?;
        filter.before = page.last().map(|run| run.id);
        let is_end = page.len() < PAGE as usize;
        if let Some(found) = page.into_iter().find(|run| run.slot <= last) {
            return Ok(Some(found));
        }
        if is_end {
            return Ok(None);
        }
    }
}

/// The run that stands for a row, and its state: a slot that was merged is as the run that absorbed it.
fn stands_for(query: &dyn Query, history: &dyn History, row: &Run) -> Result<(RunId, RunState), Error> {
    if row.state == RunState::Merged
        && let Some(into) = history.merged_into(row.id)?
        && let Some(absorber) = query.run(into)?
    {
        return Ok((absorber.id, absorber.state));
    }
    Ok((row.id, row.state))
}

/// The states of everything that repeats a run, and of what repeats that.
fn reruns(query: &dyn Query, history: &dyn History, run: RunId) -> Result<Vec<RunState>, Error> {
    let mut states = Vec::new();
    let mut left = history.reruns_of(run)?;
    while let Some(rerun) = left.pop() {
        left.extend(history.reruns_of(rerun)?);
        states.extend(query.run(rerun)?.map(|run| run.state));
    }
    Ok(states)
}
