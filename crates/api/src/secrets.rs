//! Secrets of a namespace: set, listed by name, removed. A value goes in and never comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::id::JobId;
use rota_core::job::{Spec, check_name};
use rota_core::limits;
use rota_core::template::is_secret_name;
use rota_core::worker::Secret;
use rota_port::secrets::REDACTED_BYTES_MIN;
use rota_port::store::{Reservation, Reserved, StoredSecret};
use rota_wire::rest;

use crate::auth::Admin;
use crate::body::{Args, Json};
use crate::changes::BY;
use crate::code::Code;
use crate::nearest::did_you_mean;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::state::State;
use crate::view;

/// A value's size.
const VALUE_BYTES_MAX: usize = 32 << 10;
/// Secrets of one namespace.
const SECRETS_MAX: usize = 1_000;
/// Jobs read at a time.
const PAGE: u32 = 1_000;
/// Jobs that a refusal names.
const JOBS_NAMED_MAX: usize = 5;

/// Names of jobs, by the secret that they use.
type Uses = BTreeMap<String, Vec<String>>;

pub(crate) async fn list(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Secret>>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let items = state.read(move |state| {
        let mut uses = uses(state, &namespace)?;
        let ours = state.query.secrets()?.into_iter().filter(|secret| secret.namespace == namespace);
        Ok(ours.map(|secret| shown(secret, &mut uses)).collect())
    });
    Ok(Answer(rest::Page { items: items.await?, next: None }))
}

pub(crate) async fn put(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
    Json(body): Json<rest::SecretPut>,
) -> Result<Answer<rest::Secret>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    check_name("namespace", &namespace)?;
    check(&name, &body.value)?;
    let vault = state.secrets.in_namespace(&namespace);
    if vault.len() >= SECRETS_MAX && vault.value(&name).is_none() {
        return Err(Refusal::invalid("name", format!("the namespace has {SECRETS_MAX} secrets already"))
            .hint("remove those that no job uses; rota secret list shows them"));
    }
    let secret = StoredSecret { namespace, name, value: Secret(body.value), at: state.now(), by: BY.to_owned() };
    let shared = state.clone();
    let command = async move {
        change(&shared, Reservation::Secret(secret.clone())).await?;
        shared.read(move |state| Ok(shown(secret.clone(), &mut uses(state, &secret.namespace)?))).await
    };
    Ok(Answer(state.carry(command).await?))
}

fn check(name: &str, value: &str) -> Result<(), Refusal> {
    if !is_secret_name(name) {
        let shown: String = name.chars().take(100).collect();
        return Err(Refusal::invalid("name", format!("`{shown}` is not the name of a secret")).hint(format!(
            "1 to {} letters, digits, _ and -: a template names it secret.NAME",
            limits::NAME_BYTES_MAX
        )));
    }
    if value.is_empty() {
        return Err(Refusal::invalid("value", "the value is empty").hint("to take a secret away: rota secret rm NAME"));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("{} bytes are more than {VALUE_BYTES_MAX}", value.len()))
            .field("value")
            .hint("keep large secrets where the job runs, and pass their name"));
    }
    Ok(())
}

pub(crate) async fn delete(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::SecretRemoved>, Refusal> {
    let args = Args::read(&uri, &["force"])?;
    let is_forced = match args.text("force") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Refusal::invalid("force", "this is true or false")),
    };
    let namespace = args.namespace();
    let wanted = (namespace.clone(), name.clone());
    let used_by = state
        .read(move |state| {
            let (namespace, name) = wanted;
            let names: Vec<String> = state.secrets.in_namespace(&namespace).names().map(str::to_owned).collect();
            if !names.contains(&name) {
                let hint = did_you_mean(&name, names.iter().map(String::as_str));
                return Err(unknown(&namespace, &name).hint(hint.unwrap_or("rota secret list shows them".to_owned())));
            }
            Ok(uses(state, &namespace)?.remove(&name).unwrap_or_default())
        })
        .await?;
    if !used_by.is_empty() && !is_forced {
        return Err(Refusal::new(Code::SecretInUse, format!("the secret is used by {}", some_of(&used_by)))
            .hint("change these jobs first; with force (--force) it goes at once, and their attempts fail"));
    }
    let shared = state.clone();
    let removal = Reservation::SecretBack { namespace: namespace.clone(), name: name.clone(), at: state.now() };
    let reserved = state.carry(async move { change(&shared, removal).await }).await?;
    if reserved == Reserved::Unknown {
        return Err(unknown(&namespace, &name));
    }
    Ok(Answer(rest::SecretRemoved { name, used_by }))
}

fn unknown(namespace: &str, name: &str) -> Refusal {
    let shown: String = name.chars().take(100).collect();
    Refusal::new(Code::SecretUnknown, format!("there is no secret `{shown}` in namespace `{namespace}`"))
}

fn some_of(jobs: &[String]) -> String {
    let named = jobs.iter().take(JOBS_NAMED_MAX).map(|job| format!("`{job}`")).collect::<Vec<_>>().join(", ");
    match jobs.len().saturating_sub(JOBS_NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Makes a change durable, then lets those who send and those who listen know it.
async fn change(state: &Arc<State>, what: Reservation) -> Result<Reserved, Refusal> {
    let reserved = state.intake.reserve(what).await?;
    state.read(|state| Ok(state.secrets.load(|| state.query.secrets())?)).await?;
    Ok(reserved)
}

/// The jobs of a namespace that use secrets, in order of id.
fn uses(state: &State, namespace: &str) -> Result<Uses, Refusal> {
    let mut uses = Uses::new();
    let mut after = JobId(0);
    loop {
        let page = state.query.jobs_with_secrets(after, PAGE)?;
        let Some(last) = page.last() else { return Ok(uses) };
        after = last.id;
        for job in page {
            if view::app_of(state, &job)?.namespace == namespace {
                for secret in job.spec.target.secrets() {
                    uses.entry(secret).or_default().push(job.name.clone());
                }
            }
        }
    }
}

fn shown(secret: StoredSecret, uses: &mut Uses) -> rest::Secret {
    let is_short = secret.value.0.len() < REDACTED_BYTES_MIN;
    let warning = is_short.then(|| {
        format!("shorter than {REDACTED_BYTES_MIN} bytes, so it is not told from other text, and not hidden in logs and messages")
    });
    let used_by = uses.remove(&secret.name).unwrap_or_default();
    rest::Secret { name: secret.name, at: secret.at.to_string(), by: secret.by, used_by, warning }
}

/// What whoever saves a job should know: secrets that it names and that are not set.
pub(crate) fn missing(state: &State, namespace: &str, spec: &Spec) -> Vec<String> {
    let vault = state.secrets.in_namespace(namespace);
    let named = spec.target.secrets().into_iter();
    let missing = named.filter(|name| vault.value(name).is_none());
    missing.map(|name| format!("secret {name} is not set: rota secret set {name}")).collect()
}
