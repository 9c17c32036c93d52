//! Carrying requests in.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rota_core::id::{AppId, PartitionId};
use rota_core::partition::{Answer, Input, ReplyTo, Snapshot};

use crate::store::{Error, Reservation, Reserved};
use crate::tap::Tap;

/// A request that waits for its answer.
pub type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Takes requests for the partitions of this server. An answer that rests on a write comes after
/// its commit; a dropped future changes nothing about what happens.
pub trait Intake: Send + Sync {
    /// The partition of an app.
    fn partition(&self, app: AppId) -> Option<PartitionId>;
    /// Puts a request into its machine. `make` gets the place where the answer is awaited.
    fn ask(
        &self,
        partition: PartitionId,
        make: Box<dyn FnOnce(ReplyTo) -> Input + Send>,
    ) -> Waiting<Result<Answer, Refused>>;
    /// Reserves a name, id or request durably. A new or changed app enters its machine before this answers.
    fn reserve(&self, what: Reservation) -> Waiting<Result<Reserved, Error>>;
    /// An operator says that the clock is right after a jump of more than a day.
    fn confirm_clock(&self);
    /// What the machines last published.
    fn snapshots(&self) -> Vec<Arc<Snapshot>>;
    /// Where runs are noted whose rows became durable.
    fn tap(&self) -> Arc<Tap>;
    /// Whether and why this server takes no work at the moment.
    fn health(&self) -> Health;
}

/// Why a request did not reach a machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// Too many requests wait.
    #[error("too many requests wait")]
    Overloaded,
    /// The server stops, or does not own the partition.
    #[error("this server takes no requests now")]
    Stopped,
}

/// The state of a server's threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Health {
    /// Milliseconds since the machines' thread took its last step although input waited; 0 if none waits.
    pub stalled_ms: u64,
    /// Why the store is not available, if it is not.
    pub store: Option<Arc<str>>,
    /// Tokens of the server's rate, if it has one.
    pub tokens: Option<u32>,
    /// Milliseconds until it has one.
    pub token_ms: Option<u64>,
    /// Commits so far, by upper bound of duration: see [`COMMIT_BOUNDS_MS`].
    pub commits: [u64; COMMIT_BOUNDS_MS.len() + 1],
    /// Their total duration in microseconds.
    pub commit_us: u64,
}

/// Upper bounds of the commit histogram, in milliseconds.
pub const COMMIT_BOUNDS_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 250, 1_000, 5_000];
