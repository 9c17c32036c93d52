//! An instant as people type it: RFC 3339, or a date and a time of day in a job's zone, or a time of day of today.

use rota_core::time::UnixMs;
use rota_cron::Zone;

use crate::refusal::Refusal;

/// An instant, and how long the span is that was meant by it: `02:00` means the whole minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    pub(crate) at: UnixMs,
    pub(crate) span_ms: i64,
}

impl Moment {
    /// The last instant of its span.
    pub(crate) fn last(self) -> UnixMs {
        self.at.plus_ms(self.span_ms - 1)
    }
}

const HINT: &str = "for example: 2026-12-01T02:00:00+08:00, `2026-12-01 02:00` in the job's zone, or 02:00 of today";
const MINUTE_MS: i64 = 60_000;
/// No offset from UTC is larger than this.
const DAY_MS: i64 = 24 * 3_600_000;

/// Reads an instant; `now` says which day today is in `zone`.
pub(crate) fn parse(field: &str, text: &str, zone: &Zone, now: UnixMs) -> Result<Moment, Refusal> {
    let shown: String = text.chars().take(60).collect();
    let refused = |message: String| Refusal::invalid(field, message).hint(HINT);
    let trimmed = text.trim();
    if let Ok(at) = UnixMs::parse_rfc3339(trimmed) {
        return Ok(Moment { at, span_ms: if trimmed.contains('.') { 1 } else { 1_000 } });
    }
    let (date, clock) = match trimmed.split_once(['T', ' ']) {
        Some((date, clock)) => (date.to_owned(), clock.trim()),
        None => (zone.format(now).get(..10).unwrap_or_default().to_owned(), trimmed),
    };
    let parts = clock.split(':').count();
    let (seconds, span_ms) = match parts {
        2 => (":00", MINUTE_MS),
        3 => ("", if clock.contains('.') { 1 } else { 1_000 }),
        _ => return Err(refused(format!("`{shown}` is no instant"))),
    };
    let wall = UnixMs::parse_rfc3339(&format!("{date}T{clock}{seconds}Z"));
    let wall = wall.map_err(|_| refused(format!("`{shown}` is no instant")))?;
    let at = in_zone(wall, zone).ok_or_else(|| {
        let message = format!("`{shown}` does not exist in {}: the clocks go forward over it", zone.name());
        refused(message)
    })?;
    Ok(Moment { at, span_ms })
}

/// The instant at which the clocks of a zone show this; the first of two.
fn in_zone(wall: UnixMs, zone: &Zone) -> Option<UnixMs> {
    let candidates = [wall.plus_ms(-DAY_MS), wall.plus_ms(DAY_MS)];
    let offsets = candidates.map(|at| i64::from(zone.offset_at(at)) * 1_000);
    let instants = offsets.map(|offset| (wall.plus_ms(-offset), offset));
    let fits = |(at, offset): &&(UnixMs, i64)| i64::from(zone.offset_at(*at)) * 1_000 == *offset;
    instants.iter().filter(fits).map(|(at, _)| *at).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, zone: &str, expected: Option<(&str, i64)>) {
        let zone = Zone::parse(zone).unwrap();
        let now = UnixMs::parse_rfc3339("2026-11-30T20:00:00Z").unwrap();
        let found = parse("at", text, &zone, now).ok().map(|moment| (moment.at.to_string(), moment.span_ms));
        assert_eq!(found, expected.map(|(at, span)| (at.to_owned(), span)), "{text}");
    }

    #[test]
    fn instants_are_read_in_the_zone_of_the_job() {
        check("2026-12-01T02:00:00+08:00", "UTC", Some(("2026-11-30T18:00:00.000Z", 1_000)));
        check("2026-12-01T02:00:00.5Z", "UTC", Some(("2026-12-01T02:00:00.500Z", 1)));
        check("2026-12-01 02:00", "Asia/Shanghai", Some(("2026-11-30T18:00:00.000Z", 60_000)));
        check("2026-12-01T02:00:30", "Asia/Shanghai", Some(("2026-11-30T18:00:30.000Z", 1_000)));
        // Today has begun in Shanghai, when it is still yesterday in UTC.
        check("02:00", "Asia/Shanghai", Some(("2026-11-30T18:00:00.000Z", 60_000)));
        check("02:00", "UTC", Some(("2026-11-30T02:00:00.000Z", 60_000)));
        for text in ["", "soon", "2026-12-01", "25:00", "2026-13-01 02:00", "2", "02:00:00:00"] {
            check(text, "UTC", None);
        }
    }

    #[test]
    fn a_gap_has_no_instant_and_an_overlap_its_first() {
        check("2026-03-08 02:30", "America/New_York", None);
        check("2026-03-08 03:30", "America/New_York", Some(("2026-03-08T07:30:00.000Z", 60_000)));
        check("2026-11-01 01:30", "America/New_York", Some(("2026-11-01T05:30:00.000Z", 60_000)));
    }
}
