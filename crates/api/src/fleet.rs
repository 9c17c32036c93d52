//! Workers, as people see them: what they registered, merged with what is known of them now.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::id::WorkerId;
use rota_core::partition::{Snapshot, Worker as Live};
use rota_core::worker::{Registration, WorkerState};
use rota_wire::rest;

use crate::auth::Reader;
use crate::body::Args;
use crate::cursor::{List, part};
use crate::duration::human;
use crate::refusal::Refusal;
use crate::state::State;
use crate::view::{self, Names};

pub(crate) async fn list(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Worker>>, Refusal> {
    let args = Args::read(&uri, &["app", "after", "limit"])?;
    let (limit, after) = (args.limit()?, args.after(List::Workers)?);
    let page = state.read(move |state| {
        let namespace = args.namespace();
        let app = args.text("app").map(|app| view::find_app(state, &namespace, app)).transpose()?;
        let snapshots = state.intake.snapshots();
        let live = live(&snapshots);
        let names = Names::new(state);
        let mut items = Vec::new();
        for (registration, stored) in state.query.workers(app.map(|app| app.id))? {
            if state.app(registration.app)?.is_none_or(|app| app.namespace == namespace) {
                items.push((registration, stored));
            }
        }
        let key = |(registration, _): &(Registration, WorkerState)| [u64::from(registration.id.0)];
        let (items, next) = part(List::Workers, items, key, after, limit);
        let shown = |(registration, stored)| worker(state, &names, registration, stored, &live);
        Ok(rest::Page { items: items.into_iter().map(shown).collect::<Result<_, _>>()?, next })
    });
    Ok(Answer(page.await?))
}

/// Live workers by id, without the hosts of URL jobs.
fn live(snapshots: &[Arc<Snapshot>]) -> BTreeMap<WorkerId, &Live> {
    let workers = snapshots.iter().flat_map(|snapshot| &snapshot.workers);
    workers.filter(|worker| worker.id != WorkerId(0)).map(|worker| (worker.id, worker)).collect()
}

fn worker(
    state: &State,
    names: &Names<'_>,
    registration: Registration,
    stored: WorkerState,
    live: &BTreeMap<WorkerId, &Live>,
) -> Result<rest::Worker, Refusal> {
    let live = live.get(&registration.id).filter(|live| live.incarnation == registration.incarnation);
    let now = live.map_or(stored, |live| live.state);
    let message = match now {
        WorkerState::Online | WorkerState::Draining => None,
        WorkerState::Unreachable => Some(trouble(state, &registration)),
        WorkerState::Offline => Some(live.map_or_else(
            || "it deregistered, or was silent for too long".to_owned(),
            |live| format!("last heard {} ago", human(i64::try_from(live.silent_ms).unwrap_or(i64::MAX))),
        )),
    };
    Ok(rest::Worker {
        id: registration.id.0,
        app: names.app(registration.app)?,
        incarnation: registration.incarnation.0,
        state: now.word().to_owned(),
        message,
        handlers: registration.handlers,
        labels: live.map_or(registration.labels, |live| live.labels.clone()),
        capacity: live.map_or(registration.capacity, |live| live.capacity),
        load: live.map_or(0, |live| live.load),
        sending: live.map_or(0, |live| live.sending),
        silent_ms: live.map(|live| live.silent_ms),
        registered_at: Some(registration.at.to_string()),
        name: registration.name,
        url: registration.url,
    })
}

fn trouble(state: &State, registration: &Registration) -> String {
    let known = state.directory.worker(registration.id).and_then(|worker| worker.trouble);
    known.unwrap_or_else(|| unreachable(&registration.url, "could not be reached when it registered"))
}

/// What is said of an address that cannot be reached: which, why, and what would help.
pub(crate) fn unreachable(url: &str, reason: &str) -> String {
    format!("{url} {reason}; set ROTA_ADVERTISE_URL to an address of the worker that this server can reach")
}
