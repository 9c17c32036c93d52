//! Every key that `rota.toml` and the environment may set, with its default.

/// What a value is, and how the text of an environment variable or a flag becomes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Text.
    Text,
    /// Text with a unit of time, as in `30s`.
    Duration,
    /// Text with a unit of size, as in `10GiB`.
    Size,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number up to this.
    Number(u32),
    /// A number from 0 to 1.
    Share,
    /// Texts; in the environment with commas between them.
    List,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// `section.key`.
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    /// Its default, as it would stand in the environment.
    pub(crate) default: &'static str,
    /// What it is, in one clause.
    pub(crate) about: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { path, kind, default, about }
}

/// All of them, in the order in which they are shown. The fields of `RawConfig` are the same; a test says so.
pub(crate) const KEYS: [Key; 23] = [
    key("server.listen", Kind::Text, "127.0.0.1:7654", "address and port of API, page and workers' calls"),
    key("server.data", Kind::Text, "rota-data", "folder of the database and the logs"),
    key("server.admin_token_file", Kind::Text, "", "file of the admin token; made if it does not exist"),
    key("server.drain", Kind::Duration, "10s", "how long a stop waits for what is under way"),
    key("server.timezone", Kind::Text, "UTC", "zone of jobs that name none: an IANA name or a fixed offset"),
    key("server.log", Kind::Text, "info", "what the server logs, as in `info,rota_engine=debug`"),
    key("server.log_format", Kind::Word(&["pretty", "json"]), "pretty", "how it logs: for people, or an object a line"),
    key("store.partitions", Kind::Number(65_535), "64", "partitions of a new store; fixed when it is made"),
    key("timing.beat", Kind::Duration, "5s", "how often a worker is asked to beat"),
    key("timing.dead", Kind::Duration, "15s", "silence after which a worker is lost"),
    key("timing.send", Kind::Duration, "10s", "from commit to the first byte of a send, and from there to its answer"),
    key("timing.doubt", Kind::Duration, "60s", "how long a doubt is probed before the delivery mode decides"),
    key("timing.probe", Kind::Duration, "2s", "between two probes of one doubt"),
    key("timing.kill_grace", Kind::Duration, "10s", "from a cancel until its attempt counts as not cooperating"),
    key("timing.release_after", Kind::Duration, "10m", "from an attempt's end until its place is given away unproven"),
    key("outbound.allow", Kind::List, "", "hosts that URL jobs may call, as in `partner.example` or `10.0.0.7:8080`"),
    key(
        "limits.rate",
        Kind::Text,
        "",
        "how fast dispatches of all apps together may begin, as in `500/s`; as fast as they can without one",
    ),
    key("limits.burst", Kind::Number(1_000_000), "0", "how many may begin at once; 0: what `rate` brings in a second"),
    key("ledger.retention", Kind::Duration, "7d", "how long ended runs are kept"),
    key("logs.retention", Kind::Duration, "7d", "how long the logs of attempts are kept"),
    key("logs.size", Kind::Size, "10GiB", "how much the logs of attempts may take"),
    key(
        "telemetry.otlp",
        Kind::Text,
        "",
        "collector of traces, as in `http://127.0.0.1:4318`; none are made without one",
    ),
    key("telemetry.sample", Kind::Share, "0.01", "share of the runs that are traced"),
];

/// The key with this path.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

impl Key {
    /// Its environment variable: `ROTA_SECTION__KEY`.
    pub(crate) fn variable(&self) -> String {
        format!("ROTA_{}", self.path.replace('.', "__").to_uppercase())
    }

    /// The value of a text from the environment, a flag or a default.
    pub(crate) fn value(&self, text: &str) -> Result<toml::Value, String> {
        match self.kind {
            Kind::Text | Kind::Duration | Kind::Size | Kind::Word(_) => Ok(toml::Value::String(text.to_owned())),
            Kind::Number(_) => match text.trim().parse() {
                Ok(number) => Ok(toml::Value::Integer(number)),
                Err(_) => Err(format!("`{text}` is no whole number")),
            },
            Kind::Share => match text.trim().parse() {
                Ok(share) => Ok(toml::Value::Float(share)),
                Err(_) => Err(format!("`{text}` is no number")),
            },
            Kind::List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(toml::Value::Array(items.map(|item| toml::Value::String(item.to_owned())).collect()))
            }
        }
    }
}
