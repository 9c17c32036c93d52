//! Conditional requests: what a caller has seen is named by a tag, and a change may depend on it.
//!
//! A tag names what users change: of a job its version and its state, of an app its settings. What moves by itself, such
//! as the next slots of a job, is not part of it. So `If-Match` refuses nothing because time passed, and `If-None-Match`
//! is for those who ask whether somebody changed something.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use rota_core::id::Version;
use rota_core::job::Definition;
use rota_core::rate::Limit;
use rota_core::worker::App;
use rota_wire::rest;

use crate::code::Code;
use crate::endpoint::{Arg, Shape};
use crate::refusal::Refusal;
use crate::view;

/// Only if it is as it was seen.
pub(crate) const IF_MATCH: Arg =
    Arg::new("If-Match", Shape::Tags, "do it only if what it is about still has one of these tags");
/// Only if it is not as it was seen, or not there.
pub(crate) const IF_NONE_MATCH: Arg = Arg::new(
    "If-None-Match",
    Shape::Tags,
    "do it only if what it is about has none of these tags; `*`: if it is not there",
);

/// What names a state of something, with its quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tag(String);

/// A number that stands for a text.
fn number_of(text: &str) -> u64 {
    text.bytes().fold(0, |sum, byte| rota_cron::mix(sum ^ u64::from(byte)))
}

impl Tag {
    /// Of a job: its id, its version, its state.
    pub(crate) fn of_job(job: &Definition) -> Tag {
        Tag(format!("\"{}.{}.{}\"", job.id, job.version, view::state_word(job.state)))
    }

    /// Of a job that was made or changed.
    pub(crate) fn of_saved(saved: &rest::JobSaved) -> Tag {
        Tag(format!("\"{}.{}.{}\"", saved.id, saved.version, saved.state))
    }

    /// Of a job whose state was set, and whose version was not.
    pub(crate) fn of_now(now: &rest::JobNow, version: Version) -> Tag {
        Tag(format!("\"{}.{version}.{}\"", now.id, now.state))
    }

    /// Of an app: its id and its settings.
    pub(crate) fn of_app(app: &App) -> Tag {
        let limit = |limit: &Limit| format!(".{}.{}.{}", limit.rate.count, limit.rate.per_ms, limit.burst());
        let groups = app.rates.groups.iter().map(|(selector, of)| format!(".{}{}", number_of(selector), limit(of)));
        let rates: String = app.rates.app.iter().map(limit).chain(groups).collect();
        Tag(format!("\"{}.{}{rates}\"", app.id, app.pending_max))
    }

    fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("tags are made of digits, letters, points and quotes")
    }
}

/// An answer with its tag.
pub(crate) struct Tagged<T>(pub(crate) Tag, pub(crate) T);

impl<T: IntoResponse> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        response.headers_mut().insert(header::ETAG, self.0.header());
        response
    }
}

/// What was asked for, or that it is as the caller has seen it.
pub(crate) enum Shown<T> {
    Whole(Tagged<T>),
    NotModified(Tag),
}

impl<T: IntoResponse> IntoResponse for Shown<T> {
    fn into_response(self) -> Response {
        match self {
            Shown::Whole(tagged) => tagged.into_response(),
            Shown::NotModified(tag) => Tagged(tag, StatusCode::NOT_MODIFIED).into_response(),
        }
    }
}

/// Tags in a header.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Tags {
    Any,
    These(Vec<String>),
}

impl Tags {
    fn has(&self, tag: &Tag) -> bool {
        match self {
            Tags::Any => true,
            Tags::These(tags) => tags.contains(&tag.0),
        }
    }
}

/// On what a request depends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

impl Conditions {
    /// Whether a change depends on what is there.
    pub(crate) fn are_none(&self) -> bool {
        *self == Conditions::default()
    }

    /// Refuses a change of what has this tag now; none: of what is not there.
    pub(crate) fn check(&self, tag: Option<&Tag>) -> Result<(), Refusal> {
        let is_matched = |tags: &Tags| tag.is_some_and(|tag| tags.has(tag));
        let refused = |message: String| {
            Err(Refusal::new(Code::VersionConflict, message).hint("read it again, and put your change on top of it"))
        };
        if self.if_match.as_ref().is_some_and(|tags| !is_matched(tags)) {
            return refused(match tag {
                Some(tag) => format!("its tag is {} now", tag.0),
                None => "it is not there".to_owned(),
            });
        }
        if self.if_none_match.as_ref().is_some_and(is_matched) {
            return refused("it is there already".to_owned());
        }
        Ok(())
    }

    /// What has this tag, unless the caller has seen it so.
    pub(crate) fn show<T>(&self, tag: Tag, whole: T) -> Result<Shown<T>, Refusal> {
        if self.if_match.is_some() {
            Conditions { if_none_match: None, ..self.clone() }.check(Some(&tag))?;
        }
        let is_seen = self.if_none_match.as_ref().is_some_and(|tags| tags.has(&tag));
        Ok(if is_seen { Shown::NotModified(tag) } else { Shown::Whole(Tagged(tag, whole)) })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Conditions {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Conditions, Refusal> {
        Ok(Conditions {
            if_match: tags(&parts.headers, header::IF_MATCH, IF_MATCH.name)?,
            if_none_match: tags(&parts.headers, header::IF_NONE_MATCH, IF_NONE_MATCH.name)?,
        })
    }
}

/// The tags in a header. A weak one is compared as if it were strong: ours are all strong, and proxies that compress
/// answers weaken them on their way.
fn tags(headers: &HeaderMap, name: HeaderName, shown: &str) -> Result<Option<Tags>, Refusal> {
    let mut these = Vec::new();
    let mut is_given = false;
    for value in headers.get_all(name) {
        is_given = true;
        let odd = || {
            Refusal::invalid(shown, "this is no list of tags")
                .hint("give the ETag of an answer back as it is, with its quotes; or *")
        };
        let text = value.to_str().map_err(|_| odd())?.trim();
        if text == "*" {
            return Ok(Some(Tags::Any));
        }
        for tag in text.split(',').map(str::trim) {
            let strong = tag.strip_prefix("W/").unwrap_or(tag);
            let inner = strong.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or_else(odd)?;
            if inner.contains('"') {
                return Err(odd());
            }
            these.push(strong.to_owned());
        }
    }
    Ok(is_given.then_some(Tags::These(these)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(if_match: &str) -> Result<Option<Tags>, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_MATCH, HeaderValue::from_str(if_match).unwrap());
        tags(&headers, header::IF_MATCH, "If-Match")
    }

    #[test]
    fn lists_of_tags_are_read() {
        let these = |tags: &[&str]| Ok(Some(Tags::These(tags.iter().map(|tag| (*tag).to_owned()).collect())));
        assert_eq!(read("*"), Ok(Some(Tags::Any)));
        assert_eq!(read("\"1.2.enabled\""), these(&["\"1.2.enabled\""]));
        assert_eq!(read("W/\"a\", \"b\" ,\"\""), these(&["\"a\"", "\"b\"", "\"\""]));
        for odd in ["", "1.2", "\"a", "\"", "\"a\"b\"", "\"a\",", "W/*"] {
            assert_eq!(read(odd).unwrap_err().field.as_deref(), Some("If-Match"), "{odd}");
        }
        assert_eq!(tags(&HeaderMap::new(), header::IF_MATCH, "If-Match"), Ok(None));
    }

    #[test]
    fn conditions_hold_or_are_refused() {
        let (seen, other) = (Tag("\"1\"".to_owned()), Tag("\"2\"".to_owned()));
        let these = |tag: &Tag| Some(Tags::These(vec![tag.0.clone()]));
        let matching = Conditions { if_match: these(&seen), if_none_match: None };
        assert_eq!(matching.check(Some(&seen)), Ok(()));
        assert_eq!(matching.check(Some(&other)).unwrap_err().code, Code::VersionConflict);
        assert_eq!(matching.check(None).unwrap_err().code, Code::VersionConflict);
        let new = Conditions { if_match: None, if_none_match: Some(Tags::Any) };
        assert_eq!(new.check(None), Ok(()));
        assert_eq!(new.check(Some(&seen)).unwrap_err().code, Code::VersionConflict);
        assert!(Conditions::default().are_none() && Conditions::default().check(None).is_ok());
    }
}
