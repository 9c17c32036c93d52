//! The OpenAPI document holds: every entry is guarded as it says, takes its own example and no other argument, and no
//! answer of any test of this API is one that the document does not know.

use http::HeaderMap;
use serde_json::{Value, json};

use crate::world::{ADMIN, ETL, READ, World, job, refusal, registration};

/// The document, read from what is served.
pub(crate) struct Document(Value);

impl Document {
    pub(crate) fn new() -> Document {
        Document(rota_api::openapi("0.1.0"))
    }

    /// The entry that answers a call, if the document has one.
    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let path = path.split(['?', '#']).next().unwrap_or(path);
        let paths = self.0["paths"].as_object().unwrap();
        let fits = |template: &str| {
            let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
            template.len() == path.len()
                && template.iter().zip(&path).all(|(part, given)| part.starts_with('{') || part == given)
        };
        let mut fitting: Vec<&String> = paths.keys().filter(|template| fits(template)).collect();
        // A part that is spelled out goes before one that is left open.
        fitting.sort_by_key(|template| template.matches('{').count());
        self.0["paths"][fitting.first()?.as_str()].get(method.to_lowercase())
    }

    /// Panics if the document does not know such an answer.
    pub(crate) fn check(&self, method: &str, path: &str, status: u16, kind: &str, answer: &Value) {
        let Some(operation) = self.operation(method, path) else { return };
        let at = format!("{method} {path}: {status} {answer}");
        let response = &operation["responses"][status.to_string()];
        assert!(response.is_object(), "this status is not documented: {at}");
        let Some(content) = response["content"].as_object() else {
            assert_eq!(answer, "", "no body is documented: {at}");
            return;
        };
        if kind == "text/event-stream" {
            assert!(content.contains_key(kind), "a stream is not documented: {at}");
            return;
        }
        let (_, content) = content.iter().find(|(known, _)| *known == kind).unwrap_or_else(|| panic!("{kind}: {at}"));
        if let Err(complaint) = self.fits(&content["schema"], answer) {
            panic!("{complaint}: {at}");
        }
    }

    /// Panics if a stream has no such event, or its data are other than the document says, or more.
    pub(crate) fn check_event(&self, path: &str, name: &str, data: &Value) {
        let operation = self.operation("GET", path).unwrap_or_else(|| panic!("{path} is not documented"));
        let schema = &operation["responses"]["200"]["content"]["text/event-stream"]["x-events"][name];
        assert!(schema.is_object(), "the event `{name}` of {path} is not documented: {data}");
        if let Err(complaint) = self.fits(schema, data) {
            panic!("{complaint}: event `{name}` of {path}: {data}");
        }
        let target = schema["$ref"].as_str().and_then(|target| self.0.pointer(&target[1..])).unwrap_or(schema);
        for key in data.as_object().into_iter().flat_map(|data| data.keys()) {
            let is_known = target["properties"].get(key).is_some();
            assert!(is_known, "`{key}` is not documented: event `{name}` of {path}: {data}");
        }
    }

    /// Panics if the answer lacks a header that the document promises.
    pub(crate) fn check_headers(&self, method: &str, path: &str, status: u16, headers: &HeaderMap) {
        let Some(operation) = self.operation(method, path) else { return };
        for name in operation["responses"][status.to_string()]["headers"].as_object().into_iter().flat_map(|h| h.keys())
        {
            assert!(headers.contains_key(name), "{name} is missing: {method} {path}: {status}");
        }
    }

    /// What of JSON Schema the document uses, and nothing else.
    fn fits(&self, schema: &Value, value: &Value) -> Result<(), String> {
        for (word, rule) in schema.as_object().unwrap() {
            match word.as_str() {
                "$ref" => self.fits(self.0.pointer(&rule.as_str().unwrap()[1..]).unwrap(), value)?,
                "allOf" => rule.as_array().unwrap().iter().try_for_each(|part| self.fits(part, value))?,
                "oneOf" => {
                    let fitting = rule.as_array().unwrap().iter().filter(|part| self.fits(part, value).is_ok());
                    expect(fitting.count() == 1, format!("{value} is not one of {rule}"))?;
                }
                "type" => {
                    let any = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                    expect(any.iter().any(|kind| is_of(kind, value)), format!("{value} is not of type {rule}"))?;
                }
                "enum" => {
                    expect(rule.as_array().unwrap().contains(value), format!("{value} is not among {rule}"))?;
                }
                "required" => {
                    for name in rule.as_array().unwrap() {
                        expect(value.get(name.as_str().unwrap()).is_some(), format!("{name} is missing"))?;
                    }
                }
                "properties" => {
                    for (name, value) in value.as_object().into_iter().flatten() {
                        match rule.get(name) {
                            Some(schema) => {
                                self.fits(schema, value).map_err(|complaint| format!("{name}: {complaint}"))?;
                            }
                            // What stands in another part of the same `allOf` is not said here.
                            None => expect(
                                schema["additionalProperties"] != json!(false),
                                format!("{name} is not documented"),
                            )?,
                        }
                    }
                }
                "additionalProperties" if rule.is_object() => {
                    for value in value.as_object().into_iter().flatten().map(|(_, value)| value) {
                        self.fits(rule, value)?;
                    }
                }
                "items" => value.as_array().into_iter().flatten().try_for_each(|item| self.fits(rule, item))?,
                "minimum" => expect(
                    number(value).is_none_or(|n| n >= number(rule).unwrap()),
                    format!("{value} is less than {rule}"),
                )?,
                "maximum" => expect(
                    number(value).is_none_or(|n| n <= number(rule).unwrap()),
                    format!("{value} is more than {rule}"),
                )?,
                "minLength"
                | "maxLength"
                | "maxItems"
                | "pattern"
                | "format"
                | "description"
                | "propertyNames"
                | "additionalProperties"
                | "default" => {}
                word => panic!("the document uses `{word}`, which this test does not know"),
            }
        }
        Ok(())
    }
}

fn number(value: &Value) -> Option<i128> {
    value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from))
}

fn expect(holds: bool, complaint: String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint) }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        kind => panic!("the document uses the type `{kind}`, which this test does not know"),
    }
}

/// Every entry: its method, its path with the parts filled in, and what the document says of it.
fn entries(document: &Value) -> Vec<(String, String, Value)> {
    let mut entries = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let mut filled = path.clone();
            for (part, value) in [
                ("{job}", "tick"),
                ("{name}", "etl"),
                ("{run}", "r00000000000"),
                ("{backfill}", "b0"),
                ("{worker}", "1"),
                ("{version}", "1"),
            ] {
                filled = filled.replace(part, value);
            }
            if let Some(open) = filled.find('{') {
                filled.replace_range(open.., "1");
            }
            entries.push((method.to_uppercase(), filled, operation.clone()));
        }
    }
    entries
}

fn example(operation: &Value) -> String {
    let example = &operation["requestBody"]["content"]["application/json"]["example"];
    if example.is_null() { String::new() } else { example.to_string() }
}

#[tokio::test]
async fn the_copy_in_docs_is_this_document() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let copy = std::fs::read_to_string(path).unwrap();
    let document = format!("{:#}\n", rota_api::openapi(env!("CARGO_PKG_VERSION")));
    assert!(copy == document, "docs/openapi.json is not what the API is: make openapi, and look at what changed");
}

#[tokio::test]
async fn the_document_is_served_to_anyone() {
    let world = World::new();
    let (status, served) = world.call("GET", "/api/openapi.json", "", "").await;
    assert_eq!((status, served), (200, rota_api::openapi("0.1.0")));
}

#[tokio::test]
async fn every_entry_opens_for_whom_it_says() {
    let world = World::new();
    for (method, path, operation) in entries(&rota_api::openapi("0.1.0")) {
        let scope = &operation["security"][0]["bearer"][0];
        let body = example(&operation);
        let (status, answer) = world.call(&method, &path, "", body.clone()).await;
        if scope.is_null() {
            assert_ne!(status, 401, "{method} {path} says that it is open");
            continue;
        }
        assert_eq!(refusal(status, &answer).1, "token_missing", "{method} {path}");
        for (token, of) in [(ADMIN, "admin"), (READ, "read"), (ETL, "worker")] {
            let opens = scope == of || (scope == "read" && of == "admin");
            let (status, answer) = world.call(&method, &path, token, body.clone()).await;
            assert_eq!(status == 403, !opens, "{method} {path} for {of}: {status} {answer}");
        }
    }
}

#[tokio::test]
async fn every_entry_takes_the_arguments_that_it_says_and_no_other() {
    let world = World::new();
    for (method, path, operation) in entries(&rota_api::openapi("0.1.0")) {
        if !path.starts_with("/api/v1") {
            continue;
        }
        let token = if operation["security"][0]["bearer"][0] == "worker" { ETL } else { ADMIN };
        let asked = format!("{path}?qqqqqqqqqq=1");
        let (status, answer) = world.call(&method, &asked, token, example(&operation)).await;
        let (_, code, field, hint) = refusal(status, &answer);
        assert_eq!((code.as_str(), field.as_str()), ("unknown_field", "qqqqqqqqqq"), "{method} {asked}: {answer}");
        let mut taken: Vec<&str> = hint.trim_start_matches("known are ").split(", ").collect();
        let parameters = operation["parameters"].as_array().unwrap();
        let in_query = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let mut documented: Vec<&str> = in_query.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        taken.sort_unstable();
        documented.sort_unstable();
        assert_eq!(taken, documented, "{method} {path}");
    }
}

#[tokio::test]
async fn every_example_of_a_body_is_well_formed() {
    for (method, path, operation) in entries(&rota_api::openapi("0.1.0")) {
        let body = example(&operation);
        if body.is_empty() {
            continue;
        }
        let world = World::new();
        world.admin("POST", "/api/v1/jobs", job("tick")).await;
        world.network.listens("http://127.0.0.1:1", "etl-1", 7);
        let register = registration("etl-1", 1_796_054_400_000, "http://127.0.0.1:1");
        assert_eq!(world.call("POST", "/api/v1/workers", ETL, register.to_string()).await.0, 200);
        let token = if operation["security"][0]["bearer"][0] == "worker" { ETL } else { ADMIN };
        let (status, answer) = world.call(&method, &path, token, body).await;
        // An edit is refused for its name: the job in the example has its own.
        let is_other_job = answer["field"] == "name" && answer["message"] == "the job is called `tick`";
        // And no run is there to be run again, no backfill to be cancelled.
        let is_other_run = answer["code"] == "run_unknown" || answer["code"] == "backfill_unknown";
        // Nor is there an alarm that somebody could care for.
        let is_other_alert = answer["code"] == "alert_unknown";
        let is_beside = is_other_job || is_other_run || is_other_alert;
        assert!(status < 300 || is_beside, "{method} {path}: {status} {answer}");
    }
}

#[tokio::test]
async fn a_namespace_that_cannot_be_is_refused_wherever_one_is_named() {
    let world = World::new();
    let (long, odd) = ("n".repeat(101), "a%20b");
    for (method, path, operation) in entries(&rota_api::openapi("0.1.0")) {
        if !path.starts_with("/api/v1") {
            continue;
        }
        let token = if operation["security"][0]["bearer"][0] == "worker" { ETL } else { ADMIN };
        for namespace in [long.as_str(), odd] {
            let asked = format!("{path}?namespace={namespace}");
            let (status, answer) = world.call(&method, &asked, token, example(&operation)).await;
            let (status, code, field, _) = refusal(status, &answer);
            assert_eq!((status, code.as_str(), field.as_str()), (400, "invalid", "namespace"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn no_body_is_taken_where_the_document_says_that_none_is_needed() {
    for (method, path, operation) in entries(&rota_api::openapi("0.1.0")) {
        if operation["requestBody"].is_null() {
            continue;
        }
        let world = World::new();
        world.admin("POST", "/api/v1/jobs", job("tick")).await;
        let token = if operation["security"][0]["bearer"][0] == "worker" { ETL } else { ADMIN };
        let (status, answer) = world.call(&method, &path, token, "").await;
        let is_needed = operation["requestBody"]["required"] == true;
        assert_eq!(status == 400, is_needed, "{method} {path}: {status} {answer}");
    }
}

#[tokio::test]
async fn numbers_have_the_bounds_that_the_document_says() {
    let world = World::new();
    world.worker("etl-1", 7, "http://h:1").await;
    let beat = |attempt: &str| format!(r#"{{"incarnation":7,"no":1,"running":[{attempt}]}}"#);
    let document = rota_api::openapi("0.1.0");
    let items = &document["components"]["schemas"]["Beat"]["properties"]["running"]["items"];
    assert_eq!(items, &json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}));
    for (attempt, expected) in [("18446744073709551615", 200), ("18446744073709551616", 400), ("-1", 400)] {
        let (status, answer) = world.call("POST", "/api/v1/workers/1/beat", ETL, beat(attempt)).await;
        assert_eq!(status, expected, "{attempt}: {answer}");
    }
}

#[tokio::test]
async fn a_line_of_no_possible_attempt_is_refused_whosever_its_run_is() {
    let world = World::new();
    world.worker("etl-1", 7, "http://h:1").await;
    for no in [0, 1_001] {
        let fine = json!({"run": 1, "shard": 0, "no": 1, "lines": ["x"]});
        let log = json!({"run": 1, "shard": 0, "no": no, "lines": ["x"]});
        let body = json!({"incarnation": 7, "logs": [fine, log]}).to_string();
        let (status, answer) = world.call("POST", "/api/v1/workers/1/logs", ETL, body).await;
        assert_eq!((status, &answer["field"]), (400, &json!("logs[1].no")), "{answer}");
    }
}
