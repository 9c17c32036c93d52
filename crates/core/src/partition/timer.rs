//! Wake-ups, ordered by time. A timer is a hint to look: whether it still means something is decided
//! by the state that it names, so one that is left behind does no harm.

use std::collections::BTreeSet;

use super::fleet::WorkerIx;
use super::jobs::JobIx;
use crate::id::{AppId, AttemptId, RunId};
use crate::time::Mono;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// The attempt may have run too long.
    AttemptTimeout(AttemptId),
    /// The doubt may be due for a probe, or for a decision.
    Doubt(AttemptId),
    /// The attempt was asked to stop, and may not have.
    Stop(AttemptId),
    /// The ended attempt's place may be given away.
    Release(AttemptId),
    /// A shard may be due for its next attempt.
    Backoff(RunId, u32),
    /// A run may have waited too long for its first dispatch.
    StartDeadline(RunId),
    /// A run may have taken too long in all.
    RunDeadline(RunId),
    /// A slot may have waited for its jitter.
    Jitter(JobIx),
    /// A job that catches up may start its next slot.
    Pace(JobIx),
    /// A slot may have waited too long for its upstream jobs.
    Upstream(JobIx),
    /// A held slot may have waited too long.
    HeldDeadline(JobIx),
    /// A worker may be silent.
    Silence(WorkerIx),
    /// A worker that refused may be tried again.
    Avoided(WorkerIx),
    /// An app may have a token again.
    Rate(AppId),
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    set: BTreeSet<(Mono, Timer)>,
}

impl Timers {
    pub(super) fn add(&mut self, at: Mono, timer: Timer) {
        self.set.insert((at, timer));
    }

    /// Forgets a timer that would only be a burden until it is due.
    pub(super) fn remove(&mut self, at: Mono, timer: Timer) {
        self.set.remove(&(at, timer));
    }

    /// The next timer that is due.
    pub(super) fn pop_due(&mut self, now: Mono) -> Option<Timer> {
        let first = self.set.first().copied()?;
        if first.0 > now {
            return None;
        }
        self.set.pop_first();
        Some(first.1)
    }

    pub(super) fn next(&self) -> Option<Mono> {
        self.set.first().map(|(at, _)| *at)
    }
}
