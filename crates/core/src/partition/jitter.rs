//! Slots that wait for their jitter: due, held without a row, and put back on the timeline when they may start.
//!
//! They are held like others, so that mark and exceptions know them, but among none that wait for a pool: they wait for a time and
//! hold nobody up. A job stands at one slot at a time, so none of its slots overtakes another; and since each starts at
//! most the whole jitter after itself, so does the next.

use super::Machine;
use super::jobs::{JobIx, Place};
use super::planted;
use super::timer::Timer;
use crate::jitter;
use crate::time::{Now, UnixMs};
use crate::upstream;
use crate::why::Why;

/// How far ahead a timer is trusted: the wall clock may be set while it runs.
const LOOK_MS: u64 = 10_000;

impl Machine {
    /// The instant at which a slot starts.
    pub(super) fn starts_at(&self, ix: JobIx, slot: UnixMs) -> UnixMs {
        let live = self.jobs.get(ix);
        slot.plus_ms(ms(jitter::offset_ms(live.id, slot, live.policy.jitter_ms)))
    }

    /// The latest instant at which a slot may start without being late.
    pub(super) fn starts_by(&self, ix: JobIx, slot: UnixMs) -> UnixMs {
        let policy = &self.jobs.get(ix).policy;
        let upstream_ms = policy.after.as_deref().map_or(0, upstream::wait_max_ms);
        slot.plus_ms(ms(policy.jitter_ms)).plus_ms(ms(upstream_ms))
    }

    /// Holds a slot whose start lies ahead. Returns whether it did.
    pub(super) fn hold_for_jitter(&mut self, now: Now, ix: JobIx, slot: UnixMs) -> bool {
        let start = self.starts_at(ix, slot);
        if start <= now.wall || planted!(self.config, JitterIgnored) {
            return false;
        }
        self.jobs.hold(ix, slot, Why::Jitter, now.wall);
        self.watch_jitter(now, ix, start);
        true
    }

    fn watch_jitter(&mut self, now: Now, ix: JobIx, start: UnixMs) {
        let wait = u64::try_from(start.0.saturating_sub(now.wall.0)).unwrap_or(0);
        self.timers.add(now.mono.plus(wait.min(LOOK_MS)), Timer::Jitter(ix));
    }

    /// A job's slot may have waited long enough.
    pub(super) fn jitter_over(&mut self, now: Now, ix: JobIx) {
        if !self.jobs.holds(ix) {
            return;
        }
        let Place::Held { slot, why: Why::Jitter, .. } = self.jobs.get(ix).place else { return };
        let start = self.starts_at(ix, slot);
        if start <= now.wall { self.jobs.arm(ix, slot) } else { self.watch_jitter(now, ix, start) }
    }
}

fn ms(ms: u64) -> i64 {
    i64::try_from(ms).expect("both are bounded to days")
}
