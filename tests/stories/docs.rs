//! The documents' commands do what the documents say: every `console` block of a page is run as it stands, in order.
//!
//! A line that starts with `$ ` is a command, which must end with 0. The lines under it have to be in its output, in
//! that order; `…` stands for anything, and `r…` in a command for the last run that was shown. A block marked
//! `console background` goes on until the page's end. What a page takes for granted stands in such blocks too, as a
//! comment that is not shown (`<!-- console`).

use std::path::Path;
use std::process::Command;

use crate::folder::Folder;
use crate::process::{Process, rota, text_of};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

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
            (None, "```console" | "<!-- console") => block = Some(false),
            (None, "```console background" | "<!-- console background") => block = Some(true),
            (Some(_), "```" | "-->") => block = None,
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
    // What a reader has at hand.
    command.env("URL", "http://127.0.0.1:9/robot").env("TOKEN", "a-token-of-the-partner");
    command.args(["-c", &format!("PATH=\"{}:$PATH\"; {line}", beside.display())]).current_dir(folder);
    for (name, value) in binary.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// A page that is being run.
struct Page {
    name: &'static str,
    folder: Folder,
    /// What the page says, and what stands for it here: free ports, and a folder in place of those of the system.
    meant: Vec<(String, String)>,
    background: Vec<Process>,
    /// The last run that was shown.
    run: String,
    /// Lines that set variables for all that follows.
    exports: String,
}

impl Page {
    fn here(&self, line: &str) -> String {
        self.meant.iter().fold(line.to_owned(), |line, (said, meant)| line.replace(said, meant))
    }

    fn step(&mut self, step: &Step) {
        let name = self.name;
        let command = self.here(&step.command).replace("r…", &self.run);
        if command.starts_with("export ") {
            self.exports.push_str(&format!("{command}; "));
        }
        // In the order in which a terminal shows it.
        let output = shell(self.folder.path(), &format!("exec 2>&1; {}{command}", self.exports)).output();
        let output = output.expect("every system has a shell");
        let text = text_of(&output);
        assert!(output.status.success(), "{name}: $ {command}\n{text}");
        let expected: Vec<String> = step.expected.iter().map(|line| self.here(line)).collect();
        assert_eq!(missing(&text, &expected), None, "{name}: $ {command}\n{text}");
        let is_run =
            |word: &&str| word.len() > 8 && word.starts_with('r') && word[1..].chars().all(char::is_alphanumeric);
        let shown = text.lines().filter_map(|line| line.split_whitespace().next()).find(is_run);
        self.run = shown.map_or_else(|| std::mem::take(&mut self.run), str::to_owned);
    }

    /// Starts what goes on. A server gets a free port, which stands for the one that the page names from then on.
    fn start(&mut self, step: &Step) {
        let command = match step.command.as_str() {
            // It builds, and then is this.
            "make dev" => "rota dev".to_owned(),
            command => self.here(command),
        };
        let port = match command.split_once("--listen 0.0.0.0:") {
            Some((_, rest)) => rest.split(' ').next().map(str::to_owned),
            None => (command == "rota dev").then(|| "7654".to_owned()),
        };
        let line = match &port {
            Some(_) if command == "rota dev" => "exec rota dev --listen 127.0.0.1:0".to_owned(),
            Some(port) => format!("exec {}", command.replace(&format!("0.0.0.0:{port}"), "127.0.0.1:0")),
            None => format!("exec {command}"),
        };
        let log = self.folder.path().join(format!("background-{}.log", self.background.len()));
        let mut process = Process::start(shell(self.folder.path(), &line), &log);
        for wanted in &step.expected {
            let part = wanted.split('…').max_by_key(|part| part.len()).expect("a split has a part");
            let Some(port) = &port else {
                process.line_with(part);
                continue;
            };
            let seen = process.line_with(part.split("http://").next().unwrap_or(part));
            let address = seen
                .split_whitespace()
                .find_map(|word| word.strip_prefix("http://").or(word.strip_prefix("127.0.0.1:").map(|_| word)));
            let address = address.expect("where it listens").trim_end_matches('/').to_owned();
            self.meant.insert(0, (format!("127.0.0.1:{port}"), address));
        }
        self.background.push(process);
    }
}

/// Runs a page to its end.
fn run_page(name: &'static str) {
    let page = std::fs::read_to_string(format!("{ROOT}/{name}")).unwrap();
    let steps = steps(&page);
    assert!(steps.len() > 2, "{name} has commands");
    let folder = Folder::new();
    let meant = ["/var/lib/", "/etc/rota/", "/backup/"].map(|path| (path.to_owned(), "./".to_owned())).to_vec();
    let mut page = Page { name, folder, meant, background: Vec::new(), run: String::new(), exports: String::new() };
    for step in &steps {
        if step.is_background { page.start(step) } else { page.step(step) }
    }
    // The last one started is the first to stop: a worker, then its server.
    for process in page.background.into_iter().rev() {
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

/// A test for each page, so that they run beside one another.
macro_rules! pages {
    ($($test:ident $page:literal)*) => {
        $(
            #[test]
            fn $test() {
                run_page($page);
            }
        )*

        #[test]
        fn every_page_with_commands_is_run() {
            let run = [$($page),*];
            let pages = std::fs::read_dir(format!("{ROOT}/docs")).unwrap().map(|entry| entry.unwrap().file_name());
            let pages = pages.map(|name| format!("docs/{}", name.to_string_lossy()));
            for page in pages.filter(|page| page.ends_with(".md")).chain(["README.md".to_owned()]) {
                let text = std::fs::read_to_string(format!("{ROOT}/{page}")).unwrap();
                assert_eq!(!steps(&text).is_empty(), run.contains(&page.as_str()), "{page}");
            }
        }
    };
}

pages! {
    the_readme_is_true "README.md"
    the_quick_start_is_true "docs/quick-start.md"
    operations_are_true "docs/operations.md"
    alerts_are_true "docs/alerts.md"
    overlap_is_true "docs/overlap.md"
    rates_are_true "docs/rates.md"
    secrets_are_true "docs/templates.md"
    schedules_are_true "docs/schedules.md"
}
