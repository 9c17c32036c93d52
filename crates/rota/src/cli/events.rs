//! Events of a server, read as they come: `text/event-stream`.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::client::Connection;
use crate::exit::Failure;

/// An event; its data is JSON.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    data: String,
}

impl Event {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(&self.data).map_err(|error| {
            Failure::failed(
                "unexpected_answer",
                format!("an event `{}` is not what this client expects: {error}", self.name),
            )
        })
    }
}

/// A stream of events.
pub(crate) struct Events {
    body: Incoming,
    connection: Option<Connection>,
    lines: Lines,
}

impl Events {
    pub(crate) fn new(body: Incoming, connection: Connection) -> Events {
        Events { body, connection: Some(connection), lines: Lines::default() }
    }

    /// The next event; none if the stream broke off.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.lines.next() {
                return Some(event);
            }
            let data = self.frame().await?;
            self.lines.push(&data);
        }
    }

    async fn frame(&mut self) -> Option<Bytes> {
        loop {
            let frame = match &mut self.connection {
                None => self.body.frame().await,
                Some(connection) => tokio::select! {
                    // What has arrived first. Neither loses anything when it is dropped.
                    biased;
                    frame = self.body.frame() => frame,
                    () = connection => {
                        self.connection = None;
                        continue;
                    }
                },
            };
            if let Ok(data) = frame?.ok()?.into_data() {
                return Some(data);
            }
        }
    }
}

/// Lines, put together to events.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    event: Event,
}

impl Lines {
    fn push(&mut self, data: &[u8]) {
        self.bytes.extend_from_slice(data);
    }

    /// The next event that is whole.
    fn next(&mut self) -> Option<Event> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                // A comment alone is no event.
                if !event.data.is_empty() {
                    return Some(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "event" => self.event.name = value,
                "id" => self.event.id = Some(value),
                "data" if self.event.data.is_empty() => self.event.data = value,
                "data" => self.event.data = format!("{}\n{value}", self.event.data),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text =
            ": still here\n\nevent: log\nid: 0.1.5\ndata: {\"a\":\"结\"}\n\nevent: end\r\ndata:1\r\n\r\nevent: cut";
        let event = |name: &str, id: Option<&str>, data: &str| Event {
            name: name.to_owned(),
            id: id.map(str::to_owned),
            data: data.to_owned(),
        };
        let expected = [event("log", Some("0.1.5"), "{\"a\":\"结\"}"), event("end", None, "1")];
        for size in [1, 2, 3, 7, text.len()] {
            let (mut lines, mut events) = (Lines::default(), Vec::new());
            for part in text.as_bytes().chunks(size) {
                lines.push(part);
                events.extend(std::iter::from_fn(|| lines.next()));
            }
            assert_eq!(events, expected, "in parts of {size}");
        }
    }
}
