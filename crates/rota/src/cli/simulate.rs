//! `rota simulate`: how many machines a workload needs under each strategy. It needs no server: `rota-sim` works it out,
//! and this reads files and prints.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::thread;

use rota_sim::generate::Kind;
use rota_sim::read::{Read, alibaba, csv};
use rota_sim::report;
use rota_sim::search::{Criterion, Progress};
use rota_sim::strategy::Strategy;
use rota_sim::study::{Figure, Plan, Study, study};
use rota_sim::workload::{Shape, Workload};

use super::out::{Out, note};
use super::table::{Table, grouped};
use crate::args::{SimulateArgs, VerdictLang};
use crate::exit::Failure;

const STRATEGIES: [&str; 5] =
    ["TASK_ROUND_ROBIN", "APP_ROUND_ROBIN", "LEAST_INFLIGHT", "TASK_WEIGHT", "ADAPTIVE_WEIGHT"];

/// What is measured of a workload lasts at least so long.
const MEASURED_LEAST_MS: u64 = 45_000;

pub(crate) fn run(out: Out, args: &SimulateArgs) -> Result<(), Failure> {
    let (workloads, usual) = workloads(args)?;
    let (strategies, current) = strategies(args)?;
    if workloads.iter().any(|workload| workload.to_ms - workload.from_ms < MEASURED_LEAST_MS) {
        return Err(Failure::usage("the history is too short: its runs start within a minute", None));
    }
    let plan = |shape| Plan {
        shape,
        target: f64::from(args.target) / 100.0,
        strategies: strategies.clone(),
        current,
        criteria: if args.quick { vec![Criterion::Pooled] } else { Criterion::ALL.to_vec() },
        shifts: !args.quick,
        threads: thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
    };
    let is_watched = std::io::stderr().is_terminal();
    let progress = |progress: Progress| {
        if is_watched {
            let _unheard = write!(std::io::stderr(), "\r{} of {} ", progress.done, progress.of);
        }
    };
    let shapes = shapes(args, usual)?;
    let studies: Vec<Study> = shapes.into_iter().map(|shape| study(&workloads, &plan(shape), &progress)).collect();
    if is_watched {
        note("\r                    \r");
    }
    if let Some(path) = &args.html {
        write_page(path, &workloads[0], &strategies, &studies)?;
    }
    out.show(&studies, |studies| text(studies, args.lang))
}

/// Writes the page, with the loads under what is used now and under what is best, on as many machines as the best needs.
fn write_page(path: &Path, workload: &Workload, strategies: &[Strategy], studies: &[Study]) -> Result<(), Failure> {
    let with_loads = |study: &Study| {
        let nodes = study.rows[study.best].pooled.map_or(1, |figure| figure.most);
        let mut shown = vec![study.current, study.best];
        shown.dedup();
        let loads = |at: usize| report::loads(workload, &strategies[at], &study.shape, nodes, study.target);
        (study.clone(), shown.into_iter().map(loads).collect())
    };
    let page = report::html(&studies.iter().map(with_loads).collect::<Vec<_>>());
    std::fs::write(path, page).map_err(|error| Failure::failed("failed", format!("{}: {error}", path.display())))
}

/// The workloads, and the machines that they are usually looked at on.
fn workloads(args: &SimulateArgs) -> Result<(Vec<Workload>, Shape), Failure> {
    if let Some(name) = &args.source.workload {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known = Kind::ALL.map(Kind::name).join(", ");
            Failure::usage(format!("there is no workload {name:?}"), Some(format!("known are {known}")))
        })?;
        return Ok(((0..args.seeds).map(|seed| kind.generate(seed)).collect(), kind.shape()));
    }
    let (path, is_trace) = match (&args.source.csv, &args.source.alibaba) {
        (_, Some(path)) => (path, true),
        (Some(path), None) => (path, false),
        (None, None) => return Err(Failure::usage("there is no workload", None)),
    };
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display()), None))?;
    let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let read = |seed| if is_trace { alibaba(&name, &text, args.merge, seed) } else { csv(&name, &text) };
    let mut workloads = Vec::new();
    for seed in 0..args.seeds {
        let read = read(seed).map_err(|error| Failure::usage(format!("{}: {error}", path.display()), None))?;
        if seed == 0 {
            tell(path, &read);
        }
        workloads.push(read.workload);
    }
    Ok((workloads, Shape::of(if is_trace { 8 } else { 4 })))
}

/// What of a file has no part in the simulation.
fn tell(path: &Path, read: &Read) {
    for (reason, count) in &read.skipped {
        note(&format!("{}: left out {} lines: {reason}\n", path.display(), grouped(*count as u64)));
    }
    if read.has_memory {
        note(&format!("{}: machines are filled by cores; memory is not simulated\n", path.display()));
    }
}

fn shapes(args: &SimulateArgs, usual: Shape) -> Result<Vec<Shape>, Failure> {
    let price = args.price.filter(|price| price.is_finite() && *price >= 0.0);
    if args.price != price {
        return Err(Failure::usage("--price is not a price", None));
    }
    if args.node.is_empty() {
        return Ok(vec![Shape { price, ..usual }]);
    }
    let parse = |text: &String| {
        let shape = Shape::parse(text).map_err(|error| Failure::usage(format!("--node {text}: {error}"), None))?;
        Ok(Shape { price: shape.price.or(price), ..shape })
    };
    args.node.iter().map(parse).collect()
}

/// The strategies, and which of them is used now.
fn strategies(args: &SimulateArgs) -> Result<(Vec<Strategy>, usize), Failure> {
    let mut names: Vec<&str> = args.strategy.iter().map(String::as_str).collect();
    if names.is_empty() {
        names = STRATEGIES.to_vec();
    }
    let current = match &args.current {
        None => 0,
        Some(current) => names.iter().position(|name| name == current).unwrap_or_else(|| {
            names.insert(0, current);
            0
        }),
    };
    let parse = |name: &&str| Strategy::parse(name).map_err(|error| Failure::usage(error.to_string(), None));
    Ok((names.iter().map(parse).collect::<Result<_, _>>()?, current))
}

fn text(studies: &[Study], lang: VerdictLang) -> String {
    let mut text = String::new();
    for study in studies {
        if studies.len() > 1 {
            let _infallible = writeln!(text, "{}", study.shape.name);
        }
        one(&mut text, study, lang);
    }
    let cost = |study: &Study| study.rows[study.best].cost_month.unwrap_or(f64::INFINITY);
    let cheapest = studies.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
    if let Some(study) = cheapest.filter(|study| studies.len() > 1 && cost(study).is_finite()) {
        let row = &study.rows[study.best];
        let _infallible = writeln!(
            text,
            "cheapest: {} with {}, {} a month",
            study.shape.name,
            row.strategy,
            money(row.cost_month.unwrap_or(0.0))
        );
    }
    text
}

fn one(text: &mut String, study: &Study, lang: VerdictLang) {
    let mut table = Table::new(&["STRATEGY", "POOLED", "WORST", "HOTTEST", "SLOWDOWN", "$/MONTH", "VS NOW"]);
    for (at, row) in study.rows.iter().enumerate() {
        let saving = match row.saving {
            _ if at == study.current => "now".to_owned(),
            Some(saving) if saving.abs() < 0.005 => "0 %".to_owned(),
            Some(saving) => format!("{:+.0} %", -100.0 * saving),
            None => String::new(),
        };
        table.row([
            row.strategy.clone(),
            nodes(row.pooled),
            nodes(row.worst),
            nodes(row.hottest),
            nodes(row.slowdown),
            row.cost_month.map_or_else(String::new, money),
            saving,
        ]);
    }
    text.push_str(&table.text());
    let bounds = &study.bounds;
    let pack = bounds.pack.map_or_else(String::new, |pack| format!("packing {pack:.0}, "));
    let spread = study.rows[study.best].pooled.map_or(0, |figure| (figure.most - figure.least).div_ceil(2));
    let _infallible = writeln!(
        text,
        "bounds: {pack}fluid {:.0}, work {:.0}; {} seeds, ±{spread}",
        bounds.fluid, bounds.work, study.seeds
    );
    let traits = &study.traits;
    let predictable = traits.predictability.map_or_else(|| "-".to_owned(), |part| format!("{part:.2}"));
    let _infallible = writeln!(
        text,
        "lumpiness {:.2}, alignment {:.2}, predictability {predictable}",
        traits.lumpiness, traits.alignment
    );
    for shift in &study.shifts {
        let (optimised, hashed) = (nodes(Some(shift.optimised)), nodes(Some(shift.hashed)));
        let _infallible = write!(
            text,
            "shifted by up to {} % of the period: {optimised} (by chance {hashed}), fluid {:.0}",
            shift.percent, shift.fluid
        );
        let told: Vec<String> = shift.offsets.iter().take(3).map(|(job, by_s)| format!("{job} +{by_s}s")).collect();
        let _infallible = writeln!(text, "{}{}", if told.is_empty() { "" } else { "; " }, told.join(", "));
    }
    let verdict = match lang {
        VerdictLang::En => &study.verdict.en,
        VerdictLang::Zh => &study.verdict.zh,
    };
    let _infallible = writeln!(text, "verdict: {verdict}");
}

fn nodes(figure: Option<Figure>) -> String {
    figure.map_or_else(String::new, |figure| format!("{}{:.0}", if figure.is_more { ">" } else { "" }, figure.nodes))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a price is not negative")]
fn money(amount: f64) -> String {
    grouped(amount.round() as u64)
}
