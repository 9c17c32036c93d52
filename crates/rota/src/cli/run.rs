//! `rota run`, `rota rerun`, `rota runs`, `rota why`, `rota kill`.

use std::collections::BTreeMap;

use rota_cron::UnixMs;
use rota_wire::rest::{Held, Killed, Page, Rerun, RerunAsk, Run, RunDetail, Story, StoryLine, Trigger, Triggered};

use super::client::{Client, Path};
use super::logs;
use super::out::{Out, note};
use super::past;
use super::shown;
use super::table::{Table, grouped, one_line, width};
use crate::args::{RerunArgs, RunArgs, RunsArgs};
use crate::config::unit;
use crate::exit::Failure;

/// Runs that a server gives at a time.
const PAGE_MAX: u32 = 1_000;
/// Held slots that a server lists.
const HELD_MAX: usize = 1_000;

/// Runs a job, follows its log, and ends with its result.
pub(crate) async fn start(client: &Client, out: Out, args: RunArgs) -> Result<(), Failure> {
    let RunArgs { job, param, no_follow, request_id } = args;
    let trigger = Trigger { param, request_id, origin: Some("manual".to_owned()) };
    let made: Triggered = client.post(Path::of(&["jobs", &job, "trigger"]), &trigger).await?;
    if no_follow {
        return out
            .show(&made, |made| format!("{}\ntry  rota logs {1} -f | rota why {1}\n", said(made), runs_as(made)));
    }
    if !out.is_json {
        // Not on stdout, which is the run's own log.
        note(&format!("{}\n", said(&made)));
    }
    follow(client, out, runs_as(&made)).await
}

/// The run, and what keeps it from its place.
fn said(made: &Triggered) -> String {
    match (made.entry.as_str(), &made.into) {
        ("queued", _) => format!("{} waits for its place among the runs of the job", made.run),
        (_, Some(into)) => format!("{} is merged into {into}, which waits for its place", made.run),
        (_, None) => made.run.clone(),
    }
}

/// The run that does the work.
fn runs_as(made: &Triggered) -> &str {
    made.into.as_deref().unwrap_or(&made.run)
}

/// Runs again what has ended, follows its log, and ends with its result.
pub(crate) async fn rerun(client: &Client, out: Out, args: RerunArgs) -> Result<(), Failure> {
    let RerunArgs { run, failed_shards, no_follow, request_id } = args;
    let ask = RerunAsk { failed_shards, request_id };
    let made: Rerun = client.post(Path::of(&["runs", &run, "rerun"]), &ask).await?;
    if no_follow {
        return out
            .show(&made, |made| format!("{}\ntry  rota logs {1} -f | rota why {1}\n", say_rerun(made), made.run));
    }
    if !out.is_json {
        note(&format!("{}\n", say_rerun(&made)));
    }
    follow(client, out, &made.run).await
}

/// `r95 repeats r91: settle v14, slot 12-01 02:00:00 +08:00, 3 of 8 shards`.
fn say_rerun(made: &Rerun) -> String {
    let shards = match (made.shards_run, made.shards) {
        (_, 1) => String::new(),
        (run, all) => format!(", {run} of {all} shards"),
    };
    let (name, slot) = (one_line(&made.job_name), shown::time(&made.slot));
    format!("{} repeats {}: {name} v{}, slot {slot}{shards}", made.run, made.rerun_of, made.version)
}

async fn follow(client: &Client, out: Out, run: &str) -> Result<(), Failure> {
    let ended = logs::follow(client, run, None, None, out).await?;
    if out.is_json {
        out.show(&ended, |_| String::new())?;
    } else {
        note(&format!("{}\n", outcome(&ended.run)));
    }
    if ended.run.state == "success" { Ok(()) } else { Err(Failure::Said) }
}

/// `r91 failed, handler_failed, 9m12: period closed`.
pub(crate) fn outcome(run: &Run) -> String {
    let why = run.why.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
    let took = run.took_ms.map(|ms| format!(", {}", shown::duration(ms))).unwrap_or_default();
    let message = run.message.as_ref().map(|message| format!(": {}", one_line(message))).unwrap_or_default();
    format!("{} {}{why}{took}{message}", run.run, run.state)
}

/// Lists runs, newest first.
pub(crate) async fn list(client: &Client, out: Out, args: &RunsArgs, now: UnixMs) -> Result<(), Failure> {
    let since = args.since.as_deref().map(|text| since("--since", text, now)).transpose()?;
    let mut runs: Vec<Run> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let left = args.limit - u32::try_from(runs.len()).expect("never more than the limit, which is small");
        let path = Path::of(&["runs"])
            .with("job", args.job.as_ref())
            .with("app", args.app.as_ref())
            .with("state", args.state.as_ref())
            .with("backfill", args.backfill.as_ref())
            .with("since", since.as_ref())
            .with("after", after.as_ref())
            .with("limit", Some(left.min(PAGE_MAX).to_string()));
        let page: Page<Run> = client.get(path).await?;
        let is_last = page.next.is_none() || page.next == after;
        runs.extend(page.items);
        runs.truncate(args.limit as usize);
        after = page.next;
        if is_last || runs.len() >= args.limit as usize {
            let held = if out.is_json { Vec::new() } else { held(client, args).await? };
            return out.show(&Page { items: runs, next: after.filter(|_| !is_last) }, |page| table(page, &held));
        }
    }
}

/// The slots of the same jobs that wait without a row; none if only runs of one state are asked for.
async fn held(client: &Client, args: &RunsArgs) -> Result<Vec<Held>, Failure> {
    if args.state.is_some() || args.backfill.is_some() {
        return Ok(Vec::new());
    }
    let path = Path::of(&["held"]).with("job", args.job.as_ref()).with("app", args.app.as_ref());
    client.all(path, HELD_MAX).await
}

/// An instant, or a duration back from now, as RFC 3339.
pub(super) fn since(flag: &str, text: &str, now: UnixMs) -> Result<String, Failure> {
    if let Ok(ms) = unit::duration_ms(text) {
        return Ok(now.plus_ms(-i64::try_from(ms).unwrap_or(i64::MAX)).to_string());
    }
    match UnixMs::parse_rfc3339(text) {
        Ok(at) => Ok(at.to_string()),
        Err(_) => Err(Failure::usage(
            format!("{flag}: `{text}` is neither a duration nor a time"),
            Some("for example: 1h, or 2026-12-01T02:00:00+08:00".to_owned()),
        )),
    }
}

fn table(page: &Page<Run>, held: &[Held]) -> String {
    let mut table = Table::new(&["RUN", "JOB", "SLOT", "STATE", "WHY", "LATE", "TOOK", "WORKER", "TRY"]);
    for run in &page.items {
        let tries = if run.tries > 0 { format!("{}/{}", run.tries, run.tries_max) } else { String::new() };
        table.row([
            run.run.clone(),
            run.job_name.clone(),
            shown::slots(&run.slot, run.slot_last.as_deref(), run.slots),
            run.state.clone(),
            run.why.clone().unwrap_or_default(),
            run.late_ms.map(shown::duration).unwrap_or_default(),
            run.took_ms.map(shown::duration).unwrap_or_default(),
            run.worker.clone().unwrap_or_default(),
            tries,
        ]);
    }
    let more = if page.next.is_some() { "; there are more, see --limit and --since" } else { "" };
    format!("{}{}{}{more}\n", table.text(), summary(page), waiting(held))
}

/// How many of each state; a skipped range counts its slots.
fn summary(page: &Page<Run>) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for run in &page.items {
        let number = if run.shards == 0 { run.slots } else { 1 };
        match counts.iter_mut().find(|(state, _)| *state == run.state) {
            Some((_, count)) => *count += number,
            None => counts.push((&run.state, number)),
        }
    }
    if counts.is_empty() {
        return "no runs".to_owned();
    }
    let counted: Vec<String> = counts.iter().map(|(state, count)| format!("{} {state}", grouped(*count))).collect();
    counted.join(", ")
}

/// `; 3 held (2 no_worker, 1 cap), 1 overdue`, if slots wait.
fn waiting(held: &[Held]) -> String {
    if held.is_empty() {
        return String::new();
    }
    let mut whys: BTreeMap<&str, u64> = BTreeMap::new();
    for slot in held {
        *whys.entry(&slot.why).or_default() += 1;
    }
    let whys: Vec<String> = whys.iter().map(|(why, count)| format!("{} {why}", grouped(*count))).collect();
    // A server lists so many; there may be more.
    let more = if held.len() >= HELD_MAX { "+" } else { "" };
    let overdue = held.iter().filter(|slot| slot.is_overdue).count() as u64;
    format!("; {}{more} held ({}), {} overdue", grouped(held.len() as u64), whys.join(", "), grouped(overdue))
}

/// Says what happened to a run, or at an instant of a job.
pub(crate) async fn why(client: &Client, out: Out, what: &str) -> Result<(), Failure> {
    // A time has no `@`; a job's name may have one.
    if let Some((job, at)) = what.rsplit_once('@') {
        if job.is_empty() || at.trim().is_empty() {
            let hint = "for example: rota why nightly@02:00, or a run: rota why r…".to_owned();
            let lacking = if job.is_empty() { "a job" } else { "a time" };
            return Err(Failure::usage(format!("`{what}` lacks {lacking}"), Some(hint)));
        }
        return past::why_slot(client, out, job, at).await;
    }
    let run = what;
    let story: Story = client.get(Path::of(&["runs", run, "why"])).await?;
    out.show(&story, tell)
}

fn tell(story: &Story) -> String {
    tell_lines(&story.title, &story.lines, &story.hints)
}

/// A story in columns: times, what each line is about, and what there is to say.
pub(super) fn tell_lines(title: &str, lines: &[StoryLine], hints: &[String]) -> String {
    let times: Vec<&str> = lines.iter().filter_map(|line| line.at.as_deref()).collect();
    let moments = shown::moments(&times);
    let time_width = moments.iter().map(|moment| width(moment)).max().unwrap_or(0);
    let timed = lines.iter().filter(|line| line.at.is_some());
    let about_width = timed.map(|line| width(&line.about)).max().unwrap_or(0);
    let untimed_width = time_width + 2 + about_width;
    let mut text = format!("{}\n", one_line(title));
    let mut moments = moments.iter();
    for line in lines {
        let head = match line.at.as_ref().and_then(|_| moments.next()) {
            Some(moment) => format!("{moment:<time_width$}  {:<about_width$}", line.about),
            None => format!("{:<untimed_width$}", line.about),
        };
        text.push_str(format!("{head}  {}", one_line(&line.text)).trim_end());
        text.push('\n');
    }
    if !hints.is_empty() {
        text.push_str(&format!("{:<untimed_width$}  {}\n", "try", hints.join(" | ")));
    }
    text
}

/// Kills a run, or one shard of it.
pub(crate) async fn kill(client: &Client, out: Out, run: &str, shard: Option<u32>) -> Result<(), Failure> {
    let path = Path::of(&["runs", run, "kill"]).with("shard", shard.map(|shard| shard.to_string()));
    let killed: Killed = client.post(path, &serde_json::json!({})).await?;
    out.show(&killed, |killed| match killed.shard {
        Some(shard) => format!("shard {shard} of {} is killed; what still runs of it is being stopped\n", killed.run),
        None => format!("{} is {}; what still runs is being stopped\n", killed.run, killed.state),
    })
}

/// A run with all its attempts.
pub(crate) async fn detail(client: &Client, run: &str) -> Result<RunDetail, Failure> {
    let mut found: RunDetail = client.get(Path::of(&["runs", run])).await?;
    if found.attempts_next.take().is_some() {
        found.attempts = client.all(Path::of(&["runs", run, "attempts"]), usize::MAX).await?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(json: serde_json::Value) -> Run {
        let mut whole = serde_json::json!({
            "run": "r91", "id": 91, "job": 1, "job_name": "settle", "app": "pay", "version": 14, "origin": "schedule",
            "slot": "2026-12-01T02:00:00+08:00", "slots": 1, "state": "success", "is_ended": true, "shards": 1,
            "at": "2026-12-01T02:00:00.004+08:00", "tries": 1, "tries_max": 1
        });
        whole.as_object_mut().unwrap().extend(json.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn runs_are_listed_with_a_summary() {
        let failed = run_of(serde_json::json!({"state": "failed", "why": "handler_failed", "late_ms": 4,
            "took_ms": 552_000, "worker": "pay-1", "tries": 2, "tries_max": 3}));
        let range = run_of(serde_json::json!({"run": "r77", "state": "skipped", "why": "misfire", "shards": 0,
            "slots": 9, "slot_last": "2026-12-01T02:04:00+08:00", "tries": 0}));
        let page = Page { items: vec![failed, range], next: None };
        let expected = "\
RUN  JOB     SLOT                                STATE    WHY             LATE  TOOK  WORKER  TRY
r91  settle  12-01 02:00:00 +08:00               failed   handler_failed  4ms   9m12  pay-1   2/3
r77  settle  12-01 02:00:00…02:04:00 +08:00 ×9   skipped  misfire         -     -     -       -
1 failed, 9 skipped
";
        // The range's line is padded by width, not by bytes.
        assert_eq!(
            table(&page, &[]).replace("  ", " ").replace("  ", " "),
            expected.replace("  ", " ").replace("  ", " ")
        );
        assert_eq!(summary(&Page { items: Vec::new(), next: None }), "no runs");
    }

    #[test]
    fn held_slots_are_counted_by_reason() {
        let held = |why: &str, is_overdue: bool| Held {
            job: 1,
            job_name: "a".to_owned(),
            app: "etl".to_owned(),
            slot: "2026-12-01T02:00:00Z".to_owned(),
            is_overdue,
            why: why.to_owned(),
            text: String::new(),
            since: "2026-12-01T02:00:00Z".to_owned(),
        };
        assert_eq!(waiting(&[]), "");
        let slots = [held("no_worker", true), held("cap", false), held("no_worker", false)];
        assert_eq!(waiting(&slots), "; 3 held (1 cap, 2 no_worker), 1 overdue");
        let empty = table(&Page { items: Vec::new(), next: None }, &slots[1..2]);
        assert!(empty.ends_with("no runs; 1 held (1 cap), 0 overdue\n"), "{empty}");
    }

    #[test]
    fn a_story_is_told_in_columns() {
        let line = |at: Option<&str>, about: &str, text: &str| StoryLine {
            at: at.map(str::to_owned),
            about: about.to_owned(),
            text: text.to_owned(),
        };
        let story = Story {
            run: run_of(serde_json::json!({})),
            title: "settle, slot 2026-12-01 02:00:00 +08:00, v14: FAILED".to_owned(),
            lines: vec![
                line(Some("2026-12-01T02:00:00.004+08:00"), "due", "4 ms late"),
                line(Some("2026-12-01T02:04:31.870+08:00"), "try 1", "lost"),
                line(None, "not retried", "failed is not in retry.when"),
            ],
            hints: vec!["rota logs r91".to_owned(), "rota kill r91".to_owned()],
        };
        let expected = "\
settle, slot 2026-12-01 02:00:00 +08:00, v14: FAILED
02:00:00.004 +08:00  due    4 ms late
02:04:31.870 +08:00  try 1  lost
not retried                 failed is not in retry.when
try                         rota logs r91 | rota kill r91
";
        assert_eq!(tell(&story), expected);
    }

    #[test]
    fn since_is_a_duration_or_a_time() {
        let now = UnixMs::parse_rfc3339("2026-12-01T02:00:00Z").unwrap();
        assert_eq!(since("--since", "1h", now).ok().unwrap(), "2026-12-01T01:00:00.000Z");
        assert_eq!(since("--since", "2026-12-01T02:00:00+08:00", now).ok().unwrap(), "2026-11-30T18:00:00.000Z");
        assert!(matches!(since("--since", "yesterday", now), Err(Failure::Usage(_))));
    }

    #[test]
    fn an_outcome_is_one_line() {
        let run =
            run_of(serde_json::json!({"state": "failed", "why": "handler_failed", "took_ms": 11, "message": "a\nb"}));
        assert_eq!(outcome(&run), "r91 failed, handler_failed, 11ms: a b");
    }
}
