//! Tags: a change that depends on what was seen is refused once it is no longer so, and nothing is sent twice.

use serde_json::{Value, json};

use crate::world::{ADMIN, READ, World, job};

const JOB: &str = "/api/v1/jobs/tick";

/// A call as admin under a condition; status, tag and answer.
async fn call(world: &World, method: &str, path: &str, condition: (&str, &str), body: Value) -> (u16, String, Value) {
    let body = if method == "GET" { String::new() } else { body.to_string() };
    let (status, headers, answer) = world.call_with(method, path, ADMIN, &[condition], body).await;
    let tag = headers.get("etag").map_or("", |tag| tag.to_str().unwrap()).to_owned();
    (status, tag, answer)
}

async fn tag_of(world: &World, path: &str) -> String {
    let (status, headers, _) = world.call_with("GET", path, READ, &[], "").await;
    assert_eq!(status, 200, "{path}");
    headers["etag"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_job_is_changed_only_as_it_was_seen() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("tick")).await;
    let changes = [
        ("PUT", JOB.to_owned(), job("tick")),
        ("POST", format!("{JOB}/pause"), json!({})),
        ("POST", format!("{JOB}/resume"), json!({})),
        ("PUT", JOB.to_owned(), json!({"name": "tick", "app": "etl", "handler": "copy", "every": "20s"})),
        ("DELETE", JOB.to_owned(), json!({})),
    ];
    let mut stale = "\"1.7.enabled\"".to_owned();
    for (method, path, body) in changes {
        let seen = tag_of(&world, JOB).await;
        for outdated in [stale.as_str(), "\"x\", \"y\""] {
            let (status, _, answer) = call(&world, method, &path, ("if-match", outdated), body.clone()).await;
            assert_eq!((status, &answer["code"]), (412, &json!("version_conflict")), "{method} {path}: {answer}");
            assert!(answer["message"].as_str().unwrap().contains(&seen), "it says what is current: {answer}");
        }
        assert_eq!(tag_of(&world, JOB).await, seen, "nothing was changed");
        let both = format!("{stale}, W/{seen}");
        let (status, tag, answer) = call(&world, method, &path, ("if-match", &both), body).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        assert_ne!(tag, seen);
        if method != "DELETE" {
            assert_eq!(tag_of(&world, JOB).await, tag, "the answer has the tag that it made");
        }
        stale = seen;
    }
}

#[tokio::test]
async fn what_was_seen_is_not_sent_again() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("tick")).await;
    for path in [JOB, "/api/v1/apps/etl"] {
        let seen = tag_of(&world, path).await;
        let (status, tag, answer) = call(&world, "GET", path, ("if-none-match", &seen), json!({})).await;
        assert_eq!((status, tag, answer), (304, seen.clone(), json!("")), "{path}");
        let (status, ..) = call(&world, "GET", path, ("if-none-match", "\"other\""), json!({})).await;
        assert_eq!(status, 200);
        let (status, _, answer) = call(&world, "GET", path, ("if-match", "\"other\""), json!({})).await;
        assert_eq!((status, &answer["code"]), (412, &json!("version_conflict")));
        let (status, _, answer) = call(&world, "GET", path, ("if-none-match", "no quotes"), json!({})).await;
        assert_eq!((status, &answer["field"]), (400, &json!("If-None-Match")), "{answer}");
    }
    world.pass_ms(60_000);
    let seen = tag_of(&world, JOB).await;
    world.pass_ms(60_000);
    assert_eq!(tag_of(&world, JOB).await, seen, "slots that pass change no tag");
}

#[tokio::test]
async fn an_app_is_made_only_if_it_is_not_there() {
    let world = World::new();
    let path = "/api/v1/apps/new";
    let (status, _, answer) = call(&world, "PUT", path, ("if-match", "*"), json!({})).await;
    assert_eq!((status, &answer["code"]), (412, &json!("version_conflict")), "there is nothing to change yet");
    let (status, made, _) = call(&world, "PUT", path, ("if-none-match", "*"), json!({})).await;
    assert_eq!((status, &made), (200, &tag_of(&world, path).await));
    let (status, _, answer) = call(&world, "PUT", path, ("if-none-match", "*"), json!({"pending_max": 7})).await;
    assert_eq!((status, &answer["code"]), (412, &json!("version_conflict")), "{answer}");
    let (status, changed, answer) = call(&world, "PUT", path, ("if-match", &made), json!({"pending_max": 7})).await;
    assert_eq!((status, &answer["pending_max"]), (200, &json!(7)));
    assert_ne!(changed, made);
    let (status, ..) = call(&world, "PUT", path, ("if-match", &made), json!({"pending_max": 8})).await;
    assert_eq!(status, 412);
}
