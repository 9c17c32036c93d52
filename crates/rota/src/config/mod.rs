//! The configuration of a server: read once, typed and cross-checked, then handed out in parts.
//!
//! [`RawConfig`] is what the text says, [`Config`] what it means. Flag over environment over file over default; an
//! unknown key is an error. Secrets are never in it, only the names of their files.

mod key;
mod layer;
mod reference;
mod show;
pub(crate) mod unit;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rota_core::limits::Timing;
use rota_core::rate::{Limit, Rate};
use serde::Deserialize;

pub(crate) use layer::Layers;
pub(crate) use reference::reference;
pub(crate) use show::show;

/// What is wrong with a configuration: where, what, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{at}: {message}")]
pub(crate) struct Error {
    /// The file, variable or flag.
    pub(crate) at: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// What the text says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    server: RawServer,
    store: RawStore,
    timing: RawTiming,
    outbound: RawOutbound,
    limits: RawLimits,
    ledger: RawLedger,
    logs: RawLogs,
    telemetry: RawTelemetry,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    listen: String,
    data: PathBuf,
    admin_token_file: PathBuf,
    drain: String,
    timezone: String,
    log: String,
    log_format: LogFormat,
}

/// How the server logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// Lines for people.
    Pretty,
    /// An object a line.
    Json,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStore {
    partitions: u16,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTiming {
    beat: String,
    dead: String,
    send: String,
    doubt: String,
    probe: String,
    kill_grace: String,
    release_after: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOutbound {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    rate: String,
    burst: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLedger {
    retention: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTelemetry {
    otlp: String,
    sample: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLogs {
    retention: String,
    size: String,
}

/// What the text means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Config {
    pub(crate) server: Server,
    /// Partitions of a new store.
    pub(crate) partitions: u16,
    pub(crate) timing: Timing,
    /// Hosts that URL jobs may call.
    pub(crate) outbound_allow: Vec<String>,
    /// How fast dispatches of all apps together may begin, if that is limited.
    pub(crate) rate: Option<Limit>,
    /// How long ended runs are kept.
    pub(crate) ledger_retention: Duration,
    pub(crate) logs: Logs,
    pub(crate) telemetry: Telemetry,
}

/// The process itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Server {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) admin_token_file: Option<PathBuf>,
    pub(crate) drain: Duration,
    /// Zone of jobs that name none.
    pub(crate) timezone: String,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
}

/// What attempts print.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Logs {
    pub(crate) retention: Duration,
    pub(crate) bytes_max: u64,
}

/// Traces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Telemetry {
    /// Where they go; none are made without.
    pub(crate) otlp: Option<String>,
    /// Runs in a million.
    pub(crate) per_million: u32,
}

impl Config {
    /// Reads and cross-checks all values.
    pub(crate) fn new(layers: &Layers) -> Result<Config, Error> {
        let raw: RawConfig = layers.table().try_into().map_err(|error: toml::de::Error| mistyped(layers, &error))?;
        let duration = |path: &'static str, text: &str| {
            unit::duration_ms(text).map_err(|error| refuse(layers, path, error.to_string()))
        };
        let listen = raw.server.listen.parse().map_err(|_| {
            let message =
                format!("`{}` is no address with a port, expected one like 127.0.0.1:7654", raw.server.listen);
            refuse(layers, "server.listen", message)
        })?;
        let timing = Timing {
            beat_ms: duration("timing.beat", &raw.timing.beat)?,
            dead_ms: duration("timing.dead", &raw.timing.dead)?,
            send_ms: duration("timing.send", &raw.timing.send)?,
            doubt_ms: duration("timing.doubt", &raw.timing.doubt)?,
            probe_ms: duration("timing.probe", &raw.timing.probe)?,
            kill_grace_ms: duration("timing.kill_grace", &raw.timing.kill_grace)?,
            release_after_ms: duration("timing.release_after", &raw.timing.release_after)?,
        };
        let bytes_max = unit::size_bytes(&raw.logs.size);
        let config = Config {
            server: Server {
                listen,
                data: raw.server.data,
                admin_token_file: Some(raw.server.admin_token_file).filter(|path| !path.as_os_str().is_empty()),
                drain: Duration::from_millis(duration("server.drain", &raw.server.drain)?),
                timezone: zone(raw.server.timezone).map_err(|error| refuse(layers, "server.timezone", error))?,
                log: raw.server.log,
                log_format: raw.server.log_format,
            },
            partitions: raw.store.partitions,
            timing,
            outbound_allow: raw.outbound.allow,
            rate: limit(&raw.limits).map_err(|(path, message)| refuse(layers, path, message))?,
            ledger_retention: Duration::from_millis(duration("ledger.retention", &raw.ledger.retention)?),
            logs: Logs {
                retention: Duration::from_millis(duration("logs.retention", &raw.logs.retention)?),
                bytes_max: bytes_max.map_err(|error| refuse(layers, "logs.size", error.to_string()))?,
            },
            telemetry: Telemetry {
                otlp: Some(raw.telemetry.otlp).filter(|collector| !collector.is_empty()),
                per_million: per_million(raw.telemetry.sample)
                    .ok_or_else(|| refuse(layers, "telemetry.sample", "a share from 0 to 1".to_owned()))?,
            },
        };
        config.check(layers)?;
        Ok(config)
    }

    /// What single values cannot say.
    fn check(&self, layers: &Layers) -> Result<(), Error> {
        let timing = &self.timing;
        let rules = [
            (!self.server.data.as_os_str().is_empty(), "server.data", "a folder is needed"),
            (self.partitions > 0 && self.partitions <= 1_024, "store.partitions", "1 to 1024 partitions"),
            (timing.beat_ms >= 100, "timing.beat", "a beat of less than 100ms only makes load"),
            (timing.probe_ms >= 100, "timing.probe", "probes of less than 100ms only make load"),
            (timing.send_ms > 0, "timing.send", "nothing can be sent in no time"),
            (
                timing.dead_ms >= 2 * timing.beat_ms,
                "timing.dead",
                "at least two beats, or one late beat loses a worker",
            ),
            (timing.doubt_ms >= timing.probe_ms, "timing.doubt", "at least one probe, or a doubt is never asked about"),
            (
                timing.release_after_ms >= timing.kill_grace_ms,
                "timing.release_after",
                "at least the kill grace, or a place is given away while its code is being stopped",
            ),
            (self.ledger_retention.as_secs() >= 60, "ledger.retention", "at least 1m, or runs go before they are seen"),
            (self.logs.bytes_max >= 1 << 20, "logs.size", "at least 1MiB"),
        ];
        match rules.iter().find(|(holds, _, _)| !holds) {
            Some((_, path, rule)) => Err(refuse(layers, path, (*rule).to_owned())),
            None => Ok(()),
        }
    }
}

fn per_million(share: f64) -> Option<u32> {
    (0.0..=1.0).contains(&share).then(|| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between 0 and a million")]
        let per_million = (share * 1_000_000.0).round() as u32;
        per_million
    })
}

/// The rate of the server as it is written; else the key that is wrong, and how.
fn limit(raw: &RawLimits) -> Result<Option<Limit>, (&'static str, String)> {
    let burst = (raw.burst > 0).then_some(raw.burst);
    if raw.rate.is_empty() {
        return match burst {
            Some(_) => Err(("limits.burst", "there is no limits.rate for it".to_owned())),
            None => Ok(None),
        };
    }
    let invalid = || ("limits.rate", format!("`{}` is no rate, expected one like 500/s, 10/m, 3/h or 1/10s", raw.rate));
    let limit = Limit { rate: Rate::parse(&raw.rate).ok_or_else(invalid)?, burst };
    limit.check().map_err(|invalid| ("limits.burst", invalid.message))?;
    Ok(Some(limit))
}

/// A zone as it is written; what is wrong with it otherwise, and what was meant.
fn zone(text: String) -> Result<String, String> {
    match rota_cron::Zone::parse(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err([Some(error.message), error.hint].into_iter().flatten().collect::<Vec<_>>().join("; ")),
    }
}

fn refuse(layers: &Layers, path: &str, message: String) -> Error {
    let (_, source) = layers.get(path);
    Error { at: source.to_string(), message: format!("{path}: {message}"), hint: None }
}

/// A value of the wrong type: the first one that does not fit is found by trying each alone.
fn mistyped(layers: &Layers, error: &toml::de::Error) -> Error {
    for key in &key::KEYS {
        let (value, source) = layers.get(key.path);
        let (fits, expected) = match key.kind {
            key::Kind::Text | key::Kind::Duration | key::Kind::Size => (value.is_str(), "text in quotes".to_owned()),
            key::Kind::Word(words) => {
                let fits = value.as_str().is_some_and(|word| words.contains(&word));
                (fits, format!("one of `{}`", words.join("`, `")))
            }
            key::Kind::Number(max) => {
                let fits = value.as_integer().is_some_and(|n| u32::try_from(n).is_ok_and(|n| n <= max));
                (fits, format!("a number up to {max}"))
            }
            key::Kind::Share => (value.is_float() || value.is_integer(), "a number from 0 to 1".to_owned()),
            key::Kind::List => {
                let fits = value.as_array().is_some_and(|items| items.iter().all(toml::Value::is_str));
                (fits, "a list of texts in quotes".to_owned())
            }
        };
        if !fits {
            let example = key.value(key.default).expect("defaults are of their own kind");
            return Error {
                at: source.to_string(),
                message: format!("{}: expected {expected}, found `{value}`", key.path),
                hint: Some(format!("for example: {example}")),
            };
        }
    }
    Error { at: "configuration".to_owned(), message: error.message().to_owned(), hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, Error> {
        let mut layers = Layers::new();
        layers.file("rota.toml", text)?;
        Config::new(&layers)
    }

    #[test]
    fn the_defaults_are_those_of_the_protocol() {
        let config = Config::new(&Layers::new()).unwrap();
        assert_eq!(config.timing, Timing::NATIVE);
        assert_eq!(config.server.listen.to_string(), "127.0.0.1:7654");
        assert_eq!((config.server.admin_token_file, config.rate), (None, None));
        assert_eq!(config.logs.bytes_max, 10 << 30);
        assert_eq!(config.telemetry, Telemetry { otlp: None, per_million: 10_000 });
        assert_eq!(read("[telemetry]\nsample = 1").unwrap().telemetry.per_million, 1_000_000);
    }

    #[test]
    fn every_key_is_a_field_and_every_field_a_key() {
        // Missing fields and unknown ones are both errors of `RawConfig`.
        let table = Layers::new().table();
        assert!(table.clone().try_into::<RawConfig>().is_ok());
        for key in &key::KEYS {
            let (section, word) = key.path.split_once('.').unwrap();
            let mut less = table.clone();
            less[section].as_table_mut().unwrap().remove(word);
            assert!(less.try_into::<RawConfig>().is_err(), "{} is no field", key.path);
        }
    }

    fn check_refused(text: &str, expected: &str) {
        let error = read(text).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }

    #[test]
    fn wrong_values_name_themselves_and_their_source() {
        check_refused(
            "[timing]\nbeat = \"5\"",
            "rota.toml: timing.beat: `5` is no duration with a unit, expected one like 500ms, 30s, 5m, 2h, 1d or 1h30m",
        );
        check_refused("[timing]\nbeat = 5", "rota.toml: timing.beat: expected text in quotes, found `5`");
        check_refused(
            "[timing]\nbeat = \"10s\"",
            "default: timing.dead: at least two beats, or one late beat loses a worker",
        );
        check_refused(
            "[server]\ntimezone = \"Asia/Shangai\"",
            "rota.toml: server.timezone: unknown time zone \"Asia/Shangai\", expected an IANA name or an offset like +08:00; \
             did you mean Asia/Shanghai?",
        );
        check_refused("[store]\npartitions = 0", "rota.toml: store.partitions: 1 to 1024 partitions");
        check_refused(
            "[store]\npartitions = -1",
            "rota.toml: store.partitions: expected a number up to 65535, found `-1`",
        );
        check_refused(
            "[limits]\nrate = \"fast\"",
            "rota.toml: limits.rate: `fast` is no rate, expected one like 500/s, 10/m, 3/h or 1/10s",
        );
        check_refused("[limits]\nburst = 5", "rota.toml: limits.burst: there is no limits.rate for it");
        check_refused(
            "[limits]\nrate = \"5/s\"\nburst = 1000001",
            "rota.toml: limits.burst: 1000001 is outside 1 to 1000000",
        );
        check_refused("[limits]\nburst = -1", "rota.toml: limits.burst: expected a number up to 1000000, found `-1`");
        check_refused(
            "[server]\nlisten = \"here\"",
            "rota.toml: server.listen: `here` is no address with a port, expected one like 127.0.0.1:7654",
        );
        check_refused(
            "[server]\nlog_format = \"xml\"",
            "rota.toml: server.log_format: expected one of `pretty`, `json`, found `\"xml\"`",
        );
        check_refused("[telemetry]\nsample = 1.5", "rota.toml: telemetry.sample: a share from 0 to 1");
        check_refused(
            "[telemetry]\nsample = \"1\"",
            "rota.toml: telemetry.sample: expected a number from 0 to 1, found `\"1\"`",
        );
        check_refused(
            "[outbound]\nallow = \"a\"",
            "rota.toml: outbound.allow: expected a list of texts in quotes, found `\"a\"`",
        );
    }

    #[test]
    fn a_whole_file_is_read() {
        let config = read(
            "[server]\nlisten = \"0.0.0.0:80\"\nadmin_token_file = \"t\"\n[outbound]\nallow = [\"a\", \"b:80\"]\n\
             [ledger]\nretention = \"2d\"\n[logs]\nsize = \"64MiB\"\n[limits]\nrate = \"30/m\"\nburst = 7\n[timing]\ndead = \"1m\"\n",
        )
        .unwrap();
        assert_eq!(config.server.admin_token_file, Some(PathBuf::from("t")));
        assert_eq!(config.rate.map(|limit| (limit.rate.to_string(), limit.burst())), Some(("30/m".to_owned(), 7)));
        assert_eq!(config.outbound_allow, ["a", "b:80"]);
        assert_eq!(config.ledger_retention, Duration::from_secs(172_800));
        assert_eq!((config.timing.dead_ms, config.logs.bytes_max), (60_000, 64 << 20));
    }
}
