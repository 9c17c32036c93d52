//! Durations as people write them: a number and a unit, `500ms`, `30s`, `5m`, `2h`, `1d`, or several: `1h30m`.

use rota_core::limits::DURATION_MAX_MS;
use rota_cron::text;

use crate::refusal::Refusal;

const HINT: &str = "durations carry a unit: 500ms, 30s, 5m, 2h, 1d";

/// Reads a duration of at most [`DURATION_MAX_MS`].
pub(crate) fn parse(field: &str, written: &str) -> Result<u64, Refusal> {
    let refused = |message: String| Refusal::invalid(field, message).hint(HINT);
    let shown: String = written.chars().take(40).collect();
    let trimmed = written.trim();
    if trimmed.starts_with('-') {
        return Err(refused(format!("`{shown}` is negative")));
    }
    if trimmed.bytes().all(|byte| byte.is_ascii_digit()) && !trimmed.is_empty() {
        return Err(refused(format!("`{shown}` has no unit")).hint(format!("did you mean `{shown}s`? {HINT}")));
    }
    let ms = text::sum(trimmed, &text::DURATIONS).ok_or_else(|| refused(format!("`{shown}` is not a duration")))?;
    if ms > DURATION_MAX_MS {
        return Err(refused(format!("`{shown}` is longer than 366 days")));
    }
    Ok(ms)
}

/// Writes a duration in the largest unit that divides it: `90m`, `36h`, `1500ms`.
pub(crate) fn print(ms: u64) -> String {
    let (word, size) =
        text::DURATIONS.iter().find(|(_, size)| ms != 0 && ms.is_multiple_of(*size)).unwrap_or(&("s", 1_000));
    format!("{}{word}", ms / size)
}

/// Writes a duration for people, rounded: `4 ms`, `1.2 s`, `9m12s`, `3h05m`, `2d04h`.
pub(crate) fn human(ms: i64) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    let ms = ms.unsigned_abs();
    match ms {
        0..1_000 => format!("{sign}{ms} ms"),
        1_000..60_000 => format!("{sign}{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{sign}{}m{:02}s", ms / 60_000, ms / 1_000 % 60),
        3_600_000..86_400_000 => format!("{sign}{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{sign}{}d{:02}h", ms / 86_400_000, ms / 3_600_000 % 24),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            (" 10 s ", 10_000),
            ("0s", 0),
        ] {
            assert_eq!(parse("every", text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_field_and_hint() {
        for (text, message, hint) in [
            ("-5s", "`-5s` is negative", HINT),
            ("30", "`30` has no unit", "did you mean `30s`?"),
            ("", "`` is not a duration", HINT),
            ("5 parsecs", "`5 parsecs` is not a duration", HINT),
            ("s", "`s` is not a duration", HINT),
            ("1.5h", "`1.5h` is not a duration", HINT),
            ("400d", "`400d` is longer than 366 days", HINT),
            ("99999999999999999999s", "`99999999999999999999s` is not a duration", HINT),
            ("999999999999999999d", "`999999999999999999d` is not a duration", HINT),
        ] {
            let refusal = parse("retry.first", text).unwrap_err();
            assert_eq!(refusal.message, message, "{text}");
            assert_eq!(refusal.field.as_deref(), Some("retry.first"));
            assert!(refusal.hint.as_deref().unwrap().contains(hint), "{refusal:?}");
        }
    }

    #[test]
    fn people_read_rounded_durations() {
        for (ms, text) in [
            (4, "4 ms"),
            (-4, "-4 ms"),
            (1_234, "1.2 s"),
            (552_000, "9m12s"),
            (11_100_000, "3h05m"),
            (187_200_000, "2d04h"),
        ] {
            assert_eq!(human(ms), text);
        }
    }

    proptest! {
        #[test]
        fn printed_durations_read_back(ms in 0..=DURATION_MAX_MS) {
            prop_assert_eq!(parse("every", &print(ms)), Ok(ms));
        }
    }
}
