//! What the server may ask of a worker: parse, ask the machine, encode. Nothing is decided here.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode};
use rota_wire::worker::{
    Accepted, Enquiry, Execute, ExecuteList, Identity, ListAccepted, ListRefused, Refusal, Refused,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::builder::LIST_MAX;
use crate::identity::is_same_secret;
use crate::live::Live;
use crate::slot;

/// A parameter of 1 MiB in which JSON escapes every byte, and room for the rest. Nobody without the
/// secret can make the worker read this much.
pub(crate) const BODY_BYTES_MAX: usize = (6 << 20) + (64 << 10);
/// A longer one is none.
const TRACEPARENT_BYTES_MAX: usize = 200;
/// From a request's head to the end of its body.
const BODY_READ: Duration = Duration::from_secs(10);

/// Answers the server's calls.
pub(crate) struct Endpoint {
    pub(crate) live: Arc<Live>,
    pub(crate) secret: String,
}

type Answer = Response<Full<Bytes>>;

impl Endpoint {
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        Ok(self.route(request).await.unwrap_or_else(|refusal| refusal.into_answer()))
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Answer, Problem> {
        let path = request.uri().path();
        if path == "/internal/identity" {
            expect_method(&request, &Method::GET)?;
            let identity = Identity { name: self.live.name.clone(), incarnation: self.live.incarnation };
            return Ok(json(StatusCode::OK, &identity));
        }
        let task = path.strip_prefix("/internal/tasks/").and_then(Task::parse);
        let task = task.ok_or(Problem::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path"))?;
        expect_method(&request, &Method::POST)?;
        self.check_secret(&request)?;
        match task {
            Task::Execute => {
                let traceparent = traceparent(&request);
                self.execute(read(request).await?, traceparent)
            }
            Task::ExecuteList => self.execute_list(read(request).await?),
            Task::Cancel => Ok(told(self.live.cancel(&read::<Enquiry>(request).await?))),
            Task::Probe => Ok(told(self.live.probe(&read::<Enquiry>(request).await?))),
        }
    }

    fn check_secret(&self, request: &Request<Incoming>) -> Result<(), Problem> {
        let given = request.headers().get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        if is_same_secret(given.unwrap_or_default(), self.secret.as_bytes()) {
            return Ok(());
        }
        let message = "the bearer is not this worker's callback secret";
        Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message))
    }

    fn execute(&self, ask: Execute, traceparent: Option<String>) -> Result<Answer, Problem> {
        let slot_ms = slot_of(&ask)?;
        Ok(match self.start(ask, slot_ms, traceparent) {
            Ok(accepted) => json(StatusCode::ACCEPTED, &accepted),
            Err(refused) => json(StatusCode::CONFLICT, &Refused { refused }),
        })
    }

    /// Nothing of a list is started unless all of it can be read.
    fn execute_list(&self, list: ExecuteList) -> Result<Answer, Problem> {
        if list.tasks.is_empty() || list.tasks.len() > LIST_MAX as usize {
            return Err(invalid("tasks", format!("a list has from 1 to {LIST_MAX} tasks")));
        }
        let slots: Vec<i64> = list.tasks.iter().map(slot_of).collect::<Result<_, _>>()?;
        let mut answer = ListAccepted { next_beat: 0, accepted: 0, refused: Vec::new() };
        for (mut ask, slot_ms) in list.tasks.into_iter().zip(slots) {
            let attempt = ask.attempt;
            let traceparent = ask.traceparent.take().filter(|value| value.len() <= TRACEPARENT_BYTES_MAX);
            match self.start(ask, slot_ms, traceparent) {
                Ok(Accepted { next_beat }) => {
                    // Beats may be composed meanwhile: each attempt is in the one that the last answer names.
                    answer.next_beat = answer.next_beat.max(next_beat);
                    answer.accepted += 1;
                }
                Err(refused) => answer.refused.push(ListRefused { attempt, refused }),
            }
        }
        Ok(json(StatusCode::ACCEPTED, &answer))
    }

    fn start(&self, ask: Execute, slot_ms: i64, traceparent: Option<String>) -> Result<Accepted, Refusal> {
        let (attempt, run) = (ask.attempt, ask.run);
        let answer = self.live.execute(ask, slot_ms, traceparent);
        match answer {
            // Also what a server with a new data directory looks like; only a restart heals that.
            Err(Refusal::StaleEpoch) => {
                tracing::warn!(attempt, run, hint = "if the server's data is new, restart this worker", "stale_epoch")
            }
            Err(refused) => tracing::debug!(attempt, run, ?refused, "attempt_refused"),
            Ok(_) => {}
        }
        answer
    }
}

/// The slot of a dispatch that can be meant.
fn slot_of(ask: &Execute) -> Result<i64, Problem> {
    let slot_ms = slot::unix_ms(&ask.slot)
        .ok_or_else(|| invalid("slot", "it is not a time in RFC 3339, such as 2026-12-01T02:00:00+08:00"))?;
    if ask.shard >= ask.shards || ask.no == 0 {
        let message = "a shard is one of 0 to shards - 1, and an attempt's number starts at 1";
        return Err(invalid("shard", message));
    }
    Ok(slot_ms)
}

fn invalid(field: &'static str, message: impl Into<String>) -> Problem {
    Problem { field: Some(field), ..Problem::new(StatusCode::BAD_REQUEST, "invalid", message) }
}

enum Task {
    Execute,
    ExecuteList,
    Cancel,
    Probe,
}

impl Task {
    fn parse(word: &str) -> Option<Task> {
        match word {
            "execute" => Some(Task::Execute),
            "execute-list" => Some(Task::ExecuteList),
            "cancel" => Some(Task::Cancel),
            "probe" => Some(Task::Probe),
            _ => None,
        }
    }
}

/// A request that is not one.
struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<&'static str>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, code, message: message.into(), field: None }
    }

    fn into_answer(self) -> Answer {
        let field = self.field.map(str::to_owned);
        let error = rota_wire::error::Error { code: self.code.to_owned(), message: self.message, field, hint: None };
        json(self.status, &error)
    }
}

/// As it came, if it is short enough to be one.
fn traceparent(request: &Request<Incoming>) -> Option<String> {
    let value = request.headers().get("traceparent")?.to_str().ok()?;
    (value.len() <= TRACEPARENT_BYTES_MAX).then(|| value.to_owned())
}

fn expect_method(request: &Request<Incoming>, method: &Method) -> Result<(), Problem> {
    if request.method() == method {
        return Ok(());
    }
    let message = format!("this path takes {method}");
    Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message))
}

async fn read<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Problem> {
    let too_large = || {
        let message = format!("the body has more than {BODY_BYTES_MAX} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    };
    let body = request.into_body();
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let Ok(collected) = tokio::time::timeout(BODY_READ, Limited::new(body, BODY_BYTES_MAX).collect()).await else {
        return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", "the body did not arrive in time"));
    };
    let body = collected.map_err(|error| {
        if error.is::<LengthLimitError>() {
            too_large()
        } else {
            Problem::new(StatusCode::BAD_REQUEST, "body_broken", format!("the body broke off: {error}"))
        }
    })?;
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "invalid", format!("the body does not parse: {error}")))
}

fn told<T: Serialize>(answer: Result<T, Refusal>) -> Answer {
    match answer {
        Ok(status) => json(StatusCode::OK, &status),
        Err(refused) => json(StatusCode::CONFLICT, &Refused { refused }),
    }
}

fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).expect("these shapes always encode");
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    answer
}
