//! Carrying dispatches out.

use rota_core::id::PartitionId;
use rota_core::partition::{Dispatch, Enquiry, Input};
use rota_core::worker::Protocol;

/// An outbound call that a machine asked for.
#[derive(Clone, Debug)]
pub enum Outbound {
    /// Answered by `Input::Sent`.
    Send(Box<Dispatch>),
    /// Answered by `Input::Probed`.
    Probe(Box<Enquiry>),
    /// Answered by `Input::Cancelled`. A send of the same attempt that is still queued here is taken back.
    Cancel(Box<Enquiry>),
}

/// Calls workers over one protocol. Every call is answered exactly once, through [`Outcomes`].
///
/// Before the first byte of a send: its `send_by` lies ahead and it was not cancelled; else it is
/// answered `NotStarted`. Only a failed connect or a typed refusal is `NotStarted`; whatever else goes
/// wrong after the first byte is `InDoubt`. Nothing is retried here.
pub trait Executor: Send + Sync {
    /// The protocol that it speaks.
    fn protocol(&self) -> Protocol;
    /// Takes calls, in order, without waiting. What a machine may have outstanding is bounded by
    /// credits, so this queue is too.
    fn submit(&self, calls: Vec<(PartitionId, Outbound)>);
}

/// Where answers go.
pub trait Outcomes: Send + Sync {
    /// Takes answers, without waiting.
    fn deliver(&self, inputs: Vec<(PartitionId, Input)>);
}
