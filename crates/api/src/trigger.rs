//! Running a job now, once per request id.
//!
//! The order: the request id is reserved; the run and its answer become durable in one batch. A server that stops in
//! between has either both or neither, and forgets at its next start what was reserved and never answered: the same
//! request then gets its one run.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::{StatusCode, Uri};
use rota_core::batch::Origin;
use rota_core::id::RunId;
use rota_core::job::Definition;
use rota_core::limits;
use rota_core::partition::{self, Input};
use rota_core::why::Why;
use rota_port::store::{Reservation, Reserved};
use rota_wire::rest;
use sha2::{Digest, Sha256};

use crate::auth::Admin;
use crate::body::{Args, JOB_BYTES_MAX, Json};
use crate::code::Code;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::spec;
use crate::state::State;
use crate::view;

const ORIGINS: [(&str, Origin); 2] = [("api", Origin::Api), ("manual", Origin::Manual)];

pub(crate) async fn trigger(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
    Json(body): Json<rest::Trigger, JOB_BYTES_MAX>,
) -> Result<(StatusCode, Answer<rest::Triggered>), Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let origin = spec::word("origin", body.origin.as_deref(), &ORIGINS)?.unwrap_or(Origin::Api);
    spec::check_size("param", body.param.as_deref().map_or(0, str::len))?;
    if let Some(id) = &body.request_id
        && (id.is_empty() || id.len() > limits::NAME_BYTES_MAX || id.chars().any(char::is_control))
    {
        let message = format!("a request id has 1 to {} bytes, no control characters", limits::NAME_BYTES_MAX);
        return Err(Refusal::invalid("request_id", message).hint("for example a UUID"));
    }
    let definition = state.read(move |state| view::find_living_job(state, &namespace, &job)).await?;
    let (run, is_repeated) = state.carry(once(state.clone(), definition, body, origin)).await?;
    let status = if is_repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Answer(rest::Triggered { run: run.to_string(), id: run.0, is_repeated })))
}

async fn once(
    state: Arc<State>,
    definition: Definition,
    body: rest::Trigger,
    origin: Origin,
) -> Result<(RunId, bool), Refusal> {
    let job = definition.id;
    let Some(request_id) = body.request_id else {
        return Ok((run(&state, &definition, body.param, None, origin).await?, false));
    };
    let body_hash = hash(body.param.as_deref(), origin);
    let reservation = Reservation::Request { job, request_id: request_id.clone(), body_hash, at: state.now() };
    let reserved = state.intake.reserve(reservation).await?;
    match reserved {
        Reserved::New => {}
        Reserved::Answered(Some(run)) => return Ok((run, true)),
        Reserved::Answered(None) => {
            return Err(Refusal::new(Code::RequestOpen, "a request with this id is being answered")
                .field("request_id")
                .hint("ask again in a moment"));
        }
        Reserved::OtherBody => {
            return Err(Refusal::new(Code::RequestConflict, "this request id was used with another body")
                .field("request_id")
                .hint("a new request needs a new id"));
        }
        Reserved::Unknown => return Err(Refusal::from(Why::JobUnknown)),
        Reserved::App(_) | Reserved::Job(_) | Reserved::Worker(_) | Reserved::Done | Reserved::Taken(_) => {
            return Err(Refusal::internal(reserved));
        }
    }
    let answers = Some(Arc::from(request_id.as_str()));
    let outcome = run(&state, &definition, body.param, answers, origin).await;
    // Without an answer the run may be durable all the same: then it answers the request from the next start on.
    let is_refused = outcome.as_ref().is_err_and(|refusal| !matches!(refusal.code, Code::NotReady | Code::Internal));
    if is_refused && let Err(error) = state.intake.reserve(Reservation::RequestBack { job, request_id }).await {
        tracing::warn!(job = job.0, %error, "request_not_given_back");
    }
    Ok((outcome?, false))
}

async fn run(
    state: &Arc<State>,
    definition: &Definition,
    param: Option<String>,
    request_id: Option<Arc<str>>,
    origin: Origin,
) -> Result<RunId, Refusal> {
    let job = definition.id;
    let param = param.map(Arc::from);
    let trigger = move |reply| Input::Trigger { job, param, request_id, origin, reply };
    let answer = state.ask(definition.app, trigger).await?;
    let partition::Answer::Triggered(run) = answer else { return Err(Refusal::internal(answer)) };
    Ok(run)
}

/// Tells bodies apart; an absent parameter is another body than an empty one.
fn hash(param: Option<&str>, origin: Origin) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update([origin.code(), u8::from(param.is_some())]);
    hash.update(param.unwrap_or_default());
    hash.finalize().into()
}
