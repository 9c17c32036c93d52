//! Request bodies and query strings: read strictly, refused with the field that is wrong.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, Query, Request};
use http_body_util::LengthLimitError;
use rota_core::time::UnixMs;
use serde::de::DeserializeOwned;

use crate::code::Code;
use crate::duration;
use crate::nearest::did_you_mean;
use crate::refusal::Refusal;
use crate::state::State;

/// The largest body: twice the largest parameter, which JSON may have to escape.
pub(crate) const BODY_BYTES_MAX: usize = 2 << 20;
/// A body that arrives more slowly than this is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A JSON body. No body at all is an empty object; the content type is not asked for.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<State>> for Json<T> {
    type Rejection = Refusal;
    async fn from_request(request: Request, _: &Arc<State>) -> Result<Json<T>, Refusal> {
        let reading = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX);
        let bytes = match tokio::time::timeout(BODY_TIMEOUT, reading).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) if error.source().is_some_and(|source| source.is::<LengthLimitError>()) => {
                return Err(Refusal::new(Code::TooLarge, format!("the body has more than {BODY_BYTES_MAX} bytes"))
                    .hint("send less at a time"));
            }
            Ok(Err(_)) => return Err(Refusal::new(Code::Malformed, "the body ended early")),
            Err(_) => return Err(Refusal::new(Code::Malformed, "the body took longer than 30 s")),
        };
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            Refusal::new(Code::Malformed, format!("the body is not UTF-8 from byte {} on", error.valid_up_to()))
                .hint("send JSON in UTF-8")
        })?;
        parse(if text.trim().is_empty() { "{}" } else { text }).map(Json)
    }
}

/// Reads JSON; a mistake is named by its field.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        mistake(&path, error.inner())
    })?;
    json.end().map_err(|error| mistake(".", &error))?;
    Ok(value)
}

fn mistake(path: &str, error: &serde_json::Error) -> Refusal {
    // serde_json appends where the mistake is; what is wrong stands before it.
    let whole = error.to_string();
    let message = whole.rfind(" at line ").map_or(whole.as_str(), |at| &whole[..at]);
    if !error.is_data() {
        return Refusal::new(Code::Malformed, format!("this is not JSON: {whole}"));
    }
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let field = Some(path).filter(|path| *path != ".");
    if message.starts_with("unknown field") {
        let (unknown, known) = quoted.split_first().unwrap_or((&"", &[]));
        let unknown = unknown.get(..80).unwrap_or(unknown);
        return Refusal::new(Code::UnknownField, format!("there is no field `{unknown}` here"))
            .field(within(field, unknown))
            .hint(did_you_mean(unknown, known.iter().copied()).unwrap_or_else(|| choices(known)));
    }
    if message.starts_with("missing field") {
        let missing = quoted.first().copied().unwrap_or_default();
        return Refusal::invalid(within(field, missing), format!("`{missing}` is missing"));
    }
    let last = path.rsplit('.').next().unwrap_or(path);
    let is_duration = ["every", "delay", "start", "attempt"].contains(&last);
    Refusal {
        field: field.map(str::to_owned),
        hint: is_duration.then(|| "durations are text with a unit: \"30s\"".to_owned()),
        ..Refusal::new(Code::Invalid, message)
    }
}

/// The path of a key, whether or not the path that was reported ends with it already.
fn within(path: Option<&str>, key: &str) -> String {
    match path {
        None => key.to_owned(),
        Some(path) if path == key || path.ends_with(&format!(".{key}")) => path.to_owned(),
        Some(path) => format!("{path}.{key}"),
    }
}

fn choices(known: &[&str]) -> String {
    if known.is_empty() { "nothing is expected here".to_owned() } else { format!("known are {}", known.join(", ")) }
}

/// The arguments in a query string.
pub(crate) struct Args(BTreeMap<String, String>);

impl Args {
    /// Reads them; all must be among `known`. `namespace` always is.
    pub(crate) fn read(uri: &http::Uri, known: &[&str]) -> Result<Args, Refusal> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| Refusal::new(Code::Malformed, "the query string cannot be read"))?;
        let mut args = BTreeMap::new();
        for (key, value) in pairs {
            let all = known.iter().copied().chain(["namespace"]);
            if !all.clone().any(|known| known == key) {
                let shown: String = key.chars().take(40).collect();
                let hint = did_you_mean(&key, all.clone()).unwrap_or_else(|| choices(&all.collect::<Vec<_>>()));
                return Err(Refusal::new(Code::UnknownField, format!("there is no argument `{shown}` here"))
                    .field(shown)
                    .hint(hint));
            }
            if args.insert(key.clone(), value).is_some() {
                return Err(Refusal::invalid(key, "this argument is given twice"));
            }
        }
        Ok(Args(args))
    }

    /// An argument, if it is given and not empty.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// The namespace that the call is about.
    pub(crate) fn namespace(&self) -> String {
        self.text("namespace").map_or_else(rota_wire::worker::default_namespace, str::to_owned)
    }

    /// A number.
    pub(crate) fn number<N: FromStr>(&self, key: &str) -> Result<Option<N>, Refusal> {
        let number = |text: &str| {
            text.parse().map_err(|_| {
                let shown: String = text.chars().take(40).collect();
                Refusal::invalid(key, format!("`{shown}` is not a number that fits here"))
            })
        };
        self.text(key).map(number).transpose()
    }

    /// How many to list: 50 if it is not said, at most 1,000.
    pub(crate) fn limit(&self) -> Result<u32, Refusal> {
        match self.number("limit")?.unwrap_or(50) {
            limit @ 1..=1_000 => Ok(limit),
            limit => Err(Refusal::invalid("limit", format!("{limit} is outside 1 to 1,000"))),
        }
    }

    /// An instant: RFC 3339, or a duration before `now`.
    pub(crate) fn instant(&self, key: &str, now: UnixMs) -> Result<Option<UnixMs>, Refusal> {
        let Some(text) = self.text(key) else { return Ok(None) };
        if let Ok(at) = UnixMs::parse_rfc3339(text) {
            return Ok(Some(at));
        }
        let ms = duration::parse(key, text)
            .map_err(|refusal| refusal.hint("how long ago, such as 1h, or an instant: 2026-12-01T02:00:00+08:00"))?;
        Ok(Some(now.plus_ms(-i64::try_from(ms).unwrap_or(i64::MAX))))
    }
}

#[cfg(test)]
mod tests {
    use rota_wire::rest::JobSpec;

    use super::*;

    #[test]
    fn mistakes_name_their_field_and_what_was_meant() {
        for (text, code, field, hint) in [
            (r#"{"name":"a","crno":"* * * * *"}"#, Code::UnknownField, Some("crno"), Some("did you mean `cron`?")),
            (
                r#"{"name":"a","retry":{"max":1,"dealy":"1s"}}"#,
                Code::UnknownField,
                Some("retry.dealy"),
                Some("`delay`"),
            ),
            (
                r#"{"name":"a","retry":{"maximum_of_all":1}}"#,
                Code::UnknownField,
                Some("retry.maximum_of_all"),
                Some("max, delay"),
            ),
            (r#"{"name":"a","http":{"psot":"x"}}"#, Code::UnknownField, Some("http.psot"), Some("`post`")),
            (r#"{"handler":"x"}"#, Code::Invalid, Some("name"), None),
            (r#"{"name":"a","retry":{}}"#, Code::Invalid, Some("retry.max"), None),
            (r#"{"name":"a","every":30}"#, Code::Invalid, Some("every"), Some("unit")),
            (r#"{"name":"a","shards":{"count":-1}}"#, Code::Invalid, Some("shards.count"), None),
            (r#"{"name":"a","param":{"x":1}}"#, Code::Invalid, Some("param"), None),
            (r#"{"name":"a","paused":"yes"}"#, Code::Invalid, Some("paused"), None),
            (r#"{"name":"a"} x"#, Code::Malformed, None, None),
            (r#"{"name":"a"#, Code::Malformed, None, None),
            ("[]", Code::Invalid, None, None),
        ] {
            let refusal = parse::<JobSpec>(text).unwrap_err();
            assert_eq!(refusal.code, code, "{text}: {refusal:?}");
            assert_eq!(refusal.field.as_deref(), field, "{text}: {refusal:?}");
            if let Some(hint) = hint {
                assert!(refusal.hint.as_deref().is_some_and(|h| h.contains(hint)), "{text}: {refusal:?}");
            }
        }
    }

    #[test]
    fn arguments_are_read_strictly() {
        let uri = "/x?limit=5&since=1h&job=a%20b".parse().unwrap();
        let args = Args::read(&uri, &["limit", "since", "job"]).unwrap();
        assert_eq!(args.limit(), Ok(5));
        assert_eq!(args.text("job"), Some("a b"));
        assert_eq!(args.instant("since", UnixMs(3_600_001)), Ok(Some(UnixMs(1))));
        assert_eq!(args.namespace(), "default");

        for (query, field) in [("?limt=5", "limt"), ("?limit=5&limit=6", "limit")] {
            let refusal = Args::read(&format!("/x{query}").parse().unwrap(), &["limit"]).err().unwrap();
            assert_eq!(refusal.field.as_deref(), Some(field));
        }
        for query in ["?limit=0", "?limit=1001", "?limit=-1", "?limit=x"] {
            let args = Args::read(&format!("/x{query}").parse().unwrap(), &["limit"]).unwrap();
            assert_eq!(args.limit().unwrap_err().field.as_deref(), Some("limit"), "{query}");
        }
    }
}
