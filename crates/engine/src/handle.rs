//! The way in: requests with answers, outcomes of calls, and looks from outside.

use std::sync::Arc;

use rota_core::id::{AppId, PartitionId};
use rota_core::limits;
use rota_core::partition::{Input, ReplyTo, Snapshot};
use rota_port::executor::Outcomes;
use rota_port::intake::{Health, Intake, Refused, Waiting};
use rota_port::store::{Error, Reservation, Reserved};
use rota_port::tap::Tap;
use tokio::sync::oneshot;

use crate::shared::Shared;

/// A server's machines, seen from its other parts. Copies are cheap and stay valid after a stop:
/// everything is refused then.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Handle {
        Handle { shared }
    }

    fn admit(
        &self,
        partition: PartitionId,
        make: Box<dyn FnOnce(ReplyTo) -> Input + Send>,
    ) -> Result<oneshot::Receiver<rota_core::partition::Answer>, Refused> {
        if partition.0 >= self.shared.partitions {
            return Err(Refused::Stopped);
        }
        let (reply, answered) = self.shared.replies.open(partition)?;
        if !self.shared.enter(vec![(partition, make(reply))]) {
            self.shared.replies.cancel(reply);
            return Err(Refused::Stopped);
        }
        Ok(answered)
    }

    fn queue(&self, what: Reservation) -> Result<oneshot::Receiver<Result<Reserved, Error>>, Error> {
        let (sender, answered) = oneshot::channel();
        self.shared.orders.put(|orders| {
            if orders.is_aborted || orders.stop_by.is_some() {
                return Err(stopped());
            }
            if orders.reservations.len() >= limits::REQUESTS_WAITING_MAX {
                return Err(Error::Unavailable("too many reservations wait".into()));
            }
            orders.reservations.push_back((what, sender));
            Ok(answered)
        })
    }
}

/// What a reservation is told once the writer has stopped.
pub(crate) fn stopped() -> Error {
    Error::Unavailable("this server stops".into())
}

impl Intake for Handle {
    fn partition(&self, app: AppId) -> Option<PartitionId> {
        self.shared.partition(app)
    }

    fn ask(
        &self,
        partition: PartitionId,
        make: Box<dyn FnOnce(ReplyTo) -> Input + Send>,
    ) -> Waiting<Result<rota_core::partition::Answer, Refused>> {
        let admitted = self.admit(partition, make);
        Box::pin(async move { admitted?.await.map_err(|_closed| Refused::Stopped) })
    }

    fn reserve(&self, what: Reservation) -> Waiting<Result<Reserved, Error>> {
        let queued = self.queue(what);
        Box::pin(async move { queued?.await.unwrap_or_else(|_closed| Err(stopped())) })
    }

    fn confirm_clock(&self) {
        self.shared.orders.put(|orders| orders.is_clock_confirmed = true);
        self.shared.enter((0..self.shared.partitions).map(|p| (PartitionId(p), Input::ConfirmClock)).collect());
    }

    fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.shared.snapshots()
    }

    fn tap(&self) -> Arc<Tap> {
        Arc::clone(&self.shared.tap)
    }

    fn health(&self) -> Health {
        let oldest_waiting = self.shared.inbox.look(|arrivals| arrivals.since);
        let (bucket, now) = (self.shared.gauges.bucket(), self.shared.clock.mono());
        let (commits, commit_us) = self.shared.gauges.commits();
        Health {
            stalled_ms: self.shared.gauges.stalled_ms(oldest_waiting, self.shared.clock.mono()),
            store: self.shared.gauges.store(),
            tokens: bucket.map(|bucket| bucket.tokens(now)),
            token_ms: bucket.map(|bucket| bucket.wait_ms(now)),
            commits,
            commit_us,
        }
    }
}

impl Outcomes for Handle {
    fn deliver(&self, inputs: Vec<(PartitionId, Input)>) {
        if !inputs.is_empty() {
            // After a stop nobody waits for outcomes: the next start asks the workers.
            self.shared.enter(inputs);
        }
    }
}
