//! Resources: whether a task fits a worker, and how well, as kube-scheduler scores it.
//!
//! Scores are those of kubernetes' `NodeResourcesFit` and `NodeResourcesBalancedAllocation` plug-ins, from 0 to 100, of
//! what is requested with the task included, not of what is used.

use crate::limits;

/// Amounts by resource, in the order that their app has given them: CPU in thousandths of a core first, memory in
/// mebibytes second, then what else is counted.
pub type Amounts = [u64; limits::RESOURCES_MAX];

/// What a worker has, and how much of it running tasks have requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room<'r> {
    /// What it has; 0 of a resource that it does not count.
    pub has: &'r Amounts,
    /// What its unreleased attempts have requested.
    pub taken: &'r Amounts,
}

/// How a worker's room is scored; the highest score wins.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Score {
    /// The most left over.
    #[default]
    Least,
    /// The least left over, so that large tasks find room elsewhere.
    Most,
    /// Its resources used up evenly.
    Balanced,
    /// By a piecewise linear function of utilisation: points of (percent, score of 0 to 100), in rising order.
    Ratio(Vec<(u8, u8)>),
}

impl Room<'_> {
    /// Whether so much more fits, if so many percent of what there is may be requested.
    #[must_use]
    pub fn fits(&self, needs: &Amounts, overcommit_percent: u32) -> bool {
        (0..limits::RESOURCES_MAX).all(|at| {
            let wanted = || u128::from(self.taken[at].saturating_add(needs[at])) * 100;
            needs[at] == 0 || wanted() <= u128::from(self.has[at]) * u128::from(overcommit_percent)
        })
    }

    /// How good it would be to put so much more here, from 0 to 100. `weights` says how much each resource counts.
    #[must_use]
    pub fn score(&self, needs: &Amounts, score: &Score, weights: &Amounts) -> f64 {
        match score {
            Score::Least => self.mean(needs, weights, |used| if used > 1.0 { 0.0 } else { (1.0 - used) * 100.0 }),
            Score::Most => self.mean(needs, weights, |used| if used > 1.0 { 0.0 } else { used * 100.0 }),
            Score::Balanced => self.balance(needs, weights),
            Score::Ratio(points) => self.ratio(needs, weights, points),
        }
    }

    /// What would be requested of each resource that counts here, as a part of what there is, with its weight.
    fn used(&self, needs: &Amounts, weights: &Amounts) -> impl Iterator<Item = (f64, f64)> {
        (0..limits::RESOURCES_MAX)
            .filter(|at| self.has[*at] > 0 && weights[*at] > 0)
            .map(|at| (float(self.taken[at].saturating_add(needs[at])) / float(self.has[at]), float(weights[at])))
    }

    fn mean(&self, needs: &Amounts, weights: &Amounts, of: impl Fn(f64) -> f64) -> f64 {
        let (sum, weight) = self
            .used(needs, weights)
            .fold((0.0, 0.0), |(sum, all), (used, weight)| (sum + of(used) * weight, all + weight));
        if weight > 0.0 { sum / weight } else { 0.0 }
    }

    fn balance(&self, needs: &Amounts, weights: &Amounts) -> f64 {
        let (count, sum, squares) =
            self.used(needs, weights).fold((0.0, 0.0, 0.0), |(count, sum, squares), (used, _)| {
                let used = used.min(1.0);
                (count + 1.0, sum + used, squares + used * used)
            });
        if count == 0.0 {
            return 0.0;
        }
        let mean = sum / count;
        let deviation = f64::max(squares / count - mean * mean, 0.0).sqrt();
        (1.0 - deviation) * 100.0
    }

    /// The weighted mean of the resources' scores; those that score 0 are left out.
    fn ratio(&self, needs: &Amounts, weights: &Amounts, points: &[(u8, u8)]) -> f64 {
        let scored = self.used(needs, weights).map(|(used, weight)| (shape(points, used.min(1.0) * 100.0), weight));
        let (sum, weight) = scored
            .filter(|(score, _)| *score > 0.0)
            .fold((0.0, 0.0), |(sum, all), (score, weight)| (sum + score * weight, all + weight));
        if weight > 0.0 { sum / weight } else { 0.0 }
    }
}

/// A piecewise linear function at `x`; level before its first point and after its last.
fn shape(points: &[(u8, u8)], x: f64) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for (at, score) in points.iter().map(|(at, score)| (f64::from(*at), f64::from(*score))) {
        if x <= at {
            return match before {
                Some((from, low)) => low + (score - low) * (x - from) / (at - from),
                None => score,
            };
        }
        before = Some((at, score));
    }
    before.map_or(0.0, |(_, score)| score)
}

/// Amounts above 2^53 lose their last digits, which no score can tell.
#[expect(clippy::cast_precision_loss, reason = "scores are compared, not added up")]
fn float(amount: u64) -> f64 {
    amount as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(cpu: u64, memory: u64) -> Amounts {
        let mut amounts = Amounts::default();
        (amounts[0], amounts[1]) = (cpu, memory);
        amounts
    }

    fn check(has: (u64, u64), taken: (u64, u64), needs: (u64, u64), score: &Score, expected: f64) {
        let (has, taken) = (amounts(has.0, has.1), amounts(taken.0, taken.1));
        let room = Room { has: &has, taken: &taken };
        let scored = room.score(&amounts(needs.0, needs.1), score, &amounts(1, 1));
        assert!((scored - expected).abs() < 1e-9, "{scored}, not {expected}");
    }

    /// Computed by hand from the formulas.
    #[test]
    fn scores_are_those_of_kube_scheduler() {
        let (has, taken, needs) = ((4_000, 8_192), (1_000, 4_096), (1_000, 2_048));
        check(has, taken, needs, &Score::Least, f64::midpoint(50.0, 25.0));
        check(has, taken, needs, &Score::Most, f64::midpoint(50.0, 75.0));
        check(has, taken, needs, &Score::Balanced, 100.0 * (1.0 - 0.125));
        let packing = Score::Ratio(vec![(0, 0), (100, 100)]);
        check(has, taken, needs, &packing, f64::midpoint(50.0, 75.0));
        let peak = Score::Ratio(vec![(0, 0), (50, 100), (100, 0)]);
        check(has, taken, needs, &peak, f64::midpoint(100.0, 50.0));
        // A resource that scores 0 leaves the mean; one that a worker does not have, every mean.
        check(has, (3_000, 0), (1_000, 4_096), &peak, 100.0);
        check((4_000, 0), taken, needs, &Score::Least, 50.0);
        check((0, 0), taken, needs, &Score::Least, 0.0);
        check((0, 0), taken, needs, &Score::Balanced, 0.0);
        check(has, (4_000, 0), (1_000, 0), &Score::Least, 50.0);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let room = Room { has: &amounts(4_000, 0), taken: &amounts(3_000, 0) };
        assert!(room.fits(&amounts(1_000, 0), 100) && !room.fits(&amounts(1_001, 0), 100));
        assert!(room.fits(&amounts(3_000, 0), 150) && !room.fits(&amounts(0, 1), 150));
        assert!(!room.fits(&amounts(u64::MAX, 0), u32::MAX));
    }
}
