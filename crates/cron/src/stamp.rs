//! Instants as people and files want them written, and calendar steps: for templates.
//!
//! Of strftime's letters only those are known whose result is the same everywhere: what depends on a locale, or on
//! which library reads it, is refused when the format is read, so that writing never fails.

use jiff::Span;
use jiff::ZonedDateTime;
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};

use crate::time::{HORIZON, UnixMs};
use crate::zone::Zone;

/// A date format that was checked: a part of strftime's language.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DateFormat(Box<str>);

/// What is wrong with a date format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct BadFormat {
    /// Where, in bytes from the beginning.
    pub at: usize,
    /// What is wrong, in one clause.
    pub message: String,
}

/// Every directive, without its percent sign, with what it writes for 2026-12-01T02:03:04.056+08:00 in Asia/Shanghai.
pub const DIRECTIVES: [(&str, &str); 28] = [
    ("F", "2026-12-01"),
    ("T", "02:03:04"),
    ("R", "02:03"),
    ("Y", "2026"),
    ("y", "26"),
    ("m", "12"),
    ("d", "01"),
    ("e", " 1"),
    ("j", "335"),
    ("q", "4"),
    ("H", "02"),
    ("I", "02"),
    ("M", "03"),
    ("S", "04"),
    ("3f", "056"),
    ("p", "AM"),
    ("a", "Tue"),
    ("A", "Tuesday"),
    ("b", "Dec"),
    ("B", "December"),
    ("u", "2"),
    ("w", "2"),
    ("G", "2026"),
    ("V", "49"),
    ("z", "+0800"),
    (":z", "+08:00"),
    ("s", "1796061784"),
    ("%", "%"),
];

/// Longer formats are a mistake.
const FORMAT_BYTES_MAX: usize = 200;

impl DateFormat {
    /// Reads a format such as `%F` or `%Y/%m/%d`.
    pub fn parse(text: &str) -> Result<DateFormat, BadFormat> {
        if text.len() > FORMAT_BYTES_MAX {
            let message = format!("a date format has at most {FORMAT_BYTES_MAX} bytes");
            return Err(BadFormat { at: FORMAT_BYTES_MAX, message });
        }
        let mut rest = text;
        while let Some(percent) = rest.find('%') {
            let at = text.len() - rest.len() + percent;
            let after = &rest[percent + 1..];
            let known = DIRECTIVES.iter().find(|(letters, _)| after.starts_with(letters));
            let Some((letters, _)) = known else {
                let shown: String = after.chars().take(1).collect();
                return Err(BadFormat { at, message: format!("`%{shown}` is not known in a date format") });
            };
            rest = &after[letters.len()..];
        }
        Ok(DateFormat(text.into()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A step along the calendar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// Exact time, in milliseconds.
    Ms(i64),
    /// Calendar days: the same time of day, however long the days between were.
    Days(i32),
    /// Calendar months: the same day of the month, or the month's last.
    Months(i32),
}

impl Zone {
    /// Writes an instant in this zone.
    pub fn strftime(&self, at: UnixMs, format: &DateFormat) -> String {
        let at = self.zoned(at.0.clamp(-62_135_596_800_000, 253_402_207_200_000));
        strtime::format(format.as_str(), &at).expect("a checked format names only parts that an instant has")
    }

    /// The instant one step away; none beyond the years that slots have. A time of day that the target's day skips is
    /// taken after the gap, one that comes twice at its first pass.
    pub fn step(&self, at: UnixMs, step: Step) -> Option<UnixMs> {
        let within = |at: i64| (0..=HORIZON.0).contains(&at);
        if !within(at.0) {
            return None;
        }
        let span = match step {
            Step::Ms(ms) => return at.0.checked_add(ms).filter(|at| within(*at)).map(UnixMs),
            Step::Days(days) => Span::new().try_days(days),
            Step::Months(months) => Span::new().try_months(months),
        };
        let stepped = self.zoned(at.0).checked_add(span.ok()?).ok()?;
        Some(stepped.timestamp().as_millisecond()).filter(|at| within(*at)).map(UnixMs)
    }

    fn zoned(&self, ms: i64) -> ZonedDateTime {
        let at = jiff::Timestamp::from_millisecond(ms).expect("within the years 1 to 9999");
        at.to_zoned_datetime(self.rule())
    }
}

/// A fixed offset as jiff has it.
pub(crate) fn fixed(offset_s: i64) -> TimeZone {
    let offset = Offset::from_seconds(crate::civil::narrow(offset_s)).expect("no offset is beyond 18 hours");
    TimeZone::fixed(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UnixMs {
        UnixMs::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn every_directive_writes_what_its_example_says() {
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        let instant = at("2026-12-01T02:03:04.056+08:00");
        for (letters, expected) in DIRECTIVES {
            let format = DateFormat::parse(&format!("<%{letters}>")).unwrap();
            assert_eq!(zone.strftime(instant, &format), format!("<{expected}>"), "%{letters}");
        }
        let format = DateFormat::parse("日期=%Y年%m月%d日").unwrap();
        assert_eq!(zone.strftime(instant, &format), "日期=2026年12月01日");
        let fixed = Zone::parse("-03:30").unwrap();
        assert_eq!(fixed.strftime(instant, &DateFormat::parse("%F %T %:z").unwrap()), "2026-11-30 14:33:04 -03:30");
    }

    #[test]
    fn a_format_that_is_not_known_is_refused_with_its_place() {
        for (text, place, message) in [
            ("%F %Q", 3, "`%Q` is not known in a date format"),
            ("%", 0, "`%` is not known in a date format"),
            ("日%c", 3, "`%c` is not known in a date format"),
            ("%2f", 0, "`%2` is not known in a date format"),
            ("%-d", 0, "`%-` is not known in a date format"),
        ] {
            let bad = DateFormat::parse(text).unwrap_err();
            assert_eq!((bad.at, bad.message.as_str()), (place, message), "{text}");
        }
        assert!(DateFormat::parse(&"x".repeat(201)).is_err());
        assert!(DateFormat::parse("").is_ok());
    }

    fn check(zone: &str, from: &str, step: Step, expected: Option<&str>) {
        let zone = Zone::parse(zone).unwrap();
        let found = zone.step(at(from), step).map(|at| zone.format(at));
        assert_eq!(found.as_deref(), expected, "{from} {step:?}");
    }

    #[test]
    fn steps_go_by_the_calendar_of_the_zone() {
        let berlin = "Europe/Berlin";
        // The day before the spring gap is 24 hours away, the day after it 23.
        check(berlin, "2026-03-30T02:30:00+02:00", Step::Days(-1), Some("2026-03-29T03:30:00+02:00"));
        check(berlin, "2026-03-28T02:30:00+01:00", Step::Days(1), Some("2026-03-29T03:30:00+02:00"));
        check(berlin, "2026-03-30T12:00:00+02:00", Step::Days(-2), Some("2026-03-28T12:00:00+01:00"));
        check(berlin, "2026-10-26T02:30:00+01:00", Step::Days(-1), Some("2026-10-25T02:30:00+02:00"));
        check(berlin, "2026-03-30T12:00:00+02:00", Step::Ms(-48 * 3_600_000), Some("2026-03-28T11:00:00+01:00"));
        check("UTC", "2026-03-31T00:00:00Z", Step::Months(-1), Some("2026-02-28T00:00:00Z"));
        check("UTC", "2024-02-29T00:00:00Z", Step::Months(12), Some("2025-02-28T00:00:00Z"));
        check("UTC", "1970-01-01T00:00:00Z", Step::Days(-1), None);
        check("UTC", "2199-12-31T00:00:00Z", Step::Days(1), None);
        check("UTC", "2026-01-01T00:00:00Z", Step::Days(i32::MAX), None);
        check("UTC", "2026-01-01T00:00:00Z", Step::Months(i32::MIN), None);
        check("UTC", "2026-01-01T00:00:00Z", Step::Ms(i64::MAX), None);
    }

    #[test]
    fn any_instant_can_be_written() {
        let format = DateFormat::parse("%F %T %G-%V %s %j").unwrap();
        for ms in [i64::MIN, -62_135_596_800_001, -1, 0, 253_402_300_799_999, i64::MAX] {
            for zone in ["UTC", "+18:00", "-18:00", "Asia/Shanghai"] {
                assert!(!Zone::parse(zone).unwrap().strftime(UnixMs(ms), &format).is_empty());
            }
        }
    }
}
