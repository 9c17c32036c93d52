//! Jobs and the timeline: where each job stands, and which is due next.
//!
//! A job is in exactly one place: on the timeline at its next slot, held for its pool or for a time, or at rest (paused, finished, running by hand only, or a fixed-delay job whose run is open).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rota_cron::{Calendar, Kind, Schedule};

use super::places::Places;
use super::pools::PoolIx;
use crate::batch::Exception;
use crate::id::{AppId, JobId, Version};
use crate::job::{Body, Job, JobState, Policy};
use crate::time::{Mono, UnixMs};
use crate::why::Why;

/// A job's place in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct JobIx(pub(super) u32);

/// A job, live. Kept small: a server holds a million of them.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) id: JobId,
    pub(super) version: Version,
    pub(super) app: AppId,
    pub(super) pool: PoolIx,
    pub(super) state: JobState,
    pub(super) schedule: Option<Schedule>,
    pub(super) policy: Arc<Policy>,
    pub(super) body: Arc<Body>,
    /// Its stored definition cannot be compiled.
    pub(super) is_broken: bool,
    pub(super) place: Place,
    /// Runs that hold the job's place: open, or with an unreleased attempt.
    pub(super) holders: u32,
    /// Open runs of origin `schedule`.
    pub(super) scheduled_open: u32,
    /// Who holds the places of the job, if its overlap policy limits them.
    pub(super) places: Option<Box<Places>>,
    /// Somebody wants to hear when a run of it has ended, or slots of it were covered.
    pub(super) is_watched: bool,
    /// It names alerts, so whatever of it waits is published.
    pub(super) has_alerts: bool,
    /// The exception that is durable, or is in the open batch or on its way.
    pub(super) stored: Option<Exception>,
}

/// Where a job waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// On the timeline, at this slot.
    Timeline(UnixMs),
    /// Among those that its pool holds with this slot, already judged.
    Held { slot: UnixMs, why: Why, since: UnixMs },
    /// Nowhere.
    Rest,
}

/// A slot of a job, in the order in which slots are looked at: by time, then the heaviest first, since of what is due
/// together the heavy has to be placed while there is room. The order is one of the timeline itself, so neither the end of
/// a pass nor a lack of credits breaks it.
pub(super) type Due = (UnixMs, u32, JobIx);

/// A job that catches up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Paced {
    /// When it may start its next slot.
    pub(super) next: Mono,
    /// What came due after this instant waits for nothing but the pace.
    pub(super) since: UnixMs,
}

impl Live {
    pub(super) fn kind(&self) -> Option<Kind> {
        self.schedule.as_ref().map(Schedule::kind)
    }

    /// Whether its next instant is armed one by one, outside the mark.
    pub(super) fn is_armed_kind(&self) -> bool {
        matches!(self.kind(), Some(Kind::Delay | Kind::Once))
    }
}

#[derive(Debug, Default)]
pub(super) struct Jobs {
    slab: Vec<Option<Live>>,
    free: Vec<JobIx>,
    index: BTreeMap<JobId, JobIx>,
    timeline: BTreeSet<Due>,
    /// Held slots of jobs that the mark describes and that have no exception yet: they hold the mark back.
    holding: BTreeSet<(UnixMs, JobIx)>,
    /// Held slots by pool, the oldest first: so a backlog is worked off in the order of its slots, and
    /// what is covered stays close to the mark.
    held: Vec<BTreeSet<Due>>,
    /// Slots that wait for a time or for upstream jobs, by app and reason: nobody else waits behind them.
    timed: BTreeMap<(AppId, Why), BTreeSet<Due>>,
    /// Slots up to this instant are late through our own doing, which is no misfire.
    excused: BTreeMap<JobIx, UnixMs>,
    /// Slots up to this instant have been judged and run. Durable, as long as a job stands at one of them.
    verdicts: BTreeMap<JobIx, UnixMs>,
    /// Jobs that catch up.
    paced: BTreeMap<JobIx, Paced>,
    /// What was found of the upstream jobs of the slot at which a job stands.
    pub(super) upstreams: BTreeMap<JobIx, (UnixMs, Result<(), Why>)>,
    /// Policies, schedules and calendars in use, with the number of jobs that share each.
    policies: BTreeMap<Arc<Policy>, u32>,
    schedules: BTreeMap<Schedule, u32>,
    calendars: BTreeMap<Calendar, u32>,
    pub(super) counts: [u64; 3],
    /// Jobs that name alerts.
    pub(super) alerting: u64,
}

impl Jobs {
    pub(super) fn find(&self, id: JobId) -> Option<JobIx> {
        self.index.get(&id).copied()
    }

    /// [`Jobs::find`] by a place where the job once was. A job keeps its place as long as it is there.
    pub(super) fn find_at(&self, place: Option<JobIx>, id: JobId) -> Option<JobIx> {
        place.filter(|ix| self.slab[ix.0 as usize].as_ref().is_some_and(|live| live.id == id))
    }

    pub(super) fn holds(&self, ix: JobIx) -> bool {
        self.slab[ix.0 as usize].is_some()
    }

    pub(super) fn get(&self, ix: JobIx) -> &Live {
        self.slab[ix.0 as usize].as_ref().expect("an index is dropped with its job")
    }

    pub(super) fn get_mut(&mut self, ix: JobIx) -> &mut Live {
        self.slab[ix.0 as usize].as_mut().expect("an index is dropped with its job")
    }

    /// Adds a job, or replaces the definition of the one with this id, at rest.
    pub(super) fn put(&mut self, job: Job, pool: PoolIx) -> JobIx {
        let policy = share(&mut self.policies, job.policy);
        let schedule = job.schedule.map(|schedule| self.share_schedule(schedule));
        if let Some(ix) = self.find(job.id) {
            self.rest(ix);
            self.unshare(ix);
            self.alerting -= u64::from(self.get(ix).has_alerts);
            self.set_state(ix, job.state);
            let live = self.get_mut(ix);
            live.version = job.version;
            live.is_broken = false;
            live.pool = pool;
            live.schedule = schedule;
            live.policy = policy;
            live.body = job.body;
            live.has_alerts = job.has_alerts;
            self.alerting += u64::from(job.has_alerts);
            return ix;
        }
        let live = Live {
            id: job.id,
            version: job.version,
            app: job.app,
            pool,
            state: job.state,
            schedule,
            policy,
            body: job.body,
            is_broken: false,
            place: Place::Rest,
            holders: 0,
            scheduled_open: 0,
            places: None,
            is_watched: false,
            has_alerts: job.has_alerts,
            stored: None,
        };
        self.alerting += u64::from(job.has_alerts);
        if let Some(count) = count_of(live.state) {
            self.counts[count] += 1;
        }
        let ix = self.free.pop().unwrap_or_else(|| {
            self.slab.push(None);
            JobIx(u32::try_from(self.slab.len() - 1).expect("jobs are fewer than 2^32"))
        });
        self.index.insert(live.id, ix);
        self.slab[ix.0 as usize] = Some(live);
        ix
    }

    pub(super) fn set_state(&mut self, ix: JobIx, state: JobState) {
        let before = self.get(ix).state;
        if let Some(count) = count_of(before) {
            self.counts[count] -= 1;
        }
        if let Some(count) = count_of(state) {
            self.counts[count] += 1;
        }
        self.get_mut(ix).state = state;
    }

    /// Schedules are shared whole; a calendar, which many schedules may have, is shared beneath them too.
    fn share_schedule(&mut self, schedule: Schedule) -> Schedule {
        let Some(calendar) = schedule.calendar().cloned() else { return share(&mut self.schedules, schedule) };
        let calendar = share(&mut self.calendars, calendar);
        share(&mut self.schedules, schedule.with_calendar(Some(calendar)))
    }

    fn unshare(&mut self, ix: JobIx) {
        let (policy, schedule) = (self.get(ix).policy.clone(), self.get(ix).schedule.clone());
        give_back(&mut self.policies, &policy);
        if let Some(schedule) = schedule {
            if let Some(calendar) = schedule.calendar() {
                give_back(&mut self.calendars, calendar);
            }
            give_back(&mut self.schedules, &schedule);
        }
    }

    /// Forgets a deleted job.
    pub(super) fn forget(&mut self, ix: JobIx) {
        self.rest(ix);
        self.unshare(ix);
        self.excused.remove(&ix);
        self.verdicts.remove(&ix);
        self.paced.remove(&ix);
        self.upstreams.remove(&ix);
        self.alerting -= u64::from(self.get(ix).has_alerts);
        let id = self.get(ix).id;
        if let Some(count) = count_of(self.get(ix).state) {
            self.counts[count] -= 1;
        }
        self.index.remove(&id);
        self.slab[ix.0 as usize] = None;
        self.free.push(ix);
    }

    /// Takes a job from wherever it waits.
    pub(super) fn rest(&mut self, ix: JobIx) {
        match self.get(ix).place {
            Place::Timeline(slot) => {
                let due = self.due(ix, slot);
                self.timeline.remove(&due);
            }
            Place::Held { slot, why, .. } => {
                self.holding.remove(&(slot, ix));
                let due = self.due(ix, slot);
                self.waiting_place(ix, why).remove(&due);
            }
            Place::Rest => {}
        }
        self.get_mut(ix).place = Place::Rest;
    }

    fn due(&self, ix: JobIx, slot: UnixMs) -> Due {
        (slot, self.get(ix).policy.routing.turn(), ix)
    }

    /// Puts a job on the timeline.
    pub(super) fn arm(&mut self, ix: JobIx, slot: UnixMs) {
        self.rest(ix);
        let due = self.due(ix, slot);
        self.timeline.insert(due);
        self.get_mut(ix).place = Place::Timeline(slot);
    }

    /// Holds a job at a slot.
    pub(super) fn hold(&mut self, ix: JobIx, slot: UnixMs, why: Why, since: UnixMs) {
        self.rest(ix);
        let due = self.due(ix, slot);
        self.waiting_place(ix, why).insert(due);
        self.get_mut(ix).place = Place::Held { slot, why, since };
        self.watch_mark(ix);
    }

    /// Among whom a held job waits: those of its pool, or, if it waits for a time or for upstream jobs, those of its app.
    fn waiting_place(&mut self, ix: JobIx, why: Why) -> &mut BTreeSet<Due> {
        let live = self.get(ix);
        let (app, pool) = (live.app, live.pool.0 as usize);
        if why.is_time() {
            return self.timed.entry((app, why)).or_default();
        }
        if self.held.len() <= pool {
            self.held.resize_with(pool + 1, BTreeSet::new);
        }
        &mut self.held[pool]
    }

    /// A held job holds the mark back, unless its exception says from where on its slots are uncovered.
    pub(super) fn watch_mark(&mut self, ix: JobIx) {
        let live = self.get(ix);
        let Place::Held { slot, .. } = live.place else { return };
        let is_excepted = live.stored.and_then(Exception::covered).is_some_and(|to| to < slot);
        if live.is_armed_kind() || is_excepted {
            self.holding.remove(&(slot, ix));
        } else {
            self.holding.insert((slot, ix));
        }
    }

    /// The held job's reason has changed.
    pub(super) fn set_held_why(&mut self, ix: JobIx, reason: Why) {
        if let Place::Held { why, .. } = &mut self.get_mut(ix).place {
            assert!(!why.is_time() && !reason.is_time(), "what waits for a time waits apart");
            *why = reason;
        }
    }

    /// The first slot that holds the mark back.
    pub(super) fn holding_first(&self) -> Option<(UnixMs, JobIx)> {
        self.holding.first().copied()
    }

    /// The oldest slot that a pool holds.
    pub(super) fn held_first(&self, pool: PoolIx) -> Option<(UnixMs, JobIx)> {
        self.held.get(pool.0 as usize)?.first().map(|(slot, _, ix)| (*slot, *ix))
    }

    /// What each pool holds, the oldest first.
    pub(super) fn held(&self) -> impl Iterator<Item = (PoolIx, &BTreeSet<Due>)> {
        (0..).map(PoolIx).zip(&self.held).filter(|(_, held)| !held.is_empty())
    }

    /// What waits for a time, by app and reason.
    pub(super) fn timed(&self) -> impl Iterator<Item = ((AppId, Why), &BTreeSet<Due>)> {
        self.timed.iter().map(|(key, all)| (*key, all)).filter(|(_, all)| !all.is_empty())
    }

    /// The job that is due next.
    pub(super) fn first(&self) -> Option<(UnixMs, JobIx)> {
        self.timeline.first().map(|(slot, _, ix)| (*slot, *ix))
    }

    pub(super) fn upcoming(&self) -> impl Iterator<Item = (UnixMs, &Live)> {
        self.timeline.iter().map(|(slot, _, ix)| (*slot, self.get(*ix)))
    }

    pub(super) fn excuse(&mut self, ix: JobIx, until: UnixMs) {
        self.excused.insert(ix, until);
    }

    /// Whether a slot is not to be judged: its lateness is our own doing, or it has been judged.
    pub(super) fn is_excused(&mut self, ix: JobIx, slot: UnixMs) -> bool {
        let is_within = |known: &mut BTreeMap<JobIx, UnixMs>| match known.get(&ix) {
            Some(until) if slot <= *until => true,
            Some(_) => {
                known.remove(&ix);
                false
            }
            None => false,
        };
        is_within(&mut self.excused) | is_within(&mut self.verdicts)
    }

    /// Slots up to this instant have been judged, and run.
    pub(super) fn keep_verdict(&mut self, ix: JobIx, until: UnixMs) {
        self.verdicts.insert(ix, until);
    }

    /// Whether a slot has been judged, and runs.
    pub(super) fn has_verdict(&self, ix: JobIx, slot: UnixMs) -> bool {
        self.verdicts.get(&ix).is_some_and(|until| slot <= *until)
    }

    /// The last instant up to which nothing of a job is to be judged, from what is known.
    pub(super) fn runs_until(&self, ix: JobIx) -> Option<UnixMs> {
        self.excused.get(&ix).max(self.verdicts.get(&ix)).copied()
    }

    /// The last instant up to which slots of a job have been judged, and run.
    pub(super) fn verdict(&self, ix: JobIx) -> Option<UnixMs> {
        self.verdicts.get(&ix).copied()
    }

    /// A job catches up, or does no more.
    pub(super) fn set_pace(&mut self, ix: JobIx, paced: Option<Paced>) {
        match paced {
            Some(paced) => drop(self.paced.insert(ix, paced)),
            None => drop(self.paced.remove(&ix)),
        }
    }

    /// Where a job stands that catches up.
    pub(super) fn pace_of(&self, ix: JobIx) -> Option<Paced> {
        self.paced.get(&ix).copied()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (JobIx, &Live)> {
        self.index.values().map(|ix| (*ix, self.get(*ix)))
    }
}

/// The value that equal ones share.
fn share<T: Ord + Clone>(shared: &mut BTreeMap<T, u32>, value: T) -> T {
    if let Some((known, _)) = shared.get_key_value(&value) {
        let known = known.clone();
        *shared.get_mut(&known).expect("it was just found") += 1;
        return known;
    }
    shared.insert(value.clone(), 1);
    value
}

fn give_back<T: Ord>(shared: &mut BTreeMap<T, u32>, value: &T) {
    if let Some(count) = shared.get_mut(value) {
        *count -= 1;
        if *count == 0 {
            shared.remove(value);
        }
    }
}

fn count_of(state: JobState) -> Option<usize> {
    match state {
        JobState::Enabled => Some(0),
        JobState::Paused => Some(1),
        JobState::Finished => Some(2),
        JobState::Deleted => None,
    }
}
