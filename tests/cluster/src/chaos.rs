//! Faults, their healing, and the end: what must have come of everything once inputs stop.

use rota_core::batch::Batch;
use rota_core::id::PartitionId;
use rota_core::partition::Input;
use rota_core::valve::ServerValve;

use crate::clock::{Micros, ms};
use crate::event::Event;
use crate::mutant::Mutant;
use crate::scenario::{PARTITIONS, SERVERS};
use crate::story::tell;
use crate::world::{Phase, World};

/// Kinds of faults, each with its own rhythm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A server crashes.
    ServerCrash,
    /// A partition is claimed although its owner lives.
    Failover,
    /// A server does nothing for a while.
    Freeze,
    /// A link is cut.
    Cut,
    /// A worker's process is killed.
    WorkerCrash,
    /// A worker stops in order.
    WorkerStop,
    /// A second process claims a living worker's name.
    Twin,
    /// A partition of the store is unavailable for a while.
    Outage,
    /// A wall clock is stepped.
    ClockStep,
    /// The server's cap is lent anew.
    Permits,
}

const FAULTS: [Fault; 10] = [
    Fault::ServerCrash,
    Fault::Failover,
    Fault::Freeze,
    Fault::Cut,
    Fault::WorkerCrash,
    Fault::WorkerStop,
    Fault::Twin,
    Fault::Outage,
    Fault::ClockStep,
    Fault::Permits,
];

impl World {
    fn mean(&self, fault: Fault) -> Micros {
        let every = &self.scenario.every;
        match fault {
            Fault::ServerCrash => every.server_crash,
            Fault::Failover => every.failover,
            Fault::Freeze => every.freeze,
            Fault::Cut => every.cut,
            Fault::WorkerCrash => every.worker_crash,
            Fault::WorkerStop => every.worker_stop,
            Fault::Twin => every.twin,
            Fault::Outage => every.outage,
            Fault::ClockStep => every.clock_step,
            Fault::Permits => every.permits,
        }
    }

    /// The first fault of each kind.
    pub(crate) fn plan_faults(&mut self) {
        for fault in FAULTS {
            self.plan_fault(fault);
        }
    }

    fn plan_fault(&mut self, fault: Fault) {
        let mean = self.mean(fault);
        if mean > 0 {
            let wait = self.dice.chaos.wait(mean);
            self.at(wait, Event::Fault(fault));
        }
    }

    /// A fault happens.
    pub(crate) fn fault(&mut self, fault: Fault) {
        if self.phase != Phase::Chaos {
            return;
        }
        self.plan_fault(fault);
        let server = self.dice.chaos.below(SERVERS as u64) as usize;
        match fault {
            Fault::ServerCrash => self.crash(server),
            Fault::Failover => self.failover(),
            Fault::Freeze => {
                let wait = self.dice.chaos.wait(ms(2_000));
                tell!(self, format!("s{server}"), "freezes for {} ms", wait / 1_000);
                let until = self.now + wait;
                let frozen_until = &mut self.servers[server].frozen_until;
                *frozen_until = until.max(*frozen_until);
            }
            Fault::Cut => self.cut(server),
            Fault::WorkerCrash | Fault::WorkerStop | Fault::Twin => self.worker_fault(fault),
            Fault::Outage => {
                let partition = self.dice.chaos.below(u64::from(PARTITIONS)) as usize;
                let wait = self.dice.chaos.wait(ms(self.scenario.timing.dead_ms));
                tell!(self, format!("store/p{partition}"), "is unavailable for {} ms", wait / 1_000);
                self.outages[partition] = self.now + wait;
            }
            Fault::ClockStep => {
                let by_ms = self.dice.chaos.around(self.scenario.step_ms);
                tell!(self, format!("s{server}"), "wall clock steps by {by_ms} ms");
                self.servers[server].clock.step_wall(by_ms);
            }
            Fault::Permits => {
                let permits = *self.dice.chaos.pick(&[0, 1, 5, 50, 1_000]);
                let partition = PartitionId(self.dice.chaos.below(u64::from(PARTITIONS)) as u16);
                self.step(server, partition, Input::Permits(permits));
            }
        }
    }

    /// kill -9: batches on their way may still be applied, in order, up to any of them.
    fn crash(&mut self, server: usize) {
        if !self.servers[server].is_up {
            return;
        }
        tell!(self, format!("s{server}"), "crashes");
        let hosted = std::mem::take(&mut self.servers[server].hosted);
        for machine in hosted.into_values() {
            let left: Vec<Batch> = machine.in_flight.into_iter().skip(machine.unreplied).collect();
            for batch in left {
                if !self.dice.chaos.chance(500_000) || !self.apply(&batch) {
                    break;
                }
            }
        }
        let host = &mut self.servers[server];
        host.is_up = false;
        host.replies.clear();
        host.queued.clear();
        let wait = self.dice.chaos.wait(self.scenario.absent_us);
        self.at(wait, Event::Restart { server });
        for partition in (0..PARTITIONS).map(PartitionId) {
            if self.owners[usize::from(partition.0)] == server && self.dice.chaos.chance(600_000) {
                let wait = self.dice.chaos.wait(ms(1_500));
                self.at(wait, Event::Claim { server: 1 - server, partition });
            }
        }
    }

    /// A server starts again, and claims what it owns as far as the coordinator knows.
    pub(crate) fn restart(&mut self, server: usize) {
        if self.servers[server].is_up {
            return;
        }
        tell!(self, format!("s{server}"), "starts again");
        let mono = self.dice.chaos.below(1_000_000_000);
        let host = &mut self.servers[server];
        host.is_up = true;
        host.boot += 1;
        host.frozen_until = 0;
        host.clock.reboot(mono.saturating_sub(self.now / 1_000));
        let begin = host.clock.now(self.now).mono;
        host.valve = self.scenario.server_rate.map(|limit| ServerValve::new(limit, begin));
        host.token_at = None;
        if self.mutant == Some(Mutant::IdsFromRestoredCounter) {
            let high = self.store.ids_high();
            self.store.restore_ids(high.saturating_sub(40_000));
        }
        for partition in (0..PARTITIONS).map(PartitionId) {
            if self.owners[usize::from(partition.0)] == server {
                self.at(1_000, Event::Claim { server, partition });
            }
        }
    }

    /// The other server claims a partition; the old owner is told late, or finds out by being fenced.
    fn failover(&mut self) {
        let partition = PartitionId(self.dice.chaos.below(u64::from(PARTITIONS)) as u16);
        let old = self.owners[usize::from(partition.0)];
        if let Some(epoch) = self.term(old, partition)
            && self.dice.chaos.chance(500_000)
        {
            let wait = self.dice.chaos.wait(ms(3_000));
            let boot = self.servers[old].boot;
            self.at(wait, Event::TermOver { server: old, boot, partition, epoch });
        }
        self.claim(1 - old, partition);
    }

    fn cut(&mut self, server: usize) {
        let slot = self.dice.chaos.below(self.fleet.slots.len() as u64) as usize;
        let until = self.now + self.dice.chaos.wait(ms(self.scenario.timing.dead_ms));
        let what = self.dice.chaos.below(4);
        tell!(
            self,
            format!("s{server}"),
            "link to {} is cut ({what}) until {:.3}",
            self.fleet.slots[slot].name,
            until as f64 / 1e6
        );
        for (at, to_worker, kinds) in
            [(server, true, 0b1101), (server, false, 0b1110), (1 - server, true, 0b1000), (1 - server, false, 0b1000)]
        {
            if kinds >> what & 1 == 1 {
                self.cuts.insert((at, slot, to_worker), until);
            }
        }
    }

    fn worker_fault(&mut self, fault: Fault) {
        let slot = self.dice.chaos.below(self.fleet.slots.len() as u64) as usize;
        let Some(process) = self.fleet.slots[slot].process else { return };
        match fault {
            Fault::WorkerCrash => {
                self.kill_process(process);
                let wait = self.dice.chaos.wait(ms(self.scenario.timing.dead_ms));
                self.at(wait, Event::Start { slot });
            }
            Fault::WorkerStop => {
                self.stop_process(process);
                self.fleet.slots[slot].process = None;
                let wait = self.dice.chaos.wait(ms(self.scenario.timing.dead_ms));
                self.at(wait, Event::Start { slot });
            }
            _ => {
                let address = self.fleet.processes[process].address;
                tell!(self, format!("proc{process}"), "gets a twin");
                self.launch(slot, address);
            }
        }
    }
}
