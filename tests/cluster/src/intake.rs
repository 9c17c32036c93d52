//! Requests into machines, and their answers out: from operators, from workers, and from workers that register.

use rota_core::id::{AppId, PartitionId, RunId};
use rota_core::partition::{Answer, Holder, Input, ReplyTo};
use rota_core::time::UnixMs;
use rota_core::worker::{Protocol, Registration, Secret};

use crate::check::Rule;
use crate::check::reply::{self, Asked};
use crate::event::{Event, Request};
use crate::story::tell;
use crate::world::{Phase, World};

impl World {
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
        let is_cut = self.is_cut(server, slot, true) || (is_faulty && self.dice.net.chance(self.scenario.refused_ppm));
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

    pub(crate) fn register(
        &mut self,
        server: usize,
        partition: PartitionId,
        process: usize,
        is_reachable: bool,
        holder: Holder,
    ) {
        let (at, slot) = (&self.fleet.processes[process], &self.fleet.slots[self.fleet.processes[process].slot]);
        let registration = Registration {
            id: slot.id,
            app: AppId(slot.app),
            name: slot.name.clone(),
            incarnation: at.incarnation,
            url: url_of(at.address),
            protocol: Protocol::Http,
            handlers: vec!["work".to_owned()],
            labels: [("disk".to_owned(), slot.disk.to_owned())].into(),
            capacity: at.capacity,
            list_max: 0,
            secret: Secret::default(),
            at: UnixMs(0),
        };
        let asked = Asked::Register(slot.id, at.incarnation);
        let registration = Box::new(registration);
        let input = Input::Register { registration, is_reachable, holder, reply: ReplyTo(0) };
        self.ask(server, partition, input, asked, Some(process));
    }

    /// An answer leaves a machine.
    pub(crate) fn answered(&mut self, server: usize, to: ReplyTo, answer: Answer) {
        let Some((partition, asked, process)) = self.servers[server].replies.remove(&to.0) else {
            return self.note(Err(
                Rule::Acknowledged.broken(format!("{to:?} is answered twice, or was never asked: {answer:?}"))
            ));
        };
        tell!(
            self,
            format!("s{server}/p{partition}"),
            "-> {answer:?} to {}",
            process.map_or("operator".to_owned(), |p| format!("process {p}"))
        );
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
        if let (Asked::KillShard(run, shard), Answer::Killing) = (&asked, &answer) {
            let verdict = self.checks.shards.killed(part, *run, *shard);
            self.note(verdict);
        }
        self.note(verdict);
        if let Some(process) = process {
            self.deliver_reply(server, process, asked, answer);
        }
    }

    fn is_over(&self, partition: PartitionId, run: RunId) -> bool {
        self.store.part(partition).runs.get(&run).is_none_or(|row| row.run.state.is_terminal())
    }
}

/// The same input, with the place of its answer.
fn addressed(mut input: Input, to: ReplyTo) -> Input {
    match &mut input {
        Input::Define { reply, .. }
        | Input::SetState { reply, .. }
        | Input::Trigger { reply, .. }
        | Input::Kill { reply, .. }
        | Input::Rerun { reply, .. }
        | Input::Backfill { reply, .. }
        | Input::CancelBackfill { reply, .. }
        | Input::Freeze { reply, .. }
        | Input::Thaw { reply, .. }
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
