//! What enters a machine, and what leaves it.

use std::fmt;
use std::sync::Arc;

use crate::batch::{Batch, Origin};
use crate::freeze::Missed;
use crate::id::{AppId, AttemptId, Block, Epoch, Incarnation, JobId, RunId, Seq, Version, WorkerId};
use crate::job::{Body, Definition, JobState};
use crate::label::Labels;
use crate::partition::Snapshot;
use crate::time::{Mono, UnixMs};
use crate::upstream::Edge;
use crate::why::Why;
use crate::worker::{App, Registration, WorkerState};

/// A place where a shell waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReplyTo(pub u64);

/// Everything that can happen to a partition.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// The end of a round of inputs, or a wake-up that was asked for: timers, due slots and waiting
    /// shards are looked at, and what was written becomes a batch.
    Turn,
    /// More ids. A shell tops up before it steps, whenever `Machine::wants_ids` says so.
    Ids(Block),
    /// Shards that this partition may have admitted and not yet sent, out of the server's cap.
    Permits(u32),
    /// The batch is durable.
    Committed(Seq),
    /// An app was made, or its settings changed; that is durable already.
    App(App),
    /// A new job, or a new version of one. Its name and id are reserved already.
    Define {
        /// The version; its `at` is set by the machine, and so is its `version`.
        definition: Box<Definition>,
        /// The version that the author saw; none for a new job.
        expected: Option<Version>,
        /// Who waits.
        reply: ReplyTo,
    },
    /// Pause (`Paused`), resume (`Enabled`) or delete (`Deleted`) a job.
    SetState {
        /// The job.
        job: JobId,
        /// The state that it shall have.
        state: JobState,
        /// What the author saw, if it must still be so.
        expected: Option<(Version, JobState)>,
        /// Who wants it.
        by: Arc<str>,
        /// Why, in their words.
        reason: Option<Arc<str>>,
        /// Who waits.
        reply: ReplyTo,
    },
    /// Run a job now.
    Trigger {
        /// The job.
        job: JobId,
        /// A parameter in place of the job's.
        param: Option<Arc<str>>,
        /// The reserved request that this answers, if there is one.
        request_id: Option<Arc<str>>,
        /// Who wants it.
        origin: Origin,
        /// Who waits.
        reply: ReplyTo,
    },
    /// Run again what has ended.
    Rerun {
        /// What.
        order: Box<RerunOrder>,
        /// Who waits.
        reply: ReplyTo,
    },
    /// Let nothing be started until it is thawed.
    Freeze {
        /// The app; none for all of the partition.
        app: Option<AppId>,
        /// Who wants it.
        by: Arc<str>,
        /// Why, in their words.
        reason: Arc<str>,
        /// Who waits.
        reply: ReplyTo,
    },
    /// End the freeze of an app, or that of the partition.
    Thaw {
        /// The app; none for the freeze that was for all.
        app: Option<AppId>,
        /// Who wants it.
        by: Arc<str>,
        /// What becomes of the slots that were frozen.
        missed: Missed,
        /// Who waits.
        reply: ReplyTo,
    },
    /// Kill a run, or one shard of it.
    Kill {
        /// The run.
        run: RunId,
        /// The shard; none for all of them.
        shard: Option<u32>,
        /// Who waits.
        reply: ReplyTo,
    },
    /// A worker registers. Its id is reserved already, and its address was dialled.
    Register {
        /// What it said; `at` is set by the machine.
        registration: Box<Registration>,
        /// Whether its address answered for this incarnation.
        is_reachable: bool,
        /// What the address of this name's holder, if another incarnation, answered.
        holder: Holder,
        /// Who waits.
        reply: ReplyTo,
    },
    /// A worker beats.
    Beat {
        /// What it says.
        beat: Box<Beat>,
        /// Who waits.
        reply: ReplyTo,
    },
    /// A worker reports finished attempts.
    Results {
        /// The worker.
        worker: WorkerId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// What finished.
        reports: Vec<Report>,
        /// Who waits.
        reply: ReplyTo,
    },
    /// A worker wants no more work.
    Drain {
        /// The worker.
        worker: WorkerId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Who waits.
        reply: ReplyTo,
    },
    /// A worker goes; its process runs nothing any more.
    Deregister {
        /// The worker.
        worker: WorkerId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Who waits.
        reply: ReplyTo,
    },
    /// What became of a send.
    Sent {
        /// The attempt.
        attempt: AttemptId,
        /// What became of it.
        outcome: SendOutcome,
    },
    /// What a probe answered.
    Probed {
        /// The attempt.
        attempt: AttemptId,
        /// The answer.
        answer: ProbeAnswer,
    },
    /// What a cancel answered.
    Cancelled {
        /// The attempt.
        attempt: AttemptId,
        /// The answer.
        answer: CancelAnswer,
    },
    /// What was found of the upstream jobs of a slot that waits for them; that does not change any more.
    Upstream {
        /// The job.
        job: JobId,
        /// The slot that was asked about.
        slot: UnixMs,
        /// Whether it may fire, or why it never will.
        verdict: Result<(), Why>,
    },
    /// Somebody waits for runs of this job: say [`Effect::Ended`] from now on.
    WatchEnds(JobId),
    /// An operator says that the clock is right after a jump of more than a day.
    ConfirmClock,
    /// The host slept for so many milliseconds since the last step: wall time that the monotonic clock did not see.
    Slept(u64),
}

/// What is run again: everything as it was, but for the shards that had succeeded, if those are left out.
#[derive(Clone, PartialEq, Debug)]
pub struct RerunOrder {
    /// The run that is repeated. It has ended.
    pub of: RunId,
    /// The version of its job that made it.
    pub definition: Definition,
    /// Its slot.
    pub slot: UnixMs,
    /// Its parameter.
    pub param: Option<Arc<str>>,
    /// Shards of it that are not run again, in order; not all of them.
    pub reused: Vec<u32>,
    /// Whose each shard of a broadcast was, if shards of it are left out: the others stay theirs.
    pub workers: Vec<WorkerId>,
    /// The reserved request that this answers, if there is one.
    pub request_id: Option<Arc<str>>,
}

/// What the address of a worker name's former holder answered while another incarnation registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// There is no other incarnation.
    None,
    /// This incarnation answered, and is alive.
    Alive(Incarnation),
    /// The connection was refused, or another incarnation answered there: this one's process is gone.
    Gone(Incarnation),
    /// Nothing could be learnt.
    Silent,
}

/// A worker's beat.
#[derive(Clone, PartialEq, Debug)]
pub struct Beat {
    /// The worker.
    pub worker: WorkerId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The number of this beat; an accepted send and a probe name the next beat to be composed.
    pub no: u64,
    /// Attempts that it runs.
    pub running: Vec<AttemptId>,
    /// Attempts that have finished, whose results are not acknowledged yet.
    pub finished: Vec<AttemptId>,
    /// Attempts that it runs at once, if that changed; 0 is unlimited.
    pub capacity: Option<u32>,
    /// Its labels, if they changed.
    pub labels: Option<Labels>,
}

/// How an attempt ended on its worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// The handler succeeded.
    Success,
    /// The handler failed, for this reason.
    Failed(Why),
    /// The worker stopped it at its own deadline.
    Timeout,
    /// The worker stopped it because it was asked to.
    Killed,
}

/// A finished attempt, as its worker reports it.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its run.
    pub run: RunId,
    /// Its shard.
    pub shard: u32,
    /// Its number.
    pub no: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// What the handler said.
    pub message: Option<Arc<str>>,
}

/// What became of a send.
#[derive(Clone, PartialEq, Debug)]
pub enum SendOutcome {
    /// The worker accepted it; the number of the next beat that it composes.
    Accepted {
        /// See [`Beat::no`].
        next_beat: u64,
    },
    /// Proven not started: nothing was sent, or the worker refused with this reason.
    NotStarted(Why),
    /// It may have reached its worker.
    InDoubt,
    /// The answer was the result (URL jobs).
    Finished(Outcome, Option<Arc<str>>),
    /// Nothing was sent, and nothing ever would be, whoever is called: what the job says cannot be made into
    /// a call. What is wrong with it, for people.
    Unsendable(Why, Arc<str>),
}

/// What a probe answered.
#[derive(Clone, PartialEq, Debug)]
pub enum ProbeAnswer {
    /// The incarnation never saw it, and refuses it from now on.
    NeverSeen,
    /// It runs; the number of the next beat that the worker composes.
    Running {
        /// See [`Beat::no`].
        next_beat: u64,
    },
    /// It has finished.
    Finished(Report),
    /// Another incarnation answered at the same address: the process that was meant is gone.
    ForeignIncarnation,
    /// No answer.
    Silent,
}

/// What a cancel answered.
#[derive(Clone, PartialEq, Debug)]
pub enum CancelAnswer {
    /// It was still queued here and was never sent.
    NeverSent,
    /// The worker never saw it, and refuses it from now on.
    NeverSeen,
    /// The worker stops it; the result follows. The number of the next beat that the worker composes.
    Stopping {
        /// See [`Beat::no`].
        next_beat: u64,
    },
    /// It has ended.
    Finished(Report),
    /// Another incarnation answered at the same address.
    ForeignIncarnation,
    /// No answer.
    Silent,
}

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
    /// Make the batch durable, then say [`Input::Committed`].
    Commit(Box<Batch>),
    /// Send, and say [`Input::Sent`].
    Send(Box<Dispatch>),
    /// Stop an attempt, and say [`Input::Cancelled`].
    Cancel(Box<Enquiry>),
    /// Ask after an attempt, and say [`Input::Probed`].
    Probe(Box<Enquiry>),
    /// Answer whoever waits.
    Reply(ReplyTo, Answer),
    /// Step with [`Input::Turn`] after at most so many milliseconds.
    WakeIn(u64),
    /// Judge the upstream jobs of a slot, and say [`Input::Upstream`] once that is final.
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
