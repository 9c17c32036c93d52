//! Neighbouring rows that look alike, written by one statement.
//!
//! Statements take groups of two fixed sizes, so that they stay prepared; what is left over, and
//! whatever looks different, goes row by row. A group says the same as its rows one by one: where a
//! statement finds less than it should, the rows are taken one by one after it.

use rota_core::batch::{Batch, Row};
use rota_core::job::JobState;
use rota_core::time::UnixMs;
use rota_port::store::Error;
use rusqlite::ToSql;

use crate::byjob::Pair;
use crate::codec;
use crate::commit::{RunSet, Writer};
use crate::failure::of;
use crate::plain;
use crate::segment::Hot;

/// The sizes of groups, largest first.
const SIZES: [usize; 2] = [Hot::GROUP_LARGE, Hot::GROUP_SMALL];

fn size_for(count: usize) -> Option<usize> {
    SIZES.into_iter().find(|size| count >= *size)
}

impl Writer<'_> {
    /// Writes a group, if one begins here; the number of its rows.
    pub(crate) fn group(&mut self, batch: &Batch, rows: &[Row]) -> Result<usize, Error> {
        match &rows[0] {
            Row::Run(_) => self.begin_runs(rows),
            Row::AttemptSet(_) => self.end_runs(rows),
            Row::Exception { exception: None, .. } => self.drop_exceptions(rows),
            Row::JobState { state: JobState::Finished, at, by, reason: None, .. } => {
                self.finish_jobs(batch, rows, (*at, by))
            }
            Row::RunSet { .. }
            | Row::Attempt(_)
            | Row::Definition(_)
            | Row::JobState { .. }
            | Row::Worker { .. }
            | Row::WorkerState { .. }
            | Row::Exception { .. }
            | Row::Request { .. }
            | Row::Rerun(_)
            | Row::Merged { .. }
            | Row::Child(_)
            | Row::Shards(_)
            | Row::Trace { .. }
            | Row::Freeze(_)
            | Row::Backfill(_)
            | Row::BackfillRun { .. }
            | Row::Listed { .. } => Ok(0),
        }
    }

    /// Plain runs. Late ones go to older segments, which have more to keep in step, one by one.
    fn begin_runs(&mut self, rows: &[Row]) -> Result<usize, Error> {
        let Some((common, ..)) = plain::begun(rows) else { return Ok(0) };
        let at = self.store.segments.len() - 1;
        let (segment, start) = (self.store.segments[at].id, self.store.segments[at].start);
        let fits =
            |pair: &&[Row]| plain::begun(pair).is_some_and(|(other, run, _)| other == common && run.id.0 >= start);
        let Some(size) = size_for(rows.chunks(2).take(Hot::GROUP_LARGE).take_while(fits).count()) else {
            return Ok(0);
        };
        let runs = || rows.chunks(2).filter_map(plain::begun).take(size);
        let hot = if size == Hot::GROUP_LARGE { Hot::InsertMany } else { Hot::InsertSome };
        let statement = self.hot(at, hot)?;
        let mut bind = |place: usize, value: i64| statement.raw_bind_parameter(place, value).map_err(of);
        bind(1, i64::from(common.app.0))?;
        bind(2, common.at.0)?;
        bind(3, codec::instant(None, common.at))?;
        for (n, (_, run, first)) in runs().enumerate() {
            let place = 4 + 6 * n;
            bind(place, run.id.0.cast_signed())?;
            bind(place + 1, i64::from(run.job.0))?;
            bind(place + 2, i64::from(run.version.0))?;
            bind(place + 3, run.slot.0)?;
            bind(place + 4, i64::from(first.worker.0))?;
            bind(place + 5, first.incarnation.0.cast_signed())?;
        }
        statement.raw_execute().map_err(of)?;
        for (_, run, _) in runs() {
            let tally = self.tally(at);
            // Above `upto`, whoever counts comes across it in the file.
            if run.id.0 <= tally.upto {
                tally.add(None);
                self.changes.pairs.push((segment, Pair::new(run.job, run.id)));
            }
        }
        Ok(2 * size)
    }

    /// Plain ends.
    fn end_runs(&mut self, rows: &[Row]) -> Result<usize, Error> {
        let Some((common, first)) = plain::ended(rows) else { return Ok(0) };
        let at = self.segment_of(first);
        if !self.tally(at).is_whole() {
            // It matters which of the runs are counted already.
            return Ok(0);
        }
        let fits = |pair: &&[Row]| {
            plain::ended(pair).is_some_and(|(other, run)| other == common && self.segment_of(run) == at)
        };
        let Some(size) = size_for(rows.chunks(2).take(Hot::GROUP_LARGE).take_while(fits).count()) else {
            return Ok(0);
        };
        let hot = if size == Hot::GROUP_LARGE { Hot::EndMany } else { Hot::EndSome };
        let statement = self.hot(at, hot)?;
        statement.raw_bind_parameter(1, codec::set_instant(Some(common.at))).map_err(of)?;
        for (n, (_, run)) in rows.chunks(2).filter_map(plain::ended).take(size).enumerate() {
            statement.raw_bind_parameter(2 + n, run.0.cast_signed()).map_err(of)?;
        }
        let changed = statement.raw_execute().map_err(of)?;
        let tally = self.tally(at);
        tally.open = tally.open.checked_sub(changed as u64).expect("a counted run was open until now");
        if changed > 0 {
            tally.ended_max = tally.ended_max.max(common.at);
        }
        if changed < size {
            // Some had ended before, or have no attempt, or are named twice. Those that were set are set
            // again to the same, and are no longer open, so none is counted twice.
            for pair in rows.chunks(2).take(size) {
                if let [Row::AttemptSet(attempt), next] = pair
                    && let Some(set) = RunSet::of(next)
                {
                    self.set_both(attempt, set)?;
                }
            }
        }
        Ok(2 * size)
    }

    /// Exceptions that go.
    fn drop_exceptions(&mut self, rows: &[Row]) -> Result<usize, Error> {
        let jobs: Vec<u32> = rows
            .iter()
            .take(Hot::GROUP_LARGE)
            .map_while(|row| if let Row::Exception { job, exception: None } = row { Some(job.0) } else { None })
            .collect();
        let Some(size) = size_for(jobs.len()) else { return Ok(0) };
        self.cold(&format!("DELETE FROM exception WHERE job IN ({})", places(size)), &values(&jobs[..size]))?;
        Ok(size)
    }

    /// Jobs that finish at the same moment: one-shot jobs that fire together do.
    fn finish_jobs(&mut self, batch: &Batch, rows: &[Row], same: (UnixMs, &str)) -> Result<usize, Error> {
        let jobs: Vec<u32> = rows
            .iter()
            .take(Hot::GROUP_LARGE)
            .map_while(|row| {
                let Row::JobState { job, state: JobState::Finished, at, by, reason: None } = row else { return None };
                ((*at, &**by) == same).then_some(job.0)
            })
            .collect();
        let Some(size) = size_for(jobs.len()) else { return Ok(0) };
        let (state, at, by) = (codec::job_state(JobState::Finished), same.0.0, same.1);
        let ids = values(&jobs[..size]);
        let with_state: Vec<&dyn ToSql> = ids.iter().copied().chain([&state as &dyn ToSql]).collect();
        let (places, last) = (places(size), size + 1);
        let changed = self.cold(&format!("UPDATE job SET state = ?{last} WHERE id IN ({places})"), &with_state)?;
        if changed < size {
            // One is missing, or named twice.
            rows[..size].iter().try_for_each(|row| self.row(batch, row))?;
            return Ok(size);
        }
        let current = format!(
            "UPDATE definition SET state = ?{last}, pause_by = NULL, pause_at = NULL, pause_reason = NULL \
             WHERE key IN (SELECT (id << 32) + version FROM job WHERE id IN ({places}))"
        );
        self.cold(&current, &with_state)?;
        let all: Vec<&dyn ToSql> = with_state.iter().copied().chain([&at as &dyn ToSql, &by]).collect();
        let history: Vec<String> =
            (1..=size).map(|n| format!("(?{n},?{},?{},?{})", last, last + 1, last + 2)).collect();
        let history = format!("INSERT INTO job_state (job, state, at, by) VALUES {}", history.join(","));
        self.cold(&history, &all)?;
        Ok(size)
    }
}

fn places(count: usize) -> String {
    (1..=count).map(|n| format!("?{n}")).collect::<Vec<_>>().join(",")
}

fn values(jobs: &[u32]) -> Vec<&dyn ToSql> {
    jobs.iter().map(|job| job as &dyn ToSql).collect()
}
