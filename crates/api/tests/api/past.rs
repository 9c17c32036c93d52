//! The past through the API, and what operators do about it: every answer here is also held against the document.

use rota_core::time::UnixMs;
use serde_json::{Value, json};

use crate::world::{ETL, START, World, job};

async fn world() -> World {
    let world = World::new();
    world.worker("etl-1", 7, "http://h:1").await;
    world.admin("POST", "/api/v1/jobs", job("tick")).await;
    world
}

fn at(ms: i64) -> String {
    UnixMs(START + ms).to_string().replace(':', "%3A")
}

async fn why(world: &World, job: &str, ms: i64) -> Value {
    world.get(&format!("/api/v1/jobs/{job}/why?at={}", at(ms))).await
}

#[tokio::test]
async fn a_slot_is_explained_with_a_row_or_without() {
    let world = world().await;
    world.pass_ms(10_000);
    assert_eq!(why(&world, "tick", 10_000).await["code"], "covered");
    let between = why(&world, "tick", 15_000).await;
    assert_eq!((&between["code"], &between["is_hole"]), (&json!("no_match"), &json!(false)), "{between}");
    assert_eq!(between["before"], "2026-11-30T16:00:10Z", "{between}");
    assert_eq!(why(&world, "tick", 20_000).await["code"], "future");
    assert_eq!(why(&world, "tick", -20_000).await["code"], "not_created");
    world.admin("POST", "/api/v1/jobs/tick/pause", json!({"reason": "until v2"})).await;
    world.pass_ms(30_000);
    let paused = why(&world, "tick", 20_000).await;
    assert_eq!(paused["code"], "paused");
    assert!(paused["title"].as_str().unwrap().contains("by admin: \"until v2\""), "{paused}");
    assert_eq!(world.get("/api/v1/jobs/tick").await["pause"]["reason"], "until v2");
    let (status, _, field, hint) = world.refused("GET", "/api/v1/jobs/tick/why?at=soon", json!(null)).await;
    assert_eq!((status, field.as_str()), (400, "at"));
    assert!(hint.contains("02:00"), "{hint}");
    assert_eq!(world.refused("GET", "/api/v1/jobs/tick/why", json!(null)).await.2, "at");
}

#[tokio::test]
async fn what_took_a_slot_away_is_named() {
    let world = World::new();
    world.worker("etl-1", 7, "http://h:1").await;
    let mut hourly = job("hourly");
    hourly["every"] = json!("1h");
    hourly["timezone"] = json!("Asia/Shanghai");
    hourly["jitter"] = json!("30m");
    // It begins at midnight of December the 1st there, a Tuesday.
    hourly["calendar"] = json!({"exclude": ["mon", "02:00-04:00"], "include": ["2026-12-07"]});
    hourly["active"] = json!({"until": "2026-12-09"});
    world.admin("POST", "/api/v1/jobs", hourly).await;
    let hour = 3_600_000;
    for (ms, code, said) in [
        (hour, "future", "fires in 1h"),
        (2 * hour, "calendar", "`02:00-04:00`"),
        (3 * hour, "calendar", "`02:00-04:00`"),
        (4 * hour, "future", ""),
        (6 * 24 * hour, "future", ""),
        (13 * 24 * hour, "outside_active", "until 2026-12-09 23:59:59"),
        (90 * 60_000, "no_match", "no slot of the schedule"),
    ] {
        let story = why(&world, "hourly", ms).await;
        assert_eq!(story["code"], code, "{story}");
        assert!(story["title"].as_str().unwrap().contains(said), "{story}");
        assert_eq!(story["is_hole"], false);
    }
    // One of these minutes is the one in which the slot of one o'clock starts.
    let mut found = Vec::new();
    for minute in 0..30 {
        let at = UnixMs(START + hour + minute * 60_000).to_string();
        let path = format!("/api/v1/jobs/hourly/why?at=2026-12-01T01:{minute:02}");
        let story = world.get(&path).await;
        if story["code"] == "jitter" {
            assert!(story["title"].as_str().unwrap().contains("01:00:00 +08:00 starts"), "{at}: {story}");
            assert!(
                story["hints"][0].as_str().unwrap().contains("rota why hourly@2026-12-01T01:00:00+08:00"),
                "{story}"
            );
            found.push(minute);
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
}

#[tokio::test]
async fn history_lists_versions_and_states_with_what_changed() {
    let world = world().await;
    world.pass_ms(1_000);
    world.admin("POST", "/api/v1/jobs/tick/pause", json!({"reason": "until v2"})).await;
    world.pass_ms(1_000);
    let mut edited = job("tick");
    edited["http"] = json!({"post": "http://a/", "headers": {"X-Key": "one"}});
    edited.as_object_mut().unwrap().remove("handler");
    edited["every"] = json!("20s");
    world.admin("PUT", "/api/v1/jobs/tick", edited.clone()).await;
    edited["http"]["headers"]["X-Key"] = json!("two");
    world.admin("PUT", "/api/v1/jobs/tick", edited).await;
    let history = world.get("/api/v1/jobs/tick/history").await;
    let kinds: Vec<&str> =
        history["items"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["version", "version", "state", "version"], "{history}");
    let page = world.get("/api/v1/jobs/tick/history?limit=3").await;
    let rest = world.get(&format!("/api/v1/jobs/tick/history?before={}", page["next"].as_str().unwrap())).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    let diff = world.get("/api/v1/jobs/tick/diff?from=1&to=2").await;
    assert!(
        diff["changes"].as_array().unwrap().contains(&json!({"key": "every", "from": "10s", "to": "20s"})),
        "{diff}"
    );
    // Whoever reads is told that a secret changed, and not to what.
    let secret = world.get("/api/v1/jobs/tick/diff").await;
    assert_eq!(secret["changes"], json!([{"key": "http.headers.X-Key", "from": "***", "to": "***"}]), "{secret}");
    assert_eq!(world.refused("GET", "/api/v1/jobs/tick/diff?to=9", json!(null)).await.1, "version_unknown");
}

#[tokio::test]
async fn a_freeze_refuses_holds_and_ends() {
    let world = world().await;
    let frozen = world.admin("POST", "/api/v1/freeze", json!({"reason": "the disk burns", "app": "etl"})).await;
    assert_eq!((&frozen["is_changed"], &frozen["frozen"][0]["app"]), (&json!(true), &json!("etl")), "{frozen}");
    world.admin("POST", "/api/v1/freeze", json!({"reason": "again"})).await;
    world.pass_ms(30_000);
    assert_eq!(world.accept().len(), 0);
    assert_eq!(world.refused("POST", "/api/v1/jobs/tick/trigger", json!({})).await.1, "frozen");
    let held = world.get("/api/v1/held").await;
    assert_eq!(
        (&held["items"][0]["why"], &held["items"][0]["slot"]),
        (&json!("frozen"), &json!("2026-11-30T16:00:10Z"))
    );
    assert_eq!(world.get("/api/v1/server").await["frozen"].as_array().unwrap().len(), 2);
    let told = why(&world, "tick", 20_000).await;
    assert_eq!(told["code"], "frozen", "{told}");
    let thawed = world.admin("POST", "/api/v1/thaw", json!({"app": "etl"})).await;
    assert_eq!(thawed["frozen"].as_array().unwrap().len(), 1, "{thawed}");
    world.pass_ms(1_000);
    assert_eq!(world.accept().len(), 0, "the other freeze goes on");
    world.admin("POST", "/api/v1/thaw", json!({"missed": "fire_once"})).await;
    world.pass_ms(1_000);
    let runs = world.get("/api/v1/runs").await;
    let shown: Vec<(&str, u64, &str)> = runs["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["slot"].as_str().unwrap(), run["slots"].as_u64().unwrap(), run["state"].as_str().unwrap()))
        .collect();
    // What both held is skipped, as the first of them says.
    assert_eq!(shown, [("2026-11-30T16:00:10Z", 3, "skipped")], "{runs}");
    assert_eq!(world.admin("POST", "/api/v1/thaw", json!({})).await["is_changed"], false);
    assert_eq!(world.refused("POST", "/api/v1/freeze", json!({"reason": " "})).await.2, "reason");
    assert_eq!(world.refused("POST", "/api/v1/thaw", json!({"missed": "all"})).await.2, "missed");
    world.pass_ms(10_000);
    let held = world.get("/api/v1/held").await;
    assert_eq!(held["items"][0]["why"], "no_worker", "its worker was silent meanwhile: {held}");
}

#[tokio::test]
async fn an_audit_streams_its_findings() {
    let world = world().await;
    world.pass_ms(10_000);
    world.pass_ms(10_000);
    let lines = |text: Value| -> Vec<Value> {
        text.as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let clean = lines(world.get("/api/v1/audit?since=1h").await);
    let summary = &clean.last().unwrap()["summary"];
    assert_eq!((&summary["jobs"], &summary["slots"], &summary["is_clean"]), (&json!(1), &json!(1), &json!(true)));
    assert_eq!(summary["waiting"], 1, "its worker was silent meanwhile");
    // A store that has lost a row.
    world.lose_run(0);
    let found = lines(world.get("/api/v1/audit?job=tick").await);
    assert_eq!(found[0]["finding"]["what"], "hole", "{found:?}");
    assert_eq!(found[0]["finding"]["slot"], "2026-11-30T16:00:10Z", "{found:?}");
    assert_eq!(found.last().unwrap()["summary"]["holes"], 1);
    let told = why(&world, "tick", 10_000).await;
    assert_eq!((&told["code"], &told["is_hole"]), (&json!("hole"), &json!(true)), "{told}");
    let until = format!("/api/v1/audit?since={}&until={}", at(15_000), at(5_000));
    assert_eq!(world.refused("GET", &until, json!(null)).await.2, "until");
}

#[tokio::test]
async fn what_failed_is_named_and_runs_again() {
    let world = World::new();
    let worker = world.worker("etl-1", 7, "http://h:1").await["worker"].to_string();
    let mut parts = job("parts");
    parts.as_object_mut().unwrap().remove("every");
    parts["shards"] = json!({"count": 2});
    world.admin("POST", "/api/v1/jobs", parts).await;
    let run = world.admin("POST", "/api/v1/jobs/parts/trigger", json!({"param": "x"})).await;
    let run = run["run"].as_str().unwrap().to_owned();
    assert_eq!(world.refused("POST", &format!("/api/v1/runs/{run}/rerun"), json!({})).await.1, "run_open");
    for dispatch in world.accept() {
        let outcome = if dispatch.shard == 0 { "success" } else { "failed" };
        let result = json!({"attempt": dispatch.attempt.0, "run": dispatch.run.0, "shard": dispatch.shard,
            "no": dispatch.no, "outcome": outcome, "message": "disk full"});
        let body = json!({"incarnation": 7, "results": [result]}).to_string();
        world.call("POST", &format!("/api/v1/workers/{worker}/results"), ETL, body).await;
    }
    let top = world.get("/api/v1/top?by=failing").await;
    assert_eq!((&top["items"][0]["job_name"], &top["items"][0]["failures"]), (&json!("parts"), &json!(1)), "{top}");
    assert_eq!(top["items"][0]["last_failure"]["message"], "disk full", "{top}");
    for by in ["late", "slow"] {
        world.get(&format!("/api/v1/top?by={by}&since=1h&limit=3&app=etl")).await;
    }
    let path = format!("/api/v1/runs/{run}/rerun");
    let again = world.admin("POST", &path, json!({"failed_shards": true, "request_id": "once"})).await;
    assert_eq!((&again["shards"], &again["shards_run"], &again["rerun_of"]), (&json!(2), &json!(1), &json!(run)));
    let repeated = world.admin("POST", &path, json!({"failed_shards": true, "request_id": "once"})).await;
    assert_eq!((&repeated["run"], &repeated["is_repeated"]), (&again["run"], &json!(true)));
    let sent = world.accept();
    assert_eq!(sent.iter().map(|d| (d.shard, d.shards, d.param.as_deref())).collect::<Vec<_>>(), [(1, 2, Some("x"))]);
    let shown = world.get(&format!("/api/v1/runs/{}", again["run"].as_str().unwrap())).await;
    assert_eq!((&shown["origin"], &shown["rerun_of"], &shown["shards"]), (&json!("rerun"), &json!(run), &json!(2)));
    assert_eq!(world.get("/api/v1/runs?origin=rerun").await["items"].as_array().unwrap().len(), 1);
    world.admin("DELETE", "/api/v1/jobs/parts", json!(null)).await;
    assert_eq!(world.refused("POST", &path, json!({})).await.1, "job_deleted");
}
