//! What a job was: every version and every change of its state, with who, when and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::id::Version;
use rota_core::job::{Definition, JobState};
use rota_port::history::{PAST_MAX, StateChange, StateFilter};
use rota_wire::rest::{self, Change};

use crate::auth::Reader;
use crate::body::Args;
use crate::code::Code;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::spec;
use crate::state::State;
use crate::view;

pub(crate) async fn list(
    reader: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::JobEvent>>, Refusal> {
    let args = Args::read(&uri, &["before", "limit"])?;
    let (limit, before) = (args.limit()? as usize, args.number::<usize>("before")?);
    let page = state.read(move |state| {
        let current = view::find_job(state, &args.namespace(), &job)?;
        let mut events = events(state, reader, &current)?;
        events.truncate(before.unwrap_or(usize::MAX));
        let rest = events.len().saturating_sub(limit);
        let items = events.split_off(rest).into_iter().rev().collect();
        Ok(rest::Page { items, next: (rest > 0).then(|| rest.to_string()) })
    });
    Ok(Answer(page.await?))
}

/// All events of a job, oldest first; of very many the newest.
fn events(state: &State, reader: Reader, current: &Definition) -> Result<Vec<rest::JobEvent>, Refusal> {
    let oldest = current.version.0.saturating_sub(PAST_MAX - 1).max(1);
    let versions = state.history.job_versions(current.id, Version(oldest))?;
    let changes = changes_of(state, current)?;
    let zone = view::zone(&current.spec.zone);
    let mut events = Vec::with_capacity(versions.len() + changes.len());
    for (at, version) in versions.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &versions[before]);
        let changes = before.map(|before| diff(state, reader, before, version)).transpose()?.unwrap_or_default();
        let event = rest::JobEvent {
            at: zone.format(version.at),
            by: version.by.clone(),
            kind: "version".to_owned(),
            version: version.version.0,
            state: view::state_word(version.state).to_owned(),
            reason: None,
            changes,
        };
        events.push((version.at, 0, event));
    }
    for change in &changes {
        let in_force = versions.iter().rev().find(|version| version.at <= change.at).map_or(oldest, |v| v.version.0);
        let event = rest::JobEvent {
            at: zone.format(change.at),
            by: change.by.to_string(),
            kind: "state".to_owned(),
            version: in_force,
            state: view::state_word(change.state).to_owned(),
            reason: change.reason.as_deref().map(str::to_owned),
            changes: Vec::new(),
        };
        events.push((change.at, change.no, event));
    }
    events.sort_by_key(|(at, no, _)| (*at, *no));
    Ok(events.into_iter().map(|(.., event)| event).collect())
}

/// All changes of a job's state, oldest first.
pub(crate) fn changes_of(state: &State, job: &Definition) -> Result<Vec<StateChange>, Refusal> {
    let mut filter = StateFilter { job: Some(job.id), ..StateFilter::default() };
    let mut all = Vec::new();
    loop {
        let page = state.history.state_changes(&filter)?;
        let Some(last) = page.last() else { return Ok(all) };
        filter.after = last.no;
        all.extend(page);
    }
}

pub(crate) async fn compare(
    reader: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::JobDiff>, Refusal> {
    let args = Args::read(&uri, &["from", "to"])?;
    let (from, to) = (args.number::<u32>("from")?, args.number::<u32>("to")?);
    let found = state.read(move |state| {
        let current = view::find_job(state, &args.namespace(), &job)?;
        let to = to.unwrap_or(current.version.0);
        let from = from.unwrap_or_else(|| to.saturating_sub(1).max(1));
        let (older, newer) = (version(state, &current, from)?, version(state, &current, to)?);
        Ok(rest::JobDiff {
            job: current.id.0,
            job_name: current.name.clone(),
            from,
            to,
            at: view::zone(&newer.spec.zone).format(newer.at),
            by: newer.by.clone(),
            changes: diff(state, reader, &older, &newer)?,
        })
    });
    Ok(Answer(found.await?))
}

/// One version of a job that exists.
pub(crate) fn version(state: &State, current: &Definition, version: u32) -> Result<Definition, Refusal> {
    state.query.job_version(current.id, Version(version))?.ok_or_else(|| {
        Refusal::new(Code::VersionUnknown, format!("`{}` has no version {version}", current.name))
            .hint(format!("its versions are 1 to {}", current.version))
    })
}

/// What two versions differ in, key by key; what is secret is named and not shown.
fn diff(state: &State, reader: Reader, older: &Definition, newer: &Definition) -> Result<Vec<Change>, Refusal> {
    let written = |definition: &Definition, hides: bool| -> Result<BTreeMap<String, String>, Refusal> {
        let app = view::app_of(state, definition)?;
        let mut written = spec::write(
            &definition.spec,
            &definition.name,
            (&app.namespace, &app.name),
            JobState::Enabled,
            &state.settings.timezone,
        );
        if hides {
            spec::hide_secrets(&mut written);
        }
        let mut keys = BTreeMap::new();
        flatten("", &serde_json::to_value(written).map_err(Refusal::internal)?, &mut keys);
        Ok(keys)
    };
    let (true_old, true_new) = (written(older, false)?, written(newer, false)?);
    let hides = !reader.sees_secrets;
    let (old, new) = (written(older, hides)?, written(newer, hides)?);
    let keys = true_old.keys().chain(true_new.keys().filter(|key| !true_old.contains_key(*key)));
    let changed = keys.filter(|key| true_old.get(*key) != true_new.get(*key));
    let mut changes: Vec<Change> = changed
        .map(|key| Change { key: key.clone(), from: old.get(key).cloned(), to: new.get(key).cloned() })
        .collect();
    changes.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(changes)
}

/// `{"retry": {"max": 2}}` as `retry.max` and `2`.
fn flatten(path: &str, value: &serde_json::Value, keys: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, keys);
            }
        }
        serde_json::Value::Null => {}
        serde_json::Value::String(text) => {
            keys.insert(path.to_owned(), text.clone());
        }
        other @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_) | serde_json::Value::Array(_)) => {
            keys.insert(path.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_paths() {
        let mut keys = BTreeMap::new();
        let value = serde_json::json!({"a": {"b": 1, "c": {"d": "x"}}, "e": [1, "y"], "f": null});
        flatten("", &value, &mut keys);
        let expected = [("a.b", "1"), ("a.c.d", "x"), ("e", "[1,\"y\"]")];
        assert_eq!(keys, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    }
}
