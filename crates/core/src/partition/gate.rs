//! The gate: whether a slot that is due may become a run now.
//!
//! In this order, each with its own reason: nothing is frozen; the job is enabled (only enabled jobs are on the timeline);
//! lateness; upstream jobs; overlap; backpressure; rate. Rates are kept where a worker is chosen. What may not enter now is
//! held: no row, no loss, looked at again each pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Machine;
use super::fleet::WorkerIx;
use super::jobs::JobIx;
use crate::batch::{Origin, RunState};
use crate::id::AppId;
use crate::overlap::Verdict;
use crate::time::{Now, UnixMs};
use crate::why::Why;

/// What one pass may admit.
#[derive(Debug)]
pub(super) struct Budget {
    apps: BTreeMap<AppId, u32>,
    server: u32,
}

impl Budget {
    pub(super) fn new(server: u32) -> Budget {
        Budget { apps: BTreeMap::new(), server }
    }

    /// Shards that the server may still admit in this pass.
    pub(super) fn server_left(&self) -> u32 {
        self.server
    }

    /// So many shards enter, of an app that has so many left.
    pub(super) fn spend(&mut self, app: AppId, left: u32, shards: u32) {
        self.apps.insert(app, left.saturating_sub(shards));
        self.server = self.server.saturating_sub(shards);
    }
}

/// What became of a slot.
pub(super) enum Considered {
    /// It has a row.
    Covered,
    /// It waits, for this reason.
    Held(Why),
}

impl Machine {
    /// Gate and route of one slot that was judged.
    pub(super) fn consider(&mut self, now: Now, ix: JobIx, slot: UnixMs, budget: &mut Budget) -> Considered {
        if self.is_frozen(self.jobs.get(ix).app) {
            return Considered::Held(Why::Frozen);
        }
        if self.start_deadline(ix, slot).is_some_and(|deadline| deadline < now.wall) {
            self.skip(now, ix, slot, Why::StartDeadline);
            return Considered::Covered;
        }
        if self.jobs.get(ix).policy.after.is_some() && self.stops_at_upstream(now, ix, slot) {
            return Considered::Covered;
        }
        let Some(verdict) = self.overlap_slot(now, ix, slot) else { return Considered::Covered };
        let live = self.jobs.get(ix);
        let (app, sharding) = (live.app, live.policy.sharding);
        let shards = match self.shards_now(ix) {
            Ok(shards) => shards,
            Err(Why::TooManyWorkers) => 0, // it is made nonetheless, and says so
            Err(why) => return Considered::Held(why),
        };
        let left = self.app_budget(app, budget);
        if let Err(why) = self.may_enter(app, shards, left, budget.server) {
            return Considered::Held(why);
        }
        // Whoever takes another run's place may have to wait for what that occupies; a broadcast waits in its shards.
        let first = match sharding.is_broadcast {
            true => None,
            false => match self.pick_for(ix, now) {
                Ok(worker) => Some(worker),
                Err(_) if verdict == Verdict::Replace => None,
                Err(why) => return Considered::Held(why),
            },
        };
        budget.spend(app, left, shards);
        self.begin_slot(now, ix, slot, verdict, first);
        Considered::Covered
    }

    /// Chooses a worker for a job's next run.
    fn pick_for(&mut self, ix: JobIx, now: Now) -> Result<WorkerIx, Why> {
        let live = self.jobs.get(ix);
        self.fleet.pick(live.pool, &live.policy.routing, live.id, &[], now.mono)
    }

    /// Makes the run of a slot that overlap lets begin, in the place of others if the verdict says so.
    pub(super) fn begin_slot(&mut self, now: Now, ix: JobIx, slot: UnixMs, verdict: Verdict, first: Option<WorkerIx>) {
        if verdict == Verdict::Replace {
            let body = Arc::clone(&self.jobs.get(ix).body);
            self.clear_places(now, ix, &body, None);
        }
        self.admit(now, ix, slot, Origin::Schedule, None, first);
        self.count_caught_up(now, ix, slot);
        self.advance(now, ix, slot);
    }

    /// Whether a run of so many shards may enter beside what its app and the server may still admit, or
    /// whose valve holds it. A run wider than the cap enters alone.
    pub(super) fn may_enter(&self, app: AppId, shards: u32, app_left: u32, server_left: u32) -> Result<(), Why> {
        let app = self.fleet.app(app).expect("an app enters the machine before its jobs");
        let is_too_wide = shards > app.app.pending_max.min(self.config.pending_max);
        if is_too_wide && app.pending == 0 {
            return Ok(());
        }
        if shards > app_left {
            return Err(Why::Cap);
        }
        if shards > server_left { Err(Why::ServerCap) } else { Ok(()) }
    }

    /// Shards that the app may still admit in this pass.
    pub(super) fn app_budget(&self, app: AppId, budget: &mut Budget) -> u32 {
        *budget
            .apps
            .entry(app)
            .or_insert_with(|| self.fleet.app(app).map_or(0, |a| progressive(a.app.pending_max, a.pending)))
    }

    pub(super) fn start_deadline(&self, ix: JobIx, slot: UnixMs) -> Option<UnixMs> {
        let start_ms = self.jobs.get(ix).policy.timeout.start_ms?;
        Some(self.starts_at(ix, slot).plus_ms(i64::try_from(start_ms).unwrap_or(i64::MAX)))
    }

    /// Covers a slot with a row that says why it had no run, and goes on.
    pub(super) fn skip(&mut self, now: Now, ix: JobIx, slot: UnixMs, why: Why) {
        self.write_gap(now, ix, slot, slot, 1, RunState::Skipped, why);
        self.advance(now, ix, slot);
    }
}

/// What may enter in one pass: all that is left up to half the cap, half of what is left beyond it,
/// so that admission slows down as the queue grows.
pub(super) fn progressive(cap: u32, pending: u32) -> u32 {
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
