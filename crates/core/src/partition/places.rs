//! Places: which runs of a job hold one, which wait for one, and what the job's overlap policy says to the next.
//!
//! A run that waits has a row (`pending`, with the reason `overlap`), so the mark goes on and a restart finds it; it has
//! no worker, no credit and no part of the cap, so it stands in nobody's way. It begins when a place is free, in the
//! order in which runs were made. All of it follows from the rows and the job's policy in force: [`Machine::seat_runs`]
//! derives it again after a load and after an edit.
//!
//! Only jobs whose policy limits something have [`Places`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::jobs::JobIx;
use super::runs::{Phase, Run};
use super::{Machine, planted};
use crate::batch::{Origin, Row, RunState};
use crate::id::RunId;
use crate::job::{Body, Policy};
use crate::overlap::{Verdict, param_of, value_of};
use crate::time::{Now, UnixMs};
use crate::why::Why;

/// The value of a policy's key; none without a key, and for parameters that have no value of it.
pub(super) type Value = Option<Arc<str>>;

/// The runs of a job, by the value of its policy's key.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Places {
    lines: BTreeMap<Value, Line>,
}

/// Runs that share places, in the order in which they were made.
#[derive(PartialEq, Eq, Debug, Default)]
struct Line {
    holders: BTreeSet<RunId>,
    waiting: BTreeSet<RunId>,
}

impl Places {
    fn add(&mut self, value: Value, run: RunId, waits: bool) {
        let line = self.lines.entry(value).or_default();
        if waits {
            line.waiting.insert(run)
        } else {
            line.holders.insert(run)
        };
    }

    fn remove(&mut self, value: &Value, run: RunId) {
        let line = self.lines.get_mut(value).expect("a run stands in the line of its value");
        let stood = line.holders.remove(&run) || line.waiting.remove(&run);
        assert!(stood, "a run stands in the line of its value");
        if line.holders.is_empty() && line.waiting.is_empty() {
            self.lines.remove(value);
        }
    }
}

/// The value that a run with this parameter has under a policy.
fn value_under(policy: &Policy, body: &Body, param: Option<&str>) -> Value {
    let key = policy.overlap.key.as_deref()?;
    value_of(key, param.unwrap_or_else(|| param_of(&body.target))).map(Arc::from)
}

impl Machine {
    /// What a job's policy says to a run that would begin now.
    pub(super) fn overlap(&self, ix: JobIx, body: &Body, param: Option<&str>) -> Verdict {
        let live = self.jobs.get(ix);
        let Some(places) = &live.places else { return Verdict::Start };
        let line = places.lines.get(&value_under(&live.policy, body, param));
        let (holders, waiting) = line.map_or((0, 0), |line| (line.holders.len(), line.waiting.len()));
        if planted!(self.config, OverlapIgnored) {
            return Verdict::Start;
        }
        live.policy.overlap.decide(holders, waiting)
    }

    /// Whether a slot of a job would begin if it found a worker.
    pub(super) fn has_place(&self, ix: JobIx) -> bool {
        let live = self.jobs.get(ix);
        live.places.is_none() || self.overlap(ix, &live.body, None) == Verdict::Start
    }

    /// What a job's policy says to a slot that may run now. What gets a row without a place is covered here: then there
    /// is no verdict left.
    pub(super) fn overlap_slot(&mut self, now: Now, ix: JobIx, slot: UnixMs) -> Option<Verdict> {
        if self.jobs.get(ix).places.is_none() {
            return Some(Verdict::Start);
        }
        let body = Arc::clone(&self.jobs.get(ix).body);
        match self.overlap(ix, &body, None) {
            verdict @ (Verdict::Start | Verdict::Replace) => return Some(verdict),
            Verdict::Refuse(why) => self.skip(now, ix, slot, why),
            verdict @ (Verdict::Wait | Verdict::Await) => {
                if verdict == Verdict::Await {
                    self.clear_places(now, ix, &body, None);
                }
                self.admit_waiting(now, ix, slot, Origin::Schedule, None);
                self.count_caught_up(now, ix, slot);
                self.advance(now, ix, slot);
            }
            Verdict::Merge => {
                self.merge(now, ix, slot, Origin::Schedule, None);
                self.advance(now, ix, slot);
            }
        }
        None
    }

    /// Cancels the runs that share places with a new one, and gives up those that wait for one.
    pub(super) fn clear_places(&mut self, now: Now, ix: JobIx, body: &Body, param: Option<&str>) {
        let live = self.jobs.get(ix);
        let Some(places) = &live.places else { return };
        let Some(line) = places.lines.get(&value_under(&live.policy, body, param)) else { return };
        let (waiting, holders) = (line.waiting.clone(), line.holders.clone());
        for id in waiting {
            for shard in 0..u32::try_from(self.runs.run(id).shards.len()).expect("bounded") {
                if self.runs.run(id).shards[shard as usize].phase == Phase::Parked {
                    self.settle(id, shard, RunState::Discarded, Some(Why::CancelledByOverlap));
                }
            }
            self.try_finish(now, id);
        }
        for id in holders {
            self.kill_for(now, id, Why::CancelledByOverlap);
        }
    }

    /// Makes the row of a run for which the one that waits stands. Returns it, and the one that waits.
    pub(super) fn merge(
        &mut self,
        now: Now,
        ix: JobIx,
        slot: UnixMs,
        origin: Origin,
        param: Option<Arc<str>>,
    ) -> (RunId, RunId) {
        let live = self.jobs.get(ix);
        let value = value_under(&live.policy, &live.body, param.as_deref());
        let line = live.places.as_ref().and_then(|places| places.lines.get(&value));
        let into = line.and_then(|line| line.waiting.first().copied()).expect("only one that waits absorbs another");
        let run = self.write_row(now, ix, origin, (slot, slot, 1), (RunState::Merged, Why::Merged), param);
        self.pipeline.write(Row::Merged { run, into });
        (run, into)
    }

    /// A run of a job has been made: it takes its place, or waits for one.
    pub(super) fn take_place(&mut self, id: RunId) {
        let run = self.runs.run(id);
        let Some(ix) = self.jobs.find_at(run.place, run.job) else { return };
        if self.jobs.get(ix).places.is_none() {
            return;
        }
        let (value, waits) = (value_under(&self.jobs.get(ix).policy, &run.body, run.param.as_deref()), run.is_parked);
        if let Some(places) = &mut self.jobs.get_mut(ix).places {
            places.add(value, id, waits);
        }
    }

    /// A run waits whose place may be free already.
    pub(super) fn fill_line(&mut self, ix: JobIx, id: RunId) {
        let run = self.runs.run(id);
        let value = value_under(&self.jobs.get(ix).policy, &run.body, run.param.as_deref());
        self.fill_places(ix, &value);
    }

    /// A run is over, and all of it released: the next that waits for its place begins.
    pub(super) fn leave_place(&mut self, ix: JobIx, run: &Run) {
        let live = self.jobs.get_mut(ix);
        let Some(places) = &mut live.places else { return };
        let value = value_under(&live.policy, &run.body, run.param.as_deref());
        places.remove(&value, run.id);
        self.fill_places(ix, &value);
    }

    /// Lets those that wait begin, as far as there are places. A job that cannot be compiled begins nothing.
    pub(super) fn fill_places(&mut self, ix: JobIx, value: &Value) {
        loop {
            let live = self.jobs.get_mut(ix);
            let limit = live.policy.overlap.places();
            let is_broken = live.is_broken;
            let Some(line) = live.places.as_mut().and_then(|places| places.lines.get_mut(value)) else { return };
            if line.holders.len() >= limit || is_broken {
                return;
            }
            let Some(next) = line.waiting.pop_first() else { return };
            line.holders.insert(next);
            self.begin_waiting(next);
        }
    }

    /// A run that waited for its place has one: its shards wait for workers. That it was waited for is the
    /// row's no longer.
    fn begin_waiting(&mut self, id: RunId) {
        let run = self.runs.run_mut(id);
        assert!(std::mem::take(&mut run.is_parked), "only a run that waits begins so");
        let (app, job, state) = (run.app, run.job, run.state);
        let mut shards = Vec::new();
        for (at, shard) in (0..).zip(&mut run.shards) {
            if shard.phase == Phase::Parked {
                shard.phase = Phase::Waiting;
                shards.push(at);
            }
        }
        for shard in shards {
            self.fleet.add_pending(app, 1);
            self.queue(id, shard);
        }
        self.pipeline.write(Row::RunSet { run: id, job, state, why: None, ended_at: None });
    }

    /// Gives every run of a job its place under the policy that has just come into force.
    pub(super) fn seat_runs(&mut self, ix: JobIx) {
        let live = self.jobs.get(ix);
        let is_free = live.policy.overlap.is_free();
        if is_free && live.places.is_none() {
            return;
        }
        let mut places = Box::new(Places::default());
        if live.holders > 0 {
            for run in self.runs.runs.values().filter(|run| run.job == live.id) {
                let value = value_under(&live.policy, &run.body, run.param.as_deref());
                places.add(value, run.id, run.is_parked);
            }
        }
        let values: Vec<Value> = places.lines.keys().cloned().collect();
        self.jobs.get_mut(ix).places = Some(places);
        for value in values {
            self.fill_places(ix, &value);
        }
        if is_free && !self.jobs.get(ix).is_broken {
            self.jobs.get_mut(ix).places = None;
        }
    }

    /// Gives every run its place at the begin of a term.
    pub(super) fn seat_all(&mut self) {
        let limited = self.jobs.all().filter(|(_, live)| !live.policy.overlap.is_free()).map(|(ix, _)| ix);
        let parked = self.runs.runs.values().filter(|run| run.is_parked).filter_map(|run| run.place);
        let jobs: BTreeSet<JobIx> = limited.chain(parked).collect();
        for ix in &jobs {
            self.jobs.get_mut(*ix).places = Some(Box::default());
        }
        if jobs.is_empty() {
            return;
        }
        let all: Vec<RunId> = self.runs.runs.keys().collect();
        for id in all {
            self.take_place(id);
        }
        for ix in jobs {
            let places = self.jobs.get(ix).places.as_ref();
            let values: Vec<Value> = places.map(|p| p.lines.keys().cloned().collect()).unwrap_or_default();
            for value in values {
                self.fill_places(ix, &value);
            }
            let live = self.jobs.get_mut(ix);
            if live.policy.overlap.is_free() && !live.is_broken {
                live.places = None;
            }
        }
    }

    /// Compares every job's places with what they are derived from. The error names what differs.
    pub(super) fn check_places(&self) -> Result<(), String> {
        let mut found: BTreeMap<JobIx, Places> = BTreeMap::new();
        for run in self.runs.runs.values() {
            let parked = run.shards.iter().filter(|shard| shard.phase == Phase::Parked).count();
            if (parked > 0) != (run.is_parked && !run.state.is_terminal()) {
                return Err(format!("{}: waits for a place: {}, {parked} shards do", run.id, run.is_parked));
            }
            if let Some(ix) = self.jobs.find_at(run.place, run.job) {
                let live = self.jobs.get(ix);
                let value = value_under(&live.policy, &run.body, run.param.as_deref());
                found.entry(ix).or_default().add(value, run.id, run.is_parked);
            }
        }
        for (ix, live) in self.jobs.all() {
            let found = found.remove(&ix).unwrap_or_default();
            let Some(places) = &live.places else {
                match found.lines.values().any(|line| !line.waiting.is_empty()) {
                    true => return Err(format!("job {}: a run waits for a place that nobody keeps", live.id)),
                    false => continue,
                }
            };
            if found != **places {
                return Err(format!("job {}: places {places:?}, found {found:?}", live.id));
            }
            let limit = live.policy.overlap.places();
            let has_room = |line: &Line| line.holders.len() < limit && !line.waiting.is_empty();
            if !live.is_broken && places.lines.values().any(has_room) {
                return Err(format!("job {}: a run waits although there is a place: {places:?}", live.id));
            }
        }
        Ok(())
    }
}
