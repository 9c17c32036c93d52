//! What a package carries beside the binary: completions for shells, and manual pages. Both are made from the command
//! line's own definition.

use std::path::Path;

use clap_complete::Shell;

use crate::args;
use crate::cli::out;
use crate::exit::Failure;

/// `rota completions SHELL`.
pub(crate) fn completions(shell: args::Shell) -> Result<(), Failure> {
    let shell = match shell {
        args::Shell::Bash => Shell::Bash,
        args::Shell::Zsh => Shell::Zsh,
        args::Shell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "rota", &mut script);
    out::print(&String::from_utf8_lossy(&script))
}

/// `rota man DIR`: `rota.1`, `rota-job.1`, `rota-job-add.1` and so on.
pub(crate) fn pages(dir: &Path) -> Result<(), Failure> {
    let write = || {
        std::fs::create_dir_all(dir)?;
        clap_mangen::generate_to(args::command(), dir)
    };
    write().map_err(|error| Failure::failed("failed", format!("{}: {error}", dir.display())))
}
