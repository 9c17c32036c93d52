//! `rota plan`, `rota apply`, `rota export`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// The job file, or a folder of them; `-` is standard input. May be given several times
    #[arg(long, short, value_name = "FILE", required = true)]
    pub(crate) file: Vec<PathBuf>,
    /// Delete the jobs that the file made and does not name any more
    #[arg(long)]
    pub(crate) prune: bool,
    /// Take jobs over that another file manages
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Print every step, also of thousands
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    pub(crate) file: FileArgs,
    /// Only print the plan, as `rota plan` does
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Where to write it [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Only jobs that this job file manages
    #[arg(long, value_name = "NAME")]
    pub(crate) managed_by: Option<String>,
    /// Only those of this app
    #[arg(long)]
    pub(crate) app: Option<String>,
}
