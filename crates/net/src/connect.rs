//! Making connections: resolve, ask the policy, connect to the address that was judged, encrypt.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rota_core::why::Why;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::endpoint::Endpoint;
use crate::policy::{Forbidden, Policy, Purpose};

/// Why there is no connection. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the address may not be called")]
    Forbidden(#[source] Forbidden),
    #[error("the name was not resolved")]
    Unresolved(#[source] io::Error),
    #[error("the connection was refused")]
    Refused,
    #[error("no connection was made")]
    Unreachable(#[source] io::Error),
    #[error("no secure connection was made")]
    Tls(#[source] io::Error),
    #[error("no connection was made in time")]
    TimedOut,
}

impl Error {
    /// The reason that an attempt carries.
    pub(crate) fn why(&self) -> Why {
        match self {
            Error::Forbidden(_) => Why::RefusedAddress,
            Error::Unresolved(_) | Error::Refused | Error::Unreachable(_) | Error::Tls(_) | Error::TimedOut => {
                Why::ConnectFailed
            }
        }
    }
}

/// Makes connections for one purpose.
pub(crate) struct Connector {
    pub(crate) policy: Arc<Policy>,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) purpose: Purpose,
    /// Bounds resolving, connecting and the TLS handshake together.
    pub(crate) timeout: Duration,
}

impl Connector {
    /// Connects to an endpoint.
    pub(crate) async fn connect(&self, to: &Endpoint) -> Result<Stream, Error> {
        self.policy.check_host(self.purpose, &to.host, to.port).map_err(Error::Forbidden)?;
        match timeout(self.timeout, self.connect_unbounded(to)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::TimedOut),
        }
    }

    /// Encrypts a connection that is open already.
    pub(crate) async fn encrypt(&self, host: &str, tcp: TcpStream) -> Result<Stream, Error> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| Error::Tls(io::Error::other(e)))?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, tcp).await.map_err(Error::Tls)?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    async fn connect_unbounded(&self, to: &Endpoint) -> Result<Stream, Error> {
        let tcp = self.connect_tcp(to).await?;
        // A request is one small write; without this it may wait for the acknowledgement of the one before.
        tcp.set_nodelay(true).map_err(Error::Unreachable)?;
        if !to.is_tls {
            return Ok(Stream::Plain(tcp));
        }
        self.encrypt(&to.host, tcp).await
    }

    /// Tries the permitted addresses one after the other, each for its share of the time, so that one
    /// that swallows packets does not hide the next; names the last failure.
    async fn connect_tcp(&self, to: &Endpoint) -> Result<TcpStream, Error> {
        let mut failure = Error::Unresolved(io::Error::from(io::ErrorKind::NotFound));
        let addresses = resolve(to).await.map_err(Error::Unresolved)?;
        let share = self.timeout / u32::try_from(addresses.len().max(1)).expect("bounded by ADDRESSES_MAX");
        for address in addresses {
            if let Err(forbidden) = self.policy.check_address(self.purpose, &to.host, address.ip()) {
                failure = Error::Forbidden(forbidden);
                continue;
            }
            failure = match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Error::Refused,
                Ok(Err(error)) => Error::Unreachable(error),
                Err(_) => Error::TimedOut,
            };
        }
        Err(failure)
    }
}

/// The addresses of a host; at most as many as a connect timeout could ever try.
async fn resolve(to: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    const ADDRESSES_MAX: usize = 16;
    if let Ok(address) = to.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, to.port)]);
    }
    Ok(tokio::net::lookup_host((to.host.as_str(), to.port)).await?.take(ADDRESSES_MAX).collect())
}

/// A connection's bytes.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }
}
