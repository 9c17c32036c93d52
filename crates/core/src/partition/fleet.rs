//! Apps and their workers.
//!
//! Load is derived: a worker's load is the set of its unreleased attempts, kept in [`Live::attempts`].
//! There is no counter beside that set; `sending` counts the members of it that hold a send credit,
//! and [`super::Machine::check`] recounts it. Who may be chosen, and who is, is in [`super::pools`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::pools::{Group, Pools};
use super::valve::Valve;
use crate::id::{AppId, AttemptId, Incarnation, JobId, RunId, WorkerId};
use crate::label::Labels;
use crate::time::{Mono, UnixMs};
use crate::why::Why;
use crate::worker::{App, Protocol, Registration, Secret, WorkerState};

/// A worker's place in the fleet's table; never used again for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct WorkerIx(pub(super) u32);

/// First wait before a worker that refused or could not be reached is tried again; doubles each time.
const AVOID_FIRST_MS: u64 = 1_000;
const AVOID_MAX_MS: u64 = 30_000;

/// A worker, or the host of a URL job.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) registration: Arc<Registration>,
    pub(super) is_host: bool,
    /// It left, or is known only from an attempt: whoever it is has to register anew.
    is_ghost: bool,
    pub(super) state: WorkerState,
    /// What it was before it went offline, and is again when it beats.
    before: WorkerState,
    pub(super) heard: Mono,
    pub(super) attempts: BTreeSet<AttemptId>,
    /// What they weigh together.
    pub(super) weight: u64,
    pub(super) sending: u32,
    avoid_until: Mono,
    avoided_for: u64,
    /// A group of its app's that it belongs to has no token.
    pub(super) is_shut: bool,
    /// Whether `avoid_until` is still to come; brought up to date before each choice.
    pub(super) is_avoided: bool,
    /// Its places in its app's groups, as long as the app's membership is the one that they are for.
    pub(super) seats: Vec<(usize, u32)>,
    pub(super) seated_for: u64,
}

impl Live {
    pub(super) fn load(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// Why it cannot take a task now, if it cannot.
    pub(super) fn refusal(&self, credits: u32) -> Option<Why> {
        if self.is_avoided {
            return Some(Why::ConnectFailed);
        }
        if self.is_shut {
            return Some(Why::Rate);
        }
        if self.sending >= credits {
            return Some(Why::NoCredit);
        }
        let capacity = self.registration.capacity;
        if capacity > 0 && self.load() >= capacity {
            return Some(Why::NoCapacity);
        }
        None
    }
}

/// An app, live.
#[derive(Debug)]
pub(super) struct AppLive {
    pub(super) app: App,
    /// Shards admitted and not yet sent.
    pub(super) pending: u32,
    pub(super) workers: Vec<WorkerIx>,
    /// Counts changes of who may be chosen at all.
    pub(super) membership: u64,
    /// Counts what may let a blocked pool go on: credits and places given back, workers that change.
    pub(super) stirred: u64,
    pub(super) turn: u64,
    /// Choices so far of those of its jobs whose workers take turns.
    pub(super) turns: BTreeMap<JobId, u64>,
    /// Its token buckets, if its rate is limited.
    pub(super) valve: Option<Box<Valve>>,
    /// The sets of workers that its pools choose from; made anew whenever the membership changes.
    pub(super) groups: Vec<Group>,
}

#[derive(Debug)]
pub(super) struct Fleet {
    /// Committed-or-sending attempts that a worker may have.
    pub(super) credits: u32,
    pub(super) apps: BTreeMap<AppId, AppLive>,
    pub(super) workers: Vec<Live>,
    by_id: BTreeMap<WorkerId, WorkerIx>,
    /// Workers that are left alone for a while, by when that ends; some entries are of an earlier while.
    avoided: BTreeSet<(Mono, WorkerIx)>,
    pub(super) pools: Pools,
    /// Shards with a worker that have not been sent: what the server's cap counts, since shards that no
    /// worker takes must not stand in the way of other apps.
    placed: u32,
    /// When apps may have tokens again, for the machine to set timers.
    pub(super) rate_wakes: Vec<(Mono, AppId)>,
    /// Tokens of the server's rate that dispatches may take in this step; none if it has no rate.
    pub(super) server_tokens: Option<u32>,
    /// Something waits for such a token.
    pub(super) wants_token: bool,
    /// Places of forgotten workers.
    free: Vec<WorkerIx>,
    /// Shards that wait for one worker and may go to no other, in order.
    pinned: BTreeMap<WorkerIx, VecDeque<(RunId, u32)>>,
    /// The same, of workers that are not known any more.
    orphans: Vec<(RunId, u32)>,
}

impl Fleet {
    pub(super) fn new(credits: u32) -> Fleet {
        Fleet {
            credits,
            apps: BTreeMap::new(),
            workers: Vec::new(),
            by_id: BTreeMap::new(),
            avoided: BTreeSet::new(),
            pools: Pools::default(),
            placed: 0,
            rate_wakes: Vec::new(),
            server_tokens: None,
            wants_token: false,
            free: Vec::new(),
            pinned: BTreeMap::new(),
            orphans: Vec::new(),
        }
    }

    pub(super) fn set_app(&mut self, app: App) {
        match self.apps.get_mut(&app.id) {
            Some(live) => live.app = app,
            None => {
                let live = AppLive {
                    app,
                    pending: 0,
                    workers: Vec::new(),
                    membership: 1,
                    stirred: 0,
                    turn: 0,
                    turns: BTreeMap::new(),
                    valve: None,
                    groups: Vec::new(),
                };
                self.apps.insert(live.app.id, live);
            }
        }
    }

    pub(super) fn app(&self, app: AppId) -> Option<&AppLive> {
        self.apps.get(&app)
    }

    pub(super) fn apps(&self) -> impl Iterator<Item = &AppLive> {
        self.apps.values()
    }

    /// Shards admitted and not yet sent, of all apps.
    pub(super) fn pending(&self) -> u32 {
        self.apps.values().map(|a| a.pending).sum()
    }

    /// Shards with a worker that have not been sent, of all apps.
    pub(super) fn placed(&self) -> u32 {
        self.placed
    }

    pub(super) fn place(&mut self) {
        self.placed += 1;
    }

    /// A shard that had a worker has been sent, or never will be.
    pub(super) fn take_placed(&mut self, app: AppId) {
        assert!(self.placed > 0, "every shard that is sent had been placed");
        self.placed -= 1;
        self.take_pending(app);
    }

    pub(super) fn add_pending(&mut self, app: AppId, shards: u32) {
        if let Some(live) = self.apps.get_mut(&app) {
            live.pending += shards;
        }
    }

    pub(super) fn take_pending(&mut self, app: AppId) {
        if let Some(live) = self.apps.get_mut(&app) {
            assert!(live.pending > 0, "every shard that leaves had been admitted");
            live.pending -= 1;
        }
    }

    pub(super) fn worker(&self, ix: WorkerIx) -> &Live {
        &self.workers[ix.0 as usize]
    }

    pub(super) fn worker_mut(&mut self, ix: WorkerIx) -> &mut Live {
        &mut self.workers[ix.0 as usize]
    }

    pub(super) fn workers(&self) -> impl Iterator<Item = (WorkerIx, &Live)> {
        (0u32..).map(WorkerIx).zip(self.workers.iter()).filter(|(ix, _)| !self.free.contains(ix))
    }

    pub(super) fn find(&self, id: WorkerId) -> Option<WorkerIx> {
        self.by_id.get(&id).copied()
    }

    /// The worker, if this incarnation of it is the registered one.
    pub(super) fn find_start(&self, id: WorkerId, incarnation: Incarnation) -> Option<WorkerIx> {
        self.find(id).filter(|ix| {
            let live = self.worker(*ix);
            live.registration.incarnation == incarnation && !live.is_ghost
        })
    }

    /// Adds a worker, or replaces the registration of the one with this id.
    pub(super) fn register(&mut self, registration: Arc<Registration>, state: WorkerState, now: Mono) -> WorkerIx {
        let app = registration.app;
        let ix = match self.find(registration.id) {
            Some(ix) => {
                let live = self.worker_mut(ix);
                live.registration = registration;
                live.is_ghost = false;
                live.before = WorkerState::Online;
                live.state = state;
                live.heard = now;
                live.avoid_until = now;
                live.avoided_for = 0;
                live.is_avoided = false;
                ix
            }
            None => {
                let id = registration.id;
                let ix = self.push(registration, false, state, now);
                self.by_id.insert(id, ix);
                ix
            }
        };
        self.mark_shut(ix);
        self.members_changed(app);
        ix
    }

    pub(super) fn push(
        &mut self,
        registration: Arc<Registration>,
        is_host: bool,
        state: WorkerState,
        now: Mono,
    ) -> WorkerIx {
        let next = WorkerIx(u32::try_from(self.workers.len()).expect("workers are fewer than 2^32"));
        let ix = self.free.pop().unwrap_or(next);
        if let Some(app) = self.apps.get_mut(&registration.app) {
            app.workers.push(ix);
        }
        let live = Live {
            registration,
            is_host,
            is_ghost: false,
            state,
            before: WorkerState::Online,
            heard: now,
            attempts: BTreeSet::new(),
            weight: 0,
            sending: 0,
            avoid_until: now,
            avoided_for: 0,
            is_shut: false,
            is_avoided: false,
            seats: Vec::new(),
            seated_for: 0,
        };
        match self.workers.get_mut(ix.0 as usize) {
            Some(place) => *place = live,
            None => self.workers.push(live),
        }
        ix
    }

    /// Forgets a worker that has been offline for long and holds no attempt.
    pub(super) fn forget(&mut self, ix: WorkerIx) {
        let live = self.worker(ix);
        assert!(live.attempts.is_empty() && !live.is_host, "a worker is kept as long as an attempt names it");
        let (id, app) = (live.registration.id, live.registration.app);
        if self.by_id.remove(&id).is_some() {
            self.free.push(ix);
        }
        if let Some(app) = self.apps.get_mut(&app) {
            app.workers.retain(|other| *other != ix);
        }
        self.members_changed(app);
    }

    /// The stand-in for a worker that is known only from an attempt: offline, without an address.
    pub(super) fn ghost(&mut self, id: WorkerId, app: AppId, incarnation: Incarnation, now: Mono) -> WorkerIx {
        if let Some(ix) = self.find(id) {
            return ix;
        }
        let registration = blank(id, app, format!("worker-{id}"), incarnation, Protocol::Http);
        let ix = self.register(registration, WorkerState::Offline, now);
        self.worker_mut(ix).is_ghost = true;
        ix
    }

    pub(super) fn set_state(&mut self, ix: WorkerIx, state: WorkerState) {
        let live = self.worker_mut(ix);
        if state == WorkerState::Offline && live.state != WorkerState::Offline {
            live.before = live.state;
        }
        live.state = state;
        let app = self.worker(ix).registration.app;
        self.members_changed(app);
    }

    /// A worker that left has to register anew, whatever it still says.
    pub(super) fn dismiss(&mut self, ix: WorkerIx) {
        self.worker_mut(ix).is_ghost = true;
    }

    /// What an offline worker is again once it is heard.
    pub(super) fn state_before(&self, ix: WorkerIx) -> WorkerState {
        self.worker(ix).before
    }

    pub(super) fn set_labels(&mut self, ix: WorkerIx, labels: Option<Labels>, capacity: u32) {
        let live = self.worker_mut(ix);
        let mut registration = (*live.registration).clone();
        registration.capacity = capacity;
        if let Some(labels) = labels {
            registration.labels = labels;
        }
        live.registration = Arc::new(registration);
        let app = live.registration.app;
        self.mark_shut(ix);
        self.members_changed(app);
    }

    fn members_changed(&mut self, app: AppId) {
        if let Some(live) = self.apps.get_mut(&app) {
            live.membership += 1;
            live.stirred += 1;
            live.groups.clear();
        }
    }

    /// An attempt takes a place of a worker, with one of its send credits or without.
    pub(super) fn occupy(&mut self, ix: WorkerIx, attempt: AttemptId, weight: u64, has_credit: bool) {
        let live = self.worker_mut(ix);
        live.attempts.insert(attempt);
        live.weight += weight;
        live.sending += u32::from(has_credit);
        self.seat(ix);
    }

    /// A send credit comes back.
    pub(super) fn take_credit_back(&mut self, ix: WorkerIx) {
        self.worker_mut(ix).sending -= 1;
        self.seat(ix);
        self.stir(ix);
    }

    /// An attempt's place is free.
    pub(super) fn vacate(&mut self, ix: WorkerIx, attempt: AttemptId, weight: u64) {
        let live = self.worker_mut(ix);
        live.attempts.remove(&attempt);
        live.weight -= weight;
        self.seat(ix);
        self.stir(ix);
    }

    /// Leaves a worker alone for a while, longer each time in a row.
    pub(super) fn avoid(&mut self, ix: WorkerIx, now: Mono) -> Mono {
        let live = self.worker_mut(ix);
        if live.avoid_until > now {
            return live.avoid_until; // one burst of refusals is one refusal
        }
        live.avoided_for = (live.avoided_for * 2).clamp(AVOID_FIRST_MS, AVOID_MAX_MS);
        live.avoid_until = now.plus(live.avoided_for);
        live.is_avoided = true;
        let until = live.avoid_until;
        self.avoided.insert((until, ix));
        self.seat(ix);
        until
    }

    /// Those whom time has forgiven may be chosen again.
    pub(super) fn forgive(&mut self, now: Mono) {
        while let Some((until, ix)) = self.avoided.first().copied()
            && until <= now
        {
            self.avoided.pop_first();
            let live = self.worker_mut(ix);
            if live.is_avoided && live.avoid_until <= now {
                live.is_avoided = false;
                self.seat(ix);
            }
        }
    }

    /// Why a worker cannot take a task now, if it cannot.
    pub(super) fn refusal(&mut self, ix: WorkerIx, now: Mono) -> Option<Why> {
        self.forgive(now);
        if let Err(why) = self.pass_app(self.worker(ix).registration.app, now) {
            return Some(why);
        }
        let live = self.worker(ix);
        if live.state == WorkerState::Online { live.refusal(self.credits) } else { Some(Why::NoWorker) }
    }

    /// A shard waits for this worker, and for no other; without one, for a worker that is not known any more.
    pub(super) fn pin(&mut self, ix: Option<WorkerIx>, run: RunId, shard: u32) {
        match ix {
            Some(ix) => self.pinned.entry(ix).or_default().push_back((run, shard)),
            None => self.orphans.push((run, shard)),
        }
    }

    pub(super) fn has_pinned(&self) -> bool {
        !self.pinned.is_empty() || !self.orphans.is_empty()
    }

    /// Shards whose workers are not known any more.
    pub(super) fn take_orphans(&mut self) -> Vec<(RunId, u32)> {
        std::mem::take(&mut self.orphans)
    }

    /// Workers for which shards wait.
    pub(super) fn pinned_to(&self) -> Vec<WorkerIx> {
        self.pinned.keys().copied().collect()
    }

    pub(super) fn pinned_first(&self, ix: WorkerIx) -> Option<(RunId, u32)> {
        self.pinned.get(&ix)?.front().copied()
    }

    pub(super) fn drop_pinned_first(&mut self, ix: WorkerIx) {
        let Some(queue) = self.pinned.get_mut(&ix) else { return };
        queue.pop_front();
        if queue.is_empty() {
            self.pinned.remove(&ix);
        }
    }

    /// Nothing waits for this worker any more; what did.
    pub(super) fn unpin(&mut self, ix: WorkerIx) -> VecDeque<(RunId, u32)> {
        self.pinned.remove(&ix).unwrap_or_default()
    }

    /// A job is gone: how far its workers' turns had come is not asked for again.
    pub(super) fn forget_turns(&mut self, app: AppId, job: JobId) {
        if let Some(live) = self.apps.get_mut(&app) {
            live.turns.remove(&job);
        }
    }

    pub(super) fn trust(&mut self, ix: WorkerIx) {
        self.worker_mut(ix).avoided_for = 0;
    }

    /// Something happened that may let a blocked pool of this worker's app go on.
    pub(super) fn stir(&mut self, ix: WorkerIx) {
        let app = self.worker(ix).registration.app;
        if let Some(live) = self.apps.get_mut(&app) {
            live.stirred += 1;
        }
    }
}

pub(super) fn blank(
    id: WorkerId,
    app: AppId,
    name: String,
    incarnation: Incarnation,
    protocol: Protocol,
) -> Arc<Registration> {
    Arc::new(Registration {
        id,
        app,
        name,
        incarnation,
        url: String::new(),
        protocol,
        handlers: Vec::new(),
        labels: Labels::new(),
        capacity: 0,
        list_max: 0,
        secret: Secret::default(),
        at: UnixMs(0),
    })
}
