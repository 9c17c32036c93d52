//! Light workers: all of them in one thread, each with a port, a registration, beats and results in lists.
//!
//! They obey the protocol as far as a measurement can tell: an attempt that comes again within a minute is accepted
//! and not run again; one that a probe did not find is refused from then on.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::Method;
use rota_cron::UnixMs;
use rota_wire::worker::{
    Accepted, Acknowledged, AttemptResult, Beat, Enquiry, Identity, ListAccepted, ListRefused, Outcome, Refusal,
    Refused, Register, Registered, Status, WorkerNow,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep};

use super::ids::Ids;
use super::link::Link;
use super::peer::{self, Ask, Execute, ExecuteList};
use super::record::Record;
use crate::clock;

pub(super) const APP: &str = "bench";
pub(super) const HANDLER: &str = "bench";
/// Between two reports of a worker.
const REPORT: Duration = Duration::from_millis(10);
/// Results in one report.
const RESULTS_MAX: usize = 1_000;
/// How long an attempt is remembered, at least.
const MEMORY: Duration = Duration::from_secs(60);

/// How a worker answers a dispatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    Prompt,
    /// After so long.
    Slow(Duration),
    /// It accepts the connection and never answers.
    BlackHole,
}

/// Workers in a thread of their own.
pub(super) struct Fleet {
    thread: std::thread::JoinHandle<Result<()>>,
    stop: oneshot::Sender<()>,
    records: Records,
}

/// What the workers that answer promptly saw; nothing before it is set.
#[derive(Clone, Default)]
pub(super) struct Records(Arc<Mutex<Option<Record>>>);

impl Records {
    /// Records from now on.
    pub(super) fn set(&self, record: Record) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }

    fn start(&self, seen: &Execute<'_>, slot: UnixMs, at: UnixMs) {
        if let Some(record) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            record.start(seen.job, slot.0, seen.no, at.0);
        }
    }

    /// Records no more; what was recorded.
    pub(super) fn take(&self) -> Option<Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(Record::is_complete)
    }
}

impl Fleet {
    /// Starts the workers, and waits until all are online.
    pub(super) async fn start(authority: &str, token: &str, manners: &[Manner]) -> Result<Fleet> {
        let records = Records::default();
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let (authority, token, manners) = (authority.to_owned(), token.to_owned(), manners.to_vec());
        let shared = records.clone();
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let local = LocalSet::new();
            local.block_on(&runtime, run(authority, token, manners, shared, ready, stopped))
        };
        let thread = std::thread::Builder::new().name("fleet".to_owned()).spawn(body)?;
        let fleet = Fleet { thread, stop, records };
        match is_ready.await {
            Ok(()) => Ok(fleet),
            Err(_) => Err(fleet.stop().err().unwrap_or_else(|| anyhow::anyhow!("the workers did not start"))),
        }
    }

    pub(super) fn records(&self) -> Records {
        self.records.clone()
    }

    /// Whether some worker gave up, and all with it.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops all workers, as a power cut would.
    pub(super) fn stop(self) -> Result<()> {
        // A thread that has ended already is not there to be told.
        let _ = self.stop.send(());
        self.thread.join().map_err(|_| anyhow::anyhow!("the workers' thread panicked"))?
    }
}

async fn run(
    authority: String,
    token: String,
    manners: Vec<Manner>,
    records: Records,
    ready: oneshot::Sender<()>,
    stopped: oneshot::Receiver<()>,
) -> Result<()> {
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    for (number, manner) in manners.into_iter().enumerate() {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let worker = Rc::new(Worker {
            name: format!("bench-{number}"),
            incarnation: u64::try_from(clock::now().0).unwrap_or(1),
            manner,
            // Faults begin once everybody is registered.
            records: if manner == Manner::Prompt { records.clone() } else { Records::default() },
            state: RefCell::new(State::new()),
        });
        let url = format!("http://{}", listener.local_addr()?);
        tasks.spawn_local(accept(listener, Rc::clone(&worker)));
        let mut link = Link::open(&authority, &token).await?;
        let seat = register(&mut link, &worker, url).await?;
        let beats = Link::open(&authority, &token).await?;
        tasks.spawn_local(beat(beats, Rc::clone(&worker), seat.worker, Duration::from_millis(seat.beat_ms)));
        tasks.spawn_local(report(link, worker, seat.worker));
    }
    // Whoever waits may be gone; then the stop follows.
    let _ = ready.send(());
    tokio::select! {
        // The stop first: after it, failures of tasks are its consequences.
        biased;
        _ = stopped => Ok(()),
        Some(ended) = tasks.join_next() => match ended {
            Ok(result) => result.context("a worker gave up"),
            Err(error) => Err(error).context("a worker's task failed"),
        },
    }
}

struct Worker {
    name: String,
    incarnation: u64,
    manner: Manner,
    records: Records,
    state: RefCell<State>,
}

struct State {
    /// The number of the last composed beat.
    beat: u64,
    /// Results that are not acknowledged.
    results: Vec<AttemptResult>,
    /// Attempts that came since `turned`, and those of the time before.
    seen: [Ids; 2],
    refused: HashSet<u64>,
    turned: Instant,
}

impl State {
    fn new() -> State {
        State {
            beat: 0,
            results: Vec::new(),
            seen: Default::default(),
            refused: HashSet::new(),
            turned: Instant::now(),
        }
    }

    /// Remembers an attempt; says whether it is new.
    fn note(&mut self, attempt: u64) -> bool {
        if self.turned.elapsed() > MEMORY {
            self.turned = Instant::now();
            self.seen.swap(0, 1);
            self.seen[0].clear();
        }
        !self.seen[1].contains(attempt) && self.seen[0].insert(attempt)
    }

    fn knows(&self, attempt: u64) -> bool {
        self.seen.iter().any(|seen| seen.contains(attempt))
    }
}

async fn register(link: &mut Link, worker: &Worker, url: String) -> Result<Registered> {
    let body = Register {
        namespace: rota_wire::worker::default_namespace(),
        app: APP.to_owned(),
        name: worker.name.clone(),
        incarnation: worker.incarnation,
        url,
        callback_secret: "a-secret-that-only-the-bench-knows".to_owned(),
        handlers: vec![HANDLER.to_owned()],
        labels: std::collections::BTreeMap::new(),
        capacity: 0,
        list_max: 128,
    };
    let seat: Registered = link.call(Method::POST, "/api/v1/workers", &body).await?;
    anyhow::ensure!(seat.state == "online", "{} is {}: {:?}", worker.name, seat.state, seat.message);
    Ok(seat)
}

async fn beat(mut link: Link, worker: Rc<Worker>, id: u32, every: Duration) -> Result<()> {
    loop {
        sleep(every).await;
        let body = {
            let mut state = worker.state.borrow_mut();
            state.beat += 1;
            Beat {
                incarnation: worker.incarnation,
                no: state.beat,
                running: Vec::new(),
                finished: state.results.iter().map(|result| result.attempt).collect(),
                capacity: None,
                labels: None,
            }
        };
        let _: WorkerNow = link.call(Method::POST, &format!("/api/v1/workers/{id}/beat"), &body).await?;
    }
}

/// Reports what has finished, in lists, again and again until it is acknowledged.
async fn report(mut link: Link, worker: Rc<Worker>, id: u32) -> Result<()> {
    let path = format!("/api/v1/workers/{id}/results");
    loop {
        sleep(REPORT).await;
        let body = {
            let state = worker.state.borrow();
            let results = &state.results[..state.results.len().min(RESULTS_MAX)];
            if results.is_empty() {
                continue;
            }
            json(&List { incarnation: worker.incarnation, results })
        };
        let answer: Acknowledged = link.send(Method::POST, &path, body).await?;
        forget(&mut worker.state.borrow_mut().results, &answer.acknowledged);
    }
}

/// [`rota_wire::worker::Results`], of results that stay where they are.
#[derive(serde::Serialize)]
struct List<'a> {
    incarnation: u64,
    results: &'a [AttemptResult],
}

/// Removes what is acknowledged: mostly the whole list that was sent, in its order.
fn forget(results: &mut Vec<AttemptResult>, acknowledged: &[u64]) {
    let in_order = results.iter().zip(acknowledged).take_while(|(result, attempt)| result.attempt == **attempt).count();
    results.drain(..in_order);
    if let rest @ [_, ..] = &acknowledged[in_order..] {
        let rest: BTreeSet<u64> = rest.iter().copied().collect();
        results.retain(|result| !rest.contains(&result.attempt));
    }
}

async fn accept(listener: TcpListener, worker: Rc<Worker>) -> Result<()> {
    let mut connections: JoinSet<()> = JoinSet::new();
    loop {
        tokio::select! {
            // Ended connections first, so that they do not pile up.
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                stream.set_nodelay(true)?;
                let worker = Rc::clone(&worker);
                // A connection ends when the server closes it; there is nothing to say about it.
                connections.spawn_local(async move { drop(converse(stream, &worker).await) });
            }
        }
    }
}

async fn converse(mut stream: TcpStream, worker: &Worker) -> std::io::Result<()> {
    let mut received = Vec::with_capacity(4 << 10);
    let mut answer = Vec::with_capacity(256);
    loop {
        while let Ok(Some((ask, length))) = peer::request(&received) {
            if let Ask::Execute(_) = ask {
                match worker.manner {
                    Manner::Prompt => {}
                    Manner::Slow(pause) => sleep(pause).await,
                    Manner::BlackHole => std::future::pending().await,
                }
            }
            worker.answer(ask, &mut answer);
            stream.write_all(&answer).await?;
            answer.clear();
            received.drain(..length);
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
}

impl Worker {
    fn answer(&self, ask: Ask<'_>, out: &mut Vec<u8>) {
        match ask {
            Ask::Identity => {
                let body = Identity { name: self.name.clone(), incarnation: self.incarnation };
                peer::respond(out, "200 OK", &json(&body));
            }
            Ask::Execute(body) => match serde_json::from_slice::<Execute<'_>>(body) {
                Ok(seen) => self.execute(&seen, out),
                Err(_) => peer::respond(out, "400 Bad Request", b"{}"),
            },
            Ask::ExecuteList(body) => match serde_json::from_slice::<ExecuteList<'_>>(body) {
                Ok(list) => self.execute_list(&list.tasks, out),
                Err(_) => peer::respond(out, "400 Bad Request", b"{}"),
            },
            Ask::Cancel(body) | Ask::Probe(body) => match serde_json::from_slice::<Enquiry>(body) {
                Ok(enquiry) => peer::respond(out, "200 OK", &json(&self.status(&enquiry))),
                Err(_) => peer::respond(out, "400 Bad Request", b"{}"),
            },
            Ask::Other => peer::respond(out, "404 Not Found", b"{}"),
        }
    }

    fn execute(&self, seen: &Execute<'_>, out: &mut Vec<u8>) {
        match self.start(&mut self.state.borrow_mut(), seen, clock::now()) {
            Ok(next_beat) => peer::respond(out, "202 Accepted", &json(&Accepted { next_beat })),
            Err(refused) => peer::respond(out, "409 Conflict", &json(&Refused { refused })),
        }
    }

    fn execute_list(&self, tasks: &[Execute<'_>], out: &mut Vec<u8>) {
        let (mut state, at) = (self.state.borrow_mut(), clock::now());
        let mut answer = ListAccepted { next_beat: state.beat + 1, accepted: 0, refused: Vec::new() };
        for seen in tasks {
            match self.start(&mut state, seen, at) {
                Ok(_) => answer.accepted += 1,
                Err(refused) => answer.refused.push(ListRefused { attempt: seen.attempt, refused }),
            }
        }
        peer::respond(out, "202 Accepted", &json(&answer));
    }

    fn start(&self, state: &mut State, seen: &Execute<'_>, at: UnixMs) -> Result<u64, Refusal> {
        if seen.incarnation != self.incarnation {
            return Err(Refusal::ForeignIncarnation);
        }
        if state.refused.contains(&seen.attempt) {
            return Err(Refusal::Cancelled);
        }
        if state.note(seen.attempt) {
            if let Ok(slot) = UnixMs::parse_rfc3339(seen.slot) {
                self.records.start(seen, slot, at);
            }
            state.results.push(result(seen.attempt, seen.run, seen.shard, seen.no));
        }
        Ok(state.beat + 1)
    }

    fn status(&self, enquiry: &Enquiry) -> Status {
        let mut state = self.state.borrow_mut();
        if enquiry.incarnation != self.incarnation {
            return Status::ForeignIncarnation;
        }
        if state.knows(enquiry.attempt) {
            return Status::Finished { result: result(enquiry.attempt, enquiry.run, enquiry.shard, enquiry.no) };
        }
        state.refused.insert(enquiry.attempt);
        Status::NeverSeen
    }
}

fn result(attempt: u64, run: u64, shard: u32, no: u32) -> AttemptResult {
    AttemptResult { attempt, run, shard, no, outcome: Outcome::Success, message: None }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("answers are plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_is_forgotten_in_any_order() {
        for (acknowledged, left) in [
            (vec![1, 2, 3, 4], vec![]),
            (vec![1, 2], vec![3, 4]),
            (vec![3, 1], vec![2, 4]),
            (vec![1, 3, 9], vec![2, 4]),
            (vec![], vec![1, 2, 3, 4]),
            (vec![1, 2, 3, 4, 5], vec![]),
        ] {
            let mut results: Vec<AttemptResult> = (1..=4).map(|attempt| result(attempt, attempt, 0, 1)).collect();
            forget(&mut results, &acknowledged);
            let attempts: Vec<u64> = results.iter().map(|result| result.attempt).collect();
            assert_eq!(attempts, left, "{acknowledged:?}");
        }
    }
}
