//! Calendars: days and times of day on which a schedule has no slot, and days that stay working days whatever else says.
//!
//! A calendar takes wall times away from a schedule; it never adds any. A day is open unless its date, its day of the
//! year or its weekday is excluded; an included date is open whatever excludes it. Daily windows close times of open
//! days, included ones too. Where clocks go forward, a slot that stands for skipped wall times needs one of them to be
//! open, and its own instant too.
//!
//! It is kept as what the search asks for: open days as the mask of a month, closed windows in order. Immutable; a clone
//! is one pointer.
//!
//! Absent on purpose: names of calendars, and the holidays of any country. Whoever writes a schedule brings the dates.

mod parse;

pub(crate) use parse::day_of;

use std::sync::Arc;

use crate::civil::{self, DAY_S, Month};
use crate::days::ByWeekday;
use crate::error::Error;

/// A week in seconds.
pub(crate) const WEEK_S: i64 = 7 * DAY_S;

/// When a schedule has no slots. Equal if it closes the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Calendar(Arc<Inner>);

#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Inner {
    /// Spans of days since 1970-01-01, both ends in; in order, apart from each other.
    excluded: Box<[(i64, i64)]>,
    included: Box<[(i64, i64)]>,
    /// Bit d of month m, counted from 1: that day of every year.
    yearly: [u32; 13],
    /// Bit 0 is Sunday.
    weekdays: u8,
    /// Seconds of the day, the end not in; in order, apart from each other.
    windows: Box<[(i64, i64)]>,
}

impl Calendar {
    /// Reads a calendar.
    ///
    /// `exclude` has dates (`2026-10-01`), days of every year (`12-25`), weekdays (`sat`), ranges of each
    /// (`2026-10-01..2026-10-07`, `12-24..01-02`, `sat-sun`), and daily windows (`22:00-06:00`, the end not in).
    /// `include` has dates and ranges of dates that are open whatever day `exclude` names: extra working days.
    ///
    /// An error names the item (see [`crate::Error::item`]) and the place in it.
    pub fn parse<S: AsRef<str>>(exclude: &[S], include: &[S]) -> Result<Self, Error> {
        parse::calendar(exclude, include).map(|inner| Self(Arc::new(inner)))
    }

    /// Whether it closes nothing.
    pub fn is_empty(&self) -> bool {
        let Inner { excluded, included: _, yearly, weekdays, windows } = &*self.0;
        excluded.is_empty() && yearly.iter().all(|days| *days == 0) && *weekdays == 0 && windows.is_empty()
    }

    /// The open days of a month, bit d for day d.
    pub(crate) fn days_of(&self, month: Month) -> u32 {
        let length = month.length_days();
        let first_day = month.first_day();
        let by_weekday = ByWeekday { every: self.0.weekdays, ..ByWeekday::default() };
        // Asked of no weekday, `of` names none.
        let weekdays = by_weekday.of(length, civil::weekday(first_day));
        let closed = weekdays | self.0.yearly[usize::from(month.month)] | spans_of(&self.0.excluded, first_day, length);
        let all = (u32::MAX >> (31 - length)) & !1;
        (all & !closed) | spans_of(&self.0.included, first_day, length)
    }

    /// The closed window that a second of the day is in.
    pub(crate) fn window_at(&self, time: i64) -> Option<(i64, i64)> {
        let place = self.0.windows.partition_point(|(_, end)| *end <= time);
        self.0.windows.get(place).copied().filter(|(start, _)| *start <= time)
    }

    /// Whether a wall time is open.
    pub(crate) fn is_open(&self, wall: i64) -> bool {
        let (month, day) = civil::split_day(wall.div_euclid(DAY_S));
        self.days_of(month) >> day & 1 == 1 && self.window_at(wall.rem_euclid(DAY_S)).is_none()
    }

    /// What weekdays and windows leave open of a week, in seconds from the start of a Thursday (1970-01-01 was one), the
    /// ends not in; on `any_weekday`, what windows alone leave open. Excluded and included dates have no part in it.
    pub(crate) fn open_week(&self, any_weekday: bool) -> impl Iterator<Item = (i64, i64)> {
        let closed = if any_weekday { 0 } else { self.0.weekdays };
        let days = (0..7).filter(move |day| closed >> ((day + 4) % 7) & 1 == 0);
        let ends = self.0.windows.iter().map(|(_, end)| *end);
        let starts = self.0.windows.iter().map(|(start, _)| *start);
        let spans = std::iter::once(0).chain(ends).zip(starts.chain([DAY_S])).filter(|(from, end)| from < end);
        days.flat_map(move |day| spans.clone().map(move |(from, end)| (day * DAY_S + from, day * DAY_S + end)))
    }

    /// The first included day at or after a day.
    pub(crate) fn included_from(&self, day: i64) -> Option<i64> {
        let place = self.0.included.partition_point(|(_, end)| *end < day);
        self.0.included.get(place).map(|(start, _)| (*start).max(day))
    }

    /// The last included day at or before a day.
    pub(crate) fn included_to(&self, day: i64) -> Option<i64> {
        let place = self.0.included.partition_point(|(start, _)| *start <= day);
        self.0.included[..place].last().map(|(_, end)| (*end).min(day))
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        let Inner { excluded, included, yearly, weekdays, windows } = &*self.0;
        Parts { excluded, included, yearly: yearly_runs(yearly), weekdays: *weekdays, windows: joined(windows) }
    }
}

/// What a calendar says, for words.
pub(crate) struct Parts<'c> {
    pub(crate) excluded: &'c [(i64, i64)],
    pub(crate) included: &'c [(i64, i64)],
    /// First and last (month, day) of each run within a year.
    pub(crate) yearly: Vec<((u8, u8), (u8, u8))>,
    pub(crate) weekdays: u8,
    /// A window over midnight is one again: its end is less than its start.
    pub(crate) windows: Vec<(i64, i64)>,
}

/// The days of a month that spans cover.
fn spans_of(spans: &[(i64, i64)], first_day: i64, length: u8) -> u32 {
    let last_day = first_day + i64::from(length) - 1;
    let place = spans.partition_point(|(_, end)| *end < first_day);
    let inside = spans.get(place..).unwrap_or_default().iter().take_while(|(start, _)| *start <= last_day);
    inside.fold(0, |mask, (start, end)| {
        let from = start.max(&first_day) - first_day + 1;
        let to = end.min(&last_day) - first_day + 1;
        mask | (u32::MAX >> (31 - to)) & (u32::MAX << from)
    })
}

fn yearly_runs(yearly: &[u32; 13]) -> Vec<((u8, u8), (u8, u8))> {
    let mut runs: Vec<((u8, u8), (u8, u8))> = Vec::new();
    let mut is_open = false;
    for month in 1..=12_u8 {
        // A leap year, so that the 29th of February goes on with March.
        for day in 1..=(Month { year: 2000, month }).length_days() {
            let is_in = yearly[usize::from(month)] >> day & 1 == 1;
            match runs.last_mut() {
                Some(run) if is_in && is_open => run.1 = (month, day),
                _ if is_in => runs.push(((month, day), (month, day))),
                _ => {}
            }
            is_open = is_in;
        }
    }
    runs
}

fn joined(windows: &[(i64, i64)]) -> Vec<(i64, i64)> {
    match windows {
        [(0, first_end), inner @ .., (last_start, DAY_S)] => {
            let mut joined = inner.to_vec();
            joined.push((*last_start, *first_end));
            joined
        }
        other => other.to_vec(),
    }
}
