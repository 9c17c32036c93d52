//! A refusal: what is wrong, where, and what would be right.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use rota_core::job::Invalid;
use rota_core::why::Why;
use rota_port::intake::Refused;
use rota_port::store;
use rota_wire::error::Error;

use crate::code::Code;

/// Why a request was refused. Becomes a [`rota_wire::error::Error`] with the status of its code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) field: Option<String>,
    pub(crate) hint: Option<String>,
    /// Seconds after which to ask again, if they are known.
    pub(crate) retry_after_s: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), field: None, hint: None, retry_after_s: None }
    }

    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Refusal {
        Refusal::new(Code::Invalid, message).field(field)
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Refusal {
        self.field = Some(field.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    /// Asking again before so many milliseconds have passed is of no use.
    pub(crate) fn retry_after_ms(mut self, ms: Option<u64>) -> Refusal {
        self.retry_after_s = ms.map(|ms| ms.div_ceil(1_000).max(1));
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<impl Into<String>>) -> Refusal {
        self.hint = hint.map(Into::into);
        self
    }

    /// The answer of a machine or an executor was not one that this request can have.
    pub(crate) fn internal(what: impl std::fmt::Debug) -> Refusal {
        tracing::error!(?what, "unexpected_answer");
        Refusal::new(Code::Internal, "the server met a state that it does not know")
            .hint("its log has the details; please report it")
    }
}

/// What would help, by reason; the other reasons say it themselves.
const HINTS: &[(Why, &str)] = &[
    (Why::PendingFull, "try again when some of them were sent; if it is the app's own cap, raise its pending_max"),
    (Why::Overlap, "wait for it, or kill it: rota runs --job JOB, then rota kill RUN"),
    (Why::Rate, "ask again a little later; or raise the app's rate, or its burst"),
    (Why::ServerRate, "ask again a little later; or raise limits.rate of the server, or limits.burst"),
    (Why::QueueFull, "wait until one of them has begun, or raise overlap.queue of the job"),
    (Why::VersionConflict, "read the job again, and put your change on top of it"),
    (Why::WorkerUnknown, "register, then go on"),
    (Why::WorkerIdTaken, "give each worker of the app its own name"),
    (Why::ClockSuspect, "check the server's clock; after a jump of more than a day: rota confirm-clock"),
    (Why::ClockBehind, "set the server's clock right, or wait until it is past what was covered"),
    (Why::Frozen, "rota thaw ends a freeze; what runs goes on meanwhile"),
    (Why::TooManyBackfills, "wait for the end of one, or cancel one: rota backfill list --open"),
    (Why::Overloaded, "try again in a moment"),
];

impl From<Why> for Refusal {
    fn from(why: Why) -> Refusal {
        let hint = HINTS.iter().find(|(known, _)| *known == why).map(|(_, hint)| *hint);
        Refusal::new(Code::of(why), why.text()).maybe_hint(hint)
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Refusal {
        let (code, hint) = match &error {
            store::Error::Unavailable(_) => {
                (Code::StoreUnavailable, "nothing was changed; ask again when /readyz says that it is ready")
            }
            store::Error::Unknown(_) => (
                Code::StoreUnavailable,
                "the server starts anew to find out what is durable; look before you ask for a change again",
            ),
            store::Error::Corrupt(_) => (Code::StoreDamaged, "stop the server, and restore a backup"),
        };
        if code == Code::StoreDamaged {
            tracing::error!(%error, "store_damaged");
        }
        Refusal::new(code, error.to_string()).hint(hint)
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        match refused {
            Refused::Overloaded => Refusal::from(Why::Overloaded),
            Refused::Stopped => Refusal::new(Code::NotReady, refused.to_string()).hint("try again in a moment"),
        }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Refusal {
        Refusal::invalid(invalid.field, invalid.message).maybe_hint(invalid.hint.map(quoted))
    }
}

/// A guess in backquotes like those of [`crate::nearest`]: what was meant may itself end with a question mark.
fn quoted(hint: String) -> String {
    let meant = hint.strip_prefix("did you mean ").and_then(|rest| rest.strip_suffix('?'));
    match meant {
        // More than one guess, or a sentence, is shown as it is.
        Some(meant) if !meant.contains(['`', ',']) && !meant.contains(" or ") => format!("did you mean `{meant}`?"),
        Some(_) | None => hint,
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        let Refusal { code, message, field, hint, retry_after_s: _ } = refusal;
        Error { code: code.word().to_owned(), message, field, hint }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let may_come_back = status.as_u16() == 429 || status.as_u16() == 503;
        let retry_after_s = self.retry_after_s.unwrap_or(1);
        let body = Error::from(self);
        let mut response = (status, axum::Json(body)).into_response();
        if may_come_back {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after_s));
        }
        if status.as_u16() == 401 {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
