//! `rota job`.

use clap::{ArgGroup, Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Make a job
    #[command(group = ArgGroup::new("what").args(["handler", "url"]).required(true))]
    Add {
        /// Unique in its namespace
        name: String,
        #[command(flatten)]
        fields: Box<JobFields>,
        /// Make it paused
        #[arg(long)]
        paused: bool,
    },
    /// Change a job; what is not named stays as it is
    #[command(group = ArgGroup::new("change").args(EDITABLE).required(true).multiple(true))]
    Edit {
        /// Its name or id
        job: String,
        #[command(flatten)]
        fields: Box<JobFields>,
        /// Take its schedule away: it only runs when asked to
        #[arg(long, conflicts_with = "when")]
        manual: bool,
    },
    /// List jobs
    List {
        /// Only those of this app
        #[arg(long)]
        app: Option<String>,
    },
    /// Show a job
    Show {
        /// Its name or id
        job: String,
    },
    /// Let a job fire no more until it is resumed
    Pause {
        /// Its name or id
        job: String,
        /// Why; shown with the job and in its history
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Let a paused job fire again, from now on
    Resume {
        /// Its name or id
        job: String,
        /// Why; shown in its history
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List its versions and states: when, who, what and why
    History {
        /// Its name or id
        job: String,
    },
    /// Show what two versions of it differ in
    Diff {
        /// Its name or id
        job: String,
        /// The older version [default: the one before the newer]
        from: Option<u32>,
        /// The newer version [default: the current one]
        to: Option<u32>,
    },
    /// Delete a job; its runs stay
    Rm {
        /// Its name or id
        job: String,
    },
}

const EDITABLE: &[&str] = &[
    "cron",
    "every",
    "delay",
    "at",
    "manual",
    "timezone",
    "dst",
    "dst_gap",
    "dst_overlap",
    "exclude",
    "include",
    "active_from",
    "active_until",
    "jitter",
    "misfire",
    "misfire_threshold",
    "misfire_within",
    "misfire_max",
    "misfire_pace",
    "after",
    "after_any",
    "handler",
    "param",
    "url",
    "method",
    "body",
    "headers",
    "bearer",
    "shards",
    "shard_params",
    "shard_success",
    "on_loss",
    "retries",
    "timeout",
    "start_timeout",
    "run_timeout",
    "overlap",
    "overlap_max",
    "overlap_queue",
    "overlap_key",
    "strategy",
    "route",
    "labels",
    "delivery",
    "alerts",
];

const STRATEGIES: [&str; 12] = [
    "default",
    "FIRST",
    "LAST",
    "FAILOVER",
    "TASK_ROUND_ROBIN",
    "APP_ROUND_ROBIN",
    "RANDOM",
    "LFU",
    "LRU",
    "CONSISTENT_HASH",
    "LEAST_INFLIGHT",
    "TASK_WEIGHT",
];

#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("when").args(["cron", "every", "delay", "at"]))]
pub(crate) struct JobFields {
    /// Its app, which never changes; not needed with --url
    #[arg(long)]
    pub(crate) app: Option<String>,
    /// A cron expression: 5 fields are Unix
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) cron: Option<String>,
    /// A period, as in 30s
    #[arg(long, value_name = "DURATION")]
    pub(crate) every: Option<String>,
    /// From the end of a run to the next, as in 5m
    #[arg(long, value_name = "DURATION")]
    pub(crate) delay: Option<String>,
    /// Once, as in 2026-12-01T02:00:00+08:00
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// IANA zone or fixed offset of the schedule
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    pub(crate) timezone: Option<String>,
    /// How a cron schedule meets a change of the clocks; `quartz` as Quartz does it
    #[arg(long, value_parser = ["default", "quartz"], conflicts_with_all = ["dst_gap", "dst_overlap"])]
    pub(crate) dst: Option<String>,
    /// What becomes of slots in times that are skipped when clocks go forward
    #[arg(long, value_parser = ["run_after", "skip"])]
    pub(crate) dst_gap: Option<String>,
    /// Which of two passes has the slot when clocks go back
    #[arg(long, value_parser = ["first", "last", "both"])]
    pub(crate) dst_overlap: Option<String>,
    /// No slots then: `2026-10-01..2026-10-07`, `12-25`, `sat`, `22:00-06:00`; may be given again, or `none`
    #[arg(long, value_name = "WHEN", value_delimiter = ',')]
    pub(crate) exclude: Vec<String>,
    /// Working days whatever --exclude says, as `2026-10-10`; may be given again, or `none`
    #[arg(long, value_name = "DATE", value_delimiter = ',')]
    pub(crate) include: Vec<String>,
    /// No slots before this date or instant, or `none`
    #[arg(long, value_name = "TIME")]
    pub(crate) active_from: Option<String>,
    /// No slots after this date or instant, or `none`
    #[arg(long, value_name = "TIME")]
    pub(crate) active_until: Option<String>,
    /// Start each run up to so long after its slot, or `none`
    #[arg(long, value_name = "DURATION")]
    pub(crate) jitter: Option<String>,
    /// Which of the slots run whose time has passed
    #[arg(long, value_parser = ["skip", "fire_once", "catch_up"])]
    pub(crate) misfire: Option<String>,
    /// How late a slot counts as misfired, or `none` for 60s
    #[arg(long, value_name = "DURATION")]
    pub(crate) misfire_threshold: Option<String>,
    /// How late a slot may be and still run, or `none`
    #[arg(long, value_name = "DURATION")]
    pub(crate) misfire_within: Option<String>,
    /// How many missed slots are caught up, the newest
    #[arg(long, value_name = "COUNT")]
    pub(crate) misfire_max: Option<u32>,
    /// How fast they are caught up, as in 10/s or 30/m, or `none`
    #[arg(long, value_name = "PACE")]
    pub(crate) misfire_pace: Option<String>,
    /// An alert that hears of it; may be given again, or `none`
    #[arg(long = "alert", id = "alerts", value_name = "NAME", value_delimiter = ',')]
    pub(crate) alerts: Vec<String>,
    /// Wait for an upstream job, as `settle` or `settle,when=completion,period=latest,on_skip=run,deadline=6h`; may be given again, or `none`
    #[arg(long, value_name = "JOB")]
    pub(crate) after: Vec<String>,
    /// Fire the job, which has no schedule, at each end of this job's runs, as `settle` or `settle,when=failure`; may be given again
    #[arg(long, value_name = "JOB", conflicts_with = "after")]
    pub(crate) after_any: Vec<String>,
    /// The handler that a worker of the app runs
    #[arg(long, conflicts_with = "url")]
    pub(crate) handler: Option<String>,
    /// What the handler is given
    #[arg(long, conflicts_with = "url", allow_hyphen_values = true)]
    pub(crate) param: Option<String>,
    /// A URL to call instead of a handler
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// GET if not given
    #[arg(long, requires = "url", conflicts_with = "handler", value_parser = ["GET", "POST", "PUT", "PATCH", "DELETE"], ignore_case = true)]
    pub(crate) method: Option<String>,
    /// The request's body
    #[arg(long, requires = "url", conflicts_with = "handler", allow_hyphen_values = true)]
    pub(crate) body: Option<String>,
    /// A header of the request, as in `Accept:text/plain`; may be given again
    #[arg(long = "header", id = "headers", requires = "url", conflicts_with = "handler", value_name = "NAME:VALUE")]
    pub(crate) headers: Vec<String>,
    /// A bearer token of the request, as in {{secret.PARTNER}}
    #[arg(long, requires = "url", conflicts_with = "handler", value_name = "TOKEN")]
    pub(crate) bearer: Option<String>,
    /// Into how many shards a run is split; `broadcast`: one for every eligible worker
    #[arg(long, value_name = "COUNT|broadcast")]
    pub(crate) shards: Option<ShardCount>,
    /// One parameter for each shard, as in a,b,c: what {{shard.param}} stands for; or `none`
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) shard_params: Vec<String>,
    /// How many shards must succeed: all, best_effort, a number, or a part as in 60%
    #[arg(long, value_name = "HOW MANY")]
    pub(crate) shard_success: Option<String>,
    /// What becomes of a shard whose worker dies; `none`: what the retries say
    #[arg(long, value_parser = ["reassign", "fail", "none"])]
    pub(crate) on_loss: Option<String>,
    /// How often a shard is tried again after a failure, time-out or loss
    #[arg(long, value_name = "COUNT")]
    pub(crate) retries: Option<u32>,
    /// From the end of an attempt to the first retry
    #[arg(long, value_name = "DURATION", requires = "retries")]
    pub(crate) retry_first: Option<String>,
    /// Whether each pause is like the first, or twice the one before
    #[arg(long, requires = "retries", value_parser = ["fixed", "exponential"])]
    pub(crate) retry_backoff: Option<String>,
    /// The longest pause before a retry
    #[arg(long, value_name = "DURATION", requires = "retries")]
    pub(crate) retry_cap: Option<String>,
    /// Draw pauses from their upper half, so that what failed together does not come back together
    #[arg(long, requires = "retries")]
    pub(crate) retry_jitter: bool,
    /// Which ends are tried again, as in failed,lost; all if not given
    #[arg(long, requires = "retries", value_delimiter = ',', value_parser = ["failed", "timeout", "lost"])]
    pub(crate) retry_when: Vec<String>,
    /// Let a retry go to another worker than those that failed, if another can take it
    #[arg(long, requires = "retries")]
    pub(crate) retry_elsewhere: bool,
    /// From an attempt's dispatch to its end
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,
    /// From the slot to its first dispatch
    #[arg(long, value_name = "DURATION")]
    pub(crate) start_timeout: Option<String>,
    /// From the moment a run is made to its end, with all its shards and retries
    #[arg(long, value_name = "DURATION")]
    pub(crate) run_timeout: Option<String>,
    /// What happens to a run while earlier ones hold their places
    #[arg(long, value_parser = ["allow", "skip", "queue", "cancel_running", "cancel_and_wait", "merge"])]
    pub(crate) overlap: Option<String>,
    /// How many may run at once; 0 takes it away
    #[arg(long, value_name = "COUNT")]
    pub(crate) overlap_max: Option<u32>,
    /// How many may wait, with `--overlap queue`; 0 takes it away
    #[arg(long, value_name = "COUNT")]
    pub(crate) overlap_queue: Option<u32>,
    /// A part of the parameter whose values have places of their own, or `none`
    #[arg(long, value_name = "NAME")]
    pub(crate) overlap_key: Option<String>,
    /// How a worker is chosen
    #[arg(long, value_parser = STRATEGIES, ignore_case = true)]
    pub(crate) strategy: Option<String>,
    /// What the strategy is told, as in `weight=0.5`, `choices=2`, `hash=md5_xxl`; may be repeated. `KEY=` takes it away
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) route: Vec<String>,
    /// Which workers may be chosen, as in `disk=ssd, zone in (a|b), !gpu`
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) labels: Option<String>,
    /// What an unresolved doubt means
    #[arg(long, value_parser = ["at_least_once", "at_most_once"])]
    pub(crate) delivery: Option<String>,
}

/// Into how many shards a run is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardCount {
    Of(u32),
    /// One for every eligible worker.
    Broadcast,
}

impl std::str::FromStr for ShardCount {
    type Err = String;

    fn from_str(text: &str) -> Result<ShardCount, String> {
        match text.parse() {
            Ok(count) => Ok(ShardCount::Of(count)),
            Err(_) if text == "broadcast" => Ok(ShardCount::Broadcast),
            Err(_) => Err("a number of shards, or `broadcast`".to_owned()),
        }
    }
}
