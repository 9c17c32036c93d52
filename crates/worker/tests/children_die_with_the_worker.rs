//! A worker that is killed by SIGKILL takes its commands with it, grandchildren included.
//!
//! Without the test harness: this program is the test, and, when it is given a server's URL, the worker.
#![expect(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod support;

use rota_worker::Worker;
use support::{FakeServer, gone, is_alive};

fn main() {
    let server = std::env::args().skip(1).find(|argument| argument.starts_with("http://"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    match server {
        Some(server) => runtime.block_on(worker(&server)),
        None if cfg!(target_os = "linux") => runtime.block_on(test()),
        None => {}
    }
}

async fn worker(server: &str) {
    let worker = Worker::builder(server, "demo", "rota_token").name("victim").allow_shell(true).build().unwrap();
    worker.run_until(std::future::pending()).await.unwrap();
}

async fn test() {
    let server = FakeServer::start().await;
    let program = std::env::current_exe().unwrap();
    let mut victim = tokio::process::Command::new(program).arg(&server.url).kill_on_drop(true).spawn().unwrap();
    let register = server.wait("the registration", |told| told.registers.first().cloned()).await;
    let ask = serde_json::json!({
        "incarnation": register.incarnation, "epoch": 1, "attempt": 1, "run": 2, "shard": 0, "shards": 1, "no": 1,
        "idempotency_key": "2/0", "job": 3, "job_name": "j", "version": 1, "origin": "manual",
        "slot": "2026-12-01T02:00:00Z", "zone": "UTC", "handler": "shell",
        // Ignores what the watchdog does not send, so only SIGKILL can have ended it.
        "param": "trap '' TERM HUP INT; (trap '' TERM HUP INT; sleep 1000; sleep 1000) & echo pids $$ $!; wait",
    });
    let (method, path) = (hyper::Method::POST, "/internal/tasks/execute");
    let body = serde_json::to_vec(&ask).unwrap();
    let (status, _) = support::call(&register.url, method, path, &register.callback_secret, body).await;
    assert_eq!(status, 202);
    let line =
        server.wait("the process ids", |told| told.lines(2).into_iter().find(|line| line.starts_with("pids "))).await;
    let ids: Vec<&str> = line.split(' ').skip(1).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|id| is_alive(id)), "{ids:?} run");

    victim.kill().await.unwrap();
    for id in ids {
        gone(id).await;
    }
    println!("children_die_with_the_worker ... ok");
}
