//! Durations and sizes carry their unit: `30s`, `1h30m`, `10GiB`.

use rota_cron::text;

/// What is wrong with a text, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no {what}, expected one like {example}")]
pub(crate) struct Invalid {
    text: String,
    what: &'static str,
    example: &'static str,
}

const SIZES: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// A duration in milliseconds.
pub(crate) fn duration_ms(written: &str) -> Result<u64, Invalid> {
    text::sum(written, &text::DURATIONS).ok_or_else(|| Invalid {
        text: written.to_owned(),
        what: "duration with a unit",
        example: "500ms, 30s, 5m, 2h, 1d or 1h30m",
    })
}

/// A size in bytes.
pub(crate) fn size_bytes(written: &str) -> Result<u64, Invalid> {
    text::sum(written, &SIZES).ok_or_else(|| Invalid {
        text: written.to_owned(),
        what: "size with a unit",
        example: "512B, 64KiB, 1MiB or 10GiB",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        for (text, expected) in [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("1h30m", Some(5_400_000)),
            (" 2d ", Some(172_800_000)),
            ("0s", Some(0)),
            ("30", None),
            ("", None),
            ("-5s", None),
            ("1.5h", None),
            ("5 weeks", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
        ] {
            assert_eq!(duration_ms(text).ok(), expected, "{text}");
        }
        for (text, expected) in [("10GiB", Some(10 << 30)), ("1 MB", Some(1_000_000)), ("7", None), ("7GiBs", None)] {
            assert_eq!(size_bytes(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_refusal_says_what_would_be_right() {
        let message = duration_ms("30").unwrap_err().to_string();
        assert_eq!(message, "`30` is no duration with a unit, expected one like 500ms, 30s, 5m, 2h, 1d or 1h30m");
    }
}
