//! The trace within which a call is made, as W3C Trace Context has it.

use std::sync::Arc;

use http::HeaderMap;
use rota_core::trace::Parent;

use crate::endpoint::{Arg, Shape};

/// What the run belongs to.
pub(crate) const TRACEPARENT: Arg = Arg::new(
    "traceparent",
    Shape::Text,
    "the run goes on with the trace of this header (W3C Trace Context); one that cannot be read is ignored",
);

/// The span that made the call. What cannot be read counts as absent, and so do two of them: the standard says so.
pub(crate) fn read(headers: &HeaderMap) -> Option<Arc<Parent>> {
    let mut all = headers.get_all(TRACEPARENT.name).iter();
    let (Some(header), None) = (all.next(), all.next()) else { return None };
    Parent::parse(header.to_str().ok()?.trim()).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_header_that_can_be_read_is_heeded() {
        const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01";
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRACEPARENT.name, value.parse().unwrap());
            }
            read(&headers).map(|parent| parent.to_string())
        };
        assert_eq!(read(&[GOOD]).as_deref(), Some(GOOD));
        for values in [&[][..], &[""], &["00-0-0-00"], &[GOOD, OTHER]] {
            assert_eq!(read(values), None, "{values:?}");
        }
    }
}
