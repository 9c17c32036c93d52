//! The three deadlines of a run: its first dispatch, each attempt, and the whole of it. Each is kept by
//! the server, whether or not a worker cooperates.

use super::runs::{Cause, Life, Phase, Shard};
use super::settle::Place;
use super::timer::Timer;
use super::{Machine, planted};
use crate::batch::{AttemptState, Origin, RunState};
use crate::id::{AttemptId, RunId};
use crate::jitter;
use crate::time::{Now, UnixMs};
use crate::why::Why;

impl Machine {
    /// Milliseconds for which a run has waited for its first dispatch. The slot of a rerun, of a child or of a
    /// backfill's run is one of the past, or of another run, and says nothing of that.
    fn waited_ms(&self, now: Now, id: RunId) -> Option<u64> {
        let run = self.runs.run(id);
        let jitter_ms = match run.origin {
            Origin::Rerun | Origin::Backfill | Origin::Upstream => return None,
            Origin::Manual | Origin::Api => 0,
            Origin::Schedule => jitter::offset_ms(run.job, run.slot, run.policy.jitter_ms),
        };
        let start = run.slot.plus_ms(i64::try_from(jitter_ms).unwrap_or(i64::MAX));
        Some(u64::try_from(now.wall.0.saturating_sub(start.0)).unwrap_or(0))
    }

    pub(super) fn watch_start(&mut self, now: Now, id: RunId) {
        if let Some(start_ms) = self.runs.run(id).policy.timeout.start_ms {
            let waited = self.waited_ms(now, id).unwrap_or(0);
            let at = now.mono.plus(start_ms.saturating_sub(waited));
            self.timers.add(at, Timer::StartDeadline(id));
        }
    }

    /// Watches how long a run takes that was made at `made_at`. A run that is over its time when a term
    /// begins is so from its first step on.
    pub(super) fn watch_run(&mut self, now: Now, id: RunId, made_at: UnixMs) {
        let run = self.runs.run_mut(id);
        let Some(run_ms) = run.policy.timeout.run_ms else { return };
        if run.state.is_terminal() {
            return;
        }
        let gone = u64::try_from(now.wall.0.saturating_sub(made_at.0)).unwrap_or(0);
        let at = now.mono.plus(run_ms.saturating_sub(gone));
        run.is_overdue = gone >= run_ms;
        run.deadline = Some(at);
        self.timers.add(at, Timer::RunDeadline(id));
    }

    /// A run has taken too long: what runs is stopped, what waits is over, and nothing is tried again.
    pub(super) fn run_deadline_over(&mut self, now: Now, id: RunId) {
        let Some(run) = self.runs.runs.get_mut(&id) else { return };
        if run.state.is_terminal() || run.killed.is_some() {
            return;
        }
        run.is_overdue = true;
        run.deadline = None;
        let phases: Vec<(u32, Phase)> = (0..).zip(run.shards.iter().map(|shard| shard.phase)).collect();
        let end_by = now.mono.plus(self.config.timing.kill_grace_ms);
        for (shard, phase) in phases {
            match phase {
                Phase::Parked | Phase::Waiting | Phase::Backoff(_) => {
                    self.settle(id, shard, RunState::Timeout, Some(Why::RunTimeout));
                }
                Phase::Active(attempt) => match self.runs.attempt(attempt).map(|attempt| attempt.life) {
                    Some(Life::Committing | Life::Sending | Life::Running | Life::InDoubt(_)) => {
                        self.stop(now, attempt, Cause::Timeout { end_by, why: Why::RunTimeout });
                    }
                    Some(Life::Stopping(_) | Life::Ended(_)) | None => {}
                },
                Phase::Settled(..) => {}
            }
        }
        if self.runs.runs.contains_key(&id) {
            self.try_finish(now, id);
        }
    }

    pub(super) fn attempt_timeout(&mut self, now: Now, id: AttemptId) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        if attempt.life == Life::Running {
            let end_by = now.mono.plus(self.config.timing.kill_grace_ms);
            self.stop(now, id, Cause::Timeout { end_by, why: Why::AttemptTimeout });
            if planted!(self.config, ReleaseAtTimeout) {
                self.end(now, id, AttemptState::Timeout, Some(Why::AttemptTimeout), None, Place::Released);
            }
        }
    }

    /// Shards that never got to a worker end with their run's start deadline.
    pub(super) fn start_deadline_over(&mut self, now: Now, id: RunId) {
        let Some(run) = self.runs.runs.get(&id) else { return };
        let Some(start_ms) = run.policy.timeout.start_ms else { return };
        if !self.clock.is_good() {
            self.timers.add(now.mono.plus(1_000), Timer::StartDeadline(id));
            return;
        }
        // The wall clock may have been set since the timer was.
        if self.waited_ms(now, id).is_some_and(|waited| waited < start_ms) {
            self.watch_start(now, id);
            return;
        }
        let not_started = |id: &AttemptId| self.runs.attempts[id].life == Life::Ended(AttemptState::NotStarted);
        let waits = |phase| matches!(phase, Phase::Parked | Phase::Waiting);
        let never_ran = |shard: &Shard| waits(shard.phase) && shard.attempts.iter().all(not_started);
        let waiting: Vec<u32> =
            (0..).zip(&run.shards).filter(|(_, shard)| never_ran(shard)).map(|(at, _)| at).collect();
        for shard in waiting {
            let was_refused = !self.runs.run(id).shards[shard as usize].attempts.is_empty();
            let why = if was_refused { Why::DispatchFailed } else { Why::StartDeadline };
            self.settle(id, shard, RunState::Failed, Some(why));
        }
        self.try_finish(now, id);
    }
}
