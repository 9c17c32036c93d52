//! Counters since the load, and the snapshots that carry them with the live state.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::effect::Effect;
use super::jobs::{Due, Place};
use super::runs::Phase;
use super::snapshot::{
    DispatchResult, Held, LATENESS_BOUNDS_MS, LISTED_MAX, Open, Snapshot, ValveState, Waiting, Worker,
};
use super::{Machine, fleet};
use crate::batch::RunState;
use crate::id::{AppId, JobId};
use crate::time::{Mono, Now};
use crate::why::Why;

const NEXT_MAX: usize = 20;
/// The wall clock may stand this far before the mark without a word.
const CLOCK_BEHIND_MS: i64 = 2_000;

#[derive(Debug)]
pub(super) struct Stats {
    slots: BTreeMap<(AppId, RunState, Option<Why>), u64>,
    dispatches: BTreeMap<(AppId, DispatchResult), u64>,
    lateness: [u64; LATENESS_BOUNDS_MS.len() + 1],
    lateness_sum_ms: u64,
    pub(super) late_results: u64,
    pub(super) broken: Vec<(JobId, String)>,
    published: Option<Mono>,
}

impl Stats {
    pub(super) fn new() -> Stats {
        Stats {
            slots: BTreeMap::new(),
            dispatches: BTreeMap::new(),
            lateness: [0; LATENESS_BOUNDS_MS.len() + 1],
            lateness_sum_ms: 0,
            late_results: 0,
            broken: Vec::new(),
            published: None,
        }
    }

    pub(super) fn slot(&mut self, app: AppId, state: RunState, why: Option<Why>, count: u64) {
        *self.slots.entry((app, state, why)).or_default() += count;
    }

    pub(super) fn dispatch(&mut self, app: AppId, result: DispatchResult) {
        *self.dispatches.entry((app, result)).or_default() += 1;
    }

    pub(super) fn lateness(&mut self, late_ms: i64) {
        let late_ms = u64::try_from(late_ms).unwrap_or(0);
        let at = LATENESS_BOUNDS_MS.partition_point(|bound| *bound < late_ms);
        self.lateness[at] += 1;
        self.lateness_sum_ms += late_ms;
    }
}

impl Machine {
    pub(super) fn publish_if_due(&mut self, now: Now, out: &mut Vec<Effect>) {
        let is_due = self.stats.published.is_none_or(|at| now.mono.since(at) >= self.config.publish_ms);
        if is_due {
            self.stats.published = Some(now.mono);
            out.push(Effect::Publish(Arc::new(self.snapshot(now))));
        }
    }

    /// The live state that has no row.
    #[must_use]
    pub fn snapshot(&self, now: Now) -> Snapshot {
        let mut held_counts: BTreeMap<(AppId, Why), u64> = BTreeMap::new();
        let (mut held, mut held_alerting) = (Vec::new(), Vec::new());
        for (pool, all) in self.jobs.held() {
            // What waits for a pool waits for what its last choice lacked. There is nearly always a last
            // choice, so what it says is counted and not looked for one by one.
            let pool = self.fleet.pool(pool);
            if let Some(why) = pool.blocked {
                *held_counts.entry((pool.app, why)).or_default() += all.len() as u64;
            }
            let listed = if pool.blocked.is_some() { LISTED_MAX - held.len() } else { all.len() };
            for (_, _, ix) in all.iter().take(listed) {
                let live = self.jobs.get(*ix);
                let Place::Held { slot, why, since } = live.place else { continue };
                if pool.blocked.is_none() {
                    *held_counts.entry((pool.app, why)).or_default() += 1;
                }
                let shown = Held { job: live.id, slot, why: pool.blocked.unwrap_or(why), since };
                if held.len() < LISTED_MAX {
                    held.push(shown);
                } else if live.has_alerts {
                    held_alerting.push(shown);
                }
            }
            if pool.blocked.is_some() {
                held_alerting.extend(self.alerting(all.iter().skip(listed), pool.blocked));
            }
        }
        for (key, all) in self.jobs.timed() {
            held_counts.insert(key, all.len() as u64);
            let listed = LISTED_MAX.saturating_sub(held.len());
            for (_, _, ix) in all.iter().take(listed) {
                let live = self.jobs.get(*ix);
                let Place::Held { slot, why, since } = live.place else { continue };
                held.push(Held { job: live.id, slot, why, since });
            }
            held_alerting.extend(self.alerting(all.iter().skip(listed), None));
        }
        let (waiting, waiting_alerting) = self.waiting(now);
        Snapshot {
            partition: self.partition,
            at: now.wall,
            jobs: self.jobs.counts,
            workers: self.fleet.workers().map(|(_, live)| worker(live, now)).collect(),
            held,
            held_alerting,
            held_counts: held_counts.into_iter().map(|((app, why), count)| (app, why, count)).collect(),
            notes: self.notes_waiting(),
            waiting,
            waiting_alerting,
            attempts: self.open_attempts(),
            attempts_open: self.runs.attempts.values().filter(|attempt| !attempt.has_ended()).count() as u64,
            in_doubt: self.runs.in_doubt,
            runs_open: self.runs.runs.values().filter(|run| !run.state.is_terminal()).count() as u64,
            backfills: self.backfills.shown(),
            valves: self.valves(now),
            next: self.jobs.upcoming().take(NEXT_MAX).map(|(slot, live)| (live.id, slot)).collect(),
            broken: self.stats.broken.clone(),
            frozen: self.freezes.open().cloned().collect(),
            suspended: self.suspension(now),
            slots: self.stats.slots.iter().map(|((app, state, why), n)| (*app, *state, *why, *n)).collect(),
            dispatches: self.stats.dispatches.iter().map(|((app, result), n)| (*app, *result, *n)).collect(),
            late_results: self.stats.late_results,
            lateness: self.stats.lateness,
            lateness_sum_ms: self.stats.lateness_sum_ms,
        }
    }

    /// The held slots of jobs that name alerts among these. While no job does, nothing is looked at.
    fn alerting<'m>(
        &'m self,
        held: impl Iterator<Item = &'m Due> + 'm,
        blocked: Option<Why>,
    ) -> impl Iterator<Item = Held> + 'm {
        let held = held.take(if self.jobs.alerting == 0 { 0 } else { usize::MAX });
        held.map(|(_, _, ix)| self.jobs.get(*ix)).filter(|live| live.has_alerts).filter_map(move |live| {
            let Place::Held { slot, why, since } = live.place else { return None };
            Some(Held { job: live.id, slot, why: blocked.unwrap_or(why), since })
        })
    }

    fn valves(&self, now: Now) -> Vec<ValveState> {
        let limited = self.fleet.apps().filter(|live| live.pending > 0 || live.valve.is_some());
        let state = |live: &fleet::AppLive| {
            let (tokens, groups) = live.valve.as_ref().map_or((None, Vec::new()), |valve| valve.tokens(now.mono));
            let token_ms = live.valve.as_ref().map_or(0, |valve| valve.wait_ms(now.mono));
            ValveState { app: live.app.id, pending: live.pending, tokens, token_ms, groups }
        };
        limited.map(state).collect()
    }

    fn suspension(&self, now: Now) -> Option<Why> {
        if !self.clock.is_good() {
            return Some(Why::ClockSuspect);
        }
        (now.wall.0.saturating_add(CLOCK_BEHIND_MS) < self.mark.0).then_some(Why::ClockBehind)
    }

    /// Shards that wait, as many as are listed; and of the others what alerts must not overlook.
    fn waiting(&self, now: Now) -> (Vec<Waiting>, Vec<Waiting>) {
        let open = self.runs.runs.values().filter(|run| run.open_shards > 0);
        let shards = open.flat_map(|run| (0..).zip(&run.shards).map(move |(at, shard)| (run, at, shard)));
        let mut waiting = shards.filter_map(|(run, shard, live)| {
            let (why, worker, left_ms) = match live.phase {
                Phase::Parked => (Why::Overlap, None, None),
                Phase::Waiting => {
                    let (why, worker) = self.waits_for(now, run.id, shard);
                    (why, worker, None)
                }
                Phase::Backoff(due) => (Why::Backoff, None, Some(due.since(now.mono))),
                Phase::Active(_) | Phase::Settled(..) => return None,
            };
            Some(Waiting { run: run.id, job: run.job, shard, why, worker, left_ms })
        });
        let listed: Vec<Waiting> = waiting.by_ref().take(LISTED_MAX).collect();
        let mut first: BTreeMap<JobId, Waiting> = BTreeMap::new();
        if listed.len() == LISTED_MAX && self.jobs.alerting > 0 {
            let lacks = |why| matches!(why, Why::NoWorker | Why::NoWorkerForHandler | Why::NoWorkerForLabels);
            for waiting in waiting.filter(|waiting| lacks(waiting.why)) {
                let live = self.jobs.find(waiting.job).map(|ix| self.jobs.get(ix));
                if live.is_some_and(|live| live.has_alerts) {
                    first.entry(waiting.job).or_insert(waiting);
                }
            }
        }
        (listed, first.into_values().collect())
    }

    fn open_attempts(&self) -> Vec<Open> {
        let open = self.runs.attempts.values().filter(|attempt| !attempt.has_ended()).take(LISTED_MAX);
        open.map(|attempt| Open {
            attempt: attempt.id,
            run: attempt.run,
            job: self.runs.run(attempt.run).job,
            shard: attempt.shard,
            no: attempt.no,
            worker: self.fleet.worker(attempt.worker).registration.id,
            state: attempt.state(),
            at: attempt.at,
        })
        .collect()
    }
}

fn worker(live: &fleet::Live, now: Now) -> Worker {
    let registration = &live.registration;
    Worker {
        id: registration.id,
        app: registration.app,
        name: registration.name.clone(),
        incarnation: registration.incarnation,
        url: registration.url.clone(),
        state: live.state,
        labels: registration.labels.clone(),
        handlers: registration.handlers.clone(),
        capacity: registration.capacity,
        load: live.load(),
        weight: live.weight,
        sending: live.sending,
        silent_ms: if live.is_host { 0 } else { now.mono.since(live.heard) },
    }
}
