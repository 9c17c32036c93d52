//! Ids that this server holds: a durable reserve, handed to its machines in blocks.
//!
//! A reserve is asked for early, so that no machine waits for the disk, and replaced when it is old,
//! so that ids grow with time. What is left of the replaced one is never used: the store gives every
//! reserve a start at or above the seconds since 2020, shifted by 20 bits, and one reserve is two
//! seconds' worth, so ids do not run ahead of time while reserves are taken more slowly than that.

use rota_core::id::Block;
use rota_core::time::Mono;

/// Ids in one block of a machine.
pub(crate) const BLOCK_IDS: u64 = 16_384;
/// Ids in one reserve: 128 blocks, so that each of 64 machines can take one and half is left.
pub(crate) const RESERVE_IDS: u64 = 1 << 21;
/// With fewer left, the next reserve is asked for.
const LOW_IDS: u64 = RESERVE_IDS / 2;
/// A reserve is replaced at this age.
const AGE_MAX_MS: u64 = 45_000;

/// Ids `first..first + RESERVE_IDS`, durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reserve {
    pub(crate) first: u64,
    pub(crate) at: Mono,
}

#[derive(Debug)]
pub(crate) struct Ids {
    next: u64,
    end: u64,
    at: Mono,
    is_asked: bool,
}

impl Ids {
    pub(crate) fn new(reserve: Reserve) -> Ids {
        Ids { next: reserve.first, end: reserve.first + RESERVE_IDS, at: reserve.at, is_asked: false }
    }

    /// The next block; none if the reserve is used up.
    pub(crate) fn block(&mut self) -> Option<Block> {
        if self.end - self.next < BLOCK_IDS {
            return None;
        }
        self.next += BLOCK_IDS;
        Some(Block::new(self.next - BLOCK_IDS, self.next))
    }

    /// Whether another reserve shall be asked for now; says so once for each.
    pub(crate) fn wants_reserve(&mut self, now: Mono) -> bool {
        let is_due = self.end - self.next < LOW_IDS || now.since(self.at) >= AGE_MAX_MS;
        let wants = is_due && !self.is_asked;
        self.is_asked |= wants;
        wants
    }

    /// Puts another reserve in place of what is left.
    pub(crate) fn replace(&mut self, reserve: Reserve) {
        assert!(reserve.first >= self.end, "a store never gives the same ids twice");
        *self = Ids::new(reserve);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_end() {
        let mut ids = Ids::new(Reserve { first: 1_000, at: Mono(0) });
        let mut before = 0;
        for _ in 0..RESERVE_IDS / BLOCK_IDS {
            let block = ids.block().unwrap();
            assert!(block.peek() >= before && block.left() == BLOCK_IDS);
            before = block.peek() + block.left();
        }
        assert_eq!(ids.block(), None);
        ids.replace(Reserve { first: before, at: Mono(1) });
        assert_eq!(ids.block().unwrap().peek(), before);
    }

    #[test]
    fn a_reserve_is_asked_for_once_when_low_or_old() {
        let mut ids = Ids::new(Reserve { first: 0, at: Mono(0) });
        assert!(!ids.wants_reserve(Mono(1)));
        for _ in 0..RESERVE_IDS / BLOCK_IDS / 2 + 1 {
            ids.block().unwrap();
        }
        assert!(ids.wants_reserve(Mono(1)));
        assert!(!ids.wants_reserve(Mono(2)), "it is on its way");
        ids.replace(Reserve { first: RESERVE_IDS, at: Mono(2) });
        assert!(!ids.wants_reserve(Mono(2)));
        assert!(ids.wants_reserve(Mono(2 + AGE_MAX_MS)));
    }
}
