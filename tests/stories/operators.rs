//! Operators at three in the morning: they freeze, thaw, and run again what failed.

use serde_json::{Value, json};

use crate::clock::wait_for;
use crate::folder::Folder;
use crate::ledger::{check_covered, rows};
use crate::process::{json as asked, said};
use crate::server::Server;

fn at(server: &Server, line: &str) -> String {
    format!("{line} --server http://{} --token {}", server.api.address, server.api.token)
}

fn successes(server: &Server, job: &str) -> usize {
    rows(&server.api, &format!("job={job}&state=success")).len()
}

#[test]
fn a_freeze_outlives_a_crash_and_a_thaw_covers_what_was_missed() {
    let folder = Folder::new();
    let here = folder.path();
    let mut server = Server::start(here, &[]);
    let token = server.app("etl");
    let other = server.app("other");
    let _worker = server.worker("etl", &token, "w1", "");
    let _worker = server.worker("other", &other, "w2", "");
    for (name, app) in [("tick", "etl"), ("tock", "other")] {
        server.job(&json!({"name": name, "app": app, "handler": "echo", "every": "1s"}));
    }
    server.job(&json!({"name": "rests", "app": "etl", "handler": "echo", "every": "1s", "paused": true}));
    server.job(&json!({"name": "long", "app": "etl", "handler": "sleep", "param": "2s"}));
    wait_for("a run", || successes(&server, "tick"), |count| *count >= 2);
    let long = server.api.trigger("long");

    let frozen = said(here, &at(&server, "freeze --reason the-disk-burns --app etl"), 0);
    assert!(frozen.contains("app etl is frozen since") && frozen.contains("the-disk-burns"), "{frozen}");
    assert!(said(here, &at(&server, "freeze --reason again --app etl"), 0).contains("frozen already"));
    assert!(said(here, &at(&server, "run tick"), 1).contains("frozen"));
    server.api.refused("POST", "/api/v1/jobs/tick/trigger", b"{}", 423, "frozen");
    assert_eq!(server.ended(&long)["state"], "success", "what runs goes on");
    let heads = || said(here, &at(&server, "workers"), 0);
    let headed = wait_for("the notice", heads, |text| text.contains("FROZEN"));
    assert!(headed.contains("app etl is frozen since") && headed.contains("the-disk-burns"), "{headed}");
    let before = successes(&server, "tick");
    let others = successes(&server, "tock");

    // A crash changes nothing about it.
    server.kill();
    server.begin();
    server.ready();
    let held = |job: &'static str| {
        let api = &server.api;
        move || api.get(&format!("/api/v1/held?job={job}"))["items"][0]["why"].clone()
    };
    wait_for("the slot that is held", held("tick"), |why| why == "frozen");
    wait_for("others to go on", || successes(&server, "tock"), |count| *count > others + 1);
    assert_eq!(successes(&server, "tick"), before, "nothing is started");
    let shown = server.api.get("/api/v1/server");
    assert_eq!((&shown["frozen"][0]["app"], &shown["frozen"][0]["by"]), (&json!("etl"), &json!("admin")), "{shown}");
    let metrics = server.api.call("GET", "/metrics", b"").unwrap().text;
    assert!(metrics.contains("rota_frozen{app=\"etl\"} 1"), "{metrics}");
    let slot = server.api.get("/api/v1/held?job=tick")["items"][0]["slot"].as_str().unwrap().to_owned();
    let told = asked(here, &at(&server, &format!("why tick@{slot}")));
    assert_eq!(told["code"], "frozen", "{told}");
    assert!(told["title"].as_str().unwrap().contains("the-disk-burns"), "{told}");
    assert!(said(here, &at(&server, "audit"), 0).contains("0 holes"));

    let thawed = said(here, &at(&server, "thaw --app etl"), 0);
    assert!(thawed.contains("one row per job"), "{thawed}");
    assert!(said(here, &at(&server, "thaw --app etl"), 0).contains("nothing was frozen"));
    wait_for("a run after it", || successes(&server, "tick"), |count| *count > before);
    let all = rows(&server.api, "job=tick");
    let skipped: Vec<_> = all.iter().filter(|row| row.why.as_deref() == Some("frozen")).collect();
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert!(skipped[0].slots >= 2 && skipped[0].state == "skipped", "{skipped:?}");
    let (first, last) = (crate::ledger::span_ms(&all[0]).0, crate::ledger::span_ms(all.last().unwrap()).1);
    check_covered(&all, 1_000, first, last);
    assert_eq!(rows(&server.api, "job=rests").len(), 0, "its own pause goes on");
    assert_eq!(asked(here, &at(&server, "job show rests"))["state"], "paused");
    assert!(said(here, &at(&server, "audit"), 0).contains("0 holes, 0 doubles"));
}

#[test]
fn a_thaw_may_fire_the_newest_missed_slot() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    let token = server.app("etl");
    let _worker = server.worker("etl", &token, "w1", "");
    server.job(&json!({"name": "tick", "app": "etl", "handler": "echo", "every": "1s"}));
    wait_for("a run", || successes(&server, "tick"), |count| *count >= 1);
    let frozen = asked(here, &at(&server, "freeze --reason upgrade"));
    assert_eq!((&frozen["is_changed"], frozen["frozen"].as_array().unwrap().len()), (&json!(true), 1), "{frozen}");
    assert_eq!(frozen["frozen"][0]["is_partial"], Value::Null, "{frozen}");
    let held = || server.api.get("/api/v1/held?job=tick")["items"][0].clone();
    let first = wait_for("the slot that is held", held, |held| held["why"] == "frozen");
    let since = crate::clock::parse_ms(first["slot"].as_str().unwrap());
    wait_for("more slots to be missed", crate::clock::unix_ms, |now| *now > since + 4_000);
    let thawed = said(here, &at(&server, "thaw --missed fire_once"), 0);
    assert!(thawed.contains("the newest missed slot of each job fires"), "{thawed}");
    let of_freeze = || rows(&server.api, "job=tick").into_iter().filter(|row| row.why.as_deref() == Some("frozen"));
    wait_for("the row of the others", || of_freeze().count(), |count| *count == 1);
    let skipped = of_freeze().next().unwrap();
    assert!(skipped.slots >= 3, "{skipped:?}");
    let newest = crate::ledger::span_ms(&skipped).1 + 1_000;
    let fired = rows(&server.api, "job=tick").into_iter().find(|row| crate::ledger::span_ms(row).0 == newest).unwrap();
    assert!(fired.shards == 1 && fired.late_ms.is_some_and(|late| late >= 0), "{fired:?}");
    assert!(said(here, &at(&server, "audit"), 0).contains("0 holes, 0 doubles"));
}

#[test]
fn what_failed_runs_again_as_it_was() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    let token = server.app("etl");
    let _worker = server.worker("etl", &token, "w1", "--allow-shell");
    // Shard 1 fails until the file is there.
    let script = format!("test \"$ROTA_SHARD_INDEX\" != 1 || test -e {}/mended", here.display());
    server.job(&json!({"name": "parts", "app": "etl", "handler": "shell", "param": script, "shards": {"count": 3}}));
    let first = server.api.trigger("parts");
    let ended = server.ended(&first);
    assert_eq!(ended["state"], "failed", "{ended}");
    assert!(said(here, &at(&server, &format!("why {first}")), 0).contains(&format!("rota rerun {first}")));
    said(here, &at(&server, "job edit parts --shards 2"), 0);
    std::fs::write(here.join("mended"), "").unwrap();

    let made = asked(here, &at(&server, &format!("rerun {first} --failed-shards --no-follow --request-id once")));
    assert_eq!((&made["shards"], &made["shards_run"], &made["version"]), (&json!(3), &json!(1), &json!(1)), "{made}");
    let again = made["run"].as_str().unwrap();
    let repeated = asked(here, &at(&server, &format!("rerun {first} --failed-shards --no-follow --request-id once")));
    assert_eq!((&repeated["run"], &repeated["is_repeated"]), (&json!(again), &json!(true)));
    let ended = server.ended(again);
    assert_eq!(
        (&ended["state"], &ended["origin"], &ended["rerun_of"]),
        (&json!("success"), &json!("rerun"), &json!(first))
    );
    let attempts = ended["attempts"].as_array().unwrap();
    assert_eq!(attempts.iter().map(|a| a["shard"].as_u64().unwrap()).collect::<Vec<_>>(), [1], "{ended}");
    assert_eq!(ended["slot"], server.api.run(&first)["slot"]);
    let story = said(here, &at(&server, &format!("why {again}")), 0);
    assert!(story.contains("repeats") && story.contains(&first), "{story}");
    assert!(story.contains("2 shards had succeeded"), "{story}");
    assert!(said(here, &at(&server, &format!("why {first}")), 0).contains(again));

    // As a whole it is all of the version that made it.
    let whole = said(here, &at(&server, &format!("rerun {first}")), 0);
    assert!(whole.contains("parts v1") && whole.contains("3 of 3 shards") && whole.contains("success"), "{whole}");
    assert!(said(here, &at(&server, &format!("rerun {again} --failed-shards")), 1).contains("nothing_to_rerun"));
    said(here, &at(&server, "job rm parts"), 0);
    assert!(said(here, &at(&server, &format!("rerun {first}")), 1).contains("job_deleted"));
}
