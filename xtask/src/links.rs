//! What documents name must exist: link targets, paths in backticks, and symbols such as `core::partition::Machine`.

use crate::tree::Tree;

/// First parts of paths of this repository; a path in backticks that begins otherwise is somebody else's.
const ROOTS: [&str; 9] = ["crates", "docs", "tests", "xtask", "web", "proto", "changes", ".ci", ".cargo"];

/// One complaint for each name without a thing.
pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| is_document(path)) {
        let mut is_code = false;
        for (at, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            } else if !is_code {
                for name in missing(tree, path, line) {
                    complaints.push(format!("{path}:{}: `{name}` does not exist", at + 1));
                }
            }
        }
    }
    complaints
}

fn is_document(path: &str) -> bool {
    path.ends_with(".md") && (!path.contains('/') || path.starts_with("docs/"))
}

fn missing(tree: &Tree, document: &str, line: &str) -> Vec<String> {
    let mut names = Vec::new();
    for target in targets(line) {
        let is_elsewhere = target.contains("://") || target.starts_with(['#', '<']) || target.starts_with("mailto:");
        let file = target.split('#').next().unwrap_or(target);
        if !is_elsewhere && !resolve(document, file).is_some_and(|path| tree.has(&path)) {
            names.push(target.to_owned());
        }
    }
    for quoted in line.split('`').skip(1).step_by(2) {
        let is_there = if is_path(quoted) {
            tree.has(quoted.split(':').next().unwrap_or(quoted))
        } else if let Some((krate, symbol)) = symbol(tree, quoted) {
            has_word(tree, &format!("crates/{krate}/src/"), symbol)
        } else {
            true
        };
        if !is_there {
            names.push(quoted.to_owned());
        }
    }
    names
}

/// The targets of Markdown links and pictures.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        let rest = &line[at + 2..];
        if let Some(end) = rest.find([')', ' ']) {
            found.push(&rest[..end]);
        }
    }
    found
}

/// A relative target as a path from the root; none if it leaves the repository.
fn resolve(document: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => document.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

fn is_path(quoted: &str) -> bool {
    let is_plain = quoted.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:".contains(c)) && !quoted.contains("::");
    let Some((first, _)) = quoted.split_once('/') else {
        return is_plain && quoted.ends_with(".md");
    };
    is_plain && ROOTS.contains(&first)
}

/// The crate and the last name of a symbol that begins with a crate of ours.
fn symbol<'a>(tree: &Tree, quoted: &'a str) -> Option<(&'a str, &'a str)> {
    let (krate, rest) = quoted.split_once("::")?;
    let last = rest.rsplit("::").next()?.trim_end_matches("()");
    let is_name = !last.is_empty() && last.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && tree.has(&format!("crates/{krate}/src"))).then_some((krate, last))
}

fn has_word(tree: &Tree, folder: &str, word: &str) -> bool {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_file = tree.has(&format!("{folder}{word}.rs")) || tree.has(&format!("{folder}{word}"));
    is_file
        || tree
            .rust()
            .filter(|(path, _)| path.starts_with(folder))
            .any(|(_, text)| text.split(|c| !is_of_word(c)).any(|found| found == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_line(line: &str, expected: &[&str]) {
        let tree = Tree::of(&[
            ("docs/guide.md", ""),
            ("README.md", ""),
            ("crates/core/src/partition/mod.rs", "pub struct Machine;"),
            (".ci/run", ""),
        ]);
        assert_eq!(missing(&tree, "docs/guide.md", line), expected, "{line}");
    }

    #[test]
    fn named_things_must_exist() {
        check_line("see [the readme](../README.md#top) and `crates/core/src/partition/mod.rs`", &[]);
        check_line("see [it](other.md) and [that](../../x)", &["other.md", "../../x"]);
        check_line("`crates/core`, `crates/core/`, `.ci/run`, `README.md`", &[]);
        check_line("`crates/gone` and `GONE.md`", &["crates/gone", "GONE.md"]);
        check_line("`core::partition::Machine` and `core::partition`", &[]);
        check_line("`core::Nothing` but not `std::thread`", &["core::Nothing"]);
        check_line("`/api/v1/jobs`, `a/b`, [web](https://example.org), [here](#part), `cargo test -p x`", &[]);
    }

    #[test]
    fn code_blocks_are_not_read() {
        let tree = Tree::of(&[("README.md", "```\n`docs/gone.md`\n```\n`docs/lost.md`\n")]);
        assert_eq!(check(&tree), ["README.md:4: `docs/lost.md` does not exist"]);
    }
}
