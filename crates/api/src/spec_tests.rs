//! Specifications: round trips, and each mistake with its field and hint.

use rota_core::id::AppId;
use serde_json::json;

use super::*;

const NOW: UnixMs = UnixMs(1_796_054_400_000); // 2026-11-30T16:00:00Z

/// Reads and checks a job as the create call does.
fn accept(body: serde_json::Value) -> Result<(rest::JobSpec, Spec), Refusal> {
    let job: rest::JobSpec = crate::body::parse(&body.to_string())?;
    app_of(&job)?;
    let spec = read(&job, "UTC")?;
    let compiled = compile(&spec, JobId(1), AppId(1), &job.name, JobState::Enabled)?;
    check_slots(&spec, &compiled, NOW)?;
    Ok((job, spec))
}

#[test]
fn what_users_write_reads_back_as_they_wrote_it() {
    for body in [
        json!({"name": "a", "app": "etl", "handler": "h", "cron": "*/5 * * * *"}),
        json!({"name": "a", "app": "etl", "handler": "h", "cron": "0 0 2 * * ?", "timezone": "Asia/Shanghai"}),
        json!({"name": "a", "app": "etl", "handler": "h", "every": "30s", "param": "date=1"}),
        json!({"name": "a", "app": "etl", "handler": "h", "delay": "90m"}),
        json!({"name": "a", "app": "etl", "handler": "h", "at": "2026-12-01T02:00:00+08:00", "timezone": "+08:00"}),
        json!({"name": "a", "app": "etl", "handler": "h", "cron": "30 2 * * *", "timezone": "Europe/Berlin",
            "dst": {"gap": "skip", "overlap": "both"}, "jitter": "30s",
            "calendar": {"exclude": ["sat-sun", "2026-10-01..2026-10-07", "22:00-01:00"], "include": ["2026-10-10"]},
            "active": {"from": "2026-01-01", "until": "2027-12-31T18:00:00+01:00"}}),
        json!({"name": "a", "app": "etl", "handler": "h", "cron": "H H * * *", "dst": "quartz"}),
        json!({"name": "a", "app": "etl", "handler": "h", "cron": "0 2 * * *", "dst": {"overlap": "last"}}),
        json!({"name": "a", "app": "etl", "handler": "h", "delay": "1h", "calendar": {"exclude": ["sun"]}}),
        json!({"name": "a", "app": "etl", "handler": "h", "every": "1h", "misfire": {"policy": "skip", "threshold": "5m"}}),
        json!({"name": "a", "app": "etl", "handler": "h", "every": "1h", "misfire": {"within": "2h"}}),
        json!({"name": "a", "app": "etl", "handler": "h", "cron": "@hourly",
            "misfire": {"policy": "catch_up", "threshold": "1s", "within": "1d", "max": 50, "pace": "30/m"}}),
        json!({"name": "a", "app": "etl", "handler": "h"}),
        json!({"name": "a", "every": "1d", "http": {"get": "https://partner.example/ping"}}),
        json!({"name": "a", "every": "1d", "http": {"get": "HTTP://partner.example/ping"}}),
        json!({"name": "a", "app": "etl", "every": "2h",
            "http": {"post": "http://h:1/p?q", "headers": {"x-a": "b"}, "body": "{}"}, "delivery": "at_least_once"}),
        json!({"name": "a", "every": "2h", "http": {"post": "http://h/{{slot | date('%F')}}?k={{secret.K}}",
            "bearer": "{{secret.PARTNER}}", "headers": {"x-a": "{{run}}"}, "body": "{\"part\":{{shard.index}}}"}}),
        json!({"name": "a", "every": "2h", "http": {"get": "http://h/", "headers": {"authorization": "Bearer x"}}}),
        json!({"name": "a", "app": "etl", "handler": "h", "overlap": "cancel_and_wait"}),
        json!({"name": "a", "app": "etl", "handler": "h", "overlap": {"policy": "allow", "max": 3}}),
        json!({"name": "a", "app": "etl", "handler": "h",
            "overlap": {"policy": "queue", "max": 2, "queue": 20, "key": "tenant"}}),
        json!({"name": "a", "every": "1d", "http": {"put": "https://p.example/"}}),
        json!({"name": "a", "every": "1d", "http": {"patch": "https://p.example/"}}),
        json!({"name": "a", "every": "1d", "http": {"delete": "https://p.example/"}}),
        json!({"name": "a", "app": "etl", "handler": "h", "every": "1h",
            "route": {"strategy": "APP_ROUND_ROBIN", "labels": "disk=ssd, !gpu"}, "overlap": "skip",
            "retry": {"max": 3, "first": "10s", "backoff": "exponential", "cap": "5m", "jitter": true, "when": ["timeout", "lost"]},
            "timeout": {"start": "1m", "attempt": "1500ms", "run": "1h"},
            "shards": {"count": 8}, "delivery": "at_most_once"}),
        json!({"name": "a", "app": "etl", "handler": "h", "shards": "broadcast"}),
        json!({"name": "a", "app": "etl", "handler": "h",
            "shards": {"broadcast": true, "success": {"quorum": "60%"}, "on_loss": "reassign"}}),
        json!({"name": "a", "app": "etl", "handler": "h", "retry": {"max": 1, "elsewhere": true},
            "shards": {"count": 3, "success": {"quorum": 2}, "on_loss": "fail"}}),
        json!({"name": "a", "app": "etl", "handler": "h", "shards": {"params": ["a", "b"], "success": "best_effort"}}),
        json!({"name": "a", "app": "etl", "handler": "h", "param": "x={{shard.param}}", "shards": {"params": ["a"]}}),
        json!({"name": "a", "http": {"get": "http://h/{{shard.param}}"}, "shards": {"params": ["a", "b"]}}),
    ] {
        let (job, spec) = accept(body.clone()).unwrap();
        let name = job.app.as_deref().unwrap_or(App::URL);
        let written = write(&spec, &job.name, ("default", name), JobState::Enabled, "UTC");
        assert_eq!(written, job, "{body}");
        assert_eq!(read(&written, "UTC"), Ok(spec), "{body}");
    }
}

#[test]
fn defaults_and_a_pause_are_told_apart() {
    let (_, spec) = accept(json!({"name": "a", "app": "etl", "handler": "h", "overlap": "allow",
        "retry": {"max": 0}, "shards": {"count": 1}, "timezone": "UTC", "route": {"strategy": "default"}}))
    .unwrap();
    let written = write(&spec, "a", ("default", "etl"), JobState::Paused, "UTC");
    assert_eq!(
        serde_json::to_value(&written).unwrap(),
        json!({"name": "a", "namespace": "default", "app": "etl", "handler": "h", "paused": true})
    );
}

#[test]
fn each_mistake_names_its_field_and_says_what_would_be_right() {
    let handler = |extra: serde_json::Value| {
        let mut body = json!({"name": "a", "app": "etl", "handler": "h"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    let url_with =
        |http: serde_json::Value, shards: serde_json::Value| json!({"name": "a", "http": http, "shards": shards});
    let url = |http: serde_json::Value| json!({"name": "a", "every": "1h", "http": http});
    for (body, field, hint) in [
        (handler(json!({"cron": "0 0 30 2 *"})), "cron", "30th of February"),
        (handler(json!({"cron": "61 * * * *"})), "cron", ""),
        (handler(json!({"cron": ""})), "cron", ""),
        (handler(json!({"cron": "* * *"})), "cron", ""),
        (handler(json!({"cron": "* * * * *", "timezone": "Asia/Shangai"})), "timezone", "Asia/Shanghai"),
        (handler(json!({"every": "-5s"})), "every", "30s"),
        (handler(json!({"every": "30"})), "every", "30s"),
        (handler(json!({"every": "0s"})), "every", "30s"),
        (handler(json!({"delay": "1000d"})), "delay", ""),
        (handler(json!({"at": "tomorrow"})), "at", "2026-12-01T02:00:00+08:00"),
        (handler(json!({"at": "2026-11-29T00:00:00Z"})), "at", "trigger"),
        (handler(json!({"at": "2026-12-01T00:00:00Z", "every": "1h"})), "at", "one of cron"),
        (handler(json!({"http": {"get": "https://a.example"}})), "http", "one of handler and http"),
        (handler(json!({"overlap": "skp"})), "overlap", "skip"),
        (handler(json!({"overlap": {"policy": "queued"}})), "overlap.policy", "queue"),
        (handler(json!({"overlap": {"policy": "skip", "max": 2}})), "overlap.max", "allow"),
        (handler(json!({"overlap": {"policy": "merge", "queue": 2}})), "overlap.queue", "policy: queue"),
        (handler(json!({"overlap": {"policy": "queue", "queue": 0}})), "overlap.queue", "default"),
        (handler(json!({"overlap": {"policy": "allow", "key": "tenant"}})), "overlap.key", "max"),
        (handler(json!({"overlap": {"policy": "skip", "key": "a b"}})), "overlap.key", "tenant=a"),
        (
            handler(json!({"overlap": {"policy": "skip", "key": "day"}, "param": "day={{slot}}"})),
            "overlap.key",
            "write",
        ),
        (handler(json!({"delivery": "exactly_once"})), "delivery", "at_"),
        (handler(json!({"route": {"strategy": "LEAST_INFLIGTH"}})), "route.strategy", "LEAST_INFLIGHT"),
        (handler(json!({"route": {"labels": "disk=="}})), "route.labels", "disk=ssd"),
        (handler(json!({"cron": "0 2 * * *", "dst": "quarz"})), "dst", "quartz"),
        (handler(json!({"cron": "0 2 * * *", "dst": {"gap": "later"}})), "dst.gap", "run_after"),
        (handler(json!({"cron": "0 2 * * *", "dst": {"overlap": "second"}})), "dst.overlap", "last"),
        (handler(json!({"every": "1h", "dst": "quartz"})), "dst", "cron"),
        (handler(json!({"cron": "0 2 * * *", "calendar": {"exclude": ["sat", "2026-02-30"]}})), "calendar.exclude", ""),
        (handler(json!({"cron": "0 2 * * *", "calendar": {"include": ["sat"]}})), "calendar.include", ""),
        (handler(json!({"cron": "0 2 * * 6", "calendar": {"exclude": ["sat"]}})), "calendar.exclude", "days and times"),
        (handler(json!({"delay": "1h", "calendar": {"exclude": ["sun-sat"]}})), "calendar.exclude", "days and times"),
        (handler(json!({"calendar": {"exclude": ["sat"]}})), "calendar", "cron"),
        (handler(json!({"at": "2026-12-01T00:00:00Z", "active": {"until": "2026-12-31"}})), "active", "cron"),
        (handler(json!({"every": "1h", "active": {"until": "2026-11-29"}})), "active.until", "later"),
        (handler(json!({"every": "1h", "active": {"from": "soon"}})), "active.from", "2026-12-31"),
        (handler(json!({"every": "1h", "active": {"from": "2027-01-02", "until": "2027-01-01"}})), "active.until", ""),
        (handler(json!({"cron": "0 0 1 1 *", "active": {"until": "2026-12-31"}})), "active", "from"),
        (handler(json!({"every": "1h", "jitter": "25h"})), "jitter", ""),
        (handler(json!({"jitter": "1h"})), "jitter", "cron"),
        (handler(json!({"every": "1h", "misfire": {"policy": "fire_twice"}})), "misfire.policy", "fire_once"),
        (handler(json!({"every": "1h", "misfire": {"threshold": "10ms"}})), "misfire.threshold", ""),
        (handler(json!({"every": "1h", "misfire": {"within": "30s"}})), "misfire.within", "longer"),
        (handler(json!({"every": "1h", "misfire": {"policy": "skip", "within": "1h"}})), "misfire.within", "fire_once"),
        (handler(json!({"every": "1h", "misfire": {"max": 5}})), "misfire.max", "catch_up"),
        (handler(json!({"every": "1h", "misfire": {"policy": "catch_up", "pace": "10"}})), "misfire.pace", "10/s"),
        (handler(json!({"every": "1s", "misfire": {"policy": "catch_up", "pace": "5/m"}})), "misfire.pace", "faster"),
        (handler(json!({"delay": "1h", "misfire": {"policy": "skip"}})), "misfire", "timeout.start"),
        (handler(json!({"shards": {"count": 0}})), "shards.count", ""),
        (handler(json!({"shards": {"count": 1001}})), "shards.count", ""),
        (handler(json!({"shards": "broadcst"})), "shards", "broadcast"),
        (handler(json!({"shards": {"broadcast": true, "count": 2}})), "shards.broadcast", "one of the two"),
        (handler(json!({"shards": {"broadcast": true, "params": ["a"]}})), "shards.params", "shard.index"),
        (url_with(json!({"get": "http://a.example/"}), json!("broadcast")), "shards.broadcast", "handler"),
        (url_with(json!({"get": "http://a.example/"}), json!({"count": 2, "on_loss": "fail"})), "shards.on_loss", ""),
        (handler(json!({"shards": {"count": 3, "params": ["a"]}})), "shards.params", "leave `count` out"),
        (handler(json!({"param": "x", "shards": {"params": ["a"]}})), "shards.params", "write it"),
        (handler(json!({"param": "{{shard.param}}"})), "shards.params", "give"),
        (handler(json!({"shards": {"count": 2, "success": "best"}})), "shards.success", "all, best_effort"),
        (handler(json!({"shards": {"count": 2, "success": {"quorum": 3}}})), "shards.success", "at most"),
        (handler(json!({"shards": {"count": 2, "success": {"quorum": "101%"}}})), "shards.success", "60%"),
        (handler(json!({"shards": {"count": 2, "success": {"quorum": "most"}}})), "shards.success.quorum", "60%"),
        (handler(json!({"shards": {"count": 2, "on_loss": "resign"}})), "shards.on_loss", "reassign"),
        (handler(json!({"shards": "broadcast", "retry": {"max": 1, "elsewhere": true}})), "retry.elsewhere", "on_loss"),
        (handler(json!({"retry": {"max": 101}})), "retry.max", ""),
        (handler(json!({"retry": {"max": 1, "first": "-1s"}})), "retry.first", "30s"),
        (handler(json!({"retry": {"max": 1, "when": ["faild"]}})), "retry.when", "failed"),
        (handler(json!({"retry": {"max": 1, "when": []}})), "retry.when", "at least one"),
        (handler(json!({"retry": {"max": 1, "backoff": "exponential"}})), "retry.first", "10s"),
        (handler(json!({"timeout": {"attempt": "0s"}})), "timeout.attempt", "30s"),
        (handler(json!({"timeout": {"start": "x"}})), "timeout.start", "30s"),
        (json!({"name": "", "app": "etl", "handler": "h"}), "name", "letters"),
        (json!({"name": "a b", "app": "etl", "handler": "h"}), "name", "letters"),
        (json!({"name": "a", "app": "etl", "handler": "h h"}), "handler", "letters"),
        (json!({"name": "a", "app": "etl", "handler": "h", "namespace": "/"}), "namespace", "letters"),
        (json!({"name": "a", "handler": "h"}), "app", "rota app list"),
        (json!({"name": "a", "app": "@url", "handler": "h"}), "app", "workers"),
        (json!({"name": "a", "app": "etl"}), "handler", "http"),
        (url(json!({})), "http", "post"),
        (url(json!({"get": "https://a.example", "post": "https://a.example"})), "http.post", "one method"),
        (url(json!({"get": "ftp://a.example"})), "http.get", "https://"),
        (url(json!({"post": "https://user@a.example"})), "http.post", "https://"),
        (url(json!({"get": "http://a.example:65536/"})), "http.get", "https://"),
        (url(json!({"get": "https://a.example", "headers": {"a b": "c"}})), "http.headers.a b", ""),
        (url(json!({"get": "https://a.example", "headers": {"a": "c\n"}})), "http.headers.a", ""),
        (url(json!({"get": "https://a.example", "headers": {"Host": "c"}})), "http.headers.Host", "leave it out"),
        (json!({"name": "a", "http": {"get": "https://a.example"}, "param": "x"}), "param", "http.body"),
        (handler(json!({"param": "{{slott}}"})), "param", "did you mean `slot`?"),
        (handler(json!({"param": "{{.Values.x}}"})), "param", "{{'{{'}}"),
        (url(json!({"post": "https://{{app}}.example"})), "http.post", "https://partner.example"),
        (url(json!({"post": "https://a.example/{{slot"})), "http.post", "close it"),
        (url(json!({"post": "https://a.example", "body": "{{slot|date('%Q')}}"})), "http.body", "%F"),
        (url(json!({"get": "https://a.example", "headers": {"x": "{{secret}}"}})), "http.headers", "secret.PARTNER"),
        (url(json!({"get": "https://a.example", "bearer": "{{secret.}}"})), "http.bearer", "secret.PARTNER"),
        (url(json!({"get": "https://a.example", "bearer": "***"})), "http.bearer", "admin"),
        (url(json!({"get": "https://a.example", "bearer": "Bearer x"})), "http.bearer", "{{secret.PARTNER}}"),
        (url(json!({"get": "https://a.example", "bearer": "x", "headers": {"AUTHORIZATION": "y"}})), "http.bearer", ""),
    ] {
        let refusal = accept(body.clone()).expect_err(&body.to_string());
        assert_eq!(refusal.code, Code::Invalid, "{body}: {refusal:?}");
        assert_eq!(refusal.field.as_deref(), Some(field), "{body}: {refusal:?}");
        assert!(!refusal.message.is_empty() && !refusal.message.starts_with(&format!("{field}:")), "{refusal:?}");
        assert!(refusal.hint.as_deref().unwrap_or("").contains(hint), "{body}: {refusal:?}");
    }
}

#[test]
fn a_message_reads_on_from_its_field() {
    for (key, value, message, hint) in [
        ("cron", json!("61 * * * *"), "minute: 61 is out of range, expected 0-59", "five fields are"),
        ("cron", json!("0 0 31 2 *"), "`0 0 31 2 *` never comes again", "30th of February"),
        ("cron", json!("0 0 0 * * *"), "day of week: day of month", r#"did you mean `"0 0 0 * * ?"`?"#),
        (
            "cron",
            json!("0 0 0 ? * 6#6"),
            "day of week: 6 is out of range, expected 1-5 (at character 13)",
            "six or seven fields are second",
        ),
        ("every", json!("500ms"), "`500ms` is shorter than a second", "at least a second"),
        ("at", json!("tomorrow"), "`tomorrow` is not an instant", "offset"),
        ("route", json!({"labels": "disk=="}), "`disk==` is not of the form", "disk=ssd"),
    ] {
        let mut body = json!({"name": "a", "app": "etl", "handler": "h"});
        body[key] = value;
        let refusal = accept(body).unwrap_err();
        assert!(refusal.message.starts_with(message), "{refusal:?}");
        assert!(refusal.hint.as_deref().unwrap_or("").contains(hint), "{refusal:?}");
    }
}

/// Field case B109: beyond the limit nothing is cut in silence.
#[test]
fn what_is_too_large_names_its_field() {
    let large = "x".repeat(limits::PARAM_BYTES_MAX + 1);
    for (body, field) in [
        (json!({"name": "a", "app": "etl", "handler": "h", "param": large}), "param"),
        (json!({"name": "a", "http": {"post": "https://a.example", "body": large}}), "http.body"),
    ] {
        let refusal = accept(body).unwrap_err();
        assert_eq!((refusal.code, refusal.field.as_deref()), (Code::TooLarge, Some(field)));
    }
    let fits = "x".repeat(limits::PARAM_BYTES_MAX);
    accept(json!({"name": "a", "app": "etl", "handler": "h", "param": fits})).unwrap();
}

#[test]
fn next_slots_are_those_of_an_enabled_job() {
    let (_, spec) = accept(json!({"name": "a", "app": "etl", "handler": "h", "cron": "0 2 * * *"})).unwrap();
    let of = |state| next_slots(&compile(&spec, JobId(1), AppId(1), "a", state).unwrap(), NOW, 3);
    let day = 86_400_000;
    let first = 1_796_090_400_000; // 2026-12-01T02:00:00Z
    assert_eq!(of(JobState::Enabled), [UnixMs(first), UnixMs(first + day), UnixMs(first + 2 * day)]);
    assert_eq!(of(JobState::Paused), []);
}

#[test]
fn words_in_the_document_are_those_that_are_read() {
    fn words<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
        table.iter().map(|(word, _)| *word).collect()
    }
    assert_eq!(words(&OVERLAPS), rest::words::OverlapPolicy::ALL);
    assert_eq!(words(&misfire::POLICIES), rest::words::MisfirePolicy::ALL);
    assert_eq!(words(&route::STRATEGIES), rest::words::Strategy::ALL);
    assert_eq!(words(&route::SCOPES), rest::words::RouteScope::ALL);
    assert_eq!(words(&route::HASHES), rest::words::RouteHash::ALL);
    assert_eq!(words(&route::LOAD_UNITS), rest::words::LoadUnit::ALL);
    assert_eq!(words(&crate::shards::ON_LOSS), rest::words::OnLoss::ALL);
    assert_eq!(words(&DELIVERIES), rest::words::Delivery::ALL);
    assert_eq!(words(&upstream::WHENS), rest::words::UpstreamWhen::ALL);
    assert_eq!(words(&upstream::PERIODS), rest::words::UpstreamPeriod::ALL);
    assert_eq!(words(&upstream::ON_SKIPS), rest::words::OnSkip::ALL);
    assert_eq!(words(&when::GAPS), rest::words::DstGap::ALL);
    assert_eq!(words(&when::FOLDS), rest::words::DstOverlap::ALL);
}
