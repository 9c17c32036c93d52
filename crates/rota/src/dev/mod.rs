//! `rota dev`: a playground. Server, page, demo worker and demo jobs in one process, in under a second.
//!
//! Everything that it needs it sets up by itself, through the same API that everybody uses; the CLI's credentials are
//! left in a file that only their owner can read.

mod demo;
mod feed;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rota_net::policy::Policy;
use tokio::time::Instant;

use crate::args::DevArgs;
use crate::cli::client::Client;
use crate::cli::credentials::{self, Credentials};
use crate::cli::out;
use crate::config::{Config, Layers, LogFormat};
use crate::exit::Failure;
use crate::serve::{self, Notify, Plan, Server};
use crate::signal::Stop;
use crate::telemetry;

use self::feed::Feed;

/// A playground needs few partitions, and starts faster for it.
const PARTITIONS: u16 = 4;
const DRAIN: Duration = Duration::from_secs(2);

/// Plays until a signal.
pub(crate) fn run(args: &DevArgs) -> Result<(), Failure> {
    // What matters is on the screen already; warnings tell the rest.
    telemetry::start("warn", LogFormat::Pretty, "rota dev")?;
    serve::die_with_any_thread();
    serve::runtime()?.block_on(play(args))
}

async fn play(args: &DevArgs) -> Result<(), Failure> {
    let began = Instant::now();
    let mut stop = Stop::listen()?;
    let data = args.data.join("dev");
    if args.fresh {
        throw_away(&data)?;
    }
    let token_file = args.data.join("admin.token");
    let is_new = !token_file.exists();
    let server = Server::start(plan(args, data.clone(), token_file.clone())?).await?;
    let credentials =
        Credentials { server: format!("http://{}", server.address), token: crate::cli::app::read_token(&token_file)? };
    let cli_file = args.data.join(Path::new(credentials::FILE).file_name().expect("it names a file"));
    credentials.save(&cli_file)?;
    let client = Client::new(credentials.clone(), "default")?;
    let worker_token = Box::pin(demo::set_up(&client, &credentials.server)).await?;
    let feed = Feed::start(&client).await?;
    let worker = demo::Worker::start(&credentials.server, worker_token).await?;

    let shown = if is_new {
        format!("{}  (shown once; the CLI has it)", credentials.token)
    } else {
        format!("in {}, where the CLI finds it", cli_file.display())
    };
    let text = first_screen(began.elapsed(), &credentials.server, &shown, &data, &worker);
    out::print(&text)?;
    tokio::select! {
        // The server first: what stops it also ends the feed.
        biased;
        ended = server.run(&mut stop, DRAIN, &Notify::NOBODY) => ended?,
        ended = feed.run(&client) => ended?,
    }
    worker.stop().await;
    Ok(())
}

fn plan(args: &DevArgs, data: PathBuf, token_file: PathBuf) -> Result<Plan, Failure> {
    let config = Config::new(&Layers::new())?;
    std::fs::create_dir_all(&args.data)?;
    let policy = Policy::new::<&str>(&[], true).expect("no pattern is no bad pattern");
    let mut plan = Plan::of(&config)?;
    plan.listen = args.listen;
    plan.data = data;
    plan.partitions = PARTITIONS;
    plan.admin_token_file = Some(token_file);
    plan.policy = Arc::new(policy);
    plan.is_dev = true;
    Ok(plan)
}

/// Removes the data of earlier starts, unless a server is using it.
fn throw_away(data: &Path) -> Result<(), Failure> {
    if !data.exists() {
        return Ok(());
    }
    match rota_store::open(data, PARTITIONS) {
        Err(error @ rota_store::OpenError::InUse { .. }) => {
            Err(Failure::usage(error.to_string(), Some("stop the other one first".to_owned())))
        }
        // Whatever else is wrong with it goes away with it.
        _ => Ok(std::fs::remove_dir_all(data)?),
    }
}

fn first_screen(took: Duration, server: &str, token: &str, data: &Path, worker: &demo::Worker) -> String {
    format!(
        "rota {} ready in {:.1} s, tzdb {}\n\
         page    {server}   (/metrics)\n\
         token   {token}\n\
         data    {}  (kept; --fresh)\n\
         worker  {} online: {}\n\
         try     rota runs | rota job list | rota job add ping --every 5s --url {server}/livez\n",
        env!("CARGO_PKG_VERSION"),
        took.as_secs_f64(),
        rota_cron::tzdb_version(),
        data.display(),
        worker.name(),
        worker.handlers().join(", "),
    )
}
