//! Prints what each strategy needs for a workload, which is a name or a file of the trace of 2017, with how many of its
//! instances are merged: `figures WORKLOAD[=MERGED] SEEDS CRITERIA STRATEGY…`.

use rota_sim::bounds::bounds;
use rota_sim::generate::Kind;
use rota_sim::read::alibaba;
use rota_sim::search::{Criterion, Question, answers};
use rota_sim::strategy::Strategy;
use rota_sim::workload::{Shape, Workload};

fn main() {
    let said: Vec<String> = std::env::args().skip(1).collect();
    let seeds: u64 = said[1].parse().expect("a number of seeds");
    let (shape, workloads): (Shape, Vec<Workload>) = match Kind::ALL.into_iter().find(|kind| kind.name() == said[0]) {
        Some(kind) => (kind.shape(), (0..seeds).map(|seed| kind.generate(seed)).collect()),
        None => {
            let (path, merged) = said[0].split_once('=').unwrap_or((&said[0], "1"));
            let text = std::fs::read_to_string(path).expect("a file of the trace");
            let merged = merged.parse().expect("a number of instances");
            let read = |seed| alibaba("ali17", &text, merged, seed).expect("the trace").workload;
            (Shape::of(8), (0..seeds).map(read).collect())
        }
    };
    let criteria = Criterion::ALL[..said[2].parse().expect("a number of criteria")].to_vec();
    let strategies: Vec<Strategy> =
        said[3..].iter().map(|name| Strategy::parse(name).unwrap_or_else(|error| panic!("{error}"))).collect();
    let question = Question { shape, target: 0.7, criteria };
    for workload in &workloads {
        let bounds = bounds(workload, &question.shape, 0.7);
        println!("{} jobs, {} runs, {bounds:.1?}", workload.jobs.len(), workload.runs.len());
    }
    let found = answers(&workloads, &strategies, &question, 2, &|progress| {
        eprint!("\r{}/{} ", progress.done, progress.of);
    });
    for (strategy, answers) in strategies.iter().zip(found) {
        println!(
            "{:32} {:?}",
            strategy.name,
            answers.iter().map(|a| a.values().collect::<Vec<_>>()).collect::<Vec<_>>()
        );
    }
}
