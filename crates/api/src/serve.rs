//! The accept loop: bounded connections, deadlines for headers, a graceful end.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::auth::Known;
use crate::patient::Patient;
use crate::router::router;
use crate::state::State;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 4_096;
/// For the head of a request, and for an idle connection to send its next.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
/// Headers of one request.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// How long open requests may take when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Before the next accept after one that failed, since a full table of files does not empty at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection that may not have shown a valid token yet.
struct Guest {
    is_known: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Guest {
    fn is_stranger(&self) -> bool {
        !self.is_known.load(Ordering::Relaxed) && !self.task.is_finished()
    }
}

/// The guests, in the order in which they came. Those that are known or gone leave it when they are met.
#[derive(Default)]
struct Guests(VecDeque<Guest>);

impl Guests {
    fn push(&mut self, guest: Guest, connections_max: usize) {
        if self.0.len() >= 2 * connections_max {
            // At most as many are left as there are connections, so this is rare.
            self.0.retain(Guest::is_stranger);
        }
        self.0.push_back(guest);
    }

    /// The stranger that has had the most time to show a token.
    fn longest(&mut self) -> Option<&Guest> {
        while self.0.front().is_some_and(|guest| !guest.is_stranger()) {
            self.0.pop_front();
        }
        self.0.front()
    }
}

/// Serves the API until `shutdown`; then takes no more connections, lets open requests and commands end, and returns.
pub async fn serve(listener: TcpListener, state: Arc<State>, shutdown: CancellationToken) -> io::Result<()> {
    serve_up_to(CONNECTIONS_MAX, listener, state, shutdown).await
}

/// [`serve`], with a bound of connections.
///
/// When all places are taken, a new connection takes that of the one which has gone longest without a valid token, so
/// that connections cost those who have none more than they cost the others. While every place is held with a token,
/// new ones wait in the listener's backlog.
pub async fn serve_up_to(
    connections_max: usize,
    listener: TcpListener,
    state: Arc<State>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let router = router(state.clone());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_BYTES_MAX);
    let mut connections = JoinSet::new();
    let mut guests = Guests::default();
    // Accepted, and without a place yet.
    let mut waiting: Option<TcpStream> = None;
    loop {
        if connections.len() < connections_max
            && let Some(stream) = waiting.take()
        {
            let is_known = Arc::new(AtomicBool::new(false));
            let service = Greeted { router: TowerToHyperService::new(router.clone()), is_known: is_known.clone() };
            let connection = http.serve_connection(TokioIo::new(Patient::new(stream)), service);
            let task = connections.spawn(keep(connection, shutdown.clone()));
            guests.push(Guest { is_known, task }, connections_max);
        }
        if waiting.is_some()
            && let Some(longest) = guests.longest()
        {
            // Its place is free when its task has ended.
            longest.task.abort();
            tracing::debug!(connections_max, "stranger_closed");
        }
        let accepted = tokio::select! {
            // Shutdown first: under a flood of connections it would else wait for a gap. Then those that ended, whose
            // places are free. Every branch can be dropped: accept and join_next lose nothing.
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next() => {
                note(ended);
                continue;
            }
            accepted = listener.accept(), if waiting.is_none() => accepted,
        };
        match accepted.and_then(|(stream, _)| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => waiting = Some(stream),
            Err(error) => {
                tracing::warn!(%error, "accept_failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(waiting);
    drop(listener);
    state.close_streams();
    let draining = async {
        while let Some(ended) = connections.join_next().await {
            note(ended);
        }
        state.finish().await;
    };
    if tokio::time::timeout(DRAIN_TIMEOUT, draining).await.is_err() {
        tracing::warn!("api_drain_timeout");
    }
    Ok(())
}

/// The router, for one connection: requests carry whether their connection is known, for [`crate::auth`] to set.
struct Greeted {
    router: TowerToHyperService<axum::Router>,
    is_known: Arc<AtomicBool>,
}

impl Service<Request<Incoming>> for Greeted {
    type Response = <TowerToHyperService<axum::Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<axum::Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<axum::Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(Known(self.is_known.clone()));
        self.router.call(request)
    }
}

type Connection = http1::Connection<TokioIo<Patient<TcpStream>>, Greeted>;

async fn keep(connection: Connection, shutdown: CancellationToken) {
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        // The connection first, so that an answer that is ready leaves before the end is announced.
        biased;
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Peers go away all the time.
        tracing::debug!(%error, "connection_ended");
    }
}

/// A request that panics ends its own connection; it shares nothing that it could leave half done.
fn note(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "request_panicked");
    }
}
