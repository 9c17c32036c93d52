//! Jobs that the ends of others' runs fire, on the real binary.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::clock::wait_for;
use crate::folder::Folder;
use crate::process::said;
use crate::server::Server;

/// A command line for this server.
fn at(server: &Server, line: &str) -> String {
    format!("{line} --server http://{} --token {}", server.api.address, server.api.token)
}

fn rows(server: &Server, job: &str) -> Vec<Value> {
    server.api.get(&format!("/api/v1/runs?job={job}&limit=1000"))["items"].as_array().unwrap().clone()
}

fn good(rows: &[Value]) -> Vec<&Value> {
    rows.iter().filter(|row| row["state"] == "success").collect()
}

/// Every success of the parent has exactly one row of the child, with its slot, and there are no others.
fn matched(server: &Server, parent: &str, child: &str) -> Vec<Value> {
    let (parents, children) = (rows(server, parent), rows(server, child));
    let mut by_parent: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in &children {
        by_parent.entry(row["fired_by"].as_str().expect("a child names its parent")).or_default().push(row);
    }
    for of in good(&parents) {
        let fired = by_parent.remove(of["run"].as_str().unwrap()).unwrap_or_default();
        assert_eq!(fired.len(), 1, "{child} of {of}: {fired:?}");
        assert_eq!((&fired[0]["slot"], &fired[0]["origin"]), (&of["slot"], &json!("upstream")));
    }
    assert!(by_parent.is_empty(), "fired by what did not succeed: {by_parent:?}");
    children
}

#[test]
fn a_chain_over_two_apps_fires_each_link_once_whatever_is_killed() {
    let folder = Folder::new();
    let here = folder.path();
    let mut server = Server::start(here, &[]);
    let (etl, bi) = (server.app("etl"), server.app("bi"));
    let _workers = [server.worker("etl", &etl, "w1", ""), server.worker("bi", &bi, "w2", "")];
    server.job(&json!({"name": "settle", "app": "etl", "handler": "echo", "every": "1s"}));
    server.job(&json!({"name": "report", "app": "bi", "handler": "echo", "after": "settle"}));
    server.job(&json!({"name": "notify", "app": "etl", "handler": "echo", "after": {"any": ["report"]}}));
    server
        .job(&json!({"name": "alarm", "app": "bi", "handler": "echo", "after": {"job": "settle", "when": "failure"}}));
    for killed in 1..=4 {
        // Wherever the chain is just then.
        wait_for("settle", || rows(&server, "settle"), |rows| good(rows).len() >= 2 * killed);
        server.restart();
    }
    said(here, &at(&server, "job pause settle"), 0);
    let is_over = |rows: &Vec<Value>| rows.iter().all(|row| row["is_ended"] == true);
    let settled = wait_for("settle", || rows(&server, "settle"), is_over);
    let count = good(&settled).len();
    assert!(count >= 8, "{count}");
    let is_done = |rows: &Vec<Value>| rows.len() >= count && is_over(rows);
    wait_for("report", || rows(&server, "report"), is_done);
    let reports = matched(&server, "settle", "report");
    let expected = good(&reports).len();
    wait_for("notify", || rows(&server, "notify"), |rows| rows.len() >= expected && is_over(rows));
    let notes = matched(&server, "report", "notify");

    // Each end of the chain names the other.
    let (report, parent) = (reports[0]["run"].as_str().unwrap(), reports[0]["fired_by"].as_str().unwrap());
    let told = said(here, &at(&server, &format!("why {report}")), 0);
    assert!(told.contains("fired by") && told.contains(&format!("settle, success, {parent}")), "{told}");
    let told = said(here, &at(&server, &format!("why {parent}")), 0);
    assert!(told.contains(&format!("report: success, {report}")), "{told}");
    assert_eq!(notes.len(), expected);
    assert!(said(here, &at(&server, "job show settle"), 0).contains("report"));

    // What cannot run says so; a run by hand counts like any other.
    said(here, &at(&server, "job pause report"), 0);
    said(here, &at(&server, "run settle"), 0);
    let is_skipped = |rows: &Vec<Value>| rows.iter().any(|row| row["why"] == "paused");
    wait_for("report", || rows(&server, "report"), is_skipped);
    matched(&server, "settle", "report");
}

const FILE: &str = "version: 1
name: chain
apps: {etl: }
jobs:
  tidy: {app: etl, handler: echo, after: {any: [report, {job: settle, when: failure}]}}
  report: {app: etl, handler: echo, after: settle}
  settle: {app: etl, handler: echo, cron: \"0 2 * * *\"}
";

#[test]
fn children_are_written_in_a_job_file_and_on_the_command_line() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    let file = here.join("chain.yaml");
    let on = |line: &str| at(&server, &format!("{line} -f {}", file.display()));
    std::fs::write(&file, FILE).unwrap();
    said(here, &on("plan"), 2);
    said(here, &on("apply"), 0);
    said(here, &on("plan"), 0);
    let shown = said(here, &at(&server, "export"), 0);
    assert!(shown.contains("any:"), "{shown}");
    std::fs::write(&file, &shown).unwrap();
    said(here, &on("plan"), 0);

    std::fs::write(&file, FILE.replace("{any: [report, {job: settle, when: failure}]}", "[report, settle]")).unwrap();
    assert!(said(here, &on("plan"), 2).contains("{any: [a, b]}"));
    std::fs::write(&file, FILE.replace("cron: \"0 2 * * *\"", "after: tidy")).unwrap();
    let told = said(here, &on("plan"), 2);
    assert!(told.contains("-> tidy") && told.contains("settle"), "{told}");

    let add = "job add last --app etl --handler echo --after-any tidy --after-any settle,when=completion";
    said(here, &at(&server, add), 0);
    assert!(said(here, &at(&server, "job show last"), 0).contains("any of tidy settle,when=completion"));
    said(here, &at(&server, "job edit last --after tidy"), 0);
    let refused = said(here, &at(&server, "job edit last --after tidy,deadline=1h"), 2);
    assert!(refused.contains("`deadline` of `tidy`"), "{refused}");
    said(here, &at(&server, "job edit last --after none"), 0);
}
