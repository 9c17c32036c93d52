//! Invariants 1 and 11: every slot is covered exactly once, in order; armed jobs are armed or open.
//!
//! The expected slots of a job come from the history of its versions alone: each version covers the
//! slots after the instant it took effect, up to the next one's. A pause removes nothing (a `paused`
//! row covers what passed), a deletion ends the expectation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rota_core::batch::{Exception, Origin, Run, RunState};
use rota_core::id::{JobId, Version};
use rota_core::jitter::offset_ms;
use rota_core::job::{Definition, JobState};
use rota_core::limits::RANGE_COUNT_MAX;
use rota_core::time::UnixMs;
use rota_cron::{Kind, Schedule};

use super::{Rule, Verdict};
use crate::store::{Changes, Part};

/// The expectation of all jobs.
#[derive(Debug, Default)]
pub struct Coverage {
    jobs: BTreeMap<JobId, Expected>,
    /// The latest wall time that a machine has seen: what may start then may also start after a step back.
    latest: i64,
}

#[derive(Debug)]
struct Expected {
    /// Versions whose slots are still expected, oldest first.
    segments: VecDeque<Segment>,
    /// Everything up to here is covered.
    frontier: i64,
    /// The next slot that is expected, if it is known.
    next: Option<Option<i64>>,
    is_deleted: bool,
    /// Instants of one-shot and fixed-delay versions that rows cover.
    armed: BTreeSet<i64>,
}

#[derive(Clone, Debug)]
struct Segment {
    version: Version,
    schedule: Option<Schedule>,
    from: i64,
    to: i64,
}

impl Segment {
    fn of(definition: &Definition, from: i64) -> Segment {
        let job = definition.compile().expect("a stored definition was compiled before");
        Segment { version: definition.version, schedule: job.schedule, from, to: i64::MAX }
    }

    fn is_armed(&self) -> bool {
        self.schedule.as_ref().is_some_and(|s| matches!(s.kind(), Kind::Delay | Kind::Once))
    }

    /// The first slot of this version after `after`.
    fn next(&self, after: i64) -> Option<i64> {
        if self.is_armed() {
            return None;
        }
        let slot = self.schedule.as_ref()?.next_after(UnixMs(after.max(self.from)))?.0;
        (slot <= self.to).then_some(slot)
    }
}

impl Expected {
    fn next(&mut self) -> Option<i64> {
        if let Some(known) = self.next {
            return known;
        }
        let found = loop {
            let Some(segment) = self.segments.front() else { break None };
            if let Some(slot) = segment.next(self.frontier) {
                break Some(slot);
            }
            if self.segments.len() == 1 {
                break None;
            }
            self.segments.pop_front();
        };
        self.next = Some(found);
        found
    }
}

impl Coverage {
    /// The next slot of a job that no row covers yet.
    pub fn next(&mut self, job: JobId) -> Option<i64> {
        self.jobs.get_mut(&job).and_then(Expected::next)
    }

    /// A machine takes a step at this wall time.
    pub fn seen(&mut self, wall: UnixMs) {
        self.latest = self.latest.max(wall.0);
    }

    /// Checks a batch that has just been applied.
    pub fn applied(&mut self, part: &Part, changes: &Changes) -> Verdict {
        if part.mark < changes.mark_before {
            return Err(Rule::Slots.broken(format!("the mark went back from {} to {}", changes.mark_before, part.mark)));
        }
        for (job, version) in &changes.defined {
            self.define(&part.jobs[job].versions[version]);
        }
        self.cover_rows(part, changes)?;
        self.arm_again(part, changes);
        for (job, state, at) in &changes.states {
            self.set_state(*job, *state, *at)?;
        }
        self.check_dropped(part, changes)?;
        self.check_mark(part)?;
        Self::check_armed(part, changes)
    }

    /// An instant that is armed while it lies ahead is a new one, though after a step back of the clock an
    /// earlier one may have had the same time.
    fn arm_again(&mut self, part: &Part, changes: &Changes) {
        for (job, _) in &changes.exceptions {
            if let Some(Exception::Armed(at)) = part.exceptions.get(job)
                && part.at < at.0
                && let Some(expected) = self.jobs.get_mut(job)
            {
                expected.armed.remove(&at.0);
            }
        }
    }

    fn define(&mut self, definition: &Definition) {
        let segment = Segment::of(definition, definition.at.0);
        let fresh = || Expected {
            segments: VecDeque::new(),
            frontier: definition.at.0,
            next: None,
            is_deleted: false,
            armed: BTreeSet::new(),
        };
        let expected = self.jobs.entry(definition.id).or_insert_with(fresh);
        if let Some(before) = expected.segments.back_mut() {
            before.to = definition.at.0;
        }
        expected.segments.push_back(segment);
        expected.next = None;
        expected.is_deleted = definition.state == JobState::Deleted;
    }

    fn set_state(&mut self, job: JobId, state: JobState, at: i64) -> Verdict {
        let Some(expected) = self.jobs.get_mut(&job) else { return Ok(()) };
        if state == JobState::Deleted {
            expected.is_deleted = true;
            if let Some(last) = expected.segments.back_mut() {
                last.to = at;
            }
            expected.next = None;
        }
        Ok(())
    }

    fn cover_rows(&mut self, part: &Part, changes: &Changes) -> Verdict {
        let mut by_job: BTreeMap<JobId, Vec<&Run>> = BTreeMap::new();
        for id in &changes.runs_new {
            let run = &part.runs[id].run;
            if run.origin == Origin::Schedule {
                by_job.entry(run.job).or_default().push(run);
            }
        }
        for (job, mut rows) in by_job {
            let is_excepted = changes.exceptions.iter().find(|(j, _)| *j == job);
            let before = is_excepted.map_or_else(|| part.exceptions.get(&job).copied(), |(_, before)| *before);
            rows.sort_by_key(|run| run.slot);
            let mut is_later = false;
            let is_edited = changes.defined.iter().any(|(j, _)| *j == job);
            for run in rows {
                check_start(part, run, is_edited, self.latest)?;
                let expected = self.jobs.get_mut(&job).expect("a job is defined before its rows");
                if expected.segments.iter().any(|s| s.version == run.version && s.is_armed()) {
                    // A version, a resume, or the end of the row before may arm and fire in one batch.
                    let has_ended = |id: &rota_core::id::RunId| part.runs[id].run.job == job;
                    let is_new = changes.defined.iter().any(|(j, _)| *j == job)
                        || changes.states.iter().any(|(j, ..)| *j == job)
                        || changes.runs_set.iter().any(has_ended)
                        || std::mem::replace(&mut is_later, true);
                    cover_armed(run, before, is_new)?;
                    if !expected.armed.insert(run.slot.0) {
                        let text = format!("{} of job {job} covers {}, which is covered already", run.id, run.slot);
                        return Err(Rule::Slots.broken(text));
                    }
                    continue;
                }
                let is_above = match before {
                    Some(Exception::Armed(_)) => true,
                    Some(Exception::Covered(to) | Exception::Judged { covered: to, .. }) => run.slot > to,
                    None => run.slot.0 > changes.mark_before,
                };
                // An edit, a resume and a slot may come in one batch: where the job stood between them counts, too.
                let stood = changes.exceptions.iter().filter(|(j, _)| is_edited && *j == job);
                let was_below = |(_, stood): &(_, Option<Exception>)| matches!(stood, Some(Exception::Covered(to) | Exception::Judged { covered: to, .. }) if run.slot > *to);
                if !is_above && !stood.into_iter().any(was_below) {
                    let text = format!(
                        "{} of job {job} covers slot {} at or below the mark {} ({before:?})",
                        run.id,
                        run.slot,
                        UnixMs(changes.mark_before)
                    );
                    return Err(Rule::Slots.broken(text));
                }
                cover(expected, run)?;
            }
        }
        Ok(())
    }

    /// An armed instant that has come is not dropped without a row.
    fn check_dropped(&self, part: &Part, changes: &Changes) -> Verdict {
        for (job, before) in &changes.exceptions {
            let Some(Exception::Armed(slot)) = before else { continue };
            let is_kept = part.exceptions.get(job) == Some(&Exception::Armed(*slot));
            let is_covered = self.jobs.get(job).is_some_and(|expected| expected.armed.contains(&slot.0));
            let defined = changes.defined.iter().filter(|(j, _)| j == job).map(|_| part.jobs[job].current.at.0);
            let set = changes.states.iter().filter(|(j, ..)| j == job).map(|(.., at)| *at);
            let dropped_at = defined.chain(set).min().unwrap_or(part.at);
            if !is_kept && !is_covered && slot.0 <= dropped_at {
                return Err(Rule::Slots
                    .broken(format!("the armed slot {slot} of job {job} has come, and is dropped without a row")));
            }
        }
        Ok(())
    }

    fn check_mark(&mut self, part: &Part) -> Verdict {
        for (id, job) in &part.jobs {
            let Some(expected) = self.jobs.get_mut(id) else { continue };
            if expected.is_deleted || job.current.state == JobState::Deleted || job.current.state == JobState::Finished
            {
                continue;
            }
            let limit = match part.exceptions.get(id) {
                Some(Exception::Covered(to) | Exception::Judged { covered: to, .. }) => to.0,
                Some(Exception::Armed(_)) => continue,
                None => part.mark,
            };
            if let Some(slot) = expected.next().filter(|slot| *slot <= limit) {
                let text = format!("slot {} of job {id} is below {} and no row covers it", UnixMs(slot), UnixMs(limit));
                return Err(Rule::Slots.broken(text));
            }
        }
        Ok(())
    }

    fn check_armed(part: &Part, changes: &Changes) -> Verdict {
        let runs = changes.runs_new.iter().chain(&changes.runs_set).map(|id| part.runs[id].run.job);
        let defined = changes.defined.iter().map(|(job, _)| *job);
        let states = changes.states.iter().map(|(job, ..)| *job);
        for id in runs.chain(defined).chain(states).chain(changes.exceptions.iter().map(|(job, _)| *job)) {
            check_one_armed(part, id)?;
        }
        Ok(())
    }

    /// Recomputes the coverage of every job from its history and its rows, without what was kept.
    pub fn recount(part: &Part, history: &[(JobId, JobState, i64)]) -> Verdict {
        for (id, job) in &part.jobs {
            let deleted_at = history.iter().find(|(j, s, _)| j == id && *s == JobState::Deleted).map(|(.., at)| *at);
            let mut segments: VecDeque<Segment> = VecDeque::new();
            for definition in job.versions.values() {
                if let Some(before) = segments.back_mut() {
                    before.to = definition.at.0;
                }
                segments.push_back(Segment::of(definition, definition.at.0));
            }
            if let (Some(last), Some(at)) = (segments.back_mut(), deleted_at) {
                last.to = at;
            }
            let from = segments.front().map_or(0, |s| s.from);
            let mut expected = Expected {
                segments,
                frontier: from,
                next: None,
                is_deleted: deleted_at.is_some(),
                armed: BTreeSet::new(),
            };
            let mut rows: Vec<&Run> =
                part.runs.values().map(|r| &r.run).filter(|r| r.job == *id && r.origin == Origin::Schedule).collect();
            rows.sort_by_key(|run| run.slot);
            for run in rows {
                let definition = &job.versions[&run.version];
                if !Segment::of(definition, definition.at.0).is_armed() {
                    cover(&mut expected, run)?;
                }
            }
            let is_enabled = job.current.state == JobState::Enabled && !part.exceptions.contains_key(id);
            if let Some(slot) = expected.next().filter(|slot| is_enabled && *slot <= part.mark) {
                return Err(
                    Rule::Slots.broken(format!("recount: slot {} of job {id} is covered by no row", UnixMs(slot)))
                );
            }
        }
        Ok(())
    }
}

/// A run starts no sooner than its slot and its job's jitter say, but for what an edit fires at once.
fn check_start(part: &Part, run: &Run, is_edited: bool, latest: i64) -> Verdict {
    let jitter_ms = part.jobs[&run.job].versions[&run.version].spec.jitter_ms;
    let start = run.slot.plus_ms(offset_ms(run.job, run.slot, jitter_ms) as i64);
    if run.shards > 0 && latest < start.0 && !is_edited {
        let text = format!("{} of job {} for slot {} starts at {}, before {start}", run.id, run.job, run.slot, run.at);
        return Err(Rule::Slots.broken(text));
    }
    Ok(())
}

/// A row of a fixed-delay or one-shot job covers the instant that was armed, or that a version of the
/// same batch asks for.
fn cover_armed(run: &Run, before: Option<Exception>, is_new: bool) -> Verdict {
    match before {
        Some(Exception::Armed(at)) if at == run.slot => Ok(()),
        _ if is_new => Ok(()),
        other => {
            Err(Rule::Slots.broken(format!("{} of job {} covers {}, armed was {other:?}", run.id, run.job, run.slot)))
        }
    }
}

/// A row covers the next expected slot, or a range that starts with it.
fn cover(expected: &mut Expected, run: &Run) -> Verdict {
    let broken =
        |text: String| Err(Rule::Slots.broken(format!("{} of job {} v{}: {text}", run.id, run.job, run.version)));
    match expected.next() {
        Some(slot) if slot == run.slot.0 => {}
        Some(slot) if run.slot.0 > slot => {
            return broken(format!("covers {}, but {} comes first", run.slot, UnixMs(slot)));
        }
        other => {
            let next = other.map(UnixMs);
            return broken(format!("covers {}, which is covered already or is no slot (next is {next:?})", run.slot));
        }
    }
    let version = expected.segments.front().map(|s| s.version);
    if run.state != RunState::Skipped && version != Some(run.version) {
        return broken(format!("covers {}, which is of version {version:?}", run.slot));
    }
    let mut count = 0;
    let mut last = run.slot.0;
    while let Some(slot) = expected.next().filter(|slot| *slot <= run.slot_last.0) {
        count += 1;
        last = slot;
        expected.frontier = slot;
        expected.next = None;
    }
    if last != run.slot_last.0 {
        return broken(format!("its last slot {} is no slot", run.slot_last));
    }
    if count != run.slots && run.slots < RANGE_COUNT_MAX {
        return broken(format!("says {} slots from {} to {}, there are {count}", run.slots, run.slot, run.slot_last));
    }
    Ok(())
}

fn check_one_armed(part: &Part, id: JobId) -> Verdict {
    let job = &part.jobs[&id].current;
    let kind = Segment::of(job, 0).schedule.map(|s| s.kind());
    if job.state != JobState::Enabled || !matches!(kind, Some(Kind::Delay | Kind::Once)) {
        return Ok(());
    }
    let is_armed = matches!(part.exceptions.get(&id), Some(Exception::Armed(_)));
    let is_scheduled = |run: &&rota_core::id::RunId| {
        let run = &part.runs[run].run;
        run.origin == Origin::Schedule && !run.state.is_terminal()
    };
    let open = part.unclosed.get(&id).map_or(0, |runs| runs.iter().filter(is_scheduled).count());
    let is_right = match kind {
        // A one-shot job is finished by the batch that fires it.
        Some(Kind::Once) => is_armed,
        // An edit may turn a job with several open runs into a fixed-delay one.
        _ => is_armed != (open > 0),
    };
    if !is_right {
        return Err(Rule::Armed.broken(format!("job {id} ({kind:?}) has {open} open runs, and armed: {is_armed}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::id::{AppId, RunId};
    use rota_core::job::{Spec, Target, When};

    fn job(id: u32, at: i64) -> Definition {
        let target = Target::Handler { name: "h".to_owned(), param: String::new() };
        Definition {
            id: JobId(id),
            version: Version(1),
            app: AppId(1),
            name: "j".to_owned(),
            spec: Spec::new(When::EveryMs(1_000), target),
            state: JobState::Enabled,
            at: UnixMs(at),
            by: String::new(),
            managed_by: None,
            pause: None,
        }
    }

    fn row(slot: i64, last: i64, slots: u64) -> Run {
        Run {
            id: RunId(1),
            app: AppId(1),
            job: JobId(1),
            version: Version(1),
            origin: Origin::Schedule,
            slot: UnixMs(slot),
            slot_last: UnixMs(last),
            slots,
            state: RunState::Skipped,
            why: None,
            shards: 0,
            at: UnixMs(slot),
            ended_at: None,
            param: None,
        }
    }

    fn check(rows: &[(i64, i64, u64)], expected: Result<Option<i64>, &str>) {
        let mut coverage = Coverage::default();
        coverage.define(&job(1, 500));
        let known = coverage.jobs.get_mut(&JobId(1)).unwrap();
        let verdict = rows.iter().try_for_each(|(slot, last, slots)| cover(known, &row(*slot, *last, *slots)));
        match (verdict, expected) {
            (Ok(()), Ok(next)) => assert_eq!(known.next(), next),
            (Err(broken), Err(part)) => assert!(broken.what.contains(part), "{}", broken.what),
            (verdict, _) => panic!("{verdict:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn slots_are_covered_once_in_order_and_counted() {
        check(&[(1_000, 1_000, 1), (2_000, 4_000, 3)], Ok(Some(5_000)));
        check(&[(2_000, 2_000, 1)], Err("comes first"));
        check(&[(1_000, 1_000, 1), (1_000, 1_000, 1)], Err("covered already"));
        check(&[(1_000, 1_500, 1)], Err("is no slot"));
        check(&[(1_000, 3_000, 2)], Err("there are 3"));
    }
}
