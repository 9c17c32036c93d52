//! A job file from jobs: sorted, stable, and read back as what it was written from.

use rota_wire::rest::{Alert, App, Job, JobSpec};
use serde_json::{Map, Value};

/// What is exported.
pub(crate) struct Export<'e> {
    pub(crate) name: Option<&'e str>,
    pub(crate) namespace: &'e str,
    /// Of these, those that the jobs name.
    pub(crate) alerts: &'e [Alert],
    pub(crate) apps: &'e [App],
    /// In order of their names.
    pub(crate) jobs: &'e [Job],
    /// Jobs that are left out, since their values were not shown.
    pub(crate) left_out: &'e [String],
}

/// Keys in the order in which people read a job; others follow.
const ORDER: [&str; 9] = ["app", "handler", "param", "http", "cron", "every", "delay", "at", "timezone"];

/// The file.
pub(crate) fn file(export: &Export<'_>) -> String {
    let mut text = "# Written by `rota export`.\n".to_owned();
    for name in export.left_out {
        text.push_str(&format!(
            "# {} is left out: the values of its headers are shown to the admin token only.\n",
            scalar(name)
        ));
    }
    text.push_str("version: 1\n");
    if let Some(name) = export.name {
        text.push_str(&format!("name: {}\n", scalar(name)));
    }
    text.push_str(&format!("namespace: {}\n", scalar(export.namespace)));
    let named = |alert: &&Alert| export.jobs.iter().any(|job| job.spec.alerts.contains(&alert.name));
    let alerts: Vec<&Alert> = export.alerts.iter().filter(named).collect();
    if !alerts.is_empty() {
        text.push_str("alerts:\n");
        for alert in alerts {
            let spec = serde_json::to_value(&alert.spec).expect("plain data");
            entry(&alert.name, &spec, 2, &mut text);
        }
    }
    let used = |app: &&App| export.jobs.iter().any(|job| job.spec.app.as_ref() == Some(&app.name));
    let mut apps: Vec<&App> = export.apps.iter().filter(used).collect();
    apps.sort_by(|a, b| a.name.cmp(&b.name));
    if !apps.is_empty() {
        text.push_str("apps:\n");
        for app in apps {
            text.push_str(&format!("  {}: {{pending_max: {}{}}}\n", scalar(&app.name), app.pending_max, rates(app)));
        }
    }
    if export.jobs.is_empty() {
        text.push_str("jobs: {}\n");
    } else {
        text.push_str("jobs:\n");
        export.jobs.iter().for_each(|job| of_job(job, &mut text));
    }
    text
}

fn of_job(job: &Job, text: &mut String) {
    let spec = JobSpec { paused: None, ..job.spec.clone() };
    let Ok(Value::Object(mut keys)) = serde_json::to_value(&spec) else { unreachable!("a specification is a map") };
    keys.remove("name");
    keys.remove("namespace");
    text.push_str(&format!("  {}:\n", scalar(&job.spec.name)));
    for key in ORDER {
        if let Some(value) = keys.remove(key) {
            entry(key, &value, 4, text);
        }
    }
    keys.iter().for_each(|(key, value)| entry(key, value, 4, text));
    if job.state == "paused" {
        let reason = job.pause.as_ref().and_then(|pause| pause.reason.as_deref());
        text.push_str(&format!("    paused: {}\n", reason.map_or_else(|| "true".to_owned(), scalar)));
    }
}

fn entry(key: &str, value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(entries) if is_plain(entries) => {
            let inner: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}: {}", scalar(key), of_value(value))).collect();
            text.push_str(&format!("{pad}{}: {{{}}}\n", scalar(key), inner.join(", ")));
        }
        Value::Object(entries) => {
            text.push_str(&format!("{pad}{}:\n", scalar(key)));
            entries.iter().for_each(|(key, value)| entry(key, value, indent + 2, text));
        }
        value @ Value::Null
        | value @ Value::Bool(_)
        | value @ Value::Number(_)
        | value @ Value::String(_)
        | value @ Value::Array(_) => text.push_str(&format!("{pad}{}: {}\n", scalar(key), of_value(value))),
    }
}

/// Whether a map fits a line.
fn is_plain(entries: &Map<String, Value>) -> bool {
    let length: usize = entries.iter().map(|(key, value)| key.len() + of_value(value).len() + 4).sum();
    entries.values().all(|value| !value.is_object()) && length < 80
}

fn of_value(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        // JSON is YAML, but for texts that JSON leaves as they are and YAML does not take.
        Value::Array(items) => format!("[{}]", items.iter().map(of_value).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let inner: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}: {}", scalar(key), of_value(value))).collect();
            format!("{{{}}}", inner.join(", "))
        }
        other @ Value::Null | other @ Value::Bool(_) | other @ Value::Number(_) => other.to_string(),
    }
}

/// A text: bare where every reader of YAML takes it for the same text, else in quotes.
pub(crate) fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let lower = text.to_ascii_lowercase();
    let is_taken = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&lower.as_str());
    if is_word && !is_taken {
        return text.to_owned();
    }
    let is_printable = text.chars().all(|c| c == ' ' || (!c.is_control() && !c.is_whitespace() && c != '\u{feff}'));
    if is_printable && text.contains(['"', '\\']) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            ' ' => quoted.push(' '),
            c if c.is_control() || c.is_whitespace() || crate::cli::table::commands_terminal(c) || c == '\u{feff}' => {
                quoted.push_str(&format!("\\U{:08x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The rates of an app, behind its other settings.
fn rates(app: &App) -> String {
    let limit = |rate: &str, burst: Option<u32>| {
        let burst = burst.map(|burst| format!(", burst: {burst}")).unwrap_or_default();
        format!("rate: {}{burst}", scalar(rate))
    };
    let mut text = app.rate.as_ref().map(|rate| format!(", {}", limit(rate, app.burst))).unwrap_or_default();
    if !app.groups.is_empty() {
        let groups =
            app.groups.iter().map(|(selector, of)| format!("{}: {{{}}}", scalar(selector), limit(&of.rate, of.burst)));
        text.push_str(&format!(", groups: {{{}}}", groups.collect::<Vec<_>>().join(", ")));
    }
    text
}
