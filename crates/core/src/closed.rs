//! Which line of a specification took a slot away: an entry of its calendar, or a bound of the time in which it is active.
//!
//! Nothing fires or fails by this; it is for whoever asks why there was no run.

use rota_cron::{Active, Calendar, Kind, Schedule};

use crate::job::Spec;
use crate::time::UnixMs;

/// What took a slot away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closed {
    /// The job is active only from then on.
    BeforeActive(UnixMs),
    /// The job was active only until then.
    AfterActive(UnixMs),
    /// Its calendar: the first entry of `exclude` that closes it by itself, as it was written. There is none if only
    /// several entries together close what a gap of the clock had left.
    Calendar(Option<String>),
}

impl Spec {
    /// What took away all slots that the bare schedule has from `first` to `last`; none if it has none there, or if some
    /// are left. A fixed delay has no slots of its own: any instant that is open counts as one.
    #[must_use]
    pub fn closed(&self, name: &str, first: UnixMs, last: UnixMs) -> Option<Closed> {
        let schedule = self.compile_schedule(name).ok()?.0?;
        let has = |schedule: &Schedule| {
            let found = match schedule.kind() {
                Kind::Delay => schedule.first_open(first),
                Kind::Cron | Kind::Every | Kind::Once => schedule.next_after(first.plus_ms(-1)),
            };
            found.is_some_and(|found| found <= last)
        };
        let unbounded = schedule.with_active(Active::ALWAYS);
        let bare = unbounded.with_calendar(None);
        if !has(&bare) || has(&schedule) {
            return None;
        }
        let Active { from, until } = schedule.active();
        if let Some(from) = from.filter(|from| last < *from) {
            return Some(Closed::BeforeActive(from));
        }
        if let Some(until) = until.filter(|until| first > *until) {
            return Some(Closed::AfterActive(until));
        }
        let closes = |entry: &&String| {
            let alone = Calendar::parse(std::slice::from_ref(*entry), &self.calendar.include);
            alone.is_ok_and(|alone| !has(&bare.with_calendar(Some(alone))))
        };
        Some(Closed::Calendar(self.calendar.exclude.iter().find(closes).cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Calendar as Days, Target, When};

    fn check(
        schedule: When,
        exclude: &[&str],
        active: (Option<&str>, Option<&str>),
        at: &str,
        expected: Option<Closed>,
    ) {
        let mut spec = Spec::new(schedule, Target::Handler { name: "echo".to_owned(), param: String::new() });
        spec.zone = "Asia/Shanghai".to_owned();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        spec.calendar = Days { exclude: texts(exclude), include: texts(&["2026-10-10"]) };
        (spec.active.from, spec.active.until) = (active.0.map(str::to_owned), active.1.map(str::to_owned));
        let at = UnixMs::parse_rfc3339(at).unwrap();
        assert_eq!(spec.closed("nightly", at, at.plus_ms(59_999)), expected);
    }

    fn by(entry: &str) -> Option<Closed> {
        Some(Closed::Calendar(Some(entry.to_owned())))
    }

    #[test]
    fn the_line_that_took_a_slot_away_is_named() {
        let nightly = || When::Cron("0 2 * * *".to_owned());
        let week = ["sun", "01:00-01:30", "sat", "2026-10-01..2026-10-07"];
        check(nightly(), &week, (None, None), "2026-10-03T02:00:00+08:00", by("sat"));
        check(nightly(), &week, (None, None), "2026-10-05T02:00:00+08:00", by("2026-10-01..2026-10-07"));
        check(nightly(), &week, (None, None), "2026-10-08T02:00:00+08:00", None);
        check(nightly(), &week, (None, None), "2026-10-10T02:00:00+08:00", None);
        // Nothing was to run at that time anyway.
        check(nightly(), &week, (None, None), "2026-10-03T03:00:00+08:00", None);
        check(When::EveryMs(600_000), &week, (None, None), "2026-10-08T01:20:00+08:00", by("01:00-01:30"));
        check(When::DelayMs(600_000), &week, (None, None), "2026-10-04T11:11:00+08:00", by("sun"));
        check(When::DelayMs(600_000), &week, (None, None), "2026-10-08T11:11:00+08:00", None);
        let bounds = (Some("2026-10-02"), Some("2026-10-31"));
        let instant = |text| UnixMs::parse_rfc3339(text).unwrap();
        let before = Closed::BeforeActive(instant("2026-10-02T00:00:00+08:00"));
        check(nightly(), &week, bounds, "2026-09-28T02:00:00+08:00", Some(before));
        let after = Closed::AfterActive(instant("2026-10-31T23:59:59.999+08:00"));
        check(nightly(), &week, bounds, "2026-11-02T02:00:00+08:00", Some(after));
        check(nightly(), &week, bounds, "2026-10-04T02:00:00+08:00", by("sun"));
    }
}
