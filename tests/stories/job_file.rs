//! The job file: planned, applied, exported, with the exit codes that scripts rely on.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::json;

use crate::folder::Folder;
use crate::process::{rota, text_of};
use crate::server::Server;

const SHOP: &str = r#"version: 1
namespace: default
defaults:
  timezone: Asia/Shanghai
  retry: {max: 2, when: [lost, timeout], backoff: exponential, first: 10s, cap: 5m}
apps:
  etl: {pending_max: 500}
jobs:
  nightly-settle:
    app: etl
    handler: settle
    cron: "0 0 2 * * ?"
    dst: {gap: run_after, overlap: first}
    param: "date={{slot|date('%F')}}"
    overlap: skip
    timeout: {start: 10m, attempt: 30m, run: 2h}
  rebuild-index:
    app: etl
    handler: shell
    param: "bin/reindex"
    cron: "0 4 * * 1-5"
    shards: {count: 8}
    paused: "until index v2"
  ping-partner:
    every: 30s
    http: {post: "http://partner.example/ping"}
    retry: {max: 0}
"#;

/// What `rota` with these words said as the administrator of a server, and the code that it ended with.
fn ask(server: &Server, folder: &Path, line: &str, input: &str) -> (i32, String) {
    let mut command = rota(folder);
    command.args(line.split_whitespace()).args([
        "--server",
        &format!("http://{}", server.api.address),
        "--token",
        &server.api.token,
    ]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap_or(-1), text_of(&output))
}

fn check(server: &Server, folder: &Path, line: &str, code: i32, parts: &[&str]) -> String {
    let (ended, text) = ask(server, folder, line, "");
    assert_eq!(ended, code, "rota {line}\n{text}");
    for part in parts {
        assert!(text.contains(part), "rota {line}: `{part}` is not in\n{text}");
    }
    text
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[test]
fn a_file_is_planned_applied_changed_and_exported() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    write(here, "shop.yaml", SHOP);
    check(&server, here, "plan -f shop.yaml", 2, &["+ create  nightly-settle", "3 to create", "02:00:00", "+08:00"]);
    assert_eq!(server.api.get("/api/v1/jobs")["items"], json!([]), "a plan changes nothing");
    check(&server, here, "apply -f shop.yaml", 0, &["applied 3"]);
    let settle = server.api.get("/api/v1/jobs/nightly-settle");
    assert_eq!(
        (&settle["managed_by"], &settle["by"], &settle["spec"]["timezone"], &settle["spec"]["retry"]["cap"]),
        (&json!("shop"), &json!("file shop"), &json!("Asia/Shanghai"), &json!("5m"))
    );
    let index = server.api.get("/api/v1/jobs/rebuild-index");
    assert_eq!((&index["state"], &index["pause"]["reason"]), (&json!("paused"), &json!("until index v2")));
    assert_eq!(server.api.get("/api/v1/jobs/ping-partner")["spec"]["retry"]["max"], 0, "what a job says itself wins");

    // Again: nothing to do.
    check(&server, here, "plan -f shop.yaml", 0, &["nothing to do; 3 unchanged"]);
    check(&server, here, "apply -f shop.yaml", 0, &["nothing to do"]);
    assert_eq!(server.api.get("/api/v1/jobs/nightly-settle")["version"], 1);

    // A change says what changes, and the slots before and after.
    write(here, "shop.yaml", &SHOP.replace("0 0 2 * * ?", "0 30 3 * * ?"));
    check(
        &server,
        here,
        "plan -f shop.yaml",
        2,
        &["~ edit    nightly-settle", "0 0 2 * * ? -> 0 30 3 * * ?", "03:30:00"],
    );
    check(&server, here, "apply -f shop.yaml", 0, &["applied 1"]);
    assert_eq!(server.api.get("/api/v1/jobs/nightly-settle")["version"], 2);

    // What narrows a schedule moves its slots, too.
    let narrowed = SHOP
        .replace("0 0 2 * * ?", "0 30 3 * * ?")
        .replace("    every: 30s\n", "    every: 30s\n    active: {from: \"2098-01-01T00:00:00Z\"}\n");
    write(here, "shop.yaml", &narrowed);
    let moved = ["~ edit    ping-partner", "active.from", "-> 2098-01-01 08:00:00, 2098-01-01 08:00:30"];
    check(&server, here, "plan -f shop.yaml", 2, &moved);

    // What is there comes out as a file that asks for what is there.
    let (code, exported) = ask(&server, here, "export", "");
    assert_eq!(code, 0, "{exported}");
    let (code, planned) = ask(&server, here, "plan -f -", &exported);
    assert_eq!(code, 0, "{exported}\n{planned}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn files_of_one_call_share_calendars_and_hand_jobs_to_each_other() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    let jobs = here.join("jobs");
    std::fs::create_dir(&jobs).unwrap();
    let job = |calendar: &str| {
        format!("    cron: \"0 2 * * *\"\n    http: {{get: \"http://x.example/\"}}\n    calendar: {calendar}\n")
    };
    let days = "version: 1\ncalendars:\n  work: {exclude: [sat, sun], include: [\"2026-10-10\"]}\n  xmas: {exclude: [12-24..12-26]}\n";
    write(here, "days.yaml", days);
    let nightly = job("{use: [work, xmas], exclude: [01-01]}");
    write(&jobs, "a.yaml", &format!("version: 1\njobs:\n  nightly:\n{nightly}  moved:\n{}", job("work")));
    write(
        &jobs,
        "b.yml",
        "version: 1\ndefaults: {calendar: xmas}\njobs:\n  plain:\n    every: 1h\n    http: {get: \"http://x.example/\"}\n",
    );
    write(&jobs, "notes.txt", "not read");
    let all = "-f jobs -f days.yaml";
    check(
        &server,
        here,
        &format!("plan {all}"),
        2,
        &["jobs/a.yaml:", "jobs/b.yml:", "days.yaml:", "2 to create", "1 to create"],
    );
    check(&server, here, &format!("apply {all}"), 0, &["applied 3"]);
    let calendar = |name: &str| server.api.get(&format!("/api/v1/jobs/{name}"))["spec"]["calendar"].clone();
    let expected = json!({"exclude": ["sat", "sun", "12-24..12-26", "01-01"], "include": ["2026-10-10"]});
    assert_eq!(calendar("nightly"), expected, "the server has the days themselves");
    assert_eq!(calendar("plain"), json!({"exclude": ["12-24..12-26"]}));
    check(&server, here, &format!("plan {all}"), 0, &["nothing to do; 2 unchanged"]);
    // Whoever changes a calendar sees whose days that are; a job that goes into another file is not deleted on the way.
    write(here, "days.yaml", &days.replace("[12-24..12-26]", "[12-24..12-31]"));
    write(&jobs, "a.yaml", &format!("version: 1\njobs:\n  nightly:\n{nightly}"));
    write(&jobs, "b.yml", &format!("version: 1\ndefaults: {{calendar: xmas}}\njobs:\n  moved:\n{}", job("work")));
    let planned = check(
        &server,
        here,
        &format!("plan {all} --prune"),
        2,
        &["~ edit    nightly", "~ adopt   moved", "- delete  plain"],
    );
    assert!(planned.contains("12-24..12-31") && !planned.contains("delete  moved"), "{planned}");
    check(&server, here, &format!("apply {all} --prune"), 0, &["applied 3"]);
    assert_eq!(server.api.get("/api/v1/jobs/moved")["managed_by"], "b");
    check(&server, here, &format!("plan {all} --prune"), 0, &["nothing to do"]);
    let (code, told) = ask(&server, here, &format!("plan {all} --json"), "");
    assert_eq!(code, 0, "{told}");
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["plans"].as_array().unwrap().len(), 3, "{told}");

    // What is wrong in any of them stops all, and is told with its place.
    write(here, "typo.yaml", &format!("version: 1\njobs:\n  other:\n{}", job("wrok")));
    check(
        &server,
        here,
        "plan -f days.yaml -f typo.yaml",
        2,
        &["typo.yaml:6:15: jobs.other.calendar:", "did you mean `work`?"],
    );
    write(here, "typo.yaml", &format!("version: 1\njobs:\n  other:\n{}", job("[sat, sun]")));
    check(&server, here, "plan -f typo.yaml", 2, &["there is no calendar `sat`", "calendar: {exclude: [sat, sun]}"]);
    write(here, "typo.yaml", "version: 1\ncalendars: {work: {exclude: [sat, 13-40]}}\n");
    check(&server, here, "plan -f typo.yaml", 2, &["typo.yaml:2:35: calendars.work.exclude:", "13-40"]);
    check(&server, here, "plan -f days.yaml -f typo.yaml", 2, &["days.yaml has a calendar of this name, too"]);
    write(here, "twice.yaml", &format!("version: 1\njobs:\n  nightly:\n{}", job("{exclude: [sat]}")));
    check(
        &server,
        here,
        &format!("plan {all} -f twice.yaml"),
        2,
        &["twice.yaml:3:3: jobs.nightly: jobs/a.yaml has a job of this name, too"],
    );
    write(here, "a.yaml", "version: 1\n");
    check(
        &server,
        here,
        &format!("plan {all} -f a.yaml"),
        2,
        &["both manage their jobs by the name `a`", "name: shop"],
    );
    check(&server, here, "plan -f days.yaml -f days.yaml", 2, &["given twice"]);
    std::fs::create_dir(here.join("empty")).unwrap();
    check(&server, here, "plan -f empty", 2, &["empty has no job file", ".yaml"]);
    check(&server, here, "plan -f nowhere.yaml", 2, &["nowhere.yaml", "No such file"]);
    assert_eq!(server.stop(), 0);
}

#[test]
fn drift_is_shown_and_only_what_the_file_made_is_pruned() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    write(here, "shop.yaml", SHOP);
    check(&server, here, "apply -f shop.yaml", 0, &["applied 3"]);
    check(&server, here, "job add by-hand --every 1h --url http://partner.example/x", 0, &[]);
    check(&server, here, "job edit ping-partner --every 1m", 0, &[]);
    check(&server, here, "plan -f shop.yaml", 2, &["ping-partner  drift: changed by admin", "1m -> 30s"]);
    // Without the index job, which is left alone until it is asked for.
    let (before, after) = (SHOP.find("  rebuild-index:").unwrap(), SHOP.find("  ping-partner:").unwrap());
    write(here, "shop.yaml", &format!("{}{}", &SHOP[..before], &SHOP[after..]));
    check(&server, here, "plan -f shop.yaml", 2, &["rebuild-index", "1 not in the file"]);
    check(&server, here, "plan -f shop.yaml --prune", 2, &["- delete  rebuild-index"]);
    check(&server, here, "apply -f shop.yaml --prune", 0, &["applied 2"]);
    let jobs = server.api.get("/api/v1/jobs");
    let names: Vec<&str> =
        jobs["items"].as_array().unwrap().iter().map(|job| job["spec"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["nightly-settle", "ping-partner", "by-hand"], "{jobs}");
    // Another file does not take what is not its own.
    write(
        here,
        "other.yaml",
        "version: 1\njobs:\n  ping-partner:\n    every: 2m\n    http: {get: \"http://x.example/\"}\n",
    );
    let text = check(&server, here, "plan -f other.yaml", 2, &["ping-partner"]);
    assert!(text.contains("shop") && text.contains("take"), "{text}");
    assert_eq!(server.api.get("/api/v1/jobs/ping-partner")["spec"]["every"], "30s");
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_a_file_makes_is_made_in_its_own_namespace() {
    let folder = Folder::new();
    let server = Server::start(folder.path(), &[]);
    let file = "version: 1\nnamespace: nsx\napps: {appx: }\njobs:\n  far: {app: appx, handler: echo, every: 1h}\n";
    write(folder.path(), "far.yaml", file);
    check(&server, folder.path(), "apply -f far.yaml", 0, &["applied 1"]);
    check(&server, folder.path(), "plan -f far.yaml", 0, &[]);
    let (_, apps) = ask(&server, folder.path(), "app list", "");
    assert!(!apps.contains("appx"), "it is none of the default namespace's: {apps}");
}

#[test]
fn an_apply_is_carried_out_though_nobody_reads_its_plan() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    write(here, "a.yaml", "version: 1\napps: {etl: }\njobs:\n  a: {app: etl, handler: echo, every: 1h}\n");
    let mut command = rota(here);
    command.args(["apply", "-f", "a.yaml", "--token", &server.api.token]);
    command.args(["--server", &format!("http://{}", server.api.address)]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    check(&server, here, "plan -f a.yaml", 0, &[]);
}

#[test]
fn mistakes_are_told_with_their_place_and_change_nothing() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    let job = |lines: &str| format!("version: 1\njobs:\n  a:\n    app: etl\n    handler: h\n{lines}");
    for (text, parts) in [
        (job("    rety: {max: 1}\n"), vec!["bad.yaml:6:5", "jobs.a.rety", "retry"]),
        (job("    every: 30\n"), vec!["bad.yaml:6:12", "jobs.a.every", "found the number 30"]),
        (job("    cron: */5 * * * *\n"), vec!["bad.yaml:6:", "quot"]),
        (job("    every: 5s\n    every: 6s\n"), vec!["bad.yaml:7:", "every", "6"]),
        (job("    cron: \"0 0 25 * * ?\"\n"), vec!["bad.yaml:6:", "jobs.a.cron", "25"]),
        (job("    every: 5s\n    weight: 3\n"), vec!["bad.yaml:7:5", "weight"]),
        (job("    every: 5s\n    misfire: {policy: sometimes}\n"), vec!["bad.yaml:7:", "misfire"]),
        (job("    every: 5s\n    timezone: Asia/Shanghia\n"), vec!["jobs.a.timezone", "Asia/Shanghai"]),
        ("jobs: {}\n".to_owned(), vec!["version"]),
        ("version: 9\njobs: {}\n".to_owned(), vec!["bad.yaml:1:", "version", "9"]),
        ("version: 1\njobs: [a]\n".to_owned(), vec!["bad.yaml:2:", "jobs"]),
        ("version: 1\njobs: {a: {b\n".to_owned(), vec!["bad.yaml:"]),
    ] {
        write(here, "bad.yaml", &text);
        for command in ["plan", "apply"] {
            check(&server, here, &format!("{command} -f bad.yaml"), 2, &parts);
        }
    }
    let (_, said) = ask(&server, here, "plan -f bad.yaml --json", "");
    let said: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!((&said["code"], &said["mistakes"][0]["file"]), (&json!("job_file"), &json!("bad.yaml")), "{said}");
    assert_eq!(server.api.get("/api/v1/jobs")["items"], json!([]));
    assert_eq!(server.stop(), 0);
}

/// A file of 1,500 jobs: two batches.
fn many() -> String {
    let jobs = (0..1_500).map(|number| format!("  job-{number}: {{app: etl, handler: h, every: 1h}}\n"));
    std::iter::once("version: 1\napps: {etl: {}}\njobs:\n".to_owned()).chain(jobs).collect()
}

fn begin_apply(server: &Server, folder: &Path) -> Child {
    let url = format!("http://{}", server.api.address);
    let mut command = rota(folder);
    command.args(["apply", "-f", "many.yaml", "--server", &url, "--token", &server.api.token]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn two_applies_of_one_file_at_once_both_end_well() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    write(here, "many.yaml", &many());
    for child in [begin_apply(&server, here), begin_apply(&server, here)] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    check(&server, here, "plan -f many.yaml", 0, &["nothing to do; 1,500 unchanged"]);
    assert_eq!(server.stop(), 0);
}

#[test]
fn an_apply_that_was_interrupted_goes_on_where_it_was() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    write(here, "many.yaml", &many());
    let mut child = begin_apply(&server, here);
    let count = || server.api.get("/api/v1/jobs?limit=1")["items"].as_array().unwrap().len();
    crate::clock::wait_for("the first jobs", count, |count| *count > 0);
    // It may have ended by itself, and then nothing is left to do.
    let _ = child.kill();
    child.wait().unwrap();
    check(&server, here, "apply -f many.yaml", 0, &[]);
    check(&server, here, "plan -f many.yaml", 0, &["nothing to do; 1,500 unchanged"]);
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_pages_example_is_applied_as_it_stands() {
    let folder = Folder::new();
    let here = folder.path();
    let server = Server::start(here, &[]);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/job-file.md")).unwrap();
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    write(here, "example.yaml", example);
    let (code, _) = ask(&server, here, "secret set PARTNER", "a-token");
    assert_eq!(code, 0);
    check(&server, here, "apply -f example.yaml", 0, &["applied 3"]);
    check(&server, here, "plan -f example.yaml", 0, &["3 unchanged"]);
    let shell = server.api.get("/api/v1/jobs/rebuild-index");
    assert_eq!((&shell["managed_by"], &shell["spec"]["handler"]), (&json!("shop"), &json!("shell")), "{shell}");
    assert_eq!(server.stop(), 0);
}
