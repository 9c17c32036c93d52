//! The writer: turns lines into text, and decides what of it is kept, and where.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use rota_core::id::RunId;
use rota_core::time::UnixMs;
use rota_port::logs::LogKey;

use super::Limits;
use super::queue::{Message, Queue, Taken};
use super::record::{self, HEADER_BYTES, Header, TEXT_BYTES_MAX};
use super::segment::{Entry, Segments};
use super::tail::Part;

/// Open logs of which the writer knows the end by heart.
const OPEN_MAX: usize = 100_000;
/// Closed logs that it remembers, so that late lines do not open them again.
const CLOSED_MAX: usize = 100_000;

pub(super) struct Writer {
    segments: Arc<Segments>,
    limits: Limits,
    /// Where each open log ends.
    open: BTreeMap<LogKey, u64>,
    closed: BTreeSet<LogKey>,
    closed_order: VecDeque<LogKey>,
    /// Logs of runs up to this one may be in the files without being in `open`.
    old_runs_to: RunId,
    /// Encoded records that are not written yet, and where their texts are in them.
    records: Vec<u8>,
    entries: Vec<(Entry, UnixMs)>,
    /// The latest time that a line carried.
    newest: UnixMs,
    is_failing: bool,
}

/// Says that the writer has ended, also when it panics.
struct Ending<'q>(&'q Queue);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

impl Writer {
    pub(super) fn new(segments: Arc<Segments>, limits: Limits) -> Writer {
        let old_runs_to = segments.newest_run();
        Writer {
            segments,
            limits,
            open: BTreeMap::new(),
            closed: BTreeSet::new(),
            closed_order: VecDeque::new(),
            old_runs_to,
            records: Vec::new(),
            entries: Vec::new(),
            newest: UnixMs(0),
            is_failing: false,
        }
    }

    /// Writes until the queue is stopped and empty.
    pub(super) fn run(mut self, queue: &Queue) {
        let _ending = Ending(queue);
        loop {
            let Taken { messages, dropped, closed, is_last } = queue.take();
            let is_done = is_last && messages.is_empty() && dropped.is_empty();
            for message in messages {
                let written = match message {
                    Message::Lines { key, at, lines } => self.lines(key, at, &lines),
                    Message::Close { key } => self.close(key),
                };
                self.note(written);
            }
            for (key, count) in dropped {
                let mark = format!("[{count} lines were dropped here: the writer of the logs was behind]");
                let written = self.lines(key, self.newest, &[mark]);
                self.note(written);
            }
            for key in closed {
                let written = self.close(key);
                self.note(written);
            }
            let written = self.flush();
            self.note(written);
            if is_done {
                return;
            }
        }
    }

    /// A disk that fails is said once, and once when it works again; what was lost reads as a gap.
    fn note(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, "log_write_failed");
                }
            }
        }
    }

    fn lines(&mut self, key: LogKey, at: UnixMs, lines: &[String]) -> io::Result<()> {
        self.newest = self.newest.max(at);
        let Some(mut end) = self.end_of(key)? else { return Ok(()) };
        let mut text = Vec::new();
        for line in lines {
            let before = text.len();
            push_line(&mut text, line, self.limits.line_bytes);
            let crosses_head = end < self.limits.head_bytes && end + text.len() as u64 > self.limits.head_bytes;
            if before > 0 && (crosses_head || text.len() > TEXT_BYTES_MAX) {
                let next = text.split_off(before);
                self.keep(key, at, end, &text)?;
                end += text.len() as u64;
                text = next;
            }
            self.open.insert(key, end + text.len() as u64);
        }
        if text.is_empty() { Ok(()) } else { self.keep(key, at, end, &text) }
    }

    /// Where the log ends; none if it is closed.
    fn end_of(&mut self, key: LogKey) -> io::Result<Option<u64>> {
        if let Some(end) = self.open.get(&key) {
            return Ok(Some(*end));
        }
        if self.closed.contains(&key) {
            return Ok(None);
        }
        let mut end = 0;
        if key.run <= self.old_runs_to {
            self.flush()?;
            let found = self.segments.find(key)?;
            if found.is_closed {
                return Ok(None);
            }
            end = found.end();
        }
        self.open.insert(key, end);
        if self.open.len() > OPEN_MAX
            && let Some((forgotten, _)) = self.open.pop_first()
        {
            self.old_runs_to = self.old_runs_to.max(forgotten.run);
        }
        Ok(Some(end))
    }

    /// Text within the head goes to the segment, what is beyond goes to the tail.
    fn keep(&mut self, key: LogKey, at: UnixMs, offset: u64, text: &[u8]) -> io::Result<()> {
        if offset + text.len() as u64 <= self.limits.head_bytes {
            self.record(key, at, offset, text, false);
            return self.flush_if_large();
        }
        let mut parts = self.segments.tail(key);
        let part_bytes = self.limits.tail_bytes / 2;
        // A part that ends elsewhere lost text to a disk that failed.
        let takes_more = |part: &Part| part.end() == offset && part.bytes + text.len() as u64 <= part_bytes;
        let mut part = match parts.pop_if(|part| takes_more(part)) {
            Some(part) => part,
            None => Part::begin(self.segments.dir(), key, offset),
        };
        part.append(text)?;
        parts.push(part);
        let excess = parts.len().saturating_sub(2);
        let removed: Vec<Part> = parts.drain(..excess).collect();
        self.segments.show_tail(key, Some(parts));
        removed.iter().try_for_each(Part::remove)
    }

    fn record(&mut self, key: LogKey, at: UnixMs, offset: u64, text: &[u8], is_close: bool) {
        let text_bytes = u32::try_from(text.len()).expect("records are short");
        let position = u32::try_from(self.records.len() + HEADER_BYTES).expect("flushed before it grows large");
        record::write(&mut self.records, &Header { key, offset, at, is_close, text_bytes }, text);
        self.entries.push((Entry { key, offset, position, bytes: text_bytes, is_close }, at));
    }

    /// Moves the tail into the segment, and ends the log.
    fn close(&mut self, key: LogKey) -> io::Result<()> {
        let Some(end) = self.end_of(key)? else { return Ok(()) };
        let parts = self.segments.tail(key);
        for part in &parts {
            let text = part.read()?;
            let mut offset = part.offset;
            let mut rest = text.as_slice();
            while !rest.is_empty() {
                let (chunk, more) = rest.split_at(rest.len().min(TEXT_BYTES_MAX));
                self.record(key, self.newest, offset, chunk, false);
                offset += chunk.len() as u64;
                rest = more;
            }
        }
        self.record(key, self.newest, end, &[], true);
        self.open.remove(&key);
        self.closed.insert(key);
        self.closed_order.push_back(key);
        if self.closed_order.len() > CLOSED_MAX
            && let Some(oldest) = self.closed_order.pop_front()
        {
            self.closed.remove(&oldest);
        }
        if parts.is_empty() {
            return self.flush_if_large();
        }
        // The copies come before the originals go: a crash in between leaves both, and one is read.
        self.flush()?;
        self.segments.show_tail(key, None);
        parts.iter().try_for_each(Part::remove)
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        if self.records.len() < (1 << 20) { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.segments.append(&self.records, &self.entries);
        self.records.clear();
        self.entries.clear();
        written?;
        self.segments.turn_over()
    }
}

/// A line with its end; a long one is cut, and says by how much.
fn push_line(text: &mut Vec<u8>, line: &str, bytes_max: usize) {
    let kept = line.floor_char_boundary(bytes_max);
    text.extend_from_slice(&line.as_bytes()[..kept]);
    if kept < line.len() {
        text.extend_from_slice(format!(" [{} bytes of this line were cut]", line.len() - kept).as_bytes());
    }
    text.push(b'\n');
}
