//! Sampled runs leave spans with a collector, and what they call is told under which span it hangs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::clock::wait_for;
use crate::folder::Folder;
use crate::server::Server;

/// A collector that takes OTLP over HTTP, in JSON.
struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let spans = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&spans);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream);
                let head: Vec<String> =
                    reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                assert_eq!(head[0], "POST /v1/traces HTTP/1.1");
                let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.expect("a length")];
                reader.read_exact(&mut body).unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let resource = &body["resourceSpans"][0];
                assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "rota");
                let found = resource["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
                kept.lock().unwrap().extend(found);
                reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            }
        });
        Collector { address, spans }
    }

    /// The spans of a run, the run's own first, once there are so many.
    fn of(&self, run: &str, count: usize) -> Vec<Value> {
        let of_run = || {
            let all = self.spans.lock().unwrap();
            let mut found: Vec<Value> =
                all.iter().filter(|span| fact(span, "rota.run") == json!(run)).cloned().collect();
            found.sort_by_key(|span| (span["parentSpanId"].is_string(), span["startTimeUnixNano"].to_string()));
            found
        };
        wait_for("the spans of a run", of_run, |found| found.len() >= count)
    }
}

fn fact(span: &Value, key: &str) -> Value {
    let found = span["attributes"].as_array().and_then(|all| all.iter().find(|fact| fact["key"] == key));
    let value = found.map_or(&Value::Null, |fact| &fact["value"]);
    [&value["stringValue"], &value["intValue"]].into_iter().find(|value| !value.is_null()).cloned().unwrap_or_default()
}

#[test]
fn a_run_is_a_span_and_its_attempts_hang_below_it() {
    let folder = Folder::new();
    let collector = Collector::start();
    let to = format!("http://{}", collector.address);
    let server =
        Server::start(folder.path(), &[("ROTA_TELEMETRY__OTLP", to.as_str()), ("ROTA_TELEMETRY__SAMPLE", "1")]);
    let token = server.app("etl");
    let worker = server.worker("etl", &token, "w1", "--allow-shell");
    let script = "echo $TRACEPARENT >> seen; test $ROTA_ATTEMPT = 2";
    server.job(&json!({"name": "twice", "app": "etl", "handler": "shell", "param": script, "retry": {"max": 1}}));
    let run = server.api.trigger("twice");
    assert_eq!(server.ended(&run)["state"], "success");

    let spans = collector.of(&run, 3);
    let [whole, first, second] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((&whole["name"], fact(whole, "rota.job_name")), (&json!("run"), json!("twice")));
    assert_eq!((&whole["status"], fact(whole, "rota.state")), (&json!({"code": 1}), json!("success")));
    for (attempt, code, no) in [(first, 2, "1"), (second, 1, "2")] {
        assert_eq!((&attempt["name"], &attempt["parentSpanId"]), (&json!("attempt"), &whole["spanId"]));
        assert_eq!((&attempt["traceId"], &attempt["status"]["code"]), (&whole["traceId"], &json!(code)));
        assert_eq!(fact(attempt, "rota.try"), no);
    }
    let word = |span: &Value, key: &str| span[key].as_str().unwrap().to_owned();
    let called = |span: &Value| format!("00-{}-{}-01", word(span, "traceId"), word(span, "spanId"));
    let seen = std::fs::read_to_string(folder.path().join("seen")).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), [called(first), called(second)]);
    assert_eq!(server.stop(), 0);
    assert_eq!(worker.stop(), 0);
}

/// A trace that somebody else began.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// Asks for a run of the job `tell` with this header; its printed id.
fn trigger_within(server: &Server, traceparent: &str) -> String {
    let head = format!("traceparent: {traceparent}\r\n");
    let answer = server.api.call_with(&head, "POST", "/api/v1/jobs/tell/trigger", b"{}").unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_that_is_asked_for_within_a_trace_goes_on_with_it_even_across_a_kill() {
    let folder = Folder::new();
    let collector = Collector::start();
    let to = format!("http://{}", collector.address);
    // Of its own accord it would trace nothing.
    let env = [("ROTA_TELEMETRY__OTLP", to.as_str()), ("ROTA_TELEMETRY__SAMPLE", "0")];
    let mut server = Server::start(folder.path(), &env);
    let token = server.app("etl");
    let script = "echo \"traceparent $TRACEPARENT.\"";
    server.job(&json!({"name": "tell", "app": "etl", "handler": "shell", "param": script}));
    let (sampled, plain) = (format!("00-{TRACE}-{CALLER}-01"), format!("00-{TRACE}-{CALLER}-00"));
    // There is no worker yet: it is dispatched by another process than took it.
    let waits = trigger_within(&server, &sampled);
    server.restart();

    let worker = server.worker("etl", &token, "w1", "--allow-shell");
    let told = |run: &str| {
        assert_eq!(server.ended(run)["state"], "success");
        let log = || server.api.call("GET", &format!("/api/v1/runs/{run}/logs"), b"").unwrap().text;
        let log = wait_for("a log", log, |log| log.contains("traceparent "));
        log.split("traceparent ").nth(1).and_then(|rest| rest.split('.').next()).unwrap().to_owned()
    };
    let header = told(&waits);
    assert!(header.starts_with(&format!("00-{TRACE}-")) && header.ends_with("-01"), "{header}");
    assert!(!header.contains(CALLER), "the attempt is a span of its own: {header}");
    assert_eq!(told(&trigger_within(&server, &plain)), plain, "what is not sampled is passed on as it is");
    assert_eq!(told(&trigger_within(&server, "00-0-0-01")), "", "what cannot be read is ignored");

    let run = trigger_within(&server, &sampled);
    let header = told(&run);
    let spans = collector.of(&run, 2);
    let whole = spans.iter().find(|span| span["name"] == "run").unwrap();
    let attempt = spans.iter().find(|span| span["name"] == "attempt").unwrap();
    assert_eq!(
        (&whole["traceId"], &whole["parentSpanId"], &whole["flags"]),
        (&json!(TRACE), &json!(CALLER), &json!(0x301))
    );
    assert_eq!((&attempt["traceId"], &attempt["parentSpanId"]), (&json!(TRACE), &whole["spanId"]));
    assert_eq!(header, format!("00-{TRACE}-{}-01", attempt["spanId"].as_str().unwrap()));
    let story = server.api.get(&format!("/api/v1/runs/{run}/why"));
    assert!(story.to_string().contains(&format!("{TRACE}, below span {CALLER}")), "{story}");
    assert_eq!(server.stop(), 0);
    assert_eq!(worker.stop(), 0);
}

#[test]
fn what_is_not_sampled_leaves_nothing_and_nobody_waits_for_a_collector() {
    let folder = Folder::new();
    // Nobody listens there.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let to = format!("http://{gone}");
    let server =
        Server::start(folder.path(), &[("ROTA_TELEMETRY__OTLP", to.as_str()), ("ROTA_TELEMETRY__SAMPLE", "0")]);
    let token = server.app("etl");
    let worker = server.worker("etl", &token, "w1", "--allow-shell");
    server.job(&json!({"name": "one", "app": "etl", "handler": "shell", "param": "test -z \"$TRACEPARENT\""}));
    let run = server.api.trigger("one");
    assert_eq!(server.ended(&run)["state"], "success");
    assert_eq!(server.stop(), 0);
    assert_eq!(worker.stop(), 0);
    let log = std::fs::read_to_string(folder.path().join("server-1.log")).unwrap();
    assert!(!log.contains("spans_"), "{log}");
}
