//! Pools: whom a job may be sent to, who of them takes its next task, and what waits for them.
//!
//! Pools of an app that may choose from the same workers share a [`Group`], in which these stand in
//! the order of their fullness; so a change of one worker's load moves it in few orders, and a choice
//! looks at none but the chosen. A group is made when a pool first needs it, and forgotten whenever the
//! app's membership changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fleet::{Fleet, Live, WorkerIx, blank};
use rota_cron::mix;

use crate::id::{AppId, Incarnation, JobId, RunId, WorkerId};
use crate::job::{Policy, Target};
use crate::label::Selector;
use crate::route::{self, Hash, Load, Member, NOTHING, Nobody, Routing, Rule, Seat, Task};
use crate::time::Mono;
use crate::why::Why;
use crate::worker::{Protocol, WorkerState};

/// A pool's place in the fleet's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PoolIx(pub(super) u32);

/// Whom a job may be sent to: the workers of its app that offer its handler and match its labels.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) app: AppId,
    key: PoolKey,
    /// The one that stands for the workers of a URL pool.
    host: Option<WorkerIx>,
    /// Its group among its app's, as long as the app's membership is the one that it is for.
    group: usize,
    seen: u64,
    turn: u64,
    /// Why the last choice found nobody; cleared by the next that does.
    pub(super) blocked: Option<Why>,
    /// The app's stirrings that the last failed choice had seen.
    blocked_at: u64,
    /// Shards of admitted runs that wait for this pool, in order.
    pub(super) waiting: VecDeque<(RunId, u32)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PoolKey {
    Handler(String, Selector),
    Host(String),
}

/// Workers from which one or more pools choose, in the order of their registration.
#[derive(Debug)]
pub(super) struct Group {
    members: Vec<WorkerIx>,
    standing: route::Pool,
}

fn seat_of(live: &Live, credits: u32) -> Seat {
    match live.refusal(credits) {
        Some(why) => Seat::Refused(why),
        None => Seat::Able(Load { tasks: live.load(), weight: live.weight, taken: NOTHING }),
    }
}

#[derive(Debug, Default)]
pub(super) struct Pools {
    all: Vec<Pool>,
    index: BTreeMap<(AppId, PoolKey), PoolIx>,
    /// Pools that something waits for.
    busy: BTreeSet<PoolIx>,
    served_last: Option<PoolIx>,
}

impl Fleet {
    /// The pool of a job, made if it is new.
    pub(super) fn pool_of(&mut self, app: AppId, policy: &Policy, target: &Target, now: Mono) -> PoolIx {
        let key = match target {
            Target::Handler { name, .. } => PoolKey::Handler(name.clone(), policy.selector.clone()),
            Target::Url { .. } => PoolKey::Host(target.host().unwrap_or_default().to_ascii_lowercase()),
        };
        if let Some(ix) = self.pools.index.get(&(app, key.clone())) {
            return *ix;
        }
        let host = match &key {
            PoolKey::Handler(..) => None,
            PoolKey::Host(host) => {
                let registration = blank(WorkerId(0), app, host.clone(), Incarnation(0), Protocol::Url);
                Some(self.push(registration, true, WorkerState::Online, now))
            }
        };
        let ix = PoolIx(u32::try_from(self.pools.all.len()).expect("pools are fewer than 2^32"));
        self.pools.all.push(Pool {
            app,
            key: key.clone(),
            host,
            group: 0,
            seen: 0,
            turn: 0,
            blocked: None,
            blocked_at: 0,
            waiting: VecDeque::new(),
        });
        self.pools.index.insert((app, key), ix);
        ix
    }

    /// The host that stands for the workers of a URL pool.
    pub(super) fn host_of(&self, pool: PoolIx) -> Option<WorkerIx> {
        self.pool(pool).host
    }

    pub(super) fn pool(&self, ix: PoolIx) -> &Pool {
        &self.pools.all[ix.0 as usize]
    }

    pub(super) fn pool_mut(&mut self, ix: PoolIx) -> &mut Pool {
        &mut self.pools.all[ix.0 as usize]
    }

    /// Pools that something waits for, from another one on each time, so that none takes all there is.
    pub(super) fn busy_in_turn(&mut self) -> Vec<PoolIx> {
        let pools = &mut self.pools;
        let from = pools.served_last.map_or(PoolIx(0), |last| PoolIx(last.0.saturating_add(1)));
        let in_turn: Vec<PoolIx> = pools.busy.range(from..).chain(pools.busy.range(..from)).copied().collect();
        pools.served_last = in_turn.first().copied();
        in_turn
    }

    /// Something waits for this pool.
    pub(super) fn wake(&mut self, ix: PoolIx) {
        self.pools.busy.insert(ix);
    }

    /// Nothing waits for this pool.
    pub(super) fn rest(&mut self, ix: PoolIx) {
        self.pools.busy.remove(&ix);
    }

    pub(super) fn queue_shard(&mut self, ix: PoolIx, run: RunId, shard: u32) {
        self.wake(ix);
        self.pool_mut(ix).waiting.push_back((run, shard));
    }

    /// Chooses a worker of a pool for a job, none of these, or says why there is none.
    pub(super) fn pick(
        &mut self,
        pool: PoolIx,
        routing: &Routing,
        job: JobId,
        shuns: &[WorkerIx],
        now: Mono,
    ) -> Result<WorkerIx, Why> {
        self.forgive(now);
        self.pass_valve(pool, now)?;
        self.refresh(pool);
        let at = &mut self.pools.all[pool.0 as usize];
        let Some(app) = self.apps.get_mut(&at.app) else { return Err(Why::NoWorker) };
        let group = &mut app.groups[at.group];
        let is_of_app = matches!(routing.rule, Rule::AppRoundRobin { .. });
        let shunned: Vec<u32> = shuns.iter().filter_map(|ix| place_of(&group.members, *ix)).collect();
        let task = Task {
            key: if let Rule::ConsistentHash { hash, .. } = routing.rule { key_of(hash, job) } else { 0 },
            shuns: &shunned,
            app_turn: if is_of_app { app.turn } else { at.turn },
            job_turn: match routing.rule == Rule::TaskRoundRobin {
                true => *app.turns.get(&job).unwrap_or(&0),
                false => at.turn,
            },
            ..Task::of(u64::from(job.0), routing.weight)
        };
        let nobody = match group.standing.pick(&routing.rule, &task, now) {
            Ok(place) => {
                let chosen = group.members[place as usize];
                at.turn += 1;
                at.blocked = None;
                app.turn += u64::from(is_of_app);
                if routing.rule == Rule::TaskRoundRobin {
                    *app.turns.entry(job).or_default() += 1;
                }
                return Ok(chosen);
            }
            Err(nobody) => nobody,
        };
        if !shuns.is_empty() {
            return Err(Why::NoWorker); // others may be able, so the pool is not blocked
        }
        at.blocked_at = app.stirred;
        let why = match nobody {
            Nobody::Refused(why) => why,
            Nobody::Empty | Nobody::Busy | Nobody::NoRoom | Nobody::Shunned => self.nobody(pool),
        };
        self.pool_mut(pool).blocked = Some(why);
        Err(why)
    }

    /// A choice of this pool has failed, at this stirring of its app.
    pub(super) fn block(&mut self, pool: PoolIx, why: Why, stirred: u64) {
        let at = self.pool_mut(pool);
        (at.blocked, at.blocked_at) = (Some(why), stirred);
    }

    /// The workers of a pool, whether or not they can take a task now, in the order of their registration.
    pub(super) fn eligible(&mut self, pool: PoolIx) -> Result<Vec<WorkerIx>, Why> {
        self.refresh(pool);
        let at = &self.pools.all[pool.0 as usize];
        let members = self.apps.get(&at.app).map_or(&[][..], |app| &app.groups[at.group].members);
        if !members.is_empty() {
            return Ok(members.to_vec());
        }
        let why = self.nobody(pool);
        self.pool_mut(pool).blocked = Some(why);
        Err(why)
    }

    /// Whether a choice would fail as the last one did, since nothing has happened.
    pub(super) fn is_blocked(&self, pool: PoolIx) -> bool {
        let at = self.pool(pool);
        let (stirred, membership) = self.apps.get(&at.app).map_or((0, 0), |app| (app.stirred, app.membership));
        match at.blocked {
            None | Some(Why::Cap | Why::ServerCap | Why::Frozen | Why::Thawing) => false,
            Some(Why::ServerRate) => self.server_tokens == Some(0),
            // Nothing but a change of workers can help.
            Some(Why::NoWorker | Why::NoWorkerForHandler | Why::NoWorkerForLabels) => at.seen == membership,
            Some(_) => at.blocked_at == stirred,
        }
    }

    /// Brings a pool's group up to date with the app's membership.
    fn refresh(&mut self, pool: PoolIx) {
        let at = &mut self.pools.all[pool.0 as usize];
        let Some(app) = self.apps.get_mut(&at.app) else { return };
        if at.seen == app.membership {
            return;
        }
        let members: Vec<WorkerIx> = match &at.key {
            PoolKey::Host(_) => at.host.into_iter().collect(),
            PoolKey::Handler(handler, selector) => {
                let fits = |ix: &&WorkerIx| {
                    let live = &self.workers[ix.0 as usize];
                    live.state == WorkerState::Online
                        && live.registration.handlers.binary_search(handler).is_ok()
                        && selector.matches(&live.registration.labels)
                };
                app.workers.iter().filter(fits).copied().collect()
            }
        };
        at.seen = app.membership;
        let known = app.groups.iter().position(|group| at.host.is_none() && group.members == members);
        at.group = known.unwrap_or(app.groups.len());
        if known.is_some() {
            return;
        }
        let place = app.groups.len();
        let is_sized = members.iter().all(|ix| self.workers[ix.0 as usize].registration.capacity > 0);
        let mut seats = Vec::with_capacity(members.len());
        let mut standing = Vec::with_capacity(members.len());
        for (at, ix) in (0..).zip(&members) {
            let live = &mut self.workers[ix.0 as usize];
            if live.seated_for != app.membership {
                live.seated_for = app.membership;
                live.seats.clear();
            }
            live.seats.push((place, at));
            // In a pool in which only some have a capacity, all count alike.
            let size = if is_sized { u64::from(live.registration.capacity) } else { 1 };
            let name = live.registration.name.clone();
            standing.push(Member { name, size, zone: 0, has: NOTHING });
            seats.push(seat_of(live, self.credits));
        }
        let seed = mix(u64::from(app.app.id.0) ^ mix(app.membership));
        let standing = route::Pool::new(standing, seats, seed);
        app.groups.push(Group { members, standing });
    }

    /// Brings a worker's standing up to date with its load, its credits and its refusals.
    pub(super) fn seat(&mut self, ix: WorkerIx) {
        let live = &self.workers[ix.0 as usize];
        let Some(app) = self.apps.get_mut(&live.registration.app) else { return };
        if live.seated_for != app.membership {
            return;
        }
        for (group, place) in &live.seats {
            let group = &mut app.groups[*group];
            group.standing.set(*place, seat_of(live, self.credits));
        }
    }

    /// Why nobody of a pool without members can take a task.
    fn nobody(&self, pool: PoolIx) -> Why {
        let at = self.pool(pool);
        let PoolKey::Handler(handler, _) = &at.key else { return Why::NoWorker };
        let workers = self.apps.get(&at.app).into_iter().flat_map(|app| &app.workers).map(|ix| self.worker(*ix));
        let mut online = workers.filter(|live| live.state == WorkerState::Online && !live.is_host).peekable();
        if online.peek().is_none() {
            Why::NoWorker
        } else if online.any(|live| live.registration.handlers.binary_search(handler).is_ok()) {
            Why::NoWorkerForLabels
        } else {
            Why::NoWorkerForHandler
        }
    }

    /// Compares every standing with what it is derived from. The error names who stands where they should not.
    pub(super) fn check_standings(&self) -> Result<(), String> {
        for app in self.apps.values() {
            for group in &app.groups {
                for (place, ix) in (0..).zip(&group.members) {
                    let live = self.worker(*ix);
                    let (stands, should) = (group.standing.seat(place), seat_of(live, self.credits));
                    if stands != should {
                        return Err(format!("{}: stands as {stands:?}, is {should:?}", live.registration.name));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Where a worker is among the members of a group.
fn place_of(members: &[WorkerIx], ix: WorkerIx) -> Option<u32> {
    members.iter().position(|member| *member == ix).and_then(|place| u32::try_from(place).ok())
}

/// A job's place on a ring: that of its id in digits.
fn key_of(hash: Hash, job: JobId) -> u64 {
    let mut digits = [0; 10];
    let mut at = digits.len();
    let mut left = job.0;
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(left % 10).expect("a digit");
        left /= 10;
        if left == 0 {
            break;
        }
    }
    hash.place(std::str::from_utf8(&digits[at..]).expect("digits are text"))
}
