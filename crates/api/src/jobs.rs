//! Jobs: made, read, changed, paused, resumed, deleted.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::{StatusCode, Uri};
use rota_core::id::{JobId, Version};
use rota_core::job::{Definition, Job, JobState};
use rota_core::partition::{self, Input};
use rota_core::time::UnixMs;
use rota_core::worker::App;
use rota_port::store::{Reservation, Reserved};
use rota_wire::rest;

use crate::apps;
use crate::auth::{Admin, Reader};
use crate::body::{Args, JOB_BYTES_MAX, Json};
use crate::code::Code;
use crate::held;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::secrets;
use crate::spec;
use crate::state::State;
use crate::view;

/// Who made a change, until there are users.
pub(crate) const BY: &str = "admin";

pub(crate) async fn list(
    reader: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Job>>, Refusal> {
    let args = Args::read(&uri, &["app", "after", "limit"])?;
    let (limit, after) = (args.limit()?, args.number::<u32>("after")?.unwrap_or(0));
    let page = state.read(move |state| {
        let namespace = args.namespace();
        let app = args.text("app").map(|app| view::find_app(state, &namespace, app)).transpose()?;
        let found = state.query.jobs(app.map(|app| app.id), JobId(after), limit)?;
        let is_full = found.len() >= limit as usize;
        let next = found.last().filter(|_| is_full).map(|last| last.id.to_string());
        let held = held::by_job(state);
        let mut items = Vec::with_capacity(found.len());
        for definition in &found {
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
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::Job>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let found = state.read(move |state| {
        let definition = view::find_job(state, &namespace, &job)?;
        view::job(state, reader, &definition, held::by_job(state).get(&definition.id))
    });
    Ok(Answer(found.await?))
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
    Json(body): Json<rest::JobSpec, JOB_BYTES_MAX>,
) -> Result<(StatusCode, Answer<rest::JobSaved>), Refusal> {
    Args::read(&uri, &[])?;
    let spec = spec::read(&body)?;
    let app_name = spec::app_of(&body)?.to_owned();
    let wanted = if body.paused == Some(true) { JobState::Paused } else { JobState::Enabled };
    // Everything that can be wrong is found before a name is taken.
    let probe = spec::compile(&spec, JobId(0), rota_core::id::AppId(0), &body.name, wanted)?;
    spec::check_slots(&spec, &probe, state.now())?;
    let app = if app_name == App::URL {
        apps::reserve(&state, body.namespace.clone(), app_name, None).await?
    } else {
        let namespace = body.namespace.clone();
        state.read(move |state| view::find_app(state, &namespace, &app_name)).await?
    };
    let definition = Definition {
        id: JobId(0),
        version: Version(1),
        app: app.id,
        name: body.name,
        spec,
        state: wanted,
        at: state.now(),
        by: BY.to_owned(),
    };
    let saved = state.carry(define_new(state.clone(), definition, app)).await?;
    Ok((StatusCode::CREATED, Answer(saved)))
}

/// Takes the name, then defines the job; gives the name back if that is refused.
async fn define_new(state: Arc<State>, mut definition: Definition, app: App) -> Result<rest::JobSaved, Refusal> {
    definition.id = take_name(&state, &definition, &app).await?;
    let id = definition.id;
    match define(&state, definition, None, &app).await {
        Ok(saved) => Ok(saved),
        Err(refusal) => {
            // The refusal is what the caller must know; a name that stays taken lapses by its age.
            if let Err(error) = state.intake.reserve(Reservation::JobNameBack { job: id }).await {
                tracing::warn!(job = id.0, %error, "job_name_not_given_back");
            }
            Err(refusal)
        }
    }
}

async fn take_name(state: &Arc<State>, definition: &Definition, app: &App) -> Result<JobId, Refusal> {
    let what = Reservation::JobName { app: app.id, name: definition.name.clone(), at: state.now() };
    let reserved = state.intake.reserve(what.clone()).await?;
    if let Reserved::Job(id) = reserved {
        return Ok(id);
    }
    let Reserved::Taken(taken) = reserved else { return Err(Refusal::internal(reserved)) };
    let holder = state.read(move |state| Ok(state.query.job(taken)?)).await?;
    if holder.is_some_and(|holder| holder.state == JobState::Deleted) {
        // A server stopped between the deletion and this.
        state.intake.reserve(Reservation::JobNameBack { job: taken }).await?;
        if let Reserved::Job(id) = state.intake.reserve(what).await? {
            return Ok(id);
        }
    }
    Err(Refusal::new(Code::NameTaken, format!("`{}` is the name of job {taken}", definition.name))
        .field("name")
        .hint(format!("choose another name, or change that job: PUT /api/v1/jobs/{taken}")))
}

async fn define(
    state: &Arc<State>,
    definition: Definition,
    expected: Option<Version>,
    app: &App,
) -> Result<rest::JobSaved, Refusal> {
    let compiled = spec::compile(&definition.spec, definition.id, app.id, &definition.name, definition.state)?;
    let boxed = Box::new(definition.clone());
    let answer = state.ask(app.id, move |reply| Input::Define { definition: boxed, expected, reply }).await?;
    let partition::Answer::Defined { job, version, next } = answer else { return Err(Refusal::internal(answer)) };
    let saved = saved(&compiled, &definition, app, (job, version, next), state.now());
    Ok(rest::JobSaved { warnings: secrets::missing(state, &app.namespace, &definition.spec), ..saved })
}

fn saved(
    job: &Job,
    definition: &Definition,
    app: &App,
    (id, version, next): (JobId, Version, Option<UnixMs>),
    now: UnixMs,
) -> rest::JobSaved {
    let zone = &job.body.zone;
    let mut slots = spec::next_slots(job, now, 3);
    if slots.is_empty() {
        // A fixed delay has no slots of its own; the scheduler has armed one.
        slots.extend(next.filter(|_| job.state == JobState::Enabled));
    }
    rest::JobSaved {
        id: id.0,
        version: version.0,
        name: definition.name.clone(),
        app: app.name.clone(),
        state: view::state_word(definition.state).to_owned(),
        schedule: view::explain(job),
        next: next.map(|next| zone.format(next)),
        next_slots: slots.into_iter().map(|slot| zone.format(slot)).collect(),
        warnings: Vec::new(),
    }
}

pub(crate) async fn edit(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
    Json(body): Json<rest::JobSpec, JOB_BYTES_MAX>,
) -> Result<Answer<rest::JobSaved>, Refusal> {
    let args = Args::read(&uri, &["version"])?;
    let expected = args.number::<u32>("version")?.map(Version);
    let namespace = body.namespace.clone();
    let (current, app) = state
        .read(move |state| {
            let current = view::find_living_job(state, &namespace, &job)?;
            let app = view::app_of(state, &current)?;
            Ok((current, app))
        })
        .await?;
    check_identity(&current, &app, &body)?;
    let spec = spec::read(&body)?;
    // A job that has finished fires again if its new schedule has a slot to come.
    let standing = if current.state == JobState::Paused { JobState::Paused } else { JobState::Enabled };
    let probe = spec::compile(&spec, current.id, app.id, &current.name, standing)?;
    if spec.schedule != current.spec.schedule || spec.zone != current.spec.zone {
        spec::check_slots(&spec, &probe, state.now())?;
    }
    let expected = expected.unwrap_or(current.version);
    let definition = Definition { spec, state: standing, at: state.now(), by: BY.to_owned(), ..current };
    let wanted = body.paused.map(|paused| if paused { JobState::Paused } else { JobState::Enabled });
    let command = redefine(state.clone(), definition, expected, app, wanted.filter(|wanted| *wanted != standing));
    Ok(Answer(state.carry(command).await?))
}

fn check_identity(current: &Definition, app: &App, body: &rest::JobSpec) -> Result<(), Refusal> {
    if current.name != body.name {
        return Err(Refusal::invalid("name", format!("the job is called `{}`", current.name))
            .hint("a name never changes; make a new job and delete this one"));
    }
    if spec::app_of(body)? != app.name {
        return Err(Refusal::invalid("app", format!("the job belongs to `{}`", app.name))
            .hint("a job's app never changes; make a new job and delete this one"));
    }
    Ok(())
}

/// Defines the new version, then pauses or resumes the job if that was asked for, so that a pause in an edit leaves the
/// same rows as a pause of its own.
async fn redefine(
    state: Arc<State>,
    definition: Definition,
    expected: Version,
    app: App,
    wanted: Option<JobState>,
) -> Result<rest::JobSaved, Refusal> {
    let mut saved = define(&state, definition.clone(), Some(expected), &app).await?;
    if let Some(wanted) = wanted {
        let now = set_state(&state, &definition, wanted).await?;
        let job = spec::compile(&definition.spec, definition.id, app.id, &definition.name, wanted)?;
        saved.next_slots =
            spec::next_slots(&job, state.now(), 3).into_iter().map(|slot| job.body.zone.format(slot)).collect();
        saved.state = now.state;
        saved.next = now.next;
    }
    Ok(saved)
}

pub(crate) async fn pause(
    _: Admin,
    state: Shared<Arc<State>>,
    path: Path<String>,
    uri: Uri,
) -> Result<Answer<rest::JobNow>, Refusal> {
    change(state, path, uri, JobState::Paused).await
}

pub(crate) async fn resume(
    _: Admin,
    state: Shared<Arc<State>>,
    path: Path<String>,
    uri: Uri,
) -> Result<Answer<rest::JobNow>, Refusal> {
    change(state, path, uri, JobState::Enabled).await
}

pub(crate) async fn delete(
    _: Admin,
    state: Shared<Arc<State>>,
    path: Path<String>,
    uri: Uri,
) -> Result<Answer<rest::JobNow>, Refusal> {
    change(state, path, uri, JobState::Deleted).await
}

async fn change(
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
    wanted: JobState,
) -> Result<Answer<rest::JobNow>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let definition = state.read(move |state| view::find_living_job(state, &namespace, &job)).await?;
    let shared = state.clone();
    let command = async move {
        let now = set_state(&shared, &definition, wanted).await?;
        if wanted == JobState::Deleted {
            // If this is lost, whoever takes the name next finds its job deleted, and gives it back then.
            shared.intake.reserve(Reservation::JobNameBack { job: definition.id }).await?;
        }
        Ok(now)
    };
    Ok(Answer(state.carry(command).await?))
}

async fn set_state(state: &Arc<State>, definition: &Definition, wanted: JobState) -> Result<rest::JobNow, Refusal> {
    let job = definition.id;
    let ask = move |reply| Input::SetState { job, state: wanted, by: Arc::from(BY), reply };
    let answer = state.ask(definition.app, ask).await?;
    let partition::Answer::StateSet { state: now, next } = answer else { return Err(Refusal::internal(answer)) };
    let zone = view::zone(&definition.spec.zone);
    Ok(rest::JobNow {
        id: job.0,
        name: definition.name.clone(),
        state: view::state_word(now).to_owned(),
        next: next.map(|next| zone.format(next)),
    })
}
