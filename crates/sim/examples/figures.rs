//! Prints what each strategy needs for a generated workload: `figures WORKLOAD SEEDS CRITERIA STRATEGY…`.

use rota_sim::bounds::bounds;
use rota_sim::generate::Kind;
use rota_sim::search::{Criterion, Question, answers};
use rota_sim::strategy::Strategy;
use rota_sim::workload::Workload;

fn main() {
    let said: Vec<String> = std::env::args().skip(1).collect();
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == said[0]).expect("a workload");
    let seeds: u64 = said[1].parse().expect("a number of seeds");
    let criteria = Criterion::ALL[..said[2].parse().expect("a number of criteria")].to_vec();
    let strategies: Vec<Strategy> =
        said[3..].iter().map(|name| Strategy::parse(name).unwrap_or_else(|error| panic!("{error}"))).collect();
    let workloads: Vec<Workload> = (0..seeds).map(|seed| kind.generate(seed)).collect();
    let question = Question { shape: kind.shape(), target: 0.7, criteria };
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
