//! `rota worker`: the worker SDK with its built-in handlers.

use std::path::Path;

use rota_worker::{Status, Worker};

use crate::args::{Common, WorkerArgs};
use crate::cli::app::read_token;
use crate::cli::credentials;
use crate::cli::out;
use crate::config::LogFormat;
use crate::exit::Failure;
use crate::signal::Stop;
use crate::telemetry;

/// Works until a signal, drains, and leaves.
pub(crate) fn run(common: &Common, args: WorkerArgs) -> Result<(), Failure> {
    telemetry::start("info", LogFormat::Pretty, "rota worker")?;
    let worker = build(common, args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut stop = Stop::listen()?;
        let mut status = worker.status();
        let line = format!("worker  {} at {}: {}\n", worker.name(), worker.url(), worker.handlers().join(", "));
        out::print(&line)?;
        let work = worker.run_until(async move {
            let signal = stop.asked().await;
            tracing::info!(signal, "worker_stops");
        });
        tokio::pin!(work);
        loop {
            tokio::select! {
                // The end first: after it no status matters.
                biased;
                ended = &mut work => return ended.map_err(|error| Failure::failed("worker_failed", chain(&error))),
                Ok(()) = status.changed() => {
                    let seen = status.borrow_and_update().clone();
                    tell(&seen)?;
                }
            }
        }
    })
}

fn tell(status: &Status) -> Result<(), Failure> {
    if let Status::Online { worker } = status {
        return out::print(&format!("online  as worker {worker}\n"));
    }
    if let Status::Unreachable { message, .. } = status {
        tracing::warn!(message, "worker_unreachable");
    } else {
        tracing::info!(?status, "worker_status");
    }
    Ok(())
}

fn build(common: &Common, args: WorkerArgs) -> Result<Worker, Failure> {
    let token = read_token(&args.token_file)?;
    let server = match &common.server {
        Some(server) => server.clone(),
        None => credentials::server(Path::new(credentials::FILE))?,
    };
    let mut builder = Worker::builder(server, args.app, token)
        .namespace(&common.namespace)
        .capacity(args.capacity)
        .listen(args.listen.to_string())
        .builtins()
        .allow_shell(args.allow_shell);
    if let Some(name) = args.name {
        builder = builder.name(name);
    }
    for label in &args.labels {
        let (key, value) = label.split_once('=').ok_or_else(|| {
            Failure::usage(format!("--label: `{label}` has no value"), Some("for example: --label disk=ssd".to_owned()))
        })?;
        builder = builder.label(key, value);
    }
    if let Some(url) = args.advertise_url {
        builder = builder.advertise_url(url);
    }
    if let Some(journal) = args.journal {
        builder = builder.journal(journal);
    }
    builder.build().map_err(|error| Failure::usage(chain(&error), None))
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(source) = at {
        text.push_str(&format!(": {source}"));
        at = source.source();
    }
    text
}
