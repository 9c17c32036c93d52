//! One kept-alive connection to the measured server.

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use anyhow::{Context as _, Result, bail};

/// A connection that speaks as somebody. Dropping it closes it.
pub(super) struct Link {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
    authority: String,
    bearer: String,
}

impl Link {
    /// Connects to `127.0.0.1:port` with a token. Needs a `LocalSet`.
    pub(super) async fn open(authority: &str, token: &str) -> Result<Link> {
        let stream = TcpStream::connect(authority).await.with_context(|| format!("connecting to {authority}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // A connection that breaks shows at the next send; here there is nothing to add.
        let driver = tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(Link { sender, driver, authority: authority.to_owned(), bearer: format!("Bearer {token}") })
    }

    /// Calls, and reads the answer; whatever is no success is an error with the server's words.
    pub(super) async fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        self.send(method, path, serde_json::to_vec(body)?).await
    }

    /// [`Link::call`], with a body that is encoded already.
    pub(super) async fn send<T: DeserializeOwned>(&mut self, method: Method, path: &str, body: Vec<u8>) -> Result<T> {
        let (status, bytes) = self.exchange(method, path, body).await?;
        if !status.is_success() {
            bail!("{path}: {status} {}", String::from_utf8_lossy(&bytes));
        }
        serde_json::from_slice(&bytes).with_context(|| format!("{path}: an answer that cannot be read"))
    }

    /// Calls, and returns whatever is answered.
    pub(super) async fn exchange(&mut self, method: Method, path: &str, body: Vec<u8>) -> Result<(StatusCode, Bytes)> {
        self.sender.ready().await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.authority)
            .header(header::AUTHORIZATION, &self.bearer)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
