//! The cluster of one seed: everything that lives, the one queue of what happens next, and the loop.

use std::collections::BTreeMap;

use rota_core::batch::Batch;
use rota_core::id::{AppId, AttemptId, Epoch, JobId, PartitionId, WorkerId};
use rota_core::partition::{AskUpstream, Machine};
use rota_core::valve::ServerValve;
use rota_core::worker::App;

use crate::check::backfill::Backfills;
use crate::check::coverage::Coverage;
use crate::check::life::Life;
use crate::check::loss::{Heard, Loss};
use crate::check::misfire::Misfires;
use crate::check::reply::Asked;
use crate::check::shards::Shards;
use crate::check::{Broken, Verdict};
use crate::clock::{Clock, Micros, ms};
use crate::event::{Errand, Event};
use crate::fleet::Fleet;
use crate::mutant::Mutant;
use crate::oracle::Oracle;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::scenario::{PARTITIONS, SERVERS, Scenario};
use crate::store::Store;
use crate::story::Story;
use crate::worker::Slot;

/// A machine on its server.
pub struct Hosted {
    /// The machine.
    pub machine: Machine,
    /// Its term.
    pub epoch: Epoch,
    /// Batches on their way, oldest first.
    pub in_flight: std::collections::VecDeque<Batch>,
    /// How many of them are applied, with their reply on its way.
    pub unreplied: usize,
    /// Replies of this partition arrive no earlier than this.
    pub reply_at: Micros,
    /// The earliest wake-up that is on its way.
    pub wake_at: Option<Micros>,
    /// What it has heard.
    pub heard: Heard,
    /// Calls that it waits for.
    pub calls_open: u32,
    /// Slots that wait for upstream jobs, by job.
    pub asks: BTreeMap<JobId, AskUpstream>,
    /// Jobs of whose ends it wanted to hear.
    pub watched: std::collections::BTreeSet<JobId>,
}

/// A server.
pub struct Server {
    /// Whether it runs.
    pub is_up: bool,
    /// Its start.
    pub boot: u32,
    /// Its clocks.
    pub clock: Clock,
    /// It does nothing until then.
    pub frozen_until: Micros,
    /// Its rate, if it has one.
    pub valve: Option<ServerValve>,
    /// When it looks at that again.
    pub token_at: Option<Micros>,
    /// Its machines.
    pub hosted: BTreeMap<PartitionId, Hosted>,
    /// Who waits for which reply.
    pub replies: BTreeMap<u64, (PartitionId, Asked, Option<usize>)>,
    /// Sends whose first byte was not written yet.
    pub queued: BTreeMap<AttemptId, u64>,
}

/// A call that was not answered yet.
pub struct Call {
    /// Whose.
    pub server: usize,
    /// Its start.
    pub boot: u32,
    /// The machine.
    pub partition: PartitionId,
    /// Its term.
    pub epoch: Epoch,
    /// The attempt.
    pub attempt: AttemptId,
    /// What kind of call it is.
    pub kind: crate::calls::Kind,
    /// What is asked; taken when the first byte goes out.
    pub errand: Option<Errand>,
}

/// One generator per purpose.
pub struct Dice {
    /// Network and lanes.
    pub net: Rng,
    /// Servers' rounds and commits.
    pub server: Rng,
    /// Workers.
    pub worker: Rng,
    /// Operators.
    pub operator: Rng,
    /// Faults.
    pub chaos: Rng,
    /// How runs are split.
    pub shards: Rng,
    /// Upstream jobs, and those who look at them.
    pub upstream: Rng,
    /// Backfills.
    pub backfill: Rng,
    /// Children, and those who carry ends to them.
    pub children: Rng,
}

/// The checks that keep something.
pub struct Checks {
    /// 1 and 11.
    pub coverage: Coverage,
    /// 3, 4, 5 and 7.
    pub life: Life,
    /// 7, of more than one shard.
    pub shards: Shards,
    /// 9.
    pub loss: Loss,
    /// What is missed.
    pub misfires: Misfires,
    /// Ranges of the past.
    pub backfills: Backfills,
    /// 10.
    pub children: crate::check::children::Children,
    /// How fast dispatches begin.
    pub rate: crate::check::rate::Rate,
    /// State changes of jobs, for the recount.
    pub history: Vec<(JobId, rota_core::job::JobState, i64)>,
}

/// How far a seed is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Faults happen.
    Chaos,
    /// Healed; jobs go on.
    Calm,
    /// Jobs are paused.
    Ending,
    /// Over.
    Over,
}

/// The cluster.
pub struct World {
    /// The seed.
    pub seed: u64,
    /// True time.
    pub now: Micros,
    /// Events so far.
    pub events: u64,
    pub(crate) phase: Phase,
    pub(crate) phase_at: Micros,
    pub(crate) queue: Queue<Event>,
    pub(crate) dice: Dice,
    pub(crate) scenario: Scenario,
    pub(crate) mutant: Option<Mutant>,
    pub(crate) store: Store,
    pub(crate) servers: Vec<Server>,
    /// Who owns which partition, as the coordinator sees it.
    pub(crate) owners: Vec<usize>,
    pub(crate) fleet: Fleet,
    /// Links between a server and a worker, by direction, that are cut until then.
    pub(crate) cuts: BTreeMap<(usize, usize, bool), Micros>,
    /// Partitions of the store that are unavailable until then.
    pub(crate) outages: Vec<Micros>,
    pub(crate) calls: BTreeMap<u64, Call>,
    pub(crate) call_last: u64,
    pub(crate) reply_last: u64,
    pub(crate) job_last: JobId,
    /// When a partition's workers last started something.
    pub(crate) started: BTreeMap<PartitionId, Micros>,
    /// What machines published last.
    pub(crate) snapshots: BTreeMap<PartitionId, std::sync::Arc<rota_core::partition::Snapshot>>,
    /// Runs whose kill was acknowledged.
    pub(crate) killed: std::collections::BTreeSet<rota_core::id::RunId>,
    pub(crate) oracle: Oracle,
    pub(crate) checks: Checks,
    pub(crate) out: Vec<rota_core::partition::Effect>,
    /// The story.
    pub story: Story,
    pub(crate) broken: Option<Broken>,
}

/// Apps of the store, numbered from 1, with their partitions: one in each, a second in the first, and
/// one for URLs in the second.
const APPS: [(&str, u16); 6] = [("pay", 0), ("etl", 1), ("mail", 2), ("feed", 3), ("pay2", 0), (App::URL, 1)];

/// The app of URL jobs.
pub const URL_APP: u32 = 6;

/// The app whose workers seldom answer probes and cancels, and whose jobs run at most once.
pub const UNRELIABLE_APP: u32 = 4;

/// The partition of an app.
#[must_use]
pub fn partition_of(app: u32) -> PartitionId {
    PartitionId(APPS[app as usize - 1].1)
}

fn apps(scenario: &Scenario) -> impl Iterator<Item = App> + '_ {
    let app = move |(id, (name, _)): (u32, (&str, u16))| App {
        id: AppId(id),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        pending_max: 1_000,
        rates: scenario.rates.get(id as usize - 1).cloned().unwrap_or_default(),
    };
    (1..).zip(APPS).map(app)
}

impl World {
    /// The world of a seed, before anything happens.
    #[must_use]
    pub fn new(seed: u64, mutant: Option<Mutant>, story_lines: usize) -> World {
        let scenario = Scenario::of(seed);
        let mut dice = Dice {
            net: Rng::new(seed, 1),
            server: Rng::new(seed, 2),
            worker: Rng::new(seed, 3),
            operator: Rng::new(seed, 4),
            chaos: Rng::new(seed, 5),
            shards: Rng::new(seed, 7),
            upstream: Rng::new(seed, 6),
            backfill: Rng::new(seed, 8),
            children: Rng::new(seed, 9),
        };
        let servers = (0..SERVERS).map(|_| server(&scenario, &mut dice.chaos)).collect();
        let slack_ms = scenario.wall_slack_ms();
        let mut store = Store::new(PARTITIONS);
        store.is_fencing = mutant != Some(Mutant::StoreDoesNotFence);
        for app in apps(&scenario) {
            store.part_mut(partition_of(app.id.0)).apps.insert(app.id, app);
        }
        let checks = Checks {
            coverage: Coverage::default(),
            life: Life::new(scenario.timing, slack_ms),
            shards: Shards::new(scenario.send_credits),
            loss: Loss::new(scenario.timing, slack_ms),
            misfires: Misfires::new(&scenario),
            backfills: Backfills::new(scenario.every.clock_step > 0),
            rate: crate::check::rate::Rate::new(scenario.every.clock_step > 0),
            children: crate::check::children::Children::default(),
            history: Vec::new(),
        };
        let mut world = World {
            seed,
            now: 0,
            events: 0,
            phase: Phase::Chaos,
            phase_at: 0,
            queue: Queue::default(),
            dice,
            mutant,
            store,
            servers,
            owners: (0..usize::from(PARTITIONS)).map(|p| p % SERVERS).collect(),
            fleet: Fleet::default(),
            cuts: BTreeMap::new(),
            outages: vec![0; usize::from(PARTITIONS)],
            calls: BTreeMap::new(),
            call_last: 0,
            reply_last: 0,
            job_last: JobId(JobId::FIRST.0 - 1),
            started: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            killed: std::collections::BTreeSet::new(),
            oracle: Oracle::default(),
            checks,
            out: Vec::new(),
            story: Story::new(story_lines),
            broken: None,
            scenario,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for partition in 0..PARTITIONS {
            let server = self.owners[usize::from(partition)];
            self.at(ms(1), Event::Claim { server, partition: PartitionId(partition) });
        }
        self.make_workers();
        self.make_jobs();
        self.plan_faults();
        self.at(self.scenario.operator_us, Event::Operate);
        self.at(self.scenario.chaos_us, Event::Heal);
    }

    fn make_workers(&mut self) {
        let mut id = 0;
        for app in 1..URL_APP {
            for n in 0..self.dice.worker.between(1, 3) {
                id += 1;
                let rng = &mut self.dice.worker;
                let slot = Slot {
                    app,
                    name: format!("w{app}-{n}"),
                    id: WorkerId(id),
                    disk: if n == 0 { "ssd" } else { if rng.chance(500_000) { "ssd" } else { "hdd" } },
                    is_unreliable: app == UNRELIABLE_APP,
                    process: None,
                    capacity: *rng.pick(&[0, 0, 1, 3, 8]),
                };
                self.fleet.slots.push(slot);
                let slot = self.fleet.slots.len() - 1;
                let wait = self.dice.worker.between(0, 2_000_000);
                self.at(wait, Event::Start { slot });
            }
        }
    }

    /// Lets an event happen after `wait`.
    pub(crate) fn at(&mut self, wait: Micros, event: Event) {
        self.queue.push(self.now + wait, event);
    }

    /// Keeps the first thing that is wrong.
    pub(crate) fn note(&mut self, verdict: Verdict) {
        if let Err(broken) = verdict
            && self.broken.is_none()
        {
            crate::story::tell!(self, "CHECK", "{broken}");
            self.broken = Some(broken);
        }
    }

    /// Lets everything happen, up to the end or the first broken invariant.
    pub fn run(&mut self) -> Verdict {
        while self.phase != Phase::Over {
            let Some((at, event)) = self.queue.pop() else { break };
            self.now = at;
            self.events += 1;
            self.happen(event);
            if let Some(broken) = self.broken.take() {
                return Err(broken);
            }
        }
        Ok(())
    }

    /// Executions that workers recorded.
    #[must_use]
    pub fn executions(&self) -> u64 {
        self.oracle.len() as u64
    }

    fn happen(&mut self, event: Event) {
        if let Some((server, boot)) = event.server() {
            let host = &self.servers[server];
            if !host.is_up || boot.is_some_and(|boot| boot != host.boot) {
                return;
            }
            if host.frozen_until > self.now {
                // What waits in the inbox is read before the round is closed.
                let is_turn = matches!(event, Event::Turn { .. });
                self.queue.push(host.frozen_until + Micros::from(is_turn), event);
                return;
            }
        }
        match event {
            Event::Turn { server, partition, epoch, .. } => self.turn(server, partition, epoch),
            Event::Token { server, .. } => self.token(server),
            Event::Tell { server, partition, epoch, input, .. } => {
                if self.term(server, partition) == Some(epoch) {
                    self.step(server, partition, *input);
                }
            }
            Event::Commit { server, partition, epoch, .. } => self.commit(server, partition, epoch),
            Event::Arrive { server, partition, request } => self.arrive(server, partition, *request),
            Event::Dialled { server, partition, process, is_reachable, holder, .. } => {
                self.register(server, partition, process, is_reachable, holder);
            }
            Event::FirstByte { call } => self.first_byte(call),
            Event::Reach { call, address, errand } => self.reach(call, address, errand),
            Event::ReachUrl { call, dispatch } => self.reach_url(call, &dispatch),
            Event::UrlDone { call, attempt, outcome } => self.url_done(call, attempt, outcome),
            Event::Answer { call, answer } => self.answer(call, answer),
            Event::CallDeadline { call } => self.call_deadline(call),
            Event::Beat { process } => self.beat(process),
            Event::Flush { process } => self.flush(process),
            Event::Finish { process, attempt, outcome } => self.finish(process, attempt, outcome),
            Event::Reply { process, asked, answer } => self.reply(process, &asked, &answer),
            Event::Start { slot } => self.start_process(slot),
            Event::Carry { server, partition, epoch, is_pace, .. } => self.carry(server, partition, epoch, is_pace),
            Event::Judge { server, partition, epoch, look, .. } => self.judge(server, partition, epoch, look),
            Event::Claim { server, partition } => self.claim(server, partition),
            Event::Restart { server } => self.restart(server),
            Event::TermOver { server, partition, epoch, .. } => self.term_over(server, partition, epoch),
            Event::Operate => self.operate(),
            Event::Fault(fault) => self.fault(fault),
            Event::Heal => self.heal(),
            Event::ThawAll => self.thaw_all(),
            Event::Pause => self.pause_all(),
            Event::Look => self.look(),
        }
    }
}

fn server(scenario: &Scenario, rng: &mut Rng) -> Server {
    let clock = Clock::new(rng.around(scenario.skew_ms), rng.around(scenario.rate_ppm), rng.below(1_000_000_000));
    Server {
        valve: scenario.server_rate.map(|limit| ServerValve::new(limit, clock.now(0).mono)),
        token_at: None,
        is_up: true,
        boot: 1,
        clock,
        frozen_until: 0,
        hosted: BTreeMap::new(),
        replies: BTreeMap::new(),
        queued: BTreeMap::new(),
    }
}
