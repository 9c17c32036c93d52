//! Flag over environment over file over default, and where each value came from.

use std::collections::BTreeMap;
use std::fmt;

use rota_cron::text;

use super::Error;
use super::key::{self, KEYS, Key};

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Default,
    /// The file of this name.
    File(String),
    /// The variable of this name.
    Environment(String),
    /// The flag of this name.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File(name) | Source::Environment(name) | Source::Flag(name) => f.write_str(name),
        }
    }
}

/// The value of every key, with its source.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Layers {
    values: BTreeMap<&'static str, (toml::Value, Source)>,
}

impl Layers {
    /// The defaults alone.
    pub(crate) fn new() -> Layers {
        let mut values = BTreeMap::new();
        for key in &KEYS {
            let value = key.value(key.default).expect("defaults are of their own kind; a test reads them all");
            values.insert(key.path, (value, Source::Default));
        }
        Layers { values }
    }

    /// Lays a file's text over what is there.
    pub(crate) fn file(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| Error {
            at: name.to_owned(),
            message: format!("not TOML: {}", error.to_string().trim_end().replace('\n', "\n  ")),
            hint: None,
        })?;
        for (section, content) in table {
            let toml::Value::Table(content) = content else {
                return Err(unknown(name, &section, "every key belongs to a section, such as [server]"));
            };
            for (word, value) in content {
                let path = format!("{section}.{word}");
                let key = key::find(&path).ok_or_else(|| unknown(name, &path, "no such key"))?;
                self.values.insert(key.path, (value, Source::File(name.to_owned())));
            }
        }
        Ok(())
    }

    /// Lays the variables that begin with `ROTA_` and have a section over what is there.
    pub(crate) fn environment(&mut self, variables: &BTreeMap<String, String>) -> Result<(), Error> {
        for (name, text) in variables {
            let Some((section, word)) = name.strip_prefix("ROTA_").and_then(|rest| rest.split_once("__")) else {
                continue;
            };
            let path = format!("{section}.{word}").to_lowercase();
            let key = key::find(&path).ok_or_else(|| {
                let meant = meant(&path).map(Key::variable);
                Error {
                    at: name.clone(),
                    message: format!("there is no key `{path}`"),
                    hint: meant.map(|variable| format!("did you mean {variable}?")),
                }
            })?;
            let value = key.value(text).map_err(|message| Error { at: name.clone(), message, hint: None })?;
            self.values.insert(key.path, (value, Source::Environment(name.clone())));
        }
        Ok(())
    }

    /// Lays a flag over what is there.
    pub(crate) fn flag(&mut self, flag: &str, path: &'static str, text: &str) {
        let key = key::find(path).expect("flags name keys that exist");
        let value = key.value(text).expect("flags set only keys of text");
        self.values.insert(key.path, (value, Source::Flag(flag.to_owned())));
    }

    /// The value of a key, and where it came from.
    pub(crate) fn get(&self, path: &str) -> (&toml::Value, &Source) {
        let (value, source) = self.values.get(path).expect("every key has a value from the start");
        (value, source)
    }

    /// All values as one table.
    pub(crate) fn table(&self) -> toml::Table {
        let mut table = toml::Table::new();
        for (path, (value, _)) in &self.values {
            let (section, word) = path.split_once('.').expect("every key has a section");
            let entry = table.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            entry.as_table_mut().expect("sections are tables").insert(word.to_owned(), value.clone());
        }
        table
    }
}

fn unknown(at: &str, path: &str, otherwise: &str) -> Error {
    let hint = meant(path).map_or_else(|| otherwise.to_owned(), |key| format!("did you mean `{}`?", key.path));
    Error { at: at.to_owned(), message: format!("unknown key `{path}`"), hint: Some(hint) }
}

/// The key that was probably meant. Section and word are compared each for itself, or a long right section would make
/// any word look near; and the right word in a wrong section is as common as a slip of the hand.
fn meant(path: &str) -> Option<&'static Key> {
    let (section, word) = path.split_once('.').unwrap_or(("", path));
    let parts = || KEYS.iter().filter_map(|key| key.path.split_once('.'));
    let section = text::nearest(section, parts().map(|(section, _)| section));
    let in_section = section.and_then(|section| {
        let word = text::nearest(word, parts().filter(|(other, _)| *other == section).map(|(_, word)| word))?;
        key::find(&format!("{section}.{word}"))
    });
    in_section.or_else(|| KEYS.iter().find(|key| key.path.ends_with(&format!(".{word}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn the_nearer_source_wins() {
        let mut layers = Layers::new();
        assert_eq!(layers.get("server.listen").1, &Source::Default);
        layers.file("rota.toml", "[server]\nlisten = \"a\"\ndata = \"b\"\nlog = \"c\"").unwrap();
        layers
            .environment(&variables(&[("ROTA_SERVER__DATA", "d"), ("ROTA_SERVER__LOG", "e"), ("HOME", "h")]))
            .unwrap();
        layers.flag("--data", "server.data", "f");
        let seen = |path| {
            let (value, source) = layers.get(path);
            (value.as_str().unwrap().to_owned(), source.to_string())
        };
        assert_eq!(seen("server.listen"), ("a".to_owned(), "rota.toml".to_owned()));
        assert_eq!(seen("server.log"), ("e".to_owned(), "ROTA_SERVER__LOG".to_owned()));
        assert_eq!(seen("server.data"), ("f".to_owned(), "--data".to_owned()));
        assert_eq!(seen("server.drain"), ("10s".to_owned(), "default".to_owned()));
    }

    #[test]
    fn what_is_no_section_of_ours_is_left_alone() {
        let mut layers = Layers::new();
        layers.environment(&variables(&[("ROTA_SERVER", "http://x"), ("ROTA_TOKEN", "t")])).unwrap();
        assert_eq!(layers, Layers::new());
    }

    fn check_unknown(text: &str, message: &str, hint: &str) {
        let error = Layers::new().file("rota.toml", text).unwrap_err();
        assert_eq!((error.message.as_str(), error.hint.as_deref()), (message, Some(hint)), "{text}");
    }

    #[test]
    fn an_unknown_key_is_an_error_with_a_suggestion() {
        check_unknown("[server]\nlisen = \"x\"", "unknown key `server.lisen`", "did you mean `server.listen`?");
        check_unknown("[sever]\nlisten = \"x\"", "unknown key `sever.listen`", "did you mean `server.listen`?");
        check_unknown("[log]\nsize = \"1GiB\"", "unknown key `log.size`", "did you mean `logs.size`?");
        check_unknown(
            "[outbound]\npartitions = 3",
            "unknown key `outbound.partitions`",
            "did you mean `store.partitions`?",
        );
        check_unknown("[server]\ncolour = 1", "unknown key `server.colour`", "no such key");
        check_unknown("listen = 1", "unknown key `listen`", "did you mean `server.listen`?");
    }

    #[test]
    fn an_unknown_variable_is_an_error_with_a_suggestion() {
        let error = Layers::new().environment(&variables(&[("ROTA_SERVER__LISTN", "x")])).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean ROTA_SERVER__LISTEN?"));
    }

    #[test]
    fn broken_toml_says_where() {
        let error = Layers::new().file("rota.toml", "[server]\nlisten = 'x").unwrap_err();
        assert!(error.message.contains("line 2"), "{}", error.message);
    }
}
