//! What a machine is told about its surroundings, once.

use crate::limits::{LATE_MAX_MS, MARK_LAG_MAX_RUNS, PENDING_MAX, SEND_CREDITS, Timing};

/// Settings of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Time limits of the fleet.
    pub timing: Timing,
    /// Committed-or-sending attempts per worker.
    pub send_credits: u32,
    /// Shards that all machines of the server together may have admitted and not yet sent.
    pub pending_max: u32,
    /// Slots up to this late fire as they are.
    pub late_max_ms: i64,
    /// Runs for which the mark stays behind for a backlog of our own valve before its jobs get exceptions.
    pub backlog_runs_max: u64,
    /// Least time between two published snapshots.
    pub publish_ms: u64,
    /// A planted fault, for the simulation that must catch it.
    #[cfg(feature = "mutants")]
    pub mutant: Option<Mutant>,
}

impl Config {
    /// The defaults.
    pub const NATIVE: Config = Config {
        timing: Timing::NATIVE,
        send_credits: SEND_CREDITS,
        pending_max: PENDING_MAX,
        late_max_ms: LATE_MAX_MS,
        backlog_runs_max: MARK_LAG_MAX_RUNS,
        publish_ms: 250,
        #[cfg(feature = "mutants")]
        mutant: None,
    };
}

/// Faults that a simulation plants to see itself catch them.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mutant {
    /// A send leaves before its batch is durable.
    SendBeforeCommit,
    /// The mark passes slots whose rows are in no batch yet.
    MarkBeforeRows,
    /// A choice counts twice in its worker's load.
    LoadCountedTwice,
    /// A doubt is taken for proof that nothing started.
    DoubtIsNotStarted,
    /// After a restart, silence counts from the last beat before it.
    LostAtOnceAfterRestart,
    /// Absence counts in beats that were composed before the attempt was accepted.
    BeatRaceClosesLive,
    /// A late success does not settle its shard.
    LateSuccessIgnored,
    /// An attempt's place is given away when it times out.
    ReleaseAtTimeout,
    /// A freeze stops nothing.
    FiresWhileFrozen,
    /// A dispatch takes no token.
    RateIgnored,
    /// Runs begin whatever holds the places of their jobs.
    OverlapIgnored,
    /// After a restart, whoever waited for a place begins.
    WaitersBeginAtLoad,
    /// Runs start at their slots, whatever the jitter of their jobs.
    JitterIgnored,
    /// After a restart, slots that were judged to run are judged again.
    VerdictForgotten,
    /// Missed slots are caught up all at once.
    PaceIgnored,
    /// A retry that is wanted elsewhere goes to whoever is next.
    RetriesAnywhere,
    /// A kill of one shard stops its attempt, and is not kept.
    ShardKillForgotten,
    /// A shard of a broadcast goes to whoever is next.
    BroadcastToAnyone,
    /// A run succeeds with fewer shards than it must have.
    QuorumShort,
    /// Slots fire whatever their upstream jobs do.
    UpstreamIgnored,
    /// Where a backfill stands is not durable with the rows that it made.
    BackfillCursorLost,
    /// A backfill makes its runs as fast as it can.
    BackfillPaceIgnored,
    /// A note of an ended parent fires as often as it is told.
    NotesTakenTwice,
    /// A note that cannot be answered yet is forgotten.
    BlockedNoteDropped,
}

/// Whether a fault is planted; constant `false` in every shipped build.
macro_rules! planted {
    ($config:expr, $mutant:ident) => {{
        #[cfg(feature = "mutants")]
        let is_planted = $config.mutant == Some($crate::partition::Mutant::$mutant);
        #[cfg(not(feature = "mutants"))]
        let is_planted = false;
        is_planted
    }};
}
pub(super) use planted;
