//! What becomes of a partition whose store is a copy of an earlier one: the decision, as rows.
//!
//! Nobody knows what happened after the copy was made. Slots from then until now may have run, and so may whatever was
//! open. So nothing of it is done again by itself: what was open is closed as lost, and the slots since are covered, or,
//! if that is asked for, the newest of each job is left to fire once. What ends of runs would have fired may have been
//! fired too, so each gets a row that says so, and no run.
//!
//! Invariants: after these rows every slot up to `now` is covered, but for the one that each job may still fire; no run
//! is open; an attempt that was not released keeps its place until its worker, or time, gives it back; the partition is
//! frozen, so that nothing starts before an operator has looked and thawed it.
//!
//! Absent on purpose: raising epochs and ids, which is the store's.

use std::collections::BTreeMap;

use rota_cron::{Kind, Schedule};

use crate::backfill::{Backfill, End};
use crate::batch::{Attempt, AttemptState, Exception, Loaded, OpenRun, Origin, Row, Run, RunState};
use crate::child::{Link, Note};
use crate::freeze::Freeze;
use crate::id::{Block, JobId, RunId};
use crate::job::{Definition, JobState};
use crate::limits;
use crate::time::UnixMs;
use crate::why::Why;

/// What to do with the slots since the copy was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// One row for each job says that they may have run.
    Skip,
    /// The newest of each job fires; one row stands for those before it.
    FireOnce,
}

/// How much was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Slots that got a row.
    pub slots: u64,
    /// Jobs that will fire once.
    pub firing: u64,
    /// Runs that were open.
    pub runs: u64,
    /// Runs that ends of others would have fired.
    pub fired: u64,
}

/// The rows for one partition. A block with two ids for each job is enough. `reason` is what the freeze says.
pub fn rows(loaded: &Loaded, since: Since, reason: &str, now: UnixMs, ids: &mut Block) -> (Vec<Row>, Counts) {
    let mut plan = Plan { since, now: now.max(loaded.mark), ids, rows: Vec::new(), counts: Counts::default() };
    for open in &loaded.open {
        plan.close(open);
    }
    for open in &loaded.backfills {
        plan.cancel(&open.backfill);
    }
    let exceptions: BTreeMap<JobId, Exception> = loaded.exceptions.iter().copied().collect();
    let covered: BTreeMap<JobId, UnixMs> = loaded.covered.iter().copied().collect();
    for definition in loaded.jobs.iter().filter(|definition| definition.state == JobState::Enabled) {
        let upto = covered.get(&definition.id).map_or(loaded.mark, |slot| loaded.mark.max(*slot));
        plan.cover(definition, exceptions.get(&definition.id).copied(), upto);
    }
    plan.freeze(&loaded.freezes, reason);
    (plan.rows, plan.counts)
}

/// The rows that answer what ended runs of the copy, and those that are closed with it, would have fired: whether the
/// original did so is not known. A block with an id for each note is enough.
#[must_use]
pub fn answers(notes: &[Note], now: UnixMs, ids: &mut Block) -> Vec<Row> {
    let answer = |note: &Note| {
        let run = Run {
            id: RunId(ids.mint()),
            app: note.app,
            job: note.job,
            version: note.version,
            origin: Origin::Upstream,
            slot: note.slot,
            slot_last: note.slot,
            slots: 1,
            state: RunState::Skipped,
            why: Some(Why::Restored),
            shards: 0,
            at: now,
            ended_at: Some(now),
            param: None,
        };
        let link = Link { run: run.id, parent: note.parent, note: note.no };
        [Row::Run(Box::new(run)), Row::Child(link)]
    };
    notes.iter().flat_map(answer).collect()
}

struct Plan<'a> {
    since: Since,
    now: UnixMs,
    ids: &'a mut Block,
    rows: Vec<Row>,
    counts: Counts,
}

impl Plan<'_> {
    /// Closes what was open. A kill that somebody asked for stays one.
    fn close(&mut self, open: &OpenRun) {
        let run = &open.run;
        for attempt in open.attempts.iter().filter(|attempt| !attempt.state.is_terminal()) {
            self.rows.push(Row::AttemptSet(Box::new(Attempt {
                state: AttemptState::Lost,
                why: Some(Why::Restored),
                ended_at: Some(self.now),
                ..attempt.clone()
            })));
        }
        if !run.state.is_terminal() {
            let (state, why) = match run.why {
                Some(why @ (Why::KilledByUser | Why::CancelledByOverlap)) => (RunState::Killed, why),
                Some(_) | None => (RunState::Lost, Why::Restored),
            };
            self.rows.push(Row::RunSet { run: run.id, job: run.job, state, why: Some(why), ended_at: Some(self.now) });
            self.counts.runs += 1;
        }
        // Nothing below the next mark is looked through, so what still holds a place has to be listed.
        let holds = open.attempts.iter().any(|attempt| attempt.released_at.is_none());
        if holds != open.is_listed {
            self.rows.push(Row::Listed { run: run.id, is_open: holds });
        }
    }

    /// How far a backfill came since the copy is not known, so it does not go on.
    fn cancel(&mut self, backfill: &Backfill) {
        let end = Some(End::Cancelled { at: self.now, by: "restore".into(), why: Why::Restored });
        self.rows.push(Row::Backfill(Box::new(Backfill { end, ..backfill.clone() })));
    }

    /// Covers the slots of a job since the copy. What cannot be compiled keeps its place for a binary that can.
    fn cover(&mut self, definition: &Definition, stored: Option<Exception>, covered: UnixMs) {
        let Ok(job) = definition.compile() else {
            if stored.is_none() {
                self.except(definition, Some(Exception::Covered(covered)));
            }
            return;
        };
        let Some(schedule) = job.schedule else { return };
        match (schedule.kind(), stored) {
            (Kind::Cron | Kind::Every, Some(Exception::Covered(to) | Exception::Judged { covered: to, .. })) => {
                self.cover_slots(definition, &schedule, to, true);
            }
            (Kind::Cron | Kind::Every, Some(Exception::Armed(_)) | None) => {
                self.cover_slots(definition, &schedule, covered, stored.is_some());
            }
            (Kind::Delay | Kind::Once, Some(Exception::Armed(at))) if at <= self.now => {
                self.cover_instant(definition, &schedule, at);
            }
            // Armed later; or its run was open, and with that closed the next one is armed at the start.
            (Kind::Delay | Kind::Once, _) => {}
        }
    }

    fn cover_slots(&mut self, definition: &Definition, schedule: &Schedule, from: UnixMs, has_exception: bool) {
        let newest = schedule.last_at_or_before(self.now).filter(|slot| *slot > from);
        let (Some(first), Some(newest)) = (schedule.next_after(from), newest) else {
            if has_exception {
                self.except(definition, None);
            }
            return;
        };
        let last = match self.since {
            Since::Skip => Some(newest),
            Since::FireOnce => schedule.prev_before(newest).filter(|last| *last >= first),
        };
        if let Some(last) = last {
            let count = schedule.count_between(UnixMs(first.0 - 1), last, limits::RANGE_COUNT_MAX);
            self.gap(definition, first, last, count);
        }
        match self.since {
            Since::Skip if has_exception => self.except(definition, None),
            Since::Skip => {}
            Since::FireOnce => {
                let covered = UnixMs(newest.0 - 1);
                self.except(definition, Some(Exception::Judged { covered, until: newest }));
                self.counts.firing += 1;
            }
        }
    }

    /// A fixed-delay or one-shot job whose instant has come since.
    fn cover_instant(&mut self, definition: &Definition, schedule: &Schedule, at: UnixMs) {
        if self.since == Since::FireOnce {
            self.counts.firing += 1;
            return;
        }
        self.gap(definition, at, at, 1);
        match schedule.delay_ms() {
            Some(delay) => {
                let next = self.now.plus_ms(i64::try_from(delay).unwrap_or(i64::MAX));
                self.except(definition, Some(Exception::Armed(next)));
            }
            None => {
                self.except(definition, None);
                let (job, state) = (definition.id, JobState::Finished);
                self.rows.push(Row::JobState { job, state, at: self.now, by: "restore".into(), reason: None });
            }
        }
    }

    /// Slots up to now are decided; what comes later waits for a thaw. One that was frozen stays so.
    fn freeze(&mut self, freezes: &[Freeze], reason: &str) {
        if freezes.iter().any(|freeze| freeze.is_open() && freeze.app.is_none()) {
            return;
        }
        self.rows.push(Row::Freeze(Box::new(Freeze {
            id: freezes.iter().map(|freeze| freeze.id).max().unwrap_or(0) + 1,
            app: None,
            after: self.now,
            at: self.now,
            by: "restore".into(),
            reason: reason.into(),
            thaw: None,
        })));
    }

    fn except(&mut self, definition: &Definition, exception: Option<Exception>) {
        self.rows.push(Row::Exception { job: definition.id, exception });
    }

    fn gap(&mut self, definition: &Definition, first: UnixMs, last: UnixMs, slots: u64) {
        self.counts.slots += slots;
        self.rows.push(Row::Run(Box::new(Run {
            id: RunId(self.ids.mint()),
            app: definition.app,
            job: definition.id,
            version: definition.version,
            origin: Origin::Schedule,
            slot: first,
            slot_last: last,
            slots,
            state: RunState::Skipped,
            why: Some(Why::Restored),
            shards: 0,
            at: self.now,
            ended_at: Some(self.now),
            param: None,
        })));
    }
}
