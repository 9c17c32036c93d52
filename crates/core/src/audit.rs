//! Comparing the ledger with the slots that jobs should have had.
//!
//! The expectation comes from the stored versions of a job alone: each covers the slots after the instant at which it took
//! effect, up to the next one's; a pause or a freeze takes no slot away, since a row stands for what it covered; a deletion
//! ends it. Rows are given in the order of their ids, in which a job's slots are covered too, so that all there is to
//! remember of a job is how far it is covered.
//!
//! Absent on purpose: reading, and what is a row's state. Whether a slot that no row covers is still awaited is said by the
//! mark and the exceptions, as they were read before the rows.

use std::collections::{BTreeMap, BTreeSet};

use rota_cron::{Kind, Schedule};

use crate::batch::Exception;
use crate::id::{JobId, RunId};
use crate::job::{Definition, Invalid};
use crate::limits;
use crate::time::UnixMs;

/// What a row of origin `schedule` covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its run.
    pub run: RunId,
    /// The job.
    pub job: JobId,
    /// The first slot.
    pub slot: UnixMs,
    /// The last slot.
    pub slot_last: UnixMs,
    /// How many it says that it covers.
    pub slots: u64,
}

/// What does not agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The job.
    pub job: JobId,
    /// The slot, or the first of several.
    pub slot: UnixMs,
    /// What is wrong with it.
    pub what: Wrong,
}

/// What can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// Slots without a row.
    Hole {
        /// The last of them.
        last: UnixMs,
        /// How many, at most [`limits::RANGE_COUNT_MAX`].
        slots: u64,
    },
    /// A slot that this row covers and an earlier one did.
    Double(RunId),
    /// A row of what is no slot.
    Unfounded(RunId),
    /// A row that covers another number of slots than it says.
    Miscounted {
        /// The row.
        run: RunId,
        /// How many it covers.
        slots: u64,
    },
}

impl Wrong {
    /// The word that API and CLI show.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Wrong::Hole { .. } => "hole",
            Wrong::Double(_) => "double",
            Wrong::Unfounded(_) => "unfounded",
            Wrong::Miscounted { .. } => "miscounted",
        }
    }
}

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Jobs looked at.
    pub jobs: u64,
    /// Rows of slots within the span.
    pub rows: u64,
    /// Slots that they cover.
    pub slots: u64,
    /// Slots without a row.
    pub holes: u64,
    /// Slots with more than one.
    pub doubles: u64,
    /// Rows without a slot, or that are miscounted.
    pub unfounded: u64,
    /// Slots that are due and still wait: held, paused, or about to be decided.
    pub waiting: u64,
}

impl Counts {
    /// Whether everything agrees.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.holes == 0 && self.doubles == 0 && self.unfounded == 0
    }
}

/// An audit of the slots from one instant up to another.
#[derive(Debug)]
pub struct Audit {
    from: UnixMs,
    until: UnixMs,
    jobs: BTreeMap<JobId, Expected>,
    /// Schedules in use: many jobs share one.
    schedules: BTreeSet<Schedule>,
    counts: Counts,
}

#[derive(Debug)]
struct Expected {
    /// Versions whose slots are still expected, oldest first.
    versions: Vec<Version>,
    at: usize,
    /// Everything from the span's begin up to here is covered.
    frontier: UnixMs,
    /// How far the store says that it is covered.
    standing: UnixMs,
    /// The instant that waits of its own, of a one-shot or fixed-delay job.
    armed: Option<UnixMs>,
}

#[derive(Debug)]
struct Version {
    schedule: Option<Schedule>,
    from: UnixMs,
    to: UnixMs,
    is_first: bool,
}

impl Version {
    fn kind(&self) -> Option<Kind> {
        self.schedule.as_ref().map(Schedule::kind)
    }

    /// Its first slot after an instant, if that can be told from the schedule.
    fn next(&self, after: UnixMs) -> Option<UnixMs> {
        let schedule = self.schedule.as_ref()?;
        let slot = match schedule.kind() {
            Kind::Delay => return None,
            // The first version of a one-shot job fires also if its instant had passed.
            Kind::Once if self.is_first => schedule.next_after(after)?,
            Kind::Once | Kind::Cron | Kind::Every => schedule.next_after(after.max(self.from))?,
        };
        (slot <= self.to).then_some(slot)
    }

    fn has(&self, slot: UnixMs) -> bool {
        self.next(UnixMs(slot.0 - 1)) == Some(slot)
    }
}

impl Expected {
    /// The next slot that has no row yet.
    fn next(&mut self) -> Option<UnixMs> {
        while let Some(version) = self.versions.get(self.at) {
            if let Some(slot) = version.next(self.frontier) {
                return Some(slot);
            }
            if self.at + 1 == self.versions.len() {
                return None;
            }
            self.at += 1;
        }
        None
    }

    /// The slots up to `last`: how many, and the last of them. The frontier moves there.
    fn pass(&mut self, last: UnixMs) -> (u64, Option<UnixMs>) {
        let (mut count, mut passed) = (0, None);
        while let Some(slot) = self.next().filter(|slot| *slot <= last) {
            let version = &self.versions[self.at];
            let to = last.min(version.to);
            match version.schedule.as_ref().filter(|schedule| matches!(schedule.kind(), Kind::Cron | Kind::Every)) {
                Some(schedule) => {
                    count += schedule.count_between(UnixMs(slot.0 - 1), to, limits::RANGE_COUNT_MAX);
                    passed = schedule.last_at_or_before(to).or(passed);
                }
                None => {
                    count += 1;
                    passed = Some(slot);
                }
            }
            self.frontier = passed.unwrap_or(slot).max(slot);
        }
        self.frontier = self.frontier.max(last);
        (count, passed)
    }

    /// Whether a version that was in force has this slot.
    fn has(&self, slot: UnixMs) -> bool {
        self.versions.iter().any(|version| version.has(slot))
    }

    /// Whether an instant may be one that a run of a fixed-delay version armed.
    fn may_be_armed(&self, slot: UnixMs) -> bool {
        let delayed = |version: &&Version| version.kind() == Some(Kind::Delay);
        self.versions.iter().filter(delayed).any(|version| slot > version.from && slot <= version.to.plus_ms(1))
    }
}

impl Audit {
    /// Looks at slots from `from` to `until`, both included.
    #[must_use]
    pub fn new(from: UnixMs, until: UnixMs) -> Audit {
        Audit { from, until, jobs: BTreeMap::new(), schedules: BTreeSet::new(), counts: Counts::default() }
    }

    /// Adds a job: its versions, oldest first; when it was deleted; how far its partition is covered, and its exception.
    pub fn add(
        &mut self,
        versions: &[Definition],
        deleted_at: Option<UnixMs>,
        mark: UnixMs,
        exception: Option<Exception>,
    ) -> Result<(), Invalid> {
        let Some(last) = versions.last() else { return Ok(()) };
        let mut kept = Vec::with_capacity(1);
        for (at, definition) in versions.iter().enumerate() {
            let to = versions.get(at + 1).map(|next| next.at).or(deleted_at).unwrap_or(UnixMs(i64::MAX));
            if to < self.from || definition.at > self.until {
                continue;
            }
            let schedule = definition.compile()?.schedule.map(|schedule| self.share(schedule));
            kept.push(Version { schedule, from: definition.at, to, is_first: definition.version.0 == 1 });
        }
        let (standing, armed) = match exception {
            Some(Exception::Covered(to) | Exception::Judged { covered: to, .. }) => (to, None),
            Some(Exception::Armed(at)) => (mark, Some(at)),
            None => (mark, None),
        };
        let expected = Expected { versions: kept, at: 0, frontier: UnixMs(self.from.0 - 1), standing, armed };
        self.counts.jobs += u64::from(self.jobs.insert(last.id, expected).is_none());
        Ok(())
    }

    fn share(&mut self, schedule: Schedule) -> Schedule {
        if let Some(known) = self.schedules.get(&schedule) {
            return known.clone();
        }
        self.schedules.insert(schedule.clone());
        schedule
    }

    /// Whether a job was added.
    #[must_use]
    pub fn knows(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// The next row, in order of ids.
    pub fn row(&mut self, row: &Row, found: &mut impl FnMut(Finding)) {
        let Some(expected) = self.jobs.get_mut(&row.job) else { return };
        if row.slot_last < self.from || row.slot > self.until {
            return;
        }
        self.counts.rows += 1;
        let first = row.slot.max(self.from);
        if first <= expected.frontier {
            let is_slot = expected.has(row.slot) || expected.may_be_armed(row.slot);
            let what = if is_slot { Wrong::Double(row.run) } else { Wrong::Unfounded(row.run) };
            *(if is_slot { &mut self.counts.doubles } else { &mut self.counts.unfounded }) += 1;
            return found(Finding { job: row.job, slot: row.slot, what });
        }
        if row.slots == 1 && expected.may_be_armed(row.slot) {
            self.counts.slots += 1;
            expected.frontier = row.slot;
            return;
        }
        // What lies before it and was expected is a hole.
        let (missing, last) = match expected.next() {
            Some(slot) if slot < first => {
                let (count, last) = expected.pass(UnixMs(first.0 - 1));
                (Some(slot).zip(last), count)
            }
            Some(_) | None => (None, 0),
        };
        if let (Some((slot, until)), slots) = (missing, last) {
            self.counts.holes += slots;
            found(Finding { job: row.job, slot, what: Wrong::Hole { last: until, slots } });
        }
        if row.slot >= self.from && expected.next() != Some(row.slot) {
            self.counts.unfounded += 1;
            return found(Finding { job: row.job, slot: row.slot, what: Wrong::Unfounded(row.run) });
        }
        let (count, last) = expected.pass(row.slot_last);
        self.counts.slots += count;
        let is_whole = row.slot >= self.from;
        if last != Some(row.slot_last) || (is_whole && count != row.slots && row.slots < limits::RANGE_COUNT_MAX) {
            self.counts.unfounded += 1;
            found(Finding { job: row.job, slot: row.slot, what: Wrong::Miscounted { run: row.run, slots: count } });
        }
    }

    /// All rows were given: what is left without one.
    pub fn finish(mut self, found: &mut impl FnMut(Finding)) -> Counts {
        for (job, expected) in &mut self.jobs {
            let standing = expected.standing.min(self.until);
            while let Some(slot) = expected.next().filter(|slot| *slot <= standing) {
                if expected.armed == Some(slot) {
                    self.counts.waiting += 1;
                    expected.frontier = slot;
                    continue;
                }
                let (slots, last) = expected.pass(standing);
                self.counts.holes += slots;
                found(Finding { job: *job, slot, what: Wrong::Hole { last: last.unwrap_or(slot), slots } });
            }
            self.counts.waiting += expected.pass(self.until).0;
        }
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::AppId;
    use crate::job::{JobState, Spec, Target, When};

    fn version(no: u32, at: i64, when: When) -> Definition {
        let target = Target::Handler { name: "h".to_owned(), param: String::new() };
        Definition {
            id: JobId(7),
            version: crate::id::Version(no),
            app: AppId(1),
            name: "j".to_owned(),
            spec: Spec::new(when, target),
            state: JobState::Enabled,
            at: UnixMs(at),
            by: String::new(),
            managed_by: None,
            pause: None,
        }
    }

    fn every(no: u32, at: i64, ms: u64) -> Definition {
        version(no, at, When::EveryMs(ms))
    }

    /// A job's audit of the slots from 2 s to 9 s, with rows of (first, last, count).
    fn audit(
        versions: &[Definition],
        deleted_at: Option<i64>,
        exception: Option<Exception>,
        rows: &[(i64, i64, u64)],
    ) -> (Vec<(i64, &'static str)>, Counts) {
        let mut audit = Audit::new(UnixMs(2_000), UnixMs(9_000));
        audit.add(versions, deleted_at.map(UnixMs), UnixMs(8_000), exception).unwrap();
        let mut found = Vec::new();
        let mut note = |finding: Finding| found.push((finding.slot.0, finding.what.word()));
        for (no, (slot, last, slots)) in (1..).zip(rows) {
            let row =
                Row { run: RunId(no), job: JobId(7), slot: UnixMs(*slot), slot_last: UnixMs(*last), slots: *slots };
            audit.row(&row, &mut note);
        }
        let counts = audit.finish(&mut note);
        assert_eq!(counts.is_clean(), found.is_empty());
        (found, counts)
    }

    fn check(rows: &[(i64, i64, u64)], expected: &[(i64, &str)], waiting: u64) {
        let (found, counts) = audit(&[every(1, 500, 1_000)], None, None, rows);
        assert_eq!((found.as_slice(), counts.waiting), (expected, waiting), "{rows:?}");
    }

    #[test]
    fn every_slot_has_one_row() {
        let one = |slot| (slot, slot, 1);
        check(&[one(1_000), one(2_000), (3_000, 7_000, 5), one(8_000)], &[], 1);
        check(&[(1_000, 9_000, 9)], &[], 0);
        check(&[(1_000, 12_000, 12)], &[], 0);
        check(&[(2_000, 4_000, 3), (6_000, 8_000, 3)], &[(5_000, "hole")], 1);
        check(&[(2_000, 6_000, 5)], &[(7_000, "hole")], 1);
        check(&[], &[(2_000, "hole")], 1);
        check(&[(2_000, 8_000, 7), one(8_000)], &[(8_000, "double")], 1);
        check(&[(2_000, 8_000, 7), one(3_000), one(9_000)], &[(3_000, "double")], 0);
        check(&[one(2_000), one(2_500), (3_000, 8_000, 6)], &[(2_500, "unfounded")], 1);
        check(&[(2_000, 8_000, 6)], &[(2_000, "miscounted")], 1);
        check(&[(2_000, 8_500, 7)], &[(2_000, "miscounted")], 1);
    }

    #[test]
    fn what_still_waits_is_no_hole() {
        let held = Some(Exception::Covered(UnixMs(4_999)));
        let (found, counts) = audit(&[every(1, 500, 1_000)], None, held, &[(2_000, 4_000, 3)]);
        assert_eq!((found, counts.waiting, counts.slots), (vec![], 5, 3));
        let (found, _) = audit(&[every(1, 500, 1_000)], None, held, &[(2_000, 3_000, 2)]);
        assert_eq!(found, [(4_000, "hole")]);
    }

    #[test]
    fn each_version_has_its_own_slots() {
        let edited = [every(1, 500, 1_000), every(2, 4_500, 2_000)];
        let rows = [(2_000, 4_000, 3), (6_000, 6_000, 1), (8_000, 8_000, 1)];
        assert_eq!(audit(&edited, None, None, &rows).0, []);
        assert_eq!(audit(&edited, None, None, &[(2_000, 8_000, 5)]).0, [], "a range may span an edit");
        assert_eq!(audit(&edited, Some(6_500), None, &rows[..2]).0, [], "a deletion ends it");
        let new = [every(1, 5_500, 1_000)];
        assert_eq!(audit(&new, None, None, &[(6_000, 8_000, 3)]).0, []);
        assert_eq!(audit(&new, None, None, &[(5_000, 5_000, 1), (6_000, 8_000, 3)]).0, [(5_000, "unfounded")]);
        let manual = [every(1, 500, 1_000), version(2, 4_500, When::Manual)];
        assert_eq!(audit(&manual, None, None, &[(2_000, 4_000, 3)]).0, []);
    }

    #[test]
    fn armed_instants_have_a_row_or_wait() {
        let once = |at| version(1, 500, When::OnceMs(at));
        assert_eq!(audit(&[once(5_000)], None, None, &[(5_000, 5_000, 1)]).0, []);
        assert_eq!(audit(&[once(5_000)], None, None, &[]).0, [(5_000, "hole")]);
        let armed = Some(Exception::Armed(UnixMs(5_000)));
        assert_eq!(audit(&[once(5_000)], None, armed, &[]).0, []);
        assert_eq!(audit(&[once(5_000)], Some(4_000), None, &[]).0, [], "deleted before");
        let delay = [version(1, 500, When::DelayMs(1_000))];
        let rows = [(2_100, 2_100, 1), (3_777, 3_777, 1)];
        assert_eq!(audit(&delay, None, Some(Exception::Armed(UnixMs(8_500))), &rows).0, []);
        assert_eq!(audit(&delay, None, None, &[rows[0], rows[1], rows[1]]).0, [(3_777, "double")]);
    }
}
