//! A server's shell: it carries inputs into its machines and their effects out, and decides nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rota_core::id::{Block, Epoch, PartitionId};
use rota_core::job::JobState;
use rota_core::partition::{Config, Effect, Input, Machine, Snapshot};
use rota_core::time::Now;
use rota_core::valve::ServerValve;

use crate::check::loss::Heard;
use crate::check::send::{self, Sender};
use crate::check::{Broken, Rule, load, wait};
use crate::clock::{Micros, ms};
use crate::event::{Errand, Event};
use crate::mutant::Mutant;
use crate::story::tell;
use crate::words::short;
use crate::world::{Hosted, Phase, World};

/// Ids that a machine is given at a time.
const BLOCK: u64 = 16_384;

impl World {
    /// The term that a server believes to have.
    pub(crate) fn term(&self, server: usize, partition: PartitionId) -> Option<Epoch> {
        self.servers[server].hosted.get(&partition).map(|hosted| hosted.epoch)
    }

    fn read_clock(&self, server: usize) -> Now {
        self.servers[server].clock.now(self.now)
    }

    fn config(&self) -> Config {
        Config {
            timing: self.scenario.timing,
            send_credits: self.scenario.send_credits,
            backlog_runs_max: self.scenario.backlog_runs_max,
            publish_ms: 1_000,
            #[cfg(feature = "mutants")]
            mutant: match self.mutant {
                Some(Mutant::Machine(mutant)) => Some(mutant),
                _ => None,
            },
            ..Config::NATIVE
        }
    }

    /// A server begins a term: the store fences whoever had it, and a machine is made of what is durable.
    pub(crate) fn claim(&mut self, server: usize, partition: PartitionId) {
        let server = if self.servers[server].is_up { server } else { 1 - server };
        if !self.servers[server].is_up {
            self.at(ms(300), Event::Claim { server, partition });
            return;
        }
        self.owners[usize::from(partition.0)] = server;
        let now = self.read_clock(server);
        let loaded = match self.store.claim(partition) {
            Ok(loaded) => loaded,
            Err(broken) => return self.note(Err(broken)),
        };
        let epoch = loaded.epoch;
        tell!(
            self,
            format!("s{server}/p{partition}"),
            "claims, term {epoch}, wall {}, {} open runs",
            now.wall,
            loaded.open.len()
        );
        self.checks.misfires.begins(partition, now.wall);
        let boot = self.servers[server].boot;
        self.checks.rate.claims(partition, epoch, (server, boot));
        let machine = Machine::new(self.config(), loaded, now);
        let hosted = Hosted {
            machine,
            epoch,
            in_flight: VecDeque::new(),
            unreplied: 0,
            reply_at: 0,
            wake_at: None,
            heard: Heard::new(now.mono),
            calls_open: 0,
            asks: BTreeMap::new(),
            watched: BTreeSet::new(),
        };
        self.servers[server].hosted.insert(partition, hosted);
        self.step(server, partition, Input::Permits(1_000));
        let wait = self.dice.children.between(0, 500_000);
        self.carry_after(wait, server, partition, true);
    }

    /// A server drops a machine, and what it had queued.
    pub(crate) fn drop_term(&mut self, server: usize, partition: PartitionId) {
        self.servers[server].hosted.remove(&partition);
        if let Some(valve) = &mut self.servers[server].valve {
            valve.forget(partition);
        }
        if self.mutant == Some(Mutant::StaleOwnerSends) {
            return;
        }
        let calls = &mut self.calls;
        self.servers[server].queued.retain(|_, id| match calls.get(id) {
            Some(call) if call.partition == partition => {
                calls.remove(id);
                false
            }
            Some(_) => true,
            None => false,
        });
    }

    pub(crate) fn term_over(&mut self, server: usize, partition: PartitionId, epoch: Epoch) {
        if self.term(server, partition) == Some(epoch) {
            tell!(self, format!("s{server}/p{partition}"), "is told that term {epoch} is over");
            self.drop_term(server, partition);
        }
    }

    fn block(&mut self, now: Now) -> Block {
        self.store.reserve_ids(now.wall, BLOCK)
    }

    /// Steps a machine with one input, and sees to it that the round ends soon.
    pub(crate) fn step(&mut self, server: usize, partition: PartitionId, input: Input) {
        let now = self.read_clock(server);
        if !matches!(input, Input::Turn) {
            tell!(self, format!("s{server}/p{partition}"), "<- {}", short(&input));
        }
        let is_turn = matches!(input, Input::Turn);
        if matches!(input, Input::Committed(_)) {
            self.replied(server, partition);
        }
        let wants = self.servers[server].hosted.get(&partition).is_some_and(|h| h.machine.wants_ids(now));
        let block = if wants { Some(self.block(now)) } else { None };
        let host = &mut self.servers[server];
        let Some(hosted) = host.hosted.get_mut(&partition) else { return };
        let mut out = std::mem::take(&mut self.out);
        if let Some(block) = block {
            hosted.machine.step(now, Input::Ids(block), &mut out);
        }
        hear(&mut hosted.heard, &input, now, self.scenario.timing.dead_ms);
        let valve = host.valve.as_mut();
        let lent = valve.as_ref().map(|valve| valve.lend(partition, now.mono));
        if let Some(lent) = lent {
            hosted.machine.step(now, Input::Tokens(lent), &mut out);
        }
        hosted.machine.step(now, input, &mut out);
        if let (Some(valve), Some(lent)) = (valve, lent) {
            let (left, waits) = hosted.machine.server_tokens();
            let taken = if self.mutant == Some(Mutant::TokensLentTwice) { 0 } else { lent - left };
            valve.settle(partition, now.mono, taken, waits);
        }
        self.checks.coverage.seen(now.wall);
        let commits = out.iter().filter(|e| matches!(e, Effect::Commit(_))).count();
        let is_still = commits == 0 && hosted.in_flight.is_empty();
        self.look_for_token(server, now);
        for effect in out.drain(..) {
            self.carry_out(server, partition, now, effect, is_still);
        }
        self.out = out;
        self.recount(server, partition);
        if is_turn {
            self.check_wakes(server, partition);
        } else {
            let wait = self.dice.server.between(0, 2_000);
            self.wake(server, partition, wait);
        }
    }

    /// Sees to a look at the server's rate, if a machine waits for it.
    fn look_for_token(&mut self, server: usize, now: Now) {
        let host = &mut self.servers[server];
        let Some(wait_ms) = host.valve.as_ref().and_then(|valve| valve.wait_ms(now.mono)) else { return };
        let at = self.now + host.clock.true_us(wait_ms).max(1);
        if host.token_at.is_none_or(|earlier| earlier > at) {
            host.token_at = Some(at);
            let boot = host.boot;
            self.queue.push(at, Event::Token { server, boot });
        }
    }

    /// Machines that wait for tokens of their server's rate go on in turn.
    pub(crate) fn token(&mut self, server: usize) {
        self.servers[server].token_at = None;
        loop {
            let now = self.read_clock(server);
            let Some(partition) = self.servers[server].valve.as_mut().and_then(|valve| valve.next(now.mono)) else {
                return self.look_for_token(server, now);
            };
            self.step(server, partition, Input::Turn);
            self.servers[server].valve.iter_mut().for_each(ServerValve::pass_on);
        }
    }

    /// Sees to a turn after at most `wait`.
    fn wake(&mut self, server: usize, partition: PartitionId, wait: Micros) {
        let at = self.now + wait;
        let host = &mut self.servers[server];
        let boot = host.boot;
        let Some(hosted) = host.hosted.get_mut(&partition) else { return };
        if hosted.wake_at.is_some_and(|earlier| earlier <= at) {
            return;
        }
        hosted.wake_at = Some(at);
        let epoch = hosted.epoch;
        self.queue.push(at, Event::Turn { server, boot, partition, epoch });
    }

    pub(crate) fn turn(&mut self, server: usize, partition: PartitionId, epoch: Epoch) {
        let now = self.now;
        let Some(hosted) = self.servers[server].hosted.get_mut(&partition) else { return };
        if hosted.epoch != epoch || hosted.wake_at.is_none_or(|at| at > now) {
            return;
        }
        hosted.wake_at = None;
        self.step(server, partition, Input::Turn);
    }

    /// Invariant 12: after a turn, whatever is open or due has something that will wake it.
    fn check_wakes(&mut self, server: usize, partition: PartitionId) {
        let Some(hosted) = self.servers[server].hosted.get(&partition) else { return };
        if hosted.wake_at.is_some() || !hosted.in_flight.is_empty() || hosted.calls_open > 0 {
            return;
        }
        let part = self.store.part(partition);
        let is_armed = |job: &crate::store::JobRow| job.current.state == JobState::Enabled;
        if !part.unclosed_all.is_empty() || part.jobs.values().any(is_armed) {
            let text = format!(
                "the machine of partition {partition} waits for nothing, and {} runs are open",
                part.unclosed_all.len()
            );
            self.note(Err(Rule::Wakes.broken(text)));
        }
    }

    /// A machine shows its live state. If nothing of it is on its way to the store, rows and snapshot must agree.
    fn published(&mut self, server: usize, partition: PartitionId, snapshot: Arc<Snapshot>, is_still: bool) {
        let part = self.store.part(partition);
        if is_still && self.term(server, partition) == Some(part.epoch) {
            let slack_ms = self.scenario.wall_slack_ms() as i64;
            let began = self.checks.misfires.began(partition);
            let verdict =
                load::published(part, &snapshot).and_then(|()| wait::published(part, &snapshot, began, slack_ms));
            self.note(verdict);
        }
        if !snapshot.held.is_empty() {
            let held: Vec<_> =
                snapshot.held.iter().map(|held| (held.job.0, held.why.word(), held.slot.to_string())).collect();
            tell!(self, format!("s{server}/p{partition}"), "holds {held:?}");
        }
        if self.phase == Phase::Ending {
            self.note_held(partition, &snapshot);
        }
        self.snapshots.insert(partition, snapshot);
    }

    /// What a machine keeps beside what it derives it from. Planted faults have to be seen from outside.
    fn recount(&mut self, server: usize, partition: PartitionId) {
        let Some(hosted) = self.servers[server].hosted.get(&partition) else { return };
        if self.mutant.is_none() {
            let verdict = hosted.machine.check().map_err(|what| Broken { rule: Rule::Recount, what });
            self.note(verdict);
        }
    }

    fn carry_out(&mut self, server: usize, partition: PartitionId, now: Now, effect: Effect, is_still: bool) {
        match effect {
            Effect::Commit(batch) => self.submit(server, partition, now, *batch),
            Effect::Send(dispatch) => {
                let term = self.term(server, partition);
                tell!(
                    self,
                    format!("s{server}/p{partition}"),
                    "send a{} shard {} no {} of {}",
                    dispatch.attempt,
                    dispatch.shard,
                    dispatch.no,
                    dispatch.run
                );
                self.note(send::sent(self.store.part(partition), &dispatch, term, Sender::Machine));
                self.call(server, partition, Errand::Send(dispatch));
            }
            Effect::Probe(enquiry) => self.call(server, partition, Errand::Probe(enquiry)),
            Effect::Cancel(enquiry) => self.call(server, partition, Errand::Cancel(enquiry)),
            Effect::Reply(to, answer) => self.answered(server, to, answer),
            Effect::WakeIn(_) if self.mutant == Some(Mutant::WakeIsLost) => {}
            Effect::WakeIn(wait_ms) => {
                let late = if self.dice.server.chance(2_000) { 50_000 } else { self.dice.server.between(0, 300) };
                let wait = self.servers[server].clock.true_us(wait_ms) + late;
                self.wake(server, partition, wait);
            }
            Effect::AskUpstream(ask) => self.ask_upstream(server, partition, *ask),
            Effect::Ended(job) => self.ended(job),
            Effect::Publish(snapshot) => self.published(server, partition, snapshot, is_still),
        }
    }
}

/// Notes whom a machine hears with this input.
fn hear(heard: &mut Heard, input: &Input, now: Now, dead_ms: u64) {
    let key = match input {
        Input::Beat { beat, .. } => (beat.worker, beat.incarnation),
        Input::Register { registration, .. } => (registration.id, registration.incarnation),
        Input::Results { worker, incarnation, .. } => (*worker, *incarnation),
        _ => return,
    };
    heard.hear(key, now.mono, dead_ms);
}
