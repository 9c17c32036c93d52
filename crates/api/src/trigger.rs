//! Running a job now, once per request id.
//!
//! The order: the request id is reserved; the run and its answer become durable in one batch. A server that stops in
//! between has either both or neither, and forgets at its next start what was reserved and never answered: the same
//! request then gets its one run.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::{HeaderMap, StatusCode, Uri};
use rota_core::batch::{Origin, RunState};
use rota_core::id::{JobId, RunId};
use rota_core::limits;
use rota_core::partition::{self, Input};
use rota_core::why::Why;
use rota_port::store::{Reservation, Reserved};
use rota_wire::rest;
use sha2::{Digest, Sha256};

use crate::auth::Admin;
use crate::body::{Args, JOB_BYTES_MAX, Json};
use crate::code::Code;
use crate::parent;
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
    headers: HeaderMap,
    Json(body): Json<rest::Trigger, JOB_BYTES_MAX>,
) -> Result<(StatusCode, Answer<rest::Triggered>), Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let origin = spec::word("origin", body.origin.as_deref(), &ORIGINS)?.unwrap_or(Origin::Api);
    spec::check_size("param", body.param.as_deref().map_or(0, str::len))?;
    check_request_id(body.request_id.as_deref())?;
    let definition = state.read(move |state| view::find_living_job(state, &namespace, &job)).await?;
    let (job, app) = (definition.id, definition.app);
    let origin_byte = [origin.code(), u8::from(body.param.is_some())];
    let hash = hash_of(&[&origin_byte, body.param.as_deref().unwrap_or_default().as_bytes()]);
    let (shared, param, parent) = (state.clone(), body.param.map(Arc::from), parent::read(&headers));
    let make = move |request_id| async move {
        let trigger = move |reply| Input::Trigger { job, param, request_id, origin, parent, reply };
        Made::of(shared.ask(app, trigger).await?)
    };
    let (made, is_repeated) = state.carry(once(state.clone(), job, body.request_id, hash, make)).await?;
    let status = if is_repeated { StatusCode::OK } else { StatusCode::CREATED };
    let (run, entry) = (made.run, made.entry.to_owned());
    let into = made.into.map(|into| into.to_string());
    Ok((status, Answer(rest::Triggered { run: run.to_string(), id: run.0, is_repeated, entry, into })))
}

/// A run that was asked for.
pub(crate) struct Made {
    pub(crate) run: RunId,
    /// What became of it.
    pub(crate) entry: &'static str,
    /// What stands for it, if it was merged.
    pub(crate) into: Option<RunId>,
}

impl Made {
    /// What a machine said of it.
    pub(crate) fn of(answer: partition::Answer) -> Result<Made, Refusal> {
        let into = if let partition::Answer::Merged { into, .. } = &answer { Some(*into) } else { None };
        let is_queued = matches!(answer, partition::Answer::Queued(_));
        let entry = if into.is_some() {
            "merged"
        } else if is_queued {
            "queued"
        } else {
            "started"
        };
        let run = answer.run().ok_or_else(|| Refusal::internal(answer))?;
        Ok(Made { run, entry, into })
    }

    /// One that an earlier request made, as it is now.
    fn before(state: &State, run: RunId) -> Result<Made, Refusal> {
        let row = state.query.run(run)?;
        let is_in = |at: RunState, why: Why| row.as_ref().is_some_and(|row| (row.state, row.why) == (at, Some(why)));
        if is_in(RunState::Merged, Why::Merged) {
            return Ok(Made { run, entry: "merged", into: state.history.merged_into(run)? });
        }
        let entry = if is_in(RunState::Pending, Why::Overlap) { "queued" } else { "started" };
        Ok(Made { run, entry, into: None })
    }
}

/// Refuses a request id that cannot be kept.
pub(crate) fn check_request_id(id: Option<&str>) -> Result<(), Refusal> {
    let is_odd = |id: &str| id.is_empty() || id.len() > limits::NAME_BYTES_MAX || id.chars().any(char::is_control);
    if id.is_some_and(is_odd) {
        let message = format!("a request id has 1 to {} bytes, no control characters", limits::NAME_BYTES_MAX);
        return Err(Refusal::invalid("request_id", message).hint("for example a UUID"));
    }
    Ok(())
}

/// Makes a run, once per request id; whether an earlier request made it.
pub(crate) async fn once<M: Future<Output = Result<Made, Refusal>>>(
    state: Arc<State>,
    job: JobId,
    request_id: Option<String>,
    body_hash: [u8; 32],
    make: impl FnOnce(Option<Arc<str>>) -> M,
) -> Result<(Made, bool), Refusal> {
    let Some(request_id) = request_id else {
        return Ok((make(None).await?, false));
    };
    let reservation = Reservation::Request { job, request_id: request_id.clone(), body_hash, at: state.now() };
    let reserved = state.intake.reserve(reservation).await?;
    match reserved {
        Reserved::New => {}
        Reserved::Answered(Some(run)) => {
            return Ok((state.read(move |state| Made::before(state, run)).await?, true));
        }
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
        Reserved::App(_)
        | Reserved::Job(_)
        | Reserved::Worker(_)
        | Reserved::Done
        | Reserved::Taken(_)
        | Reserved::Cycle(_) => {
            return Err(Refusal::internal(reserved));
        }
    }
    let outcome = make(Some(Arc::from(request_id.as_str()))).await;
    // Without an answer the run may be durable all the same: then it answers the request from the next start on.
    let is_refused = outcome.as_ref().is_err_and(|refusal| !matches!(refusal.code, Code::NotReady | Code::Internal));
    if is_refused && let Err(error) = state.intake.reserve(Reservation::RequestBack { job, request_id }).await {
        tracing::warn!(job = job.0, %error, "request_not_given_back");
    }
    Ok((outcome?, false))
}

/// Tells bodies apart; an absent parameter is another body than an empty one.
pub(crate) fn hash_of(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}
