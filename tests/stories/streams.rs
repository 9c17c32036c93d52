//! Streams of events: whoever follows a log reads all of it once, also if the server is stopped and started meanwhile.

use serde_json::json;

use crate::clock::wait_for;
use crate::folder::Folder;
use crate::process::{Process, is_running, rota};
use crate::server::Server;

#[test]
fn a_log_is_followed_through_a_restart() {
    let folder = Folder::new();
    let mut server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let worker = server.worker("etl", &token, "w1", "--allow-shell");
    let command = "for n in 1 2 3 4 5 6 7 8; do echo line $n; sleep 0.5; done; echo the last";
    server.job(&json!({"name": "count", "app": "etl", "handler": "shell", "param": command}));
    let run = server.api.trigger("count");

    let mut follow = rota(folder.path());
    follow.args(["logs", &run, "-f", "--server", &format!("http://{}", server.api.address)]);
    follow.env("ROTA_TOKEN", &server.api.token);
    let mut follow = Process::start(follow, &folder.path().join("follow.log"));
    follow.line_with("line 2");
    server.restart_in_order();
    follow.line_with("the last");
    assert_eq!(server.ended(&run)["state"], "success");
    wait_for("its end", || is_running(follow.id()), |runs| !runs);
    let whole = server.api.get(&format!("/api/v1/runs/{run}/logs"))["text"].as_str().unwrap().to_owned();
    let printed: String =
        follow.printed().lines().filter(|line| !line.starts_with("waits")).map(|l| format!("{l}\n")).collect();
    assert_eq!(printed, whole, "all of it, once");
    assert!(whole.starts_with("line 1\nline 2\n"), "{whole}");
    assert_eq!(worker.stop(), 0);
}
