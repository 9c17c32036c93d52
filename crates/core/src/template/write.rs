//! Writing a template for one attempt.

use std::fmt::Write as _;

use rota_cron::{Step, UnixMs};

use super::{Context, Expression, Failed, Filter, Name, Of, Part, Template, Unit};
use crate::why::Why;

/// Where a template stands, which says what its values must not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In text that Rota does not look into.
    Text,
    /// In a URL's path or query: a value stays within the part that it stands in.
    Url,
}

/// What an expression is worth.
enum Value {
    At(UnixMs),
    Text(String),
}

impl Template {
    /// Writes it; at most so many bytes.
    pub fn write(&self, context: &Context<'_>, bytes_max: usize) -> Result<String, Failed> {
        self.write_in(Place::Text, context, bytes_max)
    }

    pub(super) fn write_in(&self, place: Place, context: &Context<'_>, bytes_max: usize) -> Result<String, Failed> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Value(expression) => {
                    let value = expression.value(context, bytes_max)?;
                    // What was encoded on purpose is not encoded once more.
                    let is_encoded = matches!(expression.filters.last(), Some(Filter::Url));
                    if place == Place::Url && !is_encoded {
                        percent_encode(&mut text, &value, b"-._~/:,");
                    } else {
                        text.push_str(&value);
                    }
                }
            }
            if text.len() > bytes_max {
                return Err(failed(format!("more than {bytes_max} bytes once its templates are filled in")));
            }
        }
        Ok(text)
    }

    /// Its text between the expressions.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(&**text) } else { None })
    }
}

fn failed(message: String) -> Failed {
    Failed { why: Why::TemplateFailed, message }
}

impl Expression {
    fn value(&self, context: &Context<'_>, bytes_max: usize) -> Result<String, Failed> {
        let mut value = match &self.of {
            Of::Quoted(text) => Value::Text(text.to_string()),
            Of::Name(Name::Slot) => Value::At(context.slot),
            Of::Name(name) => Value::Text(name.text(context)),
            Of::Secret(name) => Value::Text(secret(context, name)?),
        };
        for filter in &self.filters {
            value = match value {
                Value::At(at) => filter.of_instant(at, context)?,
                Value::Text(text) => Value::Text(filter.of_text(&text)),
            };
            if matches!(&value, Value::Text(text) if text.len() > bytes_max) {
                return Err(failed(format!("`{self}` is more than {bytes_max} bytes")));
            }
        }
        Ok(value.into_text(context))
    }
}

fn secret(context: &Context<'_>, name: &str) -> Result<String, Failed> {
    (context.secret)(name).ok_or_else(|| Failed {
        why: Why::SecretUnknown,
        message: format!("secret {name} is not set in namespace {}", context.namespace),
    })
}

impl Value {
    fn into_text(self, context: &Context<'_>) -> String {
        match self {
            Value::At(at) => context.zone.format(at),
            Value::Text(text) => text,
        }
    }
}

impl Name {
    fn text(self, context: &Context<'_>) -> String {
        match self {
            Name::Slot => context.zone.format(context.slot),
            Name::SlotUnix => context.slot.0.div_euclid(1_000).to_string(),
            Name::SlotMs => context.slot.0.to_string(),
            Name::ShardIndex => context.shard.to_string(),
            Name::ShardTotal => context.shards.to_string(),
            Name::ShardParam => context.shard_param.to_owned(),
            Name::Run => context.run.to_string(),
            Name::RunId => context.run.0.to_string(),
            Name::Attempt => context.no.to_string(),
            Name::AttemptId => context.attempt.0.to_string(),
            Name::IdempotencyKey => format!("{}/{}", context.run.0, context.shard),
            Name::Job => context.job_name.to_owned(),
            Name::JobId => context.job.to_string(),
            Name::Version => context.version.to_string(),
            Name::App => context.app.to_owned(),
            Name::Namespace => context.namespace.to_owned(),
            Name::Origin => context.origin.word().to_owned(),
            Name::Zone => context.zone.name().to_owned(),
        }
    }
}

impl Filter {
    fn of_instant(&self, at: UnixMs, context: &Context<'_>) -> Result<Value, Failed> {
        Ok(match self {
            Filter::Date(format, zone) => Value::Text(zone.as_ref().unwrap_or(context.zone).strftime(at, format)),
            Filter::Shift { is_later, count, unit } => {
                let stepped = context.zone.step(at, unit.step(*count, *is_later));
                Value::At(stepped.ok_or_else(|| failed(format!("`{self}` leads out of the years 1970 to 2199")))?)
            }
            Filter::Unix => Value::Text(at.0.div_euclid(1_000).to_string()),
            Filter::Ms => Value::Text(at.0.to_string()),
            Filter::Lower | Filter::Upper | Filter::Json | Filter::Url | Filter::Base64 => {
                Value::Text(self.of_text(&context.zone.format(at)))
            }
        })
    }

    fn of_text(&self, text: &str) -> String {
        match self {
            Filter::Lower => text.to_lowercase(),
            Filter::Upper => text.to_uppercase(),
            Filter::Json => json_escape(text),
            Filter::Url => percent_encoded(text),
            Filter::Base64 => base64(text),
            Filter::Date(..) | Filter::Shift { .. } | Filter::Unix | Filter::Ms => {
                unreachable!("a template that was read gives these an instant")
            }
        }
    }
}

impl Unit {
    fn step(self, count: u32, is_later: bool) -> Step {
        let count = i32::try_from(count).expect("a step's count is bounded when it is read");
        let count = if is_later { count } else { -count };
        let exact = |seconds: i64| Step::Ms(i64::from(count) * seconds * 1_000);
        match self {
            Unit::Second => exact(1),
            Unit::Minute => exact(60),
            Unit::Hour => exact(3_600),
            Unit::Day => Step::Days(count),
            Unit::Week => Step::Days(count * 7),
            Unit::Month => Step::Months(count),
            Unit::Year => Step::Months(count * 12),
        }
    }
}

/// A text as it stands between the quotes of JSON.
#[must_use]
pub fn json_escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if u32::from(c) < 0x20 => write!(escaped, "\\u{:04x}", u32::from(c)).expect("a String takes all"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A text with everything encoded but RFC 3986's unreserved characters.
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    percent_encode(&mut encoded, text, b"-._~");
    encoded
}

fn percent_encode(out: &mut String, text: &str, kept: &[u8]) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a String takes all");
        }
    }
}

/// Base 64 of bytes, padded.
#[must_use]
pub fn base64(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for letter in 0..4 {
            if letter > three.len() {
                encoded.push('=');
            } else {
                encoded.push(char::from(LETTERS[(bits >> (18 - 6 * letter) & 63) as usize]));
            }
        }
    }
    encoded
}
