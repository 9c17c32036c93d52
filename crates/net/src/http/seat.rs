//! A connection's place in its line: how it is called, and how it learns that its time is over.
//!
//! Neither costs a timer, a lock or a look at a clock: the desk looks at all seats every `TICK`, and a seat counts
//! the looks. So a connection holds out for up to two looks longer than it should, and never for less.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use crate::lane;

/// Of one connection; shared with its line.
pub(super) struct Seat {
    /// The connection's task.
    waker: Waker,
    is_called: Cell<bool>,
    /// Looks that are left for what the connection does now.
    looks: Cell<u64>,
}

impl Seat {
    /// For the task that awaits this.
    pub(super) async fn take() -> Seat {
        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        Seat { waker, is_called: Cell::new(false), looks: Cell::new(0) }
    }

    /// Calls the connection to its line's queue.
    pub(super) fn call(&self) {
        self.is_called.set(true);
        self.waker.wake_by_ref();
    }

    /// Whether it was called; forgets it.
    pub(super) fn take_call(&self) -> bool {
        self.is_called.take()
    }

    /// The desk's look.
    pub(super) fn look(&self) {
        match self.looks.get() {
            // Nothing that can be over is under way, or it has been told.
            0 => {}
            1 => {
                self.looks.set(0);
                self.waker.wake_by_ref();
            }
            looks => self.looks.set(looks - 1),
        }
    }

    /// Waits for what `poll` says, for so long; none if it took longer.
    pub(super) async fn within<T>(&self, ms: u64, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        // The first look may come at once.
        self.looks.set(ms.div_ceil(lane::TICK_MS).saturating_add(1));
        let outcome = poll_fn(|cx| match poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending if self.looks.get() == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        let outcome = outcome.await;
        self.looks.set(0);
        outcome
    }
}
