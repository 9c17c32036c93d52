//! `rota run`, `rota runs`, `rota logs`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A job's name or id
    pub(crate) job: String,
    /// In place of the job's parameter, or of its body
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) param: Option<String>,
    /// Print the run and do not wait for it
    #[arg(long)]
    pub(crate) no_follow: bool,
    /// Unique per job for seven days: asking again with it runs nothing again
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Only of this job
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// Only of this app
    #[arg(long)]
    pub(crate) app: Option<String>,
    /// Only in this state, as in `failed`
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// Only of this backfill, as printed
    #[arg(long)]
    pub(crate) backfill: Option<String>,
    /// Only decided since then: a duration back from now, as in 1h, or a time
    #[arg(long, value_name = "DURATION|TIME")]
    pub(crate) since: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// A run, as printed, or its last characters
    pub(crate) run: String,
    /// Go on until the run has ended
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only of this shard, from 0
    #[arg(long)]
    pub(crate) shard: Option<u32>,
    /// Only of this attempt, from 1 [default: the last of each shard]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempt: Option<u32>,
}
