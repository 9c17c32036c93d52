//! Overlap policies: what becomes of a run while earlier ones of its job hold their places.

use serde_json::{Value, json};

use crate::clock::wait_for;
use crate::fake::{Fake, Manner};
use crate::folder::Folder;
use crate::process::said;
use crate::server::Server;

/// Asks for a run of a job; what the answer says.
fn ask(server: &Server, job: &str, param: Option<&str>) -> Value {
    let body = param.map_or_else(|| json!({}), |param| json!({"param": param}));
    server.api.post(&format!("/api/v1/jobs/{job}/trigger"), &body)
}

fn refused(server: &Server, job: &str, param: &str, code: &str) {
    let body = json!({"param": param}).to_string();
    let refusal = server.api.refused("POST", &format!("/api/v1/jobs/{job}/trigger"), body.as_bytes(), 409, code);
    assert!(refusal["hint"].is_string(), "{refusal}");
}

/// The attempt of a run, once the worker has started it.
fn started(fake: &Fake, asked: &Value) -> u64 {
    let run = asked["id"].as_u64().unwrap();
    let attempt = || fake.starts().iter().find(|start| start.key.run == run).map(|start| start.attempt);
    wait_for("a start", attempt, Option::is_some).unwrap()
}

fn has_started(fake: &Fake, asked: &Value) -> bool {
    fake.starts().iter().any(|start| start.key.run == asked["id"].as_u64().unwrap())
}

fn state(server: &Server, asked: &Value) -> (String, String) {
    let run = server.api.run(asked["run"].as_str().unwrap());
    let word = |key: &str| run[key].as_str().unwrap_or("-").to_owned();
    (word("state"), word("why"))
}

fn ends(server: &Server, asked: &Value, expected: (&str, &str)) {
    let is_over = |(state, why): &(String, String)| (state.as_str(), why.as_str()) == expected;
    wait_for("an end", || state(server, asked), is_over);
}

#[test]
fn each_overlap_policy_does_what_it_says() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let fake = Fake::join(&server.api, "etl", &token, "w1", Manner::Busy);
    let job = |name: &str, overlap: Value| {
        server.job(&json!({"name": name, "app": "etl", "handler": "work", "overlap": overlap}));
    };

    job("skip", json!("skip"));
    let first = ask(&server, "skip", None);
    assert_eq!(first["entry"], "started", "{first}");
    started(&fake, &first);
    refused(&server, "skip", "", "overlap");

    job("two", json!({"policy": "allow", "max": 2}));
    for _ in 0..2 {
        started(&fake, &ask(&server, "two", None));
    }
    refused(&server, "two", "", "overlap");

    job("running", json!("cancel_running"));
    let old = ask(&server, "running", None);
    let cancelled = started(&fake, &old);
    let new = ask(&server, "running", None);
    assert_eq!(new["entry"], "started", "{new}");
    started(&fake, &new);
    wait_for("a cancel", || fake.was_cancelled(cancelled), |is| *is);
    fake.finish(cancelled, "killed");
    ends(&server, &old, ("killed", "cancelled_by_overlap"));

    job("waiting", json!("cancel_and_wait"));
    let old = ask(&server, "waiting", None);
    let cancelled = started(&fake, &old);
    let between = ask(&server, "waiting", None);
    let new = ask(&server, "waiting", None);
    assert_eq!(new["entry"], "queued", "{new}");
    wait_for("a cancel", || fake.was_cancelled(cancelled), |is| *is);
    ends(&server, &between, ("discarded", "cancelled_by_overlap"));
    assert!(!has_started(&fake, &new), "the code of the old one may still run");
    fake.finish(cancelled, "killed");
    started(&fake, &new);

    job("merge", json!("merge"));
    let runs = ask(&server, "merge", None);
    let attempt = started(&fake, &runs);
    let waits = ask(&server, "merge", None);
    let merged = ask(&server, "merge", None);
    assert_eq!((&merged["entry"], &merged["into"]), (&json!("merged"), &waits["run"]), "{merged}");
    assert_eq!(server.api.run(merged["run"].as_str().unwrap())["merged_into"], waits["run"]);
    let at = |line: &str| format!("{line} --server http://{} --token {}", server.api.address, server.api.token);
    let why = said(folder.path(), &at(&format!("why {}", merged["run"].as_str().unwrap())), 0);
    assert!(why.contains(&format!("into {}", waits["run"].as_str().unwrap())), "{why}");
    let again = said(folder.path(), &at("run merge --no-follow"), 0);
    assert!(again.contains("is merged into"), "{again}");
    fake.finish(attempt, "success");
    started(&fake, &waits);
}

#[test]
fn a_queue_is_kept_by_key_and_through_a_kill() {
    let folder = Folder::new();
    let mut server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let fake = Fake::join(&server.api, "etl", &token, "w1", Manner::Busy);
    let overlap = json!({"policy": "queue", "queue": 2, "key": "tenant"});
    server.job(&json!({"name": "load", "app": "etl", "handler": "work", "overlap": overlap}));

    let a = ask(&server, "load", Some("tenant=a"));
    let attempt = started(&fake, &a);
    started(&fake, &ask(&server, "load", Some("tenant=b")));
    let second = ask(&server, "load", Some("tenant=a x=1"));
    let third = ask(&server, "load", Some(r#"{"tenant": "a"}"#));
    assert_eq!((&second["entry"], &third["entry"]), (&json!("queued"), &json!("queued")));
    refused(&server, "load", "tenant=a", "queue_full");
    assert_eq!(state(&server, &second), ("pending".to_owned(), "overlap".to_owned()));

    server.restart();
    refused(&server, "load", "tenant=a", "queue_full");
    fake.finish(attempt, "success");
    let attempt = started(&fake, &second);
    assert!(!has_started(&fake, &third));
    fake.finish(attempt, "success");
    started(&fake, &third);
}
