//! What this process knows of attempts, and what it therefore answers. Pure: no I/O, no clock, no lock.
//!
//! Invariants:
//! - an attempt starts at most once: whatever was once answered stays the answer, also after its key
//!   was forgotten, because forgetting raises `floor`, and an unknown key at or below it is refused.
//!   (A partition's ids only grow, so what is refused that way is old; a refusal only costs the
//!   server another attempt);
//! - `running` and `finished` of a beat, and the beat's number, are taken in one step: an attempt that
//!   was answered with `next_beat` n is listed in beat n, unless it is acknowledged by then;
//! - a running attempt and an unacknowledged result are never forgotten.
//!
//! Absent on purpose: running anything. Who calls `execute` and hears [`Verdict::Start`] must run the
//! attempt and say [`Attempts::finish`] once.

use std::collections::{BTreeSet, HashMap, VecDeque};

use rota_wire::worker::{AttemptResult, Enquiry, Execute, Outcome, Refusal, Status};

use crate::clock::Mono;
use crate::text;

/// Results in one list.
pub(crate) const REPORTS_MAX: usize = 500;
/// Bytes of messages in one list, so that it fits any server's limit even when JSON escapes it.
const REPORT_BYTES_MAX: usize = 256 << 10;
/// What is kept of a handler's message; the server keeps no more either.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// How much is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Keys, of any kind.
    pub(crate) keys_max: usize,
    /// How long an acknowledged or refused key is kept at most.
    pub(crate) keep_ms: u64,
}

impl Memory {
    /// Ten minutes, which is far longer than a server's doubts last.
    pub(crate) const DEFAULT: Memory = Memory { keys_max: 200_000, keep_ms: 600_000 };
}

/// The answer to `execute`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Run it; the number of the next beat.
    Start(u64),
    /// It was accepted before; the number of the next beat.
    Known(u64),
    /// It does not run, and never will.
    Refused(Refusal),
}

#[derive(Clone, Copy, Debug)]
struct Key {
    run: u64,
    shard: u32,
    no: u32,
}

#[derive(Debug)]
enum Row {
    Running(Key),
    Finished(AttemptResult),
    /// The server has the result; the message is not kept.
    Acknowledged(Key, Outcome),
    Refused(Refusal),
}

/// Everything that this process knows of attempts.
#[derive(Debug)]
pub(crate) struct Attempts {
    incarnation: u64,
    handlers: BTreeSet<String>,
    capacity: u32,
    memory: Memory,
    /// The highest term that has spoken.
    epoch: u64,
    /// The number of the last beat.
    beat: u64,
    is_draining: bool,
    rows: HashMap<u64, Row>,
    running: BTreeSet<u64>,
    finished: BTreeSet<u64>,
    /// Finished, in the order in which they are reported; may name some that are acknowledged by now.
    unreported: VecDeque<u64>,
    /// In the list that is on its way.
    in_flight: Vec<u64>,
    acknowledged: VecDeque<(Mono, u64)>,
    refused: VecDeque<(Mono, u64)>,
    /// The highest key that was forgotten.
    floor: u64,
}

impl Attempts {
    pub(crate) fn new(incarnation: u64, handlers: BTreeSet<String>, capacity: u32, memory: Memory) -> Attempts {
        Attempts {
            incarnation,
            handlers,
            capacity,
            memory,
            epoch: 0,
            beat: 0,
            is_draining: false,
            rows: HashMap::new(),
            running: BTreeSet::new(),
            finished: BTreeSet::new(),
            unreported: VecDeque::new(),
            in_flight: Vec::new(),
            acknowledged: VecDeque::new(),
            refused: VecDeque::new(),
            floor: 0,
        }
    }

    /// The server asks to run an attempt.
    pub(crate) fn execute(&mut self, now: Mono, ask: &Execute) -> Verdict {
        if ask.incarnation != self.incarnation {
            return Verdict::Refused(Refusal::ForeignIncarnation);
        }
        let is_stale = ask.epoch < self.epoch;
        self.epoch = self.epoch.max(ask.epoch);
        // What is known is answered first, whoever asks: a refusal says "not started", and must be true.
        if let Some(row) = self.rows.get(&ask.attempt) {
            return match row {
                Row::Running(_) | Row::Finished(_) | Row::Acknowledged(..) => Verdict::Known(self.beat + 1),
                Row::Refused(refusal) => Verdict::Refused(*refusal),
            };
        }
        if ask.attempt <= self.floor {
            return Verdict::Refused(Refusal::Cancelled);
        }
        let obstacle = if is_stale { Some(Refusal::StaleEpoch) } else { self.obstacle(ask) };
        match obstacle {
            Some(refusal) => {
                self.refuse(now, ask.attempt, refusal);
                Verdict::Refused(refusal)
            }
            None => {
                let key = Key { run: ask.run, shard: ask.shard, no: ask.no };
                let was = self.rows.insert(ask.attempt, Row::Running(key));
                assert!(was.is_none(), "a key starts once");
                self.running.insert(ask.attempt);
                self.forget(now);
                Verdict::Start(self.beat + 1)
            }
        }
    }

    fn obstacle(&self, ask: &Execute) -> Option<Refusal> {
        if self.is_draining {
            Some(Refusal::Draining)
        } else if !self.handlers.contains(&ask.handler) {
            Some(Refusal::UnknownHandler)
        } else if self.is_full() {
            Some(Refusal::Full)
        } else {
            None
        }
    }

    fn is_full(&self) -> bool {
        let is_at_capacity = self.capacity != 0 && self.running.len() >= self.capacity as usize;
        // Neither what runs nor an unacknowledged result may be forgotten, so they are bounded here.
        is_at_capacity || self.running.len() + self.finished.len() >= self.memory.keys_max
    }

    /// The server asks after an attempt. `Err`: a newer term has spoken.
    pub(crate) fn probe(&mut self, now: Mono, ask: &Enquiry) -> Result<Status, Refusal> {
        if ask.incarnation != self.incarnation {
            return Ok(Status::ForeignIncarnation);
        }
        if ask.epoch < self.epoch {
            return Err(Refusal::StaleEpoch);
        }
        self.epoch = ask.epoch;
        Ok(match self.rows.get(&ask.attempt) {
            Some(Row::Running(_)) => Status::Running { next_beat: self.beat + 1 },
            Some(Row::Finished(result)) => Status::Finished { result: result.clone() },
            Some(Row::Acknowledged(key, outcome)) => {
                Status::Finished { result: result(ask.attempt, *key, *outcome, None) }
            }
            Some(Row::Refused(_)) => Status::NeverSeen,
            None => {
                if ask.attempt > self.floor {
                    self.refuse(now, ask.attempt, Refusal::Cancelled);
                }
                Status::NeverSeen
            }
        })
    }

    fn refuse(&mut self, now: Mono, attempt: u64, refusal: Refusal) {
        let was = self.rows.insert(attempt, Row::Refused(refusal));
        assert!(was.is_none(), "only an unknown key is refused");
        self.refused.push_back((now, attempt));
        self.forget(now);
    }

    /// A running attempt ended; true if it was the last one that ran.
    pub(crate) fn finish(&mut self, attempt: u64, outcome: Outcome, message: Option<String>) -> bool {
        let was_running = self.running.remove(&attempt);
        assert!(was_running, "only what runs finishes, and once");
        let Some(Row::Running(key)) = self.rows.get(&attempt) else { unreachable!("a running key has a running row") };
        let message = message.map(|message| text::cut(message, MESSAGE_BYTES_MAX));
        let result = result(attempt, *key, outcome, message);
        self.rows.insert(attempt, Row::Finished(result));
        self.finished.insert(attempt);
        self.unreported.push_back(attempt);
        self.running.is_empty()
    }

    /// The next list of results. One is on its way at a time: until [`Attempts::settle`].
    pub(crate) fn reports(&mut self) -> Vec<AttemptResult> {
        assert!(self.in_flight.is_empty(), "one list at a time");
        let (mut list, mut list_bytes) = (Vec::new(), 0);
        while list.len() < REPORTS_MAX && list_bytes < REPORT_BYTES_MAX {
            let Some(attempt) = self.unreported.pop_front() else { break };
            if let Some(Row::Finished(result)) = self.rows.get(&attempt) {
                list_bytes += result.message.as_ref().map_or(0, String::len);
                list.push(result.clone());
                self.in_flight.push(attempt);
            }
        }
        list
    }

    /// What became of the list: what the server has, and the rest is to be reported again, after the others.
    pub(crate) fn settle(&mut self, now: Mono, acknowledged: &[u64]) {
        for attempt in acknowledged {
            if self.finished.remove(attempt) {
                let Some(Row::Finished(result)) = self.rows.get(attempt) else {
                    unreachable!("a finished key has a finished row")
                };
                let key = Key { run: result.run, shard: result.shard, no: result.no };
                let row = Row::Acknowledged(key, result.outcome);
                self.rows.insert(*attempt, row);
                self.acknowledged.push_back((now, *attempt));
            }
        }
        for attempt in self.in_flight.drain(..) {
            if self.finished.contains(&attempt) {
                self.unreported.push_back(attempt);
            }
        }
        self.forget(now);
    }

    /// The next beat: its number, what runs, and what has finished without being acknowledged.
    pub(crate) fn beat(&mut self) -> (u64, Vec<u64>, Vec<u64>) {
        self.beat += 1;
        (self.beat, self.running.iter().copied().collect(), self.finished.iter().copied().collect())
    }

    /// From now on everything new is refused.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    pub(crate) fn has_reports(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// Results that the server has not acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.finished.len()
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// Forgets what is old, and, beyond the bound, the oldest: acknowledged ones before refused ones.
    fn forget(&mut self, now: Mono) {
        let keep_ms = self.memory.keep_ms;
        let is_old = |(at, _): &(Mono, u64)| now.0.saturating_sub(at.0) > keep_ms;
        loop {
            let is_over = self.rows.len() > self.memory.keys_max;
            let oldest = if self.acknowledged.front().is_some_and(|entry| is_over || is_old(entry)) {
                self.acknowledged.pop_front()
            } else if self.refused.front().is_some_and(|entry| is_over || is_old(entry)) {
                self.refused.pop_front()
            } else {
                return;
            };
            let (_, attempt) = oldest.expect("its front was looked at");
            let was = self.rows.remove(&attempt);
            assert!(matches!(was, Some(Row::Acknowledged(..) | Row::Refused(_))), "the others are never forgotten");
            self.floor = self.floor.max(attempt);
        }
    }
}

fn result(attempt: u64, key: Key, outcome: Outcome, message: Option<String>) -> AttemptResult {
    AttemptResult { attempt, run: key.run, shard: key.shard, no: key.no, outcome, message }
}

#[cfg(test)]
#[path = "attempts_tests.rs"]
mod tests;
