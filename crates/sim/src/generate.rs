//! Workloads that are made up, each after a shape that is met: the same seed makes the same for ever.
//!
//! Jobs are periodic. The duration of a run is lognormal around its job's, and so is what it uses, up to what
//! the largest task of any shape uses: were there one that alone is more than a machine is to carry, no number of machines
//! would do. Where what is known of a shape leaves a number open, its total demand decided it, never what a strategy makes
//! of it.

use crate::chance::Chance;
use crate::workload::{CORE, Job, Run, Shape, Workload, hint_of};

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// Until here machines fill up and weights are learned.
const WARM_UP_MS: u64 = 2 * HOUR_MS;
/// How many jobs start at the first second of a minute.
const ALIGNED: f64 = 0.85;
/// How much what runs of a job use differs.
const CORES_SIGMA: f64 = 0.2;
/// What a task uses at most.
const CORES_MOST: f64 = 2.4;
/// Periods of small jobs: in minutes, with their shares.
const SMALL_PERIODS: [(u64, f64); 3] = [(1, 0.6), (5, 0.3), (10, 0.1)];
const BIG_PERIODS: [(u64, f64); 5] = [(5, 0.2), (10, 0.2), (15, 0.2), (30, 0.2), (60, 0.2)];

/// A shape of workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Many small jobs and a few big ones, most of them due at the first second of a minute.
    Mixed,
    /// The same, due at any second.
    Unaligned,
    /// As mixed, with smaller big jobs, on machines of unequal sizes.
    Hetero,
    /// Small and big jobs by day, and many of a quarter of an hour by night.
    Nightly,
    /// Durations and sizes with heavy tails.
    Heavy,
    /// Jobs that are all alike.
    Uniform,
}

impl Kind {
    /// All, as they are listed.
    pub const ALL: [Kind; 6] = [Kind::Mixed, Kind::Unaligned, Kind::Hetero, Kind::Nightly, Kind::Heavy, Kind::Uniform];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mixed => "mixed",
            Kind::Unaligned => "unaligned",
            Kind::Hetero => "hetero",
            Kind::Nightly => "nightly",
            Kind::Heavy => "heavy",
            Kind::Uniform => "uniform",
        }
    }

    /// The machines on which it is usually looked at.
    #[must_use]
    pub fn shape(self) -> Shape {
        match self {
            Kind::Hetero => Shape {
                name: "2c+8c+2c+4c".to_owned(),
                cores: vec![2 * CORE, 8 * CORE, 2 * CORE, 4 * CORE],
                price: None,
            },
            Kind::Mixed | Kind::Unaligned | Kind::Nightly | Kind::Heavy | Kind::Uniform => Shape::of(4),
        }
    }

    /// Makes one up.
    #[must_use]
    pub fn generate(self, seed: u64) -> Workload {
        let hours = if self == Kind::Nightly { 24 } else { 8 };
        let mut making = Making::new(seed, WARM_UP_MS + hours * HOUR_MS);
        match self {
            Kind::Mixed => {
                making.small(900, ALIGNED);
                making.big(60, (1.0, 2.0), ALIGNED);
            }
            Kind::Unaligned => {
                making.small(900, 0.0);
                making.big(60, (1.0, 2.0), 0.0);
            }
            Kind::Hetero => {
                making.small(900, ALIGNED);
                making.big(60, (0.5, 1.4), ALIGNED);
            }
            Kind::Nightly => {
                making.small(900, ALIGNED);
                making.big(30, (1.0, 2.0), ALIGNED);
                making.nightly(150);
            }
            Kind::Heavy => making.heavy(2_500),
            Kind::Uniform => making.uniform(1_500),
        }
        Workload::new(self.name(), making.jobs, making.runs, WARM_UP_MS, making.end_ms)
    }
}

/// A job that is being made up.
struct Draft {
    prefix: &'static str,
    period_ms: u64,
    phase_ms: u64,
    duration_s: f64,
    cores: f64,
}

struct Making {
    end_ms: u64,
    jobs: Vec<Job>,
    runs: Vec<Run>,
    /// What jobs are like.
    traits: Chance,
    /// When they are due.
    phases: Chance,
    /// What their runs are like.
    noise: Chance,
    /// How far what they request exceeds what they use.
    requests: Chance,
}

impl Making {
    fn new(seed: u64, end_ms: u64) -> Making {
        let [traits, phases, noise, requests] = [1, 2, 3, 4].map(|purpose| Chance::new(seed, purpose));
        Making { end_ms, jobs: Vec::new(), runs: Vec::new(), traits, phases, noise, requests }
    }

    /// Short and often: half of them up to three seconds, most of the others to eight.
    fn small(&mut self, count: u32, aligned: f64) {
        for _ in 0..count {
            let period_ms = self.traits.one_of(&SMALL_PERIODS) * MINUTE_MS;
            let duration_s = self.traits.lognormal(3.0, 1.0).min(seconds(period_ms) / 2.0);
            let cores = self.traits.between(0.05, 0.3);
            let phase_ms = self.phase(period_ms, aligned);
            self.add(&Draft { prefix: "small", period_ms, phase_ms, duration_s, cores });
        }
    }

    /// Running for a good part of their period.
    fn big(&mut self, count: u32, (cores_least, cores_most): (f64, f64), aligned: f64) {
        for _ in 0..count {
            let period_ms = self.traits.one_of(&BIG_PERIODS) * MINUTE_MS;
            let duration_s = seconds(period_ms) * self.traits.between(0.2, 0.7);
            let cores = self.traits.between(cores_least, cores_most);
            let phase_ms = self.phase(period_ms, aligned);
            self.add(&Draft { prefix: "big", period_ms, phase_ms, duration_s, cores });
        }
    }

    /// Once a day between midnight, which is where what is measured begins, and three, most at a full hour.
    fn nightly(&mut self, count: u32) {
        for _ in 0..count {
            let cores = self.traits.between(0.5, 1.5);
            let is_aligned = self.phases.happens(ALIGNED);
            let hour = self.phases.below(3);
            let second = self.phases.below(3 * 3_600);
            let at_ms = if is_aligned { hour * HOUR_MS } else { second * SECOND_MS };
            let phase_ms = WARM_UP_MS + at_ms;
            let (period_ms, duration_s) = (24 * HOUR_MS, 900.0);
            self.add(&Draft { prefix: "nightly", period_ms, phase_ms, duration_s, cores });
        }
    }

    /// Durations as of the functions of a public cloud (M. Shahrad et al., Serverless in the Wild, ATC 2020), sizes
    /// between a twentieth of a core and 2.4.
    fn heavy(&mut self, count: u32) {
        for _ in 0..count {
            let period_ms = self.traits.one_of(&SMALL_PERIODS) * MINUTE_MS;
            let duration_s = self.traits.lognormal((-0.38_f64).exp(), 2.36).min(seconds(period_ms) / 2.0);
            let cores = self.traits.bounded_pareto(0.8, 0.05, CORES_MOST);
            let phase_ms = self.phase(period_ms, ALIGNED);
            self.add(&Draft { prefix: "job", period_ms, phase_ms, duration_s, cores });
        }
    }

    fn uniform(&mut self, count: u32) {
        for _ in 0..count {
            let phase_ms = self.phase(MINUTE_MS, 0.0);
            let (period_ms, duration_s) = (MINUTE_MS, 20.0);
            self.add(&Draft { prefix: "job", period_ms, phase_ms, duration_s, cores: 0.2 });
        }
    }

    /// Aligned jobs are due as `*/5` says: at multiples of their period.
    fn phase(&mut self, period_ms: u64, aligned: f64) -> u64 {
        let (is_aligned, second) = (self.phases.happens(aligned), self.phases.below(period_ms / SECOND_MS));
        if is_aligned { 0 } else { second * SECOND_MS }
    }

    fn add(&mut self, draft: &Draft) {
        let job = u32::try_from(self.jobs.len()).expect("jobs are a few thousand");
        let sigma = self.traits.between(0.25, 0.4);
        let lag_ms = millis(self.traits.between(1.0, 15.0));
        let mut start_ms = draft.phase_ms;
        while start_ms < self.end_ms {
            let duration_ms = millis(self.noise.lognormal(draft.duration_s, sigma)).max(1);
            let cores = micros(self.noise.lognormal(draft.cores, CORES_SIGMA).min(CORES_MOST));
            self.runs.push(Run { job, start_ms, duration_ms, cores, lag_ms: lag_ms.min(duration_ms) });
            start_ms += draft.period_ms;
        }
        self.jobs.push(Job {
            name: format!("{}-{job}", draft.prefix),
            hint: hint_of(micros(draft.cores)),
            request: micros(draft.cores * self.requests.between(1.0, 2.5)),
            period_ms: Some(draft.period_ms),
        });
    }
}

#[expect(clippy::cast_precision_loss, reason = "a day in milliseconds is exact")]
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "durations are drawn positive and short")]
fn millis(seconds: f64) -> u64 {
    (seconds * 1_000.0).round() as u64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cores are drawn positive and few")]
fn micros(cores: f64) -> u64 {
    (cores * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the shapes are described by.
    #[test]
    fn workloads_are_what_their_shapes_say() {
        let workload = Kind::Mixed.generate(1);
        assert_eq!(workload, Kind::Mixed.generate(1));
        let is_big = |run: &&Run| workload.jobs[run.job as usize].name.starts_with("big");
        let mut big = workload.runs.iter().filter(is_big);
        assert!(big.all(|run| run.cores <= CORE * 12 / 5 && run.duration_ms <= HOUR_MS * 2));
        let mut small: Vec<u64> = workload.runs.iter().filter(|run| !is_big(run)).map(|run| run.duration_ms).collect();
        small.sort_unstable();
        let median = small[small.len() / 2];
        assert!((2_500..3_500).contains(&median), "{median}");
        for (kind, jobs, aligned) in [
            (Kind::Mixed, 960, 816),
            (Kind::Unaligned, 960, 0),
            (Kind::Hetero, 960, 816),
            (Kind::Nightly, 1_080, 918),
            (Kind::Heavy, 2_500, 2_125),
            (Kind::Uniform, 1_500, 0),
        ] {
            let workload = kind.generate(2);
            assert_eq!(workload.jobs.len(), jobs, "{}", kind.name());
            let mut is_aligned = vec![true; jobs];
            for run in &workload.runs {
                is_aligned[run.job as usize] &= run.start_ms % MINUTE_MS == 0;
            }
            let found = is_aligned.iter().filter(|aligned| **aligned).count();
            assert!(found.abs_diff(aligned) <= 80, "{}: {found} of {jobs}", kind.name());
        }
    }
}
