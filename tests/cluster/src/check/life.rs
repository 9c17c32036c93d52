//! Invariants 3, 4, 5 and 7: what rows say of attempts is what their workers did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rota_core::batch::{Attempt, AttemptState};
use rota_core::id::{AttemptId, JobId, RunId, Version};
use rota_core::job::{Delivery, Policy};
use rota_core::limits::Timing;
use rota_core::partition::{Outcome, Report};
use rota_core::why::Why;

use super::{Rule, Verdict, places};
use crate::oracle::{End, Oracle};
use crate::store::{Changes, Part, RunRow, is_released};

/// What is known beside rows and oracle.
#[derive(Debug)]
pub struct Life {
    policies: BTreeMap<(JobId, Version), Arc<Policy>>,
    release_after_ms: i64,
    slack_ms: i64,
    /// Shards with a success that was acknowledged while their run was open: nothing may follow in them.
    succeeded: BTreeSet<(RunId, u32)>,
}

impl Life {
    /// Checks under these limits; times of different servers are comparable up to `slack_ms`.
    #[must_use]
    pub fn new(timing: Timing, slack_ms: u64) -> Life {
        // Machines let a second of rounding pass, and their limits are whole milliseconds.
        let slack_ms = slack_ms as i64 + 1_100;
        let release_after_ms = timing.release_after_ms as i64;
        Life { policies: BTreeMap::new(), release_after_ms, slack_ms, succeeded: BTreeSet::new() }
    }

    fn policy(&mut self, part: &Part, job: JobId, version: Version) -> Arc<Policy> {
        let compile =
            || part.jobs[&job].versions[&version].compile().expect("a stored definition was compiled before").policy;
        self.policies.entry((job, version)).or_insert_with(compile).clone()
    }

    /// Checks a batch that has just been applied.
    pub fn applied(&mut self, part: &Part, changes: &Changes, oracle: &Oracle) -> Verdict {
        for (run, before) in &changes.attempts_set {
            let row = &part.runs[run];
            let after = row.attempt(before.id).expect("an attempt stays in its run");
            self.check_set(before, after, oracle)?;
        }
        for (run, attempt) in &changes.attempts_new {
            let row = &part.runs[run];
            let attempt = row.attempt(*attempt).expect("an attempt stays in its run");
            self.check_new(part, row, attempt, oracle)?;
        }
        for id in changes.runs_new.iter().chain(&changes.runs_set) {
            check_run(&part.runs[id])?;
        }
        places::applied(part, changes)
    }

    fn check_set(&self, before: &Attempt, after: &Attempt, oracle: &Oracle) -> Verdict {
        if before.state.is_terminal() && before.state != after.state {
            let text = format!("attempt {} was {} and is set to {}", after.id, before.state.word(), after.state.word());
            return Err(Rule::Terminal.broken(text));
        }
        if before.released_at.is_some() && before.released_at != after.released_at {
            return Err(Rule::Terminal.broken(format!("attempt {} was released, and is again", after.id)));
        }
        let end = oracle.get(after.id).and_then(|e| e.end);
        let claimed = match after.state {
            AttemptState::NotStarted if oracle.get(after.id).is_some() => {
                return Err(
                    Rule::AtMostOnce.broken(format!("attempt {} counts as not started, and was ({end:?})", after.id))
                );
            }
            AttemptState::Success => Some(End::Returned(Outcome::Success)),
            _ => None,
        };
        if let Some(claimed) = claimed.filter(|claimed| end.map(|(_, end)| end) != Some(*claimed)) {
            return Err(
                Rule::Terminal.broken(format!("attempt {} is said to have {claimed:?}, it did {end:?}", after.id))
            );
        }
        if before.released_at.is_none()
            && after.released_at.is_some()
            && oracle.is_running(after.id)
            && !self.is_presumed(after)
        {
            let text = format!("attempt {} ({}) gives its place away, and its code runs", after.id, after.state.word());
            return Err(Rule::Overlap.broken(text));
        }
        Ok(())
    }

    /// Whether its place was given away because it was silent for so long, which proves nothing.
    fn is_presumed(&self, attempt: &Attempt) -> bool {
        let since = if attempt.why == Some(Why::PresumedGone) { Some(attempt.at) } else { attempt.ended_at };
        match (since, attempt.released_at) {
            (Some(since), Some(released)) => released.since_ms(since) >= self.release_after_ms - self.slack_ms,
            _ => false,
        }
    }

    fn check_new(&mut self, part: &Part, row: &RunRow, attempt: &Attempt, oracle: &Oracle) -> Verdict {
        if self.succeeded.contains(&(row.run.id, attempt.shard)) {
            let text = format!("attempt {} begins after a success of its shard was acknowledged", attempt.id);
            return Err(Rule::Terminal.broken(text));
        }
        let policy = self.policy(part, row.run.job, row.run.version);
        let earlier = row.attempts.iter().filter(|a| a.shard == attempt.shard && a.no < attempt.no);
        for before in earlier {
            if !before.state.is_terminal() {
                let text = format!("attempt {} begins while {} is {}", attempt.id, before.id, before.state.word());
                return Err(Rule::AtMostOnce.broken(text));
            }
            if policy.delivery == Delivery::AtLeastOnce {
                continue;
            }
            let is_over = match before.state {
                AttemptState::NotStarted | AttemptState::Failed => true,
                AttemptState::Timeout => !oracle.is_running(before.id) && before.released_at.is_some(),
                _ => false,
            };
            if !is_over {
                let text = format!(
                    "at most once, but attempt {} follows {}, which is {} ({:?})",
                    attempt.id,
                    before.id,
                    before.state.word(),
                    before.why
                );
                return Err(Rule::AtMostOnce.broken(text));
            }
        }
        Ok(())
    }

    /// Results were acknowledged.
    pub fn acknowledged(&mut self, part: &Part, reports: &[Report], attempts: &[AttemptId]) {
        for report in reports.iter().filter(|r| r.outcome == Outcome::Success && attempts.contains(&r.attempt)) {
            let is_open = part.runs.get(&report.run).is_some_and(|row| !row.run.state.is_terminal());
            if is_open {
                self.succeeded.insert((report.run, report.shard));
            }
        }
    }

    /// A worker starts an attempt, for the `starts`-th time.
    pub fn started(&mut self, part: &Part, oracle: &Oracle, run: RunId, id: AttemptId, starts: u32) -> Verdict {
        if starts > 1 {
            return Err(Rule::StartsOnce.broken(format!("attempt {id} of {run} is started {starts} times")));
        }
        let Some(row) = part.runs.get(&run) else {
            return Err(Rule::SendRests.broken(format!("attempt {id} of {run} is started, and the run is not durable")));
        };
        let Some(attempt) = row.attempt(id) else {
            return Err(Rule::SendRests.broken(format!("attempt {id} of {run} is started, and is not durable")));
        };
        if attempt.state == AttemptState::NotStarted {
            return Err(Rule::AtMostOnce.broken(format!("attempt {id} of {run} is started, and counts as not started")));
        }
        if is_released(attempt) && !self.is_presumed(attempt) {
            let text =
                format!("attempt {id} of {run} is started, and had given its place away ({})", attempt.state.word());
            return Err(Rule::Overlap.broken(text));
        }
        let keeps_place = |other: &&Attempt| !is_released(other) || !self.is_presumed(other);
        let others = oracle.running_of(row.run.job).filter_map(|other| {
            let holder = part.runs.get(&oracle.get(other)?.run)?;
            holder.attempt(other).filter(keeps_place).map(|_| holder)
        });
        places::started(part, row, others)?;
        let policy = self.policy(part, row.run.job, row.run.version);
        if policy.delivery == Delivery::AtMostOnce {
            check_first_start(row, attempt, oracle)?;
        }
        Ok(())
    }
}

/// No other attempt of an at-most-once shard may have run, but one that failed.
fn check_first_start(row: &RunRow, attempt: &Attempt, oracle: &Oracle) -> Verdict {
    for other in row.attempts.iter().filter(|a| a.shard == attempt.shard && a.id != attempt.id) {
        let Some(execution) = oracle.get(other.id) else { continue };
        let has_failed = matches!(other.state, AttemptState::Failed | AttemptState::Timeout);
        if !has_failed || execution.end.is_none() {
            let text = format!(
                "at most once, but attempt {} is started after {} was ({}, {:?})",
                attempt.id,
                other.id,
                other.state.word(),
                execution.end
            );
            return Err(Rule::AtMostOnce.broken(text));
        }
    }
    Ok(())
}

fn check_run(row: &RunRow) -> Verdict {
    let run = &row.run;
    if !run.state.is_terminal() {
        return Ok(());
    }
    if let Some(open) = row.attempts.iter().find(|a| !a.state.is_terminal()) {
        let text = format!("{} is {}, and its attempt {} is {}", run.id, run.state.word(), open.id, open.state.word());
        return Err(Rule::Terminal.broken(text));
    }
    let was_started = || row.attempts.iter().find(|a| a.state != AttemptState::NotStarted);
    if let Some(attempt) = was_started().filter(|_| run.why == Some(Why::StartDeadline) && run.shards == 1) {
        let text =
            format!("{} never started in time, and its attempt {} is {}", run.id, attempt.id, attempt.state.word());
        return Err(Rule::Terminal.broken(text));
    }
    Ok(())
}
