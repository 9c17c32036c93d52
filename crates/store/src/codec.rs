//! Rows as columns.
//!
//! An update that makes a row longer splits its page, which was filled to the brim when it was
//! appended. So what every run gets later has its width from the start: an instant that is not there
//! yet is the bitwise complement of one that is (negative, and as wide), and states are kept with an
//! offset that takes the one byte that all of them take.

use std::sync::Arc;

use rota_core::batch::{Attempt, AttemptState, Exception, Origin, Run, RunState};
use rota_core::id::{AppId, AttemptId, Incarnation, JobId, RunId, Version, WorkerId};
use rota_core::job::{Definition, JobState, Pause, Spec, Target};
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::{Protocol, Registration, Secret, WorkerState};
use rota_port::history::Covered;
use rota_port::store::{Error, StoredSecret};
use rusqlite::types::Type;
use rusqlite::{Row, ToSql};

use crate::key::Key;

/// The columns of `run_n`, in the order of [`run_params`] and [`run`].
pub(crate) const RUN_COLUMNS: &str = "id, app, job, version, origin, slot, slot_last, slots, state, why, shards, at, \
     ended_at, param, a_worker, a_incarnation, a_state, a_why, a_at, a_ended_at, a_released_at, a_message";

/// The columns of `run_n` that audits and counts need, in the order of [`covered`].
pub(crate) const COVERED_COLUMNS: &str =
    "id, app, job, version, slot, slot_last, slots, state, why, at, ended_at, origin, shards";

/// The columns of `attempt_n`, in the order of [`attempt`].
pub(crate) const ATTEMPT_COLUMNS: &str =
    "run, shard, no, id, worker, incarnation, state, why, at, ended_at, released_at, message";

/// The columns of a definition, in the order of [`definition`].
pub(crate) const DEFINITION_COLUMNS: &str = "d.key, d.app, d.name, d.spec, d.state, d.at, d.by, d.headers, \
     d.managed_by, d.pause_by, d.pause_at, d.pause_reason";

/// The columns of a worker, in the order of [`worker`].
pub(crate) const WORKER_COLUMNS: &str =
    "id, app, name, incarnation, url, protocol, handlers, labels, capacity, secret, at, state, list_max";

const STATE_OFFSET: u8 = 10;

/// A state's number, one byte wide.
pub(crate) fn run_state(state: RunState) -> u8 {
    state.code() + STATE_OFFSET
}

/// An attempt's state's number, one byte wide.
pub(crate) fn attempt_state(state: AttemptState) -> u8 {
    state.code() + STATE_OFFSET
}

/// An instant that may not be there yet, as wide as `like`.
pub(crate) fn instant(at: Option<UnixMs>, like: UnixMs) -> i64 {
    at.map_or((!like.0).min(-1), |at| at.0.max(0))
}

/// An instant that an update brings, if it brings one.
pub(crate) fn set_instant(at: Option<UnixMs>) -> Option<i64> {
    at.map(|at| at.0.max(0))
}

/// A reason's word.
pub(crate) fn why(why: Option<Why>) -> Option<&'static str> {
    why.map(Why::word)
}

/// The key of a job's version: versions of a job lie together.
pub(crate) fn definition_key(job: JobId, version: Version) -> i64 {
    i64::from(job.0) << 32 | i64::from(version.0)
}

pub(crate) fn job_state(state: JobState) -> u8 {
    match state {
        JobState::Enabled => 0,
        JobState::Paused => 1,
        JobState::Finished => 2,
        JobState::Deleted => 3,
    }
}

pub(crate) fn worker_state(state: WorkerState) -> u8 {
    match state {
        WorkerState::Online => 0,
        WorkerState::Draining => 1,
        WorkerState::Unreachable => 2,
        WorkerState::Offline => 3,
    }
}

/// Kind, at and until.
pub(crate) fn exception(exception: Exception) -> (u8, i64, Option<i64>) {
    match exception {
        Exception::Covered(at) => (0, at.0, None),
        Exception::Armed(at) => (1, at.0, None),
        Exception::Judged { covered, until } => (2, covered.0, Some(until.0)),
    }
}

/// Calls `then` with the columns of a run and, if it is written with it, of its first attempt.
pub(crate) fn run_params<T>(run: &Run, first: Option<&Attempt>, then: impl FnOnce(&[&dyn ToSql]) -> T) -> T {
    let range_end = (run.slot_last != run.slot).then_some(run.slot_last.0);
    then(&[
        &run.id.0.cast_signed(),
        &run.app.0,
        &run.job.0,
        &run.version.0,
        &run.origin.code(),
        &run.slot.0,
        &range_end,
        &run.slots.cast_signed(),
        &run_state(run.state),
        &why(run.why),
        &run.shards,
        &run.at.0,
        &instant(run.ended_at, run.at),
        &run.param.as_deref(),
        &first.map(|attempt| attempt.worker.0),
        &first.map(|attempt| attempt.incarnation.0.cast_signed()),
        &first.map(|attempt| attempt_state(attempt.state)),
        &first.and_then(|attempt| why(attempt.why)),
        &first.filter(|attempt| attempt.at != run.at).map(|attempt| attempt.at.0),
        &first.map(|attempt| instant(attempt.ended_at, attempt.at)),
        &first.map(|attempt| instant(attempt.released_at, attempt.at)),
        &first.and_then(|attempt| attempt.message.as_deref()),
    ])
}

/// A value that the schema does not rule out and that cannot be.
fn odd(row: &Row<'_>, column: usize, kind: Type) -> rusqlite::Error {
    let name = row.as_ref().column_name(column).unwrap_or("?").to_owned();
    rusqlite::Error::FromSqlConversionFailure(column, kind, format!("`{name}` has a value that cannot be").into())
}

fn read<T>(row: &Row<'_>, column: usize, known: impl FnOnce(u8) -> Option<T>) -> rusqlite::Result<T> {
    known(row.get(column)?).ok_or_else(|| odd(row, column, Type::Integer))
}

fn read_word<T>(row: &Row<'_>, column: usize, known: impl FnOnce(&str) -> Option<T>) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)?.as_str_or_null()? {
        None => Ok(None),
        Some(word) => known(word).map(Some).ok_or_else(|| odd(row, column, Type::Text)),
    }
}

fn read_u64(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(i64::cast_unsigned)
}

fn read_ms(row: &Row<'_>, column: usize) -> rusqlite::Result<UnixMs> {
    row.get(column).map(UnixMs)
}

fn read_instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<UnixMs>> {
    row.get(column).map(|at: i64| (at >= 0).then_some(UnixMs(at)))
}

fn read_text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Arc<str>>> {
    row.get(column)
}

fn read_run_state(row: &Row<'_>, column: usize) -> rusqlite::Result<RunState> {
    read(row, column, |code| RunState::from_code(code.checked_sub(STATE_OFFSET)?))
}

fn read_attempt_state(row: &Row<'_>, column: usize) -> rusqlite::Result<AttemptState> {
    read(row, column, |code| AttemptState::from_code(code.checked_sub(STATE_OFFSET)?))
}

/// A row of [`RUN_COLUMNS`].
pub(crate) fn run(row: &Row<'_>) -> rusqlite::Result<Run> {
    let slot = read_ms(row, 5)?;
    Ok(Run {
        id: RunId(read_u64(row, 0)?),
        app: AppId(row.get(1)?),
        job: JobId(row.get(2)?),
        version: Version(row.get(3)?),
        origin: read(row, 4, Origin::from_code)?,
        slot,
        slot_last: row.get::<_, Option<i64>>(6)?.map_or(slot, UnixMs),
        slots: read_u64(row, 7)?,
        state: read_run_state(row, 8)?,
        why: read_word(row, 9, Why::parse)?,
        shards: row.get(10)?,
        at: read_ms(row, 11)?,
        ended_at: read_instant(row, 12)?,
        param: read_text(row, 13)?,
    })
}

/// A row of [`COVERED_COLUMNS`].
pub(crate) fn covered(row: &Row<'_>) -> rusqlite::Result<Covered> {
    let slot = read_ms(row, 4)?;
    Ok(Covered {
        run: RunId(read_u64(row, 0)?),
        app: AppId(row.get(1)?),
        job: JobId(row.get(2)?),
        version: Version(row.get(3)?),
        origin: read(row, 11, Origin::from_code)?,
        slot,
        slot_last: row.get::<_, Option<i64>>(5)?.map_or(slot, UnixMs),
        slots: read_u64(row, 6)?,
        state: read_run_state(row, 7)?,
        why: read_word(row, 8, Why::parse)?,
        shards: row.get(12)?,
        at: read_ms(row, 9)?,
        ended_at: read_instant(row, 10)?,
    })
}

/// The first attempt in a row of [`RUN_COLUMNS`], if there was one.
pub(crate) fn first_attempt(row: &Row<'_>) -> rusqlite::Result<Option<Attempt>> {
    if row.get_ref(16)? == rusqlite::types::ValueRef::Null {
        return Ok(None);
    }
    let run = RunId(read_u64(row, 0)?);
    Ok(Some(Attempt {
        id: run.first_attempt(),
        run,
        shard: 0,
        no: 1,
        worker: WorkerId(row.get(14)?),
        incarnation: Incarnation(read_u64(row, 15)?),
        state: read_attempt_state(row, 16)?,
        why: read_word(row, 17, Why::parse)?,
        at: row.get::<_, Option<i64>>(18)?.map_or(read_ms(row, 11)?, UnixMs),
        ended_at: read_instant(row, 19)?,
        released_at: read_instant(row, 20)?,
        message: read_text(row, 21)?,
    }))
}

/// A row of [`ATTEMPT_COLUMNS`].
pub(crate) fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    Ok(Attempt {
        run: RunId(read_u64(row, 0)?),
        shard: row.get(1)?,
        no: row.get(2)?,
        id: AttemptId(read_u64(row, 3)?),
        worker: WorkerId(row.get(4)?),
        incarnation: Incarnation(read_u64(row, 5)?),
        state: read_attempt_state(row, 6)?,
        why: read_word(row, 7, Why::parse)?,
        at: read_ms(row, 8)?,
        ended_at: read_instant(row, 9)?,
        released_at: read_instant(row, 10)?,
        message: read_text(row, 11)?,
    })
}

/// What the values of a version's headers are sealed for.
fn headers_context(job: JobId, version: Version) -> String {
    format!("job {job} version {version}")
}

/// A specification as the columns `spec` and `headers`: the values of a request's headers open other systems, so they
/// are sealed.
pub(crate) fn spec_params(definition: &Definition, key: &Key) -> Result<(String, Option<Vec<u8>>), Error> {
    let json = |spec: &Spec| serde_json::to_string(spec).expect("a specification is plain data");
    let Target::Url { headers, .. } = &definition.spec.target else { return Ok((json(&definition.spec), None)) };
    if headers.is_empty() {
        return Ok((json(&definition.spec), None));
    }
    let text = serde_json::to_string(headers).expect("names and values are text");
    let sealed = key.seal(&text, &headers_context(definition.id, definition.version))?;
    let mut spec = definition.spec.clone();
    if let Target::Url { headers, .. } = &mut spec.target {
        headers.clear();
    }
    Ok((json(&spec), Some(sealed)))
}

/// A row of [`DEFINITION_COLUMNS`].
pub(crate) fn definition(row: &Row<'_>, key: &Key) -> rusqlite::Result<Definition> {
    let number = |bits: u64| u32::try_from(bits).map_err(|_| odd(row, 0, Type::Integer));
    let (id, version) = {
        let key = read_u64(row, 0)?;
        (JobId(number(key >> 32)?), Version(number(key & 0xffff_ffff)?))
    };
    let json = |column, e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e));
    let mut spec: Spec = serde_json::from_str(row.get_ref(3)?.as_str()?).map_err(|e| json(3, e))?;
    if let (Some(sealed), Target::Url { headers, .. }) = (row.get_ref(7)?.as_blob_or_null()?, &mut spec.target) {
        let text = key.unseal(sealed, &headers_context(id, version)).ok_or_else(|| odd(row, 7, Type::Blob))?;
        *headers = serde_json::from_str(&text).map_err(|e| json(7, e))?;
    }
    Ok(Definition {
        id,
        version,
        app: AppId(row.get(1)?),
        name: row.get(2)?,
        spec,
        state: read_job_state(row, 4)?,
        at: read_ms(row, 5)?,
        by: row.get(6)?,
        managed_by: row.get(8)?,
        pause: read_pause(row)?,
    })
}

/// The pause that [`DEFINITION_COLUMNS`] end with. One that is older than its columns says no more than its state.
fn read_pause(row: &Row<'_>) -> rusqlite::Result<Option<Pause>> {
    let Some(by) = row.get::<_, Option<String>>(9)? else { return Ok(None) };
    Ok(Some(Pause { by, at: read_ms(row, 10)?, reason: row.get(11)? }))
}

pub(crate) fn read_job_state(row: &Row<'_>, column: usize) -> rusqlite::Result<JobState> {
    let all = [JobState::Enabled, JobState::Paused, JobState::Finished, JobState::Deleted];
    read(row, column, |code| all.into_iter().find(|state| job_state(*state) == code))
}

/// What a worker's secret is sealed for: this start of this worker.
pub(crate) fn secret_context(worker: WorkerId, incarnation: Incarnation) -> String {
    format!("worker {worker} incarnation {incarnation}")
}

/// What a secret's value is sealed for. No name has a slash.
pub(crate) fn value_context(namespace: &str, name: &str) -> String {
    format!("secret {namespace}/{name}")
}

/// A row of (namespace, name, value, at, by).
pub(crate) fn secret(row: &Row<'_>, key: &Key) -> rusqlite::Result<StoredSecret> {
    let (namespace, name): (String, String) = (row.get(0)?, row.get(1)?);
    let value = key.unseal(row.get_ref(2)?.as_blob()?, &value_context(&namespace, &name));
    Ok(StoredSecret {
        value: Secret(value.ok_or_else(|| odd(row, 2, Type::Blob))?),
        namespace,
        name,
        at: read_ms(row, 3)?,
        by: row.get(4)?,
    })
}

/// A row of [`WORKER_COLUMNS`].
pub(crate) fn worker(row: &Row<'_>, key: &Key) -> rusqlite::Result<(Registration, WorkerState)> {
    let json =
        |column, e: serde_json::Error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e));
    let (id, incarnation) = (WorkerId(row.get(0)?), Incarnation(read_u64(row, 3)?));
    let secret = key.unseal(row.get_ref(9)?.as_blob()?, &secret_context(id, incarnation));
    let registration = Registration {
        id,
        app: AppId(row.get(1)?),
        name: row.get(2)?,
        incarnation,
        url: row.get(4)?,
        protocol: read_word(row, 5, protocol)?.ok_or_else(|| odd(row, 5, Type::Null))?,
        handlers: serde_json::from_str(row.get_ref(6)?.as_str()?).map_err(|e| json(6, e))?,
        labels: serde_json::from_str(row.get_ref(7)?.as_str()?).map_err(|e| json(7, e))?,
        capacity: row.get(8)?,
        list_max: row.get(12)?,
        secret: Secret(secret.ok_or_else(|| odd(row, 9, Type::Blob))?),
        at: read_ms(row, 10)?,
    };
    let all = [WorkerState::Online, WorkerState::Draining, WorkerState::Unreachable, WorkerState::Offline];
    let state = read(row, 11, |code| all.into_iter().find(|state| worker_state(*state) == code))?;
    Ok((registration, state))
}

fn protocol(word: &str) -> Option<Protocol> {
    [Protocol::Http, Protocol::Url].into_iter().find(|protocol| protocol.word() == word)
}

/// A row of (kind, at, until), from `column` on.
pub(crate) fn read_exception(row: &Row<'_>, column: usize) -> rusqlite::Result<Exception> {
    let at = read_ms(row, column + 1)?;
    let until: Option<i64> = row.get(column + 2)?;
    read(row, column, |kind| match (kind, until) {
        (0, None) => Some(Exception::Covered(at)),
        (1, None) => Some(Exception::Armed(at)),
        (2, Some(until)) => Some(Exception::Judged { covered: at, until: UnixMs(until) }),
        _ => None,
    })
}
