//! The header that puts what a call causes into the trace of its run.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use rota_core::partition::Dispatch;
use rota_core::trace::Sampler;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Adds `traceparent`, if the run is in a trace.
pub(crate) fn mark(headers: &mut HeaderMap, sampler: Sampler, send: &Dispatch) {
    if let Some(value) = sampler.traceparent(send.run, send.attempt, send.parent.as_deref()) {
        headers.insert(TRACEPARENT, HeaderValue::try_from(value).expect("hexadecimal digits and dashes"));
    }
}
