//! The closed loop: machines share what they have among their tasks, and tasks on a full machine take longer.
//!
//! All tasks of a machine slow down alike, to what it has over what they ask for. So each machine has a virtual time that
//! passes as fast as its tasks run, in which every task's end is known when it starts; only the machine's next event has
//! to be found again when what it is asked for changes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rota_core::route::learn::Learned;
use rota_core::route::order::Turn;
use rota_core::time::UnixMs;

use crate::cluster::Cluster;
use crate::cpu::quantile;
use crate::strategy::{Plan, Strategy, Weighing};
use crate::workload::{Shape, Workload};

/// An order of times that are never NaN.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Ms(f64);

impl Eq for Ms {}

impl PartialOrd for Ms {
    fn partial_cmp(&self, other: &Ms) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ms {
    fn cmp(&self, other: &Ms) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// What comes in a machine's virtual time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Next {
    Warm(usize),
    End(usize),
}

/// A machine.
#[derive(Debug)]
struct Node {
    size: f64,
    demand: u64,
    /// How much virtual time has passed, and up to when.
    passed: f64,
    at_ms: f64,
    comes: BinaryHeap<Reverse<(Ms, Next)>>,
    /// Counts changes, so that events that are out of date are known.
    version: u64,
}

impl Node {
    #[expect(clippy::cast_precision_loss, reason = "cores in millionths are exact")]
    fn speed(&self) -> f64 {
        if self.demand as f64 <= self.size { 1.0 } else { self.size / self.demand as f64 }
    }

    fn pass(&mut self, to_ms: f64) {
        self.passed += (to_ms - self.at_ms).max(0.0) * self.speed();
        self.at_ms = to_ms;
    }

    /// When its next event comes if nothing changes.
    fn next_ms(&self) -> Option<f64> {
        self.comes.peek().map(|Reverse((at, _))| self.at_ms + (at.0 - self.passed).max(0.0) / self.speed())
    }
}

struct Loop<'w> {
    workload: &'w Workload,
    cluster: Cluster<'w>,
    nodes: Vec<Node>,
    /// The next event of each machine, with the version of the machine that it was found for.
    events: BinaryHeap<Reverse<(Ms, u32, u64)>>,
    node_of: Vec<u32>,
    weights: Vec<u64>,
    learned: Option<Vec<Learned>>,
    most: u64,
    slowdowns: Vec<f64>,
}

/// The 99.9th percentile of how many times longer than alone runs took.
pub(crate) fn slowdown(
    workload: &Workload,
    plan: &Plan,
    strategy: &Strategy,
    shape: &Shape,
    nodes: u32,
    seed: u64,
) -> f64 {
    let mut closed = Loop::new(workload, plan, strategy, shape, nodes, seed);
    let mut together: Vec<usize> = Vec::new();
    for chunk in workload.runs.chunk_by(|a, b| a.second() == b.second()) {
        let first = together.last().map_or(0, |last| last + 1);
        together.clear();
        together.extend(first..first + chunk.len());
        closed.start(&together, strategy.lpt);
    }
    closed.run_to(f64::INFINITY);
    quantile(&mut closed.slowdowns, 0.999)
}

impl<'w> Loop<'w> {
    #[expect(clippy::cast_precision_loss, reason = "cores in millionths are exact")]
    fn new(
        workload: &'w Workload,
        plan: &'w Plan,
        strategy: &Strategy,
        shape: &Shape,
        nodes: u32,
        seed: u64,
    ) -> Loop<'w> {
        let node = |at| Node {
            size: shape.size(at) as f64,
            demand: 0,
            passed: 0.0,
            at_ms: 0.0,
            comes: BinaryHeap::new(),
            version: 0,
        };
        let learns = strategy.weighing == Weighing::Learned;
        Loop {
            workload,
            cluster: Cluster::new(workload, plan, shape, nodes, seed),
            nodes: (0..nodes).map(node).collect(),
            events: BinaryHeap::new(),
            node_of: vec![0; workload.runs.len()],
            weights: plan.weights.clone(),
            learned: learns.then(|| vec![Learned::default(); workload.jobs.len()]),
            most: shape.largest(),
            slowdowns: Vec::new(),
        }
    }

    /// Routes and starts runs that are due in one second.
    #[expect(clippy::cast_precision_loss, reason = "a workload's milliseconds are exact")]
    fn start(&mut self, together: &[usize], lpt: bool) {
        let workload = self.workload;
        let Some(first) = together.first() else { return };
        self.run_to(workload.runs[*first].second() as f64 * 1_000.0);
        for at in together {
            let job = workload.runs[*at].job as usize;
            if let Some(learned) = &self.learned {
                self.weights[*at] = learned[job].weight(workload.jobs[job].hint, self.most);
            }
        }
        let mut order = together.to_vec();
        if lpt {
            order.sort_by(|a, b| self.turn(*a).cmp_biggest_first(&self.turn(*b)));
        }
        for at in &order {
            let node = self.cluster.place(*at, self.weights[*at]);
            self.node_of[*at] = node.expect("a machine that refuses nothing is there");
        }
        // They start when they are due, which may be later within the second.
        for at in together {
            self.run_to(workload.runs[*at].start_ms as f64);
            self.enter(*at);
        }
    }

    fn turn(&self, at: usize) -> Turn {
        let run = &self.workload.runs[at];
        let due = UnixMs(i64::try_from(run.start_ms).expect("a workload is no longer than time"));
        Turn { weight: self.weights[at], members: 0, priority: 0, due, job: u64::from(run.job) }
    }

    #[expect(clippy::cast_precision_loss, reason = "a run's milliseconds are exact")]
    fn enter(&mut self, at: usize) {
        let run = &self.workload.runs[at];
        let node = &mut self.nodes[self.node_of[at] as usize];
        node.pass(run.start_ms as f64);
        node.comes.push(Reverse((Ms(node.passed + run.duration_ms as f64), Next::End(at))));
        if run.lag_ms > 0 {
            node.demand += run.lag_cores();
            node.comes.push(Reverse((Ms(node.passed + run.lag_ms as f64), Next::Warm(at))));
        } else {
            node.demand += run.cores;
        }
        self.announce(self.node_of[at]);
    }

    /// Says when a machine's next event comes, since something has changed.
    fn announce(&mut self, node: u32) {
        let state = &mut self.nodes[node as usize];
        state.version += 1;
        if let Some(at) = state.next_ms() {
            self.events.push(Reverse((Ms(at), node, state.version)));
        }
    }

    /// Lets all happen that comes up to this time.
    fn run_to(&mut self, to_ms: f64) {
        while let Some(Reverse((at, node, version))) = self.events.peek().copied() {
            if at.0 > to_ms {
                return;
            }
            self.events.pop();
            if self.nodes[node as usize].version != version {
                continue;
            }
            let state = &mut self.nodes[node as usize];
            state.pass(at.0);
            if let Some(Reverse((due, next))) = state.comes.pop() {
                // Rounding must not leave virtual time behind what it has reached.
                state.passed = state.passed.max(due.0);
                self.happen(node, next, at.0);
            }
            self.announce(node);
        }
    }

    fn happen(&mut self, node: u32, next: Next, now_ms: f64) {
        let state = &mut self.nodes[node as usize];
        match next {
            Next::Warm(at) => {
                let run = &self.workload.runs[at];
                state.demand += run.cores - run.lag_cores();
            }
            Next::End(at) => {
                let run = &self.workload.runs[at];
                // Of two at one time the end of warming up comes first, so it has happened.
                state.demand -= run.cores;
                self.cluster.release(at, self.weights[at], node);
                self.report(at, now_ms);
            }
        }
    }

    /// A run has ended: it is learned from, and measured.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mean use is positive and below what its task asks for"
    )]
    fn report(&mut self, at: usize, now_ms: f64) {
        let run = &self.workload.runs[at];
        let took_ms = (now_ms - run.start_ms as f64).max(run.duration_ms as f64);
        if let Some(learned) = &mut self.learned {
            let job = run.job as usize;
            learned[job].report((run.work() as f64 / took_ms) as u64, self.workload.jobs[job].hint);
        }
        if self.workload.is_measured(run) {
            self.slowdowns.push(took_ms / run.duration_ms as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{CORE, Job, Run, hint_of};

    fn check(runs: &[(u64, u64, u64, u64)], nodes: u32, expected: f64) {
        let jobs = vec![Job { name: "j".to_owned(), hint: hint_of(CORE), request: CORE, period_ms: None }];
        let runs = runs.iter().map(|(start_ms, duration_ms, cores, lag_ms)| Run {
            job: 0,
            start_ms: *start_ms,
            duration_ms: *duration_ms,
            cores: cores * CORE,
            lag_ms: *lag_ms,
        });
        let workload = Workload::new("w", jobs, runs.collect(), 0, 1_000_000);
        let strategy = Strategy::parse("ADAPTIVE_WEIGHT").unwrap();
        let plan = Plan::new(&workload, &strategy, &Shape::of(4));
        let found = slowdown(&workload, &plan, &strategy, &Shape::of(4), nodes, 1);
        assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
    }

    /// Worked out by hand.
    #[test]
    fn a_full_machine_is_shared() {
        check(&[(0, 10_000, 4, 0)], 1, 1.0);
        check(&[(0, 10_000, 4, 0), (0, 10_000, 4, 0)], 2, 1.0);
        check(&[(0, 10_000, 4, 0), (0, 10_000, 4, 0)], 1, 2.0);
        // Alone for 5 s; then the other takes 20 s for its 10, of which the first needs 10 for its last 5.
        check(&[(0, 10_000, 4, 0), (5_000, 10_000, 4, 0)], 1, 1.5);
        // Each uses a fifth for its first 5 s, which is no more than there is; then they share.
        check(&[(0, 10_000, 4, 5_000), (0, 10_000, 4, 5_000)], 1, 1.5);
        check(&[(0, 10_000, 8, 10_000)], 1, 1.0);
    }
}
