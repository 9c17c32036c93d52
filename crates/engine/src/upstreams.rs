//! The thread that judges what slots wait for.
//!
//! Machines ask; it reads, and answers once an answer is final. It looks when it is asked, when something has ended of
//! which a machine told, and at everything that waits every few seconds, so that a word that is lost delays, no more.
//!
//! Absent on purpose: decisions. The judgement is [`rota_core::upstream`]'s; what follows from it is the machine's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rota_core::id::{JobId, PartitionId};
use rota_core::partition::{AskUpstream, Input};
use rota_core::upstream::Verdict;
use rota_port::store::Error;
use rota_port::upstream::{Reads, judge};

use crate::shared::Shared;

/// How often some of what waits is looked at without a word.
const PACE: Duration = Duration::from_secs(2);
/// How many of those, at most.
const PACE_JOBS: usize = 500;
/// Without anything that waits.
const IDLE: Duration = Duration::from_secs(3_600);

/// What waits for the thread. Asks are bounded by the jobs with upstream jobs, since a job stands at one slot.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) asks: Vec<(PartitionId, AskUpstream)>,
    /// Jobs of which something has ended.
    pub(crate) ended: Vec<JobId>,
    /// Set once: stop now.
    pub(crate) is_over: bool,
}

impl Asked {
    fn is_filled(&self) -> bool {
        !self.asks.is_empty() || !self.ended.is_empty() || self.is_over
    }
}

pub(crate) struct Upstreams {
    shared: Arc<Shared>,
    reads: Arc<dyn Reads>,
    waiting: BTreeMap<JobId, (PartitionId, AskUpstream)>,
    /// Who waits for a job.
    dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Jobs whose machine tells when something of them has ended.
    watched: BTreeSet<JobId>,
    /// The last job that was looked at without a word.
    looked_at: JobId,
}

impl Upstreams {
    pub(crate) fn new(shared: Arc<Shared>, reads: Arc<dyn Reads>) -> Upstreams {
        let (waiting, dependents) = (BTreeMap::new(), BTreeMap::new());
        Upstreams { shared, reads, waiting, dependents, watched: BTreeSet::new(), looked_at: JobId(0) }
    }

    /// Runs until a stop.
    pub(crate) fn run(mut self) {
        loop {
            let timeout = if self.waiting.is_empty() { IDLE } else { PACE };
            let asked = self.shared.asked.take(timeout, Asked::is_filled, std::mem::take);
            if asked.is_over {
                return;
            }
            let is_pace = !asked.is_filled();
            let mut jobs = BTreeSet::new();
            for (partition, ask) in asked.asks {
                jobs.insert(ask.job);
                self.wait(partition, ask);
            }
            for ended in asked.ended {
                jobs.extend(self.dependents.get(&ended).into_iter().flatten());
            }
            if is_pace {
                jobs.extend(self.some_waiting());
            }
            let inputs: Vec<_> = jobs.into_iter().filter_map(|job| self.look(job)).collect();
            if !inputs.is_empty() {
                self.shared.enter(inputs);
            }
        }
    }

    /// Keeps a question. The one before of the same job has no one who waits for it any more.
    fn wait(&mut self, partition: PartitionId, ask: AskUpstream) {
        self.forget(ask.job);
        for edge in ask.edges.iter() {
            self.dependents.entry(edge.job).or_default().insert(ask.job);
        }
        self.waiting.insert(ask.job, (partition, ask));
    }

    fn forget(&mut self, job: JobId) {
        let Some((_, ask)) = self.waiting.remove(&job) else { return };
        for edge in ask.edges.iter() {
            if let Some(all) = self.dependents.get_mut(&edge.job) {
                all.remove(&job);
                if all.is_empty() {
                    self.dependents.remove(&edge.job);
                }
            }
        }
    }

    /// The next of those that wait, in turn.
    fn some_waiting(&mut self) -> Vec<JobId> {
        let after = (std::ops::Bound::Excluded(self.looked_at), std::ops::Bound::Unbounded);
        let next: Vec<JobId> = self.waiting.range(after).map(|(job, _)| *job).take(PACE_JOBS).collect();
        self.looked_at = next.last().copied().filter(|_| next.len() == PACE_JOBS).unwrap_or(JobId(0));
        next
    }

    /// Looks at what a job waits for, and answers if that is final.
    fn look(&mut self, job: JobId) -> Option<(PartitionId, Input)> {
        let (partition, ask) = self.waiting.get(&job)?;
        let (partition, slot, edges) = (*partition, ask.slot, Arc::clone(&ask.edges));
        let verdict = match judge(&*self.reads, ask, self.shared.clock.now().wall) {
            Ok(Verdict::Met) => Ok(()),
            Ok(Verdict::Unmet(why)) => Err(why),
            Ok(Verdict::NotYet) => {
                for edge in edges.iter() {
                    self.watch(edge.job);
                }
                return None;
            }
            Err(error) => {
                tracing::warn!(job = job.0, %error, "upstream_not_read");
                return None;
            }
        };
        self.forget(job);
        Some((partition, Input::Upstream { job, slot, verdict }))
    }

    /// Wants to hear when something of a job ends. The machine answers at once, and with every end from then on.
    fn watch(&mut self, job: JobId) {
        if self.watched.contains(&job) {
            return;
        }
        match self.partition_of(job) {
            Ok(Some(partition)) => {
                self.shared.enter(vec![(partition, Input::WatchEnds(job))]);
                self.watched.insert(job);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(job = job.0, %error, "upstream_not_read"),
        }
    }

    fn partition_of(&self, job: JobId) -> Result<Option<PartitionId>, Error> {
        let definition = self.reads.job(job)?;
        Ok(definition.and_then(|definition| self.shared.partition(definition.app)))
    }
}
