//! Loading partitions.

use std::collections::BTreeMap;

use rota_core::batch::{Loaded, OpenBackfill, OpenRun, Origin, Run};
use rota_core::freeze::Freeze;
use rota_core::id::{JobId, PartitionId, RunId, Version};
use rota_core::job::{Definition, JobState};
use rota_core::limits;
use rota_core::time::UnixMs;
use rota_core::worker::WorkerState;

use super::state::State;

impl State {
    pub(super) fn claim(&mut self, partitions: &[PartitionId]) -> Vec<Loaded> {
        for partition in partitions {
            self.headers[usize::from(partition.0)].epoch.0 += 1;
        }
        // Requests that no batch of an earlier term has answered were never carried out.
        let unanswered: Vec<_> =
            self.requests.iter().filter(|(_, request)| request.run.is_none()).map(|(key, _)| key.clone()).collect();
        for key in unanswered {
            let app = self.jobs.get(&key.0).and_then(|versions| versions.last()).map(|job| job.app);
            let of = app.and_then(|app| self.partition_of(app));
            if of.is_some_and(|of| partitions.contains(&of)) {
                self.requests.remove(&key);
            }
        }
        let loaded: Vec<Loaded> = partitions.iter().map(|partition| self.load(*partition)).collect();
        self.watch.load(&loaded);
        loaded
    }

    fn load(&self, partition: PartitionId) -> Loaded {
        let header = self.header(partition);
        let apps: BTreeMap<_, _> =
            self.apps.iter().filter(|(_, (_, of))| *of == partition).map(|(id, (app, _))| (*id, app)).collect();
        let is_ours = |definition: &&Definition| apps.contains_key(&definition.app);
        let living = self.jobs.values().filter_map(|versions| versions.last());
        Loaded {
            partition,
            epoch: header.epoch,
            seq: header.seq,
            mark: header.mark,
            at: header.at,
            apps: apps.values().map(|app| (*app).clone()).collect(),
            jobs: living.filter(is_ours).filter(|current| current.state != JobState::Deleted).cloned().collect(),
            exceptions: self.exceptions_of(partition),
            workers: self
                .workers
                .values()
                .filter(|(worker, state)| apps.contains_key(&worker.app) && *state != WorkerState::Offline)
                .cloned()
                .collect(),
            open: self.candidates(partition).filter_map(|run| self.open_run(run)).collect(),
            covered: self.covered(partition, header.mark),
            freezes: self.freezes_of(partition),
            backfills: self.open_backfills(partition),
        }
    }

    fn freezes_of(&self, partition: PartitionId) -> Vec<Freeze> {
        let ours = || self.freezes.range((partition, 0)..=(partition, u64::MAX)).map(|(_, freeze)| freeze);
        let spare = ours().filter(|freeze| !freeze.is_open()).count().saturating_sub(limits::THAWED_MAX);
        let mut thawed = 0;
        let is_kept = |freeze: &&Freeze| {
            thawed += usize::from(!freeze.is_open());
            freeze.is_open() || thawed > spare
        };
        ours().filter(is_kept).cloned().collect()
    }

    fn exceptions_of(&self, partition: PartitionId) -> Vec<(JobId, rota_core::batch::Exception)> {
        let ours = self.exceptions.iter().filter(|(_, (of, _))| *of == partition);
        ours.map(|(job, (_, exception))| (*job, *exception)).collect()
    }

    /// The runs that a load looks at: those listed, and those from the floor on; in order of id.
    fn candidates(&self, partition: PartitionId) -> impl Iterator<Item = &Run> {
        let floor = RunId(self.header(partition).floor);
        let listed = self.listed.range(..floor).filter(move |(_, of)| **of == partition);
        let recent = self.runs.range(floor..).map(|(_, run)| run);
        let recent = recent.filter(move |run| self.partition_of(run.app) == Some(partition));
        listed.filter_map(|(run, _)| self.runs.get(run)).chain(recent)
    }

    fn open_run(&self, run: &Run) -> Option<OpenRun> {
        let is_open = !run.state.is_terminal() || self.attempts_of(run.id).any(|a| a.released_at.is_none());
        is_open.then(|| OpenRun {
            run: run.clone(),
            attempts: self.attempts_of(run.id).cloned().collect(),
            definition: self.older_definition(run.job, run.version),
            is_listed: self.listed.contains_key(&run.id),
            rerun: self.reruns.get(&run.id).cloned(),
            shards: self.shards.get(&run.id).cloned(),
            backfill: self.backfill_runs.get(&run.id).copied(),
            parent: self.parents.get(&run.id).cloned(),
        })
    }

    /// A version of a job, if it is not the current one of a living job.
    fn older_definition(&self, job: JobId, version: Version) -> Option<Definition> {
        let versions = self.jobs.get(&job)?;
        let current = versions.last()?;
        if current.version == version && current.state != JobState::Deleted {
            return None;
        }
        versions.iter().find(|definition| definition.version == version).cloned()
    }

    fn open_backfills(&self, partition: PartitionId) -> Vec<OpenBackfill> {
        let ours = self.backfills.values().filter(|(of, backfill)| *of == partition && backfill.is_open());
        let open = ours.map(|(_, backfill)| OpenBackfill {
            backfill: backfill.clone(),
            definition: self.older_definition(backfill.job, backfill.version),
        });
        open.collect()
    }

    fn covered(&self, partition: PartitionId, mark: UnixMs) -> Vec<(JobId, UnixMs)> {
        let mut covered = BTreeMap::new();
        for run in self.candidates(partition) {
            if run.origin == Origin::Schedule && run.slot_last > mark {
                let last = covered.entry(run.job).or_insert(run.slot_last);
                *last = run.slot_last.max(*last);
            }
        }
        covered.into_iter().collect()
    }
}
