//! Which runs are traced, and under which ids. Both follow from the run's id, so that whoever meets a run comes to the
//! same answer without being told, and a run keeps its trace across a restart.
//!
//! The ids are those of W3C Trace Context. Absent on purpose: spans, clocks, and how they are sent.

use std::fmt;

use rota_cron::mix;

use crate::id::{AttemptId, RunId};

/// Runs in a million that are traced, and what sets the ids of one store apart from those of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampler {
    salt: u64,
    per_million: u32,
}

/// A trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceId(u128);

/// A span of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpanId(u64);

impl Sampler {
    /// Nothing is traced.
    pub const NONE: Sampler = Sampler { salt: 0, per_million: 0 };

    /// Traces so many runs in a million.
    #[must_use]
    pub fn new(salt: u64, per_million: u32) -> Sampler {
        Sampler { salt, per_million: per_million.min(1_000_000) }
    }

    /// Whether a run is traced.
    #[must_use]
    pub fn takes(&self, run: RunId) -> bool {
        self.per_million > 0 && self.draw(run.0, 1) % 1_000_000 < u64::from(self.per_million)
    }

    /// A run's trace.
    #[must_use]
    pub fn trace(&self, run: RunId) -> TraceId {
        // Never all zero, which no trace may be.
        TraceId(u128::from(self.draw(run.0, 2)) << 64 | u128::from(self.draw(run.0, 3) | 1))
    }

    /// The span of the run as a whole.
    #[must_use]
    pub fn run_span(&self, run: RunId) -> SpanId {
        SpanId(self.draw(run.0, 4) | 1)
    }

    /// The span of one attempt.
    #[must_use]
    pub fn attempt_span(&self, attempt: AttemptId) -> SpanId {
        SpanId(self.draw(attempt.0, 5) | 1)
    }

    /// The header `traceparent` for the call that dispatches an attempt; none if its run is not traced.
    #[must_use]
    pub fn traceparent(&self, run: RunId, attempt: AttemptId) -> Option<String> {
        self.takes(run).then(|| format!("00-{}-{}-01", self.trace(run), self.attempt_span(attempt)))
    }

    /// A number of its own for each thing that is drawn of an id; `what` counts from 1.
    fn draw(&self, id: u64, what: u64) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        mix(id.wrapping_add(self.salt).wrapping_add((what - 1).wrapping_mul(STEP)))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_which_was_asked_for() {
        for (per_million, least, most) in
            [(0, 0, 0), (10_000, 800, 1_200), (500_000, 49_000, 51_000), (1_000_000, 100_000, 100_000)]
        {
            let sampler = Sampler::new(7, per_million);
            // Ids as they are given out: one after the other.
            let taken = (0..100_000).filter(|id| sampler.takes(RunId((1 << 47) + id))).count();
            assert!((least..=most).contains(&taken), "{per_million}: {taken}");
        }
    }

    #[test]
    fn a_header_names_the_trace_of_the_run_and_the_span_of_the_attempt() {
        let sampler = Sampler::new(7, 1_000_000);
        let header = sampler.traceparent(RunId(5), AttemptId(6)).unwrap();
        let parts: Vec<&str> = header.split('-').collect();
        assert_eq!(
            parts,
            ["00", &sampler.trace(RunId(5)).to_string(), &sampler.attempt_span(AttemptId(6)).to_string(), "01"]
        );
        assert_eq!((parts[1].len(), parts[2].len()), (32, 16));
        assert_eq!(Sampler::NONE.traceparent(RunId(5), AttemptId(6)), None);
    }

    #[test]
    fn ids_differ_between_stores_and_between_what_they_name() {
        let (a, b) = (Sampler::new(1, 1_000_000), Sampler::new(2, 1_000_000));
        assert_ne!(a.trace(RunId(5)), b.trace(RunId(5)));
        assert_ne!(a.run_span(RunId(5)), a.attempt_span(AttemptId(5)), "the first attempt has the id of its run");
    }
}
