//! A lane's workers: whom a call is for, what is still in a queue, who needs another connection.

use std::collections::BTreeMap;
use std::rc::Rc;

use rota_core::id::{Incarnation, PartitionId, WorkerId};
use rota_core::partition::{CancelAnswer, Enquiry, Input, SendOutcome};
use rota_core::why::Why;
use rota_core::worker::Registration;
use rota_port::executor::Outbound;
use tokio::task::JoinSet;

use super::peer::{Address, Call, Context, Line, Peer, Which, registration, serve};
use super::translate;
use crate::endpoint::BadUrl;
use crate::lane;

/// A call that has waited for this long, while no connection is being made, waits for a slow answer.
const SLOW_MS: u64 = 25;

type Key = (WorkerId, Incarnation);

/// The workers of one lane that have calls or connections.
pub(super) struct Desk {
    context: Rc<Context>,
    peers: BTreeMap<Key, Rc<Peer>>,
    /// Those whose worker has moved: their connections end with what they do.
    left: Vec<(Key, Rc<Peer>)>,
}

/// A connection has ended.
pub(super) struct Ended {
    key: Key,
    peer: Rc<Peer>,
    which: Which,
}

impl Desk {
    pub(super) fn new(context: Context) -> Desk {
        Desk { context: Rc::new(context), peers: BTreeMap::new(), left: Vec::new() }
    }

    /// The peer that a worker's calls go to. A worker that registers another address under the same
    /// incarnation takes its waiting calls along.
    fn peer(&mut self, worker: &Registration) -> Result<(Key, Rc<Peer>), BadUrl> {
        let key = (worker.id, worker.incarnation);
        let known = self.peers.get(&key);
        if let Some(peer) = known.filter(|peer| peer.address.is_of(worker)) {
            return Ok((key, peer.clone()));
        }
        let peer = Rc::new(Peer::new(Address::of(worker)?, worker.list_max, &self.context.config));
        if let Some(old) = self.peers.insert(key, peer.clone()) {
            peer.inherit(&old);
            self.left.push((key, old));
        }
        Ok((key, peer))
    }

    /// Takes a send back that no connection has taken yet. Both calls are answered then.
    fn take_back(&self, partition: PartitionId, enquiry: &Enquiry) -> bool {
        let worker = enquiry.worker.as_ref().expect("a call over HTTP names its worker");
        let Some(peer) = self.peers.get(&(worker.id, enquiry.incarnation)) else { return false };
        let attempt = enquiry.attempt;
        let is_its_send = |call: &Call| matches!(&call.what, Outbound::Send(send) if send.attempt == attempt);
        let taken = lane::take_where(&mut peer.sends.queue.borrow_mut(), is_its_send);
        for call in &taken {
            let outcome = SendOutcome::NotStarted(Why::RefusedCancelled);
            self.context.outbox.put(call.partition, Input::Sent { attempt, outcome });
        }
        if !taken.is_empty() {
            self.context.outbox.put(partition, Input::Cancelled { attempt, answer: CancelAnswer::NeverSent });
        }
        !taken.is_empty()
    }

    /// Opens what a line needs, up to `connections_max`.
    fn staff(&self, tasks: &mut JoinSet<Ended>, key: Key, peer: &Rc<Peer>, which: Which, connections_max: usize) {
        let line = peer.line(which);
        while line.wants_connection(connections_max) {
            line.connecting.set(line.connecting.get() + 1);
            line.open.set(line.open.get() + 1);
            let (context, peer) = (self.context.clone(), peer.clone());
            tasks.spawn_local(async move {
                serve(&context, &peer, peer.line(which)).await;
                Ended { key, peer, which }
            });
        }
    }

    /// Answers what waited for too long.
    fn expire(&self, line: &Line) {
        let now = (self.context.clock)();
        for call in lane::take_where(&mut line.queue.borrow_mut(), |call| call.by <= now) {
            self.context.answer_unsent(call, Why::SendDeadline);
        }
    }
}

impl lane::Desk for Desk {
    type Ended = Ended;

    fn take(&mut self, tasks: &mut JoinSet<Ended>, partition: PartitionId, what: Outbound) {
        if let Outbound::Cancel(enquiry) = &what
            && self.take_back(partition, enquiry)
        {
            return;
        }
        let since = (self.context.clock)();
        let (which, by) = match &what {
            Outbound::Send(send) => (Which::Sends, send.send_by),
            Outbound::Probe(_) | Outbound::Cancel(_) => (Which::Enquiries, since.plus(self.context.config.enquiry_ms)),
        };
        match self.peer(registration(&what)) {
            Ok((key, peer)) => {
                let line = peer.line(which);
                line.queue.borrow_mut().push_back(Call { partition, what, since, by });
                line.call();
                self.staff(tasks, key, &peer, which, line.connections);
            }
            Err(bad_url) => {
                let worker = registration(&what);
                tracing::warn!(worker = worker.id.0, problem = %bad_url, "worker_address_unusable");
                self.context.outbox.put(partition, translate::unsent(&what, Why::RefusedAddress));
            }
        }
    }

    fn ended(&mut self, tasks: &mut JoinSet<Ended>, ended: Ended) {
        let Ended { key, peer, which } = ended;
        self.staff(tasks, key, &peer, which, peer.line(which).connections);
        let is_current = self.peers.get(&key).is_some_and(|current| Rc::ptr_eq(current, &peer));
        if is_current && peer.is_deserted() {
            self.peers.remove(&key);
        }
    }

    fn tick(&mut self, tasks: &mut JoinSet<Ended>) -> bool {
        let now = (self.context.clock)();
        for (key, peer) in self.peers.iter().chain(self.left.iter().map(|(key, peer)| (key, peer))) {
            peer.look();
            for which in [Which::Sends, Which::Enquiries] {
                let line = peer.line(which);
                line.is_paused.set(false);
                self.expire(line);
                let Some(oldest) = line.queue.borrow().front().map(|call| call.since) else { continue };
                // Only slow answers justify more connections; while some are still being made, it is not
                // known whether answers are slow.
                let is_slow = now.since(oldest) >= SLOW_MS && line.connecting.get() == 0;
                let connections = if is_slow { line.open.get() * 2 } else { 0 };
                let connections = connections.clamp(line.connections, line.connections_max);
                self.staff(tasks, *key, peer, which, connections);
            }
        }
        // One whose last calls have just expired has no connection whose end would remove it.
        self.peers.retain(|_, peer| !peer.is_deserted());
        self.left.retain(|(_, peer)| !peer.is_deserted());
        !(self.peers.is_empty() && self.left.is_empty())
    }
}
