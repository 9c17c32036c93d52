//! Runs: listed, shown, explained, killed, and their logs.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri};
use rota_core::batch::{Attempt, Origin, Run, RunState};
use rota_core::id::RunId;
use rota_core::partition::{self, Input};
use rota_core::why::Why;
use rota_port::logs::LogKey;
use rota_port::query::RunFilter;
use rota_wire::rest;

use crate::auth::{Admin, Reader};
use crate::backfill;
use crate::body::Args;
use crate::code::Code;
use crate::cursor::{self, List, part};
use crate::feed;
use crate::follow::{self, Places};
use crate::path::Path;
use crate::refusal::Refusal;
use crate::spec;
use crate::state::State;
use crate::story;
use crate::stream;
use crate::view::{self, Names};

/// The part of a log that is sent if nothing is said, and the largest.
const LOG_BYTES: u32 = 64 << 10;
pub(crate) const LOG_BYTES_MAX: u32 = 1 << 20;

/// Attempts that stand in the answer about a run; the others are a list of their own.
const ATTEMPTS_IN_RUN_MAX: u32 = 1_000;

const ORIGINS: [(&str, Origin); 6] = [
    ("schedule", Origin::Schedule),
    ("manual", Origin::Manual),
    ("api", Origin::Api),
    ("rerun", Origin::Rerun),
    ("backfill", Origin::Backfill),
    ("upstream", Origin::Upstream),
];

pub(crate) async fn list(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Run>>, Refusal> {
    let args = Args::read(&uri, &["job", "app", "state", "origin", "backfill", "since", "after", "limit"])?;
    let states: Vec<(&str, RunState)> = RunState::ALL.iter().map(|state| (state.word(), *state)).collect();
    let filter = RunFilter {
        state: spec::word("state", args.text("state"), &states)?,
        origin: spec::word("origin", args.text("origin"), &ORIGINS)?,
        since: args.instant("since", state.now())?,
        before: args.after(List::Runs)?.map(|[id]| RunId(id)),
        limit: args.limit()?,
        ..RunFilter::default()
    };
    Ok(Answer(state.read(move |state| page(state, &args, filter)).await?))
}

fn page(state: &State, args: &Args, mut filter: RunFilter) -> Result<rest::Page<rest::Run>, Refusal> {
    let namespace = args.namespace();
    filter.app = args.text("app").map(|app| view::find_app(state, &namespace, app)).transpose()?.map(|app| app.id);
    filter.job = args.text("job").map(|job| view::find_job(state, &namespace, job)).transpose()?.map(|job| job.id);
    let (runs, next) = match args.text("backfill") {
        Some(backfill) => backfill::runs(state, backfill, &filter)?,
        None => {
            let runs = state.query.runs(&filter)?;
            let is_full = runs.len() >= filter.limit as usize;
            let next = runs.last().filter(|_| is_full).map(|last| last.id);
            (runs, next)
        }
    };
    let next = next.map(|last| cursor::write(List::Runs, &[last.0]));
    let mut names = Names::new(state);
    let mut items = Vec::with_capacity(runs.len());
    for run in &runs {
        if state.app(run.app)?.is_none_or(|app| app.namespace == namespace) {
            items.push(names.listed(run)?);
        }
    }
    Ok(rest::Page { items, next })
}

pub(crate) async fn get(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(run): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::RunDetail>, Refusal> {
    Args::read(&uri, &[])?;
    let detail = state.read(move |state| {
        let run = view::find_run(state, &run)?;
        let attempts = state.query.attempts(run.id)?;
        let mut names = Names::new(state);
        let zone = names.job(run.job, Some(run.version))?.zone;
        let shown = names.run(&run, &attempts)?;
        let waiting = names.waiting(run.id).to_vec();
        let (attempts, attempts_next) = part(List::Attempts, attempts, attempt_key, None, ATTEMPTS_IN_RUN_MAX);
        Ok(rest::RunDetail {
            run: shown,
            param: run.param.as_deref().map(str::to_owned),
            attempts: attempts.iter().map(|attempt| names.attempt(attempt, &zone)).collect::<Result<_, _>>()?,
            attempts_next,
            waiting: waiting.iter().map(|shard| view::waiting(&mut names, shard)).collect::<Result<_, _>>()?,
        })
    });
    Ok(Answer(detail.await?))
}

fn attempt_key(attempt: &Attempt) -> [u64; 2] {
    [u64::from(attempt.shard), u64::from(attempt.no)]
}

pub(crate) async fn attempts(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(run): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Attempt>>, Refusal> {
    let args = Args::read(&uri, &["shard", "after", "limit"])?;
    let (limit, after) = (args.limit()?, args.after(List::Attempts)?);
    let shard: Option<u32> = args.number("shard")?;
    let page = state.read(move |state| {
        let run = view::find_run(state, &run)?;
        let mut attempts = state.query.attempts(run.id)?;
        attempts.retain(|attempt| shard.is_none_or(|shard| shard == attempt.shard));
        let (attempts, next) = part(List::Attempts, attempts, attempt_key, after, limit);
        let mut names = Names::new(state);
        let zone = names.job(run.job, Some(run.version))?.zone;
        let items = attempts.iter().map(|attempt| names.attempt(attempt, &zone)).collect::<Result<_, _>>()?;
        Ok(rest::Page { items, next })
    });
    Ok(Answer(page.await?))
}

pub(crate) async fn why(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(run): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::Story>, Refusal> {
    Args::read(&uri, &[])?;
    let told = state.read(move |state| {
        let run = view::find_run(state, &run)?;
        let attempts = state.query.attempts(run.id)?;
        story::tell(state, &run, &attempts)
    });
    Ok(Answer(told.await?))
}

pub(crate) async fn logs(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(run): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let args = Args::read(&uri, &["shard", "attempt", "from", "bytes", "follow"])?;
    let shard: Option<u32> = args.number("shard")?;
    let attempt: Option<u32> = args.number("attempt")?;
    if args.flag("follow")? {
        return follow_log(state, run, (shard, attempt), &args, &headers).await;
    }
    let shard = shard.unwrap_or(0);
    let from: u64 = args.number("from")?.unwrap_or(0);
    let bytes: u32 = args.number("bytes")?.unwrap_or(LOG_BYTES);
    if bytes == 0 || bytes > LOG_BYTES_MAX {
        return Err(Refusal::invalid("bytes", format!("{bytes} is outside 1 to {LOG_BYTES_MAX}")));
    }
    let window = state.read(move |state| {
        let run = view::find_run(state, &run)?;
        check_shard(&run, shard)?;
        let no = match attempt {
            Some(no) => no,
            None => {
                let attempts = state.query.attempts(run.id)?;
                attempts.iter().filter(|a| a.shard == shard).map(|a| a.no).max().unwrap_or(1)
            }
        };
        let window = state.logs.read(LogKey { run: run.id, shard, no }, from, bytes)?;
        Ok(rest::LogWindow {
            run: run.id.to_string(),
            shard,
            attempt: no,
            from: window.from,
            text: window.text,
            next: window.next,
            len: window.len,
            is_closed: window.is_closed,
        })
    });
    Ok(Answer(window.await?).into_response())
}

fn check_shard(run: &Run, shard: u32) -> Result<(), Refusal> {
    if shard >= run.shards.max(1) {
        return Err(Refusal::invalid("shard", format!("the run has {} shards, counted from 0", run.shards)));
    }
    Ok(())
}

async fn follow_log(
    state: Arc<State>,
    run: String,
    (shard, attempt): (Option<u32>, Option<u32>),
    args: &Args,
    headers: &HeaderMap,
) -> Result<Response, Refusal> {
    if let Some(given) = ["from", "bytes"].into_iter().find(|key| args.text(key).is_some()) {
        return Err(Refusal::invalid(given, "a log that is followed has no window")
            .hint("leave it out; Last-Event-ID says where to go on"));
    }
    let places = Places::read(headers)?;
    let run = state.read(move |state| view::find_run(state, &run)).await?;
    if let Some(shard) = shard {
        check_shard(&run, shard)?;
    }
    let wanted = follow::Wanted { run: run.id, shard, attempt };
    stream::open(&state, |sink| follow::follow(state.clone(), wanted, places, sink))
}

pub(crate) async fn watch(_: Reader, Shared(state): Shared<Arc<State>>, uri: Uri) -> Result<Response, Refusal> {
    let args = Args::read(&uri, &["job", "app", "state"])?;
    let states: Vec<(&str, &str)> = RunState::ALL.iter().map(|state| (state.word(), state.word())).collect();
    let word = spec::word("state", args.text("state"), &states)?;
    let wanted = state.read(move |state| {
        let namespace = args.namespace();
        let app = args.text("app").map(|app| view::find_app(state, &namespace, app)).transpose()?;
        let job = args.text("job").map(|job| view::find_job(state, &namespace, job)).transpose()?;
        Ok(feed::Wanted { app: app.map(|app| app.id), job: job.map(|job| job.id), state: word, namespace })
    });
    let wanted = wanted.await?;
    stream::open(&state, feed::stream(&state, wanted))
}

pub(crate) async fn kill(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(run): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::Killed>, Refusal> {
    let shard: Option<u32> = Args::read(&uri, &["shard"])?.number("shard")?;
    let found = state.read(move |state| view::find_run(state, &run)).await?;
    if found.state.is_terminal() {
        return Err(Refusal::from(Why::RunEnded));
    }
    if let Some(shard) = shard {
        check_shard(&found, shard)?;
    }
    let shared = state.clone();
    let (run, app) = (found.id, found.app);
    let answer = state.carry(async move { shared.ask(app, move |reply| Input::Kill { run, shard, reply }).await });
    // Its row was there a moment ago, so what the machine no longer has open has ended meanwhile.
    let ended =
        |refusal: Refusal| if refusal.code == Code::RunUnknown { Refusal::from(Why::RunEnded) } else { refusal };
    let answer = answer.await.map_err(ended)?;
    if answer != partition::Answer::Killing {
        return Err(Refusal::internal(answer));
    }
    // The state that `GET` shows as well: what has started is asked to stop first, and only then killed.
    let now = state.read(move |state| {
        let run = state.query.run(run)?.unwrap_or(found);
        Ok(Names::new(state).run(&run, &state.query.attempts(run.id)?)?.state)
    });
    Ok(Answer(rest::Killed { run: run.to_string(), id: run.0, shard, state: now.await? }))
}
