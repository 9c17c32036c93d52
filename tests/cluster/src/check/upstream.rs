//! A run of a job with upstream jobs implies that these had ended, durably and as was asked; a slot that they skipped
//! implies that they had not.
//!
//! The judgement here is another one than the machine's: it looks for the runs of the same instant alone, and says
//! nothing of what only their absence could show.

use rota_core::batch::{Origin, Run, RunState};
use rota_core::upstream::{Edge, OnSkip, Period};
use rota_core::why::Why;

use super::{Rule, Verdict};
use crate::store::{Changes, Part, Store};
use crate::upstream::{part_of, reruns, stands_for};

/// Looks at the rows of a batch that was just applied.
pub fn applied(store: &Store, part: &Part, changes: &Changes) -> Verdict {
    for id in &changes.runs_new {
        let run = &part.runs[id].run;
        let spec = &part.jobs[&run.job].versions[&run.version].spec;
        if run.origin != Origin::Schedule || spec.after.is_empty() {
            continue;
        }
        for edge in &spec.after {
            look(store, run, edge, spec.after.len() == 1)?;
        }
    }
    Ok(())
}

fn look(store: &Store, run: &Run, edge: &Edge, is_alone: bool) -> Verdict {
    if edge.period != Period::SameSlot || edge.on_skip != OnSkip::Skip {
        return Ok(());
    }
    let found = part_of(store, edge.job).and_then(|(_, part)| {
        let rows = part.runs.values().map(|row| &row.run);
        let mut rows = rows.filter(|row| row.job == edge.job && row.origin == Origin::Schedule && row.slot == run.slot);
        let row = stands_for(part, rows.next()?);
        // What was discarded while it waited is no run.
        (row.shards > 0 && row.state != RunState::Discarded).then_some((part, row))
    });
    let ends: Vec<RunState> =
        found.map_or_else(Vec::new, |(part, row)| [row.state].into_iter().chain(reruns(part, row.id)).collect());
    let is_good = ends.iter().any(|end| edge.asks_for(*end));
    let what =
        format!("slot {} of job {} and its upstream job {}, whose runs are {ends:?}", run.slot, run.job, edge.job);
    if run.shards > 0 && !is_good {
        return Err(Rule::Upstream.broken(format!("fired: {what}")));
    }
    let is_open = ends.iter().any(|end| !end.is_terminal());
    let is_hasty = match run.why {
        Some(Why::UpstreamFailed) => is_good || is_open,
        Some(Why::UpstreamSkipped | Why::UpstreamUnknown) => !ends.is_empty(),
        _ => false,
    };
    if run.slots == 1 && is_alone && is_hasty {
        return Err(Rule::Upstream.broken(format!("skipped: {what}")));
    }
    Ok(())
}
