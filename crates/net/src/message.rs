//! Messages of alerts: one POST, or one mail, on a connection of its own.
//!
//! They are few, and whoever sends them tries again: so an error is a clause for people, and nothing else depends on it.
//! A redirect is not followed: it is an answer like any other that is no success.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{HeaderName, Request};
use http_body_util::Full;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use crate::connect::{self, Connector};
use crate::connection::{BodyLimit, Connection, Failure};
use crate::endpoint::Endpoint;
use crate::mail::{self, Mail, Server};
use crate::policy::{Policy, Purpose};

/// From the first packet to the end of the answer.
const WITHIN: Duration = Duration::from_secs(15);
/// Of an answer, to see what it says.
const ANSWER: BodyLimit = BodyLimit { kept_bytes_max: 4 << 10, read_bytes_max: 64 << 10 };

/// Why a message was not delivered, as a clause for people. It may hold what the peer said, and parts of the address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotDelivered(pub String);

/// What answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answered {
    /// The status, in HTTP.
    pub status: u16,
    /// The body, or its beginning.
    pub body: String,
}

/// Carries messages.
#[derive(Clone, Debug)]
pub struct Messenger {
    policy: Arc<Policy>,
    tls: Arc<ClientConfig>,
}

impl Messenger {
    /// One that asks this policy and trusts these authorities.
    #[must_use]
    pub fn new(policy: Arc<Policy>, tls: Arc<ClientConfig>) -> Messenger {
        Messenger { policy, tls }
    }

    /// Judges a URL by its text; what it resolves to is judged when it is called.
    pub fn check(&self, url: &str) -> Result<(), NotDelivered> {
        let to = Endpoint::parse(url).map_err(|bad| NotDelivered(bad.to_string()))?;
        self.check_host(&to)
    }

    /// The same of a mail server, as `host:port`.
    pub fn check_server(&self, server: &str) -> Result<(), NotDelivered> {
        self.check_host(&endpoint_of(server)?)
    }

    fn check_host(&self, to: &Endpoint) -> Result<(), NotDelivered> {
        let forbidden = |error: crate::policy::Forbidden| NotDelivered(error.to_string());
        self.policy.check_host(Purpose::Alert, &to.host, to.port).map_err(forbidden)?;
        match to.host.parse() {
            Ok(address) => self.policy.check_address(Purpose::Alert, &to.host, address).map_err(forbidden),
            Err(_) => Ok(()),
        }
    }

    /// Posts JSON; any whole answer is one, whatever its status.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(HeaderName, String)],
        body: Vec<u8>,
    ) -> Result<Answered, NotDelivered> {
        let to = Endpoint::parse(url).map_err(|bad| NotDelivered(bad.to_string()))?;
        let mut request = Request::post(to.target.clone()).body(Full::new(Bytes::from(body))).expect("checked parts");
        let own = request.headers_mut();
        for (name, value) in headers {
            let bad =
                || NotDelivered(format!("the value of the header {name} has characters that no header can carry"));
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            own.insert(name, value);
        }
        own.insert(HOST, to.authority.clone());
        own.insert(CONNECTION, HeaderValue::from_static("close"));
        own.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        own.insert(USER_AGENT, HeaderValue::from_static(concat!("rota/", env!("CARGO_PKG_VERSION"))));
        match timeout(WITHIN, self.exchange(&to, request)).await {
            Ok(answer) => answer,
            Err(_) => Err(too_slow(&to)),
        }
    }

    async fn exchange(&self, to: &Endpoint, request: Request<Full<Bytes>>) -> Result<Answered, NotDelivered> {
        let stream = self.connector().connect(to).await.map_err(|error| unconnected(to, &error))?;
        let broken = |error: &dyn std::error::Error| NotDelivered(format!("{} gave no answer: {error}", to.host));
        let mut connection = Connection::open(stream).await.map_err(|error| broken(&error))?;
        let response = connection.exchange(request, ANSWER).await.map_err(|failure| match &failure {
            Failure::Broken(error) => broken(error),
            Failure::NotSent => broken(&failure),
        })?;
        let body = String::from_utf8_lossy(&response.body).into_owned();
        Ok(Answered { status: response.status.as_u16(), body })
    }

    /// Hands a mail to a server.
    pub async fn mail(&self, server: &Server, mail: &Mail) -> Result<(), NotDelivered> {
        let to = endpoint_of(&server.address)?;
        match timeout(WITHIN, mail::send(&self.connector(), &to, server, mail)).await {
            Ok(sent) => sent,
            Err(_) => Err(too_slow(&to)),
        }
    }

    fn connector(&self) -> Connector {
        let (policy, tls) = (Arc::clone(&self.policy), Arc::clone(&self.tls));
        Connector { policy, tls, purpose: Purpose::Alert, timeout: WITHIN }
    }
}

fn endpoint_of(server: &str) -> Result<Endpoint, NotDelivered> {
    let has_port = server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match Endpoint::parse(&format!("http://{server}")) {
        Ok(to) if has_port && to.target == "/" => Ok(to),
        Ok(_) | Err(_) => Err(NotDelivered("the mail server is not of the form host:port".to_owned())),
    }
}

fn too_slow(to: &Endpoint) -> NotDelivered {
    NotDelivered(format!("{} did not answer within {} s", to.host, WITHIN.as_secs()))
}

pub(crate) fn unconnected(to: &Endpoint, error: &connect::Error) -> NotDelivered {
    let why = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    NotDelivered(format!("{}:{}: {error}{why}", to.host, to.port))
}
