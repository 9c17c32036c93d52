//! The healing and the end: what must have come of everything once inputs stop.

use rota_core::batch::RunState;
use rota_core::id::PartitionId;
use rota_core::job::JobState;
use rota_core::partition::{Input, Snapshot};
use rota_core::why::Why;

use crate::check::Rule;
use crate::check::coverage::Coverage;
use crate::clock::{Micros, ms};
use crate::event::Event;
use crate::scenario::{PARTITIONS, SERVERS};
use crate::story::tell;
use crate::world::{Phase, World};

impl World {
    /// Faults and operators stop; whoever was down comes back.
    pub(crate) fn heal(&mut self) {
        tell!(self, "world", "heals");
        self.phase = Phase::Calm;
        self.phase_at = self.now;
        self.cuts.clear();
        self.outages.fill(0);
        for server in 0..SERVERS {
            // Who is frozen stays so for its time: what that has put off keeps its order with what comes later.
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
            // Some never come back; the first worker of each app does.
            let is_first = self.fleet.slots[..slot].iter().all(|s| s.app != self.fleet.slots[slot].app);
            if is_first || self.dice.chaos.chance(700_000) {
                self.start_process(slot);
            } else if let Some(process) = self.fleet.slots[slot].process {
                self.kill_process(process);
            }
        }
        self.at(ms(500), Event::ThawAll);
        self.at(self.scenario.calm_us, Event::Look);
    }

    /// A look at whether the cluster has done what it had to.
    pub(crate) fn look(&mut self) {
        match self.phase {
            Phase::Chaos | Phase::Over => {}
            Phase::Calm => {
                self.check_on_time();
                self.check_backfills();
                self.phase = Phase::Ending;
                self.phase_at = self.now;
                self.at(0, Event::Pause);
            }
            Phase::Ending => {
                if self.is_at_rest() {
                    self.check_end();
                    let begun = self.checks.rate.ended(self.scenario.server_rate);
                    self.note(begun);
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
                let is_busy = self
                    .started
                    .get(&partition)
                    .is_some_and(|at| self.now - at < ms(15_000 + self.scenario.work_ms_max));
                let upstream_ms = i64::try_from(rota_core::upstream::wait_max_ms(&job.spec.after)).unwrap_or(i64::MAX);
                if late_ms > 40_000 + upstream_ms && !is_busy {
                    let snapshot = self.snapshots.get(&partition);
                    let held =
                        snapshot.and_then(|s| s.held.iter().find(|held| held.job == job.id)).map(|held| held.why);
                    let text =
                        format!("slot of job {} is {late_ms} ms late in a healed cluster, held for {held:?}", job.id);
                    return self.note(Err(Rule::Quiescence.broken(text)));
                }
            }
        }
    }

    /// In a healed cluster no backfill waits for nothing.
    fn check_backfills(&mut self) {
        let walls: Vec<i64> = (0..SERVERS).map(|s| self.servers[s].clock.now(self.now).wall.0).collect();
        let wall_ms = walls.iter().copied().min().unwrap_or(0);
        let slack_ms = i64::try_from(self.scenario.wall_slack_ms()).unwrap_or(i64::MAX);
        for partition in (0..PARTITIONS).map(PartitionId) {
            let shown = self.snapshots.get(&partition).map(|snapshot| snapshot.backfills.clone()).unwrap_or_default();
            let waits = |id| {
                let found = shown.iter().find(|shown| shown.id == id);
                found.is_some_and(|shown| matches!(shown.waits, None | Some(Why::Pace)))
            };
            let part = self.store.part(partition);
            let verdict = self.checks.backfills.check_on_time(partition, part, waits, wall_ms, slack_ms);
            self.note(verdict);
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
        runs && self.checks.children.first_missing(&self.store).is_none()
            && self.fleet.processes.iter().filter(|p| p.is_alive).all(|p| p.unacknowledged().is_empty())
    }

    fn unrest(&self) -> String {
        for partition in (0..PARTITIONS).map(PartitionId) {
            let part = self.store.part(partition);
            if let Some(run) = part.unclosed_all.iter().find(|run| !self.waits_visibly(partition, **run)) {
                let row = &part.runs[run];
                let attempts: Vec<String> = row
                    .attempts
                    .iter()
                    .map(|a| {
                        format!("{}/{} {} {:?} released {:?}", a.shard, a.no, a.state.word(), a.why, a.released_at)
                    })
                    .collect();
                return format!("{run} of job {} is {} with {attempts:?}", row.run.job, row.run.state.word());
            }
        }
        if let Some(missing) = self.checks.children.first_missing(&self.store) {
            let notes = self.snapshots.values().flat_map(|snapshot| &snapshot.notes);
            let waits: Vec<String> =
                notes.map(|n| format!("{} of app {} wait for {}", n.count, n.app, n.why)).collect();
            return format!("{missing}; {}", waits.join(", "));
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
            let killed =
                self.killed.iter().find(|run| part.runs.get(run).is_some_and(|row| row.run.state != RunState::Killed));
            let killed = match killed {
                Some(run) => {
                    Err(Rule::Terminal.broken(format!("{run} was killed, and is {}", part.runs[run].run.state.word())))
                }
                None => Ok(()),
            };
            self.note(recount);
            self.note(killed);
        }
    }
}
