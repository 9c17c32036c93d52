//! The worker protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{BOUND, FakeServer, Running, builder, call, run};
use hyper::Method;
use rota_wire::worker::{Outcome, Refusal};
use rota_worker::{Context, Error, Status, Worker};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

async fn started(server: &FakeServer) -> Running {
    run(server, builder(server).builtins()).await
}

#[tokio::test]
async fn a_worker_registers_with_all_that_it_is() {
    let server = FakeServer::start().await;
    let worker = run(&server, builder(&server).builtins().label("disk", "ssd").capacity(9).namespace("shop")).await;
    {
        let told = server.told();
        let register = &told.registers[0];
        assert_eq!(
            (register.namespace.as_str(), register.app.as_str(), register.name.as_str()),
            ("shop", "demo", "w-1")
        );
        assert_eq!(register.handlers, ["echo", "fail", "sleep"]);
        assert_eq!((register.labels["disk"].as_str(), register.capacity), ("ssd", 9));
        assert!(register.incarnation > 0 && register.incarnation < 1 << 53);
        assert_eq!(register.callback_secret.len(), 64);
        assert!(told.bearers.iter().all(|bearer| bearer == "Bearer rota_token"));
    }
    let identity = call(&worker.url, Method::GET, "/internal/identity", "", Vec::new()).await;
    assert_eq!(identity, (200, json!({"name": "w-1", "incarnation": worker.incarnation})));
}

#[tokio::test]
async fn the_same_attempt_twice_runs_once() {
    let server = FakeServer::start().await;
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let count = move |context: Context| {
        let counted = Arc::clone(&counted);
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok::<_, String>(Some(format!("{} {}", context.shard(), context.slot_ms())))
        }
    };
    let worker = run(&server, builder(&server).handler("count", count)).await;
    let ask = worker.ask(1, "count", "");
    let (first, second) = tokio::join!(worker.execute(&ask), worker.execute(&ask));
    assert_eq!((first.0, second.0), (202, 202));
    assert!(first.1["next_beat"].as_u64().unwrap() >= 1);
    let result = server.result(1).await;
    assert_eq!((result.outcome, result.run, result.shard, result.no), (Outcome::Success, 1_001, 1, 2));
    assert_eq!(result.message.as_deref(), Some("1 1796061600000"));
    assert_eq!(worker.execute(&ask).await.0, 202);
    let (status, answer) = worker.post("probe", &worker.enquiry(1)).await;
    assert_eq!((status, answer["status"].as_str()), (200, Some("finished")));
    assert_eq!(starts.load(Ordering::SeqCst), 1);
}

/// Field case B095: whoever listens at an address now refuses what was meant for another start.
#[tokio::test]
async fn refusals_are_typed() {
    let server = FakeServer::start().await;
    let worker = run(&server, builder(&server).builtins().capacity(1)).await;
    let refused = |refusal: Refusal| (409, json!({"refused": refusal}));
    let foreign = rota_wire::worker::Execute { incarnation: 1, ..worker.ask(1, "echo", "") };
    assert_eq!(worker.execute(&foreign).await, refused(Refusal::ForeignIncarnation));
    assert_eq!(worker.execute(&worker.ask(2, "nothing", "")).await, refused(Refusal::UnknownHandler));
    let (_, never_seen) = worker.post("probe", &worker.enquiry(3)).await;
    assert_eq!(never_seen, json!({"status": "never_seen"}));
    assert_eq!(worker.execute(&worker.ask(3, "echo", "")).await, refused(Refusal::Cancelled));
    worker.start(4, "sleep", "1h").await;
    assert_eq!(worker.execute(&worker.ask(5, "echo", "")).await, refused(Refusal::Full));
    let later = rota_wire::worker::Enquiry { epoch: 2, ..worker.enquiry(4) };
    assert_eq!(worker.post("probe", &later).await.1["status"], "running");
    assert_eq!(worker.execute(&worker.ask(6, "echo", "")).await, refused(Refusal::StaleEpoch));
    assert_eq!(worker.post("cancel", &worker.enquiry(4)).await, refused(Refusal::StaleEpoch));
}

#[tokio::test]
async fn a_list_is_started_and_refused_one_by_one() {
    let server = FakeServer::start().await;
    let worker = run(&server, builder(&server).builtins().capacity(2)).await;
    let foreign = rota_wire::worker::Execute { incarnation: 1, ..worker.ask(9, "echo", "") };
    let tasks = [worker.ask(1, "sleep", "1h"), foreign, worker.ask(2, "nothing", ""), worker.ask(3, "sleep", "1h")];
    let list = json!({"tasks": [&tasks[0], &tasks[1], &tasks[2], &tasks[3], worker.ask(4, "echo", "")]});
    let (status, answer) = worker.post("execute-list", &list).await;
    assert_eq!((status, answer["accepted"].as_u64()), (202, Some(2)), "{answer}");
    let refused = json!([
        {"attempt": 9, "refused": "foreign_incarnation"},
        {"attempt": 2, "refused": "unknown_handler"},
        {"attempt": 4, "refused": "full"},
    ]);
    assert_eq!(answer["refused"], refused);
    assert_eq!(worker.post("probe", &worker.enquiry(3)).await.1["status"], "running");
    // The same again is accepted again, and not run again.
    let (status, again) = worker.post("execute-list", &json!({"tasks": [tasks[0]]})).await;
    assert_eq!((status, again["accepted"].as_u64()), (202, Some(1)), "{again}");
}

#[tokio::test]
async fn nothing_of_a_list_is_started_that_cannot_be_meant() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    let bad_slot = rota_wire::worker::Execute { slot: "tomorrow".to_owned(), ..worker.ask(2, "echo", "") };
    let many: Vec<_> = (0..200).map(|attempt| worker.ask(attempt + 10, "echo", "")).collect();
    for (list, field) in [
        (json!({"tasks": [worker.ask(1, "echo", ""), bad_slot]}), "slot"),
        (json!({"tasks": []}), "tasks"),
        (json!({"tasks": many}), "tasks"),
    ] {
        let (status, answer) = worker.post("execute-list", &list).await;
        assert_eq!((status, answer["field"].as_str()), (400, Some(field)), "{answer}");
    }
    for attempt in [1, 2, 10] {
        assert_eq!(worker.post("probe", &worker.enquiry(attempt)).await.1["status"], "never_seen");
    }
}

#[tokio::test]
async fn only_the_secret_opens_the_door_and_bad_requests_say_what_is_wrong() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    let ask = serde_json::to_vec(&worker.ask(1, "echo", "")).unwrap();
    let execute = "/internal/tasks/execute";
    let wrong = "0".repeat(64);
    for secret in ["", "x", wrong.as_str()] {
        let (status, answer) = call(&worker.url, Method::POST, execute, secret, ask.clone()).await;
        assert_eq!((status, answer["code"].as_str()), (401, Some("unauthorized")));
    }
    let secret = worker.secret.as_str();
    let cases: [(Method, &str, &[u8], u16, &str); 5] = [
        (Method::POST, execute, b"{", 400, "invalid"),
        (Method::POST, execute, b"\xff", 400, "invalid"),
        (Method::POST, "/internal/tasks/probe", b"{}", 400, "invalid"),
        (Method::GET, execute, b"", 405, "method_not_allowed"),
        (Method::POST, "/internal/tasks/other", b"", 404, "not_found"),
    ];
    for (method, path, body, status, code) in cases {
        let answer = call(&worker.url, method, path, secret, body.to_vec()).await;
        assert_eq!((answer.0, answer.1["code"].as_str()), (status, Some(code)), "{path}");
    }
    let bad_slot = rota_wire::worker::Execute { slot: "tomorrow".to_owned(), ..worker.ask(1, "echo", "") };
    let (status, answer) = worker.execute(&bad_slot).await;
    assert_eq!((status, answer["field"].as_str()), (400, Some("slot")));
}

#[tokio::test]
async fn an_oversized_body_is_refused_and_a_large_parameter_is_not() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    let param = "\u{1}".repeat(1 << 20);
    worker.start(1, "fail", &param).await;
    assert_eq!(server.result(1).await.message.unwrap().len(), 4 << 10);

    let mut stream = tokio::net::TcpStream::connect(worker.url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!(
        "POST /internal/tasks/execute HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 99000000\r\n\r\n",
        worker.secret
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0_u8; 12];
    tokio::time::timeout(BOUND, stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn results_are_pushed_until_they_are_acknowledged() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    server.told().on_results = vec![
        (503, json!({"code": "overloaded", "message": "too many requests wait"})),
        (200, json!({"acknowledged": []})),
    ];
    worker.start(1, "fail", "no luck").await;
    let result = server.result(1).await;
    assert_eq!((result.outcome, result.message.as_deref()), (Outcome::Failed, Some("no luck")));
    assert_eq!(server.told().count("results"), 3);
    // What is acknowledged leaves the beats, and is pushed no more.
    let no = server.told().beats.len();
    server
        .wait("a beat without it", |told| told.beats[no..].iter().any(|beat| beat.finished.is_empty()).then_some(()))
        .await;
    assert_eq!(server.told().count("results"), 3);
}

#[tokio::test]
async fn beats_list_what_runs_from_the_number_that_was_named() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    let (_, accepted) = worker.execute(&worker.ask(1, "sleep", "1h")).await;
    let next_beat = accepted["next_beat"].as_u64().unwrap();
    let beats = server
        .wait("a later beat", |told| told.beats.iter().any(|beat| beat.no > next_beat).then(|| told.beats.clone()))
        .await;
    assert!(beats.iter().zip(1..).all(|(beat, no)| beat.no == no), "numbered from 1, without a gap");
    for beat in beats {
        assert_eq!(beat.running.contains(&1), beat.no >= next_beat, "beat {}", beat.no);
        assert_eq!(beat.capacity, Some(64));
    }
}

#[tokio::test]
async fn a_forgotten_worker_registers_again_as_the_same_incarnation_and_loses_nothing() {
    let server = FakeServer::start().await;
    let worker = started(&server).await;
    server.told().is_forgotten = true;
    worker.start(1, "echo", "still here").await;
    assert_eq!(server.result(1).await.message.as_deref(), Some("still here"));
    let told = server.told();
    assert!(told.registers.len() >= 2);
    assert!(told.registers.iter().all(|register| register.incarnation == worker.incarnation));
    assert_eq!(told.lines(1_001), ["still here"]);
}

#[tokio::test]
async fn an_unreachable_worker_registers_again_until_it_is_reached() {
    let server = FakeServer::start().await;
    let unreachable = json!({"worker": 5, "state": "unreachable", "message": "refused; set ROTA_ADVERTISE_URL",
        "beat_ms": 100, "dead_ms": 1000});
    server.told().on_register = vec![(200, unreachable)];
    let worker = started(&server).await;
    assert_eq!(server.told().registers.len(), 2);
    drop(worker);
}

#[tokio::test]
async fn a_taken_name_is_waited_for() {
    let server = FakeServer::start().await;
    let taken = (409, json!({"code": "worker_id_taken", "message": "a living worker holds this name"}));
    server.told().on_register = vec![taken.clone(), taken, (503, json!({}))];
    started(&server).await;
    assert_eq!(server.told().registers.len(), 4);
}

#[tokio::test]
async fn a_refusal_for_good_ends_the_worker_and_says_why() {
    let server = FakeServer::start().await;
    for status in [400_u16, 401, 403, 404] {
        let refusal = json!({"code": "no", "message": "not you", "hint": "ask for a token"});
        server.told().on_register = vec![(status, refusal)];
        let worker = builder(&server).builtins().build().unwrap();
        let error = tokio::time::timeout(BOUND, worker.run_until(std::future::pending())).await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::Refused { status: seen, .. } if *seen == status));
        let expected = format!("the server refuses this worker: {status} no: not you; ask for a token");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn wrong_settings_name_the_setting() {
    let url = "http://127.0.0.1:1";
    let cases = [
        (
            Worker::builder(url, "demo", " \n").builtins(),
            "token: a worker needs its app's token; `rota app token demo`",
        ),
        (Worker::builder("127.0.0.1:1", "demo", "t").builtins(), "server: "),
        (Worker::builder(url, "", "t").builtins(), "app: "),
        (Worker::builder(url, "demo", "t"), "handler: a worker offers at least one"),
        (Worker::builder(url, "demo", "t").builtins().builtins(), "handler: \"fail\" is offered twice"),
        (Worker::builder(url, "demo", "t").builtins().name("x".repeat(101)), "name: "),
        (Worker::builder(url, "demo", "t").builtins().advertise_url("here:1"), "advertise_url: "),
        (Worker::builder(url, "demo", "t").builtins().listen("nowhere"), "cannot listen on nowhere"),
        (Worker::builder(url, "demo", "t").builtins().journal("/nowhere/at/all"), "cannot open the journal"),
    ];
    for (builder, expected) in cases {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[tokio::test]
async fn a_worker_that_listens_everywhere_advertises_the_address_that_faces_the_server() {
    let worker = Worker::builder("http://127.0.0.1:1", "demo", "t").builtins().listen("0.0.0.0:0").build().unwrap();
    assert_eq!(worker.url(), format!("http://127.0.0.1:{}", worker.address().unwrap().port()));
    let given = Worker::builder("http://127.0.0.1:1", "demo", "t").builtins().advertise_url("http://10.0.0.7:99/");
    assert_eq!(given.build().unwrap().url(), "http://10.0.0.7:99");
}

#[tokio::test]
async fn a_panic_is_a_failure_with_its_message_and_the_worker_goes_on() {
    let server = FakeServer::start().await;
    let early = |_: Context| -> std::future::Ready<Result<(), String>> { panic!("before the first await") };
    let late = |context: Context| async move {
        tokio::task::yield_now().await;
        assert!(context.param().is_empty(), "the parameter is {}", context.param());
        Ok::<_, String>(())
    };
    let worker = run(&server, builder(&server).handler("early", early).handler("late", late)).await;
    worker.start(1, "early", "").await;
    worker.start(2, "late", "7").await;
    worker.start(3, "late", "").await;
    for (attempt, outcome, message) in [
        (1, Outcome::Failed, Some("panicked: before the first await")),
        (2, Outcome::Failed, Some("panicked: the parameter is 7")),
        (3, Outcome::Success, None),
    ] {
        let result = server.result(attempt).await;
        assert_eq!((result.outcome, result.message.as_deref()), (outcome, message));
    }
}

#[tokio::test]
async fn deadline_and_kill_stop_a_handler_kindly_and_then_for_good() {
    let server = FakeServer::start().await;
    let stubborn = |context: Context| async move {
        context.cancelled().await;
        context.log("heard, and ignored");
        std::future::pending::<Result<(), String>>().await
    };
    let pleased = |context: Context| async move {
        context.cancellation().cancelled().await;
        Ok::<_, String>("done anyway")
    };
    let worker =
        run(&server, builder(&server).builtins().handler("stubborn", stubborn).handler("pleased", pleased)).await;
    for (attempt, handler) in [(1, "sleep"), (2, "stubborn"), (3, "pleased")] {
        let ask = worker.ask(attempt, handler, "1h");
        let ask = rota_wire::worker::Execute { timeout_ms: Some(50), ..ask };
        assert_eq!(worker.execute(&ask).await.0, 202);
    }
    worker.start(4, "sleep", "1h").await;
    let (status, answer) = worker.post("cancel", &worker.enquiry(4)).await;
    assert_eq!((status, answer["status"].as_str()), (200, Some("running")));
    let dropped = "stopped at its deadline; it did not stop within 500ms and was dropped";
    for (attempt, outcome, message) in [
        (1, Outcome::Timeout, "stopped at its deadline: woken"),
        (2, Outcome::Timeout, dropped),
        (3, Outcome::Timeout, "stopped at its deadline: done anyway"),
        (4, Outcome::Killed, "killed: woken"),
    ] {
        let result = server.result(attempt).await;
        assert_eq!((result.outcome, result.message.as_deref()), (outcome, Some(message)), "{attempt}");
    }
    assert_eq!(server.told().lines(1_002), ["heard, and ignored"]);
}

#[tokio::test]
async fn a_log_is_complete_before_its_result() {
    let server = FakeServer::start().await;
    let talk = |context: Context| async move {
        for line in 0..1_000 {
            context.log(format!("line {line}"));
        }
        context.progress(100);
        Ok::<_, String>(())
    };
    let worker = run(&server, builder(&server).handler("talk", talk)).await;
    worker.start(1, "talk", "").await;
    let (lines, is_last) = server
        .wait("the result", |told| {
            told.result(1)?;
            Some((told.lines(1_001), told.logs.iter().any(|one| one.is_last)))
        })
        .await;
    assert_eq!((lines.len(), lines[999].as_str(), lines[1_000].as_str()), (1_001, "line 999", "progress 100 %"));
    assert!(is_last);
}

#[tokio::test]
async fn a_graceful_stop_drains_reports_and_leaves() {
    let server = FakeServer::start().await;
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let wait = move |_: Context| {
        let opened = Arc::clone(&opened);
        async move {
            opened.notified().await;
            Ok::<_, String>("finished")
        }
    };
    let mut worker = run(&server, builder(&server).handler("wait", wait)).await;
    worker.start(1, "wait", "").await;
    worker.tell_to_stop();
    server.wait("the drain", |told| (told.count("drain") == 1).then_some(())).await;
    assert_eq!(worker.execute(&worker.ask(2, "wait", "")).await, (409, json!({"refused": "draining"})));
    assert_eq!(server.told().count("leave"), 0, "something still runs");
    gate.notify_one();
    let url = worker.url.clone();
    worker.end().await.unwrap();
    let told = server.told();
    assert_eq!(told.result(1).unwrap().message.as_deref(), Some("finished"));
    assert_eq!(told.calls.last(), Some(&"leave"));
    assert_eq!((told.count("drain"), told.count("leave")), (1, 1));
    assert!(std::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).is_err(), "its door is closed");
}

/// Field case B103: what is not done in time is handed over.
#[tokio::test]
async fn what_outlasts_the_drain_deadline_is_stopped_and_reported() {
    let server = FakeServer::start().await;
    let mut worker = run(&server, builder(&server).builtins().drain_deadline(Duration::from_millis(20))).await;
    worker.start(1, "sleep", "1h").await;
    worker.tell_to_stop();
    worker.end().await.unwrap();
    let told = server.told();
    let result = told.result(1).unwrap();
    let expected = (Outcome::Killed, Some("stopped because the worker shut down: woken"));
    assert_eq!((result.outcome, result.message.as_deref()), expected);
    assert_eq!(told.calls.last(), Some(&"leave"));
}

#[tokio::test]
async fn a_worker_that_never_registered_stops_at_once() {
    let worker = Worker::builder("http://127.0.0.1:1", "demo", "t").builtins().build().unwrap();
    let status = worker.status();
    tokio::time::timeout(BOUND, worker.run_until(tokio::task::yield_now())).await.unwrap().unwrap();
    assert_eq!(*status.borrow(), Status::Stopped);
}

#[tokio::test]
async fn the_journal_tells_starts_and_ends() {
    let server = FakeServer::start().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let worker = run(&server, builder(&server).builtins().journal(&path)).await;
    worker.start(1, "echo", "x").await;
    server.result(1).await;
    worker.start(2, "fail", "").await;
    server.result(2).await;
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let slot = "1796061600000";
    let expected = [
        (vec!["start", "1001", "1", "2", "1", "77", slot], None),
        (vec!["end", "1001", "1", "2", "1", "77", slot], Some("success")),
        (vec!["start", "1002", "1", "2", "2", "77", slot], None),
        (vec!["end", "1002", "1", "2", "2", "77", slot], Some("failed")),
    ];
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, (facts, outcome)) in lines.iter().zip(expected) {
        assert_eq!(line[..7], facts);
        assert!(line[7].parse::<u64>().unwrap() > 1_700_000_000_000);
        assert_eq!(line.get(8).copied(), outcome);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_attempts_are_all_reported_once() {
    let server = FakeServer::start().await;
    let worker = run(&server, builder(&server).builtins().capacity(0)).await;
    for attempt in 1..=600 {
        worker.start(attempt, "sleep", "20ms").await;
    }
    let attempts = server
        .wait("600 results", |told| {
            let mut attempts: Vec<u64> = told.acknowledged().iter().map(|result| result.attempt).collect();
            attempts.sort_unstable();
            (attempts.len() >= 600).then_some(attempts)
        })
        .await;
    assert_eq!(attempts, (1..=600).collect::<Vec<u64>>());
}
