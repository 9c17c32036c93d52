//! Who may do what, and what is open.

use serde_json::json;

use crate::world::{ADMIN, ETL, PAY, READ, World, job, refusal, registration};

#[tokio::test]
async fn each_scope_opens_its_own_calls_only() {
    let world = World::new();
    let reads = [
        "/api/v1/apps",
        "/api/v1/jobs",
        "/api/v1/runs",
        "/api/v1/workers",
        "/api/v1/server",
        "/api/v1/live",
        "/api/v1/held",
        "/metrics",
    ];
    for path in reads {
        for (token, expected) in [("", 401), ("wrong", 401), (ETL, 403), (READ, 200), (ADMIN, 200)] {
            let (status, body) = world.call("GET", path, token, "").await;
            assert_eq!(status, expected, "{path} with `{token}`: {body}");
        }
    }
    let writes = [
        ("POST", "/api/v1/jobs"),
        ("PUT", "/api/v1/apps/new"),
        ("POST", "/api/v1/apps/etl/token"),
        ("POST", "/api/v1/tokens"),
        ("GET", "/api/v1/tokens"),
        ("GET", "/api/v1/server/backup"),
        ("PUT", "/api/v1/jobs/a"),
        ("DELETE", "/api/v1/jobs/a"),
        ("POST", "/api/v1/jobs/a/pause"),
        ("POST", "/api/v1/jobs/a/resume"),
        ("POST", "/api/v1/jobs/a/trigger"),
        ("POST", "/api/v1/runs/r1/kill"),
        ("POST", "/api/v1/server/confirm-clock"),
    ];
    for (method, path) in writes {
        for (token, expected) in [("", 401), ("wrong", 401), (READ, 403), (ETL, 403)] {
            let (status, body) = world.call(method, path, token, job("a").to_string()).await;
            assert_eq!(status, expected, "{method} {path} with `{token}`: {body}");
        }
    }
    for token in [ADMIN, READ] {
        let (status, body) =
            world.call("POST", "/api/v1/workers", token, registration("w", 1, "http://h:1").to_string()).await;
        assert_eq!(refusal(status, &body).1, "forbidden");
    }
    let (status, metrics) = world.call("GET", "/metrics", READ, "").await;
    assert_eq!(status, 200);
    assert!(!metrics.as_str().unwrap().contains("rota_api_refused_tokens_total 0\n"), "refused tokens are counted");
}

#[tokio::test]
async fn a_worker_token_acts_for_its_own_app_only() {
    let world = World::new();
    let worker = world.worker("etl-1", 1, "http://h:1").await["worker"].as_u64().unwrap();
    let (status, body) =
        world.call("POST", "/api/v1/workers", PAY, registration("x", 1, "http://h:2").to_string()).await;
    assert_eq!(refusal(status, &body).1, "forbidden");
    let calls = [
        ("POST", "beat", json!({"incarnation": 1, "no": 1, "running": []})),
        ("POST", "results", json!({"incarnation": 1, "results": []})),
        ("POST", "logs", json!({"incarnation": 1, "logs": []})),
        ("POST", "drain", json!({"incarnation": 1})),
        ("DELETE", "", json!({"incarnation": 1})),
    ];
    for (method, what, body) in calls {
        let path = format!("/api/v1/workers/{worker}/{what}");
        let (status, answer) = world.call(method, path.trim_end_matches('/'), PAY, body.to_string()).await;
        assert_eq!(refusal(status, &answer).1, "forbidden", "{what}");
    }
}

/// Field case B141: what is open is a short list.
#[tokio::test]
async fn what_is_open_needs_no_token_and_carries_no_data() {
    let world = World::new();
    for (path, start) in [
        ("/livez", "live"),
        ("/readyz", "ready"),
        ("/", "<!doctype html>"),
        ("/page.js", "\"use strict\""),
        ("/page.css", ":root"),
    ] {
        let (status, body) = world.call("GET", path, "", "").await;
        assert_eq!(status, 200, "{path}");
        assert!(body.as_str().unwrap().starts_with(start), "{path}: {body}");
    }
}

#[tokio::test]
async fn readiness_and_life_follow_the_threads() {
    let world = World::new();
    world.board.health.lock().unwrap().stalled_ms = 10_000;
    assert_eq!(world.call("GET", "/livez", "", "").await.0, 200);
    world.board.health.lock().unwrap().stalled_ms = 10_001;
    let (status, body) = world.call("GET", "/livez", "", "").await;
    assert_eq!(status, 503, "{body}");
    assert_eq!(world.call("GET", "/readyz", "", "").await.0, 200);
    world.board.health.lock().unwrap().store = Some("the disk is full".into());
    let (status, body) = world.call("GET", "/readyz", "", "").await;
    assert_eq!(status, 503);
    assert!(body.as_str().unwrap().contains("the disk is full"), "{body}");
    let server = world.get("/api/v1/server").await;
    assert_eq!(server["is_ready"], false);
    assert!(server["not_ready"].as_str().unwrap().contains("the disk is full"));
}

#[tokio::test]
async fn a_jump_of_the_clock_is_shown_until_someone_confirms_it() {
    let world = World::new();
    assert_eq!(world.get("/api/v1/server").await["suspended"], json!(null));
    world.jump_ms(2 * 86_400_000);
    let server = world.get("/api/v1/server").await;
    assert_eq!((&server["suspended"], &server["is_ready"]), (&json!("clock_suspect"), &json!(false)));
    let (status, body) = world.call("GET", "/readyz", "", "").await;
    assert_eq!(status, 503);
    assert!(body.as_str().unwrap().contains("clock_suspect"), "{body}");
    let metrics = world.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("rota_partitions_suspended 1\n"), "{metrics}");
    let server = world.admin("POST", "/api/v1/server/confirm-clock", json!({})).await;
    assert_eq!((&server["suspended"], &server["is_ready"]), (&json!(null), &json!(true)));
    assert_eq!(world.call("GET", "/readyz", "", "").await.0, 200);
}

#[tokio::test]
async fn worker_tokens_rotate() {
    let world = World::new();
    let path = "/api/v1/apps/etl/token";
    let made = world.admin("POST", path, json!({})).await["token"].as_str().unwrap().to_owned();
    assert!(made.starts_with("rota_w_"), "{made}");
    let register = async |token: &str| {
        world.network.listens("http://h:1", "w", 1);
        world.call("POST", "/api/v1/workers", token, registration("w", 1, "http://h:1").to_string()).await.0
    };
    world.pass_ms(1_000);
    assert_eq!((register(ETL).await, register(&made).await), (200, 200), "the old one is still valid");
    let adopted = "b2f5c8a1e07d4936";
    world.admin("POST", path, json!({"adopt": adopted})).await;
    assert_eq!((register(ETL).await, register(&made).await, register(adopted).await), (401, 200, 200));
    for weak in ["", "short", "default_token", "changeme"] {
        let (status, code, field, hint) = world.refused("POST", path, json!({"adopt": weak})).await;
        assert_eq!((status, code.as_str(), field.as_str()), (400, "weak_token", "adopt"), "{weak}");
        assert!(hint.contains("openssl"), "{hint}");
    }
    let (status, code, _, hint) = world.refused("POST", "/api/v1/apps/elt/token", json!({})).await;
    assert_eq!((status, code.as_str(), hint.as_str()), (404, "app_unknown", "did you mean `etl`?"));
}

#[tokio::test]
async fn read_tokens_are_made_by_the_admin_and_shown_once() {
    let world = World::new();
    let path = "/api/v1/tokens";
    let made = world.admin("POST", path, json!({"scope": "read"})).await["token"].as_str().unwrap().to_owned();
    assert!(made.starts_with("rota_r_"), "{made}");
    assert_eq!(world.call("GET", "/api/v1/runs", &made, "").await.0, 200);
    assert_eq!(world.call("POST", "/api/v1/jobs", &made, job("a").to_string()).await.0, 403);
    assert_eq!(world.call("GET", "/api/v1/runs", READ, "").await.0, 200, "the one before is still valid");

    let listed = world.admin("GET", path, json!({})).await;
    let scopes: Vec<_> = listed["items"].as_array().unwrap().iter().map(|token| token["scope"].clone()).collect();
    assert_eq!(scopes, ["admin", "read", "read", "worker", "worker"]);
    assert!(!listed.to_string().contains(&made), "a token is shown once");
    assert_eq!(listed["items"][3]["app"], "etl");

    for (scope, hint) in [("admin", "token file"), ("worker", "rota app token"), ("everything", "read")] {
        let (status, code, field, said) = world.refused("POST", path, json!({"scope": scope})).await;
        assert_eq!((status, code.as_str(), field.as_str()), (400, "invalid", "scope"));
        assert!(said.contains(hint), "{said}");
    }
}

#[tokio::test]
async fn strangers_are_refused_with_a_code() {
    let world = World::new();
    assert_eq!(world.refused("GET", "/api/v1/jbos", json!({})).await.1, "route_unknown");
    assert_eq!(world.refused("GET", "/nothing", json!({})).await.1, "route_unknown");
    let (status, code, ..) = world.refused("PATCH", "/api/v1/jobs", json!({})).await;
    assert_eq!((status, code.as_str()), (405, "method_not_allowed"));
    let (status, body) = world.call("POST", "/api/v1/jobs", ADMIN, vec![b'{', 0xff, 0xfe]).await;
    assert_eq!(refusal(status, &body).1, "malformed");
    assert!(body["message"].as_str().unwrap().contains("byte 1"), "{body}");
    for (method, path, bytes) in [("PUT", "/api/v1/apps/a", (2 << 20) + 1), ("POST", "/api/v1/jobs", 7 << 20)] {
        let (status, body) = world.call(method, path, ADMIN, vec![b' '; bytes]).await;
        assert_eq!((status, refusal(status, &body).1.as_str()), (413, "too_large"), "{path}");
    }
}

#[tokio::test]
async fn every_metric_is_documented_and_every_documented_metric_is_there() {
    let world = World::new();
    world.worker("etl-1", 1, "http://h:1").await;
    let text = world.get("/metrics").await;
    let families: std::collections::BTreeSet<&str> =
        text.as_str().unwrap().lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md")).unwrap();
    let documented: std::collections::BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(families, documented);
    assert!(text.as_str().unwrap().contains("rota_worker_state{app=\"etl\",state=\"online\"} 1\n"), "{text}");
}

/// Field case B138: no token is a default one, and an empty or a long one opens nothing.
#[tokio::test]
async fn b138_what_is_no_token_opens_nothing() {
    let world = World::new();
    for token in ["", "default_token", "admin:123456", "null", &"x".repeat(8_000)] {
        for (method, path) in [("GET", "/api/v1/jobs"), ("POST", "/api/v1/jobs"), ("POST", "/api/v1/workers")] {
            let (status, body) = world.call(method, path, token, job("copy").to_string()).await;
            assert_eq!(status, 401, "{method} {path} {body}");
        }
    }
    assert_eq!(world.get("/api/v1/jobs").await["items"], json!([]));
}
