//! Rates: how fast dispatches begin, what waits for that, and what is refused.

use serde_json::{Value, json};

use crate::clock::wait_for;
use crate::fake::{Fake, Manner};
use crate::folder::Folder;
use crate::process::said;
use crate::server::Server;

#[test]
fn a_rate_holds_slots_and_refuses_triggers() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let fake = Fake::join(&server.api, "etl", &token, "w1", Manner::Prompt);
    let put = json!({"rate": "2/s", "burst": 2, "groups": {"zone=a": {"rate": "1/h"}}});
    let app = server.api.ask("PUT", "/api/v1/apps/etl", &put);
    assert_eq!(
        (&app["rate"], &app["burst"], &app["groups"]["zone=a"]["rate"]),
        (&json!("2/s"), &json!(2), &json!("1/h"))
    );
    for (bad, field) in [
        (json!({"rate": "fast"}), "rate"),
        (json!({"rate": "2/s", "burst": 0}), "burst"),
        (json!({"groups": {"zone==": {"rate": "1/s"}}}), "groups"),
    ] {
        let refusal = server.api.refused("PUT", "/api/v1/apps/etl", bad.to_string().as_bytes(), 400, "invalid");
        assert_eq!(refusal["field"], field, "{refusal}");
    }

    for n in 0..6 {
        server.job(&json!({"name": format!("tick{n}"), "app": "etl", "handler": "work", "every": "1s"}));
    }
    let shown = || server.api.get("/api/v1/apps/etl");
    wait_for("held slots", shown, |app: &Value| app["valve"]["held"]["rate"].as_u64().is_some_and(|held| held > 0));
    let at = |line: &str| format!("{line} --server http://{} --token {}", server.api.address, server.api.token);
    let text = said(folder.path(), &at("app show etl"), 0);
    assert!(text.contains("rate     2/s, burst 2") && text.contains("group    zone=a: 1/h"), "{text}");
    let metrics = server.api.call("GET", "/metrics", b"").unwrap();
    assert_eq!(metrics.status, 200);

    // The server's own record: in no window of a run's decision and another's did more begin.
    wait_for("starts", || fake.starts().len(), |starts| *starts >= 12);
    let runs = server.api.get("/api/v1/runs?app=etl&limit=1000")["items"].as_array().unwrap().clone();
    let mut begun: Vec<i64> = runs.iter().map(|run| crate::clock::parse_ms(run["at"].as_str().unwrap())).collect();
    begun.sort_unstable();
    for first in 0..begun.len() {
        for last in first..begun.len() {
            // The wall clock's milliseconds are not those that tokens are counted by: either end may be one off.
            let allowed = 2 + (begun[last] - begun[first] + 2) * 2 / 1_000;
            assert!(i64::try_from(last - first).unwrap() < allowed, "{begun:?}");
        }
    }
    assert!(runs.iter().all(|run| run["why"] != "misfire"), "what the rate made late is no misfire");

    server.job(&json!({"name": "asked", "app": "etl", "handler": "work"}));
    let mut refused = None;
    wait_for(
        "a refusal",
        || {
            let answer = server.api.call("POST", "/api/v1/jobs/asked/trigger", b"{}").unwrap();
            refused = (answer.status == 429).then(|| answer.json());
            answer.status
        },
        |status| *status == 429,
    );
    assert_eq!(refused.unwrap()["code"], "rate_limited");
}

/// Both apps want six dispatches a second, the server lets four begin.
#[test]
fn a_rate_of_the_server_is_shared_by_all_apps() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[("ROTA_LIMITS__RATE", "4/s"), ("ROTA_LIMITS__BURST", "2")]);
    let fakes = ["etl", "pay"].map(|app| Fake::join(&server.api, app, &server.app(app), "w1", Manner::Prompt));
    for app in ["etl", "pay"] {
        for n in 0..6 {
            server.job(&json!({"name": format!("{app}{n}"), "app": app, "handler": "work", "every": "1s"}));
        }
    }
    let facts = server.api.get("/api/v1/server");
    assert_eq!((&facts["rate"], &facts["burst"], &facts["pending_max"]), (&json!("4/s"), &json!(2), &json!(1_000)));
    assert!(facts["tokens"].as_u64().is_some_and(|tokens| tokens <= 2), "{facts}");
    for app in ["etl", "pay"] {
        let shown = || server.api.get(&format!("/api/v1/apps/{app}"));
        wait_for("held slots", shown, |app| app["valve"]["held"]["server_rate"].as_u64().is_some_and(|held| held > 0));
    }
    let metrics = || server.api.call("GET", "/metrics", b"").unwrap().text;
    wait_for("the valve", metrics, |text| text.lines().any(|line| line == "rota_valve_state 1"));
    wait_for("starts", || fakes.iter().map(|fake| fake.starts().len()).min(), |least| *least >= Some(8));

    let runs = server.api.get("/api/v1/runs?limit=1000")["items"].as_array().unwrap().clone();
    let mut begun: Vec<i64> = runs.iter().map(|run| crate::clock::parse_ms(run["at"].as_str().unwrap())).collect();
    begun.sort_unstable();
    for (first, since) in begun.iter().enumerate() {
        for (last, at) in begun.iter().enumerate().skip(first) {
            // As above.
            let allowed = 2 + (at - since + 2) * 4 / 1_000;
            assert!(i64::try_from(last - first).unwrap() < allowed, "{begun:?}");
        }
    }
    assert!(runs.iter().all(|run| run["why"] != "misfire"), "what the rate made late is no misfire");

    server.job(&json!({"name": "asked", "app": "etl", "handler": "work"}));
    let refusal = server.api.refused("POST", "/api/v1/jobs/asked/trigger", b"{}", 429, "rate_limited");
    assert!(refusal["message"].as_str().unwrap().contains("the server's rate"), "{refusal}");
}
