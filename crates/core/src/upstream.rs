//! Upstream jobs: what a job waits for before one of its slots may fire, and whether that has come to pass.
//!
//! The judgement rests on facts of the ledger alone, so it is the same whoever makes it, and when: a restart asks again and
//! comes to the same. Facts only grow, so what is met stays met.
//!
//! Absent on purpose: reading, and waiting. A shell gathers the evidence; the machine holds the slot.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rota_cron::{Kind, Schedule};
use serde::{Deserialize, Serialize};

use crate::batch::{Exception, RunState};
use crate::id::JobId;
use crate::job::{Invalid, JobState, When, invalid};
use crate::limits;
use crate::time::UnixMs;
use crate::why::Why;

/// A run's id is taken at most so many milliseconds before its slot is due, whatever the clocks do short of a jump: the ids
/// from that of (slot - this) on are all that may cover it.
pub const ID_LAG_MS: i64 = 600_000;

/// One upstream job of a job, and what is asked of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The upstream job.
    pub job: JobId,
    /// Its name, which never changes.
    pub name: String,
    /// How its run has to end.
    #[serde(default)]
    pub when: Ended,
    /// Which of its slots count.
    #[serde(default)]
    pub period: Period,
    /// What a slot of it without a run means.
    #[serde(default)]
    pub on_skip: OnSkip,
    /// How long a slot waits for it, in milliseconds from the slot; absent: a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// How an upstream run has to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It succeeded, or a rerun of it did.
    #[default]
    Success,
    /// It failed, took too long, was lost or killed.
    Failure,
    /// It ended, however.
    Completion,
}

/// Which slots of an upstream job belong to a slot of the job that waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// The one at the same instant.
    #[default]
    SameSlot,
    /// The newest one at or before it.
    Latest,
    /// All after the slot before, up to this one.
    Window,
}

/// What it means that an upstream job's slot had no run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnSkip {
    /// The slot that waits has none either.
    #[default]
    Skip,
    /// It runs all the same.
    Run,
}

impl Edge {
    /// The instant after which a slot waits for this edge no longer.
    #[must_use]
    pub fn deadline(&self, slot: UnixMs) -> UnixMs {
        let wait_ms = self.deadline_ms.unwrap_or(limits::UPSTREAM_DEADLINE_MS);
        slot.plus_ms(i64::try_from(wait_ms).unwrap_or(i64::MAX))
    }

    /// The slots that have to be known of to judge it.
    #[must_use]
    pub fn span(&self, slot: UnixMs, previous: Option<UnixMs>) -> Span {
        match self.period {
            Period::SameSlot => Span::Within { first: slot, last: slot },
            Period::Latest => Span::Newest { last: slot },
            Period::Window => {
                Span::Within { first: previous.map_or(UnixMs(i64::MIN), |before| before.plus_ms(1)), last: slot }
            }
        }
    }

    /// Whether an end is one that it asks for.
    #[must_use]
    pub fn asks_for(&self, state: RunState) -> bool {
        match self.when {
            Ended::Success => state == RunState::Success,
            Ended::Failure => matches!(state, RunState::Failed | RunState::Timeout | RunState::Lost | RunState::Killed),
            Ended::Completion => state.is_terminal(),
        }
    }
}

/// The longest that a slot with these upstream jobs may wait for them, in milliseconds.
#[must_use]
pub fn wait_max_ms(edges: &[Edge]) -> u64 {
    edges.iter().map(|edge| edge.deadline_ms.unwrap_or(limits::UPSTREAM_DEADLINE_MS)).max().unwrap_or(0)
}

/// Checks the upstream jobs of a job, and shares them.
pub(crate) fn compile(own: &str, when: &When, edges: &[Edge]) -> Result<Option<Arc<[Edge]>>, Invalid> {
    const FIELD: &str = "after";
    let refuse = |message: String, hint: &str| Err(Invalid { field: FIELD, message, hint: Some(hint.to_owned()) });
    if edges.is_empty() {
        return Ok(None);
    }
    if edges.len() > limits::UPSTREAMS_MAX {
        return Err(invalid(FIELD, format!("{} are more than {}", edges.len(), limits::UPSTREAMS_MAX)));
    }
    match when {
        When::DelayMs(_) => {
            let hint = "give the job cron, every or at";
            return refuse("a job with a delay has no slots that others could have too".to_owned(), hint);
        }
        When::Manual => {}
        When::OnceMs(_) if edges.iter().any(|edge| edge.period == Period::Window) => {
            return refuse("a window lies between two slots, and the job has one".to_owned(), "use period: latest");
        }
        When::Cron(_) | When::EveryMs(_) | When::OnceMs(_) => {}
    }
    for (at, edge) in edges.iter().enumerate() {
        if edge.name == own {
            return Err(invalid(FIELD, format!("`{}` is the job itself", edge.name)));
        }
        if edges[..at].iter().any(|other| other.name == edge.name) {
            return refuse(format!("`{}` is named twice", edge.name), "name each upstream job once");
        }
        let deadline_ms = edge.deadline_ms.unwrap_or(limits::UPSTREAM_DEADLINE_MS);
        if deadline_ms == 0 || deadline_ms > limits::UPSTREAM_DEADLINE_MAX_MS {
            let days = limits::UPSTREAM_DEADLINE_MAX_MS / 86_400_000;
            return refuse(
                format!("the deadline for `{}` is {deadline_ms} ms", edge.name),
                &format!("up to {days} days, with a unit: 30m, 6h, 1d"),
            );
        }
    }
    if *when == When::Manual {
        // It waits for nothing: it is fired by them.
        return crate::child::check(edges).map(|()| None);
    }
    Ok(Some(edges.into()))
}

/// The shortest way from a job over its upstream jobs back to it, if there is one: from the job to the job.
///
/// Every job is looked at once, one after the other, so that neither long chains nor wide fans are a burden.
pub fn cycle<E>(
    job: JobId,
    upstreams: &[JobId],
    mut of: impl FnMut(JobId) -> Result<Vec<JobId>, E>,
) -> Result<Option<Vec<JobId>>, E> {
    let mut waits_for: BTreeMap<JobId, JobId> = BTreeMap::new();
    let mut left: VecDeque<JobId> = VecDeque::new();
    let mut reach = |from: JobId, found: Vec<JobId>, left: &mut VecDeque<JobId>| {
        for upstream in found {
            if let Entry::Vacant(place) = waits_for.entry(upstream) {
                place.insert(from);
                left.push_back(upstream);
            }
        }
        waits_for.contains_key(&job)
    };
    let mut is_closed = reach(job, upstreams.to_vec(), &mut left);
    while !is_closed && let Some(next) = left.pop_front() {
        is_closed = reach(next, of(next)?, &mut left);
    }
    if !is_closed {
        return Ok(None);
    }
    let mut path = vec![job];
    let mut at = waits_for[&job];
    while at != job {
        path.push(at);
        at = waits_for[&at];
    }
    path.push(job);
    path.reverse();
    Ok(Some(path))
}

/// Which slots of an upstream job are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// All from the first to the last.
    Within {
        /// The earliest.
        first: UnixMs,
        /// The latest.
        last: UnixMs,
    },
    /// The newest one up to the last.
    Newest {
        /// The latest.
        last: UnixMs,
    },
}

/// What is known of an upstream job. Read in this order: how far it is covered, its definition, its rows; then what
/// another order could hide shows.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Its life.
    pub state: JobState,
    /// Its schedule; `None` if it has none.
    pub schedule: Option<Schedule>,
    /// Its definition cannot be compiled by this binary: its slots wait for one that can.
    pub is_broken: bool,
    /// The mark of its partition.
    pub mark: UnixMs,
    /// Its exception.
    pub exception: Option<Exception>,
    /// Rows of its slots that overlap the span; of [`Span::Newest`], the newest such row.
    pub rows: Vec<Fact>,
    /// Rows of the span may have been dropped by the retention.
    pub is_swept: bool,
}

/// A row of an upstream job: one slot, or a range of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// Its first slot.
    pub slot: UnixMs,
    /// Its last slot.
    pub slot_last: UnixMs,
    /// Its state.
    pub state: RunState,
    /// The states of what repeats it; looked up only if it ended badly.
    pub reruns: Vec<RunState>,
}

/// What an edge says of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// What is asked for has come to pass; that does not change any more.
    Met,
    /// It may still.
    NotYet,
    /// It will not, for this reason.
    Unmet(Why),
}

/// Judges one edge for a slot.
#[must_use]
pub fn judge(edge: &Edge, span: Span, evidence: &Evidence) -> Verdict {
    let (first, last) = match span {
        Span::Within { first, last } => (first, last),
        Span::Newest { last } => (UnixMs(i64::MIN), last),
    };
    let awaited = awaited(evidence, first, last);
    if awaited == Some(Awaited::Coming) && matches!(span, Span::Newest { .. }) {
        return Verdict::NotYet; // a newer slot than any that has a row
    }
    let facts = evidence.rows.iter().map(|fact| judge_fact(edge, fact));
    let coming = awaited.map(|awaited| match awaited {
        Awaited::Coming => Verdict::NotYet,
        Awaited::Paused => without_run(edge),
    });
    let verdicts: Vec<Verdict> = facts.chain(coming).collect();
    if verdicts.is_empty() {
        return if evidence.is_swept { Verdict::Unmet(Why::UpstreamUnknown) } else { without_run(edge) };
    }
    together(verdicts)
}

/// What several edges, or several slots of one, say together: what is bad decides before what is still to come.
#[must_use]
pub fn together(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let mut all = Verdict::Met;
    for verdict in verdicts {
        match verdict {
            Verdict::Unmet(_) => return verdict,
            Verdict::NotYet => all = Verdict::NotYet,
            Verdict::Met => {}
        }
    }
    all
}

fn judge_fact(edge: &Edge, fact: &Fact) -> Verdict {
    match fact.state {
        RunState::Pending | RunState::Dispatched | RunState::Running => Verdict::NotYet,
        RunState::Skipped | RunState::Merged | RunState::Discarded | RunState::Rejected => without_run(edge),
        state if edge.asks_for(state) => Verdict::Met,
        RunState::Success | RunState::Failed | RunState::Timeout | RunState::Killed | RunState::Lost => {
            if fact.reruns.iter().any(|state| edge.asks_for(*state)) {
                Verdict::Met
            } else if fact.reruns.iter().any(|state| !state.is_terminal()) {
                Verdict::NotYet
            } else {
                Verdict::Unmet(Why::UpstreamFailed)
            }
        }
    }
}

fn without_run(edge: &Edge) -> Verdict {
    match edge.on_skip {
        OnSkip::Skip => Verdict::Unmet(Why::UpstreamSkipped),
        OnSkip::Run => Verdict::Met,
    }
}

/// A slot without a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaited {
    /// It will get one.
    Coming,
    /// It lies in a pause, whose end will cover it with a row that says so.
    Paused,
}

/// Whether a slot from `first` to `last` has no row yet.
fn awaited(evidence: &Evidence, first: UnixMs, last: UnixMs) -> Option<Awaited> {
    if evidence.is_broken && evidence.state == JobState::Enabled {
        return Some(Awaited::Coming);
    }
    let schedule = evidence.schedule.as_ref()?;
    let is_armed_kind = matches!(schedule.kind(), Kind::Delay | Kind::Once);
    let slot = match evidence.exception {
        Some(Exception::Armed(at)) => (at >= first).then_some(at),
        Some(Exception::Covered(_) | Exception::Judged { .. }) | None if is_armed_kind => None,
        exception => {
            let covered = exception.and_then(Exception::covered).unwrap_or(evidence.mark);
            let rows = evidence.rows.iter().map(|fact| fact.slot_last).max();
            let from = covered.max(rows.unwrap_or(covered)).max(UnixMs(first.0.saturating_sub(1)));
            schedule.next_after(from)
        }
    };
    slot.filter(|slot| *slot <= last)?;
    match evidence.state {
        JobState::Enabled => Some(Awaited::Coming),
        JobState::Paused => Some(Awaited::Paused),
        JobState::Finished | JobState::Deleted => None,
    }
}

#[cfg(test)]
#[path = "upstream_tests.rs"]
mod tests;
