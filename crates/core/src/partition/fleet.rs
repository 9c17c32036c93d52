//! Apps, their workers, and the pools from which a job may choose.
//!
//! Load is derived: a worker's load is the set of its unreleased attempts, kept in [`Live::attempts`].
//! There is no counter beside that set; `sending` counts the members of it that hold a send credit,
//! and [`super::Machine::check`] recounts it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::jobs::JobIx;
use crate::id::{AppId, AttemptId, Incarnation, RunId, WorkerId};
use crate::job::{Policy, Strategy, Target};
use crate::label::{Labels, Selector};
use crate::route::{self, Candidate};
use crate::time::{Mono, UnixMs};
use crate::why::Why;
use crate::worker::{App, Protocol, Registration, Secret, WorkerState};

/// A worker's place in the fleet's table; never used again for another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct WorkerIx(pub(super) u32);

/// A pool's place in the fleet's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PoolIx(pub(super) u32);

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
    pub(super) sending: u32,
    avoid_until: Mono,
    avoided_for: u64,
}

impl Live {
    pub(super) fn load(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// Why it cannot take a task now, if it cannot.
    fn refusal(&self, credits: u32, now: Mono) -> Option<Why> {
        if self.avoid_until > now {
            return Some(Why::ConnectFailed);
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

/// Whom a job may be sent to: the workers of its app that offer its handler and match its labels.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) app: AppId,
    key: PoolKey,
    members: Vec<WorkerIx>,
    /// The app's membership that `members` was computed from.
    seen: u64,
    turn: u64,
    /// Why the last choice found nobody; cleared by the next that does.
    pub(super) blocked: Option<Why>,
    /// The app's stirrings that the last failed choice had seen.
    blocked_at: u64,
    /// Jobs whose slot waits for this pool, in order.
    pub(super) held: VecDeque<JobIx>,
    /// Shards of admitted runs that wait for this pool, in order.
    pub(super) waiting: VecDeque<(RunId, u32)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PoolKey {
    Handler(String, Selector),
    Host(String),
}

/// An app, live.
#[derive(Debug)]
pub(super) struct AppLive {
    pub(super) app: App,
    /// Shards admitted and not yet sent.
    pub(super) pending: u32,
    pub(super) workers: Vec<WorkerIx>,
    membership: u64,
    /// Counts what may let a blocked pool go on: credits and places given back, workers that change.
    stirred: u64,
    turn: u64,
}

#[derive(Debug, Default)]
pub(super) struct Fleet {
    apps: BTreeMap<AppId, AppLive>,
    workers: Vec<Live>,
    by_id: BTreeMap<WorkerId, WorkerIx>,
    pools: Vec<Pool>,
    /// Pools with something in a queue.
    busy: BTreeSet<PoolIx>,
    served_last: Option<PoolIx>,
    /// Shards with a worker that have not been sent: what the server's cap counts, since shards that no
    /// worker takes must not stand in the way of other apps.
    placed: u32,
    /// Places of forgotten workers.
    free: Vec<WorkerIx>,
    pool_index: BTreeMap<(AppId, PoolKey), PoolIx>,
}

impl Fleet {
    pub(super) fn set_app(&mut self, app: App) {
        match self.apps.get_mut(&app.id) {
            Some(live) => live.app = app,
            None => {
                let live = AppLive { app, pending: 0, workers: Vec::new(), membership: 1, stirred: 0, turn: 0 };
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
                ix
            }
            None => {
                let id = registration.id;
                let ix = self.push(registration, false, state, now);
                self.by_id.insert(id, ix);
                ix
            }
        };
        self.members_changed(app);
        ix
    }

    fn push(&mut self, registration: Arc<Registration>, is_host: bool, state: WorkerState, now: Mono) -> WorkerIx {
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
            sending: 0,
            avoid_until: now,
            avoided_for: 0,
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
        self.members_changed(app);
    }

    fn members_changed(&mut self, app: AppId) {
        if let Some(live) = self.apps.get_mut(&app) {
            live.membership += 1;
            live.stirred += 1;
        }
    }

    /// Leaves a worker alone for a while, longer each time in a row.
    pub(super) fn avoid(&mut self, ix: WorkerIx, now: Mono) -> Mono {
        let live = self.worker_mut(ix);
        if live.avoid_until > now {
            return live.avoid_until; // one burst of refusals is one refusal
        }
        live.avoided_for = (live.avoided_for * 2).clamp(AVOID_FIRST_MS, AVOID_MAX_MS);
        live.avoid_until = now.plus(live.avoided_for);
        live.avoid_until
    }

    pub(super) fn trust(&mut self, ix: WorkerIx) {
        self.worker_mut(ix).avoided_for = 0;
    }

    /// The pool of a job, made if it is new.
    pub(super) fn pool_of(&mut self, app: AppId, policy: &Policy, target: &Target, now: Mono) -> PoolIx {
        let key = match target {
            Target::Handler { name, .. } => PoolKey::Handler(name.clone(), policy.selector.clone()),
            Target::Url { .. } => PoolKey::Host(target.host().unwrap_or_default().to_ascii_lowercase()),
        };
        if let Some(ix) = self.pool_index.get(&(app, key.clone())) {
            return *ix;
        }
        let members = match &key {
            PoolKey::Handler(..) => Vec::new(),
            PoolKey::Host(host) => {
                let registration = blank(WorkerId(0), app, host.clone(), Incarnation(0), Protocol::Url);
                vec![self.push(registration, true, WorkerState::Online, now)]
            }
        };
        let ix = PoolIx(u32::try_from(self.pools.len()).expect("pools are fewer than 2^32"));
        self.pools.push(Pool {
            app,
            key: key.clone(),
            members,
            seen: 0,
            turn: 0,
            blocked: None,
            blocked_at: 0,
            held: VecDeque::new(),
            waiting: VecDeque::new(),
        });
        self.pool_index.insert((app, key), ix);
        ix
    }

    /// The host that stands for the workers of a URL pool.
    pub(super) fn host_of(&self, pool: PoolIx) -> Option<WorkerIx> {
        self.pool(pool).members.first().copied().filter(|ix| self.worker(*ix).is_host)
    }

    pub(super) fn pool(&self, ix: PoolIx) -> &Pool {
        &self.pools[ix.0 as usize]
    }

    pub(super) fn pool_mut(&mut self, ix: PoolIx) -> &mut Pool {
        &mut self.pools[ix.0 as usize]
    }

    /// Pools with something in a queue, from another one on each time, so that none takes all there is.
    pub(super) fn busy_in_turn(&mut self) -> Vec<PoolIx> {
        let from = self.served_last.map_or(PoolIx(0), |last| PoolIx(last.0.saturating_add(1)));
        let pools: Vec<PoolIx> = self.busy.range(from..).chain(self.busy.range(..from)).copied().collect();
        self.served_last = pools.first().copied();
        pools
    }

    pub(super) fn queue_held(&mut self, ix: PoolIx, job: JobIx) {
        self.busy.insert(ix);
        self.pool_mut(ix).held.push_back(job);
    }

    pub(super) fn queue_shard(&mut self, ix: PoolIx, run: RunId, shard: u32) {
        self.busy.insert(ix);
        self.pool_mut(ix).waiting.push_back((run, shard));
    }

    /// Takes a pool whose queues are empty off the list.
    pub(super) fn rest_if_idle(&mut self, ix: PoolIx) {
        let pool = self.pool(ix);
        if pool.held.is_empty() && pool.waiting.is_empty() {
            self.busy.remove(&ix);
        }
    }

    /// Chooses a worker of a pool, or says why there is none.
    pub(super) fn pick(&mut self, pool: PoolIx, strategy: Strategy, credits: u32, now: Mono) -> Result<WorkerIx, Why> {
        self.refresh(pool);
        let at = &self.pools[pool.0 as usize];
        let app_turn = self.apps.get(&at.app).map_or(0, |a| a.turn);
        let turn = if strategy == Strategy::AppRoundRobin { app_turn } else { at.turn };
        let able = at.members.iter().enumerate().filter_map(|(position, ix)| {
            let live = &self.workers[ix.0 as usize];
            live.refusal(credits, now).is_none().then(|| Candidate {
                at: position,
                load: live.load(),
                capacity: live.registration.capacity,
            })
        });
        let picked = route::pick(strategy, able, turn, at.members.len()).map(|position| at.members[position]);
        match picked {
            Some(ix) => {
                let app = at.app;
                self.pool_mut(pool).turn += 1;
                self.pool_mut(pool).blocked = None;
                if let Some(live) = self.apps.get_mut(&app) {
                    live.turn += 1;
                }
                Ok(ix)
            }
            None => {
                let why = self.nobody(pool, credits, now);
                let stirred = self.apps.get(&self.pool(pool).app).map_or(0, |app| app.stirred);
                let at = self.pool_mut(pool);
                at.blocked = Some(why);
                at.blocked_at = stirred;
                Err(why)
            }
        }
    }

    /// Something happened that may let a blocked pool of this worker's app go on.
    pub(super) fn stir(&mut self, ix: WorkerIx) {
        let app = self.worker(ix).registration.app;
        if let Some(live) = self.apps.get_mut(&app) {
            live.stirred += 1;
        }
    }

    /// Whether a choice would fail as the last one did, since nothing has happened.
    pub(super) fn is_blocked(&self, pool: PoolIx) -> bool {
        let at = self.pool(pool);
        let stirred = self.apps.get(&at.app).map_or(0, |app| app.stirred);
        let membership = self.apps.get(&at.app).map_or(0, |app| app.membership);
        match at.blocked {
            None | Some(Why::Cap | Why::ServerCap) => false,
            // Nothing but a change of workers can help.
            Some(Why::NoWorker | Why::NoWorkerForHandler | Why::NoWorkerForLabels) => at.seen == membership,
            Some(_) => at.blocked_at == stirred,
        }
    }

    /// Brings a pool's members up to date with the app's membership.
    fn refresh(&mut self, pool: PoolIx) {
        let at = &self.pools[pool.0 as usize];
        let Some(app) = self.apps.get(&at.app) else { return };
        let PoolKey::Handler(handler, selector) = &at.key else { return };
        if at.seen == app.membership {
            return;
        }
        let fits = |ix: &&WorkerIx| {
            let live = &self.workers[ix.0 as usize];
            live.state == WorkerState::Online
                && live.registration.handlers.binary_search(handler).is_ok()
                && selector.matches(&live.registration.labels)
        };
        let members: Vec<WorkerIx> = app.workers.iter().filter(fits).copied().collect();
        let seen = app.membership;
        let at = self.pool_mut(pool);
        at.members = members;
        at.seen = seen;
    }

    /// Why nobody of a pool can take a task: the reason that a person can do most about.
    fn nobody(&self, pool: PoolIx, credits: u32, now: Mono) -> Why {
        let at = self.pool(pool);
        let refusals: BTreeSet<Why> =
            at.members.iter().filter_map(|ix| self.worker(*ix).refusal(credits, now)).collect();
        for why in [Why::NoCredit, Why::NoCapacity, Why::ConnectFailed] {
            if refusals.contains(&why) {
                return why;
            }
        }
        let online: Vec<&Live> = self
            .apps
            .get(&at.app)
            .into_iter()
            .flat_map(|app| app.workers.iter().map(|ix| self.worker(*ix)))
            .filter(|live| live.state == WorkerState::Online && !live.is_host)
            .collect();
        let PoolKey::Handler(handler, _) = &at.key else { return Why::NoWorker };
        if online.is_empty() {
            Why::NoWorker
        } else if online.iter().any(|live| live.registration.handlers.binary_search(handler).is_ok()) {
            Why::NoWorkerForLabels
        } else {
            Why::NoWorkerForHandler
        }
    }
}

fn blank(id: WorkerId, app: AppId, name: String, incarnation: Incarnation, protocol: Protocol) -> Arc<Registration> {
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
        secret: Secret::default(),
        at: UnixMs(0),
    })
}
