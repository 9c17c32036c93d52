//! The OpenAPI document, written from the entries of the API and the schemas of its bodies.
//!
//! It tells nothing that is secret, so that it is open. Each refusal names the codes that it may carry: an answer with
//! another code than those is a mistake of the server or of the document, and the tests treat it so.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::header;
use rota_wire::error::Error;
use serde_json::{Map, Value, json};

use crate::code::Code;
use crate::endpoint::{API, Answer, Arg, Body, Content, Endpoint, Opens, Shape, body};
use crate::routes;
use crate::state::State;

/// Bodies of which each key may be absent, but not all.
const NEVER_EMPTY: [&str; 1] = ["AlertSpec"];

const EVENTS: &str = "text/event-stream";

const ABOUT: &str = "Rota decides when work runs, who runs it, and proves that it ran.\n\n\
    Every call but the open ones carries `Authorization: Bearer TOKEN`. `{job}` is a name or an id; `{run}` is what was \
    printed (`r…`), a suffix of it that names one recent run, or `id:` and the decimal number. Times are RFC 3339 with \
    an offset. Durations in a job are text with a unit (`500ms`, `30s`, `5m`, `2h`, `1d`); elsewhere they are \
    milliseconds, and say so in their name. A refusal is an `Error`, and its `code` has a page of its own. \
    Lists are read on with `after`. What cannot be read as HTTP at all (a broken head, or one of more than 64 KiB) is \
    answered 400 or 431 with no body, and the connection is closed.";

/// A list of tags, as a header carries them.
const TAGS: &str = r#"^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$"#;

pub(crate) async fn get(Shared(state): Shared<Arc<State>>) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")];
    (headers, state.document.clone()).into_response()
}

/// The document of this version, as it is served.
#[must_use]
pub fn openapi(version: &str) -> Value {
    document(&routes::all(), version)
}

fn document(entries: &[Endpoint], version: &str) -> Value {
    let mut schemas = Schemas::default();
    schemas.add(&body::<Error>());
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for entry in entries {
        let before =
            paths.entry(&entry.path).or_default().insert(entry.method.to_owned(), operation(entry, &mut schemas));
        assert!(before.is_none(), "{} {} is there twice", entry.method, entry.path);
    }
    let words: Vec<&str> = Code::ALL.iter().map(|code| code.word()).collect();
    let error = schemas.0.get_mut("Error").expect("it was added first");
    error["properties"]["code"]["enum"] = json!(words);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rota", "version": version, "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas.0,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "an `admin`, `read` or `worker` token"},
            },
        },
    })
}

/// Schemas by name. Two of one name are the same.
#[derive(Default)]
struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// Adds a body's schemas; a reference to it.
    fn add(&mut self, body: &Body) -> Value {
        for (name, schema) in &body.schemas {
            let mut schema = serde_json::to_value(schema).expect("schemas are plain data");
            bound(&mut schema);
            let before = self.0.insert(name.clone(), schema.clone());
            assert!(before.is_none_or(|before| before == schema), "two schemas are called {name}");
        }
        reference(&body.name)
    }
}

/// Says the bounds of unsigned numbers: the formats that they are given are those of signed ones.
fn bound(schema: &mut Value) {
    match schema {
        Value::Object(words) => {
            let max = match words.get("format").and_then(Value::as_str) {
                Some("int32") => Some(u64::from(u32::MAX)),
                Some("int64") => Some(u64::MAX),
                Some(_) | None => None,
            };
            if let Some(max) = max.filter(|_| words.contains_key("minimum")) {
                words.remove("format");
                words.entry("maximum").or_insert_with(|| json!(max));
            }
            words.values_mut().for_each(bound);
        }
        Value::Array(parts) => parts.iter_mut().for_each(bound),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn operation(entry: &Endpoint, schemas: &mut Schemas) -> Value {
    let mut parameters: Vec<Value> = in_path(&entry.path).map(path_parameter).collect();
    parameters.extend(entry.args.iter().map(|arg| parameter(arg, "query")));
    parameters.extend(entry.headers.iter().map(|arg| parameter(arg, "header")));
    let mut operation = json!({
        "operationId": entry.name,
        "tags": [tag(&entry.path)],
        "summary": entry.about,
        "responses": responses(entry, schemas),
    });
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some((body, example)) = &entry.takes {
        let schema = schemas.add(body);
        // No body is an empty object.
        let is_required = !schemas.0[&body.name]["required"].is_null() || NEVER_EMPTY.contains(&body.name.as_str());
        let content = json!({"schema": schema, "example": example});
        operation["requestBody"] = json!({"content": {"application/json": content}, "required": is_required});
    }
    operation["security"] = match entry.opens {
        Opens::All => json!([]),
        Opens::Readers => json!([{"bearer": ["read"]}]),
        Opens::Admins => json!([{"bearer": ["admin"]}]),
        Opens::Workers => json!([{"bearer": ["worker"]}]),
    };
    operation
}

/// The first part of the path, or what stands beside the API.
fn tag(path: &str) -> &str {
    path.strip_prefix(API).and_then(|rest| rest.split('/').nth(1)).unwrap_or("beside")
}

/// The names in braces.
fn in_path(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(name: &str) -> Value {
    let (schema, about) = match name {
        "job" => (json!({"type": "string", "minLength": 1}), "the job: its name or its id"),
        "run" => {
            (json!({"type": "string", "minLength": 1}), "the run: as printed, a suffix of it, or `id:` and its number")
        }
        "backfill" => (json!({"type": "string", "minLength": 1}), "the backfill, as printed: `b…`"),
        "worker" => (number(0, u64::from(u32::MAX)), "the worker's id"),
        "version" => (number(0, u64::from(u32::MAX)), "the number of a version, from 1"),
        _ => (json!({"type": "string", "minLength": 1, "maxLength": 100}), "its name"),
    };
    json!({"name": name, "in": "path", "required": true, "schema": schema, "description": about})
}

fn parameter(arg: &Arg, place: &str) -> Value {
    let schema = match arg.shape {
        Shape::Text | Shape::Instant => json!({"type": "string"}),
        Shape::Tags => json!({"type": "string", "pattern": TAGS}),
        // A flag may stand without a value, which is text.
        Shape::Flag => json!({"type": "string", "enum": ["true", "false", ""]}),
        Shape::Name => json!({"type": "string", "maxLength": 100}),
        Shape::Number { min, max } => number(min, max),
        Shape::Word(words) => json!({"type": "string", "enum": words}),
    };
    json!({"name": arg.name, "in": place, "schema": schema, "description": arg.about})
}

fn number(min: u64, max: u64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max})
}

fn responses(entry: &Endpoint, schemas: &mut Schemas) -> Value {
    let mut responses = Map::new();
    for answer in &entry.answers {
        let answered = response(answer, schemas);
        match responses.get_mut(&answer.status.to_string()) {
            // Of another media type.
            Some(before) => join(before, answered),
            None => {
                responses.insert(answer.status.to_string(), answered);
            }
        }
    }
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in &entry.codes {
        by_status.entry(code.status().as_u16()).or_default().push(code.word());
    }
    for (status, words) in by_status {
        let before = responses.insert(status.to_string(), refusal(status, &words));
        assert!(before.is_none(), "{} answers {status} twice", entry.name);
    }
    Value::Object(responses)
}

fn response(answer: &Answer, schemas: &mut Schemas) -> Value {
    let mut response = json!({"description": answer.about});
    match &answer.content {
        Content::Nothing => {}
        Content::Json(body) => response["content"] = json!({"application/json": {"schema": schemas.add(body)}}),
        Content::Events(events) => {
            let list: Vec<String> = events.iter().map(|(name, body)| format!("`{name}`: `{}`", body.name)).collect();
            // OpenAPI has no word for events before 3.2, so this is an extension: the data of each, by its name.
            let of_events: Map<String, Value> =
                events.iter().map(|(name, body)| ((*name).to_owned(), schemas.add(body))).collect();
            response["content"] = json!({EVENTS: {"schema": {"type": "string"}, "x-events": of_events}});
            response["description"] = json!(format!("{}; events with JSON: {}", answer.about, list.join(", ")));
        }
        Content::Text(kind) => response["content"] = json!({*kind: {"schema": kind_of(kind)}}),
    }
    if answer.has_etag {
        response["headers"] = json!({"ETag": {"schema": {"type": "string"}, "required": true}});
    }
    response
}

/// Two answers of one status, which differ in their media type.
fn join(before: &mut Value, answered: Value) {
    let (a, b) = (before["description"].as_str().unwrap_or(""), answered["description"].as_str().unwrap_or(""));
    before["description"] = json!(format!("{a}; or {b}"));
    let more = answered["content"].as_object().cloned().unwrap_or_default();
    if let Some(content) = before["content"].as_object_mut() {
        content.extend(more);
    }
}

fn kind_of(kind: &str) -> Value {
    json!({"type": if kind == "application/json" { "object" } else { "string" }})
}

/// What all refusals of one status have in common, and the codes that tell them apart.
fn refusal(status: u16, words: &[&str]) -> Value {
    let listed: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    let schema = json!({"allOf": [reference("Error"), {"properties": {"code": {"enum": words}}}]});
    let mut refusal = json!({
        "description": format!("refused: {}", listed.join(", ")),
        "content": {"application/json": {"schema": schema}},
    });
    if matches!(status, 429 | 503) {
        refusal["headers"] = json!({"Retry-After": {"schema": {"type": "string"}, "required": true}});
    }
    if status == 401 {
        refusal["headers"] = json!({"WWW-Authenticate": {"schema": {"type": "string"}, "required": true}});
    }
    refusal
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use rota_core::batch::{AttemptState, RunState};
    use rota_core::worker::WorkerState;
    use rota_wire::rest::words;

    fn same<T: Copy + Debug>(known: &[T], word: fn(T) -> &'static str, documented: &[&str]) {
        let mut known: Vec<&str> = known.iter().map(|known| word(*known)).collect();
        let mut documented = documented.to_vec();
        known.sort_unstable();
        documented.sort_unstable();
        assert_eq!(known, documented);
    }

    #[test]
    fn words_in_the_document_are_those_of_the_core() {
        same(RunState::ALL, RunState::word, words::RunState::ALL);
        same(AttemptState::ALL, AttemptState::word, words::AttemptState::ALL);
        let workers = [WorkerState::Online, WorkerState::Draining, WorkerState::Unreachable, WorkerState::Offline];
        same(&workers, WorkerState::word, words::WorkerState::ALL);
    }
}
