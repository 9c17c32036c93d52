//! Calls to a server's REST API.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rota_wire::error::Error as Wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::credentials::Credentials;
use crate::exit::Failure;

const ANSWER_BYTES_MAX: usize = 64 << 20;
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(40);
/// Between two pieces of what is carried over in pieces. A large database takes a while before the first.
const PIECE_DEADLINE: Duration = Duration::from_secs(600);

/// A server that is called as somebody. Each call has its own connection: a command makes a few.
#[derive(Clone)]
pub(crate) struct Client {
    credentials: Credentials,
    namespace: String,
    address: Address,
}

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Address {
    host: String,
    port: u16,
    /// As it stands in the header.
    authority: String,
    is_tls: bool,
}

impl Address {
    fn parse(server: &str) -> Option<Address> {
        let uri: Uri = server.parse().ok()?;
        let is_tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?;
        let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none() && !authority.as_str().contains('@');
        is_bare.then(|| Address {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authority: authority.to_string(),
            is_tls,
        })
    }
}

/// A path with its question mark and what follows, put together from parts that are encoded one by one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Path(String);

impl Path {
    /// A path from its parts.
    pub(crate) fn of(parts: &[&str]) -> Path {
        Path(parts.iter().map(|part| format!("/{}", encode(part))).collect())
    }

    /// With one more question; nothing if there is no value.
    pub(crate) fn with(self, key: &str, value: Option<impl AsRef<str>>) -> Path {
        let Some(value) = value else { return self };
        let joint = if self.0.contains('?') { '&' } else { '?' };
        Path(format!("{}{joint}{key}={}", self.0, encode(value.as_ref())))
    }
}

/// What to do with an answer that is a success. Others are read whole.
enum Take<'a> {
    Whole,
    /// Written here, piece by piece.
    To(&'a mut (dyn Write + Send)),
}

impl Client {
    /// A client; nothing is sent yet.
    pub(crate) fn new(credentials: Credentials, namespace: &str) -> Result<Client, Failure> {
        let server = &credentials.server;
        let address = Address::parse(server).ok_or_else(|| {
            let hint = "for example: http://127.0.0.1:7654".to_owned();
            Failure::usage(format!("`{server}` is no server's address"), Some(hint))
        })?;
        Ok(Client { credentials, namespace: namespace.to_owned(), address })
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The namespace, if it is not that of whoever names none.
    pub(crate) fn given_namespace(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|name| *name != "default")
    }

    /// The same server, in another namespace.
    pub(crate) fn within(&self, namespace: &str) -> Client {
        Client { namespace: namespace.to_owned(), ..self.clone() }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: Path) -> Result<T, Failure> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: Path) -> Result<T, Failure> {
        self.call(Method::DELETE, path, Bytes::new()).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(&self, path: Path, body: &impl Serialize) -> Result<T, Failure> {
        self.call(Method::POST, path, json(body)).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(&self, path: Path, body: &impl Serialize) -> Result<T, Failure> {
        self.call(Method::PUT, path, json(body)).await
    }

    /// Writes an answer that is no JSON, however long it is.
    pub(crate) async fn download(&self, path: Path, to: &mut (dyn Write + Send)) -> Result<(), Failure> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        let (status, bytes) = self.exchange(request, Take::To(to)).await?;
        if status.is_success() { Ok(()) } else { read(status, &bytes) }
    }

    /// Asks for what is open to everybody; status and text.
    pub(crate) async fn open(&self, path: &str) -> Result<(StatusCode, String), Failure> {
        let request = Request::get(path).header(header::HOST, &self.address.authority).body(Full::default());
        let request = request.expect("the path is ours");
        match tokio::time::timeout(CONNECT_DEADLINE, self.exchange(request, Take::Whole)).await {
            Ok(answer) => answer.map(|(status, bytes)| (status, String::from_utf8_lossy(&bytes).into_owned())),
            Err(_) => Err(self.unreachable(&format!("no answer within {} s", CONNECT_DEADLINE.as_secs()))),
        }
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: Path, body: Bytes) -> Result<T, Failure> {
        let request = self.request(method, path, body)?;
        match tokio::time::timeout(DEADLINE, self.exchange(request, Take::Whole)).await {
            Ok(answer) => {
                let (status, bytes) = answer?;
                read(status, &bytes)
            }
            Err(_) => Err(self.unreachable(&format!("no answer within {} s", DEADLINE.as_secs()))),
        }
    }

    fn request(&self, method: Method, path: Path, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
        let path = path.with("namespace", Some(&self.namespace));
        Request::builder()
            .method(method)
            .uri(format!("/api/v1{}", path.0))
            .header(header::HOST, &self.address.authority)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.credentials.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| Failure::usage(format!("this cannot be sent: {error}"), None))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>, take: Take<'_>) -> Result<(StatusCode, Bytes), Failure> {
        let Address { host, port, is_tls, .. } = &self.address;
        let connecting = tokio::time::timeout(CONNECT_DEADLINE, TcpStream::connect((host.as_str(), *port)));
        let stream = match connecting.await {
            Ok(connected) => connected.map_err(|error| self.unreachable(&error.to_string()))?,
            Err(_) => return Err(self.unreachable(&format!("no connection within {} s", CONNECT_DEADLINE.as_secs()))),
        };
        if !is_tls {
            return self.speak(stream, request, take).await;
        }
        let name = ServerName::try_from(host.clone()).map_err(|error| self.unreachable(&error.to_string()))?;
        let roots = rota_net::tls::roots(&[]).expect("without extra roots there is no bad one");
        let stream = TlsConnector::from(roots).connect(name, stream).await;
        self.speak(stream.map_err(|error| self.unreachable(&error.to_string()))?, request, take).await
    }

    async fn speak<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
        take: Take<'_>,
    ) -> Result<(StatusCode, Bytes), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let lost = |error: &(dyn std::error::Error + 'static)| self.unreachable(&root(error));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
            let status = response.status();
            if let (true, Take::To(to)) = (status.is_success(), take) {
                return self.carry(response.into_body(), to).await.map(|()| (status, Bytes::new()));
            }
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            Ok((status, body.map_err(|error| lost(error.as_ref()))?.to_bytes()))
        };
        tokio::pin!(answer, connection);
        tokio::select! {
            // The answer first: a server that closes after it has answered has answered.
            biased;
            answer = &mut answer => answer,
            _ = &mut connection => answer.await,
        }
    }

    async fn carry(&self, mut body: Incoming, to: &mut (dyn Write + Send)) -> Result<(), Failure> {
        loop {
            let Ok(piece) = tokio::time::timeout(PIECE_DEADLINE, body.frame()).await else {
                return Err(self.unreachable(&format!("nothing came for {} s", PIECE_DEADLINE.as_secs())));
            };
            match piece {
                None => return Ok(to.flush()?),
                Some(Ok(frame)) => to.write_all(frame.data_ref().map_or(&[], |data| data))?,
                Some(Err(error)) => return Err(self.unreachable(&root(&error))),
            }
        }
    }

    fn unreachable(&self, reason: &str) -> Failure {
        let hint = "is it running? `rota dev` starts one; --server or ROTA_SERVER names another";
        Failure::unreachable(format!("{}: {reason}", self.credentials.server), Some(hint.to_owned()))
    }
}

/// What a server said.
fn read<T: DeserializeOwned>(status: StatusCode, bytes: &[u8]) -> Result<T, Failure> {
    if status.is_success() {
        return serde_json::from_slice(bytes).map_err(|error| {
            Failure::failed(
                "unexpected_answer",
                format!("the server answered something else than this client expects: {error}"),
            )
        });
    }
    match serde_json::from_slice::<Wire>(bytes) {
        Ok(error) => Err(Failure::refused(status, error)),
        Err(_) => Err(Failure::failed(
            "unexpected_answer",
            format!("the server answered {status} without a reason; is it Rota?"),
        )),
    }
}

fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("bodies are plain data").into()
}

/// The innermost cause, which is what a person can act on.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut at = error;
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}

/// Percent-encoding of everything but RFC 3986's unreserved characters.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_encoded() {
        let path =
            Path::of(&["jobs", "a/b 结"]).with("since", Some("x+y")).with("app", None::<&str>).with("n", Some("1"));
        assert_eq!(path.0, "/jobs/a%2Fb%20%E7%BB%93?since=x%2By&n=1");
    }

    #[test]
    fn a_refusal_is_passed_on_and_other_answers_are_not_believed() {
        let refusal = br#"{"code":"job_unknown","message":"there is no such job"}"#;
        let Err(Failure::Failed(error)) = read::<u32>(StatusCode::NOT_FOUND, refusal) else { panic!() };
        assert_eq!(error.code, "job_unknown");
        let Err(Failure::Failed(error)) = read::<u32>(StatusCode::BAD_GATEWAY, b"<html>") else { panic!() };
        assert_eq!(error.code, "unexpected_answer");
        assert_eq!(read::<u32>(StatusCode::OK, b"7").ok(), Some(7));
    }

    #[test]
    fn an_address_is_checked_before_anything_is_sent() {
        let address = |server| Address::parse(server).map(|at| (at.host, at.port, at.is_tls));
        assert_eq!(address("http://127.0.0.1:1"), Some(("127.0.0.1".to_owned(), 1, false)));
        assert_eq!(address("http://[::1]:7654"), Some(("::1".to_owned(), 7654, false)));
        assert_eq!(address("https://rota.example"), Some(("rota.example".to_owned(), 443, true)));
        for server in ["127.0.0.1:1", "", "ftp://x", "http://a@b", "http://x/path", "nonsense"] {
            assert_eq!(address(server), None, "{server}");
        }
    }

    #[test]
    fn nobody_there_is_not_reachable() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let credentials = Credentials { server: format!("http://127.0.0.1:{port}"), token: "t".to_owned() };
        let client = Client::new(credentials, "default").ok().unwrap();
        let answer = runtime.block_on(client.get::<u32>(Path::of(&["jobs"])));
        assert!(matches!(answer, Err(Failure::Unreachable(_))));
    }
}
