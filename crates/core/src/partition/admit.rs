//! From an admitted slot to runs, shards and attempts.

use std::sync::Arc;

use super::Machine;
use super::fleet::WorkerIx;
use super::jobs::JobIx;
use super::pipeline::After;
use super::pools::PoolIx;
use super::runs::{Attempt, Life, Phase, Run, Shard};
use crate::batch::{self, Origin, Row, RunState};
use crate::id::{AttemptId, RunId, Version, WorkerId};
use crate::job::{Body, Policy};
use crate::limits;
use crate::time::{Now, UnixMs};
use crate::why::Why;

use super::planted;

/// Length from which on a queue of shards is cleared of what no longer waits.
const QUEUE_LOOKED_THROUGH: usize = 2_000;

/// A run that is to be made.
#[derive(Debug)]
pub(super) struct Order<'o> {
    pub(super) version: Version,
    pub(super) policy: Arc<Policy>,
    pub(super) body: Arc<Body>,
    pub(super) pool: PoolIx,
    pub(super) slot: UnixMs,
    pub(super) origin: Origin,
    pub(super) param: Option<Arc<str>>,
    /// The worker of the first shard, if it was chosen already.
    pub(super) first: Option<WorkerIx>,
    /// Shards that are settled from the start, since another run's stand for them.
    pub(super) reused: &'o [u32],
    /// It waits for its place among the runs of its job.
    pub(super) waits: bool,
    /// Whose each shard is, for a broadcast.
    pub(super) workers: Vec<WorkerId>,
}

impl Machine {
    /// Makes a run and routes its shards, the first to `first` if that is given. A shard that finds no
    /// worker waits in its pool's queue.
    pub(super) fn admit(
        &mut self,
        now: Now,
        ix: JobIx,
        slot: UnixMs,
        origin: Origin,
        param: Option<Arc<str>>,
        first: Option<WorkerIx>,
    ) -> RunId {
        let live = self.jobs.get(ix);
        let (version, policy, body, pool) = (live.version, live.policy.clone(), live.body.clone(), live.pool);
        let waits = false;
        let workers = match self.set_of(ix) {
            Ok(workers) => workers,
            Err(why) => return self.reject(now, ix, slot, origin, param, why),
        };
        let reused = &[][..];
        self.admit_as(
            now,
            ix,
            Order { version, policy, body, pool, slot, origin, param, first, reused, waits, workers },
        )
    }

    /// Makes a run that waits for its place among the runs of its job.
    pub(super) fn admit_waiting(
        &mut self,
        now: Now,
        ix: JobIx,
        slot: UnixMs,
        origin: Origin,
        param: Option<Arc<str>>,
    ) -> RunId {
        let live = self.jobs.get(ix);
        let (version, policy, body, pool) = (live.version, live.policy.clone(), live.body.clone(), live.pool);
        let (first, reused, waits) = (None, &[][..], true);
        let workers = match self.set_of(ix) {
            Ok(workers) => workers,
            Err(why) => return self.reject(now, ix, slot, origin, param, why),
        };
        self.admit_as(
            now,
            ix,
            Order { version, policy, body, pool, slot, origin, param, first, reused, waits, workers },
        )
    }

    /// Makes a run of a job, also one of another version than its current one.
    pub(super) fn admit_as(&mut self, now: Now, ix: JobIx, order: Order<'_>) -> RunId {
        let Order { version, policy, body, pool, slot, origin, param, first, reused, waits, workers } = order;
        let is_broadcast = !workers.is_empty();
        let id = RunId(self.mint());
        let live = self.jobs.get_mut(ix);
        live.holders += 1;
        if origin == Origin::Schedule {
            live.scheduled_open += 1;
        }
        let (job, app, routed) = (live.id, live.app, Arc::clone(&policy));
        let shards = if is_broadcast { u32::try_from(workers.len()).expect("bounded") } else { policy.shards };
        let fresh = shards - u32::try_from(reused.len()).expect("fewer than the shards");
        if !waits {
            self.fleet.add_pending(app, fresh);
        }
        let phase = |shard| match reused.contains(&shard) {
            true => Phase::Settled(RunState::Success, None),
            false if waits => Phase::Parked,
            false => Phase::Waiting,
        };
        let shard = |shard| Shard { phase: phase(shard), attempts: Vec::new(), charged: 0 };
        self.runs.runs.insert(
            id,
            Run {
                id,
                app,
                job,
                place: Some(ix),
                version,
                origin,
                slot,
                pool,
                policy,
                body,
                param: param.clone(),
                shards: (0..shards).map(shard).collect(),
                state: RunState::Dispatched,
                killed: None,
                is_parked: waits,
                is_overdue: false,
                deadline: None,
                is_listed: false,
                live: 0,
                unreleased: 0,
                open_shards: fresh,
                noted: is_broadcast.then(|| Arc::new(batch::Shards { run: id, workers, settled: Vec::new() })),
                parent: None,
            },
        );
        self.runs.add_young(id, now.mono.plus(limits::LONG_RUN_MS));
        self.watch_run(now, id, now.wall);
        let is_measured = self.runs.run(id).policy.after.is_none(); // else it waited for others
        if origin == Origin::Schedule && is_measured {
            let start = self.starts_at(ix, slot);
            self.stats.lateness(now.wall.0.saturating_sub(start.0));
        }
        let mut chosen = Vec::with_capacity(shards as usize);
        let mut next = first;
        let mut has_nobody = false;
        for shard in (0..shards).filter(|shard| !waits && !reused.contains(shard)) {
            let worker = match next.take() {
                Some(worker) => Some(worker),
                None if has_nobody => None,
                None if is_broadcast && !planted!(self.config, BroadcastToAnyone) => self.own_worker(now, id, shard),
                None => self.fleet.pick(pool, &routed.routing, job, &[], now.mono).ok(),
            };
            has_nobody |= worker.is_none() && !is_broadcast;
            match worker {
                Some(worker) => chosen.push(self.reserve(now, id, shard, worker)),
                None if is_broadcast => self.queue(id, shard),
                None => self.queue_shard(pool, id, shard),
            }
        }
        let state = if chosen.len() == fresh as usize { RunState::Dispatched } else { RunState::Pending };
        self.runs.run_mut(id).state = state;
        self.pipeline.write(Row::Run(Box::new(batch::Run {
            id,
            app,
            job,
            version,
            origin,
            slot,
            slot_last: slot,
            slots: 1,
            state,
            why: waits.then_some(Why::Overlap),
            shards,
            at: now.wall,
            ended_at: None,
            param,
        })));
        for attempt in chosen {
            self.write_attempt(attempt);
        }
        if state == RunState::Pending {
            self.watch_start(now, id);
        }
        if is_broadcast {
            let noted = self.runs.run(id).noted.clone();
            self.pipeline.write(Row::Shards(noted.expect("a broadcast notes whose its shards are")));
        }
        self.take_place(id);
        if waits {
            self.fill_line(ix, id);
        }
        id
    }

    /// A run all of whose shards have been dispatched is no longer pending.
    pub(super) fn leave_pending(&mut self, id: RunId) {
        let run = self.runs.run_mut(id);
        let is_dispatched = |shard: &Shard| !shard.attempts.is_empty() || matches!(shard.phase, Phase::Settled(..));
        if run.state == RunState::Pending && run.shards.iter().all(is_dispatched) {
            self.set_open_state(id, RunState::Dispatched);
        }
    }

    /// Changes an open run's state; its row follows only once it is listed.
    pub(super) fn set_open_state(&mut self, id: RunId, state: RunState) {
        let run = self.runs.run_mut(id);
        run.state = state;
        let (job, why) = (run.job, run.open_why());
        if run.is_listed {
            self.pipeline.write(Row::RunSet { run: id, job, state, why, ended_at: None });
        }
    }

    /// Puts a shard into its pool's queue, and clears that of what no longer waits once it is mostly that.
    pub(super) fn queue_shard(&mut self, pool: PoolIx, id: RunId, shard: u32) {
        self.fleet.queue_shard(pool, id, shard);
        let waiting = &self.fleet.pool(pool).waiting;
        if waiting.len() > QUEUE_LOOKED_THROUGH && waiting.len() > 2 * self.fleet.pending() as usize {
            let runs = &self.runs.runs;
            let waits = |(id, shard): &(RunId, u32)| {
                runs.get(id).is_some_and(|run| run.shards[*shard as usize].phase == Phase::Waiting)
            };
            self.fleet.pool_mut(pool).waiting.retain(waits);
        }
    }

    /// Routes shards that wait for this pool, in order. Returns false if it stopped for lack of ids or
    /// room in the batch, not for lack of workers.
    pub(super) fn place_waiting(&mut self, now: Now, pool: PoolIx) -> bool {
        while let Some((id, shard)) = self.fleet.pool(pool).waiting.front().copied() {
            let is_waiting =
                self.runs.runs.get(&id).is_some_and(|run| run.shards[shard as usize].phase == Phase::Waiting);
            if !is_waiting {
                self.fleet.pool_mut(pool).waiting.pop_front();
                continue;
            }
            if self.pipeline.is_full() || self.ids.left() < 2 {
                return false;
            }
            match self.choose(now, pool, id, shard) {
                Ok(worker) => {
                    self.fleet.pool_mut(pool).waiting.pop_front();
                    let attempt = self.reserve(now, id, shard, worker);
                    self.write_attempt(attempt);
                    self.leave_pending(id);
                }
                Err(_) => return true,
            }
        }
        true
    }

    /// Makes the next attempt of a shard on this worker; load and credit count from here on.
    pub(super) fn reserve(&mut self, now: Now, run: RunId, shard: u32, worker: WorkerIx) -> AttemptId {
        let no = u32::try_from(self.runs.run(run).shards[shard as usize].attempts.len()).expect("bounded") + 1;
        let id = if shard == 0 && no == 1 { run.first_attempt() } else { AttemptId(self.mint()) };
        if !planted!(self.config, RateIgnored) {
            self.fleet.take_tokens(worker, now.mono);
        }
        let weight = self.runs.run(run).policy.routing.weight;
        self.fleet.occupy(worker, id, weight, true);
        if planted!(self.config, LoadCountedTwice) {
            self.fleet.worker_mut(worker).attempts.insert(AttemptId(id.0 | (1 << 60)));
        }
        let live = self.fleet.worker(worker);
        let incarnation = live.registration.incarnation;
        let to = (!live.is_host).then(|| live.registration.clone());
        self.fleet.place();
        let open = self.runs.run_mut(run);
        open.live += 1;
        open.unreleased += 1;
        let shard_live = &mut open.shards[shard as usize];
        shard_live.phase = Phase::Active(id);
        shard_live.attempts.push(id);
        self.runs.attempts.insert(
            id,
            Attempt {
                id,
                run,
                shard,
                no,
                worker,
                incarnation,
                to,
                at: now.wall,
                at_mono: now.mono,
                aged_ms: 0,
                timeout_at: None,
                life: Life::Committing,
                seen_from: None,
                has_credit: true,
                why: None,
                ended_at: None,
                released_at: None,
                release_at: now.mono,
                message: None,
            },
        );
        id
    }

    /// Puts a new attempt's row into the open batch; it is sent once that is durable.
    pub(super) fn write_attempt(&mut self, id: AttemptId) {
        let row = self.attempt_row(id);
        self.pipeline.write(Row::Attempt(Box::new(row)));
        self.pipeline.after(After::Send(id));
    }

    pub(super) fn attempt_row(&self, id: AttemptId) -> batch::Attempt {
        let attempt = self.runs.attempt(id).expect("an attempt is kept as long as its run");
        batch::Attempt {
            id,
            run: attempt.run,
            shard: attempt.shard,
            no: attempt.no,
            worker: self.fleet.worker(attempt.worker).registration.id,
            incarnation: attempt.incarnation,
            state: attempt.state(),
            why: attempt.why,
            at: attempt.at,
            ended_at: attempt.ended_at,
            released_at: attempt.released_at,
            message: attempt.message.clone(),
        }
    }
}
