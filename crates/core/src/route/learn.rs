//! What a job's tasks weigh, learned from what their workers report of them.
//!
//! The mean is an exponential one, so that it follows a job that grows; a prior stands in for it until enough has been
//! seen. One report cannot move it far, so that one mad run does not take a whole machine for itself ever after.

/// Weights are counted in millionths of a core.
pub const CORE: u64 = 1_000_000;
/// A report above so many times of what is known counts as that many times.
const OUTLIER_TIMES: u64 = 5;
/// What a new report counts, in hundredths, once there have been a few.
const ALPHA_PERCENT: u128 = 20;
/// How many reports the prior counts as.
const PRIOR_REPORTS: u128 = 2;
/// What a task weighs of which nothing is known.
pub const UNKNOWN: u64 = CORE * 3 / 10;
/// What a task weighs at least.
pub const LEAST: u64 = CORE / 100;

/// What is known of a job's tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Learned {
    mean: u64,
    reports: u32,
}

impl Learned {
    /// What was kept of earlier reports: their mean in millionths of a core, and their number.
    #[must_use]
    pub fn kept(mean: u64, reports: u32) -> Learned {
        Learned { mean, reports }
    }

    /// The mean of the reports, in millionths of a core.
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.mean
    }

    /// How many there were.
    #[must_use]
    pub fn reports(&self) -> u32 {
        self.reports
    }

    /// A task has ended that took so much: processor time over duration, in millionths of a core. `prior` is what was
    /// believed before the first.
    pub fn report(&mut self, used: u64, prior: u64) {
        let known = self.weight(prior, u64::MAX);
        let used = used.min(known.saturating_mul(OUTLIER_TIMES));
        // The first few count alike, or the very first would outweigh those after it.
        let share = ALPHA_PERCENT.max(100 / (u128::from(self.reports) + 1));
        let sum = u128::from(used) * share + u128::from(self.mean) * (100 - share);
        self.mean = u64::try_from(sum / 100).expect("a mean is no larger than what it is of");
        self.reports = self.reports.saturating_add(1);
    }

    /// What its next task weighs, at most `most`.
    #[must_use]
    pub fn weight(&self, prior: u64, most: u64) -> u64 {
        let reports = u128::from(self.reports);
        let sum = PRIOR_REPORTS * u128::from(prior) + reports * u128::from(self.mean);
        let mean = u64::try_from(sum / (PRIOR_REPORTS + reports)).expect("a mean is no larger than what it is of");
        mean.clamp(LEAST.min(most), most)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_prior_stands_in_until_enough_is_seen() {
        let mut learned = Learned::default();
        assert_eq!(learned.weight(CORE, 4 * CORE), CORE);
        for _ in 0..2 {
            learned.report(2 * CORE, CORE);
        }
        assert_eq!(learned.weight(CORE, 4 * CORE), CORE * 3 / 2);
        for _ in 0..200 {
            learned.report(2 * CORE, CORE);
        }
        assert!((1_980_000..=2_000_000).contains(&learned.weight(CORE, 4 * CORE)));
    }

    #[test]
    fn the_first_few_count_alike() {
        let mut learned = Learned::default();
        for used in [CORE, 2 * CORE, 3 * CORE] {
            learned.report(used, CORE);
        }
        assert!((1_980_000..=2_020_000).contains(&learned.mean()), "{}", learned.mean());
    }

    #[test]
    fn one_mad_report_moves_little() {
        let mut learned = Learned::kept(CORE, 100);
        learned.report(u64::MAX, CORE);
        assert_eq!(learned.mean(), CORE * 18 / 10);
        let mut first = Learned::default();
        first.report(u64::MAX, LEAST);
        assert_eq!(first.mean(), 5 * LEAST);
    }

    proptest! {
        #[test]
        fn a_weight_lies_between_its_bounds(prior: u64, mean: u64, reports: u32, used: u64, most in LEAST..) {
            let mut learned = Learned::kept(mean, reports);
            learned.report(used, prior);
            let weight = learned.weight(prior, most);
            prop_assert!((LEAST..=most).contains(&weight));
        }
    }
}
