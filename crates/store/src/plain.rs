//! What nearly every run writes: how its rows are told, and the statements that take many at once.
//!
//! A plain run is a slot's run of one shard with its first attempt, just decided; a plain end is the
//! success of such an attempt, and of its run with it.

use rota_core::batch::{Attempt, AttemptState, Origin, Row, Run, RunState};
use rota_core::id::{AppId, RunId};
use rota_core::time::UnixMs;

use crate::codec;

/// What the runs of a group have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Begun {
    pub(crate) app: AppId,
    pub(crate) at: UnixMs,
}

/// What the ends of a group have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    pub(crate) at: UnixMs,
}

/// A plain run, if the first two rows are one.
pub(crate) fn begun(rows: &[Row]) -> Option<(Begun, &Run, &Attempt)> {
    let [Row::Run(run), Row::Attempt(first), ..] = rows else { return None };
    let (run, first): (&Run, &Attempt) = (run, first);
    let is_plain_run = run.origin == Origin::Schedule
        && (run.slots, run.shards) == (1, 1)
        && run.slot_last == run.slot
        && (run.state, run.why) == (RunState::Dispatched, None)
        && run.ended_at.is_none()
        && run.param.is_none();
    let is_plain_first = (first.run, first.shard, first.no) == (run.id, 0, 1)
        && first.id == run.id.first_attempt()
        && (first.state, first.why) == (AttemptState::Dispatched, None)
        && first.at == run.at
        && (first.ended_at, first.released_at) == (None, None)
        && first.message.is_none();
    (is_plain_run && is_plain_first).then_some((Begun { app: run.app, at: run.at }, run, first))
}

/// A plain end, if the first two rows are one.
pub(crate) fn ended(rows: &[Row]) -> Option<(Ended, RunId)> {
    let [Row::AttemptSet(first), Row::RunSet { run, job: _, state, why, ended_at: Some(at) }, ..] = rows else {
        return None;
    };
    let is_plain = (first.run, first.shard, first.no) == (*run, 0, 1)
        && (first.state, first.why) == (AttemptState::Success, None)
        && (first.ended_at, first.released_at) == (Some(*at), Some(*at))
        && first.message.is_none()
        && (*state, *why) == (RunState::Success, None);
    is_plain.then_some((Ended { at: *at }, *run))
}

/// Inserts so many plain runs: ?1 app, ?2 at, ?3 an instant that is not there yet; then of each run
/// id, job, version, slot, worker and incarnation.
pub(crate) fn insert_sql(segment: u32, count: usize) -> String {
    let (state, first_state) = (codec::run_state(RunState::Dispatched), codec::attempt_state(AttemptState::Dispatched));
    let origin = Origin::Schedule.code();
    let row = |n: usize| {
        let [id, job, version, slot, worker, incarnation] = std::array::from_fn(|column| 4 + 6 * n + column);
        format!(
            "(?{id},?1,?{job},?{version},{origin},?{slot},1,{state},1,?2,?3,?{worker},?{incarnation},{first_state},?3,?3)"
        )
    };
    let rows: Vec<String> = (0..count).map(row).collect();
    format!(
        "INSERT INTO run_{segment} (id, app, job, version, origin, slot, slots, state, shards, at, ended_at, \
         a_worker, a_incarnation, a_state, a_ended_at, a_released_at) VALUES {}",
        rows.join(",")
    )
}

/// Ends so many plain runs: ?1 at; then each run's id.
pub(crate) fn end_sql(segment: u32, count: usize) -> String {
    let (state, first_state) = (codec::run_state(RunState::Success), codec::attempt_state(AttemptState::Success));
    let ids: Vec<String> = (0..count).map(|n| format!("?{}", 2 + n)).collect();
    format!(
        "UPDATE run_{segment} SET state={state}, why=NULL, ended_at=?1, a_state={first_state}, a_why=NULL, \
         a_ended_at=?1, a_released_at=?1, a_message=NULL \
         WHERE id IN ({}) AND ended_at<0 AND a_state IS NOT NULL",
        ids.join(",")
    )
}
