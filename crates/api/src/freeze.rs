//! Freezing and thawing: a whole server, which is all of its partitions, or one app, which is in one of them.
//!
//! Each partition's freeze becomes durable by itself. A call that is cut off may leave a part of the server frozen; that is
//! shown, and asking again brings the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::{HeaderValue, Uri};
use rota_core::freeze::Missed;
use rota_core::id::{AppId, PartitionId};
use rota_core::partition::{self, Input};
use rota_core::time::UnixMs;
use rota_wire::rest;
use tokio::task::JoinSet;

use crate::auth::Admin;
use crate::body::{Args, Json};
use crate::changes::BY;
use crate::refusal::Refusal;
use crate::spec;
use crate::state::State;
use crate::view;

/// The head of every answer while something is frozen, percent-encoded.
pub(crate) const HEADER: &str = "rota-frozen";
/// The longest reason, in bytes.
const REASON_BYTES_MAX: usize = 1_000;
const MISSED: [(&str, Missed); 2] = [("skip", Missed::Skip), ("fire_once", Missed::FireOnce)];

/// What the machines of a scope are told.
#[derive(Clone)]
enum Order {
    Freeze(Arc<str>),
    Thaw(Missed),
}

pub(crate) async fn freeze(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
    Json(body): Json<rest::FreezeAsk>,
) -> Result<Answer<rest::FrozenNow>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let reason = check_reason(&body.reason)?;
    if reason.is_empty() {
        return Err(Refusal::invalid("reason", "a freeze needs a reason").hint("everybody sees it until the thaw"));
    }
    tell(state, namespace, body.app, Order::Freeze(reason)).await
}

pub(crate) async fn thaw(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
    Json(body): Json<rest::ThawAsk>,
) -> Result<Answer<rest::FrozenNow>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let missed = spec::word("missed", body.missed.as_deref(), &MISSED)?.unwrap_or_default();
    tell(state, namespace, body.app, Order::Thaw(missed)).await
}

/// A reason, trimmed, in one line.
pub(crate) fn check_reason(reason: &str) -> Result<Arc<str>, Refusal> {
    let reason = reason.trim();
    if reason.len() > REASON_BYTES_MAX || reason.chars().any(char::is_control) {
        return Err(Refusal::invalid("reason", format!("a reason is one line of at most {REASON_BYTES_MAX} bytes")));
    }
    Ok(Arc::from(reason))
}

async fn tell(
    state: Arc<State>,
    namespace: String,
    app: Option<String>,
    order: Order,
) -> Result<Answer<rest::FrozenNow>, Refusal> {
    let app = match app {
        Some(app) => Some(state.read(move |state| view::find_app(state, &namespace, &app)).await?.id),
        None => None,
    };
    let partitions: Vec<PartitionId> = match app {
        Some(app) => state.intake.partition(app).into_iter().collect(),
        None => (0..state.settings.partitions).map(PartitionId).collect(),
    };
    let shared = Arc::clone(&state);
    let is_changed = state.carry(async move {
        let mut asked = JoinSet::new();
        for partition in partitions {
            let (shared, order) = (Arc::clone(&shared), order.clone());
            asked.spawn(async move { one(&shared, partition, app, order).await });
        }
        let mut is_changed = false;
        for answer in asked.join_all().await {
            is_changed |= answer?;
        }
        Ok(is_changed)
    });
    let is_changed = is_changed.await?;
    let frozen = state.read(stored).await?;
    Ok(Answer(rest::FrozenNow { is_changed, frozen }))
}

/// Tells one machine; whether that changed anything.
async fn one(state: &State, partition: PartitionId, app: Option<AppId>, order: Order) -> Result<bool, Refusal> {
    let make = move |reply| match order {
        Order::Freeze(reason) => Input::Freeze { app, by: Arc::from(BY), reason, reply },
        Order::Thaw(missed) => Input::Thaw { app, by: Arc::from(BY), missed, reply },
    };
    let answer = state.intake.ask(partition, Box::new(make)).await?;
    if let partition::Answer::Frozen { is_new } | partition::Answer::Thawed { is_new } = answer {
        return Ok(is_new);
    }
    if let partition::Answer::Refused(why) = answer { Err(Refusal::from(why)) } else { Err(Refusal::internal(answer)) }
}

/// The open freezes, as they are stored.
fn stored(state: &State) -> Result<Vec<rest::Frozen>, Refusal> {
    let open = state.history.freezes()?.into_iter().filter(|freeze| freeze.is_open());
    grouped(state, open.map(|freeze| (freeze.app, (freeze.at, freeze.by, freeze.reason))))
}

/// The open freezes, as they were last published.
pub(crate) fn published(state: &State) -> Result<Vec<rest::Frozen>, Refusal> {
    let snapshots = state.intake.snapshots();
    let open = snapshots.iter().flat_map(|snapshot| &snapshot.frozen);
    grouped(state, open.map(|freeze| (freeze.app, (freeze.at, freeze.by.clone(), freeze.reason.clone()))))
}

type Said = (UnixMs, Arc<str>, Arc<str>);

/// One for each app, and one for the freeze of everything, which each partition has by itself.
fn grouped(state: &State, open: impl Iterator<Item = (Option<AppId>, Said)>) -> Result<Vec<rest::Frozen>, Refusal> {
    let mut scopes: BTreeMap<Option<AppId>, (Said, usize)> = BTreeMap::new();
    for (app, said) in open {
        let (first, count) = scopes.entry(app).or_insert_with(|| (said.clone(), 0));
        *count += 1;
        if said < *first {
            *first = said;
        }
    }
    let shown = scopes.into_iter().map(|(app, ((since, by, reason), count))| {
        let is_partial = app.is_none() && count < usize::from(state.settings.partitions);
        let app = app.map(|app| Ok::<_, Refusal>(state.app(app)?.map_or_else(|| format!("app {app}"), |app| app.name)));
        Ok(rest::Frozen {
            app: app.transpose()?,
            since: since.to_string(),
            by: by.to_string(),
            reason: reason.to_string(),
            is_partial,
        })
    });
    shown.collect()
}

/// What heads an answer, if something is frozen: cheap, since every answer asks.
pub(crate) fn header(state: &State) -> Option<HeaderValue> {
    let snapshots = state.intake.snapshots();
    let mut open = snapshots.iter().flat_map(|snapshot| &snapshot.frozen);
    let freeze = open.clone().find(|freeze| freeze.app.is_none()).or_else(|| open.next())?;
    let scope = match freeze.app {
        None => "everything".to_owned(),
        Some(app) => state.directory.app(app).map_or_else(|| format!("app {app}"), |app| format!("app {}", app.name)),
    };
    let text = format!("{scope} is frozen since {} by {}: {}", freeze.at, freeze.by, freeze.reason);
    HeaderValue::from_str(&encoded(&text)).ok()
}

/// Percent-encoding of what a header's value may not hold, and of the percent sign.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_fit_into_a_header_and_a_line() {
        assert_eq!(encoded("50% 结"), "50%25 %E7%BB%93");
        assert_eq!(check_reason("  the disk burns ").as_deref(), Ok("the disk burns"));
        assert!(check_reason("a\nb").is_err() && check_reason(&"x".repeat(1_001)).is_err());
    }
}
