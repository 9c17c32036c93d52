//! The part of a server's shell that carries notes of ended parents to the machines of their children. Words between
//! servers may be lost, come late and come twice; each tells all that nobody has answered.

use rota_core::batch::{Batch, Row};
use rota_core::child::{Note, is_end, is_fired_by, parents};
use rota_core::id::{Epoch, JobId, PartitionId};
use rota_core::job::{JobState, Spec, When};
use rota_core::partition::Input;
use rota_core::upstream::{Edge, Ended, OnSkip, Period};

use crate::clock::ms;
use crate::event::Event;
use crate::rng::Rng;
use crate::store::Store;
use crate::world::World;

impl World {
    /// A term begins, or something of a partition was noted: its owner looks.
    pub(crate) fn carry_after(&mut self, wait: u64, server: usize, partition: PartitionId, is_pace: bool) {
        let boot = self.servers[server].boot;
        let Some(epoch) = self.term(server, partition) else { return };
        self.at(wait, Event::Carry { server, boot, partition, epoch, is_pace });
    }

    /// A server reads what nobody has answered, and tells it some time later.
    pub(crate) fn carry(&mut self, server: usize, partition: PartitionId, epoch: Epoch, is_pace: bool) {
        if self.term(server, partition) != Some(epoch) {
            return;
        }
        if is_pace {
            let wait = ms(self.dice.children.between(1_000, 5_000));
            self.carry_after(wait, server, partition, true);
        }
        let notes: Vec<Note> = self.store.part(partition).notes.values().cloned().collect();
        if notes.is_empty() {
            return;
        }
        let boot = self.servers[server].boot;
        for _ in 0..*self.dice.children.pick(&[1, 1, 2]) {
            let wait = self.dice.children.between(0, 1_500_000);
            let input = Box::new(Input::Children(notes.clone()));
            self.at(wait, Event::Tell { server, boot, partition, epoch, input });
        }
    }

    /// A batch is durable: the owners of partitions in which it noted something are told, or not.
    pub(crate) fn noted(&mut self, partitions: Vec<PartitionId>) {
        for partition in partitions {
            if self.dice.children.chance(700_000) {
                let wait = self.dice.children.between(0, 20_000);
                self.carry_after(wait, self.owners[usize::from(partition.0)], partition, false);
            }
        }
    }
}

/// Notes the ends of a batch that was just applied; the partitions in which it did.
pub fn note_ends(store: &mut Store, batch: &Batch) -> Vec<PartitionId> {
    let mut noted = Vec::new();
    for row in &batch.rows {
        let Row::RunSet { run, job, state, .. } = row else { continue };
        if !is_end(*state) {
            continue;
        }
        let slot = store.part(batch.partition).runs[run].run.slot;
        let mut fired = Vec::new();
        for (partition, part) in store.parts() {
            for child in part.jobs.values().map(|row| &row.current).filter(|job| job.state != JobState::Deleted) {
                let mut edges = parents(&child.spec).iter().filter(|edge| edge.job == *job);
                if edges.any(|edge| is_fired_by(edge.when, *state)) {
                    fired.push((partition, child.id, child.app, child.version));
                }
            }
        }
        for (partition, job, app, version) in fired {
            let no = store.next_note();
            let note = Note { no, job, app, version, parent: *run, state: *state, slot, at: batch.at };
            store.part_mut(partition).notes.insert(no, note);
            noted.push(partition);
        }
    }
    noted
}

/// Some jobs have no schedule, and are fired by the ends of older ones, so that no cycle comes of it.
pub fn family(rng: &mut Rng, job: JobId, spec: &mut Spec) {
    let older = u64::from(job.0 - JobId::FIRST.0);
    if older == 0 || !rng.chance(450_000) {
        return;
    }
    let mut edges: Vec<Edge> = Vec::new();
    for _ in 0..*rng.pick(&[1, 1, 2, 3]) {
        // The newest are the likeliest, so that chains grow long.
        let at = rng.below(older).max(rng.below(older)) as u32;
        let (period, on_skip) = (Period::SameSlot, OnSkip::Skip);
        let when = *rng.pick(&[Ended::Success, Ended::Success, Ended::Completion, Ended::Failure]);
        let job = JobId(JobId::FIRST.0 + at);
        if edges.iter().all(|other| other.job != job) {
            edges.push(Edge { job, name: format!("job-{at}"), when, period, on_skip, deadline_ms: None });
        }
    }
    *spec = Spec { schedule: When::Manual, after: edges, ..spec.clone() };
    (spec.jitter_ms, spec.misfire, spec.dst) = Default::default();
    (spec.calendar, spec.active) = Default::default();
}

/// After an edit of the schedule: edges of a child say nothing of slots, and those of a job with slots do.
pub fn fit(spec: &mut Spec) {
    for edge in &mut spec.after {
        if spec.schedule == When::Manual {
            (edge.period, edge.on_skip, edge.deadline_ms) = (Period::SameSlot, OnSkip::Skip, None);
        } else {
            edge.deadline_ms = edge.deadline_ms.or(Some(20_000));
        }
    }
}
