//! `rota cron`: expressions looked at without a server, one at a time and by the thousand.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::clock::{unix_ms, wait_for};
use crate::folder::Folder;
use crate::process::{Process, rota, text_of};

fn run(folder: &Path, words: &[&str]) -> Output {
    rota(folder).arg("cron").args(words).output().unwrap()
}

fn said(folder: &Path, words: &[&str], code: i32) -> String {
    let output = run(folder, words);
    assert_eq!(output.status.code(), Some(code), "{words:?}\n{}", text_of(&output));
    text_of(&output)
}

/// Hands the lines to `rota cron next -`, and the answers back.
fn answers(folder: &Path, words: &[&str], lines: Vec<u8>) -> Vec<Value> {
    let mut command = rota(folder);
    command.args(["cron", "next", "-"]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // Answers come while questions go in: nobody waits for the end of the other.
    let writer = std::thread::spawn(move || input.write_all(&lines));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn slots_are_told_for_people_and_for_programs() {
    let folder = Folder::new();
    let at = folder.path();
    let words = ["next", "0 0 2 * * ?", "--zone", "Asia/Shanghai", "--from", "2026-11-30T16:00:00Z", "--count", "2"];
    let text = said(at, &words, 0);
    assert_eq!(
        text,
        "At 02:00, every day (Asia/Shanghai)\n\
         2026-12-01 02:00:00 +08:00  Tue\n\
         2026-12-02 02:00:00 +08:00  Wed\n\
         quartz dialect, Asia/Shanghai, tzdb 2026f\n"
    );
    let words: Vec<&str> = words.into_iter().chain(["--json"]).collect();
    let told: Value = serde_json::from_str(&said(at, &words, 0)).unwrap();
    assert_eq!(told["fires"], json!(["2026-12-01T02:00:00+08:00", "2026-12-02T02:00:00+08:00"]));
    assert_eq!((&told["dialect"], &told["tzdb"]), (&json!("quartz"), &json!("2026f")));
    let never = said(at, &["next", "0 0 30 2 *"], 0);
    assert!(never.contains("no slot up to 2199"), "{never}");
    // Clocks in Berlin go forward at 02:00 on the 29th of March.
    let gap = |policy: &str| {
        let words =
            ["next", "30 2 * * *", "--zone", "Europe/Berlin", "--from", "2026-03-28T12:00:00Z", "--gap", policy];
        said(at, &words, 0)
    };
    assert!(gap("run_after").contains("2026-03-29 03:00:00 +02:00  Sun"), "{}", gap("run_after"));
    assert!(!gap("skip").contains("2026-03-29"), "{}", gap("skip"));
}

#[test]
fn expressions_are_told_in_words() {
    let folder = Folder::new();
    let at = folder.path();
    assert_eq!(said(at, &["explain", "0 9 * * 1-5"], 0), "At 09:00, on Monday through Friday (UTC)\n");
    assert_eq!(said(at, &["explain", "0 9 * * 1-5", "--lang", "zh"], 0), "周一至周五 09:00（UTC）\n");
    let version = rota(at).arg("--version").output().unwrap();
    assert!(text_of(&version).contains("tzdb 2026f"), "{}", text_of(&version));
}

#[test]
fn a_mistake_is_shown_at_its_place() {
    let folder = Folder::new();
    let at = folder.path();
    assert_eq!(
        said(at, &["next", "0 0 * * TUS"], 2),
        "rota: day of week: unknown name \"TUS\", expected SUN-SAT (bad_name)\n  \
           0 0 * * TUS\n          \
                   ^\n  \
           did you mean TUE?\n"
    );
    let other = said(at, &["next", "*/5 * * * *", "--dialect", "quartz"], 2);
    assert!(other.contains("this looks like the Unix dialect"), "{other}");
    let error = run(at, &["explain", "0 0 * * TUS", "--json"]);
    let error: Value = serde_json::from_slice(&error.stderr).unwrap();
    assert_eq!((&error["code"], &error["position"]), (&json!("bad_name"), &json!(8)));
    let zone = said(at, &["next", "* * * * *", "--zone", "Asia/Shangai"], 2);
    assert!(zone.contains("--zone") && zone.contains("Asia/Shanghai"), "{zone}");
}

#[test]
fn a_whole_migration_is_checked_line_by_line() {
    let folder = Folder::new();
    let mut lines = Vec::new();
    let count = 5_000;
    for number in 0..count {
        match number % 5 {
            0 => writeln!(lines, r#"{{"expr":"0 0/30 2 * * ?","dialect":"quartz","zone":"Europe/Berlin","from":"2026-10-25T00:10:00Z","count":2,"dst":"quartz"}}"#),
            1 => writeln!(lines, r#"{{"expr":"0 {} * * *"}}"#, number % 24),
            2 => writeln!(lines, r#"{{"expr":"0 0 31 2 *","from":"2026-01-01T00:00:00Z"}}"#),
            3 => writeln!(lines, "{}", "{\"expr\": ".repeat(number % 50)),
            _ => lines.write_all(b"\xff\x00\xc3\x28\n"),
        }
        .unwrap();
    }
    let answers = answers(folder.path(), &["--zone", "Asia/Tokyo", "--count", "1"], lines);
    assert_eq!(answers.len(), count);
    for (number, answer) in answers.iter().enumerate() {
        match number % 5 {
            0 => assert_eq!(answer["fires"], json!(["2026-10-25T02:30:00+01:00", "2026-10-26T02:00:00+01:00"])),
            1 => {
                let fires = answer["fires"].as_array().unwrap();
                let wanted = format!("T{:02}:00:00+09:00", number % 24);
                assert!(fires.len() == 1 && fires[0].as_str().unwrap().ends_with(&wanted), "{answer}");
            }
            2 => assert_eq!(answer, &json!({"fires": []})),
            _ => assert!(answer["error"]["code"].is_string() && answer["error"]["message"].is_string(), "{answer}"),
        }
    }
}

#[test]
fn what_narrows_a_schedule_is_kept_shown_and_obeyed() {
    let folder = Folder::new();
    let at = folder.path();
    let mut command = rota(at);
    command.args(["dev", "--listen", "127.0.0.1:0"]);
    let mut server = Process::start(command, &at.join("dev.log"));
    server.line_with(" ready in ");
    let add = |words: &[&str], code: i32| {
        let output = rota(at).args(["job", "add"]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}\n{}", text_of(&output));
        text_of(&output)
    };
    let common = ["--app", "demo", "--handler", "echo"];
    let settle =
        ["settle", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--dst-gap", "skip", "--jitter", "30s"];
    let calendar = ["--exclude", "sat,sun,12-25", "--include", "2031-10-11", "--active-from", "2031-01-01"];
    let told = add(&[settle.as_slice(), &calendar, &common].concat(), 0);
    assert!(told.contains("not on Saturday, Sunday, every 12-25, except 2031-10-11"), "{told}");
    assert!(told.contains("starts up to 30s later"), "{told}");
    let shown = said_by(at, &["job", "show", "settle"]);
    for fact in ["dst       gap skip", "exclude   sat, sun, 12-25", "include   2031-10-11", "from      2031-01-01"] {
        assert!(shown.contains(fact), "{fact} is not in\n{shown}");
    }
    let job = |name: &str| -> Value { serde_json::from_str(&said_by(at, &["job", "show", name, "--json"])).unwrap() };
    let spec = &job("settle")["spec"];
    assert_eq!((&spec["dst"], &spec["jitter"]), (&json!({"gap": "skip"}), &json!("30s")));
    assert_eq!(job("settle")["next_slots"][0], "2031-01-01T02:30:00+01:00");
    said_by(at, &["job", "edit", "settle", "--exclude", "none", "--include", "none", "--dst", "quartz"]);
    assert_eq!(job("settle")["spec"]["dst"], "quartz");
    assert!(job("settle")["spec"].get("calendar").is_none());

    // Without a slot to come it is refused, with what leaves it none.
    let refused = add(&[["never", "--cron", "0 2 * * 6", "--exclude", "sat"].as_slice(), &common].concat(), 2);
    assert!(refused.contains("calendar.exclude") && refused.contains("leaves the schedule no slot"), "{refused}");
    let refused = add(&[["late", "--every", "5s", "--active-until", "2020-12-31"].as_slice(), &common].concat(), 2);
    assert!(refused.contains("active.until"), "{refused}");

    // A job that is active for a few seconds more fires, and is finished then, visibly.
    let until = rota_cron::Zone::utc().format(rota_cron::UnixMs(unix_ms() + 8_000));
    add(&[["short", "--every", "1s", "--jitter", "500ms", "--active-until", &until].as_slice(), &common].concat(), 0);
    let finished = wait_for("the end of the job", || job("short"), |job| job["state"] == "finished");
    assert!(finished["finished"].as_str().unwrap().contains("active"), "{finished}");
    assert!(said_by(at, &["job", "show", "short"]).contains("finished"), "it is shown");
    let runs: Value = serde_json::from_str(&said_by(at, &["runs", "--job", "short", "--json"])).unwrap();
    assert!((1..=9).contains(&runs["items"].as_array().unwrap().len()), "{runs}");
    assert_eq!(server.stop(), 0);
}

fn said_by(folder: &Path, words: &[&str]) -> String {
    let output = rota(folder).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{words:?}\n{}", text_of(&output));
    text_of(&output)
}
