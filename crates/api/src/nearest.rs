//! What was probably meant.

/// The candidate that is nearest to a word, if one is near enough to be a slip of the hand.
pub(crate) fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Long words are not typed by hand, and the table below grows with the product of the lengths.
    if word.len() > 64 {
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

/// `did you mean "cron"?`, if something is near enough.
pub(crate) fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn edits(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().take(65).collect();
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
    }
}
