//! What attempts print is kept, bounded, and found again.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fmt::Write;

use rota_core::id::RunId;
use rota_core::time::UnixMs;
use rota_port::logs::{LogKey, Logs, Window};
use rota_store::logs::{FileLogs, Limits};
use tempfile::TempDir;

const T: UnixMs = UnixMs(1_800_000_000_000);
const SMALL: Limits = Limits { head_bytes: 1_000, tail_bytes: 1_000, line_bytes: 100, ..Limits::STANDARD };

fn key(run: u64) -> LogKey {
    LogKey { run: RunId(run), shard: 0, no: 1 }
}

fn open(dir: &TempDir, limits: Limits) -> FileLogs {
    FileLogs::open(&dir.path().join("logs"), limits).unwrap()
}

fn all(logs: &FileLogs, key: LogKey) -> Window {
    logs.read(key, 0, 1 << 20).unwrap()
}

fn append(logs: &FileLogs, key: LogKey, lines: &[&str]) {
    logs.append(key, T, lines.iter().map(|line| (*line).to_owned()).collect());
}

/// Ten bytes a line, its end among them.
fn numbered(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|n| format!("line {n:04}")).collect()
}

fn text(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").unwrap();
        text
    })
}

#[test]
fn lines_are_read_while_the_log_is_open_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(&dir, Limits::STANDARD);
    assert_eq!(all(&logs, key(1)), Window::default());
    append(&logs, key(1), &["hello", "", "wörld"]);
    append(&logs, LogKey { shard: 1, ..key(1) }, &["another shard"]);
    append(&logs, key(1), &["bye"]);
    let expected = "hello\n\nwörld\nbye\n";
    let len = expected.len() as u64;
    let window = Window { from: 0, text: expected.to_owned(), next: len, len, is_closed: false };
    assert_eq!(all(&logs, key(1)), window);
    logs.close(key(1));
    append(&logs, key(1), &["too late"]);
    assert_eq!(all(&logs, key(1)), Window { is_closed: true, ..window });
    assert_eq!(all(&logs, LogKey { shard: 1, ..key(1) }).text, "another shard\n");
}

/// Field case B112: a log is read in windows, however long it is.
#[test]
fn windows_are_whole_lines_and_miss_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(&dir, Limits::STANDARD);
    let lines: Vec<String> = (0..500).map(|n| "äbc".repeat(n % 23)).collect();
    for some in lines.chunks(7) {
        logs.append(key(1), T, some.to_vec());
    }
    for bytes_max in [100, 333, 100_000] {
        let (mut read, mut from) = (String::new(), 0);
        loop {
            let window = logs.read(key(1), from, bytes_max).unwrap();
            assert!(window.text.len() <= bytes_max as usize && (window.text.is_empty() || window.text.ends_with('\n')));
            assert_eq!(window.next, from + window.text.len() as u64);
            if window.text.is_empty() {
                assert_eq!(window.next, window.len);
                break;
            }
            read.push_str(&window.text);
            from = window.next;
        }
        assert_eq!(read, text(&lines));
    }
    // A line longer than the window comes in parts, at the edges of characters.
    append(&logs, key(2), &[&"ü".repeat(50)]);
    let window = logs.read(key(2), 0, 33).unwrap();
    assert_eq!((window.text, window.next), ("ü".repeat(16), 32));
}

#[test]
fn head_and_tail_are_kept_and_the_cut_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(&dir, SMALL);
    let lines = numbered(0..1_000);
    for some in lines.chunks(3) {
        logs.append(key(1), T, some.to_vec());
    }
    let check = |logs: &FileLogs| {
        let window = all(logs, key(1));
        assert_eq!((window.next, window.len), (10_000, 10_000));
        let (head, rest) = window.text.split_at(1_000);
        assert_eq!(head, text(&lines[..100]));
        let (mark, tail) = rest.split_once('\n').unwrap();
        let missing = 9_000 - tail.len();
        assert_eq!(mark, format!("[{missing} bytes are missing here]"));
        assert!((500..=1_000).contains(&tail.len()), "{} bytes of tail", tail.len());
        assert_eq!(tail, text(&lines[1_000 - tail.len() / 10..]));
        // From within the cut on: the mark, then the tail.
        let within = logs.read(key(1), 5_000, 1 << 20).unwrap();
        assert_eq!(within.text, format!("[{} bytes are missing here]\n{tail}", missing - 4_000));
    };
    check(&logs);
    drop(logs);
    let logs = open(&dir, SMALL);
    check(&logs);
    logs.close(key(1));
    check(&logs);
    let tails = std::fs::read_dir(dir.path().join("logs")).unwrap();
    let left = tails.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "tail"));
    assert_eq!(left.count(), 0);
}

/// Field case B112: also one of a single line.
#[test]
fn a_long_line_is_cut_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(&dir, SMALL);
    append(&logs, key(1), &[&"ü".repeat(75), "next"]);
    let expected = format!("{} [50 bytes of this line were cut]\nnext\n", "ü".repeat(50));
    assert_eq!(all(&logs, key(1)).text, expected);
}

#[test]
fn a_log_goes_on_after_a_restart_and_a_closed_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(&dir, Limits::STANDARD);
    append(&logs, key(1), &["before"]);
    append(&logs, key(2), &["done"]);
    logs.close(key(2));
    drop(logs);
    let logs = open(&dir, Limits::STANDARD);
    append(&logs, key(1), &["after"]);
    append(&logs, key(2), &["late"]);
    assert_eq!(all(&logs, key(1)).text, "before\nafter\n");
    let closed = all(&logs, key(2));
    assert_eq!((closed.text.as_str(), closed.is_closed), ("done\n", true));
}

#[test]
fn what_a_crash_tore_off_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(&dir, SMALL);
    append(&logs, key(1), &["whole"]);
    logs.append(key(2), T, numbered(0..150));
    all(&logs, key(2));
    drop(logs);
    for entry in std::fs::read_dir(dir.path().join("logs")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(b"torn\0\0\0");
        std::fs::write(&path, bytes).unwrap();
    }
    let logs = open(&dir, SMALL);
    assert_eq!(all(&logs, key(1)).text, "whole\n");
    append(&logs, key(1), &["more"]);
    logs.append(key(2), T, numbered(150..160));
    assert_eq!(all(&logs, key(1)).text, "whole\nmore\n");
    assert_eq!(all(&logs, key(2)).text, text(&numbered(0..160)));
}

#[test]
fn sealed_segments_are_searched() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { segment_bytes: 2_000, ..SMALL };
    let mut logs = open(&dir, limits);
    for round in 0..20 {
        for run in 0..30 {
            append(&logs, key(run), &[&format!("round {round} of run {run}")]);
        }
        all(&logs, key(0));
        if round == 10 {
            drop(logs);
            logs = open(&dir, limits);
        }
    }
    let files = |kind: &str| {
        let files = std::fs::read_dir(dir.path().join("logs")).unwrap();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|found| found == kind)).count()
    };
    assert!(files("idx") > 5, "{} segments are sealed", files("idx"));
    for run in 0..30 {
        let expected: Vec<String> = (0..20).map(|round| format!("round {round} of run {run}")).collect();
        assert_eq!(all(&logs, key(run)).text, text(&expected));
    }
    assert_eq!(all(&logs, key(30)), Window::default());
}

#[test]
fn whole_segments_go_when_they_are_too_many_or_too_old() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(&dir, Limits { segment_bytes: 500, total_bytes: 5_000, ..Limits::STANDARD });
    for run in 0..100 {
        logs.append(key(run), T, numbered(0..20));
        logs.close(key(run));
        // Each is written before the next comes, so that segments stay small.
        all(&logs, key(run));
    }
    assert_eq!(all(&logs, key(0)), Window::default());
    assert_eq!(all(&logs, key(99)).text, text(&numbered(0..20)));
    let old = Limits { segment_bytes: 500, ..Limits::STANDARD };
    drop(logs);
    let logs = open(&dir, old);
    logs.append(key(200), T.plus_ms(8 * 24 * 3_600_000), numbered(0..60));
    all(&logs, key(200));
    assert_eq!(all(&logs, key(99)), Window::default());
    assert_eq!(all(&logs, key(200)).text, text(&numbered(0..60)));
}

#[test]
fn dropped_lines_are_counted_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let logs = open(&dir, Limits { queue_bytes: 0, ..Limits::STANDARD });
    append(&logs, key(1), &["one", "two", "three"]);
    assert_eq!(all(&logs, key(1)).text, "[3 lines were dropped here: the writer of the logs was behind]\n");
    assert_eq!(logs.dropped(), 3);
    append(&logs, key(2), &["four"]);
    logs.close(key(2));
    let last = all(&logs, key(2));
    assert!(last.text.starts_with("[1 lines were dropped here"), "{}", last.text);
    assert_eq!(logs.dropped(), 4);
}

#[test]
fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let logs = open(&dir, Limits { segment_bytes: 500, ..SMALL });
    logs.append(key(1), T, numbered(0..300));
    all(&logs, key(1));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.path().join("logs")), 0o700);
    let mut seen = 0;
    for entry in std::fs::read_dir(dir.path().join("logs")).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
        seen += 1;
    }
    assert!(seen >= 3, "a segment, its index and a tail, but {seen} files");
}
