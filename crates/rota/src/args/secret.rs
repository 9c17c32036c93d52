//! `rota secret`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Set a secret; the next dispatch uses it
    ///
    /// The value is read from a file, or from standard input: printf %s "$VALUE" | rota secret set PARTNER. One end
    /// of line at its end is not part of it. It is never shown again.
    Set {
        /// Letters, digits, _ and -
        name: String,
        /// Read the value from this file
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// List secrets: names, when and by whom they were set, and which jobs use them
    List,
    /// Remove a secret
    Rm {
        name: String,
        /// Even if a job uses it: its attempts fail from then on
        #[arg(long)]
        force: bool,
    },
}
