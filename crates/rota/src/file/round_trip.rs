//! Law: whatever jobs a server has, the file that is exported of them asks for what is there.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use rota_core::time::UnixMs;
use rota_wire::rest::{self, JobSpec};
use serde_json::{Value, json};

use super::calendars::Calendars;
use super::emit::{self, Export};
use super::plan::{Beside, Does, View, Wish, plan};
use super::wanted::Parsed;

/// 2026-11-30T16:00:00Z.
const NOW: UnixMs = UnixMs(1_796_054_400_000);
const ZONE: &str = "Asia/Shanghai";

fn one_of(texts: &'static [&'static str]) -> BoxedStrategy<Value> {
    prop::sample::select(texts).prop_map(Value::from).boxed()
}

/// Texts at which readers of YAML part company, and others.
fn text() -> BoxedStrategy<Value> {
    let odd = one_of(&[
        "",
        " ",
        "no",
        "Yes",
        "null",
        "~",
        "1e3",
        "0x1f",
        "007",
        "12:30:00",
        "- a",
        "a: b",
        "#",
        "x #y",
        "'",
        "\"",
        "\\",
        "|",
        ">",
        "&a",
        "*a",
        "!t",
        "%",
        "@",
        "`",
        "{a}",
        "[a]",
        "a\nb\n",
        "\n",
        "\ta",
        "a ",
        "\u{feff}",
        "\u{2028}",
        "\u{85}",
        "é作业",
        "\u{1f600}",
        "\u{202e}x",
        "---",
        "...",
        "date={{slot|date('%F')}}",
        "{{shard.index}}",
    ]);
    let any = "[ -z|~\u{a0}-\u{ff}\u{3000}-\u{3010}\t\n]{0,40}";
    prop_oneof![2 => odd, 1 => any.prop_map(Value::from)].boxed()
}

fn name() -> BoxedStrategy<String> {
    let odd =
        ["true", "no", "null", "a.b", "x:y", "作业", "1a", "1e3x", "-x", "0x1", "12:30"].map(str::to_owned).to_vec();
    prop_oneof![1 => prop::sample::select(odd), 1 => "[a-z][a-z0-9_.@:-]{0,20}"].boxed()
}

/// A value, or none.
fn maybe(value: BoxedStrategy<Value>) -> BoxedStrategy<Option<Value>> {
    prop::option::of(value).boxed()
}

fn object(keys: Vec<(&'static str, BoxedStrategy<Option<Value>>)>) -> BoxedStrategy<Value> {
    let (words, values): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
    let zip = move |values: Vec<Option<Value>>| {
        let entries = words.iter().zip(values).filter_map(|(word, value)| Some(((*word).to_owned(), value?)));
        Value::Object(entries.collect())
    };
    values.prop_map(zip).boxed()
}

fn duration() -> BoxedStrategy<Value> {
    one_of(&["1s", "90s", "1500ms", "2m", "1h", "36h", "1d"])
}

fn when() -> BoxedStrategy<Value> {
    let days =
        one_of(&["sat", "sat-sun", "2026-10-01..2026-10-07", "12-25", "12-24..01-02", "22:00-06:00", "2027-01-01"]);
    let dates = one_of(&["2026-10-10", "2027-02-06..2027-02-12"]);
    let calendar = object(vec![
        ("exclude", maybe(prop::collection::vec(days, 0..4).prop_map(Value::from).boxed())),
        ("include", maybe(prop::collection::vec(dates, 0..3).prop_map(Value::from).boxed())),
    ]);
    let active = object(vec![
        ("from", maybe(one_of(&["2026-01-01", "2026-12-01T00:00:00+08:00"]))),
        ("until", maybe(one_of(&["2099-12-31", "2098-12-31T18:00:00Z"]))),
    ]);
    let rule = object(vec![
        ("gap", maybe(one_of(&["run_after", "skip"]))),
        ("overlap", maybe(one_of(&["first", "last", "both"]))),
    ]);
    let dst = prop_oneof![one_of(&["default", "quartz"]), rule].boxed();
    let zone = || maybe(one_of(&["UTC", "Asia/Shanghai", "Europe/Berlin", "+08:00", "Asia/Calcutta"]));
    let missed = || {
        let some = [
            json!({"policy": "skip", "threshold": "5m"}),
            json!({"within": "2h"}),
            json!({"policy": "catch_up", "threshold": "1s", "within": "1d", "max": 50, "pace": "1000/s"}),
        ];
        maybe(prop::sample::select(some.to_vec()).boxed())
    };
    let upstream = || {
        let some = [
            json!("up.1"),
            json!({"job": "up-2", "when": "completion", "period": "latest", "on_skip": "run", "deadline": "6h"}),
            json!(["up.1", {"job": "up-2", "period": "window"}]),
        ];
        maybe(prop::sample::select(some.to_vec()).boxed())
    };
    let narrowed = move |word: &'static str, value, dst| {
        let keys = vec![
            (word, value),
            ("after", if word == "delay" { Just(None).boxed() } else { upstream() }),
            ("misfire", if word == "delay" { Just(None).boxed() } else { missed() }),
            ("dst", dst),
            ("timezone", zone()),
            ("calendar", maybe(calendar.clone())),
            ("active", maybe(active.clone())),
            ("jitter", maybe(one_of(&["1500ms", "5m", "24h"]))),
        ];
        object(keys)
    };
    let cron = one_of(&[
        "0 2 * * *",
        "*/7 9-17 * * mon-fri",
        "@hourly",
        "H H * * *",
        "0 0 2 L * ?",
        "0 15 10 ? * 6#3",
        "0  0 2 * * ?",
    ]);
    let sure = |value: BoxedStrategy<Value>| value.prop_map(Some).boxed();
    prop_oneof![
        3 => narrowed("cron", sure(cron), maybe(dst)),
        2 => narrowed("every", sure(duration()), Just(None).boxed()),
        2 => narrowed("delay", sure(duration()), Just(None).boxed()),
        1 => object(vec![("at", sure(one_of(&["2027-01-01T00:00:00Z", "2030-05-05T02:00:00.250+08:00"])))]),
        1 => Just(json!({})),
    ]
    .boxed()
}

fn target() -> BoxedStrategy<Value> {
    let handler = object(vec![
        ("app", Just(Some(json!("etl"))).boxed()),
        ("handler", name().prop_map(|name| Some(Value::from(name))).boxed()),
        ("param", maybe(text())),
        ("shards", maybe((1..9_u32).prop_map(|count| json!({"count": count})).boxed())),
        (
            "route",
            maybe(object(vec![
                ("strategy", maybe(one_of(&["LEAST_INFLIGHT", "APP_ROUND_ROBIN", "TASK_WEIGHT", "LAST", "LRU"]))),
                ("weight", maybe(prop::sample::select(vec![json!(0.25), json!(1.5), json!(2.0)]).boxed())),
                ("labels", maybe(one_of(&["disk=ssd", "zone in (a|b), !gpu"]))),
            ])),
        ),
    ]);
    // A header is a line of visible text.
    let line = "[!-z|~][ -z|~]{0,20}[!-z|~]".prop_map(Value::from).boxed();
    let headers = prop::collection::btree_map("x-[a-z]{1,8}", line, 0..3);
    let method = prop::sample::select(vec!["get", "post", "put", "patch", "delete"]);
    let body = maybe(text());
    let bearer = maybe(one_of(&["{{secret.PARTNER}}", "plain"]));
    let http = (method, headers, body, bearer).prop_map(|(method, headers, body, bearer)| {
        let mut http = json!({method: "http://partner.example/ping?x=1", "headers": headers});
        if let Some(body) = body.filter(|_| method != "get" && method != "delete") {
            http["body"] = body;
        }
        if let Some(bearer) = bearer {
            http["bearer"] = bearer;
        }
        json!({"http": http})
    });
    prop_oneof![3 => handler, 2 => http].boxed()
}

fn policy() -> BoxedStrategy<Value> {
    let some = prop::sample::subsequence(vec!["failed", "timeout", "lost"], 1..=3);
    let retry = object(vec![
        ("max", (0..5_u32).prop_map(|max| Some(json!(max))).boxed()),
        ("first", Just(Some(json!("10s"))).boxed()),
        ("backoff", maybe(one_of(&["fixed", "exponential"]))),
        ("cap", maybe(one_of(&["5m", "1h"]))),
        ("jitter", maybe(any::<bool>().prop_map(Value::from).boxed())),
        ("when", maybe(some.prop_map(|words| json!(words)).boxed())),
    ]);
    let timeout = object(["start", "attempt", "run"].map(|word| (word, maybe(duration()))).to_vec());
    object(vec![
        ("overlap", maybe(one_of(&["allow", "skip"]))),
        ("delivery", maybe(one_of(&["at_least_once", "at_most_once"]))),
        ("alerts", maybe(Just(json!(["oncall", "late"])).boxed())),
        ("retry", maybe(retry)),
        ("timeout", maybe(timeout)),
        ("paused", maybe(any::<bool>().prop_map(Value::from).boxed())),
    ])
}

fn job() -> BoxedStrategy<JobSpec> {
    let parts = (name(), when(), target(), policy());
    parts
        .prop_map(|(name, when, target, policy)| {
            let mut spec = json!({"name": name, "namespace": "default"});
            for part in [when, target, policy] {
                let Value::Object(part) = part else { unreachable!("parts are maps") };
                spec.as_object_mut().unwrap().extend(part);
            }
            serde_json::from_value(spec).unwrap()
        })
        .boxed()
}

/// A job as a server shows it that has it.
fn shown(spec: &JobSpec, reason: Option<&str>, file: Option<&str>) -> rest::Job {
    let settled = rota_api::canonical(spec, None, ZONE, NOW)
        .unwrap_or_else(|error| panic!("{error:?}: {}", serde_json::to_string(spec).unwrap()));
    let is_paused = spec.paused == Some(true);
    let by = file.map_or_else(|| "admin".to_owned(), |file| format!("file {file}"));
    let at = "2026-11-30T16:00:00Z".to_owned();
    rest::Job {
        dependents: Vec::new(),
        id: 1,
        version: 1,
        state: if is_paused { "paused" } else { "enabled" }.to_owned(),
        spec: settled.spec,
        finished: None,
        schedule: settled.schedule,
        next_slots: if is_paused { Vec::new() } else { settled.next_slots },
        held: None,
        at: at.clone(),
        by: by.clone(),
        managed_by: file.map(str::to_owned),
        pause: is_paused.then(|| rest::Pause { by, at, reason: reason.map(str::to_owned) }),
    }
}

fn etl() -> rest::App {
    rest::App {
        id: 1,
        namespace: "default".to_owned(),
        name: "etl".to_owned(),
        pending_max: 1_000,
        rate: Some("50/s".to_owned()),
        burst: Some(100),
        groups: [("zone in (a|b)".to_owned(), rest::AppRate { rate: "1/10s".to_owned(), burst: None })].into(),
        valve: rest::Valve::default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_exported_asks_for_what_is_there(
        specs in prop::collection::vec(job(), 1..4),
        reason in prop::option::of("[ -~]{0,10}[!-~]|é作业|no|a: #b"),
        file in prop::sample::select(vec![None, Some("shop"), Some("no")]),
    ) {
        // Those that others wait for.
        let upstream = ["up.1", "up-2"].map(|name| {
            serde_json::from_value(json!({"name": name, "namespace": "default", "app": "etl", "handler": "h"})).unwrap()
        });
        let jobs: BTreeMap<String, rest::Job> = specs
            .iter()
            .chain(&upstream)
            .map(|spec| (spec.name.clone(), shown(spec, reason.as_deref().map(str::trim), file)))
            .collect();
        let in_order: Vec<rest::Job> = jobs.values().cloned().collect();
        let apps = [etl()];
        let export = Export { name: file, namespace: "default", alerts: &[], apps: &apps, jobs: &in_order, left_out: &[] };
        let text = emit::file(&export);
        let parsed = Parsed::of(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"));
        let wanted = parsed.wanted(&Calendars::default()).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"));
        prop_assert_eq!(wanted.name.as_deref(), file);
        let view = View {
            file: file.map(str::to_owned),
            jobs,
            apps: apps.to_vec(),
            alerts: Vec::new(),
            zone: ZONE.to_owned(),
            now: NOW,
            beside: Beside::default(),
        };
        let plan = plan(&wanted, &view, Wish { prune: true, take_over: false })
            .unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"));
        prop_assert_eq!(plan.jobs.len(), view.jobs.len());
        for step in &plan.jobs {
            prop_assert_eq!(step.does, Does::Nothing, "{:?}\n{}", step, text);
            prop_assert!(step.drift.is_none() && step.slots_before == step.slots_after, "{:?}\n{}", step, text);
        }
        prop_assert!(plan.apps.is_empty() && !plan.has_changes());
    }
}

/// A key that a job gets is exported or not: whoever adds one finds it here.
#[test]
fn every_key_of_a_job_is_tried() {
    let document = rota_api::openapi("0");
    let known = document["components"]["schemas"]["JobSpec"]["properties"].as_object().unwrap();
    let known: BTreeSet<String> = known.keys().cloned().collect();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut tried = BTreeSet::new();
    for _ in 0..300 {
        let spec = job().new_tree(&mut runner).unwrap().current();
        let Value::Object(keys) = serde_json::to_value(&spec).unwrap() else { unreachable!("a job is a map") };
        tried.extend(keys.into_iter().map(|(key, _)| key));
    }
    assert_eq!(tried, known, "give the new key values in `when`, `target` or `policy` above");
}
