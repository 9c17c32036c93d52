//! The server itself: what it is, what it does right now, whether it lives and takes work.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri};
use rota_core::id::WorkerId;
use rota_core::partition::{LISTED_MAX, Snapshot};
use rota_core::why::Why;
use rota_core::worker::WorkerState;
use rota_wire::rest;

use crate::auth::{Admin, Reader};
use crate::body::Args;
use crate::freeze;
use crate::held;
use crate::refusal::Refusal;
use crate::state::State;
use crate::view::Names;

/// The machines' thread counts as stuck when it has taken no step for this long although input waited.
pub(crate) const STALLED_MAX_MS: u64 = 10_000;
/// Upcoming slots that are shown.
const NEXT_MAX: usize = 20;

/// Whether `/livez` answers well after the machines' thread has taken no step for this long although input waited.
#[must_use]
pub fn is_live(stalled_ms: u64) -> bool {
    stalled_ms <= STALLED_MAX_MS
}

/// `GET /livez`: whether the process should be restarted.
pub(crate) async fn livez(Shared(state): Shared<Arc<State>>) -> Response {
    let stalled_ms = state.intake.health().stalled_ms;
    if !is_live(stalled_ms) {
        let text = format!("stalled: no step for {stalled_ms} ms although input waits\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    }
    (StatusCode::OK, "live\n").into_response()
}

/// `GET /readyz`: whether it takes work.
pub(crate) async fn readyz(Shared(state): Shared<Arc<State>>) -> Response {
    match not_ready(&state, &state.intake.snapshots()) {
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
        None => (StatusCode::OK, "ready\n").into_response(),
    }
}

fn suspended(snapshots: &[Arc<Snapshot>]) -> Option<Why> {
    snapshots.iter().find_map(|snapshot| snapshot.suspended)
}

fn not_ready(state: &State, snapshots: &[Arc<Snapshot>]) -> Option<String> {
    let health = state.intake.health();
    if let Some(store) = health.store {
        return Some(format!("the store is not available: {store}"));
    }
    suspended(snapshots).map(|why| format!("{why}: {}", why.text()))
}

pub(crate) async fn get(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Server>, Refusal> {
    Args::read(&uri, &[])?;
    Ok(Answer(state.read(server).await?))
}

pub(crate) async fn confirm_clock(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Server>, Refusal> {
    Args::read(&uri, &[])?;
    state.intake.confirm_clock();
    Ok(Answer(state.read(server).await?))
}

fn server(state: &State) -> Result<rest::Server, Refusal> {
    let snapshots = state.intake.snapshots();
    let not_ready = not_ready(state, &snapshots);
    let sum = |of: fn(&Snapshot) -> u64| snapshots.iter().map(|snapshot| of(snapshot)).sum();
    let online = snapshots.iter().flat_map(|snapshot| &snapshot.workers);
    let online = online.filter(|worker| worker.id != WorkerId(0) && worker.state == WorkerState::Online).count();
    Ok(rest::Server {
        version: state.settings.version.to_owned(),
        tzdb: rota_cron::tzdb_version().to_owned(),
        store: state.query.version()?,
        partitions: u32::from(state.settings.partitions),
        pending_max: state.settings.pending_max,
        rate: state.settings.rate.map(|limit| limit.rate.to_string()),
        burst: state.settings.rate.map(|limit| limit.burst()),
        tokens: state.intake.health().tokens,
        now: state.now().to_string(),
        timezone: state.settings.timezone.clone(),
        is_dev: state.settings.is_dev,
        is_ready: not_ready.is_none(),
        not_ready,
        frozen: freeze::published(state)?,
        suspended: suspended(&snapshots).map(|why| why.word().to_owned()),
        jobs_enabled: sum(|snapshot| snapshot.jobs[0]),
        jobs_paused: sum(|snapshot| snapshot.jobs[1]),
        jobs_finished: sum(|snapshot| snapshot.jobs[2]),
        runs_open: sum(|snapshot| snapshot.runs_open),
        attempts_open: sum(|snapshot| snapshot.attempts_open),
        in_doubt: sum(|snapshot| snapshot.in_doubt),
        held: sum(|snapshot| snapshot.held_counts.iter().map(|(_, _, count)| count).sum()),
        workers_online: online as u64,
    })
}

pub(crate) async fn live(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Live>, Refusal> {
    Args::read(&uri, &[])?;
    Ok(Answer(state.read(collect).await?))
}

fn collect(state: &State) -> Result<rest::Live, Refusal> {
    let snapshots = state.intake.snapshots();
    let mut names = Names::new(state);

    let mut open: Vec<_> = snapshots.iter().flat_map(|snapshot| &snapshot.attempts).collect();
    open.sort_by_key(|open| (open.at, open.attempt));
    open.truncate(LISTED_MAX);
    let mut attempts = Vec::with_capacity(open.len());
    for open in open {
        let job = names.job(open.job, None)?;
        attempts.push(rest::OpenAttempt {
            run: open.run.to_string(),
            job: open.job.0,
            shard: open.shard,
            no: open.no,
            worker_name: names.worker(open.worker)?,
            state: open.state.word().to_owned(),
            at: job.zone.format(open.at),
            job_name: job.name,
        });
    }

    let mut soonest: Vec<_> = snapshots.iter().flat_map(|snapshot| snapshot.next.iter().copied()).collect();
    soonest.sort_by_key(|(job, slot)| (*slot, *job));
    soonest.truncate(NEXT_MAX);
    let mut next = Vec::with_capacity(soonest.len());
    for (id, slot) in soonest {
        let job = names.job(id, None)?;
        next.push(rest::Next { job: id.0, slot: job.zone.format(slot), job_name: job.name });
    }

    let held = held::longest_first(state).iter().map(|slot| held::shown(&mut names, slot)).collect::<Result<_, _>>()?;
    let broken = snapshots.iter().flat_map(|snapshot| &snapshot.broken);
    Ok(rest::Live {
        at: snapshots.iter().map(|snapshot| snapshot.at).min().unwrap_or_else(|| state.now()).to_string(),
        attempts,
        attempts_open: snapshots.iter().map(|snapshot| snapshot.attempts_open).sum(),
        next,
        held,
        broken: broken.map(|(job, message)| rest::Broken { job: job.0, message: message.clone() }).collect(),
    })
}
