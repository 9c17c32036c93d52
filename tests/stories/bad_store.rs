//! Files that cannot be used: taken, newer, damaged, locked, full. The server says so, and harms nothing.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;
use serde_json::json;

use crate::clock::{parse_ms, unix_ms, wait_for};
use crate::fake::{Fake, Manner};
use crate::folder::Folder;
use crate::journal::Event;
use crate::ledger::{check_covered, rows, unsettled};
use crate::process::{rota, text_of};
use crate::server::Server;

/// Tries to start another server; the code that it ends with, and what it says.
fn serve(folder: &Path) -> (Option<i32>, String) {
    let mut command = rota(folder);
    command.args(["serve", "--data", "data", "--admin-token-file", "admin.token", "--listen", "127.0.0.1:0"]);
    let output = command.output().unwrap();
    (output.status.code(), text_of(&output))
}

fn check_refused(folder: &Path, parts: &[&str]) {
    let (code, said) = serve(folder);
    assert_eq!(code, Some(1), "{said}");
    assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {said}");
}

/// A folder where a server has made a job and stopped.
fn used() -> Folder {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    server.app("etl");
    server.job(&json!({"name": "kept", "app": "etl", "handler": "work"}));
    assert_eq!(server.stop(), 0);
    folder
}

/// Field case B046: who owns a store is decided by its lock, and not by a name.
#[test]
fn a_second_server_names_the_first() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let pid = server.process().id().to_string();
    check_refused(folder.path(), &["data", "in use", &pid, "stop it"]);
    assert_eq!(server.readyz(200), "ready\n");
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_newer_schema_is_left_alone() {
    let folder = used();
    let file = folder.path().join("data/rota.db");
    let conn = Connection::open(&file).unwrap();
    conn.execute("INSERT INTO schema_version (version) VALUES (999)", []).unwrap();
    check_refused(folder.path(), &["schema 999", "newer binary"]);
    let kept: String = conn.query_row("SELECT name FROM app WHERE name = 'etl'", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, "etl");
    conn.execute("DELETE FROM schema_version WHERE version = 999", []).unwrap();
    drop(conn);
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.api.get("/api/v1/jobs/kept")["state"], "enabled");
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_damaged_file_is_named() {
    let folder = used();
    let path = folder.path().join("data/rota.db");
    let whole = std::fs::read(&path).unwrap();
    let mut file = File::options().write(true).open(&path).unwrap();
    file.write_all(&[0xa5; 4096]).unwrap();
    drop(file);
    check_refused(folder.path(), &["rota.db", "restore a backup"]);

    // Damage beyond the first page, found when it is read.
    std::fs::write(&path, &whole).unwrap();
    let mut file = File::options().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(4096)).unwrap();
    file.write_all(&vec![0xa5; whole.len() - 4096]).unwrap();
    drop(file);
    check_refused(folder.path(), &["rota.db", "restore a backup"]);

    std::fs::write(&path, &whole).unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.api.get("/api/v1/jobs/kept")["state"], "enabled");
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_lost_key_is_asked_back() {
    let folder = used();
    let key = folder.path().join("data/rota.key");
    let kept = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    check_refused(folder.path(), &["rota.key", "put it back"]);
    std::fs::write(&key, kept).unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.stop(), 0);
}

/// A server with a worker and jobs that are due every second, while its store cannot be written.
struct Trouble {
    server: Server,
    worker: Fake,
    jobs: Vec<(u32, i64)>,
}

impl Trouble {
    fn new(folder: &Path, data: &Path) -> Trouble {
        let server = Server::start_at(folder, data, &[]);
        let token = server.app("etl");
        let worker = Fake::join(&server.api, "etl", &token, "w1", Manner::Prompt);
        let mut jobs = Vec::new();
        for number in 0..20 {
            let saved =
                server.job(&json!({"name": format!("j{number}"), "app": "etl", "handler": "work", "every": "1s"}));
            let id = u32::try_from(saved["id"].as_u64().unwrap()).unwrap();
            jobs.push((id, parse_ms(saved["next"].as_str().unwrap())));
        }
        wait_for("the first runs", || worker.starts().len(), |count| *count >= 40);
        Trouble { server, worker, jobs }
    }

    /// The store cannot be written: it is said, and nothing fires, for some slots. The span that this lasted, at least.
    fn sit_out(&self, reason: &str, end: impl FnOnce()) -> (i64, i64) {
        let said = self.server.readyz(503);
        assert!(said.contains("not available") && said.contains(reason), "{said}");
        assert_eq!(self.server.api.call("GET", "/livez", b"").unwrap().status, 200);
        let from_ms = unix_ms();
        let server_ms = || parse_ms(self.server.api.get("/api/v1/server")["now"].as_str().unwrap());
        wait_for("some slots", server_ms, |now| *now > from_ms + 4_000);
        let status = self.server.api.get("/api/v1/server");
        assert_eq!(status["is_ready"], false, "{status}");
        assert!(status["not_ready"].as_str().unwrap().contains(reason), "{status}");
        // A change is refused or waits, and is not lost in silence.
        let refusal = self.server.api.refused("PUT", "/api/v1/apps/other", b"{}", 503, "store_unavailable");
        assert!(refusal["message"].as_str().unwrap().contains(reason) && refusal["hint"].is_string(), "{refusal}");
        let to_ms = unix_ms();
        end();
        assert_eq!(self.server.readyz(200), "ready\n");
        (from_ms, to_ms)
    }

    /// It has gone on by itself, and caught up; no slot is lost.
    fn check(self, (from_ms, to_ms): (i64, i64)) {
        let caught_up = |starts: &Vec<Event>| {
            self.jobs.iter().all(|(job, _)| starts.iter().any(|start| start.job == *job && start.slot_ms > to_ms))
        };
        let starts = wait_for("all caught up", || self.worker.starts(), caught_up);
        for start in starts {
            let is_in_trouble = start.slot_ms > from_ms && start.slot_ms <= to_ms;
            assert!(!is_in_trouble || start.at_ms >= to_ms, "started while its row could not be written: {start:?}");
        }
        for (job, _) in &self.jobs {
            self.server.api.ask("DELETE", &format!("/api/v1/jobs/{job}"), &json!({}));
        }
        wait_for("everything settled", || unsettled(&self.server.api), Vec::is_empty);
        for (job, first_ms) in &self.jobs {
            check_covered(&rows(&self.server.api, &format!("job={job}")), 1_000, *first_ms, to_ms);
        }
        self.server.app("other");
        assert_eq!(self.server.stop(), 0);
    }
}

#[test]
fn a_locked_file_is_waited_for() {
    let folder = Folder::new();
    let trouble = Trouble::new(folder.path(), &folder.path().join("data"));
    let conn = Connection::open(folder.path().join("data/rota.db")).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    let span = trouble.sit_out("lock", || conn.execute_batch("ROLLBACK").unwrap());
    trouble.check(span);
}

/// A small file system of its own; it goes with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where nobody may mount one.
    fn mount(at: &Path) -> Option<SmallDisk> {
        std::fs::create_dir(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(at.to_owned()))
    }

    /// Fills it to the last byte; the file that does.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = File::create(&path).unwrap();
        for chunk_bytes in [64 << 10, 4 << 10, 1] {
            let chunk = vec![0_u8; chunk_bytes];
            while file.write_all(&chunk).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that is still being ended may hold it for a moment.
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[test]
fn a_full_disk_is_sat_out() {
    let folder = Folder::new();
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk")) else {
        println!("skipped: only root may mount the small disk that this story fills");
        return;
    };
    let trouble = Trouble::new(folder.path(), &disk.0.join("data"));
    let filler = disk.fill();
    let span = trouble.sit_out("full", || std::fs::remove_file(&filler).unwrap());
    trouble.check(span);
}
