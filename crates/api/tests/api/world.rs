//! One server without threads: a machine over the reference store that answers at once, a clock that is set by hand,
//! workers' addresses that answer what they are told to.

use std::collections::BTreeMap;
use std::future::ready;
use std::io::Write;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use rota_api::{Dialer, Herald, Parts, Settings, State, Unanswered};
use rota_core::alert::{Channel, Key};
use rota_core::id::{AppId, Block, PartitionId, id_floor};
use rota_core::partition::{Answer, Config, Dispatch, Effect, Input, Machine, ReplyTo, SendOutcome, Snapshot};
use rota_core::time::{Mono, Now, UnixMs};
use rota_core::why::Why;
use rota_port::alerts::StoredAlert;
use rota_port::backup::{self, Backup, Contents};
use rota_port::intake::{Health, Intake, Refused, Waiting};
use rota_port::logs::{LogKey, Logs, Window};
use rota_port::memory::MemoryStore;
use rota_port::secrets::Secrets;
use rota_port::store::{Error, Reservation, Reserved, Scope, Store, Token};
use rota_port::tap::Tap;
use rota_wire::worker::Identity;
use serde_json::Value;
use tower::ServiceExt;

use crate::contract::Document;

pub(crate) const ADMIN: &str = "rota_admin-token-of-the-tests";
pub(crate) const READ: &str = "rota_r_read-token-of-the-tests";
pub(crate) const ETL: &str = "rota_w_worker-token-of-etl";
pub(crate) const PAY: &str = "rota_w_worker-token-of-pay";

/// 2026-11-30T16:00:00Z.
pub(crate) const START: i64 = 1_796_054_400_000;

/// A machine, its store, and what it sent.
pub(crate) struct Board {
    store: Mutex<MemoryStore>,
    live: Mutex<Live>,
    clock: Arc<AtomicI64>,
    /// How far the wall clock has jumped from the monotonic one.
    skew: Arc<AtomicI64>,
    /// What the server's threads are in.
    pub(crate) health: Mutex<Health>,
    tap: Arc<Tap>,
}

struct Live {
    machine: Machine,
    sent: Vec<Dispatch>,
    snapshot: Option<Arc<Snapshot>>,
    overloaded: bool,
}

impl Board {
    fn now(&self) -> Now {
        let passed = self.clock.load(Ordering::SeqCst);
        let wall = UnixMs(passed + self.skew.load(Ordering::SeqCst));
        Now { wall, mono: Mono(u64::try_from(passed - START).unwrap() + 1_000_000) }
    }

    /// Steps the machine until nothing is left to do, and returns the answers.
    fn run(&self, input: Input) -> Vec<(ReplyTo, Answer)> {
        let mut live = self.live.lock().unwrap();
        let (now, mut answers, mut todo) = (self.now(), Vec::new(), vec![input, Input::Turn]);
        while !todo.is_empty() {
            if live.machine.wants_ids(now) {
                let first = self.store.lock().unwrap().reserve_ids(id_floor(now.wall), 16_384).unwrap();
                live.machine.step(now, Input::Ids(Block::new(first, first + 16_384)), &mut Vec::new());
            }
            let mut effects = Vec::new();
            for input in std::mem::take(&mut todo) {
                live.machine.step(now, input, &mut effects);
            }
            for effect in effects {
                match effect {
                    Effect::Commit(batch) => {
                        self.store.lock().unwrap().commit(std::slice::from_ref(&batch)).unwrap();
                        self.tap.note(&batch);
                        todo.extend([Input::Committed(batch.seq), Input::Turn]);
                    }
                    Effect::Send(dispatch) => live.sent.push(*dispatch),
                    Effect::Reply(to, answer) => answers.push((to, answer)),
                    Effect::Publish(snapshot) => live.snapshot = Some(snapshot),
                    // Nobody judges upstream jobs here: what waits for them stays held.
                    Effect::AskUpstream(_) | Effect::Ended(_) => {}
                    Effect::Cancel(_) | Effect::Probe(_) | Effect::WakeIn(_) => {}
                }
            }
        }
        answers
    }
}

impl Intake for Board {
    fn partition(&self, _: AppId) -> Option<PartitionId> {
        Some(PartitionId(0))
    }

    fn ask(&self, _: PartitionId, make: Box<dyn FnOnce(ReplyTo) -> Input + Send>) -> Waiting<Result<Answer, Refused>> {
        if self.live.lock().unwrap().overloaded {
            return Box::pin(ready(Err(Refused::Overloaded)));
        }
        let me = ReplyTo(1);
        let answer = self.run(make(me)).into_iter().find(|(to, _)| *to == me).map(|(_, answer)| answer);
        Box::pin(ready(answer.ok_or(Refused::Stopped)))
    }

    fn reserve(&self, what: Reservation) -> Waiting<Result<Reserved, Error>> {
        let reserved = self.store.lock().unwrap().reserve(&what);
        if let Ok(Reserved::App(app)) = &reserved {
            self.run(Input::App(app.clone()));
        }
        Box::pin(ready(reserved))
    }

    fn confirm_clock(&self) {
        self.run(Input::ConfirmClock);
    }

    fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.live.lock().unwrap().snapshot.iter().cloned().collect()
    }

    fn tap(&self) -> Arc<Tap> {
        self.tap.clone()
    }

    fn health(&self) -> Health {
        self.health.lock().unwrap().clone()
    }
}

impl Backup for Board {
    /// Three pieces of which one is long; with a key it fails after the first, with logs at once.
    fn write(&self, _: UnixMs, contents: Contents, to: &mut dyn Write) -> Result<(), backup::Error> {
        if contents.has_logs {
            return Err(backup::Error::Busy);
        }
        to.write_all(b"first")?;
        to.flush()?;
        if contents.has_key {
            return Err(backup::Error::Store(Error::Unavailable("the disk is gone".into())));
        }
        to.write_all(&[b'x'; 600_000])?;
        to.write_all(b"last")?;
        Ok(to.flush()?)
    }
}

/// What addresses answer; one that is not named refuses the connection.
#[derive(Default)]
pub(crate) struct Network(Mutex<BTreeMap<String, Result<Identity, Unanswered>>>);

impl Network {
    pub(crate) fn listens(&self, url: &str, name: &str, incarnation: u64) {
        self.0.lock().unwrap().insert(url.to_owned(), Ok(Identity { name: name.to_owned(), incarnation }));
    }

    pub(crate) fn is_silent(&self, url: &str) {
        let silent = Unanswered::Silent("did not answer within 3 s".to_owned());
        self.0.lock().unwrap().insert(url.to_owned(), Err(silent));
    }
}

impl Dialer for Network {
    fn identify(&self, url: &str) -> Waiting<Result<Identity, Unanswered>> {
        let refused = Err(Unanswered::Refused("refused the connection".to_owned()));
        Box::pin(ready(self.0.lock().unwrap().get(url).cloned().unwrap_or(refused)))
    }
}

/// Channels that take every message; nothing is open.
impl Herald for Network {
    fn check(&self, _: &str, _: &Channel) -> Result<(), String> {
        Ok(())
    }

    fn changed(&self) -> Waiting<()> {
        Box::pin(ready(()))
    }

    fn acknowledge(&self, _: Key, _: &str) -> Waiting<bool> {
        Box::pin(ready(false))
    }

    fn counts(&self) -> rota_api::AlertCounts {
        rota_api::AlertCounts::default()
    }

    fn test(&self, _: StoredAlert) -> Waiting<Result<(), String>> {
        Box::pin(ready(Ok(())))
    }
}

/// Logs as plain text.
#[derive(Default)]
struct Paper(Mutex<BTreeMap<LogKey, (String, bool)>>);

impl Logs for Paper {
    fn append(&self, key: LogKey, _: UnixMs, lines: Vec<String>) {
        let mut paper = self.0.lock().unwrap();
        let entry = paper.entry(key).or_default();
        for line in lines {
            entry.0.push_str(&line);
            entry.0.push('\n');
        }
    }

    fn close(&self, key: LogKey) {
        self.0.lock().unwrap().entry(key).or_default().1 = true;
    }

    fn read(&self, key: LogKey, from: u64, bytes_max: u32) -> Result<Window, Error> {
        let paper = self.0.lock().unwrap();
        let Some((text, is_closed)) = paper.get(&key) else { return Ok(Window::default()) };
        let start = usize::try_from(from).unwrap().min(text.len());
        let end = text.len().min(start + bytes_max as usize);
        let part = text[start..end].to_owned();
        Ok(Window { from, text: part, next: end as u64, len: text.len() as u64, is_closed: *is_closed })
    }
}

pub(crate) struct World {
    pub(crate) board: Arc<Board>,
    pub(crate) network: Arc<Network>,
    pub(crate) state: Arc<State>,
    clock: Arc<AtomicI64>,
    router: Router,
    document: Arc<Document>,
}

impl World {
    /// A server with the apps `etl` and `pay`, and a token of each scope.
    pub(crate) fn new() -> World {
        let (clock, skew) = (Arc::new(AtomicI64::new(START)), Arc::new(AtomicI64::new(0)));
        let mut store = MemoryStore::new(1);
        let mut app = |name: &str| {
            let what = Reservation::App {
                namespace: "default".to_owned(),
                name: name.to_owned(),
                pending_max: None,
                rates: None,
            };
            let reserved = store.reserve(&what).unwrap();
            let Reserved::App(app) = reserved else { panic!("{reserved:?}") };
            app.id
        };
        let (etl, pay) = (app("etl"), app("pay"));
        for (token, scope) in
            [(ADMIN, Scope::Admin), (READ, Scope::Read), (ETL, Scope::Worker(etl)), (PAY, Scope::Worker(pay))]
        {
            let token = Token { hash: rota_api::hash(token), scope, at: UnixMs(START) };
            assert_eq!(store.reserve(&Reservation::Token(token)).unwrap(), Reserved::Done);
        }
        let loaded = store.claim(&[PartitionId(0)]).unwrap().remove(0);
        let now = Now { wall: UnixMs(START), mono: Mono(1_000_000) };
        let config = Config { publish_ms: 0, ..Config::NATIVE };
        let mut machine = Machine::new(config, loaded, now);
        machine.step(now, Input::Permits(10_000), &mut Vec::new());
        let board = Arc::new(Board {
            store: Mutex::new(store.clone()),
            live: Mutex::new(Live { machine, sent: Vec::new(), snapshot: None, overloaded: false }),
            clock: clock.clone(),
            skew: skew.clone(),
            health: Mutex::new(Health {
                stalled_ms: 0,
                store: None,
                tokens: None,
                token_ms: None,
                commits: [0; 11],
                commit_us: 0,
            }),
            tap: Arc::default(),
        });
        board.run(Input::Turn);
        let network = Arc::new(Network::default());
        let wall = clock.clone();
        let secrets = Arc::new(Secrets::open(&store).unwrap());
        let state = State::new(Parts {
            secrets,
            intake: board.clone(),
            query: Arc::new(store.clone()),
            history: Arc::new(store),
            logs: Arc::new(Paper::default()),
            backup: board.clone(),
            dialer: network.clone(),
            herald: network.clone(),
            clock: Arc::new(move || UnixMs(wall.load(Ordering::SeqCst) + skew.load(Ordering::SeqCst))),
            entropy: Arc::new(|| std::array::from_fn(|at| u8::try_from(at * 5 + 3).unwrap())),
            settings: Settings {
                beat_ms: 5_000,
                dead_ms: 15_000,
                pending_max: 1_000,
                rate: None,
                partitions: 1,
                timezone: "UTC".to_owned(),
                is_dev: false,
                version: "0.1.0",
            },
        })
        .unwrap();
        World {
            board,
            network,
            router: rota_api::router(state.clone()),
            state,
            clock,
            document: Arc::new(Document::new()),
        }
    }

    /// Lets time pass, and whatever is due happen.
    pub(crate) fn pass_ms(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
        self.board.run(Input::Turn);
    }

    /// Lets the wall clock jump.
    pub(crate) fn jump_ms(&self, ms: i64) {
        self.board.skew.fetch_add(ms, Ordering::SeqCst);
        self.board.run(Input::Turn);
    }

    /// Lets the store lose a run, the oldest being 0.
    pub(crate) fn lose_run(&self, at: usize) {
        self.board.store.lock().unwrap().lose_run(at);
    }

    pub(crate) fn overload(&self, overloaded: bool) {
        self.board.live.lock().unwrap().overloaded = overloaded;
    }

    /// Takes what was sent, and lets the workers accept it.
    pub(crate) fn accept(&self) -> Vec<Dispatch> {
        let sent = std::mem::take(&mut self.board.live.lock().unwrap().sent);
        for dispatch in &sent {
            let outcome = SendOutcome::Accepted { next_beat: 1 };
            self.board.run(Input::Sent { attempt: dispatch.attempt, outcome });
        }
        sent
    }

    /// Takes what was sent, and proves that it did not start.
    pub(crate) fn refuse(&self) -> usize {
        let sent = std::mem::take(&mut self.board.live.lock().unwrap().sent);
        for dispatch in &sent {
            let outcome = SendOutcome::NotStarted(Why::ConnectFailed);
            self.board.run(Input::Sent { attempt: dispatch.attempt, outcome });
        }
        sent.len()
    }

    /// Makes a call; returns status and body (text that is no JSON as a string). The document must know the answer.
    pub(crate) async fn call(&self, method: &str, path: &str, token: &str, body: impl Into<Body>) -> (u16, Value) {
        let (status, _, answer) = self.call_with(method, path, token, &[], body).await;
        (status, answer)
    }

    /// Makes a call with headers of its own; returns those of the answer, too.
    pub(crate) async fn call_with(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> (u16, HeaderMap, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let kind = response.headers().get("content-type").map_or("", |kind| kind.to_str().unwrap()).to_owned();
        // A stream is read by those who open one; here it is dropped, which ends it.
        let is_stream = kind == "text/event-stream";
        let body = if is_stream { Body::empty() } else { response.into_body() };
        let bytes = axum::body::to_bytes(body, 16 << 20).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let parsed = if kind.ends_with("ndjson") { None } else { serde_json::from_str(&text).ok() };
        let answer = parsed.unwrap_or(Value::String(text));
        self.document.check(method, path, status, &kind, &answer);
        self.document.check_headers(method, path, status, &headers);
        (status, headers, answer)
    }

    /// Opens a stream of events as a reader, behind the event with this id.
    pub(crate) async fn stream(&self, path: &str, last: &str) -> Stream {
        let request = Request::builder().uri(path).header("authorization", format!("Bearer {READ}"));
        let request = request.header("last-event-id", last).body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream", "{path}: {}", response.status());
        Stream {
            path: path.to_owned(),
            document: self.document.clone(),
            body: response.into_body(),
            text: String::new(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, READ, "").await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Makes a call as admin that must succeed.
    pub(crate) async fn admin(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(method, path, ADMIN, body.to_string()).await;
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// Makes a call as admin that must be refused; returns status, code, field and hint.
    pub(crate) async fn refused(&self, method: &str, path: &str, body: Value) -> (u16, String, String, String) {
        let (status, answer) = self.call(method, path, ADMIN, body.to_string()).await;
        refusal(status, &answer)
    }

    /// Registers a worker of `etl` that listens at its address.
    pub(crate) async fn worker(&self, name: &str, incarnation: u64, url: &str) -> Value {
        self.network.listens(url, name, incarnation);
        let (status, body) =
            self.call("POST", "/api/v1/workers", ETL, registration(name, incarnation, url).to_string()).await;
        assert_eq!(status, 200, "{body}");
        body
    }
}

/// A stream of events.
pub(crate) struct Stream {
    path: String,
    /// Every event is held against it.
    document: Arc<Document>,
    body: Body,
    text: String,
}

impl Stream {
    /// The next event: its name, its id and its data.
    pub(crate) async fn next(&mut self) -> Option<(String, String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let line =
                    |field: &str| event.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("").to_owned();
                let (name, id, data) = (line("event: "), line("id: "), line("data: "));
                self.text = rest.to_owned();
                if !name.is_empty() {
                    let data = serde_json::from_str(&data).unwrap();
                    self.document.check_event(&self.path, &name, &data);
                    return Some((name, id, data));
                }
                continue;
            }
            let frame = tokio::time::timeout(Duration::from_secs(60), self.body.frame()).await;
            let data = frame.expect("an event comes in time")?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    /// All events to the last.
    pub(crate) async fn rest(mut self) -> Vec<(String, String, Value)> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

pub(crate) fn refusal(status: u16, answer: &Value) -> (u16, String, String, String) {
    let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    assert!(!text("message").is_empty(), "{status}: {answer}");
    (status, text("code"), text("field"), text("hint"))
}

pub(crate) fn registration(name: &str, incarnation: u64, url: &str) -> Value {
    serde_json::json!({
        "app": "etl", "name": name, "incarnation": incarnation, "url": url,
        "callback_secret": "a-secret-of-the-worker", "handlers": ["copy"], "labels": {"disk": "ssd"}, "capacity": 4
    })
}

pub(crate) fn job(name: &str) -> Value {
    serde_json::json!({"name": name, "app": "etl", "handler": "copy", "every": "10s"})
}
