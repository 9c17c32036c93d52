//! `rota backfill`: ranges of the past that run on demand.

use rota_wire::rest::{Backfill, BackfillAsk, BackfillCancel, BackfillPlan, Page};

use super::client::{Client, Path};
use super::out::Out;
use super::shown;
use super::table::{Table, grouped, one_line};
use crate::args::{BackfillArgs, BackfillCommand};
use crate::exit::Failure;

pub(crate) async fn run(client: &Client, out: Out, command: BackfillCommand) -> Result<(), Failure> {
    match command {
        BackfillCommand::Add(args) => add(client, out, args).await,
        BackfillCommand::List { job, open, limit } => list(client, out, job, open, limit).await,
        BackfillCommand::Show { backfill } => {
            let found: Backfill = client.get(Path::of(&["backfills", &backfill])).await?;
            out.show(&found, tell)
        }
        BackfillCommand::Cancel { backfill, kill } => {
            let path = Path::of(&["backfills", &backfill, "cancel"]);
            let found: Backfill = client.post(path, &BackfillCancel { kill }).await?;
            out.show(&found, |found| {
                let open = if kill { "its open runs are being killed" } else { "its open runs go on" };
                format!("{} makes no more runs; {open}\n{}", found.backfill, tell(found))
            })
        }
    }
}

async fn add(client: &Client, out: Out, args: BackfillArgs) -> Result<(), Failure> {
    let BackfillArgs { job, from, to, pace, parallel, reason, dry_run, request_id } = args;
    let ask = BackfillAsk { from, to, pace, parallel, reason, request_id };
    if dry_run {
        let plan: BackfillPlan = client.post(Path::of(&["jobs", &job, "backfills", "preview"]), &ask).await?;
        return out.show(&plan, say_plan);
    }
    let made: Backfill = client.post(Path::of(&["jobs", &job, "backfills"]), &ask).await?;
    out.show(&made, |made| {
        let again = if made.is_repeated { "an earlier request asked for it\n" } else { "" };
        let hints =
            format!("rota backfill show {0} | rota runs --backfill {0} | rota backfill cancel {0}", made.backfill);
        format!("{again}{}try  {hints}\n", tell(made))
    })
}

async fn list(client: &Client, out: Out, job: Option<String>, open: bool, limit: u32) -> Result<(), Failure> {
    let path = Path::of(&["backfills"])
        .with("job", job.as_ref())
        .with("open", open.then_some("true"))
        .with("limit", Some(limit.to_string()));
    let page: Page<Backfill> = client.get(path).await?;
    out.show(&page, |page| {
        let mut table = Table::new(&["BACKFILL", "JOB", "V", "FROM", "TO", "STATE", "MADE", "PACE", "OPEN", "WAITS"]);
        for backfill in &page.items {
            let waits = backfill.waits.clone().or_else(|| backfill.why.clone()).unwrap_or_default();
            table.row([
                backfill.backfill.clone(),
                backfill.job_name.clone(),
                backfill.version.to_string(),
                shown::time(&backfill.from),
                shown::time(&backfill.to),
                backfill.state.clone(),
                format!("{}/{}", grouped(backfill.made), grouped(backfill.total)),
                backfill.pace.clone(),
                backfill.open.map(grouped).unwrap_or_default(),
                waits,
            ]);
        }
        let more = if page.next.is_some() { "there are more, see --limit\n" } else { "" };
        if table.is_empty() { "no backfills\n".to_owned() } else { format!("{}{more}", table.text()) }
    })
}

/// What a backfill is, and how far, in a few lines.
fn tell(backfill: &Backfill) -> String {
    let name = one_line(&backfill.job_name);
    let mut text = format!("{}  {name} v{}, {}", backfill.backfill, backfill.version, backfill.state);
    text.push_str(&match (&backfill.why, &backfill.ended_at, &backfill.ended_by) {
        (Some(why), Some(at), Some(by)) => format!(" ({why}) at {} by {}\n", shown::time(at), one_line(by)),
        (_, Some(at), _) => format!(" at {}\n", shown::time(at)),
        (_, None, _) => "\n".to_owned(),
    });
    let mut line = |about: &str, what: String| text.push_str(&format!("{about:<8}  {what}\n"));
    line("range", format!("{} to {}", shown::time(&backfill.from), shown::time(&backfill.to)));
    let next = backfill.next.as_ref().map(|next| format!(", next {}", shown::time(next))).unwrap_or_default();
    let open = backfill.open.map(|open| format!(", {} open", grouped(open))).unwrap_or_default();
    line("slots", format!("{} of {} have a run{open}{next}", grouped(backfill.made), grouped(backfill.total)));
    let parallel = backfill.parallel.map(|most| format!(", at most {} at once", grouped(most.into())));
    let left = backfill.left_ms.filter(|ms| *ms > 0).map(|ms| format!(", at least {} to go", duration(ms)));
    line("pace", format!("{}{}{}", backfill.pace, parallel.unwrap_or_default(), left.unwrap_or_default()));
    if let (Some(waits), Some(why)) = (&backfill.waits, &backfill.waits_text) {
        line("waits", format!("{waits} ({why})"));
    }
    let reason = backfill.reason.as_ref().map(|reason| format!(": {}", one_line(reason))).unwrap_or_default();
    line("asked", format!("{} by {}{reason}", shown::time(&backfill.at), one_line(&backfill.by)));
    text
}

fn say_plan(plan: &BackfillPlan) -> String {
    let (slots, name) = (grouped(plan.total), one_line(&plan.job_name));
    let range = format!("{} to {}", shown::time(&plan.from), shown::time(&plan.to));
    let mut text = format!("{name} v{}, {range}: {slots} slots\n", plan.version);
    let shown_count = (plan.first.len() + plan.last.len()) as u64;
    for slot in &plan.first {
        text.push_str(&format!("  {}\n", shown::time(slot)));
    }
    if plan.total > shown_count {
        text.push_str(&format!("  … {} more\n", grouped(plan.total - shown_count)));
    }
    for slot in &plan.last {
        text.push_str(&format!("  {}\n", shown::time(slot)));
    }
    let parallel = plan.parallel.map(|most| format!(", at most {} at once", grouped(most.into()))).unwrap_or_default();
    text.push_str(&format!("at {}{parallel} it takes at least {}\n", plan.pace, duration(plan.takes_ms)));
    for note in &plan.notes {
        text.push_str(&format!("note  {}\n", one_line(note)));
    }
    text + "nothing was changed\n"
}

fn duration(ms: u64) -> String {
    shown::duration(i64::try_from(ms).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_shows_its_ends_and_what_is_between() {
        let day = |day: u32| format!("2026-11-{day:02}T02:00:00+08:00");
        let plan = BackfillPlan {
            job: 1,
            job_name: "settle".to_owned(),
            version: 3,
            from: "2026-11-01T00:00:00+08:00".to_owned(),
            to: "2026-12-01T00:00:00+08:00".to_owned(),
            total: 30,
            first: vec![day(1), day(2)],
            last: vec![day(30)],
            pace: "2/m".to_owned(),
            parallel: Some(1),
            takes_ms: 29 * 30_000,
            notes: vec!["etl is frozen".to_owned()],
        };
        let expected = "\
settle v3, 11-01 00:00:00 +08:00 to 12-01 00:00:00 +08:00: 30 slots
  11-01 02:00:00 +08:00
  11-02 02:00:00 +08:00
  … 27 more
  11-30 02:00:00 +08:00
at 2/m, at most 1 at once it takes at least 14m30
note  etl is frozen
nothing was changed
";
        assert_eq!(say_plan(&plan), expected);
    }

    #[test]
    fn a_backfill_is_told_in_a_few_lines() {
        let running: Backfill = serde_json::from_value(serde_json::json!({
            "backfill": "b91", "id": 91, "job": 1, "job_name": "settle", "app": "pay", "version": 3,
            "from": "2026-11-01T00:00:00+08:00", "to": "2026-12-01T00:00:00+08:00", "state": "running",
            "made": 12, "total": 30, "next": "2026-11-13T02:00:00+08:00", "pace": "2/m", "open": 1, "waits": "pace",
            "waits_text": "its backfill makes its runs at a pace", "left_ms": 510_000, "at": "2026-12-01T09:00:00+08:00",
            "by": "admin", "reason": "the price was wrong"
        }))
        .unwrap();
        let expected = "\
b91  settle v3, running
range     11-01 00:00:00 +08:00 to 12-01 00:00:00 +08:00
slots     12 of 30 have a run, 1 open, next 11-13 02:00:00 +08:00
pace      2/m, at least 8m30 to go
waits     pace (its backfill makes its runs at a pace)
asked     12-01 09:00:00 +08:00 by admin: the price was wrong
";
        assert_eq!(tell(&running), expected);
        let ended = Backfill {
            state: "cancelled".to_owned(),
            why: Some("cancelled_by_user".to_owned()),
            ended_at: Some("2026-12-01T09:10:00+08:00".to_owned()),
            ended_by: Some("admin".to_owned()),
            ..running
        };
        let first = tell(&ended).lines().next().map(str::to_owned);
        let expected = "b91  settle v3, cancelled (cancelled_by_user) at 12-01 09:10:00 +08:00 by admin";
        assert_eq!(first.as_deref(), Some(expected));
    }
}
