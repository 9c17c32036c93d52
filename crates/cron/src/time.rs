//! Instants: milliseconds since the Unix epoch, UTC.

use std::fmt;

use crate::civil::{self, DAY_S, Month};
use crate::error::{Error, ErrorCode};

/// An instant: milliseconds since the Unix epoch, UTC. Arithmetic saturates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(pub i64);

/// The last instant that can be a slot: 2199-12-31T23:59:59.999Z. Every search stops here.
pub const HORIZON: UnixMs = UnixMs(7_258_118_399_999);

impl UnixMs {
    /// Later by `ms` (earlier if negative), saturating.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to `self`, negative if `earlier` is later; saturating.
    pub fn since_ms(self, earlier: UnixMs) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Reads an RFC 3339 instant with `Z` or an offset, such as `2026-12-01T02:00:00.250+08:00`.
    /// Digits beyond the millisecond are cut; a leap second is read as the last second of its minute.
    pub fn parse_rfc3339(text: &str) -> Result<Self, Error> {
        Reader { rest: text, at: 0 }.instant().map_err(|position| {
            Error::new(ErrorCode::BadInstant, "not an RFC 3339 instant, expected one like 2026-12-01T02:00:00+08:00")
                .at(position)
        })
    }
}

impl fmt::Display for UnixMs {
    /// RFC 3339 in UTC with milliseconds: `2026-11-30T18:00:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.rem_euclid(1_000);
        write_wall(f, self.0.div_euclid(1_000))?;
        write!(f, ".{ms:03}Z")
    }
}

/// Writes `2026-12-01T02:00:00` for seconds on the wall clock.
pub(crate) fn write_wall(out: &mut impl fmt::Write, wall: i64) -> fmt::Result {
    // The calendar algorithm is exact for |year| < 2^31; i64 milliseconds reach further, so the ends are clamped.
    let wall = wall.clamp(-62_167_219_200, 253_402_300_799);
    let (Month { year, month }, day) = civil::split_day(wall.div_euclid(DAY_S));
    let (year, second) = (i64::from(year), wall.rem_euclid(DAY_S));
    let mut text = *b"0000-00-00T00:00:00";
    let pairs =
        [year / 100, year % 100, i64::from(month), i64::from(day), second / 3_600, second / 60 % 60, second % 60];
    for (at, pair) in [0, 2, 5, 8, 11, 14, 17].into_iter().zip(pairs) {
        put_pair(&mut text, at, pair);
    }
    out.write_str(std::str::from_utf8(&text).expect("digits are ASCII"))
}

/// Puts the two digits of a number in their places, which costs less than to format it: every dispatch carries an
/// instant.
pub(crate) fn put_pair(text: &mut [u8], at: usize, pair: i64) {
    let pair = u8::try_from(pair).ok().filter(|pair| *pair < 100).expect("a number of two digits");
    text[at] = b'0' + pair / 10;
    text[at + 1] = b'0' + pair % 10;
}

/// So many ASCII digits and nothing else.
pub(crate) fn read_number(text: &str, digits: usize) -> Option<i64> {
    let is_plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Reads the parts of an instant from left to right; errors are byte positions.
struct Reader<'t> {
    rest: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn instant(mut self) -> Result<UnixMs, usize> {
        let year = self.number(4, 0, 9_999)?;
        self.one_of("-")?;
        let month = self.number(2, 1, 12)?;
        self.one_of("-")?;
        let month = Month { year: civil::narrow(year), month: civil::narrow(month) };
        let day = self.number(2, 1, i64::from(month.length_days()))?;
        self.one_of("Tt ")?;
        let hour = self.number(2, 0, 23)?;
        self.one_of(":")?;
        let minute = self.number(2, 0, 59)?;
        self.one_of(":")?;
        let second = self.number(2, 0, 60)?.min(59);
        let ms = self.fraction_ms()?;
        let offset_s = self.offset_s()?;
        if !self.rest.is_empty() {
            return Err(self.at);
        }
        let wall = (month.first_day() + day - 1) * DAY_S + hour * 3_600 + minute * 60 + second;
        Ok(UnixMs((wall - offset_s) * 1_000 + ms))
    }

    fn take(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
        self.at += bytes;
    }

    fn number(&mut self, digits: usize, min: i64, max: i64) -> Result<i64, usize> {
        let text =
            self.rest.get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())).ok_or(self.at)?;
        let value: i64 = text.parse().map_err(|_| self.at)?;
        if !(min..=max).contains(&value) {
            return Err(self.at);
        }
        self.take(digits);
        Ok(value)
    }

    fn one_of(&mut self, allowed: &str) -> Result<char, usize> {
        let found = self.rest.chars().next().filter(|found| allowed.contains(*found)).ok_or(self.at)?;
        self.take(1);
        Ok(found)
    }

    fn fraction_ms(&mut self) -> Result<i64, usize> {
        if !self.rest.starts_with('.') {
            return Ok(0);
        }
        self.take(1);
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(self.at);
        }
        let ms = self
            .rest
            .bytes()
            .take(digits)
            .chain([b'0'; 3])
            .take(3)
            .fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0'));
        self.take(digits);
        Ok(ms)
    }

    fn offset_s(&mut self) -> Result<i64, usize> {
        match self.one_of("Zz+-")? {
            'Z' | 'z' => Ok(0),
            sign => {
                let hours = self.number(2, 0, 23)?;
                self.one_of(":")?;
                let minutes = self.number(2, 0, 59)?;
                let offset_s = hours * 3_600 + minutes * 60;
                Ok(if sign == '-' { -offset_s } else { offset_s })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_round_trip() {
        for (text, shown) in [
            ("2026-12-01T02:00:00+08:00", "2026-11-30T18:00:00.000Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("2024-02-29t23:59:60.9876-05:30", "2024-03-01T05:29:59.987Z"),
            ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.500Z"),
        ] {
            assert_eq!(UnixMs::parse_rfc3339(text).unwrap().to_string(), shown, "{text}");
            assert_eq!(UnixMs::parse_rfc3339(shown).unwrap().to_string(), shown);
        }
        assert_eq!(HORIZON.to_string(), "2199-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_no_instant_is_refused_with_its_position() {
        for (text, position) in [
            ("", 0),
            ("2026-13-01T00:00:00Z", 5),
            ("2025-02-29T00:00:00Z", 8),
            ("2025-02-28T24:00:00Z", 11),
            ("2025-02-28T00:00:00", 19),
            ("2025-02-28T00:00:00Z ", 20),
            ("2025-02-28T00:00:00.Z", 20),
            ("２025-02-28T00:00:00Z", 0),
        ] {
            assert_eq!(UnixMs::parse_rfc3339(text).unwrap_err().position, Some(position), "{text}");
        }
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        assert_eq!(UnixMs(i64::MAX).plus_ms(1), UnixMs(i64::MAX));
        assert_eq!(UnixMs(i64::MIN).since_ms(UnixMs(1)), i64::MIN);
        assert!(!UnixMs(i64::MAX).to_string().is_empty());
        assert!(!UnixMs(i64::MIN).to_string().is_empty());
    }
}
