//! What a worker is made of: checked once, here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::future::Future;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use rota_wire::worker::Register;

use crate::attempts::{Attempts, Memory};
use crate::builtin;
use crate::client::Server;
use crate::clock::Clock;
use crate::context::Context;
use crate::error::Error;
use crate::handler::{Handler, IntoMessage, erase};
use crate::identity;
use crate::journal::Journal;
use crate::live::{Live, Parts};
use crate::worker::Worker;

const CAPACITY: u32 = 64;
/// Attempts that the server may bring in one call.
pub(crate) const LIST_MAX: u32 = 128;
const NAME_BYTES_MAX: usize = 100;
const LABELS_MAX: usize = 64;
const DRAIN_DEADLINE: Duration = Duration::from_secs(30);
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Builds a [`Worker`].
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    server: String,
    app: String,
    token: String,
    name: Option<String>,
    namespace: String,
    labels: BTreeMap<String, String>,
    capacity: u32,
    listen: String,
    advertise_url: Option<String>,
    handlers: BTreeMap<String, Handler>,
    twice: Option<String>,
    allow_shell: bool,
    journal: Option<PathBuf>,
    drain_deadline: Duration,
    stop_grace: Duration,
}

impl Builder {
    pub(crate) fn new(server: String, app: String, token: String) -> Builder {
        Builder {
            server,
            app,
            token,
            name: None,
            namespace: rota_wire::worker::default_namespace(),
            labels: BTreeMap::new(),
            capacity: CAPACITY,
            listen: "127.0.0.1:0".to_owned(),
            advertise_url: None,
            handlers: BTreeMap::new(),
            twice: None,
            allow_shell: false,
            journal: None,
            drain_deadline: DRAIN_DEADLINE,
            stop_grace: STOP_GRACE,
        }
    }

    /// The worker's name, unique in its app. Default: host name and process id; a name that stays the
    /// same over restarts is better, because then a restart is seen as one.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// The namespace of the app. Default: `default`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Builder {
        self.namespace = namespace.into();
        self
    }

    /// A label that jobs can select workers by.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Builder {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Attempts that run at once; 0 is unlimited. Default: 64.
    pub fn capacity(mut self, capacity: u32) -> Builder {
        self.capacity = capacity;
        self
    }

    /// Where to listen for the server's calls, as `host:port`. Default: `127.0.0.1:0`, which only a
    /// server on the same machine can reach.
    pub fn listen(mut self, address: impl Into<String>) -> Builder {
        self.listen = address.into();
        self
    }

    /// The URL under which the server can reach this worker, if it is not the address it listens on:
    /// behind NAT, in a container.
    pub fn advertise_url(mut self, url: impl Into<String>) -> Builder {
        self.advertise_url = Some(url.into());
        self
    }

    /// Offers a handler: an async function of a [`Context`] that ends with an optional message, or with
    /// an error. A panic in it is a failure of its attempt. It must not block its thread; work that
    /// does belongs into `tokio::task::spawn_blocking`.
    pub fn handler<H, F, T, E>(mut self, name: impl Into<String>, handler: H) -> Builder
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: IntoMessage,
        E: Display,
    {
        let name = name.into();
        if self.handlers.insert(name.clone(), erase(handler)).is_some() {
            self.twice = Some(name);
        }
        self
    }

    /// Offers the handlers `echo`, `sleep` and `fail`, with which no code is needed to begin.
    pub fn builtins(self) -> Builder {
        self.handler("echo", builtin::echo).handler("sleep", builtin::sleep).handler("fail", builtin::fail)
    }

    /// Offers the handler `shell`: whoever may define jobs of this app can then run any command as this
    /// process's user. Default: no.
    pub fn allow_shell(mut self, allow: bool) -> Builder {
        self.allow_shell = allow;
        self
    }

    /// Appends a line to this file whenever an attempt starts or ends: the worker's own record.
    /// `start RUN SHARD NO ATTEMPT JOB SLOT_MS AT_MS`, and `end …` with the outcome behind it.
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Builder {
        self.journal = Some(path.into());
        self
    }

    /// How long a worker that stops waits for what runs. Default: 30 s.
    pub fn drain_deadline(mut self, deadline: Duration) -> Builder {
        self.drain_deadline = deadline;
        self
    }

    /// How long a handler may go on after it was told to stop. Default: 5 s; the server counts a kill
    /// as ignored after 10 s.
    pub fn stop_grace(mut self, grace: Duration) -> Builder {
        self.stop_grace = grace;
        self
    }

    /// Checks everything, and opens the listening socket and the journal.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is wrong and what would be right.
    pub fn build(mut self) -> Result<Worker, Error> {
        self.offer_shell()?;
        self.check()?;
        let server = Server::parse(&self.server, self.token.trim())?;
        let (listener, address) = self.bind()?;
        let url = self.reachable_url(&server, address)?;
        let name = self.name.take().unwrap_or_else(identity::default_name);
        let incarnation = identity::incarnation()?;
        let callback_secret = identity::callback_secret()?;
        let names: BTreeSet<String> = self.handlers.keys().cloned().collect();
        let registration = Register {
            namespace: self.namespace,
            app: self.app,
            name: name.clone(),
            incarnation,
            url,
            callback_secret,
            handlers: names.iter().cloned().collect(),
            labels: self.labels,
            capacity: self.capacity,
            list_max: LIST_MAX,
        };
        let live = Live::new(Parts {
            name,
            incarnation,
            capacity: self.capacity,
            handlers: self.handlers,
            stop_grace: self.stop_grace,
            journal: self.journal.map(Journal::open).transpose()?,
            attempts: Attempts::new(incarnation, names, self.capacity, Memory::DEFAULT),
            clock: Clock::start(),
        });
        let seed = identity::random_u64()?;
        Ok(Worker::new(live, server, listener, registration, self.drain_deadline, seed))
    }

    fn offer_shell(&mut self) -> Result<(), Error> {
        if !self.allow_shell {
            return Ok(());
        }
        #[cfg(unix)]
        if self.handlers.insert("shell".to_owned(), erase(builtin::shell)).is_some() {
            self.twice = Some("shell".to_owned());
        }
        if cfg!(unix) { Ok(()) } else { Err(Error::invalid("allow_shell", "the handler `shell` needs Unix")) }
    }

    fn check(&self) -> Result<(), Error> {
        if self.token.trim().is_empty() {
            let reason = format!("a worker needs its app's token; `rota app token {}` makes one", self.app);
            return Err(Error::invalid("token", reason));
        }
        check_name("app", &self.app)?;
        check_name("namespace", &self.namespace)?;
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        for handler in self.handlers.keys() {
            check_name("handler", handler)?;
        }
        if let Some(name) = &self.twice {
            return Err(Error::invalid("handler", format!("{name:?} is offered twice")));
        }
        if self.handlers.is_empty() {
            return Err(Error::invalid("handler", "a worker offers at least one handler; `builtins()` offers three"));
        }
        if self.labels.len() > LABELS_MAX {
            return Err(Error::invalid("label", format!("{} are more than {LABELS_MAX}", self.labels.len())));
        }
        Ok(())
    }

    fn bind(&self) -> Result<(TcpListener, SocketAddr), Error> {
        let failed = |source| Error::Listen { address: self.listen.clone(), source };
        let listener = TcpListener::bind(self.listen.as_str()).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok((listener, address))
    }

    fn reachable_url(&self, server: &Server, address: SocketAddr) -> Result<String, Error> {
        if let Some(url) = &self.advertise_url {
            let url = url.trim().trim_end_matches('/');
            if url.starts_with("http://") || url.starts_with("https://") {
                return Ok(url.to_owned());
            }
            return Err(Error::invalid("advertise_url", format!("{url:?} must start with http:// or https://")));
        }
        if !address.ip().is_unspecified() {
            return Ok(format!("http://{address}"));
        }
        let source = source_address(server, address).map_err(|error| {
            let reason =
                format!("listening on {address} it must be given, for no route to the server is known: {error}");
            Error::invalid("advertise_url", reason)
        })?;
        Ok(format!("http://{}", SocketAddr::new(source.ip(), address.port())))
    }
}

/// The address of this machine from which the server is reached. Nothing is sent.
fn source_address(server: &Server, listen: SocketAddr) -> std::io::Result<SocketAddr> {
    let socket = UdpSocket::bind(SocketAddr::new(listen.ip(), 0))?;
    socket.connect((server.host.as_str(), server.port))?;
    socket.local_addr()
}

fn check_name(field: &'static str, name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.trim() != name {
        let reason = format!("{name:?} is not a name: 1 to {NAME_BYTES_MAX} bytes, without blanks around it");
        return Err(Error::invalid(field, reason));
    }
    Ok(())
}
