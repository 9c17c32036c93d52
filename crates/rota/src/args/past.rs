//! `rota audit`, `rota top`, `rota freeze`, `rota thaw`, `rota rerun`.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// A run, as printed, or its last characters; or JOB@TIME, where TIME is RFC 3339, or `2026-12-01 02:00` or 02:00
    /// in the job's zone
    #[arg(value_name = "RUN|JOB@TIME")]
    pub(crate) what: String,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Slots from then on: a duration back from now, as in 1h, or a time
    #[arg(long, value_name = "DURATION|TIME", default_value = "24h")]
    pub(crate) since: String,
    /// Slots up to then [default: now]
    #[arg(long, value_name = "DURATION|TIME")]
    pub(crate) until: Option<String>,
    /// Only of this job
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// Only of this app
    #[arg(long)]
    pub(crate) app: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopBy {
    /// Most failures first
    Failing,
    /// Latest first, from slot to decision
    Late,
    /// Slowest first, from decision to end
    Slow,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// What makes a job stand at the top
    #[arg(value_enum)]
    pub(crate) by: TopBy,
    /// Runs decided since then: a duration back from now, as in 1h, or a time
    #[arg(long, value_name = "DURATION|TIME", default_value = "24h")]
    pub(crate) since: String,
    /// Only of this app
    #[arg(long)]
    pub(crate) app: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct FreezeArgs {
    /// Why; everybody sees it until the thaw
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Only this app
    #[arg(long)]
    pub(crate) app: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ThawArgs {
    /// What becomes of the slots that were frozen
    #[arg(long, default_value = "skip", value_parser = ["skip", "fire_once"])]
    pub(crate) missed: String,
    /// The freeze of this app; else the one of everything
    #[arg(long)]
    pub(crate) app: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// A run that has ended, as printed, or its last characters
    pub(crate) run: String,
    /// Only the shards that did not succeed
    #[arg(long)]
    pub(crate) failed_shards: bool,
    /// Print the new run and do not wait for it
    #[arg(long)]
    pub(crate) no_follow: bool,
    /// Unique per job for seven days: asking again with it runs nothing again
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
}
