//! `rota backup`, `rota restore`, `rota completions`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The archive to write; it must not be there yet
    pub(crate) file: PathBuf,
    /// With the key of the secrets in it: keep the archive as safe as the secrets themselves
    #[arg(long)]
    pub(crate) with_key: bool,
    /// With what attempts printed
    #[arg(long)]
    pub(crate) logs: bool,
    /// Of this directory, which no server has open, instead of a running server
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The archive that `rota backup` wrote
    pub(crate) file: PathBuf,
    /// The directory to restore into; it must be empty, or not be there
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// What to do with the slots since the backup, which may have run
    #[arg(long, value_enum)]
    pub(crate) since_backup: SinceBackup,
    /// The key file of the old directory, if the archive holds none
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Do without the key: secrets are dropped, workers register anew by themselves
    #[arg(long, conflicts_with = "key")]
    pub(crate) drop_secrets: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum SinceBackup {
    /// None fires; one row for each job says so
    Skip,
    /// The newest of each job fires
    FireOnce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}
