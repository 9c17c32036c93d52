//! Spans in the JSON of OTLP 1.x (opentelemetry-proto, `ExportTraceServiceRequest`): ids in hexadecimal, 64-bit numbers as
//! text.

use serde_json::{Value, json};

use super::spans::{Fact, Span};

/// A request with all of them; each comes with its job's name, if that is known.
pub(super) fn request(spans: &[(Span, Option<String>)]) -> Value {
    let spans: Vec<Value> = spans.iter().map(|(span, job)| encode(span, job.as_deref())).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [text("service.name", "rota"), text("service.version", env!("CARGO_PKG_VERSION"))]},
        "scopeSpans": [{"scope": {"name": "rota"}, "spans": spans}],
    }]})
}

fn encode(span: &Span, job: Option<&str>) -> Value {
    /// `SPAN_KIND_INTERNAL`, `SPAN_KIND_SERVER` and `SPAN_KIND_CLIENT`.
    const KINDS: [u8; 3] = [1, 2, 3];
    /// Sampled, and `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK` with `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`.
    const REMOTE: u32 = 0x301;
    /// `STATUS_CODE_OK` and `STATUS_CODE_ERROR`.
    const CODES: [u8; 2] = [1, 2];
    let mut attributes = vec![number("rota.job", span.job.0.into())];
    attributes.extend(job.map(|name| text("rota.job_name", name)));
    attributes.extend(span.facts.iter().map(|(key, fact)| match fact {
        Fact::Text(value) => text(key, value),
        Fact::Number(value) => number(key, *value),
    }));
    let mut encoded = json!({
        "traceId": span.trace.to_string(),
        "spanId": span.span.to_string(),
        "name": span.name,
        "kind": KINDS[if span.is_remote { 1 } else { 2 * usize::from(span.parent.is_some()) }],
        "startTimeUnixNano": nanoseconds(span.begin.0),
        "endTimeUnixNano": nanoseconds(span.end.0.max(span.begin.0)),
        "attributes": attributes,
        "status": {"code": CODES[usize::from(span.error.is_some())]},
    });
    if let Some(parent) = span.parent {
        encoded["parentSpanId"] = parent.to_string().into();
    }
    if span.is_remote {
        encoded["flags"] = REMOTE.into();
    }
    if let Some(error) = &span.error {
        encoded["status"]["message"] = error.as_str().into();
    }
    encoded
}

fn nanoseconds(ms: i64) -> String {
    (i128::from(ms) * 1_000_000).to_string()
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: i64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}
