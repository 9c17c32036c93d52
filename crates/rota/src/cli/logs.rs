//! `rota logs`, and the following of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use rota_wire::rest::{LogWindow, RunDetail, Waiting};
use tokio::time::Instant;

use super::client::{Client, Path};
use super::out::{self, Out};
use super::run::detail;
use super::shown;
use super::table::{commands_terminal, one_line};
use crate::args::LogsArgs;
use crate::exit::Failure;

const POLL: Duration = Duration::from_millis(200);
/// How long lines may lag behind the end of their run.
const LAG: Duration = Duration::from_secs(2);
const WINDOW_BYTES: &str = "262144";

/// A shard and an attempt's number.
type Key = (u32, u32);

/// How far a log was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Read {
    next: u64,
    is_closed: bool,
}

/// What a run waits for, said once for each reason that lasts longer than a look.
#[derive(Default)]
struct Patience {
    seen: Option<String>,
    told: Option<String>,
}

impl Patience {
    fn look(&mut self, waiting: Option<&Waiting>) -> Option<String> {
        let now = waiting.map(|waiting| waiting.why.clone());
        let has_lasted = now.is_some() && now == self.seen && now != self.told;
        self.seen = now;
        let waiting = waiting.filter(|_| has_lasted)?;
        self.told.clone_from(&self.seen);
        Some(match waiting.left_ms {
            Some(ms) => {
                format!("again in {} ({})", shown::duration(i64::try_from(ms).unwrap_or(i64::MAX)), waiting.why)
            }
            None => format!("waits: {} ({})", waiting.why, waiting.text),
        })
    }
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

/// Prints what the attempts of a run say until it has ended; gives the ended run back.
pub(crate) async fn follow(
    client: &Client,
    run: &str,
    shard: Option<u32>,
    attempt: Option<u32>,
    out: Out,
) -> Result<RunDetail, Failure> {
    let mut reads: BTreeMap<Key, Read> = BTreeMap::new();
    let mut ended_since: Option<Instant> = None;
    let mut patience = Patience::default();
    loop {
        // The state is read before the logs, so that the last look at the logs comes after the end.
        let found = detail(client, run).await?;
        let keys: Vec<Key> = found
            .attempts
            .iter()
            .map(|seen| (seen.shard, seen.no))
            .filter(|(seen, no)| {
                shard.is_none_or(|wanted| wanted == *seen) && attempt.is_none_or(|wanted| wanted == *no)
            })
            .collect();
        let is_labelled = found.run.shards > 1;
        for key in &keys {
            let read = reads.entry(*key).or_default();
            while let Some(window) = next_window(client, run, *key, read).await? {
                if !out.is_json {
                    out::print(&labelled(*key, &window.text, is_labelled))?;
                }
            }
        }
        if let Some(waits) = patience.look(found.waiting.first())
            && !out.is_json
        {
            // Not on stdout, which is the run's own log.
            eprintln!("{}", one_line(&waits));
        }
        if found.run.is_ended {
            let since = *ended_since.get_or_insert_with(Instant::now);
            let is_read = keys.iter().all(|key| reads.get(key).is_some_and(|read| read.is_closed));
            // A target that prints nothing, such as a URL, never closes a log.
            let is_silent = reads.values().all(|read| read.next == 0) && since.elapsed() >= POLL;
            if is_read || is_silent || since.elapsed() >= LAG {
                return Ok(found);
            }
        }
        tokio::time::sleep(POLL).await;
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
    fn a_wait_that_lasts_is_told_once() {
        let waits = |why: &str, left_ms| Waiting { shard: 0, why: why.to_owned(), text: "t".to_owned(), left_ms };
        let (cap, backoff) = (waits("cap", None), waits("backoff", Some(1_800)));
        let mut patience = Patience::default();
        let mut told = Vec::new();
        for waiting in [Some(&cap), None, Some(&cap), Some(&cap), Some(&cap), Some(&backoff), Some(&backoff)] {
            told.push(patience.look(waiting).unwrap_or_default());
        }
        assert_eq!(told, ["", "", "", "waits: cap (t)", "", "", "again in 1.8s (backoff)"]);
    }

    #[test]
    fn lines_are_labelled_and_clean() {
        assert_eq!(labelled((1, 2), "a\nb\n", true), "[1/2] a\n[1/2] b\n");
        assert_eq!(labelled((0, 1), "a\x1b[31m\tb", false), "a[31m\tb\n");
        let marks = "\u{061c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{85}";
        assert_eq!(labelled((0, 1), &format!("a{marks}b 结算"), false), "ab 结算\n");
    }
}
