//! Starts and stops the threads of a server.
//!
//! The threads: *machines* runs every machine, *writer* owns the store, *upstreams* judges what slots wait for,
//! *children* carries the ends that fire jobs. Each is watched by a sentinel,
//! so that a panic in it is a [`Failure`] and never a silence.
//!
//! A stop goes in order: requests are refused; machines get a last turn, and what they decided is made
//! durable and sent; the writer ends, and the store is closed, which gives its lock back.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use rota_core::id::{PartitionId, id_floor};
use rota_core::partition::{self, Machine};
use rota_core::rate::Limit;
use rota_core::time::Mono;
use rota_port::executor::{Executor, Outcomes};
use rota_port::store::{self, Store};
use rota_port::upstream::Reads;

use crate::children::Children;
use crate::clock::Clock;
use crate::failure::{Failure, Failures};
use crate::handle::Handle;
use crate::ids::{Ids, RESERVE_IDS, Reserve};
use crate::machines::Machines;
use crate::outbox::Lanes;
use crate::shared::Shared;
use crate::upstreams::Upstreams;
use crate::writer::Writer;

/// Partitions claimed at once: a claim of all would hold every stored definition in memory beside
/// the compiled ones.
const CLAIM_CHUNK: usize = 8;

/// Settings of a server's machines and writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// What every machine is told.
    pub machine: partition::Config,
    /// How long ended runs are kept, in milliseconds.
    pub retention_ms: u64,
    /// How fast dispatches of all machines together may begin, if that is limited.
    pub rate: Option<Limit>,
}

impl Config {
    /// The defaults: a week of runs, as fast as can be.
    pub const NATIVE: Config =
        Config { machine: partition::Config::NATIVE, retention_ms: 7 * 24 * 3_600_000, rate: None };
}

/// Why an engine did not start, or did not stop in time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store could not be claimed.
    #[error("the store could not be claimed")]
    Store(#[from] store::Error),
    /// No executor speaks a protocol.
    #[error("no executor speaks the protocol `{0}`; give one for each protocol")]
    NoExecutor(&'static str),
    /// The system gave no thread.
    #[error("the thread `{name}` could not be started")]
    Thread {
        /// Its name.
        name: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A thread did not end in time; it keeps the store locked until the process ends.
    #[error("the thread `{0}` did not end in time; what it had decided may not be durable")]
    StillBusy(&'static str),
}

/// A server's threads.
pub struct Engine {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
}

struct Thread {
    name: &'static str,
    /// Nothing is ever sent: it disconnects when the thread has dropped everything that it owned.
    ended: Receiver<()>,
}

impl Engine {
    /// Claims every partition of the store, builds its machines, and starts the threads. This takes
    /// as long as the store takes to read all definitions; call it where blocking is fine.
    ///
    /// `reads` are those of the same store. `executors` makes one executor for each protocol; they answer through what it is given. They
    /// must read time from copies of `clock`.
    pub fn start(
        config: Config,
        mut store: Box<dyn Store>,
        reads: Arc<dyn Reads>,
        clock: Clock,
        executors: impl FnOnce(Arc<dyn Outcomes>) -> Vec<Arc<dyn Executor>>,
    ) -> Result<Engine, Error> {
        let shared = Arc::new(Shared::new(clock, store.partitions()));
        let handle = Handle::new(Arc::clone(&shared));
        let lanes = Lanes::new(&executors(Arc::new(handle)))?;
        store.begin(clock.now().wall, env!("CARGO_PKG_VERSION"), rota_core::time::tzdb_version())?;
        let machines = claim(config.machine, store.as_mut(), &shared)?;
        let now = clock.now();
        let first = store.reserve_ids(id_floor(now.wall), RESERVE_IDS)?;
        let ids = Ids::new(Reserve { first, at: now.mono });
        let machines =
            Machines::new(Arc::clone(&shared), lanes, machines, ids, (config.machine.pending_max, config.rate));
        let writer = Writer::new(Arc::clone(&shared), store, config.retention_ms);
        // A thread that cannot be started drops the engine, which ends the one before.
        let children = Children::new(Arc::clone(&shared), Arc::clone(&reads));
        let upstreams = Upstreams::new(Arc::clone(&shared), reads);
        let mut engine = Engine { shared, threads: Vec::with_capacity(4) };
        engine.spawn("writer", move || writer.run())?;
        engine.spawn("machines", move || machines.run())?;
        engine.spawn("upstreams", move || upstreams.run())?;
        engine.spawn("children", move || children.run())?;
        Ok(engine)
    }

    /// The way in, for the server's other parts.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Resolves when the server cannot go on, with the first reason; the process should then exit
    /// loudly, and recover by starting again. After a stop in order it never resolves.
    pub fn failed(&self) -> impl Future<Output = Failure> + Send + use<> {
        Failures::wait(self.shared.failures.subscribe())
    }

    /// Stops in order, within a time; call it where blocking is fine. Keep the executors running
    /// meanwhile: what becomes durable now is still sent.
    pub fn stop(mut self, within: Duration) -> Result<(), Error> {
        let clock = self.shared.clock;
        let by = Mono(clock.mono().0.saturating_add(u64::try_from(within.as_millis()).unwrap_or(u64::MAX)));
        self.shared.inbox.put(|arrivals| arrivals.stop_by = Some(by));
        self.shared.asked.put(|asked| asked.is_over = true);
        self.shared.noted.put(|noted| noted.is_over = true);
        let children = self.end("children", clock.until(by));
        let upstreams = self.end("upstreams", clock.until(by));
        let machines = self.end("machines", clock.until(by));
        self.shared.replies.close();
        self.shared.orders.put(|orders| orders.stop_by = Some(by));
        let writer = self.end("writer", clock.until(by));
        machines.and(writer).and(upstreams).and(children)
    }

    /// Waits for a thread that was told to stop, and for as long again as a call that it is in may take.
    fn end(&mut self, name: &'static str, within: Duration) -> Result<(), Error> {
        const GRACE: Duration = Duration::from_millis(500);
        let Some(at) = self.threads.iter().position(|thread| thread.name == name) else { return Ok(()) };
        match self.threads.swap_remove(at).ended.recv_timeout(within + GRACE) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(()),
            Err(RecvTimeoutError::Timeout) => Err(Error::StillBusy(name)),
        }
    }

    fn spawn(&mut self, name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let (alive, ended) = sync_channel(1);
        let sentinel = Sentinel { name, shared: Arc::clone(&self.shared), _alive: alive };
        let body = move || {
            // Dropped last, after everything that `run` owns.
            let _sentinel = sentinel;
            run();
        };
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        spawned.map_err(|source| Error::Thread { name, source })?;
        self.threads.push(Thread { name, ended });
        Ok(())
    }
}

impl Drop for Engine {
    /// Without a stop in order the threads end as after a crash: nothing that was durable is lost.
    fn drop(&mut self) {
        self.shared.abort();
    }
}

fn claim(config: partition::Config, store: &mut dyn Store, shared: &Shared) -> Result<Vec<Machine>, store::Error> {
    let all: Vec<PartitionId> = (0..store.partitions()).map(PartitionId).collect();
    let mut machines = Vec::with_capacity(all.len());
    for chunk in all.chunks(CLAIM_CHUNK) {
        let loaded = store.claim(chunk)?;
        assert_eq!(loaded.len(), chunk.len(), "a store answers for every partition");
        for loaded in loaded {
            for app in &loaded.apps {
                let partition = shared.note(app);
                assert_eq!(partition, loaded.partition, "an app lies in the partition of its name");
            }
            machines.push(Machine::new(config, loaded, shared.clock.now()));
        }
    }
    Ok(machines)
}

/// Lives as long as its thread, and reports the thread's panic.
struct Sentinel {
    name: &'static str,
    shared: Arc<Shared>,
    _alive: SyncSender<()>,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(Failure::Panicked(self.name));
        }
    }
}
