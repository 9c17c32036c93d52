//! Civil dates as plain integers: days since 1970-01-01 in the proleptic Gregorian calendar.
//!
//! A *wall* instant is a count of seconds since 1970-01-01T00:00:00 on the wall clock of some zone. The search runs on
//! these integers only; jiff is asked for offsets and nothing else.

pub(crate) const DAY_S: i64 = 86_400;

/// A calendar month, the unit by which the search walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Month {
    pub(crate) year: i32,
    /// 1..=12.
    pub(crate) month: u8,
}

impl Month {
    pub(crate) fn length_days(self) -> u8 {
        match self.month {
            2 if is_leap(self.year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Days from 1970-01-01 to the first of this month.
    pub(crate) fn first_day(self) -> i64 {
        // Years are counted from March, so that the leap day is the last day of its year.
        let (year, month_from_march) = if self.month > 2 {
            (i64::from(self.year), i64::from(self.month) - 3)
        } else {
            (i64::from(self.year) - 1, i64::from(self.month) + 9)
        };
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        // Months from March have 31, 30, 31, 30, 31 days, repeating: 153 days in five.
        let days_of_months = (153 * month_from_march + 2) / 5;
        365 * year + leap_days + days_of_months - EPOCH_FROM_YEAR_0
    }
}

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_FROM_YEAR_0: i64 = 719_468;

/// Splits days since 1970-01-01 into a month and the day of the month, 1..=31.
pub(crate) fn split_day(day: i64) -> (Month, u8) {
    let from_march = day + EPOCH_FROM_YEAR_0;
    let era = from_march.div_euclid(146_097);
    let day_of_era = from_march.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, carry) = if month_from_march < 10 { (month_from_march + 3, 0) } else { (month_from_march - 9, 1) };
    let year = year_of_era + era * 400 + carry;
    (Month { year: narrow(year), month: narrow(month) }, narrow(day_of_month))
}

/// Weekday of a day since 1970-01-01: 0 = Sunday.
pub(crate) fn weekday(day: i64) -> u8 {
    narrow((day + 4).rem_euclid(7))
}

fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Narrows a number that the caller has bounded already.
pub(crate) fn narrow<T: TryFrom<i64>>(value: i64) -> T {
    T::try_from(value).ok().expect("a part of a date is small")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_and_join_agree_with_a_walk_over_every_day() {
        let (mut month, mut day_of_month) = (Month { year: 1600, month: 1 }, 1);
        for day in month.first_day()..(Month { year: 2400, month: 1 }).first_day() {
            assert_eq!(split_day(day), (month, day_of_month));
            assert_eq!(month.first_day() + i64::from(day_of_month) - 1, day);
            day_of_month += 1;
            if day_of_month > month.length_days() {
                day_of_month = 1;
                month = match month.month {
                    12 => Month { year: month.year + 1, month: 1 },
                    earlier => Month { month: earlier + 1, ..month },
                };
            }
        }
    }

    #[test]
    fn the_epoch_was_a_thursday() {
        assert_eq!(weekday(0), 4);
        assert_eq!(weekday(-5), 6);
        assert_eq!(split_day(0), (Month { year: 1970, month: 1 }, 1));
    }
}
