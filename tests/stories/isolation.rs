//! One of eight workers answers after 5 s, another is a black hole. They slow themselves down, and nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::{parse_ms, unix_ms, wait_for, wait_within};
use crate::fake::{Fake, Manner};
use crate::folder::Folder;
use crate::journal::{self, Event};
use crate::ledger::{check_covered, rows, unsettled};
use crate::server::Server;

/// Jobs, each due every second.
const JOBS: u32 = 120;
/// For how long they are due.
const LOAD_MS: i64 = 15_000;
const CREDITS: u64 = 64;

#[test]
fn round_robin_goes_on_without_the_slow_and_the_dead() {
    check("APP_ROUND_ROBIN");
}

#[test]
fn least_inflight_goes_on_without_the_slow_and_the_dead() {
    check("LEAST_INFLIGHT");
}

fn check(strategy: &str) {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let token = server.app("etl");
    let join = |name: &str, manner| Fake::join(&server.api, "etl", &token, name, manner);
    let prompt: Vec<Fake> = (1..=6).map(|number| join(&format!("prompt-{number}"), Manner::Prompt)).collect();
    let slow = join("slow", Manner::Slow(Duration::from_secs(5)));
    let hole = join("hole", Manner::BlackHole);

    let mut jobs = BTreeMap::new();
    for number in 0..JOBS {
        let saved = server.job(&json!({"name": format!("job-{number}"), "app": "etl", "handler": "work",
            "every": "1s", "route": {"strategy": strategy}}));
        let first_ms = parse_ms(saved["next"].as_str().unwrap());
        jobs.insert(u32::try_from(saved["id"].as_u64().unwrap()).unwrap(), first_ms);
    }
    let end_ms = unix_ms() + LOAD_MS;
    let server_ms = || parse_ms(server.api.get("/api/v1/server")["now"].as_str().unwrap());
    wait_for("the end of the load", server_ms, |now| *now >= end_ms);
    for job in jobs.keys() {
        server.api.post(&format!("/api/v1/jobs/{job}/pause"), &json!({}));
    }

    // Everything but what the two may hold is done while they are as they are.
    let open = || open_by_worker(&server);
    let stuck = wait_for("only the two hold something", open, |open| {
        open.iter().all(|(name, count)| ["slow", "hole"].contains(&name.as_str()) && *count <= CREDITS)
    });
    println!("{strategy}: open {stuck:?}");
    let held = server.api.get("/api/v1/server")["held"].clone();
    assert_eq!(held, 0, "a slot waits although six workers are free");
    let started: BTreeSet<(u32, i64)> =
        prompt.iter().flat_map(Fake::starts).map(|event| (event.job, event.slot_ms)).collect();
    let due = jobs.iter().flat_map(|(job, first)| (*first..=end_ms - 1_000).step_by(1_000).map(|slot| (*job, slot)));
    let left = due.filter(|slot| !started.contains(slot)).count() as u64;
    let by_slow = slow.starts().len() as u64;
    assert!(left <= CREDITS + CREDITS + by_slow, "{left} slots did not go to the prompt workers, {by_slow} were slow");
    tell_lateness(strategy, &prompt);

    // With the end of the fault everything ends well: once, as far as anybody started it.
    hole.set(Manner::Prompt);
    slow.set(Manner::Prompt);
    wait_within(Duration::from_secs(120), "everything settled", || unsettled(&server.api), Vec::is_empty);
    let events: Vec<Event> = prompt.iter().chain([&slow, &hole]).flat_map(Fake::starts).collect();
    let starts = journal::starts(&events);
    let mut runs = BTreeSet::new();
    for (job, first_ms) in &jobs {
        let rows = rows(&server.api, &format!("job={job}"));
        check_covered(&rows, 1_000, *first_ms, end_ms - 1_000);
        for row in rows {
            assert_eq!(row.state, "success", "{row:?}");
            let tries = starts.keys().filter(|key| key.run == row.id).count();
            assert_eq!(tries, 1, "{row:?}");
            runs.insert(row.id);
        }
    }
    assert!(starts.keys().all(|key| runs.contains(&key.run)), "something ran without a row");
    assert_eq!(server.stop(), 0);
}

fn open_by_worker(server: &Server) -> BTreeMap<String, u64> {
    let live = server.api.get("/api/v1/live");
    let mut open = BTreeMap::new();
    for attempt in live["attempts"].as_array().unwrap() {
        *open.entry(attempt["worker_name"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let workers: Value = server.api.get("/api/v1/workers");
    for worker in workers["items"].as_array().unwrap() {
        assert!(worker["sending"].as_u64().unwrap() <= CREDITS, "{worker}");
    }
    open
}

fn tell_lateness(strategy: &str, workers: &[Fake]) {
    let mut late: Vec<i64> = workers.iter().flat_map(Fake::starts).map(|event| event.at_ms - event.slot_ms).collect();
    late.sort_unstable();
    let part = |percent: usize| late[(late.len() - 1) * percent / 100];
    println!("{strategy}: {} starts, late p50 {} ms, p99 {} ms, max {} ms", late.len(), part(50), part(99), part(100));
}
