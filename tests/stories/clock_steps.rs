//! What a server does while its wall clock steps: it fires nothing that it cannot date, says so, and covers each
//! slot once. libfaketime steps the wall clock of the server's process alone, while it runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::clock::{now, parse_ms, pass, unix_ms, wait_for};
use crate::folder::Folder;
use crate::ledger::{check_covered, rows, span_ms};
use crate::process::said;
use crate::recorder::Recorder;
use crate::server::Server;

const EVERY_MS: i64 = 2_000;

/// The wall clock of one server.
pub(crate) struct Wall {
    file: PathBuf,
    preloaded: Vec<(String, String)>,
}

impl Wall {
    pub(crate) fn new(folder: &Path) -> Wall {
        let wall = Wall { file: folder.join("wall"), preloaded: preloaded() };
        wall.set(0);
        wall
    }

    /// Sets it to so many seconds beside the true time. The file is there as a whole at every moment.
    pub(crate) fn set(&self, seconds: i64) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n")).expect("the story's folder can be written");
        std::fs::rename(&new, &self.file).expect("the story's folder can be written");
    }

    /// What a server's environment must hold.
    pub(crate) fn settings(&self) -> Vec<(&str, &str)> {
        let file = self.file.to_str().expect("a plain path");
        let mut all = vec![
            ("FAKETIME_TIMESTAMP_FILE", file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DONT_RESET", "1"),
            ("NO_FAKE_STAT", "1"),
        ];
        all.extend(self.preloaded.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        all
    }
}

/// How `faketime` gets its library into a process, as a process of it sees that. The server is not started by it, since
/// it would stand between them.
fn preloaded() -> Vec<(String, String)> {
    let plain = environment("env", &["-0"]);
    let mut faked = environment("faketime", &["-m", "-f", "+0", "env", "-0"]);
    // What it says of the time itself would stand above the file; `_` is what a process is called by.
    faked.retain(|setting| !plain.contains(setting) && setting.0 != "_" && !setting.0.starts_with("FAKETIME"));
    assert!(!faked.is_empty(), "faketime sets what its child preloads");
    faked
}

fn environment(program: &str, arguments: &[&str]) -> Vec<(String, String)> {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; on Debian: apt-get install faketime"));
    let text = String::from_utf8(output.stdout).expect("plain settings");
    let settings = text.split('\0').filter_map(|setting| setting.split_once('='));
    settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A server with a clock of its own, and a partner that is called every two seconds.
fn ticking(folder: &Folder) -> (Wall, Server, Recorder) {
    let wall = Wall::new(folder.path());
    let recorder = Recorder::start();
    let mut settings = wall.settings();
    settings.push(("ROTA_OUTBOUND__ALLOW", "127.0.0.1"));
    let server = Server::start(folder.path(), &settings);
    let url = format!("http://{}/", recorder.address);
    server.job(&json!({"name": "tick", "every": "2s", "http": {"post": url}}));
    (wall, server, recorder)
}

fn calls(recorder: &Recorder) -> usize {
    recorder.seen().len()
}

/// Waits until the partner was called once more than so often.
fn called_after(recorder: &Recorder, count: usize) {
    wait_for("a call", || calls(recorder), |calls| *calls > count);
}

/// Each slot of the job from its first row on has one row, and each call had a run of its own.
fn check(server: &Server, recorder: &Recorder, until_ms: i64) {
    let rows = rows(&server.api, "job=tick");
    let first = rows.iter().map(|row| span_ms(row).0).min().expect("it has rows");
    check_covered(&rows, EVERY_MS, first, until_ms);
    let fired = rows.iter().filter(|row| row.state != "skipped").count();
    assert!(fired >= calls(recorder), "{} calls for {fired} runs", calls(recorder));
    assert!(recorder.seen().values().all(|times| *times == 1), "{:?}", recorder.seen());
}

fn wall_ms(server: &Server) -> i64 {
    parse_ms(server.api.get("/api/v1/server")["now"].as_str().expect("a time"))
}

#[test]
fn a_jump_of_ten_minutes_fires_nothing_until_the_clock_was_steady_for_half_a_minute() {
    let folder = Folder::new();
    let (wall, server, recorder) = ticking(&folder);
    called_after(&recorder, 0);
    let jumped = now();
    wall.set(600);
    assert!(server.readyz(503).contains("clock_suspect"));
    let before = calls(&recorder);
    assert_eq!(server.api.get("/api/v1/server")["suspended"], "clock_suspect");
    server.readyz(200);
    let steady = jumped.elapsed();
    assert!(steady >= Duration::from_secs(30), "it fired again after {steady:?}");
    // What was sent before the jump was seen may have arrived after it.
    let meanwhile = rows(&server.api, "job=tick");
    let suspect: Vec<_> = meanwhile.iter().filter(|row| row.why.as_deref() == Some("clock_suspect")).collect();
    let skipped: u64 = suspect.iter().map(|row| row.slots).sum();
    assert!(skipped >= 300, "{meanwhile:?}");
    called_after(&recorder, before + 1);
    let until = wall_ms(&server) - 4_000;
    assert!(until > unix_ms() + 500_000, "the clock still stands ten minutes ahead");
    check(&server, &recorder, until);
}

/// Field case B057.
#[test]
fn a_jump_by_175_years_costs_no_memory_and_no_row_and_waits_for_an_operator() {
    let folder = Folder::new();
    let (wall, server, recorder) = ticking(&folder);
    let jobs: Vec<_> = (0..1_000).map(|no| json!({"name": format!("hourly-{no}"), "every": "1h", "http": {"post": format!("http://{}/hourly", recorder.address)}})).collect();
    for job in &jobs {
        server.job(job);
    }
    called_after(&recorder, 0);
    let first = rows(&server.api, "job=tick");
    let resident = server.resident_kib();
    wall.set(175 * 365 * 86_400);
    assert!(server.readyz(503).contains("clock_suspect"));
    // As long as the case has it.
    pass(Duration::from_secs(5));
    wall.set(0);
    wait_for("its clock is back", || wall_ms(&server), |wall| wall.abs_diff(unix_ms()) < 60_000);
    assert!(server.readyz(503).contains("clock_suspect"));
    let grown = server.resident_kib().saturating_sub(resident);
    assert!(grown < 20 << 10, "it takes {grown} KiB more");

    let before = calls(&recorder);
    let text = said(
        folder.path(),
        &format!("confirm-clock --server http://{} --token {}", server.api.address, server.api.token),
        0,
    );
    assert!(text.starts_with("the clock is taken as right: it is 20"), "{text}");
    server.readyz(200);
    called_after(&recorder, before + 1);
    check(&server, &recorder, unix_ms() - 4_000);
    // What was there is still there, and what is new is dated by its id as of today.
    let now_there = rows(&server.api, "job=tick");
    assert_eq!(
        now_there[..first.len() - 1].iter().map(|row| row.id).collect::<Vec<_>>(),
        first[..first.len() - 1].iter().map(|row| row.id).collect::<Vec<_>>()
    );
    let newest = now_there.last().expect("it fires");
    let dated = rota_core::id::id_time(newest.id);
    assert!(dated.0.abs_diff(unix_ms()) < 600_000, "{newest:?} has an id of {dated}");
    let hourly = rows(&server.api, "since=1h").into_iter().filter(|row| row.job_name != "tick").collect::<Vec<_>>();
    for job in &jobs {
        let runs = hourly.iter().filter(|row| row.job_name == job["name"] && row.state != "skipped").count();
        assert!(runs <= 1, "{} ran {runs} times", job["name"]);
    }
}

#[test]
fn a_step_back_fires_no_slot_again() {
    let folder = Folder::new();
    let (wall, server, recorder) = ticking(&folder);
    called_after(&recorder, 1);
    wall.set(-40);
    assert!(server.readyz(503).contains("clock_behind"));
    let before = calls(&recorder);
    // Three of its periods.
    pass(Duration::from_secs(6));
    assert!(calls(&recorder) <= before + 1, "it fired while its clock stood behind");
    wall.set(0);
    server.readyz(200);
    called_after(&recorder, before + 1);
    check(&server, &recorder, unix_ms() - 4_000);
}

#[test]
fn a_start_with_a_clock_behind_fires_no_slot_again() {
    let folder = Folder::new();
    let (wall, mut server, recorder) = ticking(&folder);
    called_after(&recorder, 1);
    server.kill();
    wall.set(-3_600);
    server.begin();
    server.ready();
    assert!(server.readyz(503).contains("clock_behind"));
    let before = calls(&recorder);
    pass(Duration::from_secs(6));
    assert_eq!(calls(&recorder), before, "it fired while its clock stood behind");
    server.kill();
    wall.set(0);
    server.begin();
    server.ready();
    server.readyz(200);
    called_after(&recorder, before);
    check(&server, &recorder, unix_ms() - 4_000);
}
