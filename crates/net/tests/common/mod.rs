//! Peers that do what a test tells them, and a place that collects answers.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a peer that cannot go on fails its test")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rota_core::batch::Origin;
use rota_core::id::{AppId, AttemptId, Epoch, Incarnation, JobId, PartitionId, RunId, Version, WorkerId};
use rota_core::job::{Body, Target};
use rota_core::partition::{Dispatch, Enquiry, Input};
use rota_core::template::Templates;
use rota_core::time::{Mono, UnixMs};
use rota_core::worker::{Protocol, Registration, Secret};
use rota_cron::Zone;
use rota_net::Clock;
use rota_port::executor::Outcomes;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const PARTITION: PartitionId = PartitionId(5);

/// A request as a peer saw it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// Counts the peer's connections, from 1.
    pub(crate) connection: u64,
}

/// What a peer does after it has read a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Answer(u16, String),
    /// These bytes, then the next request.
    Raw(String),
    /// These bytes, then the end of the connection.
    Last(String),
    /// Nothing; the connection stays until the caller closes it.
    Hold,
}

/// What a test sees of a peer.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Request(Request),
    /// The caller closed this connection.
    Closed(u64),
}

/// A peer on a port of its own.
pub(crate) struct Peer {
    pub(crate) port: u16,
    seen: Receiver<Seen>,
}

impl Peer {
    pub(crate) fn start(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen_by_test, seen) = channel();
        let reply = Arc::new(reply);
        std::thread::spawn(move || {
            for (stream, connection) in listener.incoming().zip(1..) {
                let (reply, seen) = (reply.clone(), seen_by_test.clone());
                std::thread::spawn(move || serve(stream.unwrap(), connection, &*reply, &seen));
            }
        });
        Peer { port, seen }
    }

    /// A peer that takes one connection and then listens no more.
    pub(crate) fn taking_one(reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen_by_test, seen) = channel();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            drop(listener);
            serve(stream, 1, &reply, &seen_by_test);
        });
        Peer { port, seen }
    }

    /// A peer that always answers the same.
    pub(crate) fn answering(status: u16, body: &str) -> Peer {
        let body = body.to_owned();
        Peer::start(move |_| Reply::Answer(status, body.clone()))
    }

    /// A peer that resets each connection once a request has arrived.
    pub(crate) fn resetting() -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (_, seen) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A socket that is closed with unread bytes sends a reset.
                stream.unwrap().peek(&mut [0]).unwrap();
            }
        });
        Peer { port, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn request(&self) -> Request {
        match self.seen.recv_timeout(PATIENCE).expect("a request") {
            Seen::Request(request) => request,
            Seen::Closed(connection) => panic!("connection {connection} was closed; expected a request"),
        }
    }

    pub(crate) fn closed(&self) -> u64 {
        match self.seen.recv_timeout(PATIENCE).expect("a closed connection") {
            Seen::Closed(connection) => connection,
            Seen::Request(request) => panic!("{request:?}; expected a closed connection"),
        }
    }

    /// Everything that was seen up to now and not asked for.
    pub(crate) fn rest(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
    }
}

fn serve(mut stream: TcpStream, connection: u64, reply: &dyn Fn(&Request) -> Reply, seen: &Sender<Seen>) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = read(&mut stream, connection) {
        let reply = reply(&request);
        // The test may be over.
        let _ = seen.send(Seen::Request(request));
        let (bytes, is_last) = match reply {
            Reply::Answer(status, body) => {
                (format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{body}", body.len()), false)
            }
            Reply::Raw(bytes) => (bytes, false),
            Reply::Last(bytes) => (bytes, true),
            Reply::Hold => continue,
        };
        let _ = stream.write_all(bytes.as_bytes());
        if is_last {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
    let _ = seen.send(Seen::Closed(connection));
}

fn read(stream: &mut impl Read, connection: u64) -> Option<Request> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next().unwrap().to_owned();
    let headers: BTreeMap<String, String> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Request { line, headers, body: String::from_utf8(body).unwrap(), connection })
}

/// A port on which nobody listens.
pub(crate) fn dead_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Collects answers.
pub(crate) struct Answers {
    inner: Mutex<Sender<Vec<(PartitionId, Input)>>>,
}

/// The test's end of [`Answers`].
pub(crate) struct Inbox {
    vectors: Receiver<Vec<(PartitionId, Input)>>,
    ready: VecDeque<Input>,
}

impl Outcomes for Answers {
    fn deliver(&self, inputs: Vec<(PartitionId, Input)>) {
        assert!(!inputs.is_empty(), "an empty vector wakes the machines for nothing");
        // The test may be over.
        let _ = self.inner.lock().unwrap().send(inputs);
    }
}

pub(crate) fn answers() -> (Arc<Answers>, Inbox) {
    let (sender, vectors) = channel();
    (Arc::new(Answers { inner: Mutex::new(sender) }), Inbox { vectors, ready: VecDeque::new() })
}

impl Inbox {
    pub(crate) fn vector(&mut self) -> Vec<Input> {
        let vector = self.vectors.recv_timeout(PATIENCE).expect("an answer");
        assert!(vector.iter().all(|(partition, _)| *partition == PARTITION));
        vector.into_iter().map(|(_, input)| input).collect()
    }

    pub(crate) fn next(&mut self) -> Input {
        while self.ready.is_empty() {
            self.ready = self.vector().into();
        }
        self.ready.pop_front().unwrap()
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<Input> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// A clock that stands until it is set.
#[derive(Clone)]
pub(crate) struct Hands(Arc<AtomicU64>);

impl Hands {
    pub(crate) fn new() -> Hands {
        Hands(Arc::new(AtomicU64::new(NOW)))
    }
    pub(crate) fn set(&self, at: u64) {
        self.0.store(at, Ordering::SeqCst);
    }
    pub(crate) fn clock(&self) -> Clock {
        let hands = self.clone();
        Arc::new(move || Mono(hands.0.load(Ordering::SeqCst)))
    }
}

/// A clock that runs.
pub(crate) fn running_clock() -> Clock {
    let start = tokio::time::Instant::now();
    Arc::new(move || Mono(NOW + u64::try_from(start.elapsed().as_millis()).unwrap()))
}

/// When the clocks begin, and the `send_by` of [`dispatch`].
pub(crate) const NOW: u64 = 1_000_000;
pub(crate) const SEND_BY: u64 = NOW + 10_000;

pub(crate) fn worker(id: u32, url: &str) -> Arc<Registration> {
    Arc::new(Registration {
        id: WorkerId(id),
        app: AppId(1),
        name: format!("etl-{id}"),
        incarnation: Incarnation(70 + u64::from(id)),
        url: url.to_owned(),
        protocol: Protocol::Http,
        handlers: vec!["echo".to_owned()],
        labels: BTreeMap::new(),
        capacity: 0,
        list_max: 0,
        secret: Secret(format!("secret-of-worker-{id}")),
        at: UnixMs(0),
    })
}

/// A job's body, compiled.
fn body(target: Target) -> Body {
    let zone = Zone::parse("Asia/Shanghai").unwrap();
    let templates = Templates::of(&target).unwrap();
    Body { name: "hello".to_owned(), zone, target, templates }
}

fn dispatch_to(attempt: u64, worker: Option<Arc<Registration>>, target: Target) -> Dispatch {
    Dispatch {
        attempt: AttemptId(attempt),
        run: RunId(attempt),
        shard: 0,
        shards: 1,
        no: 1,
        app: AppId(1),
        job: JobId(1_000_000_000),
        version: Version(3),
        origin: Origin::Schedule,
        slot: UnixMs(1_796_061_600_000),
        epoch: Epoch(9),
        worker,
        body: Arc::new(body(target)),
        param: None,
        timeout_ms: None,
        parent: None,
        send_by: Mono(SEND_BY),
    }
}

pub(crate) fn dispatch(attempt: u64, worker: &Arc<Registration>) -> Dispatch {
    let target = Target::Handler { name: "echo".to_owned(), param: "hi \"you\"".to_owned() };
    dispatch_to(attempt, Some(worker.clone()), target)
}

/// The same with another parameter of the job.
pub(crate) fn with_param(send: Dispatch, param: &str) -> Dispatch {
    let target = Target::Handler { name: "echo".to_owned(), param: param.to_owned() };
    Dispatch { body: Arc::new(body(target)), ..send }
}

pub(crate) fn url_dispatch(attempt: u64, method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Dispatch {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let target = Target::Url { method: method.to_owned(), url: url.to_owned(), headers, body: body.to_owned() };
    dispatch_to(attempt, None, target)
}

pub(crate) fn enquiry(attempt: u64, worker: Option<&Arc<Registration>>) -> Enquiry {
    Enquiry {
        attempt: AttemptId(attempt),
        run: RunId(attempt),
        shard: 0,
        no: 1,
        epoch: Epoch(9),
        worker: worker.cloned(),
        incarnation: worker.map_or(Incarnation(0), |worker| worker.incarnation),
    }
}

/// A certificate authority of its own, and a peer with a certificate for `localhost` that answers every
/// request with these bytes.
pub(crate) fn tls_peer(bytes: &'static str) -> (rota_net::tls::CertificateDer<'static>, u16) {
    use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto, pki_types::PrivateKeyDer};
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()))
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream.unwrap());
            std::thread::spawn(move || {
                while read(&mut stream, 1).is_some() {
                    let _ = stream.write_all(bytes.as_bytes());
                }
            });
        }
    });
    (certificate, port)
}
