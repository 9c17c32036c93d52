//! The native protocol as it is documented: the transcript stays true, the goldens are taken, and the worker without an
//! SDK works.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::clock::wait_for;
use crate::fake::{Fake, Manner, SECRET};
use crate::folder::Folder;
use crate::process::Process;
use crate::server::Server;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/golden");

/// The run in the transcript.
const RUN: &str = "228817738137600";
const INCARNATION: u64 = 1_796_054_400_000_123;

/// A call of the transcript, and the answer under it.
#[derive(Debug)]
struct Call {
    method: String,
    path: String,
    body: String,
    answer: Option<Value>,
}

/// All calls in the page's blocks.
fn transcript(page: &str) -> Vec<Call> {
    let blocks = page.split("```").skip(1).step_by(2);
    let steps = blocks.flat_map(|block| block.split("$ curl -s ").skip(1).map(str::to_owned).collect::<Vec<_>>());
    steps.map(|step| read_call(&step)).collect()
}

fn read_call(step: &str) -> Call {
    let (method, rest) = match step.strip_prefix("-X ") {
        Some(rest) => rest.split_once(' ').expect("a method and more"),
        None => ("POST", step),
    };
    let (url, rest) = rest.split_once(" -H ").expect("a token");
    let path = url.trim_matches('"').strip_prefix("$ROTA_SERVER").expect("the server's address").to_owned();
    let (body, answer) = match rest.split_once("-d '") {
        Some((_, rest)) => rest.split_once('\'').expect("a closed quote"),
        None => ("", rest.split_once('\n').expect("an end of the line").1),
    };
    let answer = answer.trim();
    let answer = (!answer.is_empty()).then(|| serde_json::from_str(answer).unwrap_or_else(|e| panic!("{answer}: {e}")));
    Call { method: method.to_owned(), path, body: body.to_owned(), answer }
}

fn keys(value: &Value) -> BTreeSet<&String> {
    value.as_object().expect("an object").keys().collect()
}

#[test]
fn the_transcript_is_true() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let api = server.api.with_token(&token);
    let worker = Fake::listen("etl-1", INCARNATION, Manner::Busy);
    let page = std::fs::read_to_string(format!("{DOCS}/worker-protocol.md")).unwrap();
    let calls = transcript(&page);
    let paths: Vec<&str> = calls.iter().map(|call| call.path.as_str()).collect();
    assert_eq!(paths.len(), 6, "register, beat, results, logs, drain, leave: {paths:?}");

    let mut run: Option<String> = None;
    for call in calls {
        let real = |text: &str| match &run {
            Some(attempt) => text.replace(RUN, attempt),
            None => text.to_owned(),
        };
        let mut body: Value =
            serde_json::from_str(&real(if call.body.is_empty() { "{}" } else { &call.body })).unwrap();
        if call.path == "/api/v1/workers" {
            body["url"] = format!("http://{}", worker.address).into();
            body["callback_secret"] = SECRET.into();
        }
        let answer = api.call(&call.method, &call.path, body.to_string().as_bytes()).unwrap();
        assert!((200..300).contains(&answer.status), "{call:?}: {answer:?}");
        match &call.answer {
            Some(expected) => {
                let expected: Value = serde_json::from_str(&real(&expected.to_string())).unwrap();
                assert_eq!(answer.json(), expected, "{call:?}");
            }
            None => assert_eq!((answer.status, answer.text.as_str()), (204, ""), "{call:?}"),
        }
        if call.path.ends_with("/beat") {
            run = Some(dispatched(&server, &worker, &page));
        }
        if call.path.ends_with("/results") {
            let ended = server.ended(&format!("id:{}", run.as_ref().unwrap()));
            assert_eq!((&ended["state"], &ended["message"]), (&json!("success"), &json!("42 rows")));
        }
        if call.path.ends_with("/logs") {
            let path = format!("/api/v1/runs/id:{}/logs", run.as_ref().unwrap());
            let log = wait_for("the log", || server.api.get(&path), |log| log["is_closed"] == true);
            assert_eq!(log["text"], "one\ntwo\n");
        }
    }
    let states = || server.api.get("/api/v1/workers")["items"][0]["state"].clone();
    wait_for("the worker to be gone", states, |state| state == "offline");
    assert_eq!(server.stop(), 0);
}

/// Runs the transcript's job on the worker; the run's number, which is its first attempt's too.
fn dispatched(server: &Server, worker: &Fake, page: &str) -> String {
    server
        .job(&json!({"name": "copy", "app": "etl", "handler": "copy", "param": "date=1", "timezone": "Asia/Shanghai",
        "timeout": {"attempt": "30m"}}));
    server.api.trigger("copy");
    let asked = wait_for("a dispatch", || worker.asked(), |asked| asked.len() == 1).remove(0);
    let start = page.find("`POST /internal/tasks/execute`").expect("it is described");
    let shown = page[start..].split("```").nth(1).expect("with its body");
    let shown: Value = serde_json::from_str(shown).unwrap();
    assert_eq!(keys(&shown), keys(&asked));
    for same in
        ["shard", "shards", "no", "job_name", "version", "zone", "handler", "param", "timeout_ms", "incarnation"]
    {
        assert_eq!(shown[same], asked[same], "{same}");
    }
    assert_eq!(asked["idempotency_key"], format!("{}/0", asked["run"]));
    asked["attempt"].to_string()
}

#[test]
fn an_address_that_nobody_answers_is_told() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let worker = Fake::listen("etl-1", INCARNATION, Manner::Prompt);
    let mut body = worker.registration("etl");
    // A port that was free a moment ago.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    body["url"] = format!("http://{closed}").into();
    let answer = server.api.with_token(&token).post("/api/v1/workers", &body);
    assert_eq!(answer["state"], "unreachable", "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("refused the connection; set ROTA_ADVERTISE_URL"), "{message}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_goldens_are_taken() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let golden = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(format!("{GOLDEN}/{name}.json")).unwrap()).unwrap()
    };
    let mut register = golden("register");
    let worker = Fake::listen("etl-1", register["incarnation"].as_u64().unwrap(), Manner::Prompt);
    register["url"] = format!("http://{}", worker.address).into();
    server.api.ask("PUT", "/api/v1/apps/etl?namespace=shop", &json!({}));
    let made = server.api.post("/api/v1/apps/etl/token?namespace=shop", &json!({}));
    let api = server.api.with_token(made["token"].as_str().unwrap());
    let seat = api.post("/api/v1/workers", &register);
    assert_eq!(keys(&seat), keys(&golden("registered")));
    assert_eq!(seat["state"], "online");
    let path = |call: &str| format!("/api/v1/workers/{}{call}", seat["worker"]);
    let beat = api.post(&path("/beat"), &golden("beat"));
    assert_eq!(keys(&beat), keys(&golden("worker_now")));
    let results = golden("results");
    let acknowledged = api.post(&path("/results"), &results);
    assert_eq!(keys(&acknowledged), keys(&golden("acknowledged")));
    let sent: Vec<&Value> = results["results"].as_array().unwrap().iter().map(|result| &result["attempt"]).collect();
    assert_eq!(acknowledged["acknowledged"].as_array().unwrap().iter().collect::<Vec<_>>(), sent);
    assert_eq!(api.post(&path("/logs"), &golden("logs")), Value::Null);
    assert_eq!(api.post(&path("/drain"), &golden("leave"))["state"], "draining");
    assert_eq!(api.ask("DELETE", &path(""), &golden("leave"))["state"], "offline");

    let mut more = golden("beat");
    more["load"] = 1.into();
    let refusal = api.refused("POST", &path("/beat"), more.to_string().as_bytes(), 400, "unknown_field");
    assert_eq!(refusal["field"], "load");
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_worker_without_an_sdk_works() {
    let folder = Folder::new();
    let mut server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let mut worker = python(folder.path(), &server, &token);
    worker.line_with("registered");
    server.job(&json!({"name": "shout", "app": "etl", "handler": "shout", "param": "hi"}));
    server.job(&json!({"name": "often", "app": "etl", "handler": "echo", "param": "x", "every": "1s"}));
    let ended = server.ended(&server.api.trigger("shout"));
    assert_eq!((&ended["state"], &ended["message"]), (&json!("success"), &json!("HI")));
    assert_eq!(ended["attempts"][0]["worker_name"], "etl-python");
    let often = || server.api.get("/api/v1/runs?job=often&state=success")["items"].as_array().unwrap().len();
    wait_for("scheduled runs", often, |count| *count >= 3);

    server.restart();
    let ended = server.ended(&server.api.trigger("shout"));
    assert_eq!(ended["state"], "success", "{ended}");
    assert!(!worker.printed().contains("Traceback"), "{}", worker.printed());
    assert_eq!(server.stop(), 0);
}

fn python(folder: &Path, server: &Server, token: &str) -> Process {
    let mut command = Command::new("python3");
    command.arg("-u").arg(format!("{DOCS}/examples/worker.py")).arg("etl").current_dir(folder);
    command.env("ROTA_SERVER", format!("http://{}", server.api.address)).env("ROTA_TOKEN", token);
    Process::start(command, &folder.join("python.log"))
}
