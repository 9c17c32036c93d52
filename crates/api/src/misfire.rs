//! Misfire policies and paces, as users write them.

use rota_core::misfire::{Misfire, Pace, Policy};
use rota_wire::rest;

use crate::duration;
use crate::refusal::Refusal;
use crate::spec::{word, word_of};

pub(crate) const POLICIES: [(&str, Policy); 3] =
    [("skip", Policy::Skip), ("fire_once", Policy::FireOnce), ("catch_up", Policy::CatchUp)];
/// The spans that a pace counts its runs in.
const SPANS: [(&str, u64); 3] = [("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

pub(crate) fn read(misfire: Option<&rest::Misfire>) -> Result<Misfire, Refusal> {
    let Some(misfire) = misfire else { return Ok(Misfire::default()) };
    let duration = |field: &str, text: &Option<String>| text.as_deref().map(|t| duration::parse(field, t)).transpose();
    Ok(Misfire {
        policy: word("misfire.policy", misfire.policy.as_deref(), &POLICIES)?.unwrap_or_default(),
        threshold_ms: duration("misfire.threshold", &misfire.threshold)?,
        within_ms: duration("misfire.within", &misfire.within)?,
        max: misfire.max,
        pace: misfire.pace.as_deref().map(|pace| read_pace("misfire.pace", pace)).transpose()?,
    })
}

pub(crate) fn write(misfire: &Misfire) -> Option<rest::Misfire> {
    (*misfire != Misfire::default()).then(|| rest::Misfire {
        policy: (misfire.policy != Policy::default()).then(|| word_of(&POLICIES, misfire.policy)),
        threshold: misfire.threshold_ms.map(duration::print),
        within: misfire.within_ms.map(duration::print),
        max: misfire.max,
        pace: misfire.pace.map(print_pace),
    })
}

/// Reads `10/s`, `30/m` or `100/h`.
pub(crate) fn read_pace(field: &'static str, written: &str) -> Result<Pace, Refusal> {
    let refused = || {
        let shown: String = written.chars().take(40).collect();
        Refusal::invalid(field, format!("`{shown}` is not a pace"))
            .hint("runs per second, minute or hour: 10/s, 30/m, 100/h")
    };
    let (runs, span) = written.split_once('/').ok_or_else(refused)?;
    let per_ms = SPANS.iter().find(|(word, _)| *word == span.trim()).ok_or_else(refused)?.1;
    let is_number = runs.trim().bytes().all(|byte| byte.is_ascii_digit());
    let runs = runs.trim().parse().ok().filter(|_| is_number).ok_or_else(refused)?;
    let pace = Pace { runs, per_ms };
    pace.check(field)?;
    Ok(pace)
}

/// Writes a pace as it is read.
pub(crate) fn print_pace(pace: Pace) -> String {
    let span = SPANS.iter().find(|(_, ms)| *ms == pace.per_ms).map_or("s", |(word, _)| word);
    format!("{}/{span}", pace.runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_read_back_as_they_were_written() {
        for text in ["10/s", "1/m", "1000/s", "60000/m", "100/h"] {
            assert_eq!(print_pace(read_pace("pace", text).unwrap()), text);
        }
        assert_eq!(read_pace("pace", " 10 / s "), Ok(Pace::DEFAULT));
        for text in ["", "10", "10/d", "/s", "-1/s", "+1/s", "0/s", "1001/s", "1.5/s", "10/s/s", "99999999999/s"] {
            let refusal = read_pace("misfire.pace", text).unwrap_err();
            assert_eq!(refusal.field.as_deref(), Some("misfire.pace"), "{text}");
            assert!(refusal.hint.is_some_and(|hint| hint.contains("30/m")), "{text}");
        }
    }
}
