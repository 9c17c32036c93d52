//! A process of the binary, and what it printed. It ends with the story.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::clock::wait_for;

/// A process that goes on. What it prints goes to a file, so that nobody has to read for it to go on.
pub(crate) struct Process {
    child: Child,
    output: PathBuf,
}

/// A command of the binary, without the settings of whoever runs the tests.
pub(crate) fn rota(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rota"));
    command.current_dir(folder).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ROTA_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs `rota` with these words to its end.
pub(crate) fn run(folder: &Path, line: &str) -> Output {
    rota(folder).args(line.split_whitespace()).output().expect("the binary was built")
}

/// What `rota` with these words said, which must end with this code.
pub(crate) fn said(folder: &Path, line: &str, code: i32) -> String {
    let output = run(folder, line);
    let text = text_of(&output);
    assert_eq!(output.status.code(), Some(code), "rota {line}\n{text}");
    text
}

/// The JSON that `rota` with these words answers.
pub(crate) fn json(folder: &Path, line: &str) -> serde_json::Value {
    let output = run(folder, &format!("{line} --json"));
    assert!(output.status.success(), "rota {line}\n{}", text_of(&output));
    serde_json::from_slice(&output.stdout).expect("JSON, as asked")
}

/// Both of its outputs.
pub(crate) fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Process {
    /// Starts a command; `output` is a file for what it says.
    pub(crate) fn start(mut command: Command, output: &Path) -> Process {
        let file = std::fs::File::create(output).expect("the story's folder can be written");
        let both = file.try_clone().expect("a file has two handles");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(both).spawn().expect("the program is there");
        Process { child, output: output.to_owned() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// The first whole line that has this in it, once it is there.
    pub(crate) fn line_with(&mut self, part: &str) -> String {
        let found = |text: &str| {
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            whole.lines().find(|line| line.contains(part)).map(str::to_owned)
        };
        let seen = wait_for(
            part,
            || {
                let ended = self.child.try_wait().expect("it is our child");
                (self.printed(), ended)
            },
            |(text, ended)| ended.is_some() || found(text).is_some(),
        );
        found(&seen.0).unwrap_or_else(|| panic!("it ended without a line with `{part}`: {:?}\n{}", seen.1, seen.0))
    }

    /// Asks it to stop; the code that it ends with, -1 for a signal.
    pub(crate) fn stop(mut self) -> i32 {
        signal("TERM", self.id());
        self.wait()
    }

    /// The code that it ends with by itself, -1 for a signal.
    pub(crate) fn wait(&mut self) -> i32 {
        let ended = wait_for("the end of a process", || self.child.try_wait().ok().flatten(), Option::is_some);
        ended.and_then(|status| status.code()).unwrap_or(-1)
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal. Every shell can; the standard library cannot.
pub(crate) fn signal(name: &str, pid: u32) {
    let line = format!("kill -{name} {pid}");
    assert!(Command::new("sh").args(["-c", &line]).status().expect("every system has a shell").success(), "{line}");
}

/// Whether a process runs. One that only waits to be buried does not.
pub(crate) fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}
