//! Invariant 12: whatever waits is shown with its reason, and no longer than its deadline.

use std::collections::BTreeSet;

use rota_core::batch::Run;
use rota_core::id::RunId;
use rota_core::jitter::offset_ms;
use rota_core::job::JobState;
use rota_core::partition::{LISTED_MAX, Snapshot};
use rota_core::time::UnixMs;
use rota_core::why::Why;

use super::{Rule, Verdict};
use crate::store::Part;

/// Compares what a machine published with the rows; wall clocks are comparable up to `slack_ms`. Nobody waits in vain for what
/// lies before the begin of the term, at this wall time.
pub fn published(part: &Part, snapshot: &Snapshot, began: UnixMs, slack_ms: i64) -> Verdict {
    shown(part, snapshot)?;
    if snapshot.suspended.is_some() {
        return Ok(());
    }
    let is_judged = |why: Why| !matches!(why, Why::Frozen | Why::Thawing);
    for held in snapshot.held.iter().filter(|held| is_judged(held.why)) {
        let Some(job) = part.jobs.get(&held.job) else { continue };
        let waits_ms = offset_ms(held.job, held.slot, job.current.spec.jitter_ms) as i64;
        let in_term_ms = snapshot.at.since_ms(began);
        let beyond_ms = snapshot.at.since_ms(held.slot) - waits_ms;
        // Ten seconds: no longer than that does a machine trust a timer to the wall clock.
        if held.why == Why::Jitter && beyond_ms.min(in_term_ms) > slack_ms + 13_000 {
            let text = format!("slot {} of job {} waits {beyond_ms} ms beyond its jitter", held.slot, held.job);
            return Err(Rule::Wakes.broken(text));
        }
        let upstream_ms = rota_core::upstream::wait_max_ms(&job.current.spec.after) as i64;
        let is_upstream = held.why == Why::Upstream;
        // Ten seconds are left to an answer that is on its way, and a new term asks once more.
        let is_new = snapshot.at.since_ms(held.since) <= slack_ms + 13_000;
        if is_upstream && !is_new && beyond_ms > upstream_ms + slack_ms + 10_000 + 13_000 {
            let text = format!("slot {} of job {} waits {beyond_ms} ms for upstream jobs", held.slot, held.job);
            return Err(Rule::Wakes.broken(text));
        }
        let Some(start_ms) = job.current.spec.timeout.start_ms else { continue };
        let late_ms = beyond_ms - start_ms as i64;
        if late_ms.min(in_term_ms) > slack_ms + if is_upstream { 13_000 } else { 3_000 } {
            let text = format!("slot {} of job {} is held {late_ms} ms beyond its start deadline", held.slot, held.job);
            return Err(Rule::Wakes.broken(text));
        }
    }
    Ok(())
}

/// A shard that was never dispatched, of a run that goes on, is shown as waiting.
fn shown(part: &Part, snapshot: &Snapshot) -> Verdict {
    if snapshot.waiting.len() >= LISTED_MAX {
        return Ok(());
    }
    let shown: BTreeSet<(RunId, u32)> = snapshot.waiting.iter().map(|waiting| (waiting.run, waiting.shard)).collect();
    for id in &part.unclosed_all {
        let row = &part.runs[id];
        if row.run.state.is_terminal() || may_be_settled(part, &row.run) {
            continue;
        }
        let is_reused = |shard: u32| part.reruns.get(id).is_some_and(|rerun| rerun.reused.contains(&shard));
        let is_settled = |shard: u32| part.shards.get(id).is_some_and(|shards| shards.settled(shard).is_some());
        let has_attempt = |shard: u32| {
            is_reused(shard) || is_settled(shard) || row.attempts.iter().any(|attempt| attempt.shard == shard)
        };
        if let Some(shard) = (0..row.run.shards).find(|shard| !has_attempt(*shard) && !shown.contains(&(*id, *shard))) {
            return Err(Rule::Wakes.broken(format!("shard {shard} of {id} waits, and is not shown")));
        }
    }
    Ok(())
}

/// Whether a shard may have been settled without an attempt, while others of its run go on.
fn may_be_settled(part: &Part, run: &Run) -> bool {
    let job = &part.jobs[&run.job];
    let timeout = job.versions[&run.version].spec.timeout;
    let has_deadline = timeout.start_ms.is_some() || timeout.run_ms.is_some();
    let is_killed = matches!(run.why, Some(Why::KilledByUser | Why::CancelledByOverlap));
    has_deadline || is_killed || job.current.state == JobState::Deleted
}
