//! Alert rules of a namespace, and their alarms.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::alert::{Key, Rule};
use rota_core::id::JobId;
use rota_core::job::{Spec, check_name};
use rota_core::time::UnixMs;
use rota_port::alerts::StoredAlert;
use rota_port::store::{Reservation, Reserved};
use rota_wire::rest;

use crate::alert_spec;
use crate::auth::{Admin, Reader};
use crate::body::{Args, Json};
use crate::changes::BY;
use crate::code::Code;
use crate::nearest::did_you_mean;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::state::State;
use crate::view;

/// Rules of one namespace.
const ALERTS_MAX: usize = 1_000;
/// Jobs read at a time.
const PAGE: u32 = 1_000;
/// Jobs that an answer names.
const JOBS_NAMED_MAX: usize = 100;

/// Names of jobs, by the rule that they name.
type Uses = BTreeMap<String, Vec<String>>;

pub(crate) async fn list(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Alert>>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let items = state.read(move |state| {
        let uses = uses(state, &namespace)?;
        let counts = Counts::read(state)?;
        let ours = state.query.alerts()?.into_iter().filter(|alert| alert.namespace == namespace);
        Ok(ours.map(|alert| shown(state, &alert, &uses, &counts)).collect())
    });
    Ok(Answer(rest::Page { items: items.await?, next: None }))
}

pub(crate) async fn get(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::Alert>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    Ok(Answer(state.read(move |state| one(state, &namespace, &name)).await?))
}

fn one(state: &State, namespace: &str, name: &str) -> Result<rest::Alert, Refusal> {
    let alert = find(state, namespace, name)?;
    Ok(shown(state, &alert, &uses(state, namespace)?, &Counts::read(state)?))
}

fn find(state: &State, namespace: &str, name: &str) -> Result<StoredAlert, Refusal> {
    let all = state.query.alerts()?;
    let names: Vec<&str> =
        all.iter().filter(|alert| alert.namespace == namespace).map(|alert| alert.name.as_str()).collect();
    if !names.contains(&name) {
        let hint = did_you_mean(name, names.iter().copied());
        return Err(unknown(namespace, name).hint(hint.unwrap_or("rota alert list shows them".to_owned())));
    }
    Ok(all.into_iter().find(|alert| alert.namespace == namespace && alert.name == name).expect("it was just seen"))
}

fn unknown(namespace: &str, name: &str) -> Refusal {
    let shown: String = name.chars().take(100).collect();
    Refusal::new(Code::AlertUnknown, format!("there is no alert `{shown}` in namespace `{namespace}`"))
}

pub(crate) async fn put(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
    Json(body): Json<rest::AlertSpec>,
) -> Result<Answer<rest::Alert>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    check_name("namespace", &namespace)?;
    check_name("name", &name)?;
    let rule = alert_spec::read(&body)?;
    let field = rule.channel.word();
    state.herald.check(&namespace, &rule.channel).map_err(|problem| {
        Refusal::invalid(if field == "email" { "email.server" } else { field }, problem)
            .hint("an address on this host itself is called only if outbound.allow lists it")
    })?;
    let (ours, wanted) = (namespace.clone(), name.clone());
    state
        .read(move |state| {
            let there = state.query.alerts()?;
            let count = there.iter().filter(|alert| alert.namespace == ours && alert.name != wanted).count();
            if count < ALERTS_MAX {
                return Ok(());
            }
            Err(Refusal::invalid("name", format!("the namespace has {ALERTS_MAX} alerts already"))
                .hint("remove those that no job names; rota alert list shows them"))
        })
        .await?;
    let shared = state.clone();
    let (rule, at, by) = (Box::new(rule), state.now(), BY.to_owned());
    let set = Reservation::Alert { namespace: namespace.clone(), name: name.clone(), rule, at, by };
    let command = async move {
        shared.intake.reserve(set).await?;
        shared.herald.changed().await;
        shared.read(move |state| one(state, &namespace, &name)).await
    };
    Ok(Answer(state.carry(command).await?))
}

pub(crate) async fn delete(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::AlertRemoved>, Refusal> {
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
            find(state, &namespace, &name)?;
            Ok(uses(state, &namespace)?.remove(&name).unwrap_or_default())
        })
        .await?;
    if let Some(first) = used_by.first()
        && !is_forced
    {
        let others = if used_by.len() > 1 { format!(" and {} others", used_by.len() - 1) } else { String::new() };
        return Err(Refusal::new(Code::AlertInUse, format!("the alert is named by `{first}`{others}"))
            .hint("change these jobs first; with force (--force) it goes at once, and nobody hears of them by it"));
    }
    let shared = state.clone();
    let removal = Reservation::AlertBack { namespace: namespace.clone(), name: name.clone() };
    let command = async move {
        let reserved = shared.intake.reserve(removal).await?;
        shared.herald.changed().await;
        Ok::<Reserved, Refusal>(reserved)
    };
    if state.carry(command).await? == Reserved::Unknown {
        return Err(unknown(&namespace, &name));
    }
    Ok(Answer(rest::AlertRemoved { name, used_by: named(&used_by) }))
}

pub(crate) async fn test(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::AlertTested>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let alert = state.read(move |state| find(state, &namespace, &name)).await?;
    let (name, channel) = (alert.name.clone(), alert.rule.channel.word().to_owned());
    state.herald.test(alert).await.map_err(|problem| {
        Refusal::new(Code::NotDelivered, format!("the channel did not take the message: {problem}"))
            .hint("mend its address or its secrets: rota alert show NAME, rota secret list")
    })?;
    Ok(Answer(rest::AlertTested { name, channel }))
}

pub(crate) async fn alarms(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
) -> Result<Answer<rest::Page<rest::Alarm>>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let items = state.read(move |state| {
        let alerts = state.query.alerts()?;
        let ours = alerts.iter().filter(|alert| alert.namespace == namespace);
        let names: BTreeMap<_, &str> = ours.map(|alert| (alert.id, alert.name.as_str())).collect();
        let mut alarms = Vec::new();
        for (key, alarm) in state.query.alarms()? {
            let Some(alert) = names.get(&key.alert) else { continue };
            let time = |at: i64| UnixMs(at).to_string();
            let job = state.query.job(key.job)?.map_or_else(|| key.job.to_string(), |job| job.name);
            alarms.push(rest::Alarm {
                alert: (*alert).to_owned(),
                job,
                event: key.event.word().to_owned(),
                is_open: alarm.is_open(),
                since: time(alarm.since),
                over: alarm.over.map(time),
                told_at: alarm.told_at.map(time),
                untold: alarm.untold,
                acked_by: alarm.acked_by,
                run: alarm.facts.run.map(|run| run.to_string()),
                slot: alarm.facts.slot.map(time),
                why: alarm.facts.why,
            });
        }
        // What is open first, and of that the newest.
        alarms.sort_by(|a, b| (b.is_open, &b.since).cmp(&(a.is_open, &a.since)));
        Ok(alarms)
    });
    Ok(Answer(rest::Page { items: items.await?, next: None }))
}

pub(crate) async fn acknowledge(
    _: Admin,
    Shared(state): Shared<Arc<State>>,
    uri: Uri,
    Json(body): Json<rest::AlarmAck>,
) -> Result<Answer<rest::AlarmAck>, Refusal> {
    let namespace = Args::read(&uri, &[])?.namespace();
    let asked = body.clone();
    let key = state
        .read(move |state| {
            let event = alert_spec::event(&asked.event).map_err(|_| {
                Refusal::invalid("event", "there is no such event").hint("rota alert open shows what is open")
            })?;
            let alert = find(state, &namespace, &asked.alert)?.id;
            let job = view::find_job(state, &namespace, &asked.job)?.id;
            Ok(Key { alert, job, event })
        })
        .await?;
    if !state.herald.acknowledge(key, BY).await {
        let message = format!("`{}` of `{}` is not open for `{}`", body.event, body.job, body.alert);
        return Err(Refusal::new(Code::AlarmUnknown, message).hint("rota alert open shows what is open"));
    }
    Ok(Answer(body))
}

/// Open alarms and waiting messages of each rule.
#[derive(Default)]
struct Counts(BTreeMap<rota_core::alert::AlertId, (u64, u64, Option<String>)>);

impl Counts {
    fn read(state: &State) -> Result<Counts, Refusal> {
        let mut counts = Counts::default();
        for (key, alarm) in state.query.alarms()? {
            counts.0.entry(key.alert).or_default().0 += u64::from(alarm.is_open());
        }
        for notice in state.query.notices()? {
            let count = counts.0.entry(notice.notice.key.alert).or_default();
            count.1 += 1;
            count.2 = count.2.take().or(notice.error);
        }
        Ok(counts)
    }
}

/// The jobs of a namespace that name rules, in order of id.
fn uses(state: &State, namespace: &str) -> Result<Uses, Refusal> {
    let mut uses = Uses::new();
    let mut after = JobId(0);
    loop {
        let page = state.query.jobs(None, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(uses) };
        after = last.id;
        for job in page.iter().filter(|job| !job.spec.alerts.is_empty()) {
            if view::app_of(state, job)?.namespace == namespace {
                for alert in &job.spec.alerts {
                    uses.entry(alert.clone()).or_default().push(job.name.clone());
                }
            }
        }
    }
}

fn named(jobs: &[String]) -> Vec<String> {
    jobs.iter().take(JOBS_NAMED_MAX).cloned().collect()
}

fn shown(state: &State, alert: &StoredAlert, uses: &Uses, counts: &Counts) -> rest::Alert {
    let (open, waiting, error) = counts.0.get(&alert.id).cloned().unwrap_or_default();
    rest::Alert {
        name: alert.name.clone(),
        spec: alert_spec::write(&alert.rule),
        at: alert.at.to_string(),
        by: alert.by.clone(),
        used_by: uses.get(&alert.name).map(|jobs| named(jobs)).unwrap_or_default(),
        open,
        waiting,
        undelivered: alert.undelivered,
        last_error: error.or_else(|| alert.last_error.clone()),
        warnings: unset(state, &alert.namespace, &alert.rule),
    }
}

fn unset(state: &State, namespace: &str, rule: &Rule) -> Vec<String> {
    let vault = state.secrets.in_namespace(namespace);
    let missing = rule.channel.secrets().into_iter().filter(|name| vault.value(name).is_none());
    missing.map(|name| format!("secret {name} is not set: rota secret set {name}")).collect()
}

/// What whoever saves a job should know: rules that it names and that are not there.
pub(crate) fn missing(state: &State, namespace: &str, spec: &Spec) -> Result<Vec<String>, Refusal> {
    if spec.alerts.is_empty() {
        return Ok(Vec::new());
    }
    let all = state.query.alerts()?;
    let is_there = |name: &&String| all.iter().any(|alert| alert.namespace == namespace && alert.name == **name);
    let missing = spec.alerts.iter().filter(|name| !is_there(name));
    Ok(missing.map(|name| format!("there is no alert {name} yet: rota alert set {name}")).collect())
}
