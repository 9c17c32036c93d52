//! What attempts print: text in segment files beside the database, with a writer thread of its own.
//!
//! Of each attempt's log the head is kept, and the tail, each up to a bound; what lies between is cut,
//! and the cut is a line that says how many bytes are missing. The head goes straight into the current
//! segment file. The tail goes into two files of the attempt's own, of which the older is thrown away
//! whenever the newer is full; closing the log moves what they hold into the segment. So no attempt
//! takes more than its share of the disk or of memory, however much it prints.
//!
//! Invariants: a position in a log is a number of bytes since its beginning, and never changes; a piece
//! that is found twice (a crash while a log was being closed) is read once; whatever is not there
//! (cut, swept, or lost in a crash) reads as a gap with its size.
//!
//! Absent on purpose: fsync before a segment is sealed (a log is evidence, not the ledger), and a clock:
//! age is measured in the times that lines carry.

mod queue;
mod reader;
mod record;
mod segment;
mod tail;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rota_core::time::UnixMs;
use rota_port::logs::{LogKey, Logs, Window};
use rota_port::store::Error;

use crate::open::OpenError;
use queue::{Message, Queue};
use segment::Segments;
use writer::Writer;

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of an attempt's log, from its beginning.
    pub head_bytes: u64,
    /// Of an attempt's log, up to its end; at least half of it is kept.
    pub tail_bytes: u64,
    /// Of one line.
    pub line_bytes: usize,
    /// Of lines that wait for the writer.
    pub queue_bytes: usize,
    /// After which a segment file is sealed.
    pub segment_bytes: u64,
    /// Of all segment files.
    pub total_bytes: u64,
    /// Of a segment file, in milliseconds.
    pub age_ms: i64,
}

impl Limits {
    /// Head and tail of 1 MiB, 16 KiB a line, 7 days or 10 GiB.
    pub const STANDARD: Limits = Limits {
        head_bytes: 512 << 10,
        tail_bytes: 512 << 10,
        line_bytes: 16 << 10,
        queue_bytes: 8 << 20,
        segment_bytes: 8 << 20,
        total_bytes: 10 << 30,
        age_ms: 7 * 24 * 3_600_000,
    };
}

/// Logs in files. Dropping it writes what waits, and stops the writer.
#[derive(Debug)]
pub struct FileLogs {
    queue: Arc<Queue>,
    segments: Arc<Segments>,
    writer: Option<JoinHandle<()>>,
}

impl FileLogs {
    /// Opens the logs in `dir`, and makes it if it is not there. The caller holds the lock of the data
    /// directory that it lies in.
    pub fn open(dir: &Path, limits: Limits) -> Result<FileLogs, OpenError> {
        let segments = Arc::new(Segments::open(dir, limits)?);
        let queue = Arc::new(Queue::new(limits.queue_bytes));
        let writer = Writer::new(Arc::clone(&segments), limits);
        let thread = {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new().name("logs".to_owned()).spawn(move || writer.run(&queue))
        };
        let thread = thread.map_err(|source| OpenError::file("start the writer of", dir, source))?;
        Ok(FileLogs { queue, segments, writer: Some(thread) })
    }

    /// Lines that were dropped since the start because the writer was behind.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }
}

impl Drop for FileLogs {
    fn drop(&mut self) {
        self.queue.stop();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("log_writer_panicked");
        }
    }
}

impl Logs for FileLogs {
    fn append(&self, key: LogKey, at: UnixMs, lines: Vec<String>) {
        self.queue.push(Message::Lines { key, at, lines });
    }

    fn close(&self, key: LogKey) {
        self.queue.push(Message::Close { key });
    }

    fn read(&self, key: LogKey, from: u64, bytes_max: u32) -> Result<Window, Error> {
        // What was appended before this call is read, too.
        if !self.queue.settle() {
            return Err(Error::Unavailable("the writer of the logs is behind, or has stopped".into()));
        }
        let found =
            self.segments.find(key).map_err(|e| Error::Unavailable(format!("cannot read the log: {e}").into()))?;
        Ok(reader::window(&found, from, bytes_max as usize))
    }
}
