//! `fail`: fails, for trying out retries and alerts.
//!
//! The parameter is the message; or `{"until_attempt": 2}`, with `"message"` if wanted, which succeeds
//! from that attempt of a shard on; or blank, which always fails.

use serde::Deserialize;

use crate::context::Context;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Param {
    until_attempt: u32,
    message: Option<String>,
}

pub(crate) async fn fail(context: Context) -> Result<Option<String>, String> {
    decide(context.param(), context.number())
}

fn decide(param: &str, number: u32) -> Result<Option<String>, String> {
    let param = param.trim();
    if param.is_empty() {
        return Err("failed, as asked".to_owned());
    }
    if !param.starts_with('{') {
        return Err(param.to_owned());
    }
    let param: Param = serde_json::from_str(param)
        .map_err(|error| format!("the parameter is not such as {{\"until_attempt\": 2}}: {error}"))?;
    if number >= param.until_attempt {
        return Ok(Some(format!("attempt {number} succeeds, as asked")));
    }
    Err(param.message.unwrap_or_else(|| format!("attempt {number} fails, as asked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fails_as_asked() {
        let cases = [
            ("", 1, Err("failed, as asked")),
            ("  ", 9, Err("failed, as asked")),
            ("no luck", 1, Err("no luck")),
            (r#"{"until_attempt": 2}"#, 1, Err("attempt 1 fails, as asked")),
            (r#"{"until_attempt": 2, "message": "not yet"}"#, 1, Err("not yet")),
            (r#"{"until_attempt": 2}"#, 2, Ok("attempt 2 succeeds, as asked")),
            (r#"{"until_attempt": 2}"#, 3, Ok("attempt 3 succeeds, as asked")),
        ];
        for (param, number, expected) in cases {
            let expected = expected.map(|said| Some(said.to_owned())).map_err(str::to_owned);
            assert_eq!(decide(param, number), expected, "{param} {number}");
        }
        assert!(decide(r#"{"times": 1}"#, 5).unwrap_err().contains("until_attempt"));
    }
}
