//! `rota bench`: a real server in a process of its own, light workers and a load beside it, on the same machine.
//!
//! What is measured: lateness from the nominal slot to the worker's start, by the machine's wall clock; the server's
//! CPU and memory by the kernel's books; losses and doubles by what the workers themselves saw.

mod audit;
mod fleet;
mod ids;
mod link;
mod load;
mod peer;
mod process;
mod record;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::Method;
use rota_cron::UnixMs;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use self::fleet::{Fleet, Manner};
use self::link::Link;
use self::load::When;
use self::process::Server;
use self::record::{Figures, Record, Span};
use self::report::Report;
use crate::args::{BenchArgs, Scenario};
use crate::cli::out::{self, Out};
use crate::clock;
use crate::exit::Failure;
use crate::signal::Stop;

/// From the making of the jobs to the first slot that counts.
const SETTLE_MS: i64 = 3_000;
/// How long a server may take to catch up before the measurement begins.
const CATCH_UP: Duration = Duration::from_secs(60);
/// How long what is due may still be started after the last slot that counts.
const DRAIN: Duration = Duration::from_secs(60);
const IDLE_JOBS: u32 = 1_000_000;

/// Measures, prints, and fails if something was lost or doubled.
pub(crate) fn run(out: Out, args: &BenchArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let reports = LocalSet::new().block_on(&runtime, async {
        let mut stop = Stop::listen()?;
        tokio::select! {
            // A stop first; it drops the measurement, and with it the server and its data.
            biased;
            signal = stop.asked() => Err(Failure::failed("interrupted", format!("stopped by {signal}"))),
            measured = measure(out, args) => Ok(measured?),
        }
    })?;
    if out.is_json {
        out.show(&reports, |_| String::new())?;
    }
    if reports.iter().any(Report::is_broken) { Err(Failure::Said) } else { Ok(()) }
}

async fn measure(out: Out, args: &BenchArgs) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for plan in plans(args) {
        let folder = Folder::new(args.keep.as_deref(), &plan.name)?;
        let report = match args.scenario {
            Scenario::Sustained | Scenario::Isolation => steady(&folder.path, args, &plan).await?,
            Scenario::Burst => burst(&folder.path, args, &plan).await?,
            Scenario::Idle => idle(&folder.path, args, &plan).await?,
        };
        if !out.is_json {
            out::print(&report.text()).ok().context("printing")?;
        }
        reports.push(report);
    }
    Ok(reports)
}

/// One server, its workers and their manners.
struct Plan {
    name: String,
    manners: Vec<Manner>,
    strategy: Option<&'static str>,
}

fn plans(args: &BenchArgs) -> Vec<Plan> {
    let plan = |name: &str, manners, strategy| Plan { name: name.to_owned(), manners, strategy };
    let all = vec![Manner::Prompt; args.workers as usize];
    match args.scenario {
        Scenario::Sustained => vec![plan("sustained", all, None)],
        Scenario::Burst => vec![plan("burst", all, None)],
        Scenario::Idle => vec![plan("idle", Vec::new(), None)],
        Scenario::Isolation => {
            let mut two_bad = all.clone();
            let bad = [Manner::Slow(Duration::from_secs(5)), Manner::BlackHole];
            for (place, manner) in two_bad.iter_mut().zip(bad) {
                *place = manner;
            }
            let of = |strategy| {
                [
                    plan(&format!("{strategy}, all well"), all.clone(), Some(strategy)),
                    plan(&format!("{strategy}, one slow, one black hole"), two_bad.clone(), Some(strategy)),
                ]
            };
            ["LEAST_INFLIGHT", "APP_ROUND_ROBIN"].into_iter().flat_map(of).collect()
        }
    }
}

/// A steady rate for some seconds.
async fn steady(folder: &Path, args: &BenchArgs, plan: &Plan) -> Result<Report> {
    let rate = args.rate.unwrap_or(if args.scenario == Scenario::Isolation { 1_000 } else { 10_000 });
    let count = args.jobs.unwrap_or_else(|| load::jobs_for(rate));
    let server = Server::start(folder, args.retention.as_deref()).await?;
    let fleet = Fleet::start(&server.authority, &load::app(&server).await?, &plan.manners).await?;
    let jobs = load::jobs(&server, count, When::Rate(rate), plan.strategy).await?;

    settle(&server).await?;
    let from_ms = clock::now().0 + SETTLE_MS;
    let span = Span { from_ms, to_ms: from_ms + i64::from(args.seconds) * 1_000 };
    let records = fleet.records();
    records.set(Record::new(span, jobs.iter().copied()));
    sleep_until(UnixMs(span.from_ms)).await;
    let before = server.usage()?;
    sleep_until(UnixMs(span.to_ms)).await;
    let after = server.usage()?;
    let is_whole = plan.manners.iter().all(|manner| *manner == Manner::Prompt);
    drain(is_whole, || records.is_complete()).await;

    let mut report = report(args, plan, jobs.len(), &server);
    report.is_whole = is_whole;
    finish(folder, args, server, fleet, &mut report).await?;
    report.used(before, after);
    Ok(report)
}

/// Many one-shot jobs due in the same instant.
async fn burst(folder: &Path, args: &BenchArgs, plan: &Plan) -> Result<Report> {
    let server = Server::start(folder, args.retention.as_deref()).await?;
    let fleet = Fleet::start(&server.authority, &load::app(&server).await?, &plan.manners).await?;
    // Far enough away that all jobs exist by then; a second for each five hundred is more than a slow disk needs.
    let at = UnixMs((clock::now().0 / 1_000 + 5 + i64::from(args.burst) / 500) * 1_000);
    let jobs = load::jobs(&server, args.burst, When::At(at), plan.strategy).await?;
    anyhow::ensure!(clock::now() < at, "the jobs took too long to make; try a smaller --burst");

    let records = fleet.records();
    records.set(Record::new(Span { from_ms: at.0, to_ms: at.0 + 1 }, jobs.iter().copied()));
    sleep_until(UnixMs(at.0 - 100)).await;
    let before = server.usage()?;
    sleep_until(at).await;
    drain(true, || records.is_complete()).await;
    let after = server.usage()?;

    let mut report = report(args, plan, jobs.len(), &server);
    report.seconds = 1;
    finish(folder, args, server, fleet, &mut report).await?;
    report.used(before, after);
    Ok(report)
}

/// Stops everything, the server first so that the last results reach it, and compares.
async fn finish(folder: &Path, args: &BenchArgs, server: Server, fleet: Fleet, report: &mut Report) -> Result<()> {
    sleep(Duration::from_secs(1)).await;
    if fleet.has_ended() {
        return fleet.stop().context("the workers ended before the measurement did");
    }
    server.stop().await?;
    let record = fleet.records().take().context("nothing was recorded")?;
    // Its connections have ended with the server, which is no failure any more.
    drop(fleet.stop());
    report.figures = record.figures();
    // With a retention of its own the ledger may have dropped what would be compared.
    if args.retention.is_none() {
        report.audit = Some(audit::compare(&process::data(folder), &record)?);
    }
    Ok(())
}

/// Jobs that do not fire: memory, and the time of a start.
async fn idle(folder: &Path, args: &BenchArgs, plan: &Plan) -> Result<Report> {
    let server = Server::start(folder, None).await?;
    load::app(&server).await?;
    let count = args.jobs.unwrap_or(IDLE_JOBS);
    let jobs = load::jobs(&server, count, When::Idle, plan.strategy).await?;
    server.stop().await?;

    let server = Server::start(folder, None).await?;
    sleep(Duration::from_secs(2)).await;
    let before = server.usage()?;
    sleep(Duration::from_secs(u64::from(args.seconds))).await;
    let after = server.usage()?;
    let mut report = report(args, plan, jobs.len(), &server);
    report.used(before, after);
    server.stop().await?;
    Ok(report)
}

fn report(args: &BenchArgs, plan: &Plan, jobs: usize, server: &Server) -> Report {
    Report {
        scenario: plan.name.clone(),
        jobs: jobs as u64,
        workers: u32::try_from(plan.manners.len()).unwrap_or(u32::MAX),
        seconds: args.seconds,
        figures: Figures::default(),
        is_whole: true,
        cpu_us_per_run: 0.0,
        written_bytes_per_run: 0,
        rss_bytes: 0,
        rss_max_bytes: 0,
        start_ms: report::ms(server.ready),
        audit: None,
    }
}

/// Waits until the server has caught up with what came due while the jobs were being made, or shows that it will not.
async fn settle(server: &Server) -> Result<()> {
    let mut link = Link::open(&server.authority, &server.token).await?;
    let began = Instant::now();
    loop {
        let (status, bytes) = link.exchange(Method::GET, "/api/v1/server", Vec::new()).await?;
        anyhow::ensure!(status.is_success(), "/api/v1/server: {status}");
        let now: rota_wire::rest::Server = serde_json::from_slice(&bytes).context("reading /api/v1/server")?;
        if now.held == 0 || began.elapsed() > CATCH_UP {
            return Ok(());
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Waits until a wall-clock instant.
async fn sleep_until(at: UnixMs) {
    loop {
        let left = at.0 - clock::now().0;
        let Ok(left) = u64::try_from(left) else { return };
        if left == 0 {
            return;
        }
        // In steps, so that a step of the wall clock is noticed.
        sleep(Duration::from_millis(left.min(500))).await;
    }
}

/// Waits until everything that is due was started, or for so long that it counts as lost.
async fn drain(is_whole: bool, is_complete: impl Fn() -> bool) {
    let began = Instant::now();
    let limit = if is_whole { DRAIN } else { Duration::from_secs(2) };
    while !is_complete() && began.elapsed() < limit {
        sleep(Duration::from_millis(100)).await;
    }
}

/// Where a measured server keeps its data; removed at the end, unless it shall be kept.
struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    fn new(keep: Option<&Path>, name: &str) -> Result<Folder> {
        let unique = format!("rota-bench-{}-{}", std::process::id(), clock::now().0);
        let parent = keep.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = parent.join(format!("{unique}-{}", name.replace([' ', ','], "-")));
        std::fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Folder { path, is_kept: keep.is_some() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            eprintln!("rota: {} could not be removed: {error}", self.path.display());
        }
    }
}
