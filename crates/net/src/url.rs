//! The requests of URL jobs: no worker, the response is the result.
//!
//! Each request has a connection and a task of its own. They are few, and kept-alive connections would
//! leave an attempt in doubt whenever the peer closes at that very moment, which for a URL nothing can
//! resolve. How many are under way at once is bounded by the machine's credits for each host.
//!
//! A cancel drops the exchange. Before the first byte that is proof of not having started; after it the
//! request may have been, and may still be, carried out over there, but nothing more will be heard of it:
//! the cancel is answered `Stopping` and the send `Finished(Killed)`. A probe is answered `Silent`:
//! nobody can be asked.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{Method, Request};
use http_body_util::Full;
use rota_core::id::{AttemptId, PartitionId};
use rota_core::job::Target;
use rota_core::limits::MESSAGE_BYTES_MAX;
use rota_core::partition::{CancelAnswer, Dispatch, Input, Outcome, ProbeAnswer, SendOutcome};
use rota_core::trace::Sampler;
use rota_core::why::Why;
use rota_core::worker::Protocol;
use rota_port::executor::{Executor, Outbound, Outcomes};
use rota_port::secrets::{Secrets, Vault};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use crate::Clock;
use crate::connect::{self, Connector};
use crate::connection::{BodyLimit, Connection, Failure, Response};
use crate::endpoint::Endpoint;
use crate::lane::{self, Lane, Outbox};
use crate::policy::{Policy, Purpose};
use crate::trace;

/// How URLs are called. Times are milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Bounds resolving, connecting and the TLS handshake together.
    pub connect_ms: u64,
    /// From the first byte of a request to the end of its response, unless the job says otherwise.
    pub exchange_ms: u64,
    /// Whose requests carry `traceparent`.
    pub sampler: Sampler,
}

impl Config {
    /// What suits most.
    pub const DEFAULT: Config = Config { connect_ms: 5_000, exchange_ms: 60_000, sampler: Sampler::NONE };
}

/// Makes the requests of URL jobs, on one lane.
pub struct UrlExecutor {
    lane: Lane,
}

impl UrlExecutor {
    /// Starts the lane.
    pub fn start(
        config: Config,
        policy: Arc<Policy>,
        tls: Arc<ClientConfig>,
        clock: Clock,
        outcomes: Arc<dyn Outcomes>,
        secrets: Arc<Secrets>,
    ) -> io::Result<UrlExecutor> {
        let timeout = Duration::from_millis(config.connect_ms);
        let lane = Lane::start("lane-url".to_owned(), outcomes, secrets, move |outbox| {
            let connector = Connector { policy, tls, purpose: Purpose::UrlJob, timeout };
            Desk { context: Rc::new(Context { config, clock, connector, outbox }), flights: BTreeMap::new() }
        })?;
        Ok(UrlExecutor { lane })
    }
}

impl Executor for UrlExecutor {
    fn protocol(&self) -> Protocol {
        Protocol::Url
    }

    fn submit(&self, calls: Vec<(PartitionId, Outbound)>) {
        self.lane.submit(calls.into_iter());
    }
}

struct Context {
    config: Config,
    clock: Clock,
    connector: Connector,
    outbox: Rc<Outbox>,
}

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Not a byte of it was written.
    Connecting,
    /// It may have been received.
    Sent,
    /// Its outcome is known.
    Over,
}

/// A request under way.
struct Flight {
    partition: PartitionId,
    phase: Rc<Cell<Phase>>,
    task: AbortHandle,
}

struct Desk {
    context: Rc<Context>,
    flights: BTreeMap<AttemptId, Flight>,
}

impl Desk {
    /// Stops a request; the answers to its cancel and to itself, in this order.
    fn cancel(&mut self, attempt: AttemptId) -> (CancelAnswer, Option<(PartitionId, SendOutcome)>) {
        let Some(flight) = self.flights.remove(&attempt) else { return (CancelAnswer::Silent, None) };
        flight.task.abort();
        match flight.phase.get() {
            Phase::Connecting => {
                (CancelAnswer::NeverSent, Some((flight.partition, SendOutcome::NotStarted(Why::RefusedCancelled))))
            }
            Phase::Sent => (
                CancelAnswer::Stopping { next_beat: u64::MAX },
                Some((flight.partition, SendOutcome::Finished(Outcome::Killed, None))),
            ),
            // Its answer is on its way already.
            Phase::Over => (CancelAnswer::Silent, None),
        }
    }
}

impl lane::Desk for Desk {
    type Ended = AttemptId;

    fn take(&mut self, tasks: &mut JoinSet<AttemptId>, partition: PartitionId, call: Outbound) {
        match call {
            Outbound::Send(send) => {
                let attempt = send.attempt;
                let phase = Rc::new(Cell::new(Phase::Connecting));
                let (context, its_phase) = (self.context.clone(), phase.clone());
                let task = tasks.spawn_local(async move {
                    let outcome = perform(&context, &send, &its_phase).await;
                    its_phase.set(Phase::Over);
                    context.outbox.put_said(partition, send.app, Input::Sent { attempt, outcome });
                    attempt
                });
                let former = self.flights.insert(attempt, Flight { partition, phase, task });
                assert!(former.is_none(), "a machine sends an attempt once");
            }
            Outbound::Cancel(enquiry) => {
                let attempt = enquiry.attempt;
                let (answer, sent) = self.cancel(attempt);
                self.context.outbox.put(partition, Input::Cancelled { attempt, answer });
                if let Some((partition, outcome)) = sent {
                    self.context.outbox.put(partition, Input::Sent { attempt, outcome });
                }
            }
            Outbound::Probe(enquiry) => {
                let answer = Input::Probed { attempt: enquiry.attempt, answer: ProbeAnswer::Silent };
                self.context.outbox.put(partition, answer);
            }
        }
    }

    fn ended(&mut self, _tasks: &mut JoinSet<AttemptId>, attempt: AttemptId) {
        self.flights.remove(&attempt);
    }

    fn tick(&mut self, _tasks: &mut JoinSet<AttemptId>) -> bool {
        false
    }
}

/// Makes a request.
async fn perform(context: &Context, send: &Dispatch, phase: &Cell<Phase>) -> SendOutcome {
    let (to, mut request) = match prepare(send) {
        Ok(prepared) => prepared,
        Err(problem) => {
            let message = format!("the request cannot be made: {problem}");
            // What was filled in may stand in it.
            let message = context.outbox.vault(send.app).redact(&message).into_owned();
            return SendOutcome::Unsendable(Why::TemplateFailed, message.into());
        }
    };
    trace::mark(request.headers_mut(), context.config.sampler, send);
    let mut connection = match open(context, &to).await {
        Ok(connection) => connection,
        Err(error) => {
            tracing::debug!(host = to.host, error = &error as &dyn std::error::Error, "connect_failed");
            return SendOutcome::NotStarted(error.why());
        }
    };
    if (context.clock)() >= send.send_by {
        return SendOutcome::NotStarted(Why::SendDeadline);
    }
    phase.set(Phase::Sent);
    let exchange_ms = send.timeout_ms.unwrap_or(context.config.exchange_ms);
    match timeout(Duration::from_millis(exchange_ms), connection.exchange(request, RESPONSE)).await {
        Ok(Ok(response)) => finished(&response, &context.outbox.vault(send.app)),
        Ok(Err(Failure::NotSent)) => SendOutcome::NotStarted(Why::ConnectFailed),
        Ok(Err(Failure::Broken(error))) => {
            tracing::debug!(host = to.host, error = &error as &dyn std::error::Error, "exchange_broken");
            SendOutcome::InDoubt
        }
        Err(_elapsed) => {
            tracing::debug!(host = to.host, exchange_ms, "exchange_timed_out");
            SendOutcome::InDoubt
        }
    }
}

async fn open(context: &Context, to: &Endpoint) -> Result<Connection, connect::Error> {
    let stream = context.connector.connect(to).await?;
    Connection::open(stream).await.map_err(|error| connect::Error::Unreachable(io::Error::other(error)))
}

/// Headers that belong to the connection or to Rota.
const RESERVED: [HeaderName; 8] =
    [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, TE, TRAILER, UPGRADE, IDEMPOTENCY_KEY];
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Where a dispatch goes, and its request; or what is wrong with its definition.
fn prepare(send: &Dispatch) -> Result<(Endpoint, Request<Full<Bytes>>), String> {
    let Target::Url { method, url, headers, body } = &send.body.target else {
        unreachable!("the machine sends handlers to their workers");
    };
    let to = Endpoint::parse(url).map_err(|bad| bad.to_string())?;
    let body = send.param.as_deref().unwrap_or(body);
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *request.method_mut() = method.parse::<Method>().map_err(|_| format!("`{method}` is not a method"))?;
    *request.uri_mut() = to.target.clone();
    let out = request.headers_mut();
    out.insert(USER_AGENT, HeaderValue::from_static(concat!("rota/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in headers {
        let name: HeaderName = name.parse().map_err(|_| format!("`{name}` is not the name of a header"))?;
        if RESERVED.contains(&name) {
            return Err(format!("the header {name} is set by Rota"));
        }
        let mut value: HeaderValue = value
            .parse()
            .map_err(|_| format!("the value of the header {name} has characters that no header can carry"))?;
        value.set_sensitive(true);
        out.insert(name, value);
    }
    out.insert(HOST, to.authority.clone());
    out.insert(CONNECTION, HeaderValue::from_static("close"));
    let key = crate::idempotency_key(send.run, send.shard);
    out.insert(IDEMPOTENCY_KEY, key.parse().expect("digits and a slash"));
    Ok((to, request))
}

/// What is kept of a response, and how far it is read to see its end: some services answer with a head
/// at once and work while they write the body.
const RESPONSE: BodyLimit = BodyLimit { kept_bytes_max: MESSAGE_BYTES_MAX, read_bytes_max: 1 << 20 };

fn finished(response: &Response, vault: &Vault) -> SendOutcome {
    let said = String::from_utf8_lossy(&response.body);
    let mut is_cut = response.is_cut;
    let mut text = if is_cut { vault.redact_cut(&said) } else { vault.redact(&said) }.into_owned();
    let outcome = if response.status.is_success() {
        Outcome::Success
    } else {
        let mut head = format!("status {}", response.status.as_u16());
        if response.status.is_redirection() {
            head.push_str(", redirects are not followed");
        }
        text = if text.is_empty() { head } else { format!("{head}: {text}") };
        Outcome::Failed(Why::HttpStatus)
    };
    const CUT: &str = " … (cut)";
    is_cut |= text.len() > MESSAGE_BYTES_MAX;
    if is_cut {
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX - CUT.len()));
        text.push_str(CUT);
    }
    SendOutcome::Finished(outcome, (!text.is_empty()).then(|| text.into()))
}
