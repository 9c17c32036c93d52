//! One worker: its address, its two lines of calls, and what a connection does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use http::Uri;
use http::header::HeaderValue;
use rota_core::id::PartitionId;
use rota_core::time::Mono;
use rota_core::why::Why;
use rota_core::worker::Registration;
use rota_port::executor::Outbound;

use super::seat::Seat;
use super::{Config, encode, translate};
use crate::Clock;
use crate::connect::{self, Connector};
use crate::connection::{BodyLimit, Connection, Failure};
use crate::endpoint::{BadUrl, Endpoint};
use crate::lane::Outbox;
use crate::trace;

/// Answers of workers are small; what is larger is none.
const ANSWER: BodyLimit = BodyLimit { kept_bytes_max: 64 << 10, read_bytes_max: 64 << 10 };
/// Sends in one call at most, whatever a worker would take: what is lost with a connection is in doubt.
const LIST_MAX: usize = 128;
/// Bytes of parameters in one call of several sends; a longer one goes alone.
const LIST_BYTES_MAX: usize = 256 << 10;
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
    pub(super) execute_list: Uri,
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
            execute_list: endpoint.join("/internal/tasks/execute-list"),
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
    /// Connections, also those that are still being made.
    pub(super) open: Cell<usize>,
    pub(super) connecting: Cell<usize>,
    /// Of all connections that stand.
    seats: RefCell<Vec<Rc<Seat>>>,
    /// Of those that wait for a call; the one that was used last is the last.
    idle: RefCell<Vec<Rc<Seat>>>,
    /// Connections that were called, and have not come yet.
    called: Cell<usize>,
    /// A connection could not be made: no other is tried before the next tick.
    pub(super) is_paused: Cell<bool>,
    /// Opened as calls come.
    pub(super) connections: usize,
    /// Opened while answers are slow.
    pub(super) connections_max: usize,
    /// Calls that a connection takes at once.
    list_max: usize,
}

impl Line {
    fn new(connections: usize, connections_max: usize, list_max: usize) -> Line {
        Line {
            queue: RefCell::new(VecDeque::new()),
            open: Cell::new(0),
            connecting: Cell::new(0),
            seats: RefCell::new(Vec::new()),
            idle: RefCell::new(Vec::new()),
            called: Cell::new(0),
            is_paused: Cell::new(false),
            connections,
            connections_max,
            list_max,
        }
    }

    /// Whether more calls wait than connections are about to take, and `connections_max` are not open yet.
    pub(super) fn wants_connection(&self, connections_max: usize) -> bool {
        let coming = self.idle.borrow().len() + self.called.get() + self.connecting.get();
        coming * self.list_max < self.queue.borrow().len() && self.open.get() < connections_max && !self.is_paused.get()
    }

    /// Calls another connection, unless those that were called will take all that waits.
    pub(super) fn call(&self) {
        if self.called.get() * self.list_max < self.queue.borrow().len() {
            self.ring();
        }
    }

    /// Calls a connection that waits, if one does: the one that was used last, since the others may grow old and close.
    pub(super) fn ring(&self) {
        if let Some(seat) = self.idle.borrow_mut().pop() {
            self.called.set(self.called.get() + 1);
            seat.call();
        }
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

impl Line {
    /// Takes the calls that go with `first` in one request; nothing unless the worker takes lists.
    fn fill(&self, context: &Context, list: &mut Vec<Call>) {
        let bytes = |call: &Call| translate::send_of(&call.what).map_or(0, |send| encode::param(send).len());
        let mut left = LIST_BYTES_MAX.saturating_sub(list.iter().map(bytes).sum());
        let fits = |left| self.queue.borrow().front().is_some_and(|call| bytes(call) <= left);
        while list.len() < self.list_max
            && fits(left)
            && let Some(call) = self.next(context)
        {
            left = left.saturating_sub(bytes(&call));
            list.push(call);
        }
        // What is too much for one call goes out beside it.
        self.call();
    }
}

/// One incarnation of a worker at one address.
pub(super) struct Peer {
    pub(super) address: Address,
    pub(super) sends: Line,
    enquiries: Line,
}

impl Peer {
    pub(super) fn new(address: Address, list_max: u32, config: &Config) -> Peer {
        let (enquiries, enquiries_max) = ENQUIRIES;
        let list_max = (list_max as usize).clamp(1, LIST_MAX);
        Peer {
            address,
            sends: Line::new(config.connections, config.connections_max.max(config.connections), list_max),
            enquiries: Line::new(enquiries, enquiries_max, 1),
        }
    }

    pub(super) fn line(&self, which: Which) -> &Line {
        match which {
            Which::Sends => &self.sends,
            Which::Enquiries => &self.enquiries,
        }
    }

    /// Tells connections whose time is over.
    pub(super) fn look(&self) {
        for line in [&self.sends, &self.enquiries] {
            for seat in &*line.seats.borrow() {
                seat.look();
            }
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
    let seat = Rc::new(Seat::take().await);
    line.seats.borrow_mut().push(seat.clone());
    let mut is_fresh = true;
    let mut calls = Vec::new();
    loop {
        calls.extend(line.next(context));
        if calls.is_empty() {
            if wait(context, line, &seat, &mut connection).await {
                continue;
            }
            break;
        }
        line.fill(context, &mut calls);
        let after = exchange(context, peer, &seat, &mut connection, &calls).await;
        match after {
            After::Reusable => is_fresh = false,
            After::Useless => break,
            // A connection that is closed as soon as it is made is none.
            After::NotSent if is_fresh => {
                for call in calls.drain(..) {
                    context.answer_unsent(call, Why::ConnectFailed);
                }
                break;
            }
            // The calls wait for the next connection, as if this one had never taken them.
            After::NotSent => {
                let mut queue = line.queue.borrow_mut();
                calls.drain(..).rev().for_each(|call| queue.push_front(call));
                break;
            }
        }
        calls.clear();
    }
    line.seats.borrow_mut().retain(|other| !Rc::ptr_eq(other, &seat));
}

/// Waits to be called; false if the connection is closed, or was not called for too long.
async fn wait(context: &Context, line: &Line, seat: &Rc<Seat>, connection: &mut Connection) -> bool {
    line.idle.borrow_mut().push(seat.clone());
    // A closed connection is seen before a call is taken for it.
    let is_open = seat.within(context.config.idle_ms, |cx| match connection.poll_closed(cx) {
        Poll::Ready(()) => Poll::Ready(false),
        Poll::Pending if seat.take_call() => Poll::Ready(true),
        Poll::Pending => Poll::Pending,
    });
    let is_open = is_open.await;
    if is_open != Some(true) {
        line.idle.borrow_mut().retain(|other| !Rc::ptr_eq(other, seat));
        if !seat.take_call() {
            return false;
        }
        // It was called, and cannot come: another one shall.
        line.ring();
    }
    line.called.set(line.called.get() - 1);
    is_open == Some(true)
}

/// What became of a connection in an exchange.
enum After {
    /// It takes the next call.
    Reusable,
    /// It is of no more use.
    Useless,
    /// It was closed before a byte of the request was written.
    NotSent,
}

/// Sends calls in one request, one alone or a list of sends, and answers them, unless nothing was sent.
async fn exchange(context: &Context, peer: &Peer, seat: &Seat, connection: &mut Connection, calls: &[Call]) -> After {
    let first = &calls[0];
    let ms = match &first.what {
        Outbound::Send(_) => context.config.exchange_ms,
        Outbound::Probe(_) | Outbound::Cancel(_) => first.by.since((context.clock)()),
    };
    let headers = connection.headers();
    let request = if let [alone] = calls {
        let mut request = translate::request(&peer.address, &alone.what, headers);
        if let Outbound::Send(send) = &alone.what {
            trace::mark(request.headers_mut(), context.config.sampler, send);
        }
        request
    } else {
        translate::request_of_list(&peer.address, calls, context.config.sampler, headers)
    };
    let answer = {
        let mut exchange = pin!(connection.exchange(request, ANSWER));
        seat.within(ms, |cx| exchange.as_mut().poll(cx)).await
    };
    match answer {
        Some(Ok(response)) => {
            if let [alone] = calls {
                let answer = translate::answered(&alone.what, &response);
                context.outbox.put_said(alone.partition, registration(&alone.what).app, answer);
            } else {
                translate::answered_list(calls, &response, |partition, input| context.outbox.put(partition, input));
            }
            if response.is_cut {
                return After::Useless;
            }
            let mut reusable = pin!(connection.is_reusable());
            let is_reusable = seat.within(ms, |cx| reusable.as_mut().poll(cx)).await;
            return if is_reusable == Some(true) { After::Reusable } else { After::Useless };
        }
        Some(Err(Failure::NotSent)) => return After::NotSent,
        Some(Err(Failure::Broken(error))) => {
            tracing::debug!(url = peer.address.url, error = &error as &dyn std::error::Error, "exchange_broken");
        }
        None => tracing::debug!(url = peer.address.url, ms, "exchange_timed_out"),
    }
    for call in calls {
        context.outbox.put(call.partition, translate::unanswered(&call.what));
    }
    After::Useless
}
