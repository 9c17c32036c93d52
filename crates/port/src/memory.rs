//! The reference implementation of [`Store`] and [`Query`](crate::query::Query): plain maps behind a mutex, the same
//! answers for the same calls, and faults on demand. Tests and the simulation run on it.
//!
//! A [`MemoryStore`] is a handle; its clones share one state, as a writer and its readers share a file.
//! What a handle's owner forgets in a crash, the state keeps.
//!
//! Absent on purpose: segments (a sweep takes runs one by one, which is the harshest a store may be).

mod alerts;
mod apply;
mod child;
mod claim;
mod history;
mod query;
mod reserve;
mod state;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use rota_core::batch::{Batch, Loaded};
use rota_core::id::PartitionId;
use rota_core::time::UnixMs;

use crate::alerts::Watch;
use crate::store::{Error, Outcome, Reservation, Reserved, Store};

pub use state::{Header, State};

/// A store in memory. Clones share its state.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    state: State,
    faults: VecDeque<Fault>,
    damage: Option<Error>,
}

/// What shall happen to a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing is applied; the answer is [`Error::Unavailable`].
    Unavailable,
    /// It is applied; the answer is [`Error::Unknown`].
    LostReply,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(partitions: u16) -> MemoryStore {
        assert!(partitions > 0, "a store has at least one partition");
        let shared = Shared { state: State::new(partitions), faults: VecDeque::new(), damage: None };
        MemoryStore { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Lets a coming commit fail; several faults strike the coming commits in order.
    pub fn fail_next(&self, fault: Fault) {
        self.lock().faults.push_back(fault);
    }

    /// Looks at the rows as they are.
    pub fn with<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock().state)
    }

    /// Which jobs name an alert rule, and which of their runs are open.
    #[must_use]
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.lock().state.watch)
    }

    /// Loses a run, the oldest being 0, as a damaged disk would.
    pub fn lose_run(&self, at: usize) {
        let mut shared = self.lock();
        let lost = shared.state.runs.keys().nth(at).copied();
        lost.and_then(|run| shared.state.runs.remove(&run));
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("a thread that panics within the store ends the test")
    }
}

impl Shared {
    /// A batch that could not be applied was applied in part; nothing may rest on this state any more.
    fn sound(&mut self) -> Result<&mut State, Error> {
        match &self.damage {
            Some(damage) => Err(damage.clone()),
            None => Ok(&mut self.state),
        }
    }
}

impl Store for MemoryStore {
    fn partitions(&self) -> u16 {
        self.lock().state.partitions()
    }

    fn begin(&mut self, at: UnixMs, version: &str, tzdb: &str) -> Result<(), Error> {
        self.lock().sound()?.begin(at, version, tzdb);
        Ok(())
    }

    fn end(&mut self, at: UnixMs) -> Result<(), Error> {
        if let Some(term) = self.lock().sound()?.terms.last_mut() {
            (term.alive_at, term.stopped_at) = (at, Some(at));
        }
        Ok(())
    }

    fn claim(&mut self, partitions: &[PartitionId]) -> Result<Vec<Loaded>, Error> {
        Ok(self.lock().sound()?.claim(partitions))
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        let mut shared = self.lock();
        shared.sound()?;
        let fault = shared.faults.pop_front();
        if fault == Some(Fault::Unavailable) {
            return Err(Error::Unavailable("a fault was asked for".into()));
        }
        let outcomes: Result<Vec<Outcome>, Error> = batches.iter().map(|batch| shared.state.apply(batch)).collect();
        if let Err(damage) = &outcomes {
            shared.damage = Some(damage.clone());
        }
        match fault {
            Some(Fault::LostReply) => Err(Error::Unknown("a fault was asked for".into())),
            Some(Fault::Unavailable) | None => outcomes,
        }
    }

    fn noted(&self) -> u64 {
        self.lock().state.notes_next - 1
    }

    fn reserve_ids(&mut self, floor: u64, count: u64) -> Result<u64, Error> {
        self.lock().sound()?.reserve_ids(floor, count)
    }

    fn reserve_all(&mut self, what: &[Reservation]) -> Result<Vec<Reserved>, Error> {
        let mut shared = self.lock();
        let state = shared.sound()?;
        Ok(what.iter().map(|what| state.reserve(what)).collect())
    }

    fn sweep(&mut self, before: UnixMs, floor: u64) -> Result<u32, Error> {
        Ok(self.lock().sound()?.sweep(before, floor))
    }

    fn upkeep(&mut self, now: UnixMs) -> Result<bool, Error> {
        let mut shared = self.lock();
        let state = shared.sound()?;
        state.expire(now);
        if let Some(term) = state.terms.last_mut() {
            term.alive_at = term.alive_at.max(now);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::batch::Row;
    use rota_core::id::{Epoch, RunId, Seq};

    fn batch(seq: u64) -> Batch {
        let rows = vec![Row::Listed { run: RunId(seq), is_open: true }];
        Batch {
            partition: PartitionId(0),
            epoch: Epoch(1),
            seq: Seq(seq),
            at: UnixMs(1),
            mark: UnixMs(1),
            floor: 0,
            rows,
        }
    }

    #[test]
    fn faults_strike_the_coming_commits_in_order() {
        let store = MemoryStore::new(1);
        let mut writer = store.clone();
        writer.claim(&[PartitionId(0)]).unwrap();
        store.fail_next(Fault::Unavailable);
        store.fail_next(Fault::LostReply);
        assert!(matches!(writer.commit(&[batch(1)]), Err(Error::Unavailable(_))));
        assert_eq!(store.with(|state| state.header(PartitionId(0)).seq), Seq(0));
        assert!(matches!(writer.commit(&[batch(1)]), Err(Error::Unknown(_))));
        assert_eq!(store.with(|state| state.header(PartitionId(0)).seq), Seq(1));
        assert_eq!(writer.commit(&[batch(1)]), Ok(vec![Outcome::Repeated]));
    }

    #[test]
    fn a_sweep_takes_what_ended_before() {
        let mut store = MemoryStore::new(1);
        assert_eq!(store.sweep(UnixMs(10), u64::MAX), Ok(0));
        store.claim(&[PartitionId(0)]).unwrap();
        let run = |id: u64, ended_at: i64| crate::memory::state::tests::ended_run(RunId(id), UnixMs(ended_at));
        let rows = vec![run(1, 5), run(2, 15), run(3, 5), run(4, 5), Row::Listed { run: RunId(3), is_open: true }];
        store.commit(&[Batch { rows, ..batch(1) }]).unwrap();
        assert_eq!(store.sweep(UnixMs(10), 4), Ok(1));
        assert_eq!(
            store.with(|state| state.runs().keys().copied().collect::<Vec<_>>()),
            [RunId(2), RunId(3), RunId(4)]
        );
    }
}
