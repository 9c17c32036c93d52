//! A real `rota serve` on a folder of its own, that can be killed and started again where it was.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::api::Api;
use crate::clock::wait_for;
use crate::process::{Process, rota};

/// A server that takes requests, or is about to again.
pub(crate) struct Server {
    folder: PathBuf,
    data: PathBuf,
    settings: Vec<(String, String)>,
    process: Option<Process>,
    starts: u32,
    pub(crate) api: Api,
}

impl Server {
    /// Starts a server in a folder, with settings such as `("ROTA_TIMING__DOUBT", "20s")`.
    pub(crate) fn start(folder: &Path, settings: &[(&str, &str)]) -> Server {
        Server::start_at(folder, &folder.join("data"), settings)
    }

    /// The same with its data elsewhere.
    pub(crate) fn start_at(folder: &Path, data: &Path, settings: &[(&str, &str)]) -> Server {
        let nowhere = "127.0.0.1:0".parse().expect("an address");
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut server = Server {
            folder: folder.to_owned(),
            data: data.to_owned(),
            settings,
            process: None,
            starts: 0,
            api: Api { address: nowhere, token: String::new() },
        };
        server.begin();
        server.ready();
        let token = std::fs::read_to_string(folder.join("admin.token")).expect("the server made it");
        server.api.token = token.trim().to_owned();
        server
    }

    /// The command that starts it at the address that it had.
    fn command(&self) -> Command {
        let mut command = rota(&self.folder);
        command.arg("serve").arg("--data").arg(&self.data).args(["--admin-token-file", "admin.token", "--listen"]);
        command.arg(self.api.address.to_string());
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts its process, and does not wait for it.
    pub(crate) fn begin(&mut self) {
        assert!(self.process.is_none(), "one server at a time");
        self.starts += 1;
        let output = self.folder.join(format!("server-{}.log", self.starts));
        self.process = Some(Process::start(self.command(), &output));
    }

    /// Waits until it takes requests.
    pub(crate) fn ready(&mut self) {
        let process = self.process.as_mut().expect("it was begun");
        let line = process.line_with("listening on http://");
        let (_, address) = line.split_once("http://").expect("it was looked for");
        self.api.address = address.trim().parse().expect("it prints its address");
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// What its process keeps in memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process().id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells");
        line.trim().trim_end_matches("kB").trim().parse().expect("a number")
    }

    /// Ends it as a power cut would, and starts it at once.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.begin();
        self.ready();
    }

    /// Starts it on another data directory, where everybody finds it as before.
    pub(crate) fn move_to(&mut self, data: &Path) {
        self.data = data.to_owned();
        self.begin();
        self.ready();
    }

    /// Stops it in order, and starts it again where it was.
    pub(crate) fn restart_in_order(&mut self) {
        assert_eq!(self.process.take().expect("it runs").stop(), 0);
        self.begin();
        self.ready();
    }

    /// Stops it in order; the code that it ends with.
    pub(crate) fn stop(mut self) -> i32 {
        self.process.take().expect("it runs").stop()
    }

    pub(crate) fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    /// Makes an app; its worker token.
    pub(crate) fn app(&self, app: &str) -> String {
        self.api.ask("PUT", &format!("/api/v1/apps/{app}"), &json!({}));
        let made = self.api.post(&format!("/api/v1/apps/{app}/token"), &json!({}));
        made["token"].as_str().expect("a token was made").to_owned()
    }

    /// Makes a job; what the server answers.
    pub(crate) fn job(&self, spec: &Value) -> Value {
        self.api.post("/api/v1/jobs", spec)
    }

    /// Starts a `rota worker` of an app with a journal, and waits until it is online.
    pub(crate) fn worker(&self, app: &str, token: &str, name: &str, more: &str) -> Process {
        let token_file = self.folder.join(format!("{app}.token"));
        std::fs::write(&token_file, token).expect("the story's folder can be written");
        let mut command = rota(&self.folder);
        command.args(["worker", "--app", app, "--name", name, "--server", &format!("http://{}", self.api.address)]);
        command.arg("--token-file").arg(token_file).arg("--journal").arg(self.journal(name));
        command.args(more.split_whitespace());
        let mut process = Process::start(command, &self.folder.join(format!("{name}.log")));
        process.line_with("online");
        process
    }

    /// Where a worker of this name writes what it did.
    pub(crate) fn journal(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.journal"))
    }

    /// Waits until a run has ended; what became of it.
    pub(crate) fn ended(&self, run: &str) -> Value {
        wait_for(run, || self.api.run(run), |run| run["is_ended"] == true)
    }

    /// Waits until `/readyz` answers with this status; what it says.
    pub(crate) fn readyz(&self, status: u16) -> String {
        let ask = || self.api.call("GET", "/readyz", b"").expect("the server runs");
        wait_for("/readyz", ask, |answer| answer.status == status).text
    }
}
