//! Shards: one for every worker, one for each parameter; how many must succeed; one killed alone; those of the dead.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::clock::wait_for;
use crate::folder::Folder;
use crate::journal;
use crate::process::said;
use crate::server::Server;

fn at(server: &Server, line: &str) -> String {
    format!("{line} --server http://{} --token {}", server.api.address, server.api.token)
}

/// What a worker wrote of a run: the shards that it started.
fn shards_on(server: &Server, worker: &str, run: &Value) -> Vec<u32> {
    let events = journal::read(&server.journal(worker));
    let of_run = |key: &journal::Key| json!(key.run) == run["id"];
    journal::starts(&events).keys().filter(|key| of_run(key)).map(|key| key.shard).collect()
}

#[test]
fn a_broadcast_reaches_every_worker_and_a_dead_one_is_named() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[("ROTA_TIMING__BEAT", "1s"), ("ROTA_TIMING__DEAD", "5s")]);
    let token = server.app("etl");
    said(here, &at(&server, "job add everywhere --app etl --handler echo --shards broadcast"), 0);
    let line = "job add moved --app etl --handler echo --shards broadcast --on-loss reassign";
    said(here, &at(&server, line), 0);
    let refused = said(here, &at(&server, "run everywhere"), 1);
    assert!(refused.contains("no worker of the app is online"), "{refused}");
    let names = ["w1", "w2", "w3"];
    let mut workers: Vec<_> = names.iter().map(|name| server.worker("etl", &token, name, "")).collect();

    let run = server.ended(&server.api.trigger("everywhere"));
    assert_eq!((&run["state"], &run["shards"], run.get("why")), (&json!("success"), &json!(3), None), "{run}");
    let each: Vec<Vec<u32>> = names.iter().map(|name| shards_on(&server, name, &run)).collect();
    assert!(each.iter().all(|shards| shards.len() == 1), "each worker has one: {each:?}");
    assert_eq!(each.concat().into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 2]));

    // One of them dies, and nobody has noticed yet.
    workers.remove(2).kill();
    let (named, moved) = (server.api.trigger("everywhere"), server.api.trigger("moved"));
    let waits = || server.api.run(&named)["waiting"].clone();
    let waiting = wait_for("its shard to wait for it", waits, |list| list[0]["worker"] == "w3");
    assert_eq!(waiting[0]["why"], "connect_failed", "{waiting}");
    let run = server.ended(&named);
    assert_eq!(
        (&run["state"], &run["why"], &run["shards"]),
        (&json!("lost"), &json!("target_gone"), &json!(3)),
        "{run}"
    );
    let told = said(here, &at(&server, &format!("why {named}")), 0);
    for part in ["one shard for each of 3: w1, w2, w3", "lost, target_gone", ": w3", "2 of 3 succeeded, all must; not "]
    {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    let run = server.ended(&moved);
    assert_eq!(run["state"], "success", "{run}");
    let mut done: Vec<u32> = names.iter().flat_map(|name| shards_on(&server, name, &run)).collect();
    done.sort_unstable();
    assert_eq!(done, [0, 1, 2], "another took what was the dead one's, once");
}

const FILE: &str = r#"version: 1
namespace: default
jobs:
  regions:
    app: etl
    handler: fail
    shards:
      params: ['{"until_attempt": 9}', '{"until_attempt": 1}', '{"until_attempt": 2}']
      success: {quorum: "60%"}
    retry: {max: 1, elsewhere: true}
  naps:
    app: etl
    handler: sleep
    param: "{{shard.param}}"
    shards: {params: [120s, 10ms], success: best_effort, on_loss: fail}
"#;

fn apply(server: &Server, here: &Path, text: &str) {
    std::fs::write(here.join("shards.yaml"), text).unwrap();
    said(here, &at(server, "apply -f shards.yaml"), 0);
    said(here, &at(server, "plan -f shards.yaml"), 0);
}

#[test]
fn each_shard_has_its_parameter_and_a_quorum_decides() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    let token = server.app("etl");
    let _workers = ["w1", "w2"].map(|name| server.worker("etl", &token, name, ""));
    apply(&server, here, FILE);
    let exported = said(here, &at(&server, "export"), 0);
    assert!(exported.contains("elsewhere: true") && exported.contains("quorum: \"60%\""), "{exported}");
    let named = server.api.trigger("regions");
    let run = server.ended(&named);
    assert_eq!((&run["state"], &run["why"]), (&json!("success"), &json!("partial")), "{run}");
    let attempts = run["attempts"].as_array().unwrap();
    let of = |shard: u32| attempts.iter().filter(|a| a["shard"] == shard).collect::<Vec<_>>();
    assert_eq!([of(0).len(), of(1).len(), of(2).len()], [2, 1, 2]);
    for shard in [0, 2] {
        assert_ne!(of(shard)[0]["worker_name"], of(shard)[1]["worker_name"], "its retry went elsewhere: {run}");
    }
    let told = said(here, &at(&server, &format!("why {named}")), 0);
    for part in ["2 of 3 succeeded, 2 must (a quorum of 60%); not 0", "elsewhere, as retry.elsewhere wants it"] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    let again = said(here, &at(&server, &format!("rerun {named} --failed-shards")), 0);
    assert!(again.contains("1 of 3 shards") && again.contains("success, partial"), "its quorum was reached: {again}");

    apply(&server, here, &FILE.replace("60%", "70%"));
    let run = server.ended(&server.api.trigger("regions"));
    assert_eq!((&run["state"], &run["why"]), (&json!("failed"), &json!("handler_failed")), "{run}");
}

#[test]
fn one_shard_is_killed_and_stays_so_through_a_crash() {
    let folder = Folder::new();
    let here = folder.path();
    let mut server = Server::start(here, &[]);
    let token = server.app("etl");
    let _worker = server.worker("etl", &token, "w1", "");
    apply(&server, here, FILE);
    let named = server.api.trigger("naps");
    let state = |server: &Server| server.api.run(&named)["attempts"].clone();
    wait_for(
        "one to run and the other to have ended",
        || state(&server),
        |list| list[0]["state"] == "running" && list[1]["state"] == "success",
    );
    let path = format!("/api/v1/runs/{named}/kill");
    server.api.refused("POST", &format!("{path}?shard=1"), b"{}", 409, "shard_ended");
    server.api.refused("POST", &format!("{path}?shard=2"), b"{}", 400, "invalid");
    let said = said(here, &at(&server, &format!("kill {named} --shard 0")), 0);
    assert!(said.contains("shard 0 of"), "{said}");
    server.restart();
    let run = server.ended(&named);
    assert_eq!((&run["state"], &run["why"]), (&json!("success"), &json!("partial")), "{run}");
    assert_eq!(
        (&run["attempts"][0]["state"], &run["attempts"][0]["why"]),
        (&json!("killed"), &json!("killed_by_user"))
    );
    server.api.refused("POST", &format!("{path}?shard=0"), b"{}", 409, "run_ended");
}
