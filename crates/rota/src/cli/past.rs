//! `rota why JOB@TIME`, `rota audit`, `rota top`, and the history of jobs.

use rota_core::time::UnixMs;
use rota_wire::rest::{
    AuditFinding, AuditLine, AuditSummary, Change, JobDiff, JobEvent, Page, SlotStory, Spread, Top, TopJob,
};

use super::client::{Client, Path};
use super::out::{Out, note, print};
use super::run::{since, tell_lines};
use super::shown;
use super::table::{Table, grouped, one_line};
use crate::args::{AuditArgs, TopArgs, TopBy};
use crate::exit::Failure;

/// Events asked for at a time.
const PAGE: &str = "1000";

/// Says what became of an instant of a job; fails if nothing explains it.
pub(crate) async fn why_slot(client: &Client, out: Out, job: &str, at: &str) -> Result<(), Failure> {
    let story: SlotStory = client.get(Path::of(&["jobs", job, "why"]).with("at", Some(at))).await?;
    out.show(&story, |story| tell_lines(&story.title, &story.lines, &story.hints))?;
    if story.is_hole { Err(Failure::Said) } else { Ok(()) }
}

/// Audits the ledger; fails if it finds something.
pub(crate) async fn audit(client: &Client, out: Out, args: &AuditArgs, now: UnixMs) -> Result<(), Failure> {
    let until = args.until.as_deref().map(|text| since("--until", text, now)).transpose()?;
    let path = Path::of(&["audit"])
        .with("since", Some(since("--since", &args.since, now)?))
        .with("until", until)
        .with("job", args.job.as_ref())
        .with("app", args.app.as_ref());
    let (mut findings, mut summary, mut broken) = (Vec::new(), None, None);
    client
        .lines(path, |line: AuditLine| {
            match line {
                AuditLine::Progress { .. } => {}
                AuditLine::Finding(finding) if out.is_json => findings.push(finding),
                AuditLine::Finding(finding) => print(&say_finding(&finding))?,
                AuditLine::Unreadable { job, message } => {
                    note(&format!("job {job} was not audited: {}\n", one_line(&message)));
                }
                AuditLine::Summary(found) => summary = Some(found),
                AuditLine::Broken(error) => broken = Some(error),
            }
            Ok(())
        })
        .await?;
    if let Some(error) = broken {
        return Err(Failure::Failed(error));
    }
    let summary: AuditSummary = summary.ok_or_else(|| client.cut_off("the audit's answer ended early"))?;
    let is_clean = summary.is_clean;
    if out.is_json {
        out.show(&serde_json::json!({"summary": summary, "findings": findings}), |_| String::new())?;
    } else {
        print(&say_summary(&summary))?;
    }
    if is_clean { Ok(()) } else { Err(Failure::Said) }
}

/// `hole  ping  12-01 02:00:00 +08:00…02:04:00 ×5`.
fn say_finding(finding: &AuditFinding) -> String {
    let slots = shown::slots(&finding.slot, finding.slot_last.as_deref(), finding.slots);
    let run = finding.run.as_ref().map(|run| format!("  {run}")).unwrap_or_default();
    format!("{:<10}  {}  {slots}{run}\n", finding.what, one_line(&finding.job_name))
}

fn say_summary(summary: &AuditSummary) -> String {
    let count = |number: u64, what: &str| format!("{} {what}", grouped(number));
    let mut facts = vec![
        count(summary.jobs, "jobs"),
        count(summary.slots, "slots covered"),
        count(summary.waiting, "waiting"),
        count(summary.holes, "holes"),
        count(summary.doubles, "doubles"),
        count(summary.unfounded, "rows without a slot"),
    ];
    if summary.unreadable > 0 {
        facts.push(count(summary.unreadable, "jobs not readable"));
    }
    if summary.unlisted > 0 {
        facts.push(count(summary.unlisted, "findings more than are listed"));
    }
    let cut = if summary.is_cut { " (older rows are gone)" } else { "" };
    format!("{} to {}{cut}: {}\n", shown::time(&summary.since), shown::time(&summary.until), facts.join(", "))
}

/// Names the jobs that fail most, start latest or run longest.
pub(crate) async fn top(client: &Client, out: Out, args: &TopArgs, now: UnixMs) -> Result<(), Failure> {
    let by = match args.by {
        TopBy::Failing => "failing",
        TopBy::Late => "late",
        TopBy::Slow => "slow",
    };
    let path = Path::of(&["top"])
        .with("by", Some(by))
        .with("since", Some(since("--since", &args.since, now)?))
        .with("app", args.app.as_ref())
        .with("limit", Some(args.limit.to_string()));
    let top: Top = client.get(path).await?;
    out.show(&top, |top| table(args.by, top))
}

fn table(by: TopBy, top: &Top) -> String {
    let spread = |spread: &Spread| match spread.count {
        0 => [String::new(), String::new(), String::new()],
        _ => [spread.p50_ms, spread.p99_ms, spread.max_ms].map(shown::duration),
    };
    let mut table = match by {
        TopBy::Failing => Table::new(&["JOB", "APP", "FAILED", "OF", "RATE", "LAST", "WHEN", "WHY", "SAID"]),
        TopBy::Late => Table::new(&["JOB", "APP", "RUNS", "P50", "P99", "MAX", "SKIPPED", "FAILED", "OF"]),
        TopBy::Slow => Table::new(&["JOB", "APP", "RUNS", "P50", "P99", "MAX", "LATE P99", "FAILED", "OF"]),
    };
    for job in &top.items {
        let [p50, p99, max] = spread(if by == TopBy::Late { &job.late } else { &job.took });
        let (name, app) = (job.job_name.clone(), job.app.clone());
        let (failed, of) = (grouped(job.failures), grouped(job.runs));
        match by {
            TopBy::Failing => {
                let [last, when, why, said] = last_failure(job);
                let rate = format!("{}.{}%", job.failures_per_mille / 10, job.failures_per_mille % 10);
                table.row([name, app, failed, of, rate, last, when, why, said]);
            }
            TopBy::Late => {
                table.row([name, app, grouped(job.late.count), p50, p99, max, grouped(job.skipped), failed, of]);
            }
            TopBy::Slow => {
                let [_, late, _] = spread(&job.late);
                table.row([name, app, grouped(job.took.count), p50, p99, max, late, failed, of]);
            }
        }
    }
    let cut = if top.is_cut { ", no further back: there were more than one answer counts" } else { "" };
    let runs = format!("{} runs since {}{cut}\n", grouped(top.runs), shown::time(&top.since));
    if table.is_empty() { format!("no job to name; {runs}") } else { format!("{}{runs}", table.text()) }
}

fn last_failure(job: &TopJob) -> [String; 4] {
    match &job.last_failure {
        Some(last) => [
            last.run.clone(),
            shown::time(&last.at),
            last.why.clone().unwrap_or_else(|| last.state.clone()),
            last.message.clone().unwrap_or_default().chars().take(60).collect(),
        ],
        None => Default::default(),
    }
}

/// Lists the versions and the changes of state of a job, newest first.
pub(crate) async fn history(client: &Client, out: Out, job: &str) -> Result<(), Failure> {
    let mut events: Vec<JobEvent> = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let path = Path::of(&["jobs", job, "history"]).with("limit", Some(PAGE)).with("before", before.as_ref());
        let page: Page<JobEvent> = client.get(path).await?;
        events.extend(page.items);
        match page.next {
            Some(next) if before.as_ref() != Some(&next) => before = Some(next),
            _ => break,
        }
    }
    out.show(&Page { items: events, next: None }, |page| {
        let mut table = Table::new(&["WHEN", "V", "WHO", "WHAT", "CHANGED"]);
        for event in &page.items {
            let what = match (event.kind.as_str(), event.version) {
                ("version", 1) => "made".to_owned(),
                ("version", _) => "edited".to_owned(),
                _ => event.state.clone(),
            };
            let changes: Vec<String> = event.changes.iter().map(say_change).collect();
            let detail = event.reason.clone().unwrap_or_else(|| changes.join(", "));
            table.row([shown::time(&event.at), event.version.to_string(), event.by.clone(), what, detail]);
        }
        table.text()
    })
}

/// `retry.max 0 → 2`; long values are cut.
fn say_change(change: &Change) -> String {
    let short = |value: &Option<String>| match value {
        Some(value) if value.chars().count() > 40 => format!("{}…", value.chars().take(40).collect::<String>()),
        Some(value) => value.clone(),
        None => "-".to_owned(),
    };
    format!("{} {} → {}", change.key, short(&change.from), short(&change.to))
}

/// Says what two versions of a job differ in: the last two, one and the current, or any.
pub(crate) async fn diff(
    client: &Client,
    out: Out,
    job: &str,
    from: Option<u32>,
    to: Option<u32>,
) -> Result<(), Failure> {
    let path = Path::of(&["jobs", job, "diff"])
        .with("from", from.map(|from| from.to_string()))
        .with("to", to.map(|to| to.to_string()));
    let diff: JobDiff = client.get(path).await?;
    out.show(&diff, |diff| {
        let by = one_line(&diff.by);
        let mut text = format!("{} v{} → v{}, {} by {by}\n", diff.job_name, diff.from, diff.to, shown::time(&diff.at));
        let mut table = Table::new(&["KEY", "WAS", "IS"]);
        for change in &diff.changes {
            let shown = |value: &Option<String>| value.clone().unwrap_or_default();
            table.row([change.key.clone(), shown(&change.from), shown(&change.to)]);
        }
        text.push_str(if table.is_empty() { "no difference\n" } else { "" });
        text + &if table.is_empty() { String::new() } else { table.text() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_and_their_sum_are_one_line_each() {
        let finding = AuditFinding {
            job: 1,
            job_name: "ping".to_owned(),
            what: "hole".to_owned(),
            slot: "2026-12-01T02:00:00+08:00".to_owned(),
            slot_last: Some("2026-12-01T02:04:00+08:00".to_owned()),
            slots: 5,
            run: None,
        };
        assert_eq!(say_finding(&finding), "hole        ping  12-01 02:00:00…02:04:00 +08:00 ×5\n");
        let double = AuditFinding { what: "double".to_owned(), slot_last: None, run: Some("r9".to_owned()), ..finding };
        assert_eq!(say_finding(&double), "double      ping  12-01 02:00:00 +08:00  r9\n");
        let summary = AuditSummary {
            since: "2026-12-01T00:00:00Z".to_owned(),
            until: "2026-12-02T00:00:00Z".to_owned(),
            is_cut: true,
            jobs: 1_000,
            rows: 5,
            slots: 86_400_000,
            holes: 5,
            doubles: 0,
            unfounded: 0,
            waiting: 2,
            unreadable: 0,
            unlisted: 0,
            is_clean: false,
        };
        let expected = "12-01 00:00:00 +00:00 to 12-02 00:00:00 +00:00 (older rows are gone): 1,000 jobs, 86,400,000 slots \
            covered, 2 waiting, 5 holes, 0 doubles, 0 rows without a slot\n";
        assert_eq!(say_summary(&summary), expected);
    }
}
