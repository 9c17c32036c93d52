//! Distributions over the seeded numbers of `rota_core::route::Draw`.

use rota_core::route::Draw;

/// A source of random numbers of one purpose.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Draw);

impl Chance {
    /// The numbers of a seed for one purpose: what one purpose draws does not change what another does.
    pub(crate) fn new(seed: u64, purpose: u64) -> Chance {
        let mut draw = Draw::new(seed);
        Chance(Draw::new(draw.number() ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// Below `below`; 0 if that is 0.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.0.below(below)
    }

    /// From 0 to below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Between two bounds, evenly.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Whether something of this probability happens.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// One of several values, each with its probability; the last takes what is left.
    pub(crate) fn one_of(&mut self, choices: &[(u64, f64)]) -> u64 {
        let mut left = self.unit();
        for (value, probability) in choices {
            if left < *probability {
                return *value;
            }
            left -= probability;
        }
        choices.last().map_or(0, |(value, _)| *value)
    }

    /// The standard normal distribution (G. Box, M. Muller, 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// The lognormal distribution by its median.
    pub(crate) fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }

    /// The Pareto distribution between two bounds.
    pub(crate) fn bounded_pareto(&mut self, alpha: f64, low: f64, high: f64) -> f64 {
        let part = 1.0 - (low / high).powf(alpha);
        low * (1.0 - self.unit() * part).powf(-1.0 / alpha)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(mut draw: impl FnMut(&mut Chance) -> f64) -> Vec<f64> {
        let mut chance = Chance::new(7, 1);
        let mut values: Vec<f64> = (0..100_000).map(|_| draw(&mut chance)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    fn check(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 0.03, "{value}, not {expected}");
    }

    #[test]
    fn quantiles_are_those_of_the_distributions() {
        let lognormal = sorted(|chance| chance.lognormal(3.0, 0.5));
        check(lognormal[50_000], 3.0);
        check(lognormal[84_134], 3.0 * 0.5_f64.exp());
        let pareto = sorted(|chance| chance.bounded_pareto(0.8, 0.05, 2.4));
        assert!(pareto[0] >= 0.05 && pareto[99_999] <= 2.4);
        // 1 - F(x) = ((low / x)^a - (low / high)^a) / (1 - (low / high)^a) is a half here.
        let tail: f64 = (0.05_f64 / 2.4).powf(0.8);
        check(pareto[50_000], 0.05 * (0.5 + 0.5 * tail).powf(-1.25));
        let even = sorted(|chance| chance.between(2.0, 4.0));
        check(even[25_000], 2.5);
    }
}
