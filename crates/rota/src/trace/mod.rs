//! Traces of sampled runs, as OpenTelemetry has them: a span for the run, and below it one for each attempt.
//!
//! They are read off what becomes durable: whatever is traced has happened, and deciding costs nothing. A run that was
//! open when the server started is traced from then on only by its calls, which carry `traceparent` all the same.
//!
//! Invariants: a server never waits for whoever collects spans; what is not taken in time is dropped, and counted in the
//! log. Absent on purpose: the crates of OpenTelemetry, which would be as many again as all of ours for one POST.

mod encode;
mod export;
mod spans;

use rota_core::batch::{Batch, Loaded};
use rota_core::id::PartitionId;
use rota_core::time::UnixMs;
use rota_core::trace::Sampler;
use rota_port::store::{Error, Outcome, Reservation, Reserved, Store};

pub(crate) use export::{Collector, Exporter};

use spans::Spans;

/// A store that tells of sampled runs what has become durable.
pub(crate) struct Traced {
    inner: Box<dyn Store>,
    spans: Spans,
    exporter: Exporter,
}

impl Traced {
    pub(crate) fn new(inner: Box<dyn Store>, sampler: Sampler, exporter: Exporter) -> Traced {
        Traced { inner, spans: Spans::new(sampler), exporter }
    }
}

impl Store for Traced {
    fn partitions(&self) -> u16 {
        self.inner.partitions()
    }

    fn begin(&mut self, at: UnixMs, version: &str, tzdb: &str) -> Result<(), Error> {
        self.inner.begin(at, version, tzdb)
    }

    fn end(&mut self, at: UnixMs) -> Result<(), Error> {
        self.inner.end(at)
    }

    fn claim(&mut self, partitions: &[PartitionId]) -> Result<Vec<Loaded>, Error> {
        self.inner.claim(partitions)
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        let outcomes = self.inner.commit(batches)?;
        for (batch, outcome) in batches.iter().zip(&outcomes) {
            if *outcome == Outcome::Applied {
                self.spans.note(batch);
            }
        }
        self.exporter.send(self.spans.take());
        Ok(outcomes)
    }

    fn noted(&self) -> u64 {
        self.inner.noted()
    }

    fn reserve_ids(&mut self, floor: u64, count: u64) -> Result<u64, Error> {
        self.inner.reserve_ids(floor, count)
    }

    fn reserve_all(&mut self, what: &[Reservation]) -> Result<Vec<Reserved>, Error> {
        self.inner.reserve_all(what)
    }

    fn sweep(&mut self, before: UnixMs, floor: u64) -> Result<u32, Error> {
        self.inner.sweep(before, floor)
    }

    fn upkeep(&mut self, now: UnixMs) -> Result<bool, Error> {
        self.inner.upkeep(now)
    }
}
