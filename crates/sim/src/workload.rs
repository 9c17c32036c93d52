//! A workload: jobs, and every run of them with what it takes. What a run takes does not depend on where it runs.

use serde::Serialize;

/// Cores are counted in millionths, as `rota_core::route::learn` does.
pub const CORE: u64 = rota_core::route::learn::CORE;
/// What a run uses of its cores until it has warmed up, in percent.
const LAG_PERCENT: u64 = 20;

/// One run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its job, by its place in [`Workload::jobs`].
    pub job: u32,
    /// When it starts, in milliseconds since the workload's beginning.
    pub start_ms: u64,
    /// How long it takes where it gets all the processor time that it wants; at least 1.
    pub duration_ms: u64,
    /// What it uses once it has warmed up, in millionths of a core.
    pub cores: u64,
    /// How long it warms up, at most its duration.
    pub lag_ms: u64,
}

impl Run {
    /// When it ends.
    #[must_use]
    pub fn end_ms(&self) -> u64 {
        self.start_ms + self.duration_ms
    }

    /// The second in which it starts: all that start in one second are routed together.
    #[must_use]
    pub fn second(&self) -> u64 {
        self.start_ms / 1_000
    }

    /// What it uses while it warms up, in millionths of a core.
    #[must_use]
    pub fn lag_cores(&self) -> u64 {
        self.cores * LAG_PERCENT / 100
    }

    /// Its two stretches of constant use: from, to (milliseconds), millionths of a core.
    #[must_use]
    pub fn stretches(&self) -> [(u64, u64, u64); 2] {
        let warm = self.start_ms + self.lag_ms;
        [(self.start_ms, warm, self.lag_cores()), (warm, self.end_ms(), self.cores)]
    }

    /// The processor time it takes, in millionths of a core times milliseconds.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.stretches().iter().map(|(from, to, cores)| (to - from) * cores).sum()
    }

    /// What it uses in the mean, in millionths of a core.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.work() / self.duration_ms.max(1)
    }
}

/// One job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// What a person would say that its runs weigh: small, medium or large, in millionths of a core.
    pub hint: u64,
    /// What it requests, in millionths of a core.
    pub request: u64,
    /// The time between its runs, if they are periodic.
    pub period_ms: Option<u64>,
}

/// A small task's weight, a medium one's and a large one's, in millionths of a core.
const HINTS: [u64; 3] = [CORE / 10, CORE / 2, CORE * 3 / 2];

/// What a person would say of a job that uses so many millionths of a core: small below 0.3 cores, large from 0.9.
#[must_use]
pub fn hint_of(cores: u64) -> u64 {
    let class = usize::from(cores >= CORE * 3 / 10) + usize::from(cores >= CORE * 9 / 10);
    HINTS[class]
}

/// Jobs and runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// What it is called.
    pub name: String,
    /// By place.
    pub jobs: Vec<Job>,
    /// In the order of their starts; within a second in the order of their jobs.
    pub runs: Vec<Run>,
    /// The places of `runs` in the order of their ends.
    pub ends: Vec<u32>,
    /// What happens before is not measured, since machines fill up and weights are learned.
    pub from_ms: u64,
    /// Nor what happens from here on.
    pub to_ms: u64,
}

impl Workload {
    /// Puts runs in order.
    #[must_use]
    pub fn new(name: &str, jobs: Vec<Job>, mut runs: Vec<Run>, from_ms: u64, to_ms: u64) -> Workload {
        runs.sort_by_key(|run| (run.second(), run.job, run.start_ms));
        let mut ends: Vec<u32> = (0..).take(runs.len()).collect();
        ends.sort_by_key(|at| (runs[*at as usize].end_ms(), *at));
        Workload { name: name.to_owned(), jobs, runs, ends, from_ms, to_ms: to_ms.max(from_ms) }
    }

    /// Whether a run starts within what is measured.
    #[must_use]
    pub fn is_measured(&self, run: &Run) -> bool {
        (self.from_ms..self.to_ms).contains(&run.start_ms)
    }
}

/// What a machine has at most.
const CORES_MOST: u64 = 1_024;

/// Machines of a cluster: their cores in turn, and what one costs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shape {
    /// What it is called, as in `4c`.
    pub name: String,
    /// The `n`th machine has the cores at `n` modulo their number, in millionths; never empty, none 0.
    pub cores: Vec<u64>,
    /// What a machine costs an hour, in any currency; the mean if they differ.
    pub price: Option<f64>,
}

/// What is no description of machines.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{part:?} is not {wanted}; write 4c, 4c:0.17 or 2c+8c")]
pub struct ShapeError {
    /// What was said.
    pub part: String,
    /// What would be right.
    pub wanted: &'static str,
}

impl Shape {
    /// Reads the cores of a machine, or of several in turn, and the price of one: `4c`, `4c:0.17`, `2c+8c`.
    ///
    /// # Errors
    /// If it is no such text.
    pub fn parse(text: &str) -> Result<Shape, ShapeError> {
        let (name, price) = text.split_once(':').map_or((text, None), |(name, price)| (name, Some(price)));
        let wrong = |part: &str, wanted| ShapeError { part: part.to_owned(), wanted };
        let cores = |part: &str| {
            let cores = part.strip_suffix('c').and_then(|cores| cores.parse().ok());
            let cores = cores.filter(|cores| (1..=CORES_MOST).contains(cores));
            cores.map(|cores| cores * CORE).ok_or_else(|| wrong(part, "cores from 1c to 1024c"))
        };
        let price = match price {
            None => None,
            Some(text) => {
                let price = text.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
                Some(price.ok_or_else(|| wrong(text, "a price an hour"))?)
            }
        };
        Ok(Shape { name: name.to_owned(), cores: name.split('+').map(cores).collect::<Result<_, _>>()?, price })
    }

    /// Equal machines.
    #[must_use]
    pub fn of(cores: u64) -> Shape {
        Shape { name: format!("{cores}c"), cores: vec![cores * CORE], price: None }
    }

    /// What the `n`th machine has, in millionths of a core.
    #[must_use]
    pub fn size(&self, at: u32) -> u64 {
        self.cores[at as usize % self.cores.len()]
    }

    /// What a machine has in the mean, in millionths of a core.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean of a few machines' sizes")]
    pub fn mean_size(&self) -> f64 {
        self.cores.iter().sum::<u64>() as f64 / self.cores.len() as f64
    }

    /// What the largest machine has, in millionths of a core: no task weighs more.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.cores.iter().copied().max().unwrap_or(CORE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_read_and_mistakes_told() {
        let shape = Shape::parse("2c+8c:0.5").unwrap();
        assert_eq!((shape.cores.clone(), shape.price), (vec![2 * CORE, 8 * CORE], Some(0.5)));
        assert_eq!([shape.size(0), shape.size(1), shape.size(2)], [2 * CORE, 8 * CORE, 2 * CORE]);
        assert_eq!(Shape::parse("4c").unwrap(), Shape::of(4));
        for (wrong, part) in [("", ""), ("4", "4"), ("0c", "0c"), ("4c+", ""), ("4c:-1", "-1"), ("4c:inf", "inf")] {
            assert_eq!(Shape::parse(wrong).unwrap_err().part, part, "{wrong}");
        }
    }
}
