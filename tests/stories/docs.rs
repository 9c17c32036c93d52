//! The documents' commands do what the documents say: every `console` block of a page is run as it stands, in order.
//!
//! A line that starts with `$ ` is a command, which must end with 0. The lines under it have to be in its output, in
//! that order; `…` stands for anything. A block marked `console background` goes on until the page's end.

use std::path::Path;
use std::process::Command;

use crate::folder::Folder;
use crate::process::{Process, rota, text_of};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    expected: Vec<String>,
    is_background: bool,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block: Option<bool> = None;
    for line in page.lines() {
        match (block, line) {
            (None, "```console") => block = Some(false),
            (None, "```console background") => block = Some(true),
            (Some(_), "```") => block = None,
            (Some(is_background), line) => match line.strip_prefix("$ ") {
                Some(command) => {
                    steps.push(Step { command: command.to_owned(), expected: Vec::new(), is_background });
                }
                None => steps.last_mut().expect("a command before its answer").expected.push(line.to_owned()),
            },
            (None, _) => {}
        }
    }
    steps
}

/// Whether a line is as a page has it.
fn is_like(line: &str, expected: &str) -> bool {
    let Some((first, rest)) = expected.split_once('…') else { return line.trim_end() == expected.trim_end() };
    let Some(mut left) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let last = parts.pop().expect("a split has a part");
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.trim_end().ends_with(last)
}

/// The first of the expected lines that is not there.
fn missing<'e>(output: &str, expected: &'e [String]) -> Option<&'e str> {
    let mut lines = output.lines();
    expected.iter().map(String::as_str).find(|wanted| !lines.any(|line| is_like(line, wanted)))
}

fn shell(folder: &Path, line: &str) -> Command {
    // The settings of the binary's own command, and the binary on the path.
    let binary = rota(folder);
    let beside = Path::new(binary.get_program()).parent().expect("a binary is in a folder");
    let mut command = Command::new("bash");
    command.args(["-c", &format!("PATH=\"{}:$PATH\"; {line}", beside.display())]).current_dir(folder);
    for (name, value) in binary.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Runs a page. The server that it starts gets a free port, which stands for the usual one from then on.
fn run_page(name: &str) {
    let folder = Folder::new();
    let at = folder.path();
    let page = std::fs::read_to_string(format!("{DOCS}/{name}")).unwrap();
    let steps = steps(&page);
    assert!(steps.len() > 3, "{name} has commands");
    let mut address = "127.0.0.1:7654".to_owned();
    let mut background: Vec<Process> = Vec::new();
    for step in steps {
        let with_address = |line: &str| line.replace("127.0.0.1:7654", &address);
        let command = with_address(&step.command);
        if !step.is_background {
            // In the order in which a terminal shows it.
            let output = shell(at, &format!("exec 2>&1; {command}")).output().expect("every system has a shell");
            let text = text_of(&output);
            assert!(output.status.success(), "{name}: $ {command}\n{text}");
            let expected: Vec<String> = step.expected.iter().map(|line| with_address(line)).collect();
            assert_eq!(missing(&text, &expected), None, "{name}: $ {command}\n{text}");
            continue;
        }
        let is_server = command == "rota dev";
        let line = if is_server { "exec rota dev --listen 127.0.0.1:0".to_owned() } else { format!("exec {command}") };
        let log = at.join(format!("background-{}.log", background.len()));
        let mut process = Process::start(shell(at, &line), &log);
        for wanted in &step.expected {
            let part = wanted.split('…').max_by_key(|part| part.len()).expect("a split has a part");
            let seen = process.line_with(if is_server { part.split("127.").next().unwrap_or(part) } else { part });
            if is_server {
                let url = seen.split_whitespace().find_map(|word| word.strip_prefix("http://"));
                url.expect("the page's address").clone_into(&mut address);
            }
        }
        background.push(process);
    }
    // The last one started is the first to stop: a worker, then its server.
    for process in background.into_iter().rev() {
        assert_eq!(process.stop(), 0, "{name}");
    }
}

#[test]
fn lines_are_compared_but_for_what_differs() {
    for (line, expected, is_equal) in [
        ("a b", "a b", true),
        ("a b  ", "a b", true),
        ("a b", "a", false),
        ("a 12 b", "a … b", true),
        ("x a 12 b y", "…a…b…", true),
        ("b a", "…a…b…", false),
        ("abc", "…c", true),
        ("abc", "…b", false),
    ] {
        assert_eq!(is_like(line, expected), is_equal, "{line} / {expected}");
    }
    let page = "```console\n$ one\nx\n$ two\n```\ntext\n```console background\n$ three\n```\n";
    let found: Vec<(String, usize, bool)> =
        steps(page).into_iter().map(|step| (step.command, step.expected.len(), step.is_background)).collect();
    assert_eq!(found, [("one".into(), 1, false), ("two".into(), 0, false), ("three".into(), 0, true)]);
    assert_eq!(missing("a\nb\nc", &["a".into(), "c".into()]), None);
    assert_eq!(missing("a\nb\nc", &["c".into(), "a".into()]), Some("a"));
}

#[test]
fn the_quick_start_is_true() {
    run_page("quick-start.md");
}
