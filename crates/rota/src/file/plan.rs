//! The plan: what has to be done so that the jobs are as a file wants them. A pure value, worked out from what is wanted
//! and what is there; carrying it out decides nothing.
//!
//! Invariants: a step that changes a job names the version that it was worked out from; nothing is deleted but what the
//! file made, and only when that is asked for; a plan whose changes were all carried out is followed by one without any.

use std::collections::{BTreeMap, BTreeSet};

use rota_wire::error::Error;
use rota_wire::rest::{self, JobChange, JobSpec, Op};
use serde::Serialize;
use serde_json::Value;

use super::alerts::{self, AlertStep};
use super::diff::{KeyChange, changes};
use super::order;
use super::wanted::{self, Wanted};

/// What a plan is worked out from, beside the file.
pub(crate) struct View {
    /// The file's name: by it, it manages its jobs. None for a file without a name, which manages nothing.
    pub(crate) file: Option<String>,
    /// Jobs that are there: those that the file names, and those that it manages.
    pub(crate) jobs: BTreeMap<String, rest::Job>,
    /// Apps that are there.
    pub(crate) apps: Vec<rest::App>,
    /// Alert rules that are there.
    pub(crate) alerts: Vec<rest::Alert>,
    /// Zone of jobs that name none.
    pub(crate) zone: String,
    pub(crate) now: rota_core::time::UnixMs,
    pub(crate) beside: Beside,
}

/// What the other files of the same call say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Beside {
    /// The names by which they manage jobs of the same namespace.
    pub(crate) files: BTreeSet<String>,
    /// The jobs of the same namespace that they name.
    pub(crate) jobs: BTreeSet<String>,
    /// The apps that they name.
    pub(crate) apps: BTreeSet<String>,
}

/// What the caller wants of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wish {
    /// Delete what the file made and does not name any more.
    pub(crate) prune: bool,
    /// Take jobs over that another file manages.
    pub(crate) take_over: bool,
}

/// The plan of a file.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Plan {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    pub(crate) alerts: Vec<AlertStep>,
    pub(crate) apps: Vec<AppStep>,
    /// In the order of the file; what is not in it any more comes last.
    pub(crate) jobs: Vec<Step>,
    /// The year in which it was made, whose slots are shown without one.
    #[serde(skip)]
    pub(crate) year: String,
}

/// An app that is made, or whose cap is changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct AppStep {
    pub(crate) app: String,
    pub(crate) does: Does,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<KeyChange>,
    #[serde(skip)]
    pub(crate) put: rest::AppPut,
}

/// What is done with a job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) job: String,
    pub(crate) does: Does,
    /// The version that the step was worked out from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<KeyChange>,
    /// Who changed by hand what the file manages, if somebody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drift: Option<Drift>,
    /// The next slots as they are; empty for a job that does not fire by itself.
    pub(crate) slots_before: Vec<String>,
    /// The next slots as they will be.
    pub(crate) slots_after: Vec<String>,
    /// What is worth knowing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// Why nothing can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Error>,
    /// The change that does it.
    #[serde(skip)]
    pub(crate) change: Option<JobChange>,
    /// The jobs that it waits for: as it will be, or, if it is deleted, as it is.
    #[serde(skip)]
    pub(crate) upstreams: Vec<String>,
}

/// Who changed a managed job by hand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Drift {
    pub(crate) by: String,
    pub(crate) at: String,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Does {
    Create,
    Edit,
    /// The job is as it shall be, and is the file's from now on.
    Adopt,
    Pause,
    Resume,
    Delete,
    /// It cannot be done.
    Refuse,
    /// It is not in the file any more, and stays.
    Leave,
    Nothing,
}

impl Does {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Does::Create => "create",
            Does::Edit => "edit",
            Does::Adopt => "adopt",
            Does::Pause => "pause",
            Does::Resume => "resume",
            Does::Delete => "delete",
            Does::Refuse => "refuse",
            Does::Leave => "leave",
            Does::Nothing => "nothing",
        }
    }
}

impl Plan {
    /// Whether carrying it out would change anything, or would want to.
    pub(crate) fn has_changes(&self) -> bool {
        let is_beside = !self.apps.is_empty() || !self.alerts.is_empty();
        is_beside || self.jobs.iter().any(|step| !matches!(step.does, Does::Nothing | Does::Leave))
    }

    pub(crate) fn count(&self, does: Does) -> usize {
        self.jobs.iter().filter(|step| step.does == does).count()
    }
}

/// Works the plan out. A job that no server would accept is a mistake of the file, returned with its index.
pub(crate) fn plan(file: &Wanted, view: &View, wish: Wish) -> Result<Plan, Vec<(usize, Error)>> {
    let apps = app_steps(file, view);
    let alerts = alerts::steps(&file.alerts, &view.alerts);
    let mut mistakes = Vec::new();
    let mut jobs = Vec::with_capacity(file.jobs.len());
    let edges = edges(file, view);
    let stuck = order::stuck(&edges);
    for (index, job) in file.jobs.iter().enumerate() {
        let upstreams = upstreams(&job.spec);
        match check_upstreams(job, &edges, &stuck, &view.beside).and_then(|()| step(job, file, view, wish)) {
            Ok(step) => jobs.push(Step { upstreams, ..step }),
            Err(error) => mistakes.push((index, error)),
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    if let Some(name) = &view.file {
        let named: BTreeSet<&str> = file.jobs.iter().map(|job| job.spec.name.as_str()).collect();
        let is_named = |name: &str| named.contains(name) || view.beside.jobs.contains(name);
        let gone = view.jobs.values().filter(|job| job.managed_by.as_ref() == Some(name));
        jobs.extend(gone.filter(|job| !is_named(&job.spec.name)).map(|job| gone_step(job, wish)));
    }
    let year = view.now.to_string().chars().take(4).collect();
    Ok(Plan { file: view.file.clone(), alerts, apps, jobs, year })
}

/// What each job will wait for, of those that there are and those that the file has.
fn edges<'v>(file: &'v Wanted, view: &'v View) -> BTreeMap<&'v str, Vec<&'v str>> {
    let there = view.jobs.iter().map(|(name, job)| (name.as_str(), &job.spec));
    let wanted = file.jobs.iter().map(|job| (job.spec.name.as_str(), &job.spec));
    there.chain(wanted).map(|(name, spec)| (name, order::upstreams(spec).collect())).collect()
}

fn check_upstreams(
    job: &wanted::Job,
    edges: &BTreeMap<&str, Vec<&str>>,
    stuck: &BTreeSet<&str>,
    beside: &Beside,
) -> Result<(), Error> {
    let refused = |code: &str, message: String, hint: &str| {
        let field = Some("after".to_owned());
        Err(Error { code: code.to_owned(), message, field, hint: Some(hint.to_owned()) })
    };
    let is_known = |name: &str| edges.contains_key(name) || beside.jobs.contains(name);
    if let Some(unknown) = order::upstreams(&job.spec).find(|upstream| !is_known(upstream)) {
        let hint = "the file has none of this name either";
        return refused("invalid", format!("there is no job `{unknown}`"), hint);
    }
    let name = job.spec.name.as_str();
    match stuck.get(name).and_then(|name| order::cycle(name, edges)) {
        Some(path) => {
            let message = format!("the job would wait for itself: {}", path.join(" -> "));
            refused("cycle", message, "each job waits for the next one; take one of these edges away")
        }
        None => Ok(()),
    }
}

fn app_steps(file: &Wanted, view: &View) -> Vec<AppStep> {
    let step = |app: &wanted::App| {
        let there = view.apps.iter().find(|there| there.name == app.name);
        let changes = app_changes(there, &app.put);
        let does = match there {
            None => Does::Create,
            Some(_) if !changes.is_empty() => Does::Edit,
            Some(_) => return None,
        };
        Some(AppStep { app: app.name.clone(), does, changes, put: app.put.clone() })
    };
    file.apps.iter().filter_map(step).collect()
}

/// The settings in which an app differs from what the file wants; those that it does not name stay.
fn app_changes(there: Option<&rest::App>, put: &rest::AppPut) -> Vec<KeyChange> {
    let mut changes = Vec::new();
    let mut note = |key: &str, before: Option<Value>, after: Option<Value>| {
        if before != after {
            changes.push(KeyChange { key: key.to_owned(), before, after });
        }
    };
    if let Some(wanted) = put.pending_max {
        note("pending_max", there.map(|there| there.pending_max.into()), Some(wanted.into()));
    }
    if let Some(wanted) = &put.rate {
        let before = there.and_then(|there| there.rate.clone());
        let wanted = Some(wanted.clone()).filter(|rate| rate != "none");
        note("rate", before.map(Value::from), wanted.map(Value::from));
    }
    if put.rate.is_some() || put.burst.is_some() {
        note("burst", there.and_then(|there| there.burst).map(Value::from), put.burst.map(Value::from));
    }
    if let Some(wanted) = &put.groups {
        let plain = |groups: &std::collections::BTreeMap<String, rest::AppRate>| {
            serde_json::to_value(groups).ok().filter(|_| !groups.is_empty())
        };
        note("groups", there.and_then(|there| plain(&there.groups)), plain(wanted));
    }
    changes
}

fn gone_step(job: &rest::Job, wish: Wish) -> Step {
    let name = job.spec.name.clone();
    let mut step = Step::nothing(&name, Some(job));
    if wish.prune {
        step.does = Does::Delete;
        step.slots_after = Vec::new();
        step.change =
            Some(JobChange { op: Op::Delete, job: Some(name), spec: None, version: Some(job.version), reason: None });
    } else {
        step.does = Does::Leave;
        step.note = Some("not in the file any more; --prune deletes it".to_owned());
    }
    step
}

impl Step {
    /// One that does nothing.
    pub(crate) fn nothing(name: &str, there: Option<&rest::Job>) -> Step {
        let slots: Vec<String> = there.map(|job| job.next_slots.clone()).unwrap_or_default();
        Step {
            job: name.to_owned(),
            does: Does::Nothing,
            version: there.map(|job| job.version),
            changes: Vec::new(),
            drift: None,
            slots_before: slots.clone(),
            slots_after: slots,
            note: None,
            error: None,
            change: None,
            upstreams: there.map(|job| upstreams(&job.spec)).unwrap_or_default(),
        }
    }
}

fn upstreams(spec: &JobSpec) -> Vec<String> {
    order::upstreams(spec).map(str::to_owned).collect()
}

fn refuse(mut step: Step, code: &str, message: String, hint: &str) -> Step {
    step.does = Does::Refuse;
    step.error = Some(Error { code: code.to_owned(), message, field: None, hint: Some(hint.to_owned()) });
    step
}

/// A job that is not there yet.
fn create_step(job: &wanted::Job, settled: rota_api::Canonical, file: &Wanted, view: &View) -> Result<Step, Error> {
    if let Some(never) = settled.never {
        return Err(never);
    }
    let (name, wanted) = (&job.spec.name, settled.spec);
    let app = wanted.app.as_deref();
    let is_known = app.is_none_or(|app| {
        let is_made = file.apps.iter().any(|made| made.name == app) || view.beside.apps.contains(app);
        is_made || view.apps.iter().any(|known| known.name == app)
    });
    if !is_known {
        let app = app.unwrap_or_default();
        return Err(Error {
            code: "app_unknown".to_owned(),
            message: format!("there is no app `{app}`"),
            field: Some("app".to_owned()),
            hint: Some(format!("make it with the jobs: apps: {{{app}: }}")),
        });
    }
    let mut step = Step::nothing(name, None);
    step.does = Does::Create;
    step.changes = changes(&JobSpec { name: name.clone(), ..JobSpec::default() }, &wanted);
    step.slots_after = if wanted.paused == Some(true) { Vec::new() } else { settled.next_slots };
    let reason = job.reason.clone();
    step.change = Some(JobChange { op: Op::Create, job: None, spec: Some(wanted), version: None, reason });
    Ok(step)
}

fn step(job: &wanted::Job, file: &Wanted, view: &View, wish: Wish) -> Result<Step, Error> {
    let name = &job.spec.name;
    let there = view.jobs.get(name);
    let settled = rota_api::canonical(&job.spec, there.map(|job| job.id), &view.zone, view.now)?;
    let Some(there) = there else { return create_step(job, settled, file, view) };
    let mut wanted = settled.spec;
    // A reader is not shown what the headers hold, and compares only which there are.
    hide_like(&mut wanted, &there.spec);
    let pause = Pausing::of(job, there, view.file.as_deref());
    let plain = |spec: &JobSpec| JobSpec { paused: None, ..spec.clone() };
    let mut step = Step::nothing(name, Some(there));
    let differences = changes(&plain(&there.spec), &plain(&wanted));
    let has_new_schedule = slots_of(&there.spec) != slots_of(&wanted);
    if let Some(never) = settled.never.filter(|_| has_new_schedule) {
        return Err(never);
    }
    let is_changed = !differences.is_empty() || pause != Pausing::Keep;
    if wanted.app != there.spec.app {
        let (is, shall) = (there.spec.app.as_deref().unwrap_or("@url"), wanted.app.as_deref().unwrap_or("@url"));
        let message = format!("the job belongs to `{is}`, and not to `{shall}`");
        let hint = "a job's app never changes; give the new job another name, or delete this one first";
        return Ok(refuse(step, "invalid", message, hint));
    }
    let mine = view.file.as_deref();
    // A job that went from one file of this call into another is not taken from anybody.
    let is_moved = |other: &str| mine.is_some() && view.beside.files.contains(other);
    match there.managed_by.as_deref() {
        Some(other) if Some(other) != mine && !wish.take_over && !is_moved(other) && (is_changed || mine.is_some()) => {
            let message = format!("the job is managed by the file `{other}`");
            return Ok(refuse(step, "managed", message, "change it there, or take it over: --take-over"));
        }
        Some(_) | None => {}
    }
    let is_adopted = mine.is_some() && there.managed_by.as_deref() != mine;
    let edited_by_hand =
        there.managed_by.is_some() && there.managed_by.as_deref() == mine && !is_of_file(&there.by, mine);
    if edited_by_hand && !differences.is_empty() {
        step.drift = Some(Drift { by: there.by.clone(), at: there.at.clone() });
    }
    step.changes = differences;
    let will_fire = match pause {
        Pausing::Pause | Pausing::Tell => false,
        Pausing::Resume => true,
        Pausing::Keep => there.state != "paused",
    };
    let is_finished = there.state == "finished" && !has_new_schedule;
    step.slots_after = if will_fire && !is_finished { settled.next_slots } else { Vec::new() };
    if !has_new_schedule && will_fire && there.state == "enabled" {
        step.slots_after = there.next_slots.clone();
    }
    step.note = note(there, pause, mine);
    let change = |op, spec: Option<JobSpec>, reason| JobChange {
        op,
        job: Some(name.clone()),
        spec,
        version: Some(there.version),
        reason,
    };
    let paused = match pause {
        Pausing::Pause | Pausing::Tell => Some(true),
        Pausing::Resume => Some(false),
        Pausing::Keep => None,
    };
    if pause == Pausing::Tell || pause == Pausing::Pause {
        step.changes.push(pause_change(there, Some(true), job.reason.as_deref()));
    } else if pause == Pausing::Resume {
        step.changes.push(pause_change(there, None, None));
    }
    let has_edits = step.changes.len() > usize::from(pause != Pausing::Keep);
    let reason = job.reason.clone().filter(|_| paused == Some(true));
    if has_edits || is_adopted || pause == Pausing::Tell {
        step.does = if has_edits || pause != Pausing::Keep { Does::Edit } else { Does::Adopt };
        // What is shown as `***` is given as the file has it.
        let spec = JobSpec { paused, ..job.spec.clone() };
        step.change = Some(change(Op::Edit, Some(spec), reason));
    } else if pause == Pausing::Pause {
        step.does = Does::Pause;
        step.change = Some(change(Op::Pause, None, reason));
    } else if pause == Pausing::Resume {
        step.does = Does::Resume;
        step.change = Some(change(Op::Resume, None, None));
    }
    Ok(step)
}

/// Those keys that the slots follow from, and no other.
fn slots_of(spec: &JobSpec) -> JobSpec {
    let JobSpec { cron, every, delay, at, timezone, dst, calendar, active, .. } = spec.clone();
    JobSpec { cron, every, delay, at, timezone, dst, calendar, active, ..JobSpec::default() }
}

fn is_of_file(by: &str, file: Option<&str>) -> bool {
    file.is_some_and(|file| by.strip_prefix("file ") == Some(file))
}

/// What a file does about a pause. One that somebody made by hand stays, unless the file says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pausing {
    Keep,
    Pause,
    /// Another reason for a pause that there is.
    Tell,
    Resume,
}

impl Pausing {
    fn of(job: &wanted::Job, there: &rest::Job, file: Option<&str>) -> Pausing {
        let is_paused = there.state == "paused";
        let told = there.pause.as_ref().and_then(|pause| pause.reason.as_deref());
        match job.spec.paused {
            Some(true) if there.state == "finished" => Pausing::Keep,
            Some(true) if !is_paused => Pausing::Pause,
            Some(true) if job.reason.is_some() && job.reason.as_deref() != told => Pausing::Tell,
            Some(false) if is_paused => Pausing::Resume,
            None if is_paused && there.pause.as_ref().is_some_and(|pause| is_of_file(&pause.by, file)) => {
                Pausing::Resume
            }
            Some(_) | None => Pausing::Keep,
        }
    }
}

fn pause_change(there: &rest::Job, after: Option<bool>, reason: Option<&str>) -> KeyChange {
    let told = there.pause.as_ref().and_then(|pause| pause.reason.clone());
    let value = |is_paused: bool, reason: Option<&str>| match reason {
        Some(reason) if is_paused => Some(Value::from(reason)),
        Some(_) | None => is_paused.then_some(Value::Bool(true)),
    };
    KeyChange {
        key: "paused".to_owned(),
        before: value(there.state == "paused", told.as_deref()),
        after: value(after == Some(true), reason),
    }
}

fn note(there: &rest::Job, pause: Pausing, file: Option<&str>) -> Option<String> {
    if there.state == "finished" {
        return Some("finished: it has no further slot".to_owned());
    }
    let kept = there.pause.as_ref().filter(|held| pause == Pausing::Keep && !is_of_file(&held.by, file))?;
    let reason = kept.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("stays paused, by {} since {}{reason}", kept.by, crate::cli::shown::time(&kept.at)))
}

/// Hides the values that are hidden in what is there.
fn hide_like(wanted: &mut JobSpec, there: &JobSpec) {
    let (Some(wanted), Some(there)) = (&mut wanted.http, &there.http) else { return };
    for (name, value) in &mut wanted.headers {
        if there.headers.get(name).is_some_and(|shown| shown == "***") {
            "***".clone_into(value);
        }
    }
}
