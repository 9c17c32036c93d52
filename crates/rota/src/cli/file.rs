//! `rota plan`, `rota apply`, `rota export`: a job file and a server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use rota_core::time::UnixMs;
use rota_wire::rest::{Alert, App, BATCH_MAX, Batch, BatchDone, Changed, Job, JobChange, JobsNamed, Page, Server};
use serde::Serialize;

use super::client::{Client, Path};
use super::out::{Out, note, print, print_beside};
use super::sources::{self, Source, Wrong};
use super::table::grouped;
use crate::args::{ApplyArgs, ExportArgs, FileArgs};
use crate::exit::Failure;
use crate::file::emit::{self, Export};
use crate::file::mistake::Mistake;
use crate::file::order;
use crate::file::plan::{Beside, Plan, Step, View, Wish, plan};
use crate::file::show::{self, Style};
use crate::file::wanted;

/// The largest body of a batch; the server takes twice as much.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// How long an apply waits for jobs that another call has begun to make.
const OTHERS_MAX: Duration = Duration::from_secs(10);
/// The exit code of a plan with changes.
const PENDING: u8 = 2;

/// What `plan` says of several files in JSON; of one it says the plan itself.
#[derive(Serialize)]
struct Plans<'p> {
    plans: Vec<&'p Plan>,
}

/// What `apply` says in JSON.
#[derive(Serialize)]
struct Applied<'p> {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'p Plan>,
    /// Of several files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    plans: Vec<&'p Plan>,
    applied: usize,
    refused: Vec<Refused>,
}

/// A change that a server refused.
#[derive(Serialize)]
struct Refused {
    job: String,
    error: rota_wire::error::Error,
}

/// A file, and what has to be done for it.
struct Planned<'s> {
    source: &'s Source,
    beside: Beside,
    client: Client,
    plan: Plan,
}

pub(crate) async fn run_plan(client: &Client, out: Out, args: &FileArgs) -> Result<(), Failure> {
    let sources = sources::read(args, client, out.is_json)?;
    let all = plan_all(client, &sources, args, out.is_json).await?;
    match all.as_slice() {
        [one] if out.is_json => out.show(&one.plan, |_| String::new())?,
        all if out.is_json => {
            out.show(&Plans { plans: all.iter().map(|planned| &planned.plan).collect() }, |_| String::new())?;
        }
        all => print(&text_of(all, args))?,
    }
    if all.iter().any(|planned| planned.plan.has_changes()) { Err(Failure::Ended(PENDING)) } else { Ok(()) }
}

/// Works out all plans, before anything is done for one.
async fn plan_all<'s>(
    client: &Client,
    sources: &'s [Source],
    args: &FileArgs,
    is_json: bool,
) -> Result<Vec<Planned<'s>>, Failure> {
    let mut all = Vec::with_capacity(sources.len());
    for source in sources {
        let beside = source.beside(sources, client);
        let client = client.within(source.namespace(client));
        let plan = make(&client, source, &beside, args, is_json).await?;
        all.push(Planned { source, beside, client, plan });
    }
    Ok(all)
}

fn text_of(all: &[Planned<'_>], args: &FileArgs) -> String {
    let style = style(args.all);
    match all {
        [one] => show::text(&one.plan, style),
        all => {
            let of = |planned: &Planned<'_>| format!("{}:\n{}", planned.source.shown, show::text(&planned.plan, style));
            all.iter().map(of).collect::<Vec<_>>().join("\n")
        }
    }
}

pub(crate) async fn run_apply(client: &Client, out: Out, args: &ApplyArgs) -> Result<(), Failure> {
    if args.dry_run {
        return run_plan(client, out, &args.file).await;
    }
    let sources = sources::read(&args.file, client, out.is_json)?;
    let all = plan_all(client, &sources, &args.file, out.is_json).await?;
    if !out.is_json {
        print_beside(&text_of(&all, &args.file))?;
    }
    let refusal = |step: &Step| Some(Refused { job: step.job.clone(), error: step.error.clone()? });
    let mut refused: Vec<Refused> = all.iter().flat_map(|planned| &planned.plan.jobs).filter_map(refusal).collect();
    // What the plan itself refuses was shown with it.
    let shown = refused.len();
    for planned in &all {
        for step in &planned.plan.alerts {
            let _set: Alert = planned.client.put(Path::of(&["alerts", &step.alert]), &step.put).await?;
        }
    }
    for planned in &all {
        for step in &planned.plan.apps {
            let _made: App = planned.client.put(Path::of(&["apps", &step.app]), &step.put).await?;
        }
    }
    let mut applied = 0;
    for (planned, steps) in in_order(&all) {
        let mut own = Vec::new();
        applied += carry_out(planned, &steps, &mut own).await?;
        applied += carry_out_again(planned, &args.file, &mut own).await?;
        refused.extend(own);
    }
    let has_failed = !refused.is_empty();
    if out.is_json {
        let plans: Vec<&Plan> = all.iter().map(|planned| &planned.plan).collect();
        let (plan, plans) = if let [one] = plans[..] { (Some(one), Vec::new()) } else { (None, plans) };
        out.show(&Applied { plan, plans, applied, refused }, |_| String::new())?;
    } else {
        for Refused { job, error } in &refused[shown..] {
            let hint = error.hint.as_ref().map(|hint| format!("  {hint}\n")).unwrap_or_default();
            note(&format!("refused  {job}: {} ({})\n{hint}", error.message, error.code));
        }
        if all.iter().any(|planned| planned.plan.has_changes()) {
            let not = if has_failed { format!(", {} refused", grouped(refused.len() as u64)) } else { String::new() };
            print_beside(&format!("applied {}{not}\n", grouped(applied as u64)))?;
        }
    }
    if has_failed { Err(Failure::Said) } else { Ok(()) }
}

/// The steps that may be made side by side, one file after the other: upstream jobs first, whichever file they are in.
fn in_order<'a, 's>(all: &'a [Planned<'s>]) -> Vec<(&'a Planned<'s>, Vec<&'a Step>)> {
    let steps = || all.iter().flat_map(|planned| planned.plan.jobs.iter().map(move |step| (planned, step)));
    let of: Vec<&Step> = steps().map(|(_, step)| step).collect();
    let mut groups: Vec<(&Planned<'_>, Vec<&Step>)> = Vec::new();
    let mut ordered: Vec<_> = order::waves(&of).into_iter().zip(steps()).collect();
    ordered.sort_by_key(|(wave, _)| *wave);
    let mut last = None;
    for (wave, (planned, step)) in ordered {
        let place = (wave, std::ptr::from_ref(planned));
        match groups.last_mut().filter(|_| last == Some(place)) {
            Some((_, steps)) => steps.push(step),
            None => groups.push((planned, vec![step])),
        }
        last = Some(place);
    }
    groups
}

/// Sends the changes in batches; how many were carried out. It is safe to be stopped in the middle: a batch that was
/// sent is carried to its end, and the next plan sees what is left.
async fn carry_out(planned: &Planned<'_>, steps: &[&Step], refused: &mut Vec<Refused>) -> Result<usize, Failure> {
    let Planned { source, client, .. } = planned;
    let all: Vec<(&str, &JobChange)> =
        steps.iter().filter_map(|step| Some((step.job.as_str(), step.change.as_ref()?))).collect();
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
async fn carry_out_again(planned: &Planned<'_>, args: &FileArgs, refused: &mut Vec<Refused>) -> Result<usize, Failure> {
    let Planned { source, beside, client, .. } = planned;
    let begun = tokio::time::Instant::now();
    let mut applied = 0;
    let mut pause = Duration::from_millis(50);
    let is_taken = |refused: &Refused| refused.error.code == "name_taken";
    while refused.iter().any(is_taken) && begun.elapsed() < OTHERS_MAX {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
        let mut plan = make(client, source, beside, args, true).await?;
        let (taken, rest): (Vec<Refused>, Vec<Refused>) = std::mem::take(refused).into_iter().partition(is_taken);
        *refused = rest;
        let names: BTreeSet<&str> = taken.iter().map(|refused| refused.job.as_str()).collect();
        plan.jobs.retain(|step| names.contains(step.job.as_str()));
        let refusals = |step: &Step| Some(Refused { job: step.job.clone(), error: step.error.clone()? });
        refused.extend(plan.jobs.iter().filter_map(refusals));
        let steps: Vec<&Step> = plan.jobs.iter().collect();
        applied += carry_out(planned, &steps, refused).await?;
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
            note(&format!("\r{bar}{rest} {} of {}", grouped(done as u64), grouped(self.all as u64)));
            // A bar that is not seen harms nobody.
            let _unseen = std::io::stderr().flush();
        }
    }

    fn end(self) {
        if self.is_shown {
            note(&format!("\r{}\r", " ".repeat(70)));
        }
    }
}

fn style(is_whole: bool) -> Style {
    let is_colored = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    Style { is_colored, is_whole }
}

/// Asks the server for what is there, and works the plan out.
async fn make(
    client: &Client,
    source: &Source,
    beside: &Beside,
    args: &FileArgs,
    is_json: bool,
) -> Result<Plan, Failure> {
    let server: Server = client.get(Path::of(&["server"])).await?;
    let now = UnixMs::parse_rfc3339(&server.now)
        .map_err(|_| Failure::failed("unexpected_answer", "the server's clock cannot be read"))?;
    let apps: Vec<App> = client.all(Path::of(&["apps"]), usize::MAX).await?;
    let alerts: Page<Alert> = client.get(Path::of(&["alerts"])).await?;
    let mut jobs = BTreeMap::new();
    if let Some(name) = &source.manages {
        for job in all_jobs(client, Some(name), None).await? {
            jobs.insert(job.spec.name.clone(), job);
        }
    }
    let wanted = source.wanted.jobs.iter();
    let named = wanted.flat_map(|job| order::upstreams(&job.spec).chain([job.spec.name.as_str()]));
    let names: BTreeSet<&str> = named.filter(|name| !jobs.contains_key(*name)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let mut found = Vec::new();
    for names in names.chunks(BATCH_MAX) {
        let ask = JobsNamed { names: names.iter().map(|name| (*name).to_owned()).collect() };
        let page: Page<Job> = client.post(Path::of(&["jobs", "find"]), &ask).await?;
        found.extend(page.items);
    }
    jobs.extend(found.into_iter().map(|job| (job.spec.name.clone(), job)));
    let view = View {
        file: source.manages.clone(),
        jobs,
        apps,
        alerts: alerts.items,
        zone: server.timezone,
        now,
        beside: beside.clone(),
    };
    let wish = Wish { prune: args.prune, take_over: args.take_over };
    plan(&source.wanted, &view, wish).map_err(|mistakes| {
        let mistakes: Vec<Mistake> =
            mistakes.into_iter().map(|(index, error)| wanted::refused(&source.wanted.jobs[index], error)).collect();
        Wrong::of(source, mistakes).said(is_json)
    })
}

async fn all_jobs(client: &Client, managed_by: Option<&str>, app: Option<&str>) -> Result<Vec<Job>, Failure> {
    let path = Path::of(&["jobs"]).with("managed_by", managed_by).with("app", app);
    client.all(path, usize::MAX).await
}

pub(crate) async fn run_export(client: &Client, out: Out, args: &ExportArgs) -> Result<(), Failure> {
    let mut jobs = all_jobs(client, args.managed_by.as_deref(), args.app.as_deref()).await?;
    let apps: Vec<App> = client.all(Path::of(&["apps"]), usize::MAX).await?;
    let alerts: Page<Alert> = client.get(Path::of(&["alerts"])).await?;
    jobs.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    let hides =
        |job: &Job| job.spec.http.as_ref().is_some_and(|http| http.headers.values().any(|value| value == "***"));
    let (left_out, jobs): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(hides);
    let left_out: Vec<String> = left_out.into_iter().map(|job| job.spec.name).collect();
    let export = Export {
        name: args.managed_by.as_deref(),
        namespace: client.namespace(),
        alerts: &alerts.items,
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
        note(&format!("left out  {name}: the values of its headers are shown to the admin token only\n"));
    }
    Err(Failure::Said)
}
