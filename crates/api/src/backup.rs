//! `GET /server/backup`: a tar archive of everything durable, made while the server goes on.
//!
//! What goes wrong before the first bytes is a refusal. After them, an answer can only be cut off: it then ends without
//! the end mark of its coding, and its archive without the manifest.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{Uri, header};
use hyper::body::Frame;
use rota_port::backup::{Contents, Error};
use tokio::sync::mpsc;

use crate::auth::Admin;
use crate::body::Args;
use crate::code::Code;
use crate::refusal::Refusal;
use crate::state::State;

/// Pieces that may wait for the connection. The writer waits when there are more.
const PIECES_MAX: usize = 4;
/// A piece is sent when it is this long.
const PIECE_BYTES: usize = 256 << 10;

pub(crate) async fn get(_: Admin, Shared(state): Shared<Arc<State>>, uri: Uri) -> Result<Response, Refusal> {
    let args = Args::read(&uri, &["key", "logs"])?;
    let contents = Contents { has_key: flag(&args, "key")?, has_logs: flag(&args, "logs")? };
    let (pieces, mut taken) = mpsc::channel(PIECES_MAX);
    let now = state.now();
    let backup = Arc::clone(&state.backup);
    // It lives as long as its reader takes what it writes; nothing else waits for it.
    drop(tokio::task::spawn_blocking(move || {
        let mut to = Pieces { to: pieces, piece: Vec::with_capacity(PIECE_BYTES) };
        if let Err(error) = backup.write(now, contents, &mut to) {
            tracing::warn!(%error, "backup_failed");
            // Whoever reads may be gone.
            let _ = to.to.blocking_send(Err(error));
        }
    }));
    let first = match taken.recv().await {
        Some(Ok(first)) => first,
        Some(Err(error)) => return Err(refusal(error)),
        None => return Err(Refusal::internal("a backup without a byte")),
    };
    let headers = [
        (header::CONTENT_TYPE, "application/x-tar"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"rota-backup.tar\""),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::new(Stream { first: Some(first), rest: taken })).into_response())
}

fn flag(args: &Args, key: &str) -> Result<bool, Refusal> {
    match args.text(key) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Refusal::invalid(key, "neither true nor false")),
    }
}

fn refusal(error: Error) -> Refusal {
    match error {
        Error::Busy => Refusal::new(Code::Overloaded, "another backup is under way").hint("wait until it has ended"),
        Error::Store(error) => Refusal::from(error),
        Error::File(error) => Refusal::new(Code::StoreUnavailable, format!("the store cannot be copied: {error}"))
            .hint("a backup needs as much room in the data directory as the database takes"),
    }
}

/// Where the archive is written to.
struct Pieces {
    to: mpsc::Sender<Result<Bytes, Error>>,
    piece: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        self.to.blocking_send(Ok(piece.into())).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

/// The body of the answer.
struct Stream {
    first: Option<Bytes>,
    rest: mpsc::Receiver<Result<Bytes, Error>>,
}

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        self.rest.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
