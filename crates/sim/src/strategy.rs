//! Strategies by their names, and what tasks weigh under each.
//!
//! In an open loop neither what a task takes nor when it ends depends on where it runs. So what is learned of jobs, and
//! the order of those that are due together, are worked out once per workload, not once per cluster.

use rota_core::limits;
use rota_core::route::learn::Learned;
use rota_core::route::order::Turn;
use rota_core::route::{Amounts, Bound, Hash, NOTHING, OnBusy, Rule, Scope, Score, Unit};
use rota_core::time::UnixMs;

use crate::workload::{Job, Shape, Workload};

/// How many percent of the mean a member of a bounded ring carries at most.
const BOUND_PERCENT: u32 = 125;
const RING_POINTS: u32 = 100;
const DAY_MS: u64 = 86_400_000;

/// How a strategy comes to a task's weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weighing {
    /// All alike.
    Alike,
    /// As small, medium or large, for ever.
    Hint,
    /// As small, medium or large at first; then as was learned from its job's runs.
    Learned,
    /// As it requests.
    Requests,
}

/// A way to choose machines.
#[derive(Clone, PartialEq, Debug)]
pub struct Strategy {
    /// As a person says it.
    pub name: String,
    /// How a machine is chosen.
    pub rule: Rule,
    /// What tasks weigh.
    pub weighing: Weighing,
    /// Whether the biggest of those that are due together are routed first.
    pub lpt: bool,
}

/// A strategy that cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// There is no such strategy.
    #[error("there is no strategy {0:?}; known are {known}", known = NAMES.join(", "))]
    Name(String),
    /// There is no such setting, or it takes no such value.
    #[error("{setting:?} is not a setting of {name}: say lpt=on, lpt=off or, for {counted}, choices=1 to {most}",
        counted = CHOOSING.join(", "), most = limits::CHOICES_MAX)]
    Setting {
        /// The strategy.
        name: String,
        /// What was said.
        setting: String,
    },
}

/// All that there are. A run on every machine (`SHARDING_BROADCAST`) chooses none, so it is not among them.
pub const NAMES: [&str; 15] = [
    "FIRST",
    "LAST",
    "FAILOVER",
    "BUSYOVER",
    "TASK_ROUND_ROBIN",
    "APP_ROUND_ROBIN",
    "RANDOM",
    "LFU",
    "LRU",
    "CONSISTENT_HASH",
    "CONSISTENT_HASH_BOUNDED",
    "LEAST_INFLIGHT",
    "TASK_WEIGHT",
    "ADAPTIVE_WEIGHT",
    "RESOURCE_FIT",
];

/// Those that can look at a few machines instead of all.
const CHOOSING: [&str; 3] = ["LEAST_INFLIGHT", "TASK_WEIGHT", "ADAPTIVE_WEIGHT"];

impl Strategy {
    /// Reads a name, and settings after a colon: `ADAPTIVE_WEIGHT`, `TASK_WEIGHT:lpt=off`,
    /// `LEAST_INFLIGHT:choices=2`.
    ///
    /// # Errors
    /// If there is no such strategy or setting.
    pub fn parse(text: &str) -> Result<Strategy, Error> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut strategy = named(name).ok_or_else(|| Error::Name(name.to_owned()))?;
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            let wrong = || Error::Setting { name: name.to_owned(), setting: setting.to_owned() };
            match setting.split_once('=') {
                Some(("lpt", "on")) => strategy.lpt = true,
                Some(("lpt", "off")) => strategy.lpt = false,
                Some(("choices", count)) => {
                    let count = count.parse().ok().filter(|count| (1..=limits::CHOICES_MAX).contains(count));
                    set_choices(&mut strategy.rule, count.ok_or_else(wrong)?).ok_or_else(wrong)?;
                }
                Some(_) | None => return Err(wrong()),
            }
        }
        text.clone_into(&mut strategy.name);
        Ok(strategy)
    }
}

fn set_choices(rule: &mut Rule, count: u32) -> Option<()> {
    if let Rule::LeastInflight { choices } | Rule::Weight { choices } = rule {
        *choices = count;
        return Some(());
    }
    None
}

fn named(name: &str) -> Option<Strategy> {
    let ring = |bound| Rule::ConsistentHash { hash: Hash::Xxh3, points: RING_POINTS, bound };
    let (rule, weighing) = match name {
        "FIRST" => (Rule::First, Weighing::Alike),
        "LAST" => (Rule::Last, Weighing::Alike),
        "FAILOVER" => (Rule::Failover, Weighing::Alike),
        "BUSYOVER" => (Rule::Busyover { on_busy: OnBusy::LeastLoaded }, Weighing::Alike),
        "TASK_ROUND_ROBIN" => (Rule::TaskRoundRobin, Weighing::Alike),
        "APP_ROUND_ROBIN" => (Rule::AppRoundRobin { by_size: true }, Weighing::Alike),
        "RANDOM" => (Rule::Random { by_size: true }, Weighing::Alike),
        "LFU" => (Rule::Lfu { scope: Scope::App, window_ms: DAY_MS }, Weighing::Alike),
        "LRU" => (Rule::Lru { scope: Scope::App }, Weighing::Alike),
        "CONSISTENT_HASH" => (ring(None), Weighing::Alike),
        "CONSISTENT_HASH_BOUNDED" => {
            (ring(Some(Bound { percent: BOUND_PERCENT, unit: Unit::Weight })), Weighing::Learned)
        }
        "LEAST_INFLIGHT" => (Rule::LeastInflight { choices: 0 }, Weighing::Alike),
        "TASK_WEIGHT" => (Rule::Weight { choices: 0 }, Weighing::Hint),
        "ADAPTIVE_WEIGHT" => (Rule::Weight { choices: 0 }, Weighing::Learned),
        "RESOURCE_FIT" => {
            let mut weights = NOTHING;
            weights[0] = 1;
            (Rule::ResourceFit { score: Score::Least, weights, sample: 0, overcommit_percent: 100 }, Weighing::Requests)
        }
        _ => return None,
    };
    let lpt = matches!(rule, Rule::Weight { .. });
    Some(Strategy { name: name.to_owned(), rule, weighing, lpt })
}

/// A strategy laid out for a workload.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rule: Rule,
    /// What each run weighs.
    pub(crate) weights: Vec<u64>,
    /// What runs of each job request.
    pub(crate) needs: Vec<Amounts>,
    /// Each job's place on the ring.
    pub(crate) keys: Vec<u64>,
    /// The order in which runs are routed.
    pub(crate) order: Vec<u32>,
}

impl Plan {
    pub(crate) fn new(workload: &Workload, strategy: &Strategy, shape: &Shape) -> Plan {
        let weights = weights(workload, strategy.weighing, shape.largest());
        let mut order: Vec<u32> = (0..).take(workload.runs.len()).collect();
        if strategy.lpt {
            for together in order.chunk_by_mut(|a, b| second(workload, *a) == second(workload, *b)) {
                let turn = |at: u32| turn(workload, at, weights[at as usize]);
                together.sort_by(|a, b| turn(*a).cmp_biggest_first(&turn(*b)));
            }
        }
        let requests = matches!(strategy.rule, Rule::ResourceFit { .. });
        let needs = workload.jobs.iter().map(|job| if requests { needs(job) } else { NOTHING }).collect();
        let keys = workload.jobs.iter().map(|job| Hash::Xxh3.place(&job.name)).collect();
        Plan { rule: strategy.rule.clone(), weights, needs, keys, order }
    }
}

fn second(workload: &Workload, at: u32) -> u64 {
    workload.runs[at as usize].second()
}

fn turn(workload: &Workload, at: u32, weight: u64) -> Turn {
    let run = &workload.runs[at as usize];
    let due = UnixMs(i64::try_from(run.start_ms).expect("a workload is no longer than time"));
    Turn { weight, members: 0, priority: 0, due, job: u64::from(run.job) }
}

/// A thousandth of a core is the unit of requests.
pub(crate) fn needs(job: &Job) -> Amounts {
    let mut needs = NOTHING;
    needs[0] = (job.request / 1_000).max(1);
    needs
}

fn weights(workload: &Workload, weighing: Weighing, most: u64) -> Vec<u64> {
    let job = |job: u32| &workload.jobs[job as usize];
    match weighing {
        Weighing::Alike => vec![1; workload.runs.len()],
        Weighing::Hint => workload.runs.iter().map(|run| job(run.job).hint).collect(),
        Weighing::Requests => workload.runs.iter().map(|run| job(run.job).request).collect(),
        Weighing::Learned => learned(workload, most),
    }
}

/// What each run weighs by the reports of those that have ended by the second in which it is routed.
fn learned(workload: &Workload, most: u64) -> Vec<u64> {
    let mut known = vec![Learned::default(); workload.jobs.len()];
    let mut ends = workload.ends.iter().map(|at| &workload.runs[*at as usize]).peekable();
    let weigh = |run: &crate::workload::Run| {
        while let Some(ended) = ends.next_if(|ended| ended.end_ms() <= run.second() * 1_000) {
            let job = ended.job as usize;
            known[job].report(ended.used(), workload.jobs[job].hint);
        }
        let job = run.job as usize;
        known[job].weight(workload.jobs[job].hint, most)
    };
    workload.runs.iter().map(weigh).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{CORE, Run};

    #[test]
    fn every_name_is_read_and_settings_are_checked() {
        for name in NAMES {
            assert_eq!(Strategy::parse(name).unwrap().name, name);
        }
        let strategy = Strategy::parse("TASK_WEIGHT:lpt=off,choices=2").unwrap();
        assert_eq!((strategy.rule, strategy.lpt), (Rule::Weight { choices: 2 }, false));
        assert_eq!(Strategy::parse("BEST"), Err(Error::Name("BEST".to_owned())));
        for wrong in ["RANDOM:choices=2", "TASK_WEIGHT:choices=0", "TASK_WEIGHT:choices=17", "LRU:lpt=maybe", "LRU:x"] {
            assert!(matches!(Strategy::parse(wrong), Err(Error::Setting { .. })), "{wrong}");
        }
    }

    #[test]
    fn the_biggest_of_a_second_come_first_and_learn_from_what_has_ended() {
        let job = |hint| Job { name: String::new(), hint, request: CORE, period_ms: None };
        let run = |job, start_ms, cores| Run { job, start_ms, duration_ms: 500, cores, lag_ms: 0 };
        let runs = vec![
            run(0, 0, CORE),
            run(1, 0, CORE),
            run(1, 400, CORE),
            run(0, 1_000, CORE),
            run(1, 1_000, CORE),
            run(0, 900, CORE),
        ];
        let workload = Workload::new("w", vec![job(CORE / 10), job(CORE / 2)], runs, 0, 2_000);
        let strategy = Strategy::parse("ADAPTIVE_WEIGHT").unwrap();
        let plan = Plan::new(&workload, &strategy, &Shape::of(4));
        // Of job 0, the run of 900 ms has not ended when those of second 1 are routed; a report counts five times the
        // prior at most.
        let first = (2 * CORE / 10 + CORE / 2) / 3;
        assert_eq!(plan.weights, [CORE / 10, CORE / 10, CORE / 2, CORE / 2, first, 3 * CORE / 4]);
        assert_eq!(plan.order, [2, 3, 0, 1, 5, 4]);
        let unsorted = Plan::new(&workload, &Strategy { lpt: false, ..strategy }, &Shape::of(4));
        assert_eq!(unsorted.order, [0, 1, 2, 3, 4, 5]);
    }
}
