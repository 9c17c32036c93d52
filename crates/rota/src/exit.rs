//! How a command ends: 0 it went well, 1 the thing failed, 2 usage, 3 not reachable.

use std::process::ExitCode;

use http::StatusCode;
use rota_wire::error::Error as Wire;

use crate::cli::out::{escaped, note};
use crate::cli::table::{one_line, width};

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The thing that was asked about failed, and that was said already.
    Said,
    /// It was said already, and this is the code to exit with.
    Ended(u8),
    /// The thing failed.
    Failed(Wire),
    /// The command cannot be meant like this.
    Usage(Wire),
    /// What was given cannot be read, and this is where.
    Misread(Box<Misread>),
    /// There is no server, or it did not answer.
    Unreachable(Wire),
}

/// A text that cannot be read.
#[derive(Debug)]
pub(crate) struct Misread {
    pub(crate) error: Wire,
    pub(crate) text: Option<String>,
    /// Byte offset in the text.
    pub(crate) position: Option<usize>,
}

impl Failure {
    pub(crate) fn failed(code: &str, message: impl Into<String>) -> Failure {
        Failure::Failed(wire(code, message.into(), None))
    }

    pub(crate) fn usage(message: impl Into<String>, hint: Option<String>) -> Failure {
        Failure::Usage(wire("usage", message.into(), hint))
    }

    pub(crate) fn unreachable(message: impl Into<String>, hint: Option<String>) -> Failure {
        Failure::Unreachable(wire("unreachable", message.into(), hint))
    }

    /// A refusal of the server. What was asked in a form that cannot be meant is the asker's; the rest failed.
    pub(crate) fn refused(status: StatusCode, error: Wire) -> Failure {
        match status {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Failure::Usage(error),
            _ => Failure::Failed(error),
        }
    }

    /// Says it, as JSON or for people, and gives the code to exit with.
    pub(crate) fn say(&self, is_json: bool) -> ExitCode {
        let (code, error) = match self {
            Failure::Said => return ExitCode::from(1),
            Failure::Ended(code) => return ExitCode::from(*code),
            Failure::Failed(error) => (1, error),
            Failure::Usage(error) => (2, error),
            Failure::Misread(misread) => {
                misread.say(is_json);
                return ExitCode::from(2);
            }
            Failure::Unreachable(error) => (3, error),
        };
        if is_json {
            note(&format!("{}\n", escaped(&serde_json::to_string(error).expect("an error is plain data"))));
        } else {
            note(&text(error));
        }
        ExitCode::from(code)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::failed("failed", format!("{error:#}"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::failed("failed", error.to_string())
    }
}

impl From<crate::config::Error> for Failure {
    fn from(error: crate::config::Error) -> Failure {
        Failure::Usage(wire("config", error.to_string(), error.hint))
    }
}

impl Misread {
    fn say(&self, is_json: bool) {
        if is_json {
            let mut json = serde_json::to_value(&self.error).expect("an error is plain data");
            json["position"] = self.position.into();
            note(&format!("{}\n", escaped(&json.to_string())));
        } else {
            note(&self.shown());
        }
    }

    /// The error, the text with a caret under the place, and what would be right.
    fn shown(&self) -> String {
        let place = self.text.as_ref().map(|text| {
            let shown = beginning(text);
            let before =
                self.position.and_then(|position| text.get(..position)).filter(|before| before.len() < shown.len());
            let caret = before.map(|before| format!("  {}^\n", " ".repeat(width(&one_line(before)))));
            format!("  {shown}\n{}", caret.unwrap_or_default())
        });
        let (head, hint) = (head(&self.error), hint(&self.error));
        format!("{head}{}{hint}", place.unwrap_or_default())
    }
}

fn wire(code: &str, message: String, hint: Option<String>) -> Wire {
    Wire { code: code.to_owned(), message, field: None, hint }
}

fn text(error: &Wire) -> String {
    format!("{}{}", head(error), hint(error))
}

fn head(error: &Wire) -> String {
    let field = error.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
    // What is wrong may be quoted in it, and must not reach the terminal as a command.
    format!("rota: {field}{} ({})\n", lines(&error.message), error.code)
}

fn hint(error: &Wire) -> String {
    error.hint.as_ref().map(|hint| format!("  {}\n", lines(hint))).unwrap_or_default()
}

/// A text without what commands a terminal, but for the ends of its lines.
fn lines(text: &str) -> String {
    text.split('\n').map(one_line).collect::<Vec<_>>().join("\n")
}

/// The beginning of a text that somebody wrote, if it is a long one.
fn beginning(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 400;
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    one_line(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_place() {
        let misread = |text: &str, position| Misread {
            error: wire("bad_name", "unknown name".to_owned(), Some("did you mean TUE?".to_owned())),
            text: Some(text.to_owned()),
            position,
        };
        let check = |misread: Misread, place: &str| {
            assert_eq!(misread.shown(), format!("rota: unknown name (bad_name)\n{place}  did you mean TUE?\n"));
        };
        check(misread("0 0 * * TUS", Some(8)), "  0 0 * * TUS\n          ^\n");
        // Wide characters take two columns, and an end of line would move the caret.
        check(misread("５\n* X", Some(6)), "  ５ * X\n       ^\n");
        check(misread("* * *", None), "  * * *\n");
        check(misread("５", Some(1)), "  ５\n");
        let long = "*".repeat(1_000);
        check(misread(&long, Some(900)), &format!("  {}…\n", "*".repeat(400)));
    }

    #[test]
    fn what_is_quoted_commands_no_terminal() {
        let error = wire("invalid", "`x\u{1b}[31m` is\nnot a name".to_owned(), Some("\u{9b}2J".to_owned()));
        assert_eq!(text(&error), "rota: `x [31m` is\nnot a name (invalid)\n   2J\n");
    }

    #[test]
    fn a_refusal_names_field_and_hint() {
        let error = Wire {
            code: "invalid_schedule".to_owned(),
            message: "no such minute".to_owned(),
            field: Some("cron".to_owned()),
            hint: Some("for example: 0 2 * * *".to_owned()),
        };
        assert_eq!(text(&error), "rota: cron: no such minute (invalid_schedule)\n  for example: 0 2 * * *\n");
    }
}
