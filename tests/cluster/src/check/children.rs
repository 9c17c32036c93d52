//! Each end fires each child that asks for it once: with the slot of its parent, or with a row that says why not.
//!
//! What is expected is found from the ends of runs and the definitions in force, not from notes; so a note that is lost,
//! or that is answered twice, shows.

use std::collections::BTreeSet;

use rota_core::batch::{Origin, RunState};
use rota_core::id::{JobId, RunId};
use rota_core::job::{JobState, When};
use rota_core::upstream::Ended;

use super::{Rule, Verdict};
use crate::store::{Changes, Part, Store};

/// What has been fired, and what has to be.
#[derive(Debug, Default)]
pub struct Children {
    /// The runs that ended, and the jobs that they have not fired yet.
    expected: BTreeSet<(RunId, JobId)>,
    /// How many children had a run.
    pub runs: u64,
}

impl Children {
    /// Looks at the rows of a batch that was just applied.
    pub fn applied(&mut self, store: &Store, part: &Part, changes: &Changes) -> Verdict {
        for id in &changes.runs_set {
            self.ended(store, part, *id);
        }
        for link in &changes.links {
            let Some(run) = part.runs.get(&link.run).map(|row| &row.run) else {
                return Err(
                    Rule::Children.broken(format!("{} is linked to {} and is not there", link.run, link.parent))
                );
            };
            let parent = store.parts().find_map(|(_, part)| part.runs.get(&link.parent)).map(|row| &row.run);
            let what = format!("{} of job {}, fired by the end of {}", run.id, run.job, link.parent);
            if !self.expected.remove(&(link.parent, run.job)) {
                return Err(Rule::Children.broken(format!("nothing, or no longer anything, asks for {what}")));
            }
            let has_slot = parent.is_some_and(|parent| parent.slot == run.slot && parent.state.is_terminal());
            if !has_slot || run.origin != Origin::Upstream {
                return Err(Rule::Children.broken(format!("{what} has slot {} and origin {:?}", run.slot, run.origin)));
            }
            self.runs += u64::from(run.shards > 0);
        }
        let fired = changes.runs_new.iter().filter(|id| part.runs[id].run.origin == Origin::Upstream).count();
        if fired != changes.links.len() {
            let text = format!("a batch has {fired} rows of children and {} links", changes.links.len());
            return Err(Rule::Children.broken(text));
        }
        Ok(())
    }

    fn ended(&mut self, store: &Store, part: &Part, id: RunId) {
        let run = &part.runs[&id].run;
        let is_failure = match run.state {
            RunState::Success => false,
            RunState::Failed | RunState::Timeout | RunState::Killed | RunState::Lost => true,
            _ => return,
        };
        let asks = |when: Ended| match when {
            Ended::Success => !is_failure,
            Ended::Failure => is_failure,
            Ended::Completion => true,
        };
        for (_, part) in store.parts() {
            for job in part.jobs.values().map(|row| &row.current) {
                let is_child = job.state != JobState::Deleted && job.spec.schedule == When::Manual;
                if is_child && job.spec.after.iter().any(|edge| edge.job == run.job && asks(edge.when)) {
                    self.expected.insert((id, job.id));
                }
            }
        }
    }

    /// An end that has not fired what it had to, though that waits for nothing that may never come.
    #[must_use]
    pub fn first_missing(&self, store: &Store) -> Option<String> {
        let (parent, job) = self.expected.iter().find(|(_, job)| !waits_visibly(store, *job))?;
        Some(format!("the end of {parent} has not fired job {job}, and {} more", self.expected.len() - 1))
    }
}

/// A broadcast to workers that there are none of has no shards to make a run of: its ends wait for the first to come.
fn waits_visibly(store: &Store, job: JobId) -> bool {
    let mut rows = store.parts().filter_map(|(_, part)| part.jobs.get(&job));
    rows.any(|row| row.current.spec.sharding.rules.is_broadcast && row.current.spec.route.labels == "disk=tape")
}
