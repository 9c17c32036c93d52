//! The accept loop: bounded connections, deadlines for headers, a graceful end.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::router::router;
use crate::state::State;

/// Connections at a time; more wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 4_096;
/// For the head of a request, and for an idle connection to send its next.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
/// Headers of one request.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// How long open requests may take when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Before the next accept after one that failed, since a full table of files does not empty at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the API until `shutdown`; then takes no more connections, lets open requests and commands end, and returns.
pub async fn serve(listener: TcpListener, state: Arc<State>, shutdown: CancellationToken) -> io::Result<()> {
    let service = TowerToHyperService::new(router(state.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_BYTES_MAX);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // Shutdown first: under a flood of connections it would else wait for a gap. Every branch can be dropped:
            // accept and join_next lose nothing, and a permit comes with its connection.
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next() => {
                note(ended);
                continue;
            }
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                let connection = http.serve_connection(TokioIo::new(stream), service.clone());
                connections.spawn(keep(connection, place, shutdown.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "accept_failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
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

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

type Connection = http1::Connection<TokioIo<TcpStream>, TowerToHyperService<axum::Router>>;

async fn keep(connection: Connection, _place: OwnedSemaphorePermit, shutdown: CancellationToken) {
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
