//! Slots that wait for upstream jobs: due, held without a row, and put back on the timeline once what they wait for is
//! known.
//!
//! A machine does not judge upstream jobs, which may lie in other partitions: it asks, and acts on the answer in its usual
//! pass. The answer is kept in memory only: a restart asks again, and facts that are final do not change. Whoever waits
//! here is in no queue, so that nobody waits behind it, and least of all what it waits for.

use super::effect::AskUpstream;
use super::jobs::{JobIx, Place};
use super::pipeline::After;
use super::timer::Timer;
use super::{Machine, planted};
use crate::id::{JobId, id_floor};
use crate::time::{Now, UnixMs};
use crate::upstream::{ID_LAG_MS, Period, wait_max_ms};
use crate::why::Why;

/// How far ahead a timer is trusted: the wall clock may be set while it runs.
const LOOK_MS: u64 = 10_000;
/// Beyond the deadline, what an answer that is on its way may take.
const GRACE_MS: i64 = 10_000;

impl Machine {
    /// Whether a slot goes no further than its upstream jobs: it waits for them, or was covered because of them.
    pub(super) fn stops_at_upstream(&mut self, now: Now, ix: JobIx, slot: UnixMs) -> bool {
        if planted!(self.config, UpstreamIgnored) {
            return false;
        }
        match self.upstream_verdict(ix, slot) {
            Some(Ok(())) => false,
            Some(Err(why)) => {
                self.skip(now, ix, slot, why);
                true
            }
            None => {
                self.jobs.hold(ix, slot, Why::Upstream, now.wall);
                self.ask_upstream(ix, slot);
                self.watch_upstream(now, ix, slot);
                true
            }
        }
    }

    /// Whether a job has upstream jobs of which it is not known that they are done for a slot.
    pub(super) fn waits_for_upstream(&self, ix: JobIx, slot: UnixMs) -> bool {
        self.jobs.get(ix).policy.after.is_some() && self.upstream_verdict(ix, slot) != Some(Ok(()))
    }

    fn upstream_verdict(&self, ix: JobIx, slot: UnixMs) -> Option<Result<(), Why>> {
        self.jobs.upstreams.get(&ix).filter(|(judged, _)| *judged == slot).map(|(_, verdict)| *verdict)
    }

    fn ask_upstream(&mut self, ix: JobIx, slot: UnixMs) {
        let live = self.jobs.get(ix);
        let edges = live.policy.after.clone().expect("only a job with upstream jobs waits for some");
        let previous = live.schedule.as_ref().and_then(|schedule| schedule.prev_before(slot));
        let job = live.id;
        self.asks.push(AskUpstream { job, slot, previous, edges });
    }

    /// Looks again at the latest when the wait is over.
    fn watch_upstream(&mut self, now: Now, ix: JobIx, slot: UnixMs) {
        let by = self.upstream_by(ix, slot);
        let by = self.start_deadline(ix, slot).map_or(by, |deadline| deadline.min(by));
        let wait = u64::try_from(by.0.saturating_sub(now.wall.0)).unwrap_or(0);
        self.timers.add(now.mono.plus((wait + 1).min(LOOK_MS)), Timer::Upstream(ix));
    }

    fn upstream_by(&self, ix: JobIx, slot: UnixMs) -> UnixMs {
        let wait_ms = self.jobs.get(ix).policy.after.as_deref().map_or(0, wait_max_ms);
        slot.plus_ms(i64::try_from(wait_ms).unwrap_or(i64::MAX)).plus_ms(GRACE_MS)
    }

    /// A slot may have waited too long for its upstream jobs.
    pub(super) fn upstream_over(&mut self, now: Now, ix: JobIx) {
        if !self.jobs.holds(ix) {
            return;
        }
        let Place::Held { slot, why: Why::Upstream, .. } = self.jobs.get(ix).place else { return };
        if !self.clock.is_good() {
            self.timers.add(now.mono.plus(LOOK_MS), Timer::Upstream(ix));
        } else if self.start_deadline(ix, slot).is_some_and(|deadline| deadline < now.wall) {
            self.jobs.arm(ix, slot); // the gate covers it
        } else if self.upstream_by(ix, slot) < now.wall {
            self.settle_upstream(ix, slot, Err(Why::UpstreamDeadline));
        } else {
            self.watch_upstream(now, ix, slot);
        }
    }

    /// What was asked is known.
    pub(super) fn upstream_judged(&mut self, job: JobId, slot: UnixMs, verdict: Result<(), Why>) {
        let Some(ix) = self.jobs.find(job) else { return };
        let place = self.jobs.get(ix).place;
        if matches!(place, Place::Held { slot: held, why: Why::Upstream, .. } if held == slot) {
            self.settle_upstream(ix, slot, verdict);
        }
    }

    /// The slot goes back to the gate, with what it was held for. That it is late by now is no misfire.
    fn settle_upstream(&mut self, ix: JobIx, slot: UnixMs, verdict: Result<(), Why>) {
        self.jobs.upstreams.insert(ix, (slot, verdict));
        if !self.jobs.is_excused(ix, slot) {
            self.jobs.excuse(ix, slot);
        }
        self.jobs.arm(ix, slot);
    }

    /// Somebody waits for runs of a job. What ended before this is durable with the open batch, so a word then, and a
    /// word for everything that ends later, leave nothing unheard.
    pub(super) fn watch_ends(&mut self, job: JobId) {
        if let Some(ix) = self.jobs.find(job) {
            self.jobs.get_mut(ix).is_watched = true;
            self.pipeline.after(After::Ended(job));
        }
    }

    /// The lowest id of a row that a slot which waits may need to be judged by.
    pub(super) fn upstream_floor(&self) -> u64 {
        let waiting = self.jobs.timed().filter(|((_, why), _)| *why == Why::Upstream).flat_map(|(_, all)| all);
        let first = waiting.map(|(slot, _, ix)| {
            let live = self.jobs.get(*ix);
            let has_window =
                live.policy.after.iter().flat_map(|edges| edges.iter()).any(|e| e.period == Period::Window);
            let before = live.schedule.as_ref().filter(|_| has_window).and_then(|schedule| schedule.prev_before(*slot));
            before.unwrap_or(*slot)
        });
        first.min().map_or(u64::MAX, |slot| id_floor(UnixMs(slot.0.saturating_sub(ID_LAG_MS))))
    }
}
