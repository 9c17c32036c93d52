//! A real `rota` in a folder of its own, which ends with the test.

use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long anything that is waited for may take, on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A process that goes on, and the lines that it printed.
pub(crate) struct Running {
    child: Option<Child>,
    lines: Receiver<String>,
}

/// Runs a command to its end.
pub(crate) fn rota(folder: &Path, line: &str) -> Output {
    command(folder, line).stdin(Stdio::null()).output().expect("the binary was built")
}

/// What a command printed, which must have ended with this code.
pub(crate) fn said(folder: &Path, line: &str, code: i32) -> String {
    let output = rota(folder, line);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "rota {line}\n{out}{err}");
    format!("{out}{err}")
}

/// The JSON that a command printed.
pub(crate) fn json(folder: &Path, line: &str) -> serde_json::Value {
    let output = rota(folder, &format!("{line} --json"));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "rota {line}\n{err}");
    serde_json::from_slice(&output.stdout).expect("JSON, as asked")
}

/// Asks again until the answer is right; fails with the last one after [`PATIENCE`].
pub(crate) fn wait_for<T: std::fmt::Debug>(mut ask: impl FnMut() -> T, is_right: impl Fn(&T) -> bool) -> T {
    let began = now();
    loop {
        let answer = ask();
        if is_right(&answer) {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "it never came; the last answer was {answer:?}");
        // Each ask starts a process, which is pause enough.
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's patience is real time")]
fn now() -> Instant {
    Instant::now()
}

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rota"));
    command.args(line.split(' ').filter(|word| !word.is_empty())).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ROTA_") {
            command.env_remove(name);
        }
    }
    command
}

impl Running {
    pub(crate) fn start(folder: &Path, line: &str) -> Running {
        let mut child = command(folder, line)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        // A test reads a few dozen lines; beyond that the process waits, and the test with it, up to its bound.
        let (sender, lines) = sync_channel(10_000);
        pass_on(child.stdout.take().expect("it was asked for"), sender.clone());
        pass_on(child.stderr.take().expect("it was asked for"), sender);
        Running { child: Some(child), lines }
    }

    /// The first line, from here on, that has this in it.
    pub(crate) fn line_with(&self, part: &str) -> String {
        let began = now();
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no line with `{part}`; there were\n{}", seen.join("\n"))
                }
            }
        }
    }

    /// Asks it to stop, and waits for its end.
    pub(crate) fn stop(mut self) -> i32 {
        let child = self.child.take().expect("it is taken once");
        let told = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &child.id().to_string()]).status();
        assert!(told.expect("every system has a shell").success());
        wait(child)
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        let mut child = self.child.take().expect("it is taken once");
        child.kill().expect("it runs");
        wait(child);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn pass_on(stream: impl Read + Send + 'static, to: SyncSender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

/// The exit code; -1 for an end by a signal.
fn wait(mut child: Child) -> i32 {
    let (sender, ended) = sync_channel(1);
    std::thread::spawn(move || sender.send(child.wait()));
    let status = ended.recv_timeout(PATIENCE).expect("it ends");
    status.expect("it is our child").code().unwrap_or(-1)
}
