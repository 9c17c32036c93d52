//! Printing what a command found.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use super::table::commands_terminal;
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
            print(&format!("{}\n", escaped(&json)))
        } else {
            print(&text(value))
        }
    }
}

/// JSON that means the same, without the characters that a terminal would obey. JSON itself escapes only some of them.
pub(crate) fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        // Line ends stand between values only; within them they are escaped already.
        if c != '\n' && commands_terminal(c) {
            text.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
    text
}

/// Prints text at once. A reader that has seen enough (`| head`) ends the command without a fuss.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    if !is_read(text)? {
        std::process::exit(0);
    }
    Ok(())
}

/// Prints what a command says beside what it does: a reader that has seen enough stops neither that nor the code that it
/// ends with.
pub(crate) fn print_beside(text: &str) -> Result<(), Failure> {
    is_read(text).map(|_| ())
}

/// Prints text at once, and says whether anybody reads it.
fn is_read(text: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

/// Says something on standard error. Who listens there no more, or has no room, misses it: that changes nothing of what
/// a command does, or of the code that it ends with.
pub(crate) fn note(text: &str) {
    let _unheard = std::io::stderr().write_all(text.as_bytes());
}

/// Standard error as a place for a log. What cannot be written is lost; a server does not end for it.
pub(crate) struct Log;

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(std::io::stderr().write(bytes).unwrap_or(bytes.len()))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_commands_no_terminal_and_means_the_same() {
        let value = serde_json::json!({"message": "a\u{202e}b\u{9b}31m\n结算"});
        let text = escaped(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(text, "{\n  \"message\": \"a\\u202eb\\u009b31m\\n结算\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
