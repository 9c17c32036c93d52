//! One HTTP/1.1 connection, and one exchange at a time on it.
//!
//! The connection's own work is done inside the future of whoever uses it: there is no second task to
//! wake for each request and answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;

use crate::connect::Stream;

/// An open connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// None once the connection is closed.
    driver: Option<Driver>,
    /// The headers of the last answer: a place for those of the next request.
    spare: HeaderMap,
}

type Driver = http1::Connection<TokioIo<Stream>, Full<Bytes>>;

/// What answered a request.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    /// The body, or its beginning.
    pub(crate) body: Bytes,
    /// Whether the body went on.
    pub(crate) is_cut: bool,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The connection was closed before a byte of the request was written.
    #[error("the connection was closed before the request")]
    NotSent,
    /// It broke after that.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
}

/// How much of a body is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimit {
    /// Kept of it.
    pub(crate) kept_bytes_max: usize,
    /// Read of it, to see its end; what goes on beyond is left, and the connection is useless then.
    pub(crate) read_bytes_max: usize,
}

impl Connection {
    /// Begins HTTP on a stream; nothing is sent yet.
    pub(crate) async fn open(stream: Stream) -> Result<Connection, hyper::Error> {
        // A request is written in one piece: its body is copied behind its head, which costs less than two pieces.
        let (sender, driver) = http1::Builder::new().writev(false).handshake(TokioIo::new(stream)).await?;
        Ok(Connection { sender, driver: Some(driver), spare: HeaderMap::new() })
    }

    /// An empty map for the headers of the next request.
    pub(crate) fn headers(&mut self) -> HeaderMap {
        let mut headers = std::mem::take(&mut self.spare);
        headers.clear();
        headers
    }

    /// Sends a request and reads its answer. The caller sets the deadline, by dropping this future and
    /// then the connection.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        limit: BodyLimit,
    ) -> Result<Response, Failure> {
        let (sender, spare) = (&mut self.sender, &mut self.spare);
        drive(&mut self.driver, async move {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    *spare = head.headers;
                    read(head.status, body, limit).await
                }
                // hyper gives the request back exactly if it was not begun to be written.
                Err(mut refused) => Err(match refused.take_message() {
                    Some(_request) => Failure::NotSent,
                    None => Failure::Broken(refused.into_error()),
                }),
            }
        })
        .await
    }

    /// Waits until another request may be sent; false if the connection is closed.
    pub(crate) async fn is_reusable(&mut self) -> bool {
        let sender = &mut self.sender;
        drive(&mut self.driver, async move { sender.ready().await.is_ok() }).await
    }

    /// Whether the peer has closed the connection; else the task is woken when it does.
    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(driver) = &mut self.driver else { return Poll::Ready(()) };
        // How it ended does not matter: nothing was under way.
        let ended = Pin::new(driver).poll(cx).map(drop);
        if ended.is_ready() {
            self.driver = None;
        }
        ended
    }
}

async fn read(status: StatusCode, mut body: Incoming, limit: BodyLimit) -> Result<Response, Failure> {
    let mut kept = Vec::new();
    let mut read_bytes = 0;
    // Most answers are one small frame, which is taken as it is.
    let mut first = Bytes::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Failure::Broken)?.into_data() else { continue };
        read_bytes += data.len();
        if read_bytes == data.len() && data.len() <= limit.kept_bytes_max {
            first = data;
        } else {
            if kept.is_empty() {
                kept.extend_from_slice(&first);
            }
            let room = limit.kept_bytes_max - kept.len();
            kept.extend_from_slice(&data[..data.len().min(room)]);
        }
        if read_bytes > limit.read_bytes_max {
            break;
        }
    }
    let body = if kept.is_empty() { first } else { Bytes::from(kept) };
    Ok(Response { status, is_cut: read_bytes > body.len(), body })
}

/// Runs a future of the connection's user together with the connection.
async fn drive<F: Future>(driver: &mut Option<Driver>, user: F) -> F::Output {
    let mut user = pin!(user);
    poll_fn(|cx| {
        // The user first, so that there is a request to write; then the connection; then the user again,
        // who may have been answered.
        if let Poll::Ready(output) = user.as_mut().poll(cx) {
            return Poll::Ready(output);
        }
        if let Some(connection) = driver {
            if Pin::new(connection).poll(cx).is_ready() {
                *driver = None;
            }
            return user.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await
}
