//! What every `--help` ends with. A test reads each example as the command line would, so none is ever out of date.

use clap::{Command, CommandFactory};

use super::Cli;

/// By the words of the command; every command that does something has its own.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("dev", &["rota dev", "rota dev --fresh --listen 127.0.0.1:8000"]),
    (
        "serve",
        &[
            "rota serve --data /var/lib/rota --listen 0.0.0.0:7654 --admin-token-file /etc/rota/admin.token",
            "rota serve --config /etc/rota/rota.toml",
        ],
    ),
    (
        "worker",
        &[
            "rota worker --app etl --token-file etl.token",
            "rota worker --app etl --token-file etl.token --name etl-1 --label disk=ssd --capacity 4 --allow-shell",
        ],
    ),
    (
        "app add",
        &[
            "rota app add etl",
            "rota app add etl --pending-max 500",
            "rota app add etl --rate 50/s --burst 100 --group 'zone=a: 10/s'",
        ],
    ),
    ("app list", &["rota app list"]),
    ("app show", &["rota app show etl"]),
    ("app token", &["rota app token etl > etl.token", "rota app token etl --adopt old.token"]),
    ("token add", &["rota token add --read"]),
    ("token list", &["rota token list"]),
    ("secret set", &["rota secret set PARTNER --file partner.token", "rota secret set PARTNER < partner.token"]),
    ("secret list", &["rota secret list", "rota secret list --json"]),
    ("secret rm", &["rota secret rm PARTNER", "rota secret rm PARTNER --force"]),
    (
        "job add",
        &[
            "rota job add ping --every 5s --url http://127.0.0.1:7654/livez",
            "rota job add nightly --app etl --handler shell --param 'bin/settle' --cron '0 2 * * *' --timezone Asia/Shanghai",
            "rota job add rebuild --app etl --handler rebuild --shards 8 --retries 2 --retry-first 10s --labels disk=ssd",
        ],
    ),
    ("job edit", &["rota job edit nightly --cron '30 2 * * *'", "rota job edit rebuild --timeout 30m --overlap skip"]),
    ("job list", &["rota job list", "rota job list --app etl --json"]),
    ("job show", &["rota job show nightly"]),
    ("job pause", &["rota job pause nightly", "rota job pause nightly --reason 'until the disk is replaced'"]),
    ("job resume", &["rota job resume nightly"]),
    ("job history", &["rota job history nightly", "rota job history nightly --json"]),
    ("job diff", &["rota job diff nightly", "rota job diff nightly 3 7"]),
    ("job rm", &["rota job rm nightly"]),
    (
        "plan",
        &[
            "rota plan -f shop.yaml",
            "rota plan -f shop.yaml --prune",
            "rota plan -f - < shop.yaml",
            "rota plan -f jobs/ -f calendars.yaml",
        ],
    ),
    ("apply", &["rota apply -f shop.yaml", "rota apply -f shop.yaml --prune --json"]),
    ("export", &["rota export", "rota export -f shop.yaml --managed-by shop"]),
    ("schema", &["rota schema > job-file.schema.json"]),
    ("run", &["rota run nightly", "rota run nightly --param 2026-12-01 --no-follow --request-id settle-2026-12-01"]),
    ("runs", &["rota runs --since 1h", "rota runs --job nightly --state failed --limit 5 --json"]),
    ("why", &["rota why r91", "rota why nightly@02:00", "rota why nightly@2026-12-01T02:00:00+08:00 --json"]),
    ("rerun", &["rota rerun r91", "rota rerun r91 --failed-shards --no-follow"]),
    (
        "backfill add",
        &[
            "rota backfill add nightly --from 2026-11-01 --to 2026-12-01 --dry-run",
            "rota backfill add nightly --from 2026-11-01 --to 2026-12-01 --pace 30/m --parallel 2",
        ],
    ),
    ("backfill list", &["rota backfill list", "rota backfill list --job nightly --open"]),
    ("backfill show", &["rota backfill show b6tgb80w0g4"]),
    ("backfill cancel", &["rota backfill cancel b6tgb80w0g4", "rota backfill cancel b6tgb80w0g4 --kill"]),
    ("audit", &["rota audit --since 24h", "rota audit --job nightly --since 7d --json"]),
    ("top", &["rota top failing", "rota top late --since 1h --app etl", "rota top slow --limit 5"]),
    ("freeze", &["rota freeze --reason 'the database is restored'", "rota freeze --reason 'disk full' --app etl"]),
    ("thaw", &["rota thaw", "rota thaw --missed fire_once --app etl"]),
    (
        "alert set",
        &[
            "rota alert set oncall --feishu '{{secret.FEISHU_URL}}' --when failed,lost --late 5m",
            "rota alert set mail --mail-server smtp.example:587 --mail-from rota@shop.example --mail-to ops@shop.example \
             --no-success 1d",
        ],
    ),
    ("alert list", &["rota alert list"]),
    ("alert show", &["rota alert show oncall"]),
    ("alert test", &["rota alert test oncall"]),
    ("alert open", &["rota alert open", "rota alert open --json"]),
    ("alert ack", &["rota alert ack oncall settle failed"]),
    ("alert rm", &["rota alert rm oncall"]),
    ("confirm-clock", &["rota confirm-clock"]),
    ("logs", &["rota logs r91", "rota logs r91 --follow --shard 1"]),
    ("kill", &["rota kill r91", "rota kill r91 --shard 3"]),
    ("workers", &["rota workers", "rota workers --app etl"]),
    (
        "simulate",
        &[
            "rota simulate --workload mixed --node 4c --price 0.17",
            "rota simulate --csv history.csv --node 4c:0.17 --node 8c:0.34 --current APP_ROUND_ROBIN",
        ],
    ),
    ("bench", &["rota bench sustained --rate 10000 --seconds 20", "rota bench burst --burst 15000"]),
    (
        "cron next",
        &[
            "rota cron next '0 2 * * *' --zone Asia/Shanghai --count 3",
            "rota cron next '0 30 1 ? * SUN' --zone Europe/Berlin --from 2026-10-24T00:00:00Z --overlap both",
        ],
    ),
    ("cron explain", &["rota cron explain '0 0 9-17 ? * MON-FRI'", "rota cron explain '*/5 * * * *' --lang zh"]),
    ("config show", &["rota config show", "ROTA_LOGS__SIZE=1GiB rota config show --config /etc/rota/rota.toml"]),
    ("config reference", &["rota config reference > rota.toml"]),
    ("health", &["rota health", "rota health --ready --server http://10.0.0.7:7654"]),
    (
        "backup",
        &[
            "rota backup rota-2026-12-01.tar",
            "rota backup rota-2026-12-01.tar --with-key --logs",
            "rota backup rota-2026-12-01.tar --data /var/lib/rota",
        ],
    ),
    (
        "restore",
        &[
            "rota restore rota-2026-12-01.tar --data /var/lib/rota-new --since-backup skip",
            "rota restore rota-2026-12-01.tar --data /var/lib/rota-new --since-backup fire_once --key rota.key",
        ],
    ),
    ("completions", &["rota completions bash > /etc/bash_completion.d/rota", "rota completions fish | source"]),
    ("man", &["rota man /usr/local/share/man/man1"]),
];

/// The whole command line, each command with its examples.
pub(crate) fn command() -> Command {
    with_examples(Cli::command(), "")
}

fn with_examples(mut command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command = command.mut_subcommand(&name, |sub| with_examples(sub, &path));
    }
    match EXAMPLES.iter().find(|(known, _)| *known == path) {
        Some((_, lines)) => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// The words of a line up to a pipe or redirection, without variables before the command. Quotes are single.
    fn words(line: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for (at, part) in line.split('\'').enumerate() {
            if at % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        let end = words.iter().position(|word| [">", "|", "<"].contains(&word.as_str())).unwrap_or(words.len());
        words.truncate(end);
        words.into_iter().skip_while(|word| word.starts_with("ROTA_")).collect()
    }

    #[test]
    fn every_example_is_read() {
        for (path, lines) in EXAMPLES {
            assert!(!lines.is_empty(), "{path}");
            for line in *lines {
                let words = words(line);
                assert!(words[1..].join(" ").starts_with(path), "`{line}` is no example of `{path}`");
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("`{line}`: {error}");
                }
            }
        }
    }

    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        for sub in command.get_subcommands() {
            let path = if path.is_empty() { sub.get_name().to_owned() } else { format!("{path} {}", sub.get_name()) };
            if sub.has_subcommands() { leaves(sub, &path, found) } else { found.push(path) }
        }
    }

    #[test]
    fn every_command_has_examples() {
        let mut found = Vec::new();
        leaves(&command(), "", &mut found);
        for path in &found {
            let has_some = EXAMPLES.iter().any(|(known, _)| known == path);
            assert!(has_some, "`rota {path}` has no example: add one to EXAMPLES in args/examples.rs");
        }
        for (path, _) in EXAMPLES {
            assert!(found.iter().any(|known| known == path), "there is no command `rota {path}`");
        }
    }
}
