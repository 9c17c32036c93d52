//! `shell`: runs a command, in a process group of its own.
//!
//! The parameter is a command line for `sh -c`, or a JSON array of program and arguments, which no
//! shell sees. The command's standard input is empty; what it writes to standard output and standard
//! error becomes log lines; exit status 0 is success. It finds in its environment, beside the worker's
//! own without `ROTA_TOKEN`: `ROTA_RUN`, `ROTA_ATTEMPT` (the number within its shard),
//! `ROTA_ATTEMPT_ID`, `ROTA_SHARD_INDEX` (from 0), `ROTA_SHARD_TOTAL`, `ROTA_SLOT`, `ROTA_ZONE`,
//! `ROTA_JOB`, `ROTA_IDEMPOTENCY_KEY`, and `ROTA_PARAM` if it has at most 64 KiB (a system
//! refuses longer variables).
//!
//! The attempt owns the group: when the command ends, whatever it left running in its group is killed.
//! To stop, the group gets SIGTERM and, when most of the grace is over, SIGKILL.
//!
//! When the worker itself dies, be it by SIGKILL, its commands die too. The group's first member is a
//! watchdog that does nothing but read from a pipe which only the worker holds; the pipe ends with the
//! worker, and the watchdog kills the group, itself included. (The parent-death signal of Linux would
//! not do: it reaches no grandchildren, and fires when the *thread* that spawned the child ends.) The
//! watchdog is reaped last, so the group's number cannot be another group's while we signal it.
//!
//! Absent on purpose: a command that makes a session of its own (`setsid`) leaves the group, and is
//! not followed.

use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};

use crate::context::Context;
use crate::logs::{LINE_BYTES_MAX, mark_cut};

const PARAM_VARIABLE_BYTES_MAX: usize = 64 << 10;
/// After the group is dead, how long its pipes may stay open: only for what left the group.
const PIPES_CLOSE: Duration = Duration::from_secs(1);
/// Ignores what the group is stopped by, waits for the end of its pipe, kills its group.
const WATCHDOG: &str = "trap '' HUP INT QUIT TERM; read -r _; kill -s KILL 0";

pub(crate) async fn shell(context: Context) -> Result<Option<String>, String> {
    let mut command = command(context.param())?;
    set_environment(&mut command, &context);
    let mut group = Group::open()?;
    command.process_group(group.number.as_raw()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("the command cannot be started: {error}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let last_error_line = Mutex::new(None);
    let mut output = std::pin::pin!(async {
        tokio::join!(
            copy(stdout.expect("it is piped"), |line| context.log_line(line)),
            copy(stderr.expect("it is piped"), |line| {
                *last_error_line.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
                context.log_line(line);
            }),
        );
    });
    let (mut is_read, mut kill_at) = (false, None);
    let status = loop {
        let stop_kindly =
            async { if kill_at.is_none() { context.cancelled().await } else { std::future::pending().await } };
        let stop_firmly =
            async { if let Some(at) = kill_at { sleep_until(at).await } else { std::future::pending().await } };
        tokio::select! {
            // The end first: what has ended needs no signal.
            biased;
            status = child.wait() => break status.map_err(|error| format!("the command cannot be awaited: {error}"))?,
            () = stop_kindly => {
                group.signal(Signal::SIGTERM);
                kill_at = Some(Instant::now() + context.stop_grace() * 4 / 5);
            }
            () = stop_firmly => {
                group.signal(Signal::SIGKILL);
                kill_at = Some(Instant::now() + context.stop_grace());
            }
            () = &mut output, if !is_read => is_read = true,
        }
    };
    group.close().await;
    if !is_read && timeout(PIPES_CLOSE, &mut output).await.is_err() {
        context.log("[rota] something that left the command's process group still holds its output; not followed");
    }
    let last_error_line = last_error_line.lock().unwrap_or_else(PoisonError::into_inner).take();
    conclude(status, last_error_line)
}

/// The command that a parameter means.
fn command(param: &str) -> Result<Command, String> {
    let trimmed = param.trim();
    if trimmed.is_empty() {
        return Err("the parameter is blank: give a command line, or a JSON array of program and arguments".to_owned());
    }
    match serde_json::from_str::<Vec<String>>(trimmed) {
        Ok(words) => {
            let (program, arguments) = words.split_first().ok_or("the parameter names no program".to_owned())?;
            let mut command = Command::new(program);
            command.args(arguments);
            Ok(command)
        }
        // `[ -e file ]` is a command line; `["…` is not.
        Err(error) if trimmed.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with('"')) => {
            Err(format!("the parameter is not a JSON array of program and arguments: {error}"))
        }
        Err(_) => {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(param);
            Ok(command)
        }
    }
}

fn set_environment(command: &mut Command, context: &Context) {
    command
        .env_remove("ROTA_TOKEN")
        .env("ROTA_RUN", context.run().to_string())
        .env("ROTA_ATTEMPT", context.number().to_string())
        .env("ROTA_ATTEMPT_ID", context.attempt().to_string())
        .env("ROTA_SHARD_INDEX", context.shard().to_string())
        .env("ROTA_SHARD_TOTAL", context.shards().to_string())
        .env("ROTA_SLOT", context.slot())
        .env("ROTA_ZONE", context.zone())
        .env("ROTA_JOB", context.job_name())
        .env("ROTA_IDEMPOTENCY_KEY", context.idempotency_key());
    if let Some(traceparent) = context.traceparent() {
        command.env("TRACEPARENT", traceparent);
    }
    if context.param().len() <= PARAM_VARIABLE_BYTES_MAX {
        command.env("ROTA_PARAM", context.param());
    }
}

fn conclude(status: ExitStatus, last_error_line: Option<String>) -> Result<Option<String>, String> {
    if status.success() {
        return Ok(None);
    }
    let text = match (status.code(), std::os::unix::process::ExitStatusExt::signal(&status)) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    };
    Err(match last_error_line {
        Some(line) => format!("{text}: {line}"),
        None => text,
    })
}

/// A process group, with the watchdog that ends it together with the worker.
struct Group {
    watchdog: Child,
    number: Pid,
}

impl Group {
    fn open() -> Result<Group, String> {
        let watchdog = Command::new("/bin/sh")
            .args(["-c", WATCHDOG])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("/bin/sh cannot be started: {error}"))?;
        let id = watchdog.id().expect("it was not awaited yet");
        let number = Pid::from_raw(i32::try_from(id).expect("process ids are positive 32-bit integers"));
        Ok(Group { watchdog, number })
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = killpg(self.number, signal) {
            tracing::debug!(%error, %signal, "group_not_signalled");
        }
    }

    /// Kills what is left of the group, and reaps the watchdog.
    async fn close(&mut self) {
        self.signal(Signal::SIGKILL);
        if let Err(error) = self.watchdog.wait().await {
            tracing::debug!(%error, "watchdog_not_reaped");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // An id means that the watchdog was not reaped, so the number is still this group's.
        if self.watchdog.id().is_some() {
            self.signal(Signal::SIGKILL);
        }
    }
}

/// Reads to the end, line by line.
async fn copy(mut from: impl AsyncRead + Unpin, mut emit: impl FnMut(String)) {
    let mut chunk = vec![0_u8; 8 << 10];
    let mut lines = Lines::default();
    loop {
        match from.read(&mut chunk).await {
            Ok(0) => break,
            Ok(length) => lines.feed(&chunk[..length], &mut emit),
            Err(error) => {
                tracing::debug!(%error, "output_not_read");
                break;
            }
        }
    }
    lines.end(&mut emit);
}

/// Bytes to lines, each bounded.
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
    cut_bytes: usize,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], emit: &mut impl FnMut(String)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            let kept = text.len().min(LINE_BYTES_MAX - self.line.len());
            self.line.extend_from_slice(&text[..kept]);
            self.cut_bytes += text.len() - kept;
            if is_whole {
                self.emit(emit);
            }
        }
    }

    fn end(&mut self, emit: &mut impl FnMut(String)) {
        if !self.line.is_empty() {
            self.emit(emit);
        }
    }

    fn emit(&mut self, emit: &mut impl FnMut(String)) {
        let bytes = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let line = String::from_utf8_lossy(bytes).into_owned();
        emit(if self.cut_bytes > 0 { mark_cut(line, self.cut_bytes) } else { line });
        self.line.clear();
        self.cut_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut all) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.feed(chunk, &mut |line| all.push(line));
        }
        lines.end(&mut |line| all.push(line));
        all
    }

    #[test]
    fn output_becomes_bounded_lines() {
        assert_eq!(lines(&[b"one\ntw", b"o\r\n\nthree"]), ["one", "two", "", "three"]);
        assert_eq!(lines(&[b"\xff\n"]), ["\u{fffd}"]);
        let long = vec![b'x'; LINE_BYTES_MAX];
        let cut = lines(&[&long, b"yz", b"\nnext"]);
        assert!(cut[0].ends_with("x [rota] 2 bytes cut"));
        assert_eq!(cut[1], "next");
    }

    #[test]
    fn parameters_mean_commands() {
        let said = |param| match command(param) {
            Ok(command) => {
                let command = command.as_std();
                let mut words = vec![command.get_program().to_string_lossy().into_owned()];
                words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
                words.join("|")
            }
            Err(error) => error,
        };
        assert_eq!(said("echo hi"), "/bin/sh|-c|echo hi");
        assert_eq!(said("[ -e x ] && echo y"), "/bin/sh|-c|[ -e x ] && echo y");
        assert_eq!(said(r#"["a b", "--c"]"#), "a b|--c");
        assert_eq!(said("[]"), "the parameter names no program");
        assert!(said(r#"["a", 1]"#).contains("not a JSON array"));
        assert!(said(" ").contains("blank"));
    }
}
