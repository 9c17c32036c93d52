//! The command line, as clap reads it. What the words mean is decided where they are used.

mod alert;
mod backfill;
mod cron;
mod examples;
mod file;
mod job;
mod past;
mod run;
mod secret;
mod serve;
mod simulate;
mod tool;

use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand};

pub(crate) use alert::{AlertCommand, AlertFields};
pub(crate) use backfill::{BackfillArgs, BackfillCommand};
pub(crate) use cron::{CronCommand, CronFields};
pub(crate) use examples::command;
pub(crate) use file::{ApplyArgs, ExportArgs, FileArgs};
pub(crate) use job::{JobCommand, JobFields, ShardCount};
pub(crate) use past::{AuditArgs, FreezeArgs, RerunArgs, ThawArgs, TopArgs, TopBy, WhyArgs};
pub(crate) use run::{LogsArgs, RunArgs, RunsArgs};
pub(crate) use secret::SecretCommand;
pub(crate) use serve::{BenchArgs, DevArgs, Scenario, ServeArgs, WorkerArgs};
pub(crate) use simulate::{SimulateArgs, VerdictLang};
pub(crate) use tool::{BackupArgs, RestoreArgs, Shell, SinceBackup};

/// The version, and that of the time-zone database that slots follow from.
static LONG_VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{}\ntzdb {}", env!("CARGO_PKG_VERSION"), rota_cron::tzdb_version()));

/// Decides when work runs, who runs it, and proves that it ran.
#[derive(Debug, Parser)]
#[command(name = "rota", version, long_version = LONG_VERSION.as_str(), propagate_version = true, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// The server [default: that of `.rota/cli.toml`, else http://127.0.0.1:7654]
    #[arg(long, global = true, env = "ROTA_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A token of the server [default: that of `.rota/cli.toml`]
    #[arg(long, global = true, env = "ROTA_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// The namespace
    #[arg(long, global = true, default_value = "default", value_name = "NAME")]
    pub(crate) namespace: String,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a playground: server, page, demo worker and demo jobs in one process
    Dev(DevArgs),
    /// Start a server
    Serve(ServeArgs),
    /// Start a worker with the built-in handlers
    Worker(WorkerArgs),
    #[command(flatten)]
    Ask(Ask),
    /// Look at a cron expression, without a server
    #[command(subcommand)]
    Cron(CronCommand),
    /// Measure a server of its own on this machine, under load
    Bench(BenchArgs),
    /// Say how many machines a workload needs under each strategy, without a server
    Simulate(SimulateArgs),
    /// The configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Ask a server whether it lives; no token is needed
    Health {
        /// Whether it takes work, too
        #[arg(long)]
        ready: bool,
    },
    /// Copy a running server's data into an archive
    Backup(BackupArgs),
    /// Make a data directory from an archive
    Restore(RestoreArgs),
    /// Print the JSON schema of the job file
    Schema,
    /// Print what a shell needs to complete commands
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write a manual page for every command
    Man {
        /// The folder to write them to; it is made if it is not there
        dir: std::path::PathBuf,
    },
}

/// What is a call to a server.
#[derive(Debug, Subcommand)]
pub(crate) enum Ask {
    /// Apps and their tokens
    #[command(subcommand)]
    App(AppCommand),
    /// Tokens that are no worker's
    #[command(subcommand)]
    Token(TokenCommand),
    /// Secrets that jobs use as {{secret.NAME}}
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Alerts: who is told of what is the matter with jobs
    #[command(subcommand)]
    Alert(AlertCommand),
    /// Jobs
    #[command(subcommand)]
    Job(JobCommand),
    /// Say what a job file would change; exits with 2 if it would change anything
    Plan(FileArgs),
    /// Make the jobs as a job file has them
    Apply(ApplyArgs),
    /// Write a job file of the jobs that there are
    Export(ExportArgs),
    /// Run a job now, follow its log, and exit with its result
    Run(RunArgs),
    /// List runs, newest first
    Runs(RunsArgs),
    /// Say what happened to a run, or at an instant of a job, and why
    Why(WhyArgs),
    /// Print the log of a run
    Logs(LogsArgs),
    /// Kill a run, or one shard of it
    Kill {
        /// A run, as printed, or its last characters
        run: String,
        /// Only this shard, from 0
        #[arg(long)]
        shard: Option<u32>,
    },
    /// Run again what has ended, follow its log, and exit with its result
    Rerun(RerunArgs),
    /// Backfills: jobs that run for a range of the past
    #[command(subcommand)]
    Backfill(BackfillCommand),
    /// Compare the ledger with the slots that jobs should have had; exit 1 on a difference
    Audit(AuditArgs),
    /// Name the jobs that fail most, start latest or run longest
    Top(TopArgs),
    /// Let nothing be started; what runs goes on
    Freeze(FreezeArgs),
    /// End a freeze
    Thaw(ThawArgs),
    /// Say that the server's clock is right, after it jumped by more than a day
    ConfirmClock,
    /// List workers
    Workers {
        /// Only those of this app
        #[arg(long)]
        app: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AppCommand {
    /// Make an app, or change its settings
    Add {
        name: String,
        /// Shards that may be admitted and not yet sent
        #[arg(long, value_name = "COUNT")]
        pending_max: Option<u32>,
        /// How fast dispatches may begin, as in 50/s or 10/m, or `none`
        #[arg(long)]
        rate: Option<String>,
        /// How many may begin at once
        #[arg(long, value_name = "COUNT")]
        burst: Option<u32>,
        /// A rate of the workers with these labels, as in `zone=a: 10/s`; may be given again, or `none`
        #[arg(long = "group", id = "groups", value_name = "SELECTOR: RATE")]
        groups: Vec<String>,
    },
    /// List apps, and where each stands
    List,
    /// Show an app: its caps, its rates, what waits for them
    Show {
        /// Its name
        name: String,
    },
    /// Make a worker token of an app, or take one over
    Token {
        name: String,
        /// Take over the token in this file
        #[arg(long, value_name = "FILE")]
        adopt: Option<std::path::PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token for people and programs; the newest two read tokens are valid
    Add {
        /// One that reads, and changes nothing
        #[arg(long, required = true)]
        read: bool,
    },
    /// List the valid tokens, by what they open
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every value, and where it came from
    Show {
        /// The file to read [default: rota.toml, if it exists]
        #[arg(long, value_name = "FILE")]
        config: Option<std::path::PathBuf>,
    },
    /// Print a file with every key, its meaning and its default
    Reference,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    fn check(line: &str, expected: Result<(), ErrorKind>) {
        let words = std::iter::once("rota").chain(line.split_whitespace());
        assert_eq!(Cli::try_parse_from(words).map(drop).map_err(|e| e.kind()), expected, "{line}");
    }

    #[test]
    fn commands_are_read() {
        for line in [
            "dev --fresh",
            "dev --listen 127.0.0.1:0",
            "serve --data d --listen 127.0.0.1:0 --admin-token-file t",
            "worker --app etl --token-file t --label disk=ssd --label zone=a --capacity 4 --allow-shell",
            "app add etl --pending-max 500",
            "app add etl --rate 50/s --burst 100 --group zone=a:10/s --group none",
            "app show etl",
            "app token etl --adopt FILE",
            "token add --read",
            "token list --json",
            "job add a --app etl --handler h --cron *",
            "job add ping --every 5s --url http://127.0.0.1/ --method POST --body x --header A:b",
            "job add once --at 2026-12-01T02:00:00+08:00 --app etl --handler h --shards 8 --retries 2 --retry-first 10s",
            "job edit a --overlap cancel_and_wait --overlap-max 2 --overlap-queue 3 --overlap-key tenant",
            "job edit a --timeout 5m --overlap skip --strategy APP_ROUND_ROBIN --labels disk=ssd --delivery at_most_once",
            "secret set PARTNER --file f",
            "secret list --json",
            "alert set oncall --feishu {{secret.FEISHU_URL}} --sign {{secret.S}} --when failed,lost --late 5m --language zh",
            "alert set mail --mail-server smtp:25 --mail-encryption none --mail-from a@b --mail-to c@d,e@f --no-success 1d",
            "alert test oncall",
            "alert open --json",
            "alert ack oncall settle failed",
            "alert rm oncall --force",
            "job edit a --alert oncall --alert late",
            "secret rm PARTNER --force",
            "job add ping --every 5s --url http://127.0.0.1/ --bearer {{secret.PARTNER}}",
            "job add a --app e --handler h --cron * --dst-gap skip --dst-overlap both --exclude sat,sun --exclude 12-25",
            "job edit a --include 2026-10-10 --active-from 2026-01-01 --active-until none --jitter 30s --dst quartz",
            "job list --app etl --json",
            "job rm a",
            "run a --param x --no-follow",
            "runs --job a --state failed --since 1h --limit 5 --json",
            "why r123",
            "why settle@2026-12-01T02:00:00+08:00",
            "audit --since 1h --job a --app e --until 5m",
            "top failing --since 1h --limit 3 --app e",
            "freeze --reason fire --app e",
            "thaw --missed fire_once",
            "confirm-clock --json",
            "rerun r123 --failed-shards --no-follow --request-id x",
            "backfill add a --from 2026-11-01 --to 2026-12-01 --pace 10/m --parallel 2 --reason x --request-id r",
            "backfill add a --from 2026-11-01 --dry-run --json",
            "backfill list --job a --open --limit 5",
            "backfill show b91",
            "backfill cancel b91 --kill",
            "runs --backfill b91",
            "job history a --json",
            "job diff a 1 2",
            "job pause a --reason v2",
            "logs r123 -f --shard 1 --attempt 2",
            "kill r123 --shard 2 --server http://127.0.0.1:1 --token x",
            "workers --app etl",
            "bench sustained --rate 1000 --seconds 5 --workers 8 --jobs 100",
            "config show",
            "cron next * --zone Asia/Shanghai --from 2026-12-01T00:00:00Z --count 3 --gap skip --overlap both --json",
            "cron next - --dialect quartz --dst quartz",
            "cron next * --dst-gap run_after --dst-overlap last --timezone -03:30 --job a",
            "cron explain * --lang zh",
            "config reference",
            "health --ready --server http://127.0.0.1:7654",
            "backup b.tar --with-key --logs",
            "backup b.tar --data d",
            "restore b.tar --data d --since-backup fire_once --key k",
            "completions zsh",
            "man target/man",
        ] {
            check(line, Ok(()));
        }
    }

    #[test]
    fn contradictions_are_refused() {
        check("job add a --app e --handler h --cron * --every 5s", Err(ErrorKind::ArgumentConflict));
        check("job add a --app e --handler h --url http://x/", Err(ErrorKind::ArgumentConflict));
        check("job add a --handler h --body x", Err(ErrorKind::ArgumentConflict));
        check("job edit a --body x", Err(ErrorKind::MissingRequiredArgument));
        check("job add a --url u --param x", Err(ErrorKind::ArgumentConflict));
        check("job add a --app e --every 5s", Err(ErrorKind::MissingRequiredArgument));
        check("restore b.tar --data d", Err(ErrorKind::MissingRequiredArgument));
        check("restore b --data d --since-backup skip --key k --drop-secrets", Err(ErrorKind::ArgumentConflict));
        check("job add a --app e --handler h --retry-first 5s", Err(ErrorKind::MissingRequiredArgument));
        check("job edit a", Err(ErrorKind::MissingRequiredArgument));
        check("job add a --app e --handler h --overlap maybe", Err(ErrorKind::InvalidValue));
        check("token add", Err(ErrorKind::MissingRequiredArgument));
        check("worker --app etl", Err(ErrorKind::MissingRequiredArgument));
        check("logs r1 --attempt 0", Err(ErrorKind::ValueValidation));
        check("job edit a --dst quartz --dst-gap skip", Err(ErrorKind::ArgumentConflict));
        check("cron next * --dst quartz --gap skip", Err(ErrorKind::ArgumentConflict));
        check("cron next * --dialect aws", Err(ErrorKind::InvalidValue));
        check("cron next * --count 100001", Err(ErrorKind::ValueValidation));
        check("alert set oncall --when failed", Err(ErrorKind::MissingRequiredArgument));
        check("alert set a --slack x --wecom y --when failed", Err(ErrorKind::ArgumentConflict));
        check("alert ack a b broken", Err(ErrorKind::InvalidValue));
        check("backfill add a", Err(ErrorKind::MissingRequiredArgument));
        check("backfill add a --from x --dry-run --request-id r", Err(ErrorKind::ArgumentConflict));
        check("freeze", Err(ErrorKind::MissingRequiredArgument));
        check("thaw --missed all", Err(ErrorKind::InvalidValue));
        check("top", Err(ErrorKind::MissingRequiredArgument));
        check("rnus", Err(ErrorKind::InvalidSubcommand));
    }
}
