//! Which handler answers what.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{delete, get, post, put};

use crate::code::Code;
use crate::refusal::Refusal;
use crate::state::State;
use crate::{apps, fleet, held, jobs, metrics, page, protocol, register, runs, status, tokens, trigger};

/// All routes. Whatever is not here is refused like everything else: with a code and a hint.
pub fn router(state: Arc<State>) -> Router {
    let api = Router::new()
        .route("/apps", get(apps::list))
        .route("/apps/{name}", put(apps::put))
        .route("/apps/{name}/token", post(apps::token))
        .route("/jobs", get(jobs::list).post(jobs::create))
        .route("/jobs/{job}", get(jobs::get).put(jobs::edit).delete(jobs::delete))
        .route("/jobs/{job}/pause", post(jobs::pause))
        .route("/jobs/{job}/resume", post(jobs::resume))
        .route("/jobs/{job}/trigger", post(trigger::trigger))
        .route("/jobs/{job}/versions/{version}", get(jobs::version))
        .route("/runs", get(runs::list))
        .route("/runs/{run}", get(runs::get))
        .route("/runs/{run}/kill", post(runs::kill))
        .route("/runs/{run}/why", get(runs::why))
        .route("/runs/{run}/logs", get(runs::logs))
        .route("/held", get(held::list))
        .route("/tokens", get(tokens::list).post(tokens::create))
        .route("/workers", get(fleet::list).post(register::register))
        .route("/workers/{worker}", delete(protocol::leave))
        .route("/workers/{worker}/beat", post(protocol::beat))
        .route("/workers/{worker}/results", post(protocol::results))
        .route("/workers/{worker}/logs", post(protocol::logs))
        .route("/workers/{worker}/drain", post(protocol::drain))
        .route("/server", get(status::get))
        .route("/server/confirm-clock", post(status::confirm_clock))
        .route("/live", get(status::live));
    Router::new()
        .nest("/api/v1", api)
        .route("/", get(page::html))
        .route("/page.css", get(page::style))
        .route("/page.js", get(page::script))
        .route("/metrics", get(metrics::get))
        .route("/livez", get(status::livez))
        .route("/readyz", get(status::readyz))
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
    let response = next.run(request).await;
    state.counts.answered(response.status());
    response
}
