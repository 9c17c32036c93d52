//! Words that must not be in the repository: paths of somebody's machine, and tasks without an issue.

use crate::tree::Tree;

/// Beginnings of paths that exist on one machine only. Written in pieces, so that this file may hold them.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/tm", "p/target"),
];
const TASK: &str = concat!("TO", "DO");

/// One complaint for each line with such a word.
pub(crate) fn check(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in &tree.files {
        for (at, line) in text.lines().enumerate() {
            if let Some(found) = MACHINE_PATHS.iter().find(|found| names_path(line, found)) {
                complaints.push(format!("{path}:{}: `{found}…` is a path of one machine", at + 1));
            }
            let is_source = path.ends_with(".rs") || path.ends_with(".toml") || path.ends_with("Makefile");
            if is_source && line.contains(TASK) && !line.contains(concat!("TO", "DO(#")) {
                complaints.push(format!("{path}:{}: a {TASK} needs the number of an issue: {TASK}(#12)", at + 1));
            }
        }
    }
    complaints
}

/// Whether the path stands there at its beginning, not as the tail of another one or of a URL.
fn names_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.}/".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_line(line: &str, is_fine: bool) {
        assert_eq!(check(&Tree::of(&[("a.rs", line)])).is_empty(), is_fine, "{line}");
    }

    #[test]
    fn machine_paths_are_found() {
        check_line(concat!("open(\"/ho", "me/anna/x\")"), false);
        check_line(concat!("see /wo", "rk/x"), false);
        check_line(concat!("http://host/wo", "rk/x"), true);
        check_line(concat!("crates/wo", "rker/src"), true);
    }

    #[test]
    fn tasks_carry_an_issue() {
        check_line(concat!("// TO", "DO: later"), false);
        check_line(concat!("// TO", "DO(#7): later"), true);
    }
}
