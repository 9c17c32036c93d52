//! The matching wall times of an expression, without any zone: next at or after, previous at or before.
//!
//! Wall times are seconds since 1970-01-01T00:00:00 on some wall clock. Time of day is three bit masks; a day is a bit
//! of its month's mask; months are walked, at most those of 1970..=2199. A calendar takes days and times away.

use crate::calendar::Calendar;
use crate::civil::{self, DAY_S, Month};
use crate::days::Days;
use crate::field::{YEAR_MAX, YEAR_MIN};
use crate::steps::step;

/// Months 1 to 12.
const EVERY_MONTH: u64 = 0x1FFE;

/// 0 to 59, and 0 to 23.
const EVERY_60: u64 = (1 << 60) - 1;
const EVERY_24: u64 = (1 << 24) - 1;

/// Years 1970..=2199 as bits.
pub(crate) type Years = [u64; 4];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wall {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    pub(crate) hours: u64,
    pub(crate) days: Days,
    /// Bit m for month m.
    pub(crate) months: u64,
    /// `None` is every year; boxed because almost nobody names years.
    pub(crate) years: Option<Box<Years>>,
}

/// Days since 1970-01-01 on which a slot can be.
pub(crate) const LAST_DAY: i64 = 84_005;

impl Wall {
    /// Every second of every day.
    pub(crate) const ALWAYS: Wall = Wall {
        seconds: EVERY_60,
        minutes: EVERY_60,
        hours: EVERY_24,
        days: Days::EVERY,
        months: EVERY_MONTH,
        years: None,
    };

    /// Whether only the time of day is restricted, which most expressions are: then no calendar is needed.
    fn is_daily(&self) -> bool {
        self.years.is_none() && self.months & EVERY_MONTH == EVERY_MONTH && self.days.is_every()
    }

    /// The first match at or after this wall time that the calendar leaves open.
    pub(crate) fn next(&self, from: i64, calendar: Option<&Calendar>) -> Option<i64> {
        let (day, time) = (from.div_euclid(DAY_S), from.rem_euclid(DAY_S));
        if calendar.is_none() && self.is_daily() && (0..LAST_DAY).contains(&day) {
            return match self.time_at_or_after(time) {
                Some(found) => Some(day * DAY_S + found),
                None => Some((day + 1) * DAY_S + self.time_at_or_after(0)?),
            };
        }
        let (month, day_of_month) = civil::split_day(day);
        let days = self.days_of(month, calendar);
        if days >> day_of_month & 1 == 1
            && let Some(found) = self.open_at_or_after(time, calendar)
        {
            return Some(day * DAY_S + found);
        }
        let start = self.open_at_or_after(0, calendar)?;
        let later_this_month = bit_at_or_after(u64::from(days), i64::from(day_of_month) + 1);
        let found_day = match later_this_month {
            Some(later) => month.first_day() + later - 1,
            None => self.first_day_after(month, calendar)?,
        };
        Some(found_day * DAY_S + start)
    }

    /// The last match at or before this wall time that the calendar leaves open.
    pub(crate) fn prev(&self, from: i64, calendar: Option<&Calendar>) -> Option<i64> {
        let (day, time) = (from.div_euclid(DAY_S), from.rem_euclid(DAY_S));
        if calendar.is_none() && self.is_daily() && (1..=LAST_DAY).contains(&day) {
            return match self.time_at_or_before(time) {
                Some(found) => Some(day * DAY_S + found),
                None => Some((day - 1) * DAY_S + self.time_at_or_before(DAY_S - 1)?),
            };
        }
        let (month, day_of_month) = civil::split_day(day);
        let days = self.days_of(month, calendar);
        if days >> day_of_month & 1 == 1
            && let Some(found) = self.open_at_or_before(time, calendar)
        {
            return Some(day * DAY_S + found);
        }
        let end = self.open_at_or_before(DAY_S - 1, calendar)?;
        let found_day = match bit_at_or_before(u64::from(days), i64::from(day_of_month) - 1) {
            Some(earlier) => month.first_day() + earlier - 1,
            None => self.last_day_before(month, calendar)?,
        };
        Some(found_day * DAY_S + end)
    }

    /// The matching days of a month, none if its month or year does not match.
    fn days_of(&self, month: Month, calendar: Option<&Calendar>) -> u32 {
        if self.has_year(month.year) && self.months >> month.month & 1 == 1 {
            self.open_days(month, calendar)
        } else {
            0
        }
    }

    /// The matching days of a month that matches.
    fn open_days(&self, month: Month, calendar: Option<&Calendar>) -> u32 {
        match calendar {
            None => self.days.of(month),
            Some(calendar) => self.days.of(month) & calendar.days_of(month),
        }
    }

    fn has_year(&self, year: i32) -> bool {
        let Some(place) = u16::try_from(year).ok().filter(|year| (YEAR_MIN..=YEAR_MAX).contains(year)) else {
            return false;
        };
        let place = place - YEAR_MIN;
        self.years.as_ref().is_none_or(|years| years[usize::from(place / 64)] >> (place % 64) & 1 == 1)
    }

    fn first_day_after(&self, month: Month, calendar: Option<&Calendar>) -> Option<i64> {
        let mut month_from = i64::from(month.month) + 1;
        for year in month.year.max(i32::from(YEAR_MIN))..=i32::from(YEAR_MAX) {
            if year > month.year {
                month_from = 1;
            }
            step();
            if !self.has_year(year) {
                continue;
            }
            while let Some(number) = bit_at_or_after(self.months, month_from) {
                step();
                let candidate = Month { year, month: civil::narrow(number) };
                if let Some(day) = bit_at_or_after(u64::from(self.open_days(candidate, calendar)), 1) {
                    return Some(candidate.first_day() + day - 1);
                }
                month_from = number + 1;
            }
        }
        None
    }

    fn last_day_before(&self, month: Month, calendar: Option<&Calendar>) -> Option<i64> {
        let mut month_to = i64::from(month.month) - 1;
        for year in (i32::from(YEAR_MIN)..=month.year.min(i32::from(YEAR_MAX))).rev() {
            if year < month.year {
                month_to = 12;
            }
            step();
            if !self.has_year(year) {
                continue;
            }
            while let Some(number) = bit_at_or_before(self.months, month_to) {
                step();
                let candidate = Month { year, month: civil::narrow(number) };
                if let Some(day) = bit_at_or_before(u64::from(self.open_days(candidate, calendar)), 31) {
                    return Some(candidate.first_day() + day - 1);
                }
                month_to = number - 1;
            }
        }
        None
    }

    /// Time of day in seconds, at or after `from`, outside of closed windows.
    fn open_at_or_after(&self, mut from: i64, calendar: Option<&Calendar>) -> Option<i64> {
        while from < DAY_S {
            step();
            let found = self.time_at_or_after(from)?;
            match calendar.and_then(|calendar| calendar.window_at(found)) {
                None => return Some(found),
                Some((_, end)) => from = end,
            }
        }
        None
    }

    /// Time of day in seconds, at or before `from`, outside of closed windows.
    fn open_at_or_before(&self, mut from: i64, calendar: Option<&Calendar>) -> Option<i64> {
        while from >= 0 {
            step();
            let found = self.time_at_or_before(from)?;
            match calendar.and_then(|calendar| calendar.window_at(found)) {
                None => return Some(found),
                Some((start, _)) => from = start - 1,
            }
        }
        None
    }

    /// Time of day in seconds, at or after `from`.
    fn time_at_or_after(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = (from / 3_600, from / 60 % 60, from % 60);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(found) = bit_at_or_after(self.seconds, second)
            {
                return Some(hour * 3_600 + minute * 60 + found);
            }
            if let Some(found) = bit_at_or_after(self.minutes, minute + 1) {
                return Some(hour * 3_600 + found * 60 + bit_at_or_after(self.seconds, 0)?);
            }
        }
        let hour = bit_at_or_after(self.hours, hour + 1)?;
        Some(hour * 3_600 + bit_at_or_after(self.minutes, 0)? * 60 + bit_at_or_after(self.seconds, 0)?)
    }

    /// Time of day in seconds, at or before `from`.
    fn time_at_or_before(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = (from / 3_600, from / 60 % 60, from % 60);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(found) = bit_at_or_before(self.seconds, second)
            {
                return Some(hour * 3_600 + minute * 60 + found);
            }
            if let Some(found) = bit_at_or_before(self.minutes, minute - 1) {
                return Some(hour * 3_600 + found * 60 + bit_at_or_before(self.seconds, 59)?);
            }
        }
        let hour = bit_at_or_before(self.hours, hour - 1)?;
        Some(hour * 3_600 + bit_at_or_before(self.minutes, 59)? * 60 + bit_at_or_before(self.seconds, 59)?)
    }
}

/// The lowest set bit from `from` on.
fn bit_at_or_after(mask: u64, from: i64) -> Option<i64> {
    let shifted = if (0..64).contains(&from) { mask >> from } else { 0 };
    (shifted != 0).then(|| from + i64::from(shifted.trailing_zeros()))
}

/// The highest set bit up to `to`.
fn bit_at_or_before(mask: u64, to: i64) -> Option<i64> {
    let kept = if (0..64).contains(&to) { mask & (u64::MAX >> (63 - to)) } else { 0 };
    (kept != 0).then(|| 63 - i64::from(kept.leading_zeros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_day_is_the_last_of_the_last_year() {
        let (month, day) = civil::split_day(LAST_DAY);
        assert_eq!((month, day), (Month { year: i32::from(YEAR_MAX), month: 12 }, 31));
    }
}
