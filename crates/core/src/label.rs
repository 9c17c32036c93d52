//! Labels of workers and the selectors of jobs.

use std::collections::BTreeMap;
use std::fmt;

/// A worker's labels.
pub type Labels = BTreeMap<String, String>;

/// A conjunction of terms over labels. The empty selector matches every worker.
///
/// Text form, comma separated: `disk=ssd`, `zone!=b`, `zone in (a|b)`, `zone notin (a|b)`, `gpu`, `!gpu`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Selector {
    terms: Vec<Term>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Term {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// What is wrong with a selector's text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{term}` is not of the form key=value, key!=value, key in (a|b), key notin (a|b), key or !key")]
pub struct Error {
    /// The term that could not be read.
    pub term: String,
}

impl Selector {
    /// Reads the text form; blank text is the empty selector.
    pub fn parse(text: &str) -> Result<Selector, Error> {
        let mut terms = Vec::new();
        for raw in text.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            terms.push(Term::parse(raw).ok_or_else(|| Error { term: raw.to_owned() })?);
        }
        if terms.len() > crate::limits::LABELS_MAX {
            return Err(Error { term: format!("({} terms, at most {})", terms.len(), crate::limits::LABELS_MAX) });
        }
        Ok(Selector { terms })
    }

    /// Whether every term holds.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.terms.iter().all(|term| term.matches(labels))
    }

    /// Whether it matches every worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl Term {
    fn parse(raw: &str) -> Option<Term> {
        if let Some((key, values)) = list_of(raw, " notin ") {
            return Some(Term::NotIn(key, values));
        }
        if let Some((key, values)) = list_of(raw, " in ") {
            return Some(Term::In(key, values));
        }
        if let Some((key, value)) = raw.split_once("!=") {
            return Some(Term::NotIn(name(key)?, vec![name(value)?]));
        }
        if let Some((key, value)) = raw.split_once('=') {
            return Some(Term::In(name(key)?, vec![name(value)?]));
        }
        match raw.strip_prefix('!') {
            Some(key) => Some(Term::Absent(name(key)?)),
            None => Some(Term::Exists(name(raw)?)),
        }
    }

    fn matches(&self, labels: &Labels) -> bool {
        match self {
            Term::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Term::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
            Term::Exists(key) => labels.contains_key(key),
            Term::Absent(key) => !labels.contains_key(key),
        }
    }
}

fn list_of(raw: &str, word: &str) -> Option<(String, Vec<String>)> {
    let (key, list) = raw.split_once(word)?;
    let inner = list.trim().strip_prefix('(')?.strip_suffix(')')?;
    let values: Option<Vec<String>> = inner.split('|').map(name).collect();
    Some((name(key)?, values?))
}

fn name(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = !text.is_empty()
        && text.len() <= crate::limits::NAME_BYTES_MAX
        && text.chars().all(|c| c.is_alphanumeric() || "-_./:".contains(c));
    fits.then(|| text.to_owned())
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            match term {
                Term::In(key, values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Term::NotIn(key, values) if values.len() == 1 => write!(f, "{key}!={}", values[0])?,
                Term::In(key, values) => write!(f, "{key} in ({})", values.join("|"))?,
                Term::NotIn(key, values) => write!(f, "{key} notin ({})", values.join("|"))?,
                Term::Exists(key) => f.write_str(key)?,
                Term::Absent(key) => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: &str, labels: &[(&str, &str)], expected: bool) {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let parsed = Selector::parse(selector).unwrap();
        assert_eq!(parsed.matches(&labels), expected, "{selector} on {labels:?}");
        assert_eq!(Selector::parse(&parsed.to_string()).unwrap(), parsed);
    }

    #[test]
    fn terms_mean_what_they_say() {
        check("", &[], true);
        check("disk=ssd", &[("disk", "ssd")], true);
        check("disk=ssd", &[("disk", "hdd")], false);
        check("disk!=ssd", &[], true);
        check("zone in (a|b), !gpu", &[("zone", "b")], true);
        check("zone in (a|b), !gpu", &[("zone", "b"), ("gpu", "1")], false);
        check("zone notin (a|b)", &[("zone", "a")], false);
        check("gpu", &[("gpu", "")], true);
    }

    #[test]
    fn a_bad_term_is_named() {
        assert_eq!(Selector::parse("a=b, c=").unwrap_err().term, "c=");
    }
}
