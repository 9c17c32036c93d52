//! What people and programs ask for: definitions, pauses, deletions, triggers, kills.

use std::sync::Arc;

use rota_cron::Kind;

use super::Machine;
use super::effect::{Answer, Effect};
use super::freeze::Thawing;
use super::jobs::{JobIx, Place};
use super::message::ReplyTo;
use super::misfire::Judged;
use super::pipeline::After;
use super::runs::{Cause, Phase};
use crate::batch::{Exception, Origin, Row, RunState};
use crate::id::{JobId, RunId, Version};
use crate::job::{Definition, Job, JobState};
use crate::limits;
use crate::overlap::Verdict;
use crate::time::{Now, UnixMs};
use crate::trace::Parent;
use crate::why::Why;

/// Shards of a version that are dispatched or wait at its end, beyond which one row covers the slots that are left.
const CLOSING_SHARDS_MAX: u32 = 100;

/// Who changes a job's state, and why.
#[derive(Debug)]
pub(super) struct Author {
    pub(super) by: Arc<str>,
    pub(super) reason: Option<Arc<str>>,
}

/// A run that somebody wants now.
pub(super) struct Asked {
    pub(super) slot: UnixMs,
    pub(super) origin: Origin,
    pub(super) param: Option<Arc<str>>,
    pub(super) request_id: Option<Arc<str>>,
    pub(super) parent: Option<Arc<Parent>>,
}

impl Author {
    fn sets(self, job: JobId, state: JobState, at: UnixMs) -> Row {
        Row::JobState { job, state, at, by: self.by, reason: self.reason }
    }
}

impl Machine {
    /// A new job, or a new version of one. The old version covers slots up to now, the new one those after.
    pub(super) fn define(
        &mut self,
        now: Now,
        mut definition: Definition,
        expected: Option<Version>,
        reply: ReplyTo,
        out: &mut Vec<Effect>,
    ) {
        let known = self.jobs.find(definition.id);
        let refusal = match (known, expected) {
            (Some(ix), Some(version)) if self.jobs.get(ix).version != version => Some(Why::VersionConflict),
            (Some(ix), Some(_)) if self.jobs.get(ix).app != definition.app => Some(Why::Invalid),
            (Some(_), Some(_)) | (None, None) => None,
            (Some(_), None) => Some(Why::VersionConflict),
            (None, Some(_)) => Some(Why::JobUnknown),
        };
        // Slots up to here belong to the version before, even if the wall clock has stepped back since.
        definition.at = self.covered_until(now);
        definition.version = known.map_or(Version(1), |ix| Version(self.jobs.get(ix).version.0 + 1));
        definition.state = match known.map(|ix| self.jobs.get(ix).state) {
            Some(JobState::Paused) => JobState::Paused,
            Some(_) => JobState::Enabled,
            None => definition.state,
        };
        if definition.state != JobState::Paused {
            definition.pause = None;
        }
        let job = match (refusal, definition.compile()) {
            (Some(why), _) => return out.push(Effect::Reply(reply, Answer::Refused(why))),
            (None, Err(_)) => return out.push(Effect::Reply(reply, Answer::Refused(Why::Invalid))),
            (None, Ok(job)) => job,
        };
        if let Some(ix) = known {
            self.close_version(now, ix);
            self.stats.broken.retain(|(broken, _)| *broken != definition.id);
        }
        let is_new = known.is_none();
        let (id, version) = (definition.id, definition.version);
        self.pipeline.write(Row::Definition(Box::new(definition)));
        let ix = self.install(now, job);
        self.seat_runs(ix);
        self.begin_version(now, ix, is_new);
        let next = self.next_of(ix);
        self.pipeline.after(After::Reply(reply, Answer::Defined { job: id, version, next }));
    }

    /// Puts a compiled job into the table, at rest.
    pub(super) fn install(&mut self, now: Now, job: Job) -> JobIx {
        let pool = self.fleet.pool_of(job.app, &job.policy, &job.body.target, now.mono);
        self.jobs.put(job, pool)
    }

    /// Covers what the current version of a job still has to cover up to now: its slots fire, or wait as
    /// runs of their own, judged as they would have been without the change.
    fn close_version(&mut self, now: Now, ix: JobIx) {
        let until = self.covered_until(now);
        if self.jobs.get(ix).state == JobState::Paused {
            self.cover_pause(now, ix);
            return;
        }
        if self.is_frozen(self.jobs.get(ix).app) {
            if let Some(slot) = self.first_uncovered(ix, until) {
                self.cover_rest(now, ix, slot, until, Why::Frozen);
            }
            self.jobs.rest(ix);
            return;
        }
        let mut fired = 0;
        while let Some(slot) = self.first_uncovered(ix, until) {
            let is_judged = matches!(self.jobs.get(ix).place, Place::Held { .. });
            let slot = match self.after_freeze(now, ix, slot) {
                Thawing::Covered if self.jobs.get(ix).is_armed_kind() => break,
                Thawing::Covered => continue,
                Thawing::Newest(slot) | Thawing::Later(slot) => slot,
                Thawing::Usual if is_judged => slot,
                Thawing::Usual => match self.judge_lateness(now, ix, slot, until) {
                    Judged::Covered => continue,
                    Judged::Runs(slot) => slot,
                },
            };
            if self.waits_for_upstream(ix, slot) {
                self.cover_rest(now, ix, slot, until, Why::Edited);
                break;
            }
            let shards = self.shards_max(ix);
            let has_room = fired == 0 || (fired + shards <= CLOSING_SHARDS_MAX && self.may_write(ix));
            if !has_room {
                self.cover_rest(now, ix, slot, until, Why::Edited);
                break;
            }
            if let Some(verdict) = self.overlap_slot(now, ix, slot) {
                self.begin_slot(now, ix, slot, verdict, None);
            }
            if self.jobs.get(ix).is_armed_kind() {
                break; // it stood at one instant; the next is the new version's
            }
            fired += shards;
        }
        self.jobs.rest(ix);
    }

    /// One row for all slots of a job from `first` to `until`.
    fn cover_rest(&mut self, now: Now, ix: JobIx, first: UnixMs, until: UnixMs, why: Why) {
        let live = self.jobs.get(ix);
        let Some(schedule) = live.schedule.clone() else { return };
        let (last, count) = if live.is_armed_kind() {
            (first, 1)
        } else {
            let last = schedule.last_at_or_before(until).unwrap_or(first).max(first);
            (last, schedule.count_between(UnixMs(first.0 - 1), last, limits::RANGE_COUNT_MAX))
        };
        self.write_gap(now, ix, first, last, count, RunState::Skipped, why);
        self.cover(ix, last);
    }

    /// The slot at or before `until` at which a job stands, if it stands at one.
    fn first_uncovered(&self, ix: JobIx, until: UnixMs) -> Option<UnixMs> {
        match self.jobs.get(ix).place {
            Place::Timeline(slot) if slot <= until => Some(slot),
            Place::Held { slot, .. } => Some(slot),
            Place::Timeline(_) | Place::Rest => None,
        }
    }

    /// Puts a job whose definition has just taken effect where it belongs.
    fn begin_version(&mut self, now: Now, ix: JobIx, is_new: bool) {
        let until = self.covered_until(now);
        self.touched.push(ix);
        let live = self.jobs.get(ix);
        let Some(schedule) = live.schedule.clone() else {
            return self.set_exception(ix, None);
        };
        let is_paused = live.state == JobState::Paused;
        match schedule.kind() {
            Kind::Cron | Kind::Every if is_paused => self.set_exception(ix, Some(Exception::Covered(until))),
            Kind::Cron | Kind::Every => match schedule.next_after(until) {
                Some(next) => self.jobs.arm(ix, next),
                None => self.finish(now, ix),
            },
            Kind::Delay if is_paused => self.set_exception(ix, None),
            Kind::Delay if live.scheduled_open > 0 => {}
            Kind::Delay => self.arm_delay(now, ix, UnixMs(0)),
            Kind::Once => {
                let at = schedule.next_after(UnixMs(i64::MIN)).unwrap_or(until);
                match (is_paused, is_new || at > until) {
                    (true, true) => self.set_exception(ix, Some(Exception::Armed(at))),
                    (false, true) => self.jobs.arm(ix, at),
                    (_, false) => self.finish(now, ix),
                }
            }
        }
    }

    fn finish(&mut self, now: Now, ix: JobIx) {
        self.jobs.rest(ix);
        self.finish_job(now, ix);
    }

    /// The slot that a job has next, for answers.
    fn next_of(&self, ix: JobIx) -> Option<UnixMs> {
        match self.jobs.get(ix).place {
            Place::Timeline(slot) | Place::Held { slot, .. } => Some(slot),
            Place::Rest => None,
        }
    }

    /// Whether a job that lives is no longer as somebody saw it.
    pub(super) fn has_moved(&self, job: JobId, seen: (Version, JobState)) -> bool {
        self.jobs.find(job).map(|ix| self.jobs.get(ix)).is_some_and(|live| (live.version, live.state) != seen)
    }

    pub(super) fn set_state(
        &mut self,
        now: Now,
        job: JobId,
        state: JobState,
        author: Author,
        reply: ReplyTo,
        out: &mut Vec<Effect>,
    ) {
        let Some(ix) = self.jobs.find(job) else {
            return out.push(Effect::Reply(reply, Answer::Refused(Why::JobUnknown)));
        };
        match (self.jobs.get(ix).state, state) {
            (_, JobState::Deleted) => {
                self.delete(now, ix, author);
                let answer = Answer::StateSet { state: JobState::Deleted, next: None };
                return self.pipeline.after(After::Reply(reply, answer));
            }
            (JobState::Enabled, JobState::Paused) => self.pause(now, ix, author),
            (JobState::Paused, JobState::Enabled) => self.resume(now, ix, author),
            (JobState::Enabled | JobState::Paused | JobState::Finished | JobState::Deleted, _) => {}
        }
        let answer = Answer::StateSet { state: self.jobs.get(ix).state, next: self.next_of(ix) };
        self.reply_durably(reply, answer, out);
    }

    fn pause(&mut self, now: Now, ix: JobIx, author: Author) {
        let until = self.covered_until(now);
        let covered = self.next_of(ix).map_or(until, |slot| UnixMs(slot.0 - 1));
        let kind = self.jobs.get(ix).kind();
        let armed = self.next_of(ix);
        self.jobs.rest(ix);
        self.jobs.set_state(ix, JobState::Paused);
        let exception = match kind {
            Some(Kind::Cron | Kind::Every) => Some(Exception::Covered(covered)),
            Some(Kind::Once) => armed.map(Exception::Armed),
            // A due instant gets its row with the end of the pause; a later one is armed anew then.
            Some(Kind::Delay) => armed.filter(|at| *at <= until).map(Exception::Armed),
            None => None,
        };
        let job = self.jobs.get(ix).id;
        self.pipeline.write(author.sets(job, JobState::Paused, until));
        self.set_exception(ix, exception);
    }

    /// Covers the slots of a pause with one row.
    fn cover_pause(&mut self, now: Now, ix: JobIx) {
        let until = self.covered_until(now);
        let live = self.jobs.get(ix);
        let Some(schedule) = live.schedule.clone() else { return };
        let (first, last) = match live.stored {
            Some(Exception::Covered(to) | Exception::Judged { covered: to, .. }) => {
                (schedule.next_after(to), schedule.last_at_or_before(until))
            }
            Some(Exception::Armed(at)) => (Some(at), (at <= until).then_some(at)),
            None => return,
        };
        let (Some(first), Some(last)) = (first, last) else { return };
        if first > last {
            return;
        }
        let count = if live.is_armed_kind() {
            1
        } else {
            schedule.count_between(UnixMs(first.0 - 1), last, limits::RANGE_COUNT_MAX)
        };
        self.write_gap(now, ix, first, last, count, RunState::Skipped, Why::Paused);
        self.cover(ix, last);
    }

    fn resume(&mut self, now: Now, ix: JobIx, author: Author) {
        let until = self.covered_until(now);
        let armed = match self.jobs.get(ix).stored {
            Some(Exception::Armed(at)) => Some(at),
            Some(Exception::Covered(_) | Exception::Judged { .. }) | None => None,
        };
        self.cover_pause(now, ix);
        self.jobs.set_state(ix, JobState::Enabled);
        let job = self.jobs.get(ix).id;
        self.pipeline.write(author.sets(job, JobState::Enabled, until));
        self.touched.push(ix);
        let live = self.jobs.get(ix);
        let Some(schedule) = live.schedule.clone() else { return };
        match schedule.kind() {
            Kind::Cron | Kind::Every => match schedule.next_after(until) {
                Some(next) => self.jobs.arm(ix, next),
                None => self.finish(now, ix),
            },
            Kind::Delay if live.scheduled_open > 0 => {}
            Kind::Delay => self.arm_delay(now, ix, UnixMs(0)),
            Kind::Once => match armed {
                Some(at) if at > until => self.jobs.arm(ix, at),
                Some(_) | None => self.finish(now, ix),
            },
        }
    }

    /// Deletes a job: what waits is discarded, what runs is followed to its end without retries.
    fn delete(&mut self, now: Now, ix: JobIx, author: Author) {
        let until = self.covered_until(now);
        if self.jobs.get(ix).state == JobState::Paused {
            self.cover_pause(now, ix);
        } else if let Some(first) = self.first_uncovered(ix, until) {
            let live = self.jobs.get(ix);
            let schedule = live.schedule.clone().expect("a job with a slot has a schedule");
            let (last, count) = if live.is_armed_kind() {
                (first, 1)
            } else {
                let last = schedule.last_at_or_before(until).unwrap_or(first).max(first);
                (last, schedule.count_between(UnixMs(first.0 - 1), last, limits::RANGE_COUNT_MAX))
            };
            self.write_gap(now, ix, first, last, count, RunState::Discarded, Why::Deleted);
        }
        let (job, app) = (self.jobs.get(ix).id, self.jobs.get(ix).app);
        self.set_exception(ix, None);
        self.drop_backfills(now, job, &author.by);
        self.pipeline.write(author.sets(job, JobState::Deleted, until));
        self.stats.broken.retain(|(broken, _)| *broken != job);
        self.jobs.forget(ix);
        self.fleet.forget_turns(app, job);
        let open: Vec<RunId> = self.runs.runs.values().filter(|run| run.job == job).map(|run| run.id).collect();
        for id in open {
            let waits = |phase| matches!(phase, Phase::Parked | Phase::Waiting | Phase::Backoff(_));
            let waiting: Vec<u32> = (0..)
                .zip(&self.runs.run(id).shards)
                .filter(|(_, shard)| waits(shard.phase))
                .map(|(at, _)| at)
                .collect();
            for shard in waiting {
                self.settle(id, shard, RunState::Discarded, Some(Why::Deleted));
            }
            self.try_finish(now, id);
        }
    }

    /// Runs a job now: pause, window and lateness do not matter, overlap and the cap do. What waits for its place takes
    /// nothing of the cap.
    pub(super) fn trigger(&mut self, now: Now, job: JobId, asked: Asked, reply: ReplyTo, out: &mut Vec<Effect>) {
        let Some(ix) = self.jobs.find(job) else {
            return out.push(Effect::Reply(reply, Answer::Refused(Why::JobUnknown)));
        };
        match self.try_trigger(now, ix, asked) {
            Ok(answer) => self.pipeline.after(After::Reply(reply, answer)),
            Err(why) => out.push(Effect::Reply(reply, Answer::Refused(why))),
        }
    }

    fn try_trigger(&mut self, now: Now, ix: JobIx, asked: Asked) -> Result<Answer, Why> {
        let live = self.jobs.get(ix);
        let (job, app, body) = (live.id, live.app, Arc::clone(&live.body));
        if self.is_frozen(app) {
            return Err(Why::Frozen);
        }
        if live.is_broken {
            return Err(Why::Invalid);
        }
        let shards = self.shards_now(ix)?;
        let Asked { slot, origin, param, request_id, parent } = asked;
        let verdict = self.overlap(ix, &body, param.as_deref());
        if matches!(verdict, Verdict::Start | Verdict::Replace) {
            self.may_trigger(now, ix, shards)?;
        }
        if matches!(verdict, Verdict::Replace | Verdict::Await) {
            self.clear_places(now, ix, &body, param.as_deref());
        }
        let answer = match verdict {
            Verdict::Refuse(why) => return Err(why),
            Verdict::Start | Verdict::Replace => Answer::Triggered(self.admit(now, ix, slot, origin, param, None)),
            Verdict::Wait | Verdict::Await => Answer::Queued(self.admit_waiting(now, ix, slot, origin, param)),
            Verdict::Merge => {
                let (run, into) = self.merge(now, ix, slot, origin, param);
                Answer::Merged { run, into }
            }
        };
        if let Some(run) = answer.run() {
            self.put_into_trace(run, parent);
            if let Some(request_id) = request_id {
                self.pipeline.write(Row::Request { job, request_id, run });
            }
        }
        Ok(answer)
    }

    /// Notes the span within which a run is asked for. A row without a dispatch is in no trace.
    pub(super) fn put_into_trace(&mut self, id: RunId, parent: Option<Arc<Parent>>) {
        let Some(parent) = parent else { return };
        if let Some(run) = self.runs.runs.get_mut(&id) {
            run.parent = Some(Arc::clone(&parent));
            self.pipeline.write(Row::Trace { run: id, parent });
        }
    }

    /// Whether the rate and the caps let a triggered run of a job enter.
    fn may_trigger(&self, now: Now, ix: JobIx, shards: u32) -> Result<(), Why> {
        let live = self.jobs.get(ix);
        let app = live.app;
        let app_left = self.fleet.app(app).map_or(0, |a| a.app.pending_max.saturating_sub(a.pending));
        self.fleet.token_for(app, now.mono)?;
        let server_left = self.permits.saturating_sub(self.fleet.placed());
        self.may_enter(app, shards, app_left, server_left).map_err(|_| Why::PendingFull)
    }

    /// Kills a run: final once it is durable, whatever its attempts still say.
    pub(super) fn kill(&mut self, now: Now, id: RunId, reply: ReplyTo, out: &mut Vec<Effect>) {
        let Some(run) = self.runs.runs.get_mut(&id) else {
            return out.push(Effect::Reply(reply, Answer::Refused(Why::RunUnknown)));
        };
        if run.state.is_terminal() {
            return out.push(Effect::Reply(reply, Answer::Refused(Why::RunEnded)));
        }
        if run.killed.is_some() {
            return self.reply_durably(reply, Answer::Killing, out);
        }
        self.kill_for(now, id, Why::KilledByUser);
        self.pipeline.after(After::Reply(reply, Answer::Killing));
    }

    /// Kills a run, if it has not ended and nobody has killed it before.
    pub(super) fn kill_for(&mut self, now: Now, id: RunId, why: Why) {
        let Some(run) = self.runs.runs.get_mut(&id) else { return };
        if run.state.is_terminal() || run.killed.is_some() {
            return;
        }
        run.killed = Some(why);
        let (job, state) = (run.job, run.state);
        let phases: Vec<(u32, Phase)> = (0..).zip(run.shards.iter().map(|shard| shard.phase)).collect();
        self.pipeline.write(Row::RunSet { run: id, job, state, why: Some(why), ended_at: None });
        for (shard, phase) in phases {
            match phase {
                Phase::Parked | Phase::Waiting | Phase::Backoff(_) => {
                    self.settle(id, shard, RunState::Killed, Some(why));
                }
                Phase::Active(attempt) => self.stop(now, attempt, Cause::Kill(why)),
                Phase::Settled(..) => {}
            }
        }
        if self.runs.runs.contains_key(&id) {
            self.try_finish(now, id);
        }
    }
}
