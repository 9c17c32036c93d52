//! What one thread waits for and others fill: a value under a lock, and a bell.
//!
//! The bell is rung only if the owner waits, so a busy owner costs those who fill it no system call,
//! and everything that was put meanwhile is taken at once. What goes in is bounded by those who put it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) struct Mailbox<T> {
    state: Mutex<State<T>>,
    bell: Condvar,
}

struct State<T> {
    content: T,
    is_owner_waiting: bool,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(content: T) -> Mailbox<T> {
        Mailbox { state: Mutex::new(State { content, is_owner_waiting: false }), bell: Condvar::new() }
    }

    /// Changes the content, and wakes the owner.
    pub(crate) fn put<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut state = lock(&self.state);
        let result = change(&mut state.content);
        let rings = std::mem::replace(&mut state.is_owner_waiting, false);
        drop(state);
        if rings {
            self.bell.notify_one();
        }
        result
    }

    /// Looks at the content, and wakes nobody.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&lock(&self.state).content)
    }

    /// The owner's: takes something out, after waiting for at most `timeout` until `is_filled`, or
    /// until anything is put.
    pub(crate) fn take<R>(
        &self,
        timeout: Duration,
        is_filled: impl FnOnce(&T) -> bool,
        take: impl FnOnce(&mut T) -> R,
    ) -> R {
        let mut state = lock(&self.state);
        if !timeout.is_zero() && !is_filled(&state.content) {
            state.is_owner_waiting = true;
            let waited = self.bell.wait_timeout_while(state, timeout, |s| s.is_owner_waiting);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.is_owner_waiting = false;
        }
        take(&mut state.content)
    }
}

/// Locks, also after a panic elsewhere: every section under these locks leaves a valid value, and the
/// sentinel of the thread that panicked reports it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_ends_the_wait() {
        let mailbox = Mailbox::new(Vec::<u32>::new());
        let got = std::thread::scope(|scope| {
            let owner = scope.spawn(|| mailbox.take(Duration::from_secs(20), |v| !v.is_empty(), std::mem::take));
            mailbox.put(|v| v.push(7));
            owner.join().unwrap()
        });
        assert_eq!(got, [7]);
    }

    #[test]
    fn an_empty_mailbox_gives_up_after_its_timeout() {
        let mailbox = Mailbox::new(Vec::<u32>::new());
        let got = mailbox.take(Duration::from_millis(1), |v| !v.is_empty(), std::mem::take);
        assert_eq!(got, Vec::<u32>::new());
        assert!(mailbox.look(Vec::is_empty));
    }
}
