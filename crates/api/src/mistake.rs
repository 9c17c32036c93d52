//! What is wrong with a body, in the words of whoever wrote it: the JSON reader speaks of the types that Rota is
//! written in, and those say nothing to the caller.

use crate::code::Code;
use crate::nearest::did_you_mean;
use crate::refusal::Refusal;

/// What is repeated of a value that does not fit.
const SHOWN_CHARS_MAX: usize = 80;

/// The refusal of a body, whose mistake was found at a path such as `retry.max`; `.` is the body itself.
pub(crate) fn mistake(path: &str, error: &serde_json::Error) -> Refusal {
    // serde_json appends where the mistake is; what is wrong stands before it.
    let whole = error.to_string();
    let message = whole.rfind(" at line ").map_or(whole.as_str(), |at| &whole[..at]);
    if !error.is_data() {
        return Refusal::new(Code::Malformed, format!("this is not JSON: {whole}"));
    }
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let field = Some(path).filter(|path| *path != ".");
    let (first, rest) = quoted.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
    if message.starts_with("unknown field") {
        let unknown = first.get(..SHOWN_CHARS_MAX).unwrap_or(first);
        return Refusal::new(Code::UnknownField, format!("there is no field `{unknown}` here"))
            .field(within(field, unknown))
            .hint(did_you_mean(unknown, rest.iter().copied()).unwrap_or_else(|| choices(rest)));
    }
    if message.starts_with("missing field") {
        return Refusal::invalid(within(field, first), format!("`{first}` is missing"));
    }
    if message.starts_with("duplicate field") {
        return Refusal::invalid(within(field, first), format!("`{first}` is given twice"));
    }
    let last = path.rsplit('.').next().unwrap_or(path);
    let is_duration = ["every", "delay", "first", "cap", "start", "attempt", "run"].contains(&last);
    let hint = if message.starts_with("unknown variant") {
        Some(did_you_mean(first, rest.iter().copied()).unwrap_or_else(|| choices(rest)))
    } else {
        is_duration.then(|| "durations are text with a unit: \"30s\"".to_owned())
    };
    Refusal { field: field.map(str::to_owned), hint, ..Refusal::new(Code::Invalid, misfit(message, first)) }
}

/// The path of a key, whether or not the path that was reported ends with it already.
fn within(path: Option<&str>, key: &str) -> String {
    match path {
        None => key.to_owned(),
        Some(path) if path == key || path.ends_with(&format!(".{key}")) => path.to_owned(),
        Some(path) => format!("{path}.{key}"),
    }
}

/// The words that are known where another was given.
pub(crate) fn choices(known: &[&str]) -> String {
    if known.is_empty() { "nothing is expected here".to_owned() } else { format!("known are {}", known.join(", ")) }
}

/// `expected a whole number, found null`, from serde's `invalid type: null, expected u64`.
fn misfit(message: &str, first: &str) -> String {
    let found = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    // The value itself may say ", expected "; what was expected never does.
    if let Some((found, expected)) = found.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("expected {}, found {}", expectation(expected), finding(found));
    }
    let shown: String =
        if message.starts_with("unknown variant") { first } else { message }.chars().take(SHOWN_CHARS_MAX).collect();
    if message.starts_with("unknown variant") { format!("`{shown}` is not known here") } else { shown }
}

fn expectation(words: &str) -> String {
    let known = match words {
        "u8" | "u16" | "u32" | "u64" => {
            let bits: u32 = words[1..].parse().expect("the words above are a letter and a number");
            return format!("a whole number from 0 to {}", u64::MAX >> (64 - bits));
        }
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        // Only words are read as enums.
        words if words.starts_with("enum ") || words.contains("variant") => "a word",
        words => words,
    };
    known.to_owned()
}

fn finding(words: &str) -> String {
    let known = match words {
        "sequence" => "a list",
        "map" => "an object",
        words => words.strip_prefix("string ").unwrap_or(words),
    };
    let mut chars = known.chars();
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}
