//! Shards: a broadcast reaches every worker and each shard its own, a killed shard stays killed, a retry that is wanted
//! elsewhere goes there, and no run succeeds with fewer shards than it must, nor fails with as many.
//!
//! What must succeed is computed here from the job as it was written; who succeeded is what the workers recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rota_core::batch::{Attempt, AttemptState, RunState};
use rota_core::id::{AttemptId, JobId, RunId, Version, WorkerId};
use rota_core::job::{Job, Target};
use rota_core::partition::Outcome;
use rota_core::shards::{OnLoss, Success};
use rota_core::why::Why;
use rota_core::worker::WorkerState;

use super::{Rule, Verdict};
use crate::oracle::{End, Oracle};
use crate::store::{Changes, Part, RunRow};

/// A worker that refused is left alone for at most so long, and a little for clocks that differ.
const AVOIDED_MS: i64 = 40_000;

/// What is known beside rows and oracle.
#[derive(Debug, Default)]
pub struct Shards {
    jobs: BTreeMap<(JobId, Version), Arc<Job>>,
    /// Shards whose kill was acknowledged while they were open.
    killed: BTreeSet<(RunId, u32)>,
    send_credits: u32,
}

impl Shards {
    /// Checks under so many send credits per worker.
    #[must_use]
    pub fn new(send_credits: u32) -> Shards {
        Shards { send_credits, ..Shards::default() }
    }

    fn job(&mut self, part: &Part, row: &RunRow) -> Arc<Job> {
        let key = (row.run.job, row.run.version);
        let compile = || Arc::new(part.jobs[&key.0].versions[&key.1].compile().expect("it was compiled before"));
        self.jobs.entry(key).or_insert_with(compile).clone()
    }

    /// The kill of a shard is acknowledged.
    pub fn killed(&mut self, part: &Part, run: RunId, shard: u32) -> Verdict {
        let Some(row) = part.runs.get(&run) else { return Ok(()) };
        let noted = part.shards.get(&run).and_then(|shards| shards.settled(shard));
        let is_noted = noted.is_some_and(|settled| settled.state == RunState::Killed);
        let is_whole = matches!(row.run.why, Some(Why::KilledByUser | Why::CancelledByOverlap));
        if !is_noted && !is_whole {
            let text = format!("the kill of shard {shard} of {run} is acknowledged, and not durable");
            return Err(Rule::Acknowledged.broken(text));
        }
        self.killed.insert((run, shard));
        Ok(())
    }

    /// Checks a batch that has just been applied.
    pub fn applied(&mut self, part: &Part, changes: &Changes, oracle: &Oracle) -> Verdict {
        for id in &changes.runs_new {
            let row = &part.runs[id];
            let job = self.job(part, row);
            if job.policy.sharding.is_broadcast && row.run.shards > 0 {
                check_frozen_set(part, row, &job, changes)?;
            }
        }
        for (run, attempt) in &changes.attempts_new {
            let row = &part.runs[run];
            let attempt = row.attempt(*attempt).expect("an attempt stays in its run");
            self.check_new(part, row, attempt, changes)?;
        }
        for id in changes.runs_new.iter().chain(&changes.runs_set) {
            self.check_end(part, &part.runs[id], oracle)?;
        }
        Ok(())
    }

    fn check_new(&mut self, part: &Part, row: &RunRow, attempt: &Attempt, changes: &Changes) -> Verdict {
        let broken =
            |text: String| Err(Rule::Shards.broken(format!("attempt {} of {} {text}", attempt.id, row.run.id)));
        if self.killed.contains(&(row.run.id, attempt.shard)) {
            return broken("begins after its shard was killed".to_owned());
        }
        let job = self.job(part, row);
        let own = part.shards.get(&row.run.id).and_then(|shards| shards.workers.get(attempt.shard as usize));
        if let Some(own) = own
            && *own != attempt.worker
            && job.policy.sharding.on_loss != Some(OnLoss::Reassign)
        {
            return broken(format!("goes to w{}, and its shard is w{own}'s", attempt.worker));
        }
        if job.policy.retry.elsewhere && own.is_none() {
            return self.check_elsewhere(part, row, attempt, &job, changes);
        }
        Ok(())
    }

    /// A retry on a worker that failed before: nobody else could have taken it.
    fn check_elsewhere(&self, part: &Part, row: &RunRow, attempt: &Attempt, job: &Job, changes: &Changes) -> Verdict {
        let earlier = row.attempts.iter().filter(|a| a.shard == attempt.shard && a.no < attempt.no);
        let failed: BTreeSet<WorkerId> =
            earlier.filter(|a| a.state != AttemptState::NotStarted).map(|a| a.worker).collect();
        // Which workers the rate of their group shut out is not in the rows.
        let is_shut = part.apps.get(&row.run.app).is_some_and(|app| !app.rates.groups.is_empty());
        if !failed.contains(&attempt.worker) || is_shut {
            return Ok(());
        }
        let others = part.workers.keys().filter(|worker| !failed.contains(worker));
        let able = others.filter(|worker| self.could_take(part, **worker, job, attempt, changes));
        if let Some(other) = able.min() {
            let text = format!("is wanted elsewhere, and goes to w{} again while w{other} is idle", attempt.worker);
            return Err(Rule::Shards.broken(format!("attempt {} of {} {text}", attempt.id, row.run.id)));
        }
        Ok(())
    }

    /// Whether a worker could take an attempt of a job whatever the order of things in this batch was.
    fn could_take(&self, part: &Part, worker: WorkerId, job: &Job, attempt: &Attempt, changes: &Changes) -> bool {
        let (registration, state) = &part.workers[&worker];
        if *state != WorkerState::Online || changes.workers_set.contains(&worker) || !is_for(job, part, worker) {
            return false;
        }
        let of_it = || part.runs.values().flat_map(|row| &row.attempts).filter(|a| a.worker == worker);
        let was_avoided = of_it().any(|a| {
            let is_near = |at: rota_core::time::UnixMs| (attempt.at.since_ms(at)).abs() < AVOIDED_MS;
            // What was killed may not have reached it either.
            let may_have_refused = matches!(a.state, AttemptState::NotStarted | AttemptState::Killed);
            may_have_refused && a.ended_at.is_some_and(is_near)
        });
        // Others that were released within this batch may have held their places a moment ago.
        let is_busy = |a: &&Attempt| a.released_at.is_none() || a.released_at.is_some_and(|at| at >= attempt.at);
        let load = of_it().filter(is_busy).count();
        let set = changes.attempts_set.iter().filter(|(_, before)| before.worker == worker).count();
        let most = u32::try_from(load + set).unwrap_or(u32::MAX);
        let has_room = registration.capacity == 0 || most < registration.capacity;
        !was_avoided && has_room && most < self.send_credits
    }

    fn check_end(&mut self, part: &Part, row: &RunRow, oracle: &Oracle) -> Verdict {
        let run = &row.run;
        if !run.state.is_terminal() || run.shards == 0 || run.state == RunState::Killed {
            return Ok(());
        }
        let job = self.job(part, row);
        let required = required(job.policy.sharding.success, run.shards);
        let noted = part.shards.get(&run.id);
        let reused = part.reruns.get(&run.id).map_or(&[][..], |rerun| &rerun.reused);
        let counts = |shard: u32| {
            let is_settled = noted.is_some_and(|shards| shards.settled(shard).is_some());
            !is_settled && !self.killed.contains(&(run.id, shard))
        };
        let is_good = |shard: &u32| {
            let has_succeeded = |a: &Attempt| {
                let end = oracle.get(a.id).and_then(|e| e.end);
                a.shard == *shard && matches!(end, Some((_, End::Returned(Outcome::Success))))
            };
            reused.contains(shard) || (counts(*shard) && row.attempts.iter().any(has_succeeded))
        };
        let succeeded = (0..run.shards).filter(is_good).count();
        if run.state == RunState::Success && succeeded < required {
            let text = format!("{} is a success with {succeeded} of {} shards; {required} must be", run.id, run.shards);
            return Err(Rule::Terminal.broken(text));
        }
        // What a machine was told, and not only what happened: a result may still be on its way.
        let is_told = |shard: &u32| {
            let is_good = |a: &Attempt| {
                a.shard == *shard && (a.state == AttemptState::Success || a.why == Some(Why::LateSuccess))
            };
            reused.contains(shard) || (counts(*shard) && row.attempts.iter().any(is_good))
        };
        let told = (0..run.shards).filter(is_told).count();
        if run.state != RunState::Success && told >= required {
            let text = format!("{} is {} with {told} successes; {required} are enough", run.id, run.state.word());
            return Err(Rule::Shards.broken(text));
        }
        Ok(())
    }

    /// A worker starts an attempt: of a broadcast's shard, the one whose it is, unless others may take it.
    pub fn started(&mut self, part: &Part, run: RunId, shard: u32, worker: Option<WorkerId>, id: AttemptId) -> Verdict {
        let Some(row) = part.runs.get(&run) else { return Ok(()) };
        let job = self.job(part, row);
        let own = part.shards.get(&run).and_then(|shards| shards.workers.get(shard as usize).copied());
        let may_move = job.policy.sharding.on_loss == Some(OnLoss::Reassign);
        if job.policy.sharding.is_broadcast && !may_move && worker.is_some() && own != worker {
            let text = format!("shard {shard} of {run} is {own:?}'s, and attempt {id} of it starts on {worker:?}");
            return Err(Rule::Shards.broken(text));
        }
        Ok(())
    }
}

/// Shards that must succeed, as the job says it.
fn required(success: Success, shards: u32) -> usize {
    let shards = shards as usize;
    match success {
        Success::All => shards,
        Success::BestEffort => 1,
        Success::Count(count) => count as usize,
        Success::Percent(percent) => (1..=shards).find(|n| n * 100 >= percent as usize * shards).unwrap_or(shards),
    }
}

/// Whether a job may go to a worker, whatever that does now.
fn is_for(job: &Job, part: &Part, worker: WorkerId) -> bool {
    let registration = &part.workers[&worker].0;
    let Target::Handler { name, .. } = &job.body.target else { return false };
    registration.app == job.app
        && registration.handlers.contains(name)
        && job.policy.selector.matches(&registration.labels)
}

/// A broadcast has one shard for each worker that is eligible when it is made, and for no other.
fn check_frozen_set(part: &Part, row: &RunRow, job: &Job, changes: &Changes) -> Verdict {
    let broken = |text: String| Err(Rule::Shards.broken(format!("the broadcast {} {text}", row.run.id)));
    let Some(shards) = part.shards.get(&row.run.id) else {
        return broken("does not say whose its shards are".to_owned());
    };
    let set: BTreeSet<WorkerId> = shards.workers.iter().copied().collect();
    if set.len() != shards.workers.len() || set.len() != row.run.shards as usize {
        return broken(format!("has {} shards, and they are {:?}'s", row.run.shards, shards.workers));
    }
    if part.reruns.contains_key(&row.run.id) {
        return Ok(()); // it may keep the set of the run that it repeats
    }
    let is_settled = |worker: &&WorkerId| !changes.workers_set.contains(worker);
    if let Some(odd) = set.iter().filter(is_settled).find(|worker| !is_for(job, part, **worker)) {
        return broken(format!("has a shard for w{odd}, which is not eligible"));
    }
    let is_missing = |worker: &&WorkerId| {
        part.workers[*worker].1 == WorkerState::Online && is_for(job, part, **worker) && !set.contains(worker)
    };
    if let Some(missing) = part.workers.keys().filter(is_settled).find(is_missing) {
        return broken(format!("has no shard for w{missing}, which is eligible"));
    }
    Ok(())
}
