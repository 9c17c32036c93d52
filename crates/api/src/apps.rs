//! Apps and their worker tokens.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::job::check_name;
use rota_core::worker::App;
use rota_port::store::{Reservation, Reserved, Scope, Token};
use rota_wire::rest;

use crate::auth::{self, Admin, Reader};
use crate::body::{Args, Json};
use crate::path::Path;
use crate::refusal::Refusal;
use crate::state::State;
use crate::tokens;
use crate::view;

pub(crate) async fn list(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::App>>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let apps = state.read(State::reload_apps).await?;
    let items = apps.into_iter().filter(|app| app.namespace == namespace).map(shown).collect();
    Ok(Answer(rest::Page { items, next: None }))
}

pub(crate) async fn put(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
    Json(body): Json<rest::AppPut>,
) -> Result<Answer<rest::App>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    check_name("namespace", &namespace)?;
    check_name("name", &name)?;
    if body.pending_max == Some(0) {
        return Err(Refusal::invalid("pending_max", "0 would stop the app").hint("pause its jobs instead"));
    }
    let app = reserve(&state, namespace, name, body.pending_max).await?;
    Ok(Answer(shown(app)))
}

/// Makes an app if it does not exist.
pub(crate) async fn reserve(
    state: &Arc<State>,
    namespace: String,
    name: String,
    pending_max: Option<u32>,
) -> Result<App, Refusal> {
    let what = Reservation::App { namespace, name, pending_max };
    let reserved = state.intake.reserve(what).await?;
    let Reserved::App(app) = reserved else { return Err(Refusal::internal(reserved)) };
    state.put_app(app.clone());
    Ok(app)
}

pub(crate) async fn token(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
    Json(body): Json<rest::TokenAsk>,
) -> Result<Answer<rest::TokenMade>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    if let Some(token) = &body.adopt {
        auth::check_strength(token)?;
    }
    let app = state.read(move |state| view::find_app(state, &namespace, &name)).await?;
    let scope = Scope::Worker(app.id);
    let made = body.adopt.is_none().then(|| auth::mint(&scope, (state.entropy)()));
    let hash = auth::hash(made.as_deref().or(body.adopt.as_deref()).unwrap_or_default());
    state.carry(tokens::keep(state.clone(), Token { hash, scope, at: state.now() })).await?;
    Ok(Answer(rest::TokenMade { app: app.name, token: made }))
}

fn shown(app: App) -> rest::App {
    rest::App { id: app.id.0, namespace: app.namespace, name: app.name, pending_max: app.pending_max }
}
