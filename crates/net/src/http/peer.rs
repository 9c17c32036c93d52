//! One worker: its address, its two lines of calls, and what a connection does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use http::Uri;
use http::header::HeaderValue;
use rota_core::id::PartitionId;
use rota_core::time::Mono;
use rota_core::why::Why;
use rota_core::worker::Registration;
use rota_port::executor::Outbound;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Config, translate};
use crate::Clock;
use crate::connect::{self, Connector};
use crate::connection::{BodyLimit, Connection, Failure};
use crate::endpoint::{BadUrl, Endpoint};
use crate::lane::Outbox;
use crate::trace;

/// Answers of workers are small; what is larger is none.
const ANSWER: BodyLimit = BodyLimit { kept_bytes_max: 64 << 10, read_bytes_max: 64 << 10 };
/// Connections for cancels and probes: opened as they come, and at most.
const ENQUIRIES: (usize, usize) = (2, 8);

/// What all connections of a lane share.
pub(super) struct Context {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) connector: Connector,
    pub(super) outbox: Rc<Outbox>,
}

impl Context {
    /// Answers a call of which nothing was sent.
    pub(super) fn answer_unsent(&self, call: Call, why: Why) {
        self.outbox.put(call.partition, translate::unsent(&call.what, why));
    }
}

/// The worker that a call is for.
pub(super) fn registration(call: &Outbound) -> &Registration {
    let worker = match call {
        Outbound::Send(send) => &send.worker,
        Outbound::Probe(enquiry) | Outbound::Cancel(enquiry) => &enquiry.worker,
    };
    worker.as_deref().expect("a call over HTTP names its worker")
}

/// Everything of a request that is the same for all calls to a worker.
pub(super) struct Address {
    url: String,
    secret: String,
    pub(super) endpoint: Endpoint,
    pub(super) bearer: HeaderValue,
    pub(super) execute: Uri,
    pub(super) cancel: Uri,
    pub(super) probe: Uri,
}

impl Address {
    pub(super) fn of(worker: &Registration) -> Result<Address, BadUrl> {
        let endpoint = Endpoint::parse_base(&worker.url)?;
        let bearer = HeaderValue::from_str(&format!("Bearer {}", worker.secret.0));
        let mut bearer =
            bearer.map_err(|_| BadUrl { url: worker.url.clone(), problem: "has a secret that no header can carry" })?;
        bearer.set_sensitive(true);
        Ok(Address {
            url: worker.url.clone(),
            secret: worker.secret.0.clone(),
            execute: endpoint.join("/internal/tasks/execute"),
            cancel: endpoint.join("/internal/tasks/cancel"),
            probe: endpoint.join("/internal/tasks/probe"),
            endpoint,
            bearer,
        })
    }

    /// Whether a registration still means this address.
    pub(super) fn is_of(&self, worker: &Registration) -> bool {
        self.url == worker.url && self.secret == worker.secret.0
    }
}

/// A call that waits.
pub(super) struct Call {
    pub(super) partition: PartitionId,
    pub(super) what: Outbound,
    /// When it was submitted.
    pub(super) since: Mono,
    /// No first byte is sent from then on.
    pub(super) by: Mono,
}

/// Which of a worker's lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    Sends,
    Enquiries,
}

/// Calls of one kind to one worker, and the connections that take them. No cell is borrowed across an await.
pub(super) struct Line {
    pub(super) queue: RefCell<VecDeque<Call>>,
    pub(super) bell: Notify,
    /// Connections, also those that are still being made.
    pub(super) open: Cell<usize>,
    pub(super) connecting: Cell<usize>,
    pub(super) idle: Cell<usize>,
    /// A connection could not be made: no other is tried before the next tick.
    pub(super) is_paused: Cell<bool>,
    /// Opened as calls come.
    pub(super) connections: usize,
    /// Opened while answers are slow.
    pub(super) connections_max: usize,
}

impl Line {
    fn new(connections: usize, connections_max: usize) -> Line {
        Line {
            queue: RefCell::new(VecDeque::new()),
            bell: Notify::new(),
            open: Cell::new(0),
            connecting: Cell::new(0),
            idle: Cell::new(0),
            is_paused: Cell::new(false),
            connections,
            connections_max,
        }
    }

    /// Whether more calls wait than connections are about to take, and `connections_max` are not open yet.
    pub(super) fn wants_connection(&self, connections_max: usize) -> bool {
        let is_short = self.idle.get() + self.connecting.get() < self.queue.borrow().len();
        is_short && self.open.get() < connections_max && !self.is_paused.get()
    }

    /// The next call whose time is not over; answers those whose time is.
    fn next(&self, context: &Context) -> Option<Call> {
        loop {
            let call = self.queue.borrow_mut().pop_front()?;
            if (context.clock)() < call.by {
                return Some(call);
            }
            context.answer_unsent(call, Why::SendDeadline);
        }
    }
}

/// One incarnation of a worker at one address.
pub(super) struct Peer {
    pub(super) address: Address,
    pub(super) sends: Line,
    enquiries: Line,
}

impl Peer {
    pub(super) fn new(address: Address, config: &Config) -> Peer {
        let (enquiries, enquiries_max) = ENQUIRIES;
        Peer {
            address,
            sends: Line::new(config.connections, config.connections_max.max(config.connections)),
            enquiries: Line::new(enquiries, enquiries_max),
        }
    }

    pub(super) fn line(&self, which: Which) -> &Line {
        match which {
            Which::Sends => &self.sends,
            Which::Enquiries => &self.enquiries,
        }
    }

    /// Takes over the calls that wait at the worker's old address.
    pub(super) fn inherit(&self, old: &Peer) {
        for (mine, theirs) in [(&self.sends, &old.sends), (&self.enquiries, &old.enquiries)] {
            mine.queue.borrow_mut().append(&mut theirs.queue.borrow_mut());
        }
    }

    /// Whether it has neither calls nor connections.
    pub(super) fn is_deserted(&self) -> bool {
        [&self.sends, &self.enquiries].iter().all(|line| line.open.get() == 0 && line.queue.borrow().is_empty())
    }
}

/// The life of a connection: it is made, takes calls until it breaks or has been idle for too long, and ends.
pub(super) async fn serve(context: &Context, peer: &Peer, line: &Line) {
    let opened = open(context, peer).await;
    line.connecting.set(line.connecting.get() - 1);
    match opened {
        Ok(connection) => {
            take_calls(context, peer, line, connection).await;
            line.open.set(line.open.get() - 1);
        }
        Err(error) => {
            line.open.set(line.open.get() - 1);
            tracing::debug!(url = peer.address.url, error = &error as &dyn std::error::Error, "connect_failed");
            if line.open.get() > 0 {
                // Another connection stands or is being made: the calls wait for it.
                line.is_paused.set(true);
                return;
            }
            let why = error.why();
            for call in line.queue.take() {
                context.answer_unsent(call, why);
            }
        }
    }
}

async fn open(context: &Context, peer: &Peer) -> Result<Connection, connect::Error> {
    let stream = context.connector.connect(&peer.address.endpoint).await?;
    Connection::open(stream).await.map_err(|error| connect::Error::Unreachable(std::io::Error::other(error)))
}

async fn take_calls(context: &Context, peer: &Peer, line: &Line, mut connection: Connection) {
    let mut is_fresh = true;
    loop {
        if let Some(call) = line.next(context) {
            match exchange(context, peer, &mut connection, call).await {
                After::Reusable => is_fresh = false,
                After::Useless => return,
                // A connection that is closed as soon as it is made is none.
                After::NotSent(call) if is_fresh => return context.answer_unsent(call, Why::ConnectFailed),
                // The call waits for the next connection, as if this one had never taken it.
                After::NotSent(call) => return line.queue.borrow_mut().push_front(call),
            }
            continue;
        }
        line.idle.set(line.idle.get() + 1);
        // A closed connection is seen before a call is taken for it. Each branch is cancel-safe: a bell
        // that rang for a connection that ends is passed on, and the desk looks at the line once more.
        let is_called = tokio::select! {
            biased;
            () = connection.closed() => false,
            () = line.bell.notified() => true,
            () = sleep(Duration::from_millis(context.config.idle_ms)) => false,
        };
        line.idle.set(line.idle.get() - 1);
        if !is_called {
            return;
        }
    }
}

/// What became of a connection in an exchange.
enum After {
    /// It takes the next call.
    Reusable,
    /// It is of no more use.
    Useless,
    /// It was closed before a byte of this call was written.
    NotSent(Call),
}

/// Sends a call and answers it, unless nothing was sent.
async fn exchange(context: &Context, peer: &Peer, connection: &mut Connection, call: Call) -> After {
    let ms = match &call.what {
        Outbound::Send(_) => context.config.exchange_ms,
        Outbound::Probe(_) | Outbound::Cancel(_) => call.by.since((context.clock)()),
    };
    let deadline = Instant::now() + Duration::from_millis(ms);
    let mut request = translate::request(&peer.address, &call.what);
    if let Outbound::Send(send) = &call.what {
        trace::mark(request.headers_mut(), context.config.sampler, send);
    }
    match timeout_at(deadline, connection.exchange(request, ANSWER)).await {
        Ok(Ok(response)) => {
            context.outbox.put(call.partition, translate::answered(&call.what, &response));
            let is_reusable = !response.is_cut && timeout_at(deadline, connection.is_reusable()).await.unwrap_or(false);
            return if is_reusable { After::Reusable } else { After::Useless };
        }
        Ok(Err(Failure::NotSent)) => return After::NotSent(call),
        Ok(Err(Failure::Broken(error))) => {
            tracing::debug!(url = peer.address.url, error = &error as &dyn std::error::Error, "exchange_broken");
        }
        Err(_elapsed) => tracing::debug!(url = peer.address.url, ms, "exchange_timed_out"),
    }
    context.outbox.put(call.partition, translate::unanswered(&call.what));
    After::Useless
}
