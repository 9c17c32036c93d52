//! A worker by hand, over the plain protocol: it can answer late, or not at all, and knows what it did.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Api;
use crate::clock::{now, pass, unix_ms};
use crate::journal::{Event, Key};

pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// How long results wait for more of them.
const REPORT: Duration = Duration::from_millis(10);

/// How it takes calls under `/internal/tasks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// Does at once what it is asked.
    Prompt,
    /// Answers `execute` only after so long.
    Slow(Duration),
    /// Takes connections and calls, and never answers.
    BlackHole,
    /// Takes attempts, and never ends one.
    Busy,
}

/// A worker of an app.
pub(crate) struct Fake {
    pub(crate) name: String,
    pub(crate) incarnation: u64,
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    incarnation: u64,
    state: Mutex<State>,
    /// Rung when there is a result.
    bell: Condvar,
}

struct State {
    manner: Manner,
    is_stopped: bool,
    /// The number of the last composed beat.
    beat: u64,
    /// What was started, and its result, if it has ended.
    known: BTreeMap<u64, Option<Value>>,
    refused: BTreeSet<u64>,
    unacknowledged: BTreeMap<u64, Value>,
    starts: Vec<Event>,
    /// What it was asked to stop.
    cancelled: BTreeSet<u64>,
    /// The bodies of the dispatches that it took.
    asked: Vec<Value>,
    connections: Vec<TcpStream>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }
}

impl Fake {
    /// Listens; registers nowhere.
    pub(crate) fn listen(name: &str, incarnation: u64, manner: Manner) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = State {
            manner,
            is_stopped: false,
            beat: 0,
            known: BTreeMap::new(),
            refused: BTreeSet::new(),
            unacknowledged: BTreeMap::new(),
            starts: Vec::new(),
            cancelled: BTreeSet::new(),
            asked: Vec::new(),
            connections: Vec::new(),
        };
        let shared = Shared { name: name.to_owned(), incarnation, state: Mutex::new(state), bell: Condvar::new() };
        let shared = Arc::new(shared);
        let fake = Fake { name: name.to_owned(), incarnation, address, shared: Arc::clone(&shared) };
        std::thread::spawn(move || accept(&listener, &shared));
        fake
    }

    /// Listens, registers, beats and reports. It has whatever manner it has only once it is registered.
    pub(crate) fn join(api: &Api, app: &str, token: &str, name: &str, manner: Manner) -> Fake {
        let incarnation = u64::try_from(unix_ms()).expect("it is later than 1970");
        let fake = Fake::listen(name, incarnation, Manner::Prompt);
        let api = api.with_token(token);
        let seat = api.post("/api/v1/workers", &fake.registration(app));
        assert_eq!(seat["state"], "online", "{seat}");
        fake.set(manner);
        let (worker, beat_ms) = (seat["worker"].clone(), seat["beat_ms"].as_u64().expect("a number"));
        let shared = Arc::clone(&fake.shared);
        std::thread::spawn(move || carry(&shared, &api, &worker, Duration::from_millis(beat_ms)));
        fake
    }

    /// What it says of itself when it registers.
    pub(crate) fn registration(&self, app: &str) -> Value {
        json!({
            "app": app, "name": self.name, "incarnation": self.incarnation, "url": format!("http://{}", self.address),
            "callback_secret": SECRET, "handlers": ["work"]
        })
    }

    /// Changes its manner. Calls that were swallowed stay unanswered; their connections end.
    pub(crate) fn set(&self, manner: Manner) {
        let mut state = self.shared.state();
        if state.manner == Manner::BlackHole {
            for connection in state.connections.drain(..) {
                // The server may have closed it.
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
        state.manner = manner;
    }

    /// What it has started so far.
    pub(crate) fn starts(&self) -> Vec<Event> {
        self.shared.state().starts.clone()
    }

    /// Whether it was asked to stop this attempt.
    pub(crate) fn was_cancelled(&self, attempt: u64) -> bool {
        self.shared.state().cancelled.contains(&attempt)
    }

    /// Ends an attempt that it took while it was busy.
    pub(crate) fn finish(&self, attempt: u64, outcome: &str) {
        let mut state = self.shared.state();
        let key = state.starts.iter().find(|start| start.attempt == attempt).expect("it was started").key;
        let result = json!({"attempt": attempt, "run": key.run, "shard": key.shard, "no": key.no, "outcome": outcome});
        state.known.insert(attempt, Some(result.clone()));
        state.unacknowledged.insert(attempt, result);
        self.shared.bell.notify_all();
    }

    /// The bodies of the dispatches that it took.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.shared.state().asked.clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.state().is_stopped = true;
        self.shared.bell.notify_all();
        // The listener's thread looks when somebody comes.
        drop(TcpStream::connect(self.address));
    }
}

/// Beats and reports, in lists, again and again.
fn carry(shared: &Shared, api: &Api, worker: &Value, beat: Duration) {
    let mut beat_at = now();
    loop {
        let (is_due, results, running) = {
            let mut state = shared.state();
            if state.unacknowledged.is_empty() && beat_at > now() {
                let left = beat_at.saturating_duration_since(now());
                (state, _) = shared.bell.wait_timeout(state, left).expect("nobody panics with it");
            }
            if state.is_stopped {
                return;
            }
            let is_due = beat_at <= now();
            state.beat += u64::from(is_due);
            let running: Vec<u64> =
                state.known.iter().filter(|(_, result)| result.is_none()).map(|(attempt, _)| *attempt).collect();
            (is_due.then_some(state.beat), state.unacknowledged.clone(), running)
        };
        if let Some(no) = is_due {
            beat_at = now() + beat;
            let finished: Vec<&u64> = results.keys().collect();
            let body = json!({"incarnation": shared.incarnation, "no": no, "running": running, "finished": finished});
            // A server that is away is told with the next one.
            drop(api.call("POST", &format!("/api/v1/workers/{worker}/beat"), body.to_string().as_bytes()));
        }
        if !results.is_empty() {
            let list: Vec<&Value> = results.values().collect();
            let body = json!({"incarnation": shared.incarnation, "results": list}).to_string();
            if let Ok(answer) = api.call("POST", &format!("/api/v1/workers/{worker}/results"), body.as_bytes())
                && answer.status == 200
            {
                for attempt in answer.json()["acknowledged"].as_array().expect("a list") {
                    shared.state().unacknowledged.remove(&attempt.as_u64().expect("an id"));
                }
            }
            pass(REPORT);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming().map_while(Result::ok) {
        let mut state = shared.state();
        if state.is_stopped {
            return;
        }
        state.connections.extend(stream.try_clone());
        drop(state);
        let shared = Arc::clone(shared);
        // It ends when the server closes it; there is nothing to say about that.
        std::thread::spawn(move || drop(converse(stream, &shared)));
    }
}

fn converse(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some((path, bearer, body)) = request(&mut reader)? {
        let manner = shared.state().manner;
        if manner == Manner::BlackHole {
            continue;
        }
        let (status, answer) = if path == "/internal/identity" {
            (200, json!({"name": shared.name, "incarnation": shared.incarnation}))
        } else if bearer != format!("Bearer {SECRET}") {
            (401, json!({}))
        } else {
            let body: Value = serde_json::from_slice(&body)?;
            match (path.as_str(), manner) {
                ("/internal/tasks/execute", Manner::Slow(time)) => {
                    // Being slow is what this worker is for.
                    pass(time);
                    execute(shared, &body)
                }
                ("/internal/tasks/execute", _) => execute(shared, &body),
                ("/internal/tasks/probe", _) => (200, enquire(shared, &body)),
                ("/internal/tasks/cancel", _) => {
                    shared.state().cancelled.extend(body["attempt"].as_u64());
                    (200, enquire(shared, &body))
                }
                _ => (404, json!({})),
            }
        };
        let text = answer.to_string();
        write!(writer, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{text}", text.len())?;
    }
    Ok(())
}

/// The path, the authorization and the body of the next request; none at the end.
fn request(reader: &mut impl std::io::BufRead) -> std::io::Result<Option<(String, String, Vec<u8>)>> {
    let (mut path, mut bearer, mut length) = (None, String::new(), 0_u64);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        match (&path, line.split_once(':')) {
            (None, _) => path = Some(line.split(' ').nth(1).unwrap_or_default().to_owned()),
            (Some(path), _) if line.is_empty() => {
                let mut body = Vec::new();
                reader.take(length).read_to_end(&mut body)?;
                return Ok(Some((path.clone(), bearer, body)));
            }
            (Some(_), Some((name, value))) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(0);
            }
            (Some(_), Some((name, value))) if name.eq_ignore_ascii_case("authorization") => {
                value.trim().clone_into(&mut bearer);
            }
            (Some(_), _) => {}
        }
    }
}

fn execute(shared: &Shared, body: &Value) -> (u16, Value) {
    let mut state = shared.state();
    let number = |name: &str| body[name].as_u64().unwrap_or_else(|| panic!("{name}: {body}"));
    let small = |name: &str| u32::try_from(number(name)).expect("it fits");
    if number("incarnation") != shared.incarnation {
        return (409, json!({"refused": "foreign_incarnation"}));
    }
    let attempt = number("attempt");
    if state.refused.contains(&attempt) {
        return (409, json!({"refused": "cancelled"}));
    }
    if !state.known.contains_key(&attempt) {
        state.asked.push(body.clone());
        state.starts.push(Event {
            key: Key { run: number("run"), shard: small("shard"), no: small("no") },
            attempt,
            job: small("job"),
            slot_ms: crate::clock::parse_ms(body["slot"].as_str().expect("a time")),
            at_ms: unix_ms(),
            outcome: None,
        });
        let result = json!({"attempt": attempt, "run": body["run"], "shard": body["shard"], "no": body["no"],
            "outcome": "success"});
        if state.manner == Manner::Busy {
            state.known.insert(attempt, None);
        } else {
            state.known.insert(attempt, Some(result.clone()));
            state.unacknowledged.insert(attempt, result);
            shared.bell.notify_all();
        }
    }
    (202, json!({"next_beat": state.beat + 1}))
}

fn enquire(shared: &Shared, body: &Value) -> Value {
    let mut state = shared.state();
    if body["incarnation"] != shared.incarnation {
        return json!({"status": "foreign_incarnation"});
    }
    let attempt = body["attempt"].as_u64().expect("an id");
    match state.known.get(&attempt).cloned() {
        Some(Some(result)) => json!({"status": "finished", "result": result}),
        Some(None) => json!({"status": "running", "next_beat": state.beat + 1}),
        None => {
            state.refused.insert(attempt);
            json!({"status": "never_seen"})
        }
    }
}
