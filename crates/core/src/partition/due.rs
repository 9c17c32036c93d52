//! From the timeline through the gate.
//!
//! The gate, in this order, each with its own reason: the job is enabled (only enabled jobs are on
//! the timeline); lateness; upstream jobs (none yet); overlap; backpressure; rate (none yet). Then
//! the slot is routed. What may not enter now is held: no row, no loss, looked at again each pass.

use std::collections::BTreeMap;

use super::jobs::{JobIx, Place};
use super::timer::Timer;
use super::{Machine, fleet::PoolIx};
use crate::batch::{Exception, Origin, Row, Run, RunState};
use crate::id::{AppId, RunId};
use crate::job::{JobState, Overlap};
use crate::limits;
use crate::time::{Now, UnixMs};
use crate::why::Why;
use rota_cron::Kind;

/// What one pass may admit.
#[derive(Debug, Default)]
pub(super) struct Budget {
    apps: BTreeMap<AppId, u32>,
    server: u32,
}

/// What became of a slot.
enum Considered {
    /// It has a row.
    Covered,
    /// It waits, for this reason.
    Held(Why),
}

impl Machine {
    /// Looks at everything that waits or is due. Returns whether nothing due is left unlooked at.
    pub(super) fn pass(&mut self, now: Now) -> bool {
        let mut budget = Budget { apps: BTreeMap::new(), server: progressive(self.permits, self.fleet.pending()) };
        let mut is_caught_up = true;
        for pool in self.fleet.busy_in_turn() {
            if self.fleet.is_blocked(pool) {
                continue;
            }
            is_caught_up &= self.place_waiting(now, pool);
            if self.clock.is_good() {
                is_caught_up &= self.retry_held(now, pool, &mut budget);
            }
            self.fleet.rest_if_idle(pool);
        }
        if self.clock.is_good() {
            is_caught_up &= self.fire_due(now, &mut budget);
        }
        is_caught_up
    }

    fn fire_due(&mut self, now: Now, budget: &mut Budget) -> bool {
        let mut looked_at = 0;
        while let Some((slot, ix)) = self.jobs.first() {
            if slot > now.wall {
                break;
            }
            if looked_at >= limits::PASS_SLOTS_MAX || !self.may_write(ix) {
                self.processed = self.processed.max(UnixMs(slot.0 - 1));
                return false;
            }
            looked_at += 1;
            self.jobs.rest(ix);
            self.take_due(now, ix, slot, budget);
        }
        self.processed = self.processed.max(now.wall);
        true
    }

    /// Whether the open batch and the ids have room for a run of this job.
    fn may_write(&self, ix: JobIx) -> bool {
        let shards = u64::from(self.jobs.get(ix).policy.shards);
        !self.pipeline.is_full() && self.ids.left() > shards + 1
    }

    /// A slot's first evaluation.
    pub(super) fn take_due(&mut self, now: Now, ix: JobIx, slot: UnixMs, budget: &mut Budget) {
        let slot = self.judge_lateness(now, ix, slot, now.wall);
        let pool = self.jobs.get(ix).pool;
        let considered = match self.fleet.pool(pool).blocked {
            Some(why) if !self.fleet.pool(pool).held.is_empty() => Considered::Held(why),
            Some(_) | None => self.consider(now, ix, slot, budget),
        };
        if let Considered::Held(why) = considered {
            self.jobs.hold(ix, slot, why, now.wall);
            if self.jobs.get(ix).queued != Some(pool) {
                self.jobs.get_mut(ix).queued = Some(pool);
                self.fleet.queue_held(pool, ix);
            }
            if let Some(deadline) = self.start_deadline(ix, slot) {
                let wait = u64::try_from(deadline.0.saturating_sub(now.wall.0)).unwrap_or(0);
                self.timers.add(now.mono.plus(wait + 1), Timer::HeldDeadline(ix));
            }
        }
    }

    fn retry_held(&mut self, now: Now, pool: PoolIx, budget: &mut Budget) -> bool {
        // Behind the front they waited for what the front waited for.
        let waited_for = self.fleet.pool(pool).blocked;
        while let Some(ix) = self.fleet.pool(pool).held.front().copied() {
            let slot = match self.jobs.holds(ix).then(|| self.jobs.get(ix)) {
                Some(live) if live.pool == pool => match live.place {
                    Place::Held { slot, .. } => Some(slot),
                    Place::Timeline(_) | Place::Rest => None,
                },
                Some(_) | None => None,
            };
            let Some(slot) = slot else {
                self.unqueue(pool, ix);
                continue;
            };
            if !self.may_write(ix) {
                return false;
            }
            if let Some(why) = waited_for {
                self.jobs.set_held_why(ix, why);
            }
            match self.consider(now, ix, slot, budget) {
                Considered::Covered => self.unqueue(pool, ix),
                Considered::Held(why) => {
                    self.fleet.pool_mut(pool).blocked = Some(why);
                    self.jobs.set_held_why(ix, why);
                    return true;
                }
            }
        }
        true
    }

    /// Takes the first entry of a pool's queue.
    fn unqueue(&mut self, pool: PoolIx, ix: JobIx) {
        self.fleet.pool_mut(pool).held.pop_front();
        if self.jobs.holds(ix) && self.jobs.get(ix).queued == Some(pool) {
            self.jobs.get_mut(ix).queued = None;
        }
    }

    /// A held slot's start deadline may have passed.
    pub(super) fn held_deadline(&mut self, now: Now, ix: JobIx) {
        if !self.jobs.holds(ix) {
            return;
        }
        let Place::Held { slot, .. } = self.jobs.get(ix).place else { return };
        let Some(deadline) = self.start_deadline(ix, slot) else { return };
        if deadline < now.wall && self.clock.is_good() && self.may_write(ix) {
            self.skip(now, ix, slot, Why::StartDeadline);
        } else {
            let wait = u64::try_from(deadline.0.saturating_sub(now.wall.0)).unwrap_or(0);
            let wait = if self.clock.is_good() { wait + 1 } else { 1_000 };
            self.timers.add(now.mono.plus(wait), Timer::HeldDeadline(ix));
        }
    }

    fn start_deadline(&self, ix: JobIx, slot: UnixMs) -> Option<UnixMs> {
        let start_ms = self.jobs.get(ix).policy.timeout.start_ms?;
        Some(slot.plus_ms(i64::try_from(start_ms).unwrap_or(i64::MAX)))
    }

    /// Gate and route of one slot that was judged.
    fn consider(&mut self, now: Now, ix: JobIx, slot: UnixMs, budget: &mut Budget) -> Considered {
        if self.start_deadline(ix, slot).is_some_and(|deadline| deadline < now.wall) {
            self.skip(now, ix, slot, Why::StartDeadline);
            return Considered::Covered;
        }
        let live = self.jobs.get(ix);
        if live.policy.overlap == Overlap::Skip && live.holders > 0 {
            self.skip(now, ix, slot, Why::Overlap);
            return Considered::Covered;
        }
        let (app, pool, shards, strategy) = (live.app, live.pool, live.policy.shards, live.policy.strategy);
        let left = self.app_budget(app, budget);
        if !self.may_enter(app, shards, left.min(budget.server)) {
            return Considered::Held(Why::Cap);
        }
        match self.fleet.pick(pool, strategy, self.config.send_credits, now.mono) {
            Err(why) => Considered::Held(why),
            Ok(worker) => {
                budget.apps.insert(app, left.saturating_sub(shards));
                budget.server = budget.server.saturating_sub(shards);
                self.admit(now, ix, slot, Origin::Schedule, None, Some(worker));
                self.advance(now, ix, slot);
                Considered::Covered
            }
        }
    }

    /// Whether a run of so many shards may enter. One wider than the cap enters alone.
    pub(super) fn may_enter(&self, app: AppId, shards: u32, left: u32) -> bool {
        let Some(app) = self.fleet.app(app) else { return false };
        let is_too_wide = shards > app.app.pending_max || (shards > self.permits && self.fleet.pending() == 0);
        shards <= left || (is_too_wide && app.pending == 0)
    }

    /// Shards that the app may still admit in this pass.
    fn app_budget(&self, app: AppId, budget: &mut Budget) -> u32 {
        *budget
            .apps
            .entry(app)
            .or_insert_with(|| self.fleet.app(app).map_or(0, |a| progressive(a.app.pending_max, a.pending)))
    }

    /// Judges a slot's lateness, once. If it is a misfire, the newest slot that is due stands for it,
    /// and one row covers those before.
    pub(super) fn judge_lateness(&mut self, now: Now, ix: JobIx, slot: UnixMs, until: UnixMs) -> UnixMs {
        let late = until.0.saturating_sub(slot.0);
        let is_armed_kind = self.jobs.get(ix).is_armed_kind();
        let is_excused = self.jobs.is_excused(ix, slot);
        if late <= self.config.late_max_ms || is_armed_kind || is_excused {
            return slot;
        }
        let Some(schedule) = self.jobs.get(ix).schedule.clone() else { return slot };
        let newest = schedule.last_at_or_before(until).unwrap_or(slot).max(slot);
        if newest > slot
            && let Some(last) = schedule.prev_before(newest)
        {
            let count = schedule.count_between(UnixMs(slot.0 - 1), last, limits::RANGE_COUNT_MAX);
            let why =
                if self.suspect_until.is_some_and(|until| slot <= until) { Why::ClockSuspect } else { Why::Misfire };
            self.write_gap(now, ix, slot, last, count, RunState::Skipped, why);
            self.cover(ix, last);
        }
        newest
    }

    /// Covers a slot with a row that says why it had no run, and goes on.
    pub(super) fn skip(&mut self, now: Now, ix: JobIx, slot: UnixMs, why: Why) {
        self.write_gap(now, ix, slot, slot, 1, RunState::Skipped, why);
        self.advance(now, ix, slot);
    }

    /// One row for a slot, or a range of slots, without a run.
    #[expect(clippy::too_many_arguments, reason = "the columns of one row")]
    pub(super) fn write_gap(
        &mut self,
        now: Now,
        ix: JobIx,
        first: UnixMs,
        last: UnixMs,
        slots: u64,
        state: RunState,
        why: Why,
    ) {
        let id = RunId(self.mint());
        let live = self.jobs.get(ix);
        let (app, job, version) = (live.app, live.id, live.version);
        self.fired_max = self.fired_max.max(last);
        self.stats.slot(app, state, Some(why), slots);
        self.pipeline.write(Row::Run(Box::new(Run {
            id,
            app,
            job,
            version,
            origin: Origin::Schedule,
            slot: first,
            slot_last: last,
            slots,
            state,
            why: Some(why),
            shards: 0,
            at: now.wall,
            ended_at: Some(now.wall),
            param: None,
        })));
    }

    /// The slot is covered by a row of the open batch: an exception that says otherwise has to go with it.
    pub(super) fn cover(&mut self, ix: JobIx, slot: UnixMs) {
        self.fired_max = self.fired_max.max(slot);
        if self.jobs.get(ix).stored.is_some() {
            self.touched.push(ix);
        }
    }

    /// Moves a job on from a slot that is covered. What became late while our own valve held it is excused.
    pub(super) fn advance(&mut self, now: Now, ix: JobIx, slot: UnixMs) {
        self.cover(ix, slot);
        if let Place::Held { why: Why::Cap | Why::NoCredit | Why::NoCapacity, .. } = self.jobs.get(ix).place {
            self.jobs.excuse(ix, now.wall);
        }
        self.jobs.rest(ix);
        let live = self.jobs.get(ix);
        let next = match live.kind() {
            Some(Kind::Cron | Kind::Every) => live.schedule.as_ref().and_then(|s| s.next_after(slot)),
            Some(Kind::Delay) => {
                if live.scheduled_open == 0 {
                    self.arm_delay(now, ix, slot);
                }
                return;
            }
            Some(Kind::Once) | None => None,
        };
        match next {
            Some(next) => self.jobs.arm(ix, next),
            None => self.finish_job(now, ix),
        }
    }

    /// Arms a fixed-delay job's next instant; durable with the open batch.
    pub(super) fn arm_delay(&mut self, now: Now, ix: JobIx, after: UnixMs) {
        let delay = self.jobs.get(ix).schedule.as_ref().and_then(rota_cron::Schedule::delay_ms).unwrap_or(0);
        let base = if self.clock.is_good() { now.wall } else { self.covered_until(now) };
        let at = base.plus_ms(i64::try_from(delay).unwrap_or(i64::MAX));
        // After a small step back of the clock it waits for its turn; after a large one it goes on.
        let is_small_step = after.0.saturating_sub(at.0) <= self.config.late_max_ms;
        let at = if is_small_step { at.max(after.plus_ms(1)) } else { at };
        self.jobs.arm(ix, at);
        self.touched.push(ix);
    }

    pub(super) fn finish_job(&mut self, now: Now, ix: JobIx) {
        if !matches!(self.jobs.get(ix).state, JobState::Enabled | JobState::Paused) {
            return;
        }
        self.jobs.set_state(ix, JobState::Finished);
        let job = self.jobs.get(ix).id;
        self.touched.push(ix);
        self.pipeline.write(Row::JobState { job, state: JobState::Finished, at: now.wall, by: "schedule".into() });
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
                let is_derivable = schedule.next_after(mark) == Some(slot);
                (!is_derivable).then_some(Exception::Covered(UnixMs(slot.0 - 1)))
            }
        }
    }

    /// Takes the next id. Callers have seen that there are enough.
    pub(super) fn mint(&mut self) -> u64 {
        let id = self.ids.mint();
        self.ids_since_caught_up.get_or_insert(id);
        self.runs_since_caught_up += 1;
        id
    }
}

/// What may enter in one pass: all that is left up to half the cap, half of what is left beyond it,
/// so that admission slows down as the queue grows.
fn progressive(cap: u32, pending: u32) -> u32 {
    let left = cap.saturating_sub(pending);
    if pending.saturating_mul(2) >= cap { left.div_ceil(2) } else { left }
}

#[cfg(test)]
mod tests {
    use super::progressive;

    #[test]
    fn admission_slows_down_from_half_the_cap_on() {
        assert_eq!(progressive(1_000, 0), 1_000);
        assert_eq!(progressive(1_000, 499), 501);
        assert_eq!(progressive(1_000, 500), 250);
        assert_eq!(progressive(1_000, 999), 1);
        assert_eq!(progressive(1_000, 1_000), 0);
        assert_eq!(progressive(1_000, 5_000), 0);
    }
}
