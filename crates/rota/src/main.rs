//! The binary: it reads the command line and the configuration, puts the parts together, and says how it ended.
//!
//! Absent on purpose: decisions about jobs and runs. Those are made in `core`; this knows only who talks to whom.

mod alerts;
mod args;
mod bench;
mod cli;
mod clock;
mod config;
mod dev;
mod exit;
mod file;
mod manual;
mod serve;
mod signal;
mod telemetry;
#[cfg(feature = "otlp")]
mod trace;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::args::{Ask, Cli, Command, Common, ConfigCommand};
use crate::cli::client::Client;
use crate::cli::credentials::{self, Credentials};
use crate::cli::out::Out;
use crate::cli::table::Table;
use crate::config::Layers;
use crate::exit::Failure;

fn main() -> ExitCode {
    let cli = Cli::from_arg_matches(&args::command().get_matches()).unwrap_or_else(|error| error.exit());
    let is_json = cli.common.json;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.say(is_json),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { common, command } = cli;
    let out = Out { is_json: common.json };
    match command {
        Command::Config(ConfigCommand::Show { config }) => show_config(out, config.as_deref()),
        Command::Config(ConfigCommand::Reference) => cli::out::print(&config::reference()),
        Command::Health { ready } => {
            let server = match &common.server {
                Some(server) => server.trim_end_matches('/').to_owned(),
                None => credentials::server(Path::new(credentials::FILE))?,
            };
            current_thread()?.block_on(cli::health::ask(server, ready, out))
        }
        Command::Backup(args) => cli::backup::backup(&common, out, &args),
        Command::Restore(args) => cli::backup::restore(out, &args),
        Command::Schema => cli::out::print(&schema_text()),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { dir } => manual::pages(&dir),
        Command::Dev(args) => dev::run(&args),
        Command::Serve(args) => serve::run(layers(args.config.as_deref())?, &args, &environment()),
        Command::Bench(args) => bench::run(out, &args),
        Command::Worker(args) => worker::run(&common, args),
        Command::Cron(command) => cli::cron::run(out, command),
        Command::Simulate(args) => cli::simulate::run(out, &args),
        Command::Ask(command) => current_thread()?.block_on(ask(&common, out, command)),
    }
}

/// The job file's schema, as it is shipped.
fn schema_text() -> String {
    let text = serde_json::to_string_pretty(&file::schema::schema()).expect("a schema is plain data");
    text + "\n"
}

pub(crate) fn current_thread() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

async fn ask(common: &Common, out: Out, command: Ask) -> Result<(), Failure> {
    let credentials = Credentials::find(common, Path::new(credentials::FILE))?;
    let client = Client::new(credentials, &common.namespace)?;
    // What changes a freeze says itself what is frozen.
    let is_told = out.is_json || matches!(command, Ask::Freeze(_) | Ask::Thaw(_));
    let client = if is_told { client } else { client.with_notices() };
    match command {
        Ask::App(command) => cli::app::run(&client, out, command).await,
        Ask::Token(command) => cli::token::run(&client, out, command).await,
        Ask::Secret(command) => cli::secret::run(&client, out, command).await,
        Ask::Alert(command) => cli::alert::run(&client, out, command).await,
        Ask::Job(command) => cli::job::run(&client, out, &common.namespace, command).await,
        Ask::Plan(args) => cli::file::run_plan(&client, out, &args).await,
        Ask::Apply(args) => cli::file::run_apply(&client, out, &args).await,
        Ask::Export(args) => cli::file::run_export(&client, out, &args).await,
        Ask::Run(args) => cli::run::start(&client, out, args).await,
        Ask::Runs(args) => cli::run::list(&client, out, &args, clock::now()).await,
        Ask::Why(args) => cli::run::why(&client, out, &args.what).await,
        Ask::Rerun(args) => cli::run::rerun(&client, out, args).await,
        Ask::Backfill(command) => cli::backfill::run(&client, out, command).await,
        Ask::Audit(args) => cli::past::audit(&client, out, &args, clock::now()).await,
        Ask::Top(args) => cli::past::top(&client, out, &args, clock::now()).await,
        Ask::Freeze(args) => cli::freeze::freeze(&client, out, args).await,
        Ask::Thaw(args) => cli::freeze::thaw(&client, out, args).await,
        Ask::ConfirmClock => cli::freeze::confirm_clock(&client, out).await,
        Ask::Logs(args) => cli::logs::run(&client, out, args).await,
        Ask::Kill { run, shard } => cli::run::kill(&client, out, &run, shard).await,
        Ask::Workers { app } => cli::worker::list(&client, out, app).await,
    }
}

/// Defaults, the file and the environment; flags are laid over it by whoever has them.
fn layers(file: Option<&Path>) -> Result<Layers, Failure> {
    let mut layers = Layers::new();
    let path = file.map_or_else(|| PathBuf::from("rota.toml"), Path::to_owned);
    match std::fs::read_to_string(&path) {
        Ok(text) => layers.file(&path.display().to_string(), &text)?,
        Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::usage(format!("{}: {error}", path.display()), None)),
    }
    layers.environment(&environment())?;
    Ok(layers)
}

/// Variables that are text; others cannot be meant for Rota.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?))).collect()
}

fn show_config(out: Out, file: Option<&Path>) -> Result<(), Failure> {
    let layers = layers(file)?;
    config::Config::new(&layers)?;
    out.show(&config::show(&layers), |shown| {
        let mut table = Table::new(&["KEY", "VALUE", "FROM", "ABOUT"]);
        for row in shown {
            let value = row.value.as_str().map_or_else(|| row.value.to_string(), str::to_owned);
            table.row([row.key.to_owned(), value, row.from.clone(), row.about.to_owned()]);
        }
        table.text()
    })
}
