//! Times and durations as people read them. Every time keeps the offset that it came with.

use std::collections::BTreeSet;

/// `12-01 02:00:00 +08:00` from RFC 3339; what is no such time is shown as it is.
pub(crate) fn time(rfc3339: &str) -> String {
    match parts(rfc3339) {
        Some((date, clock, _, offset)) => format!("{} {clock} {offset}", &date[5..]),
        None => rfc3339.to_owned(),
    }
}

/// `2026-12-01 02:00:00 +08:00`, for times that may be years away.
pub(crate) fn moment_of(rfc3339: &str) -> String {
    match parts(rfc3339) {
        Some((date, clock, _, offset)) => format!("{date} {clock} {offset}"),
        None => rfc3339.to_owned(),
    }
}

/// `02:00:00.004 +08:00` for each, with the dates in front if they are not all of one day.
pub(crate) fn moments(times: &[&str]) -> Vec<String> {
    let dates: BTreeSet<&str> = times.iter().filter_map(|time| Some(parts(time)?.0)).collect();
    let moment = |time: &&str| match parts(time) {
        Some((_, clock, ms, offset)) if dates.len() <= 1 => format!("{clock}.{ms} {offset}"),
        Some((date, clock, ms, offset)) => format!("{} {clock}.{ms} {offset}", &date[5..]),
        None => (*time).to_owned(),
    };
    times.iter().map(moment).collect()
}

/// `02:00:00 +08:00`.
pub(crate) fn clock_offset(rfc3339: &str) -> String {
    match parts(rfc3339) {
        Some((_, clock, _, offset)) => format!("{clock} {offset}"),
        None => rfc3339.to_owned(),
    }
}

/// `12-01 01:10:00…01:14:00 ×9` for a range of slots.
pub(crate) fn slots(first: &str, last: Option<&str>, count: u64) -> String {
    let (Some(last), Some((date, clock, _, offset))) = (last, parts(first)) else {
        return time(first);
    };
    let end = match parts(last) {
        Some((other, clock, _, _)) if other == date => clock.to_owned(),
        Some((other, clock, _, _)) => format!("{} {clock}", &other[5..]),
        None => last.to_owned(),
    };
    format!("{} {clock}…{end} {offset} ×{}", &date[5..], super::table::grouped(count))
}

/// `4ms`, `0.2s`, `12s`, `9m12`, `3h05`, `2d04h`.
pub(crate) fn duration(ms: i64) -> String {
    let (sign, ms) = if ms < 0 { ("-", ms.unsigned_abs()) } else { ("", ms.unsigned_abs()) };
    let s = ms / 1_000;
    let text = match ms {
        0..100 => format!("{ms}ms"),
        100..10_000 => format!("{}.{}s", s, ms % 1_000 / 100),
        10_000..60_000 => format!("{s}s"),
        60_000..3_600_000 => format!("{}m{:02}", s / 60, s % 60),
        3_600_000..86_400_000 => format!("{}h{:02}", s / 3_600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3_600 % 24),
    };
    format!("{sign}{text}")
}

/// Date, clock to the second, milliseconds and offset.
fn parts(rfc3339: &str) -> Option<(&str, &str, String, &str)> {
    if !rfc3339.is_ascii() || rfc3339.len() < 20 {
        return None;
    }
    let (date, rest) = rfc3339.split_once('T')?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let (fraction, offset) = rest.split_at_checked(rest.find(['Z', '+', '-'])?)?;
    let offset = if offset == "Z" { "+00:00" } else { offset };
    let ms: String = fraction.trim_start_matches('.').chars().chain("000".chars()).take(3).collect();
    (date.len() == 10).then_some((date, clock, ms, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_keeps_its_offset() {
        for (text, expected) in [
            ("2026-12-01T02:00:00+08:00", "12-01 02:00:00 +08:00"),
            ("2026-12-01T02:00:00.123Z", "12-01 02:00:00 +00:00"),
            ("2026-12-01T02:00:00-03:30", "12-01 02:00:00 -03:30"),
            ("soon", "soon"),
        ] {
            assert_eq!(time(text), expected);
        }
        let (first, second) = ("2026-12-01T02:00:00.1+08:00", "2026-12-02T02:00:00+08:00");
        assert_eq!(moments(&[first, first]), ["02:00:00.100 +08:00"; 2]);
        assert_eq!(moments(&[first, second]), ["12-01 02:00:00.100 +08:00", "12-02 02:00:00.000 +08:00"]);
        assert_eq!(moments(&["2026-12-01T02:00:00Z"]), ["02:00:00.000 +00:00"]);
        assert_eq!(clock_offset("2026-12-01T02:00:00.1+08:00"), "02:00:00 +08:00");
    }

    #[test]
    fn ranges_are_short() {
        let check =
            |last: Option<&str>, expected: &str| assert_eq!(slots("2026-12-01T01:10:00+08:00", last, 9), expected);
        check(None, "12-01 01:10:00 +08:00");
        check(Some("2026-12-01T01:14:00+08:00"), "12-01 01:10:00…01:14:00 +08:00 ×9");
        check(Some("2026-12-02T01:14:00+08:00"), "12-01 01:10:00…12-02 01:14:00 +08:00 ×9");
    }

    #[test]
    fn durations_have_two_figures_that_matter() {
        for (ms, expected) in [
            (4, "4ms"),
            (210, "0.2s"),
            (9_999, "9.9s"),
            (12_000, "12s"),
            (552_000, "9m12"),
            (11_100_000, "3h05"),
            (187_200_000, "2d04h"),
            (-4, "-4ms"),
        ] {
            assert_eq!(duration(ms), expected);
        }
    }
}
