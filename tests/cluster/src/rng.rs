//! The source of all chance: one small generator, one instance per purpose.
//!
//! SplitMix64 (Steele, Lea, Flood 2014): passes the usual batteries, and any seed is a good one.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The generator of one purpose under one seed; purposes do not disturb each other.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Rng {
        let mut rng = Rng { state: seed ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93) };
        rng.state = rng.bits();
        rng
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "nothing lies below zero");
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A signed number in `-reach..=reach`.
    pub fn around(&mut self, reach: u64) -> i64 {
        self.between(0, 2 * reach) as i64 - reach as i64
    }

    /// True with this probability, in parts per million.
    pub fn chance(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.below(1_000_000) < ppm
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// A waiting time around `mean`, from nearly nothing to four times as long; short ones are more likely.
    pub fn wait(&mut self, mean: u64) -> u64 {
        let a = self.between(0, 2 * mean);
        let b = self.between(1, 1_000);
        (a * b / 500).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_range_and_vary() {
        let mut rng = Rng::new(7, 1);
        let seen: std::collections::BTreeSet<u64> = (0..1_000).map(|_| rng.between(3, 9)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), vec![3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn the_same_seed_tells_the_same_story() {
        let mut a = Rng::new(42, 1);
        let mut b = Rng::new(42, 1);
        let mut other = Rng::new(42, 2);
        assert_eq!(a.bits(), b.bits());
        assert_ne!(a.bits(), other.bits());
    }
}
