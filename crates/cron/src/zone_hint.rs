//! What was probably meant by a zone name that does not exist.

use jiff::tz::TimeZoneDatabase;

use crate::error::{Error, ErrorCode};
use crate::text::edits;

/// Names people write that are no IANA names. Abbreviations that mean several zones say so.
const HABITS: [(&str, &str); 14] = [
    ("ASIA/BEIJING", "Asia/Shanghai"),
    ("BEIJING", "Asia/Shanghai"),
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
    ("EDT", "America/New_York"),
    ("MDT", "America/Denver"),
    ("CDT", "America/Chicago"),
    ("CST", "Asia/Shanghai or America/Chicago"),
    ("IST", "Asia/Kolkata, Europe/Dublin or Asia/Jerusalem"),
    ("JST", "Asia/Tokyo"),
    ("BST", "Europe/London"),
    ("CEST", "Europe/Berlin"),
    ("AEST", "Australia/Sydney"),
    ("LOCAL", "the zone's name, such as Asia/Shanghai; the host's zone is never read"),
];

/// The error for an unknown zone, with a guess if there is a near one.
pub(crate) fn unknown(name: &str) -> Error {
    let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
    let message = format!("unknown time zone \"{shown}\", expected an IANA name or an offset like +08:00");
    let error = Error::new(ErrorCode::UnknownZone, message);
    match guess(name) {
        Some(meant) => error.hint(format!("did you mean {meant}?")),
        None => error,
    }
}

/// IANA names are shorter; longer input is not searched for a likeness.
const NAME_CHARS_MAX: usize = 40;

/// More edits than this are another name, not a slip.
const EDITS_MAX: usize = 3;

fn guess(name: &str) -> Option<String> {
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return None;
    }
    let wanted = name.to_ascii_uppercase().replace(' ', "_");
    if let Some((_, meant)) = HABITS.iter().find(|(habit, _)| *habit == wanted) {
        return Some((*meant).to_owned());
    }
    let database = TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
    let city = |full: &str| full.rsplit('/').next().unwrap_or(full).to_ascii_uppercase();
    if let Some(found) = names.iter().filter(|full| city(full) == wanted).max_by_key(|full| full.len()) {
        return Some(found.clone());
    }
    let allowed = EDITS_MAX.min(wanted.chars().count() / 3);
    names
        .iter()
        .map(|full| (edits(&wanted, &full.to_ascii_uppercase()), full))
        .min()
        .filter(|(distance, _)| *distance <= allowed)
        .map(|(_, full)| full.clone())
}
