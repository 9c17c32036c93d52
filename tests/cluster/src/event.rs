//! Everything that can happen, and what travels with it.

use rota_core::id::{AttemptId, Epoch, PartitionId};
use rota_core::partition::{Answer, CancelAnswer, Dispatch, Enquiry, Holder, Input, Outcome, ProbeAnswer, SendOutcome};

use crate::chaos::Fault;
use crate::check::reply::Asked;
use crate::upstream::Look;

/// A request to a machine, still without the place of its answer.
pub enum Request {
    /// From an operator.
    Operator(Input, Asked),
    /// From a worker's process.
    Worker(usize, Input, Asked),
    /// A registration whose address has to be dialled first.
    Register(usize),
}

/// What is asked of a worker.
#[derive(Clone)]
pub enum Errand {
    /// To run an attempt.
    Send(Box<Dispatch>),
    /// To say what it knows of one.
    Probe(Box<Enquiry>),
    /// To stop one.
    Cancel(Box<Enquiry>),
}

/// What a worker, or the network in its place, answers.
pub enum Answered {
    /// To a send.
    Sent(SendOutcome),
    /// To a probe.
    Probed(ProbeAnswer),
    /// To a cancel.
    Cancelled(CancelAnswer),
}

/// What can happen. Events of a server carry its boot, so that none of them outlives a crash.
pub enum Event {
    /// The end of a round, or a wake-up.
    Turn { server: usize, boot: u32, partition: PartitionId, epoch: Epoch },
    /// A token of its rate may be there for a server's machines.
    Token { server: usize, boot: u32 },
    /// A machine is told something.
    Tell { server: usize, boot: u32, partition: PartitionId, epoch: Epoch, input: Box<Input> },
    /// The writer gets to the oldest batch.
    Commit { server: usize, boot: u32, partition: PartitionId, epoch: Epoch },
    /// A request arrives at a server.
    Arrive { server: usize, partition: PartitionId, request: Box<Request> },
    /// A registration whose address was dialled.
    Dialled { server: usize, boot: u32, partition: PartitionId, process: usize, is_reachable: bool, holder: Holder },
    /// A lane gets to a call.
    FirstByte { call: u64 },
    /// A call reaches an address.
    Reach { call: u64, address: u32, errand: Errand },
    /// A URL's server gets a request.
    ReachUrl { call: u64, dispatch: Box<Dispatch> },
    /// A URL's server is done.
    UrlDone { call: u64, attempt: AttemptId, outcome: Outcome },
    /// An answer reaches its server.
    Answer { call: u64, answer: Answered },
    /// A call has waited for too long.
    CallDeadline { call: u64 },
    /// A process composes a beat.
    Beat { process: usize },
    /// A process reports what it has finished, or goes on registering or leaving.
    Flush { process: usize },
    /// A handler returns.
    Finish { process: usize, attempt: AttemptId, outcome: Outcome },
    /// A machine's answer reaches a process.
    Reply { process: usize, asked: Box<Asked>, answer: Box<Answer> },
    /// A process starts for this worker.
    Start { slot: usize },
    /// A server looks at the upstream jobs of a slot.
    Judge { server: usize, boot: u32, partition: PartitionId, epoch: Epoch, look: Look },
    /// A server looks at ends that nobody has answered.
    Carry { server: usize, boot: u32, partition: PartitionId, epoch: Epoch, is_pace: bool },
    /// A server claims a partition.
    Claim { server: usize, partition: PartitionId },
    /// A server starts again.
    Restart { server: usize },
    /// A server is told that a term is over.
    TermOver { server: usize, boot: u32, partition: PartitionId, epoch: Epoch },
    /// An operator does something.
    Operate,
    /// A fault of this kind happens.
    Fault(Fault),
    /// Faults and operators stop.
    Heal,
    /// Whatever is frozen is thawed.
    ThawAll,
    /// Jobs are paused; what is open has to end.
    Pause,
    /// A look at whether everything has ended.
    Look,
}

impl Event {
    /// The server at which it happens, and the start that it belongs to.
    #[must_use]
    pub fn server(&self) -> Option<(usize, Option<u32>)> {
        match self {
            Event::Turn { server, boot, .. }
            | Event::Token { server, boot }
            | Event::Tell { server, boot, .. }
            | Event::Commit { server, boot, .. }
            | Event::Judge { server, boot, .. }
            | Event::Carry { server, boot, .. }
            | Event::Dialled { server, boot, .. }
            | Event::TermOver { server, boot, .. } => Some((*server, Some(*boot))),
            Event::Arrive { server, .. } => Some((*server, None)),
            _ => None,
        }
    }
}
