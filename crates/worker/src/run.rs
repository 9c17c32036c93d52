//! One attempt from its start to its end: the only place where a handler runs.
//!
//! Once an attempt was told to stop, it ends as what stopped it, whatever its handler still says; so
//! a handler that returns `Ok` because it was interrupted does not pass for a success.

use std::sync::Arc;

use rota_wire::worker::Outcome;
use tokio::time::{sleep_until, timeout};

use crate::context::{Context, Stop, StopReason};
use crate::handler::{Ended, Guarded, Handler};
use crate::journal::Journal;
use crate::live::Live;

/// Runs an attempt that was accepted, and hands its end in.
pub(crate) async fn attempt(live: Arc<Live>, handler: Handler, context: Context, stop: Arc<Stop>) {
    let (outcome, message) = match record_start(live.journal.as_ref(), &context) {
        Ok(()) => {
            let handler = Guarded::new(handler(context.clone()));
            let (outcome, message) = until_stopped(handler, &context, &stop).await;
            record_end(live.journal.as_ref(), &context, outcome);
            (outcome, message)
        }
        Err(message) => (Outcome::Failed, Some(message)),
    };
    // The log ends before the result enters the queue, so that the courier can push it first.
    context.close_log();
    live.finish(context.attempt(), outcome, message);
}

async fn until_stopped(mut handler: Guarded, context: &Context, stop: &Stop) -> (Outcome, Option<String>) {
    let deadline = context.deadline();
    let at_deadline = async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // The handler first: an end that is already there counts, even if the deadline has come too.
        biased;
        ended = &mut handler => return conclude(ended, stop.reason()),
        () = stop.asked() => {}
        () = at_deadline => stop.ask(StopReason::Deadline),
    }
    let reason = stop.reason().expect("it was just asked to stop");
    match timeout(context.stop_grace(), &mut handler).await {
        Ok(ended) => conclude(ended, Some(reason)),
        Err(_) => {
            drop(handler);
            let (outcome, text) = stopped(reason);
            (outcome, Some(format!("{text}; it did not stop within {:?} and was dropped", context.stop_grace())))
        }
    }
}

fn conclude(ended: Ended, reason: Option<StopReason>) -> (Outcome, Option<String>) {
    let Some(reason) = reason else {
        return match ended {
            Ok(message) => (Outcome::Success, message),
            Err(message) => (Outcome::Failed, Some(message)),
        };
    };
    let (outcome, text) = stopped(reason);
    let said = ended.unwrap_or_else(Some);
    (outcome, Some(said.map_or_else(|| text.to_owned(), |said| format!("{text}: {said}"))))
}

fn stopped(reason: StopReason) -> (Outcome, &'static str) {
    match reason {
        StopReason::Killed => (Outcome::Killed, "killed"),
        StopReason::Deadline => (Outcome::Timeout, "stopped at its deadline"),
        StopReason::Leaving => (Outcome::Killed, "stopped because the worker shut down"),
    }
}

/// An attempt whose start cannot be recorded does not run: a record with holes would be worse than none.
fn record_start(journal: Option<&Journal>, context: &Context) -> Result<(), String> {
    let Some(journal) = journal else { return Ok(()) };
    journal.start(context).map_err(|error| format!("not run: its start could not be written to the journal: {error}"))
}

fn record_end(journal: Option<&Journal>, context: &Context, outcome: Outcome) {
    if let Some(Err(error)) = journal.map(|journal| journal.end(context, outcome)) {
        tracing::error!(attempt = context.attempt(), %error, "journal_write_failed");
    }
}
