//! Which days of a month match: the whole month at once, as a bit mask (bit d for day d).

use crate::civil::{self, Month};

/// Days by their place in the month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByDate {
    /// Bit d: day d.
    pub(crate) days: u32,
    /// Bit n: n days before the last.
    pub(crate) before_last: u32,
    /// Bit d: the weekday nearest to day d.
    pub(crate) nearest: u32,
    /// Bit n: the weekday nearest to n days before the last.
    pub(crate) nearest_before_last: u32,
}

/// Days by their weekday; bit 0 is Sunday.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByWeekday {
    pub(crate) every: u8,
    pub(crate) last: u8,
    /// The first to the fifth of the month.
    pub(crate) nth: [u8; 5],
}

/// How the two day fields go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// A day must match both. Quartz with `?` (which matches every day), and Vixie cron if a field starts with `*`.
    And,
    /// A day must match one: Vixie cron if both fields are restricted.
    Or,
}

/// The days of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Days {
    pub(crate) by_date: ByDate,
    pub(crate) by_weekday: ByWeekday,
    pub(crate) join: Join,
}

impl Days {
    /// Every day.
    pub(crate) const EVERY: Days = Days {
        by_date: ByDate { days: EVERY_DATE, before_last: 0, nearest: 0, nearest_before_last: 0 },
        by_weekday: ByWeekday { every: ALL_WEEKDAYS, last: 0, nth: [0; 5] },
        join: Join::And,
    };

    /// Whether every day of every month matches.
    pub(crate) fn is_every(&self) -> bool {
        self.by_date.days & EVERY_DATE == EVERY_DATE && self.by_weekday.every == ALL_WEEKDAYS
    }

    /// The matching days of a month.
    pub(crate) fn of(&self, month: Month) -> u32 {
        let length = month.length_days();
        let first_weekday = civil::weekday(month.first_day());
        let (by_date, by_weekday) = (self.by_date.of(length, first_weekday), self.by_weekday.of(length, first_weekday));
        match self.join {
            Join::And => by_date & by_weekday,
            Join::Or => by_date | by_weekday,
        }
    }
}

/// Bits 1..=length.
fn month_mask(length: u8) -> u32 {
    (u32::MAX >> (31 - length)) & !1
}

impl ByDate {
    fn of(&self, length: u8, first_weekday: u8) -> u32 {
        let mut mask = self.days & month_mask(length);
        if self.before_last | self.nearest | self.nearest_before_last == 0 {
            return mask;
        }
        for before in bits(self.before_last).filter(|before| *before < length) {
            mask |= 1 << (length - before);
        }
        let from_last = bits(self.nearest_before_last).filter(|before| *before < length).map(|before| length - before);
        for day in bits(self.nearest).filter(|day| *day <= length).chain(from_last) {
            mask |= 1 << nearest_weekday(day, length, first_weekday);
        }
        mask
    }
}

impl ByWeekday {
    pub(crate) fn of(&self, length: u8, first_weekday: u8) -> u32 {
        if self.every == ALL_WEEKDAYS {
            return month_mask(length);
        }
        let mut mask = 0;
        for weekday in bits(u32::from(self.every)) {
            let first = first_of(weekday, first_weekday);
            // Days 1, 8, 15, 22 and 29, moved to the first such weekday; what leaves the month is cut.
            mask |= 0x2040_8102_u32.unbounded_shl(u32::from(first - 1));
        }
        for weekday in bits(u32::from(self.last)) {
            let first = first_of(weekday, first_weekday);
            mask |= 1 << (first + (length - first) / 7 * 7);
        }
        for (weeks, weekdays) in (0_u8..).zip(self.nth) {
            for weekday in bits(u32::from(weekdays)) {
                mask |= 1_u32.unbounded_shl(u32::from(first_of(weekday, first_weekday) + weeks * 7));
            }
        }
        mask & month_mask(length)
    }
}

/// Days 1 to 31.
const EVERY_DATE: u32 = !1;

/// All seven weekdays.
pub(crate) const ALL_WEEKDAYS: u8 = 0x7F;

/// The first day of the month that is this weekday, 1..=7.
fn first_of(weekday: u8, first_weekday: u8) -> u8 {
    (weekday + 7 - first_weekday) % 7 + 1
}

/// Saturday moves to Friday and Sunday to Monday, but never out of the month.
fn nearest_weekday(day: u8, length: u8, first_weekday: u8) -> u8 {
    match (first_weekday + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

fn bits(mut mask: u32) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        u8::try_from(bit).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(by_date: ByDate, by_weekday: ByWeekday, month: (i32, u8), expected: &[u8]) {
        let days = Days { by_date, by_weekday, join: Join::Or };
        let found: Vec<u8> = bits(days.of(Month { year: month.0, month: month.1 })).collect();
        assert_eq!(found, expected, "{days:?} in {month:?}");
    }

    #[test]
    fn rules_of_a_month_name_their_days() {
        let (date, week) = (ByDate::default(), ByWeekday::default());
        check(ByDate { before_last: 0b1001, ..date }, week, (2024, 2), &[26, 29]);
        check(ByDate { before_last: 1 << 30, ..date }, week, (2025, 4), &[]);
        check(ByDate { nearest: 1 << 1, ..date }, week, (2025, 2), &[3]);
        check(ByDate { nearest: 1 << 31, ..date }, week, (2025, 8), &[29]);
        check(ByDate { nearest: 1 << 31, ..date }, week, (2025, 9), &[]);
        check(ByDate { nearest_before_last: 1, ..date }, week, (2025, 5), &[30]);
        check(date, ByWeekday { every: 0b10, ..week }, (2025, 2), &[3, 10, 17, 24]);
        check(date, ByWeekday { every: 1, ..week }, (2025, 6), &[1, 8, 15, 22, 29]);
        check(date, ByWeekday { last: 1 << 5, ..week }, (2025, 1), &[31]);
        check(date, ByWeekday { nth: [0, 0, 0, 0, 1 << 6], ..week }, (2025, 3), &[29]);
        check(date, ByWeekday { nth: [0, 0, 0, 0, 1 << 6], ..week }, (2025, 2), &[]);
        check(ByDate { days: 1 << 31, ..date }, week, (2025, 2), &[]);
    }
}
