//! Asking who listens at an address that registers.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::Full;
use rota_wire::worker::Identity;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use crate::connect::{self, Connector};
use crate::connection::{BodyLimit, Connection, Failure};
use crate::endpoint::{BadUrl, Endpoint};
use crate::policy::{Forbidden, Policy, Purpose};

/// Why an address cannot be dialled back. Each is a clause for whoever started the worker.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// It is no URL of a worker.
    #[error("{0}; set ROTA_ADVERTISE_URL to http://host:port")]
    BadUrl(BadUrl),
    /// The outbound policy does not let calls go there.
    #[error("{url} is not called: {forbidden}; set ROTA_ADVERTISE_URL")]
    Forbidden {
        /// The URL.
        url: String,
        /// Why.
        forbidden: Forbidden,
    },
    /// Its host has no address.
    #[error("the host of {url} was not found; set ROTA_ADVERTISE_URL to one that the server can resolve")]
    Unresolved {
        /// The URL.
        url: String,
    },
    /// Nobody listens there: the process that was meant is gone, or is elsewhere.
    #[error("{url} refused the connection; set ROTA_ADVERTISE_URL")]
    Refused {
        /// The URL.
        url: String,
    },
    /// Nothing came back in time.
    #[error("{url} did not answer within {ms} ms; set ROTA_ADVERTISE_URL")]
    TimedOut {
        /// The URL.
        url: String,
        /// How long was waited, in milliseconds.
        ms: u128,
    },
    /// There is no way there, no secure connection, or the connection broke.
    #[error("no answer from {url} ({problem}); set ROTA_ADVERTISE_URL")]
    Unreachable {
        /// The URL.
        url: String,
        /// What went wrong.
        problem: String,
    },
    /// Something else answered.
    #[error("{url} is not a Rota worker ({problem}); set ROTA_ADVERTISE_URL")]
    NotAWorker {
        /// The URL.
        url: String,
        /// What it did instead.
        problem: String,
    },
}

const LIMIT: BodyLimit = BodyLimit { kept_bytes_max: 4 << 10, read_bytes_max: 4 << 10 };

/// Asks a worker's address who listens there. Runs in any tokio runtime with I/O and time.
pub async fn identify(
    url: &str,
    policy: &Arc<Policy>,
    tls: &Arc<ClientConfig>,
    within: Duration,
) -> Result<Identity, DialError> {
    let to = Endpoint::parse_base(url).map_err(DialError::BadUrl)?;
    let connector = Connector { policy: policy.clone(), tls: tls.clone(), purpose: Purpose::Worker, timeout: within };
    match timeout(within, ask(url, &to, &connector)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(DialError::TimedOut { url: url.to_owned(), ms: within.as_millis() }),
    }
}

async fn ask(url: &str, to: &Endpoint, connector: &Connector) -> Result<Identity, DialError> {
    let unreachable = |problem: String| DialError::Unreachable { url: url.to_owned(), problem };
    let not_a_worker = |problem: String| DialError::NotAWorker { url: url.to_owned(), problem };
    let stream = connector.connect(to).await.map_err(|error| explain(url, connector, error))?;
    let mut connection = Connection::open(stream).await.map_err(|error| unreachable(error.to_string()))?;
    let mut request =
        Request::get(to.join("/internal/identity")).body(Full::new(Bytes::new())).expect("made of checked parts");
    request.headers_mut().insert(HOST, to.authority.clone());
    let response = match connection.exchange(request, LIMIT).await {
        Ok(response) => response,
        Err(Failure::Broken(error)) if error.is_parse() => {
            return Err(not_a_worker("it does not speak HTTP".to_owned()));
        }
        Err(Failure::Broken(_) | Failure::NotSent) => return Err(unreachable("it closed the connection".to_owned())),
    };
    if response.status != StatusCode::OK {
        return Err(not_a_worker(format!("/internal/identity answered with status {}", response.status.as_u16())));
    }
    serde_json::from_slice(&response.body)
        .map_err(|_| not_a_worker("/internal/identity answered with something else".to_owned()))
}

fn explain(url: &str, connector: &Connector, error: connect::Error) -> DialError {
    let url = url.to_owned();
    match error {
        connect::Error::Forbidden(forbidden) => DialError::Forbidden { url, forbidden },
        connect::Error::Unresolved(_) => DialError::Unresolved { url },
        connect::Error::Refused => DialError::Refused { url },
        connect::Error::TimedOut => DialError::TimedOut { url, ms: connector.timeout.as_millis() },
        connect::Error::Unreachable(_) | connect::Error::Tls(_) => {
            let problem = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            DialError::Unreachable { url, problem }
        }
    }
}
