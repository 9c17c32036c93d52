//! Open runs, their shards and their attempts.
//!
//! A run stays here until it is terminal and every attempt of it is released. An attempt stays as
//! long as its run does, so that a late result finds it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::fleet::WorkerIx;
use super::jobs::JobIx;
use super::pools::PoolIx;
use super::table::Table;
use crate::batch::{self, AttemptState, Origin, RunState};
use crate::id::{AppId, AttemptId, Incarnation, JobId, RunId, Version, WorkerId};
use crate::job::{Body, Policy};
use crate::time::{Mono, UnixMs};
use crate::trace::Parent;
use crate::why::Why;
use crate::worker::Registration;

/// An open run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) app: AppId,
    pub(super) job: JobId,
    /// Its job's place, as long as the job is the one that is there.
    pub(super) place: Option<JobIx>,
    pub(super) version: Version,
    pub(super) origin: Origin,
    pub(super) slot: UnixMs,
    pub(super) pool: PoolIx,
    pub(super) policy: Arc<Policy>,
    pub(super) body: Arc<Body>,
    pub(super) param: Option<Arc<str>>,
    pub(super) shards: Vec<Shard>,
    /// The state that its row has, or will have with the open batch.
    pub(super) state: RunState,
    /// Why it was killed, if it was.
    pub(super) killed: Option<Why>,
    /// It waits for its place among the runs of its job.
    pub(super) is_parked: bool,
    /// It has taken longer than its job allows: nothing of it is tried again.
    pub(super) is_overdue: bool,
    /// When that is looked at, while it is waited for.
    pub(super) deadline: Option<Mono>,
    pub(super) is_listed: bool,
    /// Attempts that have not ended.
    pub(super) live: u32,
    /// Attempts that have not been released.
    pub(super) unreleased: u32,
    /// Shards that have not been settled.
    pub(super) open_shards: u32,
    /// What is durable of its shards beside its row and its attempts.
    pub(super) noted: Option<Arc<batch::Shards>>,
    /// The span within which it was asked for.
    pub(super) parent: Option<Arc<Parent>>,
}

impl Run {
    /// The worker whose a shard of a broadcast is.
    pub(super) fn worker_of(&self, shard: u32) -> Option<WorkerId> {
        self.noted.as_ref()?.workers.get(shard as usize).copied()
    }

    /// How a shard is settled, whatever its attempts say: with its run, or by itself.
    pub(super) fn decided(&self, shard: u32) -> Option<(RunState, Why)> {
        if let Some(why) = self.killed {
            return Some((RunState::Killed, why));
        }
        self.noted.as_ref()?.settled(shard).map(|settled| (settled.state, settled.why))
    }
}

/// A part of a run.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) phase: Phase,
    /// Its attempts, in order of their numbers.
    pub(super) attempts: Vec<AttemptId>,
    /// Attempts that count against the job's retries.
    pub(super) charged: u32,
}

/// Where a shard stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Its run waits for a place among those of its job.
    Parked,
    /// In its pool's queue.
    Waiting,
    /// Until its next attempt is due.
    Backoff(Mono),
    /// With this attempt.
    Active(AttemptId),
    /// Done, in this state.
    Settled(RunState, Option<Why>),
}

/// One dispatch of a shard.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    pub(super) run: RunId,
    pub(super) shard: u32,
    pub(super) no: u32,
    pub(super) worker: WorkerIx,
    pub(super) incarnation: Incarnation,
    /// The registration of that incarnation, if it is known: where to ask after the attempt.
    pub(super) to: Option<Arc<Registration>>,
    pub(super) at: UnixMs,
    /// When this machine first knew of it, and how old it was then.
    pub(super) at_mono: Mono,
    pub(super) aged_ms: u64,
    /// When its time-out is looked at, while that is waited for.
    pub(super) timeout_at: Option<Mono>,
    pub(super) life: Life,
    /// The first beat in which absence means that the worker no longer has it.
    pub(super) seen_from: Option<u64>,
    /// Whether it holds one of its worker's send credits.
    pub(super) has_credit: bool,
    pub(super) why: Option<Why>,
    pub(super) ended_at: Option<UnixMs>,
    pub(super) released_at: Option<UnixMs>,
    /// When its place is given away without proof; set once it has ended or was asked to stop.
    pub(super) release_at: Mono,
    pub(super) message: Option<Arc<str>>,
}

/// An attempt's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    /// Its row is on its way to the store; nothing was sent.
    Committing,
    /// Handed to the executor.
    Sending,
    /// Accepted.
    Running,
    /// It may have reached its worker; decided at this time.
    InDoubt(Mono),
    /// Asked to stop.
    Stopping(Cause),
    /// Over.
    Ended(AttemptState),
}

/// Why an attempt was asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// It, or its run, took too long; at this time it ends, confirmed or not.
    Timeout { end_by: Mono, why: Why },
    /// Someone, or a policy, killed its run.
    Kill(Why),
    /// Its shard was settled by an earlier attempt's late success.
    Superseded,
}

impl Cause {
    /// How an attempt ends that was asked to stop, and did.
    pub(super) fn ends_as(self) -> (AttemptState, Why) {
        match self {
            Cause::Timeout { why, .. } => (AttemptState::Timeout, why),
            Cause::Kill(why) => (AttemptState::Killed, why),
            Cause::Superseded => (AttemptState::Killed, Why::Superseded),
        }
    }
}

impl Run {
    /// The reason that its row has while it is open.
    pub(super) fn open_why(&self) -> Option<Why> {
        self.killed.or(self.is_parked.then_some(Why::Overlap))
    }
}

impl Attempt {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.life, Life::Ended(_))
    }

    /// The state that its row has.
    pub(super) fn state(&self) -> AttemptState {
        match self.life {
            Life::Committing | Life::Sending => AttemptState::Dispatched,
            Life::Running => AttemptState::Running,
            Life::InDoubt(_) => AttemptState::InDoubt,
            Life::Stopping(_) => AttemptState::Stopping,
            Life::Ended(state) => state,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Runs {
    pub(super) runs: Table<RunId, Run>,
    pub(super) attempts: Table<AttemptId, Attempt>,
    /// Runs that are open and not listed, oldest first, with the time to list them; closed ones are
    /// dropped when they get to the front.
    young: VecDeque<(Mono, RunId)>,
    pub(super) in_doubt: u64,
}

impl Runs {
    pub(super) fn run(&self, id: RunId) -> &Run {
        self.runs.get(&id).expect("a run is kept as long as something names it")
    }

    pub(super) fn run_mut(&mut self, id: RunId) -> &mut Run {
        self.runs.get_mut(&id).expect("a run is kept as long as something names it")
    }

    pub(super) fn attempt(&self, id: AttemptId) -> Option<&Attempt> {
        self.attempts.get(&id)
    }

    pub(super) fn attempt_mut(&mut self, id: AttemptId) -> &mut Attempt {
        self.attempts.get_mut(&id).expect("an attempt is kept as long as its run")
    }

    pub(super) fn add_young(&mut self, id: RunId, list_at: Mono) {
        self.young.push_back((list_at, id));
    }

    /// The next run that has been open long enough to be listed.
    pub(super) fn next_to_list(&mut self, now: Mono) -> Option<RunId> {
        while let Some((list_at, id)) = self.young.front().copied() {
            match self.runs.get(&id) {
                Some(run) if !run.is_listed => {
                    if list_at > now {
                        return None;
                    }
                    self.young.pop_front();
                    return Some(id);
                }
                Some(_) | None => {
                    self.young.pop_front();
                }
            }
        }
        None
    }

    /// When the next run is to be listed.
    pub(super) fn next_listing(&self) -> Option<Mono> {
        self.young.front().map(|(at, _)| *at)
    }

    /// The lowest id of a run that is open and not listed.
    pub(super) fn floor(&mut self) -> Option<u64> {
        while let Some((_, id)) = self.young.front() {
            match self.runs.get(id) {
                Some(run) if !run.is_listed => return Some(id.0),
                Some(_) | None => {
                    self.young.pop_front();
                }
            }
        }
        None
    }
}
