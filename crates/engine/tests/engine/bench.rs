//! A server on the reference store, with a gate before the store and executors that answer at once.
#![expect(clippy::unwrap_used, reason = "all of this is a test")]

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rota_core::batch::{Batch, Loaded, Origin};
use rota_core::id::{AppId, JobId, PartitionId, RunId, Version};
use rota_core::job::{Definition, JobState, Spec, Target, When};
use rota_core::partition::{Answer, Input, Outcome, ReplyTo, SendOutcome};
use rota_core::time::UnixMs;
use rota_core::worker::Protocol;
use rota_engine::clock::Clock;
use rota_engine::{Config, Engine, Error, Handle};
use rota_port::executor::{Executor, Outbound, Outcomes};
use rota_port::intake::{Intake, Refused};
use rota_port::memory::{MemoryStore, State};
use rota_port::store::{self, Reservation, Reserved, Store};

/// Nothing here takes this long unless it hangs.
pub(crate) const BOUND: Duration = Duration::from_secs(30);

/// What commits meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    /// They pass.
    Open,
    /// They wait until it is opened.
    Shut,
    /// The store is not available.
    Away,
    /// They are applied, and their answer is lost.
    Deaf,
}

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) door: Door,
    /// Commits that have begun.
    pub(crate) tried: u32,
    /// Commits that have ended well.
    pub(crate) done: u32,
    /// Reserves of ids that have been asked for, and how many are given before the door counts for them too.
    pub(crate) reserves: u32,
    pub(crate) reserves_given: u32,
    pub(crate) is_closed: bool,
}

/// A store whose commits pass a door.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) rows: MemoryStore,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

impl Gate {
    pub(crate) fn new(rows: &MemoryStore) -> Gate {
        let seen =
            Seen { door: Door::Open, tried: 0, done: 0, reserves: 0, reserves_given: u32::MAX, is_closed: false };
        Gate { rows: rows.clone(), seen: Arc::new((Mutex::new(seen), Condvar::new())) }
    }

    /// Gives so many reserves of ids, and more only when the door is opened again.
    pub(crate) fn give_reserves(&self, reserves_given: u32) {
        self.change(|seen| (seen.door, seen.reserves_given) = (Door::Away, reserves_given));
    }

    pub(crate) fn set(&self, door: Door) {
        self.change(|seen| seen.door = door);
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.0.lock().unwrap());
        self.seen.1.notify_all();
    }

    /// Waits until this is so; looked at after every call of the store.
    pub(crate) fn wait(&self, is_so: impl Fn(&Seen, &State) -> bool) {
        let seen = self.seen.0.lock().unwrap();
        let waited = self.seen.1.wait_timeout_while(seen, BOUND, |seen| !self.rows.with(|state| is_so(seen, state)));
        assert!(!waited.unwrap().1.timed_out(), "it never became so");
    }

    /// Commits that have begun.
    pub(crate) fn tried(&self) -> u32 {
        self.seen.0.lock().unwrap().tried
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.seen.0.lock().unwrap().is_closed
    }
}

struct Gated(Gate);

impl Drop for Gated {
    fn drop(&mut self) {
        self.0.change(|seen| seen.is_closed = true);
    }
}

impl Store for Gated {
    fn partitions(&self) -> u16 {
        self.0.rows.partitions()
    }

    fn begin(&mut self, at: UnixMs, version: &str, tzdb: &str) -> Result<(), store::Error> {
        self.0.rows.begin(at, version, tzdb)
    }

    fn end(&mut self, at: UnixMs) -> Result<(), store::Error> {
        self.0.rows.end(at)
    }

    fn claim(&mut self, partitions: &[PartitionId]) -> Result<Vec<Loaded>, store::Error> {
        self.0.rows.claim(partitions)
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<store::Outcome>, store::Error> {
        self.0.change(|seen| seen.tried += 1);
        let seen = self.0.seen.0.lock().unwrap();
        let waited = self.0.seen.1.wait_timeout_while(seen, BOUND, |seen| seen.door == Door::Shut);
        let (seen, wait) = waited.unwrap();
        assert!(!wait.timed_out(), "a test opens the door that it shuts");
        let door = seen.door;
        drop(seen);
        match door {
            Door::Open | Door::Shut => {
                let outcomes = self.0.rows.commit(batches)?;
                self.0.change(|seen| seen.done += 1);
                Ok(outcomes)
            }
            Door::Away => Err(store::Error::Unavailable("the disk is full".into())),
            Door::Deaf => {
                self.0.rows.commit(batches)?;
                Err(store::Error::Unknown("the line went dead".into()))
            }
        }
    }

    fn noted(&self) -> u64 {
        self.0.rows.noted()
    }

    fn reserve_ids(&mut self, floor: u64, count: u64) -> Result<u64, store::Error> {
        let mut is_given = true;
        self.0.change(|seen| {
            seen.reserves += 1;
            is_given = seen.door == Door::Open || seen.reserves <= seen.reserves_given;
        });
        if is_given { self.0.rows.reserve_ids(floor, count) } else { Err(store::Error::Unavailable("no ids".into())) }
    }

    fn reserve_all(&mut self, what: &[Reservation]) -> Result<Vec<Reserved>, store::Error> {
        self.0.rows.reserve_all(what)
    }

    fn sweep(&mut self, before: UnixMs, floor: u64) -> Result<u32, store::Error> {
        self.0.rows.sweep(before, floor)
    }

    fn upkeep(&mut self, now: UnixMs) -> Result<bool, store::Error> {
        self.0.rows.upkeep(now)
    }
}

/// An executor that keeps what it is given, and answers sends at once: URL jobs with their success,
/// workers' sends with their acceptance.
pub(crate) struct Lane {
    protocol: Protocol,
    outcomes: Arc<dyn Outcomes>,
    panics: bool,
    calls: Mutex<Vec<(PartitionId, Outbound)>>,
    called: Condvar,
}

impl Lane {
    /// Runs of the sends so far, in order.
    pub(crate) fn sends(&self) -> Vec<RunId> {
        sends(&self.calls.lock().unwrap())
    }

    /// Waits until this holds of the sends so far.
    pub(crate) fn wait(&self, is_so: impl Fn(&[RunId]) -> bool) -> Vec<RunId> {
        let calls = self.calls.lock().unwrap();
        let waited = self.called.wait_timeout_while(calls, BOUND, |calls| !is_so(&sends(calls)));
        let (calls, wait) = waited.unwrap();
        assert!(!wait.timed_out(), "it was never sent");
        sends(&calls)
    }

    pub(crate) fn last_send(&self) -> Box<rota_core::partition::Dispatch> {
        let calls = self.calls.lock().unwrap();
        let send = calls.iter().rev().find_map(|(_, call)| match call {
            Outbound::Send(dispatch) => Some(dispatch.clone()),
            Outbound::Probe(_) | Outbound::Cancel(_) => None,
        });
        send.unwrap()
    }
}

fn sends(calls: &[(PartitionId, Outbound)]) -> Vec<RunId> {
    let runs = calls.iter().filter_map(|(_, call)| match call {
        Outbound::Send(dispatch) => Some(dispatch.run),
        Outbound::Probe(_) | Outbound::Cancel(_) => None,
    });
    runs.collect()
}

impl Executor for Lane {
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn submit(&self, calls: Vec<(PartitionId, Outbound)>) {
        assert!(!self.panics, "this executor was made to panic");
        let answers = calls.iter().filter_map(|(partition, call)| match call {
            Outbound::Send(dispatch) => {
                let outcome = match self.protocol {
                    Protocol::Http => SendOutcome::Accepted { next_beat: 1 },
                    Protocol::Url => SendOutcome::Finished(Outcome::Success, Some("ok".into())),
                };
                Some((*partition, Input::Sent { attempt: dispatch.attempt, outcome }))
            }
            Outbound::Probe(_) | Outbound::Cancel(_) => None,
        });
        self.outcomes.deliver(answers.collect());
        self.calls.lock().unwrap().extend(calls);
        self.called.notify_all();
    }
}

pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) handle: Handle,
    pub(crate) gate: Gate,
    pub(crate) http: Arc<Lane>,
    pub(crate) url: Arc<Lane>,
}

impl Server {
    pub(crate) fn start(rows: &MemoryStore) -> Server {
        Server::start_with(rows, Config::NATIVE, false)
    }

    pub(crate) fn start_with(rows: &MemoryStore, config: Config, url_panics: bool) -> Server {
        Server::start_gated(Gate::new(rows), config, url_panics)
    }

    pub(crate) fn start_gated(gate: Gate, config: Config, url_panics: bool) -> Server {
        let mut lanes = None;
        let reads = Arc::new(gate.rows.clone());
        let started = Engine::start(config, Box::new(Gated(gate.clone())), reads, Clock::start(), |outcomes| {
            let lane = |protocol, panics| {
                let (calls, called) = (Mutex::default(), Condvar::new());
                Arc::new(Lane { protocol, outcomes: outcomes.clone(), panics, calls, called })
            };
            let (http, url) = (lane(Protocol::Http, false), lane(Protocol::Url, url_panics));
            lanes = Some((http.clone(), url.clone()));
            vec![http, url]
        });
        let engine = started.unwrap();
        let (http, url) = lanes.unwrap();
        Server { handle: engine.handle(), engine, gate, http, url }
    }

    pub(crate) async fn app(&self, name: &str) -> (AppId, PartitionId) {
        let what = Reservation::App { namespace: "default".into(), name: name.into(), pending_max: None, rates: None };
        match within(self.handle.reserve(what)).await {
            Ok(Reserved::App(app)) => (app.id, self.handle.partition(app.id).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    /// An app with one job that calls a URL.
    pub(crate) async fn job(&self, app: &str, when: When) -> (JobId, PartitionId) {
        let target = Target::Url {
            method: "GET".into(),
            url: "http://partner.example/ping".into(),
            headers: Default::default(),
            body: String::new(),
        };
        self.job_on(app, Spec::new(when, target)).await
    }

    pub(crate) async fn job_on(&self, app: &str, spec: Spec) -> (JobId, PartitionId) {
        let (id, partition, definition) = self.definition(app, spec).await;
        let make = move |reply| Input::Define { definition, expected: None, reply };
        match self.ask(partition, make).await {
            Ok(Answer::Defined { job, .. }) => assert_eq!(job, id),
            other => panic!("{other:?}"),
        }
        (id, partition)
    }

    pub(crate) async fn definition(&self, app: &str, spec: Spec) -> (JobId, PartitionId, Box<Definition>) {
        let (app, partition) = self.app(app).await;
        let name = format!("job-{app}");
        let what = Reservation::JobName { app, name: name.clone(), at: UnixMs(1) };
        let id = match within(self.handle.reserve(what)).await {
            Ok(Reserved::Job(id)) => id,
            other => panic!("{other:?}"),
        };
        let (state, at, by) = (JobState::Enabled, UnixMs(0), "test".into());
        let (managed_by, pause) = (None, None);
        let version = Version(1);
        let definition = Definition { id, version, app, name, spec, state, at, by, managed_by, pause };
        let definition = Box::new(definition);
        (id, partition, definition)
    }

    pub(crate) async fn ask(
        &self,
        partition: PartitionId,
        make: impl FnOnce(ReplyTo) -> Input + Send + 'static,
    ) -> Result<Answer, Refused> {
        within(self.handle.ask(partition, Box::new(make))).await
    }

    /// Triggers without waiting for the answer.
    pub(crate) fn triggering(
        &self,
        (job, partition): (JobId, PartitionId),
    ) -> impl Future<Output = Result<Answer, Refused>> + use<> {
        let make = move |reply| Input::Trigger {
            job,
            param: None,
            request_id: None,
            origin: Origin::Api,
            parent: None,
            reply,
        };
        self.handle.ask(partition, Box::new(make))
    }

    pub(crate) async fn trigger(&self, job: (JobId, PartitionId)) -> RunId {
        match within(self.triggering(job)).await {
            Ok(Answer::Triggered(run)) => run,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn stop(self) -> Result<(), Error> {
        self.engine.stop(BOUND)
    }
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("it hangs")
}
