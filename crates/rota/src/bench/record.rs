//! What the workers saw: the oracle of a measurement, apart from the ledger.

use std::collections::HashMap;

/// Lateness beyond this is counted in the last place.
const LATE_MAX_MS: usize = 120_000;

/// The slots that count: at or after `from`, before `to`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

/// Starts by slot, and how late they were.
#[derive(Debug)]
pub(super) struct Record {
    span: Span,
    /// By job: its period, and how often each slot in the span was started.
    jobs: HashMap<u32, (i64, Vec<u8>)>,
    late: Vec<u32>,
    started: u64,
    late_max_ms: i64,
    /// Starts of second and later attempts.
    repeated: u64,
}

/// A record's figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub(super) struct Figures {
    /// Slots in the span.
    pub(super) due: u64,
    /// Slots that a worker started.
    pub(super) started: u64,
    /// Slots that no worker started.
    pub(super) missing: u64,
    /// Slots that were started more than once as a first attempt.
    pub(super) doubled: u64,
    /// Second and later attempts.
    pub(super) retried: u64,
    pub(super) late_p50_ms: u64,
    pub(super) late_p99_ms: u64,
    pub(super) late_max_ms: i64,
}

impl Record {
    /// A record of jobs and their periods. A job with one slot has a period that only that slot divides the span by.
    pub(super) fn new(span: Span, jobs: impl Iterator<Item = (u32, i64)>) -> Record {
        let jobs = jobs.map(|(job, period)| (job, (period, vec![0; slots_in(span, period)]))).collect();
        Record { span, jobs, late: vec![0; LATE_MAX_MS + 1], started: 0, late_max_ms: 0, repeated: 0 }
    }

    /// A start of an attempt for a slot.
    pub(super) fn start(&mut self, job: u32, slot_ms: i64, no: u32, at_ms: i64) {
        if slot_ms < self.span.from_ms || slot_ms >= self.span.to_ms {
            return;
        }
        if no > 1 {
            self.repeated += 1;
            return;
        }
        let late = at_ms - slot_ms;
        self.late[usize::try_from(late.max(0)).unwrap_or(0).min(LATE_MAX_MS)] += 1;
        self.late_max_ms = self.late_max_ms.max(late);
        self.started += 1;
        self.start_slot(job, slot_ms);
    }

    /// Counts a slot alone; says whether it is one in the span.
    fn start_slot(&mut self, job: u32, slot_ms: i64) -> bool {
        let Some(place) = self.place(job, slot_ms) else { return false };
        let (_, counts) = self.jobs.get_mut(&job).expect("it has a place");
        counts[place] = counts[place].saturating_add(1);
        true
    }

    /// Whether a worker started this slot.
    pub(super) fn has_start(&self, job: u32, slot_ms: i64) -> bool {
        self.place(job, slot_ms).is_some_and(|place| self.jobs[&job].1[place] > 0)
    }

    fn place(&self, job: u32, slot_ms: i64) -> Option<usize> {
        let (period, counts) = self.jobs.get(&job)?;
        if slot_ms < self.span.from_ms || slot_ms >= self.span.to_ms || slot_ms % period != 0 {
            return None;
        }
        let place = slot_ms.div_euclid(*period) - first_index(self.span, *period);
        usize::try_from(place).ok().filter(|place| *place < counts.len())
    }

    /// The slots that count.
    pub(super) fn span(&self) -> Span {
        self.span
    }

    /// Whether its slots count.
    pub(super) fn has_job(&self, job: u32) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Whether every slot was started.
    pub(super) fn is_complete(&self) -> bool {
        self.figures().missing == 0
    }

    /// The figures so far.
    pub(super) fn figures(&self) -> Figures {
        let counts = || self.jobs.values().flat_map(|(_, counts)| counts);
        let due = counts().count() as u64;
        let missing = counts().filter(|count| **count == 0).count() as u64;
        Figures {
            due,
            started: due - missing,
            missing,
            doubled: counts().filter(|count| **count > 1).count() as u64,
            retried: self.repeated,
            late_p50_ms: self.percentile(50),
            late_p99_ms: self.percentile(99),
            late_max_ms: self.late_max_ms,
        }
    }

    fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.started * percent).div_ceil(100);
        let mut seen = 0;
        for (ms, count) in self.late.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted && seen > 0 {
                return ms as u64;
            }
        }
        0
    }
}

/// The index of the first slot in the span; slots are the multiples of the period.
fn first_index(span: Span, period: i64) -> i64 {
    span.from_ms.div_euclid(period) + i64::from(span.from_ms.rem_euclid(period) != 0)
}

fn slots_in(span: Span, period: i64) -> usize {
    let end = span.to_ms.div_euclid(period) + i64::from(span.to_ms.rem_euclid(period) != 0);
    usize::try_from(end - first_index(span, period)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_in_their_span() {
        let span = Span { from_ms: 1_000, to_ms: 3_000 };
        let mut record = Record::new(span, [(1, 1_000), (2, 700)].into_iter());
        // Job 1 has 1000 and 2000, job 2 has 1400, 2100 and 2800.
        assert_eq!(record.figures().due, 5);
        record.start(1, 1_000, 1, 1_004);
        record.start(1, 1_000, 1, 1_005);
        record.start(1, 1_000, 2, 1_500);
        record.start(1, 3_000, 1, 3_000);
        record.start(2, 2_100, 1, 2_110);
        record.start(2, 700, 1, 2_110);
        let figures = record.figures();
        assert_eq!((figures.started, figures.missing, figures.doubled, figures.retried), (2, 3, 1, 1));
        assert_eq!((figures.late_p50_ms, figures.late_p99_ms, figures.late_max_ms), (5, 10, 10));
        assert!(!record.is_complete());
    }

    #[test]
    fn an_empty_record_has_no_lateness() {
        let record = Record::new(Span { from_ms: 0, to_ms: 1 }, std::iter::empty());
        assert_eq!(record.figures(), Figures::default());
    }
}
