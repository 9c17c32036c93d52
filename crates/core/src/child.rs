//! Children: jobs without a schedule that are fired by the ends of others' runs.
//!
//! The way of a word from a parent to its child:
//!
//! ```text
//! parent's machine      store, one transaction               engine               child's machine
//! RunSet(ended) ──▶ the row, and a Note for each edge ──▶ reads notes ──▶ run, or a row with the reason,
//!                                                                         and a Link that takes the note away
//! ```
//!
//! Invariants:
//! * A note is durable with the end that it tells of, and with no other thing. So nothing lies between a parent's end and
//!   its child, whatever dies.
//! * A note is taken away by the very batch that holds what came of it ([`Link`]), which is fenced as any. So what is not
//!   done is done by the next term, and what is done is not done again.
//! * Notes have numbers that grow in the order in which they become durable, and a machine takes each number once. So
//!   whoever carries them may carry one twice.
//! * A note stands by itself: it needs neither its parent's row nor its edge any more. So the retention may drop the one
//!   and an edit the other.
//! * What fires is the run that ended, of whatever origin, once, with all its shards: an end is one row. A late success
//!   changes no ended run, so it fires nothing. What never had a dispatch (skipped, merged, discarded, rejected) did not
//!   end, and fires nothing.
//!
//! Absent on purpose: a wait for several parents together (a job with a schedule waits, see [`crate::upstream`]); a
//! counter of hops, since cycles are refused where names are.

use crate::batch::RunState;
use crate::id::{AppId, JobId, RunId, Version};
use crate::job::{Invalid, Spec, When};
use crate::time::UnixMs;
use crate::upstream::{Edge, Ended, OnSkip, Period};

/// A parent's run has ended as an edge asks for: what its child has not heard yet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Note {
    /// Grows with durability; never used again.
    pub no: u64,
    /// The child.
    pub job: JobId,
    /// Its app.
    pub app: AppId,
    /// Its version when the run ended.
    pub version: Version,
    /// The run that ended.
    pub parent: RunId,
    /// How.
    pub state: RunState,
    /// Its slot, which is the child's too.
    pub slot: UnixMs,
    /// When its end became durable.
    pub at: UnixMs,
}

/// What came of a note: a run, or a row that says why there was none. Its own row is in the same batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Link {
    /// The child's run or row, of origin [`Upstream`](crate::batch::Origin::Upstream).
    pub run: RunId,
    /// The run whose end fired it.
    pub parent: RunId,
    /// The note, which is taken away.
    pub note: u64,
}

/// Whether a run that was set to this state has ended as an edge asks.
#[must_use]
pub fn is_fired_by(when: Ended, state: RunState) -> bool {
    let is_failure = matches!(state, RunState::Failed | RunState::Timeout | RunState::Lost | RunState::Killed);
    match when {
        Ended::Success => state == RunState::Success,
        Ended::Failure => is_failure,
        Ended::Completion => state == RunState::Success || is_failure,
    }
}

/// Whether a run that was set to this state fires anything at all.
#[must_use]
pub fn is_end(state: RunState) -> bool {
    is_fired_by(Ended::Completion, state)
}

/// The edges of a job that fire it: all that it has, if it has no schedule.
#[must_use]
pub fn parents(spec: &Spec) -> &[Edge] {
    if spec.schedule == When::Manual { &spec.after } else { &[] }
}

/// Checks the edges of a job without a schedule.
pub(crate) fn check(edges: &[Edge]) -> Result<(), Invalid> {
    for edge in edges {
        let odd = match edge {
            Edge { period, .. } if *period != Period::default() => "period",
            Edge { on_skip, .. } if *on_skip != OnSkip::default() => "on_skip",
            Edge { deadline_ms: Some(_), .. } => "deadline",
            _ => continue,
        };
        return Err(Invalid {
            field: "after",
            message: format!("`{odd}` of `{}` is for slots that wait, and the job has no schedule", edge.name),
            hint: Some(
                "a job without a schedule is fired by each end; leave it out, or give it cron, every or at".into(),
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ran_ends() {
        let fired = |when| RunState::ALL.iter().filter(|state| is_fired_by(when, **state)).collect::<Vec<_>>();
        assert_eq!(fired(Ended::Success), [&RunState::Success]);
        let failures = [&RunState::Failed, &RunState::Timeout, &RunState::Killed, &RunState::Lost];
        assert_eq!(fired(Ended::Failure), failures);
        assert_eq!(fired(Ended::Completion), [vec![&RunState::Success], failures.to_vec()].concat());
    }
}
