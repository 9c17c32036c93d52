//! Notes of ended parents.

use rota_core::batch::{Batch, Row, RunState};
use rota_core::child::{Note, is_end, is_fired_by, parents};
use rota_core::id::{JobId, PartitionId, RunId};

use super::MemoryStore;
use super::state::State;
use crate::child::Notes;
use crate::store::Error;

impl State {
    /// Notes the ends that a batch holds, for the children that there are after it.
    pub(super) fn note_ends(&mut self, batch: &Batch) {
        for row in &batch.rows {
            if let Row::RunSet { run, job, state, .. } = row
                && is_end(*state)
            {
                self.note_end(batch, *run, *job, *state);
            }
        }
    }

    fn note_end(&mut self, batch: &Batch, parent: RunId, of: JobId, state: RunState) {
        let children = self.upstreams.iter().filter(|(_, upstream, token)| (*upstream, *token) == (of, 0));
        for child in children.map(|(job, _, _)| *job).collect::<Vec<_>>() {
            let Some(current) = self.current(child) else { continue };
            let mut edges = parents(&current.spec).iter().filter(|edge| edge.job == of);
            if !edges.any(|edge| is_fired_by(edge.when, state)) {
                continue;
            }
            let (job, app, version) = (child, current.app, current.version);
            let (slot, at, no) = (self.runs[&parent].slot, batch.at, self.notes_next);
            let Some(partition) = self.partition_of(app) else { continue };
            self.notes_next += 1;
            self.notes.insert(no, (partition, Note { no, job, app, version, parent, state, slot, at }));
        }
    }
}

impl Notes for MemoryStore {
    fn partitions_noted(&self, after: u64) -> Result<Vec<(PartitionId, u64)>, Error> {
        self.with(|state| {
            let mut found = std::collections::BTreeMap::new();
            for (no, (partition, _)) in state.notes.range(after + 1..) {
                found.insert(*partition, *no);
            }
            Ok(found.into_iter().collect())
        })
    }

    fn notes(&self, partition: PartitionId, after: u64, limit: u32) -> Result<Vec<Note>, Error> {
        self.with(|state| {
            let ours = state.notes.range(after + 1..).filter(|(_, (of, _))| *of == partition);
            Ok(ours.take(limit as usize).map(|(_, (_, note))| note.clone()).collect())
        })
    }

    fn notes_left(&self, partition: PartitionId, upto: u64) -> Result<u32, Error> {
        self.with(|state| {
            let ours = state.notes.range(..=upto).filter(|(_, (of, _))| *of == partition);
            Ok(u32::try_from(ours.count()).unwrap_or(u32::MAX))
        })
    }
}
