//! Input that cannot be meant: answered with the field, the reason and a hint; nothing of it is kept.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::fake::{Fake, Manner, SECRET};
use crate::folder::Folder;
use crate::process::{rota, run, signal, text_of};
use crate::server::Server;

/// A job that is right, but for what is laid over it.
fn spec(over: &Value) -> Vec<u8> {
    let mut spec = json!({"name": "bad", "app": "etl", "handler": "work"});
    spec.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
    spec.to_string().into_bytes()
}

#[test]
fn a_wrong_job_is_refused_by_field_and_hint() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    server.app("etl");
    server.job(&json!({"name": "good", "app": "etl", "handler": "work"}));
    let cases = [
        (json!({"crno": "* * * * *"}), 400, "unknown_field", "crno", "`cron`"),
        (json!({"retry": {"max": 1, "frist": "1s"}}), 400, "unknown_field", "retry.frist", "`first`"),
        (json!({"cron": "0 0 30 2 *"}), 400, "invalid", "cron", ""),
        (json!({"cron": "61 * * * *"}), 400, "invalid", "cron", ""),
        (json!({"cron": "* * *"}), 400, "invalid", "cron", ""),
        (json!({"at": "2001-01-01T00:00:00Z"}), 400, "invalid", "at", ""),
        (json!({"cron": "@daily", "every": "5s"}), 400, "invalid", "every", "one of"),
        (json!({"cron": "@daily", "timezone": "Asia/Shanghi"}), 400, "invalid", "timezone", "Asia/Shanghai"),
        (json!({"every": "-5s"}), 400, "invalid", "every", "30s"),
        (json!({"every": "0s"}), 400, "invalid", "every", ""),
        (json!({"delay": "-1s"}), 400, "invalid", "delay", "30s"),
        (json!({"every": "30"}), 400, "invalid", "every", "`30s`"),
        (json!({"every": 30}), 400, "invalid", "every", "30s"),
        (json!({"retry": {"max": 1, "first": "-1s"}}), 400, "invalid", "retry.first", "30s"),
        (json!({"timeout": {"attempt": "-1s"}}), 400, "invalid", "timeout.attempt", "30s"),
        (json!({"timeout": {"start": "-1s"}}), 400, "invalid", "timeout.start", "30s"),
        (json!({"shards": {"count": 0}}), 400, "invalid", "shards.count", ""),
        (json!({"shards": {"count": 1001}}), 400, "invalid", "shards.count", ""),
        (json!({"retry": {"max": 101}}), 400, "invalid", "retry.max", ""),
        (json!({"overlap": "skpi"}), 400, "invalid", "overlap", "`skip`"),
        (json!({"route": {"strategy": "LEAST"}}), 400, "invalid", "route.strategy", ""),
        (json!({"route": {"labels": "disk=="}}), 400, "invalid", "route.labels", ""),
        (json!({"delivery": "exactly_once"}), 400, "invalid", "delivery", ""),
        (json!({"app": "elt"}), 404, "app_unknown", "app", "`etl`"),
        (json!({"name": ""}), 400, "invalid", "name", ""),
        (json!({"name": "x".repeat(101)}), 400, "invalid", "name", ""),
        (json!({"name": "good"}), 409, "name_taken", "name", "another name"),
        (json!({"param": "x".repeat((1 << 20) + 1)}), 413, "too_large", "param", ""),
        (json!({"handler": null}), 400, "invalid", "handler", ""),
        (json!({"http": {"get": "http://127.0.0.1:1/"}}), 400, "invalid", "http", "one of"),
        (json!({"handler": null, "app": null, "http": {"get": "nowhere"}}), 400, "invalid", "http.get", ""),
    ];
    let mut wrong = Vec::new();
    for (over, status, code, field, hint) in cases {
        let answer = server.api.call("POST", "/api/v1/jobs", &spec(&over)).unwrap();
        let refusal = answer.json();
        let has_hint = refusal["hint"].as_str().is_some_and(|said| !said.is_empty() && said.contains(hint));
        if (answer.status, &refusal["code"], &refusal["field"]) != (status, &json!(code), &json!(field)) || !has_hint {
            let shown: String = over.to_string().chars().take(200).collect();
            wrong.push(format!("{shown}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let largest = spec(&json!({"name": "large", "param": "x".repeat(1 << 20)}));
    assert_eq!(server.api.call("POST", "/api/v1/jobs", &largest).unwrap().status, 201);
    let names: Vec<Value> = server.api.get("/api/v1/jobs")["items"].as_array().unwrap().clone();
    let names: Vec<&str> = names.iter().map(|job| job["spec"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["good", "large"], "what was refused is not kept");
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_is_no_request_is_refused_too() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let api = &server.api;
    let jobs = "/api/v1/jobs";
    let utf8 = api.refused("POST", jobs, b"{\"name\":\"\xff\xfe\"}", 400, "malformed");
    assert!(utf8["message"].as_str().unwrap().contains("byte 9") && utf8["hint"].is_string(), "{utf8}");
    api.refused("POST", jobs, b"{\"name\":", 400, "malformed");
    api.refused("POST", jobs, &vec![b' '; 7 << 20], 413, "too_large");
    api.refused("POST", "/api/v1/jbos", b"{}", 404, "route_unknown");
    api.refused("PATCH", jobs, b"{}", 405, "method_not_allowed");
    api.refused("GET", "/api/v1/runs?limt=5", b"", 400, "unknown_field");
    api.refused("GET", "/api/v1/runs?limit=0", b"", 400, "invalid");
    api.refused("GET", "/api/v1/runs/r1", b"", 404, "run_unknown");
    api.refused("POST", "/api/v1/jobs/none/trigger", b"{}", 404, "job_unknown");
    api.with_token("rota_a_wrong").refused("GET", jobs, b"", 401, "token_unknown");
    api.with_token(&token).refused("POST", jobs, b"{}", 403, "forbidden");
    api.refused("POST", "/api/v1/apps/etl/token", b"{\"adopt\":\"default_token\"}", 400, "weak_token");

    server.job(&json!({"name": "copy", "app": "etl", "handler": "work"}));
    let trigger = |body: &Value| api.call("POST", "/api/v1/jobs/copy/trigger", body.to_string().as_bytes()).unwrap();
    let first = trigger(&json!({"request_id": "a", "param": "1"}));
    assert_eq!(first.status, 201, "{first:?}");
    let again = trigger(&json!({"request_id": "a", "param": "1"}));
    assert_eq!((again.status, &again.json()["run"]), (200, &first.json()["run"]));
    let other = json!({"request_id": "a", "param": "2"}).to_string();
    let refusal = api.refused("POST", "/api/v1/jobs/copy/trigger", other.as_bytes(), 409, "request_conflict");
    assert_eq!(refusal["field"], "request_id");
    let runs = server.api.get("/api/v1/runs?job=copy");
    assert_eq!(runs["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.readyz(200), "ready\n");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_command_line_passes_it_on() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    server.app("etl");
    server.job(&json!({"name": "good", "app": "etl", "handler": "work"}));
    let run = |words: &[&OsStr]| {
        let mut command = rota(folder.path());
        command.args(["--server", &format!("http://{}", server.api.address), "--token", &server.api.token]);
        command.args(words).output().unwrap()
    };
    let add = ["job", "add", "bad", "--app", "etl", "--handler", "work"];
    let cases: [(&[&str], i32, &[&str]); 6] = [
        (&["--cron", "0 0 30 2 *"], 2, &["cron: ", "(invalid)"]),
        (&["--cron", "@daily", "--timezone", "Asia/Shanghi"], 2, &["timezone: ", "Asia/Shanghai"]),
        (&["--every=-5s"], 2, &["every: ", "negative", "30s"]),
        (&["--retries", "1", "--retry-first=-5s"], 2, &["retry.first: ", "negative"]),
        (&["--shards", "1001"], 2, &["shards.count: "]),
        (&["--corn", "@daily"], 2, &["--corn", "--cron"]),
    ];
    for (words, code, parts) in cases {
        let all: Vec<&OsStr> = add.iter().chain(words).map(OsStr::new).collect();
        let output = run(&all);
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{words:?}: {text}");
    }
    let invalid: Vec<&OsStr> =
        add.iter().map(OsStr::new).chain([OsStr::new("--param"), OsStr::from_bytes(b"\xff")]).collect();
    let output = run(&invalid);
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("UTF-8"), "{}", text_of(&output));

    let taken: Vec<&OsStr> =
        ["--json", "job", "add", "good", "--app", "etl", "--handler", "work"].map(OsStr::new).to_vec();
    let output = run(&taken);
    let refusal: Value = serde_json::from_slice(&output.stderr).expect("JSON, as asked");
    assert_eq!((output.status.code(), &refusal["code"]), (Some(1), &json!("name_taken")));
    assert_eq!(refusal["field"], "name");
    let jobs = server.api.get("/api/v1/jobs");
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.stop(), 0);
}

/// What nobody can take is lost; it changes neither what is done nor the code.
#[test]
fn output_that_nobody_takes_ends_nothing_otherwise() {
    let folder = Folder::new();
    let here = folder.path();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    std::fs::write(here.join("wrong.yaml"), "version: 1\njobs:\n\ta: {}\n").unwrap();
    let code = |line: &str| {
        let mut command = rota(here);
        let ended = command.args(line.split_whitespace()).stderr(full()).stdout(Stdio::null()).status().unwrap();
        ended.code().unwrap_or(-1)
    };
    // Usage, a mistake in a text, no server, a wrong file.
    assert_eq!(code("why @ --server http://127.0.0.1:1"), 2);
    assert_eq!(code("cron next x"), 2);
    assert_eq!(code("job list --server http://127.0.0.1:1 --token t"), 3);
    assert_eq!(code("plan -f wrong.yaml --server http://127.0.0.1:1 --token t"), 2);

    // A server whose output goes to a full disk serves. Where it listens, it says to whoever manages it.
    let socket = std::os::unix::net::UnixDatagram::bind(here.join("notify")).unwrap();
    std::fs::write(here.join("admin.token"), "rota_a-token-of-the-administrator").unwrap();
    let mut command = rota(here);
    command.args(["serve", "--data", "full", "--listen", "127.0.0.1:0", "--admin-token-file", "admin.token"]);
    command.env("NOTIFY_SOCKET", here.join("notify")).env("ROTA_SERVER__LOG", "trace").stdout(full()).stderr(full());
    let mut server = command.spawn().unwrap();
    let mut said = [0; 4096];
    let address = loop {
        let length = socket.recv(&mut said).unwrap();
        let said = String::from_utf8_lossy(&said[..length]).into_owned();
        if let Some((_, address)) = said.split_once("listening on http://") {
            break address.trim().to_owned();
        }
    };
    let health = run(here, &format!("health --server http://{address}"));
    assert!(health.status.success(), "{}", text_of(&health));
    assert!(server.try_wait().unwrap().is_none(), "it runs");
    signal("TERM", server.id());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_wrong_configuration_does_not_start() {
    let folder = Folder::new();
    let serve = |text: &str| {
        std::fs::write(folder.path().join("rota.toml"), text).unwrap();
        let output = rota(folder.path()).args(["serve", "--data", "data", "--listen", "127.0.0.1:0"]).output().unwrap();
        (output.status.code(), text_of(&output))
    };
    for (text, parts) in [
        ("[server]\nlisen = \"127.0.0.1:1\"\n", ["lisen", "listen"]),
        ("[timing]\nbeat = \"-5s\"\n", ["rota.toml", "timing.beat"]),
        ("[timing]\nbeat = 5\n", ["rota.toml", "timing.beat"]),
        ("[timing\n", ["rota.toml", ""]),
    ] {
        let (code, said) = serve(text);
        assert_eq!(code, Some(2), "{text}{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{text}{said}");
    }
    assert!(!folder.path().join("data").exists(), "nothing was made");
}

/// Field case B046: two processes with one name are not taken for one.
#[test]
fn a_living_workers_name_is_its_own() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let holder = Fake::join(&server.api, "etl", &token, "w1", Manner::Prompt);
    let rival = Fake::listen("w1", holder.incarnation + 1, Manner::Prompt);
    let workers = server.api.with_token(&token);
    let body = rival.registration("etl").to_string();
    let refusal = workers.refused("POST", "/api/v1/workers", body.as_bytes(), 409, "worker_id_taken");
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains(&holder.address.to_string()), "{refusal}");
    assert_eq!(refusal["field"], "name");
    assert!(refusal["hint"].is_string(), "{refusal}");

    // The holder works on as if nothing had been.
    server.job(&json!({"name": "copy", "app": "etl", "handler": "work"}));
    let run = server.api.trigger("copy");
    assert_eq!(server.ended(&run)["state"], "success");
    assert_eq!((holder.starts().len(), rival.starts().len()), (1, 0));

    let mut spoilt = rival.registration("etl");
    spoilt["callback_secret"] = SECRET[..8].into();
    let refusal = workers.refused("POST", "/api/v1/workers", spoilt.to_string().as_bytes(), 400, "invalid");
    assert_eq!(refusal["field"], "callback_secret");
    assert!(refusal["hint"].is_string(), "{refusal}");
    assert_eq!(server.stop(), 0);
}
