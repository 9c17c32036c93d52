//! `rota simulate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Of the trace: merge up to so many instances of a task into one run
    #[arg(long, value_name = "N", default_value_t = 1, requires = "alibaba", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) merge: u64,
    /// Cores of a machine, and its price an hour: `4c`, `4c:0.17`, `2c+8c` for machines in turn; several are compared [default: what the workload is made for, else 4c]
    #[arg(long, value_name = "CORES[:PRICE]")]
    pub(crate) node: Vec<String>,
    /// The price of a machine an hour, where `--node` says none
    #[arg(long, value_name = "PRICE")]
    pub(crate) price: Option<f64>,
    /// How many percent of a machine may be used
    #[arg(long, value_name = "PERCENT", default_value_t = 70, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) target: u8,
    /// How many workloads to make up, or how often to replay one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=20))]
    pub(crate) seeds: u64,
    /// A strategy, with settings if need be: `TASK_WEIGHT:lpt=off`, `LEAST_INFLIGHT:choices=2`; several are compared [default: two round robins, least in flight, task weight, adaptive weight]
    #[arg(long, value_name = "NAME")]
    pub(crate) strategy: Vec<String>,
    /// The strategy that is used now [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) current: Option<String>,
    /// Only the first figure of each strategy, and no shifting of phases
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The language of the verdict
    #[arg(long, value_enum, default_value = "en")]
    pub(crate) lang: VerdictLang,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Source {
    /// A workload that is made up: mixed, unaligned, hetero, nightly, heavy or uniform
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// A history, with a line for each run: job,start,duration,cores
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Batch tasks of Alibaba's cluster trace of 2017
    #[arg(long, value_name = "FILE")]
    pub(crate) alibaba: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerdictLang {
    /// English
    En,
    /// Chinese
    Zh,
}
