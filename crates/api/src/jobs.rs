//! Jobs: made, read, changed, paused, resumed, deleted.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::{StatusCode, Uri};
use rota_core::id::{JobId, Version};
use rota_core::job::{Definition, JobState, check_name};
use rota_wire::rest;

use crate::auth::{Admin, Reader};
use crate::body::{Args, JOB_BYTES_MAX, Json};
use crate::changes::{Author, Change, Done, Seen, carry_out};
use crate::code::Code;
use crate::cursor::{self, List};
use crate::held;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::state::State;
use crate::tag::{Conditions, Shown, Tag, Tagged};
use crate::upstream;
use crate::view;

pub(crate) async fn list(
    reader: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Job>>, Refusal> {
    let args = Args::read(&uri, &["app", "managed_by", "after", "limit"])?;
    let (limit, after) = (args.limit()?, args.after(List::Jobs)?);
    if let Some(name) = args.text("managed_by") {
        check_name("managed_by", name)?;
    }
    let after = JobId(after.and_then(|[id]| u32::try_from(id).ok()).unwrap_or(0));
    let page = state.read(move |state| {
        let namespace = args.namespace();
        let app = args.text("app").map(|app| view::find_app(state, &namespace, app)).transpose()?;
        let found = state.query.jobs(app.map(|app| app.id), after, limit)?;
        let is_full = found.len() >= limit as usize;
        let next = found.last().filter(|_| is_full).map(|last| cursor::write(List::Jobs, &[u64::from(last.id.0)]));
        let held = held::by_job(state);
        let mut items = Vec::with_capacity(found.len());
        let managed_by = args.text("managed_by");
        let is_wanted = |found: &&Definition| managed_by.is_none() || found.managed_by.as_deref() == managed_by;
        for definition in found.iter().filter(is_wanted) {
            if view::app_of(state, definition)?.namespace == namespace {
                items.push(view::job(state, reader, definition, held.get(&definition.id))?);
            }
        }
        Ok(rest::Page { items, next })
    });
    Ok(Answer(page.await?))
}

pub(crate) async fn get(
    reader: Reader,
    conditions: Conditions,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Shown<Answer<rest::Job>>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let found = state.read(move |state| {
        let definition = view::find_job(state, &namespace, &job)?;
        let mut shown = view::job(state, reader, &definition, held::by_job(state).get(&definition.id))?;
        shown.dependents = upstream::dependents(state, definition.id)?;
        Ok((Tag::of_job(&definition), shown))
    });
    let (tag, shown) = found.await?;
    conditions.show(tag, Answer(shown))
}

pub(crate) async fn version(
    reader: Reader,
    Shared(state): Shared<Arc<State>>,
    Path((job, version)): Path<(String, String)>,
    uri: Uri,
) -> Result<Answer<rest::Job>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let version: u32 = version.parse().map_err(|_| Refusal::invalid("version", "a version is a number from 1"))?;
    let found = state.read(move |state| {
        let current = view::find_job(state, &namespace, &job)?;
        match state.query.job_version(current.id, Version(version))? {
            Some(definition) => view::job(state, reader, &definition, None),
            None => Err(Refusal::new(Code::VersionUnknown, format!("`{}` has no version {version}", current.name))
                .hint(format!("its versions are 1 to {}", current.version))),
        }
    });
    Ok(Answer(found.await?))
}

pub(crate) async fn create(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
    Json(spec): Json<rest::JobSpec, JOB_BYTES_MAX>,
) -> Result<(StatusCode, Tagged<Answer<rest::JobSaved>>), Refusal> {
    Args::read(&uri, &[])?;
    Ok((StatusCode::CREATED, saved(&state, Change::Create { spec, reason: None }).await?))
}

pub(crate) async fn edit(
    _: Admin,
    conditions: Conditions,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
    Json(spec): Json<rest::JobSpec, JOB_BYTES_MAX>,
) -> Result<Tagged<Answer<rest::JobSaved>>, Refusal> {
    let version = Args::read(&uri, &["version"])?.number::<u32>("version")?.map(Version);
    saved(&state, Change::Edit { job, spec, seen: Seen { version, conditions }, reason: None }).await
}

async fn saved(state: &Arc<State>, change: Change) -> Result<Tagged<Answer<rest::JobSaved>>, Refusal> {
    match state.carry(carry_out(state.clone(), Author::by_hand(), change)).await? {
        Done::Saved(saved) => Ok(Tagged(Tag::of_saved(&saved), Answer(saved))),
        other @ Done::Now(..) => Err(Refusal::internal(other)),
    }
}

pub(crate) async fn pause(
    _: Admin,
    conditions: Conditions,
    state: Shared<Arc<State>>,
    path: Path<String>,
    uri: Uri,
    Json(body): Json<rest::Reason>,
) -> Result<Tagged<Answer<rest::JobNow>>, Refusal> {
    set_state(conditions, state, path, uri, JobState::Paused, body).await
}

pub(crate) async fn resume(
    _: Admin,
    conditions: Conditions,
    state: Shared<Arc<State>>,
    path: Path<String>,
    uri: Uri,
    Json(body): Json<rest::Reason>,
) -> Result<Tagged<Answer<rest::JobNow>>, Refusal> {
    set_state(conditions, state, path, uri, JobState::Enabled, body).await
}

pub(crate) async fn delete(
    _: Admin,
    conditions: Conditions,
    state: Shared<Arc<State>>,
    path: Path<String>,
    uri: Uri,
) -> Result<Tagged<Answer<rest::JobNow>>, Refusal> {
    set_state(conditions, state, path, uri, JobState::Deleted, rest::Reason::default()).await
}

async fn set_state(
    conditions: Conditions,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
    wanted: JobState,
    said: rest::Reason,
) -> Result<Tagged<Answer<rest::JobNow>>, Refusal> {
    let args = Args::read(&uri, &["version"])?;
    let seen = Seen { version: args.number::<u32>("version")?.map(Version), conditions };
    let change = Change::SetState { namespace: args.namespace(), job, wanted, seen, reason: said.reason };
    match state.carry(carry_out(state.clone(), Author::by_hand(), change)).await? {
        Done::Now(now, version) => Ok(Tagged(Tag::of_now(&now, version), Answer(now))),
        other @ Done::Saved(_) => Err(Refusal::internal(other)),
    }
}
