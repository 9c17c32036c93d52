//! The ends of attempts, shards and runs, and what follows: release, retry, the next arming.

use std::sync::Arc;

use rota_cron::Kind;

use super::message::Outcome;
use super::pipeline::After;
use super::runs::{Cause, Life, Phase, Run, Shard};
use super::timer::Timer;
use super::{Machine, planted};
use crate::batch::{AttemptState, Origin, Row, RunState};
use crate::id::{AttemptId, RunId};
use crate::job::{Delivery, JobState};
use crate::limits;
use crate::shards::Success;
use crate::time::Now;
use crate::why::Why;

/// Whether an attempt's place is given away with its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It is proven that nothing runs any more.
    Released,
    /// Code may still run.
    Kept,
}

impl Machine {
    /// Ends an attempt, once.
    pub(super) fn end(
        &mut self,
        now: Now,
        id: AttemptId,
        state: AttemptState,
        why: Option<Why>,
        message: Option<Arc<str>>,
        place: Place,
    ) {
        assert!(state.is_terminal(), "an attempt ends in a final state");
        let attempt = self.runs.attempt_mut(id);
        assert!(!attempt.has_ended(), "an attempt ends once");
        let (run, shard, before) = (attempt.run, attempt.shard, attempt.life);
        attempt.life = Life::Ended(state);
        attempt.why = why;
        attempt.message = message.or_else(|| attempt.message.take());
        attempt.ended_at = Some(now.wall);
        if let Some(due) = attempt.timeout_at.take() {
            self.timers.remove(due, Timer::AttemptTimeout(id));
        }
        if matches!(before, Life::InDoubt(_)) {
            self.runs.in_doubt -= 1;
        }
        if before == Life::Committing {
            let app = self.runs.run(run).app;
            self.fleet.take_placed(app);
        }
        self.runs.run_mut(run).live -= 1;
        match place {
            Place::Released => self.let_go(now, id),
            Place::Kept => {
                let release_at = now.mono.plus(self.config.timing.release_after_ms);
                self.runs.attempt_mut(id).release_at = release_at;
                self.timers.add(release_at, Timer::Release(id));
            }
        }
        let row = self.attempt_row(id);
        self.pipeline.write(Row::AttemptSet(Box::new(row)));
        self.after_attempt(now, run, shard, state, why, place);
        self.try_finish(now, run);
    }

    /// Gives an ended attempt's place away, and writes that.
    pub(super) fn release(&mut self, now: Now, id: AttemptId) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        assert!(attempt.has_ended(), "an attempt is released at its end or after it");
        if attempt.released_at.is_some() {
            return;
        }
        let run = attempt.run;
        self.let_go(now, id);
        let row = self.attempt_row(id);
        self.pipeline.write(Row::AttemptSet(Box::new(row)));
        self.try_forget(run);
    }

    fn let_go(&mut self, now: Now, id: AttemptId) {
        let attempt = self.runs.attempt_mut(id);
        assert!(attempt.released_at.is_none(), "an attempt is released once");
        attempt.released_at = Some(now.wall);
        let (run, worker) = (attempt.run, attempt.worker);
        let weight = self.runs.run(run).policy.routing.weight;
        self.give_credit_back(id);
        self.fleet.vacate(worker, id, weight);
        self.runs.run_mut(run).unreleased -= 1;
    }

    pub(super) fn give_credit_back(&mut self, id: AttemptId) {
        let attempt = self.runs.attempt_mut(id);
        if std::mem::take(&mut attempt.has_credit) {
            let worker = attempt.worker;
            self.fleet.take_credit_back(worker);
        }
    }

    /// What an attempt's end means for its shard.
    pub(super) fn after_attempt(
        &mut self,
        now: Now,
        id: RunId,
        shard: u32,
        state: AttemptState,
        why: Option<Why>,
        place: Place,
    ) {
        let run = self.runs.run(id);
        let phase = run.shards[shard as usize].phase;
        if matches!(phase, Phase::Settled(..)) {
            return;
        }
        if let Some((state, why)) = run.decided(shard) {
            self.settle(id, shard, state, Some(why));
            return;
        }
        let is_spent = run.shards[shard as usize].attempts.len() >= limits::ATTEMPTS_MAX as usize;
        let is_overdue = run.is_overdue;
        match state {
            AttemptState::Success => self.settle(id, shard, RunState::Success, None),
            AttemptState::Killed => self.settle(id, shard, RunState::Killed, why),
            AttemptState::NotStarted if is_overdue => {
                self.settle(id, shard, RunState::Timeout, Some(Why::RunTimeout));
            }
            AttemptState::NotStarted if is_spent => {
                self.settle(id, shard, RunState::Failed, Some(Why::AttemptsSpent));
            }
            AttemptState::NotStarted => self.wait_again(now, id, shard),
            AttemptState::Failed => self.retry_or_settle(now, id, shard, RunState::Failed, why, true),
            AttemptState::Timeout => {
                let may_retry = run.policy.delivery == Delivery::AtLeastOnce || place == Place::Released;
                self.retry_or_settle(now, id, shard, RunState::Timeout, why, may_retry);
            }
            AttemptState::Lost if run.policy.delivery == Delivery::AtMostOnce => {
                self.settle(id, shard, RunState::Lost, why);
            }
            // A doubt that nothing resolved costs none of the job's retries.
            AttemptState::Lost if why == Some(Why::InDoubt) && !is_spent && !is_overdue => {
                self.wait_again(now, id, shard);
            }
            AttemptState::Lost => self.lost(now, id, shard, why),
            AttemptState::Dispatched | AttemptState::Running | AttemptState::InDoubt | AttemptState::Stopping => {
                unreachable!("an attempt ends in a final state")
            }
        }
    }

    pub(super) fn retry_or_settle(
        &mut self,
        now: Now,
        id: RunId,
        shard: u32,
        state: RunState,
        why: Option<Why>,
        may_retry: bool,
    ) {
        let run = self.runs.run(id);
        let live = &run.shards[shard as usize];
        let retry = run.policy.retry;
        let is_spent = live.attempts.len() >= limits::ATTEMPTS_MAX as usize || live.charged >= retry.max;
        let is_wanted = retry.when.includes(state) && !run.is_overdue && !self.is_deleted(id);
        if !may_retry || is_spent || !is_wanted {
            self.settle(id, shard, state, why);
            return;
        }
        // Counted from the end of the attempt before, which after a restart lies in the past.
        let ended_at = live.attempts.last().and_then(|id| self.runs.attempt(*id)).and_then(|a| a.ended_at);
        let gone = ended_at.map_or(0, |at| u64::try_from(now.wall.0.saturating_sub(at.0)).unwrap_or(0));
        let pause_ms = retry.pause_ms(id, shard, live.charged + 1);
        let due = now.mono.plus(pause_ms.saturating_sub(gone));
        let live = &mut self.runs.run_mut(id).shards[shard as usize];
        live.charged += 1;
        live.phase = Phase::Backoff(due);
        self.timers.add(due, Timer::Backoff(id, shard));
    }

    pub(super) fn is_deleted(&self, id: RunId) -> bool {
        let run = self.runs.run(id);
        self.jobs.find_at(run.place, run.job).is_none()
    }

    /// Puts a shard into its pool's queue again.
    pub(super) fn wait_again(&mut self, now: Now, id: RunId, shard: u32) {
        if self.is_deleted(id) {
            self.settle(id, shard, RunState::Discarded, Some(Why::Deleted));
            return;
        }
        let run = self.runs.run_mut(id);
        run.shards[shard as usize].phase = Phase::Waiting;
        let app = run.app;
        self.fleet.add_pending(app, 1);
        self.queue(id, shard);
        self.watch_start(now, id);
    }

    /// Settles a shard.
    pub(super) fn settle(&mut self, id: RunId, shard: u32, state: RunState, why: Option<Why>) {
        assert!(state.is_terminal(), "a shard is settled in a final state");
        let run = self.runs.run_mut(id);
        let before = std::mem::replace(&mut run.shards[shard as usize].phase, Phase::Settled(state, why));
        assert!(!matches!(before, Phase::Settled(..)), "a shard is settled once");
        run.open_shards -= 1;
        if before == Phase::Waiting {
            let app = run.app;
            self.fleet.take_pending(app);
        }
    }

    /// Ends a run whose shards are settled and whose attempts have ended.
    pub(super) fn try_finish(&mut self, now: Now, id: RunId) {
        // What ended just before may have been all that the run was kept for.
        let Some(run) = self.runs.runs.get(&id) else { return };
        if run.state.is_terminal() || run.open_shards > 0 || run.live > 0 {
            self.try_forget(id);
            return;
        }
        let (state, why) = verdict(run, planted!(self.config, QuorumShort));
        let (app, job_id, origin, slot) = (run.app, run.job, run.origin, run.slot);
        let job = self.jobs.find_at(run.place, run.job);
        let run = self.runs.run_mut(id);
        run.state = state;
        if let Some(at) = run.deadline.take() {
            self.timers.remove(at, Timer::RunDeadline(id));
        }
        self.pipeline.write(Row::RunSet { run: id, job: job_id, state, why, ended_at: Some(now.wall) });
        self.stats.slot(app, state, why, 1);
        if let Some(live) = job.map(|ix| self.jobs.get(ix)).filter(|live| live.is_watched) {
            self.pipeline.after(After::Ended(live.id));
        }
        if origin == Origin::Schedule
            && let Some(ix) = job
        {
            let live = self.jobs.get_mut(ix);
            live.scheduled_open -= 1;
            let is_last = live.scheduled_open == 0 && live.state == JobState::Enabled;
            if is_last && live.kind() == Some(Kind::Delay) && live.place == super::jobs::Place::Rest {
                self.arm_delay(now, ix, slot);
            }
        }
        self.try_forget(id);
    }

    /// Forgets a run that is over and whose attempts are all released.
    fn try_forget(&mut self, id: RunId) {
        let run = self.runs.run(id);
        if !run.state.is_terminal() || run.unreleased > 0 {
            return;
        }
        let run = self.runs.runs.remove(&id).expect("it was just looked at");
        for attempt in run.shards.iter().flat_map(|shard| &shard.attempts) {
            self.runs.attempts.remove(attempt);
        }
        if run.is_listed {
            self.pipeline.write(Row::Listed { run: id, is_open: false });
        }
        if let Some(ix) = self.jobs.find_at(run.place, run.job) {
            self.jobs.get_mut(ix).holders -= 1;
            self.leave_place(ix, &run);
        }
        self.leave_backfill(&run);
    }

    /// A worker says how an attempt ended.
    pub(super) fn report(&mut self, now: Now, id: AttemptId, outcome: Outcome, message: Option<Arc<str>>) {
        let Some(attempt) = self.runs.attempt(id) else {
            self.stats.late_results += 1;
            return;
        };
        if attempt.has_ended() {
            self.late_report(now, id, outcome, message);
            return;
        }
        let (state, why) = match (outcome, attempt.life) {
            (Outcome::Success, _) => (AttemptState::Success, None),
            (Outcome::Failed(why), _) => (AttemptState::Failed, Some(why)),
            (Outcome::Killed | Outcome::Timeout, Life::Stopping(Cause::Timeout { why, .. })) => {
                (AttemptState::Timeout, Some(why))
            }
            (Outcome::Timeout, _) => (AttemptState::Timeout, Some(Why::AttemptTimeout)),
            (Outcome::Killed, Life::Stopping(Cause::Superseded)) => (AttemptState::Killed, Some(Why::Superseded)),
            (Outcome::Killed, Life::Stopping(Cause::Kill(why))) => (AttemptState::Killed, Some(why)),
            // Nobody asked for it: its worker goes, and the attempt with it.
            (Outcome::Killed, _) => (AttemptState::Lost, Some(Why::WorkerStopped)),
        };
        self.end(now, id, state, why, message, Place::Released);
    }

    /// A result for an attempt that has ended: it releases, and a success settles a shard that is
    /// still open and not killed. It never changes a terminal run.
    fn late_report(&mut self, now: Now, id: AttemptId, outcome: Outcome, message: Option<Arc<str>>) {
        self.stats.late_results += 1;
        let attempt = self.runs.attempt_mut(id);
        let is_news = attempt.message.is_none() && message.is_some();
        if is_news {
            attempt.message = message;
        }
        let was_released = attempt.released_at.is_some();
        let (run, shard) = (attempt.run, attempt.shard);
        let open = self.runs.run(run);
        let phase = open.shards[shard as usize].phase;
        let is_open = open.decided(shard).is_none() && !matches!(phase, Phase::Settled(..));
        if outcome == Outcome::Success && is_open && !planted!(self.config, LateSuccessIgnored) {
            self.settle(run, shard, RunState::Success, None);
            // A restart finds by this reason that the shard is settled.
            self.runs.attempt_mut(id).why = Some(Why::LateSuccess);
            let row = self.attempt_row(id);
            self.pipeline.write(Row::AttemptSet(Box::new(row)));
            if let Phase::Active(successor) = phase {
                self.stop(now, successor, Cause::Superseded);
            }
            self.try_finish(now, run);
        }
        if !self.runs.attempts.contains_key(&id) {
            return;
        }
        if was_released && is_news {
            let row = self.attempt_row(id);
            self.pipeline.write(Row::AttemptSet(Box::new(row)));
        }
        self.release(now, id);
    }

    /// Asks an attempt to stop. One that was not sent yet ends at once.
    pub(super) fn stop(&mut self, now: Now, id: AttemptId, cause: Cause) {
        let attempt = self.runs.attempt_mut(id);
        let why = match cause {
            Cause::Timeout { why, .. } => why,
            Cause::Kill(why) => why,
            Cause::Superseded => Why::Superseded,
        };
        match attempt.life {
            Life::Ended(_) => {}
            Life::Committing => {
                let state = match cause {
                    Cause::Timeout { .. } => AttemptState::NotStarted,
                    Cause::Kill(_) | Cause::Superseded => AttemptState::Killed,
                };
                self.end(now, id, state, Some(why), None, Place::Released);
            }
            Life::Sending | Life::Running | Life::InDoubt(_) | Life::Stopping(_) => {
                let was_in_doubt = matches!(attempt.life, Life::InDoubt(_));
                let release_at = now.mono.plus(self.config.timing.release_after_ms);
                attempt.release_at = release_at;
                attempt.life = Life::Stopping(cause);
                attempt.why = Some(why);
                if was_in_doubt {
                    self.runs.in_doubt -= 1;
                }
                let row = self.attempt_row(id);
                self.pipeline.write(Row::AttemptSet(Box::new(row)));
                self.pipeline.after(After::Cancel(id));
                self.timers.add(now.mono.plus(self.config.timing.kill_grace_ms), Timer::Stop(id));
                self.timers.add(release_at, Timer::Release(id));
            }
        }
    }
}

/// The state of a run whose shards are settled: success only if as many succeeded as must, else the worst.
fn verdict(run: &Run, is_short: bool) -> (RunState, Option<Why>) {
    if let Some(why) = run.killed {
        return (RunState::Killed, Some(why));
    }
    let success = run.policy.sharding.success;
    if success != Success::All {
        let has_succeeded = |shard: &&Shard| matches!(shard.phase, Phase::Settled(RunState::Success, _));
        let succeeded = u32::try_from(run.shards.iter().filter(has_succeeded).count()).expect("bounded");
        let shards = u32::try_from(run.shards.len()).expect("bounded");
        let required = success.required(shards) - u32::from(is_short);
        if succeeded >= required {
            return (RunState::Success, (succeeded < shards).then_some(Why::Partial));
        }
        if succeeded == shards {
            return (RunState::Failed, Some(Why::QuorumMissed)); // there are fewer than must succeed
        }
    }
    let settled = run.shards.iter().filter_map(|shard| match shard.phase {
        Phase::Settled(state, why) => Some((state, why)),
        Phase::Parked | Phase::Waiting | Phase::Backoff(_) | Phase::Active(_) => None,
    });
    // Failed, timeout, lost, killed, discarded: in the order in which a person wants to hear of it.
    let rank = |state: RunState| match state {
        RunState::Failed => 0,
        RunState::Timeout => 1,
        RunState::Lost => 2,
        RunState::Killed => 3,
        RunState::Discarded => 4,
        RunState::Success => 9,
        RunState::Pending
        | RunState::Dispatched
        | RunState::Running
        | RunState::Skipped
        | RunState::Merged
        | RunState::Rejected => unreachable!("no shard is settled so"),
    };
    settled.min_by_key(|(state, _)| rank(*state)).expect("a run has a shard")
}
