//! What a job calls: a handler, or a URL.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::{Delivery, Invalid, check_name, invalid};
use crate::limits;
use crate::template::Templates;
use crate::url;

/// What a run of the job calls.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A handler that workers of the app offer.
    Handler {
        /// Its name.
        name: String,
        /// Passed to it, its templates filled in.
        param: String,
    },
    /// A request to a URL; the response is the result.
    Url {
        /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
        method: String,
        /// Absolute, `http` or `https`; its path and its query may be templates.
        url: String,
        /// Extra headers. Their values are nobody's business, and do not print.
        headers: BTreeMap<String, String>,
        /// The request's body.
        body: String,
    },
}

impl Target {
    /// What the protocol of this target can promise by default.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        match self {
            Target::Handler { .. } => Delivery::AtLeastOnce,
            Target::Url { method, .. } if method == "GET" => Delivery::AtLeastOnce,
            Target::Url { .. } => Delivery::AtMostOnce,
        }
    }

    pub(crate) fn check(&self, templates: Option<&Templates>) -> Result<(), Invalid> {
        match self {
            Target::Handler { name, param } => {
                check_name("handler", name)?;
                check_size("param", param.len())
            }
            Target::Url { method, url, headers, body } => {
                if !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str()) {
                    return Err(invalid("http.method", format!("`{method}` is not GET, POST, PUT, PATCH or DELETE")));
                }
                check_url(url, templates)?;
                check_size("http.headers", headers.iter().map(|(k, v)| k.len() + v.len()).sum())?;
                check_size("http.body", body.len())
            }
        }
    }

    /// The templates of it; none if they cannot be read, or there are none.
    pub(crate) fn templates(&self) -> Option<Box<Templates>> {
        Templates::of(self).ok().flatten()
    }

    /// The secrets that its templates name.
    #[must_use]
    pub fn secrets(&self) -> BTreeSet<String> {
        self.templates().map(|all| all.secrets().into_iter().map(str::to_owned).collect()).unwrap_or_default()
    }

    /// Whether its templates name a secret.
    #[must_use]
    pub fn names_secret(&self) -> bool {
        !self.secrets().is_empty()
    }

    /// The authority (host and port) that a URL target calls; none for handlers and for URLs without one.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        let Target::Url { url, .. } = self else { return None };
        url::authority(written_out(url)?).ok()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Handler { name, param } => {
                f.debug_struct("Handler").field("name", name).field("param", param).finish()
            }
            Target::Url { method, url, headers, body } => {
                let names: Vec<&String> = headers.keys().collect();
                let mut shown = f.debug_struct("Url");
                shown.field("method", method).field("url", url).field("headers", &names).field("body", body).finish()
            }
        }
    }
}

/// The beginning of a URL that is no template, if it goes beyond the authority.
fn written_out(url: &str) -> Option<&str> {
    let head = url.split("{{").next().unwrap_or_default();
    let is_beyond = head.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?', '#']));
    (is_beyond || head.len() == url.len()).then_some(head)
}

/// A URL is absolute, and has templates in its path and its query only, and blanks in templates only.
fn check_url(url: &str, templates: Option<&Templates>) -> Result<(), Invalid> {
    let refused = |message: String, hint: &str| Invalid { field: "http.url", message, hint: Some(hint.to_owned()) };
    let head = written_out(url).ok_or_else(|| {
        let message = "scheme, host and port of a URL are written out: a template stands behind them".to_owned();
        refused(message, "for example: https://partner.example/day/{{slot|date('%F')}}")
    })?;
    let texts = templates.and_then(Templates::url_texts);
    let has_blank = texts.is_some_and(|mut texts| texts.any(|text| text.contains(char::is_whitespace)));
    let problem = if has_blank { Some("has a blank; it must be percent-encoded") } else { url::authority(head).err() };
    match problem {
        Some(problem) => Err(refused(format!("`{url}` {problem}"), "for example: https://partner.example/ping")),
        None => Ok(()),
    }
}

fn check_size(field: &'static str, bytes: usize) -> Result<(), Invalid> {
    if bytes > limits::PARAM_BYTES_MAX {
        return Err(invalid(field, format!("{bytes} bytes are more than {}", limits::PARAM_BYTES_MAX)));
    }
    Ok(())
}
