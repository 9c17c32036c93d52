//! What alerts have told so far, for metrics.

use std::sync::{Mutex, PoisonError};

use rota_api::AlertCounts;

/// Counted by the thread, and read by whoever asks for metrics.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<AlertCounts>);

impl Counts {
    /// Counts something.
    pub(super) fn change(&self, change: impl FnOnce(&mut AlertCounts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All of it.
    pub(super) fn read(&self) -> AlertCounts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
