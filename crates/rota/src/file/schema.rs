//! The job file as a JSON schema, for editors that complete and check while somebody writes. `docs/job-file.schema.json`
//! is what `rota schema` prints.
//!
//! The parts of a job are those of the API's document, so that a key is added in one place. What the file has beside
//! them is said here.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

const COMPONENTS: &str = "#/components/schemas/";

/// The schema, in the 2020-12 draft.
pub(crate) fn schema() -> Value {
    let document = rota_api::openapi(env!("CARGO_PKG_VERSION"));
    let all = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let job = job(&all);
    let app = all.get("AppPut").cloned().unwrap_or_default();
    let alert = json!({"$ref": format!("{COMPONENTS}AlertSpec")});
    let mut needed = BTreeMap::new();
    for part in [&job, &app, &alert, &json!({"$ref": format!("{COMPONENTS}Calendar")})] {
        collect(part, &all, &mut needed);
    }
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rota job file",
        "type": "object",
        "additionalProperties": false,
        "required": ["version"],
        "properties": {
            "version": {"const": 1},
            "namespace": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Where the jobs live."},
            "name": {
                "type": "string", "minLength": 1, "maxLength": 100,
                "description": "The name by which the file manages its jobs; absent: the file's own, without its ending."
            },
            "defaults": {"$ref": "#/$defs/Job", "description": "Keys of jobs, for those that do not have them."},
            "alerts": {
                "type": "object", "additionalProperties": alert,
                "description": "Alert rules by name; jobs name those that hear of them."
            },
            "calendars": {
                "type": "object", "additionalProperties": {"$ref": format!("{COMPONENTS}Calendar")},
                "description": "Calendars by name, for jobs of all files of the call."
            },
            "apps": {"type": "object", "additionalProperties": app},
            "jobs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Job"}}
        },
        "$defs": needed
    });
    schema["$defs"]["Job"] = job;
    rename(&mut schema);
    schema
}

/// A job of the API, with what the file writes otherwise: its name is its key, and the namespace is the file's.
fn job(all: &Map<String, Value>) -> Value {
    let mut job = all.get("JobSpec").cloned().unwrap_or_default();
    if let Some(properties) = job["properties"].as_object_mut() {
        properties.remove("name");
        properties.remove("namespace");
        properties.insert(
            "shell".to_owned(),
            json!({
                "type": "array", "items": {"type": "string"}, "minItems": 1,
                "description": "A command as a list of words, for a worker that allows it; in place of `handler` and `param`."
            }),
        );
        let names = json!({"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1});
        properties.insert(
            "calendar".to_owned(),
            json!({
                "description": "When the schedule has no slots: days, or names of `calendars`, or both.",
                "anyOf": [
                    {"type": "null"}, {"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1},
                    {
                        "type": "object", "additionalProperties": false,
                        "properties": {
                            "use": names,
                            "exclude": all["Calendar"]["properties"]["exclude"].clone(),
                            "include": all["Calendar"]["properties"]["include"].clone()
                        }
                    }
                ]
            }),
        );
        properties.insert(
            "paused".to_owned(),
            json!({"type": ["boolean", "string", "null"], "description": "`true`, or why it is paused."}),
        );
    }
    if let Some(job) = job.as_object_mut() {
        job.remove("required");
    }
    job
}

/// Takes what a schema refers to, and what that refers to.
fn collect(schema: &Value, all: &Map<String, Value>, needed: &mut BTreeMap<String, Value>) {
    match schema {
        Value::Object(map) => {
            let named = map.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix(COMPONENTS));
            if let Some((name, found)) = named.and_then(|name| Some((name, all.get(name)?)))
                && needed.insert(name.to_owned(), found.clone()).is_none()
            {
                collect(found, all, needed);
            }
            map.values().for_each(|value| collect(value, all, needed));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, all, needed)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Lets references point into this schema.
fn rename(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get_mut("$ref")
                && let Some(name) = target.strip_prefix(COMPONENTS)
            {
                *target = format!("#/$defs/{name}");
            }
            map.values_mut().for_each(rename);
        }
        Value::Array(items) => items.iter_mut().for_each(rename),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_in_docs_is_the_schema() {
        let shipped: Value = serde_json::from_str(include_str!("../../../../docs/job-file.schema.json")).unwrap();
        assert_eq!(shipped, schema(), "run: rota schema > docs/job-file.schema.json");
    }

    #[test]
    fn what_is_referred_to_is_there_and_the_keys_are_those_of_jobs() {
        let schema = schema();
        let text = schema.to_string();
        let targets = text.split("\"$ref\":\"").skip(1).filter_map(|rest| rest.split('"').next());
        for target in targets {
            let name = target.strip_prefix("#/$defs/").unwrap_or_else(|| panic!("{target} points out of the schema"));
            assert!(schema["$defs"][name].is_object(), "{name} is not there");
        }
        let keys = schema["$defs"]["Job"]["properties"].as_object().unwrap();
        for key in ["app", "cron", "calendar", "retry", "shell", "paused", "http"] {
            assert!(keys.contains_key(key), "{key}");
        }
        assert!(!keys.contains_key("name") && !keys.contains_key("namespace"));
    }
}
