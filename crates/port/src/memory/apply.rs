//! Applying batches.

use std::collections::btree_map::Entry;
use std::sync::Arc;

use rota_core::batch::{Attempt, Batch, Row};
use rota_core::id::JobId;
use rota_core::job::{Definition, JobState, Pause};
use rota_core::worker::Registration;

use super::state::{AttemptKey, Header, State, TakenName};
use crate::history::StateChange;
use crate::store::{Error, Outcome};

impl State {
    pub(super) fn apply(&mut self, batch: &Batch) -> Result<Outcome, Error> {
        let header = self.header(batch.partition);
        if batch.epoch != header.epoch || batch.seq.0 > header.seq.0 + 1 {
            return Ok(Outcome::Fenced { stored: header.seq });
        }
        if batch.seq <= header.seq {
            return Ok(Outcome::Repeated);
        }
        if batch.mark < header.mark {
            return Err(wrong(format!("the mark of partition {} went back", batch.partition)));
        }
        for row in &batch.rows {
            self.apply_row(batch, row)?;
        }
        self.note_ends(batch);
        let ends = self.watch.ends_of(batch);
        self.alert_ends.extend(&ends);
        self.watch.note_durable(&ends);
        self.headers[usize::from(batch.partition.0)] =
            Header { epoch: batch.epoch, seq: batch.seq, mark: batch.mark, at: batch.at, floor: batch.floor };
        Ok(Outcome::Applied)
    }

    fn apply_row(&mut self, batch: &Batch, row: &Row) -> Result<(), Error> {
        match row {
            Row::Run(run) => match self.runs.entry(run.id) {
                Entry::Occupied(_) => Err(wrong(format!("run {} exists already", run.id))),
                Entry::Vacant(place) => {
                    place.insert((**run).clone());
                    Ok(())
                }
            },
            Row::RunSet { run, job: _, state, why, ended_at } => {
                let stored = self.runs.get_mut(run).ok_or_else(|| wrong(format!("there is no run {run}")))?;
                (stored.state, stored.why, stored.ended_at) = (*state, *why, *ended_at);
                Ok(())
            }
            Row::Attempt(attempt) => self.insert_attempt(attempt),
            Row::AttemptSet(attempt) => self.set_attempt(attempt),
            Row::Definition(definition) => self.define(definition),
            Row::JobState { job, state, at, by, reason } => {
                let versions = self.jobs.get_mut(job).ok_or_else(|| wrong(format!("there is no job {job}")))?;
                let current = versions.last_mut().expect("a job has a version");
                current.state = *state;
                current.pause = (*state == JobState::Paused).then(|| Pause {
                    by: by.to_string(),
                    at: *at,
                    reason: reason.as_deref().map(str::to_owned),
                });
                let (no, by, reason) = (self.history.len() as u64 + 1, Arc::clone(by), reason.clone());
                self.history.push(StateChange { no, job: *job, state: *state, at: *at, by, reason });
                self.free_if_deleted(*job, *state);
                Ok(())
            }
            Row::Worker { worker, state } => {
                self.workers.insert(worker.id, (Registration::clone(worker), *state));
                Ok(())
            }
            Row::WorkerState { worker, state } => {
                let stored =
                    self.workers.get_mut(worker).ok_or_else(|| wrong(format!("there is no worker {worker}")))?;
                stored.1 = *state;
                Ok(())
            }
            Row::Exception { job, exception } => {
                match exception {
                    Some(exception) => self.exceptions.insert(*job, (batch.partition, *exception)),
                    None => self.exceptions.remove(job),
                };
                Ok(())
            }
            Row::Request { job, request_id, run } => {
                if let Some(request) = self.requests.get_mut(&(*job, request_id.to_string())) {
                    request.run = Some(*run);
                }
                Ok(())
            }
            Row::Rerun(rerun) => {
                self.reruns.insert(rerun.run, Arc::clone(rerun));
                Ok(())
            }
            Row::Merged { run, into } => {
                self.merged.insert(*run, *into);
                Ok(())
            }
            Row::Child(link) => {
                self.links.insert(link.run, *link);
                self.notes.remove(&link.note);
                Ok(())
            }
            Row::Shards(shards) => {
                self.shards.insert(shards.run, Arc::clone(shards));
                Ok(())
            }
            Row::Trace { run, parent } => {
                self.parents.insert(*run, Arc::clone(parent));
                Ok(())
            }
            Row::Freeze(freeze) => {
                self.freezes.insert((batch.partition, freeze.id), (**freeze).clone());
                Ok(())
            }
            Row::Backfill(backfill) => {
                self.backfills.insert(backfill.id, (batch.partition, (**backfill).clone()));
                Ok(())
            }
            Row::BackfillRun { run, backfill } => {
                self.backfill_runs.insert(*run, *backfill);
                Ok(())
            }
            Row::Listed { run, is_open } => {
                if *is_open {
                    self.listed.insert(*run, batch.partition);
                } else {
                    self.listed.remove(run);
                }
                Ok(())
            }
        }
    }

    fn insert_attempt(&mut self, attempt: &Attempt) -> Result<(), Error> {
        if !self.runs.contains_key(&attempt.run) {
            return Err(wrong(format!("there is no run {}", attempt.run)));
        }
        let is_first = attempt.shard == 0 && attempt.no == 1;
        if is_first != (attempt.id == attempt.run.first_attempt()) {
            return Err(wrong(format!(
                "attempt {} cannot be attempt {} of shard {}",
                attempt.id, attempt.no, attempt.shard
            )));
        }
        match self.attempts.entry(key(attempt)) {
            Entry::Occupied(_) => Err(wrong(format!("attempt {} exists already", attempt.id))),
            Entry::Vacant(place) => {
                place.insert(attempt.clone());
                Ok(())
            }
        }
    }

    /// What never changes of an attempt is left as it was inserted.
    fn set_attempt(&mut self, attempt: &Attempt) -> Result<(), Error> {
        let stored =
            self.attempts.get_mut(&key(attempt)).ok_or_else(|| wrong(format!("there is no attempt {}", attempt.id)))?;
        stored.state = attempt.state;
        stored.why = attempt.why;
        stored.ended_at = attempt.ended_at;
        stored.released_at = attempt.released_at;
        stored.message.clone_from(&attempt.message);
        Ok(())
    }

    fn define(&mut self, definition: &Definition) -> Result<(), Error> {
        let Some((app, _)) = self.apps.get(&definition.app) else {
            return Err(wrong(format!("job {} names app {}, which does not exist", definition.id, definition.app)));
        };
        let name = (app.namespace.clone(), definition.name.clone());
        let versions = self.jobs.entry(definition.id).or_default();
        if versions.last().is_some_and(|current| current.version >= definition.version) {
            return Err(wrong(format!("job {} has version {} already", definition.id, definition.version)));
        }
        versions.push(definition.clone());
        self.watch.define(definition);
        self.upstreams.retain(|(job, _, _)| *job != definition.id);
        self.upstreams.extend(definition.spec.after.iter().map(|edge| (definition.id, edge.job, 0)));
        let fresh = TakenName { job: definition.id, at: definition.at, is_used: true };
        let taken = self.job_names.entry(name).or_insert(fresh);
        if taken.job == definition.id {
            taken.is_used = true;
        }
        self.free_if_deleted(definition.id, definition.state);
        Ok(())
    }

    fn free_if_deleted(&mut self, job: JobId, state: JobState) {
        if state == JobState::Deleted {
            self.job_names.retain(|_, taken| taken.job != job);
            self.upstreams.retain(|(of, _, _)| *of != job);
        }
    }
}

fn key(attempt: &Attempt) -> AttemptKey {
    (attempt.run, attempt.shard, attempt.no)
}

fn wrong(text: String) -> Error {
    Error::Corrupt(text.into())
}
