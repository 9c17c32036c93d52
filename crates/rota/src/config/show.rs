//! `rota config show`: every value, and where it came from.

use serde::Serialize;

use super::Layers;
use super::key::KEYS;

/// One key as it is shown.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) key: &'static str,
    pub(crate) value: toml::Value,
    pub(crate) from: String,
    pub(crate) about: &'static str,
}

/// Every key in order. No value is a secret: secrets are named by their files.
pub(crate) fn show(layers: &Layers) -> Vec<Shown> {
    KEYS.iter()
        .map(|key| {
            let (value, source) = layers.get(key.path);
            Shown { key: key.path, value: value.clone(), from: source.to_string(), about: key.about }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_names_its_source() {
        let mut layers = Layers::new();
        layers.file("rota.toml", "[logs]\nsize = \"1GiB\"").unwrap();
        let shown = show(&layers);
        let size = shown.iter().find(|shown| shown.key == "logs.size").unwrap();
        assert_eq!((size.value.as_str(), size.from.as_str()), (Some("1GiB"), "rota.toml"));
        assert_eq!(shown.iter().filter(|shown| shown.from == "default").count(), KEYS.len() - 1);
    }
}
