//! Every key that `rota.toml` and the environment may set, with its default.

/// How the text of an environment variable or a flag becomes the value of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Text, durations and sizes among them.
    Text,
    /// A whole number.
    Number,
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
    /// What it is, for `rota config show`.
    pub(crate) about: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { path, kind, default, about }
}

/// All of them, in the order in which they are shown. The fields of `RawConfig` are the same; a test says so.
pub(crate) const KEYS: [Key; 17] = [
    key("server.listen", Kind::Text, "127.0.0.1:7654", "address and port of API, page and workers' calls"),
    key("server.data", Kind::Text, "rota-data", "folder of the database and the logs"),
    key("server.admin_token_file", Kind::Text, "", "file of the admin token; made if it does not exist"),
    key("server.drain", Kind::Text, "10s", "how long a stop waits for what is under way"),
    key("server.log", Kind::Text, "info", "what is logged, as in `info,rota_engine=debug`"),
    key("store.partitions", Kind::Number, "64", "partitions of a new store; fixed when it is made"),
    key("timing.beat", Kind::Text, "5s", "how often a worker is asked to beat"),
    key("timing.dead", Kind::Text, "15s", "silence after which a worker is lost"),
    key("timing.send", Kind::Text, "10s", "from commit to the first byte of a send, and from there to its answer"),
    key("timing.doubt", Kind::Text, "60s", "how long a doubt is probed before the delivery mode decides"),
    key("timing.probe", Kind::Text, "2s", "between two probes of one doubt"),
    key("timing.kill_grace", Kind::Text, "10s", "from a cancel to the moment its attempt counts as not cooperating"),
    key("timing.release_after", Kind::Text, "10m", "from an attempt's end until its place is given away without proof"),
    key("outbound.allow", Kind::List, "", "hosts that URL jobs may call, as in `partner.example` or `10.0.0.7:8080`"),
    key("ledger.retention", Kind::Text, "7d", "how long ended runs are kept"),
    key("logs.retention", Kind::Text, "7d", "how long the logs of attempts are kept"),
    key("logs.size", Kind::Text, "10GiB", "how much the logs of attempts may take"),
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
            Kind::Text => Ok(toml::Value::String(text.to_owned())),
            Kind::Number => match text.trim().parse() {
                Ok(number) => Ok(toml::Value::Integer(number)),
                Err(_) => Err(format!("`{text}` is no whole number")),
            },
            Kind::List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(toml::Value::Array(items.map(|item| toml::Value::String(item.to_owned())).collect()))
            }
        }
    }
}
