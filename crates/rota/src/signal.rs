//! The signals that ask for a stop.

use tokio::signal::unix::{SignalKind, signal};

/// Which signals were asked for in time; later ones are then heard even while nothing awaits them.
pub(crate) struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    /// Listens from now on. Needs a runtime.
    pub(crate) fn listen() -> std::io::Result<Stop> {
        Ok(Stop { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The name of the next signal.
    pub(crate) async fn asked(&mut self) -> &'static str {
        tokio::select! {
            // No order matters: either ends the process.
            biased;
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
