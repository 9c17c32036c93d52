//! Notes of ended parents, which become runs of their children, or rows that say why there is none.
//!
//! A note waits here until it is answered: in order, by app, since what it waits for is the app's (a freeze, room below
//! the caps). It holds nothing meanwhile, no worker and no part of a cap, so a child is never in its parent's way. In memory only:
//! the store keeps each note until the batch that answers it, and whoever begins a term is told of it again.
//!
//! The gate of a child is that of a slot without the questions of time: freeze, pause, overlap, caps. What was noted while
//! its app was frozen fires or is skipped as the thaw says; unlike slots, each note fires, since each is another run's.
//!
//! See [`crate::child`] for the way of a note, and what is always true of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::gate::Budget;
use super::jobs::JobIx;
use super::snapshot::NotesWaiting;
use super::{Machine, planted};
use crate::batch::{Origin, Row, Run, RunState};
use crate::child::{Link, Note};
use crate::freeze::Missed;
use crate::id::{AppId, RunId};
use crate::job::JobState;
use crate::overlap::Verdict;
use crate::time::{Now, UnixMs};
use crate::why::Why;

/// What a machine has been told of and has not answered.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The highest number that it was told.
    taken: u64,
    /// Never an empty queue.
    waiting: BTreeMap<AppId, Queue>,
}

/// Notes for jobs of an app.
#[derive(Debug)]
struct Queue {
    /// In order of number.
    notes: VecDeque<Note>,
    /// What the first waits for.
    why: Why,
}

/// What became of a note in a pass.
enum Answered {
    /// It has a row.
    Yes,
    /// Its job cannot run now, for this reason; others of its app may.
    NotYet(Why),
    /// Nothing of its app can, for this reason.
    Blocked(Why),
    /// The batch is full, or ids are wanted.
    NoRoom,
}

impl Machine {
    /// Notes, in order of number. Those that it was told before change nothing.
    pub(super) fn take_notes(&mut self, notes: Vec<Note>) {
        for note in notes {
            if note.no > self.notes.taken || planted!(self.config, NotesTakenTwice) {
                self.notes.taken = note.no.max(self.notes.taken);
                let queue = || Queue { notes: VecDeque::new(), why: Why::NextPass };
                self.notes.waiting.entry(note.app).or_insert_with(queue).notes.push_back(note);
            }
        }
    }

    /// Answers what waits, as far as it can be. Returns false if it stopped for lack of ids or room in the batch.
    pub(super) fn fire_children(&mut self, now: Now, budget: &mut Budget) -> bool {
        if self.notes.waiting.is_empty() {
            return true;
        }
        let mut has_room = true;
        for (app, Queue { notes: mut left, .. }) in std::mem::take(&mut self.notes.waiting) {
            let mut kept = VecDeque::new();
            let mut first = None;
            while let Some(note) = left.pop_front() {
                match self.answer_note(now, &note, budget) {
                    Answered::Yes => {}
                    Answered::NotYet(why) => {
                        first.get_or_insert(why);
                        kept.push_back(note);
                    }
                    Answered::Blocked(_) if planted!(self.config, BlockedNoteDropped) => {}
                    Answered::Blocked(why) => {
                        first.get_or_insert(why);
                        left.push_front(note);
                        break;
                    }
                    Answered::NoRoom => {
                        has_room = false;
                        left.push_front(note);
                        break;
                    }
                }
            }
            kept.append(&mut left);
            if !kept.is_empty() {
                self.notes.waiting.insert(app, Queue { notes: kept, why: first.unwrap_or(Why::NextPass) });
            }
        }
        has_room
    }

    fn answer_note(&mut self, now: Now, note: &Note, budget: &mut Budget) -> Answered {
        let Some(ix) = self.jobs.find(note.job) else {
            if self.pipeline.is_full() || self.ids.left() < 2 {
                return Answered::NoRoom;
            }
            let run = self.discard_note(now, note);
            return self.answered(note, run);
        };
        if !self.may_write(ix) {
            return Answered::NoRoom;
        }
        let live = self.jobs.get(ix);
        if self.is_frozen(live.app) {
            return Answered::Blocked(Why::Frozen);
        }
        let was_frozen = self.freezes.thawed(live.app, note.at).is_some_and(|thaw| thaw.missed == Missed::Skip);
        if was_frozen {
            let run = self.skip_note(now, ix, note, Why::Frozen);
            return self.answered(note, run);
        }
        if live.state == JobState::Paused {
            let run = self.skip_note(now, ix, note, Why::Paused);
            return self.answered(note, run);
        }
        if live.is_broken {
            return Answered::NotYet(Why::Invalid); // an edit, or another binary, answers it
        }
        self.fire_child(now, ix, note, budget)
    }

    /// Overlap and the caps, and then the run.
    fn fire_child(&mut self, now: Now, ix: JobIx, note: &Note, budget: &mut Budget) -> Answered {
        let live = self.jobs.get(ix);
        let (app, body, slot, origin) = (live.app, Arc::clone(&live.body), note.slot, Origin::Upstream);
        let shards = match self.shards_now(ix) {
            Ok(shards) => shards,
            Err(Why::TooManyWorkers) => 0, // it is made nonetheless, and says so
            Err(why) => return Answered::NotYet(why),
        };
        let verdict = self.overlap(ix, &body, None);
        if matches!(verdict, Verdict::Start | Verdict::Replace) {
            let left = self.app_budget(app, budget);
            if let Err(why) = self.may_enter(app, shards, left, budget.server_left()) {
                return Answered::Blocked(why);
            }
            budget.spend(app, left, shards);
        }
        if matches!(verdict, Verdict::Replace | Verdict::Await) {
            self.clear_places(now, ix, &body, None);
        }
        let run = match verdict {
            Verdict::Refuse(why) => self.skip_note(now, ix, note, why),
            Verdict::Start | Verdict::Replace => self.admit(now, ix, slot, origin, None, None),
            Verdict::Wait | Verdict::Await => self.admit_waiting(now, ix, slot, origin, None),
            Verdict::Merge => self.merge(now, ix, slot, origin, None).0,
        };
        self.answered(note, run)
    }

    fn answered(&mut self, note: &Note, run: RunId) -> Answered {
        self.pipeline.write(Row::Child(Link { run, parent: note.parent, note: note.no }));
        Answered::Yes
    }

    fn skip_note(&mut self, now: Now, ix: JobIx, note: &Note, why: Why) -> RunId {
        self.write_row(now, ix, Origin::Upstream, (note.slot, note.slot, 1), (RunState::Skipped, why), None)
    }

    /// The row of a note whose job is gone.
    fn discard_note(&mut self, now: Now, note: &Note) -> RunId {
        let id = RunId(self.mint());
        self.stats.slot(note.app, RunState::Discarded, Some(Why::Deleted), 1);
        self.pipeline.write(Row::Run(Box::new(Run {
            id,
            app: note.app,
            job: note.job,
            version: note.version,
            origin: Origin::Upstream,
            slot: note.slot,
            slot_last: note.slot,
            slots: 1,
            state: RunState::Discarded,
            why: Some(Why::Deleted),
            shards: 0,
            at: now.wall,
            ended_at: Some(now.wall),
            param: None,
        })));
        id
    }

    /// What waits, for reads.
    pub(super) fn notes_waiting(&self) -> Vec<NotesWaiting> {
        let waiting = |(app, queue): (&AppId, &Queue)| NotesWaiting {
            app: *app,
            why: queue.why,
            count: queue.notes.len() as u64,
            since: queue.notes.front().map_or(UnixMs(0), |first| first.at),
        };
        self.notes.waiting.iter().map(waiting).collect()
    }

    /// What waits is in order, and no queue is kept without it.
    pub(super) fn check_notes(&self) -> Result<(), String> {
        for (app, Queue { notes: waiting, .. }) in &self.notes.waiting {
            let is_in_order = waiting.iter().is_sorted_by(|a, b| a.no < b.no);
            let is_known = waiting.iter().all(|note| note.app == *app && note.no <= self.notes.taken);
            if waiting.is_empty() || !is_in_order || !is_known {
                return Err(format!("app {app}: notes up to {} that wait: {waiting:?}", self.notes.taken));
            }
        }
        Ok(())
    }
}
