//! The fields of an expression: their names, bounds and words.

use crate::cron::Dialect;

/// The last year that a slot can be in; the first is 1970.
pub(crate) const YEAR_MAX: u16 = 2199;
pub(crate) const YEAR_MIN: u16 = 1970;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
    Year,
}

const UNIX: [Field; 5] = [Field::Minute, Field::Hour, Field::DayOfMonth, Field::Month, Field::DayOfWeek];
const QUARTZ: [Field; 7] =
    [Field::Second, Field::Minute, Field::Hour, Field::DayOfMonth, Field::Month, Field::DayOfWeek, Field::Year];

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    /// The fields of a dialect in order; the last one of Quartz may be left out.
    pub(crate) fn all(dialect: Dialect) -> &'static [Field] {
        match dialect {
            Dialect::Unix => &UNIX,
            Dialect::Quartz => &QUARTZ,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
            Self::Year => "year",
        }
    }

    pub(crate) fn min(self, dialect: Dialect) -> u16 {
        match (self, dialect) {
            (Self::Second | Self::Minute | Self::Hour, _) | (Self::DayOfWeek, Dialect::Unix) => 0,
            (Self::DayOfMonth | Self::Month, _) | (Self::DayOfWeek, Dialect::Quartz) => 1,
            (Self::Year, _) => YEAR_MIN,
        }
    }

    /// The highest number that may be written. Unix has two Sundays, 0 and 7.
    pub(crate) fn max(self) -> u16 {
        match self {
            Self::Second | Self::Minute => 59,
            Self::Hour => 23,
            Self::DayOfMonth => 31,
            Self::Month => 12,
            Self::DayOfWeek => 7,
            Self::Year => YEAR_MAX,
        }
    }

    /// The highest number before the field starts again: unlike [`Field::max`], it counts Sunday once.
    pub(crate) fn last(self, dialect: Dialect) -> u16 {
        match (self, dialect) {
            (Self::DayOfWeek, Dialect::Unix) => 6,
            _ => self.max(),
        }
    }

    /// The largest step of `*/n` and `a/n`; a larger one would say "once", which nobody means by a step.
    pub(crate) fn step_max(self) -> u16 {
        match self {
            Self::Year => YEAR_MAX - YEAR_MIN,
            Self::Second | Self::Minute | Self::Hour | Self::DayOfMonth | Self::Month | Self::DayOfWeek => self.max(),
        }
    }

    /// The words of this field, in order of their numbers.
    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Self::Month => &MONTHS,
            Self::DayOfWeek => &WEEKDAYS,
            Self::Second | Self::Minute | Self::Hour | Self::DayOfMonth | Self::Year => &[],
        }
    }

    /// The number of an upper-case word of this field.
    pub(crate) fn number_of(self, word: &str, dialect: Dialect) -> Option<u16> {
        let numbers = self.min(dialect)..;
        self.words().iter().zip(numbers).find(|(known, _)| **known == word).map(|(_, number)| number)
    }
}

/// 0 = Sunday, from a dialect's number.
pub(crate) fn weekday_of(number: u16, dialect: Dialect) -> u8 {
    let from_sunday = match dialect {
        Dialect::Unix => number % 7,
        Dialect::Quartz => (number + 6) % 7,
    };
    crate::civil::narrow(i64::from(from_sunday))
}
