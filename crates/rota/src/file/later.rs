//! Keys that are meant to come, so that whoever writes one is not told that it was mistyped.
//!
//! A key is taken out here when its behaviour is there. It is only looked up where it is not known.

/// The key, and what does today what it would do.
const LATER: &[(&str, &str)] = &[
    ("event_tasks", "leave it out"),
    ("protocol", "leave it out: workers of an app speak the native protocol"),
    ("exec", "leave it out"),
    ("weight", "leave it out"),
    ("priority", "leave it out"),
    ("queue", "write it into `overlap`: {policy: queue, queue: 10}"),
    ("rate", "write it to the app: apps: {NAME: {rate: 50/s}}"),
    ("labels", "use `route`: {labels: \"…\"}"),
];

/// What to do instead of a key that is not there yet.
pub(crate) fn find(key: &str) -> Option<&'static str> {
    LATER.iter().find(|(later, _)| *later == key).map(|(_, instead)| *instead)
}
