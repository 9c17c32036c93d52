//! Runs through the API: triggered, followed, explained, killed, and what they printed.

use serde_json::{Value, json};

use crate::world::{ADMIN, ETL, World, job, refusal};

async fn world_with_worker() -> (World, String) {
    let world = World::new();
    let worker = world.worker("etl-1", 7, "http://h:1").await["worker"].to_string();
    let mut manual = job("copy");
    manual.as_object_mut().unwrap().remove("every");
    manual["retry"] = json!({"max": 1, "first": "10s"});
    world.admin("POST", "/api/v1/jobs", manual).await;
    (world, worker)
}

async fn report(world: &World, worker: &str, dispatch: &rota_core::partition::Dispatch, outcome: &str) -> Value {
    let result = json!({
        "attempt": dispatch.attempt.0, "run": dispatch.run.0, "shard": dispatch.shard, "no": dispatch.no,
        "outcome": outcome, "message": format!("said {outcome}")
    });
    let body = json!({"incarnation": 7, "results": [result]}).to_string();
    let (status, answer) = world.call("POST", &format!("/api/v1/workers/{worker}/results"), ETL, body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

#[tokio::test]
async fn a_run_is_triggered_fails_is_retried_and_succeeds() {
    let (world, worker) = world_with_worker().await;
    let body = json!({"param": "x", "origin": "manual"});
    let run = world.admin("POST", "/api/v1/jobs/copy/trigger", body).await["run"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/runs/{run}");
    assert_eq!(world.get(&path).await["state"], "dispatched");

    let first = world.accept().remove(0);
    assert_eq!(first.param.as_deref(), Some("x"));
    world.pass_ms(500);
    let detail = world.get(&path).await;
    assert_eq!((&detail["state"], &detail["attempts"][0]["state"]), (&json!("running"), &json!("running")));
    let live = world.get("/api/v1/live").await;
    assert_eq!((&live["attempts"][0]["run"], &live["attempts"][0]["worker_name"]), (&json!(run), &json!("etl-1")));

    assert_eq!(report(&world, &worker, &first, "failed").await["acknowledged"], json!([first.attempt.0]));
    assert_eq!(report(&world, &worker, &first, "failed").await["acknowledged"], json!([first.attempt.0]), "again");
    world.pass_ms(10_000);
    let second = world.accept().remove(0);
    assert_eq!(second.no, 2);
    report(&world, &worker, &second, "success").await;
    let detail = world.get(&path).await;
    assert_eq!((&detail["state"], &detail["tries"], &detail["tries_max"]), (&json!("success"), &json!(2), &json!(2)));
    assert_eq!(
        (&detail["origin"], &detail["param"], &detail["message"]),
        (&json!("manual"), &json!("x"), &json!("said success"))
    );

    let story = world.get(&format!("{path}/why")).await;
    let lines = told(&story);
    assert_eq!(
        lines,
        [
            "triggered: by hand, with a parameter of its own",
            "gate: overlap: allowed; cap: 1000 shards of etl",
            "route: etl-1, by least weight; 1 online offer `copy` now",
            "try 1: dispatched to etl-1",
            "try 1: failed after 500 ms: handler_failed (the handler reported a failure); said \"said failed\"",
            "try 2: dispatched to etl-1, 10.0 s after try 1 ended",
            "try 2: success after 0 ms; said \"said success\"",
            "next slot: none: it only runs when asked to",
        ]
    );
    assert_eq!(story["title"], "copy, triggered 2026-11-30 16:00:00 +00:00, v1: SUCCESS");
}

#[tokio::test]
async fn a_failed_run_says_why_it_is_not_retried() {
    let (world, worker) = world_with_worker().await;
    let run = world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await["run"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let dispatch = world.accept().remove(0);
        report(&world, &worker, &dispatch, "failed").await;
        world.pass_ms(10_000);
    }
    let story = world.get(&format!("/api/v1/runs/{run}/why")).await;
    assert!(
        story["title"].as_str().unwrap().ends_with("FAILED, handler_failed (the handler reported a failure)"),
        "{story}"
    );
    let told = story["lines"].as_array().unwrap().iter().find(|line| line["about"] == "not retried").unwrap();
    assert_eq!(told["text"], "its only retry is spent");
    assert_eq!(story["hints"], json!([format!("rota logs {run}"), format!("rota rerun {run}"), "rota run copy"]));
}

fn told(story: &Value) -> Vec<String> {
    let lines = story["lines"].as_array().unwrap().iter();
    lines.map(|line| format!("{}: {}", line["about"].as_str().unwrap(), line["text"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn an_open_run_says_what_its_shards_wait_for() {
    let (world, worker) = world_with_worker().await;
    let stray = json!({"name": "stray", "app": "etl", "handler": "nobody-has-it", "shards": {"count": 2}});
    world.admin("POST", "/api/v1/jobs", stray).await;
    let run = world.admin("POST", "/api/v1/jobs/stray/trigger", json!({})).await["run"].as_str().unwrap().to_owned();
    let detail = world.get(&format!("/api/v1/runs/{run}")).await;
    assert_eq!((&detail["state"], &detail["why"]), (&json!("pending"), &json!("no_worker_for_handler")));
    let text = "no online worker of the app offers the handler";
    assert_eq!(detail["waiting"][1], json!({"shard": 1, "why": "no_worker_for_handler", "text": text}));
    let story = told(&world.get(&format!("/api/v1/runs/{run}/why")).await);
    assert!(story.contains(&"route: admitted, not dispatched yet".to_owned()), "{story:?}");
    assert!(story.contains(&format!("2 shards wait: no_worker_for_handler ({text})")), "{story:?}");

    let run = world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await["run"].as_str().unwrap().to_owned();
    let first = world.accept().remove(0);
    report(&world, &worker, &first, "failed").await;
    world.pass_ms(8_000);
    let detail = world.get(&format!("/api/v1/runs/{run}")).await;
    assert_eq!((&detail["waiting"][0]["why"], &detail["waiting"][0]["left_ms"]), (&json!("backoff"), &json!(2_000)));
    let story = told(&world.get(&format!("/api/v1/runs/{run}/why")).await);
    assert!(story.contains(&"waits: again in 2.0 s (backoff)".to_owned()), "{story:?}");
}

#[tokio::test]
async fn a_request_id_makes_one_run() {
    let (world, _) = world_with_worker().await;
    let path = "/api/v1/jobs/copy/trigger";
    let body = json!({"param": "x", "request_id": "r-1"});
    let (status, first) = world.call("POST", path, crate::world::ADMIN, body.to_string()).await;
    assert_eq!((status, &first["is_repeated"]), (201, &json!(false)));
    let (status, second) = world.call("POST", path, crate::world::ADMIN, body.to_string()).await;
    assert_eq!((status, &second["is_repeated"], &second["run"]), (200, &json!(true), &first["run"]));
    let (status, code, field, _) = world.refused("POST", path, json!({"param": "y", "request_id": "r-1"})).await;
    assert_eq!((status, code.as_str(), field.as_str()), (409, "request_conflict", "request_id"));
    assert_eq!(world.get("/api/v1/runs").await["items"].as_array().unwrap().len(), 1);

    // A refused request gives its id back.
    world.overload(true);
    assert_eq!(world.refused("POST", path, json!({"request_id": "r-2"})).await.1, "overloaded");
    world.overload(false);
    assert_eq!(world.admin("POST", path, json!({"request_id": "r-2"})).await["is_repeated"], false);
    let (_, code, field, _) = world.refused("POST", path, json!({"request_id": ""})).await;
    assert_eq!((code.as_str(), field.as_str()), ("invalid", "request_id"));
}

#[tokio::test]
async fn triggers_beyond_the_cap_or_the_limit_are_refused() {
    let world = World::new();
    world.admin("PUT", "/api/v1/apps/etl", json!({"pending_max": 1})).await;
    world.admin("POST", "/api/v1/jobs", job("copy")).await;
    world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await;
    let (status, code, _, hint) = world.refused("POST", "/api/v1/jobs/copy/trigger", json!({})).await;
    assert_eq!((status, code.as_str()), (429, "pending_full"));
    assert!(hint.contains("pending_max"), "{hint}");
    let large = json!({"param": "x".repeat((1 << 20) + 1)});
    let (status, code, field, _) = world.refused("POST", "/api/v1/jobs/copy/trigger", large).await;
    assert_eq!((status, code.as_str(), field.as_str()), (413, "too_large", "param"));
}

#[tokio::test]
async fn a_run_is_killed_once() {
    let (world, worker) = world_with_worker().await;
    let run = world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await["run"].as_str().unwrap().to_owned();
    let dispatch = world.accept().remove(0);
    let path = format!("/api/v1/runs/{run}/kill");
    let killed = world.admin("POST", &path, json!({})).await;
    let shown = world.get(&format!("/api/v1/runs/{run}")).await;
    assert_eq!((&killed["state"], &shown["is_ended"]), (&shown["state"], &json!(false)), "its worker still stops it");
    report(&world, &worker, &dispatch, "killed").await;
    assert_eq!(world.get(&format!("/api/v1/runs/{run}")).await["state"], "killed");
    let (status, code, ..) = world.refused("POST", &path, json!({})).await;
    assert_eq!((status, code.as_str()), (409, "run_ended"));
    assert_eq!(world.refused("POST", "/api/v1/runs/r1/kill", json!({})).await.1, "run_unknown");
}

#[tokio::test]
async fn runs_are_named_as_printed_by_suffix_or_by_number() {
    let (world, _) = world_with_worker().await;
    let made = world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await;
    let run = made["run"].as_str().unwrap();
    let suffix = &run[run.len() - 3..];
    for name in [run.to_owned(), suffix.to_owned(), format!("r{suffix}"), format!("id:{}", made["id"])] {
        assert_eq!(world.get(&format!("/api/v1/runs/{name}")).await["run"], made["run"], "{name}");
    }
    for (name, code) in [("id:x", "invalid"), ("r-", "invalid"), ("id:5", "run_unknown"), ("rzzzzz", "run_unknown")] {
        assert_eq!(world.refused("GET", &format!("/api/v1/runs/{name}"), json!({})).await.1, code, "{name}");
    }
    // 33 runs in a row cannot all end with another digit.
    for _ in 0..32 {
        world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await;
    }
    let (status, code, field, _) =
        world.refused("GET", &format!("/api/v1/runs/{}", &run[run.len() - 1..]), json!({})).await;
    assert_eq!((status, code.as_str(), field.as_str()), (409, "run_ambiguous", "run"));
}

#[tokio::test]
async fn runs_are_listed_filtered_and_read_on() {
    let (world, worker) = world_with_worker().await;
    for _ in 0..3 {
        world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await;
    }
    let sent = world.accept();
    report(&world, &worker, &sent[0], "success").await;
    let count = async |query: &str| world.get(&format!("/api/v1/runs{query}")).await["items"].as_array().unwrap().len();
    for (query, expected) in [
        ("", 3),
        ("?state=success", 1),
        ("?job=copy&app=etl", 3),
        ("?app=pay", 0),
        ("?origin=schedule", 0),
        ("?since=1h", 3),
        ("?since=2026-12-24T00:00:00Z", 0),
        ("?namespace=shop", 0),
    ] {
        assert_eq!(count(query).await, expected, "{query}");
    }
    let first = world.get("/api/v1/runs?limit=2").await;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    let rest = world.get(&format!("/api/v1/runs?limit=2&after={}", first["next"].as_str().unwrap())).await;
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &json!(null)));
    for (query, field) in
        [("?state=sucess", "state"), ("?since=soon", "since"), ("?limit=0", "limit"), ("?job=nope", "")]
    {
        assert_eq!(world.refused("GET", &format!("/api/v1/runs{query}"), json!({})).await.2, field, "{query}");
    }
}

#[tokio::test]
async fn a_slot_that_cannot_go_is_shown_as_held_and_fires_when_a_worker_comes() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("copy")).await;
    world.pass_ms(10_000);
    let live = world.get("/api/v1/live").await;
    assert_eq!((&live["held"][0]["job_name"], &live["held"][0]["why"]), (&json!("copy"), &json!("no_worker")));
    let held = world.get("/api/v1/jobs/copy").await["held"].clone();
    assert_eq!(
        (&held["slot"], &held["text"], &held["app"], &held["is_overdue"]),
        (&json!("2026-11-30T16:00:10Z"), &json!("no worker of the app is online"), &json!("etl"), &json!(false))
    );
    assert_eq!(world.get("/api/v1/jobs").await["items"][0]["held"], held);
    let count = async |query: &str| world.get(&format!("/api/v1/held{query}")).await["items"].as_array().unwrap().len();
    for (query, expected) in [("", 1), ("?job=copy&app=etl", 1), ("?app=pay", 0), ("?namespace=shop", 0)] {
        assert_eq!(count(query).await, expected, "{query}");
    }
    let metrics = world.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("rota_slots_held{app=\"etl\",why=\"no_worker\"} 1\n"), "{metrics}");
    world.worker("etl-1", 7, "http://h:1").await;
    world.pass_ms(50);
    assert_eq!(world.refuse(), 1);
    let run = world.get("/api/v1/runs").await["items"][0].clone();
    assert_eq!(
        (&run["origin"], &run["slot"], &run["late_ms"]),
        (&json!("schedule"), &json!("2026-11-30T16:00:10Z"), &json!(0))
    );
    let story = world.get(&format!("/api/v1/runs/{}/why", run["run"].as_str().unwrap())).await;
    let lines = story["lines"].to_string();
    assert!(lines.contains(r#""about":"schedule","text":"Every 10 seconds""#), "{lines}");
    assert!(
        lines.contains("not started after 50 ms: connect_failed (no connection to the worker; nothing was sent)"),
        "{lines}"
    );
}

#[tokio::test]
async fn logs_are_read_by_window() {
    let (world, worker) = world_with_worker().await;
    let made = world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await;
    let (run, id) = (made["run"].as_str().unwrap(), made["id"].as_u64().unwrap());
    let entry = json!({"run": id, "shard": 0, "no": 1, "lines": ["one", "two\nthree"], "is_last": true});
    let of_others = json!({"run": 12_345, "shard": 0, "no": 1, "lines": ["lost"]});
    let body = json!({"incarnation": 7, "logs": [of_others, entry]}).to_string();
    assert_eq!(world.call("POST", &format!("/api/v1/workers/{worker}/logs"), ETL, body).await.0, 204);
    for (shard, no, field) in [(1, 1, "shard"), (u32::MAX, 1, "shard"), (0, 0, "no"), (0, 9_999, "no")] {
        let entry = json!({"run": id, "shard": shard, "no": no, "lines": ["x"]});
        let body = json!({"incarnation": 7, "logs": [entry]}).to_string();
        let (status, answer) = world.call("POST", &format!("/api/v1/workers/{worker}/logs"), ETL, body).await;
        assert_eq!(refusal(status, &answer).2, format!("logs[0].{field}"));
    }
    let window = world.get(&format!("/api/v1/runs/{run}/logs")).await;
    assert_eq!(
        (&window["text"], &window["attempt"], &window["is_closed"]),
        (&json!("one\ntwo\nthree\n"), &json!(1), &json!(true))
    );
    let window = world.get(&format!("/api/v1/runs/{run}/logs?from=4&bytes=4&attempt=1&shard=0")).await;
    assert_eq!((&window["text"], &window["next"], &window["len"]), (&json!("two\n"), &json!(8), &json!(14)));
    for (query, field) in
        [("?shard=1", "shard"), ("?bytes=0", "bytes"), ("?bytes=2000000", "bytes"), ("?from=-1", "from")]
    {
        assert_eq!(world.refused("GET", &format!("/api/v1/runs/{run}/logs{query}"), json!({})).await.2, field);
    }
}

/// Field case B109: up to the limit everything arrives whole.
#[tokio::test]
async fn every_parameter_of_a_mebibyte_can_be_sent() {
    let (world, _) = world_with_worker().await;
    // JSON writes a control character in six bytes.
    let param = json!({"param": "\u{1}".repeat(1 << 20)});
    world.admin("POST", "/api/v1/jobs/copy/trigger", param).await;
    let larger = json!({"param": "\u{1}".repeat((1 << 20) + (64 << 10))});
    let (status, code, ..) = world.refused("POST", "/api/v1/jobs/copy/trigger", larger).await;
    assert_eq!((status, code.as_str()), (413, "too_large"));
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_with_a_code() {
    let world = World::new();
    for path in ["jobs/%ff", "jobs/%ff/versions/1", "runs/%c3", "runs/%ff/why"] {
        let (status, code, _, hint) = world.refused("GET", &format!("/api/v1/{path}"), json!({})).await;
        assert_eq!((status, code.as_str()), (400, "malformed"), "{path}");
        assert!(hint.contains("UTF-8"), "{hint}");
    }
}

/// Known from the bucket: a token in 40 s, of which some have passed.
#[tokio::test]
async fn a_refusal_for_the_rate_says_when_to_ask_again() {
    let (world, _) = world_with_worker().await;
    let overlap = json!({"policy": "allow", "max": 5});
    let mut spec = world.get("/api/v1/jobs/copy").await["spec"].clone();
    spec["overlap"] = overlap;
    world.admin("PUT", "/api/v1/jobs/copy", spec).await;
    world.admin("PUT", "/api/v1/apps/etl", json!({"rate": "1/40s", "burst": 1})).await;
    world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await;
    for (passed_ms, expected) in [(0, "40"), (500, "40"), (30_000, "10")] {
        world.pass_ms(passed_ms);
        let (status, headers, _) = world.call_with("POST", "/api/v1/jobs/copy/trigger", ADMIN, &[], "{}").await;
        assert_eq!((status, headers["retry-after"].to_str().unwrap()), (429, expected));
    }
}
