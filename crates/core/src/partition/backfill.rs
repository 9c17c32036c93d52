//! Backfills: from a range of the past to runs, a few at a time.
//!
//! The way of a slot: `backfill` takes the order and makes its row; each pass, after what is due, `fill_backfills` looks at
//! every backfill and makes the runs that may begin now; `try_forget` says when one of them is over; `end_backfill` writes
//! how it ended. Between two passes a backfill is its row and the runs of it that are open, so a restart has all of it.
//!
//! Invariants:
//!
//! 1. **A slot has exactly one row in a backfill.** The row of a run and the backfill's own row, which says at which slot it
//!    stands now, are in one batch: either both are durable or neither is.
//! 2. **A backfill is outside coverage.** Its rows are of origin `backfill`: the mark, exceptions, misfire, lateness and a
//!    fixed delay do not see them, and none of them waits for jitter or for upstream jobs.
//! 3. **It waits, and loses nothing.** A run is made only if it could begin at once: its job's overlap policy has a place, the
//!    app and the server have room, a rate has a token, a worker is free. Otherwise the backfill stands where it stands,
//!    with the reason. So it never cancels, merges, skips or queues, whatever the policy does to others.
//! 4. **What is scheduled comes first**: the pass looks at it before, and no backfill overtakes what waits for its pool.
//! 5. **It runs one version**, that of the moment when it was asked for; the policy in force has a say in overlap.
//!
//! A backfill is on demand: a pause of its job does not concern it; a freeze of its app holds it, a suspect clock too.
//! Absent on purpose: a row for a slot that waits, and a pass over the slots of a range.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rota_cron::Schedule;

use super::admit::Order;
use super::effect::{Answer, Effect};
use super::fleet::WorkerIx;
use super::gate::Budget;
use super::jobs::JobIx;
use super::message::{BackfillOrder, ReplyTo};
use super::pipeline::After;
use super::pools::PoolIx;
use super::runs::Run;
use super::snapshot::Backfilling;
use super::{Machine, planted};
use crate::backfill::{self, Backfill, End, Pacer};
use crate::batch::{OpenBackfill, Origin, Row};
use crate::id::{AppId, BackfillId, JobId, RunId};
use crate::job::{Body, Policy};
use crate::limits;
use crate::overlap::Verdict;
use crate::time::{Mono, Now};
use crate::why::Why;

/// A backfill that has not ended.
#[derive(Debug)]
struct Live {
    row: Backfill,
    ix: JobIx,
    /// What it runs; none if this binary cannot compile it.
    recipe: Option<Recipe>,
    pacer: Pacer,
    /// Its runs that are open, or have an unreleased attempt.
    open: BTreeSet<RunId>,
    /// Why it did not make its next run when it was last looked at.
    waits: Option<Why>,
}

/// A version of a job.
#[derive(Clone, Debug)]
struct Recipe {
    schedule: Schedule,
    policy: Arc<Policy>,
    body: Arc<Body>,
    pool: PoolIx,
}

/// The backfills of a partition that have not ended.
#[derive(Debug, Default)]
pub(super) struct Backfills {
    all: BTreeMap<BackfillId, Live>,
    /// Whose each open run is.
    of: BTreeMap<RunId, BackfillId>,
    /// The first that was looked at in the last pass.
    served_last: Option<BackfillId>,
    /// When the pace of one of them lets it go on.
    wake: Option<Mono>,
}

/// What a look at a backfill came to.
enum Step {
    /// A run was made.
    Made,
    /// Every slot has its row.
    Nothing,
    /// It waits, for this reason.
    Waits(Why),
    /// The open batch is full, or there are no ids.
    NoRoom,
}

impl Backfills {
    /// A run that was open when the term began belongs to a backfill. One of a backfill that has ended is like any other run.
    pub(super) fn enter(&mut self, backfill: BackfillId, run: RunId) {
        if let Some(live) = self.all.get_mut(&backfill) {
            live.open.insert(run);
            self.of.insert(run, backfill);
        }
    }

    /// A run is over, and all of it released.
    pub(super) fn leave(&mut self, run: RunId) {
        if let Some(backfill) = self.of.remove(&run)
            && let Some(live) = self.all.get_mut(&backfill)
        {
            live.open.remove(&run);
        }
    }

    /// Milliseconds until the pace of a backfill lets it go on, if one waits for that.
    pub(super) fn wake_in(&self, now: Mono) -> Option<u64> {
        self.wake.map(|at| at.since(now))
    }

    /// All of them, from another one on each time, so that none takes all there is.
    fn in_turn(&mut self) -> Vec<BackfillId> {
        let from = self.served_last.map_or(BackfillId(0), |last| BackfillId(last.0 + 1));
        let in_turn: Vec<BackfillId> =
            self.all.range(from..).chain(self.all.range(..from)).map(|(id, _)| *id).collect();
        self.served_last = in_turn.first().copied();
        in_turn
    }

    /// Where each stands, for whoever looks.
    pub(super) fn shown(&self) -> Vec<Backfilling> {
        let shown = |live: &Live| {
            let (id, job, open) = (live.row.id, live.row.job, live.open.len() as u64);
            Backfilling { id, job, made: live.row.made, open, waits: live.waits }
        };
        self.all.values().map(shown).collect()
    }

    fn of_job(&self, job: JobId) -> Vec<BackfillId> {
        self.all.iter().filter(|(_, live)| live.row.job == job).map(|(id, _)| *id).collect()
    }
}

impl Machine {
    /// Runs a job for all its slots in a range of the past.
    pub(super) fn backfill(&mut self, now: Now, order: BackfillOrder, reply: ReplyTo, out: &mut Vec<Effect>) {
        match self.try_backfill(now, order) {
            Ok(id) => self.pipeline.after(After::Reply(reply, Answer::Backfilling(id))),
            Err(why) => out.push(Effect::Reply(reply, Answer::Refused(why))),
        }
    }

    fn try_backfill(&mut self, now: Now, order: BackfillOrder) -> Result<BackfillId, Why> {
        let BackfillOrder { job, version, from, to, total, pace, parallel, by, reason, request_id } = order;
        let ix = self.jobs.find(job).ok_or(Why::JobUnknown)?;
        let live = self.jobs.get(ix);
        if live.is_broken {
            return Err(Why::Invalid);
        }
        if live.version != version {
            return Err(Why::VersionConflict);
        }
        if !self.clock.is_good() {
            return Err(Why::ClockSuspect);
        }
        let is_full = self.backfills.all.len() >= limits::BACKFILLS_MAX;
        if is_full || self.backfills.of_job(job).len() >= limits::BACKFILLS_OF_JOB_MAX {
            return Err(Why::TooManyBackfills);
        }
        let recipe = self.recipe_of(ix).ok_or(Why::Invalid)?;
        let first = backfill::first(&recipe.schedule, from, to).filter(|_| to <= now.wall).ok_or(Why::Invalid)?;
        if total == 0 || total > limits::BACKFILL_SLOTS_MAX || pace.check("pace").is_err() {
            return Err(Why::Invalid);
        }
        let id = BackfillId(self.mint());
        let (next, made, made_at) = (Some(first), 0, None);
        let (at, end) = (now.wall, None);
        let row =
            Backfill { id, job, version, from, to, next, made, made_at, total, pace, parallel, at, by, reason, end };
        self.pipeline.write(Row::Backfill(Box::new(row.clone())));
        if let Some(request_id) = request_id {
            self.pipeline.write(Row::Request { job, request_id, run: RunId(id.0) });
        }
        let pacer = Pacer::new(pace, now.mono);
        let live = Live { row, ix, recipe: Some(recipe), pacer, open: BTreeSet::new(), waits: None };
        self.backfills.all.insert(id, live);
        Ok(id)
    }

    /// What a job runs now; none for one without a schedule.
    fn recipe_of(&self, ix: JobIx) -> Option<Recipe> {
        let live = self.jobs.get(ix);
        let schedule = live.schedule.clone().filter(|_| !live.is_broken)?;
        Some(Recipe { schedule, policy: live.policy.clone(), body: live.body.clone(), pool: live.pool })
    }

    /// Makes a backfill live again at the begin of a term; its runs enter with those that are open.
    pub(super) fn load_backfill(&mut self, now: Now, open: OpenBackfill) {
        let OpenBackfill { backfill: row, definition } = open;
        let Some(ix) = self.jobs.find(row.job) else {
            let end = Some(End::Cancelled { at: now.wall, by: "server".into(), why: Why::Deleted });
            return self.pipeline.write(Row::Backfill(Box::new(Backfill { end, ..row })));
        };
        let recipe = match definition {
            None => self.recipe_of(ix),
            Some(definition) => definition.compile().ok().and_then(|job| {
                let pool = self.fleet.pool_of(job.app, &job.policy, &job.body.target, now.mono);
                Some(Recipe { schedule: job.schedule?, policy: job.policy, body: job.body, pool })
            }),
        };
        // A wall clock that went back says nothing of how long ago that was.
        let since_ms = row.made_at.map(|at| u64::try_from(now.wall.0.saturating_sub(at.0)).unwrap_or(0));
        let pacer = Pacer::resumed(row.pace, since_ms, now.mono);
        let live = Live { ix, recipe, pacer, open: BTreeSet::new(), waits: None, row };
        self.backfills.all.insert(live.row.id, live);
    }

    /// Makes the runs of backfills that may begin now. Returns whether nothing that may is left.
    pub(super) fn fill_backfills(&mut self, now: Now, budget: &mut Budget) -> bool {
        self.backfills.wake = None;
        if self.backfills.all.is_empty() {
            return true;
        }
        let mut is_caught_up = true;
        for id in self.backfills.in_turn() {
            is_caught_up &= self.fill_backfill(now, id, budget);
        }
        is_caught_up
    }

    fn fill_backfill(&mut self, now: Now, id: BackfillId, budget: &mut Budget) -> bool {
        let made_before = self.backfills.all[&id].row.made;
        let last = loop {
            match self.step_backfill(now, id, budget) {
                Step::Made => {}
                last @ (Step::Nothing | Step::Waits(_) | Step::NoRoom) => break last,
            }
        };
        let live = self.backfills.all.get_mut(&id).expect("it was just looked at");
        live.waits = if let Step::Waits(why) = last { Some(why) } else { None };
        if live.waits == Some(Why::Pace) {
            let due = live.pacer.due();
            self.backfills.wake = Some(self.backfills.wake.map_or(due, |wake| wake.min(due)));
        }
        if matches!(last, Step::Nothing) && live.open.is_empty() {
            self.end_backfill(id, End::Done { at: now.wall });
        } else if live.row.made > made_before && !planted!(self.config, BackfillCursorLost) {
            self.pipeline.write(Row::Backfill(Box::new(live.row.clone())));
        }
        !matches!(last, Step::NoRoom)
    }

    /// Makes the next run of a backfill, if it may begin.
    fn step_backfill(&mut self, now: Now, id: BackfillId, budget: &mut Budget) -> Step {
        let live = &self.backfills.all[&id];
        let Some(slot) = live.row.next else { return Step::Nothing };
        let Some(recipe) = live.recipe.clone() else { return Step::Waits(Why::Invalid) };
        let (ix, job, version) = (live.ix, live.row.job, live.row.version);
        let app = self.jobs.get(ix).app;
        if let Err(why) = self.may_backfill(now, id, &recipe) {
            return Step::Waits(why);
        }
        let workers = match recipe.policy.sharding.is_broadcast {
            true => self.broadcast_to(recipe.pool),
            false => Ok(Vec::new()),
        };
        let workers = match workers {
            Ok(workers) => workers,
            Err(why) => return Step::Waits(why),
        };
        let shards = if workers.is_empty() { recipe.policy.shards as usize } else { workers.len() };
        let shards = u32::try_from(shards).expect("bounded");
        if self.pipeline.is_full() || self.ids.left() <= u64::from(shards) + 1 {
            return Step::NoRoom;
        }
        let first = match self.admit_backfill(now, (app, job), &recipe, shards, budget) {
            Ok(first) => first.filter(|_| workers.is_empty()),
            Err(why) => return Step::Waits(why),
        };
        let Recipe { schedule, policy, body, pool } = recipe;
        let (origin, param, reused, waits) = (Origin::Backfill, None, &[][..], false);
        let order = Order { version, policy, body, pool, slot, origin, param, first, reused, waits, workers };
        let run = self.admit_as(now, ix, order);
        self.pipeline.write(Row::BackfillRun { run, backfill: id });
        let live = self.backfills.all.get_mut(&id).expect("it was just looked at");
        live.row.advance(&schedule, now.wall);
        live.pacer.take(now.mono);
        if planted!(self.config, BackfillPaceIgnored) {
            live.pacer = Pacer::new(live.row.pace, now.mono);
        }
        live.open.insert(run);
        self.backfills.of.insert(run, id);
        Step::Made
    }

    /// Whether a backfill may make a run, as far as its own bounds and its job's overlap policy are concerned.
    fn may_backfill(&self, now: Now, id: BackfillId, recipe: &Recipe) -> Result<(), Why> {
        let live = &self.backfills.all[&id];
        let job = self.jobs.get(live.ix);
        if self.is_frozen(job.app) {
            return Err(Why::Frozen);
        }
        if live.pacer.due() > now.mono {
            return Err(Why::Pace);
        }
        if live.row.parallel.is_some_and(|most| live.open.len() >= most as usize) {
            return Err(Why::Parallel);
        }
        // The version that runs has a say in it, and so has the one in force.
        let is_alone = recipe.policy.overlap.places() > job.holders as usize;
        let has_place = match job.places {
            None => is_alone,
            Some(_) => self.overlap(live.ix, &recipe.body, None) == Verdict::Start,
        };
        if has_place { Ok(()) } else { Err(Why::Overlap) }
    }

    /// Whether a run of so many shards may enter and find a worker now, behind all that waits for its pool; its first worker,
    /// if it is no broadcast.
    fn admit_backfill(
        &mut self,
        now: Now,
        (app, job): (AppId, JobId),
        recipe: &Recipe,
        shards: u32,
        budget: &mut Budget,
    ) -> Result<Option<WorkerIx>, Why> {
        let pool = self.fleet.pool(recipe.pool);
        let has_others = self.jobs.held_first(recipe.pool).is_some() || !pool.waiting.is_empty();
        if has_others || self.fleet.is_blocked(recipe.pool) {
            return Err(pool.blocked.unwrap_or(Why::NextPass));
        }
        let left = self.app_budget(app, budget);
        self.may_enter(app, shards, left, budget.server_left())?;
        let is_broadcast = recipe.policy.sharding.is_broadcast;
        let first = match is_broadcast {
            true => None,
            false => Some(self.fleet.pick(recipe.pool, &recipe.policy.routing, job, &[], now.mono)?),
        };
        budget.spend(app, left, shards);
        Ok(first)
    }

    /// A backfill has ended.
    fn end_backfill(&mut self, id: BackfillId, end: End) {
        let live = self.backfills.all.remove(&id).expect("a backfill ends once");
        for run in &live.open {
            self.backfills.of.remove(run);
        }
        self.pipeline.write(Row::Backfill(Box::new(Backfill { end: Some(end), ..live.row })));
    }

    /// Lets a backfill make no more runs. Those that are open go on, unless they are to be killed.
    pub(super) fn cancel_backfill(
        &mut self,
        now: Now,
        id: BackfillId,
        kills: bool,
        by: Arc<str>,
        reply: ReplyTo,
        out: &mut Vec<Effect>,
    ) {
        let Some(live) = self.backfills.all.get(&id) else {
            return out.push(Effect::Reply(reply, Answer::Refused(Why::BackfillUnknown)));
        };
        let open: Vec<RunId> = live.open.iter().copied().collect();
        self.end_backfill(id, End::Cancelled { at: now.wall, by, why: Why::CancelledByUser });
        if kills {
            for run in &open {
                self.kill_for(now, *run, Why::KilledByUser);
            }
        }
        let answer = Answer::BackfillCancelled { open: open.len() as u64 };
        self.pipeline.after(After::Reply(reply, answer));
    }

    /// A job is deleted, and its backfills end with it.
    pub(super) fn drop_backfills(&mut self, now: Now, job: JobId, by: &Arc<str>) {
        for id in self.backfills.of_job(job) {
            self.end_backfill(id, End::Cancelled { at: now.wall, by: Arc::clone(by), why: Why::Deleted });
        }
    }

    /// A run is over, and all of it released.
    pub(super) fn leave_backfill(&mut self, run: &Run) {
        if run.origin == Origin::Backfill {
            self.backfills.leave(run.id);
        }
    }

    /// Compares what backfills keep with the runs that it is derived from. The error names what differs.
    pub(super) fn check_backfills(&self) -> Result<(), String> {
        for (id, live) in &self.backfills.all {
            let row = &live.row;
            if !row.is_open() || row.next.is_some_and(|next| next < row.from || next >= row.to) {
                return Err(format!("backfill {id}: {row:?}"));
            }
            if self.jobs.find(row.job) != Some(live.ix) {
                return Err(format!("backfill {id}: its job {} is not where it was", row.job));
            }
            for run in &live.open {
                let is_there = self.runs.runs.get(run).is_some_and(|run| run.origin == Origin::Backfill);
                if !is_there || self.backfills.of.get(run) != Some(id) {
                    return Err(format!("backfill {id}: {run} is not one of its open runs"));
                }
            }
            if row.parallel.is_some_and(|most| live.open.len() > most as usize) {
                return Err(format!("backfill {id}: {} of its runs are open", live.open.len()));
            }
        }
        let open: usize = self.backfills.all.values().map(|live| live.open.len()).sum();
        if open != self.backfills.of.len() {
            return Err(format!("{open} runs of backfills are open, {} are known", self.backfills.of.len()));
        }
        Ok(())
    }
}
