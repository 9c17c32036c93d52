//! Streams of events to whoever reads them: `text/event-stream`.
//!
//! Each stream has a task that makes events and a body that carries them, with a few places between the two. A reader
//! that takes nothing for a while is cut: it never makes a server wait, or grow. The last event says why a stream ended.
//!
//! Absent on purpose: events that are kept for those who were away. What was missed is asked for by an event's id, where
//! events have one.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header;
use hyper::body::Frame;
use rota_wire::rest;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::code::Code;
use crate::refusal::Refusal;
use crate::state::State;

/// Streams at a time.
pub(crate) const STREAMS_MAX: usize = 256;
/// Events that wait for their reader.
const EVENTS_WAITING_MAX: usize = 4;
/// How long a reader may take nothing.
const SLOW_MAX: Duration = Duration::from_secs(30);
/// A silence as long as this is broken by a comment, so that those between know that the stream lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Why a stream ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// There is no more.
    Ended,
    /// The server stops.
    Shutdown,
    /// The reader takes nothing.
    Slow,
    /// The server could not read what the stream is about.
    Failed(String),
    /// The reader went away.
    Gone,
}

impl End {
    fn shown(self) -> rest::StreamEnd {
        let (reason, text) = match self {
            End::Ended => ("ended", "there is no more".to_owned()),
            End::Shutdown | End::Gone => ("shutdown", "the server stops".to_owned()),
            End::Slow => ("slow", format!("nothing was read for {} s", SLOW_MAX.as_secs())),
            End::Failed(text) => ("failed", text),
        };
        rest::StreamEnd { reason: reason.to_owned(), text }
    }
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> End {
        End::Failed(refusal.message)
    }
}

/// Where a stream's events go in.
pub(crate) struct Sink {
    sender: mpsc::Sender<Bytes>,
    sent_at: Instant,
}

impl Sink {
    /// Sends an event; whoever reads on behind it gives its id back.
    pub(crate) async fn send(&mut self, name: &str, id: Option<&str>, data: &impl Serialize) -> Result<(), End> {
        self.put(event(name, id, data)).await
    }

    /// Waits; breaks a long silence. Ends early if the reader goes away.
    pub(crate) async fn pause(&mut self, wait: Duration) -> Result<(), End> {
        tokio::select! {
            biased;
            () = self.sender.closed() => return Err(End::Gone),
            () = tokio::time::sleep(wait) => {}
        }
        self.beat().await
    }

    /// Waits while nothing happens; breaks a long silence. Can be dropped: it loses nothing but the wait.
    pub(crate) async fn idle(&mut self) -> Result<(), End> {
        self.pause(HEARTBEAT.saturating_sub(self.sent_at.elapsed())).await
    }

    /// Breaks a long silence.
    pub(crate) async fn beat(&mut self) -> Result<(), End> {
        if self.sent_at.elapsed() < HEARTBEAT { Ok(()) } else { self.put(": still here\n\n".to_owned()).await }
    }

    async fn put(&mut self, text: String) -> Result<(), End> {
        match tokio::time::timeout(SLOW_MAX, self.sender.send(text.into())).await {
            Ok(Ok(())) => {
                self.sent_at = Instant::now();
                Ok(())
            }
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Slow),
        }
    }
}

fn event(name: &str, id: Option<&str>, data: &impl Serialize) -> String {
    // JSON has its line ends escaped, so that it is one line.
    let json = serde_json::to_string(data).expect("bodies are plain data");
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: {name}\n{id}data: {json}\n\n")
}

type Ending = Arc<Mutex<Option<End>>>;

/// Opens a stream whose events `work` makes, if there is a place for one more.
pub(crate) fn open<F>(state: &Arc<State>, work: impl FnOnce(Sink) -> F) -> Result<Response, Refusal>
where
    F: Future<Output = End> + Send + 'static,
{
    let Ok(place) = state.streams.clone().try_acquire_owned() else {
        return Err(Refusal::new(Code::TooManyStreams, format!("{STREAMS_MAX} streams are open, which is the most"))
            .hint("try again when one has ended, or ask from time to time instead"));
    };
    let (sender, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
    let work = work(Sink { sender: sender.clone(), sent_at: Instant::now() });
    let ending = Ending::default();
    let (closing, written) = (state.closing.clone(), ending.clone());
    state.spawn(async move {
        let end = tokio::select! {
            // The server's end first: a stream that is busy would else go on. What is dropped then has a reader that is
            // told to ask again.
            biased;
            () = closing.cancelled() => End::Shutdown,
            end = work => end,
        };
        *written.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        // The body ends when the last sender is gone, and reads how then.
        drop((sender, place));
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that keep answers back until they are whole would keep this one for ever.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::new(Events { receiver, ending, is_over: false })).into_response())
}

/// A body of events, and the one that says why there are no more.
struct Events {
    receiver: mpsc::Receiver<Bytes>,
    ending: Ending,
    is_over: bool,
}

impl HttpBody for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let Poll::Ready(next) = self.receiver.poll_recv(cx) else { return Poll::Pending };
        let data = next.unwrap_or_else(|| {
            self.is_over = true;
            let end = self.ending.lock().unwrap_or_else(PoisonError::into_inner).take();
            event("end", None, &end.unwrap_or(End::Shutdown).shown()).into()
        });
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Sink, mpsc::Receiver<Bytes>) {
        let (sender, receiver) = mpsc::channel(EVENTS_WAITING_MAX);
        (Sink { sender, sent_at: Instant::now() }, receiver)
    }

    #[test]
    fn an_event_is_lines_and_a_blank_one() {
        assert_eq!(event("log", Some("0.1.5"), &"a\nb"), "event: log\nid: 0.1.5\ndata: \"a\\nb\"\n\n");
        assert_eq!(
            event("end", None, &End::Ended.shown()),
            "event: end\ndata: {\"reason\":\"ended\",\"text\":\"there is no more\"}\n\n"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut() {
        let (mut sink, mut receiver) = pair();
        for n in 0..EVENTS_WAITING_MAX {
            assert_eq!(sink.send("run", None, &n).await, Ok(()));
        }
        let began = Instant::now();
        assert_eq!(sink.send("run", None, &"no place").await, Err(End::Slow));
        assert_eq!(began.elapsed(), SLOW_MAX);
        assert!(receiver.recv().await.is_some());
        assert_eq!(sink.send("run", None, &"a place again").await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_is_broken_and_a_reader_that_left_is_noticed() {
        let (mut sink, mut receiver) = pair();
        for _ in 0..4 {
            assert_eq!(sink.pause(Duration::from_secs(4)).await, Ok(()));
        }
        assert_eq!(receiver.recv().await.as_deref(), Some(b": still here\n\n".as_slice()));
        assert!(receiver.try_recv().is_err(), "one is enough");
        drop(receiver);
        assert_eq!(sink.pause(Duration::from_secs(3_600)).await, Err(End::Gone));
        assert_eq!(sink.send("run", None, &0).await, Err(End::Gone));
    }
}
