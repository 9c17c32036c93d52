//! The way of a batch to the store and back: in order, sent again until it is answered, dropped when it is fenced.

use rota_core::batch::{Batch, Exception, Row};
use rota_core::id::{Epoch, PartitionId};
use rota_core::partition::Input;
use rota_core::time::Now;

use crate::check::loss::Decision;
use crate::check::{Rule, upstream};
use crate::children;
use crate::event::Event;
use crate::mutant::Mutant;
use crate::store::Applied;
use crate::story::tell;
use crate::words::rows;
use crate::world::{Phase, World};

impl World {
    /// A batch is on its way to the store.
    pub(crate) fn submit(&mut self, server: usize, partition: PartitionId, now: Now, batch: Batch) {
        tell!(
            self,
            format!("s{server}/p{partition}"),
            "batch {} mark {} floor {}: {}",
            batch.seq,
            batch.mark,
            batch.floor,
            rows(&batch)
        );
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
        let is_down = self.outages[usize::from(partition.0)] > self.now;
        if is_down || (is_faulty && self.dice.server.chance(self.scenario.unavailable_ppm)) {
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
        let mut faulty = None;
        if self.mutant == Some(Mutant::ArmingIsForgotten) {
            let is_kept = |row: &Row| !matches!(row, Row::Exception { exception: Some(Exception::Armed(_)), .. });
            let mut batch = batch.clone();
            batch.rows.retain(is_kept);
            faulty = Some(batch);
        }
        let epoch = self.store.part(batch.partition).epoch;
        let changes = match self.store.commit(faulty.as_ref().unwrap_or(batch)) {
            // Also what changes nothing: whoever is told so believes that its batch is durable.
            Ok(Applied::Changed(_) | Applied::Repeated) if batch.epoch != epoch => {
                let text = format!("batch {} of term {} is taken in term {epoch}", batch.seq, batch.epoch);
                self.note(Err(Rule::Term.broken(text)));
                return true;
            }
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
        let missed = self.checks.misfires.applied(batch.partition, part, &changes);
        let waited = upstream::applied(&self.store, part, &changes);
        let fired = self.checks.children.applied(&self.store, part, &changes);
        let lived = self.checks.life.applied(part, &changes, &self.oracle);
        let filled = self.checks.backfills.applied(part, &changes);
        let begun = self.checks.rate.applied(batch.partition, part, &changes);
        let split = self.checks.shards.applied(part, &changes, &self.oracle);
        self.note(begun);
        self.note(covered);
        self.note(missed);
        self.note(lived);
        self.note(split);
        self.note(filled);
        self.note(waited);
        self.note(fired);
        let noted = children::note_ends(&mut self.store, batch);
        self.noted(noted);
        true
    }

    /// A reply to a commit was handed in: its batch leaves the pipe.
    pub(crate) fn replied(&mut self, server: usize, partition: PartitionId) {
        if let Some(hosted) = self.servers[server].hosted.get_mut(&partition) {
            hosted.in_flight.pop_front();
            hosted.unreplied -= 1;
        }
    }
}
