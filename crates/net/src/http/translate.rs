//! Between the machine's words and those of the worker protocol.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use rota_core::id::{AttemptId, PartitionId, RunId};
use rota_core::limits::MESSAGE_BYTES_MAX;
use rota_core::partition::{CancelAnswer, Dispatch, Enquiry, Input, Outcome, ProbeAnswer, Report, SendOutcome};
use rota_core::trace::Sampler;
use rota_core::why::Why;
use rota_port::executor::Outbound;
use rota_wire::worker as wire;
use serde::de::DeserializeOwned;

use super::encode;
use super::peer::{Address, Call};
use crate::connection::Response;

/// The request that carries a call, made of an empty map of headers.
pub(super) fn request(address: &Address, call: &Outbound, headers: HeaderMap) -> Request<Full<Bytes>> {
    let (target, body) = match call {
        Outbound::Send(send) => (&address.execute, encode::execute(send)),
        Outbound::Probe(enquiry) => (&address.probe, enquire(enquiry)),
        Outbound::Cancel(enquiry) => (&address.cancel, enquire(enquiry)),
    };
    post(address, target, body, headers)
}

/// The request that carries several sends.
pub(super) fn request_of_list(
    address: &Address,
    sends: &[Call],
    sampler: Sampler,
    headers: HeaderMap,
) -> Request<Full<Bytes>> {
    let body = encode::execute_list(sends.iter().filter_map(|call| send_of(&call.what)), sampler);
    post(address, &address.execute_list, body, headers)
}

/// The dispatch that a call carries, if it is a send.
pub(super) fn send_of(call: &Outbound) -> Option<&Dispatch> {
    match call {
        Outbound::Send(send) => Some(send),
        Outbound::Probe(_) | Outbound::Cancel(_) => None,
    }
}

fn post(address: &Address, target: &Uri, body: Bytes, mut headers: HeaderMap) -> Request<Full<Bytes>> {
    headers.insert(HOST, address.endpoint.authority.clone());
    headers.insert(AUTHORIZATION, address.bearer.clone());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target.clone();
    *request.headers_mut() = headers;
    request
}

fn enquire(enquiry: &Enquiry) -> Bytes {
    let body = wire::Enquiry {
        incarnation: enquiry.incarnation.0,
        epoch: enquiry.epoch.0,
        attempt: enquiry.attempt.0,
        run: enquiry.run.0,
        shard: enquiry.shard,
        no: enquiry.no,
    };
    serde_json::to_vec(&body).expect("bodies are plain data").into()
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

/// What the answer to a list says of its sends, in their order. An answer that does not account for each of them proves
/// nothing of any.
pub(super) fn answered_list(sends: &[Call], response: &Response, mut put: impl FnMut(PartitionId, Input)) {
    let said = if response.status == StatusCode::ACCEPTED { body::<wire::ListAccepted>(response) } else { None };
    let said = said.filter(|said| accounts_for(sends, said));
    if said.is_none() {
        tracing::debug!(status = response.status.as_u16(), bytes = response.body.len(), "answer_not_understood");
    }
    for call in sends {
        let Some(send) = send_of(&call.what) else { continue };
        let outcome = said.as_ref().map_or(SendOutcome::InDoubt, |said| {
            let refused = said.refused.iter().find(|refused| refused.attempt == send.attempt.0);
            refused.map_or(SendOutcome::Accepted { next_beat: said.next_beat }, |refused| {
                SendOutcome::NotStarted(why(refused.refused))
            })
        });
        put(call.partition, Input::Sent { attempt: send.attempt, outcome });
    }
}

fn accounts_for(sends: &[Call], said: &wire::ListAccepted) -> bool {
    let is_of_list =
        |attempt: u64| sends.iter().filter_map(|call| send_of(&call.what)).any(|send| send.attempt.0 == attempt);
    let refused: BTreeSet<u64> = said.refused.iter().map(|refused| refused.attempt).collect();
    refused.len() == said.refused.len()
        && refused.into_iter().all(is_of_list)
        && said.accepted as usize + said.refused.len() == sends.len()
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
