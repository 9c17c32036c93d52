//! Which runs a job has, for segments whose by-job table is not whole: pairs in memory, written by the
//! writer after each commit and read by queries.
//!
//! Invariant: once a segment is `is_whole` here, every run in its table that a reader can see is here.
//! Readers copy pointers under the lock and search outside of it, so they never hold the writer up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rota_core::id::{JobId, RunId};

/// Pairs in a chunk; only the chunk being filled is copied for a reader.
const CHUNK: usize = 4_096;

/// A pair of job and run, in twelve bytes; ordered by job, then run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Pair {
    job: u32,
    run_high: u32,
    run_low: u32,
}

impl Pair {
    pub(crate) fn new(job: JobId, run: RunId) -> Pair {
        let run_high = u32::try_from(run.0 >> 32).expect("half of 64 bits");
        let run_low = u32::try_from(run.0 & 0xffff_ffff).expect("half of 64 bits");
        Pair { job: job.0, run_high, run_low }
    }

    pub(crate) fn job(self) -> JobId {
        JobId(self.job)
    }

    pub(crate) fn run(self) -> RunId {
        RunId(u64::from(self.run_high) << 32 | u64::from(self.run_low))
    }
}

/// One segment's pairs. Cheap to clone but for its tail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs {
    is_whole: bool,
    /// What the table is being filled from.
    sorted: Arc<Vec<Pair>>,
    full: Vec<Arc<Vec<Pair>>>,
    tail: Vec<Pair>,
}

impl Pairs {
    /// Whether every run of the segment is here; if not, its table must be searched.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The newest runs of a job below an id, at most `count`, newest first.
    pub(crate) fn newest(&self, job: JobId, below: RunId, count: usize) -> Vec<RunId> {
        let first = self.sorted.partition_point(|pair| pair.job() < job);
        let sorted = self.sorted[first..].iter().take_while(|pair| pair.job() == job);
        let rest = self.full.iter().flat_map(|chunk| chunk.iter()).chain(&self.tail);
        let of_job = sorted.chain(rest.filter(|pair| pair.job() == job));
        let mut runs: Vec<RunId> = of_job.map(|pair| pair.run()).filter(|run| *run < below).collect();
        if runs.len() > count {
            runs.select_nth_unstable_by(count, |a, b| b.cmp(a));
            runs.truncate(count);
        }
        runs.sort_unstable_by(|a, b| b.cmp(a));
        runs
    }

    /// The oldest runs of a job from an id on, at most `count`, oldest first.
    pub(crate) fn oldest(&self, job: JobId, from: RunId, count: usize) -> Vec<RunId> {
        let first = self.sorted.partition_point(|pair| *pair < Pair::new(job, from));
        let sorted = self.sorted[first..].iter().take_while(|pair| pair.job() == job).take(count);
        let rest = self.full.iter().flat_map(|chunk| chunk.iter()).chain(&self.tail);
        let rest = rest.filter(|pair| pair.job() == job && pair.run() >= from);
        let mut runs: Vec<RunId> = sorted.chain(rest).map(|pair| pair.run()).collect();
        runs.sort_unstable();
        runs.truncate(count);
        runs
    }

    fn push(&mut self, pair: Pair) {
        self.tail.push(pair);
        if self.tail.len() == CHUNK {
            self.full.push(Arc::new(std::mem::replace(&mut self.tail, Vec::with_capacity(CHUNK))));
        }
    }

    /// Moves what was pushed since the last time into `sorted`; its length.
    fn sort(&mut self) -> usize {
        let pushed = self.full.len() * CHUNK + self.tail.len();
        let mut all = Vec::with_capacity(self.sorted.len() + pushed);
        all.extend_from_slice(&self.sorted);
        self.full.drain(..).for_each(|chunk| all.extend_from_slice(&chunk));
        all.append(&mut self.tail);
        all.sort_unstable();
        self.sorted = Arc::new(all);
        pushed
    }
}

/// The pairs of every segment without a whole by-job table.
#[derive(Debug)]
pub(crate) struct ByJob(Mutex<BTreeMap<u32, Pairs>>);

impl ByJob {
    /// Segments of which nothing is known yet.
    pub(crate) fn new(segments: impl Iterator<Item = u32>) -> ByJob {
        ByJob(Mutex::new(segments.map(|segment| (segment, Pairs::default())).collect()))
    }

    /// All pairs, as they are now.
    pub(crate) fn snapshot(&self) -> BTreeMap<u32, Pairs> {
        self.lock().clone()
    }

    /// A segment begins; it is empty.
    pub(crate) fn begin(&self, segment: u32) {
        self.lock().insert(segment, Pairs { is_whole: true, ..Pairs::default() });
    }

    /// Every run of the segment was pushed.
    pub(crate) fn complete(&self, segment: u32) {
        if let Some(pairs) = self.lock().get_mut(&segment) {
            pairs.is_whole = true;
        }
    }

    /// Adds pairs to a segment; ignored if its table is whole.
    pub(crate) fn push(&self, new: impl IntoIterator<Item = (u32, Pair)>) {
        let mut segments = self.lock();
        for (segment, pair) in new {
            if let Some(pairs) = segments.get_mut(&segment) {
                pairs.push(pair);
            }
        }
    }

    /// Sorts a segment's pairs for filling its table. Answers them, and how many are new.
    pub(crate) fn sort(&self, segment: u32) -> (Arc<Vec<Pair>>, usize) {
        let mut pairs = self.lock().get(&segment).cloned().unwrap_or_default();
        let pushed = pairs.sort();
        let sorted = Arc::clone(&pairs.sorted);
        // Only the writer pushes, and it is here: nothing was added meanwhile.
        self.lock().insert(segment, pairs);
        (sorted, pushed)
    }

    /// The segment's table is whole, or the segment is gone.
    pub(crate) fn forget(&self, segment: u32) {
        self.lock().remove(&segment);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Pairs>> {
        self.0.lock().expect("nothing panics while it holds this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_runs_come_first_wherever_they_lie() {
        let byjob = ByJob::new([1].into_iter());
        let pair = |job, run| (1, Pair::new(JobId(job), RunId(run)));
        byjob.push((0..6_000).map(|n| pair(n % 3, 1_000 + u64::from(n))));
        assert!(!byjob.snapshot()[&1].is_whole());
        byjob.complete(1);
        assert_eq!(byjob.sort(1).1, 6_000);
        byjob.push([pair(1, 900), pair(1, 1 << 50), pair(2, 1 << 51)]);
        let pairs = &byjob.snapshot()[&1];
        assert!(pairs.is_whole());
        let newest =
            |below, count| pairs.newest(JobId(1), RunId(below), count).iter().map(|run| run.0).collect::<Vec<_>>();
        assert_eq!(newest(u64::MAX, 3), [1 << 50, 6_998, 6_995]);
        assert_eq!(newest(1_005, 3), [1_004, 1_001, 900]);
        assert_eq!(newest(u64::MAX, 10_000).len(), 2_002);
        let oldest =
            |from, count| pairs.oldest(JobId(1), RunId(from), count).iter().map(|run| run.0).collect::<Vec<_>>();
        assert_eq!(oldest(0, 3), [900, 1_001, 1_004]);
        assert_eq!(oldest(6_996, 9), [6_998, 1 << 50]);
        let (sorted, pushed) = byjob.sort(1);
        assert_eq!(pushed, 3);
        assert!(sorted.is_sorted());
        assert_eq!(sorted[0].run(), RunId(1_000));
    }
}
