//! The instant of a slot, from its text in RFC 3339.
//!
//! Absent on purpose: zones and calendars beyond this one shape; whoever needs them has the zone's
//! name in the context, and a library of choice.

/// Milliseconds since 1970 of a text such as `2026-12-01T02:00:00.250+08:00`.
pub(crate) fn unix_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() < 20 || !matches!(bytes[10], b'T' | b't' | b' ') {
        return None;
    }
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| bytes[*at] != *byte) {
        return None;
    }
    let (year, month, day) = (digits(&bytes[0..4])?, digits(&bytes[5..7])?, digits(&bytes[8..10])?);
    let (hour, minute, second) = (digits(&bytes[11..13])?, digits(&bytes[14..16])?, digits(&bytes[17..19])?);
    let is_in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    if !is_in_range {
        return None;
    }
    let (fraction_ms, rest) = fraction_ms(&bytes[19..])?;
    let offset_s = offset_s(rest)?;
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset_s;
    Some(seconds * 1_000 + fraction_ms)
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

/// Milliseconds of `.250…`, and what follows.
fn fraction_ms(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let Some(after_dot) = bytes.strip_prefix(b".") else { return Some((0, bytes)) };
    let length = after_dot.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return None;
    }
    let digit = |at: usize| if at < length { i64::from(after_dot[at] - b'0') } else { 0 };
    Some((digit(0) * 100 + digit(1) * 10 + digit(2), &after_dot[length..]))
}

fn offset_s(bytes: &[u8]) -> Option<i64> {
    match bytes {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            let seconds = hours * 3_600 + minutes * 60;
            (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

/// Days since 1970-01-01, by counting years from March so that the leap day comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read() {
        let cases = [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01T08:00:00+08:00", Some(0)),
            ("1969-12-31T23:59:59.5Z", Some(-500)),
            ("2000-02-29T12:00:00-03:30", Some(951_838_200_000)),
            ("2026-12-01T02:00:00.250+08:00", Some(1_796_061_600_250)),
            ("2026-12-01T02:00:00.2509999+08:00", Some(1_796_061_600_250)),
            ("2026-12-01T02:00:00", None),
            ("2026-13-01T02:00:00Z", None),
            ("2026-12-01T24:00:00Z", None),
            ("2026-12-01T02:00:00.Z", None),
            ("2026-12-01T02:00:00+0800", None),
            ("2026-12-0éT02:00:00Z", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(unix_ms(text), expected, "{text}");
        }
    }
}
