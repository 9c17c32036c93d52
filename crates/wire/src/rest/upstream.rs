//! What a job waits for.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::words;

/// Upstream jobs: one, a list of which all have to be done, or `any` with a list, for a job without a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum After {
    /// One.
    One(Upstream),
    /// All of these.
    All(Vec<Upstream>),
    /// Any of these, each by itself: for a job without a schedule.
    Any(AnyUpstream),
}

/// Jobs each of whose ends fires the job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AnyUpstream {
    /// These.
    pub any: Vec<Upstream>,
}

/// An upstream job: its name, or what is asked of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Upstream {
    /// The job of this name in the same namespace; its run of the same slot has to succeed.
    Name(String),
    /// What is asked of it.
    Edge(UpstreamEdge),
}

/// What is asked of an upstream job.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpstreamEdge {
    /// Its name, in the same namespace.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub job: String,
    /// How its run has to end: `success` (if absent), `failure` or `completion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::UpstreamWhen>))]
    pub when: Option<String>,
    /// Which of its slots count: `same_slot` (if absent), `latest` at or before this one, or `window`: all after the slot
    /// before, up to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::UpstreamPeriod>))]
    pub period: Option<String>,
    /// What a slot of it without a run means: `skip` (if absent) this slot too, or `run` all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::OnSkip>))]
    pub on_skip: Option<String>,
    /// A duration, from the slot to the end of the wait; `24h` if absent, at most `7d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub deadline: Option<String>,
}

// Read by hand: a derived reader of an enum without tags would say nothing of what is wrong within.

impl After {
    /// Every job that is named.
    #[must_use]
    pub fn jobs(&self) -> &[Upstream] {
        match self {
            After::One(one) => std::slice::from_ref(one),
            After::All(all) => all,
            After::Any(AnyUpstream { any }) => any,
        }
    }
}

/// An edge, or `any` with a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    any: Option<Vec<Upstream>>,
    job: Option<String>,
    when: Option<String>,
    period: Option<String>,
    on_skip: Option<String>,
    deadline: Option<String>,
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<After, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = After;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a job's name, an object with `job`, a list of those, or an object with `any`")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<After, E> {
                Ok(After::One(Upstream::Name(name.to_owned())))
            }

            fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<After, A::Error> {
                let entry = Entry::deserialize(MapAccessDeserializer::new(entries))?;
                let edge = UpstreamEdge {
                    job: entry.job.unwrap_or_default(),
                    when: entry.when,
                    period: entry.period,
                    on_skip: entry.on_skip,
                    deadline: entry.deadline,
                };
                match entry.any {
                    Some(any) if edge == UpstreamEdge::default() => Ok(After::Any(AnyUpstream { any })),
                    Some(_) => Err(A::Error::custom("`any` stands alone: what is asked of each job stands within it")),
                    None if edge.job.is_empty() => Err(A::Error::missing_field("job")),
                    None => Ok(After::One(Upstream::Edge(edge))),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<After, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(After::All(all))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for Upstream {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Upstream, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Upstream;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a job's name, or an object with `job`")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Upstream, E> {
                Ok(Upstream::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Upstream, A::Error> {
                UpstreamEdge::deserialize(MapAccessDeserializer::new(entries)).map(Upstream::Edge)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}
