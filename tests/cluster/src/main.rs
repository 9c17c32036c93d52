//! Runs seeds of the simulation from the command line.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use rota_cluster::mutant::Mutant;
use rota_cluster::runner;

/// Simulates whole clusters, one per seed, and checks every invariant after every event.
#[derive(Parser)]
struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Print the story of `--seed`, even if it holds.
    #[arg(long)]
    story: bool,
    /// Events that a story keeps.
    #[arg(long, default_value_t = runner::STORY_LINES)]
    lines: usize,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Failures after which to stop; the first is printed with its story, the others in one line each.
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// A planted fault (needs `--features mutants` for those of the machine).
    #[arg(long)]
    mutant: Option<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    std::panic::set_hook(Box::new(|_| {}));
    let mutant = match &args.mutant {
        Some(name) => {
            Some(Mutant::named(name).with_context(|| format!("no such fault: {name}; there are {:?}", Mutant::all()))?)
        }
        None => None,
    };
    if let Some(seed) = args.seed {
        let (story, verdict) = runner::tell_seed(seed, mutant, args.lines);
        if args.story || verdict.is_err() {
            println!("{story}");
        }
        return Ok(match verdict {
            Ok(()) => {
                println!("seed {seed} holds");
                ExitCode::SUCCESS
            }
            Err(broken) => {
                println!("seed {seed}: {broken}");
                ExitCode::FAILURE
            }
        });
    }
    let began = Instant::now();
    let progress = |seeds: u64, events: u64| {
        let rate = events as f64 / began.elapsed().as_secs_f64() / 1e6;
        eprintln!("{seeds} seeds, {events} events, {rate:.2} million events/s");
    };
    let total = runner::run_seeds(args.from..args.from + args.seeds, mutant, args.threads, args.failures, &progress);
    progress(total.seeds, total.events);
    println!("{} simulated hours, {} executions recorded by workers", total.simulated_hours(), total.executions);
    let Some(first) = total.failures.first() else { return Ok(ExitCode::SUCCESS) };
    println!("{first}");
    for failure in &total.failures {
        println!("seed {}: {}", failure.seed, failure.broken);
    }
    Ok(ExitCode::FAILURE)
}
