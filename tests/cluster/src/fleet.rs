//! Workers' side of the world: processes start, register, beat, run, report, stop and die.

use std::collections::BTreeMap;

use rota_core::id::{AttemptId, Incarnation};
use rota_core::partition::{Answer, Input, Outcome, ReplyTo};
use rota_core::why::Why;
use rota_core::worker::WorkerState;

use crate::check::loss::Processes;
use crate::check::reply::Asked;
use crate::clock::ms;
use crate::event::{Event, Request};
use crate::oracle::End;
use crate::story::tell;
use crate::worker::{Known, Process, Slot};
use crate::world::{Phase, World, partition_of};

/// Addresses are drawn from few, so that they are used again.
const ADDRESSES: u64 = 40;

/// All processes there ever were.
#[derive(Default)]
pub struct Fleet {
    /// Workers by name.
    pub slots: Vec<Slot>,
    /// Every start of them.
    pub processes: Vec<Process>,
    /// Who listens where.
    pub addresses: BTreeMap<u32, usize>,
}

impl Processes for Fleet {
    fn is_alive(&self, incarnation: Incarnation) -> bool {
        let process = self.processes.iter().find(|p| p.incarnation == incarnation);
        process.is_some_and(|p| p.is_alive && !(p.is_stopping && p.running() == 0 && p.unacknowledged().is_empty()))
    }
}

impl World {
    /// A process starts for a worker, at its old address or at another.
    pub(crate) fn start_process(&mut self, slot: usize) {
        if self.fleet.slots[slot].process.is_some() {
            return;
        }
        let before = self.fleet.processes.iter().rev().find(|p| p.slot == slot).map(|p| p.address);
        let address = match before {
            Some(address) if self.dice.worker.chance(600_000) => address,
            Some(_) | None => 1 + self.dice.worker.below(ADDRESSES) as u32,
        };
        self.launch(slot, address);
    }

    /// A process starts at this address, or at the next free one.
    pub(crate) fn launch(&mut self, slot: usize, address: u32) -> usize {
        let address = (address..).find(|a| !self.fleet.addresses.contains_key(a)).expect("ports do not run out");
        let process = self.fleet.processes.len();
        let incarnation = Incarnation(1_000 + process as u64);
        let capacity = self.fleet.slots[slot].capacity;
        self.fleet.processes.push(Process::new(slot, incarnation, address, capacity));
        self.fleet.addresses.insert(address, process);
        self.fleet.slots[slot].process = Some(process);
        tell!(self, format!("proc{process}"), "starts as {}.{incarnation} at :{address}", self.fleet.slots[slot].name);
        self.at(1_000, Event::Flush { process });
        let wait = self.dice.worker.between(0, ms(self.scenario.timing.beat_ms));
        self.at(wait, Event::Beat { process });
        process
    }

    /// A process dies, with all that it runs.
    pub(crate) fn kill_process(&mut self, process: usize) {
        if !self.fleet.processes[process].is_alive {
            return;
        }
        tell!(self, format!("proc{process}"), "dies");
        for attempt in self.fleet.processes[process].die() {
            self.oracle.end(attempt, self.now, End::Died);
        }
        let (slot, address) = (self.fleet.processes[process].slot, self.fleet.processes[process].address);
        self.fleet.addresses.remove(&address);
        if self.fleet.slots[slot].process == Some(process) {
            self.fleet.slots[slot].process = None;
        }
    }

    /// Sends a request of a process to a server, mostly the right one.
    fn ask_server(&mut self, process: usize, request: Request) {
        let slot = self.fleet.processes[process].slot;
        let partition = partition_of(self.fleet.slots[slot].app);
        let owner = self.owners[usize::from(partition.0)];
        let is_faulty = self.phase == Phase::Chaos;
        let is_wrong = is_faulty && self.dice.net.chance(self.scenario.wrong_server_ppm);
        let server = if is_wrong { 1 - owner } else { owner };
        if self.is_cut(server, slot, false) {
            return;
        }
        if let Some(wait) = self.travel() {
            self.at(wait, Event::Arrive { server, partition, request: Box::new(request) });
        }
    }

    /// Sends it twice, if the network is in the mood for it.
    fn ask_maybe_twice(&mut self, process: usize, input: Input, asked: Asked) {
        if self.phase == Phase::Chaos && self.dice.net.chance(self.scenario.doubled_ppm) {
            self.ask_server(process, Request::Worker(process, input.clone(), asked.clone()));
        }
        self.ask_server(process, Request::Worker(process, input, asked));
    }

    pub(crate) fn beat(&mut self, process: usize) {
        if !self.fleet.processes[process].is_alive {
            return;
        }
        let beat_us = ms(self.scenario.timing.beat_ms);
        let wait = beat_us - beat_us / 20 + self.dice.worker.below(beat_us / 10 + 1);
        self.at(wait, Event::Beat { process });
        let Some(worker) = self.fleet.processes[process].registered else { return };
        let beat = Box::new(self.fleet.processes[process].beat(worker));
        self.ask_maybe_twice(process, Input::Beat { beat, reply: ReplyTo(0) }, Asked::Worker);
    }

    /// What a process has to say again and again until it is answered.
    pub(crate) fn flush(&mut self, process: usize) {
        if !self.fleet.processes[process].is_alive {
            return;
        }
        self.at(ms(900), Event::Flush { process });
        self.report(process);
    }

    fn report(&mut self, process: usize) {
        let at = &self.fleet.processes[process];
        let Some(worker) = at.registered else {
            return self.ask_server(process, Request::Register(process));
        };
        let (incarnation, reports) = (at.incarnation, at.unacknowledged());
        let (is_stopping, is_idle) = (at.is_stopping, at.running() == 0);
        if !reports.is_empty() {
            let asked = Asked::Results(reports.clone());
            let input = Input::Results { worker, incarnation, reports, reply: ReplyTo(0) };
            return self.ask_maybe_twice(process, input, asked);
        }
        if is_stopping {
            let reply = ReplyTo(0);
            let input = if is_idle {
                Input::Deregister { worker, incarnation, reply }
            } else {
                Input::Drain { worker, incarnation, reply }
            };
            self.ask_maybe_twice(process, input, Asked::Worker);
        }
    }

    /// A process is told to stop in order.
    pub(crate) fn stop_process(&mut self, process: usize) {
        tell!(self, format!("proc{process}"), "drains");
        self.fleet.processes[process].is_stopping = true;
    }

    /// A handler returns.
    pub(crate) fn finish(&mut self, process: usize, attempt: AttemptId, outcome: Outcome) {
        if !self.fleet.processes[process].is_alive {
            return;
        }
        let cancelled = matches!(
            self.fleet.processes[process].keys.get(&attempt),
            Some(Known::Running { is_cancelled: true, is_stubborn: false, .. })
        );
        let outcome = if cancelled { Outcome::Killed } else { outcome };
        if self.fleet.processes[process].finish(attempt, outcome) {
            tell!(self, format!("proc{process}"), "finishes a{attempt}: {outcome:?}");
            self.oracle.end(attempt, self.now, End::Returned(outcome));
            self.report(process);
        }
    }

    /// A machine's answer goes back to a process.
    pub(crate) fn deliver_reply(&mut self, server: usize, process: usize, asked: Asked, answer: Answer) {
        let slot = self.fleet.processes[process].slot;
        if self.is_cut(server, slot, true) {
            return;
        }
        if let Some(wait) = self.travel() {
            let (asked, answer) = (Box::new(asked), Box::new(answer));
            self.at(wait, Event::Reply { process, asked, answer });
        }
    }

    /// A machine's answer reaches a process.
    pub(crate) fn reply(&mut self, process: usize, asked: &Asked, answer: &Answer) {
        if !self.fleet.processes[process].is_alive {
            return;
        }
        let id = self.fleet.slots[self.fleet.processes[process].slot].id;
        let at = &mut self.fleet.processes[process];
        match answer {
            Answer::Registered(WorkerState::Online | WorkerState::Draining) => at.registered = Some(id),
            Answer::Registered(_) => at.registered = None,
            Answer::Acknowledged(attempts) => at.acknowledge(attempts),
            Answer::Beaten(WorkerState::Offline | WorkerState::Unreachable) if !at.is_stopping => at.registered = None,
            Answer::Refused(Why::WorkerUnknown) => at.registered = None,
            Answer::Refused(Why::WorkerIdTaken) if matches!(asked, Asked::Register(..)) => at.registered = None,
            // Only a farewell is answered so; the process had nothing left when it said it.
            Answer::WorkerSet(WorkerState::Offline)
                if at.is_stopping && at.running() == 0 && at.unacknowledged().is_empty() =>
            {
                self.kill_process(process);
            }
            _ => {}
        }
    }
}
