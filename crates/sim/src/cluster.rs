//! One replay: every run is routed by the code that routes in earnest, holds its machine while it runs, and is released
//! when it ends. The loop is open: a machine may be asked for more than it has, so that all strategies do the same work.

use rota_core::route::{Load, Member, NOTHING, Nobody, Pool, Rule, Seat, Task};
use rota_core::time::Mono;

use crate::strategy::{self, Plan};
use crate::workload::{Shape, Workload};

/// What a run is routed by if no machine has room for what it requests: who has the least requested.
const NO_ROOM: Rule = Rule::Weight { choices: 0 };

/// Where runs ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    /// The machine of each run.
    pub(crate) node_of: Vec<u32>,
    /// Runs that no machine had room for, and that would have waited.
    pub(crate) crowded: u64,
}

/// Machines with what they carry.
pub(crate) struct Cluster<'w> {
    workload: &'w Workload,
    plan: &'w Plan,
    pool: Pool,
    loads: Vec<Load>,
    app_turn: u64,
    job_turns: Vec<u64>,
    /// The machines on which each job runs; kept only for the strategy that asks.
    runs_on: Option<Vec<Vec<u32>>>,
    pub(crate) crowded: u64,
}

impl<'w> Cluster<'w> {
    pub(crate) fn new(workload: &'w Workload, plan: &'w Plan, shape: &Shape, nodes: u32, seed: u64) -> Cluster<'w> {
        let member = |at: u32| {
            let mut has = NOTHING;
            has[0] = shape.size(at) / 1_000;
            Member { name: format!("worker-{at}"), size: shape.size(at), zone: 0, has }
        };
        let seats = vec![Seat::Able(Load::default()); nodes as usize];
        let asks = matches!(plan.rule, Rule::Busyover { .. });
        Cluster {
            pool: Pool::new((0..nodes).map(member).collect(), seats, seed),
            loads: vec![Load::default(); nodes as usize],
            app_turn: 0,
            job_turns: vec![0; workload.jobs.len()],
            runs_on: asks.then(|| vec![Vec::new(); workload.jobs.len()]),
            crowded: 0,
            workload,
            plan,
        }
    }

    /// Chooses a machine for a run of this weight, and reserves it; none if there are no machines.
    pub(crate) fn place(&mut self, at: usize, weight: u64) -> Option<u32> {
        let run = &self.workload.runs[at];
        let job = run.job as usize;
        let task = Task {
            key: self.plan.keys[job],
            needs: &self.plan.needs[job],
            runs_on: self.runs_on.as_ref().map_or(&[], |runs_on| &runs_on[job]),
            app_turn: self.app_turn,
            job_turn: self.job_turns[job],
            ..Task::of(u64::from(run.job), weight)
        };
        let now = Mono(run.second() * 1_000);
        let mut picked = self.pool.pick(&self.plan.rule, &task, now);
        if picked == Err(Nobody::NoRoom) {
            self.crowded += 1;
            picked = self.pool.pick(&NO_ROOM, &Task { needs: &NOTHING, ..task }, now);
        }
        let node = picked.ok()?;
        self.app_turn += 1;
        self.job_turns[job] += 1;
        if let Some(runs_on) = &mut self.runs_on {
            runs_on[job].push(node);
        }
        let load = &mut self.loads[node as usize];
        load.tasks += 1;
        load.weight += weight;
        load.taken[0] += self.plan.needs[job][0];
        self.pool.set(node, Seat::Able(*load));
        Some(node)
    }

    /// Releases what a run of this weight held.
    pub(crate) fn release(&mut self, at: usize, weight: u64, node: u32) {
        let job = self.workload.runs[at].job as usize;
        if let Some(runs_on) = &mut self.runs_on {
            let place = runs_on[job].iter().position(|on| *on == node).expect("a job runs where it was placed");
            runs_on[job].swap_remove(place);
        }
        let load = &mut self.loads[node as usize];
        load.tasks -= 1;
        load.weight -= weight;
        load.taken[0] -= self.plan.needs[job][0];
        self.pool.set(node, Seat::Able(*load));
    }
}

/// Replays a workload on so many machines, at least one.
pub(crate) fn replay(workload: &Workload, plan: &Plan, shape: &Shape, nodes: u32, seed: u64) -> Placed {
    let mut cluster = Cluster::new(workload, plan, shape, nodes, seed);
    let mut node_of = vec![0; workload.runs.len()];
    let mut ends = workload.ends.iter().map(|at| *at as usize).peekable();
    for at in plan.order.iter().map(|at| *at as usize) {
        let now_ms = workload.runs[at].second() * 1_000;
        while let Some(ended) = ends.next_if(|ended| workload.runs[*ended].end_ms() <= now_ms) {
            cluster.release(ended, plan.weights[ended], node_of[ended]);
        }
        node_of[at] = cluster.place(at, plan.weights[at]).expect("a machine that refuses nothing is there");
    }
    Placed { node_of, crowded: cluster.crowded }
}

/// Where each run of a workload runs under a strategy, on so many machines.
#[must_use]
pub fn placements(
    workload: &Workload,
    strategy: &strategy::Strategy,
    shape: &Shape,
    nodes: u32,
    seed: u64,
) -> Vec<u32> {
    replay(workload, &Plan::new(workload, strategy, shape), shape, nodes.max(1), seed).node_of
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::strategy::{NAMES, Strategy};
    use crate::workload::{CORE, Job, Run, hint_of};

    fn workload(runs: &[(u32, u64, u64, u64)]) -> Workload {
        let cores = |job: u64| CORE * (job + 1) / 4;
        let jobs = (0..8).map(|job| Job {
            name: format!("job-{job}"),
            hint: hint_of(cores(job)),
            request: cores(job),
            period_ms: None,
        });
        let runs = runs.iter().map(|(job, start_ms, duration_ms, cores)| Run {
            job: *job,
            start_ms: *start_ms,
            duration_ms: *duration_ms,
            cores: *cores,
            lag_ms: 0,
        });
        Workload::new("w", jobs.collect(), runs.collect(), 0, 60_000)
    }

    #[test]
    fn a_machine_is_held_from_the_choice_to_the_end() {
        // Two that overlap, and one that starts in the second in which the first ends.
        let workload = workload(&[(0, 0, 5_000, CORE), (1, 1_000, 60_000, CORE), (2, 5_500, 1_000, CORE)]);
        let strategy = Strategy::parse("LEAST_INFLIGHT").unwrap();
        for seed in 0..8 {
            let nodes = placements(&workload, &strategy, &Shape::of(4), 2, seed);
            assert!(nodes[0] != nodes[1] && nodes[2] == nodes[0], "{nodes:?}");
        }
    }

    #[test]
    fn what_has_no_room_is_counted_and_goes_where_least_is_requested() {
        // Job 7 requests two cores.
        let workload = workload(&[(7, 0, 9_000, CORE), (7, 0, 9_000, CORE), (7, 1_000, 9_000, CORE), (0, 2_000, 1, 1)]);
        let strategy = Strategy::parse("RESOURCE_FIT").unwrap();
        let plan = Plan::new(&workload, &strategy, &Shape::of(2));
        let placed = replay(&workload, &plan, &Shape::of(2), 2, 1);
        assert_eq!(placed.crowded, 2);
        assert!(placed.node_of[0] != placed.node_of[1] && placed.node_of[3] != placed.node_of[2], "{placed:?}");
    }

    proptest! {
        #[test]
        fn every_strategy_places_every_run_and_the_same_way_again(
            runs in prop::collection::vec((0..8u32, 0..50_000u64, 1..20_000u64, 0..(1u64 << 40)), 0..40),
            nodes in 1..6u32,
            seed: u64,
        ) {
            let workload = workload(&runs);
            for name in NAMES {
                let strategy = Strategy::parse(name).unwrap();
                let placed = placements(&workload, &strategy, &Shape::of(4), nodes, seed);
                prop_assert!(placed.len() == runs.len() && placed.iter().all(|node| *node < nodes), "{name}");
                prop_assert_eq!(&placements(&workload, &strategy, &Shape::of(4), nodes, seed), &placed, "{}", name);
            }
        }
    }
}
