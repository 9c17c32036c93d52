//! Requests that wait for their answers: a bounded slab of senders, by place.
//!
//! A place is used again, its [`ReplyTo`] never: the upper half counts how often the place was taken,
//! so an answer to a request that is gone reaches nobody.

use std::sync::Mutex;

use rota_core::id::PartitionId;
use rota_core::partition::{Answer, ReplyTo};
use rota_port::intake::Refused;
use tokio::sync::oneshot;

use crate::mailbox::lock;

pub(crate) struct Replies {
    slab: Mutex<Slab>,
    max: usize,
}

#[derive(Default)]
struct Slab {
    places: Vec<Place>,
    free: Vec<u32>,
    is_closed: bool,
}

struct Place {
    uses: u32,
    waiter: Option<(PartitionId, oneshot::Sender<Answer>)>,
}

impl Replies {
    pub(crate) fn new(max: usize) -> Replies {
        Replies { slab: Mutex::new(Slab::default()), max }
    }

    /// Opens a place for a request to `partition`.
    pub(crate) fn open(&self, partition: PartitionId) -> Result<(ReplyTo, oneshot::Receiver<Answer>), Refused> {
        let mut slab = lock(&self.slab);
        if slab.is_closed {
            return Err(Refused::Stopped);
        }
        let index = match slab.free.pop() {
            Some(index) => index,
            None if slab.places.len() < self.max => {
                slab.places.push(Place { uses: 0, waiter: None });
                u32::try_from(slab.places.len() - 1).expect("the bound on requests is far below 2^32")
            }
            None => return Err(Refused::Overloaded),
        };
        let (sender, receiver) = oneshot::channel();
        let place = &mut slab.places[index as usize];
        assert!(place.waiter.is_none(), "a free place holds no one");
        place.uses = place.uses.wrapping_add(1);
        place.waiter = Some((partition, sender));
        Ok((ReplyTo(u64::from(place.uses) << 32 | u64::from(index)), receiver))
    }

    /// Gives answers to those who still wait; empties `answers`.
    pub(crate) fn answer(&self, answers: &mut Vec<(ReplyTo, Answer)>) {
        if answers.is_empty() {
            return;
        }
        let mut slab = lock(&self.slab);
        for (reply, answer) in answers.drain(..) {
            if let Some((_, sender)) = slab.remove(reply) {
                // Whoever asked may have gone; what happened, happened.
                let _gone = sender.send(answer);
            }
        }
    }

    /// Takes a place back whose request never reached its machine.
    pub(crate) fn cancel(&self, reply: ReplyTo) {
        lock(&self.slab).remove(reply);
    }

    /// Ends every wait for a partition that this server does not run any more.
    pub(crate) fn close_partition(&self, partition: PartitionId) {
        let mut slab = lock(&self.slab);
        for index in 0..slab.places.len() {
            let is_theirs = slab.places[index].waiter.as_ref().is_some_and(|(of, _)| *of == partition);
            if is_theirs {
                slab.places[index].waiter = None;
                slab.free.push(u32::try_from(index).expect("the bound on requests is far below 2^32"));
            }
        }
    }

    /// Ends every wait, and opens no place again.
    pub(crate) fn close(&self) {
        let mut slab = lock(&self.slab);
        slab.is_closed = true;
        slab.places.clear();
        slab.free.clear();
    }
}

impl Slab {
    fn remove(&mut self, reply: ReplyTo) -> Option<(PartitionId, oneshot::Sender<Answer>)> {
        let index = u32::try_from(reply.0 & u64::from(u32::MAX)).expect("masked");
        let place = self.places.get_mut(index as usize)?;
        if u64::from(place.uses) != reply.0 >> 32 {
            return None;
        }
        let waiter = place.waiter.take()?;
        self.free.push(index);
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: PartitionId = PartitionId(3);

    #[test]
    fn a_place_is_bounded_and_used_again_under_another_name() {
        let replies = Replies::new(1);
        let (first, mut answered) = replies.open(P).unwrap();
        assert_eq!(replies.open(P).unwrap_err(), Refused::Overloaded);
        replies.answer(&mut vec![(first, Answer::Killing)]);
        assert_eq!(answered.try_recv(), Ok(Answer::Killing));
        let (second, mut waits) = replies.open(P).unwrap();
        assert_ne!(first, second);
        replies.answer(&mut vec![(first, Answer::Killing), (ReplyTo(99), Answer::Killing)]);
        assert_eq!(waits.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn a_dropped_wait_frees_its_place_when_it_is_answered() {
        let replies = Replies::new(1);
        let (reply, receiver) = replies.open(P).unwrap();
        drop(receiver);
        replies.answer(&mut vec![(reply, Answer::Killing)]);
        assert!(replies.open(P).is_ok());
    }

    #[test]
    fn closing_ends_the_waits() {
        let replies = Replies::new(4);
        let (_, mut ours) = replies.open(P).unwrap();
        let (_, mut other) = replies.open(PartitionId(4)).unwrap();
        replies.close_partition(P);
        assert_eq!(ours.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(other.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        replies.close();
        assert_eq!(other.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(replies.open(P).unwrap_err(), Refused::Stopped);
    }
}
