//! Faults, their healing, and the end: what must have come of everything once inputs stop.

use rota_core::batch::Batch;
use rota_core::id::PartitionId;
use rota_core::job::JobState;
use rota_core::partition::{Input, Snapshot};
use rota_core::why::Why;

use crate::check::Rule;
use crate::check::coverage::Coverage;
use crate::clock::{Micros, ms};
use crate::mutant::Mutant;
use crate::scenario::{PARTITIONS, SERVERS};
use crate::story::tell;
use crate::world::{Event, Phase, World};

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
    /// A wall clock is stepped.
    ClockStep,
    /// The server's cap is lent anew.
    Permits,
}

const FAULTS: [Fault; 9] = [
    Fault::ServerCrash,
    Fault::Failover,
    Fault::Freeze,
    Fault::Cut,
    Fault::WorkerCrash,
    Fault::WorkerStop,
    Fault::Twin,
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
                self.servers[server].frozen_until = self.now + wait;
            }
            Fault::Cut => self.cut(server),
            Fault::WorkerCrash | Fault::WorkerStop | Fault::Twin => self.worker_fault(fault),
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
        let wait = self.dice.chaos.wait(ms(3_000));
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
        tell!(self, format!("s{server}"), "link to {} is cut ({what}) until {:.3}", self.fleet.slots[slot].name, until as f64 / 1e6);
        for (at, to_worker, kinds) in [(server, true, 0b1101), (server, false, 0b1110), (1 - server, true, 0b1000), (1 - server, false, 0b1000)] {
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

    /// Faults and operators stop; whoever was down comes back.
    pub(crate) fn heal(&mut self) {
        tell!(self, "world", "heals");
        self.phase = Phase::Calm;
        self.phase_at = self.now;
        self.cuts.clear();
        for server in 0..SERVERS {
            self.servers[server].frozen_until = 0;
            self.restart(server);
            for partition in (0..PARTITIONS).map(PartitionId) {
                self.step(server, partition, Input::Permits(1_000));
            }
        }
        for process in 0..self.fleet.processes.len() {
            let slot = self.fleet.processes[process].slot;
            if self.fleet.slots[slot].process != Some(process) && !self.fleet.processes[process].is_stopping {
                self.kill_process(process);
            }
        }
        for slot in 0..self.fleet.slots.len() {
            self.start_process(slot);
        }
        self.at(self.scenario.calm_us, Event::Look);
    }

    /// A look at whether the cluster has done what it had to.
    pub(crate) fn look(&mut self) {
        match self.phase {
            Phase::Chaos | Phase::Over => {}
            Phase::Calm => {
                self.check_on_time();
                self.phase = Phase::Ending;
                self.phase_at = self.now;
                self.at(0, Event::Pause);
            }
            Phase::Ending => {
                if self.is_at_rest() {
                    self.check_end();
                    self.phase = Phase::Over;
                } else if self.now - self.phase_at > self.ending_us_max() {
                    let what = self.unrest();
                    self.note(Err(Rule::Quiescence.broken(what)));
                } else {
                    self.at(ms(1_000), Event::Look);
                }
            }
        }
    }

    /// In a healed cluster every slot of an enabled job was looked at by now, if its job can run at all
    /// and its partition is not at its limit.
    fn check_on_time(&mut self) {
        let wall_ms = (0..SERVERS).map(|s| self.servers[s].clock.now(self.now).wall.0).min().unwrap_or(0);
        for partition in (0..PARTITIONS).map(PartitionId) {
            let jobs: Vec<_> = self.store.part(partition).jobs.values().map(|j| j.current.clone()).collect();
            for job in jobs {
                let can_run = job.state == JobState::Enabled && job.spec.route.labels != "disk=tape";
                let next = self.checks.coverage.next(job.id);
                let late_ms = next.filter(|_| can_run).map_or(0, |slot| wall_ms - slot);
                let is_busy = self.started.get(&partition).is_some_and(|at| self.now - at < ms(15_000 + self.scenario.work_ms_max));
                if late_ms > 40_000 && !is_busy {
                    let snapshot = self.snapshots.get(&partition);
                    let held = snapshot.and_then(|s| s.held.iter().find(|held| held.job == job.id)).map(|held| held.why);
                    let text = format!("slot of job {} is {late_ms} ms late in a healed cluster, held for {held:?}", job.id);
                    return self.note(Err(Rule::Quiescence.broken(text)));
                }
            }
        }
    }

    /// Longest time in which everything that is open must end.
    fn ending_us_max(&self) -> Micros {
        let t = &self.scenario.timing;
        let once_ms = t.dead_ms + t.doubt_ms + t.release_after_ms + t.send_ms + 2 * t.kill_grace_ms;
        ms(4 * once_ms + 20 * self.scenario.work_ms_max + 120_000)
    }

    fn is_at_rest(&self) -> bool {
        let runs = (0..PARTITIONS).map(PartitionId).all(|partition| {
            let part = self.store.part(partition);
            part.unclosed_all.iter().all(|run| self.waits_visibly(partition, *run))
        });
        runs && self.fleet.processes.iter().filter(|p| p.is_alive).all(|p| p.unacknowledged().is_empty())
    }

    fn unrest(&self) -> String {
        for partition in (0..PARTITIONS).map(PartitionId) {
            let part = self.store.part(partition);
            if let Some(run) = part.unclosed_all.iter().find(|run| !self.waits_visibly(partition, **run)) {
                let row = &part.runs[run];
                let attempts: Vec<String> = row
                    .attempts
                    .iter()
                    .map(|a| format!("{}/{} {} {:?} released {:?}", a.shard, a.no, a.state.word(), a.why, a.released_at))
                    .collect();
                return format!("{run} of job {} is {} with {attempts:?}", row.run.job, row.run.state.word());
            }
        }
        let silent = self.fleet.processes.iter().find(|p| p.is_alive && !p.unacknowledged().is_empty());
        format!("process {:?} has results that nobody acknowledges", silent.map(|p| p.incarnation))
    }

    /// Once everything has ended, each held slot must have a reason that a person can do something about.
    pub(crate) fn note_held(&mut self, partition: PartitionId, snapshot: &Snapshot) {
        let is_stuck = |why: Why| matches!(why, Why::Cap | Why::NoCredit | Why::NoCapacity);
        if self.now - self.phase_at < self.ending_us_max() / 2 {
            return;
        }
        if let Some(held) = snapshot.held.iter().find(|held| is_stuck(held.why)) {
            let text = format!("job {} of partition {partition} is held for {} in an idle cluster", held.job, held.why);
            self.note(Err(Rule::Quiescence.broken(text)));
        }
    }

    fn check_end(&mut self) {
        for partition in (0..PARTITIONS).map(PartitionId) {
            let part = self.store.part(partition);
            let recount = Coverage::recount(part, &self.checks.history);
            let killed = self.killed.iter().find(|run| {
                part.runs.get(run).is_some_and(|row| row.run.state != rota_core::batch::RunState::Killed)
            });
            let killed = match killed {
                Some(run) => Err(Rule::Terminal.broken(format!("{run} was killed, and is {}", part.runs[run].run.state.word()))),
                None => Ok(()),
            };
            self.note(recount);
            self.note(killed);
        }
    }
}
