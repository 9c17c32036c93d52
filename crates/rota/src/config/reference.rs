//! `rota config reference`: a file that sets nothing and says everything. `docs/rota.toml` is what it prints.

use super::key::{KEYS, Key, Kind};

const HEAD: &str = "\
# Every key of Rota's configuration, with its default. Nothing is set here: take the # away from what you change.
#
# A flag goes before the environment, the environment before this file, this file before the default;
# `rota config show` says of each value where it came from. An unknown key is an error.
# Secrets are never in it, only the names of their files.
";

/// The text of such a file.
pub(crate) fn reference() -> String {
    let mut text = HEAD.to_owned();
    let mut section = "";
    for key in &KEYS {
        let (of, word) = key.path.split_once('.').expect("every key has a section");
        if of != section {
            text.push_str(&format!("\n[{of}]"));
            section = of;
        }
        let value = key.value(key.default).expect("defaults are of their own kind");
        text.push_str(&format!("\n# {}\n#   {}\n#{word} = {value}\n", sentence(key.about), takes(key)));
    }
    text
}

fn sentence(about: &str) -> String {
    let mut letters = about.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

fn takes(key: &Key) -> String {
    let what = match key.kind {
        Kind::Text => "text".to_owned(),
        Kind::Duration => "duration: ms, s, m, h, d, as in 1h30m".to_owned(),
        Kind::Size => "size: B, KiB, MiB, GiB, kB, MB, GB, as in 10GiB".to_owned(),
        Kind::Word(words) => format!("one of {}", words.join(", ")),
        Kind::Number(max) => format!("whole number up to {max}"),
        Kind::Share => "number from 0 to 1".to_owned(),
        Kind::List => "list of texts; in the environment with commas between them".to_owned(),
    };
    format!("{what}; {}", key.variable())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Layers};

    #[test]
    fn the_shipped_file_is_what_the_binary_prints() {
        let shipped = include_str!("../../../../docs/rota.toml");
        assert_eq!(shipped, reference(), "run: rota config reference > docs/rota.toml");
    }

    #[test]
    fn with_every_mark_taken_away_it_still_says_the_defaults() {
        let set: String = reference()
            .lines()
            .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
            .fold(String::new(), |text, line| text + line + "\n");
        let mut layers = Layers::new();
        layers.file("rota.toml", &set).unwrap();
        assert_eq!(Config::new(&layers).unwrap(), Config::new(&Layers::new()).unwrap());
        assert!(KEYS.iter().all(|key| layers.get(key.path).1.to_string() == "rota.toml"), "{set}");
    }
}
