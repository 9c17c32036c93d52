//! What is missed is covered as its job says, and judged once.
//!
//! The expected range of a skipped row is listed slot by slot from the job's version and the instant of the row. What a row
//! has judged to run must not be skipped by a later one, nor what the store says was judged; and a job that catches up keeps
//! its pace.

use std::collections::BTreeMap;

use rota_core::batch::{Exception, Origin, Run, RunState};
use rota_core::id::{Epoch, JobId, PartitionId, Version};
use rota_core::job::Definition;
use rota_core::limits::CATCH_UP_MAX;
use rota_core::misfire::Policy;
use rota_core::time::UnixMs;
use rota_core::upstream::wait_max_ms;
use rota_core::why::Why;
use rota_cron::{Kind, Schedule};

use super::{Rule, Verdict};
use crate::scenario::Scenario;
use crate::store::{Changes, Part};

/// What rows have said of slots that were missed.
#[derive(Debug)]
pub struct Misfires {
    /// Slots that a row left to run: the version, the first and the last.
    left: BTreeMap<JobId, (Version, i64, i64)>,
    /// When a job last caught up a slot: the term, the wall time of the row.
    caught_up: BTreeMap<JobId, (Epoch, i64)>,
    /// Slots up to here came due while one before them was held, which is no misfire.
    excused: BTreeMap<JobId, i64>,
    /// The wall time at which the term of a partition began.
    began: BTreeMap<PartitionId, i64>,
    /// Whether wall times of one server can be compared.
    is_steady: bool,
    has_freezes: bool,
}

/// A job's slots in one version, and what it does about those that it misses.
struct Missing<'v> {
    definition: &'v Definition,
    schedule: Schedule,
    threshold_ms: i64,
    leeway_ms: i64,
}

impl Missing<'_> {
    fn of(definition: &Definition) -> Option<Missing<'_>> {
        let schedule = definition.compile().ok()?.schedule?;
        let has_slots = matches!(schedule.kind(), Kind::Cron | Kind::Every);
        let threshold_ms = definition.spec.misfire.threshold_ms();
        // What waits for upstream jobs is not late before that wait is over.
        let leeway_ms = (definition.spec.jitter_ms + wait_max_ms(&definition.spec.after)) as i64;
        has_slots.then_some(Missing { definition, schedule, threshold_ms, leeway_ms })
    }

    fn late(&self, slot: UnixMs, at: i64) -> i64 {
        at - slot.0 - self.leeway_ms
    }

    /// The slots from one on that are due at an instant: those that are skipped, and those that run.
    fn expected(&self, first: UnixMs, at: i64) -> (Vec<UnixMs>, Vec<UnixMs>) {
        let misfire = self.definition.spec.misfire;
        let due: Vec<UnixMs> = self.schedule.between(UnixMs(first.0 - 1), UnixMs(at)).collect();
        let mut window = misfire.within_ms;
        if misfire.policy == Policy::CatchUp {
            window = [window, self.definition.spec.timeout.start_ms].into_iter().flatten().min();
        }
        let is_within = |slot: &UnixMs| window.is_none_or(|ms| self.late(*slot, at) <= ms as i64);
        let is_run = |(n, slot): (usize, &UnixMs)| match misfire.policy {
            Policy::Skip => self.late(*slot, at) <= self.threshold_ms,
            Policy::FireOnce => n + 1 == due.len() && is_within(slot),
            Policy::CatchUp => {
                let max = misfire.max.unwrap_or(CATCH_UP_MAX) as usize;
                due.len() - n <= max && is_within(slot)
            }
        };
        let from = due.iter().enumerate().position(is_run).unwrap_or(due.len());
        (due[..from].to_vec(), due[from..].to_vec())
    }
}

impl Misfires {
    /// For the surroundings of a seed.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Misfires {
        Misfires {
            left: BTreeMap::new(),
            caught_up: BTreeMap::new(),
            excused: BTreeMap::new(),
            began: BTreeMap::new(),
            is_steady: scenario.every.clock_step == 0,
            has_freezes: scenario.freezes,
        }
    }

    /// A term begins at this wall time of its server.
    pub fn begins(&mut self, partition: PartitionId, wall: UnixMs) {
        self.began.insert(partition, wall.0);
    }

    /// When the term of a partition began, by the wall clock of its server.
    #[must_use]
    pub fn began(&self, partition: PartitionId) -> UnixMs {
        UnixMs(self.began.get(&partition).copied().unwrap_or(0))
    }

    /// Checks a batch that has just been applied.
    pub fn applied(&mut self, partition: PartitionId, part: &Part, changes: &Changes) -> Verdict {
        let mut seen = Vec::new();
        for id in &changes.runs_new {
            let run = &part.runs[id].run;
            if run.origin != Origin::Schedule {
                continue;
            }
            let before = match changes.exceptions.iter().find(|(job, _)| *job == run.job) {
                Some((_, before)) => *before,
                None => part.exceptions.get(&run.job).copied(),
            };
            let judged = match before {
                Some(Exception::Judged { until, .. }) => Some(until),
                Some(Exception::Covered(_) | Exception::Armed(_)) | None => None,
            };
            let Some(missing) = Missing::of(&part.jobs[&run.job].versions[&run.version]) else { continue };
            let is_edited = changes.defined.iter().any(|(job, _)| *job == run.job);
            if run.state == RunState::Skipped && run.why == Some(Why::Misfire) {
                let is_first = !seen.contains(&run.job);
                self.skipped(&missing, run, judged, is_edited || !is_first)?;
            } else if run.shards > 0 && !is_edited {
                let began = self.began.get(&partition).copied();
                if judged.is_some() {
                    self.excused.insert(run.job, run.at.0);
                }
                self.fired(&missing, run, judged.filter(|until| run.slot <= *until), began, part.epoch)?;
            }
            seen.push(run.job);
        }
        Ok(())
    }

    fn skipped(&mut self, missing: &Missing<'_>, run: &Run, judged: Option<UnixMs>, is_unclear: bool) -> Verdict {
        let broken = |text: String| Err(Rule::Misfire.broken(format!("{} of job {}: {text}", run.id, run.job)));
        if let Some(until) = judged.filter(|until| run.slot <= *until) {
            return broken(format!("skips {}, though all up to {until} was judged to run", run.slot));
        }
        let (version, first, last) = self.left.get(&run.job).copied().unwrap_or((Version(0), 0, -1));
        if version == run.version && run.slot.0 <= last && run.slot_last.0 >= first {
            return broken(format!("skips {}, which an earlier row left to run", run.slot));
        }
        if is_unclear {
            return Ok(());
        }
        let late = missing.late(run.slot, run.at.0);
        if late <= missing.threshold_ms {
            return broken(format!("skips {}, which is {late} ms late", run.slot));
        }
        // What a term before had judged may still have been caught up, while more came due.
        if judged.is_some() {
            return Ok(());
        }
        let (skipped, runs) = missing.expected(run.slot, run.at.0);
        if skipped.last() != Some(&run.slot_last) || skipped.len() as u64 != run.slots {
            let (count, last) = (skipped.len(), skipped.last());
            return broken(format!(
                "skips {} slots from {} to {}, expected {count} to {last:?}",
                run.slots, run.slot, run.slot_last
            ));
        }
        // With `skip`, those after the first are looked at when their turn comes.
        let is_skip = missing.definition.spec.misfire.policy == Policy::Skip;
        let last = if is_skip { runs.first() } else { runs.last() };
        if let (Some(first), Some(last)) = (runs.first(), last) {
            self.left.insert(run.job, (run.version, first.0, last.0));
        }
        Ok(())
    }

    fn fired(
        &mut self,
        missing: &Missing<'_>,
        run: &Run,
        judged: Option<UnixMs>,
        began: Option<i64>,
        epoch: Epoch,
    ) -> Verdict {
        let late = missing.late(run.slot, run.at.0);
        if late <= missing.threshold_ms || !self.is_steady || self.has_freezes {
            return Ok(());
        }
        let broken = |text: String| Err(Rule::Misfire.broken(format!("{} of job {}: {text}", run.id, run.job)));
        let misfire = missing.definition.spec.misfire;
        let is_late_at_once = began.is_some_and(|began| missing.late(run.slot, began) > missing.threshold_ms);
        let is_excused = self.excused.get(&run.job).is_some_and(|until| run.slot.0 <= *until);
        if misfire.policy == Policy::Skip && judged.is_none() && is_late_at_once && !is_excused {
            return broken(format!("runs {}, which no term looked at in time", run.slot));
        }
        let Some(pace) = misfire.pace() else { return Ok(()) };
        // A slot that was hardly late when its turn came may have waited for a worker since, and needed no pace.
        let interval_ms = pace.interval_ms() as i64;
        if let Some((term, at)) = self.caught_up.insert(run.job, (epoch, run.at.0))
            && term == epoch
            && 2 * interval_ms <= missing.threshold_ms
            && run.at.0 - at < interval_ms - interval_ms / 20 - 5
        {
            return broken(format!("catches up {} after {} ms, its pace is {interval_ms} ms", run.slot, run.at.0 - at));
        }
        Ok(())
    }
}
