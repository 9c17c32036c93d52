//! What a workload is like, as far as it decides what routing can gain.

use rota_core::route::learn::Learned;
use serde::Serialize;

use crate::workload::{Shape, Workload};

const MINUTE_S: u64 = 60;

/// What decides what routing can gain.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Traits {
    /// Of all processor time, 99 % is used by tasks that take at most so large a part of a machine.
    pub lumpiness: f64,
    /// The part of the starts that fall into the first second of a minute.
    pub alignment: f64,
    /// How much of the variance of what tasks use is known before they start, from earlier runs of their jobs: 1 is all
    /// of it, 0 no more than the mean of all tasks tells. Nothing if no job ran twice.
    pub predictability: Option<f64>,
}

/// What a workload is like on machines of a shape.
#[must_use]
pub fn traits(workload: &Workload, shape: &Shape) -> Traits {
    let mut sizes: Vec<(u64, u128)> = Vec::new();
    let (mut starts, mut aligned) = (0_u64, 0_u64);
    for run in workload.runs.iter().filter(|run| run.end_ms() > workload.from_ms) {
        sizes.push((run.cores, u128::from(run.work())));
        starts += 1;
        aligned += u64::from(run.second() % MINUTE_S == 0);
    }
    sizes.sort_unstable();
    let all: u128 = sizes.iter().map(|(_, work)| work).sum();
    let mut below = 0;
    let largest = sizes.iter().find(|(_, work)| {
        below += work;
        below * 100 >= all * 99
    });
    Traits {
        lumpiness: largest.map_or(0.0, |(cores, _)| float(*cores) / shape.mean_size()),
        alignment: if starts == 0 { 0.0 } else { float(aligned) / float(starts) },
        predictability: predictability(workload),
    }
}

/// Compares what was learned before each run with what it used.
fn predictability(workload: &Workload) -> Option<f64> {
    let mut known = vec![Learned::default(); workload.jobs.len()];
    let mut pairs = Vec::new();
    for at in &workload.ends {
        let run = &workload.runs[*at as usize];
        let (used, known) = (run.used(), &mut known[run.job as usize]);
        if known.reports() > 0 && workload.is_measured(run) {
            pairs.push((float(used), float(known.mean())));
        }
        known.report(used, workload.jobs[run.job as usize].hint);
    }
    if pairs.is_empty() {
        return None;
    }
    let count: f64 = pairs.iter().map(|_| 1.0).sum();
    let mean = pairs.iter().map(|(used, _)| used).sum::<f64>() / count;
    let variance: f64 = pairs.iter().map(|(used, _)| (used - mean).powi(2)).sum();
    let left: f64 = pairs.iter().map(|(used, known)| (used - known).powi(2)).sum();
    Some(if variance > 0.0 { 1.0 - left / variance } else { 1.0 })
}

#[expect(clippy::cast_precision_loss, reason = "counts and cores in millionths are exact")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{CORE, Job, Run};

    fn job() -> Job {
        Job { name: String::new(), hint: CORE, request: CORE, period_ms: None }
    }

    fn check(runs: Vec<Run>, lumpiness: f64, alignment: f64, predictability: Option<f64>) {
        let found = traits(&Workload::new("w", vec![job(), job()], runs, 0, 1_000_000), &Shape::of(4));
        let expected = Traits { lumpiness, alignment, predictability };
        assert!(found == expected, "{found:?}, not {expected:?}");
    }

    #[test]
    fn a_workload_is_told_by_its_runs() {
        let run = |job, start_ms, cores| Run { job, start_ms, duration_ms: 1_000, cores: cores * CORE, lag_ms: 0 };
        check(Vec::new(), 0.0, 0.0, None);
        check(vec![run(0, 0, 1)], 0.25, 1.0, None);
        // A thousand small ones beside one as large as a machine, which takes less than 1 % of the time.
        let mut runs: Vec<Run> = (0..500).map(|n| run(0, n * 1_000 + 500, 1)).collect();
        runs.push(run(1, 60_000, 4));
        check(runs.clone(), 0.25, 10.0 / 501.0, Some(1.0));
        runs.push(run(1, 61_000, 4));
        check(runs, 1.0, 10.0 / 502.0, Some(1.0));
        // What was seen before is the opposite of what comes.
        let swings = (0..2).map(|n| run(0, n * 1_000, 1 + n)).collect();
        check(swings, 0.5, 0.5, Some(1.0));
    }
}
