//! Every bound of the core, with its unit in its name.

/// Shards that an app may have admitted and not yet sent.
pub const PENDING_MAX: u32 = 1_000;
/// Committed-or-sending attempts per worker.
pub const SEND_CREDITS: u32 = 64;
/// Slots up to this late fire as they are; older ones collapse into the newest.
pub const LATE_MAX_MS: i64 = 60_000;
/// The shortest threshold and window of a misfire policy.
pub const MISFIRE_MIN_MS: u64 = 1_000;
/// Missed slots that are caught up, if a job does not say how many.
pub const CATCH_UP_MAX: u32 = 1_000;
/// Missed slots that a job may ask to be caught up.
pub const CATCH_UP_LIMIT: u32 = 10_000;
/// The fastest pace of caught-up or backfilled runs.
pub const PACE_MAX_PER_S: u64 = 1_000;
/// The longest span that a pace may count its runs in.
pub const PACE_PER_MAX_MS: u64 = 3_600_000;
/// Slots of one backfill.
pub const BACKFILL_SLOTS_MAX: u64 = 1_000_000;
/// Backfills of one job that run at the same time.
pub const BACKFILLS_OF_JOB_MAX: usize = 5;
/// Backfills of one partition that run at the same time: each is looked at in every pass.
pub const BACKFILLS_MAX: usize = 100;
/// Runs of one backfill that it may ask to be open at once at most.
pub const BACKFILL_PARALLEL_MAX: u32 = 10_000;
/// Shards of one run.
pub const SHARDS_MAX: u32 = 1_000;
/// Attempts of one shard, of any cause.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// Retries a job may ask for.
pub const RETRIES_MAX: u32 = 100;
/// Workers that a shard may lose and still be made anew, if its job wants that: it may be what kills them.
pub const REASSIGNED_MAX: usize = 10;
/// Longest delay a job may ask for, in any of its durations.
pub const DURATION_MAX_MS: u64 = 366 * 24 * 3_600_000;
/// Over how long the starts of a job's runs may be spread.
pub const JITTER_MAX_MS: u64 = 24 * 3_600_000;
/// Alert rules that one job may name.
pub const ALERTS_MAX: usize = 10;
/// Upstream jobs of one job.
pub const UPSTREAMS_MAX: usize = 100;
/// Jobs that have one job upstream, beyond which it fires no more.
pub const CHILDREN_MAX: u32 = 100;
/// Ends that a partition has been told of and has not answered.
pub const NOTES_WAITING_MAX: u32 = 1_000;
/// How long a slot waits for its upstream jobs if the job does not say.
pub const UPSTREAM_DEADLINE_MS: u64 = 24 * 3_600_000;
/// How long a slot may wait for its upstream jobs.
pub const UPSTREAM_DEADLINE_MAX_MS: u64 = 7 * 24 * 3_600_000;
/// A job's parameter.
pub const PARAM_BYTES_MAX: usize = 1 << 20;
/// What a run keeps of its handler's output or error.
pub const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Names of namespaces, apps, jobs, workers and handlers.
pub const NAME_BYTES_MAX: usize = 100;
/// Labels of a worker, and terms of a selector.
pub const LABELS_MAX: usize = 64;
/// Resources that an app's workers can count, CPU and memory among them.
pub const RESOURCES_MAX: usize = 8;
/// Jobs of one pool whose own use of its workers is remembered; beyond, what was used longest ago is forgotten.
pub const USAGES_MAX: usize = 64;
/// Rings of one pool that are kept.
pub const RINGS_MAX: usize = 4;
/// What a task may weigh, in millionths of a core.
pub const WEIGHT_MAX: u64 = 1 << 40;
/// Window over which the choices of workers may be counted.
pub const WINDOW_MAX_MS: u64 = 30 * 86_400_000;
/// Workers that a choice may be made among at random.
pub const CHOICES_MAX: u32 = 16;
/// Slots looked at in one pass.
pub const PASS_SLOTS_MAX: usize = 2_048;
/// Batches of one partition that are on their way to the store.
pub const BATCHES_IN_FLIGHT_MAX: usize = 2;
/// Changes in one batch, after which a pass starts another. A run and its first attempt are two
/// changes and one stored row, so this is 500 rows or more.
pub const BATCH_ROWS_MAX: usize = 1_000;
/// How far the mark may stay behind for held jobs before they get exceptions of their own.
pub const MARK_LAG_MAX_MS: i64 = 2_000;
/// Jobs that our own valve holds go on soon: for them the mark stays behind for up to so many runs,
/// which is what a restart then has to look through, since exceptions for all of a backlog would cost
/// more than the backlog.
pub const MARK_LAG_MAX_RUNS: u64 = 500_000;
/// A run open for longer than this is listed as open, so that a restart finds it without a scan.
pub const LONG_RUN_MS: u64 = 1_000;
/// Manual and API triggers, kills and definitions waiting for ids or for the pipeline.
pub const REQUESTS_WAITING_MAX: usize = 10_000;
/// How long an offline worker without attempts is remembered.
pub const OFFLINE_KEPT_MS: u64 = 24 * 3_600_000;
/// Runs of a job, or of a value of its key, that its overlap policy may let hold a place at once.
pub const PLACES_MAX: u32 = 10_000;
/// Runs of a job, or of a value of its key, that its overlap policy may let wait.
pub const QUEUE_MAX: u32 = 1_000;
/// Runs that wait, if a policy with a queue names no number.
pub const QUEUE_DEFAULT: u32 = 100;
/// Slots counted in one skipped range before the count is given as "at least".
pub const RANGE_COUNT_MAX: u64 = 1_000_000;

/// Time limits that depend on the fleet, all in milliseconds, with the defaults of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// How often a worker is asked to beat.
    pub beat_ms: u64,
    /// Silence after which a worker is lost.
    pub dead_ms: u64,
    /// From commit to the first byte of a send, and from there to its answer.
    pub send_ms: u64,
    /// How long a doubt is probed before the delivery mode decides.
    pub doubt_ms: u64,
    /// Between two probes of one doubt.
    pub probe_ms: u64,
    /// From a cancel to the moment its attempt counts as not cooperating.
    pub kill_grace_ms: u64,
    /// From the end of an attempt to the moment its place is given away without proof.
    pub release_after_ms: u64,
}

impl Timing {
    /// The defaults for native workers.
    pub const NATIVE: Timing = Timing {
        beat_ms: 5_000,
        dead_ms: 15_000,
        send_ms: 10_000,
        doubt_ms: 60_000,
        probe_ms: 2_000,
        kill_grace_ms: 10_000,
        release_after_ms: 600_000,
    };
}
/// Freezes that are over and are still looked at: slots of theirs may wait for long.
pub const THAWED_MAX: usize = 100;
/// Tokens that a rate may bring in its time, and those that a bucket may keep.
pub const RATE_COUNT_MAX: u32 = 1_000_000;
/// The time of a rate.
pub const RATE_PER_MAX_MS: u64 = 24 * 3_600_000;
/// Groups of workers of one app that have rates of their own.
pub const RATE_GROUPS_MAX: usize = 16;
