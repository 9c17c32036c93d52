//! Alerts in a store: the rules, what their channels know, what waits to be delivered, and the ends of runs that nobody
//! has judged yet.
//!
//! An end is noted in the very transaction that makes it durable, and is taken away in the one that keeps what followed
//! from it ([`Work`]): so each is judged once, whatever dies in between. Only runs of jobs that name a rule are noted;
//! [`Watch`] knows which those are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rota_core::alert::{Alarm, AlertId, Key, Notice, Rule};
use rota_core::batch::{Batch, Loaded, Origin, Row, Run};
use rota_core::id::{JobId, RunId};
use rota_core::job::Definition;
use rota_core::time::UnixMs;

/// A rule of a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredAlert {
    /// Given by the store when it is first set.
    pub id: AlertId,
    /// Tenant boundary.
    pub namespace: String,
    /// Unique in it.
    pub name: String,
    /// What was written.
    pub rule: Rule,
    /// When it was set.
    pub at: UnixMs,
    /// Who set it.
    pub by: String,
    /// Messages that could not be delivered and were given up.
    pub undelivered: u64,
    /// Why, the last time.
    pub last_error: Option<String>,
}

/// A message that waits to be delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredNotice {
    /// Grows with time; unique in a store as long as the message waits.
    pub id: u64,
    /// When it was decided.
    pub at: UnixMs,
    /// What it says.
    pub notice: Notice,
    /// How often its delivery was tried.
    pub tries: u32,
    /// When it is tried next.
    pub next_at: UnixMs,
    /// Why it failed last.
    pub error: Option<String>,
}

/// What followed from ends and from deliveries, in one transaction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Ends that were judged.
    pub heard: Vec<RunId>,
    /// Alarms as they are now; none for those that are forgotten.
    pub alarms: Vec<(Key, Option<Alarm>)>,
    /// New messages.
    pub notices: Vec<StoredNotice>,
    /// What became of messages.
    pub tried: Vec<(u64, Tried)>,
}

/// What became of a try to deliver a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tried {
    /// It is delivered.
    Delivered,
    /// It is tried again.
    Again {
        /// When.
        next_at: UnixMs,
        /// Why it failed.
        error: String,
    },
    /// It is given up, and counted at its rule.
    GivenUp {
        /// Why it failed.
        error: String,
    },
}

impl Work {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heard.is_empty() && self.alarms.is_empty() && self.notices.is_empty() && self.tried.is_empty()
    }
}

/// A run of a watched job that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenRun {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// Its slot, if its job's schedule made it.
    pub slot: Option<UnixMs>,
    /// When it was decided.
    pub at: UnixMs,
}

/// Which jobs name a rule, and which of their runs are open. A store keeps it up; nobody else changes it.
#[derive(Debug, Default)]
pub struct Watch {
    /// Whether any job names a rule; while none does, a batch costs one load.
    is_any: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    jobs: BTreeSet<JobId>,
    open: BTreeMap<RunId, OpenRun>,
    /// Changed in what is not durable yet.
    touched: BTreeSet<JobId>,
    changed: BTreeSet<JobId>,
}

impl Watch {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns what a claim has read.
    pub fn load(&self, loaded: &[Loaded]) {
        let mut inner = self.inner();
        let jobs = loaded.iter().flat_map(|loaded| &loaded.jobs).filter(|job| !job.spec.alerts.is_empty());
        let jobs: BTreeSet<JobId> = jobs.map(|job| job.id).collect();
        for open in loaded.iter().flat_map(|loaded| &loaded.open) {
            if jobs.contains(&open.run.job) && !open.run.state.is_terminal() {
                inner.open.insert(open.run.id, open_run(&open.run));
            }
        }
        inner.changed.extend(&jobs);
        inner.jobs.extend(jobs);
        self.is_any.store(!inner.jobs.is_empty(), Ordering::Relaxed);
    }

    /// Learns a definition that is about to become durable.
    pub fn define(&self, definition: &Definition) {
        if definition.spec.alerts.is_empty() && !self.is_any.load(Ordering::Relaxed) {
            return;
        }
        let mut inner = self.inner();
        if definition.spec.alerts.is_empty() {
            inner.jobs.remove(&definition.id);
            // Nobody hears of their ends any more.
            inner.open.retain(|_, open| open.job != definition.id);
        } else {
            inner.jobs.insert(definition.id);
        }
        inner.touched.insert(definition.id);
        self.is_any.store(!inner.jobs.is_empty(), Ordering::Relaxed);
    }

    /// The ends of watched runs in a batch that is about to become durable. Told again, it answers the same.
    #[must_use]
    pub fn ends_of(&self, batch: &Batch) -> Vec<RunId> {
        if !self.is_any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut inner = self.inner();
        let mut ends = Vec::new();
        for row in &batch.rows {
            match row {
                Row::Run(run) if inner.jobs.contains(&run.job) => {
                    if run.state.is_terminal() {
                        ends.push(run.id);
                    } else {
                        inner.open.insert(run.id, open_run(run));
                    }
                }
                Row::RunSet { run, state, .. } if state.is_terminal() && inner.open.contains_key(run) => {
                    ends.push(*run)
                }
                Row::JobState { job, .. } if inner.jobs.contains(job) => {
                    inner.touched.insert(*job);
                }
                Row::Run(_)
                | Row::RunSet { .. }
                | Row::Attempt(_)
                | Row::AttemptSet(_)
                | Row::Definition(_)
                | Row::JobState { .. }
                | Row::Worker { .. }
                | Row::WorkerState { .. }
                | Row::Exception { .. }
                | Row::Request { .. }
                | Row::Rerun(_)
                | Row::Merged { .. }
                | Row::Child(_)
                | Row::Shards(_)
                | Row::Trace { .. }
                | Row::Freeze(_)
                | Row::Backfill(_)
                | Row::BackfillRun { .. }
                | Row::Listed { .. } => {}
            }
        }
        ends
    }

    /// What was about to become durable is so now, with these ends.
    pub fn note_durable(&self, ends: &[RunId]) {
        let mut inner = self.inner();
        for run in ends {
            inner.open.remove(run);
        }
        let touched = std::mem::take(&mut inner.touched);
        inner.changed.extend(touched);
    }

    /// Whether no job names a rule.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.is_any.load(Ordering::Relaxed)
    }

    /// Open runs of watched jobs, in order of id.
    #[must_use]
    pub fn open_runs(&self) -> Vec<OpenRun> {
        self.inner().open.values().copied().collect()
    }

    /// An open run of a watched job.
    #[must_use]
    pub fn open_run(&self, run: RunId) -> Option<OpenRun> {
        self.inner().open.get(&run).copied()
    }

    /// Jobs that were changed since this was last asked, the first time all that are watched.
    #[must_use]
    pub fn take_changed(&self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.inner().changed)
    }
}

fn open_run(run: &Run) -> OpenRun {
    let slot = (run.origin == Origin::Schedule).then_some(run.slot);
    OpenRun { run: run.id, job: run.job, slot, at: run.at }
}

#[cfg(test)]
mod tests {
    use rota_core::batch::RunState;
    use rota_core::id::{AppId, Epoch, PartitionId, Seq, Version};
    use rota_core::job::{JobState, Spec, Target, When};

    use super::*;

    fn job(id: u32, alerts: &[&str]) -> Definition {
        let target = Target::Handler { name: "h".to_owned(), param: String::new() };
        let alerts = alerts.iter().map(|name| (*name).to_owned()).collect();
        Definition {
            id: JobId(id),
            version: Version(1),
            app: AppId(1),
            name: format!("job-{id}"),
            spec: Spec { alerts, ..Spec::new(When::Manual, target) },
            state: JobState::Enabled,
            at: UnixMs(0),
            by: "someone".to_owned(),
            managed_by: None,
            pause: None,
        }
    }

    fn opens(run: u64, job: u32) -> Batch {
        let run = Run {
            id: RunId(run),
            app: AppId(1),
            job: JobId(job),
            version: Version(1),
            origin: Origin::Api,
            slot: UnixMs(0),
            slot_last: UnixMs(0),
            slots: 1,
            state: RunState::Dispatched,
            why: None,
            shards: 1,
            at: UnixMs(0),
            ended_at: None,
            param: None,
        };
        let rows = vec![Row::Run(Box::new(run))];
        let (partition, epoch, seq) = (PartitionId(0), Epoch(1), Seq(1));
        Batch { partition, epoch, seq, at: UnixMs(0), mark: UnixMs(0), floor: 0, rows }
    }

    #[test]
    fn a_run_of_a_job_that_nobody_watches_any_more_does_not_stay_open() {
        let watch = Watch::default();
        watch.define(&job(1, &["oncall"]));
        watch.define(&job(2, &["oncall"]));
        assert_eq!((watch.ends_of(&opens(7, 1)), watch.ends_of(&opens(8, 2))), (vec![], vec![]));
        watch.define(&job(1, &[]));
        let open: Vec<RunId> = watch.open_runs().iter().map(|open| open.run).collect();
        assert_eq!(open, [RunId(8)], "its end would not be heard, and it would run for ever");
    }
}
