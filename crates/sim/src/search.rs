//! How many machines are enough: the least number that holds, and holds with one machine more, since strategies that do
//! not look at load may resonate with a number by chance.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::Serialize;

use crate::bounds::{Bounds, bounds};
use crate::strategy::{Plan, Strategy};
use crate::workload::{Shape, Workload};
use crate::{closed, cluster, cpu};

/// The search stops at so many times the fluid bound.
const LIMIT_TIMES: f64 = 8.0;
/// How many times longer than alone all but a thousandth of the runs may take.
const SLOWDOWN_MOST: f64 = 1.1;

/// What has to hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Criterion {
    /// The 99th percentile of all windows of all machines is within the target.
    Pooled,
    /// So is every machine's own.
    Worst,
    /// So is that of the fullest machine of each window.
    Hottest,
    /// All but a thousandth of the runs take at most a tenth longer than alone.
    Slowdown,
}

impl Criterion {
    /// All, each at least as strict as the one before, but for the last, which is of another kind.
    pub const ALL: [Criterion; 4] = [Criterion::Pooled, Criterion::Worst, Criterion::Hottest, Criterion::Slowdown];
}

/// A number of machines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needed {
    /// So many are enough.
    Nodes(u32),
    /// Even so many are not, and more were not tried.
    MoreThan(u32),
}

impl Needed {
    /// The number that is known to be enough, or known not to be.
    #[must_use]
    pub fn at_least(self) -> u32 {
        match self {
            Needed::Nodes(nodes) | Needed::MoreThan(nodes) => nodes,
        }
    }
}

/// What a search is about.
#[derive(Clone, Debug)]
pub struct Question {
    /// The machines.
    pub shape: Shape,
    /// The part of a machine that may be used.
    pub target: f64,
    /// What is asked.
    pub criteria: Vec<Criterion>,
}

/// What one strategy needs for one workload, by criterion.
pub type Answer = BTreeMap<Criterion, Needed>;

/// One strategy on one workload, with what has been tried of it.
struct Trial<'w> {
    workload: &'w Workload,
    strategy: &'w Strategy,
    plan: Plan,
    question: &'w Question,
    seed: u64,
    loads: BTreeMap<u32, cpu::Load>,
    slowdowns: BTreeMap<u32, f64>,
}

impl Trial<'_> {
    fn is_enough(&mut self, criterion: Criterion, nodes: u32) -> bool {
        let target = self.question.target;
        match criterion {
            Criterion::Pooled => self.load(nodes).pooled <= target,
            Criterion::Worst => self.load(nodes).worst <= target,
            Criterion::Hottest => self.load(nodes).hottest <= target,
            Criterion::Slowdown => self.slowdown(nodes) <= SLOWDOWN_MOST,
        }
    }

    fn load(&mut self, nodes: u32) -> cpu::Load {
        let (workload, shape) = (self.workload, &self.question.shape);
        *self.loads.entry(nodes).or_insert_with(|| {
            let placed = cluster::replay(workload, &self.plan, shape, nodes, self.seed);
            cpu::load(workload, shape, nodes, &placed.node_of)
        })
    }

    fn slowdown(&mut self, nodes: u32) -> f64 {
        let (workload, shape) = (self.workload, &self.question.shape);
        *self
            .slowdowns
            .entry(nodes)
            .or_insert_with(|| closed::slowdown(workload, &self.plan, self.strategy, shape, nodes, self.seed))
    }

    fn holds(&mut self, criterion: Criterion, nodes: u32) -> bool {
        self.is_enough(criterion, nodes) && self.is_enough(criterion, nodes + 1)
    }

    /// Gallops from `start`, then halves.
    fn least(&mut self, criterion: Criterion, start: u32, limit: u32) -> Needed {
        let (mut low, mut high) = (0, start.clamp(1, limit));
        let mut step = (start / 8).max(1);
        while !self.holds(criterion, high) {
            if high == limit {
                return Needed::MoreThan(limit);
            }
            low = high;
            high = (high + step).min(limit);
            step *= 2;
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.holds(criterion, middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Needed::Nodes(high)
    }
}

/// What a strategy needs for a workload.
#[must_use]
pub fn answer(workload: &Workload, strategy: &Strategy, question: &Question, bounds: &Bounds, seed: u64) -> Answer {
    let plan = Plan::new(workload, strategy, &question.shape);
    let (loads, slowdowns) = (BTreeMap::new(), BTreeMap::new());
    let mut trial = Trial { workload, strategy, plan, question, seed, loads, slowdowns };
    let limit = whole(bounds.fluid * LIMIT_TIMES).max(8);
    let start = whole(bounds.fluid);
    let mut answer = Answer::new();
    let mut strictest = start;
    for criterion in Criterion::ALL.into_iter().filter(|criterion| question.criteria.contains(criterion)) {
        let from = if criterion == Criterion::Slowdown { start } else { strictest };
        let needed = trial.least(criterion, from, limit);
        answer.insert(criterion, needed);
        if criterion != Criterion::Slowdown {
            strictest = needed.at_least();
        }
    }
    answer
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "machines are fewer than 2^32")]
fn whole(nodes: f64) -> u32 {
    nodes.ceil().clamp(1.0, 1e6) as u32
}

/// How far a search is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Answers that have been found.
    pub done: usize,
    /// Answers that are looked for.
    pub of: usize,
}

/// What each strategy needs for each workload: by strategy, then workload. Workloads stand for seeds. As many threads as
/// are given work on it; what comes out does not depend on them.
#[must_use]
pub fn answers(
    workloads: &[Workload],
    strategies: &[Strategy],
    question: &Question,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Vec<Vec<Answer>> {
    let bounds: Vec<Bounds> =
        workloads.iter().map(|workload| bounds(workload, &question.shape, question.target)).collect();
    let of = workloads.len() * strategies.len();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let found: Vec<Mutex<Answer>> = (0..of).map(|_| Mutex::new(Answer::new())).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= of {
                return;
            }
            let (strategy, seed) = (at / workloads.len(), at % workloads.len());
            let answer = answer(&workloads[seed], &strategies[strategy], question, &bounds[seed], seed as u64);
            *found[at].lock().expect("nobody panics with it in hand") = answer;
            progress(Progress { done: done.fetch_add(1, Ordering::Relaxed) + 1, of });
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_iter().map(|answer| answer.into_inner().expect("nobody panics with it in hand"));
    strategies.iter().map(|_| found.by_ref().take(workloads.len()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Kind;
    use crate::workload::{CORE, Job, Run, hint_of};

    /// Sixteen tasks of a core for an hour, all at once.
    fn sixteen() -> Workload {
        let job = Job { name: "j".to_owned(), hint: hint_of(CORE), request: CORE, period_ms: None };
        let run = Run { job: 0, start_ms: 0, duration_ms: 3_600_000, cores: CORE, lag_ms: 0 };
        Workload::new("w", vec![job], vec![run; 16], 0, 3_600_000)
    }

    fn question(target: f64) -> Question {
        Question { shape: Shape::of(4), target, criteria: Criterion::ALL.to_vec() }
    }

    fn check(name: &str, target: f64, expected: [Needed; 4]) {
        let workload = sixteen();
        let question = question(target);
        let bounds = bounds(&workload, &question.shape, target);
        let answer = answer(&workload, &Strategy::parse(name).unwrap(), &question, &bounds, 1);
        assert_eq!(answer.into_values().collect::<Vec<_>>(), expected, "{name}");
    }

    #[test]
    fn the_least_number_that_holds_is_found() {
        let (four, eight) = (Needed::Nodes(4), Needed::Nodes(8));
        check("ADAPTIVE_WEIGHT", 1.0, [four; 4]);
        check("APP_ROUND_ROBIN", 1.0, [four; 4]);
        // Two cores of four are half; three would be more than 0.7.
        check("ADAPTIVE_WEIGHT", 0.7, [eight, eight, eight, four]);
        let never = Needed::MoreThan(32);
        check("FIRST", 1.0, [never; 4]);
    }

    #[test]
    fn threads_change_nothing() {
        let workloads: Vec<Workload> = (0..2)
            .map(|seed| {
                let mut workload = Kind::Mixed.generate(seed);
                workload.runs.retain(|run| run.start_ms < 1_800_000);
                Workload::new("w", workload.jobs, workload.runs, 600_000, 1_800_000)
            })
            .collect();
        let strategies = ["RANDOM", "ADAPTIVE_WEIGHT"].map(|name| Strategy::parse(name).unwrap());
        let question = Question { criteria: vec![Criterion::Pooled], ..question(0.7) };
        let reported = AtomicUsize::new(0);
        let count = |progress: Progress| {
            assert_eq!(progress.of, 4);
            reported.fetch_add(1, Ordering::Relaxed);
        };
        let one = answers(&workloads, &strategies, &question, 1, &count);
        assert_eq!(answers(&workloads, &strategies, &question, 3, &count), one);
        assert_eq!(reported.into_inner(), 8);
    }
}
