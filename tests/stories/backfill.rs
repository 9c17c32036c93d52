//! A range of the past that runs on demand, on the real binary: previewed, killed in the middle again and again, done with each
//! slot once; and what is scheduled does not notice. The worker's journal is what is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::clock::{parse_ms, wait_for};
use crate::folder::Folder;
use crate::journal;
use crate::ledger::rows;
use crate::process::{self, said};
use crate::server::Server;

const DAY_MS: i64 = 24 * 3_600_000;
const SLOTS: i64 = 60;

/// A command line for this server.
fn at(server: &Server, line: &str) -> String {
    format!("{line} --server http://{} --token {}", server.api.address, server.api.token)
}

fn ask(here: &Path, server: &Server, line: &str) -> Value {
    process::json(here, &at(server, line))
}

/// A job at each whole hour, one at a time, with a daily worker; and another that fires all the time.
fn begin(folder: &Folder) -> (Server, process::Process) {
    let server = Server::start(folder.path(), &[("ROTA_SERVER__LOG", "warn")]);
    let token = server.app("etl");
    let worker = server.worker("etl", &token, "w1", "");
    server.job(
        &json!({"name": "hourly", "app": "etl", "handler": "echo", "param": "{{slot|date('%F')}}", "cron": "0 * * * *",
        "timezone": "Asia/Shanghai", "overlap": "skip"}),
    );
    server.job(&json!({"name": "tick", "app": "etl", "handler": "echo", "every": "1s"}));
    (server, worker)
}

#[test]
fn a_backfill_that_is_killed_in_the_middle_runs_each_slot_once() {
    let folder = Folder::new();
    let here = folder.path();
    let (mut server, _worker) = begin(&folder);
    let range = "hourly --from 2026-03-01 --to 2026-03-03T12:00:00+08:00";
    let plan = said(here, &at(&server, &format!("backfill add {range} --pace 20/s --dry-run")), 0);
    assert!(plan.contains("60 slots") && plan.contains("… 54 more") && plan.contains("nothing was changed"), "{plan}");
    assert!(plan.contains("03-03 11:00:00 +08:00\nat 20/s"), "the end of the range is no part of it: {plan}");
    assert!(plan.contains("waits for its places"), "{plan}");
    assert_eq!(ask(here, &server, "backfill list")["items"], json!([]));

    let made = ask(here, &server, &format!("backfill add {range} --pace 20/s"));
    let id = made["backfill"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/backfills/{id}");
    let made_of = |server: &Server| server.api.get(&path)["made"].as_i64().unwrap();
    for least in [5, 15, 25, 35] {
        wait_for("it goes on", || made_of(&server), |made| *made >= least);
        server.restart();
    }
    let done = wait_for("all ran", || server.api.get(&path), |backfill| backfill["state"] == "done");
    assert_eq!((&done["made"], &done["total"], &done["next"]), (&json!(SLOTS), &json!(SLOTS), &Value::Null));

    let first_ms = parse_ms("2026-03-01T00:00:00+08:00");
    let expected: BTreeMap<i64, usize> = (0..SLOTS).map(|n| (first_ms + n * DAY_MS / 24, 1)).collect();
    let runs = rows(&server.api, &format!("backfill={id}"));
    let mut slots: BTreeMap<i64, usize> = BTreeMap::new();
    for run in &runs {
        assert_eq!((run.origin.as_str(), run.state.as_str()), ("backfill", "success"), "{run:?}");
        assert_eq!((run.backfill.as_deref(), run.late_ms), (Some(id.as_str()), None));
        *slots.entry(parse_ms(&run.slot)).or_default() += 1;
    }
    assert_eq!(slots, expected);
    assert!(runs.windows(2).all(|two| parse_ms(&two[0].slot) < parse_ms(&two[1].slot)), "the oldest first");
    let events = journal::read(&server.journal("w1"));
    let starts = journal::starts(&events);
    let own = starts.values().filter(|event| event.job == runs[0].job);
    // A slot that was under way in a kill may have been tried twice, in one run.
    let started: BTreeSet<(u64, i64)> = own.map(|event| (event.key.run, event.slot_ms)).collect();
    let made: BTreeSet<(u64, i64)> = runs.iter().map(|run| (run.id, parse_ms(&run.slot))).collect();
    assert_eq!(started, made, "the worker did all of it, and nothing else");

    let story = said(here, &at(&server, &format!("why {}", runs[0].run)), 0);
    assert!(story.contains("backfill of slot 2026-03-01 00:00:00 +08:00") && story.contains(&id), "{story}");
    // No hole, no double, and no row without a slot: the audit looks at what is scheduled, and all of that is there.
    let audit = said(here, &at(&server, "audit --since 10m"), 0);
    assert!(audit.contains("0 holes, 0 doubles, 0 rows without a slot"), "{audit}");
    let shown = said(here, &at(&server, &format!("backfill show {id}")), 0);
    assert!(shown.contains("60 of 60 have a run"), "{shown}");
}

#[test]
fn a_backfill_is_held_by_a_freeze_refused_in_the_future_and_cancelled() {
    let folder = Folder::new();
    let here = folder.path();
    let (mut server, _worker) = begin(&folder);
    for (range, says) in [
        ("--from 2026-03-01 --to 2999-01-01", "reaches into the future"),
        ("--from 2026-03-01T00:00:01Z --to 2026-03-01T00:59:00Z", "no slot in the range"),
        ("--from 1990-01-01", "more than"),
    ] {
        let job = if says == "more than" { "tick" } else { "hourly" };
        let refused = said(here, &at(&server, &format!("backfill add {job} {range}")), 2);
        assert!(refused.contains(says), "{refused}");
    }
    said(here, &at(&server, "freeze --reason fire"), 0);
    let made = ask(here, &server, "backfill add hourly --from 2026-03-01 --to 2026-03-03 --pace 1/m --reason redo");
    let id = made["backfill"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/backfills/{id}");
    let frozen = wait_for("it is held", || server.api.get(&path), |backfill| backfill["waits"] == "frozen");
    assert_eq!(frozen["made"], 0);
    server.restart();
    said(here, &at(&server, "thaw"), 0);
    wait_for("one is made", || server.api.get(&path), |backfill| backfill["made"] == 1);
    let cancelled = said(here, &at(&server, &format!("backfill cancel {id}")), 0);
    assert!(cancelled.contains("makes no more runs") && cancelled.contains("1 of 48 have a run"), "{cancelled}");
    assert!(said(here, &at(&server, &format!("backfill cancel {id}")), 1).contains("backfill_ended"));
    server.restart();
    assert_eq!(server.api.get(&path)["state"], "cancelled");
    let listed = said(here, &at(&server, "backfill list --job hourly"), 0);
    assert!(listed.contains("cancelled_by_user") && listed.contains("1/48"), "{listed}");
    // What goes with its job says so.
    let made = ask(here, &server, "backfill add hourly --from 2026-03-01 --to 2026-03-03 --pace 1/m");
    server.api.ask("DELETE", "/api/v1/jobs/hourly", &Value::Null);
    let gone = server.api.get(&format!("/api/v1/backfills/{}", made["backfill"].as_str().unwrap()));
    assert_eq!((&gone["state"], &gone["why"]), (&json!("cancelled"), &json!("deleted")));
}
