//! A thousand hours of clusters, and those that failed once.

use rota_cluster::runner::{self, STORY_LINES};

/// Seeds that every run of the tests looks at: about 160 s of a cluster each.
const SEEDS: u64 = 23_000;
/// The hours that pass in them, at least.
const HOURS: u64 = 1_000;

#[test]
fn seeds_that_failed_once_hold() {
    for (seed, what) in runner::corpus() {
        if let Err(failure) = runner::run_seed(seed, None, STORY_LINES) {
            panic!("{failure}\nthe corpus says of this seed: {what}");
        }
    }
}

#[test]
fn a_thousand_hours_hold() {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let total = runner::run_seeds(0..SEEDS, None, threads, 1, &|_, _| {});
    if let Some(failure) = total.failures.first() {
        panic!("{failure}");
    }
    assert_eq!(total.seeds, SEEDS);
    assert!(total.simulated_hours() >= HOURS, "{} hours were simulated", total.simulated_hours());
    assert!(total.executions > 20 * SEEDS, "clusters in which little happens prove little: {}", total.executions);
}
