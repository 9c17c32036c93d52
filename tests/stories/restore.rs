//! A backup under load, a crash, a restore into another directory. Nobody but the workers knows what ran in between: their
//! journals say that nothing runs twice by itself, that no id is given out twice, and that everything goes on.

use std::collections::{BTreeMap, BTreeSet};

use rota_wire::rest::Run;
use serde_json::{Value, json};

use crate::clock::{parse_ms, unix_ms, wait_for};
use crate::folder::Folder;
use crate::journal::{self, Event};
use crate::ledger::{check_covered, rows, unsettled};
use crate::process::{self, Process, said};
use crate::server::Server;

const EVERY_MS: i64 = 1_000;

struct Tale {
    folder: Folder,
    server: Server,
    token: String,
    names: Vec<String>,
    workers: Vec<Process>,
    /// Jobs with slots at every second, and the first slot of each.
    ticking: BTreeMap<u32, i64>,
    others: Vec<u32>,
}

impl Tale {
    fn begin() -> Tale {
        let folder = Folder::new();
        let server = Server::start(folder.path(), &[("ROTA_SERVER__LOG", "warn")]);
        let token = server.app("etl");
        let mut tale = Tale {
            folder,
            server,
            token,
            names: Vec::new(),
            workers: Vec::new(),
            ticking: BTreeMap::new(),
            others: Vec::new(),
        };
        for name in ["w1", "w2", "w3"] {
            tale.hire(name);
        }
        for number in 0..30 {
            // One in three is still running when the next begins, and in the backup, and at the crash.
            let (handler, param) = if number % 3 == 0 { ("sleep", "2500ms") } else { ("echo", "x") };
            let spec = json!({"every": "1s", "handler": handler, "param": param});
            let (job, saved) = tale.job(&format!("tick-{number}"), spec);
            tale.ticking.insert(job, parse_ms(saved["next"].as_str().unwrap()));
        }
        for number in 0..5 {
            let (job, _) = tale.job(&format!("poll-{number}"), json!({"delay": "1s", "handler": "echo"}));
            tale.others.push(job);
        }
        tale
    }

    fn hire(&mut self, name: &str) {
        self.workers.push(self.server.worker("etl", &self.token, name, ""));
        self.names.push(name.to_owned());
    }

    fn job(&self, name: &str, mut spec: Value) -> (u32, Value) {
        spec["name"] = name.into();
        spec["app"] = "etl".into();
        let saved = self.server.job(&spec);
        (u32::try_from(saved["id"].as_u64().unwrap()).unwrap(), saved)
    }

    fn events(&self) -> Vec<Event> {
        self.names.iter().flat_map(|name| journal::read(&self.server.journal(name))).collect()
    }

    fn started(&self) -> usize {
        self.events().iter().filter(|event| event.outcome.is_none()).count()
    }

    /// Waits until so many more handlers have started.
    fn work(&self, more: usize) {
        let before = self.started();
        wait_for("more starts", || self.started(), |started| *started >= before + more);
    }

    fn cli(&self, line: &str) -> String {
        let api = &self.server.api;
        said(self.folder.path(), &format!("{line} --server http://{} --token {}", api.address, api.token), 0)
    }

    /// Pauses everything, and waits until nothing is open; the end of the slots that must be covered.
    fn rest(&self) -> i64 {
        for job in self.ticking.keys().chain(&self.others) {
            self.server.api.post(&format!("/api/v1/jobs/{job}/pause"), &json!({}));
        }
        let paused_ms = unix_ms();
        wait_for("everything settled", || unsettled(&self.server.api), Vec::is_empty);
        for job in self.ticking.keys() {
            self.server.api.post(&format!("/api/v1/jobs/{job}/resume"), &json!({}));
            self.server.api.ask("DELETE", &format!("/api/v1/jobs/{job}"), &Value::Null);
        }
        wait_for("everything settled", || unsettled(&self.server.api), Vec::is_empty);
        paused_ms
    }
}

/// What ran before the restore, and what since.
struct Known {
    /// The moment between the two, when no server ran.
    at_ms: i64,
    before: Vec<Event>,
    after: Vec<Event>,
    /// The one-shot job that fired after the backup.
    once: u32,
    covered: BTreeMap<u32, Vec<Run>>,
}

/// Tells the story up to its end, and checks what must hold whatever was chosen.
fn tell(since: &str) -> (Tale, Known) {
    let mut tale = Tale::begin();
    tale.work(100);
    let at = rota_cron::UnixMs(unix_ms() + 2_000).to_string();
    let (once, _) = tale.job("once", json!({"at": at, "handler": "echo"}));
    let text = tale.cli("backup b.tar --with-key --logs");
    assert!(text.starts_with("b.tar  "), "{text}");
    // None of this is in the backup: a job, a worker, and most of the runs.
    tale.job("forgotten", json!({"every": "1s", "handler": "echo"}));
    tale.hire("w4");
    wait_for("the one-shot job", || tale.events(), |events| events.iter().any(|event| event.job == once));
    tale.work(150);
    tale.server.kill();
    let at_ms = unix_ms();

    let new = tale.folder.path().join("restored");
    let text = said(tale.folder.path(), &format!("restore b.tar --data restored --since-backup {since}"), 0);
    assert!(text.contains("why: restored"), "{text}");
    tale.server.move_to(&new);
    let online = |server: &Value| server["workers_online"] == 4;
    wait_for("all workers, also the one that is not in the backup", || tale.server.api.get("/api/v1/server"), online);
    // Frozen until somebody has looked: a second of slots passes, and none of them starts.
    let first = rota_cron::UnixMs(unix_ms() + 1_500).0;
    wait_for("some time", unix_ms, |now| *now > first);
    assert!(tale.events().iter().all(|event| event.outcome.is_some() || event.at_ms < at_ms), "nothing starts frozen");
    assert!(tale.cli("runs").contains("restored from the backup of"), "everybody sees it");
    tale.cli("thaw --missed skip");
    tale.work(150);
    let paused_ms = tale.rest();

    let events = tale.events();
    // No try starts twice, and no id is given out twice, before and after taken together.
    let starts = journal::starts(&events);
    let (before, after): (Vec<Event>, Vec<Event>) =
        starts.values().map(|event| (*event).clone()).partition(|event| event.at_ms < at_ms);
    let ids = |events: &[Event]| events.iter().map(|event| event.attempt).collect::<BTreeSet<u64>>();
    assert!(ids(&before).last() < ids(&after).first(), "ids grow across a restore");
    let covered: BTreeMap<u32, Vec<Run>> =
        tale.ticking.keys().map(|job| (*job, rows(&tale.server.api, &format!("job={job}")))).collect();
    for (job, first_ms) in &tale.ticking {
        check_covered(&covered[job], EVERY_MS, *first_ms, paused_ms / EVERY_MS * EVERY_MS);
    }
    assert!(before.len() > 200 && after.len() > 100, "{} before, {} after", before.len(), after.len());
    (tale, Known { at_ms, before, after, once, covered })
}

fn done(tale: Tale) {
    assert_eq!(tale.server.stop(), 0);
    for worker in tale.workers {
        assert_eq!(worker.stop(), 0);
    }
}

#[test]
fn after_a_restore_that_skips_nothing_runs_that_may_have_run() {
    let (tale, known) = tell("skip");
    let ran: BTreeSet<(u32, i64)> = known.before.iter().map(|event| (event.job, event.slot_ms)).collect();
    for event in &known.after {
        assert!(event.slot_ms >= known.at_ms, "a slot from before the restore: {event:?}");
        assert!(!ran.contains(&(event.job, event.slot_ms)), "a slot that had run: {event:?}");
    }
    assert_eq!(known.before.iter().filter(|event| event.job == known.once).count(), 1);
    for (job, rows) in &known.covered {
        let restored: Vec<&Run> = rows.iter().filter(|row| row.why.as_deref() == Some("restored")).collect();
        let ranges = restored.iter().filter(|row| row.state == "skipped").count();
        assert_eq!(ranges, 1, "one row for each job: {job} {restored:?}");
        assert!(restored.iter().all(|row| ["skipped", "lost"].contains(&row.state.as_str())), "{restored:?}");
    }
    done(tale);
}

#[test]
fn after_a_restore_that_fires_once_each_job_fires_its_newest_slot() {
    let (tale, known) = tell("fire_once");
    let mut again: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for event in known.after.iter().filter(|event| event.slot_ms < known.at_ms) {
        again.entry(event.job).or_default().push(event.slot_ms);
    }
    for (job, slots) in &again {
        assert_eq!(slots.len(), 1, "job {job}: only its newest slot: {slots:?}");
    }
    assert_eq!(again.get(&known.once).map(Vec::len), Some(1), "it was in the backup, and due since");
    let ticking: BTreeSet<u32> = again.keys().copied().filter(|job| tale.ticking.contains_key(job)).collect();
    let newer: BTreeSet<u32> = known.after.iter().map(|event| event.job).collect();
    assert!(tale.ticking.keys().all(|job| newer.contains(job)), "all go on: {ticking:?}");
    done(tale);
}

#[test]
fn what_cannot_be_restored_says_why() {
    let folder = Folder::new();
    let mut server = Server::start(folder.path(), &[]);
    let credentials = format!("--server http://{} --token {}", server.api.address, server.api.token);
    assert!(said(folder.path(), &format!("backup b.tar {credentials}"), 0).contains("without the key"));
    let text = said(folder.path(), &format!("backup b.tar {credentials}"), 2);
    assert!(text.contains("never replaces another one"), "{text}");
    let text = said(folder.path(), "backup c.tar --data data", 1);
    assert!(text.contains("is in use by process"), "{text}");
    assert!(!folder.path().join("c.tar").exists() && !folder.path().join("c.tar.part").exists());
    let text = said(folder.path(), "restore b.tar --data data --since-backup skip", 1);
    assert!(text.contains("is in use by process"), "{text}");
    let text = said(folder.path(), "restore b.tar --data new --since-backup skip", 2);
    assert!(text.contains("--key FILE, or --drop-secrets"), "{text}");
    let cut = std::fs::read(folder.path().join("b.tar")).unwrap();
    std::fs::write(folder.path().join("cut.tar"), &cut[..cut.len() - 2_000]).unwrap();
    let text = said(folder.path(), "restore cut.tar --data new --since-backup skip --key data/rota.key", 1);
    assert!(text.contains("cut off or damaged"), "{text}");
    let answer = process::json(folder.path(), "restore b.tar --data new --since-backup skip --key data/rota.key");
    assert_eq!((&answer["backup"]["has_key"], &answer["slots_covered"]), (&json!(false), &json!(0)));
    server.kill();
    // The admin token is the same: its hash is in the backup.
    server.move_to(&folder.path().join("new"));
    assert_eq!(server.api.get("/api/v1/jobs")["items"], json!([]));
    assert_eq!(server.stop(), 0);
}
