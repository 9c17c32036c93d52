//! From the timeline: what is due is taken in order and put to the gate; what is held is put to it
//! again each pass; what is covered moves on.

use std::sync::Arc;

use rota_cron::Kind;

use super::Machine;
use super::freeze::Thawing;
use super::gate::{Budget, Considered, progressive};
use super::jobs::{JobIx, Place};
use super::misfire::Judged;
use super::pipeline::After;
use super::pools::PoolIx;
use super::timer::Timer;
use crate::batch::{Origin, Row, Run, RunState};
use crate::id::RunId;
use crate::job::JobState;
use crate::limits;
use crate::time::{Now, UnixMs};
use crate::why::Why;

impl Machine {
    /// Looks at everything that waits or is due. Returns whether nothing due is left unlooked at.
    pub(super) fn pass(&mut self, now: Now) -> bool {
        let mut budget = Budget::new(progressive(self.permits, self.fleet.placed()));
        let mut is_caught_up = true;
        self.freezes.begin_pass(now.mono);
        for pool in self.fleet.busy_in_turn() {
            if self.is_frozen(self.fleet.pool(pool).app) {
                self.fleet.pool_mut(pool).blocked = Some(Why::Frozen);
                continue;
            }
            if self.fleet.is_blocked(pool) {
                self.fleet.wants_token |= self.fleet.pool(pool).blocked == Some(Why::ServerRate);
                continue;
            }
            is_caught_up &= self.place_waiting(now, pool);
            if self.clock.is_good() {
                is_caught_up &= self.retry_held(now, pool, &mut budget);
            }
            if self.fleet.pool(pool).waiting.is_empty() && self.jobs.held_first(pool).is_none() {
                self.fleet.rest(pool);
            }
        }
        is_caught_up &= self.place_pinned(now);
        if self.clock.is_good() {
            is_caught_up &= self.fire_children(now, &mut budget);
            is_caught_up &= self.fire_due(now, &mut budget);
            is_caught_up &= self.fill_backfills(now, &mut budget);
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
    pub(super) fn may_write(&self, ix: JobIx) -> bool {
        let shards = u64::from(self.shards_max(ix));
        !self.pipeline.is_full() && self.ids.left() > shards + 1
    }

    /// A slot's first evaluation.
    pub(super) fn take_due(&mut self, now: Now, ix: JobIx, slot: UnixMs, budget: &mut Budget) {
        let (app, pool) = (self.jobs.get(ix).app, self.jobs.get(ix).pool);
        let (slot, considered) = if self.is_frozen(app) {
            // Its lateness is judged once the freeze is over, and only if that says nothing of it.
            (slot, Considered::Held(Why::Frozen))
        } else {
            match self.after_freeze(now, ix, slot) {
                Thawing::Covered => return,
                Thawing::Later(slot) => (slot, Considered::Held(Why::Thawing)),
                Thawing::Newest(slot) => {
                    if self.hold_for_jitter(now, ix, slot) {
                        return;
                    }
                    (slot, self.consider_thawed(now, ix, slot, budget))
                }
                Thawing::Usual => {
                    if self.hold_for_jitter(now, ix, slot) {
                        return;
                    }
                    let Judged::Runs(slot) = self.judge_lateness(now, ix, slot, now.wall) else { return };
                    // A newer slot may stand for it, whose start lies ahead; or it is caught up in its turn.
                    if self.hold_for_jitter(now, ix, slot) || self.hold_for_pace(now, ix, slot) {
                        return;
                    }
                    let considered = match self.fleet.pool(pool).blocked {
                        // What needs no worker, since overlap decides it or upstream jobs do, waits for none.
                        Some(why)
                            if self.jobs.held_first(pool).is_some()
                                && self.has_place(ix)
                                && !self.waits_for_upstream(ix, slot) =>
                        {
                            Considered::Held(why)
                        }
                        Some(_) | None => self.consider(now, ix, slot, budget),
                    };
                    (slot, considered)
                }
            }
        };
        if let Considered::Held(why) = considered {
            self.jobs.hold(ix, slot, why, now.wall);
            self.fleet.wake(pool);
            if let Some(deadline) = self.start_deadline(ix, slot) {
                let wait = u64::try_from(deadline.0.saturating_sub(now.wall.0)).unwrap_or(0);
                self.timers.add(now.mono.plus(wait + 1), Timer::HeldDeadline(ix));
            }
        }
    }

    fn retry_held(&mut self, now: Now, pool: PoolIx, budget: &mut Budget) -> bool {
        // Behind the front they waited for what the front waited for.
        let waited_for = self.fleet.pool(pool).blocked;
        while let Some((slot, ix)) = self.jobs.held_first(pool) {
            if !self.may_write(ix) {
                return false;
            }
            if let Some(why) = waited_for {
                self.jobs.set_held_why(ix, why);
            }
            let considered = match self.after_freeze(now, ix, slot) {
                // It was due before the freeze, and its start lies after the thaw.
                Thawing::Usual if self.hold_for_jitter(now, ix, slot) => Considered::Covered,
                Thawing::Usual if self.hold_for_pace(now, ix, slot) => Considered::Covered,
                Thawing::Usual => self.consider(now, ix, slot, budget),
                Thawing::Covered => Considered::Covered,
                // It waits for its jitter now, and no longer for its pool.
                Thawing::Newest(slot) if self.hold_for_jitter(now, ix, slot) => Considered::Covered,
                Thawing::Newest(slot) => self.consider_thawed(now, ix, slot, budget),
                Thawing::Later(_) => Considered::Held(Why::Thawing),
            };
            match considered {
                Considered::Covered => {}
                Considered::Held(why) => {
                    self.fleet.pool_mut(pool).blocked = Some(why);
                    self.jobs.set_held_why(ix, why);
                    return true;
                }
            }
        }
        true
    }

    /// The gate for a slot that a freeze had held, counted by the pace of its thaw.
    fn consider_thawed(&mut self, now: Now, ix: JobIx, slot: UnixMs, budget: &mut Budget) -> Considered {
        let considered = self.consider(now, ix, slot, budget);
        if matches!(considered, Considered::Covered) {
            self.freezes.count_fired();
        }
        considered
    }

    /// A held slot's start deadline may have passed.
    pub(super) fn held_deadline(&mut self, now: Now, ix: JobIx) {
        if !self.jobs.holds(ix) {
            return;
        }
        let Place::Held { slot, .. } = self.jobs.get(ix).place else { return };
        let Some(deadline) = self.start_deadline(ix, slot) else { return };
        let is_frozen = self.is_frozen(self.jobs.get(ix).app);
        if deadline < now.wall && self.clock.is_good() && self.may_write(ix) && !is_frozen {
            self.skip(now, ix, slot, Why::StartDeadline);
        } else {
            let wait = u64::try_from(deadline.0.saturating_sub(now.wall.0)).unwrap_or(0);
            let wait = if self.clock.is_good() && !is_frozen { wait + 1 } else { 1_000 };
            self.timers.add(now.mono.plus(wait), Timer::HeldDeadline(ix));
        }
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
        self.write_row(now, ix, Origin::Schedule, (first, last, slots), (state, why), None);
    }

    /// A row without a run, for these slots: the first, the last, and how many. Returns its id.
    pub(super) fn write_row(
        &mut self,
        now: Now,
        ix: JobIx,
        origin: Origin,
        (first, last, slots): (UnixMs, UnixMs, u64),
        (state, why): (RunState, Why),
        param: Option<Arc<str>>,
    ) -> RunId {
        let id = RunId(self.mint());
        let live = self.jobs.get(ix);
        let (app, job, version) = (live.app, live.id, live.version);
        if live.is_watched {
            self.pipeline.after(After::Ended(job));
        }
        if origin == Origin::Schedule {
            self.fired(last);
        }
        self.stats.slot(app, state, Some(why), slots);
        self.pipeline.write(Row::Run(Box::new(Run {
            id,
            app,
            job,
            version,
            origin,
            slot: first,
            slot_last: last,
            slots,
            state,
            why: Some(why),
            shards: 0,
            at: now.wall,
            ended_at: Some(now.wall),
            param,
        })));
        id
    }

    /// Moves a job on from a slot that is covered. What became late while our own valve held it is excused.
    pub(super) fn advance(&mut self, now: Now, ix: JobIx, slot: UnixMs) {
        self.cover(ix, slot);
        if let Place::Held { why, .. } = self.jobs.get(ix).place
            && why.is_valve()
        {
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

    /// Arms a fixed-delay job's next instant, the first that its calendar leaves open; durable with the open batch.
    /// If none is left, the job is finished.
    pub(super) fn arm_delay(&mut self, now: Now, ix: JobIx, after: UnixMs) {
        let delay = self.jobs.get(ix).schedule.as_ref().and_then(rota_cron::Schedule::delay_ms).unwrap_or(0);
        let base = if self.clock.is_good() { now.wall } else { self.covered_until(now) };
        let at = base.plus_ms(i64::try_from(delay).unwrap_or(i64::MAX));
        // After a small step back of the clock it waits for its turn; after a large one it goes on.
        let is_small_step = after.0.saturating_sub(at.0) <= self.config.late_max_ms;
        let at = if is_small_step { at.max(after.plus_ms(1)) } else { at };
        match self.open_instant(ix, at) {
            Some(at) => {
                self.jobs.arm(ix, at);
                self.touched.push(ix);
            }
            None => {
                self.jobs.rest(ix);
                self.finish_job(now, ix);
            }
        }
    }

    /// The first instant from `at` on that a fixed-delay job's calendar leaves open.
    fn open_instant(&self, ix: JobIx, at: UnixMs) -> Option<UnixMs> {
        let schedule = self.jobs.get(ix).schedule.as_ref()?;
        let open = schedule.first_open(at)?;
        if open == at || open > self.fired_max {
            return Some(open);
        }
        // The edge of a calendar is the same instant each time: after a step back of the clock it may have a row
        // already. After a large step the job goes on, told apart by its milliseconds.
        let is_small_step = self.fired_max.0.saturating_sub(open.0) <= self.config.late_max_ms;
        let from = if is_small_step { self.fired_max.plus_ms(1) } else { open.plus_ms(1 + at.0.rem_euclid(999)) };
        schedule.first_open(from)
    }

    pub(super) fn finish_job(&mut self, now: Now, ix: JobIx) {
        if !matches!(self.jobs.get(ix).state, JobState::Enabled | JobState::Paused) {
            return;
        }
        self.jobs.set_state(ix, JobState::Finished);
        let job = self.jobs.get(ix).id;
        self.touched.push(ix);
        let by = "schedule".into();
        self.pipeline.write_last(Row::JobState { job, state: JobState::Finished, at: now.wall, by, reason: None });
    }
}
