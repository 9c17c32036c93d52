//! Invariant 2: what is sent is committed, lives, and is sent in a term that its sender believes in.

use rota_core::batch::AttemptState;
use rota_core::id::Epoch;
use rota_core::partition::Dispatch;

use super::{Rule, Verdict};
use crate::store::Part;

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// A machine hands a send to a lane.
    Machine,
    /// A lane is about to write the first byte. A kill may have become durable a moment ago; the lane
    /// takes the send back as soon as the machine has heard of that, and says so.
    Lane,
}

/// Something is sent. `term` is the sender's term of the partition, as far as it knows.
pub fn sent(part: &Part, dispatch: &Dispatch, term: Option<Epoch>, sender: Sender) -> Verdict {
    let (run, id) = (dispatch.run, dispatch.attempt);
    let broken = |text: String| Err(Rule::SendRests.broken(format!("attempt {id} of {run} is sent, and {text}")));
    if term != Some(dispatch.epoch) {
        return broken(format!("its sender knows that term {} is over", dispatch.epoch));
    }
    let Some(attempt) = part.runs.get(&run).and_then(|row| row.attempt(id)) else {
        return broken("is not durable".to_owned());
    };
    if (attempt.shard, attempt.no) != (dispatch.shard, dispatch.no) {
        return broken(format!(
            "says shard {} no {}, the row {} {}",
            dispatch.shard, dispatch.no, attempt.shard, attempt.no
        ));
    }
    let incarnation = dispatch.worker.as_ref().map_or(attempt.incarnation, |w| w.incarnation);
    if incarnation != attempt.incarnation {
        return broken("is addressed to another incarnation than its row".to_owned());
    }
    if dispatch.parent.as_ref() != part.parents.get(&run) {
        return broken(format!("is in the trace of {:?}", dispatch.parent));
    }
    let is_current = dispatch.epoch == part.epoch;
    let is_wanted = matches!(attempt.state, AttemptState::Dispatched | AttemptState::InDoubt | AttemptState::Running);
    if is_current && sender == Sender::Machine && !is_wanted {
        return broken(format!("is {} already", attempt.state.word()));
    }
    Ok(())
}
