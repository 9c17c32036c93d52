//! Backfills: slots of the past that run because somebody asked for them. Pure: which slots a range has, how far a backfill
//! is, and when its pace lets the next run be made.
//!
//! The slots are those of one version of the job, its calendar and its DST policy included, from `from` on and before
//! `to`, which lies in the past. A backfill makes one row for each, in order, and none for any other instant.

use std::sync::Arc;

use rota_cron::{Kind, Schedule};

use crate::id::{BackfillId, JobId, Version};
use crate::job::Invalid;
use crate::limits;
use crate::misfire::Pace;
use crate::time::{Mono, UnixMs};
use crate::why::Why;

/// At a pace of more than ten a second, what was not made in this time is made up for. So a fast pace is kept although nobody
/// looks every millisecond.
const STEP_MS: u64 = 100;
/// Slots that a plan shows, from the begin and from the end of the range.
const SHOWN: usize = 3;

/// A range of the past that is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backfill {
    /// Its id; asking again for the same range makes another one.
    pub id: BackfillId,
    /// The job.
    pub job: JobId,
    /// The version that runs, whatever the job is edited to meanwhile.
    pub version: Version,
    /// The first instant of the range.
    pub from: UnixMs,
    /// The first instant after it.
    pub to: UnixMs,
    /// The first slot that has no row yet; none if all have one.
    pub next: Option<UnixMs>,
    /// Slots that have a row.
    pub made: u64,
    /// When the last of them was made.
    pub made_at: Option<UnixMs>,
    /// Slots of the range, as they were counted when it was asked for.
    pub total: u64,
    /// How fast its runs are made.
    pub pace: Pace,
    /// How many of its runs may be open at once; none for any number.
    pub parallel: Option<u32>,
    /// When it was asked for.
    pub at: UnixMs,
    /// By whom.
    pub by: Arc<str>,
    /// What for, in their words.
    pub reason: Option<Arc<str>>,
    /// How it ended, if it did.
    pub end: Option<End>,
}

/// How a backfill ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Every slot has its run, and each of these has ended and given its place away.
    Done {
        /// When.
        at: UnixMs,
    },
    /// It makes no more runs.
    Cancelled {
        /// When.
        at: UnixMs,
        /// Who.
        by: Arc<str>,
        /// Why.
        why: Why,
    },
}

impl End {
    /// When it ended.
    #[must_use]
    pub fn at(&self) -> UnixMs {
        match self {
            End::Done { at } | End::Cancelled { at, .. } => *at,
        }
    }
}

impl Backfill {
    /// The word for where it stands that API and CLI show: `running`, `done` or `cancelled`.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.end {
            None => "running",
            Some(End::Done { .. }) => "done",
            Some(End::Cancelled { .. }) => "cancelled",
        }
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// The slot at which it stands has its row, made at this instant.
    pub fn advance(&mut self, schedule: &Schedule, at: UnixMs) {
        let slot = self.next.expect("a backfill stands at a slot until all have a row");
        self.next = schedule.next_after(slot).filter(|next| *next < self.to);
        self.made += 1;
        self.made_at = Some(at);
    }
}

/// The first slot of a range.
#[must_use]
pub fn first(schedule: &Schedule, from: UnixMs, to: UnixMs) -> Option<UnixMs> {
    schedule.next_after(UnixMs(from.0.saturating_sub(1))).filter(|first| *first < to)
}

/// What a backfill would do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Slots in the range, from 1.
    pub total: u64,
    /// The first few of them, in order.
    pub first: Vec<UnixMs>,
    /// The last few, in order, without those that are among the first.
    pub last: Vec<UnixMs>,
    /// How long it takes to make all runs at the pace, in milliseconds: the least that a backfill takes.
    pub takes_ms: u64,
}

/// What a backfill of a range would do as of `now`, or why there can be none. Bounded by [`limits::BACKFILL_SLOTS_MAX`].
pub fn plan(
    schedule: Option<&Schedule>,
    (from, to): (UnixMs, UnixMs),
    pace: Pace,
    parallel: Option<u32>,
    now: UnixMs,
) -> Result<Plan, Invalid> {
    let refuse = |field, message: String, hint: &str| Err(Invalid { field, message, hint: Some(hint.to_owned()) });
    let schedule = match schedule.filter(|schedule| schedule.kind() != Kind::Delay) {
        Some(schedule) => schedule,
        None => {
            let message = "the job has no slots in the past".to_owned();
            return refuse("job", message, "only jobs with cron, every or at have; to run it once: rota run JOB");
        }
    };
    pace.check("pace")?;
    if parallel.is_some_and(|most| most == 0 || most > limits::BACKFILL_PARALLEL_MAX) {
        let message = format!("outside 1 to {}", limits::BACKFILL_PARALLEL_MAX);
        return refuse("parallel", message, "leave it out for as many as the pace makes");
    }
    if from >= to {
        return refuse("to", "the range ends before it begins".to_owned(), "`to` is the first instant after the range");
    }
    if to > now {
        return refuse("to", "the range reaches into the future".to_owned(), "give a `to` that is not later than now");
    }
    let (before, last) = (UnixMs(from.0.saturating_sub(1)), UnixMs(to.0 - 1));
    let total = schedule.count_between(before, last, limits::BACKFILL_SLOTS_MAX + 1);
    if total == 0 {
        let message = "the schedule has no slot in the range".to_owned();
        return refuse("from", message, "rota cron next shows slots; the calendar and the time zone count, too");
    }
    if total > limits::BACKFILL_SLOTS_MAX {
        let message = format!("the range has more than {} slots", limits::BACKFILL_SLOTS_MAX);
        return refuse("to", message, "give a shorter range, and others for the rest");
    }
    let first: Vec<UnixMs> = schedule.between(before, last).take(SHOWN).collect();
    let back = std::iter::successors(schedule.last_at_or_before(last), |slot| schedule.prev_before(*slot));
    let mut ending: Vec<UnixMs> = back.take(SHOWN).take_while(|slot| !first.contains(slot) && *slot >= from).collect();
    ending.reverse();
    Ok(Plan { total, first, last: ending, takes_ms: takes_ms(total, pace) })
}

/// How long it takes to make so many runs at a pace, in milliseconds.
#[must_use]
pub fn takes_ms(runs: u64, pace: Pace) -> u64 {
    runs.saturating_sub(1).saturating_mul(pace.interval_ms())
}

/// When a pace lets the next run be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pacer {
    interval_ms: u64,
    due: Mono,
}

impl Pacer {
    /// The first run is due at once.
    #[must_use]
    pub fn new(pace: Pace, now: Mono) -> Pacer {
        Pacer { interval_ms: pace.interval_ms(), due: now }
    }

    /// At the begin of a term, so many milliseconds after the last run was made, if one was.
    #[must_use]
    pub fn resumed(pace: Pace, since_ms: Option<u64>, now: Mono) -> Pacer {
        let interval_ms = pace.interval_ms();
        let left_ms = since_ms.map_or(0, |since_ms| interval_ms.saturating_sub(since_ms));
        Pacer { interval_ms, due: now.plus(left_ms) }
    }

    /// When the next run is due.
    #[must_use]
    pub fn due(&self) -> Mono {
        self.due
    }

    /// A run is made, which is due.
    pub fn take(&mut self, now: Mono) {
        assert!(self.due <= now, "a run is made when it is due");
        let slack_ms = STEP_MS.saturating_sub(self.interval_ms);
        let least = Mono(now.plus(self.interval_ms).0.saturating_sub(slack_ms));
        self.due = self.due.plus(self.interval_ms).max(least);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rota_cron::{Dialect, DstPolicy, Zone};

    use super::*;

    fn at(text: &str) -> UnixMs {
        UnixMs::parse_rfc3339(text).unwrap()
    }

    fn check_plan(schedule: &Schedule, from: &str, to: &str, expected: Result<(u64, &[&str]), &str>) {
        let found = plan(Some(schedule), (at(from), at(to)), Pace::DEFAULT, None, at("2026-12-01T00:00:00Z"));
        let shown = found.map_err(|invalid| invalid.field).map(|plan| {
            let slots: Vec<UnixMs> = plan.first.into_iter().chain(plan.last).collect();
            (plan.total, slots)
        });
        let expected = expected.map(|(total, slots)| (total, slots.iter().map(|slot| at(slot)).collect()));
        assert_eq!(shown, expected, "{from} to {to}");
    }

    #[test]
    fn a_range_has_the_slots_of_its_schedule_and_not_its_end() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let nightly = Schedule::cron("30 2 * * *", Dialect::Unix, zone, DstPolicy::Standard).unwrap();
        let (first, second) = ("2026-11-01T01:30:00Z", "2026-11-02T01:30:00Z");
        check_plan(&nightly, first, second, Ok((1, &[first])));
        check_plan(&nightly, "2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z", Ok((2, &[first, second])));
        let ends = [
            "2026-01-01T01:30:00Z",
            "2026-01-02T01:30:00Z",
            "2026-01-03T01:30:00Z",
            "2026-06-28T00:30:00Z",
            "2026-06-29T00:30:00Z",
            "2026-06-30T00:30:00Z",
        ];
        // A gap of the clocks lies in between.
        check_plan(&nightly, "2026-01-01T00:00:00Z", "2026-06-30T22:00:00Z", Ok((181, &ends)));
        check_plan(&nightly, "2026-11-01T02:00:00Z", "2026-11-01T03:00:00Z", Err("from"));
        check_plan(&nightly, second, first, Err("to"));
        check_plan(&nightly, second, "2026-12-01T00:00:00.001Z", Err("to"));
        let secondly = Schedule::every(1_000).unwrap();
        check_plan(&secondly, "2026-11-01T00:00:00Z", "2026-11-13T00:00:00Z", Err("to"));
    }

    #[test]
    fn a_job_without_slots_cannot_be_backfilled() {
        let (range, now) = ((UnixMs(0), UnixMs(1_000)), UnixMs(2_000));
        let field = |schedule: Option<&Schedule>, parallel| {
            plan(schedule, range, Pace::DEFAULT, parallel, now).map(|plan| plan.total).map_err(|invalid| invalid.field)
        };
        assert_eq!(field(None, None), Err("job"));
        assert_eq!(field(Some(&Schedule::delay(10_000).unwrap()), None), Err("job"));
        assert_eq!(field(Some(&Schedule::once(UnixMs(500))), None), Ok(1));
        assert_eq!(field(Some(&Schedule::every(1_000).unwrap()), Some(0)), Err("parallel"));
    }

    #[test]
    fn a_backfill_goes_through_its_slots_once() {
        let ten = Schedule::every(10_000).unwrap();
        let (from, to) = (UnixMs(5_000), UnixMs(40_000));
        let mut backfill = Backfill {
            id: BackfillId(1),
            job: JobId(1),
            version: Version(1),
            from,
            to,
            next: first(&ten, from, to),
            made: 0,
            made_at: None,
            total: 3,
            pace: Pace::DEFAULT,
            parallel: None,
            at: to,
            by: "someone".into(),
            reason: None,
            end: None,
        };
        let mut slots = Vec::new();
        while let Some(slot) = backfill.next {
            slots.push(slot.0);
            backfill.advance(&ten, UnixMs(50_000));
        }
        assert_eq!((slots, backfill.made), (vec![10_000, 20_000, 30_000], 3));
        assert_eq!(backfill.made_at, Some(UnixMs(50_000)));
    }

    #[test]
    fn a_new_term_waits_for_what_is_left_of_the_pace() {
        let pace = Pace { runs: 1, per_ms: 60_000 };
        for (since_ms, due) in [(None, 0), (Some(0), 60_000), (Some(59_000), 1_000), (Some(90_000), 0)] {
            assert_eq!(Pacer::resumed(pace, since_ms, Mono(7)).due(), Mono(7 + due), "{since_ms:?}");
        }
    }

    proptest! {
        /// Whoever looks when: no span has more runs than the pace lets begin in it, but for one and what a tenth of a
        /// second brings; and whoever looks often gets all of them.
        #[test]
        fn no_span_has_more_runs_than_its_pace(runs in 1..2_000_u32, per_s in 1..600_u64, looks in prop::collection::vec(0..400_u64, 1..200)) {
            let pace = Pace { runs, per_ms: per_s * 1_000 };
            let interval = pace.interval_ms();
            let mut pacer = Pacer::new(pace, Mono(0));
            let (mut now, mut made) = (Mono(0), Vec::new());
            for wait in looks {
                now = now.plus(wait);
                while pacer.due() <= now {
                    pacer.take(now);
                    made.push(now.0);
                }
            }
            for (n, from) in made.iter().enumerate() {
                for (count, to) in (1..).zip(&made[n..]) {
                    let span = to - from;
                    prop_assert!(count <= (span + STEP_MS.saturating_sub(interval)) / interval + 1, "{count} in {span} ms, one in {interval}");
                }
            }
        }
    }
}
