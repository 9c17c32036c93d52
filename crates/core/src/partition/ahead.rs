//! The rows that are ahead of the mark: whoever loads the partition next has to look through all runs
//! from the first of these on.
//!
//! Runs get their ids in order, and their slots nearly so. So it is enough to know, of stretches of
//! ids, the latest slot in each: a stretch whose latest slot the mark has reached is not looked through,
//! however long the backlog behind it is.

use std::collections::VecDeque;

use crate::time::UnixMs;

/// Shorter stretches grow together, which bounds their number.
const STRETCH_RUNS_MIN: u64 = 500;

/// Runs of neighbouring ids.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: u64,
    runs: u64,
    /// The latest slot with a row in it; none if its runs have other origins.
    latest: Option<UnixMs>,
}

#[derive(Debug)]
pub(super) struct Ahead {
    closed: VecDeque<Stretch>,
    /// That of the open batch.
    open: Option<Stretch>,
    runs: u64,
}

impl Ahead {
    /// After a load: whatever is above the mark may lie anywhere.
    pub(super) fn new(fired_max: UnixMs, mark: UnixMs) -> Ahead {
        let unknown = Stretch { first: 0, runs: 0, latest: Some(fired_max) };
        Ahead { closed: (fired_max > mark).then_some(unknown).into_iter().collect(), open: None, runs: 0 }
    }

    /// Runs that whoever loads the partition next would look through, for slots' sake.
    pub(super) fn runs(&self) -> u64 {
        self.runs
    }

    /// A run of the open batch gets its id.
    pub(super) fn mint(&mut self, id: u64) {
        self.runs += 1;
        self.open.get_or_insert(Stretch { first: id, runs: 0, latest: None }).runs += 1;
    }

    /// A slot gets its row in the open batch.
    pub(super) fn fire(&mut self, slot: UnixMs) {
        let open = self.open.as_mut().expect("a slot's row has an id");
        open.latest = open.latest.max(Some(slot));
    }

    /// The open batch is closed with this mark: the lowest id of a stretch with a slot above it.
    pub(super) fn close(&mut self, mark: UnixMs) -> Option<u64> {
        if let Some(open) = self.open.take() {
            match self.closed.back_mut() {
                Some(last) if last.runs < STRETCH_RUNS_MIN => {
                    last.runs += open.runs;
                    last.latest = last.latest.max(open.latest);
                }
                Some(_) | None => self.closed.push_back(open),
            }
        }
        while let Some(first) = self.closed.front()
            && first.latest <= Some(mark)
        {
            self.runs -= first.runs;
            self.closed.pop_front();
        }
        self.closed.front().map(|first| first.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(ahead: &mut Ahead, ids: std::ops::Range<u64>, latest: i64, mark: i64) -> Option<u64> {
        for id in ids {
            ahead.mint(id);
            ahead.fire(UnixMs(latest));
        }
        ahead.close(UnixMs(mark))
    }

    #[test]
    fn a_backlog_that_is_worked_off_in_order_stays_short() {
        let mut ahead = Ahead::new(UnixMs(0), UnixMs(0));
        for n in 0..100_u64 {
            let (ids, latest) = (n * 600..(n + 1) * 600, n.cast_signed() * 10);
            assert_eq!(batch(&mut ahead, ids, latest, latest - 1), Some(n * 600));
            assert_eq!(ahead.runs(), 600);
        }
        assert_eq!(ahead.close(UnixMs(990)), None);
        assert_eq!(ahead.runs(), 0);
    }

    #[test]
    fn a_stretch_stays_until_the_mark_has_reached_its_latest_slot() {
        let mut ahead = Ahead::new(UnixMs(50), UnixMs(40));
        assert_eq!(batch(&mut ahead, 1_000..1_500, 90, 49), Some(0), "what was loaded may lie anywhere");
        assert_eq!(batch(&mut ahead, 1_500..2_000, 60, 60), Some(0), "the first stretch grew");
        assert_eq!(batch(&mut ahead, 2_000..2_001, 95, 89), Some(0));
        assert_eq!(batch(&mut ahead, 2_001..2_002, 94, 90), Some(2_000));
        assert_eq!(ahead.runs(), 2);
        assert_eq!(ahead.close(UnixMs(95)), None);
    }

    #[test]
    fn runs_of_other_origins_hold_nothing() {
        let mut ahead = Ahead::new(UnixMs(0), UnixMs(0));
        ahead.mint(7);
        assert_eq!(ahead.close(UnixMs(-5)), None);
        assert_eq!(ahead.runs(), 0);
    }
}
