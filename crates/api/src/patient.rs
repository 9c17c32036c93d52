//! A connection whose peer must go on taking what is written: one that takes nothing for a minute is closed. Otherwise
//! whoever stops reading in the middle of an answer would keep a place, and what waits for it, for as long as they like.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a peer may take nothing while something is there to take.
pub(crate) const STALL_MAX: Duration = Duration::from_secs(60);

/// A stream that is given up if it stalls.
pub(crate) struct Patient<S> {
    stream: S,
    until: Pin<Box<Sleep>>,
    is_stalled: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Patient<S> {
    pub(crate) fn new(stream: S) -> Patient<S> {
        Patient { stream, until: Box::pin(tokio::time::sleep(STALL_MAX)), is_stalled: false }
    }

    fn judge<T>(&mut self, poll: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.is_stalled = false;
            return poll;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.until.as_mut().reset(Instant::now() + STALL_MAX);
        }
        match self.until.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.judge(poll, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.judge(poll, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up_and_a_slow_one_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut patient = Patient::new(ours);
        let slow = async {
            for _ in 0..3 {
                tokio::time::sleep(STALL_MAX - Duration::from_secs(1)).await;
                theirs.read_exact(&mut [0; 4]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(patient.write_all(&[7; 16]), slow);
        written.unwrap();
        let began = Instant::now();
        let error = patient.write_all(&[7; 16]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, STALL_MAX));
    }
}
