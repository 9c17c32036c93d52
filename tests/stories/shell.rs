//! Commands: they run where it is allowed, and leave nothing behind, however they end.

use serde_json::{Value, json};

use crate::clock::wait_for;
use crate::folder::Folder;
use crate::process::is_running;
use crate::server::Server;

/// Starts a child and a grandchild that would go on for long, and tells their numbers.
const FAMILY: &str = "sleep 1000 & echo child $!; sh -c 'echo grandchild $$; sleep 1001; true'";

fn server(folder: &std::path::Path) -> (Server, String) {
    let server = Server::start(folder, &[]);
    let token = server.app("etl");
    (server, token)
}

fn shell_job(server: &Server, name: &str, command: &str, more: &Value) {
    let mut spec = json!({"name": name, "app": "etl", "handler": "shell", "param": command});
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    server.job(&spec);
}

/// The log of a run's first attempt.
fn log(server: &Server, run: &str) -> String {
    server.api.get(&format!("/api/v1/runs/{run}/logs"))["text"].as_str().unwrap().to_owned()
}

/// The numbers of child and grandchild, once both are told.
fn family(server: &Server, run: &str) -> Vec<u32> {
    let numbers =
        || -> Vec<u32> { log(server, run).lines().filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect() };
    wait_for("the family's numbers", numbers, |numbers| numbers.len() == 2)
}

#[test]
fn a_command_runs_and_its_output_and_status_are_told() {
    let folder = Folder::new();
    let (server, token) = server(folder.path());
    let worker = server.worker("etl", &token, "w1", "--allow-shell");
    shell_job(
        &server,
        "greet",
        "echo out; echo err >&2; echo $ROTA_JOB $ROTA_SHARD_INDEX/$ROTA_SHARD_TOTAL",
        &json!({}),
    );
    let run = server.api.trigger("greet");
    assert_eq!(server.ended(&run)["state"], "success");
    let text = log(&server, &run);
    for line in ["out", "err", "greet 0/1"] {
        assert!(text.lines().any(|said| said == line), "{text}");
    }
    shell_job(&server, "bad", "echo why >&2; exit 3", &json!({}));
    let ended = server.ended(&server.api.trigger("bad"));
    assert_eq!((&ended["state"], &ended["why"]), (&json!("failed"), &json!("handler_failed")));
    assert_eq!(ended["message"], "exit status 3: why");
    assert_eq!(worker.stop(), 0);
}

#[test]
fn without_leave_there_is_no_shell() {
    let folder = Folder::new();
    let (server, token) = server(folder.path());
    let _worker = server.worker("etl", &token, "w1", "");
    shell_job(&server, "greet", "echo hi", &json!({}));
    let run = server.api.trigger("greet");
    let story = || server.api.get(&format!("/api/v1/runs/{run}/why")).to_string();
    wait_for("the reason", story, |story| story.contains("no online worker of the app offers the handler"));
    server.api.post(&format!("/api/v1/runs/{run}/kill"), &json!({}));
    assert_eq!(server.ended(&run)["state"], "killed");
}

#[test]
fn a_timeout_ends_the_whole_family() {
    let folder = Folder::new();
    let (server, token) = server(folder.path());
    let _worker = server.worker("etl", &token, "w1", "--allow-shell");
    shell_job(&server, "family", FAMILY, &json!({"timeout": {"attempt": "3s"}}));
    let run = server.api.trigger("family");
    let numbers = family(&server, &run);
    let ended = server.ended(&run);
    assert_eq!((&ended["state"], &ended["why"]), (&json!("timeout"), &json!("attempt_timeout")));
    wait_for("the family's end", || numbers.iter().any(|pid| is_running(*pid)), |runs| !runs);
}

#[test]
fn a_kill_ends_the_whole_family() {
    let folder = Folder::new();
    let (server, token) = server(folder.path());
    let _worker = server.worker("etl", &token, "w1", "--allow-shell");
    shell_job(&server, "family", FAMILY, &json!({}));
    let run = server.api.trigger("family");
    let numbers = family(&server, &run);
    assert!(numbers.iter().all(|pid| is_running(*pid)));
    server.api.post(&format!("/api/v1/runs/{run}/kill"), &json!({}));
    assert_eq!(server.ended(&run)["state"], "killed");
    wait_for("the family's end", || numbers.iter().any(|pid| is_running(*pid)), |runs| !runs);
}

#[test]
fn the_family_does_not_outlive_its_worker() {
    let folder = Folder::new();
    let (server, token) = server(folder.path());
    let worker = server.worker("etl", &token, "w1", "--allow-shell");
    shell_job(&server, "family", FAMILY, &json!({}));
    let run = server.api.trigger("family");
    let numbers = family(&server, &run);
    assert!(numbers.iter().all(|pid| is_running(*pid)));
    worker.kill();
    wait_for("the family's end", || numbers.iter().any(|pid| is_running(*pid)), |runs| !runs);
}
