//! Runs seeds: one, or many on several threads; a seed that fails is told again, with its story.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::check::{Broken, Rule};
use crate::mutant::Mutant;
use crate::world::World;

/// Events that a story keeps.
pub const STORY_LINES: usize = 400;

/// What a good seed was.
#[derive(Clone, Copy, Debug)]
pub struct Good {
    /// Events.
    pub events: u64,
    /// Executions of handlers.
    pub executions: u64,
    /// The time that passed in it, in milliseconds.
    pub simulated_ms: u64,
}

/// A seed that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What does not hold.
    pub broken: Broken,
    /// The last events.
    pub story: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\nseed {}: {}\n", self.story, self.seed, self.broken)?;
        write!(f, "again: cargo run -p rota-cluster --release -- --seed {} --story", self.seed)
    }
}

/// Runs one seed; a machine's failed assertion is a broken invariant too.
fn attempt(seed: u64, mutant: Option<Mutant>, story_lines: usize) -> (World, Result<(), Broken>) {
    let mut world = World::new(seed, mutant, story_lines);
    let verdict = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(Rule::Panic.broken(text.unwrap_or_else(|| "a panic without a message".to_owned())))
    });
    (world, verdict)
}

/// Runs one seed.
pub fn run_seed(seed: u64, mutant: Option<Mutant>, story_lines: usize) -> Result<Good, Box<Failure>> {
    let (world, verdict) = attempt(seed, mutant, 0);
    match verdict {
        Ok(()) => Ok(Good { events: world.events, executions: world.executions(), simulated_ms: world.now / 1_000 }),
        Err(broken) => {
            let (world, again) = attempt(seed, mutant, story_lines);
            assert_eq!(again.as_ref().err(), Some(&broken), "a seed tells the same story twice");
            Err(Box::new(Failure { seed, broken, story: world.story.to_string() }))
        }
    }
}

/// The story of a seed, whatever becomes of it.
pub fn tell_seed(seed: u64, mutant: Option<Mutant>, story_lines: usize) -> (String, Result<(), Broken>) {
    let (world, verdict) = attempt(seed, mutant, story_lines);
    (world.story.to_string(), verdict)
}

/// What many seeds were.
#[derive(Debug, Default)]
pub struct Total {
    /// Seeds that held.
    pub seeds: u64,
    /// Their events.
    pub events: u64,
    /// Their executions.
    pub executions: u64,
    /// The time that passed in them, in milliseconds.
    pub simulated_ms: u64,
    /// The failures, by seed.
    pub failures: Vec<Failure>,
}

/// Runs seeds on `threads` threads, until all have run or `failures_max` have failed. `progress` is called now and then.
pub fn run_seeds(
    seeds: std::ops::Range<u64>,
    mutant: Option<Mutant>,
    threads: usize,
    failures_max: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Total {
    let next = AtomicU64::new(seeds.start);
    let [done, events, executions, simulated_ms] = [const { AtomicU64::new(0) }; 4];
    let failures = std::sync::Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            match run_seed(seed, mutant, STORY_LINES) {
                Ok(good) => {
                    events.fetch_add(good.events, Ordering::Relaxed);
                    executions.fetch_add(good.executions, Ordering::Relaxed);
                    simulated_ms.fetch_add(good.simulated_ms, Ordering::Relaxed);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(500) {
                        progress(done, events.load(Ordering::Relaxed));
                    }
                }
                Err(failure) => {
                    let mut failures = failures.lock().expect("nobody panics while holding it");
                    failures.push(*failure);
                    if failures.len() >= failures_max {
                        is_over.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut failures = failures.into_inner().expect("nobody panics while holding it");
    failures.sort_by_key(|failure| failure.seed);
    Total {
        seeds: done.into_inner(),
        events: events.into_inner(),
        executions: executions.into_inner(),
        simulated_ms: simulated_ms.into_inner(),
        failures,
    }
}

impl Total {
    /// The hours that passed in the seeds that held.
    #[must_use]
    pub fn simulated_hours(&self) -> u64 {
        self.simulated_ms / 3_600_000
    }
}

/// The seeds of the corpus: those that failed once, each with what it was.
#[must_use]
pub fn corpus() -> Vec<(u64, &'static str)> {
    let line = |line: &'static str| {
        let line = line.trim();
        let (seed, what) = line.split_once(' ').unwrap_or((line, ""));
        seed.parse().ok().map(|seed| (seed, what.trim()))
    };
    include_str!("../corpus.txt").lines().filter_map(line).collect()
}
