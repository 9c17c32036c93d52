//! Inputs and batches in few words, for stories.

use rota_core::batch::{Batch, Row};
use rota_core::partition::Input;

/// An input.
#[must_use]
pub fn short(input: &Input) -> String {
    match input {
        Input::Define { definition, expected, .. } => {
            format!(
                "define {} {:?} {:?} {:?} expected {expected:?}",
                definition.id, definition.spec.schedule, definition.spec.overlap, definition.spec.delivery
            )
        }
        other => format!("{other:?}"),
    }
}

/// The rows of a batch.
#[must_use]
pub fn rows(batch: &Batch) -> String {
    let row = |row: &Row| match row {
        Row::Run(r) => format!(
            "+{} job {} v{} {:?} {}..{} x{} {} {:?}",
            r.id,
            r.job,
            r.version,
            r.origin,
            r.slot,
            r.slot_last,
            r.slots,
            r.state.word(),
            r.why
        ),
        Row::RunSet { run, state, why, .. } => format!("{run}={} {why:?}", state.word()),
        Row::Attempt(a) => format!("+a{} {}/{}/{} on w{}.{}", a.id, a.run, a.shard, a.no, a.worker, a.incarnation),
        Row::AttemptSet(a) => {
            format!("a{}={} {:?} released {:?}", a.id, a.state.word(), a.why, a.released_at.map(|t| t.0))
        }
        Row::Definition(d) => format!("job {} v{} {:?}", d.id, d.version, d.state),
        Row::JobState { job, state, .. } => format!("job {job} {state:?}"),
        Row::Worker { worker, state } => format!("w{}.{} {}", worker.id, worker.incarnation, state.word()),
        Row::WorkerState { worker, state } => format!("w{worker} {}", state.word()),
        Row::Exception { job, exception } => format!("job {job} {exception:?}"),
        Row::Listed { run, is_open } => format!("{run} {}listed", if *is_open { "" } else { "un" }),
    };
    batch.rows.iter().map(row).collect::<Vec<_>>().join("; ")
}
