//! A study: what each strategy needs of one shape of machine, against the bounds and what is used now.

use serde::Serialize;

use crate::bounds::{Bounds, bounds};
use crate::search::{Answer, Criterion, Needed, Progress, Question, answers};
use crate::shift;
use crate::strategy::Strategy;
use crate::traits::{Traits, traits};
use crate::verdict::{Verdict, verdict};
use crate::workload::{Shape, Workload};

/// As cloud prices are compared: hours of a month.
const MONTH_HOURS: f64 = 730.0;
/// How far jobs may be shifted, in percent of their periods.
const SHIFT_PERCENTS: [u64; 3] = [5, 10, 25];
/// How many of a hundred jobs may be shifted.
const FLEXIBLE_PERCENT: u64 = 70;
/// How many of the shifts are told.
const SHIFTS_TOLD: usize = 20;

/// What is to be found out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machines.
    pub shape: Shape,
    /// The part of a machine that may be used.
    pub target: f64,
    /// What is compared.
    pub strategies: Vec<Strategy>,
    /// What is used now, by its place among them.
    pub current: usize,
    /// What is asked of each.
    pub criteria: Vec<Criterion>,
    /// Whether shifting phases is tried with the best of them.
    pub shifts: bool,
    /// How many threads work.
    pub threads: usize,
}

/// Machines over several seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// The mean.
    pub nodes: f64,
    /// The fewest.
    pub least: u32,
    /// The most.
    pub most: u32,
    /// Whether the search gave up for at least one seed, so that more are needed than this says.
    pub is_more: bool,
}

/// One strategy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub strategy: String,
    /// What it needs for the 99th percentile of all machines' windows.
    pub pooled: Option<Figure>,
    /// For that of every machine.
    pub worst: Option<Figure>,
    /// For that of the fullest machine.
    pub hottest: Option<Figure>,
    /// For tasks to take no longer, but for a thousandth of them.
    pub slowdown: Option<Figure>,
    /// What the machines of the first figure cost a month, if a price is known.
    pub cost_month: Option<f64>,
    /// Which part of the machines that are used now it saves; below 0 if it needs more.
    pub saving: Option<f64>,
    /// How many times as many as the packing bound.
    pub times_pack: Option<f64>,
}

/// What shifting phases gains.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Shift {
    /// How far jobs may be shifted, in percent of their periods.
    pub percent: u64,
    /// What the best strategy needs then, if shifts are chosen well.
    pub optimised: Figure,
    /// What it needs if they are chosen by chance.
    pub hashed: Figure,
    /// The fluid bound then.
    pub fluid: f64,
    /// The jobs with the most work that are shifted, with their shifts in seconds, for the first seed.
    pub offsets: Vec<(String, u64)>,
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Study {
    /// The workload.
    pub workload: String,
    /// The machines.
    pub shape: Shape,
    /// The part of a machine that may be used.
    pub target: f64,
    /// How many workloads were tried.
    pub seeds: usize,
    /// Jobs and runs of the first.
    pub jobs: usize,
    /// How many times they ran.
    pub runs: usize,
    /// Means over the seeds.
    pub bounds: Bounds,
    /// Of the first.
    pub traits: Traits,
    /// By strategy, as they were given.
    pub rows: Vec<Row>,
    /// What is used now, by its place.
    pub current: usize,
    /// The one that needs the fewest machines, by its place.
    pub best: usize,
    /// By how far jobs may be shifted.
    pub shifts: Vec<Shift>,
    /// In words.
    pub verdict: Verdict,
}

/// Finds it out. Workloads stand for seeds; there is at least one, and one strategy.
#[must_use]
pub fn study(workloads: &[Workload], plan: &Plan, progress: &(dyn Fn(Progress) + Sync)) -> Study {
    let question = Question { shape: plan.shape.clone(), target: plan.target, criteria: plan.criteria.clone() };
    let all: Vec<Bounds> = workloads.iter().map(|workload| bounds(workload, &plan.shape, plan.target)).collect();
    let bounds = mean_bounds(&all);
    let found = answers(workloads, &plan.strategies, &question, plan.threads, progress);
    let now = figure(&found[plan.current], Criterion::Pooled);
    let row = |(strategy, answers): (&Strategy, &Vec<Answer>)| row(plan, strategy, answers, now, &bounds);
    let rows: Vec<Row> = plan.strategies.iter().zip(&found).map(row).collect();
    let best = best(&rows);
    let shifts = if plan.shifts { shifts(workloads, plan, best, progress) } else { Vec::new() };
    let traits = traits(&workloads[0], &plan.shape);
    Study {
        workload: workloads[0].name.clone(),
        shape: plan.shape.clone(),
        target: plan.target,
        seeds: workloads.len(),
        jobs: workloads[0].jobs.len(),
        runs: workloads[0].runs.len(),
        bounds,
        traits,
        verdict: verdict(&rows, plan.current, best, &traits, &shifts),
        rows,
        current: plan.current,
        best,
        shifts,
    }
}

/// Those that need the fewest; of equals those whose tasks take no longer on fewer; of these the first.
fn best(rows: &[Row]) -> usize {
    let nodes = |figure: Option<Figure>| figure.map_or(f64::INFINITY, |figure| figure.nodes);
    let key = |row: &Row| [row.pooled, row.slowdown, row.hottest].map(nodes);
    let least = (0..rows.len()).min_by(|a, b| key(&rows[*a]).partial_cmp(&key(&rows[*b])).expect("no figure is NaN"));
    least.unwrap_or(0)
}

fn row(plan: &Plan, strategy: &Strategy, answers: &[Answer], now: Option<Figure>, bounds: &Bounds) -> Row {
    let pooled = figure(answers, Criterion::Pooled);
    let price = plan.shape.price;
    Row {
        strategy: strategy.name.clone(),
        pooled,
        worst: figure(answers, Criterion::Worst),
        hottest: figure(answers, Criterion::Hottest),
        slowdown: figure(answers, Criterion::Slowdown),
        cost_month: pooled.zip(price).map(|(figure, price)| figure.nodes * price * MONTH_HOURS),
        saving: pooled.zip(now).map(|(figure, now)| 1.0 - figure.nodes / now.nodes),
        times_pack: pooled.zip(bounds.pack).map(|(figure, pack)| figure.nodes / pack.max(1.0)),
    }
}

/// What was needed over the seeds; nothing if it was not asked.
fn figure(answers: &[Answer], criterion: Criterion) -> Option<Figure> {
    let needed: Vec<Needed> = answers.iter().filter_map(|answer| answer.get(&criterion).copied()).collect();
    let nodes = || needed.iter().map(|needed| needed.at_least());
    let (least, most) = (nodes().min()?, nodes().max()?);
    let sum: f64 = nodes().map(f64::from).sum();
    let count: f64 = nodes().map(|_| 1.0).sum();
    let is_more = needed.iter().any(|needed| matches!(needed, Needed::MoreThan(_)));
    Some(Figure { nodes: sum / count, least, most, is_more })
}

fn mean_bounds(all: &[Bounds]) -> Bounds {
    let count: f64 = all.iter().map(|_| 1.0).sum();
    let mean = |of: fn(&Bounds) -> f64| all.iter().map(of).sum::<f64>() / count;
    let packs: Option<Vec<f64>> = all.iter().map(|bounds| bounds.pack).collect();
    Bounds {
        work: mean(|bounds| bounds.work),
        fluid: mean(|bounds| bounds.fluid),
        pack: packs.map(|packs| packs.iter().sum::<f64>() / count),
    }
}

fn shifts(workloads: &[Workload], plan: &Plan, best: usize, progress: &(dyn Fn(Progress) + Sync)) -> Vec<Shift> {
    let strategies = &plan.strategies[best..=best];
    let question = Question { shape: plan.shape.clone(), target: plan.target, criteria: vec![Criterion::Pooled] };
    let nodes = |workloads: &[Workload]| {
        let found = answers(workloads, strategies, &question, plan.threads, progress);
        figure(&found[0], Criterion::Pooled).expect("it was asked")
    };
    let flexible: Vec<Vec<bool>> =
        (0..).zip(workloads).map(|(seed, workload)| shift::flexible(workload, FLEXIBLE_PERCENT, seed)).collect();
    let try_window = |percent: u64| {
        let each = || (0..).zip(workloads).zip(&flexible);
        let offsets: Vec<Vec<u64>> =
            each().map(|((_, workload), flexible)| shift::optimised(workload, flexible, percent)).collect();
        let moved: Vec<Workload> =
            workloads.iter().zip(&offsets).map(|(workload, offsets)| shift::apply(workload, offsets)).collect();
        let by_chance = |((seed, workload), flexible): ((u64, &Workload), &Vec<bool>)| {
            shift::apply(workload, &shift::hashed(workload, flexible, percent, seed))
        };
        let hashed: Vec<Workload> = each().map(by_chance).collect();
        let fluid: Vec<Bounds> = moved.iter().map(|moved| bounds(moved, &plan.shape, plan.target)).collect();
        Shift {
            percent,
            optimised: nodes(&moved),
            hashed: nodes(&hashed),
            fluid: mean_bounds(&fluid).fluid,
            offsets: told(&workloads[0], &offsets[0]),
        }
    };
    SHIFT_PERCENTS.into_iter().map(try_window).collect()
}

/// The shifts of the jobs with the most work.
fn told(workload: &Workload, offsets: &[u64]) -> Vec<(String, u64)> {
    let mut work = vec![0_u128; offsets.len()];
    for run in &workload.runs {
        work[run.job as usize] += u128::from(run.work());
    }
    let mut jobs: Vec<usize> = (0..offsets.len()).filter(|job| offsets[*job] > 0).collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(work[*job]));
    jobs.into_iter().take(SHIFTS_TOLD).map(|job| (workload.jobs[job].name.clone(), offsets[job] / 1_000)).collect()
}
