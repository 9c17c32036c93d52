//! How a job's runs are split into shards, as a user writes it.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Deserialize as DeserializeDerive, Serialize};

#[cfg(feature = "schema")]
use super::words;

/// Into how many shards a run is split: `broadcast`, or an object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Shards {
    /// `broadcast`: one for every eligible worker.
    Word(String),
    /// Everything that can be said.
    Split(Split),
}

/// Into how many shards a run is split, and what they mean for it. One of `count`, `params` and `broadcast` at least.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, DeserializeDerive)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// How many, from 1 to 1,000; absent: as many as there are parameters, or one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000))]
    pub count: Option<u32>,
    /// One parameter for each shard, as it is: what `{{shard.param}}` stands for. A handler without a `param` is given
    /// its shard's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(max_items = 1000))]
    pub params: Vec<String>,
    /// One shard for every worker that is eligible when the run is made; each goes to its worker alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast: Option<bool>,
    /// How many must succeed: `all` (if absent), `best_effort`, or a quorum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<Success>,
    /// What becomes of a shard whose worker dies: `reassign` or `fail`; absent: what `retry` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::OnLoss>))]
    pub on_loss: Option<String>,
}

/// How many shards must succeed for the run to be a success: `all`, `best_effort`, or a quorum.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Success {
    /// `all`; or `best_effort`: as many as can, but at least one.
    Word(String),
    /// So many.
    Quorum(Quorum),
}

/// How many shards must succeed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, DeserializeDerive)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Quorum {
    /// So many, or so many in a hundred: `3`, `"60%"`.
    pub quorum: Portion,
}

/// A number of shards, or a part of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Portion {
    /// So many.
    Count(u32),
    /// So many in a hundred, rounded up: `60%`.
    Percent(String),
}

/// Reads what is a word or an object, so that a mistake within the object names its own place.
macro_rules! word_or_object {
    ($type:ident, $object:ident: $inner:ident, $expecting:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                struct Either;
                impl<'de> Visitor<'de> for Either {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: de::Error>(self, word: &str) -> Result<$type, E> {
                        Ok($type::Word(word.to_owned()))
                    }
                    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<$type, A::Error> {
                        $inner::deserialize(MapAccessDeserializer::new(entries)).map($type::$object)
                    }
                }
                deserializer.deserialize_any(Either)
            }
        }
    };
}

word_or_object!(Shards, Split: Split, "`broadcast`, or an object with `count`, `params` or `broadcast`");
word_or_object!(Success, Quorum: Quorum, "`all`, `best_effort`, or an object with `quorum`");

impl<'de> Deserialize<'de> for Portion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Portion, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Portion;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of shards, or a part of them: 3, \"60%\"")
            }
            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Portion, E> {
                u32::try_from(count)
                    .map(Portion::Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(count), &self))
            }
            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Portion, E> {
                u32::try_from(count)
                    .map(Portion::Count)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(count), &self))
            }
            fn visit_str<E: de::Error>(self, part: &str) -> Result<Portion, E> {
                Ok(Portion::Percent(part.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Shards, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_written_is_read_back() {
        for json in [
            r#""broadcast""#,
            r#"{"count":8}"#,
            r#"{"params":["a","b"],"success":"best_effort"}"#,
            r#"{"broadcast":true,"success":{"quorum":"60%"},"on_loss":"reassign"}"#,
            r#"{"count":3,"success":{"quorum":2}}"#,
        ] {
            assert_eq!(serde_json::to_string(&read(json).unwrap()).unwrap(), json);
        }
    }

    #[test]
    fn a_mistake_names_its_own_place() {
        for (json, message) in [
            (r#"{"cuont":8}"#, "unknown field `cuont`"),
            (r#"{"count":"8"}"#, "invalid type: string"),
            ("7", "expected `broadcast`, or an object"),
            (r#"{"success":{"quorum":-1}}"#, "expected a number of shards, or a part"),
            (r#"{"success":{"most":1}}"#, "unknown field `most`"),
            (r#"{"success":3}"#, "expected `all`, `best_effort`"),
        ] {
            let found = read(json).unwrap_err();
            assert!(found.contains(message), "{json}: {found}");
        }
    }
}
