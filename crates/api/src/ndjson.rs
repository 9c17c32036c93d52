//! An answer of many lines, each a JSON value, written while they are found.
//!
//! The writer blocks when the reader is slow, and hears when the reader has gone.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header;
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::mpsc;

/// The media type.
pub(crate) const KIND: &str = "application/x-ndjson";
/// Lines that wait to be sent.
const WAITING_MAX: usize = 64;

/// Where lines go in.
pub(crate) struct Lines(mpsc::Sender<Bytes>);

/// Whoever asked has gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gone;

impl Lines {
    /// Sends a line; blocks until there is room.
    pub(crate) fn send(&self, line: &impl Serialize) -> Result<(), Gone> {
        let mut text = serde_json::to_vec(line).expect("lines are plain data");
        text.push(b'\n');
        self.0.blocking_send(text.into()).map_err(|_| Gone)
    }
}

struct Stream(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

/// A place for lines, and the answer that they become.
pub(crate) fn answer() -> (Lines, Response) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let head = [(header::CONTENT_TYPE, KIND)];
    (Lines(sender), (head, Body::new(Stream(receiver))).into_response())
}
