//! Workers: registered, dialled back, beating, draining, gone.

use serde_json::json;

use crate::world::{ETL, World, refusal, registration};

async fn register(world: &World, name: &str, incarnation: u64, url: &str) -> (u16, serde_json::Value) {
    world.call("POST", "/api/v1/workers", ETL, registration(name, incarnation, url).to_string()).await
}

#[tokio::test]
async fn a_worker_registers_beats_drains_and_leaves() {
    let world = World::new();
    let registered = world.worker("etl-1", 7, "http://h:1").await;
    assert_eq!(
        (&registered["state"], &registered["beat_ms"], &registered["dead_ms"]),
        (&json!("online"), &json!(5_000), &json!(15_000))
    );
    let path = format!("/api/v1/workers/{}", registered["worker"]);
    let beat = json!({"incarnation": 7, "no": 1, "running": [], "capacity": 8}).to_string();
    assert_eq!(world.call("POST", &format!("{path}/beat"), ETL, beat).await, (200, json!({"state": "online"})));
    // A beat that names no capacity leaves it as it is.
    let beat = json!({"incarnation": 7, "no": 2, "running": []}).to_string();
    assert_eq!(world.call("POST", &format!("{path}/beat"), ETL, beat).await.0, 200);
    world.pass_ms(1_000);
    let worker = world.get("/api/v1/workers?app=etl").await["items"][0].clone();
    assert_eq!(
        (&worker["name"], &worker["capacity"], &worker["silent_ms"]),
        (&json!("etl-1"), &json!(8), &json!(1_000))
    );
    assert_eq!((&worker["handlers"], &worker["labels"]["disk"]), (&json!(["copy"]), &json!("ssd")));
    let (status, body) = world.call("POST", &format!("{path}/drain"), ETL, json!({"incarnation": 7}).to_string()).await;
    assert_eq!((status, &body["state"]), (200, &json!("draining")));
    assert_eq!(
        world.call("DELETE", &format!("{path}?incarnation=7"), ETL, "").await,
        (200, json!({"state": "offline"}))
    );
    let worker = world.get("/api/v1/workers").await["items"][0].clone();
    assert_eq!(worker["state"], "offline");
}

#[tokio::test]
async fn strangers_and_other_starts_are_told_to_register() {
    let world = World::new();
    let worker = world.worker("etl-1", 7, "http://h:1").await["worker"].to_string();
    for (id, incarnation) in [("99".to_owned(), 7), (worker.clone(), 8)] {
        let beat = json!({"incarnation": incarnation, "no": 1, "running": []}).to_string();
        let (status, body) = world.call("POST", &format!("/api/v1/workers/{id}/beat"), ETL, beat).await;
        assert_eq!((status, refusal(status, &body).1.as_str()), (404, "worker_unknown"));
    }
    let beat = json!({"incarnation": 0, "no": 1, "running": []}).to_string();
    let (status, body) = world.call("POST", &format!("/api/v1/workers/{worker}/beat"), ETL, beat).await;
    assert_eq!(refusal(status, &body).2, "incarnation");
}

#[tokio::test]
async fn an_address_that_does_not_answer_is_named_with_its_cure() {
    let world = World::new();
    let url = "http://172.17.0.3:9999";
    let (status, body) = register(&world, "etl-1", 7, url).await;
    assert_eq!((status, &body["state"]), (200, &json!("unreachable")));
    let message = body["message"].as_str().unwrap();
    assert!(message.starts_with("http://172.17.0.3:9999 refused the connection; set ROTA_ADVERTISE_URL"), "{message}");
    let worker = world.get("/api/v1/workers").await["items"][0].clone();
    assert_eq!((&worker["state"], &worker["message"]), (&json!("unreachable"), &json!(message)));

    world.network.listens(url, "someone-else", 1);
    let (_, body) = register(&world, "etl-1", 7, url).await;
    assert!(body["message"].as_str().unwrap().contains("answers as `someone-else`"), "{body}");
    world.network.listens(url, "etl-1", 7);
    let (_, body) = register(&world, "etl-1", 7, url).await;
    assert_eq!((&body["state"], &body["message"]), (&json!("online"), &json!(null)));
}

#[tokio::test]
async fn a_restart_at_the_same_address_takes_its_name_back() {
    let world = World::new();
    let first = world.worker("etl-1", 7, "http://h:1").await;
    let second = world.worker("etl-1", 8, "http://h:1").await;
    assert_eq!((&second["worker"], &second["state"]), (&first["worker"], &json!("online")));
}

#[tokio::test]
async fn a_living_holder_keeps_its_name() {
    let world = World::new();
    world.worker("etl-1", 7, "http://h:1").await;
    world.network.listens("http://h:2", "etl-1", 8);
    let (status, body) = register(&world, "etl-1", 8, "http://h:2").await;
    let (status, code, field, hint) = refusal(status, &body);
    assert_eq!((status, code.as_str(), field.as_str()), (409, "worker_id_taken", "name"));
    assert!(body["message"].as_str().unwrap().contains("http://h:1"), "{body}");
    assert!(hint.contains("its own name"), "{hint}");

    // Silence proves nothing before the dead time.
    world.network.is_silent("http://h:1");
    assert_eq!(register(&world, "etl-1", 8, "http://h:2").await.0, 409);
    world.pass_ms(15_001);
    assert_eq!(register(&world, "etl-1", 8, "http://h:2").await.0, 200);
}

#[tokio::test]
async fn a_holder_whose_address_refuses_is_gone() {
    let world = World::new();
    // It registered from an address where nobody listens any more.
    assert_eq!(register(&world, "etl-1", 7, "http://h:1").await.0, 200);
    world.network.listens("http://h:2", "etl-1", 8);
    let (status, body) = register(&world, "etl-1", 8, "http://h:2").await;
    assert_eq!((status, &body["state"]), (200, &json!("online")));
}
