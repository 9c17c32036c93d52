//! Many jobs in one call: changed, or asked for by name.
//!
//! The changes of a batch go side by side along the path of a single one, so that their reservations and their rows
//! share transactions. Each is of another job, so their order among themselves does not matter.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use futures_util::future::join_all;
use http::Uri;
use rota_core::id::Version;
use rota_core::job::{JobState, check_name};
use rota_wire::error::Error;
use rota_wire::rest::{self, BATCH_MAX, Op};

use crate::auth::{Admin, Reader};
use crate::body::{Args, Json};
use crate::changes::{Author, Change, Done, Seen, carry_out};
use crate::code::Code;
use crate::held;
use crate::refusal::Refusal;
use crate::state::State;
use crate::tag::Conditions;
use crate::view;

/// The largest batch: a thousand jobs with a few KiB of parameter each.
const BATCH_BYTES_MAX: usize = 16 << 20;

pub(crate) async fn batch(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
    Json(body): Json<rest::Batch, BATCH_BYTES_MAX>,
) -> Result<Answer<rest::BatchDone>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let author = match body.managed_by {
        Some(name) => {
            check_name("managed_by", &name)?;
            Author::of_file(name)
        }
        None => Author::by_hand(),
    };
    check_count("changes", body.changes.len())?;
    let mut seen = BTreeSet::new();
    let changes: Vec<Result<Change, Refusal>> =
        body.changes.into_iter().map(|change| read(change, &namespace, &mut seen)).collect();
    let shared = state.clone();
    let all = async move {
        let outcomes = changes.into_iter().map(|change| {
            let (state, author) = (shared.clone(), author.clone());
            async move { carry_out(state, author, change?).await }
        });
        Ok(join_all(outcomes).await)
    };
    let results = state.carry(all).await?.into_iter().map(shown).collect();
    Ok(Answer(rest::BatchDone { results }))
}

fn check_count(field: &str, count: usize) -> Result<(), Refusal> {
    if count > BATCH_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("{count} are more than {BATCH_MAX} in one call"))
            .field(field)
            .hint("send them in several calls"));
    }
    Ok(())
}

/// The change that a body describes; `seen` are the jobs of the changes before it.
fn read(change: rest::JobChange, namespace: &str, seen: &mut BTreeSet<String>) -> Result<Change, Refusal> {
    let rest::JobChange { op, job, spec, version, reason } = change;
    let absent = |field: &str, hint: &str| Refusal::invalid(field, format!("`{field}` is missing")).hint(hint);
    let surplus = |field: &str, hint: &str| Refusal::invalid(field, "this has no meaning here").hint(hint);
    let named = match (op, &job, &spec) {
        (Op::Create, None, Some(spec)) => spec.name.clone(),
        (Op::Create, Some(_), _) => return Err(surplus("job", "a new job is named in its spec")),
        (Op::Create | Op::Edit, _, None) => return Err(absent("spec", "say what the job shall be")),
        (Op::Edit, job, Some(spec)) => job.clone().unwrap_or_else(|| spec.name.clone()),
        (Op::Pause | Op::Resume | Op::Delete, _, Some(_)) => {
            return Err(surplus("spec", "use `edit` to change what a job is"));
        }
        (Op::Pause | Op::Resume | Op::Delete, None, None) => {
            return Err(absent("job", "name the job, or give its id"));
        }
        (Op::Pause | Op::Resume | Op::Delete, Some(job), None) => job.clone(),
    };
    if let Some(spec) = spec.as_ref().filter(|spec| spec.namespace != namespace) {
        return Err(Refusal::invalid("spec.namespace", format!("the batch is for `{namespace}`"))
            .hint(format!("send it with ?namespace={}", spec.namespace)));
    }
    if op == Op::Create && version.is_some() {
        return Err(surplus("version", "a new job has no version before it"));
    }
    let is_paused = op == Op::Pause || spec.as_ref().is_some_and(|spec| spec.paused == Some(true));
    if reason.is_some() && !is_paused {
        return Err(surplus("reason", "a reason is kept with a pause"));
    }
    if !seen.insert(named.clone()) {
        let shown: String = named.chars().take(100).collect();
        return Err(Refusal::invalid("job", format!("`{shown}` is changed twice in this batch"))
            .hint("an edit can pause and resume too"));
    }
    let guard = Seen { version: version.map(Version), conditions: Conditions::default() };
    let set = |wanted| Change::SetState {
        namespace: namespace.to_owned(),
        job: named.clone(),
        wanted,
        seen: guard.clone(),
        reason: reason.clone(),
    };
    Ok(match (op, spec) {
        (Op::Create, Some(spec)) => Change::Create { spec, reason },
        (Op::Edit, Some(spec)) => Change::Edit { job: named, spec, seen: guard, reason },
        (Op::Pause, _) => set(JobState::Paused),
        (Op::Resume, _) => set(JobState::Enabled),
        (Op::Delete, _) => set(JobState::Deleted),
        (Op::Create | Op::Edit, None) => unreachable!("refused above"),
    })
}

fn shown(outcome: Result<Done, Refusal>) -> rest::Changed {
    match outcome {
        Ok(Done::Saved(saved)) => rest::Changed { saved: Some(saved), ..Default::default() },
        Ok(Done::Now(now, _)) => rest::Changed { now: Some(now), ..Default::default() },
        Err(refusal) => rest::Changed { error: Some(Error::from(refusal)), ..Default::default() },
    }
}

pub(crate) async fn find(
    reader: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
    Json(body): Json<rest::JobsNamed>,
) -> Result<Answer<rest::Page<rest::Job>>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    check_count("names", body.names.len())?;
    let found = state.read(move |state| {
        let held = held::by_job(state);
        let mut items = Vec::new();
        for name in &body.names {
            if let Some(definition) = state.query.job_named(&namespace, name)? {
                items.push(view::job(state, reader, &definition, held.get(&definition.id))?);
            }
        }
        Ok(rest::Page { items, next: None })
    });
    Ok(Answer(found.await?))
}
