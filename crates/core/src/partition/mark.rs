//! The mark, and the exceptions beside it: up to where a partition's slots are covered by rows.
//!
//! Invariants: every slot at or below the mark of a closed batch has a row in that batch or an earlier
//! one, or its job has an exception that says from where on it has none; the mark never goes back; rows
//! of origin `schedule` are made only above it. A held slot holds the mark back for a while; then its
//! job gets an exception, in the batch that moves the mark.

use super::Machine;
use super::jobs::{JobIx, Place};
use super::planted;
use crate::batch::{Exception, Row};
use crate::job::JobState;
use crate::limits;
use crate::time::{Now, UnixMs};
use crate::why::Why;

impl Machine {
    /// How far the mark may go with the rows that are in the open batch or before. Held slots hold it
    /// back for a while; after that their jobs get exceptions.
    pub(super) fn advance_mark(&mut self, now: Now) -> UnixMs {
        if planted!(self.config, MarkBeforeRows) {
            return self.mark.max(now.wall);
        }
        // A job that came back to the timeline behind `processed` has slots without rows there.
        let processed = match self.jobs.first() {
            Some((slot, _)) if slot <= self.processed => UnixMs(slot.0 - 1),
            Some(_) | None => self.processed,
        };
        let mut excepted = 0;
        while let Some((slot, ix)) = self.jobs.holding_first() {
            let behind = processed.0.saturating_sub(slot.0);
            let is_short = behind < limits::MARK_LAG_MAX_MS || self.is_backlog(ix);
            if is_short || excepted >= limits::BATCH_ROWS_MAX {
                return self.mark.max(processed.min(UnixMs(slot.0 - 1)));
            }
            excepted += 1;
            self.set_exception(ix, Some(self.standing_at(ix, slot)));
        }
        self.mark.max(processed)
    }

    /// Whether a held slot has held the mark back for long enough, and nothing else makes a batch: its verdict becomes
    /// durable then.
    pub(super) fn keep_verdicts(&mut self) {
        let processed = self.processed;
        for _ in 0..limits::BATCH_ROWS_MAX {
            let Some((slot, ix)) = self.jobs.holding_first() else { return };
            if processed.0.saturating_sub(slot.0) < limits::MARK_LAG_MAX_MS || self.is_backlog(ix) {
                return;
            }
            self.set_exception(ix, Some(self.standing_at(ix, slot)));
        }
    }

    /// The exception that says that a job stands at a slot, and what was judged of it. What is held has been judged,
    /// but for what waits for its jitter.
    fn standing_at(&self, ix: JobIx, slot: UnixMs) -> Exception {
        let covered = UnixMs(slot.0 - 1);
        let is_held = matches!(self.jobs.get(ix).place, Place::Held { why, .. } if why != Why::Jitter);
        let judged = self.jobs.runs_until(ix).max(is_held.then_some(slot)).filter(|until| *until >= slot);
        judged.map_or(Exception::Covered(covered), |until| Exception::Judged { covered, until })
    }

    /// Whether a job is held by our own valve, in a backlog that a restart could still look through.
    pub(super) fn is_backlog(&self, ix: JobIx) -> bool {
        let is_valve = matches!(self.jobs.get(ix).place, Place::Held { why, .. } if why.is_valve());
        is_valve && self.ahead.runs() < self.config.backlog_runs_max
    }

    /// Gives every job that was touched the exception that it needs beside this mark, or none.
    pub(super) fn settle_exceptions(&mut self, mark: UnixMs) {
        for ix in std::mem::take(&mut self.touched) {
            if !self.jobs.holds(ix) {
                continue;
            }
            let needed = self.exception_needed(ix, mark);
            self.set_exception(ix, needed);
        }
    }

    pub(super) fn set_exception(&mut self, ix: JobIx, exception: Option<Exception>) {
        let live = self.jobs.get_mut(ix);
        if live.stored != exception {
            live.stored = exception;
            let job = live.id;
            self.pipeline.write(Row::Exception { job, exception });
            self.jobs.watch_mark(ix);
        }
    }

    /// The exception that a job needs beside this mark.
    pub(super) fn exception_needed(&self, ix: JobIx, mark: UnixMs) -> Option<Exception> {
        let live = self.jobs.get(ix);
        if live.is_broken {
            return live.stored;
        }
        let schedule = live.schedule.as_ref()?;
        match (live.state, live.place) {
            (JobState::Paused, _) => live.stored,
            (JobState::Finished | JobState::Deleted, _) | (JobState::Enabled, Place::Rest) => None,
            (JobState::Enabled, Place::Timeline(slot) | Place::Held { slot, .. }) => {
                if live.is_armed_kind() {
                    return Some(Exception::Armed(slot));
                }
                let is_derivable = schedule.next_after(mark) == Some(slot) && !self.jobs.has_verdict(ix, slot);
                (!is_derivable).then(|| self.standing_at(ix, slot))
            }
        }
    }

    /// The slot is covered by a row of the open batch: an exception that says otherwise has to go with it.
    pub(super) fn cover(&mut self, ix: JobIx, slot: UnixMs) {
        self.fired(slot);
        if self.jobs.get(ix).stored.is_some() {
            self.touched.push(ix);
        }
    }

    /// Takes the next id. Callers have seen that there are enough.
    pub(super) fn mint(&mut self) -> u64 {
        let id = self.ids.mint();
        self.ahead.mint(id);
        id
    }

    /// The slot has a row in the open batch.
    pub(super) fn fired(&mut self, slot: UnixMs) {
        self.fired_max = self.fired_max.max(slot);
        self.ahead.fire(slot);
    }

    /// Slots up to here belong to what was before a change: never before the mark, even if the wall
    /// clock is, and no further than what was covered while the wall clock is suspect.
    /// And never before an earlier change, which a step back of the clock and a restart may hide.
    pub(super) fn covered_until(&mut self, now: Now) -> UnixMs {
        let covered = self.processed.max(self.mark).max(self.fired_max).max(self.changed_max);
        self.changed_max = if self.clock.is_good() { covered.max(now.wall) } else { covered };
        self.changed_max
    }
}
