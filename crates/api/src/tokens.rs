//! Tokens: made for readers, listed, kept. Worker tokens are made through their app, see [`crate::apps`].

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::{StatusCode, Uri};
use rota_port::store::{Reservation, Reserved, Scope, Token};
use rota_wire::rest;

use crate::auth::{self, Admin};
use crate::body::{Args, Json};
use crate::code::Code;
use crate::cursor::{List, ordered, part};
use crate::refusal::Refusal;
use crate::state::State;

/// What of a digest is shown.
const DIGEST_BYTES: usize = 4;

pub(crate) async fn list(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Token>>, Refusal> {
    let args = Args::read(&uri, &["after", "limit"])?;
    let (limit, after) = (args.limit()?, args.after(List::Tokens)?);
    let page = state.read(move |state| {
        let (tokens, next) = part(List::Tokens, state.query.tokens()?, key, after, limit);
        let items = tokens.iter().map(|token| shown(state, token)).collect::<Result<_, _>>()?;
        Ok(rest::Page { items, next })
    });
    Ok(Answer(page.await?))
}

/// By scope, then by age; the digest tells apart what was made in the same instant.
fn key(token: &Token) -> [u64; 4] {
    let (scope, app) = match token.scope {
        Scope::Admin => (0, 0),
        Scope::Read => (1, 0),
        Scope::Worker(app) => (2, app.0),
    };
    let [a, b, c, d, e, f, g, h, ..] = token.hash;
    [scope, u64::from(app), ordered(token.at.0), u64::from_be_bytes([a, b, c, d, e, f, g, h])]
}

pub(crate) async fn create(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
    Json(body): Json<rest::TokenNew>,
) -> Result<(StatusCode, Answer<rest::TokenShown>), Refusal> {
    Args::read(&uri, &[])?;
    let scope = scope(&body.scope)?;
    let token = auth::mint(&scope, (state.entropy)());
    let kept = Token { hash: auth::hash(&token), scope, at: state.now() };
    state.carry(keep(state.clone(), kept)).await?;
    Ok((StatusCode::CREATED, Answer(rest::TokenShown { scope: body.scope, token })))
}

fn scope(word: &str) -> Result<Scope, Refusal> {
    match word {
        "read" => Ok(Scope::Read),
        "admin" => Err(Refusal::invalid("scope", "admin tokens are not made here")
            .hint("what is in the server's admin token file is the admin token from its next start on")),
        "worker" => Err(Refusal::invalid("scope", "a worker token belongs to an app").hint("rota app token APP")),
        _ => {
            let shown: String = word.chars().take(40).collect();
            Err(Refusal::invalid("scope", format!("`{shown}` is not known here")).hint("the scope is read"))
        }
    }
}

/// Makes a token valid. Those before the newest are revoked first, so that with this one two are.
pub(crate) async fn keep(state: Arc<State>, token: Token) -> Result<(), Refusal> {
    if state.tokens.scope_of(&token.hash).is_some_and(|scope| scope != token.scope) {
        // What it opens is for its holder to know.
        return Err(Refusal::new(Code::TokenInUse, "this token is valid here for something else")
            .field("adopt")
            .hint("every use has a token of its own: adopt another one, or let one be made"));
    }
    for what in [Reservation::TokensBack { scope: token.scope.clone() }, Reservation::Token(token)] {
        let reserved = state.intake.reserve(what).await?;
        if reserved != Reserved::Done {
            return Err(Refusal::internal(reserved));
        }
    }
    state.read(|state| Ok(state.tokens.load(|| state.query.tokens())?)).await
}

fn shown(state: &State, token: &Token) -> Result<rest::Token, Refusal> {
    let (scope, app) = match token.scope {
        Scope::Admin => ("admin", None),
        Scope::Read => ("read", None),
        Scope::Worker(app) => ("worker", Some(app)),
    };
    Ok(rest::Token {
        scope: scope.to_owned(),
        app: app
            .map(|id| Ok::<_, Refusal>(state.app(id)?.map_or_else(|| format!("app {id}"), |app| app.name)))
            .transpose()?,
        at: token.at.to_string(),
        digest: token.hash[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}
