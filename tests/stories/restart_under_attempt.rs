//! What runs goes on when the server is restarted under it, and is followed up when its worker is.

use serde_json::{Value, json};

use crate::clock::wait_for;
use crate::folder::Folder;
use crate::journal;
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
