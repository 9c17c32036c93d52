//! The jobs that fail most, start latest or run longest, counted over the ledger, the newest hours first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::batch::{Origin, RunState};
use rota_core::id::{AppId, JobId, RunId, id_floor};
use rota_core::time::UnixMs;
use rota_port::history::{COVERED_MAX, Covered};
use rota_wire::rest;

use crate::auth::Reader;
use crate::body::Args;
use crate::refusal::Refusal;
use crate::slot_story::ID_EARLY_MS;
use crate::spec;
use crate::spread::Spread;
use crate::state::State;
use crate::view::{self, Names};

const SINCE_MS: i64 = 24 * 3_600_000;
/// The ledger is read in such pieces, so that what is counted when time runs out is the newest.
const PIECE_MS: i64 = 3_600_000;
/// How long one answer may count.
const COUNTS_FOR_MS: i64 = 20_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Failing,
    Late,
    Slow,
}

const BY: [(&str, By); 3] = [("failing", By::Failing), ("late", By::Late), ("slow", By::Slow)];

/// What a job did.
#[derive(Default)]
struct Tally {
    app: AppId,
    runs: u64,
    failures: u64,
    skipped: u64,
    late: Spread,
    took: Spread,
    last_failure: Option<(UnixMs, RunId)>,
}

pub(crate) async fn get(_: Reader, Shared(state): Shared<Arc<State>>, uri: Uri) -> Result<Answer<rest::Top>, Refusal> {
    let args = Args::read(&uri, &["by", "since", "app", "limit"])?;
    let by = spec::word("by", args.text("by"), &BY)?.unwrap_or(By::Failing);
    let limit = if args.text("limit").is_some() { args.limit()? } else { 20 } as usize;
    let since = args.instant("since", state.now())?.unwrap_or(state.now().plus_ms(-SINCE_MS));
    let top = state.read(move |state| {
        let app = args.text("app").map(|app| view::find_app(state, &args.namespace(), app)).transpose()?;
        top(state, &args.namespace(), by, since, app.map(|app| app.id), limit)
    });
    Ok(Answer(top.await?))
}

fn top(
    state: &State,
    namespace: &str,
    by: By,
    since: UnixMs,
    app: Option<AppId>,
    limit: usize,
) -> Result<rest::Top, Refusal> {
    let (tallies, counted_since, runs) = count(state, since, app)?;
    let mut worst: Vec<(JobId, Tally)> = tallies.into_iter().filter(|(_, tally)| is_listed(by, tally)).collect();
    worst.sort_by_key(|(job, tally)| (Reverse(rank(by, tally)), *job));
    let mut names = Names::new(state);
    let mut items = Vec::new();
    for (job, tally) in worst {
        if items.len() == limit {
            break;
        }
        if state.app(tally.app)?.is_none_or(|app| app.namespace == namespace) {
            items.push(shown(&mut names, job, &tally)?);
        }
    }
    Ok(rest::Top {
        by: BY.iter().find(|(_, known)| *known == by).map_or_else(String::new, |(word, _)| (*word).to_owned()),
        since: counted_since.to_string(),
        is_cut: counted_since > since,
        runs,
        items,
    })
}

/// Counts the ledger from its newest hour back to `since`, or as far as the time allows; from when on, and how many.
fn count(state: &State, since: UnixMs, app: Option<AppId>) -> Result<(BTreeMap<JobId, Tally>, UnixMs, u64), Refusal> {
    let began = state.now();
    let mut tallies: BTreeMap<JobId, Tally> = BTreeMap::new();
    let mut runs = 0;
    let mut end = began.plus_ms(ID_EARLY_MS);
    while end > since {
        let begin = end.plus_ms(-PIECE_MS);
        // A run's id may be a bit older than its decision.
        let first = if begin <= since { id_floor(since.plus_ms(-ID_EARLY_MS)) } else { id_floor(begin) };
        let mut from = RunId(first);
        loop {
            let page = state.history.ledger(from, COVERED_MAX)?;
            let ours = page.iter().take_while(|row| row.run.0 < id_floor(end));
            for row in ours.filter(|row| row.at >= since && app.is_none_or(|app| app == row.app)) {
                runs += 1;
                tallies.entry(row.job).or_default().add(row);
            }
            match page.last() {
                Some(last) if page.len() == COVERED_MAX as usize && last.run.0 < id_floor(end) => {
                    from = RunId(last.run.0 + 1);
                }
                Some(_) | None => break,
            }
        }
        end = begin;
        if state.now().since_ms(began) > COUNTS_FOR_MS && end > since {
            return Ok((tallies, end, runs));
        }
    }
    Ok((tallies, since, runs))
}

impl Tally {
    fn add(&mut self, row: &Covered) {
        self.app = row.app;
        if row.shards == 0 {
            self.skipped += row.slots;
            return;
        }
        if row.origin == Origin::Schedule {
            self.late.add(row.at.since_ms(row.slot));
        }
        let Some(ended) = row.ended_at else { return };
        self.runs += 1;
        self.took.add(ended.since_ms(row.at));
        if matches!(row.state, RunState::Failed | RunState::Timeout | RunState::Lost) {
            self.failures += 1;
            self.last_failure = self.last_failure.max(Some((ended, row.run)));
        }
    }
}

fn is_listed(by: By, tally: &Tally) -> bool {
    match by {
        By::Failing => tally.failures > 0,
        By::Late => tally.late.max_ms() > 0,
        By::Slow => tally.runs > 0,
    }
}

fn rank(by: By, tally: &Tally) -> (i64, i64) {
    match by {
        By::Failing => {
            let rate = tally.failures.saturating_mul(1_000) / tally.runs.max(1);
            (i64::try_from(tally.failures).unwrap_or(i64::MAX), i64::try_from(rate).unwrap_or(i64::MAX))
        }
        By::Late => (tally.late.quantile(990), tally.late.max_ms()),
        By::Slow => (tally.took.quantile(990), tally.took.max_ms()),
    }
}

fn shown(names: &mut Names<'_>, id: JobId, tally: &Tally) -> Result<rest::TopJob, Refusal> {
    let job = names.job(id, None)?;
    let last_failure = match tally.last_failure {
        Some((at, run)) => names.state.query.run(run)?.map(|run| (at, run)),
        None => None,
    };
    let last_failure = match last_failure {
        Some((at, run)) => {
            let listed = names.listed(&run)?;
            Some(rest::LastFailure {
                run: listed.run,
                at: job.zone.format(at),
                state: listed.state,
                why: listed.why,
                message: listed.message,
            })
        }
        None => None,
    };
    Ok(rest::TopJob {
        job: id.0,
        job_name: job.name,
        app: names.app(tally.app)?,
        runs: tally.runs,
        failures: tally.failures,
        failures_per_mille: tally.failures.saturating_mul(1_000) / tally.runs.max(1),
        skipped: tally.skipped,
        late: tally.late.shown(),
        took: tally.took.shown(),
        last_failure,
    })
}
