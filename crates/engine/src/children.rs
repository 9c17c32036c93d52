//! The thread that carries notes of ended parents to the machines of their children.
//!
//! It reads them at the start, when the writer says that there are new ones, and, where a machine has as many as it is
//! given at once, every second. Each is carried once in a process: by partition, in order of number.
//!
//! Absent on purpose: decisions, and taking notes away. Both are the machine's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rota_core::id::PartitionId;
use rota_core::limits::NOTES_WAITING_MAX;
use rota_core::partition::Input;
use rota_port::store::Error;
use rota_port::upstream::Reads;

use crate::shared::Shared;

/// How often it looks at partitions that have more notes than they are given at once, and after a read that failed.
const PACE: Duration = Duration::from_secs(1);
/// Without anything that waits.
const IDLE: Duration = Duration::from_secs(3_600);

/// What the thread is told.
#[derive(Default)]
pub(crate) struct Noted {
    /// There are new notes.
    pub(crate) is_news: bool,
    /// Set once: stop now.
    pub(crate) is_over: bool,
}

impl Noted {
    fn is_filled(&self) -> bool {
        self.is_news || self.is_over
    }
}

pub(crate) struct Children {
    shared: Arc<Shared>,
    reads: Arc<dyn Reads>,
    /// The highest number that was seen in any partition.
    seen: u64,
    /// The highest number that each partition's machine was given.
    carried: BTreeMap<PartitionId, u64>,
    /// Partitions with notes that their machines were not given yet.
    behind: BTreeSet<PartitionId>,
    /// The last read failed: what is new is not known.
    is_blind: bool,
}

impl Children {
    pub(crate) fn new(shared: Arc<Shared>, reads: Arc<dyn Reads>) -> Children {
        let (carried, behind) = (BTreeMap::new(), BTreeSet::new());
        Children { shared, reads, seen: 0, carried, behind, is_blind: false }
    }

    /// Runs until a stop.
    pub(crate) fn run(mut self) {
        loop {
            if let Err(error) = self.pass() {
                tracing::warn!(%error, "children_not_read");
                self.is_blind = true;
            }
            let timeout = if self.behind.is_empty() && !self.is_blind { IDLE } else { PACE };
            if self.shared.noted.take(timeout, Noted::is_filled, std::mem::take).is_over {
                return;
            }
        }
    }

    fn pass(&mut self) -> Result<(), Error> {
        for (partition, newest) in self.reads.partitions_noted(self.seen)? {
            self.seen = self.seen.max(newest);
            self.behind.insert(partition);
        }
        self.is_blind = false;
        for partition in std::mem::take(&mut self.behind) {
            match self.carry(partition) {
                Ok(true) => {}
                Ok(false) => {
                    self.behind.insert(partition);
                }
                Err(error) => {
                    self.behind.insert(partition);
                    tracing::warn!(partition = partition.0, %error, "children_not_read");
                }
            }
        }
        Ok(())
    }

    /// Gives a partition's machine what it may have; says whether that was all.
    fn carry(&mut self, partition: PartitionId) -> Result<bool, Error> {
        let upto = self.carried.get(&partition).copied().unwrap_or(0);
        let room = NOTES_WAITING_MAX.saturating_sub(self.reads.notes_left(partition, upto)?);
        if room == 0 {
            return Ok(false);
        }
        let notes = self.reads.notes(partition, upto, room)?;
        let is_all = u32::try_from(notes.len()).is_ok_and(|count| count < room);
        if let Some(last) = notes.last() {
            self.carried.insert(partition, last.no);
            self.shared.enter(vec![(partition, Input::Children(notes))]);
        }
        Ok(is_all)
    }
}
