//! What the threads and the handles have in common.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rota_core::batch::Batch;
use rota_core::id::{AppId, PartitionId, Seq, partition_of};
use rota_core::limits;
use rota_core::partition::{Input, Snapshot};
use rota_core::time::Mono;
use rota_core::worker::App;
use rota_port::store::{Error, Reservation, Reserved};
use rota_port::tap::Tap;
use tokio::sync::oneshot;

use crate::children::Noted;
use crate::clock::Clock;
use crate::failure::{Failure, Failures};
use crate::gauges::Gauges;
use crate::ids::Reserve;
use crate::mailbox::{Mailbox, lock};
use crate::replies::Replies;
use crate::upstreams::Asked;

pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) partitions: u16,
    pub(crate) inbox: Mailbox<Arrivals>,
    pub(crate) orders: Mailbox<Orders>,
    pub(crate) asked: Mailbox<Asked>,
    pub(crate) noted: Mailbox<Noted>,
    pub(crate) replies: Replies,
    pub(crate) gauges: Gauges,
    pub(crate) tap: Arc<Tap>,
    pub(crate) failures: Failures,
    apps: RwLock<BTreeMap<AppId, PartitionId>>,
    snapshots: Mutex<Vec<Option<Arc<Snapshot>>>>,
}

/// What waits for the machines' thread. Requests are bounded by the places of their answers, outcomes
/// by credits, commits by what a machine may have in flight.
#[derive(Default)]
pub(crate) struct Arrivals {
    pub(crate) inputs: Vec<(PartitionId, Input)>,
    /// When the oldest of them came.
    pub(crate) since: Option<Mono>,
    pub(crate) fences: Vec<Fence>,
    pub(crate) reserve: Option<Reserve>,
    /// Set once: no input enters any more, and what was decided shall be durable by then.
    pub(crate) stop_by: Option<Mono>,
    /// Set once: stop now.
    pub(crate) is_aborted: bool,
}

/// A batch that the store refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) partition: PartitionId,
    pub(crate) stored: Seq,
    pub(crate) sent: Seq,
}

/// What waits for the writer. Batches are bounded by what a machine may have in flight, reservations
/// by [`limits::REQUESTS_WAITING_MAX`].
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) batches: VecDeque<Batch>,
    pub(crate) reservations: VecDeque<(Reservation, oneshot::Sender<Result<Reserved, Error>>)>,
    pub(crate) wants_reserve: bool,
    /// An operator says that the clock is right.
    pub(crate) is_clock_confirmed: bool,
    /// Set once, after the machines' thread has ended: what is here shall be durable by then.
    pub(crate) stop_by: Option<Mono>,
    /// Set once: stop now.
    pub(crate) is_aborted: bool,
}

impl Arrivals {
    /// Whether the machines take inputs; commits are heard until the end.
    fn is_open(&self) -> bool {
        self.stop_by.is_none() && !self.is_aborted
    }

    pub(crate) fn is_filled(&self) -> bool {
        !self.inputs.is_empty()
            || !self.fences.is_empty()
            || self.reserve.is_some()
            || self.stop_by.is_some()
            || self.is_aborted
    }
}

impl Orders {
    pub(crate) fn is_filled(&self) -> bool {
        !self.batches.is_empty()
            || !self.reservations.is_empty()
            || self.wants_reserve
            || self.is_clock_confirmed
            || self.stop_by.is_some()
            || self.is_aborted
    }
}

impl Shared {
    pub(crate) fn new(clock: Clock, partitions: u16) -> Shared {
        Shared {
            clock,
            partitions,
            inbox: Mailbox::new(Arrivals::default()),
            orders: Mailbox::new(Orders::default()),
            asked: Mailbox::new(Asked::default()),
            noted: Mailbox::new(Noted::default()),
            replies: Replies::new(limits::REQUESTS_WAITING_MAX),
            gauges: Gauges::new(),
            tap: Arc::default(),
            failures: Failures::new(),
            apps: RwLock::new(BTreeMap::new()),
            snapshots: Mutex::new(vec![None; usize::from(partitions)]),
        }
    }

    /// Puts inputs into the machines' inbox; false if no input enters any more.
    pub(crate) fn enter(&self, mut inputs: Vec<(PartitionId, Input)>) -> bool {
        let now = self.clock.mono();
        self.inbox.put(|arrivals| {
            if arrivals.is_open() {
                arrivals.since.get_or_insert(now);
                arrivals.inputs.append(&mut inputs);
            }
            arrivals.is_open()
        })
    }

    /// Puts what the store answered into the machines' inbox; that is heard until the end.
    pub(crate) fn answer_commits(&self, mut committed: Vec<(PartitionId, Input)>, mut fences: Vec<Fence>) {
        let now = self.clock.mono();
        self.inbox.put(|arrivals| {
            arrivals.since.get_or_insert(now);
            arrivals.inputs.append(&mut committed);
            arrivals.fences.append(&mut fences);
        });
    }

    /// Gives a new or changed app to its machine, in front of every input that comes after this.
    pub(crate) fn learn(&self, app: App) {
        let partition = self.note(&app);
        // Once the machines have stopped, the next start reads the app from the store.
        self.enter(vec![(partition, Input::App(app))]);
    }

    /// Notes where an app belongs.
    pub(crate) fn note(&self, app: &App) -> PartitionId {
        let partition = partition_of(&app.namespace, &app.name, self.partitions);
        self.apps.write().unwrap_or_else(PoisonError::into_inner).insert(app.id, partition);
        partition
    }

    pub(crate) fn partition(&self, app: AppId) -> Option<PartitionId> {
        self.apps.read().unwrap_or_else(PoisonError::into_inner).get(&app).copied()
    }

    /// Keeps what machines published; empties `published`.
    pub(crate) fn publish(&self, published: &mut Vec<Arc<Snapshot>>) {
        if published.is_empty() {
            return;
        }
        let mut snapshots = lock(&self.snapshots);
        for snapshot in published.drain(..) {
            let place = usize::from(snapshot.partition.0);
            snapshots[place] = Some(snapshot);
        }
    }

    pub(crate) fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        lock(&self.snapshots).iter().flatten().cloned().collect()
    }

    /// Reports a failure after which nothing may go on.
    pub(crate) fn fail(&self, failure: Failure) {
        self.failures.report(failure);
        self.abort();
    }

    /// Stops every thread as soon as its current call returns, and ends every wait.
    pub(crate) fn abort(&self) {
        self.inbox.put(|arrivals| arrivals.is_aborted = true);
        self.orders.put(|orders| orders.is_aborted = true);
        self.asked.put(|asked| asked.is_over = true);
        self.noted.put(|noted| noted.is_over = true);
        self.replies.close();
    }
}
