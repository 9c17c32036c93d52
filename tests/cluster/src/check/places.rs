//! Invariant 5 for the places of jobs: how many runs hold one, by the rows and by the workers' own record, who overtakes
//! whom, and what stands for whom.
//!
//! A run begins under one of the versions that were in force from the one that made it on. It is at fault only if none of
//! them would have let it.

use std::collections::BTreeSet;

use rota_core::batch::RunState;
use rota_core::id::RunId;
use rota_core::job::{Definition, Overlap};
use rota_core::overlap::{Mode, param_of, value_of};
use rota_core::why::Why;

use super::{Rule, Verdict};
use crate::store::{Changes, Part, RunRow};

/// Whether a run waits for its place.
#[must_use]
pub fn is_parked(row: &RunRow) -> bool {
    row.run.state == RunState::Pending && row.run.why == Some(Why::Overlap) && row.attempts.is_empty()
}

/// The value of a policy's key that a run has.
fn value(part: &Part, overlap: &Overlap, row: &RunRow) -> Option<String> {
    let key = overlap.key.as_deref()?;
    let own = &part.jobs[&row.run.job].versions[&row.run.version].spec.target;
    value_of(key, row.run.param.as_deref().unwrap_or_else(|| param_of(own)))
}

/// The versions under which a run may have begun.
fn versions<'p>(part: &'p Part, row: &RunRow) -> impl Iterator<Item = &'p Definition> {
    part.jobs[&row.run.job].versions.range(row.run.version..).map(|(_, definition)| definition)
}

/// How many runs may hold a place; none if the policy does not wait for places.
fn limit(overlap: &Overlap) -> Option<usize> {
    match overlap.mode {
        Mode::Allow => overlap.max.map(|max| max as usize),
        Mode::Queue | Mode::Merge => Some(overlap.max.unwrap_or(1) as usize),
        Mode::Skip | Mode::CancelAndWait => Some(1),
        Mode::CancelRunning => None,
    }
}

/// Whether a run may begin beside these, by any version.
fn check(part: &Part, row: &RunRow, others: &[&RunRow], by: &str) -> Verdict {
    let is_too_many = |definition: &Definition| {
        let overlap = &definition.spec.overlap;
        let Some(limit) = limit(overlap) else { return false };
        let own = value(part, overlap, row);
        let beside = others.iter().filter(|other| value(part, overlap, other) == own).map(|other| other.run.id);
        beside.collect::<BTreeSet<RunId>>().len() >= limit
    };
    if versions(part, row).all(is_too_many) {
        let others: Vec<String> = others.iter().map(|other| other.run.id.to_string()).collect();
        let overlap = &part.jobs[&row.run.job].current.spec.overlap;
        let text = format!("{} of job {} begins beside {others:?} ({by}): {overlap:?}", row.run.id, row.run.job);
        return Err(Rule::Overlap.broken(text));
    }
    Ok(())
}

/// A worker starts an attempt of a run, while these run by the workers' own record and have not given their places away.
pub fn started<'p>(part: &'p Part, row: &RunRow, running: impl Iterator<Item = &'p RunRow>) -> Verdict {
    let others: Vec<&RunRow> = running.filter(|other| other.run.id != row.run.id).collect();
    if others.is_empty() { Ok(()) } else { check(part, row, &others, "their code runs") }
}

/// Checks a batch that has just been applied.
pub fn applied(part: &Part, changes: &Changes) -> Verdict {
    for (id, attempt) in &changes.attempts_new {
        let row = &part.runs[id];
        let is_first = row.attempts.iter().map(|a| a.id).min() == Some(*attempt);
        let unclosed = part.unclosed.get(&row.run.job);
        let Some(unclosed) = unclosed.filter(|unclosed| is_first && unclosed.contains(id)) else { continue };
        let others: Vec<&RunRow> =
            unclosed.iter().filter(|other| *other != id).map(|other| &part.runs[other]).collect();
        let holders: Vec<&RunRow> = others.iter().filter(|other| !other.attempts.is_empty()).copied().collect();
        check(part, row, &holders, "unreleased")?;
        overtakes(part, row, &others)?;
    }
    for id in &changes.runs_new {
        merged(part, changes, &part.runs[id])?;
    }
    Ok(())
}

/// Nobody begins before an earlier run that waits for the same places.
fn overtakes(part: &Part, row: &RunRow, others: &[&RunRow]) -> Verdict {
    let job = &part.jobs[&row.run.job];
    let overlap = &job.current.spec.overlap;
    // After a change of policy others may have come first, or wait no longer.
    let was_changed = job.versions.values().any(|definition| definition.spec.overlap != *overlap);
    if was_changed || limit(overlap).is_none() {
        return Ok(());
    }
    let own = value(part, overlap, row);
    let is_before =
        |other: &&&RunRow| is_parked(other) && other.run.id < row.run.id && value(part, overlap, other) == own;
    match others.iter().find(is_before) {
        Some(other) => Err(Rule::Overlap.broken(format!("{} overtakes {}, which waits", row.run.id, other.run.id))),
        None => Ok(()),
    }
}

/// What stands for a merged run is a run of the same job and value that had not begun when it came.
fn merged(part: &Part, changes: &Changes, row: &RunRow) -> Verdict {
    let broken = |text: String| Err(Rule::Overlap.broken(format!("{} is merged, and {text}", row.run.id)));
    let link = part.merged.get(&row.run.id);
    if row.run.state != RunState::Merged {
        return if link.is_none() { Ok(()) } else { broken("is not said to be".to_owned()) };
    }
    let Some(into) = link.and_then(|into| part.runs.get(into)) else { return broken("into nothing".to_owned()) };
    let overlap = &part.jobs[&row.run.job].versions[&row.run.version].spec.overlap;
    if into.run.job != row.run.job
        || into.run.id >= row.run.id
        || value(part, overlap, into) != value(part, overlap, row)
    {
        return broken(format!("into {}, which is another's", into.run.id));
    }
    let is_new = |attempt: &rota_core::batch::Attempt| changes.attempts_new.contains(&(into.run.id, attempt.id));
    if !into.attempts.iter().all(is_new) {
        return broken(format!("into {}, which had begun", into.run.id));
    }
    Ok(())
}
