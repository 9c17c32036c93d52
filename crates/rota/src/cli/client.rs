//! Calls to a server's REST API.

use std::cell::Cell;
use std::io::Write;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rota_wire::error::Error as Wire;
use rota_wire::rest::Page;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::credentials::Credentials;
use super::events::Events;
use super::out::note;
use super::table::one_line;
use crate::exit::Failure;

const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Items asked for at a time: as many as a server gives.
const PAGE_ITEMS: &str = "1000";
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(40);
/// Between two pieces of what is carried over in pieces. A large database takes a while before the first.
const PIECE_DEADLINE: Duration = Duration::from_secs(600);

/// What stands in an answer.
type Answer = (StatusCode, HeaderMap, Bytes);

/// The connection that carries an answer; it must be polled for anything to arrive.
pub(crate) type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server that is called as somebody. Each call has its own connection: a command makes a few.
#[derive(Clone)]
pub(crate) struct Client {
    credentials: Credentials,
    namespace: String,
    address: Address,
    /// Whether it is said on stderr, once, that something is frozen.
    notices: Cell<bool>,
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
        Ok(Client { credentials, namespace: namespace.to_owned(), address, notices: Cell::new(false) })
    }

    /// Says on stderr, once, what is frozen, if something is.
    pub(crate) fn with_notices(self) -> Client {
        self.notices.set(true);
        self
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

    /// With the tag that a change of it can be made to depend on.
    pub(crate) async fn get_tagged<T: DeserializeOwned>(
        &self,
        path: Path,
    ) -> Result<(T, Option<HeaderValue>), Failure> {
        self.call_if(Method::GET, path, Bytes::new(), None).await
    }

    /// A list to its end, or to `items_max`.
    pub(crate) async fn all<T: DeserializeOwned>(&self, path: Path, items_max: usize) -> Result<Vec<T>, Failure> {
        let mut items = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let part = path.clone().with("limit", Some(PAGE_ITEMS)).with("after", after.as_ref());
            let page: Page<T> = self.get(part).await?;
            items.extend(page.items);
            match page.next {
                Some(next) if items.len() < items_max && after.as_ref() != Some(&next) => after = Some(next),
                _ => {
                    items.truncate(items_max);
                    return Ok(items);
                }
            }
        }
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
        let (status, _, bytes) = self.exchange(request, Take::To(to)).await?;
        if status.is_success() { Ok(()) } else { read(status, &bytes) }
    }

    /// Asks for what is open to everybody; status and text.
    pub(crate) async fn open(&self, path: &str) -> Result<(StatusCode, String), Failure> {
        let request = Request::get(path).header(header::HOST, &self.address.authority).body(Full::default());
        let request = request.expect("the path is ours");
        match tokio::time::timeout(CONNECT_DEADLINE, self.exchange(request, Take::Whole)).await {
            Ok(answer) => answer.map(|(status, _, bytes)| (status, String::from_utf8_lossy(&bytes).into_owned())),
            Err(_) => Err(self.unreachable(&format!("no answer within {} s", CONNECT_DEADLINE.as_secs()))),
        }
    }

    /// Changes what still has this tag.
    pub(crate) async fn put_if<T: DeserializeOwned>(
        &self,
        path: Path,
        body: &impl Serialize,
        tag: Option<HeaderValue>,
    ) -> Result<T, Failure> {
        Ok(self.call_if(Method::PUT, path, json(body), tag).await?.0)
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: Path, body: Bytes) -> Result<T, Failure> {
        Ok(self.call_if(method, path, body, None).await?.0)
    }

    async fn call_if<T: DeserializeOwned>(
        &self,
        method: Method,
        path: Path,
        body: Bytes,
        tag: Option<HeaderValue>,
    ) -> Result<(T, Option<HeaderValue>), Failure> {
        let mut request = self.request(method, path, body)?;
        if let Some(tag) = tag {
            request.headers_mut().insert(header::IF_MATCH, tag);
        }
        match tokio::time::timeout(DEADLINE, self.exchange(request, Take::Whole)).await {
            Ok(answer) => {
                let (status, mut headers, bytes) = answer?;
                Ok((read(status, &bytes)?, headers.remove(header::ETAG)))
            }
            Err(_) => Err(self.unreachable(&format!("no answer within {} s", DEADLINE.as_secs()))),
        }
    }

    /// Opens a stream of events, behind the event with this id.
    pub(crate) async fn events(&self, path: Path, last: Option<&str>) -> Result<Events, Failure> {
        let mut request = self.request(Method::GET, path, Bytes::new())?;
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            request.headers_mut().insert("last-event-id", last);
        }
        let opening = async {
            let (response, connection) = self.send(request).await?;
            if response.status() == StatusCode::OK {
                return Ok(Events::new(response.into_body(), connection));
            }
            let (status, _, bytes) = self.taken(response, connection, Take::Whole).await?;
            Err(read::<serde_json::Value>(status, &bytes).err().unwrap_or_else(|| {
                Failure::failed("unexpected_answer", "the server answered something else than a stream")
            }))
        };
        match tokio::time::timeout(DEADLINE, opening).await {
            Ok(opened) => opened,
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

    /// Reads an answer of many lines, each as it comes. It may take as long as it wants, but not be silent for long.
    pub(crate) async fn lines<T: DeserializeOwned>(
        &self,
        path: Path,
        mut each: impl FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let request = self.request(Method::GET, path, Bytes::new())?;
        let silent = || self.unreachable(&format!("nothing was heard for {} s", DEADLINE.as_secs()));
        let sent = tokio::time::timeout(DEADLINE, self.send(request)).await.map_err(|_| silent())?;
        let (response, mut connection) = sent?;
        let (head, mut body) = response.into_parts();
        let mut waiting: Vec<u8> = Vec::new();
        loop {
            let next = while_open(&mut connection, body.frame());
            let Some(frame) = tokio::time::timeout(DEADLINE, next).await.map_err(|_| silent())? else { break };
            let frame = frame.map_err(|error| self.unreachable(&root(&error)))?;
            let Ok(data) = frame.into_data() else { continue };
            waiting.extend_from_slice(&data);
            if waiting.len() > ANSWER_BYTES_MAX {
                return Err(self.cut_off("a line of the answer is too long"));
            }
            if !head.status.is_success() {
                continue;
            }
            while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = waiting.drain(..=end).collect();
                each(read(head.status, &line)?)?;
            }
        }
        if head.status.is_success() { Ok(()) } else { read::<serde_json::Value>(head.status, &waiting).map(drop) }
    }

    /// An answer that does not end as it should.
    pub(crate) fn cut_off(&self, what: &str) -> Failure {
        self.unreachable(what)
    }

    /// Says what is frozen, if something is.
    fn notice(&self, headers: &HeaderMap) {
        if let Some(frozen) = headers.get("rota-frozen").filter(|_| self.notices.get()) {
            self.notices.set(false);
            note(&format!("FROZEN  {}\n", one_line(&decode(frozen.as_bytes()))));
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>, take: Take<'_>) -> Result<Answer, Failure> {
        let (response, connection) = self.send(request).await?;
        self.taken(response, connection, take).await
    }

    /// The head of an answer, and the connection that its body comes over.
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<(Response<Incoming>, Connection), Failure> {
        let Address { host, port, is_tls, .. } = &self.address;
        let connecting = tokio::time::timeout(CONNECT_DEADLINE, TcpStream::connect((host.as_str(), *port)));
        let stream = match connecting.await {
            Ok(connected) => connected.map_err(|error| self.unreachable(&error.to_string()))?,
            Err(_) => return Err(self.unreachable(&format!("no connection within {} s", CONNECT_DEADLINE.as_secs()))),
        };
        if !is_tls {
            return self.speak(stream, request).await;
        }
        let name = ServerName::try_from(host.clone()).map_err(|error| self.unreachable(&error.to_string()))?;
        let roots = rota_net::tls::roots(&[]).expect("without extra roots there is no bad one");
        let stream = TlsConnector::from(roots).connect(name, stream).await;
        self.speak(stream.map_err(|error| self.unreachable(&error.to_string()))?, request).await
    }

    async fn speak<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Connection), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let lost = |error: &(dyn std::error::Error + 'static)| self.unreachable(&root(error));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
        let mut connection: Connection = Box::pin(async move {
            // How it ended is told by the answer, which is whole or not.
            let _ended = connection.await;
        });
        let response = while_open(&mut connection, sender.send_request(request)).await.map_err(|error| lost(&error))?;
        self.notice(response.headers());
        Ok((response, connection))
    }

    async fn taken(
        &self,
        response: Response<Incoming>,
        mut connection: Connection,
        take: Take<'_>,
    ) -> Result<Answer, Failure> {
        let (head, body) = response.into_parts();
        let taken = async {
            if let (true, Take::To(to)) = (head.status.is_success(), take) {
                return self.carry(body, to).await.map(|()| Bytes::new());
            }
            let whole = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            whole.map(|body| body.to_bytes()).map_err(|error| self.unreachable(&root(error.as_ref())))
        };
        let bytes = while_open(&mut connection, taken).await?;
        Ok((head.status, head.headers, bytes))
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

/// Does what needs an open connection. One that has ended stays so, and is not asked again.
async fn while_open<T>(connection: &mut Connection, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    tokio::select! {
        // The work first: a server that closes after it has answered has answered.
        biased;
        done = &mut work => done,
        () = &mut *connection => {
            *connection = Box::pin(std::future::pending());
            work.await
        }
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

/// The text of a percent-encoded header.
fn decode(bytes: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                decoded.push(byte);
                rest = &after[2..];
            }
            None => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
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
