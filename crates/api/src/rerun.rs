//! Running again what has ended: with its version, slot and parameter, whole or without the shards that succeeded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::{HeaderMap, StatusCode, Uri};
use rota_core::batch::{AttemptState, Run};
use rota_core::id::WorkerId;
use rota_core::job::{Definition, JobState};
use rota_core::partition::{Input, RerunOrder};
use rota_core::why::Why;
use rota_wire::rest;

use crate::auth::Admin;
use crate::body::{Args, Json};
use crate::code::Code;
use crate::history;
use crate::parent;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::state::State;
use crate::trigger::{self, Made};
use crate::view;

/// What is run again.
struct Original {
    run: Run,
    definition: Definition,
    /// Shards that succeeded, if only the others are wanted.
    reused: Vec<u32>,
    /// Whose the shards of a broadcast were, if only some of them are wanted.
    workers: Vec<WorkerId>,
}

pub(crate) async fn rerun(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(run): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    Json(body): Json<rest::RerunAsk>,
) -> Result<(StatusCode, Answer<rest::Rerun>), Refusal> {
    Args::read(&uri, &[])?;
    trigger::check_request_id(body.request_id.as_deref())?;
    let failed_shards = body.failed_shards;
    let original = state.read(move |state| original(state, &run, failed_shards)).await?;
    let Original { run, definition, reused, workers } = original;
    let (job, app) = (definition.id, definition.app);
    let is_new_set = definition.spec.sharding.rules.is_broadcast && workers.is_empty();
    let shown = rest::Rerun {
        run: String::new(),
        id: 0,
        rerun_of: run.id.to_string(),
        job_name: definition.name.clone(),
        version: run.version.0,
        slot: view::zone(&definition.spec.zone).format(run.slot),
        shards: run.shards,
        shards_run: run.shards - u32::try_from(reused.len()).unwrap_or(0),
        is_repeated: false,
    };
    let hash = trigger::hash_of(&[b"rerun", &run.id.0.to_le_bytes(), &[u8::from(failed_shards)]]);
    let (of, slot, param) = (run.id, run.slot, run.param.clone());
    let (shared, parent) = (Arc::clone(&state), parent::read(&headers));
    let make = move |request_id| async move {
        let order = Box::new(RerunOrder { of, definition, slot, param, reused, workers, request_id, parent });
        Made::of(shared.ask(app, move |reply| Input::Rerun { order, reply }).await?)
    };
    let (made, is_repeated) = state.carry(trigger::once(state.clone(), job, body.request_id, hash, make)).await?;
    let mut shown = shown;
    if is_new_set {
        // One for every worker that is eligible now, however many there were.
        let run = made.run;
        let found = state.read(move |state| Ok(state.query.run(run)?)).await?;
        let shards = found.map_or(shown.shards, |run| run.shards);
        (shown.shards, shown.shards_run) = (shards, shards);
    }
    let status = if is_repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Answer(rest::Rerun { run: made.run.to_string(), id: made.run.0, is_repeated, ..shown })))
}

fn original(state: &State, run: &str, failed_shards: bool) -> Result<Original, Refusal> {
    let run = view::find_run(state, run)?;
    if run.shards == 0 {
        let message = format!("{} had no run: it says why its slots were {}", run.id, run.state.word());
        return Err(Refusal::new(Code::NothingToRerun, message).hint("run the job now: rota run JOB"));
    }
    if !run.state.is_terminal() {
        return Err(Refusal::new(Code::RunOpen, format!("{} has not ended", run.id))
            .hint(format!("wait for its end, or kill it first: rota kill {}", run.id)));
    }
    let current = state.query.job(run.job)?.ok_or_else(|| Refusal::from(Why::JobUnknown))?;
    if current.state == JobState::Deleted {
        return Err(Refusal::from(Why::JobDeleted));
    }
    let definition = history::version(state, &current, run.version.0)?;
    let (mut reused, mut workers) = (Vec::new(), Vec::new());
    if failed_shards {
        reused = succeeded(state, &run)?;
        if reused.len() == run.shards as usize {
            return Err(Refusal::new(Code::NothingToRerun, format!("every shard of {} succeeded", run.id))
                .hint(format!("to run it again as a whole: rota rerun {}", run.id)));
        }
    }
    if !reused.is_empty() {
        workers = state.history.shards(run.id)?.map(|shards| shards.workers.clone()).unwrap_or_default();
    }
    Ok(Original { run, definition, reused, workers })
}

/// The shards of a run that succeeded, by themselves or in a run that it repeated.
fn succeeded(state: &State, run: &Run) -> Result<Vec<u32>, Refusal> {
    let mut shards: BTreeSet<u32> = BTreeSet::new();
    let mut states: BTreeMap<u32, bool> = BTreeMap::new();
    for attempt in state.query.attempts(run.id)? {
        let is_good = attempt.state == AttemptState::Success || attempt.why == Some(Why::LateSuccess);
        *states.entry(attempt.shard).or_default() |= is_good;
    }
    shards.extend(states.into_iter().filter(|(_, is_good)| *is_good).map(|(shard, _)| shard));
    if let Some(rerun) = state.history.rerun(run.id)? {
        shards.extend(&rerun.reused);
    }
    if let Some(noted) = state.history.shards(run.id)? {
        shards.retain(|shard| noted.settled(*shard).is_none());
    }
    Ok(shards.into_iter().collect())
}
