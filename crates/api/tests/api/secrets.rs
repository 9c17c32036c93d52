//! Secrets go in, and nothing of them comes out.

use serde_json::{Value, json};

use super::world::{ADMIN, ETL, READ, World, job, refusal};

async fn set(world: &World, name: &str, value: &str) -> Value {
    world.admin("PUT", &format!("/api/v1/secrets/{name}"), json!({"value": value})).await
}

fn ping(name: &str, http: Value) -> Value {
    json!({"name": name, "every": "30s", "http": http})
}

#[tokio::test]
async fn a_secret_is_set_listed_by_name_and_removed() {
    let world = World::new();
    let http = json!({"post": "https://partner.example/", "bearer": "{{secret.PARTNER}}"});
    let saved = world.admin("POST", "/api/v1/jobs", ping("ping", http)).await;
    assert_eq!(saved["warnings"], json!(["secret PARTNER is not set: rota secret set PARTNER"]));
    let first = set(&world, "PARTNER", "s3cret-one").await;
    assert_eq!((&first["used_by"], &first["by"], &first["warning"]), (&json!(["ping"]), &json!("admin"), &json!(null)));
    assert!(set(&world, "SHORT", "abc").await["warning"].as_str().unwrap().contains("shorter than 6 bytes"));
    set(&world, "PARTNER", "s3cret-two").await;
    let listed = world.admin("GET", "/api/v1/secrets", Value::Null).await;
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["PARTNER", "SHORT"]);
    assert!(!listed.to_string().contains("s3cret") && !first.to_string().contains("s3cret"));
    let elsewhere = world.admin("GET", "/api/v1/secrets?namespace=other", Value::Null).await;
    assert_eq!(elsewhere["items"], json!([]));

    let refused = world.refused("DELETE", "/api/v1/secrets/PARTNER", json!({})).await;
    assert_eq!((refused.0, refused.1.as_str()), (409, "secret_in_use"));
    assert!(refused.3.contains("--force"));
    let removed = world.admin("DELETE", "/api/v1/secrets/PARTNER?force=true", json!({})).await;
    assert_eq!(removed, json!({"name": "PARTNER", "used_by": ["ping"]}));
    let unknown = world.refused("DELETE", "/api/v1/secrets/SHRT", json!({})).await;
    assert_eq!((unknown.0, unknown.1.as_str(), unknown.3.as_str()), (404, "secret_unknown", "did you mean `SHORT`?"));
    world.admin("DELETE", "/api/v1/jobs/ping", json!({})).await;
    set(&world, "PARTNER", "s3cret-three").await;
    world.admin("DELETE", "/api/v1/secrets/PARTNER", json!({})).await;
}

#[tokio::test]
async fn only_the_admin_has_to_do_with_secrets() {
    let world = World::new();
    set(&world, "PARTNER", "s3cret-one").await;
    for token in [READ, ETL] {
        for (method, path) in
            [("GET", "/api/v1/secrets"), ("PUT", "/api/v1/secrets/PARTNER"), ("DELETE", "/api/v1/secrets/PARTNER")]
        {
            let (status, answer) = world.call(method, path, token, r#"{"value":"x"}"#).await;
            assert_eq!(refusal(status, &answer).1, "forbidden", "{method} {path}");
        }
    }
    for (name, body, field) in [
        ("a%20b", json!({"value": "x"}), "name"),
        ("a.b", json!({"value": "x"}), "name"),
        ("A", json!({"value": ""}), "value"),
        ("A", json!({"value": "x".repeat((32 << 10) + 1)}), "value"),
        ("A", json!({}), "value"),
        ("A", json!({"valu": "x"}), "valu"),
    ] {
        let refused = world.refused("PUT", &format!("/api/v1/secrets/{name}"), body).await;
        assert_eq!(refused.2, field, "{name}: {refused:?}");
    }
}

#[tokio::test]
async fn a_reader_sees_the_name_of_a_secret_and_no_literal() {
    let world = World::new();
    let named = json!({"get": "https://p.example/", "bearer": "{{secret.PARTNER}}", "headers": {"x-key": "{{secret.A|base64}}"}});
    let literal =
        json!({"get": "https://p.example/", "bearer": "li-teral", "headers": {"x-key": "li-teral {{secret.A}}"}});
    world.admin("POST", "/api/v1/jobs", ping("named", named.clone())).await;
    world.admin("POST", "/api/v1/jobs", ping("literal", literal.clone())).await;
    assert_eq!(world.get("/api/v1/jobs/named").await["spec"]["http"], named);
    let shown = world.get("/api/v1/jobs/literal").await["spec"]["http"].clone();
    assert_eq!((&shown["bearer"], &shown["headers"]["x-key"]), (&json!("***"), &json!("***")));
    let (_, all) = world.call("GET", "/api/v1/jobs/literal", ADMIN, "").await;
    assert_eq!(all["spec"]["http"], literal);
}

#[tokio::test]
async fn what_a_worker_says_is_stored_without_secrets() {
    let world = World::new();
    set(&world, "PARTNER", "s3cret-one").await;
    world.admin("POST", "/api/v1/jobs", job("copy")).await;
    let worker = world.worker("w1", 7, "http://10.0.0.1:1").await["worker"].as_u64().unwrap();
    world.admin("POST", "/api/v1/jobs/copy/trigger", json!({})).await;
    let sent = world.accept().remove(0);
    let at = |what: &str| format!("/api/v1/workers/{worker}/{what}");
    let entry = json!({"run": sent.run.0, "shard": 0, "no": 1, "lines": ["got s3cret-one", "two\ns3cret-one"], "is_last": true});
    let (status, _) =
        world.call("POST", &at("logs"), ETL, json!({"incarnation": 7, "logs": [entry]}).to_string()).await;
    assert_eq!(status, 204);
    // The secret is replaced while the attempt runs: what it was given stays hidden.
    set(&world, "PARTNER", "s3cret-two").await;
    let long = format!("{}s3cret-one", "x".repeat(4_090));
    for (no, message) in [(1, "bad token s3cret-one, s3cret-two"), (1, long.as_str())] {
        let result = json!({"attempt": sent.attempt.0, "run": sent.run.0, "shard": 0, "no": no, "outcome": "failed", "message": message});
        let body = json!({"incarnation": 7, "results": [result]}).to_string();
        assert_eq!(world.call("POST", &at("results"), ETL, body).await.0, 200);
    }
    let run = format!("/api/v1/runs/{}", sent.run);
    let detail = world.get(&run).await;
    assert!(detail.to_string().contains("bad token ***, ***"), "{detail}");
    assert_eq!(world.get(&format!("{run}/logs")).await["text"], "got ***\ntwo\n***\n");
    for path in
        [run.clone(), format!("{run}/why"), format!("{run}/logs"), "/api/v1/runs".to_owned(), "/api/v1/live".to_owned()]
    {
        assert!(!world.get(&path).await.to_string().contains("s3cret"), "{path}");
    }
}
