//! Which runs are traced, and under which ids. Both follow from the run's id, so that whoever meets a run comes to the
//! same answer without being told, and a run keeps its trace across a restart. Only a run that was asked for within a
//! trace goes by what it was told: it belongs to that trace, and is sampled as that is.
//!
//! The ids are those of W3C Trace Context. Absent on purpose: spans, clocks, how they are sent, and `tracestate`.

use std::fmt;

use rota_cron::mix;

use crate::id::{AttemptId, RunId};

/// Runs in a million that are traced, and what sets the ids of one store apart from those of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampler {
    salt: u64,
    per_million: u32,
    /// Whether spans go anywhere.
    is_on: bool,
}

/// The span within which a run was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parent {
    trace: TraceId,
    span: SpanId,
    is_sampled: bool,
}

impl Parent {
    /// Reads a header `traceparent`. None for what W3C Trace Context says is to be ignored. What a version above 00 adds
    /// is dropped, and so are all flags but `sampled`.
    #[must_use]
    pub fn parse(header: &str) -> Option<Parent> {
        const LENGTH: usize = 55;
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let (known, rest) = header.split_at_checked(LENGTH)?;
        let mut parts = known.split('-');
        let mut part = |length: usize| parts.next().filter(|part| part.len() == length && is_hex(part));
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let is_odd = match version {
            "ff" => true,
            "00" => !rest.is_empty(),
            _ => !(rest.is_empty() || rest.starts_with('-')),
        };
        let trace = TraceId(u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?);
        let span = SpanId(u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?);
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        (!is_odd).then_some(Parent { trace, span, is_sampled })
    }

    /// Its trace.
    #[must_use]
    pub fn trace(&self) -> TraceId {
        self.trace
    }

    /// The span itself.
    #[must_use]
    pub fn span(&self) -> SpanId {
        self.span
    }
}

/// As the header has it.
impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-0{}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// A trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceId(u128);

/// A span of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpanId(u64);

impl Sampler {
    /// Nothing is traced.
    pub const NONE: Sampler = Sampler { salt: 0, per_million: 0, is_on: false };

    /// Traces so many runs in a million.
    #[must_use]
    pub fn new(salt: u64, per_million: u32) -> Sampler {
        Sampler { salt, per_million: per_million.min(1_000_000), is_on: true }
    }

    /// Whether a run is traced.
    #[must_use]
    pub fn takes(&self, run: RunId, parent: Option<&Parent>) -> bool {
        match parent {
            Some(parent) => self.is_on && parent.is_sampled,
            None => self.per_million > 0 && self.draw(run.0, 1) % 1_000_000 < u64::from(self.per_million),
        }
    }

    /// A run's trace.
    #[must_use]
    pub fn trace(&self, run: RunId, parent: Option<&Parent>) -> TraceId {
        // Never all zero, which no trace may be.
        let own = || TraceId(u128::from(self.draw(run.0, 2)) << 64 | u128::from(self.draw(run.0, 3) | 1));
        parent.map_or_else(own, |parent| parent.trace)
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

    /// The header `traceparent` for the call that dispatches an attempt; none if its run is in no trace. If no span is
    /// made of the attempt, what the call causes hangs below the span within which the run was asked for.
    #[must_use]
    pub fn traceparent(&self, run: RunId, attempt: AttemptId, parent: Option<&Parent>) -> Option<String> {
        if self.takes(run, parent) {
            return Some(format!("00-{}-{}-01", self.trace(run, parent), self.attempt_span(attempt)));
        }
        parent.map(Parent::to_string)
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
            let taken = (0..100_000).filter(|id| sampler.takes(RunId((1 << 47) + id), None)).count();
            assert!((least..=most).contains(&taken), "{per_million}: {taken}");
        }
    }

    #[test]
    fn a_header_names_the_trace_of_the_run_and_the_span_of_the_attempt() {
        let sampler = Sampler::new(7, 1_000_000);
        let header = sampler.traceparent(RunId(5), AttemptId(6), None).unwrap();
        let parts: Vec<&str> = header.split('-').collect();
        assert_eq!(
            parts,
            ["00", &sampler.trace(RunId(5), None).to_string(), &sampler.attempt_span(AttemptId(6)).to_string(), "01"]
        );
        assert_eq!((parts[1].len(), parts[2].len()), (32, 16));
        assert_eq!(Sampler::NONE.traceparent(RunId(5), AttemptId(6), None), None);
    }

    #[test]
    fn a_run_that_was_asked_for_within_a_trace_stays_in_it_and_is_sampled_as_that_is() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let sampled = Parent::parse(&format!("00-{trace}-{span}-01")).unwrap();
        let plain = Parent::parse(&format!("00-{trace}-{span}-00")).unwrap();
        let header = |sampler: Sampler, parent| sampler.traceparent(RunId(5), AttemptId(6), Some(parent));
        for sampler in [Sampler::new(7, 0), Sampler::new(7, 1_000_000)] {
            let own = format!("00-{trace}-{}-01", sampler.attempt_span(AttemptId(6)));
            assert_eq!(header(sampler, &sampled), Some(own));
            assert_eq!(header(sampler, &plain), Some(format!("00-{trace}-{span}-00")));
        }
        assert_eq!(header(Sampler::NONE, &sampled), Some(format!("00-{trace}-{span}-01")), "no spans are made");
    }

    #[test]
    fn headers_are_read_as_the_standard_says() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        const SPAN: &str = "00f067aa0ba902b7";
        let read = |header: &str| Parent::parse(header).map(|parent| parent.to_string());
        for (version, flags, rest, sampled) in
            [("00", "01", "", "01"), ("00", "00", "", "00"), ("00", "fe", "", "00"), ("cc", "03", "-more", "01")]
        {
            let header = format!("{version}-{TRACE}-{SPAN}-{flags}{rest}");
            assert_eq!(read(&header), Some(format!("00-{TRACE}-{SPAN}-{sampled}")), "{header}");
        }
        let upper = TRACE.to_uppercase();
        for header in [
            String::new(),
            "00".to_owned(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("01-{TRACE}-{SPAN}-01.more"),
            format!("00-{upper}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{SPAN}-0x"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-+{}-01", &SPAN[1..]),
            format!("00-{TRACE}{SPAN}--01x"),
            "ü".repeat(28),
        ] {
            assert_eq!(read(&header), None, "{header}");
        }
    }

    #[test]
    fn ids_differ_between_stores_and_between_what_they_name() {
        let (a, b) = (Sampler::new(1, 1_000_000), Sampler::new(2, 1_000_000));
        assert_ne!(a.trace(RunId(5), None), b.trace(RunId(5), None));
        assert_ne!(a.run_span(RunId(5)), a.attempt_span(AttemptId(5)), "the first attempt has the id of its run");
    }
}
