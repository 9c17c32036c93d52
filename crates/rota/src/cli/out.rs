//! Printing what a command found.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use crate::exit::Failure;

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Out {
    pub(crate) is_json: bool,
}

impl Out {
    /// Prints JSON if that was asked for, else what `text` makes of the same value.
    pub(crate) fn show<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        if self.is_json {
            let json = serde_json::to_string_pretty(value).expect("what is shown is plain data");
            print(&format!("{json}\n"))
        } else {
            print(&text(value))
        }
    }
}

/// Prints text at once. A reader that has seen enough (`| head`) ends the command without a fuss.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}
