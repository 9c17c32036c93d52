//! Misfires: what becomes of slots that are late when they are first looked at, and of those that are caught up.
//!
//! Invariants, of which the first is the rule and the others are how it is kept:
//!
//! 1. **A slot is judged once**, at its first evaluation. What is judged to run runs, unless its start deadline, its
//!    job's overlap, a freeze, an edit, a pause or a deletion has another word for it; it is never judged again.
//! 2. **Lateness of our own making is not judged**: what our valve held, what waited behind a slot that was caught up, and
//!    what came while the wall clock was suspect. Of the last, the newest stands for all, whatever the policy says.
//! 3. **A verdict with rows is durable with them.** Whoever skips a range and lets a slot after it run puts both into one
//!    batch: the range's row, and the run, or the exception [`Judged`](crate::batch::Exception::Judged) that says up to where slots run.
//! 4. **A verdict without rows** (a slot in time that is then held) becomes durable with the exception that its job needs
//!    once the mark passes it: after [`MARK_LAG_MAX_MS`](crate::limits::MARK_LAG_MAX_MS), also if nothing else is written. Until then it is as
//!    if the slot had not been looked at, and a restart within its threshold comes to the same verdict. What our own valve
//!    holds in a backlog is the exception: that costs no rows, and is judged anew by the next term.
//! 5. **An exception says where its job stands.** It names the slot, so it goes, or moves on, in the batch that covers that
//!    slot; as long as a job stands at a slot that was judged, it says so, whatever the mark could tell.
//! 6. **A job catches up at one slot after the other**, the oldest first. A slot that waits for its pace waits among none
//!    that wait for a pool, holds nobody up, and is visible. Its pace begins anew with a term.
//!
//! Fixed-delay and one-shot jobs miss nothing: there is no newer slot that could stand for theirs.

use super::Machine;
use super::jobs::{JobIx, Paced, Place};
use super::planted;
use super::timer::Timer;
use crate::batch::RunState;
use crate::job::Misfire;
use crate::misfire::Policy;
use crate::time::{Now, UnixMs};
use crate::why::Why;

/// What became of a slot that was judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Judged {
    /// This slot runs: itself, or one that stands for it.
    Runs(UnixMs),
    /// All that is due has a row, and the job has moved on.
    Covered,
}

impl Machine {
    /// Judges a slot's lateness, once. What the policy skips gets one row.
    pub(super) fn judge_lateness(&mut self, now: Now, ix: JobIx, slot: UnixMs, until: UnixMs) -> Judged {
        let late = until.0.saturating_sub(self.starts_by(ix, slot).0);
        let live = self.jobs.get(ix);
        let threshold = live.policy.misfire.as_ref().map_or(self.config.late_max_ms, |misfire| misfire.threshold_ms());
        if late <= threshold || live.is_armed_kind() || self.jobs.is_excused(ix, slot) {
            return Judged::Runs(slot);
        }
        // What a term before had not judged waited since then for what it had.
        let since = self.jobs.pace_of(ix).map(|paced| paced.since).filter(|since| slot <= *since);
        let at = since.unwrap_or(until);
        let live = self.jobs.get(ix);
        let starts_by = self.starts_by(ix, slot);
        let is_late = at.0.saturating_sub(starts_by.0) > threshold;
        let Some(schedule) = live.schedule.clone().filter(|_| is_late) else { return Judged::Runs(slot) };
        let is_suspect = self.suspect_until.is_some_and(|until| slot <= until);
        let misfire = if is_suspect { Misfire::default() } else { self.misfire_of(ix) };
        let verdict = misfire.judge(&schedule, slot, at, starts_by.0.abs_diff(slot.0));
        if let Some(gap) = verdict.skipped {
            let why = if is_suspect { Why::ClockSuspect } else { Why::Misfire };
            self.write_gap(now, ix, gap.first, gap.last, gap.slots, RunState::Skipped, why);
            self.cover(ix, gap.last);
        }
        self.jobs.keep_verdict(ix, if since.is_some() { until } else { verdict.until });
        self.touched.push(ix);
        match (verdict.runs, verdict.skipped) {
            (Some(first), _) => Judged::Runs(first),
            (None, Some(gap)) => {
                self.advance(now, ix, gap.last);
                Judged::Covered
            }
            (None, None) => Judged::Runs(slot),
        }
    }

    /// A job's policy. Slots that could only miss their start deadline are not caught up.
    fn misfire_of(&self, ix: JobIx) -> Misfire {
        let policy = &self.jobs.get(ix).policy;
        let misfire = policy.misfire.as_deref().copied().unwrap_or_default();
        match (misfire.policy, policy.timeout.start_ms) {
            (Policy::CatchUp, Some(start_ms)) => Misfire {
                within_ms: Some(misfire.within_ms.map_or(start_ms, |within| within.min(start_ms))),
                ..misfire
            },
            (Policy::Skip | Policy::FireOnce | Policy::CatchUp, _) => misfire,
        }
    }

    /// Milliseconds between two slots of a job that catches up, if that is what this slot is a part of: the first of them
    /// was later than the threshold, and the last is hardly late at all.
    fn pace_at(&self, now: Now, ix: JobIx, slot: UnixMs) -> Option<u64> {
        let misfire = self.jobs.get(ix).policy.misfire.as_deref()?;
        let pace = misfire.pace()?;
        let interval_ms = pace.interval_ms();
        let late = now.wall.0.saturating_sub(self.starts_by(ix, slot).0);
        let is_begun = self.jobs.pace_of(ix).is_some() || self.jobs.has_verdict(ix, slot);
        let threshold = misfire.threshold_ms();
        let late_max = if is_begun { threshold.min(i64::try_from(interval_ms).unwrap_or(i64::MAX)) } else { threshold };
        (late > late_max).then_some(interval_ms)
    }

    /// Holds a slot that is caught up until its job's pace lets it start. Returns whether it did.
    pub(super) fn hold_for_pace(&mut self, now: Now, ix: JobIx, slot: UnixMs) -> bool {
        let Some(paced) = self.jobs.pace_of(ix) else { return false };
        if self.pace_at(now, ix, slot).is_none() {
            self.jobs.set_pace(ix, None);
            return false;
        }
        if paced.next <= now.mono || planted!(self.config, PaceIgnored) {
            return false;
        }
        self.jobs.hold(ix, slot, Why::CatchUp, now.wall);
        self.timers.add(paced.next, Timer::Pace(ix));
        true
    }

    /// A job's run is admitted: if it is caught up, the next one has to wait, and what comes due meanwhile is late
    /// through that. A wait for workers is not our doing: what came due in it is judged when its turn comes.
    pub(super) fn count_caught_up(&mut self, now: Now, ix: JobIx, slot: UnixMs) {
        let Some(interval_ms) = self.pace_at(now, ix, slot) else { return };
        let live = self.jobs.get(ix);
        let was_waiting = matches!(live.place, Place::Held { why, .. } if !why.is_valve());
        let schedule = live.schedule.clone();
        let since = self.jobs.pace_of(ix).filter(|_| !was_waiting).map_or(now.wall, |paced| paced.since);
        self.jobs.set_pace(ix, Some(Paced { next: now.mono.plus(interval_ms), since }));
        let judged = self.jobs.verdict(ix).map_or(slot, |until| until.max(slot));
        let next = schedule.and_then(|schedule| schedule.next_after(judged));
        let is_all_judged = next.is_none_or(|next| next > since);
        self.jobs.keep_verdict(ix, if is_all_judged { judged.max(now.wall) } else { judged });
        self.touched.push(ix);
    }

    /// A job's slot may have waited long enough for its pace.
    pub(super) fn pace_over(&mut self, ix: JobIx) {
        if !self.jobs.holds(ix) {
            return;
        }
        if let Place::Held { slot, why: Why::CatchUp, .. } = self.jobs.get(ix).place {
            self.jobs.arm(ix, slot);
        }
    }
}
