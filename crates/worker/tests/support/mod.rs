//! A server as a worker sees it, over real HTTP: it notes all that it is told, and answers as a test wants.
#![allow(dead_code, reason = "two test programs share this, and neither uses all of it")]

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rota_wire::worker::{
    Acknowledged, AttemptResult, Beat, Enquiry, Execute, Leave, LogLines, Logs, Register, Registered, Results,
    WorkerNow,
};
use rota_worker::{Builder, Error, Worker};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Nothing here takes a fraction of this; a test that waits so long has failed.
pub(crate) const BOUND: Duration = Duration::from_secs(30);

/// What the server was told, and how it answers.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) bearers: Vec<String>,
    pub(crate) registers: Vec<Register>,
    pub(crate) beats: Vec<Beat>,
    pub(crate) results: Vec<Results>,
    pub(crate) logs: Vec<LogLines>,
    /// Everything, in order: `register`, `beat`, `results`, `logs`, `drain`, `leave`.
    pub(crate) calls: Vec<&'static str>,
    /// Answers to the next registrations; when there is none: `online`.
    pub(crate) on_register: Vec<(u16, Value)>,
    /// Answers to the next lists of results; when there is none all are acknowledged.
    pub(crate) on_results: Vec<(u16, Value)>,
    /// Until it registers again, the worker is unknown.
    pub(crate) is_forgotten: bool,
}

impl Told {
    pub(crate) fn acknowledged(&self) -> Vec<&AttemptResult> {
        self.results.iter().flat_map(|list| &list.results).collect()
    }

    pub(crate) fn result(&self, attempt: u64) -> Option<&AttemptResult> {
        self.acknowledged().into_iter().find(|result| result.attempt == attempt)
    }

    pub(crate) fn lines(&self, run: u64) -> Vec<String> {
        self.logs.iter().filter(|one| one.run == run).flat_map(|one| one.lines.clone()).collect()
    }

    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls.iter().filter(|one| **one == call).count()
    }
}

pub(crate) struct FakeServer {
    pub(crate) url: String,
    told: Arc<Mutex<Told>>,
    changed: watch::Sender<()>,
    _accepting: JoinSet<()>,
}

impl FakeServer {
    pub(crate) async fn start() -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let told = Arc::new(Mutex::new(Told::default()));
        let (changed, _) = watch::channel(());
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&told), changed.clone()));
        FakeServer { url, told, changed, _accepting: accepting }
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }

    /// Waits until what was told has this fact.
    pub(crate) async fn wait<T>(&self, what: &str, fact: impl Fn(&Told) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = fact(&self.told()) {
                    return found;
                }
                changed.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(BOUND, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("never seen: {what}; calls: {:?}", self.told().calls),
        }
    }

    pub(crate) async fn result(&self, attempt: u64) -> AttemptResult {
        self.wait(&format!("result of {attempt}"), |told| told.result(attempt).cloned()).await
    }
}

async fn accept(listener: TcpListener, told: Arc<Mutex<Told>>, changed: watch::Sender<()>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (told, changed) = (Arc::clone(&told), changed.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| note(request, Arc::clone(&told), changed.clone()));
            let io = TokioIo::new(stream);
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        });
    }
}

async fn note(
    request: Request<Incoming>,
    told: Arc<Mutex<Told>>,
    changed: watch::Sender<()>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let bearer = head.headers["authorization"].to_str().unwrap().to_owned();
    let body = body.collect().await.unwrap().to_bytes();
    let path = head.uri.path().strip_prefix("/api/v1/workers").unwrap().to_owned();
    let (status, answer) = {
        let mut told = told.lock().unwrap();
        told.bearers.push(bearer);
        answer(&mut told, &head.method, &path, &body)
    };
    changed.send_replace(());
    let answer = Full::new(Bytes::from(serde_json::to_vec(&answer).unwrap()));
    Ok(Response::builder().status(status).body(answer).unwrap())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> T {
    serde_json::from_slice(body).unwrap()
}

fn answer(told: &mut Told, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
    let what = path.rsplit('/').next().unwrap();
    let call = match (method.as_str(), what) {
        ("POST", "") => "register",
        ("POST", "beat") => "beat",
        ("POST", "results") => "results",
        ("POST", "logs") => "logs",
        ("POST", "drain") => "drain",
        ("DELETE", "5") => "leave",
        other => panic!("there is no {other:?}"),
    };
    told.calls.push(call);
    if call == "register" {
        told.is_forgotten = false;
        told.registers.push(parse(body));
        let online = Registered { worker: 5, state: "online".to_owned(), message: None, beat_ms: 100, dead_ms: 1_000 };
        return next(&mut told.on_register).unwrap_or((200, json!(online)));
    }
    if told.is_forgotten {
        return (404, json!({"code": "worker_unknown", "message": "no such worker is registered"}));
    }
    let now = |state: &str| (200, json!(WorkerNow { state: state.to_owned() }));
    match call {
        "beat" => {
            told.beats.push(parse(body));
            now("online")
        }
        "results" => {
            let list: Results = parse(body);
            if let Some(answer) = next(&mut told.on_results) {
                return answer;
            }
            let acknowledged = list.results.iter().map(|result| result.attempt).collect();
            told.results.push(list);
            (200, json!(Acknowledged { acknowledged }))
        }
        "logs" => {
            told.logs.extend(parse::<Logs>(body).logs);
            (200, json!({}))
        }
        "drain" => {
            parse::<Leave>(body);
            now("draining")
        }
        _ => {
            parse::<Leave>(body);
            now("offline")
        }
    }
}

fn next<T>(answers: &mut Vec<T>) -> Option<T> {
    (!answers.is_empty()).then(|| answers.remove(0))
}

/// A worker that runs beside its test.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) secret: String,
    pub(crate) incarnation: u64,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
}

pub(crate) fn builder(server: &FakeServer) -> Builder {
    Worker::builder(&server.url, "demo", "rota_token").name("w-1").stop_grace(Duration::from_millis(500))
}

/// Runs a worker until it is online.
#[expect(clippy::disallowed_methods, reason = "a test may spawn")]
pub(crate) async fn run(server: &FakeServer, builder: Builder) -> Running {
    let worker = builder.build().unwrap();
    let mut status = worker.status();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    let is_online = |status: &rota_worker::Status| matches!(status, rota_worker::Status::Online { .. });
    tokio::time::timeout(BOUND, status.wait_for(is_online)).await.unwrap().unwrap();
    let register = server.told().registers.last().unwrap().clone();
    let (url, secret) = (register.url, register.callback_secret);
    Running { url, secret, incarnation: register.incarnation, stop: Some(stop), task }
}

impl Running {
    pub(crate) fn ask(&self, attempt: u64, handler: &str, param: &str) -> Execute {
        Execute {
            incarnation: self.incarnation,
            epoch: 1,
            attempt,
            run: attempt + 1_000,
            shard: 1,
            shards: 3,
            no: 2,
            idempotency_key: format!("{}/1", attempt + 1_000),
            job: 77,
            job_name: "nightly".to_owned(),
            version: 4,
            origin: "schedule".to_owned(),
            slot: "2026-12-01T02:00:00+08:00".to_owned(),
            zone: "Asia/Shanghai".to_owned(),
            handler: handler.to_owned(),
            param: param.to_owned(),
            timeout_ms: None,
            traceparent: None,
        }
    }

    pub(crate) fn enquiry(&self, attempt: u64) -> Enquiry {
        Enquiry { incarnation: self.incarnation, epoch: 1, attempt, run: attempt + 1_000, shard: 1, no: 2 }
    }

    pub(crate) async fn post(&self, task: &str, body: &impl Serialize) -> (u16, Value) {
        let body = serde_json::to_vec(body).unwrap();
        call(&self.url, Method::POST, &format!("/internal/tasks/{task}"), &self.secret, body).await
    }

    pub(crate) async fn execute(&self, ask: &Execute) -> (u16, Value) {
        self.post("execute", ask).await
    }

    /// Dispatches, and expects it to be accepted.
    pub(crate) async fn start(&self, attempt: u64, handler: &str, param: &str) {
        let (status, answer) = self.execute(&self.ask(attempt, handler, param)).await;
        assert_eq!(status, 202, "{answer}");
    }

    pub(crate) fn tell_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Drops the worker's future where it stands.
    pub(crate) fn abort(self) {
        self.task.abort();
    }

    pub(crate) async fn end(self) -> Result<(), Error> {
        tokio::time::timeout(BOUND, self.task).await.unwrap().unwrap()
    }
}

/// One call to a worker, on a connection of its own.
#[expect(clippy::disallowed_methods, reason = "a test may spawn")]
pub(crate) async fn call(url: &str, method: Method, path: &str, secret: &str, body: Vec<u8>) -> (u16, Value) {
    let address = url.strip_prefix("http://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", address);
    let request =
        request.header("authorization", format!("Bearer {secret}")).body(Full::new(Bytes::from(body))).unwrap();
    let answer = tokio::time::timeout(BOUND, sender.send_request(request)).await.unwrap().unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// Whether a process is there and not just waiting to be reaped.
pub(crate) fn is_alive(id: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(id).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']))
}

/// Waits until a process is gone.
pub(crate) async fn gone(id: &str) {
    let waiting = async {
        while is_alive(id) {
            // There is no event to wait for: it is nobody's child that we could await.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, waiting).await.unwrap_or_else(|_| panic!("process {id} still lives"));
}
