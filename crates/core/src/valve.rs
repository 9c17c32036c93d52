//! The rate of a whole server: one token bucket, lent to its machines step by step.
//!
//! A machine may take what it is lent in one step, so what all of them take never exceeds the bucket. While machines wait
//! for tokens, nobody else gets any, and those that wait get theirs in turn: a partition with much to do cannot starve
//! the others.

use std::collections::BTreeSet;

use crate::id::PartitionId;
use crate::rate::{Bucket, Limit};
use crate::time::Mono;

/// The bucket of a server, and the machines that wait for its tokens.
#[derive(Debug)]
pub struct ServerValve {
    bucket: Bucket,
    waiting: BTreeSet<PartitionId>,
    /// Whose turn it is among those that wait.
    turn: Option<PartitionId>,
    /// Whose turn it was last.
    last: Option<PartitionId>,
}

impl ServerValve {
    /// An empty bucket: what was started just before is not known.
    #[must_use]
    pub fn new(limit: Limit, now: Mono) -> ServerValve {
        ServerValve { bucket: Bucket::empty(limit, now), waiting: BTreeSet::new(), turn: None, last: None }
    }

    /// Its bucket, as of its last change.
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// How many tokens a machine may take in the step that follows.
    #[must_use]
    pub fn lend(&self, to: PartitionId, now: Mono) -> u32 {
        let tokens = self.bucket.tokens(now);
        if self.turn == Some(to) {
            return tokens.div_ceil(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX).max(1));
        }
        if self.waiting.is_empty() { tokens } else { 0 }
    }

    /// A machine has taken so many of those that it was lent, and waits for more or does not.
    pub fn settle(&mut self, by: PartitionId, now: Mono, taken: u32, waits: bool) {
        assert!(taken <= self.bucket.tokens(now), "nobody takes more than is there");
        if taken > 0 {
            self.bucket.take(now, taken);
        }
        if waits {
            self.waiting.insert(by);
        } else {
            self.waiting.remove(&by);
        }
    }

    /// The machine whose turn it is to go on, if there is a token; it is its turn until [`ServerValve::pass_on`].
    pub fn next(&mut self, now: Mono) -> Option<PartitionId> {
        if self.bucket.tokens(now) == 0 {
            return None;
        }
        let after = self.waiting.iter().find(|partition| Some(**partition) > self.last);
        self.turn = after.or_else(|| self.waiting.first()).copied();
        self.turn
    }

    /// Its turn is over.
    pub fn pass_on(&mut self) {
        self.last = self.turn.take();
    }

    /// A machine is gone.
    pub fn forget(&mut self, partition: PartitionId) {
        self.waiting.remove(&partition);
    }

    /// Milliseconds until somebody who waits may go on; none if nobody waits.
    #[must_use]
    pub fn wait_ms(&self, now: Mono) -> Option<u64> {
        (!self.waiting.is_empty()).then(|| self.bucket.wait_ms(now))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rate::Rate;

    fn valve(count: u32, per_ms: u64, burst: u32) -> ServerValve {
        ServerValve::new(Limit { rate: Rate { count, per_ms }, burst: Some(burst) }, Mono(0))
    }

    #[test]
    fn whoever_waits_goes_before_whoever_comes_and_shares_what_there_is() {
        let (mut valve, [a, b, c]) = (valve(10, 1_000, 10), [0, 1, 2].map(PartitionId));
        assert_eq!((valve.lend(a, Mono(0)), valve.wait_ms(Mono(0))), (0, None));
        valve.settle(a, Mono(0), 0, true);
        valve.settle(b, Mono(0), 0, true);
        assert_eq!(valve.wait_ms(Mono(30)), Some(70));
        assert_eq!(valve.next(Mono(99)), None);
        let now = Mono(500);
        assert_eq!(valve.lend(c, now), 0, "two wait already");
        assert_eq!((valve.next(now), valve.lend(a, now), valve.lend(b, now)), (Some(a), 3, 0));
        valve.settle(a, now, 3, true);
        valve.pass_on();
        assert_eq!((valve.next(now), valve.lend(b, now)), (Some(b), 1));
        valve.settle(b, now, 1, false);
        valve.pass_on();
        assert_eq!((valve.next(now), valve.lend(a, now)), (Some(a), 1));
        valve.settle(a, now, 0, false);
        valve.pass_on();
        assert_eq!((valve.next(now), valve.lend(c, now)), (None, 1));
    }

    proptest! {
        /// In no window more is taken than the burst and what it brings; and of those that always want more, each gets its
        /// share.
        #[test]
        fn no_window_has_too_many_and_nobody_starves(
            count in 1_u32..50, per_ms in 100_u64..2_000, burst in 1_u32..20,
            wants in proptest::collection::vec(0_u32..5, 2..8),
            waits in proptest::collection::vec(1_u64..300, 50..200),
        ) {
            let mut valve = valve(count, per_ms, burst);
            let mut taken: Vec<u64> = Vec::new();
            let mut got = vec![0_u32; wants.len()];
            let mut now = 0;
            let mut step = |valve: &mut ServerValve, now: u64, at: u16| {
                let partition = PartitionId(at);
                let lent = valve.lend(partition, Mono(now));
                let takes = lent.min(wants[usize::from(at)]);
                let is_greedy = wants[usize::from(at)] > 0;
                valve.settle(partition, Mono(now), takes, is_greedy && takes == lent);
                got[usize::from(at)] += takes;
                taken.extend((0..takes).map(|_| now));
                takes
            };
            for wait in &waits {
                now += wait;
                for at in 0..u16::try_from(wants.len()).unwrap() {
                    step(&mut valve, now, at);
                }
                while let Some(next) = valve.next(Mono(now)) {
                    let takes = step(&mut valve, now, next.0);
                    valve.pass_on();
                    prop_assert!(takes > 0 || valve.wait_ms(Mono(now)).is_none() || wants[usize::from(next.0)] == 0);
                }
            }
            for first in 0..taken.len() {
                let brings = (taken[taken.len() - 1] - taken[first]) * u64::from(count) / per_ms;
                prop_assert!((taken.len() - first) as u64 <= u64::from(burst) + brings);
            }
            let greedy: Vec<u32> = wants.iter().zip(&got).filter(|(want, _)| **want > 0).map(|(_, got)| *got).collect();
            let total: u32 = got.iter().sum();
            if let Some(least) = greedy.iter().min() {
                // Nobody takes more than 4 a step, so a fair share is not far off.
                prop_assert!(u64::from(*least) * 40 + 40 >= u64::from(total / greedy.len() as u32), "{got:?}");
            }
        }
    }
}
