//! Calls to the server: one kept-alive connection, a deadline on every call, no retries.
//!
//! A connection is used by one call at a time and put back only after a whole answer, so a call that
//! is dropped half-way, or that times out, takes its connection with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::{Error, say};
use crate::supervisor::Supervisor;

/// No answer of the protocol comes near this.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Where the server is, and what calls to it carry.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    authority: HeaderValue,
    prefix: String,
    bearer: HeaderValue,
    #[cfg(feature = "tls")]
    tls: Option<tls::Connector>,
}

impl Server {
    pub(crate) fn parse(url: &str, token: &str) -> Result<Arc<Server>, Error> {
        let invalid = |reason: &str| Error::invalid("server", format!("{url:?} {reason}"));
        let uri: Uri = url.trim().parse().map_err(|_| invalid("is not a URL, such as http://rota.example:7654"))?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) | None => return Err(invalid("must start with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("names no host"))?;
        if uri.query().is_some() || authority.as_str().contains('@') {
            return Err(invalid("must have neither a user nor a query; the token is given apart"));
        }
        if is_https && !cfg!(feature = "tls") {
            return Err(invalid("needs this crate's feature `tls`"));
        }
        let port = authority.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::invalid("token", "it has characters that no token has"))?;
        bearer.set_sensitive(true);
        Ok(Arc::new(Server {
            #[cfg(feature = "tls")]
            tls: if is_https { Some(tls::Connector::new(&host)?) } else { None },
            host,
            port,
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| invalid("names an impossible host"))?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            bearer,
        }))
    }

    fn request(&self, method: Method, path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(HOST, self.authority.clone())
            .header(AUTHORIZATION, self.bearer.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(Bytes::from(body)))
            .expect("the prefix was parsed as a path, and the paths of the protocol are plain")
    }
}

/// Why a call has no answer of use.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The server could not be reached or is not able to answer now: the same call may work later.
    Unavailable(String),
    /// The server says no.
    Refused { status: StatusCode, error: rota_wire::error::Error },
}

impl CallError {
    /// The server does not know this worker, or not as this incarnation.
    pub(crate) fn is_unknown_worker(&self) -> bool {
        match self {
            CallError::Unavailable(_) => false,
            CallError::Refused { status, error } => *status == StatusCode::NOT_FOUND && error.code == "worker_unknown",
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::Unavailable(reason) => f.write_str(reason),
            CallError::Refused { status, error } => write!(f, "{} {}", status.as_u16(), say(error)),
        }
    }
}

/// One connection to the server, made when it is needed.
pub(crate) struct Lane {
    server: Arc<Server>,
    supervisor: Supervisor,
    idle: Option<SendRequest<Full<Bytes>>>,
}

impl Lane {
    pub(crate) fn new(server: Arc<Server>, supervisor: Supervisor) -> Lane {
        Lane { server, supervisor, idle: None }
    }

    /// One call, with its deadline.
    pub(crate) async fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: &impl Serialize,
        deadline: Duration,
    ) -> Result<T, CallError> {
        let body = serde_json::to_vec(body).expect("these shapes always encode");
        let request = self.server.request(method, path, body);
        let (status, answer) = match timeout(deadline, self.exchange(request)).await {
            Ok(answer) => answer.map_err(CallError::Unavailable)?,
            Err(_) => return Err(CallError::Unavailable(format!("no answer within {deadline:?}"))),
        };
        read(status, &answer)
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
        let mut sender = match self.idle.take() {
            // A connection that the server has closed meanwhile is found out here, before anything is sent.
            Some(mut sender) => match sender.ready().await {
                Ok(()) => sender,
                Err(_) => self.connect().await?,
            },
            None => self.connect().await?,
        };
        let answer = sender.send_request(request).await.map_err(|error| format!("the call broke off: {error}"))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes();
        self.idle = Some(sender);
        Ok((status, body))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let (host, port) = (self.server.host.as_str(), self.server.port);
        let stream = TcpStream::connect((host, port)).await;
        let stream = stream.map_err(|error| format!("cannot connect to {host}:{port}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("cannot set up the connection: {error}"))?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.server.tls {
            return self.shake_hands(tls.connect(stream).await?).await;
        }
        self.shake_hands(stream).await
    }

    async fn shake_hands<S>(&self, stream: S) -> Result<SendRequest<Full<Bytes>>, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let made = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(|error| format!("cannot set up the connection: {error}"))?;
        self.supervisor.spawn("server connection", async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "server_connection_ended");
            }
        });
        Ok(sender)
    }
}

fn read<T: DeserializeOwned>(status: StatusCode, answer: &[u8]) -> Result<T, CallError> {
    if status.is_success() {
        // 204 carries nothing, which is `null` to whoever expects nothing.
        let answer = if answer.is_empty() { b"null" } else { answer };
        return serde_json::from_slice(answer)
            .map_err(|error| CallError::Unavailable(format!("the answer to the call does not parse: {error}")));
    }
    let error = serde_json::from_slice(answer).unwrap_or_else(|_| rota_wire::error::Error {
        code: format!("http_{}", status.as_u16()),
        message: excerpt(answer),
        field: None,
        hint: Some("this does not look like a Rota server; check the URL".to_owned()),
    });
    let is_passing =
        status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT;
    if is_passing {
        return Err(CallError::Unavailable(format!("{} {}", status.as_u16(), say(&error))));
    }
    Err(CallError::Refused { status, error })
}

fn excerpt(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(&answer[..answer.len().min(200)]);
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.trim().is_empty() { "without a word".to_owned() } else { text.trim().to_owned() }
}

#[cfg(feature = "tls")]
mod tls {
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use crate::error::Error;

    /// Makes TLS of a connection.
    #[derive(Clone)]
    pub(super) struct Connector {
        connector: TlsConnector,
        name: ServerName<'static>,
    }

    impl Connector {
        pub(super) fn new(host: &str) -> Result<Connector, Error> {
            let name = ServerName::try_from(host.to_owned())
                .map_err(|_| Error::invalid("server", format!("{host:?} is no name that a certificate can have")))?;
            let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            // The provider is named, because the process's default is the program's choice, not ours.
            let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("ring speaks the default versions")
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(Connector { connector: TlsConnector::from(Arc::new(config)), name })
        }

        pub(super) async fn connect(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
            let made = self.connector.connect(self.name.clone(), stream).await;
            made.map_err(|error| format!("TLS with the server failed: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<(String, u16, String), String> {
        Server::parse(url, "token")
            .map(|server| (server.host.clone(), server.port, server.prefix.clone()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn server_urls_are_taken_apart() {
        let cases = [
            ("http://rota.example:7654", ("rota.example", 7654, "")),
            ("http://rota.example/", ("rota.example", 80, "")),
            ("http://[::1]:7654/base/", ("::1", 7654, "/base")),
        ];
        for (url, (host, port, prefix)) in cases {
            assert_eq!(parse(url), Ok((host.to_owned(), port, prefix.to_owned())), "{url}");
        }
        #[cfg(feature = "tls")]
        assert_eq!(parse("https://rota.example"), Ok(("rota.example".to_owned(), 443, String::new())));
    }

    #[test]
    fn wrong_server_urls_say_what_would_be_right() {
        let cases = [
            ("rota.example:7654", "must start with http://"),
            ("ftp://rota.example", "must start with http://"),
            ("http://me:secret@rota.example", "neither a user nor a query"),
            ("http://rota.example/?token=x", "neither a user nor a query"),
            ("", "is not a URL"),
        ];
        for (url, expected) in cases {
            let error = parse(url).unwrap_err();
            assert!(error.contains(expected), "{url}: {error}");
        }
    }
}
