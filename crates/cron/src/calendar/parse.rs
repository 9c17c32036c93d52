//! Reading the items of a calendar.

use super::Inner;
use crate::civil::{DAY_S, Month};
use crate::error::{Error, ErrorCode};
use crate::field::{YEAR_MAX, YEAR_MIN};
use crate::time::read_number;

/// Items in one list: a lifetime of holidays, one by one.
const ITEMS_MAX: usize = 4_000;
/// Daily windows apart from each other; the search may look at each of them for each day.
const WINDOWS_MAX: usize = 24;

const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// One side of a range, or all of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// Days since 1970-01-01.
    Date(i64),
    Yearly {
        month: u8,
        day: u8,
    },
    Weekday(u8),
    /// Seconds of the day; the end of the day is a time too.
    Time(i64),
}

pub(super) fn calendar<S: AsRef<str>>(exclude: &[S], include: &[S]) -> Result<Inner, Error> {
    let mut parts = Parts::default();
    for (list, items) in [("exclude", exclude), ("include", include)] {
        if items.len() > ITEMS_MAX {
            let message = format!("{list} has {} items, expected at most {ITEMS_MAX}", items.len());
            return Err(Error::new(ErrorCode::TooLong, message));
        }
        for (place, item) in items.iter().enumerate() {
            let item = item.as_ref();
            let added = if list == "exclude" { parts.exclude(item) } else { parts.include(item) };
            added.map_err(|error| error.in_item(list, place, item))?;
        }
    }
    let windows = merged(parts.windows, 0);
    if windows.len() > WINDOWS_MAX {
        return Err(Error::new(ErrorCode::TooLong, format!("exclude has more than {WINDOWS_MAX} daily windows")));
    }
    Ok(Inner {
        excluded: merged(parts.excluded, 1),
        included: merged(parts.included, 1),
        yearly: parts.yearly,
        weekdays: parts.weekdays,
        windows,
    })
}

#[derive(Default)]
struct Parts {
    excluded: Vec<(i64, i64)>,
    included: Vec<(i64, i64)>,
    yearly: [u32; 13],
    weekdays: u8,
    windows: Vec<(i64, i64)>,
}

impl Parts {
    fn exclude(&mut self, item: &str) -> Result<(), Error> {
        match range(item)? {
            (Point::Date(from), Point::Date(to)) => self.excluded.push(days(from, to)?),
            (Point::Yearly { month, day }, Point::Yearly { month: month_to, day: day_to }) => {
                self.close_yearly((month, day), (month_to, day_to));
            }
            (Point::Weekday(from), Point::Weekday(to)) => {
                let length = (to + 7 - from) % 7;
                self.weekdays |= (0..=length).fold(0, |mask, after| mask | 1 << ((from + after) % 7));
            }
            (Point::Time(from), Point::Time(to)) => self.close_window(from, to)?,
            (_, _) => {
                let message = "both sides of a range must be of one kind";
                return Err(Error::new(ErrorCode::BadRange, message).hint(EXAMPLES));
            }
        }
        Ok(())
    }

    fn include(&mut self, item: &str) -> Result<(), Error> {
        match range(item)? {
            (Point::Date(from), Point::Date(to)) => self.included.push(days(from, to)?),
            (_, _) => {
                let message = "an included day is a date, expected one like 2026-10-10";
                return Err(Error::new(ErrorCode::BadDate, message));
            }
        }
        Ok(())
    }

    /// From one day of the year to another, over its end if the other comes first.
    fn close_yearly(&mut self, from: (u8, u8), to: (u8, u8)) {
        for month in 1..=12 {
            for day in 1..=31 {
                let at = (month, day);
                let is_in = if from <= to { from <= at && at <= to } else { from <= at || at <= to };
                if is_in {
                    self.yearly[usize::from(month)] |= 1 << day;
                }
            }
        }
    }

    /// From one time to another, over midnight if the other comes first.
    fn close_window(&mut self, from: i64, to: i64) -> Result<(), Error> {
        if from == to {
            let message = "a window ends where it starts, expected one like 22:00-06:00";
            return Err(Error::new(ErrorCode::BadRange, message).hint("to close whole days, exclude their weekdays"));
        }
        if from < to {
            self.windows.push((from, to));
        } else {
            self.windows.extend([(0, to), (from, DAY_S)].into_iter().filter(|(start, end)| start < end));
        }
        Ok(())
    }
}

const EXAMPLES: &str = "for example 2026-10-01, 2026-10-01..2026-10-07, 12-25, sat or 22:00-06:00";

fn days(from: i64, to: i64) -> Result<(i64, i64), Error> {
    if from > to {
        return Err(Error::new(ErrorCode::BadRange, "the range goes backwards, expected the earlier date first"));
    }
    Ok((from, to))
}

/// Spans in order, those that touch (up to `gap` apart) as one.
fn merged(mut spans: Vec<(i64, i64)>, gap: i64) -> Box<[(i64, i64)]> {
    spans.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        match merged.last_mut() {
            Some(last) if start <= last.1 + gap => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged.into_boxed_slice()
}

/// Both sides of an item; the same twice if it is no range.
fn range(item: &str) -> Result<(Point, Point), Error> {
    let start = item.len() - item.trim_start().len();
    let text = item.trim();
    let (first, second) = match text.split_once("..") {
        Some((first, second)) => (first, Some(second)),
        // Dates have dashes of their own; times and weekdays do not.
        None if text.contains(':') || text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            text.split_once('-').map_or((text, None), |(first, second)| (first, Some(second)))
        }
        None => (text, None),
    };
    let from = point(first, start)?;
    match second {
        Some(second) => Ok((from, point(second, start + text.len() - second.len())?)),
        None if matches!(from, Point::Time(_)) => {
            Err(Error::new(ErrorCode::BadRange, "a window has no end, expected one like 22:00-06:00").at(start))
        }
        None => Ok((from, from)),
    }
}

fn point(text: &str, at: usize) -> Result<Point, Error> {
    let at = at + text.len() - text.trim_start().len();
    let text = text.trim();
    let found = if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        weekday(text)
    } else if text.contains(':') {
        time(text)
    } else {
        date(text)
    };
    found.map_err(|error| error.at(at))
}

fn weekday(text: &str) -> Result<Point, Error> {
    let lower = text.to_ascii_lowercase();
    let found = (0..).zip(WEEKDAYS).find(|(_, name)| *name == lower || name.get(..3) == Some(lower.as_str()));
    found.map(|(number, _)| Point::Weekday(number)).ok_or_else(|| {
        let shown: String = text.chars().take(20).collect();
        Error::new(ErrorCode::BadName, format!("unknown weekday \"{shown}\", expected one like sat")).hint(EXAMPLES)
    })
}

fn time(text: &str) -> Result<Point, Error> {
    let parts: Vec<Option<i64>> = text.split(':').map(|part| read_number(part, 2)).collect();
    let seconds = match parts[..] {
        [Some(hour), Some(minute)] => (hour, minute, 0),
        [Some(hour), Some(minute), Some(second)] => (hour, minute, second),
        _ => (-1, 0, 0),
    };
    match seconds {
        (24, 0, 0) => Ok(Point::Time(DAY_S)),
        (hour @ 0..24, minute @ 0..60, second @ 0..60) => Ok(Point::Time(hour * 3_600 + minute * 60 + second)),
        _ => Err(Error::new(ErrorCode::BadDate, "not a time of day, expected one like 22:00").hint(EXAMPLES)),
    }
}

/// Days from 1970-01-01 to a date.
pub(crate) fn day_of(text: &str) -> Result<i64, Error> {
    match date(text.trim())? {
        Point::Date(day) => Ok(day),
        Point::Yearly { .. } | Point::Weekday(_) | Point::Time(_) => {
            Err(Error::new(ErrorCode::BadDate, "not a date with its year, expected one like 2026-10-01"))
        }
    }
}

fn date(text: &str) -> Result<Point, Error> {
    let parts: Vec<&str> = text.split('-').collect();
    let found = match parts[..] {
        [month, day] => month_and_day(2000, month, day).map(|(month, day)| Point::Yearly { month: month.month, day }),
        [year, month, day] => year_of(year).and_then(|year| {
            let (month, day) = month_and_day(year, month, day)?;
            Some(Point::Date(month.first_day() + i64::from(day) - 1))
        }),
        _ => None,
    };
    found.ok_or_else(|| Error::new(ErrorCode::BadDate, "not a date, expected one like 2026-10-01").hint(EXAMPLES))
}

fn year_of(text: &str) -> Option<i32> {
    let year = u16::try_from(read_number(text, 4)?).ok()?;
    (YEAR_MIN..=YEAR_MAX).contains(&year).then(|| i32::from(year))
}

fn month_and_day(year: i32, month: &str, day: &str) -> Option<(Month, u8)> {
    let month = u8::try_from(read_number(month, 2)?).ok().filter(|month| (1..=12).contains(month))?;
    let month = Month { year, month };
    let day = u8::try_from(read_number(day, 2)?).ok()?;
    (1..=month.length_days()).contains(&day).then_some((month, day))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Calendar;

    fn error(exclude: &[&str], include: &[&str]) -> Error {
        Calendar::parse(exclude, include).unwrap_err()
    }

    #[test]
    fn items_are_merged_into_what_they_close() {
        let calendar = Calendar::parse(
            &[
                "2026-10-04..2026-10-07",
                " 2026-10-01 .. 2026-10-03 ",
                "12-31..01-02",
                "SAT-Sun",
                "fri",
                "22:00-06:00",
                "05:30..07:00",
            ],
            &["2026-10-10", "2026-10-11"],
        )
        .unwrap();
        let parts = calendar.parts();
        assert_eq!(parts.excluded, [(20_727, 20_733)]);
        assert_eq!(parts.included, [(20_736, 20_737)]);
        assert_eq!(parts.weekdays, 0b110_0001);
        assert_eq!(parts.windows, [(79_200, 25_200)]);
        assert_eq!(parts.yearly, [((1, 1), (1, 2)), ((12, 31), (12, 31))]);
        let other = Calendar::parse(
            &["2026-10-01..2026-10-07", "01-01", "01-02", "12-31", "fri..sun", "22:00-07:00"],
            &["2026-10-10..2026-10-11"],
        );
        assert_eq!(other.unwrap(), calendar);
        assert!(Calendar::parse::<&str>(&[], &[]).unwrap().is_empty());
    }

    #[test]
    fn mistakes_name_the_item_and_the_place() {
        for (item, code, position) in [
            ("2026-02-29", ErrorCode::BadDate, 0),
            ("2026-10-01..2026-10-32", ErrorCode::BadDate, 12),
            ("1969-01-01", ErrorCode::BadDate, 0),
            ("2200-01-01", ErrorCode::BadDate, 0),
            ("13-01", ErrorCode::BadDate, 0),
            ("2026-1-1", ErrorCode::BadDate, 0),
            ("", ErrorCode::BadDate, 0),
            ("25:00-26:00", ErrorCode::BadDate, 0),
            ("22:00-6", ErrorCode::BadDate, 6),
            ("22:00", ErrorCode::BadRange, 0),
            (" sat-smu", ErrorCode::BadName, 5),
            ("１2-25", ErrorCode::BadDate, 0),
        ] {
            let found = error(&["sun", item], &[]);
            assert_eq!((found.code, found.position), (code, Some(position)), "{item}: {found:?}");
            assert_eq!(found.item, Some(("exclude", 1)), "{item}: {found:?}");
            assert!(found.message.contains(item.trim()), "{found:?}");
        }
        assert_eq!(error(&["2026-10-07..2026-10-01"], &[]).code, ErrorCode::BadRange);
        assert_eq!(error(&["2026-10-07..sun"], &[]).code, ErrorCode::BadRange);
        assert_eq!(error(&["06:00-06:00"], &[]).code, ErrorCode::BadRange);
        assert_eq!(error(&[], &["sat"]).item, Some(("include", 0)));
        assert_eq!(error(&["01-01"; ITEMS_MAX + 1], &[]).code, ErrorCode::TooLong);
        let quarters: Vec<String> = (0..24).map(|hour| format!("{hour:02}:00-{hour:02}:15")).collect();
        assert!(Calendar::parse(&quarters, &[]).is_ok());
        let more: Vec<String> = quarters.into_iter().chain(["12:30-12:45".to_owned()]).collect();
        assert_eq!(Calendar::parse(&more, &[]).unwrap_err().code, ErrorCode::TooLong);
    }
}
