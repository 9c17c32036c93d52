//! The worker's own record: an append-only file of what really started and ended.
//!
//! One line an event, written in one call to a file opened for appending, so that lines of several
//! workers in one file do not mix; `start` is written before the handler's first instruction. It is
//! not synced: it is lost with the machine, not with the process.
//!
//! ```text
//! start RUN SHARD NO ATTEMPT JOB SLOT_MS AT_MS
//! end   RUN SHARD NO ATTEMPT JOB SLOT_MS AT_MS OUTCOME
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use rota_wire::worker::Outcome;

use crate::clock;
use crate::context::Context;
use crate::error::Error;

#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
}

impl Journal {
    pub(crate) fn open(path: PathBuf) -> Result<Journal, Error> {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        match file {
            Ok(file) => Ok(Journal { file }),
            Err(source) => Err(Error::Journal { path, source }),
        }
    }

    pub(crate) fn start(&self, context: &Context) -> io::Result<()> {
        self.write(format!("start {}\n", facts(context)))
    }

    pub(crate) fn end(&self, context: &Context, outcome: Outcome) -> io::Result<()> {
        let word = match outcome {
            Outcome::Success => "success",
            Outcome::Failed => "failed",
            Outcome::Timeout => "timeout",
            Outcome::Killed => "killed",
        };
        self.write(format!("end {} {word}\n", facts(context)))
    }

    fn write(&self, line: String) -> io::Result<()> {
        // A short write would leave half a line; `write_all` completes it, at the price of a possible mix.
        (&self.file).write_all(line.as_bytes())
    }
}

fn facts(context: &Context) -> String {
    let (run, shard, no, attempt) = (context.run(), context.shard(), context.number(), context.attempt());
    let at_ms = clock::unix_ms();
    format!("{run} {shard} {no} {attempt} {} {} {at_ms}", context.job(), context.slot_ms())
}
