//! Chance, from a seed: the same seed draws the same numbers for ever.

use rota_cron::mix;

/// A sequence of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Draw {
        Draw { seed: mix(seed), drawn: 0 }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        mix(self.seed.wrapping_add(self.drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// The next number, below `below`; 0 if that is 0.
    pub fn below(&mut self, below: u64) -> u64 {
        let product = u128::from(self.number()) * u128::from(below);
        u64::try_from(product >> 64).expect("a product's upper half is below its factor")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_for_ever_and_evenly() {
        let mut draw = Draw::new(7);
        assert_eq!([draw.below(1_000), draw.below(1_000), draw.below(1_000)], [649, 549, 604]);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[usize::try_from(draw.below(10)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (880..1_120).contains(count)), "{counts:?}");
        assert_eq!(draw.below(0), 0);
    }
}
