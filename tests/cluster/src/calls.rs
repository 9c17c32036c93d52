//! Outbound calls: the executor's shell contract over a network that loses, delays and doubles.
//!
//! A send is answered exactly once: nothing is sent after its `send_by`; only a failed connect or a
//! refusal is "not started"; whatever goes wrong after the first byte is in doubt, at the latest
//! when its time is over.

use rota_core::id::{AttemptId, PartitionId};
use rota_core::partition::{CancelAnswer, Dispatch, Input, Outcome, ProbeAnswer, SendOutcome};
use rota_core::time::Mono;
use rota_core::why::Why;

use crate::check::send::{self, Sender};
use crate::clock::{Micros, ms};
use crate::event::{Answered, Errand, Event};
use crate::intake::address_of;
use crate::mutant::Mutant;
use crate::oracle::{End, Execution};
use crate::story::tell;
use crate::worker::Taken;
use crate::world::{Call, Phase, World};

/// What kind of call it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A send.
    Send,
    /// A probe.
    Probe,
    /// A cancel.
    Cancel,
}

impl Kind {
    fn silence(self) -> Answered {
        match self {
            Kind::Send => Answered::Sent(SendOutcome::InDoubt),
            Kind::Probe => Answered::Probed(ProbeAnswer::Silent),
            Kind::Cancel => Answered::Cancelled(CancelAnswer::Silent),
        }
    }
}

impl Errand {
    fn attempt(&self) -> AttemptId {
        match self {
            Errand::Send(dispatch) => dispatch.attempt,
            Errand::Probe(enquiry) | Errand::Cancel(enquiry) => enquiry.attempt,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Errand::Send(_) => Kind::Send,
            Errand::Probe(_) => Kind::Probe,
            Errand::Cancel(_) => Kind::Cancel,
        }
    }

    fn worker(&self) -> Option<(u32, usize)> {
        let worker = match self {
            Errand::Send(dispatch) => dispatch.worker.as_ref(),
            Errand::Probe(enquiry) | Errand::Cancel(enquiry) => enquiry.worker.as_ref(),
        };
        worker.map(|w| (address_of(&w.url), w.id.0 as usize - 1))
    }

    /// What it is answered with if nothing can be learnt.
    fn silence(&self) -> Answered {
        self.kind().silence()
    }

    /// What it is answered with if no connection is made.
    fn refused(&self) -> Answered {
        match self {
            Errand::Send(_) => Answered::Sent(SendOutcome::NotStarted(Why::ConnectFailed)),
            Errand::Probe(_) | Errand::Cancel(_) => self.silence(),
        }
    }
}

impl World {
    /// A machine calls a worker.
    pub(crate) fn call(&mut self, server: usize, partition: PartitionId, errand: Errand) {
        let Some(epoch) = self.term(server, partition) else { return };
        let boot = self.servers[server].boot;
        self.call_last += 1;
        let (id, attempt) = (self.call_last, errand.attempt());
        let is_slow = self.phase == Phase::Chaos && self.dice.net.chance(self.scenario.slow_lane_ppm);
        let mut wait = self.dice.net.between(5, 1_500);
        if let Some(hosted) = self.servers[server].hosted.get_mut(&partition) {
            hosted.calls_open += 1;
        }
        let kind = errand.kind();
        match &errand {
            Errand::Send(_) => {
                if is_slow {
                    wait += self.dice.net.between(0, ms(self.scenario.timing.send_ms * 3 / 2));
                }
                self.servers[server].queued.insert(attempt, id);
            }
            Errand::Cancel(_) => {
                if let Some(send) = self.servers[server].queued.remove(&attempt) {
                    tell!(self, format!("s{server}/p{partition}"), "takes the send of a{attempt} back");
                    self.answer_after(send, 10, Answered::Sent(SendOutcome::NotStarted(Why::RefusedCancelled)));
                    self.forget_errand(send);
                    self.open(id, Call { server, boot, partition, epoch, attempt, kind, errand: None });
                    return self.answer_after(id, wait, Answered::Cancelled(CancelAnswer::NeverSent));
                }
            }
            Errand::Probe(_) => {}
        }
        self.open(id, Call { server, boot, partition, epoch, attempt, kind, errand: Some(errand) });
        self.at(wait, Event::FirstByte { call: id });
    }

    fn open(&mut self, id: u64, call: Call) {
        self.calls.insert(id, call);
    }

    fn forget_errand(&mut self, call: u64) {
        if let Some(call) = self.calls.get_mut(&call) {
            call.errand = None;
        }
    }

    fn answer_after(&mut self, call: u64, wait: Micros, answer: Answered) {
        self.at(wait, Event::Answer { call, answer });
    }

    /// A lane gets to a call: the last moment at which it can still be left.
    pub(crate) fn first_byte(&mut self, id: u64) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let (server, partition, attempt) = (call.server, call.partition, call.attempt);
        let host = &self.servers[server];
        if !host.is_up || host.boot != call.boot {
            self.calls.remove(&id);
            return;
        }
        if host.frozen_until > self.now {
            let until = host.frozen_until;
            return self.queue.push(until, Event::FirstByte { call: id });
        }
        let epoch = call.epoch;
        let Some(errand) = call.errand.take() else { return };
        let is_planted = self.mutant == Some(Mutant::StaleOwnerSends);
        if self.term(server, partition) != Some(epoch) && !is_planted {
            self.calls.remove(&id);
            return;
        }
        if let Errand::Send(dispatch) = &errand {
            self.servers[server].queued.remove(&attempt);
            let now: Mono = self.servers[server].clock.now(self.now).mono;
            if now > dispatch.send_by {
                return self.answer_after(id, 10, Answered::Sent(SendOutcome::NotStarted(Why::SendDeadline)));
            }
            if self.dice.worker.chance(self.scenario.unsendable_ppm) {
                tell!(self, format!("s{server}/p{partition}"), "cannot make a call of a{attempt}");
                let outcome = SendOutcome::Unsendable(Why::TemplateFailed, "no call can be made of it".into());
                return self.answer_after(id, 10, Answered::Sent(outcome));
            }
            let term = self.term(server, partition);
            self.note(send::sent(self.store.part(partition), dispatch, term, Sender::Lane));
        }
        self.put_on_wire(id, server, errand);
    }

    fn put_on_wire(&mut self, id: u64, server: usize, errand: Errand) {
        let clock = &self.servers[server].clock;
        let (deadline, timing) = (clock.true_us(self.scenario.timing.send_ms), &self.scenario.timing);
        let Some((address, slot)) = errand.worker() else {
            return self.put_on_wire_to_url(id, errand);
        };
        let is_faulty = self.phase == Phase::Chaos;
        if !self.fleet.addresses.contains_key(&address) {
            let wait = self.dice.net.between(50, 2_000);
            return self.answer_after(id, wait, errand.refused());
        }
        let is_cut = self.is_cut(server, slot, true);
        if is_faulty && !is_cut && self.dice.net.chance(self.scenario.refused_ppm) {
            return self.answer_after(id, 1_000, errand.refused());
        }
        let wait_max = match &errand {
            Errand::Send(_) => deadline,
            Errand::Probe(_) | Errand::Cancel(_) => ms(timing.probe_ms.max(500)),
        };
        if is_cut {
            // Half of the calls go out over a connection that was made before the cut.
            let wait = wait_max.min(ms(1_000));
            if self.dice.net.chance(500_000) {
                return self.answer_after(id, wait, errand.refused());
            }
            return self.answer_after(id, wait_max, errand.silence());
        }
        self.at(wait_max, Event::CallDeadline { call: id });
        if is_faulty && self.dice.net.chance(self.scenario.doubled_ppm) {
            let late = self.dice.net.wait(ms(1_500));
            self.at(late, Event::Reach { call: id, address, errand: errand.clone() });
        }
        if let Some(wait) = self.travel() {
            self.at(wait, Event::Reach { call: id, address, errand });
        }
    }

    /// How long a message takes; none if it is lost.
    pub(crate) fn travel(&mut self) -> Option<Micros> {
        if self.phase == Phase::Chaos {
            if self.dice.net.chance(self.scenario.lost_ppm) {
                return None;
            }
            if self.dice.net.chance(self.scenario.late_ppm) {
                return Some(self.dice.net.between(100_000, 8_000_000));
            }
        }
        Some(self.dice.net.between(60, 2_500))
    }

    /// Whether the link between a server and a worker is cut in this direction.
    pub(crate) fn is_cut(&self, server: usize, slot: usize, to_worker: bool) -> bool {
        self.cuts.get(&(server, slot, to_worker)).is_some_and(|until| *until > self.now)
    }

    /// A call reaches an address.
    pub(crate) fn reach(&mut self, id: u64, address: u32, errand: Errand) {
        let Some(process) = self.fleet.addresses.get(&address).copied() else {
            return self.answer_after(id, 500, errand.silence());
        };
        let slot = self.fleet.processes[process].slot;
        let is_unreliable = self.fleet.slots[slot].is_unreliable && self.phase != Phase::Ending;
        let is_mute = is_unreliable && self.dice.worker.chance(700_000);
        let answer = match &errand {
            Errand::Send(dispatch) => Answered::Sent(self.execute(process, dispatch)),
            Errand::Probe(_) | Errand::Cancel(_) if is_mute => return,
            Errand::Probe(enquiry) => Answered::Probed(self.fleet.processes[process].probe(enquiry)),
            Errand::Cancel(enquiry) => {
                let (answer, stops) = self.fleet.processes[process].cancel(enquiry);
                if stops {
                    let wait = self.dice.worker.between(100, 400_000);
                    self.at(wait, Event::Finish { process, attempt: enquiry.attempt, outcome: Outcome::Killed });
                }
                Answered::Cancelled(answer)
            }
        };
        let server = self.calls.get(&id).map(|call| call.server);
        let is_cut = server.is_some_and(|server| self.is_cut(server, slot, false));
        if let Some(wait) = self.travel().filter(|_| !is_cut) {
            self.at(wait, Event::Answer { call: id, answer });
        }
    }

    fn execute(&mut self, process: usize, dispatch: &Dispatch) -> SendOutcome {
        let is_stubborn = self.dice.worker.chance(self.scenario.stubborn_ppm);
        match self.fleet.processes[process].execute(dispatch, is_stubborn) {
            Taken::Answers(outcome) => outcome,
            Taken::Starts => {
                let next_beat = self.fleet.processes[process].next_beat();
                let (wait, outcome) = self.work(dispatch, is_stubborn);
                self.record_start(dispatch, Some(process));
                self.at(wait, Event::Finish { process, attempt: dispatch.attempt, outcome });
                SendOutcome::Accepted { next_beat }
            }
        }
    }

    /// How long a handler works, and what comes of it.
    fn work(&mut self, dispatch: &Dispatch, is_stubborn: bool) -> (Micros, Outcome) {
        let rng = &mut self.dice.worker;
        let wait = ms(rng.between(1, self.scenario.work_ms_max)) + rng.below(1_000);
        let is_failing = rng.chance(self.scenario.failing_ppm);
        let outcome = if is_failing { Outcome::Failed(Why::HandlerFailed) } else { Outcome::Success };
        match dispatch.timeout_ms {
            Some(timeout_ms) if !is_stubborn && ms(timeout_ms) < wait => (ms(timeout_ms), Outcome::Timeout),
            Some(_) | None => (wait, outcome),
        }
    }

    fn record_start(&mut self, dispatch: &Dispatch, process: Option<usize>) {
        let execution = Execution {
            run: dispatch.run,
            shard: dispatch.shard,
            job: dispatch.job,
            process,
            starts: 0,
            started: self.now,
            end: None,
        };
        let (run, attempt) = (dispatch.run, dispatch.attempt);
        tell!(self, process.map_or("url".to_owned(), |p| format!("proc{p}")), "starts a{attempt} of {run}");
        let starts = self.oracle.start(attempt, execution);
        let partition = crate::world::partition_of(dispatch.app.0);
        self.started.insert(partition, self.now);
        let verdict = self.checks.life.started(self.store.part(partition), &self.oracle, run, attempt, starts);
        self.note(verdict);
        let worker = process.and_then(|process| self.fleet.processes[process].registered);
        let part = self.store.part(partition);
        let verdict = self.checks.shards.started(part, run, dispatch.shard, worker, attempt);
        self.note(verdict);
    }

    fn put_on_wire_to_url(&mut self, id: u64, errand: Errand) {
        let is_faulty = self.phase == Phase::Chaos;
        let (refused, silence) = (errand.refused(), errand.silence());
        let Errand::Send(dispatch) = errand else {
            return self.answer_after(id, 100, silence);
        };
        if is_faulty && self.dice.net.chance(self.scenario.refused_ppm) {
            return self.answer_after(id, 1_000, refused);
        }
        let limit_ms = dispatch.timeout_ms.unwrap_or(self.scenario.timing.send_ms * 2);
        self.at(ms(limit_ms), Event::CallDeadline { call: id });
        if let Some(wait) = self.travel() {
            self.at(wait, Event::ReachUrl { call: id, dispatch });
        }
    }

    /// A URL's server gets a request; it cannot tell one from another.
    pub(crate) fn reach_url(&mut self, id: u64, dispatch: &Dispatch) {
        let (mut wait, outcome) = self.work(dispatch, true);
        if self.phase != Phase::Chaos {
            // A URL that always answers too late is in doubt for ever; a healed one does not.
            wait = wait.min(ms(100));
        }
        self.record_start(dispatch, None);
        self.at(wait, Event::UrlDone { call: id, attempt: dispatch.attempt, outcome });
    }

    pub(crate) fn url_done(&mut self, id: u64, attempt: AttemptId, outcome: Outcome) {
        self.oracle.end(attempt, self.now, End::Returned(outcome));
        if let Some(wait) = self.travel() {
            let answer = Answered::Sent(SendOutcome::Finished(outcome, None));
            self.at(wait, Event::Answer { call: id, answer });
        }
    }

    /// An answer reaches its server: the first one counts.
    pub(crate) fn answer(&mut self, id: u64, answer: Answered) {
        let Some(call) = self.calls.remove(&id) else { return };
        let attempt = call.attempt;
        let input = match answer {
            Answered::Sent(outcome) => Input::Sent { attempt, outcome },
            Answered::Probed(answer) => Input::Probed { attempt, answer },
            Answered::Cancelled(answer) => Input::Cancelled { attempt, answer },
        };
        if let Some(hosted) = self.servers[call.server].hosted.get_mut(&call.partition)
            && hosted.epoch == call.epoch
        {
            hosted.calls_open -= 1;
        }
        let (server, boot, partition, epoch) = (call.server, call.boot, call.partition, call.epoch);
        self.at(0, Event::Tell { server, boot, partition, epoch, input: Box::new(input) });
    }

    /// A call has waited for too long.
    pub(crate) fn call_deadline(&mut self, id: u64) {
        if self.mutant == Some(Mutant::CallStaysOpen) {
            return;
        }
        let Some(call) = self.calls.get(&id) else { return };
        let silence = call.kind.silence();
        self.answer(id, silence);
    }
}
