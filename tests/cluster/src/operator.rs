//! Operators: they create, edit, pause, resume, delete, trigger and kill at random moments, and read from the store.

use std::sync::Arc;

use rota_core::batch::{Origin, RunState};
use rota_core::freeze::Missed;
use rota_core::id::{AppId, BackfillId, JobId, PartitionId, RunId, Version};
use rota_core::job::{
    Active, Calendar, Definition, Delivery, Dst, Gap, JobState, Misfire, Overlap, Retry, Route, Spec, Strategy, Target,
    Timeout, When,
};
use rota_core::misfire::{Pace, Policy};
use rota_core::overlap::Mode;
use rota_core::partition::{BackfillOrder, Input, ReplyTo, RerunOrder};
use rota_core::retry::{self, Backoff};
use rota_core::route::Options;
use rota_core::shards::{OnLoss, Success};
use rota_core::time::UnixMs;
use rota_core::trace::Parent;
use rota_core::upstream::{Edge, Ended, OnSkip, Period};

use crate::check::places::is_parked;
use crate::check::reply::Asked;
use crate::children::{family, fit};
use crate::clock::{WALL_ZERO_MS, ms};
use crate::event::{Event, Request};
use crate::rng::Rng;
use crate::world::{Phase, UNRELIABLE_APP, URL_APP, World, partition_of};

/// The part of a parameter by which runs overlap, where there is one.
pub const KEY: &str = "tenant";

impl World {
    /// The jobs that exist from the start.
    pub(crate) fn make_jobs(&mut self) {
        for _ in 0..self.scenario.jobs {
            let wait = self.dice.operator.between(10_000, 3_000_000);
            self.create_after(wait);
        }
    }

    fn create_after(&mut self, wait: u64) {
        self.job_last.0 += 1;
        let id = self.job_last;
        let rng = &mut self.dice.operator;
        let app = 1 + rng.below(u64::from(URL_APP)) as u32;
        let now_ms = WALL_ZERO_MS + (self.now / 1_000) as i64;
        let misses = self.scenario.misfires.then_some(self.seed.wrapping_add(self.events) ^ u64::from(id.0));
        let mut spec = after(&mut self.dice.upstream, id, spec(rng, app, now_ms, misses));
        split(&mut self.dice.shards, &mut spec);
        if self.scenario.children {
            family(&mut self.dice.children, id, &mut spec);
        }
        let rng = &mut self.dice.operator;
        let state = if rng.chance(100_000) { JobState::Paused } else { JobState::Enabled };
        let definition = Definition {
            id,
            version: Version(1),
            app: AppId(app),
            name: format!("job-{}", id.0 - JobId::FIRST.0),
            spec,
            state,
            at: UnixMs(0),
            by: "ann".to_owned(),
            managed_by: None,
            pause: None,
        };
        let input = Input::Define { definition: Box::new(definition), expected: None, reply: ReplyTo(0) };
        self.request_after(wait, partition_of(app), input, Asked::Define(id));
    }

    fn request_after(&mut self, wait: u64, partition: PartitionId, input: Input, asked: Asked) {
        let owner = self.owners[usize::from(partition.0)];
        let is_wrong = self.phase == Phase::Chaos && self.dice.operator.chance(self.scenario.wrong_server_ppm / 4);
        let server = if is_wrong { 1 - owner } else { owner };
        let request = Box::new(Request::Operator(input, asked));
        self.at(wait, Event::Arrive { server, partition, request });
    }

    /// An operator does something.
    pub(crate) fn operate(&mut self) {
        if self.phase != Phase::Chaos {
            return;
        }
        let wait = self.dice.operator.wait(self.scenario.operator_us);
        self.at(wait, Event::Operate);
        if self.dice.backfill.chance(self.scenario.backfill_ppm) {
            self.operate_backfills();
        }
        let what = self.dice.operator.below(100);
        match what {
            0..8 => self.create_after(1_000),
            8..23 => self.edit(),
            23..38 => self.change_state(JobState::Paused),
            38..60 => self.change_state(JobState::Enabled),
            60..65 => self.change_state(JobState::Deleted),
            65..82 => self.trigger(),
            82..86 => self.rerun(),
            86..88 if self.scenario.freezes => self.freeze(),
            88..94 if self.scenario.freezes => self.thaw(),
            _ => self.kill(),
        }
    }

    /// A living job, any of them.
    fn some_job(&mut self) -> Option<(PartitionId, Definition)> {
        let living = |(partition, part): (PartitionId, &crate::store::Part)| {
            let jobs = part.jobs.values().filter(|j| j.current.state != JobState::Deleted);
            jobs.map(move |j| (partition, j.current.id)).collect::<Vec<_>>()
        };
        let all: Vec<(PartitionId, JobId)> = self.store.parts().flat_map(living).collect();
        if all.is_empty() {
            return None;
        }
        let (partition, id) = *self.dice.operator.pick(&all);
        Some((partition, self.store.part(partition).jobs[&id].current.clone()))
    }

    fn edit(&mut self) {
        let Some((partition, mut definition)) = self.some_job() else { return };
        let now_ms = WALL_ZERO_MS + (self.now / 1_000) as i64;
        let rng = &mut self.dice.operator;
        let misses = self.scenario.misfires.then_some(self.seed.wrapping_add(self.events));
        let mut fresh = spec(rng, definition.app.0, now_ms, misses);
        split(&mut self.dice.shards, &mut fresh);
        let rng = &mut self.dice.operator;
        match rng.below(4) {
            0 => {
                definition.spec.schedule = fresh.schedule;
                (definition.spec.zone, definition.spec.dst) = (fresh.zone, fresh.dst);
                (definition.spec.calendar, definition.spec.active) = (fresh.calendar, fresh.active);
                definition.spec.jitter_ms = fresh.jitter_ms;
                definition.spec.misfire = fresh.misfire;
            }
            1 => definition.spec.overlap = fresh.overlap,
            2 => {
                (definition.spec.shards, definition.spec.sharding) = (fresh.shards, fresh.sharding);
                definition.spec.retry = fresh.retry;
            }
            _ => definition.spec = after(&mut self.dice.upstream, definition.id, fresh),
        }
        if self.scenario.children && self.dice.children.chance(300_000) {
            family(&mut self.dice.children, definition.id, &mut definition.spec);
        }
        let is_child = self.scenario.children && definition.spec.schedule == When::Manual;
        if !is_child && matches!(definition.spec.schedule, When::DelayMs(_) | When::Manual) {
            definition.spec.after.clear();
        }
        fit(&mut definition.spec);
        let rng = &mut self.dice.operator;
        let stale = rng.chance(100_000);
        let expected = Some(if stale { Version(definition.version.0 + 7) } else { definition.version });
        let id = definition.id;
        let input = Input::Define { definition: Box::new(definition), expected, reply: ReplyTo(0) };
        self.request_after(500, partition, input, Asked::Define(id));
    }

    fn change_state(&mut self, state: JobState) {
        let Some((partition, definition)) = self.some_job() else { return };
        let job = definition.id;
        // Some change only what is as they saw it, and it may have moved until their request arrives.
        let rng = &mut self.dice.operator;
        let is_stale = rng.chance(50_000);
        let version = Version(definition.version.0 + if is_stale { 7 } else { 0 });
        let expected = (is_stale || rng.chance(300_000)).then_some((version, definition.state));
        let input = Input::SetState { job, state, expected, by: Arc::from("bob"), reason: None, reply: ReplyTo(0) };
        self.request_after(500, partition, input, Asked::State { job, state, is_stale });
    }

    fn trigger(&mut self) {
        let Some((partition, definition)) = self.some_job() else { return };
        let job = definition.id;
        let origin = *self.dice.operator.pick(&[Origin::Manual, Origin::Api]);
        let rng = &mut self.dice.operator;
        let params = [None, None, Some("tenant=a"), Some("tenant=b"), Some("{\"tenant\": \"a\"}"), Some("tenantless")];
        let param = rng.pick(&params).map(Arc::from);
        // Programs ask within a trace; no dice, so that what they draw otherwise stays as it is.
        let header = format!("00-{:032x}-{:016x}-01", job.0, self.now);
        let parent = Parent::parse(&header).filter(|_| origin == Origin::Api).map(Arc::new);
        let asked = Asked::Trigger(job, parent.clone());
        let input = Input::Trigger { job, param, request_id: None, origin, parent, reply: ReplyTo(0) };
        self.request_after(500, partition, input, asked);
    }

    /// Runs something again that has ended, whole or without some of its shards.
    fn rerun(&mut self) {
        let over = |(partition, part): (PartitionId, &crate::store::Part)| {
            let runs = part.runs.values().map(|row| &row.run);
            let ended = runs.filter(|run| run.shards > 0 && run.state.is_terminal());
            ended.map(|run| (partition, run.id)).collect::<Vec<_>>()
        };
        let all: Vec<(PartitionId, RunId)> = self.store.parts().flat_map(over).collect();
        if all.is_empty() {
            return;
        }
        let (partition, of) = *self.dice.operator.pick(&all);
        let part = self.store.part(partition);
        let run = &part.runs[&of].run;
        let (job, slot, shards) = (run.job, run.slot, run.shards);
        let definition = part.jobs[&job].versions[&run.version].clone();
        let left = self.dice.operator.below(u64::from(shards)) as u32;
        let reused: Vec<u32> = (0..left).collect();
        let shards = part.shards.get(&of).filter(|_| left > 0);
        let workers = shards.map(|shards| shards.workers.clone()).unwrap_or_default();
        let order = RerunOrder { of, definition, slot, param: None, reused, workers, request_id: None, parent: None };
        let input = Input::Rerun { order: Box::new(order), reply: ReplyTo(0) };
        self.request_after(500, partition, input, Asked::Rerun(job, of));
    }

    /// Asks for a range of the past to run, or for the end of what was asked for.
    fn operate_backfills(&mut self) {
        let open = self.open_backfills();
        if !open.is_empty() && self.dice.backfill.chance(200_000) {
            let (partition, backfill) = *self.dice.backfill.pick(&open);
            return self.cancel_backfill(partition, backfill);
        }
        let living = |(partition, part): (PartitionId, &crate::store::Part)| {
            let jobs = part.jobs.values().filter(|j| j.current.state != JobState::Deleted);
            jobs.map(move |j| (partition, j.current.id)).collect::<Vec<_>>()
        };
        let all: Vec<(PartitionId, JobId)> = self.store.parts().flat_map(living).collect();
        if all.is_empty() {
            return;
        }
        let rng = &mut self.dice.backfill;
        let (partition, job) = *rng.pick(&all);
        let current = &self.store.part(partition).jobs[&job].current;
        let version = Version(current.version.0 + u32::from(rng.chance(20_000)));
        let now_ms = WALL_ZERO_MS + (self.now / 1_000) as i64;
        let to = UnixMs(now_ms - rng.between(0, 60_000) as i64 + 2_000);
        let from = UnixMs(to.0 - rng.between(1, 240_000) as i64);
        let schedule = current.compile().ok().and_then(|job| job.schedule);
        let slots = schedule.map(|schedule| schedule.between(UnixMs(from.0 - 1), UnixMs(to.0 - 1)).count() as u64);
        let pace = Pace { runs: *rng.pick(&[1, 2, 10, 300]), per_ms: *rng.pick(&[1_000, 1_000, 5_000]) };
        let parallel = *rng.pick(&[None, None, Some(1), Some(2)]);
        let (by, reason, request_id) = (Arc::from("fay"), None, None);
        let total = slots.unwrap_or(0);
        let order = BackfillOrder { job, version, from, to, total, pace, parallel, by, reason, request_id };
        let input = Input::Backfill { order: Box::new(order), reply: ReplyTo(0) };
        self.request_after(500, partition, input, Asked::Backfill(job));
    }

    fn cancel_backfill(&mut self, partition: PartitionId, backfill: BackfillId) {
        let kills = self.dice.backfill.chance(500_000);
        let input = Input::CancelBackfill { backfill, kills, by: Arc::from("fay"), reply: ReplyTo(0) };
        self.request_after(500, partition, input, Asked::CancelBackfill(backfill));
    }

    /// Backfills that have not ended.
    pub(crate) fn open_backfills(&self) -> Vec<(PartitionId, BackfillId)> {
        let open = |(partition, part): (PartitionId, &crate::store::Part)| {
            let open = part.backfills.values().filter(|backfill| backfill.is_open());
            open.map(|backfill| (partition, backfill.id)).collect::<Vec<_>>()
        };
        self.store.parts().flat_map(open).collect()
    }

    fn freeze(&mut self) {
        let app = 1 + self.dice.operator.below(u64::from(URL_APP)) as u32;
        let partition = partition_of(app);
        let app = self.dice.operator.chance(500_000).then_some(AppId(app));
        let input = Input::Freeze { app, by: Arc::from("dan"), reason: Arc::from("the disk burns"), reply: ReplyTo(0) };
        self.request_after(500, partition, input, Asked::Freeze(app));
    }

    fn thaw(&mut self) {
        let frozen = self.frozen();
        if frozen.is_empty() {
            return;
        }
        let (partition, app) = *self.dice.operator.pick(&frozen);
        self.thaw_one(partition, app);
    }

    fn thaw_one(&mut self, partition: PartitionId, app: Option<AppId>) {
        let missed = *self.dice.operator.pick(&[Missed::Skip, Missed::FireOnce]);
        let input = Input::Thaw { app, by: Arc::from("dan"), missed, reply: ReplyTo(0) };
        self.request_after(500, partition, input, Asked::Thaw(app));
    }

    /// The open freezes.
    fn frozen(&self) -> Vec<(PartitionId, Option<AppId>)> {
        let open = |(partition, part): (PartitionId, &crate::store::Part)| {
            let open = part.freezes.values().filter(|freeze| freeze.is_open());
            open.map(|freeze| (partition, freeze.app)).collect::<Vec<_>>()
        };
        self.store.parts().flat_map(open).collect()
    }

    /// Thaws whatever is frozen, and looks again, since a freeze or a thaw may still be on its way.
    pub(crate) fn thaw_all(&mut self) {
        let frozen = self.frozen();
        for (partition, app) in &frozen {
            self.thaw_one(*partition, *app);
        }
        if self.phase == Phase::Calm || !frozen.is_empty() {
            self.at(ms(2_000), Event::ThawAll);
        }
    }

    fn kill(&mut self) {
        let open: Vec<(PartitionId, RunId)> =
            self.store.parts().flat_map(|(p, part)| part.unclosed_all.iter().map(move |run| (p, *run))).collect();
        if open.is_empty() {
            return;
        }
        let (partition, run) = *self.dice.operator.pick(&open);
        let shards = self.store.part(partition).runs[&run].run.shards;
        if shards > 0 && self.dice.shards.chance(400_000) {
            let shard = self.dice.shards.below(u64::from(shards)) as u32;
            let input = Input::Kill { run, shard: Some(shard), reply: ReplyTo(0) };
            return self.request_after(500, partition, input, Asked::KillShard(run, shard));
        }
        self.request_after(500, partition, Input::Kill { run, shard: None, reply: ReplyTo(0) }, Asked::Kill(run));
    }

    /// Pauses whatever is enabled, cancels whatever fills the past, and looks again soon.
    pub(crate) fn pause_all(&mut self) {
        let open = self.open_backfills();
        let mut is_done = open.is_empty();
        for (partition, backfill) in open {
            self.cancel_backfill(partition, backfill);
        }
        for partition in 0..crate::scenario::PARTITIONS {
            let partition = PartitionId(partition);
            let enabled = |j: &&crate::store::JobRow| j.current.state == JobState::Enabled;
            let jobs: Vec<JobId> =
                self.store.part(partition).jobs.values().filter(enabled).map(|j| j.current.id).collect();
            for job in jobs {
                is_done = false;
                let input = Input::SetState {
                    job,
                    state: JobState::Paused,
                    expected: None,
                    by: Arc::from("eve"),
                    reason: None,
                    reply: ReplyTo(0),
                };
                let asked = Asked::State { job, state: JobState::Paused, is_stale: false };
                self.request_after(500, partition, input, asked);
            }
        }
        if is_done {
            self.at(ms(1_000), Event::Look);
        } else {
            self.at(ms(2_000), Event::Pause);
        }
    }

    /// Whether a run counts as waiting where everybody can see it: it waits for a worker that there is none of.
    pub(crate) fn waits_visibly(&self, partition: PartitionId, run: RunId) -> bool {
        let part = self.store.part(partition);
        let row = &part.runs[&run];
        if is_parked(row) {
            // Behind another one that waits so.
            let others = part.unclosed.get(&row.run.job).into_iter().flatten();
            let mut others = others.filter(|other| !is_parked(&part.runs[other]));
            return others.any(|other| self.waits_visibly(partition, *other));
        }
        let definition = &part.jobs[&row.run.job].versions[&row.run.version];
        matches!(row.run.state, RunState::Pending | RunState::Dispatched | RunState::Running)
            && definition.spec.route.labels == "disk=tape"
            && row.attempts.iter().all(crate::store::is_released)
    }
}

fn schedule(rng: &mut Rng, now_ms: i64) -> When {
    match rng.below(12) {
        0..3 => When::Cron("* * * * *".to_owned()),
        3 => When::Cron("*/2 * * * *".to_owned()),
        4..7 => When::EveryMs(1_000 * rng.between(2, 30)),
        7..9 => When::DelayMs(1_000 * rng.between(1, 15)),
        9 => When::OnceMs(now_ms + rng.around(30_000)),
        10 => When::OnceMs(now_ms + rng.between(1, 60_000) as i64),
        _ => When::Manual,
    }
}

/// Any policy, with a key or without.
fn overlap(rng: &mut Rng) -> Overlap {
    let modes = [Mode::Skip, Mode::Queue, Mode::CancelRunning, Mode::CancelAndWait, Mode::Merge, Mode::Allow];
    if rng.below(3) == 0 {
        return Overlap::ALLOW;
    }
    let mode = *rng.pick(&modes);
    let has_max = matches!(mode, Mode::Allow | Mode::Queue | Mode::Merge);
    let max = has_max.then(|| *rng.pick(&[None, Some(1), Some(2), Some(3)])).flatten();
    let queue = (mode == Mode::Queue).then(|| *rng.pick(&[None, Some(1), Some(3)])).flatten();
    let is_free = mode == Mode::Allow && max.is_none();
    let key = (!is_free && rng.chance(400_000)).then(|| KEY.to_owned());
    Overlap { mode, max, queue, key }
}

fn retry(rng: &mut Rng) -> Retry {
    let mut retry = Retry { max: *rng.pick(&[0, 0, 1, 3]), delay_ms: *rng.pick(&[0, 200, 3_000]), ..Retry::default() };
    if retry.delay_ms > 0 && rng.chance(300_000) {
        retry.backoff = Backoff::Exponential;
        retry.cap_ms = *rng.pick(&[None, Some(retry.delay_ms * 3)]);
        retry.jitter = rng.chance(500_000);
    }
    if rng.chance(200_000) {
        retry.when = retry::When { failed: rng.chance(500_000), timeout: rng.chance(500_000), lost: true };
    }
    retry
}

const STRATEGIES: [Strategy; 12] = [
    Strategy::Default,
    Strategy::LeastInflight,
    Strategy::AppRoundRobin,
    Strategy::TaskWeight,
    Strategy::First,
    Strategy::Last,
    Strategy::Failover,
    Strategy::TaskRoundRobin,
    Strategy::Random,
    Strategy::Lfu,
    Strategy::Lru,
    Strategy::ConsistentHash,
];

/// What a strategy is told: one of a few, by the time.
fn route_options(strategy: Strategy, now_ms: i64) -> Options {
    let weight =
        [None, Some(1_000), Some(2_000_000), Some(1 << 40)][usize::try_from(now_ms.rem_euclid(4)).unwrap_or(0)];
    let said = now_ms.rem_euclid(8) > 3;
    let mut options = Options { weight, ..Options::default() };
    match strategy {
        Strategy::Default | Strategy::TaskWeight | Strategy::LeastInflight if said => options.choices = Some(2),
        Strategy::Lfu | Strategy::Lru => options.by_job = Some(said),
        Strategy::ConsistentHash if said => options.load_max_percent = Some(125),
        Strategy::ConsistentHash => options.as_xxl = Some(true),
        Strategy::AppRoundRobin | Strategy::Random => options.by_capacity = Some(said),
        Strategy::Default
        | Strategy::TaskWeight
        | Strategy::LeastInflight
        | Strategy::First
        | Strategy::Last
        | Strategy::Failover
        | Strategy::TaskRoundRobin => {}
    }
    options
}

fn spec(rng: &mut Rng, app: u32, now_ms: i64, misses: Option<u64>) -> Spec {
    let target = if app == URL_APP {
        let method = (*rng.pick(&["GET", "POST"])).to_owned();
        let url = (*rng.pick(&["http://a.example/x", "http://b.example/y"])).to_owned();
        Target::Url { method, url, headers: std::collections::BTreeMap::new(), body: String::new() }
    } else {
        Target::Handler { name: "work".to_owned(), param: String::new() }
    };
    let mut spec = Spec::new(schedule(rng, now_ms), target);
    spec.zone = (*rng.pick(&["UTC", "Asia/Shanghai", "+05:30"])).to_owned();
    let labels = *rng.pick(&["", "", "", "", "disk=ssd", "disk=hdd", "disk=tape"]);
    // Few jobs ask for what no worker has: what waits visibly must be the exception.
    let labels = if labels == "disk=tape" && rng.chance(700_000) { "" } else { labels };
    let labels = if labels == "disk=hdd" { "disk!=tape" } else { labels };
    let strategy = *rng.pick(&STRATEGIES);
    let labels = if app == URL_APP { String::new() } else { labels.to_owned() };
    spec.route = Route { strategy, labels, options: route_options(strategy, now_ms) };
    spec.overlap = overlap(rng);
    spec.retry = retry(rng);
    spec.timeout = Timeout {
        start_ms: *rng.pick(&[None, None, None, Some(3_000), Some(30_000)]),
        attempt_ms: *rng.pick(&[None, Some(300), Some(2_000), Some(10_000)]),
        run_ms: *rng.pick(&[None, None, None, Some(1_000), Some(8_000), Some(40_000)]),
    };
    spec.shards = *rng.pick(&[1, 1, 1, 2, 3, 4]);
    let deliveries = [None, Some(Delivery::AtLeastOnce), Some(Delivery::AtMostOnce)];
    spec.delivery = if app == UNRELIABLE_APP { Some(Delivery::AtMostOnce) } else { *rng.pick(&deliveries) };
    narrow(rng, &mut spec, now_ms);
    if let Some(seed) = misses {
        spec.misfire = misfire(&spec.schedule, seed);
    }
    spec
}

/// Some jobs say what becomes of what they miss. Drawn apart, so that other draws stay as they are.
fn misfire(schedule: &When, seed: u64) -> Misfire {
    if !matches!(schedule, When::Cron(_) | When::EveryMs(_)) {
        return Misfire::default();
    }
    let rng = &mut Rng::new(seed, 6);
    let policy = *rng.pick(&[Policy::Skip, Policy::FireOnce, Policy::CatchUp, Policy::CatchUp]);
    let threshold_ms = *rng.pick(&[None, Some(1_000), Some(2_000), Some(6_000)]);
    let mut misfire = Misfire { policy, threshold_ms, ..Misfire::default() };
    if policy != Policy::Skip && rng.chance(400_000) {
        misfire.within_ms = Some(misfire.threshold_ms() as u64 + *rng.pick(&[0, 3_000, 20_000]));
    }
    if policy == Policy::CatchUp {
        misfire.max = *rng.pick(&[None, None, Some(1), Some(4)]);
        let pace = |runs, per_ms| Some(Pace { runs, per_ms });
        misfire.pace = *rng.pick(&[None, pace(1_000, 1_000), pace(2, 1_000), pace(1, 1_000)]);
    }
    misfire
}

/// Some jobs say more of their shards: a broadcast, what must succeed, what becomes of the lost, retries elsewhere.
fn split(rng: &mut Rng, spec: &mut Spec) {
    if matches!(spec.target, Target::Url { .. }) {
        return;
    }
    let rules = &mut spec.sharding.rules;
    rules.on_loss = *rng.pick(&[None, None, Some(OnLoss::Reassign), Some(OnLoss::Fail)]);
    rules.is_broadcast = rng.chance(200_000);
    if rules.is_broadcast {
        spec.shards = 1;
    } else {
        spec.retry.elsewhere = rng.chance(500_000);
    }
    let quorum = 1 + rng.below(if rules.is_broadcast { 4 } else { u64::from(spec.shards) }) as u32;
    let percent = 1 + rng.below(100) as u32;
    rules.success = *rng.pick(&[
        Success::All,
        Success::All,
        Success::Count(quorum),
        Success::Percent(percent),
        Success::BestEffort,
    ]);
}

/// Some jobs wait for others, which are older, so that no cycle comes of it.
fn after(rng: &mut Rng, job: JobId, spec: Spec) -> Spec {
    let older = u64::from(job.0 - JobId::FIRST.0);
    let can_wait = matches!(spec.schedule, When::Cron(_) | When::EveryMs(_) | When::OnceMs(_));
    if older == 0 || !can_wait || !rng.chance(350_000) {
        return spec;
    }
    let mut edges: Vec<Edge> = Vec::new();
    for _ in 0..*rng.pick(&[1, 1, 2]) {
        let job = JobId(JobId::FIRST.0 + rng.below(older) as u32);
        let period = *rng.pick(&[Period::SameSlot, Period::SameSlot, Period::Latest, Period::Window]);
        let is_once = matches!(spec.schedule, When::OnceMs(_));
        let edge = Edge {
            job,
            name: format!("job-{}", job.0 - JobId::FIRST.0),
            when: *rng.pick(&[Ended::Success, Ended::Success, Ended::Completion, Ended::Failure]),
            period: if is_once { Period::Latest } else { period },
            on_skip: *rng.pick(&[OnSkip::Skip, OnSkip::Run]),
            deadline_ms: *rng.pick(&[Some(3_000), Some(20_000), Some(60_000)]),
        };
        if edges.iter().all(|other| other.job != job) {
            edges.push(edge);
        }
    }
    Spec { after: edges, ..spec }
}

/// Some jobs have calendars, bounds and jitter, around now, so that slots meet them.
fn narrow(rng: &mut Rng, spec: &mut Spec, now_ms: i64) {
    if matches!(spec.schedule, When::OnceMs(_) | When::Manual) {
        return;
    }
    if matches!(spec.schedule, When::Cron(_)) {
        let rule = Dst::Rule { gap: Some(Gap::Skip), overlap: None };
        spec.dst = *rng.pick(&[Dst::Standard, Dst::Standard, Dst::Quartz, rule]);
    }
    spec.jitter_ms = *rng.pick(&[0, 0, 0, 0, 700, 4_000, 20_000]);
    let zone = rota_cron::Zone::parse(&spec.zone).expect("one of the zones above");
    let text = |ms: i64| zone.format(UnixMs(now_ms / 1_000 * 1_000 + ms));
    if rng.chance(150_000) {
        let (from, to) = (text(rng.around(20_000)), text(rng.between(25_000, 60_000) as i64));
        let mut exclude = vec![format!("{}-{}", &from[11..19], &to[11..19])];
        if rng.chance(200_000) {
            exclude.push("sun-sat".to_owned());
        }
        let include = if rng.chance(500_000) { vec![from[..10].to_owned()] } else { Vec::new() };
        spec.calendar = Calendar { exclude, include };
    }
    if rng.chance(150_000) {
        let from = rng.chance(500_000).then(|| text(rng.around(20_000)));
        spec.active = Active { from, until: Some(text(rng.between(20_000, 150_000) as i64)) };
    }
}
