//! Handlers for which no code is needed.

mod echo;
mod fail;
#[cfg(unix)]
mod shell;
mod sleep;

pub(crate) use echo::echo;
pub(crate) use fail::fail;
#[cfg(unix)]
pub(crate) use shell::shell;
pub(crate) use sleep::sleep;
