//! `rota plan`, `rota apply`, `rota export`: a job file and a server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::Path as FilePath;
use std::time::Duration;

use rota_core::time::UnixMs;
use rota_wire::rest::{App, BATCH_MAX, Batch, BatchDone, Changed, Job, JobChange, JobsNamed, Page, Server};
use serde::Serialize;

use super::client::{Client, Path};
use super::out::{Out, print};
use super::table::grouped;
use crate::args::{ApplyArgs, ExportArgs, FileArgs};
use crate::exit::Failure;
use crate::file;
use crate::file::emit::{self, Export};
use crate::file::mistake::{Mistake, Shown};
use crate::file::plan::{Plan, Step, View, Wish, plan};
use crate::file::show::{self, Style};
use crate::file::wanted::{self, Wanted};

/// The largest body of a batch; the server takes twice as much.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// How long an apply waits for jobs that another call has begun to make.
const OTHERS_MAX: Duration = Duration::from_secs(10);
/// Mistakes that are told at once.
const MISTAKES_MAX: usize = 20;
/// The exit code of a plan with changes, and of a file that cannot be meant.
const PENDING: u8 = 2;

/// A file, read, and all that is needed to point into it.
struct Source {
    /// As it is named in messages.
    shown: String,
    text: String,
    wanted: Wanted,
    /// The name by which it manages its jobs.
    manages: Option<String>,
}

/// What `apply` says in JSON.
#[derive(Serialize)]
struct Applied {
    plan: Plan,
    applied: usize,
    refused: Vec<Refused>,
}

/// A change that a server refused.
#[derive(Serialize)]
struct Refused {
    job: String,
    error: rota_wire::error::Error,
}

pub(crate) async fn run_plan(client: &Client, out: Out, args: &FileArgs) -> Result<(), Failure> {
    let source = read(args, client, out.is_json)?;
    let client = client.within(source.namespace(client));
    let plan = make(&client, &source, args, out.is_json).await?;
    let style = style(args.all);
    out.show(&plan, |plan| show::text(plan, style))?;
    if plan.has_changes() { Err(Failure::Ended(PENDING)) } else { Ok(()) }
}

pub(crate) async fn run_apply(client: &Client, out: Out, args: &ApplyArgs) -> Result<(), Failure> {
    if args.dry_run {
        return run_plan(client, out, &args.file).await;
    }
    let source = read(&args.file, client, out.is_json)?;
    let client = client.within(source.namespace(client));
    let plan = make(&client, &source, &args.file, out.is_json).await?;
    if !out.is_json {
        print(&show::text(&plan, style(args.file.all)))?;
    }
    let mut refused: Vec<Refused> = plan
        .jobs
        .iter()
        .filter_map(|step| Some(Refused { job: step.job.clone(), error: step.error.clone()? }))
        .collect();
    // What the plan itself refuses was shown with it.
    let shown = refused.len();
    for step in &plan.apps {
        let _made: App = client.put(Path::of(&["apps", &step.app]), &step.put).await?;
    }
    let mut applied = carry_out(&client, &source, &plan, &mut refused).await?;
    applied += carry_out_again(&client, &source, &args.file, &mut refused).await?;
    let has_failed = !refused.is_empty();
    if out.is_json {
        out.show(&Applied { plan, applied, refused }, |_| String::new())?;
    } else {
        for Refused { job, error } in &refused[shown..] {
            let hint = error.hint.as_ref().map(|hint| format!("  {hint}\n")).unwrap_or_default();
            eprint!("refused  {job}: {} ({})\n{hint}", error.message, error.code);
        }
        if plan.has_changes() {
            let not = if has_failed { format!(", {} refused", grouped(refused.len() as u64)) } else { String::new() };
            print(&format!("applied {}{not}\n", grouped(applied as u64)))?;
        }
    }
    if has_failed { Err(Failure::Said) } else { Ok(()) }
}

/// Sends the changes in batches; how many were carried out. It is safe to be stopped in the middle: a batch that was
/// sent is carried to its end, and the next plan sees what is left.
async fn carry_out(
    client: &Client,
    source: &Source,
    plan: &Plan,
    refused: &mut Vec<Refused>,
) -> Result<usize, Failure> {
    let all: Vec<(&str, &JobChange)> =
        plan.jobs.iter().filter_map(|step| Some((step.job.as_str(), step.change.as_ref()?))).collect();
    let mut progress = Progress::new(all.len());
    let (mut applied, mut begin) = (0, 0);
    while begin < all.len() {
        let end = begin + fitting(&all[begin..]);
        let changes: Vec<JobChange> = all[begin..end].iter().map(|(_, change)| (*change).clone()).collect();
        let body = Batch { managed_by: source.manages.clone(), changes };
        let done: BatchDone = client.post(Path::of(&["jobs", "batch"]), &body).await?;
        for ((job, _), Changed { error, .. }) in all[begin..end].iter().zip(done.results) {
            match error {
                None => applied += 1,
                Some(error) => refused.push(Refused { job: (*job).to_owned(), error }),
            }
        }
        begin = end;
        progress.at(begin);
    }
    progress.end();
    Ok(applied)
}

/// Plans those jobs again whose names were taken when they were to be made: another apply, or one that was stopped and
/// whose batch is still being carried out, has them. A name that stays taken stays refused.
async fn carry_out_again(
    client: &Client,
    source: &Source,
    args: &FileArgs,
    refused: &mut Vec<Refused>,
) -> Result<usize, Failure> {
    let begun = tokio::time::Instant::now();
    let mut applied = 0;
    let mut pause = Duration::from_millis(50);
    let is_taken = |refused: &Refused| refused.error.code == "name_taken";
    while refused.iter().any(is_taken) && begun.elapsed() < OTHERS_MAX {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
        let mut plan = make(client, source, args, true).await?;
        let (taken, rest): (Vec<Refused>, Vec<Refused>) = std::mem::take(refused).into_iter().partition(is_taken);
        *refused = rest;
        let names: BTreeSet<&str> = taken.iter().map(|refused| refused.job.as_str()).collect();
        plan.jobs.retain(|step| names.contains(step.job.as_str()));
        let refusals = |step: &Step| Some(Refused { job: step.job.clone(), error: step.error.clone()? });
        refused.extend(plan.jobs.iter().filter_map(refusals));
        applied += carry_out(client, source, &plan, refused).await?;
    }
    Ok(applied)
}

/// How many of the changes fit a batch; at least one.
fn fitting(changes: &[(&str, &JobChange)]) -> usize {
    let mut bytes = 0;
    for (count, (_, change)) in changes.iter().enumerate().take(BATCH_MAX) {
        bytes += serde_json::to_vec(change).map_or(0, |body| body.len());
        if bytes > BATCH_BYTES_MAX && count > 0 {
            return count;
        }
    }
    changes.len().min(BATCH_MAX)
}

/// A bar on a terminal, for more than one batch.
struct Progress {
    all: usize,
    is_shown: bool,
}

impl Progress {
    fn new(all: usize) -> Progress {
        Progress { all, is_shown: all > BATCH_MAX && std::io::stderr().is_terminal() }
    }

    fn at(&mut self, done: usize) {
        if self.is_shown {
            let full = 30 * done / self.all;
            let (bar, rest) = ("#".repeat(full), ".".repeat(30 - full));
            eprint!("\r{bar}{rest} {} of {}", grouped(done as u64), grouped(self.all as u64));
            // A bar that is not seen harms nobody.
            let _unseen = std::io::stderr().flush();
        }
    }

    fn end(self) {
        if self.is_shown {
            eprint!("\r{}\r", " ".repeat(70));
        }
    }
}

impl Source {
    fn namespace<'s>(&'s self, client: &'s Client) -> &'s str {
        self.wanted.namespace.as_deref().unwrap_or_else(|| client.namespace())
    }

    fn refuse(&self, mistakes: &[Mistake], is_json: bool) -> Failure {
        refuse(&self.shown, &self.text, mistakes, is_json)
    }
}

fn style(is_whole: bool) -> Style {
    let is_colored = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    Style { is_colored, is_whole }
}

/// Says what is wrong with a file.
fn refuse(shown: &str, text: &str, mistakes: &[Mistake], is_json: bool) -> Failure {
    if is_json {
        let all: Vec<Shown> = mistakes.iter().map(|mistake| mistake.shown(shown)).collect();
        eprintln!(
            "{}",
            serde_json::json!({"code": "job_file", "message": "the job file has mistakes", "mistakes": all})
        );
        return Failure::Ended(PENDING);
    }
    for mistake in mistakes.iter().take(MISTAKES_MAX) {
        eprint!("{}", mistake.text(shown, text));
    }
    if mistakes.len() > MISTAKES_MAX {
        eprintln!("… and {} more", grouped((mistakes.len() - MISTAKES_MAX) as u64));
    }
    Failure::Ended(PENDING)
}

fn read(args: &FileArgs, client: &Client, is_json: bool) -> Result<Source, Failure> {
    let (shown, bytes) = bytes_of(&args.file)?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let message = format!("{shown} is not UTF-8 from byte {at} on");
            return Err(Failure::usage(message, Some("save it as UTF-8".to_owned())));
        }
    };
    let wanted = wanted::wanted(&text).map_err(|mistakes| refuse(&shown, &text, &mistakes, is_json))?;
    let given = client.given_namespace().zip(wanted.namespace.as_deref());
    if let Some((flag, file)) = given.filter(|(flag, file)| flag != file) {
        let message = format!("{shown} is for the namespace `{file}`, and --namespace says `{flag}`");
        return Err(Failure::usage(message, Some("leave --namespace out".to_owned())));
    }
    let is_stdin = args.file.as_os_str() == "-";
    let manages = match &wanted.name {
        Some(name) => Some(name.clone()),
        None if is_stdin => None,
        None => Some(base_name(&args.file)?),
    };
    if args.prune && manages.is_none() {
        let hint = "give it one: name: shop".to_owned();
        return Err(Failure::usage("--prune deletes what the file made, and this file has no name", Some(hint)));
    }
    Ok(Source { shown, text, wanted, manages })
}

fn bytes_of(file: &FilePath) -> Result<(String, Vec<u8>), Failure> {
    let is_stdin = file.as_os_str() == "-";
    let shown = if is_stdin { "stdin".to_owned() } else { file.display().to_string() };
    let mut bytes = Vec::new();
    let reader: Box<dyn std::io::Read> = if is_stdin {
        Box::new(std::io::stdin())
    } else {
        let opened = std::fs::File::open(file);
        Box::new(opened.map_err(|error| Failure::usage(format!("{shown}: {error}"), None))?)
    };
    // A byte more than is taken tells that there is more.
    let read = reader.take(file::BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::usage(format!("{shown}: {error}"), None))?;
    Ok((shown, bytes))
}

/// The name of a file without its ending: that of `shop.yaml` is `shop`.
fn base_name(file: &FilePath) -> Result<String, Failure> {
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    rota_core::job::check_name("name", &name).map_err(|_| {
        Failure::usage(
            format!("`{name}` cannot be the name by which the file manages its jobs"),
            Some("give it one at its top: name: shop".to_owned()),
        )
    })?;
    Ok(name)
}

/// Asks the server for what is there, and works the plan out.
async fn make(client: &Client, source: &Source, args: &FileArgs, is_json: bool) -> Result<Plan, Failure> {
    let server: Server = client.get(Path::of(&["server"])).await?;
    let now = UnixMs::parse_rfc3339(&server.now)
        .map_err(|_| Failure::failed("unexpected_answer", "the server's clock cannot be read"))?;
    let apps: Vec<App> = client.all(Path::of(&["apps"]), usize::MAX).await?;
    let mut jobs = BTreeMap::new();
    if let Some(name) = &source.manages {
        for job in all_jobs(client, Some(name), None).await? {
            jobs.insert(job.spec.name.clone(), job);
        }
    }
    let names: Vec<&String> =
        source.wanted.jobs.iter().map(|job| &job.spec.name).filter(|name| !jobs.contains_key(*name)).collect();
    let mut found = Vec::new();
    for names in names.chunks(BATCH_MAX) {
        let ask = JobsNamed { names: names.iter().map(|name| (*name).clone()).collect() };
        let page: Page<Job> = client.post(Path::of(&["jobs", "find"]), &ask).await?;
        found.extend(page.items);
    }
    jobs.extend(found.into_iter().map(|job| (job.spec.name.clone(), job)));
    let view = View { file: source.manages.clone(), jobs, apps, zone: server.timezone, now };
    let wish = Wish { prune: args.prune, take_over: args.take_over };
    // The namespace of the call is that of jobs whose file names none.
    let mut wanted = source.wanted.clone();
    for job in &mut wanted.jobs {
        client.namespace().clone_into(&mut job.spec.namespace);
    }
    plan(&wanted, &view, wish).map_err(|mistakes| {
        let mistakes: Vec<Mistake> =
            mistakes.into_iter().map(|(index, error)| wanted::refused(&source.wanted.jobs[index], error)).collect();
        source.refuse(&mistakes, is_json)
    })
}

async fn all_jobs(client: &Client, managed_by: Option<&str>, app: Option<&str>) -> Result<Vec<Job>, Failure> {
    let path = Path::of(&["jobs"]).with("managed_by", managed_by).with("app", app);
    client.all(path, usize::MAX).await
}

pub(crate) async fn run_export(client: &Client, out: Out, args: &ExportArgs) -> Result<(), Failure> {
    let mut jobs = all_jobs(client, args.managed_by.as_deref(), args.app.as_deref()).await?;
    let apps: Vec<App> = client.all(Path::of(&["apps"]), usize::MAX).await?;
    jobs.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    let hides =
        |job: &Job| job.spec.http.as_ref().is_some_and(|http| http.headers.values().any(|value| value == "***"));
    let (left_out, jobs): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(hides);
    let left_out: Vec<String> = left_out.into_iter().map(|job| job.spec.name).collect();
    let export = Export {
        name: args.managed_by.as_deref(),
        namespace: client.namespace(),
        apps: &apps,
        jobs: &jobs,
        left_out: &left_out,
    };
    let text = emit::file(&export);
    match &args.file {
        Some(file) => std::fs::write(file, &text)
            .map_err(|error| Failure::failed("failed", format!("{}: {error}", file.display())))?,
        None if out.is_json => out.show(&Page { items: jobs.clone(), next: None::<String> }, |_| String::new())?,
        None => print(&text)?,
    }
    if left_out.is_empty() {
        return Ok(());
    }
    for name in &left_out {
        eprintln!("left out  {name}: the values of its headers are shown to the admin token only");
    }
    Err(Failure::Said)
}
