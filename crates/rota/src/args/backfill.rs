//! `rota backfill`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum BackfillCommand {
    /// Run a job for all its slots in a range of the past
    Add(BackfillArgs),
    /// List backfills, newest first
    List {
        /// Only of this job
        #[arg(long)]
        job: Option<String>,
        /// Only those that have not ended
        #[arg(long)]
        open: bool,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    /// Show a backfill, and how far it is
    Show {
        /// A backfill, as printed
        backfill: String,
    },
    /// Let a backfill make no more runs; those that are open go on
    Cancel {
        /// A backfill, as printed
        backfill: String,
        /// Kill its open runs, too
        #[arg(long)]
        kill: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct BackfillArgs {
    /// A job's name or id
    pub(crate) job: String,
    /// The first instant: 2026-11-01, or `2026-11-01 02:00`, in the job's zone, or RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) from: String,
    /// The first instant after the range, not later than now [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// How fast its runs are made, as in 10/s, 30/m or 100/h [default: 10/s]
    #[arg(long)]
    pub(crate) pace: Option<String>,
    /// How many of its runs may be open at once [default: as many as the pace makes]
    #[arg(long, value_name = "COUNT")]
    pub(crate) parallel: Option<u32>,
    /// Why; `rota why` shows it at each of its runs
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Say what it would do, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Unique per job for seven days: asking again with it runs nothing again
    #[arg(long, value_name = "ID", conflicts_with = "dry_run")]
    pub(crate) request_id: Option<String>,
}
