//! A server that was down for an hour: each job does about it what it says, and once. The hour passes on the wall clock of the
//! server's process alone, between its end and its next start.

use rota_wire::rest::Run;
use serde_json::{Value, json};

use crate::clock::{parse_ms, wait_for};
use crate::clock_steps::Wall;
use crate::folder::Folder;
use crate::ledger::{check_covered, rows, span_ms};
use crate::process::said;
use crate::recorder::Recorder;
use crate::server::Server;

const HOUR_S: i64 = 3_600;
const TEN_MINUTES_MS: i64 = 600_000;

/// A server whose clock stands an hour back, with a partner to call.
fn an_hour_ago(folder: &Folder) -> (Wall, Server, Recorder) {
    let wall = Wall::new(folder.path());
    wall.set(-HOUR_S);
    let recorder = Recorder::start();
    let mut settings = wall.settings();
    settings.push(("ROTA_OUTBOUND__ALLOW", "127.0.0.1"));
    let server = Server::start(folder.path(), &settings);
    (wall, server, recorder)
}

fn job(server: &Server, recorder: &Recorder, name: &str, every: &str, misfire: &Value) {
    let url = format!("http://{}/{name}", recorder.address);
    let mut spec = json!({"name": name, "every": every, "http": {"post": url}});
    if !misfire.is_null() {
        spec["misfire"] = misfire.clone();
    }
    server.job(&spec);
}

/// Ends the server as a power cut would, and starts it when its clock shows so much.
fn absent_until(server: &mut Server, wall: &Wall, seconds: i64) {
    server.kill();
    wall.set(seconds);
    server.begin();
    server.ready();
}

fn of(server: &Server, job: &str) -> Vec<Run> {
    rows(&server.api, &format!("job={job}"))
}

fn is_gap(row: &Run) -> bool {
    row.state == "skipped"
}

fn late_ms(row: &Run) -> i64 {
    parse_ms(&row.at) - span_ms(row).1
}

#[test]
fn each_policy_has_its_say_about_an_hour_without_a_server() {
    let folder = Folder::new();
    let (wall, mut server, recorder) = an_hour_ago(&folder);
    job(&server, &recorder, "once", "10m", &Value::Null);
    job(&server, &recorder, "window", "10m", &json!({"within": "2m"}));
    job(&server, &recorder, "none", "10m", &json!({"policy": "skip", "threshold": "1s"}));
    job(&server, &recorder, "few", "10m", &json!({"policy": "catch_up", "max": 2, "pace": "20/s"}));
    job(&server, &recorder, "tick", "1s", &Value::Null);
    wait_for("the quick one fires", || of(&server, "tick"), |rows| !rows.is_empty());
    absent_until(&mut server, &wall, 0);

    let tick = wait_for("it fires again", || of(&server, "tick"), |rows| rows.iter().any(is_gap) && rows.len() > 4);
    let gaps: Vec<&Run> = tick.iter().filter(|row| is_gap(row)).collect();
    assert_eq!(gaps.len(), 1, "an hour is one row: {gaps:?}");
    assert!((3_500..=3_600).contains(&gaps[0].slots), "{gaps:?}");
    check_covered(&tick, 1_000, span_ms(&tick[0]).0, span_ms(tick.last().unwrap()).1);

    for (name, fired) in [("once", 1), ("few", 2), ("window", 1), ("none", 0)] {
        let enough = |rows: &Vec<Run>| rows.iter().map(|row| row.slots).sum::<u64>() >= 6;
        let rows = wait_for(name, || of(&server, name), enough);
        check_covered(&rows, TEN_MINUTES_MS, span_ms(&rows[0]).0, span_ms(rows.last().unwrap()).1);
        let newest_late = late_ms(rows.last().unwrap());
        let expected = match name {
            "window" if newest_late > 120_000 => 0,
            "none" if newest_late <= 1_000 => 1,
            _ => fired,
        };
        let runs: Vec<&Run> = rows.iter().filter(|row| !is_gap(row)).collect();
        assert_eq!((rows.len() - runs.len(), runs.len()), (1, expected), "{name}: {rows:?}");
        assert_eq!(rows[0].why.as_deref(), Some("misfire"), "{name}");
    }
    let address = format!("--server http://{} --token {}", server.api.address, server.api.token);
    let skipped = &of(&server, "once")[0];
    let why = said(folder.path(), &format!("why {} {address}", skipped.run), 0);
    assert!(why.contains("misfire"), "{why}");
}

#[test]
fn what_was_judged_to_run_runs_though_the_server_is_killed_while_it_catches_up() {
    let folder = Folder::new();
    let (wall, mut server, recorder) = an_hour_ago(&folder);
    let all = json!({"policy": "catch_up", "threshold": "1s", "within": "65m", "pace": "5/s"});
    job(&server, &recorder, "all", "2m", &all);
    absent_until(&mut server, &wall, 0);
    let waits = || server.api.get("/api/v1/held?job=all")["items"][0]["why"].clone();
    wait_for("it waits for its pace", waits, |why| why == "catch_up");
    let before = wait_for("a few are caught up", || of(&server, "all"), |rows| rows.len() >= 5);
    assert!(before.len() < 25, "it has caught up already: {}", before.len());
    // What is left is more than 65 minutes old when the server is back.
    absent_until(&mut server, &wall, HOUR_S);
    let rows = wait_for("all are caught up", || of(&server, "all"), |rows| rows.len() >= 59);
    check_covered(&rows, 120_000, span_ms(&rows[0]).0, span_ms(rows.last().unwrap()).1);
    assert!(rows.iter().all(|row| !is_gap(row)), "each slot has its run: {rows:?}");
    assert!(rows.windows(2).all(|two| span_ms(&two[0]).0 < span_ms(&two[1]).0), "the oldest first");
    let at: Vec<i64> = rows.iter().filter(|row| late_ms(row) > 1_000).map(|row| parse_ms(&row.at)).collect();
    let hasty = at.windows(2).filter(|two| two[1] - two[0] < 180).count();
    assert_eq!(hasty, 0, "five a second: {at:?}");
    assert!(recorder.seen().values().all(|times| *times == 1), "{:?}", recorder.seen());
}
