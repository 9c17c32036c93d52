//! Numbers that the threads keep for those who look from outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rota_core::rate::Bucket;
use rota_core::time::Mono;
use rota_port::intake::COMMIT_BOUNDS_MS;

use crate::mailbox::lock;

/// Every number stands for itself, so relaxed order is enough; the floor is one value too.
pub(crate) struct Gauges {
    is_busy: AtomicBool,
    round_at: AtomicU64,
    floor: AtomicU64,
    store: Mutex<Option<Arc<str>>>,
    bucket: Mutex<Option<Bucket>>,
    commits: [AtomicU64; COMMIT_BOUNDS_MS.len() + 1],
    commit_us: AtomicU64,
}

impl Gauges {
    pub(crate) fn new() -> Gauges {
        Gauges {
            is_busy: AtomicBool::new(false),
            round_at: AtomicU64::new(0),
            // Until the machines have said what is open, everything is.
            floor: AtomicU64::new(0),
            store: Mutex::new(None),
            bucket: Mutex::new(None),
            commits: Default::default(),
            commit_us: AtomicU64::new(0),
        }
    }

    pub(crate) fn begin_round(&self, now: Mono) {
        self.round_at.store(now.0, Ordering::Relaxed);
        self.is_busy.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end_round(&self) {
        self.is_busy.store(false, Ordering::Relaxed);
    }

    /// Milliseconds without a step although input waits: since the round began that is still under
    /// way, or since the oldest input came that no round has taken.
    pub(crate) fn stalled_ms(&self, oldest_waiting: Option<Mono>, now: Mono) -> u64 {
        let round_at = Mono(self.round_at.load(Ordering::Relaxed));
        if self.is_busy.load(Ordering::Relaxed) {
            return now.since(round_at);
        }
        oldest_waiting.map_or(0, |since| now.since(since.max(round_at)))
    }

    pub(crate) fn set_floor(&self, floor: u64) {
        self.floor.store(floor, Ordering::Relaxed);
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Relaxed)
    }

    pub(crate) fn set_store(&self, why_not: Option<Arc<str>>) {
        *lock(&self.store) = why_not;
    }

    pub(crate) fn store(&self) -> Option<Arc<str>> {
        lock(&self.store).clone()
    }

    /// What the server's rate has left.
    pub(crate) fn set_bucket(&self, bucket: Option<Bucket>) {
        *lock(&self.bucket) = bucket;
    }

    pub(crate) fn bucket(&self) -> Option<Bucket> {
        *lock(&self.bucket)
    }

    pub(crate) fn count_commit(&self, us: u64) {
        let bucket = COMMIT_BOUNDS_MS.iter().position(|ms| us <= ms * 1_000).unwrap_or(COMMIT_BOUNDS_MS.len());
        self.commits[bucket].fetch_add(1, Ordering::Relaxed);
        self.commit_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(crate) fn commits(&self) -> ([u64; COMMIT_BOUNDS_MS.len() + 1], u64) {
        (std::array::from_fn(|i| self.commits[i].load(Ordering::Relaxed)), self.commit_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_counts_from_the_input_or_from_the_round_that_hangs() {
        let gauges = Gauges::new();
        assert_eq!(gauges.stalled_ms(None, Mono(5_000)), 0, "idle is no stall");
        assert_eq!(gauges.stalled_ms(Some(Mono(4_000)), Mono(5_000)), 1_000);
        gauges.begin_round(Mono(5_000));
        assert_eq!(gauges.stalled_ms(None, Mono(5_300)), 300);
        gauges.end_round();
        assert_eq!(gauges.stalled_ms(None, Mono(9_000)), 0);
    }

    #[test]
    fn a_commit_falls_into_the_bucket_of_its_bound() {
        let gauges = Gauges::new();
        for us in [1, 1_000, 1_001, 6_000_000] {
            gauges.count_commit(us);
        }
        let (commits, us) = gauges.commits();
        assert_eq!((commits[0], commits[1], commits[COMMIT_BOUNDS_MS.len()]), (2, 1, 1));
        assert_eq!(us, 6_002_002);
    }
}
