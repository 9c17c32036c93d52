//! Misfire: what becomes of slots whose time has passed. Pure: the verdict follows from the policy, the schedule, the slot
//! at which a job stands, and the moment at which it is looked at.
//!
//! A slot *counts as misfired* if it is later than the threshold. Whoever asks has seen that it is not late through our own
//! doing, and asks once: what is judged to run does, however late that gets.

use rota_cron::Schedule;
use serde::{Deserialize, Serialize};

use crate::job::{Invalid, When, in_range};
use crate::limits;
use crate::time::UnixMs;

/// What a job does about slots that it missed. What is absent has its default.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Misfire {
    /// Which of them run.
    #[serde(default)]
    pub policy: Policy,
    /// From when on a slot counts as misfired, in milliseconds of lateness; [`limits::LATE_MAX_MS`] if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ms: Option<u64>,
    /// How late a slot may be and still run, in milliseconds; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// How many are caught up, the newest of them; [`limits::CATCH_UP_MAX`] if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// How fast they are caught up; [`Pace::DEFAULT`] if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
}

/// Which of the slots that were missed run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// None that counts as misfired.
    Skip,
    /// The newest that is due stands for all before it.
    #[default]
    FireOnce,
    /// All, the oldest first.
    CatchUp,
}

/// So many runs in so long, spread evenly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// How many.
    pub runs: u32,
    /// In how many milliseconds.
    pub per_ms: u64,
}

impl Pace {
    /// Ten a second.
    pub const DEFAULT: Pace = Pace { runs: 10, per_ms: 1_000 };

    /// Milliseconds between two runs, rounded so that they are never more.
    #[must_use]
    pub fn interval_ms(self) -> u64 {
        self.per_ms.div_ceil(u64::from(self.runs.max(1)))
    }

    /// Checks the bounds, for a key of this name.
    pub fn check(self, field: &'static str) -> Result<(), Invalid> {
        let is_sound = self.per_ms > 0 && self.per_ms <= limits::PACE_PER_MAX_MS;
        let is_slow = u64::from(self.runs) <= limits::PACE_MAX_PER_S * self.per_ms.div_ceil(1_000);
        if self.runs == 0 || !is_sound || !is_slow {
            return Err(Invalid {
                field,
                message: format!("a pace lies between 1/h and {}/s", limits::PACE_MAX_PER_S),
                hint: Some("runs per second, minute or hour: 10/s, 30/m, 100/h".to_owned()),
            });
        }
        Ok(())
    }
}

/// Consecutive slots without a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The first.
    pub first: UnixMs,
    /// The last.
    pub last: UnixMs,
    /// How many, at most [`limits::RANGE_COUNT_MAX`].
    pub slots: u64,
}

/// What becomes of a job that stands at a slot: first what is skipped, then what runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The slots from where it stands on that are skipped, if any are.
    pub skipped: Option<Skipped>,
    /// The first slot that runs; none if all that is due is skipped.
    pub runs: Option<UnixMs>,
    /// Up to here every slot that is not skipped was judged to run.
    pub until: UnixMs,
}

impl Misfire {
    /// From when on a slot counts as misfired, in milliseconds of lateness.
    #[must_use]
    pub fn threshold_ms(&self) -> i64 {
        self.threshold_ms.map_or(limits::LATE_MAX_MS, signed)
    }

    /// How fast missed slots are caught up, if they are.
    #[must_use]
    pub fn pace(&self) -> Option<Pace> {
        (self.policy == Policy::CatchUp).then(|| self.pace.unwrap_or(Pace::DEFAULT))
    }

    /// Judges the slots from `slot` to `until`, that is, those that are due. The first of them counts as misfired.
    /// A slot is as late as `until` lies behind it, less the `leeway_ms` that it has by its job: the whole jitter, and the
    /// wait for upstream jobs.
    #[must_use]
    pub fn judge(&self, schedule: &Schedule, slot: UnixMs, until: UnixMs, leeway_ms: u64) -> Verdict {
        let newest = schedule.last_at_or_before(until).unwrap_or(slot).max(slot);
        // The first due slot that is at most so late.
        let late_by = |ms: i64| {
            let from = UnixMs(until.0.saturating_sub(signed(leeway_ms)).saturating_sub(ms));
            let first = if from <= slot { Some(slot) } else { schedule.next_after(UnixMs(from.0 - 1)) };
            first.filter(|first| *first <= newest)
        };
        let within = self.within_ms.map_or(Some(slot), |ms| late_by(signed(ms)));
        let runs = match self.policy {
            Policy::Skip => late_by(self.threshold_ms()),
            Policy::FireOnce => within.map(|_| newest),
            Policy::CatchUp => {
                let max = self.max.unwrap_or(limits::CATCH_UP_MAX);
                within.map(|oldest| nth_before(schedule, newest, max, oldest))
            }
        };
        let last = match runs {
            Some(first) => schedule.prev_before(first).filter(|last| *last >= slot),
            None => Some(newest),
        };
        let skipped = last.map(|last| {
            let slots = schedule.count_between(UnixMs(slot.0 - 1), last, limits::RANGE_COUNT_MAX);
            Skipped { first: slot, last, slots }
        });
        let until = if self.policy == Policy::Skip { runs.unwrap_or(newest) } else { newest };
        Verdict { skipped, runs, until }
    }

    /// Checks the bounds, and that every part has a meaning.
    pub(crate) fn check(&self, schedule: &When) -> Result<(), Invalid> {
        if *self == Misfire::default() {
            return Ok(());
        }
        let refused = |field, message: &str, hint: &str| {
            Err(Invalid { field, message: message.to_owned(), hint: Some(hint.to_owned()) })
        };
        if !matches!(schedule, When::Cron(_) | When::EveryMs(_)) {
            let message = "only a job with `cron` or `every` can miss slots";
            return refused("misfire", message, "leave it out; timeout.start bounds how late a run may begin");
        }
        for (field, ms) in [("misfire.threshold", self.threshold_ms), ("misfire.within", self.within_ms)] {
            let Some(ms) = ms else { continue };
            in_range(field, ms)?;
            if ms < limits::MISFIRE_MIN_MS {
                return refused(field, "shorter than a second", "a run that starts at once is a little late, too");
            }
        }
        let is_catch_up = self.policy == Policy::CatchUp;
        if self.policy == Policy::Skip && self.within_ms.is_some() {
            return refused("misfire.within", "`skip` runs no missed slot", "leave it out, or choose fire_once");
        }
        if self.within_ms.is_some_and(|ms| signed(ms) < self.threshold_ms()) {
            return refused(
                "misfire.within",
                "shorter than the threshold, so that no missed slot would run",
                "make it longer, or choose the policy skip",
            );
        }
        let only = "only `catch_up` runs more than one missed slot";
        if !is_catch_up && self.max.is_some() {
            return refused("misfire.max", only, "leave it out, or choose catch_up");
        }
        if !is_catch_up && self.pace.is_some() {
            return refused("misfire.pace", only, "leave it out, or choose catch_up");
        }
        if self.max.is_some_and(|max| max == 0 || max > limits::CATCH_UP_LIMIT) {
            let message = format!("outside 1 to {}", limits::CATCH_UP_LIMIT);
            return refused("misfire.max", &message, "the newest so many of the missed slots run");
        }
        let Some(pace) = self.pace() else { return Ok(()) };
        pace.check("misfire.pace")?;
        if let When::EveryMs(period) = schedule
            && pace.interval_ms() > *period
        {
            let message = "slower than the job's own slots: once behind, it would never catch up";
            return refused("misfire.pace", message, "choose a pace that is faster than `every`");
        }
        Ok(())
    }
}

/// The slot that is the `count`th from `newest` backwards, or `oldest` if that comes first.
fn nth_before(schedule: &Schedule, newest: UnixMs, count: u32, oldest: UnixMs) -> UnixMs {
    let back = std::iter::successors(Some(newest), |slot| schedule.prev_before(*slot).filter(|slot| *slot >= oldest));
    back.take(count.max(1) as usize).last().unwrap_or(newest)
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use rota_cron::{DstPolicy, Zone};

    use super::*;

    /// What was judged, in seconds: the skipped range with its count, the slots that run.
    fn judged(
        misfire: &Misfire,
        schedule: &Schedule,
        slot: i64,
        until: i64,
        jitter: u64,
    ) -> (Option<(i64, i64, u64)>, Vec<i64>) {
        let verdict = misfire.judge(schedule, UnixMs(slot * 1_000), UnixMs(until * 1_000), jitter * 1_000);
        let skipped = verdict.skipped.map(|gap| (gap.first.0 / 1_000, gap.last.0 / 1_000, gap.slots));
        let run = verdict.runs.map_or_else(Vec::new, |first| {
            schedule.between(UnixMs(first.0 - 1), verdict.until).map(|slot| slot.0 / 1_000).collect()
        });
        (skipped, run)
    }

    fn policy(policy: Policy) -> Misfire {
        Misfire { policy, ..Misfire::default() }
    }

    #[test]
    fn each_policy_has_its_verdict() {
        let ten = Schedule::every(10_000).unwrap();
        let check = |misfire: Misfire, until, skipped, first: &[i64]| {
            assert_eq!(judged(&misfire, &ten, 10, until, 0), (skipped, first.to_vec()), "{misfire:?} at {until}");
        };
        check(policy(Policy::FireOnce), 95, Some((10, 80, 8)), &[90]);
        check(policy(Policy::FireOnce), 75, Some((10, 60, 6)), &[70]);
        check(policy(Policy::Skip), 95, Some((10, 30, 3)), &[40]);
        check(Misfire { threshold_ms: Some(2_000), ..policy(Policy::Skip) }, 95, Some((10, 90, 9)), &[]);
        check(policy(Policy::CatchUp), 75, None, &[10, 20, 30, 40, 50, 60, 70]);
        let bounded = Misfire { within_ms: Some(65_000), ..policy(Policy::CatchUp) };
        check(bounded, 95, Some((10, 20, 2)), &[30, 40, 50, 60, 70, 80, 90]);
        check(Misfire { max: Some(2), ..bounded }, 95, Some((10, 70, 7)), &[80, 90]);
        check(Misfire { max: Some(2), ..bounded }, 95, Some((10, 70, 7)), &[80, 90]);
    }

    #[test]
    fn the_newest_fires_only_within_its_window() {
        let zone = Zone::utc();
        let daily = Schedule::cron("2 2 * * *", rota_cron::Dialect::Unix, zone, DstPolicy::Standard).unwrap();
        let hour = Misfire { within_ms: Some(3_600_000), ..Misfire::default() };
        let slot = 2 * 3_600 + 120;
        assert_eq!(judged(&hour, &daily, slot, slot + 180, 0), (None, vec![slot]));
        assert_eq!(judged(&hour, &daily, slot, slot + 7_080, 0), (Some((slot, slot, 1)), vec![]));
        assert_eq!(judged(&hour, &daily, slot, slot + 7_080, 3_600), (None, vec![slot]), "jitter is not lateness");
    }

    /// The verdict against slots that are looked at one by one.
    #[test]
    fn the_verdict_is_that_of_a_list() {
        for (n, misfire) in every_kind().into_iter().enumerate() {
            let schedule = Schedule::every(1_000 + 500 * (n as u64 % 4)).unwrap();
            for late in (0..400).map(|step| 60_001 + step * 337) {
                let until = UnixMs(10_000_000);
                let jitter = 700 * (n as u64 % 3);
                let Some(slot) = schedule.next_after(UnixMs(until.0 - late - jitter.cast_signed())) else { panic!() };
                if until.0 - slot.0 - jitter.cast_signed() <= misfire.threshold_ms() {
                    continue;
                }
                let all: Vec<UnixMs> = schedule.between(UnixMs(slot.0 - 1), until).collect();
                let lateness = |slot: &UnixMs| until.0 - slot.0 - jitter.cast_signed();
                let within = |slot: &&UnixMs| misfire.within_ms.is_none_or(|ms| lateness(slot) <= ms.cast_signed());
                let run: Vec<UnixMs> = match misfire.policy {
                    Policy::Skip => {
                        all.iter().filter(|slot| lateness(slot) <= misfire.threshold_ms()).copied().collect()
                    }
                    Policy::FireOnce => all.last().into_iter().filter(within).copied().collect(),
                    Policy::CatchUp => {
                        let most = misfire.max.unwrap_or(limits::CATCH_UP_MAX) as usize;
                        let inside: Vec<UnixMs> = all.iter().filter(within).copied().collect();
                        inside[inside.len().saturating_sub(most)..].to_vec()
                    }
                };
                let skipped = &all[..all.len() - run.len()];
                let verdict = misfire.judge(&schedule, slot, until, jitter);
                assert_eq!(verdict.runs, run.first().copied(), "{misfire:?}, {late} ms late");
                let range = skipped.first().zip(skipped.last());
                assert_eq!(
                    verdict.skipped,
                    range.map(|(first, last)| Skipped { first: *first, last: *last, slots: skipped.len() as u64 })
                );
            }
        }
    }

    fn every_kind() -> Vec<Misfire> {
        let mut all = Vec::new();
        for threshold_ms in [None, Some(1_000), Some(90_000)] {
            all.push(Misfire { threshold_ms, ..policy(Policy::Skip) });
            for within_ms in [None, Some(95_000), Some(140_000)] {
                all.push(Misfire { threshold_ms, within_ms, ..policy(Policy::FireOnce) });
                for max in [None, Some(1), Some(70)] {
                    all.push(Misfire { threshold_ms, within_ms, max, ..policy(Policy::CatchUp) });
                }
            }
        }
        all
    }

    #[test]
    fn a_pace_is_never_exceeded() {
        let interval = |runs, per_ms| Pace { runs, per_ms }.interval_ms();
        assert_eq!([interval(10, 1_000), interval(300, 1_000), interval(1, 3_600_000)], [100, 4, 3_600_000]);
        for (runs, per_ms, is_sound) in
            [(1, 1_000, true), (1_000, 1_000, true), (1_001, 1_000, false), (0, 1_000, false), (1, 3_600_001, false)]
        {
            assert_eq!(Pace { runs, per_ms }.check("pace").is_ok(), is_sound, "{runs} in {per_ms}");
        }
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let every = When::EveryMs(10_000);
        let check = |misfire: Misfire, field: &str| {
            assert_eq!(
                misfire.check(&every).err().map(|invalid| invalid.field).unwrap_or_default(),
                field,
                "{misfire:?}"
            );
        };
        let (skip, once, all) = (policy(Policy::Skip), Misfire::default(), policy(Policy::CatchUp));
        check(skip, "");
        check(all, "");
        check(Misfire { within_ms: Some(1), ..once }, "misfire.within");
        check(Misfire { within_ms: Some(30_000), ..once }, "misfire.within");
        check(Misfire { within_ms: Some(60_000), ..once }, "");
        check(Misfire { within_ms: Some(60_000), ..skip }, "misfire.within");
        check(Misfire { threshold_ms: Some(999), ..skip }, "misfire.threshold");
        check(Misfire { max: Some(3), ..once }, "misfire.max");
        check(Misfire { max: Some(0), ..all }, "misfire.max");
        check(Misfire { pace: Some(Pace::DEFAULT), ..once }, "misfire.pace");
        check(Misfire { pace: Some(Pace { runs: 1, per_ms: 60_000 }), ..all }, "misfire.pace");
        for kind in [When::Manual, When::DelayMs(5_000), When::OnceMs(5)] {
            assert_eq!(skip.check(&kind).unwrap_err().field, "misfire");
            assert_eq!(once.check(&kind), Ok(()));
        }
    }
}
