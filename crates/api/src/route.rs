//! How a worker is chosen, between what users write and what the core keeps.

use rota_core::route::{Options, Route, Strategy};
use rota_wire::rest;
use serde_json::Number;

use crate::duration;
use crate::refusal::Refusal;
use crate::spec::{word, word_of};

pub(crate) const STRATEGIES: [(&str, Strategy); 12] = [
    ("FIRST", Strategy::First),
    ("LAST", Strategy::Last),
    ("FAILOVER", Strategy::Failover),
    ("TASK_ROUND_ROBIN", Strategy::TaskRoundRobin),
    ("APP_ROUND_ROBIN", Strategy::AppRoundRobin),
    ("RANDOM", Strategy::Random),
    ("LFU", Strategy::Lfu),
    ("LRU", Strategy::Lru),
    ("CONSISTENT_HASH", Strategy::ConsistentHash),
    ("LEAST_INFLIGHT", Strategy::LeastInflight),
    ("TASK_WEIGHT", Strategy::TaskWeight),
    ("default", Strategy::Default),
];
pub(crate) const SCOPES: [(&str, bool); 2] = [("app", false), ("job", true)];
pub(crate) const HASHES: [(&str, bool); 2] = [("xxh3", false), ("md5_xxl", true)];
pub(crate) const LOAD_UNITS: [(&str, bool); 2] = [("weight", false), ("count", true)];

/// Reads what a user wrote. What goes with which strategy is found by [`Route::compile`].
pub(crate) fn read(route: Option<&rest::Route>) -> Result<Route, Refusal> {
    let Some(route) = route else { return Ok(Route::default()) };
    let window = route.window.as_deref().map(|text| duration::parse("route.window", text)).transpose()?;
    let weight = scaled("route.weight", route.weight.as_ref(), 1e6, "a number of cores: 0.5")?;
    let percent = scaled("route.max_load_factor", route.max_load_factor.as_ref(), 100.0, "a factor: 1.25")?;
    Ok(Route {
        strategy: word("route.strategy", route.strategy.as_deref(), &STRATEGIES)?.unwrap_or_default(),
        labels: route.labels.clone().unwrap_or_default(),
        options: Options {
            weight,
            choices: route.choices,
            by_capacity: route.capacity_weighted,
            by_job: word("route.scope", route.scope.as_deref(), &SCOPES)?,
            window_ms: window,
            as_xxl: word("route.hash", route.hash.as_deref(), &HASHES)?,
            points: route.vnodes,
            load_max_percent: percent.map(|percent| u32::try_from(percent).unwrap_or(u32::MAX)),
            load_is_count: word("route.load_unit", route.load_unit.as_deref(), &LOAD_UNITS)?,
        },
    })
}

/// Writes it as a user would: what has its default is left out.
pub(crate) fn write(route: &Route) -> Option<rest::Route> {
    let options = &route.options;
    let written = rest::Route {
        strategy: (route.strategy != Strategy::Default).then(|| word_of(&STRATEGIES, route.strategy)),
        labels: Some(route.labels.clone()).filter(|labels| !labels.trim().is_empty()),
        weight: options.weight.and_then(|weight| number(weight, 1e6)),
        choices: options.choices,
        capacity_weighted: options.by_capacity,
        scope: options.by_job.map(|by_job| word_of(&SCOPES, by_job)),
        window: options.window_ms.map(duration::print),
        hash: options.as_xxl.map(|as_xxl| word_of(&HASHES, as_xxl)),
        vnodes: options.points,
        max_load_factor: options.load_max_percent.and_then(|percent| number(u64::from(percent), 100.0)),
        load_unit: options.load_is_count.map(|is_count| word_of(&LOAD_UNITS, is_count)),
    };
    (written != rest::Route::default()).then_some(written)
}

/// What a strategy goes by, in a few words.
pub(crate) fn in_words(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Default | Strategy::TaskWeight => "least weight",
        Strategy::First => "the first",
        Strategy::Last => "the last",
        Strategy::Failover => "the first alive",
        Strategy::TaskRoundRobin => "one after the other for this job",
        Strategy::AppRoundRobin => "one after the other",
        Strategy::Random => "chance",
        Strategy::Lfu => "least often chosen",
        Strategy::Lru => "longest not chosen",
        Strategy::ConsistentHash => "its place on the ring",
        Strategy::LeastInflight => "fewest in flight",
    }
}

/// A number of wholes in parts, rounded.
fn scaled(field: &str, number: Option<&Number>, parts: f64, hint: &str) -> Result<Option<u64>, Refusal> {
    let Some(number) = number else { return Ok(None) };
    let scaled = number.as_f64().map(|number| (number * parts).round()).filter(|scaled| (0.0..9e15).contains(scaled));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number between 0 and 2^53")]
    scaled
        .map(|scaled| Some(scaled as u64))
        .ok_or_else(|| Refusal::invalid(field, format!("{number} is out of range")).hint(hint))
}

fn number(parts: u64, parts_each: f64) -> Option<Number> {
    #[expect(clippy::cast_precision_loss, reason = "it was read from such a number")]
    let whole = parts as f64 / parts_each;
    Number::from_f64(whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(written: serde_json::Value, strategy: Strategy, options: Options) {
        let wire: rest::Route = serde_json::from_value(written.clone()).unwrap();
        let read = read(Some(&wire)).unwrap();
        assert_eq!(read, Route { strategy, labels: String::new(), options });
        assert_eq!(serde_json::to_value(write(&read)).unwrap(), written);
    }

    #[test]
    fn what_is_written_is_what_was_read() {
        check(
            json!({"strategy": "TASK_WEIGHT", "weight": 0.25, "choices": 2}),
            Strategy::TaskWeight,
            Options { weight: Some(250_000), choices: Some(2), ..Options::default() },
        );
        check(
            json!({"strategy": "CONSISTENT_HASH", "hash": "md5_xxl", "max_load_factor": 1.25, "load_unit": "count"}),
            Strategy::ConsistentHash,
            Options {
                as_xxl: Some(true),
                load_max_percent: Some(125),
                load_is_count: Some(true),
                ..Options::default()
            },
        );
        check(
            json!({"strategy": "LFU", "scope": "job", "window": "1h"}),
            Strategy::Lfu,
            Options { by_job: Some(true), window_ms: Some(3_600_000), ..Options::default() },
        );
        assert_eq!(write(&Route::default()), None);
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        for weight in [json!(-1), json!(1e300)] {
            let wire: rest::Route = serde_json::from_value(json!({"weight": weight})).unwrap();
            assert_eq!(read(Some(&wire)).unwrap_err().field.as_deref(), Some("route.weight"));
        }
    }
}
