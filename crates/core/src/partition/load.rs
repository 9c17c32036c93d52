//! From what is durable to a live machine, at the begin of a term.
//!
//! What cannot be known is not assumed: every attempt that had not ended is in doubt until its worker
//! says something, and every worker counts as heard of now.

use std::collections::BTreeMap;
use std::sync::Arc;

use rota_cron::{Kind, Zone};

use super::config::Config;
use super::runs::{Attempt, Cause, Life, Phase, Run, Shard};
use super::settle::Place;
use super::timer::Timer;
use super::{Machine, ahead, backfill, child, fleet, freeze, jobs, pipeline, planted, publish, runs, timer};
use crate::batch::{self, AttemptState, Exception, Loaded, OpenRun, Origin, RunState};
use crate::id::{Block, JobId, RunId, WorkerId};
use crate::job::{Body, Definition, Delivery, Job, JobState, Overlap, Policy, Retry, Target, Timeout};
use crate::label::Selector;
use crate::limits;
use crate::route::Routing;
use crate::shards::{OnLoss, Rules};
use crate::time::{Now, UnixMs};
use crate::why::Why;
use crate::worker::WorkerState;

impl Machine {
    /// A machine for a new term.
    #[must_use]
    pub fn new(config: Config, loaded: Loaded, now: Now) -> Machine {
        let fired_max = loaded.covered.iter().map(|(_, slot)| *slot).max().unwrap_or(loaded.mark).max(loaded.mark);
        let began: BTreeMap<JobId, UnixMs> = loaded.jobs.iter().map(|job| (job.id, job.at)).collect();
        let changes = loaded.jobs.iter().map(|job| job.pause.as_ref().map_or(job.at, |pause| job.at.max(pause.at)));
        let changed_max = changes.max().unwrap_or(loaded.mark);
        let mut machine = Machine {
            config,
            partition: loaded.partition,
            epoch: loaded.epoch,
            ids: Block::default(),
            ids_at: now.mono,
            permits: limits::PENDING_MAX,
            clock: crate::clock::Watch::new(now),
            pipeline: pipeline::Pipeline::new(loaded.seq),
            jobs: jobs::Jobs::default(),
            fleet: fleet::Fleet::new(config.send_credits),
            runs: runs::Runs::default(),
            timers: timer::Timers::default(),
            processed: loaded.mark,
            mark: loaded.mark,
            suspect_until: None,
            was_suspect: false,
            fired_max,
            changed_max,
            ahead: ahead::Ahead::new(fired_max, loaded.mark),
            touched: Vec::new(),
            freezes: freeze::Freezes::new(loaded.freezes),
            backfills: backfill::Backfills::default(),
            asks: Vec::new(),
            notes: child::Notes::default(),
            stats: publish::Stats::new(),
        };
        for app in loaded.apps {
            let id = app.id;
            machine.fleet.set_app(app);
            machine.fleet.set_rates(id, now.mono, true);
        }
        for (registration, state) in loaded.workers {
            let ix = machine.fleet.register(Arc::new(registration), state, now.mono);
            if state != WorkerState::Offline {
                machine.timers.add(now.mono.plus(config.timing.dead_ms), Timer::Silence(ix));
            }
        }
        let exceptions: BTreeMap<JobId, Exception> = loaded.exceptions.into_iter().collect();
        for definition in &loaded.jobs {
            machine.load_job(now, definition, exceptions.get(&definition.id).copied());
        }
        for open in loaded.backfills {
            machine.load_backfill(now, open);
        }
        let mut open = loaded.open;
        open.sort_by_key(|open| open.run.id);
        for open in open {
            machine.load_run(now, open);
        }
        machine.seat_all();
        machine.place_jobs(now, &loaded.covered.into_iter().collect(), &began);
        let over: Vec<RunId> = machine.runs.runs.keys().collect();
        for id in over {
            if machine.runs.runs.contains_key(&id) {
                machine.try_finish(now, id);
            }
        }
        machine
    }

    fn load_job(&mut self, now: Now, definition: &Definition, exception: Option<Exception>) {
        match definition.compile() {
            Ok(job) => {
                let ix = self.install(now, job);
                self.jobs.get_mut(ix).stored = exception;
            }
            Err(invalid) => self.load_broken(now, definition, exception, invalid.to_string()),
        }
    }

    /// A definition that this binary cannot compile fires nothing, loses no slot (an exception keeps its
    /// place for a binary that can), is shown with its reason, and can be edited and deleted.
    fn load_broken(&mut self, now: Now, definition: &Definition, exception: Option<Exception>, reason: String) {
        let (policy, body) = unknown(&definition.name, 1);
        let ix = self.install(
            now,
            Job {
                id: definition.id,
                version: definition.version,
                app: definition.app,
                state: definition.state,
                schedule: None,
                policy,
                body,
                has_alerts: !definition.spec.alerts.is_empty(),
            },
        );
        let live = self.jobs.get_mut(ix);
        live.is_broken = true;
        live.stored = exception;
        if exception.is_none() && definition.state == JobState::Enabled {
            self.set_exception(ix, Some(Exception::Covered(self.mark)));
        }
        self.stats.broken.push((definition.id, reason));
    }

    /// Puts every enabled job at its first slot that no row covers.
    fn place_jobs(&mut self, now: Now, covered: &BTreeMap<JobId, UnixMs>, began: &BTreeMap<JobId, UnixMs>) {
        let all: Vec<jobs::JobIx> = self.jobs.all().map(|(ix, _)| ix).collect();
        for ix in all {
            let live = self.jobs.get(ix);
            if live.state != JobState::Enabled {
                continue;
            }
            let Some(schedule) = live.schedule.clone() else { continue };
            match (schedule.kind(), live.stored) {
                (Kind::Cron | Kind::Every, stored) => {
                    let from = match stored.and_then(Exception::covered) {
                        Some(to) => to,
                        None => {
                            let rows = covered.get(&live.id).copied().unwrap_or(self.mark);
                            // What lies before its version was never its slot.
                            self.mark.max(rows).max(began.get(&live.id).copied().unwrap_or(self.mark))
                        }
                    };
                    if let Some(Exception::Judged { until, .. }) = stored
                        && !planted!(self.config, VerdictForgotten)
                    {
                        self.jobs.keep_verdict(ix, until);
                    }
                    match schedule.next_after(from) {
                        Some(next) => self.jobs.arm(ix, next),
                        None => self.finish_job(now, ix),
                    }
                }
                (Kind::Delay | Kind::Once, Some(Exception::Armed(at))) => self.jobs.arm(ix, at),
                (Kind::Delay, _) if live.scheduled_open == 0 => self.arm_delay(now, ix, UnixMs(0)),
                (Kind::Delay | Kind::Once, _) => {}
            }
        }
    }

    fn load_run(&mut self, now: Now, open: OpenRun) {
        let OpenRun { run, attempts, definition, is_listed, rerun, shards: noted, backfill, parent } = open;
        let (policy, body) = self.origin_of(&run, definition.as_ref());
        let pool = self.fleet.pool_of(run.app, &policy, &body.target, now.mono);
        let id = run.id;
        let is_open = !run.state.is_terminal();
        let place = self.jobs.find(run.job);
        let is_parked = run.state == RunState::Pending && run.why == Some(Why::Overlap) && attempts.is_empty();
        if let Some(ix) = place {
            let live = self.jobs.get_mut(ix);
            live.holders += 1;
            live.scheduled_open += u32::from(is_open && run.origin == Origin::Schedule);
        }
        // Not waiting yet: only a shard in its pool's queue counts as pending.
        let shard = |_| Shard { phase: Phase::Backoff(now.mono), attempts: Vec::new(), charged: 0 };
        let mut live = Run {
            id,
            app: run.app,
            job: run.job,
            place,
            version: run.version,
            origin: run.origin,
            slot: run.slot,
            pool,
            policy,
            body,
            param: run.param.clone(),
            shards: (0..run.shards.max(1)).map(shard).collect(),
            state: run.state,
            killed: run.why.filter(|why| matches!(why, Why::KilledByUser | Why::CancelledByOverlap)),
            is_parked: is_parked && place.is_some() && !planted!(self.config, WaitersBeginAtLoad),
            is_overdue: false,
            deadline: None,
            is_listed,
            live: 0,
            unreleased: 0,
            open_shards: run.shards.max(1),
            noted,
            parent,
        };
        for attempt in &attempts {
            if let Some(shard) = live.shards.get_mut(attempt.shard as usize) {
                shard.attempts.push(attempt.id);
                live.live += u32::from(!attempt.state.is_terminal());
                live.unreleased += u32::from(attempt.released_at.is_none());
            }
        }
        self.runs.runs.insert(id, live);
        if let Some(backfill) = backfill {
            self.backfills.enter(backfill, id);
        }
        self.watch_run(now, id, run.at);
        if !is_listed {
            self.runs.add_young(id, now.mono.plus(limits::LONG_RUN_MS));
        }
        for attempt in &attempts {
            if (attempt.shard as usize) < self.runs.run(id).shards.len() {
                self.load_attempt(now, attempt, &run);
            }
        }
        for shard in 0..u32::try_from(self.runs.run(id).shards.len()).expect("bounded") {
            let is_reused = rerun.as_ref().is_some_and(|rerun| rerun.reused.contains(&shard));
            self.load_shard(now, id, shard, &attempts, is_reused);
        }
        self.leave_pending(id);
    }

    /// The policy and body that made a run. If its definition cannot be had or compiled any more, the
    /// run is followed to its end and nothing new is made of it.
    fn origin_of(&self, run: &batch::Run, definition: Option<&Definition>) -> (Arc<Policy>, Arc<Body>) {
        if let Some(job) = definition.and_then(|definition| definition.compile().ok()) {
            return (job.policy, job.body);
        }
        if let Some(ix) = self.jobs.find(run.job)
            && definition.is_none()
        {
            let live = self.jobs.get(ix);
            return (live.policy.clone(), live.body.clone());
        }
        unknown(&format!("job {}", run.job), run.shards)
    }

    fn load_attempt(&mut self, now: Now, row: &batch::Attempt, run: &batch::Run) {
        let pool = self.runs.run(run.id).pool;
        let worker = match self.fleet.host_of(pool) {
            Some(host) if row.worker == WorkerId(0) => host,
            Some(_) | None => self.fleet.ghost(row.worker, run.app, row.incarnation, now.mono),
        };
        let gone = u64::try_from(now.wall.0.saturating_sub(row.at.0)).unwrap_or(0);
        let timing = self.config.timing;
        let is_host = self.fleet.worker(worker).is_host;
        let release_at = row.ended_at.map_or(now.mono.plus(timing.release_after_ms), |ended_at| {
            let since = u64::try_from(now.wall.0.saturating_sub(ended_at.0)).unwrap_or(0);
            now.mono.plus(timing.release_after_ms.saturating_sub(since))
        });
        let is_decided_at_once = is_host || planted!(self.config, LostAtOnceAfterRestart);
        let life = match row.state {
            AttemptState::Dispatched | AttemptState::Running | AttemptState::InDoubt => {
                self.runs.in_doubt += 1;
                Life::InDoubt(if is_decided_at_once { now.mono } else { now.mono.plus(timing.doubt_ms) })
            }
            AttemptState::Stopping => Life::Stopping(match row.why {
                Some(why @ (Why::AttemptTimeout | Why::RunTimeout)) => {
                    Cause::Timeout { end_by: now.mono.plus(timing.dead_ms), why }
                }
                Some(Why::Superseded) => Cause::Superseded,
                Some(Why::CancelledByOverlap) => Cause::Kill(Why::CancelledByOverlap),
                Some(_) | None => Cause::Kill(Why::KilledByUser),
            }),
            AttemptState::Success
            | AttemptState::Failed
            | AttemptState::Timeout
            | AttemptState::Killed
            | AttemptState::Lost
            | AttemptState::NotStarted => Life::Ended(row.state),
        };
        let is_unreleased = row.released_at.is_none();
        let is_unproven = life == Life::Ended(AttemptState::Lost) && row.why == Some(Why::InDoubt);
        let has_credit = is_unreleased && !is_host && (is_unproven || !matches!(life, Life::Ended(_)));
        if is_unreleased {
            let weight = self.runs.run(row.run).policy.routing.weight;
            self.fleet.occupy(worker, row.id, weight, has_credit);
        }
        match life {
            Life::InDoubt(_) => self.timers.add(now.mono, Timer::Doubt(row.id)),
            Life::Stopping(_) => {
                self.timers.add(now.mono, Timer::Stop(row.id));
                self.timers.add(release_at, Timer::Release(row.id));
            }
            Life::Ended(_) if is_unreleased => {
                self.timers.add(release_at, Timer::Release(row.id));
                self.timers.add(now.mono.plus(timing.probe_ms), Timer::Doubt(row.id));
            }
            Life::Ended(_) | Life::Committing | Life::Sending | Life::Running => {}
        }
        let registration = &self.fleet.worker(worker).registration;
        let is_known = !registration.url.is_empty() && registration.incarnation == row.incarnation;
        let to = is_known.then(|| registration.clone());
        self.runs.attempts.insert(
            row.id,
            Attempt {
                id: row.id,
                run: row.run,
                shard: row.shard,
                no: row.no,
                worker,
                incarnation: row.incarnation,
                to,
                at: row.at,
                at_mono: now.mono,
                aged_ms: gone,
                timeout_at: None,
                life,
                seen_from: None,
                has_credit,
                why: row.why,
                ended_at: row.ended_at,
                released_at: row.released_at,
                release_at,
                message: row.message.clone(),
            },
        );
    }

    /// Where a shard stands follows from its attempts.
    fn load_shard(&mut self, now: Now, id: RunId, shard: u32, rows: &[batch::Attempt], is_reused: bool) {
        let run = self.runs.run(id);
        let is_terminal = run.state.is_terminal();
        let (decided, is_parked) = (run.decided(shard), run.is_parked);
        let final_state = run.state;
        let own: Vec<&batch::Attempt> = rows.iter().filter(|row| row.shard == shard).collect();
        let reassigns = run.policy.sharding.on_loss == Some(OnLoss::Reassign);
        let is_free = |row: &batch::Attempt| reassigns && row.state == AttemptState::Lost;
        let charged = own.iter().rev().skip(1).filter(|row| is_charged(row) && !is_free(row)).count();
        self.runs.run_mut(id).shards[shard as usize].charged = u32::try_from(charged).expect("bounded");
        let is_settled = own.iter().any(|row| row.why == Some(Why::LateSuccess) || row.state == AttemptState::Success);
        if is_terminal || is_reused {
            let state = if is_reused { RunState::Success } else { final_state };
            self.runs.run_mut(id).shards[shard as usize].phase = Phase::Settled(state, None);
            self.runs.run_mut(id).open_shards -= 1;
            return;
        }
        let Some(last) = own.last() else {
            if let Some((state, why)) = decided {
                self.settle(id, shard, state, Some(why));
            } else if is_parked {
                self.runs.run_mut(id).shards[shard as usize].phase = Phase::Parked;
                self.watch_start(now, id);
            } else {
                self.wait_again(now, id, shard);
            }
            return;
        };
        self.runs.run_mut(id).shards[shard as usize].phase = Phase::Active(last.id);
        if is_settled && decided.is_none() {
            self.settle(id, shard, RunState::Success, None);
        } else if last.state.is_terminal() {
            // Released by its end, not by something that came later: decided as it was then.
            let was_released = last.released_at.is_some() && last.released_at == last.ended_at;
            let place = if was_released { Place::Released } else { Place::Kept };
            self.after_attempt(now, id, shard, last.state, last.why, place);
        }
    }
}

/// What stands for a definition that cannot be compiled: nothing new is made of it.
fn unknown(name: &str, shards: u32) -> (Arc<Policy>, Arc<Body>) {
    let policy = Policy {
        routing: Routing::usual(),
        selector: Selector::default(),
        overlap: Overlap::ALLOW,
        retry: Retry::default(),
        timeout: Timeout::default(),
        shards,
        delivery: Delivery::AtMostOnce,
        jitter_ms: 0,
        misfire: None,
        sharding: Rules::default(),
        after: None,
    };
    let target = Target::Handler { name: String::new(), param: String::new() };
    (Arc::new(policy), Arc::new(Body::literal(name.to_owned(), Zone::utc(), target)))
}

/// Whether an attempt that another one followed counts against the job's retries.
fn is_charged(row: &batch::Attempt) -> bool {
    match row.state {
        AttemptState::Failed | AttemptState::Timeout => true,
        AttemptState::Lost => row.why != Some(Why::InDoubt),
        AttemptState::Dispatched
        | AttemptState::Running
        | AttemptState::InDoubt
        | AttemptState::Stopping
        | AttemptState::Success
        | AttemptState::Killed
        | AttemptState::NotStarted => false,
    }
}
