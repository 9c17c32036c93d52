//! Upstream jobs through the API.

use serde_json::{Value, json};

use crate::world::{World, job};

fn after(name: &str, after: Value) -> Value {
    let mut job = job(name);
    job["after"] = after;
    job
}

/// A job without a schedule.
fn fired(by: Value) -> Value {
    let mut job = after("report", by);
    job.as_object_mut().unwrap().remove("every");
    job
}

#[tokio::test]
async fn a_job_without_a_schedule_is_fired_by_one_or_by_any() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("settle")).await;
    world.admin("POST", "/api/v1/jobs", job("rates")).await;
    for (written, read) in [
        (json!("settle"), json!("settle")),
        (json!({"any": ["settle"]}), json!("settle")),
        (json!({"job": "settle", "when": "failure"}), json!({"job": "settle", "when": "failure"})),
        (
            json!({"any": ["rates", {"job": "settle", "when": "completion"}]}),
            json!({"any": ["rates", {"job": "settle", "when": "completion"}]}),
        ),
    ] {
        world.admin("POST", "/api/v1/jobs", fired(written)).await;
        let shown = world.get("/api/v1/jobs/report").await;
        assert_eq!(shown["spec"]["after"], read);
        assert_eq!(world.get("/api/v1/jobs/settle").await["dependents"], json!(["report"]));
        // What is read can be written again.
        world.admin("PUT", "/api/v1/jobs/report", shown["spec"].clone()).await;
        assert_eq!(world.get("/api/v1/jobs/report").await["spec"]["after"], read);
        assert_eq!(world.refused("DELETE", "/api/v1/jobs/settle", json!({})).await.1, "in_use");
        world.admin("DELETE", "/api/v1/jobs/report", json!({})).await;
    }
}

#[tokio::test]
async fn a_cycle_through_both_kinds_of_edges_is_refused() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("settle")).await;
    world.admin("POST", "/api/v1/jobs", fired(json!("settle"))).await;
    let (_, answer) = world
        .call("PUT", "/api/v1/jobs/settle", crate::world::ADMIN, after("settle", json!("report")).to_string())
        .await;
    assert_eq!(answer["message"], "the job would wait for itself: settle -> report -> settle");
    let (_, answer) =
        world.call("PUT", "/api/v1/jobs/report", crate::world::ADMIN, fired(json!("report")).to_string()).await;
    assert!(answer["message"].as_str().unwrap().contains("is the job itself"), "{answer}");
}

#[tokio::test]
async fn a_job_fires_no_more_than_a_hundred() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("settle")).await;
    let named = |n: u32| {
        let mut job = fired(json!("settle"));
        job["name"] = json!(format!("child-{n}"));
        job
    };
    for n in 0..100 {
        world.admin("POST", "/api/v1/jobs", named(n)).await;
    }
    let refused = world.refused("POST", "/api/v1/jobs", named(100)).await;
    assert_eq!((refused.0, refused.1.as_str()), (400, "invalid"), "{refused:?}");
    world.admin("PUT", "/api/v1/jobs/child-7", named(7)).await;
}

#[tokio::test]
async fn upstream_jobs_are_read_resolved_and_shown_both_ways() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("settle")).await;
    world.admin("POST", "/api/v1/jobs", job("rates")).await;
    let whole = json!({"job": "rates", "when": "completion", "period": "latest", "on_skip": "run", "deadline": "6h"});
    for (written, read) in [
        (json!("settle"), json!("settle")),
        (json!(["settle"]), json!("settle")),
        (json!({"job": "settle", "when": "success", "on_skip": "skip"}), json!("settle")),
        (json!(["settle", whole.clone()]), json!(["settle", whole])),
    ] {
        let made = world.admin("POST", "/api/v1/jobs", after("report", written)).await;
        assert_eq!(world.get("/api/v1/jobs/report").await["spec"]["after"], read);
        assert_eq!(world.get("/api/v1/jobs/settle").await["dependents"], json!(["report"]));
        let edited = world.admin("PUT", "/api/v1/jobs/report", after("report", json!("rates"))).await;
        assert_eq!((&edited["id"], &edited["version"]), (&made["id"], &json!(2)));
        assert_eq!(world.get("/api/v1/jobs/settle").await.get("dependents"), None);
        world.admin("DELETE", "/api/v1/jobs/report", json!({})).await;
    }
}

#[tokio::test]
async fn what_cannot_be_waited_for_is_refused_with_its_field() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("settle")).await;
    world.admin("POST", "/api/v1/jobs", job("rates")).await;
    let mut delayed = fired(json!("settle"));
    delayed["delay"] = json!("10s");
    for (body, field, part) in [
        (after("report", json!("nobody")), "after", "there is no job `nobody`"),
        (after("report", json!(["settle", "settle"])), "after", "named twice"),
        (after("report", json!("report")), "after", "is the job itself"),
        (after("report", json!({"job": "settle", "when": "succes"})), "after.when", "not known here"),
        (after("report", json!({"job": "settle", "period": "day"})), "after.period", "not known here"),
        (after("report", json!({"job": "settle", "on_skip": "no"})), "after.on_skip", "not known here"),
        (after("report", json!({"job": "settle", "deadline": "8d"})), "after", "deadline"),
        (after("report", json!({"job": "settle", "until": "8d"})), "after.until", "until"),
        (after("report", json!(7)), "after", "a job's name"),
        (after("report", json!([["settle"]])), "after[0]", "a job's name"),
        (fired(json!(["settle", "rates"])), "after", "without a schedule"),
        (fired(json!({"any": []})), "after.any", "names no job"),
        (fired(json!({"any": ["settle"], "job": "settle"})), "after", "stands alone"),
        (fired(json!({"when": "failure"})), "after.job", "is missing"),
        (fired(json!({"any": ["settle", "settle"]})), "after", "named twice"),
        (fired(json!({"job": "settle", "period": "latest"})), "after", "`period` of `settle`"),
        (fired(json!({"any": ["rates", {"job": "settle", "on_skip": "run"}]})), "after", "`on_skip` of `settle`"),
        (fired(json!({"job": "settle", "deadline": "1h"})), "after", "`deadline` of `settle`"),
        (after("report", json!({"any": ["settle", "rates"]})), "after.any", "waits for all"),
        (delayed, "after", "delay"),
    ] {
        let (status, answer) = world.call("POST", "/api/v1/jobs", crate::world::ADMIN, body.to_string()).await;
        assert_eq!((status, answer["field"].as_str()), (400, Some(field)), "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{body}: {answer}");
    }
    assert_eq!(world.get("/api/v1/jobs").await["items"].as_array().unwrap().len(), 2, "nothing was made");
}

/// Field case B104: a job that waits for itself is refused at save.
#[tokio::test]
async fn a_cycle_is_refused_and_named() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("a")).await;
    world.admin("POST", "/api/v1/jobs", after("b", json!("a"))).await;
    world.admin("POST", "/api/v1/jobs", after("c", json!("b"))).await;
    let (status, code, field, hint) = world.refused("PUT", "/api/v1/jobs/a", after("a", json!("c"))).await;
    assert_eq!((status, code.as_str()), (400, "cycle"), "{field} {hint}");
    let (_, answer) =
        world.call("PUT", "/api/v1/jobs/a", crate::world::ADMIN, after("a", json!("c")).to_string()).await;
    assert_eq!(answer["message"], "the job would wait for itself: a -> c -> b -> a");
    assert_eq!(world.get("/api/v1/jobs/a").await["version"], 1);
    // An edit that is refused for another reason gives its edges back.
    let stale = world.refused("PUT", "/api/v1/jobs/b?version=7", after("b", json!("a"))).await;
    assert_eq!(stale.1, "version_conflict");
    world.admin("PUT", "/api/v1/jobs/b", job("b")).await;
    world.admin("PUT", "/api/v1/jobs/a", after("a", json!("c"))).await;
    // A diamond is no cycle.
    world.admin("POST", "/api/v1/jobs", after("d", json!(["a", "b", "c"]))).await;
}

/// Field case B104: also if both halves are saved at once.
#[tokio::test]
async fn of_two_halves_of_a_cycle_that_are_saved_at_once_one_is_refused() {
    for _ in 0..100 {
        let world = World::new();
        world.admin("POST", "/api/v1/jobs", job("a")).await;
        world.admin("POST", "/api/v1/jobs", job("b")).await;
        let put = |name: &'static str, upstream| {
            let path = format!("/api/v1/jobs/{name}");
            let body = after(name, json!(upstream)).to_string();
            let world = &world;
            async move { world.call("PUT", &path, crate::world::ADMIN, body).await.0 }
        };
        let (first, second) = tokio::join!(put("a", "b"), put("b", "a"));
        let mut both = [first, second];
        both.sort_unstable();
        assert_eq!(both, [200, 400]);
    }
}

#[tokio::test]
async fn a_job_that_others_wait_for_is_not_deleted() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("settle")).await;
    for n in 1..=6 {
        world.admin("POST", "/api/v1/jobs", after(&format!("report-{n}"), json!("settle"))).await;
    }
    let (status, answer) = world.call("DELETE", "/api/v1/jobs/settle", crate::world::ADMIN, "{}").await;
    assert_eq!((status, &answer["code"]), (409, &json!("in_use")));
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("`report-1`") && message.ends_with("`report-5` and others"), "{message}");
    for n in 1..=6 {
        world.admin("DELETE", &format!("/api/v1/jobs/report-{n}"), json!({})).await;
    }
    world.admin("DELETE", "/api/v1/jobs/settle", json!({})).await;
}

#[tokio::test]
async fn a_slot_that_waits_says_for_which_upstream_run() {
    let world = World::new();
    world.worker("w1", 1, "http://w1").await;
    world.admin("POST", "/api/v1/jobs", job("settle")).await;
    world.admin("POST", "/api/v1/jobs", after("report", json!({"job": "settle", "deadline": "1h"}))).await;
    world.pass_ms(11_000);
    let held = world.get("/api/v1/held?job=report").await;
    assert_eq!((&held["items"][0]["why"], &held["items"][0]["is_overdue"]), (&json!("upstream"), &json!(false)));
    let story = world.get("/api/v1/jobs/report/why?at=2026-11-30T16:00:10Z").await;
    assert_eq!(story["code"], "held", "{story}");
    let lines = story["lines"].as_array().unwrap();
    let told: Vec<&str> =
        lines.iter().filter(|line| line["about"] == "upstream").map(|line| line["text"].as_str().unwrap()).collect();
    assert!(told.len() == 1 && told[0].starts_with("settle: slot ") && told[0].contains("dispatched"), "{told:?}");
    assert!(told[0].contains("waits until"), "{told:?}");
}
