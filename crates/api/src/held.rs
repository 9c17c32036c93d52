//! Held slots: due, without a row yet, and why. They are known in memory alone, from what the machines last published.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::id::JobId;
use rota_core::limits::LATE_MAX_MS;
use rota_core::partition::{Held, LISTED_MAX};
use rota_core::time::UnixMs;
use rota_wire::rest;

use crate::auth::Reader;
use crate::body::Args;
use crate::cursor::{List, ordered, part};
use crate::refusal::Refusal;
use crate::state::State;
use crate::view::{self, Names};

pub(crate) async fn list(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Held>>, Refusal> {
    let args = Args::read(&uri, &["job", "app", "after", "limit"])?;
    let (limit, after) = (args.limit()?, args.after(List::Held)?);
    let page = state.read(move |state| {
        let namespace = args.namespace();
        let app = args.text("app").map(|app| view::find_app(state, &namespace, app)).transpose()?.map(|app| app.id);
        let job = args.text("job").map(|job| view::find_job(state, &namespace, job)).transpose()?.map(|job| job.id);
        let mut names = Names::new(state);
        let mut items = Vec::new();
        for slot in longest_first(state) {
            if job.is_some_and(|job| job != slot.job) {
                continue;
            }
            let Some(owner) = names.job(slot.job, None)?.app else { continue };
            let is_here = state.app(owner)?.is_none_or(|app| app.namespace == namespace);
            if is_here && app.is_none_or(|app| app == owner) {
                items.push(slot);
            }
        }
        let (items, next) = part(List::Held, items, key, after, limit);
        let items = items.iter().map(|slot| shown(&mut names, slot)).collect::<Result<_, _>>()?;
        Ok(rest::Page { items, next })
    });
    Ok(Answer(page.await?))
}

/// Longest first. A job waits with one slot at a time, and since when does not change while it does.
fn key(held: &Held) -> [u64; 2] {
    [ordered(held.since.0), u64::from(held.job.0)]
}

/// The held slots that are known one by one, at most [`LISTED_MAX`].
pub(crate) fn longest_first(state: &State) -> Vec<Held> {
    let mut held: Vec<Held> = by_job(state).into_values().collect();
    held.sort_by_key(|held| (held.since, held.job));
    held.truncate(LISTED_MAX);
    held
}

/// The slot that waits, by job: the timeline of a job stands still at it.
pub(crate) fn by_job(state: &State) -> BTreeMap<JobId, Held> {
    state.intake.snapshots().iter().flat_map(|snapshot| &snapshot.held).map(|held| (held.job, *held)).collect()
}

/// A held slot as answers show it.
pub(crate) fn shown(names: &mut Names<'_>, held: &Held) -> Result<rest::Held, Refusal> {
    let job = names.job(held.job, None)?;
    Ok(rest::Held {
        job: held.job.0,
        app: job.app.map(|app| names.app(app)).transpose()?.unwrap_or_default(),
        slot: job.zone.format(held.slot),
        is_overdue: is_overdue(held, names.state.now()),
        why: held.why.word().to_owned(),
        text: held.why.text().to_owned(),
        since: job.zone.format(held.since),
        job_name: job.name,
    })
}

/// Whether a slot waits for longer than its lateness could be overlooked, and not because its job wants it so.
pub(crate) fn is_overdue(held: &Held, now: UnixMs) -> bool {
    !held.why.is_time() && now.since_ms(held.slot) > LATE_MAX_MS
}
