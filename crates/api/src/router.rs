//! Which handler answers what.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::middleware::{self, Next};
use axum::response::Response;

use crate::code::Code;
use crate::refusal::Refusal;
use crate::state::State;
use crate::{freeze, page, routes};

/// All entries of the API, and the files of its pages. Whatever is not here is refused like everything else: with a code and a hint.
pub fn router(state: Arc<State>) -> Router {
    let mut router = Router::new();
    for entry in routes::all() {
        router = router.route(&entry.path, entry.route);
    }
    for (path, file) in page::files() {
        router = router.route(path, file);
    }
    router
        .fallback(unknown_route)
        .method_not_allowed_fallback(unknown_method)
        .layer(middleware::from_fn_with_state(state.clone(), count))
        .with_state(state)
}

async fn unknown_route(request: Request) -> Refusal {
    let path: String = request.uri().path().chars().take(200).collect();
    Refusal::new(Code::RouteUnknown, format!("nothing is at {path}")).hint("the API is under /api/v1")
}

async fn unknown_method(request: Request) -> Refusal {
    let path: String = request.uri().path().chars().take(200).collect();
    Refusal::new(Code::MethodNotAllowed, format!("{path} does not take {}", request.method()))
}

async fn count(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    // Workers ask often, and have no use for it.
    let is_worker = request.uri().path().starts_with("/api/v1/workers/");
    let mut response = next.run(request).await;
    state.counts.answered(response.status());
    if let Some(frozen) = (!is_worker).then(|| freeze::header(&state)).flatten() {
        response.headers_mut().insert(freeze::HEADER, frozen);
    }
    response
}
