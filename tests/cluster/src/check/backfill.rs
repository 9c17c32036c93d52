//! Backfills: each slot of a range has exactly one run, in order, and no other instant has one; where a backfill says that it
//! stands is where its rows end, in every batch. The expected slots are listed one by one from the version that was asked for.

use std::collections::{BTreeMap, BTreeSet};

use rota_core::backfill::{Backfill, End};
use rota_core::batch::{Origin, Run};
use rota_core::id::{BackfillId, Epoch, PartitionId};
use rota_core::job::JobState;
use rota_core::time::UnixMs;

use super::{Rule, Verdict};
use crate::store::{Changes, Part};

/// What is known of a backfill beside its row.
#[derive(Debug)]
struct Known {
    /// The slots that it has to run.
    slots: Vec<UnixMs>,
    /// How many of them have a row.
    rows: usize,
    /// The term in which the last was made, and when.
    last: Option<(Epoch, i64)>,
    first: Backfill,
}

/// Every backfill that was ever asked for.
#[derive(Debug)]
pub struct Backfills {
    all: BTreeMap<BackfillId, Known>,
    /// Wall clocks are stepped: what rows say of instants proves nothing.
    is_blind: bool,
}

fn broken(text: String) -> Verdict {
    Err(Rule::Backfill.broken(text))
}

impl Backfills {
    /// Checks paces unless wall clocks are stepped.
    #[must_use]
    pub fn new(is_blind: bool) -> Backfills {
        Backfills { all: BTreeMap::new(), is_blind }
    }

    /// Checks a batch that has just been applied.
    pub fn applied(&mut self, part: &Part, changes: &Changes) -> Verdict {
        let mut touched: BTreeSet<BackfillId> = changes.backfills.iter().copied().collect();
        for id in &changes.backfills {
            self.ordered(part, &part.backfills[id])?;
        }
        for run in &changes.runs_new {
            let run = &part.runs[run].run;
            match (run.origin, part.backfill_runs.get(&run.id)) {
                (Origin::Backfill, Some(backfill)) => {
                    touched.insert(*backfill);
                    self.made(part, run, *backfill)?;
                }
                (Origin::Backfill, None) => return broken(format!("{} belongs to no backfill", run.id)),
                (_, Some(backfill)) => return broken(format!("{} is no run of backfill {backfill}", run.id)),
                (_, None) => {}
            }
        }
        for id in touched {
            self.stands(part, id)?;
        }
        Ok(())
    }

    /// A backfill is seen for the first time, or again: what was asked for stays.
    fn ordered(&mut self, part: &Part, row: &Backfill) -> Verdict {
        if let Some(known) = self.all.get(&row.id) {
            let (next, made, made_at, end) = (row.next, row.made, row.made_at, row.end.clone());
            let asked = Backfill { next, made, made_at, end, ..known.first.clone() };
            return if asked == *row { Ok(()) } else { broken(format!("{row:?} was asked for as {asked:?}")) };
        }
        let job = &part.jobs[&row.job];
        let compiled = job.versions[&row.version].compile().ok();
        let schedule = compiled.and_then(|job| job.schedule);
        let Some(schedule) = schedule else { return broken(format!("{row:?} is of a version without slots")) };
        let slots: Vec<UnixMs> = schedule.between(UnixMs(row.from.0 - 1), UnixMs(row.to.0 - 1)).collect();
        if slots.len() as u64 != row.total || row.to > row.at {
            return broken(format!("{row:?} has the slots {slots:?}"));
        }
        self.all.insert(row.id, Known { slots, rows: 0, last: None, first: row.clone() });
        Ok(())
    }

    /// A run of a backfill was made.
    fn made(&mut self, part: &Part, run: &Run, id: BackfillId) -> Verdict {
        let is_blind = self.is_blind;
        let Some(known) = self.all.get_mut(&id) else { return broken(format!("{} is of no backfill", run.id)) };
        let expected = known.slots.get(known.rows);
        if expected != Some(&run.slot) || run.slot_last != run.slot || run.slots != 1 || run.shards == 0 {
            return broken(format!("{} of backfill {id} runs {}, expected {expected:?}", run.id, run.slot));
        }
        if (run.job, run.version) != (known.first.job, known.first.version) {
            return broken(format!("{} of backfill {id} is of job {} v{}", run.id, run.job, run.version));
        }
        known.rows += 1;
        let interval_ms = known.first.pace.interval_ms() as i64;
        let last = known.last.replace((part.epoch, run.at.0));
        if let Some((epoch, at)) = last
            && epoch == part.epoch
            && !is_blind
            && interval_ms >= 100
            && run.at.0 - at < interval_ms - interval_ms / 20 - 5
        {
            return broken(format!("{} of backfill {id} comes {} ms after the one before", run.id, run.at.0 - at));
        }
        Ok(())
    }

    /// Where a backfill stands after a batch.
    fn stands(&self, part: &Part, id: BackfillId) -> Verdict {
        let (row, known) = (&part.backfills[&id], &self.all[&id]);
        if row.made != known.rows as u64 || row.next != known.slots.get(known.rows).copied() {
            let text = format!("backfill {id} stands at {:?} with {} made", row.next, row.made);
            return broken(format!("{text}, and has {} rows of {:?}", known.rows, known.slots));
        }
        let own = |run: &&rota_core::id::RunId| part.backfill_runs.get(run) == Some(&id);
        let open = part.unclosed.get(&row.job).map_or(0, |unclosed| unclosed.iter().filter(own).count());
        if row.parallel.is_some_and(|most| open > most as usize) {
            return broken(format!("{open} runs of backfill {id} are open, at most {:?} may be", row.parallel));
        }
        match &row.end {
            Some(End::Done { .. }) if row.next.is_some() || open > 0 => {
                broken(format!("backfill {id} is done, stands at {:?}, and {open} of its runs are open", row.next))
            }
            None if part.jobs[&row.job].current.state == JobState::Deleted => {
                broken(format!("backfill {id} goes on, and its job is deleted"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// In a healed cluster, a backfill that waits for its pace alone has made a run of late.
    pub fn check_on_time(
        &self,
        partition: PartitionId,
        part: &Part,
        waits: impl Fn(BackfillId) -> bool,
        wall_ms: i64,
        slack_ms: i64,
    ) -> Verdict {
        for (id, row) in part.backfills.iter().filter(|(_, row)| row.is_open() && row.next.is_some()) {
            let known = &self.all[id];
            let since_ms = wall_ms - known.last.map_or(row.at.0, |(_, at)| at);
            let interval_ms = row.pace.interval_ms() as i64;
            if waits(*id) && since_ms > 2 * interval_ms + slack_ms + 45_000 {
                return broken(format!("backfill {id} of partition {partition} has made no run for {since_ms} ms"));
            }
        }
        Ok(())
    }
}
