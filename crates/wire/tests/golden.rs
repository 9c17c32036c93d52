//! The worker protocol cannot change unnoticed: every file under `golden` is the canonical example of a
//! body, is read into the type that it belongs to, and is written back as it stands.
//!
//! A file may be added. One that is changed or removed breaks workers that are in use.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use rota_wire::worker::{
    Accepted, Acknowledged, Beat, Enquiry, Execute, ExecuteList, Identity, Leave, ListAccepted, Logs, Outcome, Refusal,
    Refused, Register, Registered, Results, Status, WorkerNow, default_namespace,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What happens to a field that a reader does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unknown {
    /// Requests of workers: a misspelt field is answered, not ignored.
    Refused,
    /// All else: a newer side may say more.
    Tolerated,
}

fn golden() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&path).unwrap())
    };
    std::fs::read_dir(folder).unwrap().map(read).collect()
}

fn read<T: DeserializeOwned>(name: &str) -> T {
    let text = golden().remove(name).unwrap_or_else(|| panic!("tests/golden/{name}.json is missing"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("tests/golden/{name}.json: {e}"))
}

/// Reads a file as `T`, writes it back and compares; then adds a field to each object in it.
fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &str, unknown: Unknown) {
    let value: Value = read(name);
    let body: T = read(name);
    assert_eq!(serde_json::to_value(&body).unwrap(), value, "tests/golden/{name}.json is written back differently");
    let mut with_more = value;
    with_more.as_object_mut().unwrap().insert("surprise".to_owned(), json!(1));
    match (serde_json::from_value::<T>(with_more), unknown) {
        (Ok(same), Unknown::Tolerated) => assert_eq!(same, body, "{name}"),
        (Err(error), Unknown::Refused) => assert!(error.to_string().contains("`surprise`"), "{name}: {error}"),
        (read, unknown) => panic!("{name}: an unknown field must be {unknown:?}, but is read as {read:?}"),
    }
}

#[test]
fn requests_of_workers_are_as_they_were() {
    check::<Register>("register", Unknown::Refused);
    check::<Register>("register.lists", Unknown::Refused);
    check::<Beat>("beat", Unknown::Refused);
    check::<Leave>("leave", Unknown::Refused);
    check::<Results>("results", Unknown::Refused);
    check::<Logs>("logs", Unknown::Refused);
}

#[test]
fn answers_to_workers_are_as_they_were() {
    check::<Registered>("registered", Unknown::Tolerated);
    check::<Registered>("registered.unreachable", Unknown::Tolerated);
    check::<WorkerNow>("worker_now", Unknown::Tolerated);
    check::<Acknowledged>("acknowledged", Unknown::Tolerated);
}

#[test]
fn requests_to_workers_are_as_they_were() {
    check::<Execute>("execute", Unknown::Tolerated);
    check::<Execute>("execute.least", Unknown::Tolerated);
    check::<ExecuteList>("execute_list", Unknown::Tolerated);
    check::<Enquiry>("enquiry", Unknown::Tolerated);
}

#[test]
fn answers_of_workers_are_as_they_were() {
    check::<Accepted>("accepted", Unknown::Tolerated);
    check::<ListAccepted>("list_accepted", Unknown::Tolerated);
    check::<ListAccepted>("list_accepted.all", Unknown::Tolerated);
    check::<Identity>("identity", Unknown::Tolerated);
    for refusal in [
        Refusal::ForeignIncarnation,
        Refusal::StaleEpoch,
        Refusal::Cancelled,
        Refusal::Draining,
        Refusal::UnknownHandler,
        Refusal::Full,
    ] {
        let word = refusal_word(refusal);
        check::<Refused>(&format!("refused.{word}"), Unknown::Tolerated);
        assert_eq!(read::<Refused>(&format!("refused.{word}")), Refused { refused: refusal });
    }
    for word in ["never_seen", "running", "finished", "foreign_incarnation"] {
        check::<Status>(&format!("status.{word}"), Unknown::Tolerated);
        assert_eq!(status_word(&read::<Status>(&format!("status.{word}"))), word);
    }
}

/// A refusal that is added does not compile here until it has a word, and then needs a file.
fn refusal_word(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::ForeignIncarnation => "foreign_incarnation",
        Refusal::StaleEpoch => "stale_epoch",
        Refusal::Cancelled => "cancelled",
        Refusal::Draining => "draining",
        Refusal::UnknownHandler => "unknown_handler",
        Refusal::Full => "full",
    }
}

fn status_word(status: &Status) -> &'static str {
    match status {
        Status::NeverSeen => "never_seen",
        Status::Running { .. } => "running",
        Status::Finished { .. } => "finished",
        Status::ForeignIncarnation => "foreign_incarnation",
    }
}

#[test]
fn the_results_file_has_every_outcome() {
    let results: Results = read("results");
    let words: Vec<&str> = results
        .results
        .iter()
        .map(|result| match result.outcome {
            Outcome::Success => "success",
            Outcome::Failed => "failed",
            Outcome::Timeout => "timeout",
            Outcome::Killed => "killed",
        })
        .collect();
    assert_eq!(words, ["success", "failed", "timeout", "killed"]);
}

#[test]
fn what_may_be_left_out_has_its_default() {
    let least: Register = read("register.least");
    assert_eq!((least.namespace, least.labels, least.capacity), (default_namespace(), BTreeMap::new(), 0));
    assert_eq!(least.list_max, 0);
    assert_eq!(default_namespace(), "default");
    let least: Beat = read("beat.least");
    assert_eq!((least.finished, least.capacity, least.labels), (vec![], None, None));
    let least: Logs = read("logs.least");
    assert!(!least.logs[0].is_last);
}

#[test]
fn every_required_field_is_required() {
    check_required::<Register>("register.least");
    check_required::<Registered>("registered");
    check_required::<Beat>("beat.least");
    check_required::<WorkerNow>("worker_now");
    check_required::<Leave>("leave");
    check_required::<Results>("results");
    check_required::<Acknowledged>("acknowledged");
    check_required::<Logs>("logs.least");
    check_required::<Execute>("execute.least");
    check_required::<Accepted>("accepted");
    check_required::<Refused>("refused.full");
    check_required::<ExecuteList>("execute_list");
    check_required::<ListAccepted>("list_accepted.all");
    check_required::<Enquiry>("enquiry");
    check_required::<Status>("status.running");
    check_required::<Identity>("identity");
}

/// Takes each field away in turn; a file named here has no more than it must.
fn check_required<T: DeserializeOwned + Debug>(name: &str) {
    let value: Value = read(name);
    for field in value.as_object().unwrap().keys() {
        let mut without = value.clone();
        without.as_object_mut().unwrap().remove(field);
        let error = serde_json::from_value::<T>(without).expect_err(field);
        assert!(error.to_string().contains(field.as_str()), "{name} without {field}: {error}");
    }
}

#[test]
fn unknown_fields_inside_lists_are_refused_too() {
    for (name, list) in [("results", "results"), ("logs", "logs")] {
        let mut value: Value = read(name);
        value[list][0]["surprise"] = json!(1);
        let error = match name {
            "results" => serde_json::from_value::<Results>(value).unwrap_err(),
            _ => serde_json::from_value::<Logs>(value).unwrap_err(),
        };
        assert!(error.to_string().contains("`surprise`"), "{name}: {error}");
    }
}

#[test]
fn there_is_no_file_that_nothing_reads() {
    let tests = include_str!("golden.rs");
    for name in golden().into_keys() {
        let (group, word) = name.split_once('.').unwrap_or((name.as_str(), ""));
        let is_read = tests.contains(&format!("\"{name}\""))
            || (tests.contains(&format!("\"{group}.{{word}}\"")) && tests.contains(&format!("\"{word}\"")));
        assert!(is_read, "tests/golden/{name}.json is read by no test");
    }
}
