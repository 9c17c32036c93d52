//! A native worker's process, as the protocol wants it: it runs a key once, refuses what it must for
//! ever, beats with numbers, repeats results until they are acknowledged.
//!
//! It is a state machine of its own; the world carries its messages and its time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rota_core::id::{AttemptId, Epoch, Incarnation, RunId, WorkerId};
use rota_core::partition::{Beat, CancelAnswer, Dispatch, Enquiry, Outcome, ProbeAnswer, Report, SendOutcome};
use rota_core::why::Why;

/// What a process knows of a key.
#[derive(Clone, Debug)]
pub enum Known {
    /// It runs; whether it listens to cancels and deadlines.
    Running {
        /// What to report when it is done.
        run: RunId,
        /// Its shard.
        shard: u32,
        /// Its number.
        no: u32,
        /// It ignores cancels and deadlines.
        is_stubborn: bool,
        /// Whether a cancel came.
        is_cancelled: bool,
    },
    /// It has finished.
    Finished {
        /// What is reported.
        report: Report,
        /// Whether Rota has it.
        is_acknowledged: bool,
    },
    /// It is never run.
    Refused(Why),
}

/// One start of a worker.
#[derive(Debug)]
pub struct Process {
    /// The worker's place in the world.
    pub slot: usize,
    /// This start.
    pub incarnation: Incarnation,
    /// Where it listens.
    pub address: u32,
    /// Whether it lives.
    pub is_alive: bool,
    /// Its id, once it is registered.
    pub registered: Option<WorkerId>,
    /// It was told to stop in order.
    pub is_stopping: bool,
    /// What it knows.
    pub keys: BTreeMap<AttemptId, Known>,
    /// Executions it can take; 0 is unlimited.
    pub capacity: u32,
    /// Keys that run, or whose results are not acknowledged.
    open: BTreeSet<AttemptId>,
    epoch_max: Epoch,
    beat_next: u64,
}

/// What a process does with a dispatch.
pub enum Taken {
    /// It starts it.
    Starts,
    /// It answers, and starts nothing.
    Answers(SendOutcome),
}

impl Process {
    /// A new process.
    #[must_use]
    pub fn new(slot: usize, incarnation: Incarnation, address: u32, capacity: u32) -> Process {
        Process {
            slot,
            incarnation,
            address,
            is_alive: true,
            registered: None,
            is_stopping: false,
            keys: BTreeMap::new(),
            capacity,
            open: BTreeSet::new(),
            epoch_max: Epoch(0),
            beat_next: 1,
        }
    }

    /// The number of the next beat that it composes.
    #[must_use]
    pub fn next_beat(&self) -> u64 {
        self.beat_next
    }

    /// Executions under way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.open.iter().filter(|id| matches!(self.keys[id], Known::Running { .. })).count()
    }

    /// A dispatch arrives.
    pub fn execute(&mut self, dispatch: &Dispatch, is_stubborn: bool) -> Taken {
        let Some(worker) = &dispatch.worker else { return Taken::Answers(SendOutcome::InDoubt) };
        if worker.incarnation != self.incarnation {
            return Taken::Answers(SendOutcome::NotStarted(Why::RefusedForeignIncarnation));
        }
        match self.keys.get(&dispatch.attempt) {
            Some(Known::Running { .. } | Known::Finished { .. }) => {
                return Taken::Answers(SendOutcome::Accepted { next_beat: self.beat_next });
            }
            Some(Known::Refused(why)) => return Taken::Answers(SendOutcome::NotStarted(*why)),
            None => {}
        }
        let refusal = if dispatch.epoch < self.epoch_max {
            Some(Why::RefusedStaleEpoch)
        } else if self.is_stopping {
            Some(Why::RefusedDraining)
        } else if self.capacity > 0 && self.running() >= self.capacity as usize {
            Some(Why::RefusedFull)
        } else {
            None
        };
        if let Some(why) = refusal {
            self.keys.insert(dispatch.attempt, Known::Refused(why));
            return Taken::Answers(SendOutcome::NotStarted(why));
        }
        self.epoch_max = dispatch.epoch;
        let (run, shard, no) = (dispatch.run, dispatch.shard, dispatch.no);
        self.open.insert(dispatch.attempt);
        self.keys.insert(dispatch.attempt, Known::Running { run, shard, no, is_stubborn, is_cancelled: false });
        Taken::Starts
    }

    /// A probe arrives.
    pub fn probe(&mut self, enquiry: &Enquiry) -> ProbeAnswer {
        if enquiry.incarnation != self.incarnation {
            return ProbeAnswer::ForeignIncarnation;
        }
        self.epoch_max = self.epoch_max.max(enquiry.epoch);
        match self.keys.get(&enquiry.attempt) {
            Some(Known::Running { .. }) => ProbeAnswer::Running { next_beat: self.beat_next },
            Some(Known::Finished { report, .. }) => ProbeAnswer::Finished(report.clone()),
            Some(Known::Refused(_)) => ProbeAnswer::NeverSeen,
            None => {
                self.keys.insert(enquiry.attempt, Known::Refused(Why::RefusedCancelled));
                ProbeAnswer::NeverSeen
            }
        }
    }

    /// A cancel arrives. True: the handler listens, and stops soon.
    pub fn cancel(&mut self, enquiry: &Enquiry) -> (CancelAnswer, bool) {
        if enquiry.incarnation != self.incarnation {
            return (CancelAnswer::ForeignIncarnation, false);
        }
        self.epoch_max = self.epoch_max.max(enquiry.epoch);
        match self.keys.get_mut(&enquiry.attempt) {
            Some(Known::Running { is_stubborn, is_cancelled, .. }) => {
                let stops = !*is_stubborn && !*is_cancelled;
                *is_cancelled = true;
                (CancelAnswer::Stopping { next_beat: self.beat_next }, stops)
            }
            Some(Known::Finished { report, .. }) => (CancelAnswer::Finished(report.clone()), false),
            Some(Known::Refused(_)) => (CancelAnswer::NeverSeen, false),
            None => {
                self.keys.insert(enquiry.attempt, Known::Refused(Why::RefusedCancelled));
                (CancelAnswer::NeverSeen, false)
            }
        }
    }

    /// A handler returns. False: it had returned before.
    pub fn finish(&mut self, attempt: AttemptId, outcome: Outcome) -> bool {
        let Some(Known::Running { run, shard, no, .. }) = self.keys.get(&attempt) else { return false };
        let message = Some(Arc::from(format!("{outcome:?}")));
        let report = Report { attempt, run: *run, shard: *shard, no: *no, outcome, message };
        self.keys.insert(attempt, Known::Finished { report, is_acknowledged: false });
        true
    }

    /// Results that Rota has not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> Vec<Report> {
        let open = |known: &Known| match known {
            Known::Finished { report, is_acknowledged: false } => Some(report.clone()),
            Known::Finished { .. } | Known::Running { .. } | Known::Refused(_) => None,
        };
        self.open.iter().filter_map(|id| open(&self.keys[id])).collect()
    }

    /// Rota has these results.
    pub fn acknowledge(&mut self, attempts: &[AttemptId]) {
        for attempt in attempts {
            if let Some(Known::Finished { is_acknowledged, .. }) = self.keys.get_mut(attempt) {
                *is_acknowledged = true;
                self.open.remove(attempt);
            }
        }
    }

    /// Composes the next beat.
    pub fn beat(&mut self, worker: WorkerId) -> Beat {
        let no = self.beat_next;
        self.beat_next += 1;
        let mut running = Vec::new();
        let mut finished = Vec::new();
        for attempt in &self.open {
            match &self.keys[attempt] {
                Known::Running { .. } => running.push(*attempt),
                Known::Finished { is_acknowledged: false, .. } => finished.push(*attempt),
                Known::Finished { .. } | Known::Refused(_) => {}
            }
        }
        Beat {
            worker,
            incarnation: self.incarnation,
            no,
            running,
            finished,
            capacity: Some(self.capacity),
            labels: None,
        }
    }

    /// It dies, with all that it runs and all that it has not reported. Returns what ran.
    pub fn die(&mut self) -> Vec<AttemptId> {
        self.is_alive = false;
        let runs = |id: &AttemptId| matches!(self.keys[id], Known::Running { .. });
        self.open.iter().copied().filter(runs).collect()
    }
}

/// A worker's name, with the process that stands for it.
#[derive(Debug)]
pub struct Slot {
    /// Its app.
    pub app: u32,
    /// Its name.
    pub name: String,
    /// Its id, which its name keeps.
    pub id: WorkerId,
    /// Its `disk` label.
    pub disk: &'static str,
    /// Whether it seldom answers probes and cancels.
    pub is_unreliable: bool,
    /// The process that lives, if one does.
    pub process: Option<usize>,
    /// Executions its processes can take; 0 is unlimited.
    pub capacity: u32,
}
