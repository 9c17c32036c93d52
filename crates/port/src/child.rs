//! Notes of ended parents, read from a store by whoever carries them to the machines of their children.

use rota_core::child::Note;
use rota_core::id::PartitionId;

use crate::store::Error;

/// Reads of what no machine has answered yet; called from any thread, sees every batch whose commit was answered.
pub trait Notes: Send + Sync {
    /// Partitions with notes above this number, each with the highest.
    fn partitions_noted(&self, after: u64) -> Result<Vec<(PartitionId, u64)>, Error>;
    /// Notes of a partition above this number, in order, at most so many.
    fn notes(&self, partition: PartitionId, after: u64, limit: u32) -> Result<Vec<Note>, Error>;
    /// How many notes of a partition up to this number are left.
    fn notes_left(&self, partition: PartitionId, upto: u64) -> Result<u32, Error>;
}
