//! A server's shell: it carries inputs into its machines and their effects out, and decides nothing.

use std::collections::VecDeque;

use rota_core::batch::Batch;
use rota_core::id::{Block, Epoch, PartitionId};
use rota_core::job::JobState;
use rota_core::partition::{Answer, Config, Effect, Holder, Input, Machine, ReplyTo};
use rota_core::time::Now;
use rota_core::worker::{Protocol, Registration, Secret};

use crate::check::loss::{Decision, Heard};
use crate::check::reply::{self, Asked};
use crate::check::{Rule, load, send};
use crate::clock::{Micros, ms};
use crate::mutant::Mutant;
use crate::store::Applied;
use crate::story::tell;
use crate::world::{Errand, Event, Hosted, Phase, Request, World};

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
        tell!(self, format!("s{server}/p{partition}"), "claims, term {epoch}, wall {}, {} open runs", now.wall, loaded.open.len());
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
        };
        self.servers[server].hosted.insert(partition, hosted);
        self.step(server, partition, Input::Permits(1_000));
    }

    /// A server drops a machine, and what it had queued.
    pub(crate) fn drop_term(&mut self, server: usize, partition: PartitionId) {
        self.servers[server].hosted.remove(&partition);
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
        if let Some(text) = self.story.is_on().then(|| short(&input)) {
            tell!(self, format!("s{server}/p{partition}"), "<- {text}");
        }
        let is_turn = matches!(input, Input::Turn);
        if matches!(input, Input::Committed(_)) {
            self.replied(server, partition);
        }
        let wants = self.servers[server].hosted.get(&partition).is_some_and(|h| h.machine.wants_ids(now));
        let block = if wants { Some(self.block(now)) } else { None };
        let Some(hosted) = self.servers[server].hosted.get_mut(&partition) else { return };
        let mut out = std::mem::take(&mut self.out);
        if let Some(block) = block {
            hosted.machine.step(now, Input::Ids(block), &mut out);
        }
        hear(&mut hosted.heard, &input, now, self.scenario.timing.dead_ms);
        hosted.machine.step(now, input, &mut out);
        let commits = out.iter().filter(|e| matches!(e, Effect::Commit(_))).count();
        let is_still = commits == 0 && hosted.in_flight.is_empty();
        for effect in out.drain(..) {
            self.carry_out(server, partition, now, effect, is_still);
        }
        self.out = out;
        if is_turn {
            self.check_wakes(server, partition);
        } else {
            let wait = self.dice.server.between(0, 2_000);
            self.wake(server, partition, wait);
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
            let text = format!("the machine of partition {partition} waits for nothing, and {} runs are open", part.unclosed_all.len());
            self.note(Err(Rule::Wakes.broken(text)));
        }
    }

    fn carry_out(&mut self, server: usize, partition: PartitionId, now: Now, effect: Effect, is_still: bool) {
        match effect {
            Effect::Commit(batch) => self.submit(server, partition, now, *batch),
            Effect::Send(dispatch) => {
                let term = self.term(server, partition);
                tell!(self, format!("s{server}/p{partition}"), "send {} shard {} no {} of {}", dispatch.attempt, dispatch.shard, dispatch.no, dispatch.run);
                self.note(send::sent(self.store.part(partition), &dispatch, term));
                self.call(server, partition, Errand::Send(dispatch));
            }
            Effect::Probe(enquiry) => self.call(server, partition, Errand::Probe(enquiry)),
            Effect::Cancel(enquiry) => self.call(server, partition, Errand::Cancel(enquiry)),
            Effect::Reply(to, answer) => self.answered(server, to, answer),
            Effect::WakeIn(wait_ms) => {
                let late = if self.dice.server.chance(2_000) { 50_000 } else { self.dice.server.between(0, 300) };
                let wait = self.servers[server].clock.true_us(wait_ms) + late;
                self.wake(server, partition, wait);
            }
            Effect::Publish(snapshot) => {
                let part = self.store.part(partition);
                if is_still && self.term(server, partition) == Some(part.epoch) {
                    let verdict = load::published(part, &snapshot);
                    self.note(verdict);
                }
                if !snapshot.held.is_empty() {
                    tell!(self, format!("s{server}/p{partition}"), "holds {:?}", snapshot.held.iter().map(|h| (h.job.0, h.why, h.slot.0)).collect::<Vec<_>>());
                }
                if self.phase == Phase::Ending {
                    self.note_held(partition, &snapshot);
                }
                self.snapshots.insert(partition, snapshot);
            }
        }
    }

    /// A batch is on its way to the store.
    fn submit(&mut self, server: usize, partition: PartitionId, now: Now, batch: Batch) {
        tell!(self, format!("s{server}/p{partition}"), "batch {} mark {} floor {}: {}", batch.seq, batch.mark, batch.floor, rows(&batch));
        let Some(hosted) = self.servers[server].hosted.get_mut(&partition) else { return };
        let decision = Decision {
            batch: &batch,
            part: self.store.part(partition),
            at: self.now,
            now: now.mono,
            heard: &hosted.heard,
            oracle: &self.oracle,
            processes: &self.fleet,
        };
        let is_current = batch.epoch == self.store.part(partition).epoch;
        let verdict = if is_current { self.checks.loss.decided(&decision) } else { Ok(()) };
        if batch.epoch != hosted.epoch || batch.partition != partition {
            let text = format!("batch {} of term {} leaves a machine of term {}", batch.seq, batch.epoch, hosted.epoch);
            self.broken.get_or_insert(Rule::Term.broken(text));
        }
        if self.mutant == Some(Mutant::MarkBeforeRows) && batch.epoch == self.store.part(partition).epoch {
            self.store.part_mut(partition).mark = batch.mark.0;
        }
        hosted.heard.batch_at = now.mono;
        hosted.in_flight.push_back(batch);
        let is_first = hosted.in_flight.len() - hosted.unreplied == 1;
        self.note(verdict);
        if is_first {
            self.write_later(server, partition);
        }
    }

    fn write_later(&mut self, server: usize, partition: PartitionId) {
        let wait = self.dice.server.between(200, self.scenario.commit_us_max);
        let boot = self.servers[server].boot;
        let Some(epoch) = self.term(server, partition) else { return };
        self.at(wait, Event::Commit { server, boot, partition, epoch });
    }

    /// The writer gets to the oldest batch that is not applied.
    pub(crate) fn commit(&mut self, server: usize, partition: PartitionId, epoch: Epoch) {
        if self.term(server, partition) != Some(epoch) {
            return;
        }
        let is_faulty = self.phase == Phase::Chaos;
        if is_faulty && self.dice.server.chance(self.scenario.unavailable_ppm) {
            return self.write_later(server, partition);
        }
        let Some(hosted) = self.servers[server].hosted.get(&partition) else { return };
        let Some(batch) = hosted.in_flight.get(hosted.unreplied).cloned() else { return };
        if !self.apply(&batch) {
            tell!(self, format!("s{server}/p{partition}"), "batch {} is fenced", batch.seq);
            return self.drop_term(server, partition);
        }
        if is_faulty && self.dice.server.chance(self.scenario.reply_lost_ppm) {
            return self.write_later(server, partition);
        }
        let wait = self.dice.server.between(50, 3_000);
        let boot = self.servers[server].boot;
        let Some(hosted) = self.servers[server].hosted.get_mut(&partition) else { return };
        hosted.unreplied += 1;
        hosted.reply_at = hosted.reply_at.max(self.now + wait);
        let (at, more) = (hosted.reply_at, hosted.in_flight.len() > hosted.unreplied);
        let input = Box::new(Input::Committed(batch.seq));
        self.queue.push(at, Event::Tell { server, boot, partition, epoch, input });
        if more {
            self.write_later(server, partition);
        }
    }

    /// Applies a batch and checks what it changed. False: it is fenced.
    pub(crate) fn apply(&mut self, batch: &Batch) -> bool {
        let changes = match self.store.commit(batch) {
            Ok(Applied::Changed(changes)) => changes,
            Ok(Applied::Repeated) => return true,
            Ok(Applied::Fenced) => return false,
            Err(broken) => {
                self.note(Err(broken));
                return true;
            }
        };
        tell!(self, format!("store/p{}", batch.partition), "batch {} of term {} is durable", batch.seq, batch.epoch);
        let part = self.store.part(batch.partition);
        self.checks.history.extend(changes.states.iter().copied());
        let covered = self.checks.coverage.applied(part, &changes);
        let lived = self.checks.life.applied(part, &changes, &self.oracle);
        self.note(covered);
        self.note(lived);
        true
    }

    /// A request arrives at a server. One that does not own the partition drops it.
    pub(crate) fn arrive(&mut self, server: usize, partition: PartitionId, request: Request) {
        if self.term(server, partition).is_none() {
            return;
        }
        let (input, asked, process) = match request {
            Request::Operator(input, asked) => (input, asked, None),
            Request::Worker(process, input, asked) => (input, asked, Some(process)),
            Request::Register(process) => return self.dial(server, partition, process),
        };
        self.ask(server, partition, input, asked, process);
    }

    fn ask(&mut self, server: usize, partition: PartitionId, input: Input, asked: Asked, process: Option<usize>) {
        self.reply_last += 1;
        let to = ReplyTo(self.reply_last);
        self.servers[server].replies.insert(to.0, (partition, asked, process));
        self.step(server, partition, addressed(input, to));
    }

    /// Dials the address of a worker that registers, and that of the name's holder.
    fn dial(&mut self, server: usize, partition: PartitionId, process: usize) {
        let (slot, incarnation, address) = {
            let process = &self.fleet.processes[process];
            (process.slot, process.incarnation, process.address)
        };
        let is_faulty = self.phase == Phase::Chaos;
        let is_cut = self.is_cut(server, slot, true) || (is_faulty && self.dice.net.chance(self.scenario.refused_ppm / 4));
        let answers = |address: u32| {
            let listener = self.fleet.addresses.get(&address);
            listener.map(|at| self.fleet.processes[*at].incarnation)
        };
        let is_reachable = !is_cut && answers(address) == Some(incarnation);
        let stored = self.store.part(partition).workers.get(&self.fleet.slots[slot].id);
        let holder = match stored {
            Some((known, _)) if known.incarnation != incarnation => {
                let listener = answers(address_of(&known.url));
                match listener {
                    _ if is_cut => Holder::Silent,
                    Some(found) if found == known.incarnation => Holder::Alive(known.incarnation),
                    Some(_) | None => Holder::Gone(known.incarnation),
                }
            }
            Some(_) | None => Holder::None,
        };
        let (boot, wait) = (self.servers[server].boot, self.dice.net.between(300, 30_000));
        self.at(wait, Event::Dialled { server, boot, partition, process, is_reachable, holder });
    }

    pub(crate) fn register(&mut self, server: usize, partition: PartitionId, process: usize, is_reachable: bool, holder: Holder) {
        let (at, slot) = (&self.fleet.processes[process], &self.fleet.slots[self.fleet.processes[process].slot]);
        let registration = Registration {
            id: slot.id,
            app: rota_core::id::AppId(slot.app),
            name: slot.name.clone(),
            incarnation: at.incarnation,
            url: url_of(at.address),
            protocol: Protocol::Http,
            handlers: vec!["work".to_owned()],
            labels: [("disk".to_owned(), slot.disk.to_owned())].into(),
            capacity: at.capacity,
            secret: Secret::default(),
            at: rota_core::time::UnixMs(0),
        };
        let asked = Asked::Register(slot.id, at.incarnation);
        let registration = Box::new(registration);
        let input = Input::Register { registration, is_reachable, holder, reply: ReplyTo(0) };
        self.ask(server, partition, input, asked, Some(process));
    }

    /// An answer leaves a machine.
    fn answered(&mut self, server: usize, to: ReplyTo, answer: Answer) {
        let Some((partition, asked, process)) = self.servers[server].replies.remove(&to.0) else {
            return self.note(Err(Rule::Acknowledged.broken(format!("{to:?} is answered twice, or was never asked: {answer:?}"))));
        };
        tell!(self, format!("s{server}/p{partition}"), "-> {answer:?} to {}", process.map_or("operator".to_owned(), |p| format!("process {p}")));
        let part = self.store.part(partition);
        let verdict = reply::answered(part, &asked, &answer);
        if let (Asked::Results(reports), Answer::Acknowledged(attempts)) = (&asked, &answer) {
            self.checks.life.acknowledged(part, reports, attempts);
        }
        if let (Asked::Kill(run), Answer::Killing) = (&asked, &answer)
            && !self.is_over(partition, *run)
        {
            self.killed.insert(*run);
        }
        self.note(verdict);
        if let Some(process) = process {
            self.deliver_reply(server, process, asked, answer);
        }
    }

    fn is_over(&self, partition: PartitionId, run: rota_core::id::RunId) -> bool {
        self.store.part(partition).runs.get(&run).is_none_or(|row| row.run.state.is_terminal())
    }

    /// A reply to a commit was handed in: its batch leaves the pipe.
    fn replied(&mut self, server: usize, partition: PartitionId) {
        if let Some(hosted) = self.servers[server].hosted.get_mut(&partition) {
            hosted.in_flight.pop_front();
            hosted.unreplied -= 1;
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

/// The same input, with the place of its answer.
fn addressed(mut input: Input, to: ReplyTo) -> Input {
    match &mut input {
        Input::Define { reply, .. }
        | Input::SetState { reply, .. }
        | Input::Trigger { reply, .. }
        | Input::Kill { reply, .. }
        | Input::Register { reply, .. }
        | Input::Beat { reply, .. }
        | Input::Results { reply, .. }
        | Input::Drain { reply, .. }
        | Input::Deregister { reply, .. } => *reply = to,
        _ => {}
    }
    input
}

/// The URL of an address.
#[must_use]
pub fn url_of(address: u32) -> String {
    format!("http://worker:{address}")
}

/// The address of a URL.
#[must_use]
pub fn address_of(url: &str) -> u32 {
    url.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0)
}

fn short(input: &Input) -> String {
    match input {
        Input::Define { definition, expected, .. } => {
            format!("define {} {:?} {:?} {:?} expected {expected:?}", definition.id, definition.spec.schedule, definition.spec.overlap, definition.spec.delivery)
        }
        other => format!("{other:?}"),
    }
}

fn rows(batch: &Batch) -> String {
    use rota_core::batch::Row;
    let row = |row: &Row| match row {
        Row::Run(r) => format!("+{} job {} v{} {:?} {}..{} x{} {} {:?}", r.id, r.job, r.version, r.origin, r.slot, r.slot_last, r.slots, r.state.word(), r.why),
        Row::RunSet { run, state, why, .. } => format!("{run}={} {why:?}", state.word()),
        Row::Attempt(a) => format!("+a{} {}/{}/{} on w{}.{}", a.id, a.run, a.shard, a.no, a.worker, a.incarnation),
        Row::AttemptSet(a) => format!("a{}={} {:?} released {:?}", a.id, a.state.word(), a.why, a.released_at.map(|t| t.0)),
        Row::Definition(d) => format!("job {} v{} {:?}", d.id, d.version, d.state),
        Row::JobState { job, state, .. } => format!("job {job} {state:?}"),
        Row::Worker { worker, state } => format!("w{}.{} {}", worker.id, worker.incarnation, state.word()),
        Row::WorkerState { worker, state } => format!("w{worker} {}", state.word()),
        Row::Exception { job, exception } => format!("job {job} {exception:?}"),
        Row::Listed { run, is_open } => format!("{run} {}listed", if *is_open { "" } else { "un" }),
    };
    batch.rows.iter().map(row).collect::<Vec<_>>().join("; ")
}
