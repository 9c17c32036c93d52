//! The worker's own HTTP server: accepts, caps, and times out connections.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::endpoint::Endpoint;
use crate::supervisor::Supervisor;

/// Open connections; more wait in the system's queue.
const CONNECTIONS_MAX: usize = 512;
/// Also how long a connection may idle: longer than servers keep theirs, so that it is they who close it
/// and no request meets a closing connection.
const HEAD_READ: Duration = Duration::from_secs(75);
/// Between two failures to accept, as when the process is out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Accepts until it is dropped.
pub(crate) async fn accept(listener: TcpListener, endpoint: Arc<Endpoint>, supervisor: Supervisor) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => supervisor.spawn("connection", serve(stream, Arc::clone(&endpoint), place)),
            Err(error) => {
                tracing::warn!(%error, "accept_failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, endpoint: Arc<Endpoint>, _place: OwnedSemaphorePermit) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "nodelay_failed");
    }
    let service = service_fn(move |request| {
        let endpoint = Arc::clone(&endpoint);
        async move { endpoint.answer(request).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_READ)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection_ended");
    }
}
