//! From rows to spans.

use std::collections::BTreeMap;
use std::sync::Arc;

use rota_core::batch::{Attempt, AttemptState, Batch, Origin, Row, Run, RunState};
use rota_core::id::{JobId, RunId};
use rota_core::time::UnixMs;
use rota_core::trace::{Parent, Sampler, SpanId, TraceId};

/// Sampled runs that are followed at a time; more are not traced.
const OPEN_MAX: usize = 10_000;

/// A part of a trace that is over.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Span {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) parent: Option<SpanId>,
    /// Whether its parent is somebody else's.
    pub(super) is_remote: bool,
    pub(super) name: &'static str,
    pub(super) begin: UnixMs,
    pub(super) end: UnixMs,
    pub(super) job: JobId,
    pub(super) facts: Vec<(&'static str, Fact)>,
    /// What went wrong; none if nothing did.
    pub(super) error: Option<String>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Fact {
    Text(String),
    Number(i64),
}

/// Sampled runs that are open, and spans that wait to be taken.
pub(super) struct Spans {
    sampler: Sampler,
    open: BTreeMap<RunId, Followed>,
    over: Vec<RunId>,
    ready: Vec<Span>,
}

/// A sampled run that is open.
#[derive(Clone)]
struct Followed {
    run: Run,
    /// The span within which it was asked for.
    parent: Option<Arc<Parent>>,
}

impl Spans {
    pub(super) fn new(sampler: Sampler) -> Spans {
        Spans { sampler, open: BTreeMap::new(), over: Vec::new(), ready: Vec::new() }
    }

    /// What is over since the last call.
    pub(super) fn take(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.ready)
    }

    /// A batch has become durable.
    pub(super) fn note(&mut self, batch: &Batch) {
        // A run's own row comes before the one that says whose trace it belongs to.
        let mut parents = BTreeMap::new();
        for row in &batch.rows {
            if let Row::Trace { run, parent } = row {
                parents.insert(*run, parent);
            }
        }
        for row in &batch.rows {
            match row {
                Row::Run(run) if run.shards > 0 && self.open.len() < OPEN_MAX => {
                    let parent = parents.get(&run.id).map(|parent| Arc::clone(parent));
                    if self.sampler.takes(run.id, parent.as_deref()) {
                        self.open.insert(run.id, Followed { run: (**run).clone(), parent });
                    }
                }
                Row::AttemptSet(attempt) if attempt.state.is_terminal() => self.attempt(attempt),
                Row::RunSet { run, job: _, state, why, ended_at: Some(ended_at) } => {
                    if let Some(open) = self.open.get(run).cloned() {
                        let ended = Run { state: *state, why: *why, ended_at: Some(*ended_at), ..open.run };
                        self.run(&ended, open.parent.as_deref(), *ended_at);
                    }
                }
                Row::Run(_)
                | Row::RunSet { .. }
                | Row::Attempt(_)
                | Row::AttemptSet(_)
                | Row::Definition(_)
                | Row::JobState { .. }
                | Row::Rerun(_)
                | Row::Merged { .. }
                | Row::Child(_)
                | Row::Shards(_)
                | Row::Trace { .. }
                | Row::Freeze(_)
                | Row::Backfill(_)
                | Row::BackfillRun { .. }
                | Row::Worker { .. }
                | Row::WorkerState { .. }
                | Row::Exception { .. }
                | Row::Request { .. }
                | Row::Listed { .. } => {}
            }
        }
        // After the batch: an attempt may end in a later row than its run.
        for run in self.over.drain(..) {
            self.open.remove(&run);
        }
    }

    fn run(&mut self, run: &Run, parent: Option<&Parent>, ended_at: UnixMs) {
        self.over.push(run.id);
        let mut facts = vec![
            ("rota.run", Fact::Text(run.id.to_string())),
            ("rota.version", Fact::Number(run.version.0.into())),
            ("rota.origin", Fact::Text(run.origin.word().to_owned())),
            ("rota.slot", Fact::Text(run.slot.to_string())),
            ("rota.shards", Fact::Number(run.shards.into())),
            ("rota.state", Fact::Text(run.state.word().to_owned())),
        ];
        if run.origin == Origin::Schedule {
            facts.push(("rota.late_ms", Fact::Number(run.at.since_ms(run.slot))));
        }
        let why = run.why.map(|why| why.word().to_owned());
        facts.extend(why.clone().map(|why| ("rota.why", Fact::Text(why))));
        self.ready.push(Span {
            trace: self.sampler.trace(run.id, parent),
            span: self.sampler.run_span(run.id),
            parent: parent.map(Parent::span),
            is_remote: parent.is_some(),
            name: "run",
            begin: run.at,
            end: ended_at,
            job: run.job,
            facts,
            error: (run.state != RunState::Success).then(|| why.unwrap_or_else(|| run.state.word().to_owned())),
        });
    }

    fn attempt(&mut self, attempt: &Attempt) {
        // A late result changes an attempt that is over; its span has left already.
        let Some(Followed { run, parent }) = self.open.get(&attempt.run) else { return };
        let Some(ended_at) = attempt.ended_at else { return };
        let mut facts = vec![
            ("rota.run", Fact::Text(run.id.to_string())),
            ("rota.shard", Fact::Number(attempt.shard.into())),
            ("rota.try", Fact::Number(attempt.no.into())),
            ("rota.worker", Fact::Number(attempt.worker.0.into())),
            ("rota.state", Fact::Text(attempt.state.word().to_owned())),
        ];
        let why = attempt.why.map(|why| why.word().to_owned());
        facts.extend(why.clone().map(|why| ("rota.why", Fact::Text(why))));
        let message = attempt.message.as_ref().map(|message| message.to_string());
        let span = Span {
            trace: self.sampler.trace(run.id, parent.as_deref()),
            span: self.sampler.attempt_span(attempt.id),
            parent: Some(self.sampler.run_span(run.id)),
            is_remote: false,
            name: "attempt",
            begin: attempt.at,
            end: ended_at,
            job: run.job,
            facts,
            error: (attempt.state != AttemptState::Success)
                .then(|| message.or(why).unwrap_or_else(|| attempt.state.word().to_owned())),
        };
        if !self.ready.iter().any(|ready| ready.span == span.span) {
            self.ready.push(span);
        }
    }
}
