//! Invariant 8: what is acknowledged is durable, results above all.

use std::sync::Arc;

use rota_core::batch::{AttemptState, Run};
use rota_core::freeze::{Freeze, Thaw};
use rota_core::id::{AppId, BackfillId, Incarnation, JobId, RunId, WorkerId};
use rota_core::job::JobState;
use rota_core::partition::{Answer, Outcome, Report};
use rota_core::trace::Parent;
use rota_core::why::Why;

use super::{Rule, Verdict};
use crate::store::{Part, RunRow};

/// What was asked.
#[derive(Clone, Debug)]
pub enum Asked {
    /// To define a job.
    Define(JobId),
    /// To set a job's state.
    State {
        /// Whose.
        job: JobId,
        /// Which.
        state: JobState,
        /// Whether the version that was named never existed.
        is_stale: bool,
    },
    /// To run a job, within a span.
    Trigger(JobId, Option<Arc<Parent>>),
    /// To kill a run.
    Kill(RunId),
    /// To kill a shard of a run.
    KillShard(RunId, u32),
    /// To run a run of this job again.
    Rerun(JobId, RunId),
    /// To run a range of the past of a job.
    Backfill(JobId),
    /// To make no more runs of a backfill.
    CancelBackfill(BackfillId),
    /// To freeze an app, or all.
    Freeze(Option<AppId>),
    /// To thaw it.
    Thaw(Option<AppId>),
    /// To register.
    Register(WorkerId, Incarnation),
    /// To take results.
    Results(Vec<Report>),
    /// To hear a beat, a drain, a farewell.
    Worker,
}

/// Checks an answer against the rows, at the moment that it leaves the machine.
pub fn answered(part: &Part, asked: &Asked, answer: &Answer) -> Verdict {
    let broken = |text: String| Err(Rule::Acknowledged.broken(text));
    match (asked, answer) {
        (_, Answer::Refused(_)) | (Asked::Worker, _) | (Asked::KillShard(..), Answer::Killing) => Ok(()),
        (Asked::Define(_), Answer::Defined { job, version, .. }) => {
            let is_durable = part.jobs.get(job).is_some_and(|j| j.versions.contains_key(version));
            if is_durable {
                Ok(())
            } else {
                broken(format!("version {version} of job {job} is acknowledged, and not durable"))
            }
        }
        (Asked::State { job, is_stale: true, .. }, Answer::StateSet { .. }) => {
            broken(format!("job {job} is changed on top of a version that it never had"))
        }
        (Asked::State { job, state: wanted, .. }, Answer::StateSet { state, .. }) => {
            let is_terminal = matches!(wanted, JobState::Deleted);
            let stored = part.jobs.get(job).map(|j| j.current.state);
            if is_terminal && (stored != Some(JobState::Deleted) || *state != JobState::Deleted) {
                return broken(format!("job {job} is said to be {state:?}, and is {stored:?}"));
            }
            Ok(())
        }
        (Asked::Trigger(job, parent), Answer::Triggered(run) | Answer::Queued(run) | Answer::Merged { run, .. }) => {
            let Some(row) = part.runs.get(run).filter(|row| row.run.job == *job) else {
                return broken(format!("{run} is acknowledged, and not durable"));
            };
            let parent = parent.as_ref().filter(|_| row.run.shards > 0);
            if part.parents.get(run) == parent { Ok(()) } else { broken(format!("{run} is not within {parent:?}")) }
        }
        (Asked::Rerun(job, of), Answer::Triggered(run) | Answer::Queued(run)) => {
            let is_linked = part.reruns.get(run).is_some_and(|rerun| rerun.of == *of);
            let is_durable = part.runs.get(run).is_some_and(|row| row.run.job == *job);
            if is_linked && is_durable { Ok(()) } else { broken(format!("{run} repeats {of}, and is not durable")) }
        }
        (Asked::Backfill(job), Answer::Backfilling(id)) => {
            let is_durable = part.backfills.get(id).is_some_and(|backfill| backfill.job == *job);
            if is_durable { Ok(()) } else { broken(format!("backfill {id} is acknowledged, and not durable")) }
        }
        (Asked::CancelBackfill(id), Answer::BackfillCancelled { .. }) => {
            let is_over = part.backfills.get(id).is_some_and(|backfill| !backfill.is_open());
            if is_over { Ok(()) } else { broken(format!("the end of backfill {id} is acknowledged, and not durable")) }
        }
        (Asked::Freeze(app), Answer::Frozen { .. }) => {
            // A thaw that came after it may have become durable with what the answer rests on.
            let was_open = |thaw: &Thaw| part.at - thaw.at.0 < 10_000;
            let is_open = |freeze: &&Freeze| freeze.thaw.as_ref().is_none_or(was_open);
            let is_frozen = part.freezes.values().filter(is_open).any(|freeze| freeze.app == *app);
            if is_frozen { Ok(()) } else { broken(format!("the freeze of {app:?} is acknowledged, and not durable")) }
        }
        (Asked::Thaw(app), Answer::Thawed { .. }) => {
            let is_frozen = part.freezes.values().any(|freeze| freeze.is_open() && freeze.app == *app);
            if is_frozen { broken(format!("the thaw of {app:?} is acknowledged, and not durable")) } else { Ok(()) }
        }
        (Asked::Kill(run), Answer::Killing) => {
            let is_dying = part.runs.get(run).is_some_and(is_dying);
            if is_dying { Ok(()) } else { broken(format!("the kill of {run} is acknowledged, and not durable")) }
        }
        (Asked::Register(worker, incarnation), Answer::Registered(_)) => {
            let is_durable = part.registered.contains(&(*worker, *incarnation));
            if is_durable {
                Ok(())
            } else {
                broken(format!("{incarnation:?} of worker {worker} is acknowledged, and not durable"))
            }
        }
        (Asked::Results(reports), Answer::Acknowledged(attempts)) => {
            reports.iter().filter(|r| attempts.contains(&r.attempt)).try_for_each(|report| result(part, report))
        }
        (asked, answer) => broken(format!("{asked:?} is answered with {answer:?}")),
    }
}

/// Whether a run is killed, or will be once its attempts have stopped.
fn is_dying(row: &RunRow) -> bool {
    row.run.state.is_terminal()
        || matches!(row.run.why, Some(Why::KilledByUser | Why::CancelledByOverlap))
        || row.attempts.iter().any(|a| a.state == AttemptState::Stopping)
}

/// A result is durable if its attempt is terminal and released; a success also settles its shard, if that was open.
fn result(part: &Part, report: &Report) -> Verdict {
    let broken =
        |text: String| Err(Rule::Acknowledged.broken(format!("the result of attempt {}: {text}", report.attempt)));
    let Some(row) = part.runs.get(&report.run) else { return Ok(()) };
    let Some(attempt) = row.attempt(report.attempt) else { return broken("it has no row".to_owned()) };
    if !attempt.state.is_terminal() || attempt.released_at.is_none() {
        return broken(format!("is acknowledged, and the row is {} {:?}", attempt.state.word(), attempt.released_at));
    }
    if report.outcome == Outcome::Success && !is_settled(row, &row.run, report) {
        return broken("is a success, is acknowledged, and its shard goes on".to_owned());
    }
    Ok(())
}

/// Whether a success is honoured: the run has ended, is killed, or nothing follows in the shard.
fn is_settled(row: &RunRow, run: &Run, report: &Report) -> bool {
    let is_open = |a: &rota_core::batch::Attempt| {
        a.shard == report.shard && a.no > report.no && !a.state.is_terminal() && a.state != AttemptState::Stopping
    };
    run.state.is_terminal() || !row.attempts.iter().any(is_open)
}
