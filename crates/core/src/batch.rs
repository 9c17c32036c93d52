//! What a machine writes: rows, and the batches in which they become durable together.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backfill::Backfill;
use crate::child::Link;
use crate::freeze::Freeze;
use crate::id::{AppId, AttemptId, BackfillId, Epoch, Incarnation, JobId, PartitionId, RunId, Seq, Version, WorkerId};
use crate::job::{Definition, JobState};
use crate::time::UnixMs;
use crate::trace::Parent;
use crate::why::Why;
use crate::worker::{App, Registration, WorkerState};

/// A run's state. The last four never had a dispatch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Admitted; a shard still waits for its first dispatch.
    Pending,
    /// Committed to workers.
    Dispatched,
    /// Accepted by a worker.
    Running,
    /// Every required shard succeeded; with [`Why::Partial`] if others did not.
    Success,
    /// A shard failed.
    Failed,
    /// A shard ran too long.
    Timeout,
    /// Someone killed it.
    Killed,
    /// A shard's worker was lost, or a doubt was not resolved.
    Lost,
    /// The slot, or range of slots, had no run.
    Skipped,
    /// Another run stands for it.
    Merged,
    /// Given up while it waited.
    Discarded,
    /// Refused.
    Rejected,
}

/// An attempt's state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Committed; on its way.
    Dispatched,
    /// Accepted.
    Running,
    /// It may have reached its worker.
    InDoubt,
    /// Asked to stop, not confirmed.
    Stopping,
    /// The handler succeeded.
    Success,
    /// The handler failed.
    Failed,
    /// It ran too long.
    Timeout,
    /// Killed.
    Killed,
    /// Its worker was lost, or the doubt was not resolved.
    Lost,
    /// Proven never to have started.
    NotStarted,
}

macro_rules! words {
    ($type:ident { $($variant:ident $word:literal $code:literal,)* } terminal $($terminal:ident)|*) => {
        impl $type {
            /// Every state.
            pub const ALL: &'static [$type] = &[$($type::$variant,)*];
            /// The word that API, CLI and metrics show.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($type::$variant => $word,)* }
            }
            /// The number that stores keep; a number once used stays.
            #[must_use]
            pub fn code(self) -> u8 {
                match self { $($type::$variant => $code,)* }
            }
            /// The state with this number.
            #[must_use]
            pub fn from_code(code: u8) -> Option<$type> {
                match code { $($code => Some($type::$variant),)* _ => None }
            }
            /// The state with this word.
            #[must_use]
            pub fn parse(word: &str) -> Option<$type> {
                match word { $($word => Some($type::$variant),)* _ => None }
            }
            /// Whether it is final.
            #[must_use]
            pub fn is_terminal(self) -> bool {
                matches!(self, $($type::$terminal)|*)
            }
        }
    };
}

words!(RunState {
    Pending "pending" 0,
    Dispatched "dispatched" 1,
    Running "running" 2,
    Success "success" 3,
    Failed "failed" 4,
    Timeout "timeout" 5,
    Killed "killed" 6,
    Lost "lost" 7,
    Skipped "skipped" 8,
    Merged "merged" 9,
    Discarded "discarded" 10,
    Rejected "rejected" 11,
} terminal Success | Failed | Timeout | Killed | Lost | Skipped | Merged | Discarded | Rejected);

words!(AttemptState {
    Dispatched "dispatched" 0,
    Running "running" 1,
    InDoubt "in_doubt" 2,
    Stopping "stopping" 3,
    Success "success" 4,
    Failed "failed" 5,
    Timeout "timeout" 6,
    Killed "killed" 7,
    Lost "lost" 8,
    NotStarted "not_started" 9,
} terminal Success | Failed | Timeout | Killed | Lost | NotStarted);

/// What made a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A slot of the job's schedule.
    Schedule,
    /// A person.
    Manual,
    /// A program.
    Api,
    /// Someone, who wanted a run that had ended to run again.
    Rerun,
    /// Someone, who wanted a slot of the past to run.
    Backfill,
    /// The end of a run of an upstream job.
    Upstream,
}

impl Origin {
    /// The word that API and CLI show.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Origin::Schedule => "schedule",
            Origin::Manual => "manual",
            Origin::Api => "api",
            Origin::Rerun => "rerun",
            Origin::Backfill => "backfill",
            Origin::Upstream => "upstream",
        }
    }

    /// The number that stores keep.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Origin::Schedule => 0,
            Origin::Manual => 1,
            Origin::Api => 2,
            Origin::Rerun => 3,
            Origin::Backfill => 4,
            Origin::Upstream => 5,
        }
    }

    /// The origin with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Origin> {
        match code {
            0 => Some(Origin::Schedule),
            1 => Some(Origin::Manual),
            2 => Some(Origin::Api),
            3 => Some(Origin::Rerun),
            4 => Some(Origin::Backfill),
            5 => Some(Origin::Upstream),
            _ => None,
        }
    }
}

/// One row of the ledger: a run, or the reason why a slot or a range of slots had none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// The run.
    pub id: RunId,
    /// The job's app.
    pub app: AppId,
    /// The job.
    pub job: JobId,
    /// The version that made it.
    pub version: Version,
    /// What made it.
    pub origin: Origin,
    /// The slot that it covers, or the first of a range; for a rerun or a backfill the slot that runs again, or at last;
    /// for other origins the moment of the trigger.
    pub slot: UnixMs,
    /// The last slot of the range; equal to `slot` for one slot.
    pub slot_last: UnixMs,
    /// How many slots it covers (for origin `schedule`), from 1.
    pub slots: u64,
    /// Its state when it was written, and since.
    pub state: RunState,
    /// Why, if it is not on its happy path.
    pub why: Option<Why>,
    /// Shards, from 1; 0 for rows without a dispatch.
    pub shards: u32,
    /// When the machine decided.
    pub at: UnixMs,
    /// When it became terminal.
    pub ended_at: Option<UnixMs>,
    /// A parameter that replaces the job's, for triggered runs.
    pub param: Option<Arc<str>>,
}

/// One dispatch of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// The attempt; equal to the run's id for attempt 1 of shard 0.
    pub id: AttemptId,
    /// Its run.
    pub run: RunId,
    /// Its shard, from 0.
    pub shard: u32,
    /// Its number within the shard, from 1.
    pub no: u32,
    /// Its worker; 0 for URL jobs.
    pub worker: WorkerId,
    /// The start of the worker that it was meant for.
    pub incarnation: Incarnation,
    /// Its state.
    pub state: AttemptState,
    /// Why, if it is not on its happy path.
    pub why: Option<Why>,
    /// When the machine decided to dispatch it.
    pub at: UnixMs,
    /// When it ended.
    pub ended_at: Option<UnixMs>,
    /// When its place was given away.
    pub released_at: Option<UnixMs>,
    /// What the handler said, bounded by `limits::MESSAGE_BYTES_MAX`.
    pub message: Option<Arc<str>>,
}

/// Where a job stands that the mark does not describe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exception {
    /// Its slots up to this instant are covered; above it they are not, whatever the mark says.
    Covered(UnixMs),
    /// A fixed-delay or one-shot job: its next instant.
    Armed(UnixMs),
    /// Its slots up to `covered` are covered. Those above it, up to `until`, have been judged and run, however late.
    Judged {
        /// The last instant that rows describe.
        covered: UnixMs,
        /// The last instant that was judged.
        until: UnixMs,
    },
}

impl Exception {
    /// Up to where it says that the slots of a job are covered, if it is one with many.
    #[must_use]
    pub fn covered(self) -> Option<UnixMs> {
        match self {
            Exception::Covered(to) | Exception::Judged { covered: to, .. } => Some(to),
            Exception::Armed(_) => None,
        }
    }
}

/// One change. A batch applies them in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Row {
    /// Inserts a run.
    Run(Box<Run>),
    /// Changes a run's state.
    RunSet {
        /// The run.
        run: RunId,
        /// Its job, so that a store knows whose end it is without a look.
        job: JobId,
        /// Its new state.
        state: RunState,
        /// Why.
        why: Option<Why>,
        /// When it ended, if it did.
        ended_at: Option<UnixMs>,
    },
    /// Inserts an attempt.
    Attempt(Box<Attempt>),
    /// Replaces what can change of an attempt; found by (run, shard, no).
    AttemptSet(Box<Attempt>),
    /// A new version of a job; replaces what was current.
    Definition(Box<Definition>),
    /// Changes a job's state without a new version.
    JobState {
        /// The job.
        job: JobId,
        /// Its new state.
        state: JobState,
        /// When.
        at: UnixMs,
        /// Who.
        by: Arc<str>,
        /// Why, in their words.
        reason: Option<Arc<str>>,
    },
    /// A worker's registration; replaces the one before.
    Worker {
        /// The registration.
        worker: Arc<Registration>,
        /// Its state.
        state: WorkerState,
    },
    /// Changes a worker's state.
    WorkerState {
        /// The worker.
        worker: WorkerId,
        /// Its new state.
        state: WorkerState,
    },
    /// Sets or removes a job's exception.
    Exception {
        /// The job.
        job: JobId,
        /// Where it stands; none removes the exception.
        exception: Option<Exception>,
    },
    /// The run that answers a reserved request to run its job, or the backfill, by its number. A request that no batch has answered
    /// when its partition is claimed was never carried out, and is forgotten then.
    Request {
        /// The job.
        job: JobId,
        /// The request.
        request_id: Arc<str>,
        /// The run.
        run: RunId,
    },
    /// Says which run another one repeats. Its own row is in the same batch.
    Rerun(Arc<Rerun>),
    /// Says which run stands for one of state [`RunState::Merged`]. Its own row is in the same batch.
    Merged {
        /// The run without a dispatch.
        run: RunId,
        /// The run that waited when it came.
        into: RunId,
    },
    /// Says whose end fired a run, or a row that says why none was fired, and takes the note of that end away. Its own
    /// row is in the same batch.
    Child(Link),
    /// What is to be known of a run's shards beside its row and its attempts; replaces what was known.
    Shards(Arc<Shards>),
    /// Within which span a run was asked for. Its own row is in the same batch, before this one.
    Trace {
        /// The run.
        run: RunId,
        /// The span.
        parent: Arc<Parent>,
    },
    /// Inserts a freeze, or replaces the one with its id.
    Freeze(Box<Freeze>),
    /// Inserts a backfill, or replaces the one with its id. The rows that it counts are in this batch or an earlier one.
    Backfill(Box<Backfill>),
    /// Says which backfill a run of origin [`Origin::Backfill`] belongs to. Its own row is in the same batch.
    BackfillRun {
        /// The run.
        run: RunId,
        /// Its backfill.
        backfill: BackfillId,
    },
    /// Lists a run as open (or with an unreleased attempt) whatever `Batch::floor` says, or removes it from that list.
    Listed {
        /// The run.
        run: RunId,
        /// Whether it is listed.
        is_open: bool,
    },
}

/// A run that repeats another one: the same job in the same version, with the same slot and parameter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rerun {
    /// The new run, of origin [`Origin::Rerun`].
    pub run: RunId,
    /// The run that it repeats.
    pub of: RunId,
    /// Shards that are not run again, since they had succeeded; in order.
    pub reused: Vec<u32>,
}

/// What neither a run's row nor its attempts say of its shards. Most runs have none of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shards {
    /// The run.
    pub run: RunId,
    /// For a broadcast: whose each shard is, in order. Empty for others.
    pub workers: Vec<WorkerId>,
    /// Shards that are settled whatever their attempts say, in the order in which that was decided.
    pub settled: Vec<SettledShard>,
}

/// A shard that is settled, whatever its attempts say: it was killed by itself, or its worker had gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettledShard {
    /// The shard.
    pub shard: u32,
    /// How.
    pub state: RunState,
    /// Why.
    pub why: Why,
    /// When.
    pub at: UnixMs,
}

impl Shards {
    /// Nothing, of a run.
    #[must_use]
    pub fn new(run: RunId) -> Shards {
        Shards { run, workers: Vec::new(), settled: Vec::new() }
    }

    /// How a shard is settled, if that is said here.
    #[must_use]
    pub fn settled(&self, shard: u32) -> Option<&SettledShard> {
        self.settled.iter().find(|settled| settled.shard == shard)
    }
}

/// Rows of one partition that become durable together, fenced and applied once.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// The partition.
    pub partition: PartitionId,
    /// The writer's term; a store refuses a batch whose epoch is not the stored one.
    pub epoch: Epoch,
    /// One above the batch before; a store that has it already changes nothing and says so.
    pub seq: Seq,
    /// When it was closed.
    pub at: UnixMs,
    /// All slots up to this instant are covered by rows, but for jobs with an exception. Never goes back.
    pub mark: UnixMs,
    /// Every run with a lower id is closed (terminal and released) and its slot is at or below the
    /// mark, or it is listed. `u64::MAX`: nothing is open.
    pub floor: u64,
    /// The changes.
    pub rows: Vec<Row>,
}

/// A run that was open, or had an unreleased attempt, when a partition was loaded.
#[derive(Clone, PartialEq, Debug)]
pub struct OpenRun {
    /// The run.
    pub run: Run,
    /// All its attempts, ordered by (shard, no).
    pub attempts: Vec<Attempt>,
    /// The definition that made it, if the job has a newer one.
    pub definition: Option<Definition>,
    /// Whether it is listed (see [`Row::Listed`]).
    pub is_listed: bool,
    /// What it repeats, if it is of origin [`Origin::Rerun`].
    pub rerun: Option<Arc<Rerun>>,
    /// What is known of its shards beside that.
    pub shards: Option<Arc<Shards>>,
    /// The backfill that it belongs to, if it is of origin [`Origin::Backfill`].
    pub backfill: Option<BackfillId>,
    /// The span within which it was asked for, if there was one.
    pub parent: Option<Arc<Parent>>,
}

/// A backfill that had not ended when a partition was loaded.
#[derive(Clone, PartialEq, Debug)]
pub struct OpenBackfill {
    /// The backfill.
    pub backfill: Backfill,
    /// The version that it runs, if the job has a newer one.
    pub definition: Option<Definition>,
}

/// Everything durable of a partition, as a claim returns it.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// The partition.
    pub partition: PartitionId,
    /// The new term.
    pub epoch: Epoch,
    /// The number of the last applied batch.
    pub seq: Seq,
    /// The mark.
    pub mark: UnixMs,
    /// When the last batch was closed.
    pub at: UnixMs,
    /// Its apps.
    pub apps: Vec<App>,
    /// The current definition of every job that is not deleted.
    pub jobs: Vec<Definition>,
    /// Its exceptions.
    pub exceptions: Vec<(JobId, Exception)>,
    /// The last registration of every worker that is not offline.
    pub workers: Vec<(Registration, WorkerState)>,
    /// Runs that are open or have an unreleased attempt.
    pub open: Vec<OpenRun>,
    /// For jobs with rows of origin `schedule` above the mark: the last slot that is covered.
    pub covered: Vec<(JobId, UnixMs)>,
    /// Its open freezes, and at most [`crate::limits::THAWED_MAX`] of the others, in order of id.
    pub freezes: Vec<Freeze>,
    /// Its backfills that have not ended, in order of id.
    pub backfills: Vec<OpenBackfill>,
}
