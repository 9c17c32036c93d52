//! `rota logs`, and the following of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use rota_wire::rest::{Followed, LogPart, LogWindow, RunDetail, StreamEnd, Waiting};
use tokio::time::Instant;

use super::client::{Client, Path};
use super::out::{self, Out, note};
use super::run::detail;
use super::shown;
use super::table::{commands_terminal, one_line};
use crate::args::LogsArgs;
use crate::exit::Failure;

/// Before a stream that broke off is opened again.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a server that was there may be away.
const RESTART_MAX: Duration = Duration::from_secs(30);
const WINDOW_BYTES: &str = "262144";

/// A shard and an attempt's number.
type Key = (u32, u32);

/// How far a log was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Read {
    next: u64,
    is_closed: bool,
}

pub(crate) async fn run(client: &Client, out: Out, args: LogsArgs) -> Result<(), Failure> {
    let LogsArgs { run, follow: is_followed, shard, attempt } = args;
    if is_followed {
        follow(client, &run, shard, attempt, out).await?;
        return Ok(());
    }
    let found = detail(client, &run).await?;
    let keys = keys(&found, shard, attempt);
    if keys.is_empty() && shard.or(attempt).is_some() {
        return Err(Failure::failed("attempt_unknown", format!("{run} has no such shard or attempt")));
    }
    let is_labelled = keys.len() > 1;
    let mut windows = Vec::new();
    for key in keys {
        let mut read = Read::default();
        while let Some(window) = next_window(client, &run, key, &mut read).await? {
            match out.is_json {
                true => windows.push(window),
                false => out::print(&labelled(key, &window.text, is_labelled))?,
            }
        }
    }
    if out.is_json { out.show(&windows, |_| String::new()) } else { Ok(()) }
}

/// Prints what the attempts of a run say until it has ended; gives the ended run back. A stream that breaks off goes on
/// where it was.
pub(crate) async fn follow(
    client: &Client,
    run: &str,
    shard: Option<u32>,
    attempt: Option<u32>,
    out: Out,
) -> Result<RunDetail, Failure> {
    let path = Path::of(&["runs", run, "logs"])
        .with("follow", Some("true"))
        .with("shard", shard.map(|shard| shard.to_string()))
        .with("attempt", attempt.map(|attempt| attempt.to_string()));
    let mut last: Option<String> = None;
    let mut is_labelled = false;
    let mut broken: Option<Instant> = None;
    loop {
        let mut events = match client.events(path.clone(), last.as_deref()).await {
            // It is being restarted, perhaps.
            Err(Failure::Unreachable(_)) if broken.is_some_and(|since| since.elapsed() < RESTART_MAX) => {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            opened => opened?,
        };
        while let Some(event) = events.next().await {
            match event.name.as_str() {
                "log" => {
                    let part: LogPart = event.read()?;
                    if !out.is_json {
                        out::print(&labelled((part.shard, part.attempt), &part.text, is_labelled))?;
                    }
                    last = event.id;
                }
                "run" => {
                    let now: Followed = event.read()?;
                    is_labelled = now.run.shards > 1;
                    if let Some(waiting) = now.waiting.filter(|_| !out.is_json) {
                        // Not on stdout, which is the run's own log.
                        note(&format!("{}\n", one_line(&waits(&waiting))));
                    }
                }
                "end" => {
                    let end: StreamEnd = event.read()?;
                    if end.reason == "ended" {
                        return detail(client, run).await;
                    }
                    break;
                }
                _ => {}
            }
        }
        broken = Some(Instant::now());
        tokio::time::sleep(AGAIN).await;
    }
}

/// `again in 2 s (backoff)`, or `waits: cap (…)`.
fn waits(waiting: &Waiting) -> String {
    match waiting.left_ms {
        Some(ms) => format!("again in {} ({})", shown::duration(i64::try_from(ms).unwrap_or(i64::MAX)), waiting.why),
        None => format!("waits: {} ({})", waiting.why, waiting.text),
    }
}

/// The next part of a log; nothing if there is none at the moment.
async fn next_window(
    client: &Client,
    run: &str,
    (shard, no): Key,
    read: &mut Read,
) -> Result<Option<LogWindow>, Failure> {
    if read.is_closed {
        return Ok(None);
    }
    let path = Path::of(&["runs", run, "logs"])
        .with("shard", Some(shard.to_string()))
        .with("attempt", Some(no.to_string()))
        .with("from", Some(read.next.to_string()))
        .with("bytes", Some(WINDOW_BYTES));
    let window: LogWindow = client.get(path).await?;
    let has_moved = window.next > read.next;
    read.next = window.next;
    read.is_closed = window.is_closed && window.next >= window.len;
    Ok(has_moved.then_some(window))
}

/// The attempts whose logs are wanted: those that were named, else the last of each shard.
fn keys(found: &RunDetail, shard: Option<u32>, attempt: Option<u32>) -> Vec<Key> {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    let wanted = found.attempts.iter().filter(|seen| shard.is_none_or(|shard| shard == seen.shard));
    for seen in wanted.filter(|seen| attempt.is_none_or(|attempt| attempt == seen.no)) {
        let no = last.entry(seen.shard).or_default();
        *no = seen.no.max(*no);
    }
    last.into_iter().collect()
}

/// Each line with its shard and attempt in front, if there are several.
fn labelled((shard, no): Key, text: &str, is_labelled: bool) -> String {
    // A log is what a program printed; an escape in it could repaint the terminal.
    let clean = |line: &str| line.chars().filter(|c| *c == '\t' || !commands_terminal(*c)).collect::<String>();
    text.lines()
        .map(|line| match is_labelled {
            true => format!("[{shard}/{no}] {}\n", clean(line)),
            false => format!("{}\n", clean(line)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail_of(attempts: &[Key]) -> RunDetail {
        let attempts: Vec<serde_json::Value> = attempts
            .iter()
            .map(|(shard, no)| {
                serde_json::json!({"id": 1, "shard": shard, "no": no, "worker_name": "w", "state": "failed",
                    "at": "2026-12-01T02:00:00+08:00"})
            })
            .collect();
        serde_json::from_value(serde_json::json!({
            "run": "r91", "id": 91, "job": 1, "job_name": "settle", "app": "pay", "version": 14, "origin": "schedule",
            "slot": "2026-12-01T02:00:00+08:00", "slots": 1, "state": "success", "is_ended": true, "shards": 2,
            "at": "2026-12-01T02:00:00.004+08:00", "tries": 1, "tries_max": 1, "attempts": attempts
        }))
        .unwrap()
    }

    #[test]
    fn the_last_attempt_of_each_shard_is_meant() {
        let found = detail_of(&[(0, 1), (0, 2), (1, 1)]);
        let check = |shard, attempt, expected: &[Key]| assert_eq!(keys(&found, shard, attempt), expected);
        check(None, None, &[(0, 2), (1, 1)]);
        check(Some(0), None, &[(0, 2)]);
        check(Some(0), Some(1), &[(0, 1)]);
        check(Some(2), None, &[]);
    }

    #[test]
    fn a_wait_is_told_with_its_time_or_its_reason() {
        let waiting =
            |why: &str, left_ms| Waiting { shard: 0, why: why.to_owned(), text: "t".to_owned(), worker: None, left_ms };
        assert_eq!(waits(&waiting("cap", None)), "waits: cap (t)");
        assert_eq!(waits(&waiting("backoff", Some(1_800))), "again in 1.8s (backoff)");
    }

    #[test]
    fn lines_are_labelled_and_clean() {
        assert_eq!(labelled((1, 2), "a\nb\n", true), "[1/2] a\n[1/2] b\n");
        assert_eq!(labelled((0, 1), "a\x1b[31m\tb", false), "a[31m\tb\n");
        let marks = "\u{061c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{85}";
        assert_eq!(labelled((0, 1), &format!("a{marks}b 结算"), false), "ab 结算\n");
    }
}
