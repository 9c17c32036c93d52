//! Long lists come in parts, each of which says where the next begins.

use serde_json::{Value, json};

use crate::world::{ADMIN, ETL, World, job};

/// All of a list, read in parts of `limit`, and how many parts it took.
async fn all(world: &World, path: &str, limit: usize) -> (Vec<Value>, usize) {
    let joint = if path.contains('?') { '&' } else { '?' };
    let (mut items, mut parts, mut after) = (Vec::new(), 0, String::new());
    loop {
        let asked = format!("{path}{joint}limit={limit}{after}");
        let (status, part) = world.call("GET", &asked, ADMIN, "").await;
        assert_eq!(status, 200, "{asked}: {part}");
        let found = part["items"].as_array().unwrap();
        assert!(found.len() <= limit);
        items.extend(found.iter().cloned());
        parts += 1;
        match part["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (items, parts),
        }
    }
}

/// A world with several of everything.
async fn furnished() -> World {
    let world = World::new();
    for n in 0..5 {
        world.admin("PUT", &format!("/api/v1/apps/app-{n}"), json!({})).await;
        world
            .admin("POST", &format!("/api/v1/apps/app-{n}/token"), json!({"adopt": format!("a-token-of-{n}-0123456")}))
            .await;
        world.admin("POST", "/api/v1/jobs", job(&format!("job-{n}"))).await;
    }
    // Due, and no worker is there yet: they are held.
    world.pass_ms(10_000);
    world
}

/// Field case B116: lists are read on from a place, and not counted off.
#[tokio::test]
async fn parts_of_a_list_make_the_whole() {
    let world = furnished().await;
    let held = world.get("/api/v1/held").await["items"].clone();
    assert_eq!(held.as_array().unwrap().len(), 5);
    for n in 0..5 {
        world.worker(&format!("etl-{n}"), n + 1, &format!("http://h:{}", n + 1)).await;
    }
    let wide = json!({"name": "wide", "app": "etl", "handler": "copy", "shards": {"count": 20}});
    world.admin("POST", "/api/v1/jobs", wide).await;
    let run = world.admin("POST", "/api/v1/jobs/wide/trigger", json!({})).await["run"].as_str().unwrap().to_owned();
    world.accept();
    let attempts = format!("/api/v1/runs/{run}/attempts");
    for (path, least) in [
        ("/api/v1/apps", 7),
        ("/api/v1/jobs", 6),
        ("/api/v1/runs", 6),
        ("/api/v1/workers", 5),
        ("/api/v1/tokens", 9),
        (attempts.as_str(), 10),
    ] {
        let (whole, parts) = all(&world, path, 1_000).await;
        assert!(whole.len() >= least && parts == 1, "{path}: {whole:?}");
        for limit in [1, 2, 5, whole.len()] {
            let (items, parts) = all(&world, path, limit).await;
            assert_eq!(items, whole, "{path} by {limit}");
            assert!(parts >= whole.len().div_ceil(limit), "{path} by {limit}: {parts}");
        }
    }
    let (of_shard, _) = all(&world, &format!("{attempts}?shard=3"), 1).await;
    assert_eq!(of_shard.len(), 1);
    assert_eq!(world.get(&format!("/api/v1/runs/{run}")).await["attempts_next"], Value::Null, "these are all");
}

#[tokio::test]
async fn held_slots_come_in_parts_longest_first() {
    let world = furnished().await;
    let (whole, _) = all(&world, "/api/v1/held", 1_000).await;
    assert_eq!(whole.len(), 5);
    for limit in [1, 2, 5] {
        assert_eq!(all(&world, "/api/v1/held", limit).await.0, whole, "by {limit}");
    }
}

#[tokio::test]
async fn what_is_no_place_in_a_list_is_refused() {
    let world = furnished().await;
    let jobs = world.get("/api/v1/jobs?limit=1").await["next"].as_str().unwrap().to_owned();
    for path in ["/api/v1/apps", "/api/v1/runs", "/api/v1/workers", "/api/v1/tokens", "/api/v1/held"] {
        for after in ["7", "nonsense", jobs.as_str(), "%00"] {
            let (status, code, field, hint) = world.refused("GET", &format!("{path}?after={after}"), json!({})).await;
            assert_eq!((status, code.as_str(), field.as_str()), (400, "invalid", "after"), "{path} {after}");
            assert!(hint.contains("next"), "{hint}");
        }
    }
}

#[tokio::test]
async fn a_list_is_not_narrowed_to_what_cannot_be() {
    let world = World::new();
    let path = format!("/api/v1/jobs?managed_by={}", "f".repeat(101));
    let (status, code, field, _) = world.refused("GET", &path, json!({})).await;
    assert_eq!((status, code.as_str(), field.as_str()), (400, "invalid", "managed_by"));
}

#[tokio::test]
async fn a_token_has_one_use() {
    let world = World::new();
    let adopt = |token: &str| json!({"adopt": token});
    for token in [ADMIN, ETL] {
        let (status, code, field, _) = world.refused("POST", "/api/v1/apps/pay/token", adopt(token)).await;
        assert_eq!((status, code.as_str(), field.as_str()), (409, "token_in_use", "adopt"));
        let (_, answer) = world.call("POST", "/api/v1/apps/pay/token", ADMIN, adopt(token).to_string()).await;
        let text = answer.to_string();
        assert!(!text.contains("admin") && !text.contains("etl"), "it does not say what it opens: {text}");
    }
    // It opens what it opened before.
    assert_eq!(world.call("GET", "/api/v1/tokens", ADMIN, "").await.0, 200);
    // Once more for the same use is no other use.
    world.admin("POST", "/api/v1/apps/etl/token", adopt(ETL)).await;
}
