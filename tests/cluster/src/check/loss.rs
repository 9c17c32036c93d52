//! Invariant 9: what may be called lost, or timed out, and when. Judged when a machine decides it.

use std::collections::{BTreeMap, BTreeSet};

use rota_core::batch::{Attempt, AttemptState, Batch, Row};
use rota_core::id::{AttemptId, Epoch, Incarnation, WorkerId};
use rota_core::limits::Timing;
use rota_core::partition::Outcome;
use rota_core::time::Mono;
use rota_core::why::Why;

use super::{Rule, Verdict};
use crate::clock::{Micros, ms};
use crate::oracle::{End, Oracle};
use crate::store::Part;

/// What one machine has heard in its term.
#[derive(Debug)]
pub struct Heard {
    /// When it was made.
    pub began: Mono,
    /// When it last closed a batch: what it decided since then is in the next one.
    pub batch_at: Mono,
    last: BTreeMap<(WorkerId, Incarnation), Mono>,
    /// When silences of the dead time or more were broken last.
    broken: BTreeMap<(WorkerId, Incarnation), Mono>,
}

impl Heard {
    /// Nothing yet.
    #[must_use]
    pub fn new(began: Mono) -> Heard {
        Heard { began, batch_at: began, last: BTreeMap::new(), broken: BTreeMap::new() }
    }

    /// A worker is heard.
    pub fn hear(&mut self, key: (WorkerId, Incarnation), now: Mono, dead_ms: u64) {
        let before = self.last.insert(key, now).unwrap_or(self.began);
        if now.since(before) >= dead_ms {
            self.broken.insert(key, now);
        }
    }

    /// Whether a silence that counts has been under way since the last batch.
    fn was_silent(&self, key: (WorkerId, Incarnation), now: Mono, dead_ms: u64) -> bool {
        let last = self.last.get(&key).copied().unwrap_or(self.began);
        now.since(last) >= dead_ms || self.broken.get(&key).is_some_and(|at| *at >= self.batch_at)
    }
}

/// Which processes may still run something, by incarnation.
pub trait Processes {
    /// Whether this start of a worker is alive, and has not said farewell with nothing left to do.
    fn is_alive(&self, incarnation: Incarnation) -> bool;
}

/// When attempts were decided.
#[derive(Debug)]
pub struct Loss {
    timing: Timing,
    slack_us: Micros,
    decided: BTreeMap<AttemptId, Micros>,
    /// Attempts that a term has called lost; what follows is their release.
    lost: BTreeSet<(Epoch, AttemptId)>,
}

/// A machine closes a batch.
pub struct Decision<'a> {
    /// The batch.
    pub batch: &'a Batch,
    /// What is durable.
    pub part: &'a Part,
    /// True time.
    pub at: Micros,
    /// Its server's monotonic clock.
    pub now: Mono,
    /// What it has heard.
    pub heard: &'a Heard,
    /// What its workers recorded.
    pub oracle: &'a Oracle,
    /// Who lives.
    pub processes: &'a dyn Processes,
}

impl Loss {
    /// Checks under these limits; times of different servers are comparable up to `slack_ms`.
    #[must_use]
    pub fn new(timing: Timing, slack_ms: u64) -> Loss {
        Loss { timing, slack_us: ms(slack_ms + 50), decided: BTreeMap::new(), lost: BTreeSet::new() }
    }

    /// Checks what a batch decides.
    pub fn decided(&mut self, decision: &Decision) -> Verdict {
        for row in &decision.batch.rows {
            match row {
                Row::Attempt(attempt) => {
                    self.decided.entry(attempt.id).or_insert(decision.at);
                }
                Row::AttemptSet(attempt) if attempt.state == AttemptState::Lost => {
                    let is_stored = |a: &Attempt| a.state == AttemptState::Lost;
                    let row = decision.part.runs.get(&attempt.run).and_then(|row| row.attempt(attempt.id));
                    if self.lost.insert((decision.batch.epoch, attempt.id)) && !row.is_some_and(is_stored) {
                        self.check_lost(decision, attempt)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_lost(&self, decision: &Decision, attempt: &Attempt) -> Verdict {
        let key = (attempt.worker, attempt.incarnation);
        let heard = decision.heard.last.get(&key).copied();
        let broken =
            |text: String| Err(Rule::Lost.broken(format!("attempt {} of {}: {text}", attempt.id, attempt.run)));
        let is_url = attempt.worker == WorkerId(0);
        match attempt.why {
            Some(Why::WorkerSilent) => {
                if !decision.heard.was_silent(key, decision.now, self.timing.dead_ms) {
                    let silent_ms = decision.now.since(heard.unwrap_or(decision.heard.began));
                    return broken(format!("lost after {silent_ms} ms of silence in this term"));
                }
            }
            Some(Why::WorkerRestarted) => {
                if decision.processes.is_alive(attempt.incarnation) {
                    return broken("its worker is said to have restarted, and lives".to_owned());
                }
            }
            Some(Why::WorkerGone | Why::Vanished) => {
                let is_known = decision.oracle.get(attempt.id).is_some();
                if is_known && decision.processes.is_alive(attempt.incarnation) {
                    return broken(format!("its worker is said to know nothing of it ({:?}), and does", attempt.why));
                }
            }
            Some(Why::WorkerStopped) => {
                let end = decision.oracle.get(attempt.id).and_then(|execution| execution.end);
                if !matches!(end, Some((_, End::Returned(Outcome::Killed)))) {
                    return broken(format!("its worker is said to have stopped it, and it did {end:?}"));
                }
            }
            // Proof that the process died ends a doubt at once.
            Some(Why::InDoubt) if !is_url && !decision.processes.is_alive(attempt.incarnation) => {}
            Some(Why::InDoubt) if is_url => {}
            Some(Why::InDoubt) => {
                let age = decision.at.saturating_sub(self.decided.get(&attempt.id).copied().unwrap_or(0));
                let doubt_us = ms(self.timing.doubt_ms);
                if age + age / 50 + self.slack_us < doubt_us {
                    return broken(format!("its doubt was given up {} ms after it was decided on", age / 1_000));
                }
                let term_ms = decision.now.since(decision.heard.began);
                if heard.is_none() && term_ms < self.timing.dead_ms {
                    return broken(format!(
                        "its doubt was given up {term_ms} ms after the term began, before its worker beat"
                    ));
                }
            }
            other => return broken(format!("lost for {other:?}")),
        }
        Ok(())
    }
}
