//! What a path names: read like everything else, and refused with a code.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::code::Code;
use crate::refusal::Refusal;

/// The parts of a path that a route leaves open, decoded.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Refusal> {
        // The parts are text, so that only bytes which are none can be wrong.
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        found.map(|axum::extract::Path(read)| Path(read)).map_err(|_| {
            let path: String = parts.uri.path().chars().take(200).collect();
            Refusal::new(Code::Malformed, format!("{path} is not UTF-8 when its % signs are decoded"))
                .hint("encode names as UTF-8, then byte by byte with %")
        })
    }
}
