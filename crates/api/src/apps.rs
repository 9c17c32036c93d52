//! Apps and their worker tokens.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::job::check_name;
use rota_core::rate::Rates;
use rota_core::worker::App;
use rota_port::store::{Reservation, Reserved, Scope, Token};
use rota_wire::rest;

use crate::auth::{self, Admin, Reader};
use crate::body::{Args, Json};
use crate::cursor::{List, part};
use crate::path::Path;
use crate::rates;
use crate::refusal::Refusal;
use crate::state::State;
use crate::tag::{Conditions, Shown, Tag, Tagged};
use crate::tokens;
use crate::view;

pub(crate) async fn list(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::App>>, Refusal> {
    let args = Args::read(&uri, &["after", "limit"])?;
    let (namespace, limit, after) = (args.namespace(), args.limit()?, args.after(List::Apps)?);
    let mut apps = state.read(State::reload_apps).await?;
    apps.retain(|app| app.namespace == namespace);
    let (apps, next) = part(List::Apps, apps, |app| [u64::from(app.id.0)], after, limit);
    Ok(Answer(rest::Page { items: apps.into_iter().map(|app| shown(&state, app)).collect(), next }))
}

pub(crate) async fn get(
    _: Reader,
    conditions: Conditions,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Shown<Answer<rest::App>>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let app = state.read(move |state| view::find_app(state, &namespace, &name)).await?;
    conditions.show(Tag::of_app(&app), Answer(shown(&state, app)))
}

pub(crate) async fn put(
    _: Admin,
    conditions: Conditions,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
    Json(body): Json<rest::AppPut>,
) -> Result<Tagged<Answer<rest::App>>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    check_name("namespace", &namespace)?;
    check_name("name", &name)?;
    if body.pending_max == Some(0) {
        return Err(Refusal::invalid("pending_max", "0 would stop the app").hint("pause its jobs instead"));
    }
    let app = state.carry(put_if(state.clone(), conditions, namespace, name, body)).await?;
    Ok(Tagged(Tag::of_app(&app), Answer(shown(&state, app))))
}

/// Apps change here and nowhere else, so that what is seen in one's turn is what is changed.
async fn put_if(
    state: Arc<State>,
    conditions: Conditions,
    namespace: String,
    name: String,
    put: rest::AppPut,
) -> Result<App, Refusal> {
    let _turn = state.app_turn.acquire().await.map_err(Refusal::internal)?;
    let is_rated = put.rate.is_some() || put.burst.is_some() || put.groups.is_some();
    let mut rates = None;
    if !conditions.are_none() || is_rated {
        let (namespace, name) = (namespace.clone(), name.clone());
        let current = state
            .read(move |state| {
                state.reload_apps()?;
                Ok(state.directory.app_named(&namespace, &name))
            })
            .await?;
        if !conditions.are_none() {
            conditions.check(current.as_ref().map(Tag::of_app).as_ref())?;
        }
        let before = current.map(|app| app.rates.clone()).unwrap_or_default();
        rates = is_rated.then(|| rates::read(&put, before)).transpose()?;
    }
    reserve(&state, namespace, name, put.pending_max, rates).await
}

/// Makes an app if it does not exist.
pub(crate) async fn reserve(
    state: &Arc<State>,
    namespace: String,
    name: String,
    pending_max: Option<u32>,
    rates: Option<Rates>,
) -> Result<App, Refusal> {
    let what = Reservation::App { namespace, name, pending_max, rates };
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

fn shown(state: &State, app: App) -> rest::App {
    let (rate, burst) = app.rates.app.map_or((None, None), |limit| (Some(limit.rate.to_string()), limit.burst));
    rest::App {
        id: app.id.0,
        pending_max: app.pending_max,
        rate,
        burst,
        groups: rates::groups(&app.rates),
        valve: rates::valve(state, app.id),
        namespace: app.namespace,
        name: app.name,
    }
}
