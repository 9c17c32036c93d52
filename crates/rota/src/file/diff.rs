//! Which keys of a job differ.

use std::collections::BTreeMap;

use rota_wire::rest::{AlertSpec, JobSpec};
use serde::Serialize;
use serde_json::Value;

/// A key that differs, with its values; absent where it is not said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct KeyChange {
    /// `retry.max`.
    pub(crate) key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Value>,
}

/// The keys in which two jobs differ, in order. The values of headers are not told.
pub(crate) fn changes(before: &JobSpec, after: &JobSpec) -> Vec<KeyChange> {
    if before == after {
        return Vec::new();
    }
    let (mut before, mut after) = (keys(before), keys(after));
    let all: std::collections::BTreeSet<String> = before.keys().chain(after.keys()).cloned().collect();
    let mut changes = Vec::new();
    for key in all.into_iter().filter(|key| key != "name" && key != "namespace") {
        let (old, new) = (before.remove(&key), after.remove(&key));
        if old == new {
            continue;
        }
        let is_secret = key.starts_with("http.headers.");
        let shown = |value: Option<Value>| value.map(|value| if is_secret { Value::from("***") } else { value });
        changes.push(KeyChange { before: shown(old), after: shown(new), key });
    }
    changes
}

/// The keys in which two alert rules differ, in order.
pub(crate) fn differences(before: &AlertSpec, after: &AlertSpec) -> Vec<KeyChange> {
    let (mut before, mut after) = (keys(before), keys(after));
    let all: std::collections::BTreeSet<String> = before.keys().chain(after.keys()).cloned().collect();
    let change = |key: String| KeyChange { before: before.remove(&key), after: after.remove(&key), key };
    all.into_iter().map(change).filter(|change| change.before != change.after).collect()
}

fn keys(spec: &impl Serialize) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    flatten("", serde_json::to_value(spec).expect("a specification is plain data"), &mut flat);
    flat
}

fn flatten(path: &str, value: Value, flat: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                flatten(&path, value, flat);
            }
        }
        value @ Value::Null
        | value @ Value::Bool(_)
        | value @ Value::Number(_)
        | value @ Value::String(_)
        | value @ Value::Array(_) => {
            flat.insert(path.to_owned(), value);
        }
    }
}
