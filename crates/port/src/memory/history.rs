//! Reading the past.

use std::sync::Arc;

use rota_core::backfill::Backfill;
use rota_core::batch::{Rerun, Run, Shards};
use rota_core::child::{Link, Note};
use rota_core::freeze::Freeze;
use rota_core::id::{BackfillId, JobId, PartitionId, RunId, Version};
use rota_core::job::Definition;
use rota_core::trace::Parent;

use super::MemoryStore;
use crate::history::{
    BackfillFilter, COVERED_MAX, Covered, History, JobStanding, PAST_MAX, Standing, StateChange, StateFilter, Term,
};
use crate::query::{RUNS_MAX, RunFilter};
use crate::store::Error;

const MAX: usize = PAST_MAX as usize;

impl History for MemoryStore {
    fn job_versions(&self, job: JobId, from: Version) -> Result<Vec<Definition>, Error> {
        self.with(|state| {
            let versions = state.jobs.get(&job).into_iter().flatten();
            Ok(versions.filter(|version| version.version >= from).take(MAX).cloned().collect())
        })
    }

    fn state_changes(&self, filter: &StateFilter) -> Result<Vec<StateChange>, Error> {
        self.with(|state| {
            let fits = |change: &&StateChange| {
                filter.job.is_none_or(|job| job == change.job)
                    && filter.state.is_none_or(|state| state == change.state)
                    && filter.since.is_none_or(|since| change.at >= since)
                    && change.no > filter.after
            };
            Ok(state.history.iter().filter(fits).take(MAX).cloned().collect())
        })
    }

    fn runs_from(&self, job: JobId, from: RunId, limit: u32) -> Result<Vec<Run>, Error> {
        self.with(|state| {
            let runs = state.runs.range(from..).map(|(_, run)| run).filter(|run| run.job == job);
            Ok(runs.take(limit.min(PAST_MAX) as usize).cloned().collect())
        })
    }

    fn ledger(&self, from: RunId, limit: u32) -> Result<Vec<Covered>, Error> {
        self.with(|state| {
            let runs = state.runs.range(from..).map(|(_, run)| run);
            Ok(runs.take(limit.min(COVERED_MAX) as usize).map(Covered::of).collect())
        })
    }

    fn standing(&self) -> Result<Standing, Error> {
        self.with(|state| {
            let marks = (0..).map(PartitionId).zip(state.headers.iter().map(|header| header.mark)).collect();
            let exceptions = state.exceptions.iter().map(|(job, (_, exception))| (*job, *exception)).collect();
            Ok(Standing { marks, exceptions, swept: state.swept })
        })
    }

    fn standing_of(&self, job: JobId) -> Result<Option<JobStanding>, Error> {
        self.with(|state| {
            let Some(current) = state.current(job) else { return Ok(None) };
            let (_, partition) = state.apps[&current.app];
            let exception = state.exceptions.get(&job).map(|(_, exception)| *exception);
            Ok(Some(JobStanding { mark: state.header(partition).mark, exception, swept: state.swept }))
        })
    }

    fn terms(&self) -> Result<Vec<Term>, Error> {
        self.with(|state| Ok(state.terms.iter().rev().take(MAX).cloned().collect()))
    }

    fn freezes(&self) -> Result<Vec<Freeze>, Error> {
        self.with(|state| {
            let mut all: Vec<Freeze> = state.freezes.values().cloned().collect();
            all.sort_by_key(|freeze| std::cmp::Reverse((freeze.is_open(), freeze.at, freeze.id)));
            all.truncate(MAX);
            Ok(all)
        })
    }

    fn rerun(&self, run: RunId) -> Result<Option<Arc<Rerun>>, Error> {
        self.with(|state| Ok(state.reruns.get(&run).cloned()))
    }

    fn backfill(&self, id: BackfillId) -> Result<Option<Backfill>, Error> {
        self.with(|state| Ok(state.backfills.get(&id).map(|(_, backfill)| backfill.clone())))
    }

    fn backfills(&self, filter: &BackfillFilter) -> Result<Vec<Backfill>, Error> {
        self.with(|state| {
            let below = state.backfills.range(..filter.before.unwrap_or(BackfillId(u64::MAX))).rev();
            let fits = |backfill: &&Backfill| {
                filter.job.is_none_or(|job| job == backfill.job) && (!filter.is_open || backfill.is_open())
            };
            let found = below.map(|(_, (_, backfill))| backfill).filter(fits);
            Ok(found.take(filter.limit.min(PAST_MAX) as usize).cloned().collect())
        })
    }

    fn backfill_of(&self, run: RunId) -> Result<Option<BackfillId>, Error> {
        self.with(|state| Ok(state.backfill_runs.get(&run).copied()))
    }

    fn backfill_runs(&self, id: BackfillId, filter: &RunFilter) -> Result<(Vec<Run>, Option<RunId>), Error> {
        self.with(|state| {
            let below = state.backfill_runs.range(..filter.before.unwrap_or(RunId(u64::MAX))).rev();
            let ours = below.filter(|(_, of)| **of == id).filter_map(|(run, _)| state.runs.get(run));
            let limit = filter.limit.min(RUNS_MAX) as usize;
            let found: Vec<Run> = ours.filter(|run| filter.fits(run)).take(limit).cloned().collect();
            let next = found.last().map(|run| run.id).filter(|_| found.len() >= limit);
            Ok((found, next))
        })
    }

    fn merged_into(&self, run: RunId) -> Result<Option<RunId>, Error> {
        self.with(|state| Ok(state.merged.get(&run).copied()))
    }

    fn child(&self, run: RunId) -> Result<Option<Link>, Error> {
        self.with(|state| Ok(state.links.get(&run).copied()))
    }

    fn children_of(&self, parent: RunId) -> Result<Vec<Link>, Error> {
        self.with(|state| {
            let found = state.links.values().filter(|link| link.parent == parent);
            Ok(found.take(MAX).copied().collect())
        })
    }

    fn notes_of(&self, parent: RunId) -> Result<Vec<Note>, Error> {
        self.with(|state| {
            let found = state.notes.values().map(|(_, note)| note).filter(|note| note.parent == parent);
            Ok(found.cloned().collect())
        })
    }

    fn shards(&self, run: RunId) -> Result<Option<Arc<Shards>>, Error> {
        self.with(|state| Ok(state.shards.get(&run).cloned()))
    }

    fn trace_parent(&self, run: RunId) -> Result<Option<Arc<Parent>>, Error> {
        self.with(|state| Ok(state.parents.get(&run).cloned()))
    }

    fn reruns_of(&self, run: RunId) -> Result<Vec<RunId>, Error> {
        self.with(|state| {
            let found = state.reruns.values().filter(|rerun| rerun.of == run);
            Ok(found.map(|rerun| rerun.run).take(MAX).collect())
        })
    }
}
