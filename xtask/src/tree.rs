//! The texts of the repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Every text file, by its path from the root with `/` between its parts.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) files: BTreeMap<String, String>,
    /// Files that are no text, and folders: known to exist, not read.
    pub(crate) others: Vec<String>,
}

/// The repository that this was built from.
pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask lies in the root of the repository")?.to_owned())
}

impl Tree {
    /// Reads all but version control, build output and data of a development server.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let mut tree = Tree { root: root.to_owned(), files: BTreeMap::new(), others: Vec::new() };
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(root.join(&folder)).with_context(|| format!("reading {folder}/"))?;
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                let kind = entry.file_type()?;
                if is_foreign(&name) {
                    continue;
                }
                if kind.is_dir() {
                    tree.others.push(path.clone());
                    folders.push(path);
                } else if kind.is_file() {
                    match std::fs::read(entry.path()).map(String::from_utf8) {
                        Ok(Ok(text)) => drop(tree.files.insert(path, text)),
                        Ok(Err(_)) => tree.others.push(path),
                        Err(error) => return Err(error).with_context(|| format!("reading {path}")),
                    }
                }
            }
        }
        Ok(tree)
    }

    /// Whether a file or folder has this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty() || self.files.contains_key(path) || self.others.iter().any(|other| other == path)
    }

    /// Rust sources.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter(|(path, _)| path.ends_with(".rs")).map(|(path, text)| (path.as_str(), text.as_str()))
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let files: BTreeMap<String, String> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let mut others = Vec::new();
        for path in files.keys() {
            others.extend(path.match_indices('/').map(|(at, _)| path[..at].to_owned()));
        }
        Tree { root: PathBuf::new(), files, others }
    }
}

fn is_foreign(name: &str) -> bool {
    matches!(name, ".git" | ".rota" | "node_modules") || name == "target" || name.starts_with("target-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_output_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a/b.rs", "target/x.rs", ".git/y", "a/target-two/z.rs"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text").unwrap();
        }
        std::fs::write(folder.path().join("picture"), [0xff, 0xfe]).unwrap();
        let tree = Tree::read(folder.path()).unwrap();
        assert_eq!(tree.files.keys().collect::<Vec<_>>(), ["a/b.rs"]);
        assert!(tree.has("a/") && tree.has("picture") && !tree.has("target"));
    }
}
