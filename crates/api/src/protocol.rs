//! The native worker protocol, inbound: beat, results, logs, drain, leave. Registration is in [`crate::register`].
//!
//! Beats and results never read the store: which worker belongs to which app is known from its registration.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::id::{AppId, AttemptId, Incarnation, RunId, WorkerId};
use rota_core::limits;
use rota_core::partition::{self, Beat, Input, Outcome, Report};
use rota_core::why::Why;
use rota_port::logs::LogKey;
use rota_port::secrets::Vault;
use rota_wire::worker as wire;

use crate::auth::WorkerOf;
use crate::body::{Args, Json};
use crate::code::Code;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::register::check_labels;
use crate::state::State;

/// Results in one call, and attempts in one beat.
const LIST_MAX: usize = 10_000;

/// The worker that a path names, if it is one of the caller's app.
async fn own(state: &Arc<State>, app: AppId, text: &str) -> Result<WorkerId, Refusal> {
    let id = WorkerId(text.parse().map_err(|_| Refusal::invalid("worker", "a worker's id is a number"))?);
    let known = match state.directory.app_of(id) {
        Some(owner) => Some(owner),
        None => state.read(move |state| state.worker(id)).await?.map(|worker| worker.app),
    };
    match known {
        Some(owner) if owner == app => Ok(id),
        Some(_) => Err(Refusal::new(Code::Forbidden, "this worker belongs to another app")
            .hint("a worker acts with the token that it registered with")),
        None => Err(Refusal::from(Why::WorkerUnknown)),
    }
}

/// An incarnation as the wire has it.
pub(crate) fn incarnation(number: u64) -> Result<Incarnation, Refusal> {
    if number == 0 || number >= 1 << 53 {
        return Err(Refusal::invalid("incarnation", format!("{number} is outside 1 to 2^53 - 1"))
            .hint("any number that no other start of this worker has, for example the milliseconds since 1970"));
    }
    Ok(Incarnation(number))
}

fn check_list(field: &str, len: usize) -> Result<(), Refusal> {
    if len > LIST_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("{len} entries are more than {LIST_MAX}"))
            .field(field)
            .hint("send them in several calls"));
    }
    Ok(())
}

pub(crate) async fn beat(
    WorkerOf(app): WorkerOf,
    Shared(state): Shared<Arc<State>>,
    Path(worker): Path<String>,
    uri: Uri,
    Json(body): Json<wire::Beat>,
) -> Result<Answer<wire::WorkerNow>, Refusal> {
    Args::read(&uri, &[])?;
    let incarnation = incarnation(body.incarnation)?;
    check_list("running", body.running.len())?;
    check_list("finished", body.finished.len())?;
    if let Some(labels) = &body.labels {
        check_labels(labels)?;
    }
    let beat = Box::new(Beat {
        worker: own(&state, app, &worker).await?,
        incarnation,
        no: body.no,
        running: body.running.into_iter().map(AttemptId).collect(),
        finished: body.finished.into_iter().map(AttemptId).collect(),
        capacity: body.capacity,
        labels: body.labels,
    });
    now(state.ask(app, move |reply| Input::Beat { beat, reply }).await?)
}

fn now(answer: partition::Answer) -> Result<Answer<wire::WorkerNow>, Refusal> {
    let (partition::Answer::Beaten(state) | partition::Answer::WorkerSet(state)) = answer else {
        return Err(Refusal::internal(answer));
    };
    Ok(Answer(wire::WorkerNow { state: state.word().to_owned() }))
}

pub(crate) async fn results(
    WorkerOf(app): WorkerOf,
    Shared(state): Shared<Arc<State>>,
    Path(worker): Path<String>,
    uri: Uri,
    Json(body): Json<wire::Results>,
) -> Result<Answer<wire::Acknowledged>, Refusal> {
    Args::read(&uri, &[])?;
    let incarnation = incarnation(body.incarnation)?;
    check_list("results", body.results.len())?;
    let worker = own(&state, app, &worker).await?;
    if body.results.is_empty() {
        return Ok(Answer(wire::Acknowledged { acknowledged: Vec::new() }));
    }
    let vault = state.secrets.of(app);
    let reports = body.results.into_iter().map(|result| report(result, &vault)).collect();
    let answer = state.ask(app, move |reply| Input::Results { worker, incarnation, reports, reply }).await?;
    let partition::Answer::Acknowledged(attempts) = answer else { return Err(Refusal::internal(answer)) };
    Ok(Answer(wire::Acknowledged { acknowledged: attempts.into_iter().map(|attempt| attempt.0).collect() }))
}

fn report(result: wire::AttemptResult, vault: &Vault) -> Report {
    Report {
        attempt: AttemptId(result.attempt),
        run: RunId(result.run),
        shard: result.shard,
        no: result.no,
        outcome: match result.outcome {
            wire::Outcome::Success => Outcome::Success,
            wire::Outcome::Failed => Outcome::Failed(Why::HandlerFailed),
            wire::Outcome::Timeout => Outcome::Timeout,
            wire::Outcome::Killed => Outcome::Killed,
        },
        message: result.message.map(|message| Arc::from(cut(&vault.redact(&message)))),
    }
}

/// At most as many bytes as a row keeps, cut between characters.
fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(limits::MESSAGE_BYTES_MAX)]
}

pub(crate) async fn logs(
    WorkerOf(app): WorkerOf,
    Shared(state): Shared<Arc<State>>,
    Path(worker): Path<String>,
    uri: Uri,
    Json(body): Json<wire::Logs>,
) -> Result<http::StatusCode, Refusal> {
    Args::read(&uri, &[])?;
    incarnation(body.incarnation)?;
    check_list("logs", body.logs.len())?;
    own(&state, app, &worker).await?;
    let (now, vault) = (state.now(), state.secrets.of(app));
    // Before anything is kept, and whosever the run is.
    for (at, entry) in body.logs.iter().enumerate() {
        if entry.no == 0 || entry.no > limits::ATTEMPTS_MAX {
            let message = format!("{} is outside 1 to {}", entry.no, limits::ATTEMPTS_MAX);
            return Err(Refusal::invalid(format!("logs[{at}].no"), message));
        }
    }
    for (at, entry) in body.logs.into_iter().enumerate() {
        let run = RunId(entry.run);
        // Lines for runs of others, or of runs that are swept already, are not kept.
        let Some((_, shards)) = run_of(&state, run).await?.filter(|(owner, _)| *owner == app) else { continue };
        if entry.shard >= shards {
            return Err(Refusal::invalid(format!("logs[{at}].shard"), format!("the run has {shards} shards, from 0")));
        }
        let key = LogKey { run, shard: entry.shard, no: entry.no };
        // A line is a line: what came with line ends inside is several.
        // A secret with several lines is looked for before they are taken apart.
        let clean = entry.lines.iter().map(|line| vault.redact(line));
        let lines: Vec<String> =
            clean.flat_map(|line| line.split('\n').map(str::to_owned).collect::<Vec<_>>()).collect();
        if !lines.is_empty() {
            state.logs.append(key, now, lines);
        }
        if entry.is_last {
            state.logs.close(key);
        }
    }
    Ok(http::StatusCode::NO_CONTENT)
}

/// The app of a run, and how many shards it has.
async fn run_of(state: &Arc<State>, run: RunId) -> Result<Option<(AppId, u32)>, Refusal> {
    if let Some(known) = state.directory.run(run) {
        return Ok(Some(known));
    }
    let Some(found) = state.read(move |state| Ok(state.query.run(run)?)).await? else { return Ok(None) };
    state.directory.put_run(run, found.app, found.shards);
    Ok(Some((found.app, found.shards)))
}

pub(crate) async fn drain(
    WorkerOf(app): WorkerOf,
    Shared(state): Shared<Arc<State>>,
    Path(worker): Path<String>,
    uri: Uri,
    Json(body): Json<wire::Leave>,
) -> Result<Answer<wire::WorkerNow>, Refusal> {
    Args::read(&uri, &[])?;
    let incarnation = incarnation(body.incarnation)?;
    let worker = own(&state, app, &worker).await?;
    let shared = state.clone();
    let command = async move { shared.ask(app, move |reply| Input::Drain { worker, incarnation, reply }).await };
    now(state.carry(command).await?)
}

/// The incarnation may come as `?incarnation=`, since some clients send no body with `DELETE`.
pub(crate) async fn leave(
    WorkerOf(app): WorkerOf,
    Shared(state): Shared<Arc<State>>,
    Path(worker): Path<String>,
    uri: Uri,
    Json(body): Json<serde_json::Value>,
) -> Result<Answer<wire::WorkerNow>, Refusal> {
    let number = match Args::read(&uri, &["incarnation"])?.number("incarnation")? {
        Some(number) => number,
        None => crate::body::parse::<wire::Leave>(&body.to_string())?.incarnation,
    };
    let incarnation = incarnation(number)?;
    let worker = own(&state, app, &worker).await?;
    let shared = state.clone();
    let command = async move { shared.ask(app, move |reply| Input::Deregister { worker, incarnation, reply }).await };
    now(state.carry(command).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_between_characters() {
        let long = "é".repeat(limits::MESSAGE_BYTES_MAX);
        assert_eq!(cut(&long).len(), limits::MESSAGE_BYTES_MAX);
        let odd = format!("x{long}");
        assert_eq!(cut(&odd).len(), limits::MESSAGE_BYTES_MAX - 1);
        assert_eq!(cut("short"), "short");
    }
}
