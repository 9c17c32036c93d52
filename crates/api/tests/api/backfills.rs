//! Backfills through the API: previewed, asked for once, followed, listed, explained, cancelled.

use serde_json::{Value, json};

use crate::world::{READ, World, job, refusal};

/// A job every five seconds, and a worker for it. It is 2026-11-30 16:00:00 in UTC.
async fn world_with_job() -> World {
    let world = World::new();
    let _worker = world.worker("etl-1", 7, "http://h:1").await;
    let mut tick = job("tick");
    (tick["handler"], tick["every"]) = (json!("copy"), json!("5s"));
    tick["overlap"] = json!("skip");
    world.admin("POST", "/api/v1/jobs", tick).await;
    world
}

const RANGE: &str = "2026-11-30 15:59:40";
const BACKFILLS: &str = "/api/v1/jobs/tick/backfills";

#[tokio::test]
async fn a_preview_shows_the_slots_and_what_else_waits_and_changes_nothing() {
    let world = world_with_job().await;
    let body = json!({"from": "2026-11-30", "to": RANGE, "pace": "30/m"}).to_string();
    let (status, plan) = world.call("POST", &format!("{BACKFILLS}/preview"), READ, body).await;
    assert_eq!(status, 200, "{plan}");
    assert_eq!((&plan["total"], &plan["takes_ms"]), (&json!(11_516), &json!(11_515 * 2_000)));
    let first = ["2026-11-30T00:00:00Z", "2026-11-30T00:00:05Z", "2026-11-30T00:00:10Z"];
    assert_eq!(plan["first"], json!(first), "a day begins at its midnight");
    assert_eq!(plan["last"][2], "2026-11-30T15:59:35Z", "the end is no part of it");
    let notes = "the job's overlap policy lets one run at a time begin: the backfill waits for its places";
    assert_eq!(plan["notes"], json!([notes]));
    assert_eq!(world.get("/api/v1/backfills").await["items"], json!([]));
}

#[tokio::test]
async fn a_backfill_is_asked_for_once_per_request_and_linked_from_its_runs() {
    let world = world_with_job().await;
    let body = json!({"from": RANGE, "reason": "the price was wrong", "request_id": "a"});
    let made = world.admin("POST", BACKFILLS, body.clone()).await;
    assert_eq!((&made["state"], &made["total"], &made["made"]), (&json!("running"), &json!(4), &json!(1)));
    let (status, again) = world.call("POST", BACKFILLS, crate::world::ADMIN, body.to_string()).await;
    assert_eq!((status, &again["is_repeated"]), (200, &json!(true)));
    assert_eq!(again["backfill"], made["backfill"]);
    let other = json!({"from": RANGE, "request_id": "a"});
    assert_eq!(world.refused("POST", BACKFILLS, other).await.1, "request_conflict");

    let id = made["backfill"].as_str().unwrap();
    let runs = world.get(&format!("/api/v1/runs?backfill={id}")).await;
    assert_eq!(runs["items"].as_array().unwrap().len(), 1);
    let run = &runs["items"][0];
    assert_eq!(
        (&run["origin"], &run["backfill"], &run["slot"]),
        (&json!("backfill"), &json!(id), &json!("2026-11-30T15:59:40Z"))
    );
    assert_eq!(run["late_ms"], Value::Null);
    let story = world.get(&format!("/api/v1/runs/{}/why", run["run"].as_str().unwrap())).await;
    assert_eq!(story["title"], "tick, backfill of slot 2026-11-30 15:59:40 +00:00, v1: DISPATCHED");
    let line = story["lines"].as_array().unwrap().iter().find(|line| line["about"] == "backfill").unwrap();
    let range = "2026-11-30 15:59:40 +00:00 to 2026-11-30 16:00:00 +00:00";
    assert_eq!(line["text"], format!("{id} of {range}, slot by slot, for admin: the price was wrong"));

    world.pass_ms(1_000);
    let shown = world.get(&format!("/api/v1/backfills/{id}")).await;
    assert_eq!((&shown["open"], &shown["waits"]), (&json!(1), &json!("overlap")));
    assert_eq!(shown["next"], "2026-11-30T15:59:45Z");
}

#[tokio::test]
async fn a_cancelled_backfill_stays_to_be_seen() {
    let world = world_with_job().await;
    let made = world.admin("POST", BACKFILLS, json!({"from": RANGE})).await;
    let path = format!("/api/v1/backfills/{}", made["backfill"].as_str().unwrap());
    assert_eq!(world.get("/api/v1/backfills?open&job=tick").await["items"][0]["id"], made["id"]);
    let cancelled = world.admin("POST", &format!("{path}/cancel"), json!({})).await;
    assert_eq!((&cancelled["state"], &cancelled["why"]), (&json!("cancelled"), &json!("cancelled_by_user")));
    assert_eq!((&cancelled["ended_by"], &cancelled["open"]), (&json!("admin"), &Value::Null));
    assert_eq!(world.get("/api/v1/backfills?open").await["items"], json!([]));
    assert_eq!(world.get("/api/v1/backfills").await["items"].as_array().unwrap().len(), 1);
    let refused = world.refused("POST", &format!("{path}/cancel"), json!({})).await;
    assert_eq!((refused.0, refused.1.as_str()), (409, "backfill_ended"));
}

#[tokio::test]
async fn what_is_wrong_with_a_range_is_said_at_its_field() {
    let world = world_with_job().await;
    let mut by_hand = job("copy");
    by_hand.as_object_mut().unwrap().remove("every");
    world.admin("POST", "/api/v1/jobs", by_hand).await;
    for (body, field, hint) in [
        (json!({"from": "soon"}), "from", "2026-12-01T02:00:00+08:00"),
        (json!({"from": RANGE, "to": "2026-11-30 16:00:01"}), "to", "not later than now"),
        (json!({"from": RANGE, "to": RANGE}), "to", "first instant after"),
        (json!({"from": "2026-11-30 15:59:41", "to": "2026-11-30 15:59:44"}), "from", "rota cron next"),
        (json!({"from": "2026-01-01"}), "to", "a shorter range"),
        (json!({"from": RANGE, "pace": "10/d"}), "pace", "30/m"),
        (json!({"from": RANGE, "parallel": 0}), "parallel", "leave it out"),
    ] {
        for path in [BACKFILLS.to_owned(), format!("{BACKFILLS}/preview")] {
            let (status, code, found, said) = world.refused("POST", &path, body.clone()).await;
            assert_eq!((status, code.as_str(), found.as_str()), (400, "invalid", field), "{body}");
            assert!(said.contains(hint), "{body}: {said}");
        }
    }
    let (_, limit) =
        world.call("POST", BACKFILLS, crate::world::ADMIN, json!({"from": "2026-01-01"}).to_string()).await;
    assert_eq!(limit["message"], "the range has more than 1000000 slots", "it names the limit");
    let refused = world.refused("POST", "/api/v1/jobs/copy/backfills", json!({"from": RANGE})).await;
    assert_eq!((refused.2.as_str(), refused.3.contains("rota run")), ("job", true));
    for (path, code) in [("b0", "backfill_unknown"), ("r91", "invalid")] {
        let (status, answer) = world.call("GET", &format!("/api/v1/backfills/{path}"), READ, "").await;
        assert_eq!(refusal(status, &answer).1, code);
    }
    assert_eq!(world.get("/api/v1/backfills").await["items"], json!([]));
}

#[tokio::test]
async fn so_many_run_at_the_same_time() {
    let world = world_with_job().await;
    for _ in 0..5 {
        world.admin("POST", BACKFILLS, json!({"from": RANGE})).await;
    }
    let refused = world.refused("POST", BACKFILLS, json!({"from": RANGE})).await;
    assert_eq!((refused.0, refused.1.as_str()), (429, "too_many_backfills"));
}
