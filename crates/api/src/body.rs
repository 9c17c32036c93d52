//! Request bodies and query strings: read strictly, refused with the field that is wrong.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequest, Query, Request};
use http_body_util::BodyExt as _;
use rota_core::time::UnixMs;
use serde::de::DeserializeOwned;

use crate::code::Code;
use crate::duration;
use crate::mistake::{choices, mistake};
use crate::nearest::did_you_mean;
use crate::refusal::Refusal;
use crate::state::State;
use crate::strict::Strict;

/// The largest body of a call that carries no parameter.
const BODY_BYTES_MAX: usize = 2 << 20;
/// The largest body of a call that does: a parameter of 1 MiB in which JSON escapes every byte, and room for the rest.
pub(crate) const JOB_BYTES_MAX: usize = (6 << 20) + (64 << 10);
/// What is read beyond the limit and forgotten. A client that is still sending when the connection closes sees a broken
/// pipe, and never the refusal that tells it why.
const EXCESS_BYTES_MAX: usize = 16 << 20;
/// A body that arrives more slowly than this is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// A JSON body. No body at all is an empty object; the content type is not asked for.
pub(crate) struct Json<T, const BYTES_MAX: usize = BODY_BYTES_MAX>(pub(crate) T);

impl<T: DeserializeOwned, const BYTES_MAX: usize> FromRequest<Arc<State>> for Json<T, BYTES_MAX> {
    type Rejection = Refusal;
    async fn from_request(request: Request, _: &Arc<State>) -> Result<Self, Refusal> {
        // Whoever waits for a go-ahead has not begun to send.
        let waits = request.headers().contains_key(http::header::EXPECT);
        let too_large = || {
            Refusal::new(Code::TooLarge, format!("the body has more than {BYTES_MAX} bytes"))
                .hint("send less at a time")
        };
        if waits && request.body().size_hint().lower() > BYTES_MAX as u64 {
            return Err(too_large());
        }
        let reading = collect(request.into_body(), BYTES_MAX);
        let bytes = match tokio::time::timeout(BODY_TIMEOUT, reading).await {
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) => return Err(too_large()),
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

/// A body as a whole; nothing if it is too large.
async fn collect(mut body: Body, bytes_max: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let (mut bytes, mut excess) = (Vec::new(), body.size_hint().lower() > bytes_max as u64);
    let mut forgotten_bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        excess |= bytes.len() + data.len() > bytes_max;
        if !excess {
            bytes.extend_from_slice(&data);
            continue;
        }
        forgotten_bytes += bytes.len() + data.len();
        bytes = Vec::new();
        if forgotten_bytes > bytes_max + EXCESS_BYTES_MAX {
            break;
        }
    }
    Ok((!excess).then_some(bytes))
}

/// Reads JSON; a mistake is named by its field.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    // To know where one is costs more than to read. So it is only asked for once something is wrong.
    if let Ok(value) = read(text) {
        return Ok(value);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(Strict(&mut json)).map_err(|error| {
        let path = error.path().to_string();
        mistake(&path, error.inner())
    })?;
    json.end().map_err(|error| mistake(".", &error))?;
    Ok(value)
}

fn read<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Strict(&mut json))?;
    json.end().map(|()| value)
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
        if let Some(namespace) = args.get("namespace").filter(|namespace| !namespace.is_empty()) {
            rota_core::job::check_name("namespace", namespace)?;
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

    /// Whether something is wanted: it is if the argument is there, unless it says `false`.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, Refusal> {
        match self.0.get(key).map(String::as_str) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(other) => {
                let shown: String = other.chars().take(40).collect();
                Err(Refusal::invalid(key, format!("`{shown}` is neither true nor false")))
            }
        }
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
    use rota_wire::worker;

    use super::*;

    #[test]
    fn mistakes_name_their_field_and_what_was_meant() {
        for (text, code, field, hint) in [
            (r#"{"name":"a","crno":"* * * * *"}"#, Code::UnknownField, Some("crno"), Some("did you mean `cron`?")),
            (
                r#"{"name":"a","retry":{"max":1,"frist":"1s"}}"#,
                Code::UnknownField,
                Some("retry.frist"),
                Some("`first`"),
            ),
            (
                r#"{"name":"a","retry":{"maximum_of_all":1}}"#,
                Code::UnknownField,
                Some("retry.maximum_of_all"),
                Some("max, first"),
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
            (r#"{"name":"a","name":"b"}"#, Code::Invalid, Some("name"), None),
            ("[]", Code::Invalid, None, None),
            (r#"{"name":"a","retry":[1,"5s"]}"#, Code::Invalid, Some("retry"), None),
            (r#"{"name":"a","http":[]}"#, Code::Invalid, Some("http"), None),
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
    fn lists_within_lists_are_no_objects_either() {
        let result = r#"{"attempt":1,"run":2,"shard":0,"no":1,"outcome":"success"}"#;
        let body = |result: &str| format!(r#"{{"incarnation":1,"results":[{result}]}}"#);
        assert_eq!(parse::<worker::Results>(&body(result)).unwrap().results[0].attempt, 1);
        let refusal = parse::<worker::Results>(&body(r#"[1,2,0,1,"success"]"#)).unwrap_err();
        assert_eq!(refusal.field.as_deref(), Some("results[0]"));
    }

    #[test]
    fn mistakes_are_told_in_the_words_of_json() {
        let job = |text: &str| parse::<JobSpec>(text).unwrap_err().message;
        let beat = |text: &str| parse::<worker::Beat>(text).unwrap_err().message;
        let results = |text: &str| parse::<worker::Results>(text).unwrap_err();
        assert_eq!(job("[]"), "expected an object, found a list");
        assert_eq!(job("null"), "expected an object, found null");
        assert_eq!(job(r#""x""#), "expected an object, found \"x\"");
        assert_eq!(job(r#"{"name":null}"#), "expected text, found null");
        assert_eq!(job(r#"{"name":{}}"#), "expected text, found an object");
        assert_eq!(job(r#"{"name":"a","paused":1}"#), "expected true or false, found integer `1`");
        assert_eq!(
            job(r#"{"name":"a","shards":{"count":-1}}"#),
            "expected a whole number from 0 to 4294967295, found integer `-1`"
        );
        assert_eq!(
            beat(r#"{"incarnation":null}"#),
            "expected a whole number from 0 to 18446744073709551615, found null"
        );
        assert_eq!(beat(r#"{"incarnation":1,"no":1,"running":{}}"#), "expected a list, found an object");
        let long = job(&format!(r#"{{"name":"a","paused":"{}"}}"#, "x".repeat(1_000)));
        assert!(long.len() < 200, "{long}");
        let odd = r#"{"incarnation":1,"results":[{"attempt":1,"run":2,"shard":0,"no":1,"outcome":"succes"}]}"#;
        assert_eq!(results(odd).message, "`succes` is not known here");
        assert_eq!(results(odd).hint.as_deref(), Some("did you mean `success`?"));
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
