//! What ends a server loudly. The first failure is kept; the binary waits for it and exits.

use rota_core::id::{PartitionId, Seq};
use rota_port::store;
use tokio::sync::watch;

/// Why the threads of this server cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// A thread panicked: a programmer's error.
    #[error("the thread `{0}` panicked")]
    Panicked(&'static str),
    /// The store's answer was lost, or the store is damaged: only a restart finds out what is durable.
    #[error("the store failed: {0}")]
    Store(store::Error),
    /// The store refused a batch: another process owns the partition.
    #[error("partition {partition} is owned by another term: the store has batch {stored}, this server sent {sent}")]
    Fenced {
        /// The partition; its machine is dropped.
        partition: PartitionId,
        /// The last batch that the store has.
        stored: Seq,
        /// The batch that it refused.
        sent: Seq,
    },
}

pub(crate) struct Failures {
    first: watch::Sender<Option<Failure>>,
}

impl Failures {
    pub(crate) fn new() -> Failures {
        Failures { first: watch::Sender::new(None) }
    }

    /// Keeps the first failure.
    pub(crate) fn report(&self, failure: Failure) {
        self.first.send_if_modified(|first| {
            let is_first = first.is_none();
            if is_first {
                tracing::error!(%failure, "engine_failed");
                *first = Some(failure);
            }
            is_first
        });
    }

    /// Waits for the first failure.
    pub(crate) async fn wait(mut receiver: watch::Receiver<Option<Failure>>) -> Failure {
        let failure = match receiver.wait_for(Option::is_some).await {
            Ok(first) => first.clone(),
            Err(_all_gone) => None,
        };
        match failure {
            Some(failure) => failure,
            // The engine was stopped in order and nobody can fail any more.
            None => std::future::pending().await,
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Failure>> {
        self.first.subscribe()
    }
}
