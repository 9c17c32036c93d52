//! A job as users write it, to and from the specification that the core keeps.
//!
//! Here are only the mistakes that the core cannot see any more: which key was given, in which unit. What the
//! core's own `compile` finds is renamed to the key that the user wrote.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use rota_core::batch::RunState;
use rota_core::id::AppId;
use rota_core::id::{JobId, Version};
use rota_core::job::{Delivery, Invalid, Job, JobState, Overlap, Retry, Spec, Target, Timeout, When, check_name};
use rota_core::limits;
use rota_core::overlap::Mode;
use rota_core::retry::{self, Backoff};
use rota_core::template::Template;
use rota_core::time::UnixMs;
use rota_core::worker::App;
use rota_cron::{Dialect, PERIOD_MIN_MS};
use rota_wire::rest;

use crate::code::Code;
use crate::duration;
use crate::misfire;
use crate::nearest::did_you_mean;
use crate::refusal::Refusal;
use crate::route;
use crate::shards;
use crate::upstream;
use crate::when;

/// What stands for a header's value where it is not shown.
const HIDDEN: &str = "***";
/// The header that `bearer` stands for, and what its value begins with.
const BEARER: (&str, &str) = ("Authorization", "Bearer ");
/// The headers of a request that are not the user's to set.
const HEADERS_OF_ROTA: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "idempotency-key"];

/// The app that a job names, or the one that holds its namespace's URL jobs.
pub(crate) fn app_of(job: &rest::JobSpec) -> Result<&str, Refusal> {
    check_name("namespace", &job.namespace)?;
    match (&job.app, &job.http, &job.handler) {
        (Some(app), _, Some(_)) if app == App::URL => {
            Err(Refusal::invalid("app", "`@url` has no workers").hint("name the app whose workers offer the handler"))
        }
        (Some(app), _, _) => Ok(app),
        (None, Some(_), None) => Ok(App::URL),
        (None, _, _) => Err(Refusal::invalid("app", "a job with a handler needs an app")
            .hint("name the app whose workers offer the handler; `rota app list` shows them")),
    }
}

/// Refuses a name that the routes of the API need for themselves.
pub(crate) fn check_new_name(name: &str) -> Result<(), Refusal> {
    if ["batch", "find"].contains(&name) {
        return Err(Refusal::invalid("name", format!("`/jobs/{name}` is a place of the API"))
            .hint(format!("add to it, for example {name}-job")));
    }
    Ok(())
}

/// Reads what a user wrote. What is well formed and yet cannot be is found by [`compile`].
pub(crate) fn read(job: &rest::JobSpec, server_zone: &str) -> Result<Spec, Refusal> {
    let timeout = job.timeout.clone().unwrap_or_default();
    let duration = |field: &str, text: &Option<String>| text.as_deref().map(|t| duration::parse(field, t)).transpose();
    let retry = job.retry.clone().unwrap_or_default();
    let (shards, sharding) = shards::read(job.shards.as_ref())?;
    let schedule = read_when(job)?;
    let after = upstream::read(job.after.as_ref(), &schedule)?;
    Ok(Spec {
        schedule,
        zone: job.timezone.clone().unwrap_or_else(|| server_zone.to_owned()),
        target: read_target(job)?,
        route: route::read(job.route.as_ref())?,
        overlap: read_overlap(job.overlap.as_ref())?,
        retry: read_retry(&retry)?,
        timeout: Timeout {
            start_ms: duration("timeout.start", &timeout.start)?,
            attempt_ms: duration("timeout.attempt", &timeout.attempt)?,
            run_ms: duration("timeout.run", &timeout.run)?,
        },
        shards,
        sharding,
        delivery: word("delivery", job.delivery.as_deref(), &DELIVERIES)?,
        dst: when::read_dst(job.dst.as_ref())?,
        calendar: when::read_calendar(job.calendar.as_ref()),
        active: when::read_active(job.active.as_ref()),
        jitter_ms: duration("jitter", &job.jitter)?.unwrap_or(0),
        misfire: misfire::read(job.misfire.as_ref())?,
        alerts: job.alerts.clone(),
        after,
    })
}

fn read_retry(retry: &rest::Retry) -> Result<Retry, Refusal> {
    let duration = |field: &str, text: &Option<String>| text.as_deref().map(|t| duration::parse(field, t)).transpose();
    Ok(Retry {
        max: retry.max,
        delay_ms: duration("retry.first", &retry.first)?.unwrap_or(0),
        backoff: word("retry.backoff", retry.backoff.as_deref(), &BACKOFFS)?.unwrap_or_default(),
        cap_ms: duration("retry.cap", &retry.cap)?,
        jitter: retry.jitter.unwrap_or(false),
        when: retry.when.as_deref().map(read_ends).transpose()?.unwrap_or_default(),
        elsewhere: retry.elsewhere.unwrap_or(false),
    })
}

fn read_ends(words: &[String]) -> Result<retry::When, Refusal> {
    let mut when = retry::When { failed: false, timeout: false, lost: false };
    for end in words {
        match word("retry.when", Some(end), &ENDS)? {
            Some(RunState::Timeout) => when.timeout = true,
            Some(RunState::Lost) => when.lost = true,
            Some(_) | None => when.failed = true,
        }
    }
    Ok(when)
}

fn read_overlap(overlap: Option<&rest::Overlap>) -> Result<Overlap, Refusal> {
    Ok(match overlap {
        None => Overlap::ALLOW,
        Some(rest::Overlap::Word(text)) => Overlap::of(word("overlap", Some(text), &OVERLAPS)?.unwrap_or_default()),
        Some(rest::Overlap::Rule(rule)) => Overlap {
            mode: word("overlap.policy", Some(&rule.policy), &OVERLAPS)?.unwrap_or_default(),
            max: rule.max,
            queue: rule.queue,
            key: rule.key.clone(),
        },
    })
}

/// The short form, if that says it all; nothing for the default.
fn write_overlap(overlap: &Overlap) -> Option<rest::Overlap> {
    let Overlap { mode, max, queue, key } = overlap.clone();
    let policy = word_of(&OVERLAPS, mode);
    if *overlap == Overlap::of(mode) {
        return (mode != Mode::Allow).then_some(rest::Overlap::Word(policy));
    }
    Some(rest::Overlap::Rule(rest::OverlapRule { policy, max, queue, key }))
}

fn write_retry(retry: Retry) -> rest::Retry {
    let ends = ENDS.iter().filter(|(_, state)| retry.when.includes(*state)).map(|(word, _)| (*word).to_owned());
    rest::Retry {
        max: retry.max,
        first: (retry.delay_ms > 0).then(|| duration::print(retry.delay_ms)),
        backoff: (retry.backoff != Backoff::Fixed).then(|| word_of(&BACKOFFS, retry.backoff)),
        cap: retry.cap_ms.map(duration::print),
        jitter: retry.jitter.then_some(true),
        when: (retry.when != retry::When::default()).then(|| ends.collect()),
        elsewhere: retry.elsewhere.then_some(true),
    }
}

const BACKOFFS: [(&str, Backoff); 2] = [("fixed", Backoff::Fixed), ("exponential", Backoff::Exponential)];
const ENDS: [(&str, RunState); 3] =
    [("failed", RunState::Failed), ("timeout", RunState::Timeout), ("lost", RunState::Lost)];
const OVERLAPS: [(&str, Mode); 6] = [
    ("allow", Mode::Allow),
    ("skip", Mode::Skip),
    ("queue", Mode::Queue),
    ("cancel_running", Mode::CancelRunning),
    ("cancel_and_wait", Mode::CancelAndWait),
    ("merge", Mode::Merge),
];
const DELIVERIES: [(&str, Delivery); 2] =
    [("at_least_once", Delivery::AtLeastOnce), ("at_most_once", Delivery::AtMostOnce)];

/// The value of one of a few words.
pub(crate) fn word<T: Copy>(field: &str, text: Option<&str>, known: &[(&str, T)]) -> Result<Option<T>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    if let Some((_, value)) = known.iter().find(|(word, _)| *word == text) {
        return Ok(Some(*value));
    }
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    let shown: String = text.chars().take(40).collect();
    let hint = did_you_mean(text, words.iter().copied()).unwrap_or_else(|| format!("one of {}", words.join(", ")));
    Err(Refusal::invalid(field, format!("`{shown}` is not known here")).hint(hint))
}

fn read_when(job: &rest::JobSpec) -> Result<When, Refusal> {
    let given = [("cron", &job.cron), ("every", &job.every), ("delay", &job.delay), ("at", &job.at)];
    let given: Vec<(&str, &str)> =
        given.into_iter().filter_map(|(key, text)| text.as_deref().map(|text| (key, text))).collect();
    match given[..] {
        [] => Ok(When::Manual),
        [("cron", expr)] => Ok(When::Cron(expr.to_owned())),
        [("every", text)] => period("every", text).map(When::EveryMs),
        [("delay", text)] => period("delay", text).map(When::DelayMs),
        [(_, text)] => UnixMs::parse_rfc3339(text.trim()).map(|at| When::OnceMs(at.0)).map_err(|_| {
            let shown: String = text.chars().take(40).collect();
            Refusal::invalid("at", format!("`{shown}` is not an instant"))
                .hint("an instant has its offset: 2026-12-01T02:00:00+08:00")
        }),
        [(first, _), (second, _), ..] => Err(Refusal::invalid(second, format!("`{first}` is given too"))
            .hint("a job has one of cron, every, delay and at, or none of them to run only when asked to")),
    }
}

/// A duration that slots may lie apart.
fn period(field: &'static str, text: &str) -> Result<u64, Refusal> {
    let ms = duration::parse(field, text)?;
    if ms < PERIOD_MIN_MS {
        let message = format!("`{}` is shorter than a second", text.trim());
        return Err(Refusal::invalid(field, message).maybe_hint(usual(field)));
    }
    Ok(ms)
}

fn read_target(job: &rest::JobSpec) -> Result<Target, Refusal> {
    match (&job.handler, &job.http) {
        (Some(_), Some(_)) => {
            Err(Refusal::invalid("http", "`handler` is given too").hint("a job has one of handler and http"))
        }
        (None, None) => Err(Refusal::invalid("handler", "the job calls nothing")
            .hint("a job has a handler, or http with a method and its URL")),
        (Some(name), None) => {
            let param = job.param.clone().unwrap_or_default();
            check_size("param", param.len())?;
            Ok(Target::Handler { name: name.clone(), param })
        }
        (None, Some(_)) if job.param.is_some() => {
            Err(Refusal::invalid("param", "a request has no parameter").hint("what a request carries is http.body"))
        }
        (None, Some(http)) => read_http(http),
    }
}

fn read_http(http: &rest::Http) -> Result<Target, Refusal> {
    let given: Vec<(&str, &String)> = methods(http).into_iter().filter_map(|(m, url)| Some((m, url?))).collect();
    let (method, url) = match given[..] {
        [(method, url)] => (method, url.clone()),
        [] => {
            return Err(Refusal::invalid("http", "no method is given").hint("for example {\"post\": \"https://…\"}"));
        }
        [(first, _), (second, _), ..] => {
            return Err(Refusal::invalid(format!("http.{second}"), format!("`http.{first}` is given too"))
                .hint("a request has one method"));
        }
    };
    let mut headers = http.headers.clone();
    for (name, value) in &headers {
        check_header(name, value)?;
    }
    if let Some(token) = &http.bearer {
        check_bearer(token, &headers)?;
        headers.insert(BEARER.0.to_owned(), format!("{}{token}", BEARER.1));
    }
    let body = http.body.clone().unwrap_or_default();
    check_size("http.body", body.len())?;
    check_size(&format!("http.{method}"), url.len())?;
    Ok(Target::Url { method: method.to_uppercase(), url, headers, body })
}

/// A bearer token is a short way to write its header; it is checked here so that a mistake names its own place.
fn check_bearer(token: &str, headers: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let wrong = |message: &str, hint: &str| Err(Refusal::invalid("http.bearer", message).hint(hint));
    if let Some(name) = headers.keys().find(|name| name.eq_ignore_ascii_case(BEARER.0)) {
        return wrong(&format!("`http.headers.{name}` is given too"), "a request has one authorization");
    }
    if token.trim().is_empty() || token.to_ascii_lowercase().starts_with("bearer ") {
        return wrong("this is not a token", "the token alone, for example {{secret.PARTNER}}");
    }
    if let Err(error) = Template::parse(token) {
        return Err(Refusal::invalid("http.bearer", error.to_string()).maybe_hint(error.hint));
    }
    check_header(BEARER.0, token).map_err(|refusal| refusal.field("http.bearer"))
}

fn methods(http: &rest::Http) -> [(&'static str, Option<&String>); 5] {
    [
        ("get", http.get.as_ref()),
        ("post", http.post.as_ref()),
        ("put", http.put.as_ref()),
        ("patch", http.patch.as_ref()),
        ("delete", http.delete.as_ref()),
    ]
}

fn check_header(name: &str, value: &str) -> Result<(), Refusal> {
    let field = format!("http.headers.{}", name.chars().take(80).collect::<String>());
    if HeaderName::try_from(name).is_err() {
        return Err(Refusal::invalid(field, "this is not a header's name"));
    }
    if HeaderValue::from_str(value).is_err() {
        return Err(Refusal::invalid(field, "a header's value has no control characters"));
    }
    if value == HIDDEN {
        return Err(Refusal::invalid(field, "`***` stands for a value that was not shown")
            .hint("give the value itself; the admin token reads it"));
    }
    if HEADERS_OF_ROTA.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(Refusal::invalid(field, "Rota sets this header itself").hint("leave it out"));
    }
    Ok(())
}

/// Refuses what is larger than a job may carry.
pub(crate) fn check_size(field: &str, bytes: usize) -> Result<(), Refusal> {
    if bytes > limits::PARAM_BYTES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("{bytes} bytes are more than {}", limits::PARAM_BYTES_MAX))
            .field(field)
            .hint("keep large inputs elsewhere, and pass where they are"));
    }
    Ok(())
}

/// Compiles a specification, naming mistakes by the key that the user wrote.
pub(crate) fn compile(spec: &Spec, id: JobId, app: AppId, name: &str, state: JobState) -> Result<Job, Refusal> {
    spec.compile(id, Version(1), app, name, state).map_err(|invalid| renamed(spec, invalid))
}

fn renamed(spec: &Spec, invalid: Invalid) -> Refusal {
    let field = match (invalid.field, &spec.target) {
        ("labels", _) => "route.labels".to_owned(),
        ("shards", _) => "shards.count".to_owned(),
        ("http.url" | "http.method", Target::Url { method, .. }) => format!("http.{}", method.to_lowercase()),
        (field, _) => field.to_owned(),
    };
    let usual = match &spec.schedule {
        When::Cron(expr) if field == "cron" => Some(usual_cron(expr)),
        When::Cron(_) | When::EveryMs(_) | When::DelayMs(_) | When::OnceMs(_) | When::Manual => usual(&field),
    };
    let refusal = Refusal::from(invalid).field(field);
    Refusal { hint: refusal.hint.or(usual.map(str::to_owned)), ..refusal }
}

/// What an expression of this dialect looks like.
fn usual_cron(expr: &str) -> &'static str {
    match Dialect::of(expr) {
        Dialect::Unix => "five fields are minute, hour, day, month and weekday: 0 2 * * *",
        Dialect::Quartz => {
            "six or seven fields are second, minute, hour, day, month, weekday and year, \
             with ? in one of day and weekday: 0 0 2 * * ?"
        }
    }
}

/// What would be right, where the mistake itself suggests nothing nearer.
fn usual(field: &str) -> Option<&'static str> {
    match field {
        "every" | "delay" => Some("at least a second, with a unit: 30s, 5m, 2h or 1d"),
        "shards.count" => Some("leave it out for a run that is not split"),
        "retry.max" => Some("leave it out for no retries"),
        _ => None,
    }
}

/// Refuses a schedule that has no slot to come.
pub(crate) fn check_slots(spec: &Spec, job: &Job, now: UnixMs) -> Result<(), Refusal> {
    let Some(schedule) = &job.schedule else { return Ok(()) };
    match &spec.schedule {
        When::Cron(_) | When::EveryMs(_) if schedule.next_after(now).is_none() => Err(when::never(spec, schedule, now)),
        When::DelayMs(_) if schedule.first_open(now).is_none() => Err(when::never(spec, schedule, now)),
        When::OnceMs(at) if now.since_ms(UnixMs(*at)) > limits::LATE_MAX_MS => {
            let (at, now) =
                (schedule.zone().format(UnixMs(*at)), schedule.zone().format(UnixMs(now.0 / 1_000 * 1_000)));
            Err(Refusal::invalid("at", format!("{at} lies in the past"))
                .hint(format!("it is {now} now; to run a job at once, trigger it")))
        }
        When::Cron(_) | When::EveryMs(_) | When::DelayMs(_) | When::OnceMs(_) | When::Manual => Ok(()),
    }
}

/// The next slots of a job, soonest first.
pub(crate) fn next_slots(job: &Job, now: UnixMs, count: usize) -> Vec<UnixMs> {
    let Some(schedule) = job.schedule.as_ref().filter(|_| job.state == JobState::Enabled) else { return Vec::new() };
    std::iter::successors(schedule.next_after(now), |slot| schedule.next_after(*slot)).take(count).collect()
}

/// Writes a specification as a user would: what has its default is left out.
pub(crate) fn write(spec: &Spec, name: &str, app: (&str, &str), state: JobState, server_zone: &str) -> rest::JobSpec {
    let (namespace, app) = app;
    let mut job = rest::JobSpec { name: name.to_owned(), namespace: namespace.to_owned(), ..Default::default() };
    match &spec.schedule {
        When::Cron(expr) => job.cron = Some(expr.clone()),
        When::EveryMs(ms) => job.every = Some(duration::print(*ms)),
        When::DelayMs(ms) => job.delay = Some(duration::print(*ms)),
        When::OnceMs(at) => job.at = Some(in_zone(&spec.zone, UnixMs(*at))),
        When::Manual => {}
    }
    job.timezone = Some(spec.zone.clone()).filter(|zone| zone != server_zone);
    job.dst = when::write_dst(spec.dst);
    job.calendar = when::write_calendar(&spec.calendar);
    job.active = when::write_active(&spec.active);
    job.misfire = misfire::write(&spec.misfire);
    job.alerts.clone_from(&spec.alerts);
    job.jitter = (spec.jitter_ms > 0).then(|| duration::print(spec.jitter_ms));
    job.after = upstream::write(&spec.after, &spec.schedule);
    match &spec.target {
        Target::Handler { name, param } => {
            job.app = Some(app.to_owned());
            job.handler = Some(name.clone());
            job.param = Some(param.clone()).filter(|param| !param.is_empty());
        }
        Target::Url { method, url, headers, body } => {
            job.app = Some(app.to_owned()).filter(|app| app != App::URL);
            job.http = Some(write_http(method, url, headers, body));
        }
    }
    job.route = route::write(&spec.route);
    job.overlap = write_overlap(&spec.overlap);
    job.retry = (spec.retry != Retry::default()).then(|| write_retry(spec.retry));
    job.timeout = (spec.timeout != Timeout::default()).then(|| rest::Timeout {
        start: spec.timeout.start_ms.map(duration::print),
        attempt: spec.timeout.attempt_ms.map(duration::print),
        run: spec.timeout.run_ms.map(duration::print),
    });
    job.shards = shards::write(spec.shards, &spec.sharding);
    job.delivery = spec.delivery.map(|delivery| word_of(&DELIVERIES, delivery));
    job.paused = (state == JobState::Paused).then_some(true);
    job
}

/// Replaces the values of a request's headers: they open other systems, and are not for everyone who may read. One
/// that is nothing but the name of a secret gives nothing away.
pub(crate) fn hide_secrets(job: &mut rest::JobSpec) {
    for value in job.http.iter_mut().flat_map(|http| http.headers.values_mut().chain(&mut http.bearer)) {
        let is_name = Template::parse(value).ok().flatten().is_some_and(|template| template.is_secret_alone());
        if !is_name {
            HIDDEN.clone_into(value);
        }
    }
}

fn write_http(method: &str, url: &str, headers: &BTreeMap<String, String>, body: &str) -> rest::Http {
    let mut headers = headers.clone();
    let bearer = headers.get(BEARER.0).and_then(|value| value.strip_prefix(BEARER.1)).map(str::to_owned);
    if bearer.is_some() {
        headers.remove(BEARER.0);
    }
    let mut http = rest::Http {
        bearer,
        headers,
        body: Some(body.to_owned()).filter(|body| !body.is_empty()),
        ..Default::default()
    };
    let place = match method {
        "GET" => &mut http.get,
        "PUT" => &mut http.put,
        "PATCH" => &mut http.patch,
        "DELETE" => &mut http.delete,
        _ => &mut http.post,
    };
    *place = Some(url.to_owned());
    http
}

pub(crate) fn word_of<T: PartialEq>(known: &[(&str, T)], value: T) -> String {
    known.iter().find(|(_, candidate)| *candidate == value).expect("the tables name every variant").0.to_owned()
}

fn in_zone(zone: &str, at: UnixMs) -> String {
    rota_cron::Zone::parse(zone).unwrap_or_else(|_| rota_cron::Zone::utc()).format(at)
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
