//! Making things durable.

use std::sync::Arc;

use rota_core::batch::{Batch, Loaded};
use rota_core::id::{AppId, JobId, PartitionId, RunId, Seq, WorkerId};
use rota_core::rate::Rates;
use rota_core::time::UnixMs;
use rota_core::worker::{App, Secret};

/// A durable store with one writer. One thread owns it.
pub trait Store: Send {
    /// Partitions of this store; fixed when it was made.
    fn partitions(&self) -> u16;

    /// Notes that a process has the store from now on. Called once, before anything else that changes it.
    fn begin(&mut self, at: UnixMs, version: &str, tzdb: &str) -> Result<(), Error>;

    /// Notes that the process ends in order; the last thing that it does.
    fn end(&mut self, at: UnixMs) -> Result<(), Error>;

    /// Begins a new term of these partitions: raises each epoch, and returns everything durable.
    fn claim(&mut self, partitions: &[PartitionId]) -> Result<Vec<Loaded>, Error>;

    /// Applies all batches in one transaction, in order, each fenced by its own partition's epoch and
    /// sequence; the answers stand in the same order. A fenced or repeated batch never harms the others.
    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error>;

    /// How many notes of ended parents have become durable since it was opened: when it grows, there are new ones.
    fn noted(&self) -> u64;

    /// Takes `count` ids that nobody else gets, at or above `floor` and above all that were ever
    /// taken; returns the first. Durable before it returns.
    fn reserve_ids(&mut self, floor: u64, count: u64) -> Result<u64, Error>;

    /// Reserves names and requests, in order, in one transaction of their own; the answers stand in the same order.
    fn reserve_all(&mut self, what: &[Reservation]) -> Result<Vec<Reserved>, Error>;

    /// Reserves one name or request.
    fn reserve(&mut self, what: &Reservation) -> Result<Reserved, Error> {
        let answers = self.reserve_all(std::slice::from_ref(what))?;
        Ok(answers.into_iter().next().expect("one answer for one reservation"))
    }

    /// Drops whole segments of the ledger whose rows all ended before `before` and that hold no run
    /// with an id at or above `floor` and no listed run. Returns how many were dropped.
    fn sweep(&mut self, before: UnixMs, floor: u64) -> Result<u32, Error>;

    /// Does a slice of upkeep (sealing segments, checkpoints) of a few milliseconds; says whether more waits.
    fn upkeep(&mut self, now: UnixMs) -> Result<bool, Error>;
}

/// How long a request id stays taken: seven days, in milliseconds.
pub const REQUEST_KEPT_MS: i64 = 7 * 24 * 3_600_000;

/// How long a job's name stays reserved without a definition: an hour, in milliseconds.
pub const JOB_NAME_UNUSED_MS: i64 = 3_600_000;

/// What became of one batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is durable now.
    Applied,
    /// It was durable before; nothing changed.
    Repeated,
    /// Another term owns the partition, or the sequence has a hole; nothing changed.
    Fenced {
        /// The sequence number that the store has.
        stored: Seq,
    },
}

/// A name, id or request that must be unique, taken before the input that uses it enters a machine.
#[derive(Clone, PartialEq, Debug)]
pub enum Reservation {
    /// An app: made if it does not exist, those of its settings replaced that are given.
    App {
        /// Tenant boundary.
        namespace: String,
        /// Its name.
        name: String,
        /// Shards that may be admitted and not yet sent.
        pending_max: Option<u32>,
        /// How fast its dispatches may begin.
        rates: Option<Rates>,
    },
    /// A new job's name.
    JobName {
        /// The app that it will belong to.
        app: AppId,
        /// Its name; unique among the living jobs of the app's namespace.
        name: String,
        /// When, for reservations that were never used.
        at: UnixMs,
    },
    /// Gives a job name back whose definition was refused or which was deleted.
    JobNameBack {
        /// The job.
        job: JobId,
    },
    /// A worker's name.
    WorkerName {
        /// Its app.
        app: AppId,
        /// Its name.
        name: String,
    },
    /// Upstream jobs that a definition on its way names, or [`Reserved::Cycle`] if a job would wait for itself. They
    /// count until that definition is durable, is given up, or the process ends.
    Upstreams {
        /// The job that waits.
        job: JobId,
        /// What for.
        upstreams: Vec<JobId>,
        /// Tells this definition from others that are on their way; not 0.
        token: u64,
    },
    /// Gives upstream jobs back, since their definition was refused.
    UpstreamsBack {
        /// The job.
        job: JobId,
        /// What told the definition.
        token: u64,
    },
    /// A request to run a job.
    Request {
        /// The job.
        job: JobId,
        /// Chosen by whoever asks; unique per job for seven days.
        request_id: String,
        /// A hash of the request's body.
        body_hash: [u8; 32],
        /// When.
        at: UnixMs,
    },
    /// Gives a request id back, since the request was refused. (The run that answers a request becomes
    /// durable with that run, see `Row::Request`.)
    RequestBack {
        /// The job.
        job: JobId,
        /// The request.
        request_id: String,
    },
    /// A token.
    Token(Token),
    /// Revokes tokens of this scope, but for the newest.
    TokensBack {
        /// The scope.
        scope: Scope,
    },
    /// Sets a secret, whether or not it was set before; another value that it had is kept as retired.
    Secret(StoredSecret),
    /// Sets an alert rule, whether or not it was set before.
    Alert {
        /// The namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What was written.
        rule: Box<rota_core::alert::Rule>,
        /// When.
        at: UnixMs,
        /// By whom.
        by: String,
    },
    /// Removes an alert rule with its alarms and messages; `Unknown` if it is not set.
    AlertBack {
        /// The namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// What followed from ends of runs and from deliveries.
    AlertWork(Box<crate::alerts::Work>),
    /// Removes a secret; `Unknown` if it is not set. Its value is kept as retired.
    SecretBack {
        /// The namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// When.
        at: UnixMs,
    },
}

/// A secret of a namespace: what its jobs may use under a name. At rest its value is sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSecret {
    /// Tenant boundary.
    pub namespace: String,
    /// Unique in it.
    pub name: String,
    /// What templates are filled in with.
    pub value: Secret,
    /// When it was set.
    pub at: UnixMs,
    /// Who set it.
    pub by: String,
}

/// What a token opens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// Everything.
    Admin,
    /// Reading.
    Read,
    /// The worker endpoints of one app.
    Worker(AppId),
}

/// A token as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// What it opens.
    pub scope: Scope,
    /// When it was made.
    pub at: UnixMs,
}

/// The answer to a reservation.
#[derive(Clone, PartialEq, Debug)]
pub enum Reserved {
    /// The app.
    App(App),
    /// The new job's id.
    Job(JobId),
    /// The worker's id.
    Worker(WorkerId),
    /// It is done.
    Done,
    /// The request is new.
    New,
    /// The request was answered before, with this run; none: it is being answered right now.
    Answered(Option<RunId>),
    /// The name is taken, by this job.
    Taken(JobId),
    /// The job would wait for itself: from it over its upstream jobs to it again.
    Cycle(Vec<JobId>),
    /// The request id was used with another body.
    OtherBody,
    /// There is no such app, job or secret.
    Unknown,
}

/// What went wrong; a variant per thing the caller does differently.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was changed; the same call may succeed later (a full disk, a locked file).
    #[error("the store is not available: {0}")]
    Unavailable(Arc<str>),
    /// The call may or may not have been applied; the process exits and recovers.
    #[error("the store's answer was lost: {0}")]
    Unknown(Arc<str>),
    /// What is stored cannot be right.
    #[error("the store is damaged: {0}")]
    Corrupt(Arc<str>),
}
