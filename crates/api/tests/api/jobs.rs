//! Jobs through the API.

use serde_json::{Value, json};

use crate::world::{ADMIN, World, job};

#[tokio::test]
async fn a_job_is_made_read_changed_paused_resumed_and_deleted() {
    let world = World::new();
    let saved = world.admin("POST", "/api/v1/jobs", job("copy")).await;
    assert_eq!(saved["version"], 1);
    assert_eq!(saved["state"], "enabled");
    assert_eq!(saved["next"], "2026-11-30T16:00:10Z");
    assert_eq!(saved["next_slots"], json!(["2026-11-30T16:00:10Z", "2026-11-30T16:00:20Z", "2026-11-30T16:00:30Z"]));
    let read = world.get("/api/v1/jobs/copy").await;
    assert_eq!(read["spec"]["every"], "10s");
    assert_eq!(world.get(&format!("/api/v1/jobs/{}", saved["id"])).await, read);

    // What was read can be put back, with a change.
    let mut spec = read["spec"].clone();
    spec["every"] = json!("1m");
    let edited = world.admin("PUT", "/api/v1/jobs/copy?version=1", spec.clone()).await;
    assert_eq!((&edited["version"], &edited["next"]), (&json!(2), &json!("2026-11-30T16:01:00Z")));
    assert_eq!(world.get("/api/v1/jobs/copy/versions/1").await["spec"]["every"], "10s");
    assert_eq!(world.get("/api/v1/jobs/copy").await["version"], 2);
    let (status, code, _, hint) = world.refused("PUT", "/api/v1/jobs/copy?version=1", spec.clone()).await;
    assert_eq!((status, code.as_str()), (412, "version_conflict"));
    assert!(hint.contains("read the job again"));

    let paused = world.admin("POST", "/api/v1/jobs/copy/pause", json!({})).await;
    assert_eq!((&paused["state"], &paused["next"]), (&json!("paused"), &json!(null)));
    assert_eq!(world.get("/api/v1/jobs/copy").await["spec"]["paused"], true);
    let resumed = world.admin("POST", "/api/v1/jobs/copy/resume", json!({})).await;
    assert_eq!((&resumed["state"], &resumed["next"]), (&json!("enabled"), &json!("2026-11-30T16:01:00Z")));
    spec["paused"] = json!(true);
    let edited = world.admin("PUT", "/api/v1/jobs/copy", spec.clone()).await;
    assert_eq!(
        (&edited["version"], &edited["state"], &edited["next_slots"]),
        (&json!(3), &json!("paused"), &json!([]))
    );
    spec["paused"] = json!(false);
    assert_eq!(world.admin("PUT", "/api/v1/jobs/copy", spec).await["state"], "enabled");

    assert_eq!(world.admin("DELETE", "/api/v1/jobs/copy", json!({})).await["state"], "deleted");
    assert_eq!(world.refused("POST", "/api/v1/jobs/copy/pause", json!({})).await.1, "job_unknown");
    let by_id = format!("/api/v1/jobs/{}", saved["id"]);
    assert_eq!(world.get(&by_id).await["state"], "deleted");
    for (method, path) in [("DELETE", by_id.clone()), ("POST", format!("{by_id}/trigger"))] {
        assert_eq!(world.refused(method, &path, json!({})).await.1, "job_deleted");
    }
    let again = world.admin("POST", "/api/v1/jobs", job("copy")).await;
    assert_ne!(again["id"], saved["id"], "an id is never used again");
}

#[tokio::test]
async fn names_are_unique_and_the_holder_is_named() {
    let world = World::new();
    let first = world.admin("POST", "/api/v1/jobs", job("copy")).await;
    let mut second = job("copy");
    second["app"] = json!("pay");
    let (status, code, field, hint) = world.refused("POST", "/api/v1/jobs", second).await;
    assert_eq!((status, code.as_str(), field.as_str()), (409, "name_taken", "name"));
    assert!(hint.contains(&first["id"].to_string()), "{hint}");
}

#[tokio::test]
async fn a_refused_job_leaves_its_name_free() {
    let world = World::new();
    let mut impossible = job("copy");
    impossible.as_object_mut().unwrap().remove("every");
    impossible["cron"] = json!("0 0 30 2 *");
    let (status, code, field, _) = world.refused("POST", "/api/v1/jobs", impossible).await;
    assert_eq!((status, code.as_str(), field.as_str()), (400, "invalid", "cron"));
    world.overload(true);
    let (status, code, ..) = world.refused("POST", "/api/v1/jobs", job("copy")).await;
    assert_eq!((status, code.as_str()), (503, "overloaded"));
    world.overload(false);
    world.admin("POST", "/api/v1/jobs", job("copy")).await;
}

#[tokio::test]
async fn url_jobs_live_in_an_app_of_their_own() {
    let world = World::new();
    let body = json!({"name": "ping", "every": "30s", "http": {"get": "https://partner.example/ping"}});
    assert_eq!(world.admin("POST", "/api/v1/jobs", body.clone()).await["app"], "@url");
    let spec = world.get("/api/v1/jobs/ping").await["spec"].clone();
    assert_eq!(spec["app"], json!(null));
    assert_eq!(spec["http"], body["http"]);
    assert_eq!(world.admin("PUT", "/api/v1/jobs/ping", spec).await["version"], 2);
}

#[tokio::test]
async fn only_the_admin_reads_the_headers_of_requests() {
    let world = World::new();
    let http = json!({"post": "https://partner.example/", "headers": {"authorization": "Bearer s3cret"}});
    world.admin("POST", "/api/v1/jobs", json!({"name": "ping", "every": "30s", "http": http})).await;
    for path in ["/api/v1/jobs", "/api/v1/jobs/ping", "/api/v1/jobs/ping/versions/1"] {
        let read = world.get(path).await.to_string();
        assert!(!read.contains("s3cret") && read.contains(r#""authorization":"***""#), "{path}: {read}");
        let (_, all) = world.call("GET", path, ADMIN, "").await;
        assert!(all.to_string().contains("Bearer s3cret"), "{path}: {all}");
    }
    // What was read without the value is no new value.
    let spec = world.get("/api/v1/jobs/ping").await["spec"].clone();
    let (_, code, field, _) = world.refused("PUT", "/api/v1/jobs/ping", spec).await;
    assert_eq!((code.as_str(), field.as_str()), ("invalid", "http.headers.authorization"));
}

#[tokio::test]
async fn names_that_a_path_reads_otherwise_are_refused() {
    let world = World::new();
    for name in ["1", "1000000000", "99999999999999999999", ".", ".."] {
        let (_, code, field, hint) = world.refused("POST", "/api/v1/jobs", job(name)).await;
        assert_eq!((code.as_str(), field.as_str()), ("invalid", "name"), "{name}");
        assert!(hint.contains("letter"), "{name}: {hint}");
    }
    for name in ["1a", "2026-01", "...", ".a"] {
        world.admin("POST", "/api/v1/jobs", job(name)).await;
    }
    // A client normalises the path of an app; a handler has none, and yet one rule for all names is easier to keep.
    let dots = json!({"name": "a", "app": "etl", "handler": "..", "every": "10s"});
    assert_eq!(world.refused("POST", "/api/v1/jobs", dots).await.2, "handler");
    assert_eq!(world.refused("PUT", "/api/v1/apps/%2e%2e", json!({})).await.1, "invalid");
}

#[tokio::test]
async fn a_list_is_no_body() {
    let world = World::new();
    for (method, path) in [("PUT", "/api/v1/apps/a"), ("POST", "/api/v1/apps/etl/token"), ("POST", "/api/v1/jobs")] {
        let (status, code, ..) = world.refused(method, path, json!([])).await;
        assert_eq!((status, code.as_str()), (400, "invalid"), "{path}");
    }
}

#[tokio::test]
async fn what_never_changes_is_refused() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("copy")).await;
    for (key, value) in [("name", "other"), ("app", "pay")] {
        let mut body = job("copy");
        body[key] = json!(value);
        let (status, code, field, hint) = world.refused("PUT", "/api/v1/jobs/copy", body).await;
        assert_eq!((status, code.as_str(), field.as_str()), (400, "invalid", key));
        assert!(hint.contains("never changes"), "{hint}");
    }
    let mut unknown = job("x");
    unknown["app"] = json!("elt");
    let (status, code, field, hint) = world.refused("POST", "/api/v1/jobs", unknown).await;
    assert_eq!(
        (status, code.as_str(), field.as_str(), hint.as_str()),
        (404, "app_unknown", "app", "did you mean `etl`?")
    );
    let (_, code, _, hint) = world.refused("GET", "/api/v1/jobs/cpoy", json!({})).await;
    assert_eq!((code.as_str(), hint.as_str()), ("job_unknown", "did you mean `copy`?"));
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    let world = World::new();
    for n in 0..5 {
        world.admin("POST", "/api/v1/jobs", job(&format!("job-{n}"))).await;
    }
    let (mut names, mut path) = (Vec::new(), "/api/v1/jobs?limit=2".to_owned());
    loop {
        let page = world.get(&path).await;
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        names.extend(items.iter().map(|item| item["spec"]["name"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => path = format!("/api/v1/jobs?limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["job-0", "job-1", "job-2", "job-3", "job-4"]);
    assert_eq!(world.get("/api/v1/jobs?app=pay").await["items"], json!([]));
    assert_eq!(world.get("/api/v1/jobs?namespace=shop").await["items"], json!([]));
    let (status, code, field, hint) = world.refused("GET", "/api/v1/jobs?limti=2", json!({})).await;
    assert_eq!(
        (status, code.as_str(), field.as_str(), hint.as_str()),
        (400, "unknown_field", "limti", "did you mean `limit`?")
    );
}

#[tokio::test]
async fn apps_are_made_and_set() {
    let world = World::new();
    let made = world.admin("PUT", "/api/v1/apps/web", json!({})).await;
    assert_eq!((&made["name"], &made["pending_max"]), (&json!("web"), &json!(1_000)));
    assert_eq!(world.admin("PUT", "/api/v1/apps/web", json!({"pending_max": 5})).await["pending_max"], 5);
    assert_eq!(world.admin("PUT", "/api/v1/apps/web", json!({})).await["pending_max"], 5);
    let names: Vec<String> = world.get("/api/v1/apps").await["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|app| app["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["etl", "pay", "web"]);
    let (_, code, field, _) = world.refused("PUT", "/api/v1/apps/web", json!({"pending_max": 0})).await;
    assert_eq!((code.as_str(), field.as_str()), ("invalid", "pending_max"));
    let (_, code, field, _) = world.refused("PUT", "/api/v1/apps/a%20b", json!({})).await;
    assert_eq!((code.as_str(), field.as_str()), ("invalid", "name"));
}

#[tokio::test]
async fn a_batch_takes_the_path_of_single_calls_and_one_bad_change_stops_no_other() {
    let world = World::new();
    let spec = |name: &str| json!({"name": name, "app": "etl", "handler": "h", "every": "1h"});
    let made = world
        .admin(
            "POST",
            "/api/v1/jobs/batch",
            json!({"managed_by": "shop", "changes": [
                {"op": "create", "spec": spec("a")},
                {"op": "create", "spec": {"name": "b", "app": "etl", "handler": "h", "every": "1h", "paused": true},
                 "reason": "until v2"},
                {"op": "create", "spec": {"name": "bad", "app": "etl", "handler": "h", "cron": "61 * * * *"}},
                {"op": "create", "spec": spec("a")},
                {"op": "create", "spec": spec("c")},
            ]}),
        )
        .await;
    let results = made["results"].as_array().unwrap();
    assert_eq!((&results[0]["saved"]["version"], &results[0]["saved"]["state"]), (&json!(1), &json!("enabled")));
    assert_eq!(results[1]["saved"]["state"], "paused");
    assert_eq!((&results[2]["error"]["code"], &results[2]["error"]["field"]), (&json!("invalid"), &json!("cron")));
    assert!(results[3]["error"]["message"].as_str().unwrap().contains("twice"), "{made}");
    assert_eq!(results[4]["saved"]["name"], "c");

    let b = world.get("/api/v1/jobs/b").await;
    assert_eq!((&b["managed_by"], &b["by"]), (&json!("shop"), &json!("file shop")));
    assert_eq!((&b["pause"]["by"], &b["pause"]["reason"]), (&json!("file shop"), &json!("until v2")));

    // A version that is not the one that was seen changes nothing.
    let stale = world
        .admin(
            "POST",
            "/api/v1/jobs/batch",
            json!({"changes": [
                {"op": "edit", "spec": spec("a"), "version": 7},
                {"op": "pause", "job": "c", "version": 7},
                {"op": "resume", "job": "b", "version": 1},
                {"op": "delete", "job": "nobody"},
            ]}),
        )
        .await;
    let results = stale["results"].as_array().unwrap();
    assert_eq!(results[0]["error"]["code"], "version_conflict");
    assert_eq!(results[1]["error"]["code"], "version_conflict");
    assert_eq!(results[2]["now"]["state"], "enabled");
    assert_eq!(results[3]["error"]["code"], "job_unknown");
    let b = world.get("/api/v1/jobs/b").await;
    assert_eq!((&b["managed_by"], &b["pause"]), (&json!("shop"), &Value::Null));

    // Whoever edits by hand leaves the job with its file.
    world
        .admin("PUT", "/api/v1/jobs/a?version=1", json!({"name": "a", "app": "etl", "handler": "h", "every": "2h"}))
        .await;
    let a = world.get("/api/v1/jobs/a").await;
    assert_eq!((&a["managed_by"], &a["by"], &a["version"]), (&json!("shop"), &json!("admin"), &json!(2)));
}

#[tokio::test]
async fn jobs_are_found_by_name_and_by_the_file_that_manages_them() {
    let world = World::new();
    let spec = |name: &str| json!({"name": name, "app": "etl", "handler": "h"});
    world
        .admin(
            "POST",
            "/api/v1/jobs/batch",
            json!({"managed_by": "shop", "changes": [{"op": "create", "spec": spec("a")}]}),
        )
        .await;
    world.admin("POST", "/api/v1/jobs", spec("b")).await;
    let names = |page: &Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|job| job["spec"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let found = world.admin("POST", "/api/v1/jobs/find", json!({"names": ["b", "nobody", "a"]})).await;
    assert_eq!(names(&found), ["b", "a"]);
    assert_eq!(names(&world.get("/api/v1/jobs?managed_by=shop").await), ["a"]);
    let (status, _, field, _) = world.refused("POST", "/api/v1/jobs", spec("batch")).await;
    assert_eq!((status, field.as_str()), (400, "name"), "a name that is a place of the API");
    let changes = vec![json!({"op": "delete", "job": "x"}); 1_001];
    let (status, code, ..) = world.refused("POST", "/api/v1/jobs/batch", json!({"changes": changes})).await;
    assert_eq!((status, code.as_str()), (413, "too_large"));
}

#[tokio::test]
async fn changes_that_cannot_be_meant_are_told_apart() {
    let world = World::new();
    let spec = json!({"name": "a", "app": "etl", "handler": "h"});
    for (change, field) in [
        (json!({"op": "create"}), "spec"),
        (json!({"op": "create", "job": "a", "spec": spec}), "job"),
        (json!({"op": "create", "spec": spec, "version": 1}), "version"),
        (json!({"op": "edit", "job": "a"}), "spec"),
        (json!({"op": "pause"}), "job"),
        (json!({"op": "pause", "job": "a", "spec": spec}), "spec"),
        (json!({"op": "resume", "job": "a", "reason": "why not"}), "reason"),
        (
            json!({"op": "create", "spec": {"name": "a", "namespace": "x", "app": "etl", "handler": "h"}}),
            "spec.namespace",
        ),
        (json!({"op": "pause", "job": "a", "reason": "x".repeat(1_001)}), "reason"),
    ] {
        let done = world.admin("POST", "/api/v1/jobs/batch", json!({"changes": [change]})).await;
        assert_eq!(done["results"][0]["error"]["field"], field, "{change}: {done}");
    }
}

#[tokio::test]
async fn an_edit_that_leaves_no_slot_is_refused_whatever_it_narrows() {
    let world = World::new();
    world.admin("POST", "/api/v1/jobs", job("copy")).await;
    for (key, value) in
        [("calendar", json!({"exclude": ["mon-sun"]})), ("active", json!({"until": "2020-01-01T00:00:00Z"}))]
    {
        let mut spec = job("copy");
        spec[key] = value.clone();
        let (status, code, ..) = world.refused("PUT", "/api/v1/jobs/copy", spec).await;
        assert_eq!((status, code.as_str()), (400, "invalid"), "{key}: {value}");
    }
    assert_eq!(world.get("/api/v1/jobs/copy").await["version"], 1);
}

/// Field case B110: what would break a page or a table is text like any other.
#[tokio::test]
async fn b110_a_parameter_is_kept_letter_by_letter() {
    let world = World::new();
    let letters = "</td><script>window.x=1</script>\u{1f600}\u{20bb7}e\u{301}\"' {\"a\":\"<b>1</b>\"}";
    let mut spec = job("copy");
    spec["param"] = json!(letters);
    world.admin("POST", "/api/v1/jobs", spec.clone()).await;
    assert_eq!(world.get("/api/v1/jobs/copy").await["spec"]["param"], letters);
    (spec["name"], spec["param"]) = (json!("other"), json!("a\u{0}b"));
    let (status, answer) = world.call("POST", "/api/v1/jobs", ADMIN, spec.to_string()).await;
    if status == 400 {
        assert_eq!(answer["field"], "param", "{answer}");
    } else {
        assert_eq!(world.get("/api/v1/jobs/other").await["spec"]["param"], "a\u{0}b");
    }
}

/// Field case B143: neither objects of another language nor JSON without a bottom is read.
#[tokio::test]
async fn b143_bodies_that_are_made_to_harm_are_refused() {
    let world = World::new();
    let bodies = [vec![0xac, 0xed, 0, 5, 0x73, 0x72], b"[".repeat(100_000), br#"{"name":"#.repeat(100_000)];
    for body in bodies {
        let (status, answer) = world.call("POST", "/api/v1/jobs", ADMIN, body).await;
        let is_told = ["malformed", "invalid"].iter().any(|code| answer["code"] == *code);
        assert!(status == 400 && is_told, "{status} {answer}");
    }
    assert_eq!(world.get("/api/v1/jobs").await["items"], json!([]));
}
