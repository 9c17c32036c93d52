//! Keys that are meant to come, so that whoever writes one is not told that it was mistyped.
//!
//! A key is taken out here when its behaviour is there. It is only looked up where it is not known.

/// The key, and what does today what it would do.
const LATER: &[(&str, &str)] = &[
    ("alerts", "watch the metrics instead, see docs/metrics.md"),
    ("event_tasks", "leave it out"),
    ("misfire", "leave it out: a slot that is late for more than a minute is skipped, with a row"),
    ("after", "leave it out, and let the first job trigger the second through the API"),
    ("when", "leave it out: retries follow a failure, a time-out and a loss alike"),
    ("backoff", "use `delay`, the time between an attempt's end and the next"),
    ("first", "use `delay`, the time between an attempt's end and the next"),
    ("cap", "use `delay`, the time between an attempt's end and the next"),
    ("dst", "leave it out: a fixed time runs once, at the first valid instant"),
    ("calendar", "leave it out"),
    ("calendars", "leave it out"),
    ("jitter", "leave it out"),
    ("from", "leave it out"),
    ("until", "leave it out"),
    ("on_loss", "leave it out"),
    ("bearer", "use `headers`: {Authorization: \"Bearer …\"}"),
    ("protocol", "leave it out: workers of an app speak the native protocol"),
    ("exec", "leave it out"),
    ("weight", "leave it out"),
    ("priority", "leave it out"),
    ("queue", "leave it out"),
    ("rate", "leave it out"),
    ("labels", "use `route`: {labels: \"…\"}"),
];

/// What to do instead of a key that is not there yet.
pub(crate) fn find(key: &str) -> Option<&'static str> {
    LATER.iter().find(|(later, _)| *later == key).map(|(_, instead)| *instead)
}
