//! Registration of a worker: checked, named, dialled back, and only then put into its machine.
//!
//! Dialling back does two things. It finds an address that cannot be reached before work is sent there. And it settles
//! who is alive when another start of the same name is registered already: a restart at the same address proves that
//! the process before is gone, a living holder keeps its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::id::{AppId, WorkerId};
use rota_core::job::check_name;
use rota_core::limits;
use rota_core::partition::{self, Holder, Input};
use rota_core::worker::{Protocol, Registration, Secret, WorkerState};
use rota_port::store::{Reservation, Reserved};
use rota_wire::worker as wire;

use crate::auth::WorkerOf;
use crate::body::{Args, Json};
use crate::code::Code;
use crate::directory::Worker;
use crate::fleet::unreachable;
use crate::protocol::incarnation;
use crate::refusal::Refusal;
use crate::state::{State, Unanswered};

/// Handlers that one worker offers.
const HANDLERS_MAX: usize = 1_000;
/// Attempts that a worker may want in one call.
const LIST_MAX: u32 = 1_000;
const URL_BYTES_MAX: usize = 2_048;
const SECRET_BYTES_MAX: usize = 1_024;

pub(crate) async fn register(
    WorkerOf(app): WorkerOf,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
    Json(body): Json<wire::Register>,
) -> Result<Answer<wire::Registered>, Refusal> {
    Args::read(&uri, &[])?;
    let owner = match state.directory.app(app) {
        Some(owner) => Some(owner),
        None => state.read(move |state| state.app(app)).await?,
    };
    if owner.is_none_or(|owner| owner.name != body.app || owner.namespace != body.namespace) {
        return Err(Refusal::new(Code::Forbidden, format!("the token is not one of app `{}`", short(&body.app)))
            .field("app")
            .hint("make one: rota app token APP"));
    }
    let mut registration = read(app, body)?;
    let what = Reservation::WorkerName { app, name: registration.name.clone() };
    let reserved = state.intake.reserve(what).await?;
    let Reserved::Worker(id) = reserved else { return Err(Refusal::internal(reserved)) };
    registration.id = id;
    Ok(Answer(state.carry(enter(state.clone(), registration)).await?))
}

fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Checks what the worker says of itself.
fn read(app: AppId, body: wire::Register) -> Result<Registration, Refusal> {
    check_name("name", &body.name)?;
    let incarnation = incarnation(body.incarnation)?;
    let url = check_url(&body.url)?;
    let secret = body.callback_secret;
    if secret.chars().count() < 16 {
        return Err(Refusal::invalid("callback_secret", "fewer than 16 characters")
            .hint("make one at each start, from 32 random bytes"));
    }
    if secret.len() > SECRET_BYTES_MAX || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::invalid(
            "callback_secret",
            "it is sent in a header: at most 1,024 visible ASCII characters",
        )
        .hint("encode it, for example as hex"));
    }
    let mut handlers = body.handlers;
    if handlers.len() > HANDLERS_MAX {
        return Err(Refusal::invalid("handlers", format!("{} are more than {HANDLERS_MAX}", handlers.len())));
    }
    for handler in &handlers {
        check_name("handlers", handler)?;
    }
    handlers.sort();
    handlers.dedup();
    check_labels(&body.labels)?;
    Ok(Registration {
        id: WorkerId(0),
        app,
        name: body.name,
        incarnation,
        url,
        protocol: Protocol::Http,
        handlers,
        labels: body.labels,
        capacity: body.capacity,
        list_max: check_list_max(body.list_max)?,
        secret: Secret(secret),
        at: rota_core::time::UnixMs(0),
    })
}

fn check_list_max(list_max: u32) -> Result<u32, Refusal> {
    if list_max > LIST_MAX {
        return Err(Refusal::invalid("list_max", format!("{list_max} are more than {LIST_MAX} in one call"))
            .hint("leave it out to be called for one attempt at a time"));
    }
    Ok(list_max)
}

/// The address without a slash at its end.
fn check_url(text: &str) -> Result<String, Refusal> {
    let refused = |message: &str| {
        Refusal::invalid("url", format!("`{}` {message}", short(text))).hint("for example http://10.0.3.7:9999")
    };
    if text.len() > URL_BYTES_MAX {
        return Err(refused("is longer than 2,048 bytes"));
    }
    let uri: http::Uri = text.parse().map_err(|_| refused("is not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(refused("is not an absolute http or https URL"));
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if uri.host().is_none_or(str::is_empty) || authority.contains('@') {
        return Err(refused("has no plain host"));
    }
    if uri.port_u16() == Some(0) || (uri.port_u16().is_none() && authority.ends_with(':')) {
        return Err(refused("has no port that can be called"));
    }
    if uri.query().is_some() {
        return Err(refused("has a query, which an address does not"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Labels have the form that selectors can name.
pub(crate) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if labels.len() > limits::LABELS_MAX {
        return Err(Refusal::invalid("labels", format!("{} are more than {}", labels.len(), limits::LABELS_MAX)));
    }
    for (key, value) in labels {
        for text in [key, value] {
            let is_plain = text.chars().all(|c| c.is_alphanumeric() || "-_./:".contains(c));
            if text.is_empty() || text.len() > limits::NAME_BYTES_MAX || !is_plain {
                let hint = "1 to 100 bytes of letters, digits and - _ . / :, as key and as value";
                return Err(Refusal::invalid(
                    format!("labels.{}", short(key)),
                    format!("`{}` is no label", short(text)),
                )
                .hint(hint));
            }
        }
    }
    Ok(())
}

/// Dials back, and puts the registration into its machine.
async fn enter(state: Arc<State>, registration: Registration) -> Result<wire::Registered, Refusal> {
    let id = registration.id;
    let stored = state.read(move |state| Ok(state.query.worker(id)?)).await?;
    let before = stored
        .filter(|(holder, now)| holder.incarnation != registration.incarnation && *now != WorkerState::Offline)
        .map(|(holder, _)| holder);
    let (trouble, holder) = dial(&state, &registration, before.as_ref()).await;
    let (app, url, name) = (registration.app, registration.url.clone(), registration.name.clone());
    let is_reachable = trouble.is_none();
    let registration = Box::new(registration);
    let input = move |reply| Input::Register { registration, is_reachable, holder, reply };
    let answer = state.ask(app, input).await.map_err(|refusal| match &before {
        Some(holder) if refusal.code == Code::WorkerIdTaken => Refusal {
            message: format!(
                "`{name}` is held by {}, incarnation {}, which may be alive",
                holder.url, holder.incarnation
            ),
            field: Some("name".to_owned()),
            ..refusal
        },
        Some(_) | None => refusal,
    })?;
    let partition::Answer::Registered(now) = answer else { return Err(Refusal::internal(answer)) };
    let message = trouble.filter(|_| now == WorkerState::Unreachable);
    state.directory.put_worker(id, Worker { app, name, url, trouble: message.clone() });
    Ok(wire::Registered {
        worker: id.0,
        state: now.word().to_owned(),
        message,
        beat_ms: state.settings.beat_ms,
        dead_ms: state.settings.dead_ms,
    })
}

/// What is wrong with the address, if something is; and what became of the name's holder.
async fn dial(state: &State, new: &Registration, before: Option<&Registration>) -> (Option<String>, Holder) {
    let (own, theirs) = match before {
        Some(before) if before.url != new.url => {
            let (own, theirs) = tokio::join!(state.dialer.identify(&new.url), state.dialer.identify(&before.url));
            (own, Some(theirs))
        }
        _ => (state.dialer.identify(&new.url).await, None),
    };
    let trouble = match &own {
        Ok(found) if found.name == new.name && found.incarnation == new.incarnation.0 => None,
        Ok(found) => Some(unreachable(
            &new.url,
            &format!(
                "answers as `{}`, incarnation {}, not as `{}`, incarnation {}",
                short(&found.name),
                found.incarnation,
                new.name,
                new.incarnation
            ),
        )),
        Err(unanswered) => Some(unreachable(&new.url, unanswered.reason())),
    };
    let holder = before.map_or(Holder::None, |before| judge(before, theirs.as_ref().unwrap_or(&own)));
    (trouble, holder)
}

/// What an answer at the holder's address says about the holder. Only one process listens at an address, so another
/// start of the same worker there, or nobody at all, proves that the holder is gone. Another worker's answer does not:
/// the address may lead elsewhere now.
fn judge(holder: &Registration, answer: &Result<wire::Identity, Unanswered>) -> Holder {
    match answer {
        Ok(found) if found.name != holder.name => Holder::Silent,
        Ok(found) if found.incarnation == holder.incarnation.0 => Holder::Alive(holder.incarnation),
        Ok(_) | Err(Unanswered::Refused(_)) => Holder::Gone(holder.incarnation),
        Err(Unanswered::Silent(_)) => Holder::Silent,
    }
}

#[cfg(test)]
mod tests {
    use rota_core::id::Incarnation;

    use super::*;

    fn body() -> wire::Register {
        wire::Register {
            namespace: "default".to_owned(),
            app: "etl".to_owned(),
            name: "etl-1".to_owned(),
            incarnation: 7,
            url: "http://127.0.0.1:9999/".to_owned(),
            callback_secret: "0123456789abcdef".to_owned(),
            handlers: vec!["b".to_owned(), "a".to_owned(), "b".to_owned()],
            labels: BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]),
            capacity: 4,
            list_max: 0,
        }
    }

    #[test]
    fn a_registration_is_put_in_order() {
        let registration = read(AppId(1), body()).unwrap();
        assert_eq!(registration.url, "http://127.0.0.1:9999");
        assert_eq!(registration.handlers, ["a", "b"]);
    }

    #[test]
    fn bad_registrations_name_their_field() {
        type Break = fn(&mut wire::Register);
        let cases: [(Break, &str); 17] = [
            (|b| b.list_max = 1_001, "list_max"),
            (|b| b.name = String::new(), "name"),
            (|b| b.name = "a b".to_owned(), "name"),
            (|b| b.incarnation = 0, "incarnation"),
            (|b| b.incarnation = 1 << 53, "incarnation"),
            (|b| b.url = "127.0.0.1:9999".to_owned(), "url"),
            (|b| b.url = "ftp://host".to_owned(), "url"),
            (|b| b.url = "http://user@host:1".to_owned(), "url"),
            (|b| b.url = "http://host:0".to_owned(), "url"),
            (|b| b.url = "http://host/?q".to_owned(), "url"),
            (|b| b.url = String::new(), "url"),
            (|b| b.callback_secret = "short".to_owned(), "callback_secret"),
            (|b| b.callback_secret = "0123456789abcdef\n".to_owned(), "callback_secret"),
            (|b| b.handlers = vec!["a b".to_owned()], "handlers"),
            (|b| b.handlers = (0..=HANDLERS_MAX).map(|n| n.to_string()).collect(), "handlers"),
            (|b| b.labels = (0..=limits::LABELS_MAX).map(|n| (n.to_string(), "x".to_owned())).collect(), "labels"),
            (|b| b.labels = BTreeMap::from([("disk".to_owned(), "a,b".to_owned())]), "labels.disk"),
        ];
        for (at, (spoil, field)) in cases.into_iter().enumerate() {
            let mut body = body();
            spoil(&mut body);
            let refusal = read(AppId(1), body).unwrap_err();
            assert_eq!(refusal.field.as_deref(), Some(field), "case {at}: {refusal:?}");
        }
    }

    #[test]
    fn only_proof_makes_a_holder_gone() {
        let holder = read(AppId(1), body()).unwrap();
        let identity = |name: &str, incarnation| Ok(wire::Identity { name: name.to_owned(), incarnation });
        for (answer, expected) in [
            (identity("etl-1", 7), Holder::Alive(Incarnation(7))),
            (identity("etl-1", 8), Holder::Gone(Incarnation(7))),
            (identity("other", 8), Holder::Silent),
            (Err(Unanswered::Refused("refused".to_owned())), Holder::Gone(Incarnation(7))),
            (Err(Unanswered::Silent("did not answer".to_owned())), Holder::Silent),
        ] {
            assert_eq!(judge(&holder, &answer), expected, "{answer:?}");
        }
    }
}
