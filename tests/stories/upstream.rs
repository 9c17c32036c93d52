//! Jobs that wait for others of the same business period, on the real binary.

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

fn successes(rows: &[Value]) -> BTreeMap<String, Value> {
    let good = rows.iter().filter(|row| row["state"] == "success");
    good.map(|row| (row["slot"].as_str().unwrap().to_owned(), row.clone())).collect()
}

/// The slot at which a job is held for its upstream jobs.
fn held(server: &Server, job: &str) -> String {
    let path = format!("/api/v1/held?job={job}");
    let is_there = |held: &Value| held["items"][0]["why"] == "upstream";
    let held = wait_for(job, || server.api.get(&path), is_there);
    held["items"][0]["slot"].as_str().unwrap().to_owned()
}

#[test]
fn a_job_waits_for_its_upstream_slot_and_says_so_over_a_kill() {
    let folder = Folder::new();
    let here = folder.path();
    let mut server = Server::start(here, &[]);
    let token = server.app("etl");
    let _worker = server.worker("etl", &token, "w1", "");
    // Without a schedule's help the two know of each other only by their slots.
    server.job(&json!({"name": "settle", "app": "etl", "handler": "echo", "every": "2s"}));
    server.job(&json!({"name": "report", "app": "etl", "handler": "echo", "every": "2s", "after": "settle"}));
    let reports = wait_for("report", || rows(&server, "report"), |rows| successes(rows).len() >= 2);
    let settled = successes(&rows(&server, "settle"));
    for (slot, report) in successes(&reports) {
        let upstream = &settled[&slot];
        let (ended, began) = (upstream["ended_at"].as_str().unwrap(), report["at"].as_str().unwrap());
        assert!(ended <= began, "{slot}: {upstream} ended after {report} began");
    }
    let told = said(here, &at(&server, &format!("why {}", reports[0]["run"].as_str().unwrap())), 0);
    assert!(told.contains("upstream") && told.contains("settle: "), "{told}");

    // What never comes is waited for, visibly, and a kill changes nothing of that.
    server.job(&json!({"name": "lonely", "app": "etl", "handler": "nobody-has-it", "every": "2s"}));
    let after = json!({"job": "lonely", "deadline": "1h"});
    server.job(&json!({"name": "waits", "app": "etl", "handler": "echo", "every": "2s", "after": after}));
    let slot = held(&server, "waits");
    server.restart();
    assert_eq!(held(&server, "waits"), slot);
    let told = said(here, &at(&server, &format!("why waits@{slot}")), 0);
    assert!(told.contains("lonely: its slot has no run yet; waits until"), "{told}");
    let metrics = server.api.call("GET", "/metrics", b"").unwrap().text;
    let is_counted = |line: &str| line.starts_with("rota_slots_held") && line.contains("why=\"upstream\"");
    assert!(metrics.lines().any(is_counted), "{metrics}");

    let shown = said(here, &at(&server, "job show lonely"), 0);
    assert!(shown.contains("before    waits"), "{shown}");
    assert!(said(here, &at(&server, "job show waits"), 0).contains("after     lonely,deadline=1h"));
    assert!(said(here, &at(&server, "job rm lonely"), 1).contains("in_use"));
    let cycle = said(here, &at(&server, "job edit lonely --after waits"), 2);
    assert!(cycle.contains("cycle") && cycle.contains("lonely -> waits -> lonely"), "{cycle}");
    said(here, &at(&server, "job edit waits --after none"), 0);
    let edited = rows(&server, "waits").into_iter().next_back().unwrap();
    assert_eq!((&edited["state"], &edited["why"]), (&json!("skipped"), &json!("edited")), "{edited}");
    said(here, &at(&server, "job rm lonely"), 0);
}

const FILE: &str = "version: 1
name: period
apps: {etl: }
jobs:
  report:
    app: etl
    handler: echo
    cron: \"0 2 * * *\"
    after: [settle, {job: rates, when: completion, period: latest, deadline: 6h}]
  settle: {app: etl, handler: echo, cron: \"0 2 * * *\", after: rates}
  rates: {app: etl, handler: echo, cron: \"30 1 * * *\"}
";

#[test]
fn a_job_file_makes_upstream_jobs_first_and_deletes_them_last() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    let file = here.join("period.yaml");
    let on = |line: &str| at(&server, &format!("{line} -f {}", file.display()));
    std::fs::write(&file, FILE).unwrap();
    said(here, &on("plan"), 2);
    said(here, &on("apply"), 0);
    said(here, &on("plan"), 0);
    let shown = said(here, &at(&server, "export"), 0);
    let edges = "after: [settle, {deadline: \"6h\", job: rates, period: latest, when: completion}]";
    assert!(shown.contains(edges), "{shown}");

    std::fs::write(&file, FILE.replace("cron: \"30 1 * * *\"", "cron: \"30 1 * * *\", after: report")).unwrap();
    let told = said(here, &on("plan"), 2);
    assert!(told.contains("report -> rates -> report") && told.contains("period.yaml:9:"), "{told}");
    std::fs::write(&file, FILE.replace("after: rates", "after: raets")).unwrap();
    assert!(said(here, &on("plan"), 2).contains("there is no job `raets`"));

    // The order turns round: whoever was waited for waits now.
    let turned = FILE.replace(", after: rates}", "}").replace("\"30 1 * * *\"", "\"30 1 * * *\", after: settle");
    std::fs::write(
        &file,
        turned.replace("    after: [settle, {job: rates, when: completion, period: latest, deadline: 6h}]\n", ""),
    )
    .unwrap();
    said(here, &on("apply"), 0);
    std::fs::write(&file, "version: 1\nname: period\njobs: {}\n").unwrap();
    said(here, &on("apply --prune"), 0);
    assert_eq!(server.api.get("/api/v1/jobs")["items"], json!([]));
}
