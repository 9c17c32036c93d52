//! Values of a job file into types, with the place and the path of each mistake.

use std::fmt;

use serde::de::value::StringDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::later;
use super::mistake::Mistake;
use super::node::{Key, Node, Value, beginning};
use rota_cron::text::nearest;

/// Reads a type from a value.
pub(crate) fn read<T: de::DeserializeOwned>(node: &Node) -> Result<T, Mistake> {
    T::deserialize(Spot(node)).map_err(|mistake| Mistake { mark: mistake.mark.or(Some(node.mark)), ..mistake })
}

/// A value that is being read.
struct Spot<'de>(&'de Node);

/// The refusal of a key that is not known, where these are.
pub(crate) fn unknown_key(key: &str, known: &[&str]) -> Mistake {
    let shown = beginning(key);
    if let Some(what) = later::find(key) {
        return Mistake::new(None, format!("`{shown}` is not supported by this version"))
            .code("unsupported")
            .hint(what);
    }
    let hint = match nearest(key, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known here are {}", known.join(", ")),
    };
    Mistake::new(None, format!("there is no key `{shown}` here")).code("unknown_key").hint(hint)
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

impl de::Error for Mistake {
    fn custom<T: fmt::Display>(message: T) -> Mistake {
        Mistake::new(None, message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Mistake {
        Mistake::new(None, format!("expected {}, found {}", expectation(&expected.to_string()), finding(&found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Mistake {
        Mistake::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Mistake {
        let hint = nearest(variant, expected.iter().copied())
            .map_or_else(|| format!("one of {}", expected.join(", ")), |meant| format!("did you mean `{meant}`?"));
        Mistake::new(None, format!("`{}` is not known here", beginning(variant))).hint(hint)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Mistake {
        unknown_key(field, expected)
    }

    fn missing_field(field: &'static str) -> Mistake {
        Mistake::new(None, format!("`{field}` is missing"))
    }
}

fn expectation(words: &str) -> String {
    match words {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "a string" => "text".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        words if words.starts_with("struct ") || words == "a map" => "a map (`key: value`)".to_owned(),
        words => words.to_owned(),
    }
}

fn finding(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("the number {value}"),
        Unexpected::Signed(value) => format!("the number {value}"),
        Unexpected::Str(text) => format!("\"{}\"", beginning(text)),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        other @ Unexpected::Float(_)
        | other @ Unexpected::Char(_)
        | other @ Unexpected::Bytes(_)
        | other @ Unexpected::NewtypeStruct
        | other @ Unexpected::Enum
        | other @ Unexpected::UnitVariant
        | other @ Unexpected::NewtypeVariant
        | other @ Unexpected::TupleVariant
        | other @ Unexpected::StructVariant
        | other @ Unexpected::Other(_) => other.to_string(),
    }
}

impl<'de> Spot<'de> {
    /// The same refusal, with the place of this value and what is known of how it is written.
    fn placed(&self, mistake: Mistake) -> Mistake {
        Mistake { mark: mistake.mark.or(Some(self.0.mark)), ..mistake }
    }

    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let unquoted = match &self.0.value {
            Value::Text(text) => return visitor.visit_str(text).map_err(|mistake| self.placed(mistake)),
            Value::Number(number) => Some(number.to_string()),
            Value::Fraction(text) => Some(text.clone()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        };
        let message = format!("expected text, found {}", self.0.kind());
        let mistake = Mistake::new(self.0.mark, message);
        Err(mistake.maybe_hint(unquoted.map(|text| format!("if the text is meant, put it into quotes: \"{text}\""))))
    }
}

impl<'de> Deserializer<'de> for Spot<'de> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let result = match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(value) => visitor.visit_i64(*value),
            Value::Fraction(text) => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                let read = number.and_then(|number| visitor.visit_f64(number).map_err(|_: Mistake| ()).ok());
                read.ok_or_else(|| {
                    Mistake::new(self.0.mark, format!("the number {text} is not a whole one that fits here"))
                })
            }
            Value::Text(text) => visitor.visit_str(text),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter(), at: 0 }),
            Value::Map(entries) => visitor.visit_map(Entries { entries: entries.iter(), value: None }),
        };
        result.map_err(|mistake| self.placed(mistake))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.text(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0.value {
            Value::Null => visitor.visit_none(),
            Value::Bool(_)
            | Value::Number(_)
            | Value::Fraction(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    /// A struct is a map: a list in the order of its declaration is nobody's meaning.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match &self.0.value {
            Value::Map(entries) => visitor
                .visit_map(Entries { entries: entries.iter(), value: None })
                .map_err(|mistake| self.placed(mistake)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Fraction(_) | Value::Text(_) | Value::List(_) => {
                Err(Mistake::new(self.0.mark, format!("expected a map (`key: value`), found {}", self.0.kind())))
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let Value::Text(text) = &self.0.value else {
            return Err(Mistake::new(self.0.mark, format!("expected a word, found {}", self.0.kind())));
        };
        let word: StringDeserializer<Mistake> = text.clone().into_deserializer();
        visitor.visit_enum(word).map_err(|mistake| self.placed(mistake))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Items<'de> {
    items: std::slice::Iter<'de, Node>,
    at: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mistake;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mistake> {
        let Some(item) = self.items.next() else { return Ok(None) };
        self.at += 1;
        let under = |mistake: Mistake| mistake.under(&format!("[{}]", self.at - 1), item.mark);
        seed.deserialize(Spot(item)).map(Some).map_err(under)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, (Key, Node)>,
    value: Option<&'de (Key, Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Mistake;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Mistake> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(entry);
        let key: StringDeserializer<Mistake> = entry.0.text.clone().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|mistake| mistake.under(&entry.0.text, entry.0.mark))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mistake> {
        let (key, node) = self.value.expect("a value is asked for after its key");
        seed.deserialize(Spot(node)).map_err(|mistake| mistake.under(&key.text, node.mark))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}
