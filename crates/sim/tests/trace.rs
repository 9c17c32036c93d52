//! The real trace, which is not ours to ship: the folder that holds `traces` is named by `ROTA_TEST_DATA`.

use rota_sim::bounds::bounds;
use rota_sim::read::alibaba;
use rota_sim::workload::{CORE, Shape};

#[expect(clippy::disallowed_methods, reason = "only the environment can say where data lies that is not in the tree")]
fn text() -> Option<String> {
    let folder = std::env::var_os("ROTA_TEST_DATA")?;
    let path = std::path::Path::new(&folder).join("traces/alibaba2017_batch_task.csv");
    Some(std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Counted with other tools: tasks that terminated with a plan and a duration, and how many differ in instances and plan.
#[test]
fn the_trace_of_2017_is_read_whole() {
    let Some(text) = text() else {
        println!("did not run: ROTA_TEST_DATA does not name the folder with traces/alibaba2017_batch_task.csv");
        return;
    };
    let read = alibaba("ali17", &text, 1, 1).unwrap();
    let skipped: usize = read.skipped.values().sum();
    assert_eq!(read.workload.runs.len() + skipped, 80_553);
    assert_eq!((read.workload.runs.len(), read.workload.jobs.len()), (66_982, 10_525));
    assert_eq!(read.workload.runs.iter().filter(|run| run.cores == CORE / 2).count(), 48_905);
    let bounds = bounds(&read.workload, &Shape::of(8), 0.7);
    assert!((18.0..=26.0).contains(&bounds.work), "{bounds:?}");
    let merged = alibaba("ali17x6", &text, 6, 1).unwrap().workload;
    assert!(merged.runs.iter().all(|run| run.cores <= 5 * CORE));
}
