//! What a round of the machines wants, sorted by whom it is for, and handed over in whole vectors.

use std::sync::Arc;

use rota_core::batch::Batch;
use rota_core::id::{JobId, PartitionId};
use rota_core::partition::{Answer, AskUpstream, ReplyTo, Snapshot};
use rota_core::worker::{Protocol, Registration};
use rota_port::executor::{Executor, Outbound};

use crate::engine::Error;
use crate::shared::Shared;

/// One executor for each protocol.
pub(crate) struct Lanes {
    http: Arc<dyn Executor>,
    url: Arc<dyn Executor>,
}

impl Lanes {
    /// Sorts executors by what they speak; one for each protocol must be there.
    pub(crate) fn new(executors: &[Arc<dyn Executor>]) -> Result<Lanes, Error> {
        let speaks = |protocol: Protocol| {
            let found = executors.iter().find(|executor| executor.protocol() == protocol);
            found.cloned().ok_or(Error::NoExecutor(protocol.word()))
        };
        Ok(Lanes { http: speaks(Protocol::Http)?, url: speaks(Protocol::Url)? })
    }
}

/// How a call's receiver is called; without a worker it goes to a URL.
pub(crate) fn spoken_by(worker: Option<&Arc<Registration>>) -> Protocol {
    worker.map_or(Protocol::Url, |worker| worker.protocol)
}

#[derive(Default)]
pub(crate) struct Outbox {
    batches: Vec<Batch>,
    http: Vec<(PartitionId, Outbound)>,
    url: Vec<(PartitionId, Outbound)>,
    replies: Vec<(ReplyTo, Answer)>,
    snapshots: Vec<Arc<Snapshot>>,
    asks: Vec<(PartitionId, AskUpstream)>,
    ended: Vec<JobId>,
}

impl Outbox {
    pub(crate) fn commit(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    pub(crate) fn call(&mut self, partition: PartitionId, protocol: Protocol, call: Outbound) {
        match protocol {
            Protocol::Http => self.http.push((partition, call)),
            Protocol::Url => self.url.push((partition, call)),
        }
    }

    pub(crate) fn reply(&mut self, to: ReplyTo, answer: Answer) {
        self.replies.push((to, answer));
    }

    pub(crate) fn publish(&mut self, snapshot: Arc<Snapshot>) {
        self.snapshots.push(snapshot);
    }

    pub(crate) fn ask(&mut self, partition: PartitionId, ask: AskUpstream) {
        self.asks.push((partition, ask));
    }

    pub(crate) fn ended(&mut self, job: JobId) {
        self.ended.push(job);
    }

    /// Hands everything over. The writer comes first, since its work takes longest.
    pub(crate) fn flush(&mut self, shared: &Shared, lanes: &Lanes) {
        if !self.batches.is_empty() {
            let batches = &mut self.batches;
            shared.orders.put(|orders| orders.batches.extend(batches.drain(..)));
        }
        if !self.http.is_empty() {
            lanes.http.submit(std::mem::take(&mut self.http));
        }
        if !self.url.is_empty() {
            lanes.url.submit(std::mem::take(&mut self.url));
        }
        shared.replies.answer(&mut self.replies);
        shared.publish(&mut self.snapshots);
        if !self.asks.is_empty() || !self.ended.is_empty() {
            let (asks, ended) = (&mut self.asks, &mut self.ended);
            shared.asked.put(|asked| {
                asked.asks.append(asks);
                asked.ended.append(ended);
            });
        }
    }
}
