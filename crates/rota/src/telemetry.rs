//! What the process says about itself, on stderr. Output of commands goes to stdout.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::Error;

/// Starts logging by a filter such as `info,rota_engine=debug`. `at` names where the filter came from.
pub(crate) fn start(filter: &str, at: &str) -> Result<(), Error> {
    let filter = EnvFilter::builder().parse(filter).map_err(|error| Error {
        at: at.to_owned(),
        message: format!("server.log: {error}"),
        hint: Some("for example: info, or info,rota_engine=debug".to_owned()),
    })?;
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(is_terminal).with_writer(std::io::stderr).init();
    Ok(())
}
