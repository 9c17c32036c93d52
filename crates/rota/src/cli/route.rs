//! How a job's worker is chosen, from the flags of `rota job add` and `rota job edit`, and in one line.

use rota_wire::rest::{JobSpec, Route};
use serde_json::Value;

use crate::exit::Failure;

/// Puts what was said into a job. Another strategy drops what the former one was told; labels and weight stay.
pub(super) fn apply(
    spec: &mut JobSpec,
    strategy: Option<String>,
    labels: Option<String>,
    options: &[String],
) -> Result<(), Failure> {
    if strategy.is_none() && labels.is_none() && options.is_empty() {
        return Ok(());
    }
    let mut route = spec.route.clone().unwrap_or_default();
    if let Some(strategy) = strategy {
        let named = Some(strategy.to_uppercase()).filter(|strategy| strategy != "DEFAULT");
        if named != route.strategy {
            route = Route { strategy: named, labels: route.labels, weight: route.weight, ..Route::default() };
        }
    }
    if labels.is_some() {
        route.labels = labels;
    }
    if !options.is_empty() {
        route = told(route, options)?;
    }
    spec.route = Some(route);
    Ok(())
}

/// A route that is told this too. Which keys there are is what its body says.
fn told(route: Route, options: &[String]) -> Result<Route, Failure> {
    let Ok(Value::Object(mut keys)) = serde_json::to_value(route) else { unreachable!("a route is an object") };
    for option in options {
        let (key, text) = option.split_once('=').ok_or_else(|| {
            let hint = "write KEY=VALUE, as in choices=2".to_owned();
            Failure::usage(format!("--route {option}: it has no `=`"), Some(hint))
        })?;
        match (key, text.trim()) {
            (_, "") => drop(keys.remove(key.trim())),
            (_, text) => drop(keys.insert(key.trim().to_owned(), value(text))),
        }
    }
    serde_path_to_error::deserialize(Value::Object(keys))
        .map_err(|error| Failure::usage(format!("--route {}: {}", error.path(), error.inner()), None))
}

/// Numbers and truth values stand for themselves, the rest is text.
fn value(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        Ok(_) | Err(_) => Value::from(text),
    }
}

/// The strategy with what it is told, in one line.
pub(super) fn fact(route: &Route) -> String {
    let Ok(Value::Object(keys)) = serde_json::to_value(route) else { return String::new() };
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let told = keys.iter().filter(|(key, _)| !["strategy", "labels"].contains(&key.as_str()));
    let told: Vec<String> = told.map(|(key, value)| format!("{key}={}", plain(value))).collect();
    let strategy = route.strategy.as_deref().unwrap_or(if told.is_empty() { "" } else { "default" });
    [strategy.to_owned(), told.join(" ")].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(strategy: Option<&str>, options: &[&str], expected: &str) {
        let mut spec = JobSpec::default();
        let before = ["weight=0.5".to_owned(), "choices=2".to_owned()];
        apply(&mut spec, Some("task_weight".to_owned()), None, &before).unwrap();
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let applied = apply(&mut spec, strategy.map(str::to_owned), None, &options);
        let shown = applied.map(|()| fact(&spec.route.unwrap_or_default()));
        match shown {
            Ok(shown) => assert_eq!(shown, expected),
            Err(failure) => assert!(format!("{failure:?}").contains(expected), "{failure:?}"),
        }
    }

    #[test]
    fn options_are_added_changed_and_taken_away() {
        check(None, &[], "TASK_WEIGHT, choices=2 weight=0.5");
        check(None, &["choices=4", "weight="], "TASK_WEIGHT, choices=4");
        check(Some("LRU"), &["scope=job"], "LRU, scope=job weight=0.5");
        check(Some("default"), &[], "default, weight=0.5");
        check(None, &["choices"], "KEY=VALUE");
        check(None, &["choises=2"], "choises");
        check(None, &["choices=many"], "choices");
    }
}
