//! Backfills: previewed, asked for, listed, shown, cancelled.
//!
//! The slots of a range are counted here, off the machine's thread. The machine takes the count for the version that was
//! looked at, and refuses it for another.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::{StatusCode, Uri};
use rota_core::backfill::{self, Backfill, End, Plan};
use rota_core::id::{BackfillId, JobId, RunId};
use rota_core::job::{Definition, JobState, Target};
use rota_core::misfire::Pace;
use rota_core::partition::{self, BackfillOrder, Backfilling, Input};
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::WorkerState;
use rota_cron::Zone;
use rota_port::history::BackfillFilter;
use rota_port::query::RunFilter;
use rota_wire::rest;

use crate::auth::{Admin, Reader};
use crate::body::{Args, Json};
use crate::changes::BY;
use crate::code::Code;
use crate::cursor::{self, List};
use crate::freeze;
use crate::misfire;
use crate::moment;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::state::State;
use crate::trigger::{self, Made};
use crate::view::{self, Names};

/// What was asked for, read and looked at.
struct Asked {
    definition: Definition,
    zone: Zone,
    from: UnixMs,
    to: UnixMs,
    pace: Pace,
    plan: Plan,
}

pub(crate) async fn preview(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
    Json(body): Json<rest::BackfillAsk>,
) -> Result<Answer<rest::BackfillPlan>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let plan = state.read(move |state| {
        let asked = read(state, &namespace, &job, &body)?;
        let shown = |slots: &[UnixMs]| slots.iter().map(|slot| asked.zone.format(*slot)).collect();
        Ok(rest::BackfillPlan {
            job: asked.definition.id.0,
            job_name: asked.definition.name.clone(),
            version: asked.definition.version.0,
            from: asked.zone.format(asked.from),
            to: asked.zone.format(asked.to),
            total: asked.plan.total,
            first: shown(&asked.plan.first),
            last: shown(&asked.plan.last),
            pace: misfire::print_pace(asked.pace),
            parallel: body.parallel,
            takes_ms: asked.plan.takes_ms,
            notes: notes(state, &asked.definition)?,
        })
    });
    Ok(Answer(plan.await?))
}

pub(crate) async fn add(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
    Json(body): Json<rest::BackfillAsk>,
) -> Result<(StatusCode, Answer<rest::Backfill>), Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    trigger::check_request_id(body.request_id.as_deref())?;
    let reason = body.reason.as_deref().map(freeze::check_reason).transpose()?;
    let written = serde_json::to_vec(&rest::BackfillAsk { request_id: None, ..body.clone() });
    let hash = trigger::hash_of(&[b"backfill", &written.map_err(Refusal::internal)?]);
    let (request_id, parallel) = (body.request_id.clone(), body.parallel);
    let asked = state.read(move |state| read(state, &namespace, &job, &body)).await?;
    let Asked { definition, from, to, pace, plan, .. } = asked;
    let (job, version, app, total) = (definition.id, definition.version, definition.app, plan.total);
    let shared = Arc::clone(&state);
    let make = move |request_id| async move {
        let (by, reason) = (Arc::from(BY), reason.filter(|reason| !reason.is_empty()));
        let order = BackfillOrder { job, version, from, to, total, pace, parallel, by, reason, request_id };
        let answer = shared.ask(app, move |reply| Input::Backfill { order: Box::new(order), reply }).await?;
        let partition::Answer::Backfilling(id) = answer else { return Err(Refusal::internal(answer)) };
        Ok(Made { run: RunId(id.0), entry: "started", into: None })
    };
    let (made, is_repeated) = state.carry(trigger::once(state.clone(), job, request_id, hash, make)).await?;
    let id = BackfillId(made.run.0);
    let shown = state.read(move |state| one(state, id)).await?;
    let status = if is_repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Answer(rest::Backfill { is_repeated, ..shown })))
}

pub(crate) async fn list(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Backfill>>, Refusal> {
    let args = Args::read(&uri, &["job", "open", "after", "limit"])?;
    let (limit, is_open) = (args.limit()?, args.flag("open")?);
    let before = args.after(List::Backfills)?.map(|[id]| BackfillId(id));
    let page = state.read(move |state| {
        let namespace = args.namespace();
        let job = args.text("job").map(|job| view::find_job(state, &namespace, job)).transpose()?;
        let filter = BackfillFilter { job: job.map(|job| job.id), is_open, before, limit };
        let found = state.history.backfills(&filter)?;
        let is_full = found.len() >= limit as usize;
        let next = found.last().filter(|_| is_full).map(|last| cursor::write(List::Backfills, &[last.id.0]));
        let (mut names, live) = (Names::new(state), live(state));
        let mut items = Vec::with_capacity(found.len());
        for backfill in &found {
            if is_of(state, &mut names, backfill.job, &namespace)? {
                items.push(shown(&mut names, &live, backfill)?);
            }
        }
        Ok(rest::Page { items, next })
    });
    Ok(Answer(page.await?))
}

pub(crate) async fn get(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(backfill): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::Backfill>, Refusal> {
    Args::read(&uri, &[])?;
    Ok(Answer(state.read(move |state| one(state, find(state, &backfill)?.id)).await?))
}

pub(crate) async fn cancel(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(backfill): Path<String>,
    uri: Uri,
    Json(body): Json<rest::BackfillCancel>,
) -> Result<Answer<rest::Backfill>, Refusal> {
    Args::read(&uri, &[])?;
    let kills = body.kill;
    let found = state.read(move |state| {
        let found = find(state, &backfill)?;
        if !found.is_open() {
            return Err(ended(&found));
        }
        let job = state.query.job(found.job)?.ok_or_else(|| Refusal::from(Why::JobUnknown))?;
        Ok((found, job.app))
    });
    let (found, app) = found.await?;
    let (shared, id) = (Arc::clone(&state), found.id);
    let make = move |reply| Input::CancelBackfill { backfill: id, kills, by: Arc::from(BY), reply };
    let answer = state.carry(async move { shared.ask(app, make).await }).await;
    // Its row was there a moment ago, so what the machine no longer has has ended meanwhile.
    let over = |refusal: Refusal| if refusal.code == Code::BackfillUnknown { ended(&found) } else { refusal };
    let answer = answer.map_err(over)?;
    if !matches!(answer, partition::Answer::BackfillCancelled { .. }) {
        return Err(Refusal::internal(answer));
    }
    Ok(Answer(state.read(move |state| one(state, id)).await?))
}

/// Runs of a backfill, newest first.
pub(crate) fn runs(
    state: &State,
    backfill: &str,
    filter: &RunFilter,
) -> Result<(Vec<rota_core::batch::Run>, Option<RunId>), Refusal> {
    Ok(state.history.backfill_runs(find(state, backfill)?.id, filter)?)
}

/// One line of a run's story: which backfill it belongs to.
pub(crate) fn line(state: &State, run: RunId, zone: &Zone) -> Result<Option<String>, Refusal> {
    let Some(id) = state.history.backfill_of(run)? else { return Ok(None) };
    let Some(found) = state.history.backfill(id)? else { return Ok(Some(format!("{id}, which is forgotten"))) };
    let reason = found.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let (from, to) = (view::human(zone, found.from), view::human(zone, found.to));
    Ok(Some(format!("{id} of {from} to {to}, slot by slot, for {}{reason}", found.by)))
}

fn read(state: &State, namespace: &str, job: &str, body: &rest::BackfillAsk) -> Result<Asked, Refusal> {
    let definition = view::find_living_job(state, namespace, job)?;
    let compiled = definition.compile().map_err(|_| Refusal::from(Why::Invalid))?;
    let (zone, now) = (compiled.body.zone.clone(), state.now());
    let instant = |field: &str, text: &str| {
        // A day means its begin.
        let is_day = text.trim().len() == 10 && !text.contains(':');
        let text = if is_day { format!("{} 00:00", text.trim()) } else { text.to_owned() };
        moment::parse(field, &text, &zone, now).map(|moment| moment.at)
    };
    let from = instant("from", &body.from)?;
    let to = body.to.as_deref().map_or(Ok(now), |to| instant("to", to))?;
    let pace = body.pace.as_deref().map_or(Ok(Pace::DEFAULT), |pace| misfire::read_pace("pace", pace))?;
    let plan = backfill::plan(compiled.schedule.as_ref(), (from, to), pace, body.parallel, now)?;
    Ok(Asked { definition, zone, from, to, pace, plan })
}

/// What else a backfill of a job would wait for now, and what it does not wait for.
fn notes(state: &State, definition: &Definition) -> Result<Vec<String>, Refusal> {
    let (spec, app) = (&definition.spec, definition.app);
    let snapshots = state.intake.snapshots();
    let name = state.app(app)?.map_or_else(|| format!("app {app}"), |app| app.name);
    let mut notes = Vec::new();
    if !spec.overlap.is_free() {
        let places = spec.overlap.places();
        let at_once = if places == 1 { "one run at a time".to_owned() } else { format!("{places} runs at once") };
        notes.push(format!("the job's overlap policy lets {at_once} begin: the backfill waits for its places"));
    }
    if definition.state == JobState::Paused {
        notes.push("the job is paused, which does not concern a backfill".to_owned());
    }
    if !spec.after.is_empty() {
        notes.push("it does not wait for the job's upstream jobs".to_owned());
    }
    if snapshots.iter().flat_map(|snapshot| &snapshot.frozen).any(|freeze| freeze.is_for(app)) {
        notes.push(format!("{name} is frozen: nothing begins before the thaw"));
    }
    let counts = snapshots.iter().flat_map(|snapshot| &snapshot.held_counts);
    let held: u64 = counts.filter(|(of, why, _)| *of == app && !why.is_time()).map(|(_, _, count)| count).sum();
    if held > 0 {
        notes.push(format!("{held} slots of {name} are held, and come first"));
    }
    if let Target::Handler { name: handler, .. } = &spec.target {
        let mut workers = snapshots.iter().flat_map(|snapshot| &snapshot.workers);
        let is_able = workers.any(|worker| {
            worker.app == app && worker.state == WorkerState::Online && worker.handlers.binary_search(handler).is_ok()
        });
        if !is_able {
            notes.push(format!("no worker of {name} offers `{handler}` now: it waits for one"));
        }
    }
    let filter = BackfillFilter { job: Some(definition.id), is_open: true, limit: 100, ..BackfillFilter::default() };
    let open = state.history.backfills(&filter)?.len();
    if open > 0 {
        notes.push(format!("{open} of the job's backfills run already"));
    }
    Ok(notes)
}

/// What machines know of backfills that have not ended.
fn live(state: &State) -> BTreeMap<BackfillId, Backfilling> {
    let snapshots = state.intake.snapshots();
    let all = snapshots.iter().flat_map(|snapshot| &snapshot.backfills);
    all.map(|shown| (shown.id, *shown)).collect()
}

fn is_of(state: &State, names: &mut Names<'_>, job: JobId, namespace: &str) -> Result<bool, Refusal> {
    let Some(app) = names.job(job, None)?.app else { return Ok(true) };
    Ok(state.app(app)?.is_none_or(|app| app.namespace == namespace))
}

/// The backfill that a path names.
fn find(state: &State, text: &str) -> Result<Backfill, Refusal> {
    let shown: String = text.chars().take(40).collect();
    let id = BackfillId::parse(text).ok_or_else(|| {
        Refusal::invalid("backfill", format!("`{shown}` is no backfill")).hint("backfills print as b and base 32")
    })?;
    state.history.backfill(id)?.ok_or_else(|| {
        Refusal::new(Code::BackfillUnknown, format!("there is no backfill `{shown}`"))
            .hint("rota backfill list shows them; old ones are dropped with their runs")
    })
}

fn ended(backfill: &Backfill) -> Refusal {
    Refusal::new(Code::BackfillEnded, format!("{} makes no more runs", backfill.id))
        .hint(format!("its runs: rota runs --backfill {0}; to kill one: rota kill RUN", backfill.id))
}

fn one(state: &State, id: BackfillId) -> Result<rest::Backfill, Refusal> {
    let found = state.history.backfill(id)?.ok_or_else(|| Refusal::from(Why::BackfillUnknown))?;
    shown(&mut Names::new(state), &live(state), &found)
}

fn shown(
    names: &mut Names<'_>,
    live: &BTreeMap<BackfillId, Backfilling>,
    backfill: &Backfill,
) -> Result<rest::Backfill, Refusal> {
    let job = names.job(backfill.job, Some(backfill.version))?;
    let zone = &job.zone;
    let live = live.get(&backfill.id).filter(|_| backfill.is_open());
    let waits = live.and_then(|live| live.waits);
    let (ended_by, why) = match &backfill.end {
        Some(End::Cancelled { by, why, .. }) => (Some(by.to_string()), Some(why.word().to_owned())),
        Some(End::Done { .. }) | None => (None, None),
    };
    let left = backfill.total.saturating_sub(backfill.made);
    Ok(rest::Backfill {
        backfill: backfill.id.to_string(),
        id: backfill.id.0,
        job: backfill.job.0,
        app: job.app.map_or_else(|| Ok(String::new()), |app| names.app(app))?,
        version: backfill.version.0,
        from: zone.format(backfill.from),
        to: zone.format(backfill.to),
        state: backfill.state().to_owned(),
        why,
        made: backfill.made,
        total: backfill.total,
        next: backfill.next.map(|next| zone.format(next)),
        pace: misfire::print_pace(backfill.pace),
        parallel: backfill.parallel,
        open: live.map(|live| live.open),
        waits: waits.map(|why| why.word().to_owned()),
        waits_text: waits.map(|why| why.text().to_owned()),
        left_ms: backfill.is_open().then(|| backfill::takes_ms(left, backfill.pace)),
        at: zone.format(backfill.at),
        by: backfill.by.to_string(),
        reason: backfill.reason.as_deref().map(str::to_owned),
        ended_at: backfill.end.as_ref().map(|end| zone.format(end.at())),
        ended_by,
        is_repeated: false,
        job_name: job.name,
    })
}
