//! What leaves a machine: what it wants of its shell, and its answers.

use std::fmt;
use std::sync::Arc;

use super::message::ReplyTo;
use super::snapshot::Snapshot;
use crate::batch::{Batch, Origin};
use crate::id::{AppId, AttemptId, BackfillId, Epoch, Incarnation, JobId, RunId, Version};
use crate::job::{Body, JobState};
use crate::time::{Mono, UnixMs};
use crate::trace::Parent;
use crate::upstream::Edge;
use crate::why::Why;
use crate::worker::{Registration, WorkerState};

/// A dispatch of one shard, ready to be encoded. What it carries does not print: it may hold secrets.
#[derive(Clone)]
pub struct Dispatch {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its run.
    pub run: RunId,
    /// Its shard, from 0.
    pub shard: u32,
    /// Shards of the run.
    pub shards: u32,
    /// Its number within the shard.
    pub no: u32,
    /// The app.
    pub app: AppId,
    /// The job.
    pub job: JobId,
    /// The version that made the run.
    pub version: Version,
    /// What made the run.
    pub origin: Origin,
    /// The slot.
    pub slot: UnixMs,
    /// The term that sends it.
    pub epoch: Epoch,
    /// Whom it is for; none for URL jobs.
    pub worker: Option<Arc<Registration>>,
    /// What it calls.
    pub body: Arc<Body>,
    /// A parameter in place of the body's.
    pub param: Option<Arc<str>>,
    /// How long the attempt may run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The span within which the run was asked for.
    pub parent: Option<Arc<Parent>>,
    /// No first byte is sent after this.
    pub send_by: Mono,
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Dispatch");
        shown.field("attempt", &self.attempt).field("run", &self.run).field("shard", &self.shard);
        shown.field("no", &self.no).field("job", &self.job).field("version", &self.version);
        shown.finish_non_exhaustive()
    }
}

/// Whom a probe or a cancel asks, about which attempt.
#[derive(Clone, Debug)]
pub struct Enquiry {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its run.
    pub run: RunId,
    /// Its shard.
    pub shard: u32,
    /// Its number.
    pub no: u32,
    /// The term that asks.
    pub epoch: Epoch,
    /// Whom; none for URL jobs.
    pub worker: Option<Arc<Registration>>,
    /// The incarnation that the attempt was sent to.
    pub incarnation: Incarnation,
}

/// Everything a machine can want.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Make the batch durable, then say [`Input::Committed`](super::Input::Committed).
    Commit(Box<Batch>),
    /// Send, and say [`Input::Sent`](super::Input::Sent).
    Send(Box<Dispatch>),
    /// Stop an attempt, and say [`Input::Cancelled`](super::Input::Cancelled).
    Cancel(Box<Enquiry>),
    /// Ask after an attempt, and say [`Input::Probed`](super::Input::Probed).
    Probe(Box<Enquiry>),
    /// Answer whoever waits.
    Reply(ReplyTo, Answer),
    /// Step with [`Input::Turn`](super::Input::Turn) after at most so many milliseconds.
    WakeIn(u64),
    /// Judge the upstream jobs of a slot, and say [`Input::Upstream`](super::Input::Upstream) once that is final.
    AskUpstream(Box<AskUpstream>),
    /// What ended of this job, or was covered, is durable now: those who wait for it should look.
    Ended(JobId),
    /// The live state, for reads.
    Publish(Arc<Snapshot>),
}

/// A slot that waits for its upstream jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskUpstream {
    /// The job.
    pub job: JobId,
    /// The slot that waits.
    pub slot: UnixMs,
    /// The slot before it by the job's schedule.
    pub previous: Option<UnixMs>,
    /// What it waits for.
    pub edges: Arc<[Edge]>,
}

/// Answers to requests.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The definition is durable, and in force.
    Defined {
        /// The job.
        job: JobId,
        /// Its version.
        version: Version,
        /// Its next slot.
        next: Option<UnixMs>,
    },
    /// The state is set.
    StateSet {
        /// The state that the job has now.
        state: JobState,
        /// Its next slot.
        next: Option<UnixMs>,
    },
    /// The run is durable.
    Triggered(RunId),
    /// The run is durable, and waits for its place among the runs of its job.
    Queued(RunId),
    /// Its row is durable: another run, which waits, stands for it.
    Merged {
        /// The row.
        run: RunId,
        /// What stands for it.
        into: RunId,
    },
    /// The backfill is durable; its runs follow.
    Backfilling(BackfillId),
    /// The backfill makes no more runs, durably.
    BackfillCancelled {
        /// How many of its runs are open, or were just before they were killed.
        open: u64,
    },
    /// The freeze is durable.
    Frozen {
        /// Whether it was not frozen before.
        is_new: bool,
    },
    /// The thaw is durable; what was frozen follows.
    Thawed {
        /// Whether it was frozen before.
        is_new: bool,
    },
    /// The kill is durable and final; the attempts are being stopped.
    Killing,
    /// The registration is durable.
    Registered(WorkerState),
    /// The beat was heard.
    Beaten(WorkerState),
    /// These attempts' results are durable.
    Acknowledged(Vec<AttemptId>),
    /// The worker's state is set.
    WorkerSet(WorkerState),
    /// No.
    Refused(Why),
}

impl Answer {
    /// The run, if a run was asked for and was not refused.
    #[must_use]
    pub fn run(&self) -> Option<RunId> {
        match self {
            Answer::Triggered(run) | Answer::Queued(run) | Answer::Merged { run, .. } => Some(*run),
            Answer::Defined { .. }
            | Answer::StateSet { .. }
            | Answer::Backfilling(_)
            | Answer::BackfillCancelled { .. }
            | Answer::Frozen { .. }
            | Answer::Thawed { .. }
            | Answer::Killing
            | Answer::Registered(_)
            | Answer::Beaten(_)
            | Answer::Acknowledged(_)
            | Answer::WorkerSet(_)
            | Answer::Refused(_) => None,
        }
    }
}
