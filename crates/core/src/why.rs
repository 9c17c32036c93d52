//! The typed reasons. One enum for API, CLI, page and metrics; a word once published stays.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! why {
    ($($name:ident $word:literal $text:literal,)*) => {
        /// Why something is not on its happy path.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum Why {
            $(
                #[doc = $text]
                #[serde(rename = $word)]
                $name,
            )*
        }
        impl Why {
            /// Every reason, for tables and metrics.
            pub const ALL: &'static [Why] = &[$(Why::$name,)*];
            /// The word that API, CLI and metrics show.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Why::$name => $word,)* }
            }
            /// One clause for people.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Why::$name => $text,)* }
            }
            /// The reason with this word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Why> {
                match word { $($word => Some(Why::$name),)* _ => None }
            }
        }
    };
}

why! {
    // Slots without a run.
    Misfire "misfire" "later than the job accepts, and its policy does not run it",
    Overlap "overlap" "an earlier run of the job still held its place",
    QueueFull "queue_full" "as many runs of the job waited for its place as may",
    Merged "merged" "a run of the job that waited already stands for it",
    Paused "paused" "the job was paused",
    Deleted "deleted" "the job was deleted while the slot waited",
    ClockSuspect "clock_suspect" "the wall clock had jumped",
    ClockBehind "clock_behind" "the wall clock stood before the last committed time",
    Edited "edited" "the job was edited while more of its slots waited than an edit fires",
    Restored "restored" "it may have run after the backup that the store was restored from",
    Frozen "frozen" "an operator has frozen the server, or the app",
    StartDeadline "start_deadline" "it could not start before its start deadline",
    UpstreamSkipped "upstream_skipped" "an upstream job had no run for it",
    UpstreamFailed "upstream_failed" "an upstream job's run did not end as this job asks",
    UpstreamDeadline "upstream_deadline" "its upstream jobs were not done before the deadline",
    UpstreamUnknown "upstream_unknown" "what became of an upstream job's slot is no longer kept",
    // Slots that wait.
    Cap "cap" "the app has as many admitted shards as it may",
    ServerCap "server_cap" "the server has as many admitted shards as it may",
    Rate "rate" "as many dispatches of the app, or to the workers in question, have begun as its rate lets begin",
    ServerRate "server_rate" "as many dispatches have begun as the server's rate lets begin",
    NoCredit "no_credit" "every eligible worker has all its sends under way",
    NoWorker "no_worker" "no worker of the app is online",
    NoWorkerForHandler "no_worker_for_handler" "no online worker of the app offers the handler",
    NoWorkerForLabels "no_worker_for_labels" "no online worker of the app matches the labels",
    NoCapacity "no_capacity" "every eligible worker runs as much as it may",
    NextPass "next_pass" "nobody has looked for a worker yet; the next pass does",
    Jitter "jitter" "it waits for its start, which the job's jitter puts after its slot",
    CatchUp "catch_up" "it was missed; the job catches up a few at a time",
    Upstream "upstream" "it waits for upstream jobs",
    Pace "pace" "its backfill makes its runs at a pace",
    Parallel "parallel" "as many runs of its backfill are open as may be at once",
    Thawing "thawing" "it was frozen; what was missed fires a few at a time",
    Backoff "backoff" "it waits for its next attempt",
    // Attempts and runs.
    HandlerFailed "handler_failed" "the handler reported a failure",
    HttpStatus "http_status" "the response's status was not a success",
    AttemptTimeout "attempt_timeout" "it ran longer than the job allows",
    RunTimeout "run_timeout" "the whole run, with its retries, took longer than the job allows",
    KilledByUser "killed_by_user" "someone killed it",
    CancelledByOverlap "cancelled_by_overlap" "a newer run of the job took its place, as the job's overlap policy says",
    CancelledByUser "cancelled_by_user" "someone cancelled it",
    WorkerStopped "worker_stopped" "its worker stopped it unasked, as one does that shuts down",
    WorkerSilent "worker_silent" "its worker was silent for the dead time",
    WorkerRestarted "worker_restarted" "its worker's process ended and another took its place",
    WorkerGone "worker_gone" "its worker deregistered",
    Vanished "vanished" "its worker accepted it and later no longer knew it",
    InDoubt "in_doubt" "it may have reached its worker; nothing could say so before the deadline",
    NeverSeen "never_seen" "its worker had never seen it, and refuses it from now on",
    ConnectFailed "connect_failed" "no connection to the worker; nothing was sent",
    DispatchFailed "dispatch_failed" "no worker could be made to start it before its start deadline; nothing was sent",
    SendDeadline "send_deadline" "it could not be sent in time; nothing was sent",
    RefusedForeignIncarnation "foreign_incarnation" "another incarnation of the worker answered and refused it",
    RefusedStaleEpoch "stale_epoch" "the worker knew a newer epoch and refused it",
    RefusedCancelled "cancelled" "the worker had it cancelled before and refused it",
    RefusedDraining "draining" "the worker drains and refused it",
    RefusedUnknownHandler "unknown_handler" "the worker does not offer the handler and refused it",
    RefusedFull "full" "the worker was full and refused it",
    RefusedAddress "address_refused" "the address is not one that calls may go to",
    SecretUnknown "secret_unknown" "it names a secret that is not set; nothing was sent",
    TemplateFailed "template_failed" "the call could not be made from what the job says; nothing was sent",
    TargetGone "target_gone" "the worker that it was for has gone",
    TooManyWorkers "too_many_workers" "more workers are eligible than a run may have shards",
    Partial "partial" "some shards did not succeed; as many did as the job requires",
    QuorumMissed "quorum_missed" "fewer shards succeeded than the job requires",
    PresumedGone "presumed_gone" "nothing was heard of it for so long that its place was given away",
    AttemptsSpent "attempts_spent" "the limit of attempts was reached",
    LateSuccess "late_success" "it had ended otherwise; a success came later and settled its shard",
    Superseded "superseded" "an earlier attempt's late success settled its shard",
    // Requests.
    Invalid "invalid" "the definition cannot be compiled",
    PendingFull "pending_full" "the app, or the whole server, has as many admitted shards as it may",
    JobUnknown "job_unknown" "there is no such job",
    JobDeleted "job_deleted" "the job is deleted",
    RunUnknown "run_unknown" "there is no such open run",
    RunEnded "run_ended" "the run has ended",
    ShardEnded "shard_ended" "the shard has ended",
    ShardUnknown "shard_unknown" "the run has no such shard",
    VersionConflict "version_conflict" "the definition has changed since it was read",
    WorkerUnknown "worker_unknown" "no such worker is registered",
    WorkerIdTaken "worker_id_taken" "a living worker holds this name",
    BackfillUnknown "backfill_unknown" "there is no such backfill that runs",
    TooManyBackfills "too_many_backfills" "as many backfills of the job, or of its partition, run as may",
    NotOwner "not_owner" "this server does not own the partition",
    Overloaded "overloaded" "too many requests wait",
    Unreachable "unreachable" "the worker's address could not be reached",
}

impl Why {
    /// Whether it is our own valve that holds: what comes late of it is no misfire.
    #[must_use]
    pub fn is_valve(self) -> bool {
        matches!(
            self,
            Why::Cap | Why::ServerCap | Why::Rate | Why::ServerRate | Why::NoCredit | Why::NoCapacity | Why::Thawing
        )
    }

    /// Whether a slot that is held for it waits for a time or for upstream jobs, and not for anything that comes free.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self, Why::Jitter | Why::CatchUp | Why::Upstream)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_read_back() {
        for why in Why::ALL {
            assert_eq!(Why::parse(why.word()), Some(*why));
        }
    }
}
