//! `rota serve`: puts a server together, and takes it apart in order.

mod dialer;
mod notify;
mod server;
mod token;
mod traces;

use std::collections::BTreeMap;
use std::path::Path;

use crate::args::ServeArgs;
use crate::cli::out;
use crate::config::{Config, Layers};
use crate::exit::Failure;
use crate::signal::Stop;
use crate::telemetry;

pub(crate) use notify::Notify;
pub(crate) use server::{Plan, Server};

/// Serves until a signal or a failure.
pub(crate) fn run(mut layers: Layers, args: &ServeArgs, environment: &BTreeMap<String, String>) -> Result<(), Failure> {
    lay_flags(&mut layers, args);
    let config = Config::new(&layers)?;
    let (_, source) = layers.get("server.log");
    telemetry::start(&config.server.log, config.server.log_format, &source.to_string())?;
    die_with_any_thread();
    let runtime = runtime()?;
    let plan = Plan::of(&config)?;
    runtime.block_on(async {
        // Before anything else: a signal during the start must find a listener.
        let mut stop = Stop::listen()?;
        let server = Server::start(plan).await?;
        announce(&server)?;
        let notify = Notify::of(environment)?;
        notify.ready(server.address);
        server.run(&mut stop, config.server.drain, &notify).await
    })
}

/// The runtime of everything that is no machine, no writer and no lane. One thread is plenty for it, and leaves the
/// cores to those.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(1).max_blocking_threads(16).thread_name("control").enable_all().build()?)
}

/// A thread that panicked leaves nobody to do its work: the process says so and ends, and whoever watches it starts
/// it again, which is how every crash is recovered.
pub(crate) fn die_with_any_thread() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        out::note("rota: a thread panicked; the process ends, so that it can be started again\n");
        std::process::abort();
    }));
}

fn lay_flags(layers: &mut Layers, args: &ServeArgs) {
    let text = |path: &Path| path.display().to_string();
    if let Some(data) = &args.data {
        layers.flag("--data", "server.data", &text(data));
    }
    if let Some(listen) = &args.listen {
        layers.flag("--listen", "server.listen", listen);
    }
    if let Some(file) = &args.admin_token_file {
        layers.flag("--admin-token-file", "server.admin_token_file", &text(file));
    }
}

fn announce(server: &Server) -> Result<(), Failure> {
    if let Some(token) = &server.new_token {
        out::print(&format!("admin token  {token}  (shown once)\n"))?;
    }
    // A server whose output nobody can take serves all the same; the token above must not be lost.
    if let Err(failure) = out::print(&format!("listening on http://{}\n", server.address)) {
        tracing::warn!(address = %server.address, ?failure, "output_lost");
    }
    Ok(())
}
