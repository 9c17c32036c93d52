//! What the process says about itself, on stderr. Output of commands goes to stdout.
//!
//! Events have names in lower case and fields: for people in one line, or as JSON, an object a line.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::cli::out::Log;
use crate::config::{Error, LogFormat};

/// Starts logging by a filter such as `info,rota_engine=debug`. `at` names where the filter came from.
pub(crate) fn start(filter: &str, format: LogFormat, at: &str) -> Result<(), Error> {
    let filter = EnvFilter::builder().parse(filter).map_err(|error| Error {
        at: at.to_owned(),
        message: format!("server.log: {error}"),
        hint: Some("for example: info, or info,rota_engine=debug".to_owned()),
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Log);
    match format {
        LogFormat::Pretty => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        // The fields beside the name, not below it, so that a query names them directly.
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
    }
    Ok(())
}
