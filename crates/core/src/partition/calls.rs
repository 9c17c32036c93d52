//! What goes out once it is durable, and what comes of it: sends, probes, cancels, results, and the
//! timers that stand in for answers that never come.

use super::effect::{Answer, Dispatch, Effect, Enquiry};
use super::message::{CancelAnswer, Outcome, ProbeAnswer, ReplyTo, Report, SendOutcome};
use super::pipeline::After;
use super::runs::{Attempt, Cause, Life, Phase};
use super::settle::Place;
use super::snapshot::DispatchResult;
use super::timer::Timer;
use super::{Machine, planted};
use crate::batch::{AttemptState, RunState};
use crate::id::{AttemptId, Incarnation, RunId, Seq, WorkerId};
use crate::time::Now;
use crate::why::Why;

impl Machine {
    /// A batch is durable: what rests on it leaves, if it is still wanted.
    pub(super) fn committed(&mut self, now: Now, seq: Seq, out: &mut Vec<Effect>) {
        for after in self.pipeline.committed(seq) {
            match after {
                After::Reply(to, answer) => out.push(Effect::Reply(to, answer)),
                After::Ended(job) => out.push(Effect::Ended(job)),
                After::Send(id) => self.send(now, id, out),
                After::Cancel(id) => {
                    if let Some(attempt) = self.runs.attempt(id) {
                        out.extend(self.enquiry(attempt).map(|enquiry| Effect::Cancel(Box::new(enquiry))));
                    }
                }
            }
        }
    }

    fn send(&mut self, now: Now, id: AttemptId, out: &mut Vec<Effect>) {
        let Some(attempt) = self.runs.attempts.get_mut(&id) else { return };
        if attempt.life != Life::Committing {
            return;
        }
        let live = self.fleet.worker(attempt.worker);
        if live.registration.incarnation != attempt.incarnation {
            self.end(now, id, AttemptState::NotStarted, Some(Why::WorkerRestarted), None, Place::Released);
            return;
        }
        attempt.life = Life::Sending;
        let attempt = &self.runs.attempts[&id];
        let run = self.runs.run(attempt.run);
        let live = self.fleet.worker(attempt.worker);
        out.push(Effect::Send(Box::new(Dispatch {
            attempt: id,
            run: run.id,
            shard: attempt.shard,
            shards: u32::try_from(run.shards.len()).expect("bounded"),
            no: attempt.no,
            app: run.app,
            job: run.job,
            version: run.version,
            origin: run.origin,
            slot: run.slot,
            epoch: self.epoch,
            worker: (!live.is_host).then(|| live.registration.clone()),
            body: run.body.clone(),
            param: run.param.clone(),
            timeout_ms: run.policy.timeout.attempt_ms,
            parent: run.parent.clone(),
            send_by: now.mono.plus(self.config.timing.send_ms),
        })));
        let app = run.app;
        self.fleet.take_placed(app);
    }

    /// Whom to ask about an attempt; nobody, if no address is known (a worker that went offline before
    /// this term, until it registers anew).
    fn enquiry(&self, attempt: &Attempt) -> Option<Enquiry> {
        let live = self.fleet.worker(attempt.worker);
        let worker = (!live.is_host).then(|| attempt.to.clone().unwrap_or_else(|| live.registration.clone()));
        if worker.as_ref().is_some_and(|worker| worker.url.is_empty()) {
            return None;
        }
        Some(Enquiry {
            attempt: attempt.id,
            run: attempt.run,
            shard: attempt.shard,
            no: attempt.no,
            epoch: self.epoch,
            worker,
            incarnation: attempt.incarnation,
        })
    }

    pub(super) fn sent(&mut self, now: Now, id: AttemptId, outcome: SendOutcome, out: &mut Vec<Effect>) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        let (run, worker) = (attempt.run, attempt.worker);
        let app = self.runs.run(run).app;
        let result = match &outcome {
            SendOutcome::Accepted { .. } => DispatchResult::Accepted,
            SendOutcome::NotStarted(_) | SendOutcome::Unsendable(..) => DispatchResult::NotStarted,
            SendOutcome::InDoubt => DispatchResult::InDoubt,
            SendOutcome::Finished(..) => DispatchResult::Finished,
        };
        self.stats.dispatch(app, result);
        match outcome {
            SendOutcome::Accepted { next_beat } => {
                self.fleet.trust(worker);
                self.heard(now, worker);
                self.accepted(now, id, next_beat);
            }
            SendOutcome::NotStarted(why) => self.not_started(now, id, why),
            SendOutcome::InDoubt => self.doubt(now, id, out),
            SendOutcome::Finished(outcome, message) => {
                self.fleet.trust(worker);
                self.report(now, id, outcome, message);
            }
            // It says nothing about the worker.
            SendOutcome::Unsendable(why, message) => self.report(now, id, Outcome::Failed(why), Some(message)),
        }
    }

    /// The worker has the attempt.
    pub(super) fn accepted(&mut self, now: Now, id: AttemptId, next_beat: u64) {
        self.give_credit_back(id);
        let attempt = self.runs.attempt_mut(id);
        attempt.seen_from = Some(next_beat);
        let (run, at_mono, aged_ms) = (attempt.run, attempt.at_mono, attempt.aged_ms);
        match attempt.life {
            Life::Sending | Life::InDoubt(_) => {
                let was_in_doubt = matches!(attempt.life, Life::InDoubt(_));
                attempt.life = Life::Running;
                attempt.why = None;
                if was_in_doubt {
                    self.runs.in_doubt -= 1;
                }
            }
            Life::Committing | Life::Running | Life::Stopping(_) | Life::Ended(_) => return,
        }
        if self.runs.run(run).state == RunState::Dispatched {
            self.set_open_state(run, RunState::Running);
        }
        let open = self.runs.run(run);
        if let Some(timeout_ms) = open.policy.timeout.attempt_ms {
            let due = at_mono.plus(timeout_ms.saturating_sub(aged_ms)).max(now.mono);
            self.timers.add(due, Timer::AttemptTimeout(id));
            self.runs.attempt_mut(id).timeout_at = Some(due);
        }
    }

    fn not_started(&mut self, now: Now, id: AttemptId, why: Why) {
        let attempt = self.runs.attempt_mut(id);
        let worker = attempt.worker;
        let life = attempt.life;
        if let Some(next_beat) = attempt.seen_from {
            // It was seen there: this refusal is that of a copy, which came late or to another.
            return self.accepted(now, id, next_beat);
        }
        let is_host = self.fleet.worker(worker).is_host;
        if !matches!(why, Why::RefusedCancelled | Why::SendDeadline) {
            let until = self.fleet.avoid(worker, now.mono);
            self.timers.add(until, Timer::Avoided(worker));
        }
        match life {
            Life::Ended(_) => self.release(now, id),
            Life::Stopping(cause) => {
                let (state, why) = cause.ends_as();
                self.end(now, id, state, Some(why), None, Place::Released);
            }
            // A host has no other candidate, and its jobs expect to hear of it.
            Life::Sending | Life::InDoubt(_) if is_host && why != Why::SendDeadline => {
                self.end(now, id, AttemptState::Failed, Some(why), None, Place::Released);
            }
            Life::Sending | Life::InDoubt(_) => {
                self.end(now, id, AttemptState::NotStarted, Some(why), None, Place::Released);
            }
            Life::Committing | Life::Running => {}
        }
    }

    /// The attempt may have reached its worker.
    fn doubt(&mut self, now: Now, id: AttemptId, out: &mut Vec<Effect>) {
        if planted!(self.config, DoubtIsNotStarted) {
            self.not_started(now, id, Why::ConnectFailed);
            return;
        }
        let attempt = self.runs.attempt_mut(id);
        let (worker, run, at_mono, life) = (attempt.worker, attempt.run, attempt.at_mono, attempt.life);
        let is_host = self.fleet.worker(worker).is_host;
        if is_host {
            // The call is over, and nothing but time will ever release the attempt.
            self.give_credit_back(id);
        }
        if life != Life::Sending {
            return;
        }
        if is_host {
            let until = self.fleet.avoid(worker, now.mono);
            self.timers.add(until, Timer::Avoided(worker));
            let timeout_ms = self.runs.run(run).policy.timeout.attempt_ms;
            if timeout_ms.is_some_and(|timeout_ms| now.mono.since(at_mono) >= timeout_ms) {
                self.end(now, id, AttemptState::Timeout, Some(Why::AttemptTimeout), None, Place::Kept);
                return;
            }
        }
        let doubt_ms = if is_host { 0 } else { self.config.timing.doubt_ms };
        let attempt = self.runs.attempt_mut(id);
        attempt.life = Life::InDoubt(now.mono.plus(doubt_ms));
        attempt.why = Some(Why::InDoubt);
        self.runs.in_doubt += 1;
        self.look_into_doubt(now, id, out);
    }

    /// Probes a doubt, or decides it if its time has come.
    fn look_into_doubt(&mut self, now: Now, id: AttemptId, out: &mut Vec<Effect>) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        // Absence in a beat proves nothing of what was never accepted.
        let is_unproven = attempt.has_ended() && attempt.released_at.is_none() && attempt.seen_from.is_none();
        if is_unproven && !self.fleet.worker(attempt.worker).is_host {
            // Decided, but not known: an answer still gives its place back.
            out.extend(self.enquiry(attempt).map(|enquiry| Effect::Probe(Box::new(enquiry))));
            self.timers.add(now.mono.plus(self.config.timing.dead_ms), Timer::Doubt(id));
            return;
        }
        let Life::InDoubt(deadline) = attempt.life else { return };
        if now.mono >= deadline {
            self.timers.add(now.mono.plus(self.config.timing.dead_ms), Timer::Doubt(id));
            self.end(now, id, AttemptState::Lost, Some(Why::InDoubt), None, Place::Kept);
            return;
        }
        out.extend(self.enquiry(attempt).map(|enquiry| Effect::Probe(Box::new(enquiry))));
        let again = now.mono.plus(self.config.timing.probe_ms).min(deadline);
        self.timers.add(again, Timer::Doubt(id));
    }

    pub(super) fn probed(&mut self, now: Now, id: AttemptId, answer: ProbeAnswer) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        let (life, worker) = (attempt.life, attempt.worker);
        match answer {
            ProbeAnswer::Silent => {}
            ProbeAnswer::NeverSeen => {
                if matches!(life, Life::InDoubt(_)) {
                    self.end(now, id, AttemptState::NotStarted, Some(Why::NeverSeen), None, Place::Released);
                } else if matches!(life, Life::Ended(_)) {
                    self.release(now, id);
                }
            }
            ProbeAnswer::Running { next_beat } => {
                self.heard(now, worker);
                self.accepted(now, id, next_beat);
            }
            ProbeAnswer::Finished(report) => self.report(now, id, report.outcome, report.message),
            ProbeAnswer::ForeignIncarnation => self.foreign(now, id),
        }
    }

    pub(super) fn cancelled(&mut self, now: Now, id: AttemptId, answer: CancelAnswer) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        let life = attempt.life;
        match answer {
            CancelAnswer::Silent => {}
            CancelAnswer::Stopping { next_beat } => {
                // Absence in a later beat confirms it, whether or not the send was ever answered.
                self.runs.attempt_mut(id).seen_from.get_or_insert(next_beat);
                self.give_credit_back(id);
            }
            CancelAnswer::NeverSent | CancelAnswer::NeverSeen => match life {
                Life::Stopping(cause) => {
                    let (state, why) = cause.ends_as();
                    self.end(now, id, state, Some(why), None, Place::Released);
                }
                Life::Ended(_) => self.release(now, id),
                Life::Committing | Life::Sending | Life::Running | Life::InDoubt(_) => {}
            },
            CancelAnswer::Finished(report) => self.report(now, id, report.outcome, report.message),
            CancelAnswer::ForeignIncarnation => self.foreign(now, id),
        }
    }

    /// Another incarnation answered. That proves the one that was meant to be gone if it is the address
    /// that this one had which was asked; another start may live at another address.
    fn foreign(&mut self, now: Now, id: AttemptId) {
        if self.runs.attempt(id).is_some_and(|attempt| attempt.to.is_some()) {
            self.process_gone(now, id, Why::WorkerRestarted);
        }
    }

    /// The process that had an attempt is proven to be gone.
    pub(super) fn process_gone(&mut self, now: Now, id: AttemptId, why: Why) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        match attempt.life {
            Life::Ended(_) => self.release(now, id),
            Life::Committing => {
                self.end(now, id, AttemptState::NotStarted, Some(why), None, Place::Released);
            }
            Life::Stopping(cause) => {
                let (state, why) = cause.ends_as();
                self.end(now, id, state, Some(why), None, Place::Released);
            }
            // It may or may not have started there; what that means is the delivery mode's to say. A send
            // that is still queued is taken back.
            Life::Sending | Life::InDoubt(_) => {
                self.pipeline.after(After::Cancel(id));
                self.end(now, id, AttemptState::Lost, Some(Why::InDoubt), None, Place::Released);
            }
            Life::Running => self.end(now, id, AttemptState::Lost, Some(why), None, Place::Released),
        }
    }

    pub(super) fn results(
        &mut self,
        now: Now,
        worker: WorkerId,
        incarnation: Incarnation,
        reports: Vec<Report>,
        reply: ReplyTo,
        out: &mut Vec<Effect>,
    ) {
        if let Some(ix) = self.fleet.find_start(worker, incarnation) {
            self.heard(now, ix);
        }
        let mut acknowledged = Vec::with_capacity(reports.len());
        let mut has_unknown = false;
        for report in reports {
            acknowledged.push(report.attempt);
            has_unknown |= self.runs.attempt(report.attempt).is_none();
            let is_whose = self.runs.attempt(report.attempt).is_none_or(|attempt| {
                let is_meant = (attempt.run, attempt.shard, attempt.no) == (report.run, report.shard, report.no);
                let is_theirs = self.fleet.worker(attempt.worker).registration.id == worker;
                is_meant && is_theirs && attempt.incarnation == incarnation
            });
            if is_whose {
                self.report(now, report.attempt, report.outcome, report.message);
            } else {
                self.stats.late_results += 1;
            }
        }
        let answer = Answer::Acknowledged(acknowledged);
        if has_unknown {
            // It may be known to whoever owns the partition by now: the answer rests on a batch, even an
            // empty one, which the store refuses if this term is over.
            self.pipeline.after(After::Reply(reply, answer));
        } else {
            self.reply_durably(reply, answer, out);
        }
    }

    /// Answers once everything written so far is durable.
    pub(super) fn reply_durably(&mut self, reply: ReplyTo, answer: Answer, out: &mut Vec<Effect>) {
        if self.is_flushed() {
            out.push(Effect::Reply(reply, answer));
        } else {
            self.pipeline.after(After::Reply(reply, answer));
        }
    }

    pub(super) fn run_timers(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::AttemptTimeout(id) => self.attempt_timeout(now, id),
                Timer::Doubt(id) => self.look_into_doubt(now, id, out),
                Timer::Stop(id) => self.stop_unconfirmed(now, id, out),
                Timer::Release(id) => self.release_unproven(now, id),
                Timer::Backoff(run, shard) => self.backoff_over(now, run, shard),
                Timer::StartDeadline(run) => self.start_deadline_over(now, run),
                Timer::RunDeadline(run) => self.run_deadline_over(now, run),
                Timer::HeldDeadline(job) => self.held_deadline(now, job),
                Timer::Jitter(job) => self.jitter_over(now, job),
                Timer::Pace(job) => self.pace_over(job),
                Timer::Upstream(job) => self.upstream_over(now, job),
                Timer::Silence(worker) => self.silence(now, worker),
                Timer::Avoided(worker) => self.fleet.stir(worker),
                Timer::Rate(app) => self.fleet.token_due(app, now.mono),
            }
        }
    }

    /// A stop is not confirmed: a timed-out attempt ends and keeps its place; everything is asked again.
    fn stop_unconfirmed(&mut self, now: Now, id: AttemptId, out: &mut Vec<Effect>) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        let Life::Stopping(cause) = attempt.life else { return };
        if let Cause::Timeout { end_by, why } = cause
            && now.mono >= end_by
        {
            self.timers.add(now.mono.plus(self.config.timing.dead_ms), Timer::Doubt(id));
            self.end(now, id, AttemptState::Timeout, Some(why), None, Place::Kept);
            return;
        }
        out.extend(self.enquiry(attempt).map(|enquiry| Effect::Cancel(Box::new(enquiry))));
        self.timers.add(now.mono.plus(self.config.timing.kill_grace_ms), Timer::Stop(id));
    }

    /// Nothing was heard of an attempt for so long that its place is given away.
    fn release_unproven(&mut self, now: Now, id: AttemptId) {
        let Some(attempt) = self.runs.attempt(id) else { return };
        if now.mono < attempt.release_at {
            return;
        }
        if let Life::Stopping(cause) = attempt.life {
            let (state, _) = cause.ends_as();
            self.end(now, id, state, Some(Why::PresumedGone), None, Place::Released);
        } else if attempt.has_ended() {
            self.release(now, id);
        }
    }

    fn backoff_over(&mut self, now: Now, run: RunId, shard: u32) {
        let is_due = self
            .runs
            .runs
            .get(&run)
            .is_some_and(|run| matches!(run.shards[shard as usize].phase, Phase::Backoff(due) if due <= now.mono));
        if is_due {
            self.wait_again(now, run, shard);
            self.try_finish(now, run);
        }
    }
}
