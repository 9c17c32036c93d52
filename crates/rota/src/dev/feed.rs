//! One line for each finished run, and for each attempt that is tried again.

use std::collections::BTreeSet;
use std::time::Duration;

use rota_wire::rest::{Attempt, Page, Run, RunDetail};

use crate::cli::client::{Client, Path};
use crate::cli::out;
use crate::cli::shown;
use crate::cli::table::{one_line, width};
use crate::exit::Failure;

/// Before a stream that broke off is opened again.
const AGAIN: Duration = Duration::from_secs(1);
/// Runs looked at in one go; a playground has fewer between two looks.
const RUNS: usize = 100;
/// Things remembered as told.
const TOLD_MAX: usize = 10_000;

/// What was told already: a run's end, or the end of one of its attempts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Told {
    Run(u64),
    Attempt(u64),
}

/// The lines under the first screen.
pub(super) struct Feed {
    told: BTreeSet<Told>,
    name_width: usize,
}

impl Feed {
    /// A feed that leaves out what had ended before.
    pub(super) async fn start(client: &Client) -> Result<Feed, Failure> {
        let runs = look(client).await?;
        let ended = runs.iter().filter(|run| run.is_ended).map(|run| Told::Run(run.id));
        Ok(Feed { told: ended.collect(), name_width: 5 })
    }

    /// Tells until the process ends.
    pub(super) async fn run(mut self, client: &Client) -> Result<(), Failure> {
        loop {
            // A server that stops answers no more; that is for it to tell.
            if let Ok(mut events) = client.events(Path::of(&["runs", "stream"]), None).await {
                // What changed before the stream was open, or is not told by it, is in the list.
                self.catch_up(client).await?;
                while let Some(event) = events.next().await {
                    match event.name.as_str() {
                        "run" => self.tell(client, &[event.read()?]).await?,
                        "dropped" => self.catch_up(client).await?,
                        _ => {}
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn catch_up(&mut self, client: &Client) -> Result<(), Failure> {
        let Ok(mut runs) = look(client).await else { return Ok(()) };
        runs.reverse();
        self.tell(client, &runs).await
    }

    async fn tell(&mut self, client: &Client, runs: &[Run]) -> Result<(), Failure> {
        let mut text = String::new();
        for run in runs {
            if run.tries_max > 1 && !self.told.contains(&Told::Run(run.id)) {
                let found: Result<RunDetail, Failure> = client.get(Path::of(&["runs", &run.run])).await;
                text.push_str(&found.map(|found| self.retries(&found)).unwrap_or_default());
            }
            text.push_str(&self.end(run));
        }
        while self.told.len() > TOLD_MAX {
            self.told.pop_first();
        }
        if text.is_empty() { Ok(()) } else { Ok(out::print(&text)?) }
    }

    /// The line of a run that has ended and was not told.
    fn end(&mut self, run: &Run) -> String {
        if !run.is_ended || !self.told.insert(Told::Run(run.id)) {
            return String::new();
        }
        let mut facts = Vec::new();
        facts.extend(run.why.clone());
        facts.extend(run.late_ms.map(|ms| format!("{} late", shown::duration(ms))));
        facts.extend(run.took_ms.map(shown::duration));
        let message = run.message.as_ref().map(|text| format!("  \"{}\"", clip(text))).unwrap_or_default();
        self.line(&run.slot, run, &run.state, &format!("{}{message}", facts.join(", ")))
    }

    /// The lines of attempts that failed and are followed by another one.
    fn retries(&mut self, found: &RunDetail) -> String {
        let mut text = String::new();
        for attempt in found.attempts.iter().filter(|attempt| is_failure(attempt)) {
            let is_last = !found.attempts.iter().any(|other| other.shard == attempt.shard && other.no > attempt.no);
            if (is_last && found.run.is_ended) || !self.told.insert(Told::Attempt(attempt.id)) {
                continue;
            }
            let why = attempt.why.clone().unwrap_or_else(|| attempt.state.clone());
            let tries = format!("{why}, try {} of {}", attempt.no, found.run.tries_max);
            let message = attempt.message.as_ref().map(|said| format!("  \"{}\"", clip(said))).unwrap_or_default();
            text.push_str(&self.line(&found.run.slot, &found.run, "retry", &format!("{tries}{message}")));
        }
        text
    }

    fn line(&mut self, at: &str, run: &Run, state: &str, rest: &str) -> String {
        self.name_width = self.name_width.max(width(&run.job_name));
        let pad = " ".repeat(self.name_width - width(&run.job_name));
        format!("{}  {}{pad}  {}  {state:<7}  {}\n", shown::clock_offset(at), run.job_name, run.run, rest.trim_end())
    }
}

fn is_failure(attempt: &Attempt) -> bool {
    matches!(attempt.state.as_str(), "failed" | "timeout" | "lost")
}

async fn look(client: &Client) -> Result<Vec<Run>, Failure> {
    let page: Page<Run> = client.get(Path::of(&["runs"]).with("limit", Some(RUNS.to_string()))).await?;
    Ok(page.items)
}

/// A message that fits into a line.
fn clip(text: &str) -> String {
    const CHARS: usize = 60;
    let line = one_line(text.trim());
    match line.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed() -> Feed {
        Feed { told: BTreeSet::new(), name_width: 5 }
    }

    fn detail(is_ended: bool, attempts: &[(u64, u32, &str)]) -> RunDetail {
        let attempts: Vec<serde_json::Value> = attempts
            .iter()
            .map(|(id, no, state)| {
                serde_json::json!({"id": id, "shard": 0, "no": no, "worker_name": "demo-1", "state": state,
                    "why": (*state == "failed").then_some("handler_failed"), "at": "2026-12-01T10:00:10Z"})
            })
            .collect();
        serde_json::from_value(serde_json::json!({
            "run": "r2", "id": 2, "job": 1, "job_name": "flaky", "app": "demo", "version": 1, "origin": "schedule",
            "slot": "2026-12-01T10:00:10+08:00", "slots": 1, "state": if is_ended { "success" } else { "pending" },
            "is_ended": is_ended, "shards": 1, "at": "2026-12-01T10:00:10.002+08:00", "late_ms": 2, "took_ms": 11,
            "tries": 1, "tries_max": 3, "message": "done", "attempts": attempts
        }))
        .unwrap()
    }

    #[test]
    fn an_end_is_told_once() {
        let mut feed = feed();
        let found = detail(true, &[]);
        assert_eq!(feed.end(&found.run), "10:00:10 +08:00  flaky  r2  success  2ms late, 11ms  \"done\"\n");
        assert_eq!(feed.end(&found.run), "");
        assert_eq!(feed.end(&detail(false, &[]).run), "");
    }

    #[test]
    fn a_failed_attempt_that_is_not_the_end_is_a_retry() {
        let mut feed = feed();
        let line = "10:00:10 +08:00  flaky  r2  retry    handler_failed, try 1 of 3\n";
        assert_eq!(feed.retries(&detail(false, &[(2, 1, "failed")])), line);
        assert_eq!(feed.retries(&detail(true, &[(2, 1, "failed"), (3, 2, "success")])), "");
        assert_eq!(super::tests::feed().retries(&detail(true, &[(2, 1, "failed")])), "");
    }

    #[test]
    fn messages_are_clipped_at_characters() {
        assert_eq!(clip("a\nb"), "a b");
        assert_eq!(clip(&"结".repeat(61)), format!("{}…", "结".repeat(60)));
    }
}
