//! `sleep`: takes as long as its parameter says, such as `250ms`, `2s`, `5m` or `1h`.

use std::time::Duration;

use crate::context::Context;

/// A week.
const SLEEP_MAX: Duration = Duration::from_secs(7 * 86_400);

pub(crate) async fn sleep(context: Context) -> Result<Option<String>, String> {
    let duration = parse(context.param())?;
    tokio::select! {
        // The stop first: both ready means that it came too late.
        biased;
        () = context.cancelled() => Err("woken".to_owned()),
        () = tokio::time::sleep(duration) => Ok(Some(format!("slept {}", context.param().trim()))),
    }
}

fn parse(param: &str) -> Result<Duration, String> {
    let param = param.trim();
    let digits = param.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = param.split_at(digits);
    let unit_ms = match unit.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let duration = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms)).map(Duration::from_millis);
    match duration {
        Some(duration) if unit_ms > 0 && duration <= SLEEP_MAX => Ok(duration),
        Some(_) | None => {
            Err(format!("the parameter {param:?} is not a duration up to a week, such as 250ms, 2s, 5m, 1h"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        let cases = [
            ("250ms", Some(250)),
            (" 2 s ", Some(2_000)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("0ms", Some(0)),
            ("169h", None),
            ("", None),
            ("5", None),
            ("s", None),
            ("-1s", None),
            ("1d", None),
            ("99999999999999999999ms", None),
            ("18446744073709551615h", None),
        ];
        for (param, expected_ms) in cases {
            assert_eq!(parse(param).ok(), expected_ms.map(Duration::from_millis), "{param}");
        }
    }
}
