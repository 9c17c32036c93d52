//! Templates: what a job says differently for each attempt.
//!
//! A template is text with expressions in double braces: `date={{ slot | minus('1d') | date('%F') }}`. An expression is
//! a name, or text in single quotes, and filters that change it from left to right. Two braces that are meant as they
//! are stand in quotes: `{{'{{'}}`.
//!
//! Invariants: a template that was read can be written for any attempt, unless a secret is missing or the result is too
//! large; what it writes depends on its [`Context`] alone; what is read and printed is the same template.
//!
//! Absent on purpose: conditions, loops, arithmetic, and anything that would make a job's words a program.

mod fields;
mod parse;
mod write;

use std::collections::BTreeSet;
use std::fmt;

use rota_cron::{DateFormat, UnixMs, Zone};

use crate::batch::Origin;
use crate::id::{AttemptId, JobId, RunId, Version};
use crate::why::Why;

pub use fields::{Templates, fill};
pub use write::{base64, json_escape, percent_encoded};

/// Text with expressions. One without any is not a template but text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    /// As it is; without two opening braces in a row.
    Text(Box<str>),
    Value(Expression),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Expression {
    of: Of,
    filters: Vec<Filter>,
}

/// Where an expression begins.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Of {
    /// Text in single quotes.
    Quoted(Box<str>),
    Name(Name),
    /// A secret of the job's namespace.
    Secret(Box<str>),
}

macro_rules! names {
    ($($name:ident $word:literal $about:literal,)*) => {
        /// What an attempt can be asked for.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum Name {
            $(#[doc = $about] $name,)*
        }

        /// Every name, but for those of secrets, with what it is.
        pub const NAMES: &[(&str, &str)] = &[$(($word, $about),)*];

        impl Name {
            fn word(self) -> &'static str {
                match self { $(Name::$name => $word,)* }
            }
            fn parse(word: &str) -> Option<Name> {
                match word { $($word => Some(Name::$name),)* _ => None }
            }
        }
    };
}

names! {
    Slot "slot" "the slot: an instant, RFC 3339 in the job's zone",
    SlotUnix "slot.unix" "the slot in seconds since 1970",
    SlotMs "slot.ms" "the slot in milliseconds since 1970",
    ShardIndex "shard.index" "the shard, from 0",
    ShardTotal "shard.total" "how many shards the run has",
    ShardParam "shard.param" "the shard's own parameter: its entry in shards.params",
    Run "run" "the run, as it is printed",
    RunId "run.id" "the run as a number",
    Attempt "attempt" "the number of the attempt within its shard, from 1",
    AttemptId "attempt.id" "the attempt as a number, unique in the installation",
    IdempotencyKey "idempotency_key" "the same for all attempts of a shard",
    Job "job" "the job's name",
    JobId "job.id" "the job's id",
    Version "version" "the version of the job that made the run",
    App "app" "the app's name",
    Namespace "namespace" "the namespace",
    Origin "origin" "what made the run: schedule, manual, api",
    Zone "timezone" "the job's zone",
}

/// Every filter as it is written, with what it does.
pub const FILTERS: &[(&str, &str)] = &[
    ("date('%F')", "writes an instant, in the job's zone"),
    ("date('%F', 'UTC')", "writes an instant, in another zone"),
    ("minus('1d')", "an earlier instant; d, w, mo and y go by the calendar of the job's zone, s, m and h by the clock"),
    ("plus('1d')", "a later instant"),
    ("unix", "an instant in seconds since 1970"),
    ("ms", "an instant in milliseconds since 1970"),
    ("lower", "small letters"),
    ("upper", "capital letters"),
    ("json", "as it stands between the quotes of JSON"),
    ("url", "percent-encoded, but for letters, digits and - . _ ~"),
    ("base64", "base 64, as HTTP's basic authorization wants it"),
];

#[derive(Clone, PartialEq, Eq, Debug)]
enum Filter {
    Date(DateFormat, Option<Zone>),
    /// Later, or earlier if it is not.
    Shift {
        is_later: bool,
        count: u32,
        unit: Unit,
    },
    Unix,
    Ms,
    Lower,
    Upper,
    Json,
    Url,
    Base64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    const ALL: [(&'static str, Unit); 7] = [
        ("s", Unit::Second),
        ("m", Unit::Minute),
        ("h", Unit::Hour),
        ("d", Unit::Day),
        ("w", Unit::Week),
        ("mo", Unit::Month),
        ("y", Unit::Year),
    ];

    fn word(self) -> &'static str {
        Unit::ALL.iter().find(|(_, unit)| *unit == self).expect("the table has every unit").0
    }
}

/// What is wrong with a template: where, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}, at character {at}")]
pub struct Error {
    /// Counts characters from 1.
    pub at: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
}

/// What a template is written from.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// The slot.
    pub slot: UnixMs,
    /// The job's zone.
    pub zone: &'c Zone,
    /// The shard, from 0.
    pub shard: u32,
    /// Shards of the run.
    pub shards: u32,
    /// The shard's own parameter; blank if the job has none.
    pub shard_param: &'c str,
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: AttemptId,
    /// Its number within the shard.
    pub no: u32,
    /// The job.
    pub job: JobId,
    /// Its name.
    pub job_name: &'c str,
    /// The version that made the run.
    pub version: Version,
    /// What made the run.
    pub origin: Origin,
    /// The app's name.
    pub app: &'c str,
    /// The namespace.
    pub namespace: &'c str,
    /// The value of a secret of the namespace, if it is set.
    pub secret: &'c dyn Fn(&str) -> Option<String>,
}

/// Why a template could not be written. It names no value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    /// [`Why::SecretUnknown`] or [`Why::TemplateFailed`].
    pub why: Why,
    /// What is wrong, and where.
    pub message: String,
}

impl Template {
    /// Reads a text; none if it has no expression and stands for itself.
    pub fn parse(text: &str) -> Result<Option<Template>, Error> {
        if text.contains("{{") { parse::template(text).map(Some) } else { Ok(None) }
    }

    /// The secrets that it names.
    pub fn secrets(&self) -> BTreeSet<&str> {
        self.expressions()
            .filter_map(|expression| if let Of::Secret(name) = &expression.of { Some(&**name) } else { None })
            .collect()
    }

    /// Whether it is nothing but a secret, so that to show it shows no more than a name.
    #[must_use]
    pub fn is_secret_alone(&self) -> bool {
        matches!(&*self.parts, [Part::Value(Expression { of: Of::Secret(_), .. })])
    }

    /// Whether it asks for the shard's own parameter.
    fn names_shard_param(&self) -> bool {
        self.expressions().any(|expression| expression.of == Of::Name(Name::ShardParam))
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| if let Part::Value(expression) = part { Some(expression) } else { None })
    }
}

/// Checks the name of a secret: it stands in a template after `secret.`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    !name.is_empty() && name.len() <= crate::limits::NAME_BYTES_MAX && is_plain
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::Value(expression) => write!(f, "{{{{{expression}}}}}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Of::Quoted(text) => write!(f, "'{text}'")?,
            Of::Name(name) => f.write_str(name.word())?,
            Of::Secret(name) => write!(f, "secret.{name}")?,
        }
        self.filters.iter().try_for_each(|filter| write!(f, "|{filter}"))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Date(format, None) => write!(f, "date('{}')", format.as_str()),
            Filter::Date(format, Some(zone)) => write!(f, "date('{}', '{}')", format.as_str(), zone.name()),
            Filter::Shift { is_later, count, unit } => {
                write!(f, "{}('{count}{}')", if *is_later { "plus" } else { "minus" }, unit.word())
            }
            Filter::Unix => f.write_str("unix"),
            Filter::Ms => f.write_str("ms"),
            Filter::Lower => f.write_str("lower"),
            Filter::Upper => f.write_str("upper"),
            Filter::Json => f.write_str("json"),
            Filter::Url => f.write_str("url"),
            Filter::Base64 => f.write_str("base64"),
        }
    }
}

#[cfg(test)]
mod tests;
