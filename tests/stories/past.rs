//! What was, as somebody asks who comes later: the history of a job, why a slot has a row or none, an audit of the ledger,
//! and the jobs that stand out.

use rota_cron::UnixMs;
use serde_json::{Value, json};

use crate::clock::{unix_ms, wait_for};
use crate::folder::Folder;
use crate::process::{json as asked, said};
use crate::server::Server;

/// A command line for this server.
fn at(server: &Server, line: &str) -> String {
    format!("{line} --server http://{} --token {}", server.api.address, server.api.token)
}

fn rows(server: &Server, job: &str) -> Vec<Value> {
    server.api.get(&format!("/api/v1/runs?job={job}&limit=1000"))["items"].as_array().unwrap().clone()
}

/// Waits until a job has so many rows.
fn wait_rows(server: &Server, job: &str, count: usize) -> Vec<Value> {
    wait_for(job, || rows(server, job), |rows| rows.len() >= count)
}

fn time(ms: i64) -> String {
    UnixMs(ms).to_string()
}

#[test]
fn the_history_of_a_job_says_who_changed_what_and_why() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    server.app("etl");
    let here = folder.path();
    let on = |line: &str| at(&server, line);
    server.job(&json!({"name": "settle", "app": "etl", "handler": "h", "cron": "0 2 * * *", "retry": {"max": 1}}));
    said(here, &on("job pause settle --reason until-v2"), 0);
    let shown = said(here, &on("job show settle"), 0);
    assert!(shown.contains("paused since") && shown.contains("by admin: until-v2"), "{shown}");
    said(here, &on("job resume settle"), 0);
    said(here, &on("job edit settle --param x --retries 3"), 0);

    let history = said(here, &on("job history settle"), 0);
    let lines: Vec<&str> = history.lines().collect();
    assert!(lines[0].starts_with("WHEN") && lines.len() == 5, "{history}");
    assert!(lines[1].contains("2  admin  edited") && lines[1].contains("param - → x, retry.max 1 → 3"), "{history}");
    assert!(lines[2].contains("enabled") && lines[3].contains("paused") && lines[3].contains("until-v2"), "{history}");
    assert!(lines[4].contains("1  admin  made"), "{history}");
    let events = asked(here, &on("job history settle"));
    let kinds: Vec<&str> = events["items"].as_array().unwrap().iter().map(|e| e["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["version", "state", "state", "version"]);
    assert_eq!(events["items"][2]["reason"], "until-v2", "{events}");

    let diff = said(here, &on("job diff settle"), 0);
    assert!(diff.starts_with("settle v1 → v2") && diff.contains("retry.max  1    3"), "{diff}");
    let diff = asked(here, &on("job diff settle 1 2"));
    assert_eq!(diff["changes"][0], json!({"key": "param", "to": "x"}), "{diff}");
    assert!(said(here, &on("job diff settle 1 9"), 1).contains("version_unknown"));
    assert!(said(here, &on("job diff settle 2 2"), 0).contains("no difference"));
}

#[test]
fn every_instant_of_a_job_is_explained_with_a_row_or_without() {
    let folder = Folder::new();
    let here = folder.path();
    let mut server = Server::start(here, &[]);
    let token = server.app("etl");
    let _worker = server.worker("etl", &token, "w1", "");
    server.job(&json!({"name": "tick", "app": "etl", "handler": "echo", "every": "1s"}));
    server.job(&json!({"name": "asked", "app": "etl", "handler": "echo"}));
    server.job(&json!({"name": "lonely", "app": "etl", "handler": "nobody-has-it", "every": "1s"}));
    let made = wait_rows(&server, "tick", 3);
    let slot = made[1]["slot"].as_str().unwrap().to_owned();
    let code = |server: &Server, job: &str, at_time: &str| {
        let story = asked(here, &at(server, &format!("why {job}@{at_time}")));
        assert_eq!(story["is_hole"], false, "{story}");
        story["code"].as_str().unwrap().to_owned()
    };
    let covered = said(here, &at(&server, &format!("why tick@{slot}")), 0);
    assert!(covered.starts_with("tick, slot ") && covered.contains("SUCCESS") && covered.contains("w1"), "{covered}");
    assert!(covered.contains("overlap: allowed; cap: 1000 shards of etl"), "{covered}");
    assert_eq!(code(&server, "tick", &slot), "covered");
    assert_eq!(code(&server, "tick", "2020-01-01T00:00"), "not_created");
    assert!(said(here, &at(&server, "why tick@2020-01-01T00:00"), 0).contains("not created yet; it was made"));
    assert_eq!(code(&server, "tick", &time(unix_ms() / 1_000 * 1_000 + 60_000)), "future");
    let between = time(UnixMs::parse_rfc3339(&slot).unwrap().0 + 500);
    let story = asked(here, &at(&server, &format!("why tick@{between}")));
    assert_eq!((&story["code"], story["before"].is_string()), (&json!("no_match"), true), "{story}");
    assert_eq!(code(&server, "asked", &slot), "not_scheduled");
    // Its first slot is held, and the later ones wait behind it.
    let held = wait_for(
        "a held slot",
        || server.api.get("/api/v1/held?job=lonely")["items"].clone(),
        |held| held.as_array().is_some_and(|held| held.len() == 1),
    );
    let first = held[0]["slot"].as_str().unwrap();
    let told = said(here, &at(&server, &format!("why lonely@{first}")), 0);
    assert!(told.contains("held since") && told.contains("no_worker_for_handler"), "{told}");
    let later = time(UnixMs::parse_rfc3339(first).unwrap().0 + 1_000);
    let later = wait_for("the slot behind", || code(&server, "lonely", &later), |code| code != "future");
    assert_eq!(later, "behind_held");
    for (words, about) in [("why tick@yesterday", "no instant"), ("why nobody@02:00", "job_unknown")] {
        let exit = if about == "job_unknown" { 1 } else { 2 };
        assert!(said(here, &at(&server, words), exit).contains(about), "{words}");
    }

    // Paused: no row yet, and one for all with the end of the pause.
    said(here, &at(&server, "job pause tick --reason slow-disk"), 0);
    let paused = time(unix_ms() / 1_000 * 1_000 + 1_000);
    let told = wait_for("a slot in the pause", || code(&server, "tick", &paused), |code| code != "future");
    assert_eq!(told, "paused");
    let told = said(here, &at(&server, &format!("why tick@{paused}")), 0);
    assert!(told.contains("by admin: \"slow-disk\"") && told.contains("rota job resume tick"), "{told}");
    said(here, &at(&server, "job resume tick"), 0);
    let told = said(here, &at(&server, &format!("why tick@{paused}")), 0);
    assert!(told.contains("SKIPPED, paused"), "{told}");

    // Edited: what the version before would have had.
    said(here, &at(&server, "job edit tick --cron @yearly"), 0);
    let odd = time(unix_ms() / 1_000 * 1_000 + 1_000);
    assert_eq!(code(&server, "tick", &odd), "edited");

    // Down: the slots of that time have rows that say so.
    said(here, &at(&server, "job edit tick --every 1s"), 0);
    let before = rows(&server, "tick").len();
    wait_rows(&server, "tick", before + 1);
    server.kill();
    let killed = unix_ms();
    let missed = (killed / 1_000 + 2) * 1_000;
    wait_for("the server to be missed", unix_ms, |now| *now > missed + 1_000);
    server.begin();
    server.ready();
    wait_for("its row", || code(&server, "tick", &time(missed)), |code| code == "covered");
    let told = said(here, &at(&server, &format!("why tick@{}", time(missed))), 0);
    assert!(told.contains("server ") && told.contains("down since some time after"), "{told}");
    said(here, &at(&server, "job rm asked"), 0);
    let id = asked(here, &at(&server, "job show tick"))["id"].as_u64().unwrap();
    said(here, &at(&server, "job rm tick"), 0);
    assert_eq!(code(&server, &id.to_string(), &time(unix_ms() / 1_000 * 1_000 + 5_000)), "deleted");
}

#[test]
fn an_audit_finds_what_is_missing_and_what_is_twice() {
    let folder = Folder::new();
    let here = folder.path();
    let mut server = Server::start(here, &[]);
    let token = server.app("etl");
    let _worker = server.worker("etl", &token, "w1", "");
    for (name, every) in [("fast", "1s"), ("slow", "2s")] {
        server.job(&json!({"name": name, "app": "etl", "handler": "echo", "every": every}));
    }
    server.job(&json!({"name": "bad", "app": "etl", "handler": "fail", "param": "no-luck", "every": "1s"}));
    server.job(&json!({"name": "delayed", "app": "etl", "handler": "echo", "delay": "1s"}));
    wait_rows(&server, "fast", 6);
    wait_rows(&server, "delayed", 2);
    said(here, &at(&server, "job edit slow --every 1s"), 0);
    said(here, &at(&server, "job pause fast"), 0);
    let count = rows(&server, "slow").len();
    wait_rows(&server, "slow", count + 2);
    let clean = said(here, &at(&server, "audit --since 1h"), 0);
    assert!(clean.contains("4 jobs") && clean.contains("0 holes, 0 doubles, 0 rows without a slot"), "{clean}");
    assert_eq!(asked(here, &at(&server, "audit --job fast"))["summary"]["jobs"], 1);

    let failing = said(here, &at(&server, "top failing"), 0);
    assert!(failing.starts_with("JOB") && failing.contains("bad") && failing.contains("no-luck"), "{failing}");
    assert!(!failing.contains("slow") && failing.contains("100.0%"), "{failing}");
    let late = asked(here, &at(&server, "top late"));
    assert_eq!((&late["by"], &late["is_cut"]), (&json!("late"), &json!(false)), "{late}");
    let two = asked(here, &at(&server, "top slow --limit 2"));
    assert_eq!(two["items"].as_array().unwrap().len(), 2, "{two}");
    let slow = said(here, &at(&server, "top slow --since 1h --app etl"), 0);
    assert!(slow.contains("P99") && slow.contains("delayed"), "{slow}");

    // Somebody edits the ledger.
    let (hole, double) = {
        let rows = rows(&server, "fast");
        (rows[3].clone(), rows[1].clone())
    };
    server.kill();
    let database = rusqlite::Connection::open(here.join("data/rota.db")).unwrap();
    let gone = database.execute("DELETE FROM run_1 WHERE id = ?1", [hole["id"].as_i64().unwrap()]).unwrap();
    assert_eq!(gone, 1);
    let columns = "app, job, version, origin, slot, slot_last, slots, state, why, shards, at, ended_at, param";
    let copy = format!(
        "INSERT INTO run_1 (id, {columns}) SELECT (SELECT max(id) FROM run_1) + 1, {columns} FROM run_1 WHERE id = ?1"
    );
    assert_eq!(database.execute(&copy, [double["id"].as_i64().unwrap()]).unwrap(), 1);
    drop(database);
    server.begin();
    server.ready();
    let found = said(here, &at(&server, "audit --since 1h"), 1);
    assert!(found.contains("1 holes, 1 doubles, 0 rows"), "{found}");
    let lines: Vec<&str> = found.lines().collect();
    assert!(lines.iter().any(|line| line.starts_with("hole") && line.contains("fast")), "{found}");
    assert!(lines.iter().any(|line| line.starts_with("double") && line.contains("fast")), "{found}");
    let slot = hole["slot"].as_str().unwrap();
    let told = said(here, &at(&server, &format!("why fast@{slot}")), 1);
    assert!(told.contains("A HOLE"), "{told}");
}
