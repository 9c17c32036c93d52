//! Streams: logs that are followed, and runs that change.

use serde_json::{Value, json};

use crate::world::{ETL, World, job};

/// A world with a worker, a run that it has accepted, and what names its attempt.
async fn running() -> (World, String, Value) {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", json!({"name": "copy", "app": "etl", "handler": "copy"})).await;
    world.worker("etl-1", 7, "http://h:1").await;
    let made = world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await;
    let sent = world.accept().remove(0);
    let attempt = json!({"attempt": sent.attempt.0, "run": sent.run.0, "shard": sent.shard, "no": sent.no});
    (world, made["run"].as_str().unwrap().to_owned(), attempt)
}

async fn worker(world: &World, call: &str, body: Value) {
    let (status, answer) = world.call("POST", &format!("/api/v1/workers/1/{call}"), ETL, body.to_string()).await;
    assert!(status < 300, "{call}: {status} {answer}");
}

async fn print(world: &World, attempt: &Value, lines: &[&str], is_last: bool) {
    let (run, shard, no) = (&attempt["run"], &attempt["shard"], &attempt["no"]);
    let log = json!({"run": run, "shard": shard, "no": no, "lines": lines, "is_last": is_last});
    worker(world, "logs", json!({"incarnation": 7, "logs": [log]})).await;
}

async fn succeed(world: &World, attempt: &Value) {
    let mut result = attempt.clone();
    result["outcome"] = json!("success");
    worker(world, "results", json!({"incarnation": 7, "results": [result]})).await;
}

fn texts(events: &[(String, String, Value)]) -> String {
    events.iter().filter(|(name, ..)| name == "log").map(|(.., part)| part["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_log_is_followed_until_its_run_has_ended() {
    let (world, run, attempt) = running().await;
    print(&world, &attempt, &["one", "two"], false).await;
    let mut stream = world.stream(&format!("/api/v1/runs/{run}/logs?follow"), "").await;
    let (name, id, part) = stream.next().await.unwrap();
    assert_eq!((name.as_str(), &part), ("log", &json!({"shard": 0, "attempt": 1, "from": 0, "text": "one\ntwo\n"})));
    let (name, _, followed) = stream.next().await.unwrap();
    assert_eq!((name.as_str(), &followed["run"]["state"]), ("run", &json!("running")));
    print(&world, &attempt, &["three"], true).await;
    succeed(&world, &attempt).await;
    let events = stream.rest().await;
    assert_eq!(texts(&events), "three\n");
    assert_eq!(events[events.len() - 2].2["run"]["state"], "success");
    assert_eq!(events.last().unwrap().2["reason"], "ended");

    // Behind an event, whichever: nothing is left out, nothing is repeated.
    let path = format!("/api/v1/runs/{run}/logs?follow=true");
    assert_eq!(texts(&world.stream(&path, "").await.rest().await), "one\ntwo\nthree\n");
    assert_eq!(texts(&world.stream(&path, &id).await.rest().await), "three\n");
    assert_eq!(texts(&world.stream(&path, &events[0].1).await.rest().await), "");
}

#[tokio::test]
async fn the_logs_of_all_attempts_come_in_order() {
    let (world, run, _) = running().await;
    world.admin("POST", &format!("/api/v1/runs/{run}/kill"), json!({})).await;
    let spec = json!({"name": "again", "app": "etl", "handler": "copy", "retry": {"max": 1}, "shards": {"count": 2}});
    world.admin("POST", "/api/v1/jobs", spec).await;
    let made = world.admin("POST", "/api/v1/jobs/again/trigger", json!({})).await;
    let run = made["run"].as_str().unwrap();
    for no in 1..=2 {
        let sent = world.accept();
        for dispatch in &sent {
            let mut attempt = json!({"attempt": dispatch.attempt.0, "run": dispatch.run.0, "shard": dispatch.shard, "no": dispatch.no});
            print(&world, &attempt, &[&format!("shard {} try {no}", dispatch.shard)], true).await;
            attempt["outcome"] = json!(if no == 1 && dispatch.shard == 1 { "failed" } else { "success" });
            worker(&world, "results", json!({"incarnation": 7, "results": [attempt]})).await;
        }
        world.pass_ms(1_000);
    }
    let all = world.stream(&format!("/api/v1/runs/{run}/logs?follow"), "").await.rest().await;
    assert_eq!(texts(&all), "shard 0 try 1\nshard 1 try 1\nshard 1 try 2\n");
    for (at, (name, id, _)) in all.iter().enumerate().filter(|(_, (name, ..))| name == "log") {
        let rest = world.stream(&format!("/api/v1/runs/{run}/logs?follow"), id).await.rest().await;
        assert_eq!(texts(&rest), texts(&all[at + 1..]), "behind {name} {id}");
    }
    let shard = world.stream(&format!("/api/v1/runs/{run}/logs?follow&shard=1&attempt=1"), "").await.rest().await;
    assert_eq!(texts(&shard), "shard 1 try 1\n");
}

#[tokio::test]
async fn mistakes_about_streams_are_told() {
    let (world, run, _) = running().await;
    for (query, field) in [("follow=yes", "follow"), ("follow&from=7", "from"), ("follow&shard=1", "shard")] {
        let (status, code, at, _) = world.refused("GET", &format!("/api/v1/runs/{run}/logs?{query}"), json!({})).await;
        assert_eq!((status, code.as_str(), at.as_str()), (400, "invalid", field), "{query}");
    }
    let (status, code, ..) = world.refused("GET", "/api/v1/runs/r00000000000/logs?follow", json!({})).await;
    assert_eq!((status, code.as_str()), (404, "run_unknown"));
    let headers = [("last-event-id", "nonsense")];
    let path = format!("/api/v1/runs/{run}/logs?follow");
    let (status, _, answer) = world.call_with("GET", &path, crate::world::READ, &headers, "").await;
    assert_eq!((status, &answer["field"]), (400, &json!("Last-Event-ID")), "{answer}");
    let (status, code, ..) = world.refused("GET", "/api/v1/runs/stream?job=nope", json!({})).await;
    assert_eq!((status, code.as_str()), (404, "job_unknown"));
}

#[tokio::test]
async fn runs_are_told_as_they_change() {
    let (world, first, attempt) = running().await;
    world.admin("POST", "/api/v1/jobs", job("tick")).await;
    let mut all = world.stream("/api/v1/runs/stream", "").await;
    let mut ended = world.stream("/api/v1/runs/stream?state=success&job=copy", "").await;
    let mut ticks = world.stream("/api/v1/runs/stream?job=tick", "").await;
    succeed(&world, &attempt).await;
    for stream in [&mut all, &mut ended] {
        let (name, _, run) = stream.next().await.unwrap();
        assert_eq!((name.as_str(), &run["run"], &run["state"]), ("run", &json!(first), &json!("success")));
    }
    world.pass_ms(10_000);
    let (name, _, run) = ticks.next().await.unwrap();
    assert_eq!((name.as_str(), &run["job_name"]), ("run", &json!("tick")));
}

#[tokio::test]
async fn streams_have_places_and_a_server_that_stops_ends_them() {
    let (world, run, _) = running().await;
    let path = format!("/api/v1/runs/{run}/logs?follow");
    let mut streams = Vec::new();
    for at in 0..256 {
        let path = if at % 2 == 0 { path.as_str() } else { "/api/v1/runs/stream" };
        streams.push(world.stream(path, "").await);
    }
    let (status, code, _, hint) = world.refused("GET", &path, json!({})).await;
    assert_eq!((status, code.as_str()), (503, "too_many_streams"));
    assert!(!hint.is_empty());
    let stop = tokio_util::sync::CancellationToken::new();
    stop.cancel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    rota_api::serve(listener, world.state.clone(), stop).await.unwrap();
    for stream in streams {
        let events = stream.rest().await;
        let (name, _, end) = events.last().unwrap();
        assert_eq!((name.as_str(), &end["reason"]), ("end", &json!("shutdown")));
    }
}
