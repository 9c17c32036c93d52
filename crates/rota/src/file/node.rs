//! What stands in a job file: values, and where each of them stands.

use std::fmt;

/// A place in the text, both counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Mark {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) mark: Mark,
    pub(crate) value: Value,
}

/// What a value is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// A whole number.
    Number(i64),
    /// A number that is not whole, or too large, as it is written.
    Fraction(String),
    Text(String),
    List(Vec<Node>),
    /// In the order of the text. No key is there twice.
    Map(Vec<(Key, Node)>),
}

/// A key of a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) mark: Mark,
    pub(crate) text: String,
}

impl Node {
    /// The entries, if it is a map.
    pub(crate) fn entries(&self) -> Option<&[(Key, Node)]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Fraction(_) | Value::Text(_) | Value::List(_) => {
                None
            }
        }
    }

    /// What it is, for people.
    pub(crate) fn kind(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Number(value) => format!("the number {value}"),
            Value::Fraction(text) => format!("the number {text}"),
            Value::Text(text) => format!("\"{}\"", beginning(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// Where the value with this path stands, or what of its path there is: `retry.max`, or `retry` if there is no `max`.
    pub(crate) fn place(&self, path: &str) -> Mark {
        self.way(path).unwrap_or(self.mark)
    }

    fn way(&self, path: &str) -> Option<Mark> {
        let entries = self.entries()?;
        // A key may have dots itself, so the longest one that begins the path is taken.
        let fitting = entries.iter().filter(|(key, _)| {
            path.strip_prefix(&key.text).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let (key, node) = fitting.max_by_key(|(key, _)| key.text.len())?;
        let rest = path[key.text.len()..].trim_start_matches('.');
        Some(if rest.is_empty() { node.mark } else { node.way(rest).unwrap_or(key.mark) })
    }
}

/// The beginning of a text that somebody wrote, fit for one line.
pub(crate) fn beginning(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 60;
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    crate::cli::table::one_line(&shown)
}
