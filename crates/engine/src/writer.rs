//! The thread that owns the store: the committer, and whatever else writes.
//!
//! In every pass, in this order: ids, since machines stand still without them; one group commit;
//! some reservations; a slice of upkeep, if nothing waits or the last slice is long ago; a sweep.
//!
//! Invariants: the batches of a partition are committed in order; batches that the store could not
//! take are sent again as they are, before any other; what the store did not answer for sure ends
//! the thread, and with it the server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rota_core::batch::Batch;
use rota_core::clock::Watch;
use rota_core::id::{PartitionId, id_floor};
use rota_core::partition::Input;
use rota_core::time::{Mono, Now, UnixMs};
use rota_port::store::{Error, Outcome, Reservation, Reserved, Store};
use tokio::sync::oneshot;

use crate::clock::Sleep;
use crate::failure::Failure;
use crate::handle::stopped;
use crate::ids::{RESERVE_IDS, Reserve};
use crate::shared::{Fence, Shared};

/// Rows of one group commit, after which the next batch waits for the next one.
const COMMIT_ROWS_MAX: usize = 2_000;
/// Reservations, in one transaction, between two commits.
const RESERVATIONS_A_PASS: usize = 500;
/// While batches always wait, a slice of upkeep comes this often all the same.
const UPKEEP_LATE_MS: u64 = 50;
/// With nothing to do, the store is asked this often whether there is upkeep.
const UPKEEP_IDLE_MS: u64 = 1_000;
/// Between two sweeps.
const SWEEP_MS: u64 = 60_000;
/// The first and the longest delay before an unavailable store is tried again.
const BACKOFF_MS: (u64, u64) = (50, 2_000);

pub(crate) struct Writer {
    shared: Arc<Shared>,
    store: Box<dyn Store>,
    /// How long rows are kept.
    retention_ms: u64,
    waiting: VecDeque<Batch>,
    reservations: VecDeque<(Reservation, oneshot::Sender<Result<Reserved, Error>>)>,
    wants_reserve: bool,
    /// The group that is being committed; kept as it is until the store has answered.
    group: Vec<Batch>,
    /// While the store is not available: when it is tried again, and the delay after that.
    backoff: Option<(Mono, u64)>,
    upkeep_at: Mono,
    sweep_at: Mono,
    /// A wall clock that has jumped would spoil things for good: rows would be swept, and ids would lie in a false
    /// future ever after.
    watch: Watch,
    sleep: Sleep,
    /// Notes of ended parents of which the thread that carries them was told.
    noted: u64,
    stop_by: Option<Mono>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, store: Box<dyn Store>, retention_ms: u64) -> Writer {
        let now = shared.clock.now();
        Writer {
            store,
            retention_ms,
            waiting: VecDeque::new(),
            reservations: VecDeque::new(),
            wants_reserve: false,
            group: Vec::new(),
            backoff: None,
            upkeep_at: now.mono,
            sweep_at: now.mono.plus(SWEEP_MS),
            watch: Watch::new(now),
            sleep: Sleep::watch(&shared.clock),
            noted: 0,
            stop_by: None,
            shared,
        }
    }

    /// Runs until a stop or a failure; the store is closed when it returns.
    pub(crate) fn run(mut self) {
        loop {
            if self.take() {
                return;
            }
            let now = self.read_clock();
            if let Err(error) = self.pass(now) {
                self.shared.fail(Failure::Store(error));
                return;
            }
            if let Some(by) = self.stop_by {
                let is_done = self.group.is_empty() && self.waiting.is_empty() && self.reservations.is_empty();
                if is_done || self.shared.clock.mono() >= by {
                    if is_done && let Err(error) = self.store.end(self.watch.believed(now)) {
                        tracing::warn!(%error, "end_not_noted");
                    }
                    for (_, sender) in self.reservations {
                        let _gone = sender.send(Err(stopped()));
                    }
                    return;
                }
            }
        }
    }

    /// Takes everything that waits; true if the thread shall end now.
    fn take(&mut self) -> bool {
        let timeout = self.timeout();
        // The orders stay marked as stopped, and that shall not end every wait.
        let is_stopping = self.stop_by.is_some();
        let shared = Arc::clone(&self.shared);
        shared.orders.take(
            timeout,
            |orders| !is_stopping && orders.is_filled(),
            |orders| {
                self.waiting.append(&mut orders.batches);
                self.reservations.append(&mut orders.reservations);
                self.wants_reserve |= std::mem::take(&mut orders.wants_reserve);
                if std::mem::take(&mut orders.is_clock_confirmed) {
                    self.watch.confirm();
                }
                self.stop_by = orders.stop_by;
                orders.is_aborted
            },
        )
    }

    fn timeout(&self) -> Duration {
        let mut at = self.upkeep_at.min(self.sweep_at);
        match self.backoff {
            Some((retry_at, _)) => at = at.min(retry_at),
            None if !self.waiting.is_empty() || !self.group.is_empty() => return Duration::ZERO,
            None => {}
        }
        if let Some(by) = self.stop_by {
            at = at.min(by);
        }
        if self.reservations.is_empty() { self.shared.clock.until(at) } else { Duration::ZERO }
    }

    fn pass(&mut self, now: Now) -> Result<(), Error> {
        let may_try = self.backoff.is_none_or(|(at, _)| at <= now.mono);
        if may_try {
            self.reserve_ids(now)?;
            self.commit(now)?;
        }
        self.reserve()?;
        let now = self.read_clock();
        self.keep_house(now)
    }

    fn read_clock(&mut self) -> Now {
        let now = self.shared.clock.now();
        if let Some(ms) = self.sleep.told(&self.shared.clock) {
            self.watch.slept(ms);
        }
        self.watch.look(now);
        now
    }

    fn reserve_ids(&mut self, now: Now) -> Result<(), Error> {
        if !self.wants_reserve {
            return Ok(());
        }
        let answer = self.store.reserve_ids(id_floor(self.watch.believed(now)), RESERVE_IDS);
        if let Some(first) = self.available(answer)? {
            self.wants_reserve = false;
            let reserve = Reserve { first, at: now.mono };
            self.shared.inbox.put(|arrivals| arrivals.reserve = Some(reserve));
        }
        Ok(())
    }

    fn commit(&mut self, now: Now) -> Result<(), Error> {
        let mut rows: usize = self.group.iter().map(|batch| batch.rows.len()).sum();
        if self.group.is_empty() {
            while rows < COMMIT_ROWS_MAX
                && let Some(batch) = self.waiting.pop_front()
            {
                rows += batch.rows.len();
                self.group.push(batch);
            }
        }
        if self.group.is_empty() || self.backoff.is_some_and(|(at, _)| at > now.mono) {
            return Ok(());
        }
        let began_us = self.shared.clock.mono_us();
        let answer = self.store.commit(&self.group);
        let Some(outcomes) = self.available(answer)? else { return Ok(()) };
        self.shared.gauges.count_commit(self.shared.clock.mono_us() - began_us);
        assert_eq!(outcomes.len(), self.group.len(), "a store answers for every batch");
        let mut committed: Vec<(PartitionId, Input)> = Vec::with_capacity(outcomes.len());
        let mut fences = Vec::new();
        for (batch, outcome) in self.group.iter().zip(outcomes) {
            match outcome {
                Outcome::Applied | Outcome::Repeated => {
                    self.shared.tap.note(batch);
                    committed.push((batch.partition, Input::Committed(batch.seq)));
                }
                Outcome::Fenced { stored } => {
                    fences.push(Fence { partition: batch.partition, stored, sent: batch.seq });
                }
            }
        }
        self.shared.answer_commits(committed, fences);
        let noted = self.store.noted();
        if std::mem::replace(&mut self.noted, noted) != noted {
            self.shared.noted.put(|noted| noted.is_news = true);
        }
        // Thousands of rows take a while to drop, and what rests on them need not wait for that.
        self.group.clear();
        Ok(())
    }

    /// Reserves what waits, as one group.
    fn reserve(&mut self) -> Result<(), Error> {
        let count = RESERVATIONS_A_PASS.min(self.reservations.len());
        if count == 0 {
            return Ok(());
        }
        let (what, senders): (Vec<Reservation>, Vec<_>) = self.reservations.drain(..count).unzip();
        let answer = self.store.reserve_all(&what);
        let fatal = answer.as_ref().err().filter(|error| !is_passing(error)).cloned();
        let answers: Vec<Result<Reserved, Error>> = match answer {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error); count],
        };
        for (answer, sender) in answers.into_iter().zip(senders) {
            if let Ok(Reserved::App(app)) = &answer {
                self.shared.learn(app.clone());
            }
            // Whoever asked may have gone; the reservation stands.
            let _gone = sender.send(answer);
        }
        fatal.map_or(Ok(()), Err)
    }

    /// Upkeep and retention. An unavailable store puts them off, no more.
    fn keep_house(&mut self, now: Now) -> Result<(), Error> {
        if self.stop_by.is_some() || self.backoff.is_some() {
            // Their times are moved all the same, or they would end every wait at once.
            self.upkeep_at = self.upkeep_at.max(now.mono.plus(UPKEEP_LATE_MS));
            self.sweep_at = self.sweep_at.max(now.mono.plus(UPKEEP_LATE_MS));
            return Ok(());
        }
        let wall = self.watch.believed(now);
        let is_idle = self.waiting.is_empty() && self.shared.orders.look(|orders| orders.batches.is_empty());
        if now.mono >= self.upkeep_at && (is_idle || now.mono >= self.upkeep_at.plus(UPKEEP_LATE_MS)) {
            let has_more = put_off("upkeep", self.store.upkeep(wall))?.unwrap_or(false);
            self.upkeep_at = self.shared.clock.mono().plus(if has_more { 0 } else { UPKEEP_IDLE_MS });
        }
        if now.mono >= self.sweep_at {
            let retention_ms = i64::try_from(self.retention_ms).unwrap_or(i64::MAX);
            let before = UnixMs(wall.0.saturating_sub(retention_ms));
            let dropped = put_off("sweep", self.store.sweep(before, self.shared.gauges.floor()))?;
            if let Some(segments @ 1..) = dropped {
                tracing::info!(segments, before_ms = before.0, "segments_swept");
            }
            self.sweep_at = now.mono.plus(SWEEP_MS);
        }
        Ok(())
    }

    /// Tells whether the store answered; if it is not available, the same call is made again later,
    /// and the server's health says why until one succeeds.
    fn available<T>(&mut self, answer: Result<T, Error>) -> Result<Option<T>, Error> {
        match answer {
            Ok(value) => {
                if self.backoff.take().is_some() {
                    tracing::info!("store_available");
                    self.shared.gauges.set_store(None);
                }
                Ok(Some(value))
            }
            Err(Error::Unavailable(reason)) => {
                let delay_ms = self.backoff.map_or(BACKOFF_MS.0, |(_, delay_ms)| delay_ms);
                if self.backoff.is_none() {
                    tracing::error!(%reason, "store_unavailable");
                }
                self.backoff = Some((self.shared.clock.mono().plus(delay_ms), (delay_ms * 2).min(BACKOFF_MS.1)));
                self.shared.gauges.set_store(Some(reason));
                Ok(None)
            }
            Err(error @ (Error::Unknown(_) | Error::Corrupt(_))) => Err(error),
        }
    }
}

/// Whether the same call may succeed later and nothing is in doubt.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Unavailable(_) => true,
        Error::Unknown(_) | Error::Corrupt(_) => false,
    }
}

fn put_off<T>(what: &'static str, answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_passing(&error) => {
            tracing::warn!(what, %error, "store_upkeep_put_off");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rota_core::batch::{Loaded, Row};
    use rota_core::id::{Epoch, RunId, Seq};

    use super::*;
    use crate::clock::Clock;
    use crate::mailbox::lock;

    /// Keeps what it is asked, and is not available for the first `refusals` commits.
    #[derive(Default)]
    struct Asked {
        refusals: u32,
        commits: Vec<Vec<Batch>>,
        swept: Vec<(UnixMs, u64)>,
        slices: u32,
    }

    struct Script(Arc<Mutex<Asked>>);

    impl Store for Script {
        fn partitions(&self) -> u16 {
            2
        }
        fn begin(&mut self, _: UnixMs, _: &str, _: &str) -> Result<(), Error> {
            Ok(())
        }
        fn end(&mut self, _: UnixMs) -> Result<(), Error> {
            Ok(())
        }
        fn claim(&mut self, _: &[PartitionId]) -> Result<Vec<Loaded>, Error> {
            Ok(Vec::new())
        }
        fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
            let mut asked = lock(&self.0);
            asked.commits.push(batches.to_vec());
            if asked.refusals > 0 {
                asked.refusals -= 1;
                return Err(Error::Unavailable("no room".into()));
            }
            Ok(vec![Outcome::Applied; batches.len()])
        }
        fn noted(&self) -> u64 {
            0
        }
        fn reserve_ids(&mut self, floor: u64, _: u64) -> Result<u64, Error> {
            Ok(floor)
        }
        fn reserve_all(&mut self, what: &[Reservation]) -> Result<Vec<Reserved>, Error> {
            Ok(what.iter().map(|_| Reserved::Done).collect())
        }
        fn sweep(&mut self, before: UnixMs, floor: u64) -> Result<u32, Error> {
            lock(&self.0).swept.push((before, floor));
            Ok(0)
        }
        fn upkeep(&mut self, _: UnixMs) -> Result<bool, Error> {
            lock(&self.0).slices += 1;
            Ok(true)
        }
    }

    fn writer(asked: &Arc<Mutex<Asked>>, retention_ms: u64) -> Writer {
        let shared = Arc::new(Shared::new(Clock::start(), 2));
        Writer::new(shared, Box::new(Script(Arc::clone(asked))), retention_ms)
    }

    fn batch(seq: u64, rows: usize) -> Batch {
        let rows = vec![Row::Listed { run: RunId(1), is_open: true }; rows];
        let (at, mark) = (UnixMs(1), UnixMs(1));
        Batch { partition: PartitionId(1), epoch: Epoch(1), seq: Seq(seq), at, mark, floor: 0, rows }
    }

    fn seqs(group: &[Batch]) -> Vec<u64> {
        group.iter().map(|batch| batch.seq.0).collect()
    }

    #[test]
    fn a_refused_group_is_sent_again_as_it_is_before_any_other() {
        let asked = Arc::new(Mutex::new(Asked { refusals: 2, ..Asked::default() }));
        let mut writer = writer(&asked, 0);
        writer.waiting.extend([batch(1, 10), batch(2, 10)]);
        let mut now = writer.shared.clock.now();
        writer.pass(now).unwrap();
        assert_eq!(writer.shared.gauges.store().as_deref(), Some("no room"));
        writer.waiting.push_back(batch(3, 1));
        writer.pass(now).unwrap();
        assert_eq!(lock(&asked).commits.len(), 1, "it backs off");
        for _ in 0..3 {
            now.mono = now.mono.plus(10_000);
            writer.pass(now).unwrap();
        }
        let groups: Vec<_> = lock(&asked).commits.iter().map(|group| seqs(group)).collect();
        assert_eq!(groups, [vec![1, 2], vec![1, 2], vec![1, 2], vec![3]]);
        assert_eq!(writer.shared.gauges.store(), None);
        let committed = writer.shared.inbox.put(|arrivals| std::mem::take(&mut arrivals.inputs));
        let expected = [1, 2, 3].map(|seq| (PartitionId(1), Input::Committed(Seq(seq))));
        assert_eq!(committed, expected);
    }

    #[test]
    fn a_group_ends_at_its_bound() {
        let asked = Arc::new(Mutex::new(Asked::default()));
        let mut writer = writer(&asked, 0);
        writer.waiting.extend((1..=6).map(|seq| batch(seq, 500)));
        for _ in 0..2 {
            let now = writer.shared.clock.now();
            writer.pass(now).unwrap();
        }
        assert_eq!(seqs(&lock(&asked).commits[0]), [1, 2, 3, 4]);
        assert_eq!(seqs(&lock(&asked).commits[1]), [5, 6]);
    }

    #[test]
    fn retention_spares_what_is_open_and_upkeep_takes_its_slices_under_load() {
        let asked = Arc::new(Mutex::new(Asked::default()));
        let mut writer = writer(&asked, 1_000);
        writer.shared.gauges.set_floor(77);
        let mut now = writer.shared.clock.now();
        writer.keep_house(now).unwrap();
        assert_eq!(lock(&asked).slices, 1);
        assert_eq!(lock(&asked).swept, []);
        writer.waiting.push_back(batch(1, 1));
        writer.keep_house(now).unwrap();
        assert_eq!(lock(&asked).slices, 1, "batches come first");
        now.mono = now.mono.plus(SWEEP_MS);
        writer.keep_house(now).unwrap();
        assert_eq!(lock(&asked).slices, 2);
        assert_eq!(lock(&asked).swept, [(UnixMs(now.wall.0 - 1_000), 77)]);
    }

    #[test]
    fn nothing_is_swept_by_a_clock_that_has_jumped() {
        let asked = Arc::new(Mutex::new(Asked::default()));
        let mut writer = writer(&asked, 1_000);
        let then = writer.shared.clock.now();
        writer.sweep_at = then.mono;
        let now = Now { wall: then.wall.plus_ms(8 * 24 * 3_600_000), mono: then.mono.plus(10) };
        writer.watch.look(then);
        writer.watch.look(now);
        writer.keep_house(now).unwrap();
        assert_eq!(lock(&asked).swept, [(UnixMs(then.wall.0 - 990), 0)]);
        writer.watch.confirm();
        writer.sweep_at = now.mono;
        writer.keep_house(now).unwrap();
        assert_eq!(lock(&asked).swept[1], (UnixMs(now.wall.0 - 1_000), 0));
    }
}
