//! From rows to durability: the open batch, the batches on their way, and what rests on them.
//!
//! Invariants: a batch's number is one above the one before; nothing that rests on a batch leaves
//! before its `Committed`; a batch is never changed once it is closed.

use std::collections::VecDeque;

use super::effect::Answer;
use super::message::ReplyTo;
use crate::batch::Row;
use crate::id::{AttemptId, JobId, Seq};
use crate::limits::{BATCH_ROWS_MAX, BATCHES_IN_FLIGHT_MAX};

/// What leaves once its rows are durable. Calls are named, not built: whether they are still wanted
/// is looked at when they leave.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum After {
    Send(AttemptId),
    Cancel(AttemptId),
    Reply(ReplyTo, Answer),
    /// Runs of a job that is watched have ended, or slots of it were covered.
    Ended(JobId),
}

#[derive(Debug)]
pub(super) struct Pipeline {
    seq: Seq,
    rows: Vec<Row>,
    /// Rows for the end of the open batch, where those that look alike are together; nothing that
    /// concerns the same job is written after them.
    last: Vec<Row>,
    after: Vec<After>,
    in_flight: VecDeque<(Seq, Vec<After>)>,
}

impl Pipeline {
    pub(super) fn new(seq: Seq) -> Pipeline {
        Pipeline { seq, rows: Vec::new(), last: Vec::new(), after: Vec::new(), in_flight: VecDeque::new() }
    }

    /// Adds a row to the open batch.
    pub(super) fn write(&mut self, row: Row) {
        if matches!(row, Row::Definition(_) | Row::JobState { .. }) {
            self.rows.append(&mut self.last);
        }
        self.rows.push(row);
    }

    /// Adds the state of a job for which nothing more is due.
    pub(super) fn write_last(&mut self, row: Row) {
        self.last.push(row);
    }

    /// Lets something leave once the open batch is durable.
    pub(super) fn after(&mut self, after: After) {
        self.after.push(after);
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight.len() < BATCHES_IN_FLIGHT_MAX
    }

    /// Whether the open batch is as long as a batch should be.
    pub(super) fn is_full(&self) -> bool {
        self.rows.len() + self.last.len() >= BATCH_ROWS_MAX
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.rows.is_empty() && self.last.is_empty()
    }

    /// Whether there is something that has to become durable.
    pub(super) fn has_open(&self) -> bool {
        !self.rows.is_empty() || !self.last.is_empty() || !self.after.is_empty()
    }

    /// Closes the open batch: its number and its rows.
    pub(super) fn close(&mut self) -> (Seq, Vec<Row>) {
        self.seq = Seq(self.seq.0 + 1);
        self.rows.append(&mut self.last);
        self.in_flight.push_back((self.seq, std::mem::take(&mut self.after)));
        (self.seq, std::mem::take(&mut self.rows))
    }

    /// The oldest batch on its way is durable: what may leave now. A number that is not on its way is
    /// a repeated notice and changes nothing.
    pub(super) fn committed(&mut self, seq: Seq) -> Vec<After> {
        match self.in_flight.front() {
            Some((oldest, _)) if *oldest == seq => {
                self.in_flight.pop_front().map(|(_, after)| after).unwrap_or_default()
            }
            Some((oldest, _)) => {
                assert!(seq < *oldest, "batches of a partition become durable in order");
                Vec::new()
            }
            None => Vec::new(),
        }
    }
}
