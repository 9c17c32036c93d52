//! Between the machine's words and those of the worker protocol.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use rota_core::id::{AttemptId, RunId};
use rota_core::job::Target;
use rota_core::limits::MESSAGE_BYTES_MAX;
use rota_core::partition::{CancelAnswer, Dispatch, Enquiry, Input, Outcome, ProbeAnswer, Report, SendOutcome};
use rota_core::why::Why;
use rota_port::executor::Outbound;
use rota_wire::worker as wire;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::peer::Address;
use crate::connection::Response;

/// The request that carries a call.
pub(super) fn request(address: &Address, call: &Outbound) -> Request<Full<Bytes>> {
    match call {
        Outbound::Send(send) => {
            let body = execute(send);
            post(address, &address.execute, &body, body.param.len())
        }
        Outbound::Probe(enquiry) => post(address, &address.probe, &enquire(enquiry), 0),
        Outbound::Cancel(enquiry) => post(address, &address.cancel, &enquire(enquiry), 0),
    }
}

fn post(address: &Address, target: &Uri, body: &impl Serialize, param_bytes: usize) -> Request<Full<Bytes>> {
    // What a body has beside its parameter fits into this, so that it is seldom moved while it grows.
    const REST_BYTES: usize = 512;
    let mut bytes = Vec::with_capacity(REST_BYTES + param_bytes);
    serde_json::to_writer(&mut bytes, body).expect("bodies are plain data with text for keys");
    let mut request = Request::post(target.clone()).body(Full::new(Bytes::from(bytes))).expect("made of checked parts");
    let headers = request.headers_mut();
    headers.insert(HOST, address.endpoint.authority.clone());
    headers.insert(AUTHORIZATION, address.bearer.clone());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request
}

fn execute(send: &Dispatch) -> wire::Execute {
    let Target::Handler { name, param } = &send.body.target else {
        unreachable!("the machine sends URL jobs to the URL executor");
    };
    wire::Execute {
        incarnation: send.worker.as_ref().expect("a call over HTTP names its worker").incarnation.0,
        epoch: send.epoch.0,
        attempt: send.attempt.0,
        run: send.run.0,
        shard: send.shard,
        shards: send.shards,
        no: send.no,
        idempotency_key: crate::idempotency_key(send.run, send.shard),
        job: send.job.0,
        job_name: send.body.name.clone(),
        version: send.version.0,
        origin: send.origin.word().to_owned(),
        slot: send.body.zone.format(send.slot),
        zone: send.body.zone.name().to_owned(),
        handler: name.clone(),
        param: send.param.as_deref().unwrap_or(param).to_owned(),
        timeout_ms: send.timeout_ms,
    }
}

fn enquire(enquiry: &Enquiry) -> wire::Enquiry {
    wire::Enquiry {
        incarnation: enquiry.incarnation.0,
        epoch: enquiry.epoch.0,
        attempt: enquiry.attempt.0,
        run: enquiry.run.0,
        shard: enquiry.shard,
        no: enquiry.no,
    }
}

/// The answer to a call of which nothing was sent.
pub(super) fn unsent(call: &Outbound, why: Why) -> Input {
    match call {
        Outbound::Send(send) => Input::Sent { attempt: send.attempt, outcome: SendOutcome::NotStarted(why) },
        Outbound::Probe(_) | Outbound::Cancel(_) => unanswered(call),
    }
}

/// The answer to a call that was sent, and not answered in a way that can be understood.
pub(super) fn unanswered(call: &Outbound) -> Input {
    match call {
        Outbound::Send(send) => Input::Sent { attempt: send.attempt, outcome: SendOutcome::InDoubt },
        Outbound::Probe(enquiry) => Input::Probed { attempt: enquiry.attempt, answer: ProbeAnswer::Silent },
        Outbound::Cancel(enquiry) => Input::Cancelled { attempt: enquiry.attempt, answer: CancelAnswer::Silent },
    }
}

/// What a response says about its call.
pub(super) fn answered(call: &Outbound, response: &Response) -> Input {
    match call {
        Outbound::Send(send) => Input::Sent { attempt: send.attempt, outcome: sent(response) },
        Outbound::Probe(enquiry) => Input::Probed { attempt: enquiry.attempt, answer: probed(enquiry, response) },
        Outbound::Cancel(enquiry) => {
            Input::Cancelled { attempt: enquiry.attempt, answer: cancelled(enquiry, response) }
        }
    }
}

fn sent(response: &Response) -> SendOutcome {
    let outcome = match response.status {
        StatusCode::ACCEPTED => body(response).map(|wire::Accepted { next_beat }| SendOutcome::Accepted { next_beat }),
        StatusCode::CONFLICT => body(response).map(|wire::Refused { refused }| SendOutcome::NotStarted(why(refused))),
        _ => None,
    };
    // A proxy's 502, a redirect, a wrong service: whatever it is, it proves nothing.
    outcome.unwrap_or_else(|| {
        tracing::debug!(status = response.status.as_u16(), bytes = response.body.len(), "answer_not_understood");
        SendOutcome::InDoubt
    })
}

fn why(refusal: wire::Refusal) -> Why {
    match refusal {
        wire::Refusal::ForeignIncarnation => Why::RefusedForeignIncarnation,
        wire::Refusal::StaleEpoch => Why::RefusedStaleEpoch,
        wire::Refusal::Cancelled => Why::RefusedCancelled,
        wire::Refusal::Draining => Why::RefusedDraining,
        wire::Refusal::UnknownHandler => Why::RefusedUnknownHandler,
        wire::Refusal::Full => Why::RefusedFull,
    }
}

fn probed(enquiry: &Enquiry, response: &Response) -> ProbeAnswer {
    match status(response) {
        Some(wire::Status::NeverSeen) => ProbeAnswer::NeverSeen,
        Some(wire::Status::Running { next_beat }) => ProbeAnswer::Running { next_beat },
        Some(wire::Status::Finished { result }) => {
            report(enquiry, result).map_or(ProbeAnswer::Silent, ProbeAnswer::Finished)
        }
        Some(wire::Status::ForeignIncarnation) => ProbeAnswer::ForeignIncarnation,
        None => ProbeAnswer::Silent,
    }
}

fn cancelled(enquiry: &Enquiry, response: &Response) -> CancelAnswer {
    match status(response) {
        Some(wire::Status::NeverSeen) => CancelAnswer::NeverSeen,
        Some(wire::Status::Running { next_beat }) => CancelAnswer::Stopping { next_beat },
        Some(wire::Status::Finished { result }) => {
            report(enquiry, result).map_or(CancelAnswer::Silent, CancelAnswer::Finished)
        }
        Some(wire::Status::ForeignIncarnation) => CancelAnswer::ForeignIncarnation,
        None => CancelAnswer::Silent,
    }
}

fn status(response: &Response) -> Option<wire::Status> {
    if response.status == StatusCode::OK { body(response) } else { None }
}

fn body<T: DeserializeOwned>(response: &Response) -> Option<T> {
    if response.is_cut { None } else { serde_json::from_slice(&response.body).ok() }
}

/// A result that an enquiry was answered with; none if it is of another attempt.
fn report(enquiry: &Enquiry, result: wire::AttemptResult) -> Option<Report> {
    if (result.attempt, result.run, result.shard, result.no)
        != (enquiry.attempt.0, enquiry.run.0, enquiry.shard, enquiry.no)
    {
        return None;
    }
    Some(Report {
        attempt: AttemptId(result.attempt),
        run: RunId(result.run),
        shard: result.shard,
        no: result.no,
        outcome: match result.outcome {
            wire::Outcome::Success => Outcome::Success,
            wire::Outcome::Failed => Outcome::Failed(Why::HandlerFailed),
            wire::Outcome::Timeout => Outcome::Timeout,
            wire::Outcome::Killed => Outcome::Killed,
        },
        message: result.message.map(|text| text[..text.floor_char_boundary(MESSAGE_BYTES_MAX)].into()),
    })
}
