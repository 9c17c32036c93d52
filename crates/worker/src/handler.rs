//! What a handler is, once its types are erased, and what it may answer.

use std::any::Any;
use std::fmt::Display;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use crate::context::Context;

/// How a handler ended: with an optional message, or with what went wrong.
pub(crate) type Ended = Result<Option<String>, String>;
pub(crate) type Running = Pin<Box<dyn Future<Output = Ended> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(Context) -> Running + Send + Sync>;

/// What a handler may say when it succeeds: nothing, a text, or an optional text.
pub trait IntoMessage {
    /// The message that the run keeps, if there is one.
    fn into_message(self) -> Option<String>;
}

impl IntoMessage for () {
    fn into_message(self) -> Option<String> {
        None
    }
}

impl IntoMessage for String {
    fn into_message(self) -> Option<String> {
        Some(self)
    }
}

impl IntoMessage for &str {
    fn into_message(self) -> Option<String> {
        Some(self.to_owned())
    }
}

impl<T: Into<String>> IntoMessage for Option<T> {
    fn into_message(self) -> Option<String> {
        self.map(Into::into)
    }
}

pub(crate) fn erase<H, F, T, E>(handler: H) -> Handler
where
    H: Fn(Context) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: IntoMessage,
    E: Display,
{
    let handler = Arc::new(handler);
    Arc::new(move |context| {
        let handler = Arc::clone(&handler);
        // Called inside the future, so that a panic before its first await is caught like any other.
        Box::pin(async move {
            match handler(context).await {
                Ok(said) => Ok(said.into_message()),
                // The alternate form prints the chain of causes of errors that have one.
                Err(error) => Err(format!("{error:#}")),
            }
        })
    })
}

/// A running handler whose panics are failures.
pub(crate) struct Guarded(Option<Running>);

impl Guarded {
    pub(crate) fn new(running: Running) -> Guarded {
        Guarded(Some(running))
    }
}

impl Future for Guarded {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Ended> {
        let running = self.0.as_mut().expect("it is not polled after its end");
        // A handler that panicked is never polled again, so no broken state of its own is seen.
        let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
        let ended = match polled {
            Ok(poll) => ready!(poll),
            Err(panic) => Err(panicked(&*panic)),
        };
        let dropped = self.discard();
        Poll::Ready(dropped.and(ended))
    }
}

impl Guarded {
    /// Drops the handler; its destructors may panic too.
    fn discard(&mut self) -> Result<(), String> {
        let running = self.0.take();
        catch_unwind(AssertUnwindSafe(|| drop(running))).map_err(|panic| panicked(&*panic))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Err(message) = self.discard() {
            tracing::warn!(message, "handler_panicked_while_dropped");
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", said.unwrap_or("without a message"))
}
