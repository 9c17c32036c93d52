//! What people type: numbers with units, and words that were nearly right. One home for all who read either.

/// Units of durations, in milliseconds, from the largest to the smallest.
pub const DURATIONS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The sum of all parts of a text, each a number and its unit: `1h30m`, `10 GiB`. None if it is anything else.
#[must_use]
pub fn sum(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        let after = rest.get(digits..)?.trim_start();
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (_, factor) = units.iter().find(|(unit, _)| after.get(..letters) == Some(*unit))?;
        total = total.checked_add(number.checked_mul(*factor)?)?;
        rest = after.get(letters..)?.trim_start();
    }
    Some(total)
}

/// Words are typed by hand up to this length; the search for a likeness grows with the product of the lengths.
const WORD_BYTES_MAX: usize = 64;

/// The candidate that is nearest to a word, if one is near enough to be a slip of the hand.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let lower = word.to_lowercase();
    let far = (word.chars().count() / 3).max(1) + 1;
    candidates
        .into_iter()
        .map(|candidate| (edits(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(edits, _)| *edits < far)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
#[must_use]
pub fn edits(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().take(WORD_BYTES_MAX + 1).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut cost = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_summed() {
        const SIZES: [(&str, u64); 2] = [("KiB", 1 << 10), ("B", 1)];
        for (text, ms) in [
            ("500ms", Some(500)),
            (" 1h 30m ", Some(5_400_000)),
            ("0s", Some(0)),
            ("30", None),
            ("", None),
            ("-5s", None),
            ("1.5h", None),
            ("5 weeks", None),
            ("18446744073709551615d", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(sum(text, &DURATIONS), ms, "{text}");
        }
        assert_eq!((sum("2KiB1B", &SIZES), sum("2KB", &SIZES)), (Some(2_049), None));
    }

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let words = ["cron", "every", "delay", "handler", "timezone", "at"];
        for (word, meant) in [
            ("crno", Some("cron")),
            ("Cron", Some("cron")),
            ("timezoen", Some("timezone")),
            ("time_zone", Some("timezone")),
            ("handlers", Some("handler")),
            ("dealy", Some("delay")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), meant, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1_000), words), None);
    }
}
