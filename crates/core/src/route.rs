//! Choosing a worker: candidates are filtered, then one is picked. Integers only, deterministic.
//!
//! Strategies work on a [`Candidate`] per worker that is already known to be able to take the task.

use crate::job::Strategy;

/// What a strategy may look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Position in the pool, in order of registration.
    pub at: usize,
    /// Unreleased attempts.
    pub load: u32,
    /// Attempts that it runs at once; 0 is unlimited.
    pub capacity: u32,
}

/// Picks among candidates in the order of the pool. `turn` is the pool's counter of choices so far:
/// round robin goes by it, and least inflight breaks ties by it, so that equals take turns.
/// None if there is no candidate. `pool_len` is the number of workers in the pool.
#[must_use]
pub fn pick(
    strategy: Strategy,
    candidates: impl Iterator<Item = Candidate>,
    turn: u64,
    pool_len: usize,
) -> Option<usize> {
    let pool_len = pool_len.max(1);
    let start = usize::try_from(turn % pool_len as u64).expect("a remainder of a usize");
    // Distance from the start of this turn, around the pool.
    let distance = |at: usize| (at + pool_len - start) % pool_len;
    let best = match strategy {
        Strategy::AppRoundRobin => candidates.min_by_key(|c| distance(c.at)),
        Strategy::Default | Strategy::LeastInflight => candidates
            .min_by(|a, b| fullness(a, b).cmp(&fullness(b, a)).then_with(|| distance(a.at).cmp(&distance(b.at)))),
    };
    best.map(|c| c.at)
}

/// `(load + 1) / capacity`, cross-multiplied with the other's capacity so that no fraction is needed.
/// Workers without a capacity compare by load alone.
fn fullness(of: &Candidate, other: &Candidate) -> u64 {
    let divisor = if of.capacity == 0 || other.capacity == 0 { 1 } else { u64::from(other.capacity) };
    (u64::from(of.load) + 1) * divisor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(strategy: Strategy, loads: &[(u32, u32)], turn: u64, expected: Option<usize>) {
        let candidates =
            loads.iter().enumerate().map(|(at, (load, capacity))| Candidate { at, load: *load, capacity: *capacity });
        assert_eq!(pick(strategy, candidates, turn, loads.len()), expected);
    }

    #[test]
    fn least_inflight_takes_the_emptiest_for_its_size() {
        check(Strategy::LeastInflight, &[(3, 0), (1, 0), (2, 0)], 0, Some(1));
        check(Strategy::LeastInflight, &[(3, 16), (1, 4)], 0, Some(0));
        check(Strategy::Default, &[], 0, None);
    }

    #[test]
    fn equals_take_turns() {
        for turn in 0..6 {
            let expected = usize::try_from(turn % 3).unwrap();
            check(Strategy::LeastInflight, &[(1, 0), (1, 0), (1, 0)], turn, Some(expected));
            check(Strategy::AppRoundRobin, &[(9, 0), (0, 0), (5, 0)], turn, Some(expected));
        }
    }
}
