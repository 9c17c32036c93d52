//! `rota job`.

use std::collections::BTreeMap;

use rota_wire::rest::{Held, Http, Job, JobNow, JobSaved, JobSpec, Page, Pause, Reason, Retry, Timeout};

use super::client::{Client, Path};
use super::narrow;
use super::out::Out;
use super::overlap;
use super::past;
use super::route;
use super::shown;
use super::split;
use super::table::{Table, one_line};
use super::upstream;
use crate::args::{JobCommand, JobFields};
use crate::exit::Failure;

pub(crate) async fn run(client: &Client, out: Out, namespace: &str, command: JobCommand) -> Result<(), Failure> {
    match command {
        JobCommand::Add { name, fields, paused } => {
            let mut spec = JobSpec { name, namespace: namespace.to_owned(), ..JobSpec::default() };
            spec.paused = paused.then_some(true);
            apply(&mut spec, *fields)?;
            let saved: JobSaved = client.post(Path::of(&["jobs"]), &spec).await?;
            out.show(&saved, say_saved)
        }
        JobCommand::Edit { job, fields, manual } => {
            let (found, tag): (Job, _) = client.get_tagged(Path::of(&["jobs", &job])).await?;
            let mut spec = found.spec;
            if manual {
                clear_schedule(&mut spec);
            }
            apply(&mut spec, *fields)?;
            let saved: JobSaved = client.put_if(Path::of(&["jobs", &job]), &spec, tag).await?;
            out.show(&saved, say_saved)
        }
        JobCommand::List { app } => {
            let jobs = client.all(Path::of(&["jobs"]).with("app", app), usize::MAX).await?;
            out.show(&Page { items: jobs, next: None }, |page| table(&page.items))
        }
        JobCommand::Show { job } => {
            let found: Job = client.get(Path::of(&["jobs", &job])).await?;
            out.show(&found, describe)
        }
        JobCommand::History { job } => past::history(client, out, &job).await,
        JobCommand::Diff { job, from, to } => past::diff(client, out, &job, from, to).await,
        JobCommand::Pause { job, reason } => {
            let now: JobNow = client.post(Path::of(&["jobs", &job, "pause"]), &Reason { reason }).await?;
            out.show(&now, say_now)
        }
        JobCommand::Resume { job, reason } => {
            let now: JobNow = client.post(Path::of(&["jobs", &job, "resume"]), &Reason { reason }).await?;
            out.show(&now, say_now)
        }
        JobCommand::Rm { job } => {
            let now: JobNow = client.delete(Path::of(&["jobs", &job])).await?;
            out.show(&now, say_now)
        }
    }
}

/// Lays what was named on the command line over a specification.
fn apply(spec: &mut JobSpec, fields: JobFields) -> Result<(), Failure> {
    if fields.cron.is_some() || fields.every.is_some() || fields.delay.is_some() || fields.at.is_some() {
        clear_schedule(spec);
    }
    set(&mut spec.app, fields.app.clone());
    set(&mut spec.cron, fields.cron.clone());
    set(&mut spec.every, fields.every.clone());
    set(&mut spec.delay, fields.delay.clone());
    set(&mut spec.at, fields.at.clone());
    narrow::apply(spec, &fields);
    overlap::apply(spec, &fields);
    narrow::lay_list(&mut spec.alerts, &fields.alerts);
    split::apply(spec, &fields);
    upstream::apply(spec, &fields.after, &fields.after_any)?;
    set(&mut spec.timezone, fields.timezone);
    set(&mut spec.delivery, fields.delivery);
    if fields.handler.is_some() {
        spec.http = None;
    }
    set(&mut spec.handler, fields.handler);
    set(&mut spec.param, fields.param);
    if let Some(url) = fields.url {
        (spec.handler, spec.param) = (None, None);
        let http = request(url, fields.method.as_deref(), fields.body, &fields.headers)?;
        spec.http = Some(Http { bearer: fields.bearer, ..http });
    }
    if let Some(max) = fields.retries {
        let retry = spec.retry.get_or_insert_with(Retry::default);
        retry.max = max;
        set(&mut retry.first, fields.retry_first);
        set(&mut retry.backoff, fields.retry_backoff);
        set(&mut retry.cap, fields.retry_cap);
        set(&mut retry.jitter, fields.retry_jitter.then_some(true));
        set(&mut retry.elsewhere, fields.retry_elsewhere.then_some(true));
        set(&mut retry.when, (!fields.retry_when.is_empty()).then_some(fields.retry_when));
    }
    if fields.timeout.is_some() || fields.start_timeout.is_some() || fields.run_timeout.is_some() {
        let timeout = spec.timeout.get_or_insert_with(Timeout::default);
        set(&mut timeout.attempt, fields.timeout);
        set(&mut timeout.start, fields.start_timeout);
        set(&mut timeout.run, fields.run_timeout);
    }
    route::apply(spec, fields.strategy, fields.labels, &fields.route)?;
    Ok(())
}

fn set<T>(place: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *place = value;
    }
}

fn clear_schedule(spec: &mut JobSpec) {
    (spec.cron, spec.every, spec.delay, spec.at) = (None, None, None, None);
}

fn request(url: String, method: Option<&str>, body: Option<String>, headers: &[String]) -> Result<Http, Failure> {
    let mut parsed = BTreeMap::new();
    for header in headers {
        let (name, value) = header.split_once(':').ok_or_else(|| {
            Failure::usage(format!("`{header}` is no header"), Some("for example: Accept:text/plain".to_owned()))
        })?;
        parsed.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    let mut http = Http { headers: parsed, body, ..Http::default() };
    let place = match method.unwrap_or("GET").to_uppercase().as_str() {
        "POST" => &mut http.post,
        "PUT" => &mut http.put,
        "PATCH" => &mut http.patch,
        "DELETE" => &mut http.delete,
        _ => &mut http.get,
    };
    *place = Some(url);
    Ok(http)
}

fn say_saved(saved: &JobSaved) -> String {
    let mut text =
        format!("{} v{}, app {}, {}: {}\n", saved.name, saved.version, saved.app, saved.state, saved.schedule);
    if !saved.next_slots.is_empty() {
        let slots: Vec<String> = saved.next_slots.iter().map(|slot| shown::time(slot)).collect();
        text.push_str(&format!("next  {}\n", slots.join(", ")));
    }
    text.extend(saved.warnings.iter().map(|warning| format!("note  {warning}\n")));
    text.push_str(&format!("try   rota run {0} | rota runs --job {0}\n", saved.name));
    text
}

fn say_now(now: &JobNow) -> String {
    let next = now.next.as_ref().map(|next| format!(", next {}", shown::time(next))).unwrap_or_default();
    format!("{} is {}{next}\n", now.name, now.state)
}

fn table(jobs: &[Job]) -> String {
    let mut table = Table::new(&["JOB", "APP", "STATE", "CALLS", "SCHEDULE", "NEXT", "V"]);
    for job in jobs {
        table.row([
            job.spec.name.clone(),
            job.spec.app.clone().unwrap_or_default(),
            match &job.held {
                Some(held) => format!("{}, held: {}", job.state, held.why),
                None => job.state.clone(),
            },
            calls(&job.spec),
            job.schedule.clone(),
            job.next_slots.first().map(|slot| shown::time(slot)).unwrap_or_default(),
            job.version.to_string(),
        ]);
    }
    table.text()
}

fn calls(spec: &JobSpec) -> String {
    match (&spec.handler, &spec.http) {
        (Some(handler), _) => handler.clone(),
        (None, Some(http)) => {
            let requests = [("GET", &http.get), ("POST", &http.post), ("PUT", &http.put), ("PATCH", &http.patch)];
            let found = requests.into_iter().chain([("DELETE", &http.delete)]);
            found.filter_map(|(method, url)| url.as_ref().map(|url| format!("{method} {url}"))).collect()
        }
        (None, None) => String::new(),
    }
}

/// Everything of a job, one fact a line.
fn describe(job: &Job) -> String {
    let spec = &job.spec;
    let held = |held: &Held| {
        let (slot, since) = (shown::time(&held.slot), shown::time(&held.since));
        format!("slot {slot} waits since {since}: {} ({})", held.why, held.text)
    };
    let paused = |paused: &Pause| {
        let reason = paused.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{} since {} by {}{reason}", job.state, shown::time(&paused.at), paused.by)
    };
    let mut facts: Vec<(&str, String)> = vec![
        ("job", format!("{} (id {}, v{})", spec.name, job.id, job.version)),
        ("state", job.pause.as_ref().map_or_else(|| job.state.clone(), paused)),
        ("app", spec.app.clone().unwrap_or_default()),
        ("schedule", job.schedule.clone()),
        ("timezone", spec.timezone.clone().unwrap_or_else(|| "UTC".to_owned())),
        ("finished", job.finished.clone().unwrap_or_default()),
        ("next", job.next_slots.iter().map(|slot| shown::time(slot)).collect::<Vec<_>>().join(", ")),
        ("held", job.held.as_ref().map(held).unwrap_or_default()),
        ("calls", calls(spec)),
        ("param", spec.param.clone().unwrap_or_default()),
        ("body", spec.http.as_ref().and_then(|http| http.body.clone()).unwrap_or_default()),
    ];
    facts.extend(split::facts(spec));
    facts.extend(narrow::facts(spec));
    facts.push(("after", spec.after.as_ref().map(upstream::told).unwrap_or_default()));
    facts.push(("before", job.dependents.join(", ")));
    if let Some(retry) = &spec.retry {
        facts.push(("retries", retries(retry)));
    }
    if let Some(timeout) = &spec.timeout {
        facts.push(("timeout", timeout.attempt.clone().unwrap_or_default()));
        facts.push(("start by", timeout.start.clone().unwrap_or_default()));
        facts.push(("whole run", timeout.run.clone().unwrap_or_default()));
    }
    if let Some(route) = &spec.route {
        facts.push(("strategy", route::fact(route)));
        facts.push(("labels", route.labels.clone().unwrap_or_default()));
    }
    facts.push(("overlap", spec.overlap.as_ref().map(overlap::fact).unwrap_or_default()));
    facts.push(("delivery", spec.delivery.clone().unwrap_or_default()));
    facts.push(("alerts", spec.alerts.join(", ")));
    facts.push(("changed", format!("{} by {}", shown::time(&job.at), job.by)));
    let kept = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
    kept.map(|(about, fact)| format!("{about:<9} {}\n", one_line(&fact))).collect()
}

fn retries(retry: &Retry) -> String {
    let mut words = retry.max.to_string();
    if let Some(first) = &retry.first {
        words.push_str(&format!(", {first} after an attempt's end"));
    }
    if let Some(backoff) = &retry.backoff {
        words.push_str(&format!(", {backoff}"));
    }
    if let Some(cap) = &retry.cap {
        words.push_str(&format!(", at most {cap}"));
    }
    if retry.jitter == Some(true) {
        words.push_str(", with jitter");
    }
    if retry.elsewhere == Some(true) {
        words.push_str(", elsewhere");
    }
    if let Some(when) = &retry.when {
        words.push_str(&format!(", when {}", when.join(" or ")));
    }
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Ask, Cli, Command, ShardCount};

    fn spec(line: &str) -> JobSpec {
        let words = ["rota", "job", "add", "a"].into_iter().chain(line.split_whitespace());
        let Command::Ask(Ask::Job(JobCommand::Add { name, fields, .. })) = Cli::try_parse_from(words).unwrap().command
        else {
            panic!("{line} is no `job add`");
        };
        let mut spec = JobSpec { name, ..JobSpec::default() };
        assert!(apply(&mut spec, *fields).is_ok(), "{line}");
        spec
    }

    fn check(line: &str, expected: serde_json::Value) {
        let mut json = serde_json::to_value(spec(line)).unwrap();
        json.as_object_mut().unwrap().retain(|key, _| key != "name" && key != "namespace");
        assert_eq!(json, expected, "{line}");
    }

    #[test]
    fn flags_become_a_specification() {
        use serde_json::json;
        check("--app e --handler h --every 5s", json!({"app": "e", "handler": "h", "every": "5s"}));
        check(
            "--url http://x/ --method post --body b --header A:b:c --header D:e",
            json!({"http": {"post": "http://x/", "body": "b", "headers": {"A": "b:c", "D": "e"}}}),
        );
        check("--url http://x/", json!({"http": {"get": "http://x/"}}));
        check("--url http://x/ --bearer {{secret.P}}", json!({"http": {"get": "http://x/", "bearer": "{{secret.P}}"}}));
        check(
            "--app e --handler h --retries 2 --retry-first 10s --timeout 1m --start-timeout 5m --shards 8",
            json!({"app": "e", "handler": "h", "retry": {"max": 2, "first": "10s"},
                   "timeout": {"attempt": "1m", "start": "5m"}, "shards": {"count": 8}}),
        );
        check(
            "--app e --handler h --strategy app_round_robin --labels disk=ssd --overlap skip --delivery at_most_once",
            json!({"app": "e", "handler": "h", "route": {"strategy": "APP_ROUND_ROBIN", "labels": "disk=ssd"},
                   "overlap": "skip", "delivery": "at_most_once"}),
        );
    }

    #[test]
    fn an_overlap_policy_is_laid_part_by_part() {
        use serde_json::json;
        check(
            "--app e --handler h --overlap queue --overlap-max 2 --overlap-queue 9 --overlap-key tenant",
            json!({"app": "e", "handler": "h",
                   "overlap": {"policy": "queue", "max": 2, "queue": 9, "key": "tenant"}}),
        );
        let before = "--app e --handler h --overlap queue --overlap-queue 9 --overlap-key tenant";
        let edited = |fields: JobFields| {
            let mut found = spec(before);
            assert!(apply(&mut found, fields).is_ok());
            serde_json::to_value(found).unwrap()["overlap"].clone()
        };
        let text = |text: &str| Some(text.to_owned());
        let fields = || JobFields::default();
        assert_eq!(edited(JobFields { overlap_max: Some(2), ..fields() })["max"], 2);
        let found = edited(JobFields { overlap: text("merge"), ..fields() });
        assert_eq!(found, json!({"policy": "merge", "key": "tenant"}));
        assert_eq!(edited(JobFields { overlap: text("allow"), ..fields() }), json!("allow"));
        let found = edited(JobFields { overlap_queue: Some(0), overlap_key: text("none"), ..fields() });
        assert_eq!(found, json!("queue"));
        assert_eq!(overlap::fact(spec(before).overlap.as_ref().unwrap()), "queue, at most 9 wait, by tenant");
    }

    #[test]
    fn a_misfire_policy_takes_what_it_has_no_use_for_away() {
        use serde_json::json;
        let before =
            "--app e --handler h --every 5s --misfire catch_up --misfire-within 1h --misfire-max 9 --misfire-pace 2/s";
        check(
            before,
            json!({"app": "e", "handler": "h", "every": "5s",
                   "misfire": {"policy": "catch_up", "within": "1h", "max": 9, "pace": "2/s"}}),
        );
        let edited = |fields: JobFields| {
            let mut found = spec(before);
            assert!(apply(&mut found, fields).is_ok());
            found.misfire.map(|misfire| serde_json::to_value(misfire).unwrap())
        };
        let policy = |word: &str| JobFields { misfire: Some(word.to_owned()), ..JobFields::default() };
        assert_eq!(edited(policy("fire_once")), Some(json!({"policy": "fire_once", "within": "1h"})));
        assert_eq!(edited(policy("skip")), Some(json!({"policy": "skip"})));
        let longer =
            JobFields { misfire_within: Some("none".to_owned()), misfire_max: Some(3), ..JobFields::default() };
        assert_eq!(edited(longer), Some(json!({"policy": "catch_up", "max": 3, "pace": "2/s"})));
        assert_eq!(edited(JobFields { at: Some("2027-01-01T00:00:00Z".to_owned()), ..JobFields::default() }), None);
    }

    #[test]
    fn an_edit_keeps_what_it_does_not_name() {
        let mut found = spec("--app e --handler h --cron @daily --retries 2 --retry-first 10s --timeout 1m");
        let fields = JobFields { every: Some("5s".to_owned()), retries: Some(3), ..JobFields::default() };
        assert!(apply(&mut found, fields).is_ok());
        assert_eq!((found.cron, found.every.as_deref()), (None, Some("5s")));
        assert_eq!(found.retry, Some(Retry { max: 3, first: Some("10s".to_owned()), ..Retry::default() }));
        assert_eq!((found.handler.as_deref(), found.timeout.unwrap().attempt.as_deref()), (Some("h"), Some("1m")));
    }

    #[test]
    fn what_narrows_a_schedule_is_laid_and_taken_away() {
        use serde_json::json;
        check(
            "--app e --handler h --cron * --dst-gap skip --exclude sat,sun --exclude 12-25 --include 2026-10-10 \
             --active-from 2026-01-01 --active-until 2026-12-31 --jitter 30s",
            json!({"app": "e", "handler": "h", "cron": "*", "dst": {"gap": "skip"}, "jitter": "30s",
                   "calendar": {"exclude": ["sat", "sun", "12-25"], "include": ["2026-10-10"]},
                   "active": {"from": "2026-01-01", "until": "2026-12-31"}}),
        );
        check(
            "--app e --handler h --cron * --dst quartz",
            json!({"app": "e", "handler": "h", "cron": "*", "dst": "quartz"}),
        );
        let before = "--app e --handler h --cron * --dst-gap skip --exclude sat --jitter 30s --active-from 2026-01-01";
        let edited = |fields: JobFields| {
            let mut found = spec(before);
            assert!(apply(&mut found, fields).is_ok());
            serde_json::to_value(found).unwrap()
        };
        let text = |text: &str| Some(text.to_owned());
        let found = edited(JobFields { dst_overlap: text("both"), jitter: text("none"), ..JobFields::default() });
        assert_eq!((&found["dst"], found.get("jitter")), (&json!({"gap": "skip", "overlap": "both"}), None));
        let found = edited(JobFields { exclude: vec!["none".to_owned()], ..JobFields::default() });
        assert_eq!(found["calendar"], json!({}));
        // Only cron meets the clock, and what runs once has nothing to narrow.
        let found = edited(JobFields { every: text("5s"), ..JobFields::default() });
        assert_eq!((found.get("dst"), &found["jitter"]), (None, &json!("30s")));
        let found = edited(JobFields { at: text("2026-12-01T00:00:00Z"), ..JobFields::default() });
        assert_eq!((found.get("calendar"), found.get("active"), found.get("jitter")), (None, None, None));
    }

    #[test]
    fn how_runs_are_split_is_laid_and_taken_away() {
        use serde_json::json;
        check(
            "--app e --handler h --shards broadcast",
            json!({"app": "e", "handler": "h", "shards": {"broadcast": true}}),
        );
        let line = "--app e --handler h --shard-params a,b --shard-success 60% --on-loss reassign \
                    --retries 1 --retry-elsewhere";
        check(
            line,
            json!({"app": "e", "handler": "h", "retry": {"max": 1, "elsewhere": true},
                   "shards": {"params": ["a", "b"], "success": {"quorum": "60%"}, "on_loss": "reassign"}}),
        );
        let edited = |fields: JobFields| {
            let mut found = spec(line);
            assert!(apply(&mut found, fields).is_ok());
            serde_json::to_value(found.shards).unwrap()
        };
        let text = |text: &str| Some(text.to_owned());
        let found = edited(JobFields { shard_success: text("1"), on_loss: text("none"), ..JobFields::default() });
        assert_eq!(found, json!({"params": ["a", "b"], "success": {"quorum": 1}}));
        let found = edited(JobFields { shards: Some(ShardCount::Broadcast), ..JobFields::default() });
        assert_eq!(found, json!({"broadcast": true, "success": {"quorum": "60%"}, "on_loss": "reassign"}));
        let all = JobFields {
            shard_params: vec!["none".to_owned()],
            shard_success: text("all"),
            on_loss: text("none"),
            ..JobFields::default()
        };
        assert_eq!(edited(all), json!(null));
    }

    #[test]
    fn a_job_that_calls_a_url_no_longer_calls_a_handler() {
        let mut found = spec("--app e --handler h --param p");
        let fields = JobFields { url: Some("http://x/".to_owned()), ..JobFields::default() };
        assert!(apply(&mut found, fields).is_ok());
        assert_eq!((&found.handler, &found.param), (&None, &None));
        assert_eq!(calls(&found), "GET http://x/");
    }

    #[test]
    fn a_header_needs_a_colon() {
        assert!(request("http://x/".to_owned(), None, None, &["Accept".to_owned()]).is_err());
    }
}
