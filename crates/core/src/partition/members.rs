//! Workers that come, beat, drain and go.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::effect::{Answer, Effect};
use super::fleet::WorkerIx;
use super::message::{Beat, Holder, ReplyTo};
use super::pipeline::After;
use super::runs::Life;
use super::settle::Place;
use super::timer::Timer;
use super::{Machine, planted};
use crate::batch::{AttemptState, Row};
use crate::id::{AttemptId, Incarnation, WorkerId};
use crate::limits;
use crate::time::Now;
use crate::why::Why;
use crate::worker::{Registration, WorkerState};

impl Machine {
    /// A worker registers. Another incarnation of a name is refused while its holder lives; if the
    /// holder's process is proven gone, what it ran is lost, and its places are free.
    pub(super) fn register(
        &mut self,
        now: Now,
        mut registration: Registration,
        is_reachable: bool,
        holder: Holder,
        reply: ReplyTo,
        out: &mut Vec<Effect>,
    ) {
        registration.at = now.wall;
        registration.handlers.sort();
        registration.handlers.dedup();
        let known = self.fleet.find(registration.id);
        let mut left_behind = Vec::new();
        let mut silent = Vec::new();
        if let Some(ix) = known {
            let live = self.fleet.worker(ix);
            let is_other = live.registration.incarnation != registration.incarnation;
            let is_silent = now.mono.since(live.heard) >= self.config.timing.dead_ms;
            // What was learnt about an earlier holder says nothing about this one.
            let holds_now = live.registration.incarnation;
            let may_take = match holder {
                Holder::Gone(who) if who == holds_now => true,
                Holder::Alive(who) if who == holds_now => false,
                Holder::Gone(_) | Holder::Alive(_) | Holder::None | Holder::Silent => {
                    live.state == WorkerState::Offline || is_silent
                }
            };
            if is_other && !may_take {
                return out.push(Effect::Reply(reply, Answer::Refused(Why::WorkerIdTaken)));
            }
            if is_other {
                silent.extend(live.attempts.iter().copied());
            }
            if let Holder::Gone(who) = holder {
                let is_left = |id: &&AttemptId| self.runs.attempt(**id).is_some_and(|a| a.incarnation == who);
                left_behind.extend(live.attempts.iter().filter(is_left).copied());
            }
        }
        let state = if is_reachable { WorkerState::Online } else { WorkerState::Unreachable };
        let registration = Arc::new(registration);
        let ix = self.fleet.register(registration.clone(), state, now.mono);
        self.pipeline.write(Row::Worker { worker: registration, state });
        self.timers.add(now.mono.plus(self.config.timing.dead_ms), Timer::Silence(ix));
        for id in left_behind {
            self.process_gone(now, id, Why::WorkerRestarted);
        }
        // Whoever held the name before is lost to us, if not proven gone: its silence has no watch any more.
        for id in silent {
            if self.runs.attempt(id).is_some_and(|attempt| attempt.life == Life::Running) {
                self.end(now, id, AttemptState::Lost, Some(Why::WorkerSilent), None, Place::Kept);
            }
        }
        self.pipeline.after(After::Reply(reply, Answer::Registered(state)));
    }

    /// A worker beats. What it lists and what it does not list repair what calls did not say.
    pub(super) fn beat(&mut self, now: Now, beat: Beat, reply: ReplyTo, out: &mut Vec<Effect>) {
        let Some(ix) = self.fleet.find_start(beat.worker, beat.incarnation) else {
            return out.push(Effect::Reply(reply, Answer::Refused(Why::WorkerUnknown)));
        };
        self.heard(now, ix);
        let live = self.fleet.worker(ix);
        if live.state == WorkerState::Offline {
            self.set_worker_state(ix, self.fleet.state_before(ix));
            self.timers.add(now.mono.plus(self.config.timing.dead_ms), Timer::Silence(ix));
        }
        self.take_over_labels(ix, &beat);
        let running: BTreeSet<AttemptId> = beat.running.iter().copied().collect();
        let finished: BTreeSet<AttemptId> = beat.finished.iter().copied().collect();
        let held: Vec<AttemptId> = self.fleet.worker(ix).attempts.iter().copied().collect();
        for id in held {
            let Some(attempt) = self.runs.attempt(id) else { continue };
            if attempt.incarnation != beat.incarnation {
                continue;
            }
            if running.contains(&id) || finished.contains(&id) {
                let next_beat = beat.no.saturating_add(1);
                if matches!(attempt.life, Life::InDoubt(_)) {
                    self.accepted(now, id, next_beat);
                } else {
                    // It has it, whatever the answer to the call is going to say.
                    self.runs.attempt_mut(id).seen_from.get_or_insert(next_beat);
                }
                continue;
            }
            let is_meant = attempt.seen_from.is_some_and(|from| from <= beat.no);
            if is_meant || planted!(self.config, BeatRaceClosesLive) {
                self.absent(now, id);
            }
        }
        let state = self.fleet.worker(ix).state;
        self.reply_durably(reply, Answer::Beaten(state), out);
    }

    fn take_over_labels(&mut self, ix: WorkerIx, beat: &Beat) {
        let registration = &self.fleet.worker(ix).registration;
        let has_new_labels = beat.labels.as_ref().is_some_and(|labels| *labels != registration.labels);
        let capacity = beat.capacity.unwrap_or(registration.capacity);
        if !has_new_labels && capacity == registration.capacity {
            return;
        }
        self.fleet.set_labels(ix, beat.labels.clone(), capacity);
        let live = self.fleet.worker(ix);
        self.pipeline.write(Row::Worker { worker: live.registration.clone(), state: live.state });
    }

    /// A worker that had accepted an attempt no longer has it.
    fn absent(&mut self, now: Now, id: AttemptId) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        match attempt.life {
            Life::Ended(_) => self.release(now, id),
            Life::Running => self.end(now, id, AttemptState::Lost, Some(Why::Vanished), None, Place::Released),
            Life::Stopping(cause) => {
                let (state, why) = cause.ends_as();
                self.end(now, id, state, Some(why), None, Place::Released);
            }
            Life::Sending if planted!(self.config, BeatRaceClosesLive) => {
                self.end(now, id, AttemptState::Lost, Some(Why::Vanished), None, Place::Released);
            }
            Life::Committing | Life::Sending | Life::InDoubt(_) => {}
        }
    }

    pub(super) fn drain(
        &mut self,
        now: Now,
        worker: WorkerId,
        incarnation: Incarnation,
        reply: ReplyTo,
        out: &mut Vec<Effect>,
    ) {
        let Some(ix) = self.fleet.find_start(worker, incarnation) else {
            return out.push(Effect::Reply(reply, Answer::Refused(Why::WorkerUnknown)));
        };
        self.heard(now, ix);
        if self.fleet.worker(ix).state != WorkerState::Draining {
            self.set_worker_state(ix, WorkerState::Draining);
            self.timers.add(now.mono.plus(self.config.timing.dead_ms), Timer::Silence(ix));
        }
        self.reply_durably(reply, Answer::WorkerSet(WorkerState::Draining), out);
    }

    pub(super) fn deregister(
        &mut self,
        now: Now,
        worker: WorkerId,
        incarnation: Incarnation,
        reply: ReplyTo,
        out: &mut Vec<Effect>,
    ) {
        let Some(ix) = self.fleet.find_start(worker, incarnation) else {
            return out.push(Effect::Reply(reply, Answer::Refused(Why::WorkerUnknown)));
        };
        let held: Vec<AttemptId> = self.fleet.worker(ix).attempts.iter().copied().collect();
        self.set_worker_state(ix, WorkerState::Offline);
        self.fleet.dismiss(ix);
        self.release_pinned(now, ix);
        self.timers.add(now.mono.plus(limits::OFFLINE_KEPT_MS), Timer::Silence(ix));
        for id in held {
            if self.runs.attempt(id).is_some_and(|attempt| attempt.incarnation == incarnation) {
                self.process_gone(now, id, Why::WorkerGone);
            }
        }
        self.reply_durably(reply, Answer::WorkerSet(WorkerState::Offline), out);
    }

    /// A worker was heard of. One that is offline has no watch on its silence, and gets one.
    pub(super) fn heard(&mut self, now: Now, ix: WorkerIx) {
        let live = self.fleet.worker_mut(ix);
        live.heard = now.mono;
        if live.state == WorkerState::Offline && !live.is_host {
            self.timers.add(now.mono.plus(self.config.timing.dead_ms), Timer::Silence(ix));
        }
    }

    /// Silence for the dead time: what the worker runs is lost, what is in doubt stays so until its deadline.
    pub(super) fn silence(&mut self, now: Now, ix: WorkerIx) {
        let live = self.fleet.worker(ix);
        let silent_at = live.heard.plus(self.config.timing.dead_ms);
        if now.mono < silent_at {
            self.timers.add(silent_at, Timer::Silence(ix));
            return;
        }
        let attempts: Vec<AttemptId> = live.attempts.iter().copied().collect();
        if live.state != WorkerState::Offline {
            self.set_worker_state(ix, WorkerState::Offline);
            self.release_pinned(now, ix);
            self.timers.add(now.mono.plus(limits::OFFLINE_KEPT_MS), Timer::Silence(ix));
        } else if attempts.is_empty() && now.mono.since(live.heard) >= limits::OFFLINE_KEPT_MS {
            self.fleet.forget(ix);
            return;
        }
        for id in attempts {
            if self.runs.attempt(id).is_some_and(|attempt| attempt.life == Life::Running) {
                self.end(now, id, AttemptState::Lost, Some(Why::WorkerSilent), None, Place::Kept);
            }
        }
    }

    pub(super) fn set_worker_state(&mut self, ix: WorkerIx, state: WorkerState) {
        self.fleet.set_state(ix, state);
        let worker = self.fleet.worker(ix).registration.id;
        self.pipeline.write(Row::WorkerState { worker, state });
    }
}
