//! The largest files and functions, for people to look at.

use std::fmt::Write as _;

use crate::tree::Tree;

const LISTED: usize = 8;

/// A table of the worst.
pub(crate) fn report(tree: &Tree) -> String {
    let mut files = Vec::new();
    let mut functions = Vec::new();
    for (path, text) in tree.rust() {
        if path.contains("/tests/") || path.ends_with("tests.rs") {
            continue;
        }
        let body = without_tests(text);
        files.push((body.lines().count(), path.to_owned()));
        functions.extend(measure(body).into_iter().map(|(lines, name)| (lines, format!("{path} {name}"))));
    }
    let mut out = String::new();
    for (title, mut rows) in [("largest files, without tests", files), ("largest functions", functions)] {
        rows.sort_by(|a, b| b.cmp(a));
        let _ = writeln!(out, "{title}");
        for (lines, name) in rows.into_iter().take(LISTED) {
            let _ = writeln!(out, "{lines:>6}  {name}");
        }
    }
    out
}

/// The text up to its own test module, which by custom is its last item.
fn without_tests(text: &str) -> &str {
    text.find("\n#[cfg(test)]\nmod tests {").map_or(text, |at| &text[..=at])
}

/// Every function with a body, with its lines from `fn` to its closing brace.
fn measure(text: &str) -> Vec<(usize, String)> {
    let code = blank(text);
    let words: Vec<(usize, &str)> = tokens(&code);
    let mut found = Vec::new();
    let mut open: Vec<(usize, usize, String)> = Vec::new();
    let mut waiting: Option<(usize, String)> = None;
    let mut depth = 0;
    let mut brackets = 0usize;
    let mut previous = "";
    for (line, word) in words {
        match word {
            // The `;` of an array type in a signature does not end it.
            "(" | "[" => brackets += 1,
            ")" | "]" => brackets = brackets.saturating_sub(1),
            ";" if brackets == 0 => waiting = None,
            "{" => {
                if let Some((start, name)) = waiting.take() {
                    open.push((depth, start, name));
                }
                depth += 1;
            }
            "}" => {
                depth = usize::saturating_sub(depth, 1);
                if open.last().is_some_and(|(at, _, _)| *at == depth) {
                    let (_, start, name) = open.pop().expect("it was just seen");
                    found.push((line - start + 1, name));
                }
            }
            name if previous == "fn" && brackets == 0 => waiting = Some((line, name.to_owned())),
            _ => {}
        }
        previous = word;
    }
    found
}

/// Words, brackets, braces and semicolons, each with its line from 0.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, line) in code.lines().enumerate() {
        let mut start = None;
        for (here, c) in line.char_indices().chain([(line.len(), ' ')]) {
            let is_word = c.is_alphanumeric() || c == '_';
            match (is_word, start) {
                (true, None) => start = Some(here),
                (false, Some(from)) => {
                    found.push((at, &line[from..here]));
                    start = None;
                }
                _ => {}
            }
            if "{}()[];".contains(c) {
                found.push((at, &line[here..=here]));
            }
        }
    }
    found
}

/// The text with comments, strings and characters blanked out, line for line.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match (chars[at], chars.get(at + 1)) {
            ('/', Some('/')) => end_of(&chars, at, |rest| rest[0] == '\n', 0),
            ('/', Some('*')) => end_of(&chars, at + 2, |rest| rest.starts_with(&['*', '/']), 2),
            ('"', _) => end_of_string(&chars, at + 1),
            ('r', Some('"' | '#')) if !is_word_before(&chars, at) => end_of_raw(&chars, at).unwrap_or(at),
            ('\'', Some('\\')) => end_of(&chars, at + 3, |rest| rest[0] == '\'', 1),
            ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => at + 3,
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            let skipped = &chars[at..end.min(chars.len())];
            out.push(' ');
            out.extend(skipped.iter().filter(|c| **c == '\n'));
            at = end;
        }
    }
    out
}

fn is_word_before(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_')
}

fn end_of(chars: &[char], from: usize, is_end: impl Fn(&[char]) -> bool, extra: usize) -> usize {
    (from..chars.len()).find(|at| is_end(&chars[*at..])).map_or(chars.len(), |at| at + extra)
}

fn end_of_string(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of a raw string that begins here; none if it is something else, such as `r#type`.
fn end_of_raw(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return None;
    }
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    Some(end_of(chars, at + 2 + hashes, |rest| rest.starts_with(&close), close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str)]) {
        let found = measure(text);
        let found: Vec<(usize, &str)> = found.iter().map(|(lines, name)| (*lines, name.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn functions_are_measured() {
        check("fn a() {\n    b();\n}\n", &[(3, "a")]);
        check("trait T { fn a(&self); fn b(x: [u8; 2]) -> u8 {\n 1 } }", &[(2, "b")]);
        check("fn a() {\n  fn b() {\n  }\n}\n", &[(2, "b"), (4, "a")]);
    }

    #[test]
    fn braces_in_texts_do_not_count() {
        check("fn a() {\n  let x = \"}\"; // }\n  let y = '}';\n  let z = r#\"}\"#; /* } \n */\n}\n", &[(6, "a")]);
        check("fn a<'a>(x: &'a str) -> char {\n  '\\''\n}\n", &[(3, "a")]);
    }

    #[test]
    fn a_test_module_is_not_counted() {
        assert_eq!(without_tests("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n").lines().count(), 2);
    }
}
