//! What is wrong with a job file: where, what, and what would be right.

use serde::Serialize;

use super::node::{Mark, beginning};

/// A mistake in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mistake {
    pub(crate) mark: Option<Mark>,
    /// From the top of the file: `jobs.nightly-settle.rety`.
    pub(crate) path: Vec<String>,
    /// A word for programs.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// A mistake as programs read it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<u32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) path: String,
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Mistake {
    pub(crate) fn new(mark: impl Into<Option<Mark>>, message: impl Into<String>) -> Mistake {
        Mistake { mark: mark.into(), path: Vec::new(), code: "invalid", message: message.into(), hint: None }
    }

    pub(crate) fn code(mut self, code: &'static str) -> Mistake {
        self.code = code;
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Mistake {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Mistake {
        self.hint = hint.or(self.hint);
        self
    }

    /// The same mistake, seen from one level higher up.
    pub(crate) fn under(mut self, key: &str, mark: Mark) -> Mistake {
        self.path.insert(0, key.to_owned());
        self.mark = self.mark.or(Some(mark));
        self
    }

    /// The path as it is printed.
    fn path(&self) -> String {
        let mut path = String::new();
        for part in &self.path {
            if !path.is_empty() && !part.starts_with('[') {
                path.push('.');
            }
            path.push_str(&beginning(part));
        }
        path
    }

    pub(crate) fn shown(&self, file: &str) -> Shown {
        Shown {
            file: file.to_owned(),
            line: self.mark.map(|mark| mark.line),
            column: self.mark.map(|mark| mark.column),
            path: self.path(),
            code: self.code.to_owned(),
            message: self.message.clone(),
            hint: self.hint.clone(),
        }
    }

    /// For a terminal: place, path, what is wrong; the line itself; what would be right.
    pub(crate) fn text(&self, file: &str, text: &str) -> String {
        let mark = self.mark.map(|mark| format!(":{mark}")).unwrap_or_default();
        let path =
            Some(self.path()).filter(|path| !path.is_empty()).map(|path| format!(" {path}:")).unwrap_or_default();
        let mut said = format!("{file}{mark}:{path} {} ({})\n", self.message, self.code);
        if let Some((mark, line)) = self.mark.and_then(|mark| Some((mark, text.lines().nth(mark.line as usize - 1)?))) {
            let before: String = line.chars().take(mark.column as usize - 1).collect();
            if before.chars().count() < 80 && !line.trim().is_empty() {
                let shown: String = line.chars().take(110).collect();
                let pad = " ".repeat(crate::cli::table::width(&before));
                said.push_str(&format!("{:>5} | {}\n      | {pad}^\n", mark.line, crate::cli::table::one_line(&shown)));
            }
        }
        if let Some(hint) = &self.hint {
            said.push_str(&format!("  {hint}\n"));
        }
        said
    }
}
