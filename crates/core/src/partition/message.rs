//! What enters a machine. What leaves it is in `effect.rs`.

use std::sync::Arc;

use crate::batch::Origin;
use crate::child::Note;
use crate::freeze::Missed;
use crate::id::{AppId, AttemptId, BackfillId, Block, Incarnation, JobId, RunId, Seq, Version, WorkerId};
use crate::job::{Definition, JobState};
use crate::label::Labels;
use crate::misfire::Pace;
use crate::time::UnixMs;
use crate::trace::Parent;
use crate::why::Why;
use crate::worker::{App, Registration};

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
    /// Dispatches that may begin in the step that follows, out of the server's rate; never said if it has none. A shell
    /// reads [`super::Machine::server_tokens`] after each step.
    Tokens(u32),
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
        /// The span within which it is asked for.
        parent: Option<Arc<Parent>>,
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
    /// Run a job for all its slots in a range of the past.
    Backfill {
        /// What.
        order: Box<BackfillOrder>,
        /// Who waits.
        reply: ReplyTo,
    },
    /// Make no more runs of a backfill.
    CancelBackfill {
        /// The backfill.
        backfill: BackfillId,
        /// Whether its open runs are killed; else they go on.
        kills: bool,
        /// Who wants it.
        by: Arc<str>,
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
    /// Runs of others have ended that fire jobs of this partition: notes that are durable, in order of number.
    Children(Vec<Note>),
    /// Somebody waits for runs of this job: say [`Effect::Ended`](super::Effect::Ended) from now on.
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
    /// The span within which it is asked for.
    pub parent: Option<Arc<Parent>>,
}

/// A range of the past that shall run. Whoever orders it has counted its slots.
#[derive(Clone, PartialEq, Debug)]
pub struct BackfillOrder {
    /// The job.
    pub job: JobId,
    /// Its version, whose slots were counted and will run; refused if the job has another by now.
    pub version: Version,
    /// The first instant of the range.
    pub from: UnixMs,
    /// The first instant after it, not later than now.
    pub to: UnixMs,
    /// How many slots the range has, from 1 to [`crate::limits::BACKFILL_SLOTS_MAX`].
    pub total: u64,
    /// How fast its runs are made.
    pub pace: Pace,
    /// How many of its runs may be open at once; none for any number.
    pub parallel: Option<u32>,
    /// Who wants it.
    pub by: Arc<str>,
    /// What for, in their words.
    pub reason: Option<Arc<str>>,
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
