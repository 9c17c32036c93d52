//! A worker's life: registers, works, drains, leaves.

use std::fmt;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use rota_wire::worker::Register;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::builder::Builder;
use crate::client::{Lane, Server};
use crate::courier::{Courier, finish_within};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::listen;
use crate::live::Live;
use crate::session::Session;

/// How long a worker that goes tries to deliver its last results.
const LAST_RESULTS: Duration = Duration::from_secs(10);
/// Beyond the grace of a stop, until what still has not ended is given up.
const STOP_SLACK: Duration = Duration::from_secs(1);

/// Where a worker stands.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Status {
    /// It is not registered: not yet, or not any more; it tries.
    Connecting,
    /// It is registered and gets work.
    Online {
        /// The id under which the server knows it.
        worker: u32,
    },
    /// It is registered, but the server cannot reach its address; it registers again and again.
    Unreachable {
        /// The id under which the server knows it.
        worker: u32,
        /// What the server says.
        message: String,
    },
    /// It was told to stop, and finishes what runs.
    Draining,
    /// It has left.
    Stopped,
}

/// A worker that is ready to run; its socket is open.
pub struct Worker {
    live: Arc<Live>,
    server: Arc<Server>,
    listener: TcpListener,
    registration: Register,
    drain_deadline: Duration,
    seed: u64,
    status: watch::Sender<Status>,
}

impl Worker {
    /// A worker of an app, for a server such as `http://127.0.0.1:7654`, with the app's worker token.
    pub fn builder(server: impl Into<String>, app: impl Into<String>, token: impl Into<String>) -> Builder {
        Builder::new(server.into(), app.into(), token.into())
    }

    pub(crate) fn new(
        live: Arc<Live>,
        server: Arc<Server>,
        listener: TcpListener,
        registration: Register,
        drain_deadline: Duration,
        seed: u64,
    ) -> Worker {
        let (status, _) = watch::channel(Status::Connecting);
        Worker { live, server, listener, registration, drain_deadline, seed, status }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.live.name
    }

    /// The URL under which the server is to call it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.registration.url
    }

    /// The address it listens on.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The handlers that it offers, sorted.
    #[must_use]
    pub fn handlers(&self) -> &[String] {
        &self.registration.handlers
    }

    /// Where it stands, now and later.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Works until `shutdown` is ready; then takes nothing new, finishes what runs within the drain
    /// deadline, delivers the last results, and leaves. Dropping this future stops everything at once.
    ///
    /// # Errors
    /// The server refuses this worker for good: a wrong token, an unknown app, an impossible name.
    /// Everything else is retried until it works.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let live = self.live;
        let supervisor = live.supervisor.clone();
        let _stop_on_drop = supervisor.stop_on_drop();
        let address = self.registration.url.clone();
        let listener =
            tokio::net::TcpListener::from_std(self.listener).map_err(|source| Error::Listen { address, source })?;
        let endpoint = Endpoint { live: Arc::clone(&live), secret: self.registration.callback_secret.clone() };
        supervisor.spawn("listener", listen::accept(listener, Arc::new(endpoint), supervisor.clone()));

        let lane = || Lane::new(Arc::clone(&self.server), supervisor.clone());
        let mut session = Session::new(Arc::clone(&live), lane(), self.registration, self.status.clone(), self.seed);
        let finish = CancellationToken::new();
        let delivered = CancellationToken::new();
        let courier =
            Courier::new(Arc::clone(&live), lane(), session.seat(), finish.clone(), self.seed.rotate_left(16));
        let tell = delivered.clone();
        supervisor.spawn("courier", async move {
            courier.run().await;
            tell.cancel();
        });

        let ended = tokio::select! {
            // A broken part first: nothing goes on without it.
            biased;
            task = supervisor.broken() => Err(Error::Broken(task)),
            () = shutdown => Ok(()),
            error = session.run() => Err(error),
        };
        if !matches!(ended, Err(Error::Broken(_))) {
            live.drain();
            self.status.send_replace(Status::Draining);
            let can_beat = ended.is_ok();
            drain(&live, &mut session, self.drain_deadline, can_beat).await;
            finish.cancel();
            deliver(&live, &mut session, &delivered, can_beat).await;
            session.leave().await;
        }
        supervisor.stop(STOP_SLACK).await;
        self.status.send_replace(Status::Stopped);
        ended
    }
}

/// Waits for what runs; what does not end in time is stopped. Beats go on.
async fn drain(live: &Live, session: &mut Session, deadline: Duration, can_beat: bool) {
    if with_beats(session, can_beat, timeout(deadline, live.idle())).await.is_ok() {
        return;
    }
    tracing::warn!(running = live.running(), "drain_deadline_passed");
    live.stop_all();
    let wait = live.stop_grace + STOP_SLACK;
    if with_beats(session, can_beat, timeout(wait, live.idle())).await.is_err() {
        // Only a handler that blocks its thread gets here.
        tracing::error!(running = live.running(), "handlers_do_not_stop");
    }
}

/// Delivers the last results and lines, within a limit. Beats go on, and so does registering again.
async fn deliver(live: &Live, session: &mut Session, delivered: &CancellationToken, can_beat: bool) {
    let all = finish_within(live, delivered.cancelled(), LAST_RESULTS);
    if !with_beats(session, can_beat, all).await {
        tracing::error!(results = live.unacknowledged(), "results_not_delivered");
    }
}

async fn with_beats<T>(session: &mut Session, can_beat: bool, waiting: impl Future<Output = T>) -> T {
    let mut waiting = std::pin::pin!(waiting);
    if can_beat {
        tokio::select! {
            // What is waited for first: if it is there already, no call is begun.
            biased;
            done = &mut waiting => return done,
            error = session.run() => tracing::error!(%error, "refused_while_draining"),
        }
    }
    waiting.await
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("name", &self.live.name)
            .field("url", &self.registration.url)
            .finish_non_exhaustive()
    }
}
