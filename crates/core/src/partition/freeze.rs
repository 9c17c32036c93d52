//! Freezes and thaws: the first question of the gate, and what becomes of slots whose span of ice is over.
//!
//! Invariants: while a freeze is open, slots of its apps are held and its queues stand still. After it, a job that still
//! stands in the frozen span is covered by what the stored [`Thaw`] says, whenever it is looked at, also by a later term.
//!
//! Absent on purpose: a pass over all jobs. They come from the timeline and from the queues, in batches, as ever.

use std::sync::Arc;

use super::effect::{Answer, Effect};
use super::jobs::{JobIx, Place};
use super::message::ReplyTo;
use super::pipeline::After;
use super::{Machine, planted};
use crate::batch::{Row, RunState};
use crate::freeze::{Freeze, Missed, Thaw};
use crate::id::AppId;
use crate::limits;
use crate::time::{Mono, Now, UnixMs};
use crate::why::Why;

/// After a thaw, so many missed slots of a partition fire per [`PACE_MS`].
const PACE_RUNS: u32 = 20;
pub(super) const PACE_MS: u64 = 100;

#[derive(Debug)]
pub(super) struct Freezes {
    /// In order of id; of those that are over only the last few.
    all: Vec<Freeze>,
    /// How many are open.
    open: usize,
    /// The end of the last span that is over: no later slot has anything to do with one.
    until_max: UnixMs,
    /// The pace of missed slots that fire: since when it counts, and how many did since then.
    paced_since: Mono,
    fired: u32,
    /// Whether a slot waits for the pace alone.
    is_paced: bool,
}

/// What becomes of a slot that a freeze may have held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Thawing {
    /// No freeze was in its way.
    Usual,
    /// It has a row now.
    Covered,
    /// This slot, the newest of its span, may fire.
    Newest(UnixMs),
    /// This slot may fire, but not yet: others of its partition did just now.
    Later(UnixMs),
}

impl Freezes {
    pub(super) fn new(all: Vec<Freeze>) -> Freezes {
        assert!(all.is_sorted_by_key(|freeze| freeze.id), "freezes are loaded in order of id");
        let open = all.iter().filter(|freeze| freeze.is_open()).count();
        let until_max = all.iter().filter_map(|freeze| freeze.thaw.as_ref()).map(|thaw| thaw.until).max();
        Freezes {
            all,
            open,
            until_max: until_max.unwrap_or(UnixMs(i64::MIN)),
            paced_since: Mono(0),
            fired: 0,
            is_paced: false,
        }
    }

    pub(super) fn open(&self) -> impl Iterator<Item = &Freeze> {
        self.all.iter().filter(|freeze| freeze.is_open())
    }

    fn is_frozen(&self, app: AppId) -> bool {
        self.open > 0 && self.open().any(|freeze| freeze.is_for(app))
    }

    /// The end of the frozen span in which a slot of an app lies.
    pub(super) fn thawed(&self, app: AppId, slot: UnixMs) -> Option<&Thaw> {
        if slot > self.until_max {
            return None;
        }
        let mut spans = self.all.iter().filter(|freeze| freeze.is_for(app) && slot > freeze.after);
        spans.find_map(|freeze| freeze.thaw.as_ref().filter(|thaw| slot <= thaw.until))
    }

    /// Keeps what is open, and the last of the others.
    fn forget_old(&mut self) {
        let spare = self.all.iter().filter(|freeze| !freeze.is_open()).count().saturating_sub(limits::THAWED_MAX);
        for _ in 0..spare {
            let oldest = self.all.iter().position(|freeze| !freeze.is_open()).expect("they were counted");
            self.all.remove(oldest);
        }
    }

    /// Begins a pass: nothing waits for the pace until it is seen to.
    pub(super) fn begin_pass(&mut self, now: Mono) {
        self.is_paced = false;
        if now.since(self.paced_since) >= PACE_MS {
            (self.paced_since, self.fired) = (now, 0);
        }
    }

    /// Milliseconds after which a slot that waits for the pace may fire, if one does.
    pub(super) fn wake_in(&self, now: Mono) -> Option<u64> {
        self.is_paced.then(|| PACE_MS.saturating_sub(now.since(self.paced_since)))
    }

    /// A missed slot has fired.
    pub(super) fn count_fired(&mut self) {
        self.fired += 1;
    }
}

impl Machine {
    /// Whether nothing of an app may be started.
    pub(super) fn is_frozen(&self, app: AppId) -> bool {
        self.freezes.is_frozen(app) && !planted!(self.config, FiresWhileFrozen)
    }

    /// Lets nothing of an app, or of any, be started until it is thawed.
    pub(super) fn freeze(
        &mut self,
        app: Option<AppId>,
        now: Now,
        by: Arc<str>,
        reason: Arc<str>,
        reply: ReplyTo,
        out: &mut Vec<Effect>,
    ) {
        if self.freezes.open().any(|freeze| freeze.app == app) {
            return self.reply_durably(reply, Answer::Frozen { is_new: false }, out);
        }
        let freeze = Freeze {
            id: self.freezes.all.last().map_or(1, |last| last.id + 1),
            app,
            after: self.processed.max(self.mark),
            at: now.wall,
            by,
            reason,
            thaw: None,
        };
        self.pipeline.write(Row::Freeze(Box::new(freeze.clone())));
        self.freezes.all.push(freeze);
        self.freezes.open += 1;
        self.pipeline.after(After::Reply(reply, Answer::Frozen { is_new: true }));
    }

    /// Ends a freeze.
    pub(super) fn thaw(
        &mut self,
        app: Option<AppId>,
        now: Now,
        by: Arc<str>,
        missed: Missed,
        reply: ReplyTo,
        out: &mut Vec<Effect>,
    ) {
        let until = self.covered_until(now);
        let Some(freeze) = self.freezes.all.iter_mut().find(|freeze| freeze.is_open() && freeze.app == app) else {
            return self.reply_durably(reply, Answer::Thawed { is_new: false }, out);
        };
        let until = until.max(freeze.after);
        freeze.thaw = Some(Thaw { until, at: now.wall, by, missed });
        let freeze = freeze.clone();
        self.freezes.open -= 1;
        self.freezes.until_max = self.freezes.until_max.max(until);
        self.pipeline.write(Row::Freeze(Box::new(freeze)));
        self.freezes.forget_old();
        self.pipeline.after(After::Reply(reply, Answer::Thawed { is_new: true }));
    }

    /// Covers what a freeze that is over has left of a job from this slot on, or says which slot may fire.
    pub(super) fn after_freeze(&mut self, now: Now, ix: JobIx, slot: UnixMs) -> Thawing {
        let live = self.jobs.get(ix);
        let Some(thaw) = self.freezes.thawed(live.app, slot) else { return Thawing::Usual };
        let (until, missed) = (thaw.until, thaw.missed);
        let Some(schedule) = live.schedule.clone() else { return Thawing::Usual };
        let is_armed_kind = live.is_armed_kind();
        let last = if is_armed_kind { slot } else { schedule.last_at_or_before(until).unwrap_or(slot).max(slot) };
        let count = |to| {
            if is_armed_kind { 1 } else { schedule.count_between(UnixMs(slot.0 - 1), to, limits::RANGE_COUNT_MAX) }
        };
        match missed {
            Missed::Skip => {
                self.write_gap(now, ix, slot, last, count(last), RunState::Skipped, Why::Frozen);
                self.advance(now, ix, last);
                Thawing::Covered
            }
            Missed::FireOnce => {
                if last > slot
                    && let Some(before) = schedule.prev_before(last)
                {
                    self.write_gap(now, ix, slot, before, count(before), RunState::Skipped, Why::Frozen);
                    if let Place::Held { why, since, .. } = self.jobs.get(ix).place {
                        self.jobs.hold(ix, last, why, since);
                    }
                    self.cover(ix, before);
                }
                if self.freezes.fired >= PACE_RUNS {
                    self.freezes.is_paced = true;
                    return Thawing::Later(last);
                }
                Thawing::Newest(last)
            }
        }
    }
}
