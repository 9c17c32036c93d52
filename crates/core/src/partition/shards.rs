//! Shards that are more than a number: those of a broadcast, each its worker's; those of a worker that died; those
//! that are killed by themselves; and those that are tried again elsewhere.
//!
//! A shard of a broadcast waits in its worker's own queue, so that it stands in nobody's way. What is decided of a shard
//! and not to be seen in its attempts is durable ([`batch::Shards`]), so that a restart decides the same.

use std::sync::Arc;

use super::Machine;
use super::effect::{Answer, Effect};
use super::fleet::WorkerIx;
use super::jobs::JobIx;
use super::message::ReplyTo;
use super::pipeline::After;
use super::runs::{Cause, Life, Phase};
use super::{planted, pools::PoolIx};
use crate::batch::{self, AttemptState, Origin, Row, RunState, SettledShard};
use crate::id::{RunId, WorkerId};
use crate::limits;
use crate::shards::OnLoss;
use crate::time::{Now, UnixMs};
use crate::why::Why;
use crate::worker::WorkerState;

impl Machine {
    /// Shards that a run of a job would have now; none, for this reason, if it can have no run.
    pub(super) fn shards_now(&mut self, ix: JobIx) -> Result<u32, Why> {
        let live = self.jobs.get(ix);
        if !live.policy.sharding.is_broadcast {
            return Ok(live.policy.shards);
        }
        let pool = live.pool;
        self.broadcast_to(pool).map(|workers| u32::try_from(workers.len()).expect("bounded"))
    }

    /// Shards that a run of a job may have at most now.
    pub(super) fn shards_max(&self, ix: JobIx) -> u32 {
        let live = self.jobs.get(ix);
        if !live.policy.sharding.is_broadcast {
            return live.policy.shards;
        }
        let workers = self.fleet.app(live.app).map_or(0, |app| app.workers.len());
        u32::try_from(workers).unwrap_or(u32::MAX).min(limits::SHARDS_MAX)
    }

    /// The workers that get a shard each of a broadcast that is made now.
    pub(super) fn broadcast_to(&mut self, pool: PoolIx) -> Result<Vec<WorkerId>, Why> {
        let members = self.fleet.eligible(pool)?;
        if members.len() > limits::SHARDS_MAX as usize {
            return Err(Why::TooManyWorkers);
        }
        Ok(members.into_iter().map(|ix| self.fleet.worker(ix).registration.id).collect())
    }

    /// The workers that get a shard each of a run that is made now; empty for what is no broadcast.
    pub(super) fn set_of(&mut self, ix: JobIx) -> Result<Vec<WorkerId>, Why> {
        let live = self.jobs.get(ix);
        let pool = live.pool;
        if live.policy.sharding.is_broadcast { self.broadcast_to(pool) } else { Ok(Vec::new()) }
    }

    /// The row of a broadcast that reaches nobody: it was asked for, and there is no shard to make of it.
    pub(super) fn reject(
        &mut self,
        now: Now,
        ix: JobIx,
        slot: UnixMs,
        origin: Origin,
        param: Option<Arc<str>>,
        why: Why,
    ) -> RunId {
        self.write_row(now, ix, origin, (slot, slot, 1), (RunState::Rejected, why), param)
    }

    /// Puts a waiting shard where it is looked for: among those of its worker, if it is one's, else among its pool's.
    /// Whether its worker is still there is looked at by the next pass.
    pub(super) fn queue(&mut self, id: RunId, shard: u32) {
        let run = self.runs.run(id);
        match run.worker_of(shard) {
            None => self.queue_shard(run.pool, id, shard),
            Some(own) => self.fleet.pin(self.fleet.find(own), id, shard),
        }
    }

    /// The worker whose a shard is, if it can take it now.
    pub(super) fn own_worker(&mut self, now: Now, id: RunId, shard: u32) -> Option<WorkerIx> {
        let ix = self.fleet.find(self.runs.run(id).worker_of(shard)?)?;
        let is_first = self.fleet.pinned_first(ix).is_none();
        (is_first && self.fleet.refusal(ix, now.mono).is_none()).then_some(ix)
    }

    /// A waiting shard's worker has gone: another takes it, or it is over, as its job says.
    fn left_behind(&mut self, now: Now, id: RunId, shard: u32) {
        let run = self.runs.run(id);
        match run.policy.sharding.on_loss {
            Some(OnLoss::Reassign) => self.queue_shard(run.pool, id, shard),
            Some(OnLoss::Fail) | None => self.settle_noted(now, id, shard, RunState::Lost, Why::TargetGone),
        }
    }

    /// A worker has gone: nothing waits for it any more.
    pub(super) fn release_pinned(&mut self, now: Now, ix: WorkerIx) {
        for (id, shard) in self.fleet.unpin(ix) {
            if self.waits(id, shard) {
                self.left_behind(now, id, shard);
                self.try_finish(now, id);
            }
        }
    }

    fn waits(&self, id: RunId, shard: u32) -> bool {
        self.runs.runs.get(&id).is_some_and(|run| run.shards[shard as usize].phase == Phase::Waiting)
    }

    /// Sends shards that wait for one worker to it, as far as it can take them. Returns false if it stopped for lack
    /// of ids or room in the batch.
    pub(super) fn place_pinned(&mut self, now: Now) -> bool {
        if !self.fleet.has_pinned() {
            return true;
        }
        for (id, shard) in self.fleet.take_orphans() {
            if self.waits(id, shard) {
                self.left_behind(now, id, shard);
                self.try_finish(now, id);
            }
        }
        for ix in self.fleet.pinned_to() {
            if self.fleet.worker(ix).state == WorkerState::Offline {
                self.release_pinned(now, ix);
                continue;
            }
            if self.is_frozen(self.fleet.worker(ix).registration.app) {
                continue;
            }
            while let Some((id, shard)) = self.fleet.pinned_first(ix) {
                if !self.waits(id, shard) {
                    self.fleet.drop_pinned_first(ix);
                    continue;
                }
                if self.pipeline.is_full() || self.ids.left() < 2 {
                    return false;
                }
                if self.fleet.refusal(ix, now.mono).is_some() {
                    break;
                }
                self.fleet.drop_pinned_first(ix);
                let attempt = self.reserve(now, id, shard, ix);
                self.write_attempt(attempt);
                self.leave_pending(id);
            }
        }
        true
    }

    /// Why a waiting shard waits, and for whom, if it may go to no other.
    pub(super) fn waits_for(&self, now: Now, id: RunId, shard: u32) -> (Why, Option<WorkerId>) {
        let run = self.runs.run(id);
        let blocked = || self.fleet.pool(run.pool).blocked.unwrap_or(Why::NextPass);
        let Some(own) = run.worker_of(shard) else { return (blocked(), None) };
        let Some(ix) = self.fleet.find(own) else { return (blocked(), None) };
        let why = match self.fleet.worker(ix).state {
            WorkerState::Online => match self.fleet.token_for(run.app, now.mono) {
                Ok(()) => self.fleet.worker(ix).refusal(self.fleet.credits).unwrap_or(Why::NextPass),
                Err(why) => why,
            },
            WorkerState::Draining => Why::RefusedDraining,
            WorkerState::Unreachable => Why::Unreachable,
            // It was given to whoever takes it.
            WorkerState::Offline => return (blocked(), None),
        };
        (why, Some(own))
    }

    /// The worker for a shard that waits: for a retry that is wanted elsewhere, another than those that failed, if one
    /// can take it.
    pub(super) fn choose(&mut self, now: Now, pool: PoolIx, id: RunId, shard: u32) -> Result<WorkerIx, Why> {
        let run = self.runs.run(id);
        if run.policy.retry.elsewhere && !planted!(self.config, RetriesAnywhere) {
            let failed: Vec<WorkerIx> = run.shards[shard as usize]
                .attempts
                .iter()
                .filter_map(|attempt| self.runs.attempt(*attempt))
                .filter(|attempt| attempt.has_ended() && attempt.life != Life::Ended(AttemptState::NotStarted))
                .map(|attempt| attempt.worker)
                .collect();
            if !failed.is_empty()
                && let Ok(other) = self.fleet.pick(pool, &run.policy.routing, run.job, &failed, now.mono)
            {
                return Ok(other);
            }
        }
        self.fleet.pick(pool, &run.policy.routing, run.job, &[], now.mono)
    }

    /// An attempt's worker was lost, or stopped it: the job says whether that is tried again, and at whose cost.
    pub(super) fn lost(&mut self, now: Now, id: RunId, shard: u32, why: Option<Why>) {
        let run = self.runs.run(id);
        let attempts = &run.shards[shard as usize].attempts;
        let is_spent = attempts.len() >= limits::ATTEMPTS_MAX as usize;
        let is_loss = |life| life == Life::Ended(AttemptState::Lost);
        let known = attempts.iter().filter_map(|attempt| self.runs.attempt(*attempt));
        let losses = known.filter(|attempt| is_loss(attempt.life) && attempt.why != Some(Why::InDoubt)).count();
        match run.policy.sharding.on_loss {
            None => self.retry_or_settle(now, id, shard, RunState::Lost, why, true),
            Some(OnLoss::Reassign)
                if losses <= limits::REASSIGNED_MAX && !is_spent && !run.is_overdue && !self.is_deleted(id) =>
            {
                self.wait_again(now, id, shard);
            }
            Some(OnLoss::Reassign | OnLoss::Fail) => self.settle(id, shard, RunState::Lost, why),
        }
    }

    /// Notes how a shard is settled, whatever its attempts say.
    fn note(&mut self, now: Now, id: RunId, shard: u32, state: RunState, why: Why) {
        let noted = self.runs.run_mut(id).noted.get_or_insert_with(|| Arc::new(batch::Shards::new(id)));
        assert!(noted.settled(shard).is_none(), "a shard is settled once");
        Arc::make_mut(noted).settled.push(SettledShard { shard, state, why, at: now.wall });
        let row = Arc::clone(noted);
        self.pipeline.write(Row::Shards(row));
    }

    fn settle_noted(&mut self, now: Now, id: RunId, shard: u32, state: RunState, why: Why) {
        self.note(now, id, shard, state, why);
        self.settle(id, shard, state, Some(why));
    }

    /// Kills one shard of a run: final once it is durable, whatever its attempts still say.
    pub(super) fn kill_shard(&mut self, now: Now, id: RunId, shard: u32, reply: ReplyTo, out: &mut Vec<Effect>) {
        let refused = |why| Effect::Reply(reply, Answer::Refused(why));
        let Some(run) = self.runs.runs.get(&id) else { return out.push(refused(Why::RunUnknown)) };
        if run.state.is_terminal() {
            return out.push(refused(Why::RunEnded));
        }
        let Some(live) = run.shards.get(shard as usize) else { return out.push(refused(Why::ShardUnknown)) };
        let phase = live.phase;
        if matches!(run.decided(shard), Some((RunState::Killed, _))) {
            return self.reply_durably(reply, Answer::Killing, out);
        }
        match phase {
            Phase::Settled(..) => return out.push(refused(Why::ShardEnded)),
            Phase::Parked | Phase::Waiting | Phase::Backoff(_) => {
                self.settle_noted(now, id, shard, RunState::Killed, Why::KilledByUser);
                self.try_finish(now, id);
            }
            Phase::Active(attempt) => {
                if !planted!(self.config, ShardKillForgotten) {
                    self.note(now, id, shard, RunState::Killed, Why::KilledByUser);
                }
                self.stop(now, attempt, Cause::Kill(Why::KilledByUser));
            }
        }
        self.pipeline.after(After::Reply(reply, Answer::Killing));
    }
}
