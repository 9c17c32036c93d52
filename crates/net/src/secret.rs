//! Secrets on their way out, and on their way back: templates are filled in as late as can be, and what peers say is
//! clean before anybody sees it.

use std::borrow::Cow;
use std::sync::Arc;

use rota_core::limits::MESSAGE_BYTES_MAX;
use rota_core::partition::{CancelAnswer, Dispatch, Input, ProbeAnswer, SendOutcome};
use rota_port::secrets::{Secrets, Vault};

/// Fills in the templates of a dispatch; or says what came of it, since nothing can be sent.
pub(crate) fn fill(secrets: &Secrets, send: &mut Dispatch) -> Result<(), Input> {
    secrets.fill(send).map_err(|failed| {
        let outcome = SendOutcome::Unsendable(failed.why, failed.message.into());
        Input::Sent { attempt: send.attempt, outcome }
    })
}

/// Takes the values of secrets out of what a peer said; the vault is asked for only if it said anything.
pub(crate) fn clean(input: &mut Input, vault: impl FnOnce() -> Arc<Vault>) {
    if let Input::Sent { outcome: SendOutcome::Finished(_, Some(message)), .. } = input {
        clean_message(message, &vault());
    } else if let Input::Probed { answer: ProbeAnswer::Finished(report), .. }
    | Input::Cancelled { answer: CancelAnswer::Finished(report), .. } = input
        && let Some(message) = &mut report.message
    {
        clean_message(message, &vault());
    }
}

fn clean_message(message: &mut Arc<str>, vault: &Vault) {
    // One that is as long as may be was cut, give or take a character.
    let is_cut = message.len() + char::MAX_LEN_UTF8 > MESSAGE_BYTES_MAX;
    let clean = if is_cut { vault.redact_cut(message) } else { vault.redact(message) };
    if let Cow::Owned(clean) = clean {
        *message = clean.into();
    }
}
