//! What is shipped beside the binary fits to it: dashboard and alerts name families that it has, the service manager hears
//! from it, completions and pages are made.

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use crate::clock::wait_for;
use crate::folder::Folder;
use crate::process::{Process, run, said, text_of};
use crate::server::Server;

const ALERTS: &str = include_str!("../../dist/alerts.yml");
const DASHBOARD: &str = include_str!("../../dist/grafana.json");

/// Words of a text that look like a family of ours.
fn families(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("rota_") || word.starts_with("scheduler_"));
    let bare = |word: &str| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
        of_histogram.unwrap_or(word).to_owned()
    };
    ours.map(bare).collect()
}

#[test]
fn dashboard_and_alerts_name_families_that_the_server_has() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let metrics = server.api.call("GET", "/metrics", b"").unwrap().text;
    let has: BTreeSet<String> =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).map(str::to_owned).collect();
    for (what, text, least) in [("alerts.yml", ALERTS, 10), ("grafana.json", DASHBOARD, 15)] {
        let named = families(text);
        assert!(named.len() >= least, "{what}: {named:?}");
        let unknown: Vec<&String> = named.difference(&has).collect();
        assert!(unknown.is_empty(), "{what} names what the server does not have: {unknown:?}");
    }
    serde_json::from_str::<serde_json::Value>(DASHBOARD).unwrap();
    assert_eq!(server.stop(), 0);
}

/// What the process says to its service manager, until `last` is among it.
fn heard(socket: &UnixDatagram, last: &str) -> Vec<String> {
    let mut all = Vec::new();
    while !all.iter().any(|said: &String| said.contains(last)) {
        let mut bytes = [0; 4_096];
        let length = socket.recv(&mut bytes).unwrap_or_else(|error| panic!("no {last}: {error}; {all:?}"));
        all.push(String::from_utf8(bytes[..length].to_vec()).unwrap());
    }
    all
}

#[test]
fn the_service_manager_hears_ready_signs_of_life_and_the_end() {
    let folder = Folder::new();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let path = path.display().to_string();
    let server = Server::start(folder.path(), &[("NOTIFY_SOCKET", path.as_str()), ("WATCHDOG_USEC", "400000")]);
    let first = heard(&socket, "READY=1");
    assert_eq!(first.len(), 1, "nothing before it takes requests: {first:?}");
    assert!(first[0].contains(&format!("http://{}", server.api.address)), "{first:?}");
    for _ in 0..3 {
        assert_eq!(heard(&socket, "WATCHDOG=1").len(), 1);
    }
    assert_eq!(server.stop(), 0);
    let rest = heard(&socket, "STOPPING=1");
    assert!(rest[..rest.len() - 1].iter().all(|said| said == "WATCHDOG=1"), "{rest:?}");
}

#[test]
fn a_process_that_is_stopped_gives_no_sign_of_life() {
    let folder = Folder::new();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let path = path.display().to_string();
    let server = Server::start(folder.path(), &[("NOTIFY_SOCKET", path.as_str()), ("WATCHDOG_USEC", "400000")]);
    heard(&socket, "WATCHDOG=1");
    crate::process::signal("STOP", server.process().id());
    // What it said before may still wait; after that there is silence for longer than the watchdog's time.
    socket.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
    let mut bytes = [0; 4_096];
    let silence = (0..100).map(|_| socket.recv(&mut bytes)).find(Result::is_err);
    assert!(silence.is_some(), "it goes on");
    crate::process::signal("CONT", server.process().id());
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    heard(&socket, "WATCHDOG=1");
    assert_eq!(server.stop(), 0);
}

#[test]
fn completions_and_pages_are_made() {
    let folder = Folder::new();
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef rota"), ("fish", "complete -c rota")] {
        assert!(said(folder.path(), &format!("completions {shell}"), 0).contains(part), "{shell}");
    }
    said(folder.path(), "man pages", 0);
    let page = |name: &str| std::fs::read_to_string(folder.path().join("pages").join(name)).unwrap();
    assert!(page("rota.1").contains("rota\\-job(1)"));
    assert!(page("rota-job-add.1").contains("Examples"));
}

#[test]
fn every_help_ends_with_examples() {
    let folder = Folder::new();
    for command in ["run", "job add", "backup", "config show"] {
        assert!(said(folder.path(), &format!("{command} --help"), 0).contains("Examples:\n  rota "), "{command}");
    }
}

#[test]
fn health_tells_alive_from_gone() {
    let folder = Folder::new();
    let mut server = Server::start(folder.path(), &[]);
    let at = format!("--server http://{}", server.api.address);
    assert_eq!(said(folder.path(), &format!("health {at}"), 0), "live\n");
    assert_eq!(said(folder.path(), &format!("health --ready {at}"), 0), "ready\n");
    server.kill();
    said(folder.path(), &format!("health {at}"), 3);
}

/// Starts a server whose log is at level info, stops it, and gives back what it logged.
fn logged(folder: &Path, format: &str) -> Vec<String> {
    let mut command = crate::process::rota(folder);
    command.args(["serve", "--data", "data", "--listen", "127.0.0.1:0", "--admin-token-file", "t"]);
    command.env("ROTA_SERVER__LOG_FORMAT", format);
    let output = folder.join(format!("{format}.log"));
    let mut process = Process::start(command, &output);
    process.line_with("listening on");
    assert_eq!(process.stop(), 0);
    let text = wait_for("the log", || std::fs::read_to_string(&output).unwrap(), |text| text.contains("server_stops"));
    text.lines().filter(|line| line.contains("server_stops")).map(str::to_owned).collect()
}

#[test]
fn it_logs_for_people_or_an_object_a_line() {
    let folder = Folder::new();
    let pretty = logged(folder.path(), "pretty");
    assert!(pretty[0].contains("INFO") && pretty[0].contains("signal=\"SIGTERM\""), "{pretty:?}");
    let json: serde_json::Value = serde_json::from_str(&logged(folder.path(), "json")[0]).unwrap();
    assert_eq!(
        (&json["level"], &json["message"], &json["signal"]),
        (&"INFO".into(), &"server_stops".into(), &"SIGTERM".into())
    );
    let refused = run(folder.path(), "config show");
    assert!(refused.status.success(), "{}", text_of(&refused));
}
