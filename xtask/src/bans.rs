//! The pure crates say to clippy what they must not touch; this says that they say it.

use crate::tree::Tree;

/// What each pure crate's `clippy.toml` bans, as a type or as a method.
const BANS: [(&str, &[&str]); 3] = [
    (
        "crates/core/clippy.toml",
        &[
            "std::collections::HashMap",
            "std::collections::HashSet",
            "std::time::Instant",
            "std::time::SystemTime",
            "std::thread::sleep",
            "std::env::var",
        ],
    ),
    (
        "crates/cron/clippy.toml",
        &[
            "std::collections::HashMap",
            "std::collections::HashSet",
            "std::time::Instant",
            "std::time::SystemTime",
            "std::thread::sleep",
            "std::env::var",
            "jiff::tz::TimeZone::system",
            "jiff::tz::TimeZone::get",
            "jiff::Timestamp::now",
        ],
    ),
    (
        "crates/sim/clippy.toml",
        &[
            "std::collections::HashMap",
            "std::collections::HashSet",
            "std::time::Instant",
            "std::time::SystemTime",
            "std::thread::sleep",
            "std::env::var",
        ],
    ),
];

/// One complaint for each ban that is missing or has no reason.
pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, bans) in BANS {
        match tree.files.get(path).map(|text| text.parse::<toml::Table>()) {
            None => complaints.push(format!("{path} is missing: it is what keeps the crate pure")),
            Some(Err(error)) => complaints.push(format!("{path}: {}", error.message())),
            Some(Ok(table)) => complaints.extend(check_bans(path, &table, bans)),
        }
    }
    complaints
}

fn check_bans(path: &str, table: &toml::Table, bans: &[&str]) -> Vec<String> {
    let listed: Vec<(&str, bool)> = ["disallowed-types", "disallowed-methods"]
        .iter()
        .filter_map(|key| table.get(*key)?.as_array())
        .flatten()
        .filter_map(|entry| match entry.as_str() {
            Some(banned) => Some((banned, false)),
            None => Some((entry.get("path")?.as_str()?, entry.get("reason").is_some())),
        })
        .collect();
    let mut complaints = Vec::new();
    for ban in bans {
        // A type that is banned cannot be asked for the time, and neither can one whose `now` is banned.
        let is_banned = listed.iter().any(|(banned, _)| banned == ban || *banned == format!("{ban}::now"));
        if !is_banned {
            complaints.push(format!("{path} does not ban {ban}"));
        }
    }
    for (banned, _) in listed.iter().filter(|(_, has_reason)| !has_reason) {
        complaints.push(format!("{path} bans {banned} without a reason"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_is_found_as_type_or_method() {
        let text = r#"
            disallowed-types = [{ path = "std::time::Instant", reason = "r" }]
            disallowed-methods = [{ path = "std::time::SystemTime::now", reason = "r" }, "std::env::var"]
        "#;
        let table = text.parse::<toml::Table>().unwrap();
        let bans = ["std::time::Instant", "std::time::SystemTime", "std::env::var", "std::thread::sleep"];
        assert_eq!(
            check_bans("p", &table, &bans),
            ["p does not ban std::thread::sleep", "p bans std::env::var without a reason"]
        );
    }

    #[test]
    fn a_missing_file_is_a_complaint() {
        let complaints = check(&Tree::of(&[("crates/core/clippy.toml", "disallowed-types = [")]));
        assert!(complaints[0].starts_with("crates/core/clippy.toml: "), "{complaints:?}");
        assert!(complaints[1].starts_with("crates/cron/clippy.toml is missing"), "{complaints:?}");
    }
}
