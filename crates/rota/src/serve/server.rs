//! The composition root: store, engine, executors and API of one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rota_api::{Parts, Settings, State};
use rota_core::limits::Timing;
use rota_core::partition;
use rota_core::rate::Limit;
use rota_core::trace::Sampler;
use rota_engine::Engine;
use rota_engine::clock::Clock;
use rota_net::http::HttpExecutor;
use rota_net::message::Messenger;
use rota_net::policy::Policy;
use rota_net::url::UrlExecutor;
use rota_port::executor::{Executor, Outcomes};
use rota_port::logs::Logs;
use rota_port::query::Query;
use rota_port::secrets::Secrets;
use rota_port::store::Store;
use rota_port::upstream::Reads;
use rota_store::backup::SqliteBackup;
use rota_store::logs::{FileLogs, Limits};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_rustls::rustls::ClientConfig;
use tokio_util::sync::CancellationToken;

use super::dialer::NetDialer;
use super::notify::Notify;
use super::{token, traces};
use crate::alerts::{self, Alerts};
use crate::config::{self, Config};
use crate::exit::Failure;
use crate::signal::Stop;
use crate::worker::chain;

/// Connections that may wait to be accepted. A fleet that reconnects at once must not meet resets.
const BACKLOG: u32 = 4_096;

/// What a server is made of.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) partitions: u16,
    pub(crate) admin_token_file: Option<PathBuf>,
    pub(crate) timing: Timing,
    pub(crate) policy: Arc<Policy>,
    pub(crate) rate: Option<Limit>,
    pub(crate) ledger_retention: Duration,
    pub(crate) logs: config::Logs,
    pub(crate) telemetry: config::Telemetry,
    /// Zone of jobs that name none.
    pub(crate) timezone: String,
    /// Whether it is a playground.
    pub(crate) is_dev: bool,
}

impl Plan {
    /// What a configuration asks for.
    pub(crate) fn of(config: &Config) -> Result<Plan, Failure> {
        let policy = Policy::new(&config.outbound_allow, false).map_err(|bad| Failure::usage(bad.to_string(), None))?;
        Ok(Plan {
            listen: config.server.listen,
            data: config.server.data.clone(),
            partitions: config.partitions,
            admin_token_file: config.server.admin_token_file.clone(),
            timing: config.timing,
            policy: Arc::new(policy),
            rate: config.rate,
            ledger_retention: config.ledger_retention,
            logs: config.logs.clone(),
            telemetry: config.telemetry.clone(),
            timezone: config.server.timezone.clone(),
            is_dev: false,
        })
    }
}

/// A server that takes requests.
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The admin token, if it was made by this start and is in no file.
    pub(crate) new_token: Option<String>,
    engine: Engine,
    api: JoinHandle<std::io::Result<()>>,
    shutdown: CancellationToken,
}

impl Server {
    /// Opens the store, starts the threads, and takes requests.
    pub(crate) async fn start(plan: Plan) -> Result<Server, Failure> {
        // The port first: to find it taken after minutes of loading would be a pity.
        let listener = bind(plan.listen).map_err(|error| {
            let hint = "another server may run there; --listen names another address, port 0 takes a free one";
            Failure::usage(format!("cannot listen on {}: {error}", plan.listen), Some(hint.to_owned()))
        })?;
        let address = listener.local_addr()?;
        // Loading reads the whole store, on a thread that may block.
        let loaded = tokio::task::spawn_blocking(move || load(plan)).await;
        let Loaded { engine, state, new_token } = loaded.expect("loading does not panic")?;
        let shutdown = CancellationToken::new();
        let api = tokio::spawn(rota_api::serve(listener, state, shutdown.clone()));
        Ok(Server { address, new_token, engine, api, shutdown })
    }

    /// Serves until a signal or a failure; then stops in order.
    pub(crate) async fn run(mut self, stop: &mut Stop, drain: Duration, notify: &Notify) -> Result<(), Failure> {
        let failed = self.engine.failed();
        let live = notify.live(self.engine.handle());
        tokio::select! {
            // Failures first: a signal that comes with one does not make it an end in order.
            biased;
            failure = failed => return Err(Failure::failed("server_failed", failure.to_string())),
            ended = &mut self.api => {
                let how = ended.map_err(|error| error.to_string()).and_then(|ended| ended.map_err(|e| e.to_string()));
                return Err(Failure::failed("server_failed", format!("the listener ended: {how:?}")));
            }
            signal = stop.asked() => tracing::info!(signal, "server_stops"),
            () = live => unreachable!("it says that the process lives for as long as it does"),
        }
        notify.stopping();
        tokio::select! {
            // The end first; a second signal only matters while it is not there.
            biased;
            ended = self.stop(drain) => ended,
            signal = stop.asked() => Err(Failure::failed("stopped_at_once", format!("a second {signal}: stopped at once"))),
        }
    }

    /// Takes no more requests, lets open ones end, makes durable what was decided, and gives the store back.
    pub(crate) async fn stop(self, drain: Duration) -> Result<(), Failure> {
        let Server { engine, api, shutdown, .. } = self;
        shutdown.cancel();
        if tokio::time::timeout(drain, api).await.is_err() {
            tracing::warn!("requests_cut_off");
        }
        let stopped = tokio::task::spawn_blocking(move || engine.stop(drain)).await.expect("stopping does not panic");
        stopped.map_err(|error| Failure::failed("stop_failed", chain(&error)))
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of the process before linger for a minute after its end.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

struct Loaded {
    engine: Engine,
    state: Arc<State>,
    new_token: Option<String>,
}

fn load(plan: Plan) -> Result<Loaded, Failure> {
    let clock = Clock::start();
    let (mut store, query) =
        rota_store::open(&plan.data, plan.partitions).map_err(|error| Failure::failed("store", chain(&error)))?;
    let past = Arc::new(query);
    let query: Arc<dyn Query> = past.clone();
    let tokens = query.tokens().map_err(|error| Failure::failed("store", chain(&error)))?;
    let new_token = token::ensure(&mut store, &tokens, plan.admin_token_file.as_deref(), clock.now().wall, entropy)?;
    let logs = open_logs(&plan)?;
    let tls = rota_net::tls::roots(&[]).expect("without extra roots there is no bad one");
    // Before anything is sent that needs them.
    let secrets = Secrets::open(&*query).map_err(|error| Failure::failed("store", chain(&error)))?;
    let secrets = Arc::new(secrets);
    let watch = store.watch();
    let (store, sampler) = traces::watch(&plan, Box::new(store), &query)?;
    let engine = start_engine(&plan, (store, past.clone()), sampler, clock, (&tls, &secrets))?;
    let herald = Alerts::start(alerts::Parts {
        query: Arc::clone(&query),
        history: past.clone(),
        intake: Arc::new(engine.handle()),
        watch,
        secrets: Arc::clone(&secrets),
        messenger: Messenger::new(Arc::clone(&plan.policy), Arc::clone(&tls)),
        clock,
    });
    let parts = Parts {
        herald: Arc::new(herald?),
        intake: Arc::new(engine.handle()),
        history: past,
        query,
        logs,
        backup: Arc::new(SqliteBackup::new(&plan.data)),
        secrets,
        dialer: Arc::new(NetDialer { policy: Arc::clone(&plan.policy), tls }),
        clock: Arc::new(move || clock.now().wall),
        entropy: Arc::new(entropy),
        settings: Settings {
            beat_ms: plan.timing.beat_ms,
            dead_ms: plan.timing.dead_ms,
            partitions: plan.partitions,
            pending_max: partition::Config::NATIVE.pending_max,
            rate: plan.rate,
            timezone: plan.timezone.clone(),
            is_dev: plan.is_dev,
            version: env!("CARGO_PKG_VERSION"),
        },
    };
    let state = State::new(parts).map_err(|error| Failure::failed("store", chain(&error)))?;
    Ok(Loaded { engine, state, new_token })
}

fn start_engine(
    plan: &Plan,
    (store, reads): (Box<dyn Store>, Arc<dyn Reads>),
    sampler: Sampler,
    clock: Clock,
    carried: (&Arc<ClientConfig>, &Arc<Secrets>),
) -> Result<Engine, Failure> {
    let config = rota_engine::Config {
        machine: partition::Config { timing: plan.timing, ..partition::Config::NATIVE },
        retention_ms: u64::try_from(plan.ledger_retention.as_millis()).unwrap_or(u64::MAX),
        rate: plan.rate,
    };
    let mut failed = None;
    let engine = Engine::start(config, store, reads, clock, |outcomes| {
        executors(plan, sampler, clock, carried, &outcomes).unwrap_or_else(|error| {
            failed = Some(error);
            Vec::new()
        })
    });
    match failed {
        Some(error) => Err(error.into()),
        None => engine.map_err(|error| Failure::failed("start_failed", chain(&error))),
    }
}

fn executors(
    plan: &Plan,
    sampler: Sampler,
    clock: Clock,
    (tls, secrets): (&Arc<ClientConfig>, &Arc<Secrets>),
    outcomes: &Arc<dyn Outcomes>,
) -> Result<Vec<Arc<dyn Executor>>> {
    let mono: rota_net::Clock = Arc::new(move || clock.mono());
    let http = rota_net::http::Config { exchange_ms: plan.timing.send_ms, sampler, ..rota_net::http::Config::NATIVE };
    let policy = || Arc::clone(&plan.policy);
    let (tls, secrets, outcomes) = (|| Arc::clone(tls), || Arc::clone(secrets), || Arc::clone(outcomes));
    let http = HttpExecutor::start(http, policy(), tls(), Arc::clone(&mono), outcomes(), secrets())
        .context("starting the lanes to workers")?;
    let url = rota_net::url::Config { sampler, ..rota_net::url::Config::DEFAULT };
    let url =
        UrlExecutor::start(url, policy(), tls(), mono, outcomes(), secrets()).context("starting the lane to URLs")?;
    Ok(vec![Arc::new(http), Arc::new(url)])
}

/// The store holds the lock of the data folder already.
fn open_logs(plan: &Plan) -> Result<Arc<dyn Logs>, Failure> {
    let limits = Limits {
        total_bytes: plan.logs.bytes_max,
        age_ms: i64::try_from(plan.logs.retention.as_millis()).unwrap_or(i64::MAX),
        ..Limits::STANDARD
    };
    let logs = FileLogs::open(&plan.data.join("logs"), limits);
    Ok(Arc::new(logs.map_err(|error| Failure::failed("store", chain(&error)))?))
}

/// 32 bytes that nobody can guess.
pub(crate) fn entropy() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system gives random bytes once it has started");
    bytes
}
