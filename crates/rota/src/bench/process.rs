//! The measured server: a real `rota serve`, in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::audit::PARTITIONS;

/// How long a server may take to start with this many jobs.
const START: Duration = Duration::from_secs(120);
/// How long it may take to stop.
const STOP: Duration = Duration::from_secs(60);
/// The kernel's clock ticks a second, as it shows them to programs: 100 on every platform that Linux knows.
const TICKS: u64 = 100;

/// A server. Dropping it kills it.
pub(super) struct Server {
    child: Child,
    pid: u32,
    /// `host:port`.
    pub(super) authority: String,
    pub(super) token: String,
    /// From the start of the process to its first word.
    pub(super) ready: Duration,
    /// Kept open, so that the server can always write.
    _stdout: BufReader<ChildStdout>,
}

/// What the kernel says of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    pub(super) rss_bytes: u64,
    pub(super) rss_max_bytes: u64,
    pub(super) written_bytes: u64,
}

impl Server {
    /// Starts this binary on a folder, and waits until it takes requests.
    pub(super) async fn start(folder: &Path, retention: Option<&str>) -> Result<Server> {
        let token_file = folder.join("admin.token");
        let log = std::fs::File::create(folder.join("server.log"))?;
        let started = tokio::time::Instant::now();
        let mut command = Command::new(std::env::current_exe()?);
        if let Some(retention) = retention {
            command.env("ROTA_LEDGER__RETENTION", retention);
        }
        let mut child = command
            .arg("serve")
            .arg("--data")
            .arg(data(folder))
            .args(["--listen", "127.0.0.1:0", "--admin-token-file"])
            .arg(&token_file)
            .env("ROTA_STORE__PARTITIONS", PARTITIONS.to_string())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("starting the server")?;
        let pid = child.id().context("the server has ended already")?;
        let mut stdout = BufReader::new(child.stdout.take().expect("it was asked for"));
        let said = tokio::time::timeout(START, listening(&mut stdout)).await;
        let authority = match said.context("the server did not start in time")? {
            Ok(Some(authority)) => authority,
            Ok(None) | Err(_) => bail!("the server did not start: {}", tail(&folder.join("server.log"))),
        };
        let ready = started.elapsed();
        let token = std::fs::read_to_string(&token_file).context("reading the admin token")?.trim().to_owned();
        Ok(Server { child, pid, authority, token, ready, _stdout: stdout })
    }

    /// What it has used so far.
    pub(super) fn usage(&self) -> Result<Usage> {
        let read = |name: &str| {
            let path = PathBuf::from(format!("/proc/{}/{name}", self.pid));
            std::fs::read_to_string(&path).with_context(|| format!("reading {}; this needs Linux", path.display()))
        };
        usage(&read("stat")?, &read("status")?, &read("io").unwrap_or_default())
    }

    /// Stops it in order, and waits for its end.
    pub(super) async fn stop(mut self) -> Result<()> {
        // Every shell can send a signal; the standard library cannot.
        let pid = self.pid.to_string();
        let told = Command::new("sh").args(["-c", "kill -TERM \"$0\"", &pid]).status().await?;
        anyhow::ensure!(told.success(), "the server could not be told to stop");
        let ended =
            tokio::time::timeout(STOP, self.child.wait()).await.context("the server did not stop in time")??;
        anyhow::ensure!(ended.success(), "the server stopped with {ended}");
        Ok(())
    }
}

/// Where a server in this folder keeps its data.
pub(super) fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// The address of the first line that names one.
async fn listening(stdout: &mut BufReader<ChildStdout>) -> Result<Option<String>> {
    let mut line = String::new();
    while stdout.read_line(&mut line).await? > 0 {
        if let Some((_, address)) = line.trim().split_once("listening on http://") {
            return Ok(Some(address.to_owned()));
        }
        line.clear();
    }
    Ok(None)
}

fn tail(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

fn usage(stat: &str, status: &str, io: &str) -> Result<Usage> {
    // The command's name may hold blanks and brackets; what follows its last bracket does not.
    let (_, after) = stat.rsplit_once(')').context("/proc/PID/stat has another form")?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    // Fields 14 and 15 of the file are the 12th and 13th after the name.
    let ticks = ticks(11).zip(ticks(12)).map(|(user, system)| user + system).context("/proc/PID/stat is short")?;
    let number = |text: &str, key: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    Ok(Usage {
        cpu: Duration::from_millis(ticks * (1_000 / TICKS)),
        rss_bytes: number(status, "VmRSS:") << 10,
        rss_max_bytes: number(status, "VmHWM:") << 10,
        written_bytes: number(io, "write_bytes:"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_read() {
        let stat = "12 (ro ta) x) S 1 12 12 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 5 0 100 1000 200";
        let status = "Name:\trota\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n";
        let usage = usage(stat, status, "rchar: 1\nwrite_bytes: 77\n").unwrap();
        assert_eq!(usage.cpu, Duration::from_secs(3));
        assert_eq!((usage.rss_bytes, usage.rss_max_bytes, usage.written_bytes), (1 << 20, 2 << 20, 77));
        assert!(super::usage("nonsense", "", "").is_err());
    }
}
