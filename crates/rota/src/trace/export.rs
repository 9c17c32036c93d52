//! Sending spans to a collector: OTLP over HTTP, one POST for whatever waits, from a thread of its own.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use http::Uri;
use rota_core::id::JobId;

use super::encode;
use super::spans::Span;

/// Lists that may wait; each is what one commit ended.
const LISTS_MAX: usize = 256;
/// Spans of one request.
const SPANS_MAX: usize = 512;
const TIMEOUT: Duration = Duration::from_secs(5);
/// Of an answer, to see its status.
const ANSWER_BYTES_MAX: u64 = 4_096;

/// The name of a job, for people.
pub(super) type Names = Box<dyn Fn(JobId) -> Option<String> + Send>;

/// Where spans go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Collector {
    authority: String,
    host: String,
    port: u16,
    path: String,
}

impl Collector {
    /// Reads `http://host:4318`; the path is `/v1/traces` if there is none.
    pub(crate) fn parse(text: &str) -> Option<Collector> {
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
        let path = if matches!(uri.path(), "" | "/") { "/v1/traces" } else { uri.path() };
        (uri.scheme_str() == Some("http")).then(|| Collector {
            authority: authority.to_string(),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(4_318),
            path: path.to_owned(),
        })
    }

    fn post(&self, body: &[u8]) -> io::Result<u16> {
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        let address = addresses.next().ok_or_else(|| io::Error::other("the name has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.path,
            self.authority,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        let status = String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|word| word.parse().ok());
        status.ok_or_else(|| io::Error::other("no answer in HTTP"))
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// The way to the collector. Dropping it sends what waits.
pub(crate) struct Exporter {
    lists: Option<SyncSender<Vec<Span>>>,
    thread: Option<JoinHandle<()>>,
    dropped: u64,
}

impl Exporter {
    /// Starts the thread.
    pub(crate) fn start(to: Collector, names: Names) -> io::Result<Exporter> {
        let (lists, waiting) = sync_channel(LISTS_MAX);
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || run(&to, &names, &waiting))?;
        Ok(Exporter { lists: Some(lists), thread: Some(thread), dropped: 0 })
    }

    /// Sends spans on, and waits for nobody.
    pub(super) fn send(&mut self, spans: Vec<Span>) {
        let Some(lists) = self.lists.as_ref().filter(|_| !spans.is_empty()) else { return };
        match lists.try_send(spans) {
            Ok(()) => {
                if self.dropped > 0 {
                    tracing::warn!(spans = self.dropped, "spans_dropped");
                    self.dropped = 0;
                }
            }
            Err(TrySendError::Full(spans) | TrySendError::Disconnected(spans)) => self.dropped += spans.len() as u64,
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.lists = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("trace_exporter_panicked");
        }
    }
}

fn run(to: &Collector, names: &Names, waiting: &Receiver<Vec<Span>>) {
    while let Ok(mut spans) = waiting.recv() {
        while spans.len() < SPANS_MAX
            && let Ok(more) = waiting.try_recv()
        {
            spans.extend(more);
        }
        let count = spans.len();
        let named: Vec<(Span, Option<String>)> = spans
            .into_iter()
            .map(|span| {
                let name = names(span.job);
                (span, name)
            })
            .collect();
        let body = serde_json::to_vec(&encode::request(&named)).expect("spans are plain data");
        match to.post(&body) {
            Ok(200..=299) => tracing::debug!(count, "spans_sent"),
            Ok(status) => tracing::warn!(count, status, %to, "spans_refused"),
            Err(error) => tracing::warn!(count, %error, %to, "spans_lost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_http() {
        let read = |text| Collector::parse(text).map(|to| to.to_string());
        assert_eq!(read("http://127.0.0.1:4318").as_deref(), Some("http://127.0.0.1:4318/v1/traces"));
        assert_eq!(read("http://otel.example/x/v1/traces").as_deref(), Some("http://otel.example/x/v1/traces"));
        for text in ["", "127.0.0.1:4318", "https://x", "grpc://x", "http://a@b"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
