//! `rota dev`, `rota serve`, `rota worker`, `rota bench`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Throw the data of earlier starts away
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Address and port
    #[arg(long, default_value = "127.0.0.1:7654", value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// Where data and credentials are kept
    #[arg(long, default_value = ".rota", value_name = "DIR")]
    pub(crate) data: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Folder of the database and the logs
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,
    /// File of the admin token; made if it does not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// The file to read [default: rota.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The app that it works for
    #[arg(long)]
    pub(crate) app: String,
    /// File of the app's worker token, see `rota app token`
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// Unique in the app, and best the same after a restart [default: host name and process id]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// A label, as in `disk=ssd`; may be given again
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// Attempts that it runs at once; 0 is unlimited
    #[arg(long, default_value_t = 0)]
    pub(crate) capacity: u32,
    /// Offer the handler `shell`, which runs any command that a job names
    #[arg(long)]
    pub(crate) allow_shell: bool,
    /// Where it listens for the server's calls
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// Where the server reaches it [default: the address that it listens at]
    #[arg(long, env = "ROTA_ADVERTISE_URL", value_name = "URL")]
    pub(crate) advertise_url: Option<String>,
    /// Write a line for each start and end of an attempt to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// A steady rate, for minutes
    Sustained,
    /// Many jobs due in the same second
    Burst,
    /// A million jobs that do not fire
    Idle,
    /// A steady rate while one worker is slow and another is a black hole
    Isolation,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure
    #[arg(value_enum, default_value_t = Scenario::Sustained)]
    pub(crate) scenario: Scenario,
    /// Jobs [default: as many as the rate needs; 1,000,000 for `idle`]
    #[arg(long, value_name = "COUNT")]
    pub(crate) jobs: Option<u32>,
    /// Runs a second that are due [default: 10,000; 1,000 for `isolation`]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: Option<u32>,
    /// For how long
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    pub(crate) seconds: u32,
    /// Workers, all in this process
    #[arg(long, default_value_t = 8, value_name = "COUNT")]
    pub(crate) workers: u32,
    /// Runs due at once, for `burst`
    #[arg(long, default_value_t = 15_000, value_name = "COUNT")]
    pub(crate) burst: u32,
    /// How long the measured server keeps ended runs; the ledger is then not compared
    #[arg(long, value_name = "DURATION")]
    pub(crate) retention: Option<String>,
    /// Keep the data of the measured server here, and do not delete it
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}
