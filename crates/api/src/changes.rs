//! Changes of jobs: the one path that a call of its own and each change of a batch take.
//!
//! Everything that can be wrong is found before anything is asked of a machine, and what a machine is asked names the
//! version that its author saw. A change is carried to its end even if its caller goes away; that is the caller's part,
//! see [`State::carry`].

use std::sync::Arc;

use rota_core::id::{AppId, JobId, Version};
use rota_core::job::{Definition, Job, JobState, Pause};
use rota_core::partition::{self, Input};
use rota_core::time::UnixMs;
use rota_core::worker::App;
use rota_port::store::{Reservation, Reserved};
use rota_wire::rest;

use crate::alerts;
use crate::apps;
use crate::code::Code;
use crate::freeze;
use crate::refusal::Refusal;
use crate::secrets;
use crate::spec;
use crate::state::State;
use crate::tag::{Conditions, Tag};
use crate::upstream;
use crate::view;

/// Who makes a change, until there are users.
pub(crate) const BY: &str = "admin";

/// Who makes changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Author {
    by: String,
    /// The job file that the changes come from.
    managed_by: Option<String>,
}

impl Author {
    /// A person, or a program of theirs.
    pub(crate) fn by_hand() -> Author {
        Author { by: BY.to_owned(), managed_by: None }
    }

    /// A job file.
    pub(crate) fn of_file(name: String) -> Author {
        Author { by: format!("file {name}"), managed_by: Some(name) }
    }
}

/// What the author of a change saw, if the change depends on it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) version: Option<Version>,
    pub(crate) conditions: Conditions,
}

impl Seen {
    /// Refuses a change of a job that is no longer as it was seen.
    fn check(&self, current: &Definition) -> Result<(), Refusal> {
        self.conditions.check(Some(&Tag::of_job(current)))?;
        match self.version {
            Some(version) if version != current.version => {
                let message = format!("the job is at v{} now, not at v{version}", current.version);
                Err(Refusal::new(Code::VersionConflict, message)
                    .hint("read it again, and put your change on top of it"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What the machine has to find as it was read; none if nothing was asked for.
    fn expected(&self, current: &Definition) -> Option<(Version, JobState)> {
        let is_free = self.version.is_none() && self.conditions.are_none();
        (!is_free).then_some((current.version, current.state))
    }
}

/// A change of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Create {
        spec: rest::JobSpec,
        reason: Option<String>,
    },
    Edit {
        job: String,
        spec: rest::JobSpec,
        seen: Seen,
        reason: Option<String>,
    },
    /// To `Paused`, `Enabled` or `Deleted`.
    SetState {
        namespace: String,
        job: String,
        wanted: JobState,
        seen: Seen,
        reason: Option<String>,
    },
}

/// What became of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Done {
    Saved(rest::JobSaved),
    Now(rest::JobNow, Version),
}

/// Carries a change out.
pub(crate) async fn carry_out(state: Arc<State>, author: Author, change: Change) -> Result<Done, Refusal> {
    match change {
        Change::Create { spec, reason } => create(&state, author, spec, reason).await.map(Done::Saved),
        Change::Edit { job, spec, seen, reason } => {
            edit(&state, author, job, spec, &seen, reason).await.map(Done::Saved)
        }
        Change::SetState { namespace, job, wanted, seen, reason } => {
            let reason = checked_reason(reason)?;
            let definition = state.read(move |state| view::find_living_job(state, &namespace, &job)).await?;
            seen.check(&definition)?;
            if wanted == JobState::Deleted {
                let deleted = definition.clone();
                state.read(move |state| upstream::check_unused(state, &deleted)).await?;
            }
            let now = set_state(&state, &author, &definition, wanted, seen.expected(&definition), reason).await?;
            Ok(Done::Now(now, definition.version))
        }
    }
}

fn checked_reason(reason: Option<String>) -> Result<Option<String>, Refusal> {
    let reason = reason.map(|reason| freeze::check_reason(&reason)).transpose()?;
    Ok(reason.filter(|reason| !reason.is_empty()).map(|reason| reason.to_string()))
}

async fn create(
    state: &Arc<State>,
    author: Author,
    body: rest::JobSpec,
    reason: Option<String>,
) -> Result<rest::JobSaved, Refusal> {
    let reason = checked_reason(reason)?;
    let spec = spec::read(&body, &state.settings.timezone)?;
    let app_name = spec::app_of(&body)?.to_owned();
    spec::check_new_name(&body.name)?;
    let wanted = if body.paused == Some(true) { JobState::Paused } else { JobState::Enabled };
    // Everything that can be wrong is found before a name is taken.
    let probe = spec::compile(&spec, JobId(0), AppId(0), &body.name, wanted)?;
    let now = state.now();
    spec::check_slots(&spec, &probe, now)?;
    let spec = upstream::resolve(state, &body.namespace, &body.name, spec).await?;
    let app = if app_name == App::URL {
        apps::reserve(state, body.namespace.clone(), app_name, None, None).await?
    } else {
        let namespace = body.namespace.clone();
        state.read(move |state| view::find_app(state, &namespace, &app_name)).await?
    };
    let Author { by, managed_by } = author;
    let pause = (wanted == JobState::Paused).then(|| Pause { by: by.clone(), at: now, reason });
    let (id, version) = (JobId(0), Version(1));
    let definition =
        Definition { id, version, app: app.id, name: body.name, spec, state: wanted, at: now, by, managed_by, pause };
    define_new(state, definition, &app).await
}

/// Takes the name, then defines the job; gives the name back if that is refused.
async fn define_new(state: &Arc<State>, mut definition: Definition, app: &App) -> Result<rest::JobSaved, Refusal> {
    definition.id = take_name(state, &definition, app).await?;
    let id = definition.id;
    match define(state, definition, None, app).await {
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
    let token = upstream::take(state, &definition).await?;
    let answer = match state.ask(app.id, move |reply| Input::Define { definition: boxed, expected, reply }).await {
        Ok(answer) => answer,
        Err(refusal) => {
            // Without an answer it may become durable all the same.
            if !matches!(refusal.code, Code::NotReady | Code::Internal | Code::Timeout) {
                upstream::give_back(state, definition.id, token).await;
            }
            return Err(refusal);
        }
    };
    let partition::Answer::Defined { job, version, next } = answer else { return Err(Refusal::internal(answer)) };
    let saved = saved(&compiled, &definition, app, (job, version, next), state.now());
    let warned = secrets::missing(state, &app.namespace, &definition.spec);
    let (shared, namespace) = (state.clone(), app.namespace.clone());
    let unknown = shared.read(move |state| alerts::missing(state, &namespace, &definition.spec));
    let warnings = warned.into_iter().chain(unknown.await?).collect();
    Ok(rest::JobSaved { warnings, ..saved })
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

async fn edit(
    state: &Arc<State>,
    author: Author,
    job: String,
    body: rest::JobSpec,
    seen: &Seen,
    reason: Option<String>,
) -> Result<rest::JobSaved, Refusal> {
    let reason = checked_reason(reason)?;
    let namespace = body.namespace.clone();
    let (current, app) = state
        .read(move |state| {
            let current = view::find_living_job(state, &namespace, &job)?;
            let app = view::app_of(state, &current)?;
            Ok((current, app))
        })
        .await?;
    seen.conditions.check(Some(&Tag::of_job(&current)))?;
    check_identity(&current, &app, &body)?;
    let spec = spec::read(&body, &state.settings.timezone)?;
    let spec = upstream::resolve(state, &body.namespace, &body.name, spec).await?;
    let now = state.now();
    // A job that has finished fires again if its new schedule has a slot to come.
    let standing = if current.state == JobState::Paused { JobState::Paused } else { JobState::Enabled };
    let probe = spec::compile(&spec, current.id, app.id, &current.name, standing)?;
    if !spec.has_slots_of(&current.spec) {
        spec::check_slots(&spec, &probe, now)?;
    }
    let wanted = body.paused.map(|paused| if paused { JobState::Paused } else { JobState::Enabled });
    let is_told_anew = reason.is_some() && standing == JobState::Paused && wanted == Some(JobState::Paused);
    let pause = match current.pause.clone() {
        Some(pause) if is_told_anew && pause.reason != reason => {
            Some(Pause { by: author.by.clone(), at: now, reason: reason.clone() })
        }
        pause => pause,
    };
    let expected = seen.version.unwrap_or(current.version);
    let by = author.by.clone();
    // Whoever edits by hand leaves the job with its file, which will see that it was changed.
    let managed_by = author.managed_by.clone().or_else(|| current.managed_by.clone());
    let definition = Definition { spec, state: standing, at: now, by, managed_by, pause, ..current };
    let mut saved = define(state, definition.clone(), Some(expected), &app).await?;
    // A pause in an edit leaves the same rows as a pause of its own.
    if let Some(wanted) = wanted.filter(|wanted| *wanted != standing) {
        let now = set_state(state, &author, &definition, wanted, None, reason).await?;
        let job = spec::compile(&definition.spec, definition.id, app.id, &definition.name, wanted)?;
        saved.next_slots =
            spec::next_slots(&job, state.now(), 3).into_iter().map(|slot| job.body.zone.format(slot)).collect();
        saved.state = now.state;
        saved.next = now.next;
    }
    Ok(saved)
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

async fn set_state(
    state: &Arc<State>,
    author: &Author,
    definition: &Definition,
    wanted: JobState,
    expected: Option<(Version, JobState)>,
    reason: Option<String>,
) -> Result<rest::JobNow, Refusal> {
    let job = definition.id;
    let (by, reason) = (Arc::from(author.by.as_str()), reason.map(Arc::from));
    let ask = move |reply| Input::SetState { job, state: wanted, expected, by, reason, reply };
    let answer = state.ask(definition.app, ask).await?;
    let partition::Answer::StateSet { state: now, next } = answer else { return Err(Refusal::internal(answer)) };
    if wanted == JobState::Deleted {
        // If this is lost, whoever takes the name next finds its job deleted, and gives it back then.
        state.intake.reserve(Reservation::JobNameBack { job: definition.id }).await?;
    }
    let zone = view::zone(&definition.spec.zone);
    Ok(rest::JobNow {
        id: job.0,
        name: definition.name.clone(),
        state: view::state_word(now).to_owned(),
        next: next.map(|next| zone.format(next)),
    })
}
