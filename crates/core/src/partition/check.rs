//! The invariants of a machine's own state, for tests and simulations to ask after every step.

use std::collections::BTreeMap;

use super::Machine;
use super::jobs::Place;
use super::runs::{Life, Phase};
use crate::batch::Exception;
use crate::job::JobState;

impl Machine {
    /// Recounts everything that is kept beside what it is derived from. The error names what differs.
    pub fn check(&self) -> Result<(), String> {
        self.check_runs()?;
        self.check_loads()?;
        self.check_pending()?;
        self.check_jobs()?;
        self.check_places()?;
        self.check_backfills()?;
        self.check_notes()
    }

    fn check_runs(&self) -> Result<(), String> {
        for run in self.runs.runs.values() {
            let attempts = || run.shards.iter().flat_map(|shard| &shard.attempts).map(|id| &self.runs.attempts[id]);
            let live = attempts().filter(|attempt| !attempt.has_ended()).count();
            let unreleased = attempts().filter(|attempt| attempt.released_at.is_none()).count();
            let open = run.shards.iter().filter(|shard| !matches!(shard.phase, Phase::Settled(..))).count();
            let counted = (run.live as usize, run.unreleased as usize, run.open_shards as usize);
            if counted != (live, unreleased, open) {
                return Err(format!("{}: counted {counted:?}, found {:?}", run.id, (live, unreleased, open)));
            }
            if run.state.is_terminal() && (live > 0 || open > 0) {
                return Err(format!("{} is {:?} with {live} live attempts and {open} open shards", run.id, run.state));
            }
            if !run.state.is_terminal() && live == 0 && open == 0 {
                return Err(format!("{} is {:?} with nothing left to wait for", run.id, run.state));
            }
        }
        let in_doubt = self.runs.attempts.values().filter(|a| matches!(a.life, Life::InDoubt(_))).count() as u64;
        if in_doubt != self.runs.in_doubt {
            return Err(format!("{} in doubt, counted {}", in_doubt, self.runs.in_doubt));
        }
        Ok(())
    }

    fn check_loads(&self) -> Result<(), String> {
        for (ix, live) in self.fleet.workers() {
            let own = || self.runs.attempts.values().filter(|a| a.worker == ix && a.released_at.is_none());
            if own().count() != live.attempts.len() {
                let name = &live.registration.name;
                return Err(format!("{name}: load {}, unreleased attempts {}", live.attempts.len(), own().count()));
            }
            let weight: u64 = own().map(|attempt| self.runs.run(attempt.run).policy.routing.weight).sum();
            if weight != live.weight {
                return Err(format!("{}: weight {}, found {weight}", live.registration.name, live.weight));
            }
            let credits = own().filter(|attempt| attempt.has_credit).count();
            if credits != live.sending as usize {
                return Err(format!("{}: {} credits out, counted {}", live.registration.name, credits, live.sending));
            }
        }
        self.fleet.check_standings()
    }

    fn check_pending(&self) -> Result<(), String> {
        let mut pending = BTreeMap::new();
        let mut placed = 0;
        for run in self.runs.runs.values() {
            for shard in &run.shards {
                let is_pending = match shard.phase {
                    Phase::Waiting => true,
                    Phase::Active(id) => self.runs.attempts[&id].life == Life::Committing,
                    Phase::Parked | Phase::Backoff(_) | Phase::Settled(..) => false,
                };
                placed += u32::from(is_pending && shard.phase != Phase::Waiting);
                *pending.entry(run.app).or_insert(0u32) += u32::from(is_pending);
            }
        }
        if placed != self.fleet.placed() {
            return Err(format!("{placed} shards placed, counted {}", self.fleet.placed()));
        }
        for app in self.fleet.apps() {
            let found = pending.get(&app.app.id).copied().unwrap_or(0);
            if found != app.pending {
                return Err(format!("app {}: {found} shards pending, counted {}", app.app.id, app.pending));
            }
        }
        Ok(())
    }

    fn check_jobs(&self) -> Result<(), String> {
        let mut holders = BTreeMap::new();
        for run in self.runs.runs.values() {
            *holders.entry(run.job).or_insert(0u32) += 1;
        }
        for (_, live) in self.jobs.all() {
            let found = holders.get(&live.id).copied().unwrap_or(0);
            if found != live.holders {
                return Err(format!("job {}: {found} runs hold its place, counted {}", live.id, live.holders));
            }
            let is_armed = live.place != Place::Rest;
            if live.state != JobState::Enabled && is_armed {
                return Err(format!("job {} is {:?} and armed", live.id, live.state));
            }
            let is_delay = live.kind() == Some(rota_cron::Kind::Delay);
            if is_delay && live.state == JobState::Enabled && is_armed == (live.scheduled_open > 0) {
                return Err(format!(
                    "fixed-delay job {}: armed {is_armed}, open scheduled runs {}",
                    live.id, live.scheduled_open
                ));
            }
            if let (Some(Exception::Armed(at)), Place::Timeline(slot)) = (live.stored, live.place)
                && live.is_armed_kind()
                && at != slot
                && !self.pipeline.has_open()
            {
                return Err(format!("job {}: armed at {at} in the store, at {slot} here", live.id));
            }
        }
        Ok(())
    }
}
