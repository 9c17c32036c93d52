//! What the workers themselves recorded: append-only, outside Rota, and never wrong.

use std::collections::{BTreeMap, BTreeSet};

use rota_core::id::{AttemptId, JobId, RunId};
use rota_core::partition::Outcome;

use crate::clock::Micros;

/// What came of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The handler returned.
    Returned(Outcome),
    /// The process died under it.
    Died,
}

/// One attempt as its worker saw it.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its run.
    pub run: RunId,
    /// Its shard.
    pub shard: u32,
    /// Its job.
    pub job: JobId,
    /// The process that ran it; none for a URL.
    pub process: Option<usize>,
    /// How often it was started.
    pub starts: u32,
    /// When it was first started.
    pub started: Micros,
    /// When and how it ended.
    pub end: Option<(Micros, End)>,
}

/// Everything that was ever started.
#[derive(Debug, Default)]
pub struct Oracle {
    executions: BTreeMap<AttemptId, Execution>,
    /// What runs right now, by job.
    running: BTreeMap<JobId, BTreeSet<AttemptId>>,
}

impl Oracle {
    /// Records a start; returns how often this attempt has been started.
    pub fn start(&mut self, attempt: AttemptId, execution: Execution) -> u32 {
        let known = self.executions.entry(attempt).or_insert(execution);
        if known.end.is_none() {
            self.running.entry(known.job).or_default().insert(attempt);
        }
        known.starts += 1;
        known.starts
    }

    /// Records an end.
    pub fn end(&mut self, attempt: AttemptId, at: Micros, end: End) {
        if let Some(known) = self.executions.get_mut(&attempt)
            && known.end.is_none()
        {
            known.end = Some((at, end));
            if let Some(running) = self.running.get_mut(&known.job) {
                running.remove(&attempt);
            }
        }
    }

    /// An attempt, if it was ever started.
    #[must_use]
    pub fn get(&self, attempt: AttemptId) -> Option<&Execution> {
        self.executions.get(&attempt)
    }

    /// Whether the attempt's code runs right now.
    #[must_use]
    pub fn is_running(&self, attempt: AttemptId) -> bool {
        self.get(attempt).is_some_and(|e| e.end.is_none())
    }

    /// The attempts of a job whose code runs right now.
    pub fn running_of(&self, job: JobId) -> impl Iterator<Item = AttemptId> + '_ {
        self.running.get(&job).into_iter().flatten().copied()
    }

    /// Executions in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.executions.len()
    }

    /// Whether nothing was ever started.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.executions.is_empty()
    }
}
