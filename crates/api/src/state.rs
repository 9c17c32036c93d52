//! What every request shares: the ports, the clock, the tokens, and the bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rota_core::id::{AppId, WorkerId};
use rota_core::partition::{Answer, Input, ReplyTo};
use rota_core::rate::Limit;
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::App;
use rota_port::backup::Backup;
use rota_port::history::History;
use rota_port::intake::{Intake, Waiting};
use rota_port::logs::Logs;
use rota_port::query::Query;
use rota_port::secrets::Secrets;
use rota_port::store;
use rota_wire::worker::Identity;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Tokens;
use crate::code::Code;
use crate::directory::{Directory, Worker};
use crate::feed::Feed;
use crate::herald::Herald;
use crate::openapi::openapi;
use crate::refusal::Refusal;
use crate::stream::STREAMS_MAX;

/// Reads that run at once. SQLite answers from this many threads; more would only fight for the two cores.
const READS_MAX: usize = 4;
/// How long a request waits for its turn to read.
const READ_WAIT: Duration = Duration::from_secs(10);
/// How long a caller waits for a command. The command goes on.
const COMMAND_WAIT: Duration = Duration::from_secs(30);

/// Asks an address who listens there.
pub trait Dialer: Send + Sync {
    /// `GET {url}/internal/identity`, with a deadline of a few seconds.
    fn identify(&self, url: &str) -> Waiting<Result<Identity, Unanswered>>;
}

/// Why an address did not say who listens there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// Its host refused the connection: no process listens there. One clause: `refused the connection`.
    Refused(String),
    /// Anything else: no route, a deadline, an answer that is none. One clause: `did not answer within 3 s`.
    Silent(String),
}

impl Unanswered {
    /// The clause.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Unanswered::Refused(reason) | Unanswered::Silent(reason) => reason,
        }
    }
}

/// What does not come from a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How often workers beat.
    pub beat_ms: u64,
    /// Silence after which their attempts count as lost.
    pub dead_ms: u64,
    /// Partitions of the store.
    pub partitions: u16,
    /// Shards that may have a worker and not be sent yet, of all apps.
    pub pending_max: u32,
    /// How fast dispatches of all apps together may begin, if that is limited.
    pub rate: Option<Limit>,
    /// Zone of jobs that name none.
    pub timezone: String,
    /// Whether this is a playground.
    pub is_dev: bool,
    /// Version of Rota.
    pub version: &'static str,
}

/// The wall clock.
pub type Clock = Arc<dyn Fn() -> UnixMs + Send + Sync>;
/// 32 bytes that nobody can guess.
pub type Entropy = Arc<dyn Fn() -> [u8; 32] + Send + Sync>;

/// What [`State::new`] needs.
pub struct Parts {
    /// Requests go in here.
    pub intake: Arc<dyn Intake>,
    /// What is durable is read here.
    pub query: Arc<dyn Query>,
    /// The past is read here.
    pub history: Arc<dyn History>,
    /// Logs of attempts.
    pub logs: Arc<dyn Logs>,
    /// Copies all of it.
    pub backup: Arc<dyn Backup>,
    /// Dials workers back.
    pub dialer: Arc<dyn Dialer>,
    /// Tells people of alerts.
    pub herald: Arc<dyn Herald>,
    /// What jobs may use by name, and nobody may read; what is durable is in it.
    pub secrets: Arc<Secrets>,
    /// The wall clock.
    pub clock: Clock,
    /// For new tokens.
    pub entropy: Entropy,
    /// The rest.
    pub settings: Settings,
}

/// What every request shares.
pub struct State {
    pub(crate) intake: Arc<dyn Intake>,
    pub(crate) query: Arc<dyn Query>,
    pub(crate) history: Arc<dyn History>,
    /// One audit at a time.
    pub(crate) audits: Arc<Semaphore>,
    pub(crate) logs: Arc<dyn Logs>,
    pub(crate) backup: Arc<dyn Backup>,
    pub(crate) dialer: Arc<dyn Dialer>,
    pub(crate) herald: Arc<dyn Herald>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) entropy: Entropy,
    pub(crate) settings: Settings,
    pub(crate) tokens: Tokens,
    pub(crate) directory: Directory,
    pub(crate) counts: Counts,
    /// The OpenAPI document, as it is served.
    pub(crate) document: Bytes,
    clock: Clock,
    /// Whoever has it may change apps.
    pub(crate) app_turn: Semaphore,
    reads: Semaphore,
    commands: TaskTracker,
    /// Places for streams of events.
    pub(crate) streams: Arc<Semaphore>,
    /// Cancelled when the server stops: streams end by themselves no sooner than their readers.
    pub(crate) closing: CancellationToken,
    /// Who watches runs change.
    pub(crate) feed: Feed,
}

/// Counts of the API itself.
#[derive(Default)]
pub(crate) struct Counts {
    /// Answers by class of status, from 1xx to 5xx.
    pub(crate) answers: [AtomicU64; 5],
    /// Requests without a token that opens what they ask for.
    pub(crate) refused_tokens: AtomicU64,
}

impl Counts {
    pub(crate) fn refused_token(&self) {
        self.refused_tokens.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self, status: http::StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
    }
}

impl State {
    /// Reads tokens, apps and workers from the store; blocks while it does.
    pub fn new(parts: Parts) -> Result<Arc<State>, store::Error> {
        let state = State {
            intake: parts.intake,
            query: parts.query,
            history: parts.history,
            audits: Arc::new(Semaphore::new(1)),
            logs: parts.logs,
            backup: parts.backup,
            dialer: parts.dialer,
            herald: parts.herald,
            secrets: parts.secrets,
            entropy: parts.entropy,
            document: openapi(parts.settings.version).to_string().into(),
            settings: parts.settings,
            tokens: Tokens::default(),
            directory: Directory::default(),
            counts: Counts::default(),
            clock: parts.clock,
            app_turn: Semaphore::new(1),
            reads: Semaphore::new(READS_MAX),
            commands: TaskTracker::new(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            closing: CancellationToken::new(),
            feed: Feed::default(),
        };
        state.tokens.load(|| state.query.tokens())?;
        for app in state.query.apps()? {
            state.put_app(app);
        }
        for (registration, _) in state.query.workers(None)? {
            let (id, worker) = (registration.id, directory_entry(&registration));
            state.directory.put_worker(id, worker);
        }
        Ok(Arc::new(state))
    }

    pub(crate) fn now(&self) -> UnixMs {
        (self.clock)()
    }

    /// Runs reads on a thread that may block, a few at a time.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        reads: impl FnOnce(&State) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = tokio::time::timeout(READ_WAIT, self.reads.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(Refusal::new(Code::Overloaded, "too many reads wait").hint("try again in a moment"));
        };
        let state = self.clone();
        match tokio::task::spawn_blocking(move || reads(&state)).await {
            Ok(answer) => answer,
            Err(error) => Err(Refusal::internal(error)),
        }
    }

    /// Carries a command to its end, even if whoever asked goes away; what follows a commit is not lost with them.
    pub(crate) async fn carry<T: Send + 'static>(
        &self,
        command: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        match tokio::time::timeout(COMMAND_WAIT, self.commands.spawn(command)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(Refusal::internal(error)),
            Err(_) => Err(Refusal::new(Code::Timeout, "no answer within 30 s; it may still happen")
                .hint("look whether it happened before you ask again; /readyz says what is slow")),
        }
    }

    /// Starts what outlives the call that asked for it; it ends with the server.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.commands.spawn(task);
    }

    /// Ends all streams, each with an event that says so.
    pub(crate) fn close_streams(&self) {
        self.closing.cancel();
    }

    /// Waits for the commands under way, after the last connection is closed.
    pub(crate) async fn finish(&self) {
        self.commands.close();
        self.commands.wait().await;
    }

    /// Puts a request into the machine of an app's partition.
    pub(crate) async fn ask(
        &self,
        app: AppId,
        make: impl FnOnce(ReplyTo) -> Input + Send + 'static,
    ) -> Result<Answer, Refusal> {
        let Some(partition) = self.intake.partition(app) else {
            return Err(Refusal::from(Why::NotOwner));
        };
        let answer = self.intake.ask(partition, Box::new(make)).await?;
        if let Answer::Refused(why) = answer {
            return Err(Refusal::from(why).retry_after_ms(self.wait_ms(app, why)));
        }
        Ok(answer)
    }

    /// How long it takes at least until what is refused for this reason can be had, if that is known.
    fn wait_ms(&self, app: AppId, why: Why) -> Option<u64> {
        if why == Why::ServerRate {
            return self.intake.health().token_ms;
        }
        if why != Why::Rate {
            return None;
        }
        let snapshots = self.intake.snapshots();
        let valve = snapshots.iter().flat_map(|snapshot| &snapshot.valves).find(|valve| valve.app == app);
        valve.map(|valve| valve.token_ms)
    }

    /// Remembers an app, and in which namespace its jobs are.
    pub(crate) fn put_app(&self, app: App) {
        self.secrets.put_app(&app);
        self.directory.put_app(app);
    }

    /// An app by name; asks the store if this server has not seen it yet. May block.
    pub(crate) fn find_app(&self, namespace: &str, name: &str) -> Result<Option<App>, Refusal> {
        if let Some(app) = self.directory.app_named(namespace, name) {
            return Ok(Some(app));
        }
        self.reload_apps()?;
        Ok(self.directory.app_named(namespace, name))
    }

    /// An app by id. May block.
    pub(crate) fn app(&self, id: AppId) -> Result<Option<App>, Refusal> {
        if let Some(app) = self.directory.app(id) {
            return Ok(Some(app));
        }
        self.reload_apps()?;
        Ok(self.directory.app(id))
    }

    pub(crate) fn reload_apps(&self) -> Result<Vec<App>, Refusal> {
        let apps = self.query.apps()?;
        for app in &apps {
            self.put_app(app.clone());
        }
        Ok(apps)
    }

    /// A worker. May block.
    pub(crate) fn worker(&self, id: WorkerId) -> Result<Option<Worker>, Refusal> {
        if let Some(worker) = self.directory.worker(id) {
            return Ok(Some(worker));
        }
        let Some((registration, _)) = self.query.worker(id)? else { return Ok(None) };
        let worker = directory_entry(&registration);
        self.directory.put_worker(id, worker.clone());
        Ok(Some(worker))
    }
}

fn directory_entry(registration: &rota_core::worker::Registration) -> Worker {
    Worker { app: registration.app, name: registration.name.clone(), url: registration.url.clone(), trouble: None }
}
