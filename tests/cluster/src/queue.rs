//! The one event queue: ordered by true time, and by the order of insertion within it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::clock::Micros;

struct Entry<E> {
    at: Micros,
    tie: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.tie).cmp(&(self.at, self.tie))
    }
}

/// What will happen.
pub struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    pushed: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), pushed: 0 }
    }
}

impl<E> Queue<E> {
    /// Adds an event.
    pub fn push(&mut self, at: Micros, event: E) {
        self.pushed += 1;
        self.heap.push(Entry { at, tie: self.pushed, event });
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Micros, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_then_of_insertion() {
        let mut queue = Queue::default();
        for (at, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            queue.push(at, what);
        }
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcd");
    }
}
