//! What runs goes on when the server is restarted under it, and is followed up when its worker is.

use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::{now, parse_ms, pass, wait_for};
use crate::folder::Folder;
use crate::journal;
use crate::process::signal;
use crate::server::Server;

fn started(server: &Server, worker: &str) -> usize {
    journal::starts(&journal::read(&server.journal(worker))).len()
}

#[test]
fn an_attempt_outlives_its_server() {
    let folder = Folder::new();
    let mut server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let _worker = server.worker("etl", &token, "w1", "");
    for delivery in ["at_least_once", "at_most_once"] {
        server.job(&json!({"name": delivery, "app": "etl", "handler": "sleep", "param": "3s", "delivery": delivery}));
    }
    let runs = ["at_least_once", "at_most_once"].map(|job| server.api.trigger(job));
    wait_for("both started", || started(&server, "w1"), |count| *count == 2);
    // The first restart meets an attempt that may not be known to run, the second one that is.
    server.restart();
    wait_for("both are known to run", || running(&server, &runs), |known| *known);
    server.restart();
    for run in &runs {
        let ended = server.ended(run);
        assert_eq!(
            (&ended["state"], &ended["message"], &ended["tries"]),
            (&json!("success"), &json!("slept 3s"), &json!(1))
        );
    }
    assert_eq!(started(&server, "w1"), 2);
}

fn running(server: &Server, runs: &[String]) -> bool {
    // Three seconds may pass on a busy machine before anybody looks.
    runs.iter().map(|run| server.api.run(run)).all(|run| run["state"] == "running" || run["is_ended"] == true)
}

#[test]
fn a_result_waits_for_its_server() {
    let folder = Folder::new();
    let mut server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let _worker = server.worker("etl", &token, "w1", "");
    server.job(&json!({"name": "nap", "app": "etl", "handler": "sleep", "param": "1s"}));
    let run = server.api.trigger("nap");
    wait_for("it started", || started(&server, "w1"), |count| *count == 1);
    server.kill();
    let ends = || journal::ends(&journal::read(&server.journal("w1"))).len();
    wait_for("it ended while there was no server", ends, |count| *count == 1);
    server.begin();
    server.ready();
    let ended = server.ended(&run);
    assert_eq!((&ended["state"], &ended["tries"]), (&json!("success"), &json!(1)));
    assert_eq!(started(&server, "w1"), 1);
}

#[test]
fn an_attempt_dies_with_its_worker_and_is_tried_again() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let mut worker = server.worker("etl", &token, "w1", "");
    let line = worker.line_with("worker  w1 at http://");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split(": ").next()).unwrap().to_owned();
    let nap = |name: &str, retries: u32| {
        server.job(&json!({"name": name, "app": "etl", "handler": "sleep", "param": "8s", "retry": {"max": retries}}));
        server.api.trigger(name)
    };
    let (retried, not_retried) = (nap("retried", 1), nap("not-retried", 0));
    let is_running = |run: &str| server.api.run(run)["attempts"][0]["state"].clone();
    for run in [&retried, &not_retried] {
        wait_for("it is known to run", || is_running(run), |state| *state == "running");
    }
    worker.kill();
    let _worker = server.worker("etl", &token, "w1", &format!("--listen {address}"));

    let lost = server.ended(&not_retried);
    assert_eq!((&lost["state"], &lost["why"]), (&json!("lost"), &json!("worker_restarted")));
    let second =
        wait_for("a second try", || server.api.run(&retried), |run| run["attempts"].as_array().unwrap().len() == 2);
    let first = &second["attempts"][0];
    assert_eq!((&first["state"], &first["why"]), (&json!("lost"), &json!("worker_restarted")), "{second}");
    let ended: Value = server.ended(&retried);
    assert_eq!((&ended["state"], &ended["tries"]), (&json!("success"), &json!(2)));
    assert_eq!(started(&server, "w1"), 3);
}

/// The server is away for twice the dead time; one run goes on meanwhile, one ends, and the worker of one dies.
#[test]
fn a_server_that_was_away_for_longer_than_the_dead_time_loses_only_what_died() {
    let folder = Folder::new();
    let settings = [("ROTA_TIMING__BEAT", "500ms"), ("ROTA_TIMING__DEAD", "3s"), ("ROTA_TIMING__DOUBT", "6s")];
    let mut server = Server::start(folder.path(), &settings);
    let token = server.app("etl");
    let nap = |server: &Server, name: &str, param: &str| {
        let retry = json!({"max": 1, "first": "1s"});
        server.job(&json!({"name": name, "app": "etl", "handler": "sleep", "param": param, "retry": retry}));
        server.api.trigger(name)
    };
    let dies = server.worker("etl", &token, "w1", "");
    let third = nap(&server, "dies", "10s");
    wait_for("the third started", || started(&server, "w1"), |count| *count == 1);
    let _lives = server.worker("etl", &token, "w2", "");
    let (first, second) = (nap(&server, "goes-on", "12s"), nap(&server, "ends", "2s"));
    let both = || started(&server, "w1") + started(&server, "w2");
    wait_for("all started", both, |count| *count == 3);
    let known = [&first, &second, &third].map(|run| server.api.run(run)["attempts"][0]["worker_name"].clone());
    let on_first = known.iter().filter(|worker| **worker == "w1").count();
    server.kill();
    dies.kill();
    pass(Duration::from_secs(6));
    server.begin();
    server.ready();
    let since = now();
    let states = |run: &str| server.api.run(run)["attempts"][0]["state"].clone();
    let lost = wait_for("the dead one is lost", || states(&third), |state| *state == "lost");
    assert!(since.elapsed() >= Duration::from_millis(2_500), "{lost}: nobody is lost before the dead time is over");
    let ends = [&first, &second, &third].map(|run| server.ended(run));
    for ((end, worker), name) in ends.iter().zip(&known).zip(["goes-on", "ends", "dies"]) {
        let tries = if *worker == "w1" { 2 } else { 1 };
        assert_eq!((&end["state"], &end["tries"]), (&json!("success"), &json!(tries)), "{name}: {end}");
    }
    // `starts` fails if one try was started twice.
    assert_eq!(started(&server, "w1") + started(&server, "w2"), 3 + on_first);
}

/// Field case B103: a worker that is told to stop takes nothing more, finishes what it can within its deadline, and what
/// it cannot is done by another.
#[test]
fn b103_a_drain_finishes_what_it_can_and_hands_over_the_rest() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let first = server.worker("etl", &token, "w1", "");
    let nap = |name: &str, param: &str| {
        let retry = json!({"max": 1, "first": "1s"});
        server.job(&json!({"name": name, "app": "etl", "handler": "sleep", "param": param, "retry": retry}));
        server.api.trigger(name)
    };
    let (short, middle, long) = (nap("short", "3s"), nap("middle", "10s"), nap("long", "60s"));
    wait_for("all started", || started(&server, "w1"), |count| *count == 3);
    let _second = server.worker("etl", &token, "w2", "");
    signal("TERM", first.id());
    let state = || server.api.get("/api/v1/workers")["items"].as_array().unwrap().clone();
    let is_draining = |workers: &Vec<Value>| workers.iter().any(|w| w["name"] == "w1" && w["state"] == "draining");
    wait_for("the drain", state, is_draining);
    server.job(&json!({"name": "tick", "app": "etl", "handler": "echo", "every": "1s", "param": "x"}));
    for run in [&short, &middle] {
        let end = server.ended(run);
        assert_eq!((&end["state"], &end["tries"]), (&json!("success"), &json!(1)), "{end}");
    }
    let two = |run: &Value| run["attempts"].as_array().unwrap().len() == 2;
    let again = wait_for("the long one is handed over", || server.api.run(&long), two);
    let (told, next) = (&again["attempts"][0], &again["attempts"][1]);
    assert_eq!((&told["worker_name"], &told["why"]), (&json!("w1"), &json!("worker_stopped")), "{again}");
    assert_eq!(next["worker_name"], "w2", "{again}");
    let at = |text: &Value| parse_ms(text.as_str().unwrap());
    let (ended, begun) = (at(&told["ended_at"]), at(&next["at"]));
    assert!((0..=5_000).contains(&(begun - ended)), "{again}");
    assert_eq!(started(&server, "w1"), 3, "it took nothing after it was told to stop");
    let ticks = || journal::starts(&journal::read(&server.journal("w2"))).len();
    wait_for("others go on", ticks, |count| *count >= 10);
    let killed = server.api.call("POST", &format!("/api/v1/runs/{long}/kill"), b"").unwrap();
    assert!(killed.status < 300, "{killed:?}");
}
