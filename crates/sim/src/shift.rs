//! Shifting phases: jobs that need not start on the very second start a little later, always by the same, where less else
//! runs. A shift is a part of the job's period, and no more than an hour.

use crate::chance::Chance;
use crate::workload::{Run, Workload};

const SHIFT_MOST_MS: u64 = 3_600_000;
/// How much of the future the search looks at.
const HORIZON_MS: u64 = 6 * 3_600_000;
const WINDOW_MS: u64 = 15_000;
const WINDOWS: usize = (HORIZON_MS / WINDOW_MS) as usize;
/// Its windows begin in the middle of those that are measured, so that it does not fit itself to them.
const WINDOWS_FROM_MS: u64 = 7_500;
const CANDIDATES: u64 = 40;
const PASSES: u32 = 2;

/// Which jobs may be shifted, if a person says so of so many percent; all but those that are not periodic.
#[must_use]
pub fn flexible(workload: &Workload, percent: u64, seed: u64) -> Vec<bool> {
    let mut chance = Chance::new(seed, 21);
    workload.jobs.iter().map(|job| chance.below(100) < percent && job.period_ms.is_some()).collect()
}

/// The most by which each job may be shifted, in whole seconds.
fn windows(workload: &Workload, flexible: &[bool], percent: u64) -> Vec<u64> {
    let window = |(job, flexible): (&crate::workload::Job, &bool)| {
        let period = job.period_ms.filter(|_| *flexible).unwrap_or(0);
        (period * percent / 100).min(SHIFT_MOST_MS) / 1_000 * 1_000
    };
    workload.jobs.iter().zip(flexible).map(window).collect()
}

/// Shifts by chance, in milliseconds by job: what a stable hash of the job gives.
#[must_use]
pub fn hashed(workload: &Workload, flexible: &[bool], percent: u64, seed: u64) -> Vec<u64> {
    let mut chance = Chance::new(seed, 22);
    windows(workload, flexible, percent).into_iter().map(|window| chance.below(window / 1_000 + 1) * 1_000).collect()
}

/// A job as it usually is.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    runs: u64,
    first_ms: u64,
    duration_ms: u64,
    lag_ms: u64,
    cores: u64,
}

/// The load of a horizon by window, in cores.
struct Horizon {
    from_ms: u64,
    load: Vec<f64>,
}

impl Horizon {
    /// What a job adds to each window if it is shifted by so much.
    fn visit(&self, usual: &Usual, period_ms: u64, offset_ms: u64, mut add: impl FnMut(usize, f64)) {
        // The first start within the horizon, without the shift.
        let ahead = self.from_ms.saturating_sub(usual.first_ms).div_ceil(period_ms) * period_ms;
        let mut start_ms = usual.first_ms + ahead;
        let end_ms = self.from_ms + HORIZON_MS;
        while start_ms < end_ms {
            let run = Run {
                job: 0,
                start_ms: start_ms + offset_ms,
                duration_ms: usual.duration_ms,
                cores: usual.cores,
                lag_ms: usual.lag_ms,
            };
            for (from, to, cores) in run.stretches() {
                let (from, to) = (from - self.from_ms, to.min(end_ms).saturating_sub(self.from_ms));
                let mut at = from;
                while at < to {
                    let next = (at / WINDOW_MS + 1) * WINDOW_MS;
                    let part = float(next.min(to) - at) / float(WINDOW_MS);
                    let window = usize::try_from(at / WINDOW_MS).expect("below the number of windows");
                    add(window, part * float(cores) / 1e6);
                    at = next;
                }
            }
            start_ms += period_ms;
        }
    }

    /// By how much the sum of fourth powers grows, which punishes peaks.
    fn cost(&self, usual: &Usual, period_ms: u64, offset_ms: u64) -> f64 {
        let mut cost = 0.0;
        self.visit(usual, period_ms, offset_ms, |window, cores| {
            let load = self.load[window];
            cost += (load + cores).powi(4) - load.powi(4);
        });
        cost
    }

    fn enter(&mut self, usual: &Usual, period_ms: u64, offset_ms: u64, sign: f64) {
        let mut load = std::mem::take(&mut self.load);
        self.visit(usual, period_ms, offset_ms, |window, cores| load[window] += sign * cores);
        self.load = load;
    }
}

/// Shifts that make the whole load even, in milliseconds by job: the largest jobs choose first, and all choose again
/// when they know of each other.
#[must_use]
pub fn optimised(workload: &Workload, flexible: &[bool], percent: u64) -> Vec<u64> {
    let usual = usual(workload);
    let period = |job: usize| workload.jobs[job].period_ms.unwrap_or(u64::MAX / 4);
    let mut horizon = Horizon { from_ms: workload.from_ms + WINDOWS_FROM_MS, load: vec![0.0; WINDOWS] };
    for (job, usual) in usual.iter().enumerate() {
        horizon.enter(usual, period(job), 0, 1.0);
    }
    let windows = windows(workload, flexible, percent);
    let mut offsets = vec![0; usual.len()];
    let mut order: Vec<usize> = (0..usual.len()).filter(|job| windows[*job] > 0).collect();
    let share = |job: &usize| float(usual[*job].cores) * float(usual[*job].duration_ms) / float(period(*job));
    order.sort_by(|a, b| share(b).total_cmp(&share(a)));
    for _ in 0..PASSES {
        for job in &order {
            let (usual, period) = (&usual[*job], period(*job));
            horizon.enter(usual, period, offsets[*job], -1.0);
            let seconds = windows[*job] / 1_000;
            let candidates = (0..CANDIDATES.min(seconds + 1)).map(|candidate| {
                let of = (CANDIDATES.min(seconds + 1) - 1).max(1);
                candidate * seconds / of * 1_000
            });
            let costs = candidates.map(|offset| (horizon.cost(usual, period, offset), offset));
            let best = costs.min_by(|(a, _), (b, _)| a.total_cmp(b)).map_or(0, |(_, offset)| offset);
            horizon.enter(usual, period, best, 1.0);
            offsets[*job] = best;
        }
    }
    offsets
}

/// The means of each job's runs.
fn usual(workload: &Workload) -> Vec<Usual> {
    let mut usual = vec![Usual::default(); workload.jobs.len()];
    for run in &workload.runs {
        let sum = &mut usual[run.job as usize];
        if sum.runs == 0 {
            sum.first_ms = run.start_ms;
        }
        sum.runs += 1;
        sum.duration_ms += run.duration_ms;
        sum.lag_ms += run.lag_ms;
        sum.cores += run.cores;
    }
    for sum in &mut usual {
        let runs = sum.runs.max(1);
        sum.duration_ms /= runs;
        sum.lag_ms /= runs;
        sum.cores /= runs;
    }
    usual
}

/// The workload with its jobs shifted.
#[must_use]
pub fn apply(workload: &Workload, offsets: &[u64]) -> Workload {
    let shifted = |run: &Run| Run { start_ms: run.start_ms + offsets[run.job as usize], ..*run };
    let runs = workload.runs.iter().map(shifted).collect();
    Workload::new(&workload.name, workload.jobs.clone(), runs, workload.from_ms, workload.to_ms)
}

#[expect(clippy::cast_precision_loss, reason = "times and cores of a few hours are exact")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Kind;
    use crate::workload::{CORE, Job};

    #[test]
    fn two_that_may_are_moved_apart() {
        let job = || Job { name: String::new(), hint: CORE, request: CORE, period_ms: Some(600_000) };
        let run = |job, start_ms| Run { job, start_ms, duration_ms: 150_000, cores: CORE, lag_ms: 0 };
        let runs = (0..40).flat_map(|n| [run(0, n * 600_000), run(1, n * 600_000)]).collect();
        let workload = Workload::new("w", vec![job(), job()], runs, 600_000, 24_000_000);
        assert_eq!(optimised(&workload, &[false, false], 50), [0, 0]);
        let offsets = optimised(&workload, &[true, false], 50);
        assert!((150_000..=300_000).contains(&offsets[0]) && offsets[1] == 0, "{offsets:?}");
        let shifted = apply(&workload, &offsets);
        assert_eq!(shifted.runs.iter().filter(|run| run.start_ms % 600_000 == 0).count(), 40);
    }

    #[test]
    fn nobody_is_moved_further_than_said() {
        let workload = Kind::Nightly.generate(1);
        let flexible = flexible(&workload, 70, 1);
        assert!((650..850).contains(&flexible.iter().filter(|flexible| **flexible).count()));
        for offsets in [hashed(&workload, &flexible, 10, 1), optimised(&workload, &flexible, 10)] {
            for ((job, offset), flexible) in workload.jobs.iter().zip(offsets).zip(&flexible) {
                let most = (job.period_ms.unwrap() / 10).min(SHIFT_MOST_MS);
                assert!(offset <= if *flexible { most } else { 0 }, "{} by {offset}", job.name);
            }
        }
    }
}
