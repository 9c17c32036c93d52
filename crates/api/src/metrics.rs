//! `/metrics`: the Prometheus text format, written from the machines' snapshots and the committer's health.
//!
//! Written by hand: all values exist already as plain counts, so a registry would only be a second copy of them.
//! Every family here is described in `docs/metrics.md`; a test holds the two together.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::header;
use rota_core::batch::RunState;
use rota_core::id::{AppId, WorkerId};
use rota_core::partition::{DispatchResult, LATENESS_BOUNDS_MS, Snapshot};
use rota_core::why::Why;
use rota_core::worker::{App, Protocol, WorkerState};
use rota_port::intake::{COMMIT_BOUNDS_MS, Health};

use crate::auth::Reader;
use crate::held;
use crate::refusal::Refusal;
use crate::state::State;

pub(crate) async fn get(_: Reader, Shared(state): Shared<Arc<State>>) -> Result<Response, Refusal> {
    let text = state.read(|state| Ok(collect(state))).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// Families in the order in which they were begun.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a String takes all");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (at, (key, value)) in labels.iter().enumerate() {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(self.0, "{}{key}=\"{escaped}\"", if at == 0 { '{' } else { ',' }).expect("a String takes all");
        }
        writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" }).expect("a String takes all");
    }

    /// A histogram from counts per bucket; the last is beyond all bounds.
    fn histogram(&mut self, name: &str, bounds_ms: &[u64], counts: &[u64], sum_us: u64) {
        let mut total = 0u64;
        for (bound, count) in bounds_ms.iter().zip(counts) {
            total += count;
            self.sample(&format!("{name}_bucket"), &[("le", &seconds(bound * 1_000))], total);
        }
        total += counts.get(bounds_ms.len()).copied().unwrap_or(0);
        self.sample(&format!("{name}_bucket"), &[("le", "+Inf")], total);
        self.sample(&format!("{name}_sum"), &[], seconds(sum_us));
        self.sample(&format!("{name}_count"), &[], total);
    }
}

/// Microseconds as seconds, exactly.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn collect(state: &State) -> String {
    let snapshots = state.intake.snapshots();
    let health = state.intake.health();
    let mut text = Text::default();
    about(&mut text, state, &health);
    slots(&mut text, state, &snapshots);
    held(&mut text, state, &snapshots);
    dispatches(&mut text, state, &snapshots);
    standing(&mut text, &snapshots);
    backfills(&mut text, &snapshots);
    frozen(&mut text, state, &snapshots);
    alerts(&mut text, state);
    workers(&mut text, state, &snapshots);
    text.family("rota_commit_seconds", "histogram", "Duration of group commits.");
    text.histogram("rota_commit_seconds", &COMMIT_BOUNDS_MS, &health.commits, health.commit_us);
    text.0
}

fn about(text: &mut Text, state: &State, health: &Health) {
    text.family("rota_build_info", "gauge", "Always 1; versions as labels.");
    let labels = [("version", state.settings.version), ("tzdb", rota_cron::tzdb_version())];
    text.sample("rota_build_info", &labels, 1);
    text.family("rota_store_available", "gauge", "Whether the store takes commits.");
    text.sample("rota_store_available", &[], u8::from(health.store.is_none()));
    text.family("rota_machines_stalled_seconds", "gauge", "Since the machines' last step although input waits.");
    text.sample("rota_machines_stalled_seconds", &[], seconds(health.stalled_ms.saturating_mul(1_000)));
    text.family("rota_api_answers_total", "counter", "Answers of this API by class of status.");
    for (at, class) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().enumerate() {
        text.sample("rota_api_answers_total", &[("class", class)], state.counts.answers[at].load(Ordering::Relaxed));
    }
    text.family("rota_api_refused_tokens_total", "counter", "Requests without a token that opens what they ask for.");
    text.sample("rota_api_refused_tokens_total", &[], state.counts.refused_tokens.load(Ordering::Relaxed));
}

/// An app's name, as labels show it: of the default namespace the bare name.
fn app_label(state: &State, app: AppId) -> String {
    match state.app(app) {
        Ok(Some(app)) if app.namespace == rota_wire::worker::default_namespace() => app.name,
        Ok(Some(app)) => format!("{}/{}", app.namespace, app.name),
        Ok(None) | Err(_) => format!("app-{app}"),
    }
}

fn slots(text: &mut Text, state: &State, snapshots: &[Arc<Snapshot>]) {
    let mut counts: BTreeMap<(AppId, RunState, Option<Why>), u64> = BTreeMap::new();
    let mut lateness = [0u64; LATENESS_BOUNDS_MS.len() + 1];
    let mut sum_ms = 0u64;
    for snapshot in snapshots {
        for (app, run, why, count) in &snapshot.slots {
            *counts.entry((*app, *run, *why)).or_default() += count;
        }
        for (total, count) in lateness.iter_mut().zip(&snapshot.lateness) {
            *total += count;
        }
        sum_ms = sum_ms.saturating_add(snapshot.lateness_sum_ms);
    }
    text.family("rota_slots_total", "counter", "Slots covered by rows, by the state that the row was written with.");
    for ((app, run, why), count) in counts {
        let (app, why) = (app_label(state, app), why.map_or("", Why::word));
        text.sample("rota_slots_total", &[("app", &app), ("state", run.word()), ("why", why)], count);
    }
    text.family("rota_slot_lateness_seconds", "histogram", "From the slot to the decision to run it.");
    text.histogram("rota_slot_lateness_seconds", &LATENESS_BOUNDS_MS, &lateness, sum_ms.saturating_mul(1_000));
}

fn held(text: &mut Text, state: &State, snapshots: &[Arc<Snapshot>]) {
    let mut counts: BTreeMap<(AppId, Why), u64> = BTreeMap::new();
    let mut overdue = 0u64;
    for snapshot in snapshots {
        for (app, why, count) in &snapshot.held_counts {
            *counts.entry((*app, *why)).or_default() += count;
        }
        overdue += snapshot.held.iter().filter(|held| held::is_overdue(held, snapshot.at)).count() as u64;
    }
    text.family("rota_slots_held", "gauge", "Due slots that wait without a row.");
    for ((app, why), count) in &counts {
        text.sample("rota_slots_held", &[("app", &app_label(state, *app)), ("why", why.word())], count);
    }
    let mut waiting: BTreeMap<(AppId, Why), u64> = BTreeMap::new();
    for notes in snapshots.iter().flat_map(|snapshot| &snapshot.notes) {
        *waiting.entry((notes.app, notes.why)).or_default() += notes.count;
    }
    text.family("rota_children_waiting", "gauge", "Ended runs that have not fired a job of the app yet.");
    for ((app, why), count) in waiting {
        text.sample("rota_children_waiting", &[("app", &app_label(state, app)), ("why", why.word())], count);
    }
    text.family("rota_slots_overdue", "gauge", "Held slots that were due more than 60 s ago.");
    text.sample("rota_slots_overdue", &[], overdue);
    text.family(
        "rota_valve_state",
        "gauge",
        "1 while slots wait for the app's cap or rate; without an app, the server's.",
    );
    let waits_for_server = counts.keys().any(|(_, why)| matches!(why, Why::ServerCap | Why::ServerRate));
    text.sample("rota_valve_state", &[], u8::from(waits_for_server));
    let apps: std::collections::BTreeSet<AppId> = counts.keys().map(|(app, _)| *app).collect();
    for app in apps {
        let is_shut = [Why::Cap, Why::Rate].iter().any(|why| counts.contains_key(&(app, *why)));
        text.sample("rota_valve_state", &[("app", &app_label(state, app))], u8::from(is_shut));
    }
}

fn dispatches(text: &mut Text, state: &State, snapshots: &[Arc<Snapshot>]) {
    let mut counts: BTreeMap<(AppId, DispatchResult), u64> = BTreeMap::new();
    for (app, result, count) in snapshots.iter().flat_map(|snapshot| &snapshot.dispatches) {
        *counts.entry((*app, *result)).or_default() += count;
    }
    text.family("scheduler_dispatch_total", "counter", "Dispatches by what became of them.");
    for ((app, result), count) in counts {
        let is_url = state.directory.app(app).is_some_and(|app| app.name == App::URL);
        let protocol = if is_url { Protocol::Url } else { Protocol::Http };
        let labels = [("app", &*app_label(state, app)), ("protocol", protocol.word()), ("result", result.word())];
        text.sample("scheduler_dispatch_total", &labels, count);
    }
}

fn standing(text: &mut Text, snapshots: &[Arc<Snapshot>]) {
    let sum = |of: fn(&Snapshot) -> u64| -> u64 { snapshots.iter().map(|snapshot| of(snapshot)).sum() };
    text.family("rota_jobs", "gauge", "Jobs by state.");
    text.sample("rota_jobs", &[("state", "enabled")], sum(|snapshot| snapshot.jobs[0]));
    text.sample("rota_jobs", &[("state", "paused")], sum(|snapshot| snapshot.jobs[1]));
    text.sample("rota_jobs", &[("state", "finished")], sum(|snapshot| snapshot.jobs[2]));
    text.family("rota_jobs_broken", "gauge", "Stored jobs that this version cannot read.");
    text.sample("rota_jobs_broken", &[], sum(|snapshot| snapshot.broken.len() as u64));
    text.family("rota_runs_open", "gauge", "Open runs.");
    text.sample("rota_runs_open", &[], sum(|snapshot| snapshot.runs_open));
    text.family("rota_attempts_open", "gauge", "Open attempts.");
    text.sample("rota_attempts_open", &[], sum(|snapshot| snapshot.attempts_open));
    text.family("rota_attempts_in_doubt", "gauge", "Open attempts that may or may not have reached their worker.");
    text.sample("rota_attempts_in_doubt", &[], sum(|snapshot| snapshot.in_doubt));
    text.family("rota_late_results_total", "counter", "Results that came after their attempt had ended otherwise.");
    text.sample("rota_late_results_total", &[], sum(|snapshot| snapshot.late_results));
    text.family("rota_partitions_suspended", "gauge", "Partitions that fire nothing.");
    text.sample("rota_partitions_suspended", &[], sum(|snapshot| u64::from(snapshot.suspended.is_some())));
}

fn backfills(text: &mut Text, snapshots: &[Arc<Snapshot>]) {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for backfill in snapshots.iter().flat_map(|snapshot| &snapshot.backfills) {
        *counts.entry(backfill.waits.map_or("", Why::word)).or_default() += 1;
    }
    text.family("rota_backfills", "gauge", "Backfills that have not ended, by what they wait for.");
    // Without a reason: those that wait for nothing, or for the ends of their last runs.
    text.sample("rota_backfills", &[("why", "")], counts.remove("").unwrap_or(0));
    for (why, count) in counts {
        text.sample("rota_backfills", &[("why", why)], count);
    }
}

fn alerts(text: &mut Text, state: &State) {
    let counts = state.herald.counts();
    text.family("rota_alert_messages_total", "counter", "Messages of alerts by what became of a try, and by channel.");
    for (result, of) in [("sent", &counts.sent), ("failed", &counts.failed), ("given_up", &counts.given_up)] {
        for (channel, count) in of {
            text.sample("rota_alert_messages_total", &[("channel", channel), ("result", result)], count);
        }
    }
    text.family("rota_alert_suppressed_total", "counter", "Occurrences that got no message of their own.");
    text.sample("rota_alert_suppressed_total", &[], counts.suppressed);
    text.family("rota_alert_messages_waiting", "gauge", "Messages that no channel has taken yet.");
    text.sample("rota_alert_messages_waiting", &[], counts.waiting);
    text.family("rota_alarms_open", "gauge", "Alarms that are open.");
    text.sample("rota_alarms_open", &[], counts.open);
}

fn frozen(text: &mut Text, state: &State, snapshots: &[Arc<Snapshot>]) {
    let mut scopes: BTreeMap<Option<AppId>, u64> = BTreeMap::new();
    for freeze in snapshots.iter().flat_map(|snapshot| &snapshot.frozen) {
        *scopes.entry(freeze.app).or_default() += 1;
    }
    text.family("rota_frozen", "gauge", "Partitions that an operator has frozen; without an app, as a whole.");
    text.sample("rota_frozen", &[], scopes.remove(&None).unwrap_or(0));
    for (app, count) in scopes {
        text.sample("rota_frozen", &[("app", &app.map_or_else(String::new, |app| app_label(state, app)))], count);
    }
}

fn workers(text: &mut Text, state: &State, snapshots: &[Arc<Snapshot>]) {
    const STATES: [WorkerState; 4] =
        [WorkerState::Online, WorkerState::Draining, WorkerState::Unreachable, WorkerState::Offline];
    let mut counts: BTreeMap<(AppId, WorkerState), u64> = BTreeMap::new();
    let all = snapshots.iter().flat_map(|snapshot| &snapshot.workers);
    for worker in all.filter(|worker| worker.id != WorkerId(0)) {
        for known in STATES {
            *counts.entry((worker.app, known)).or_default() += u64::from(known == worker.state);
        }
    }
    text.family("rota_worker_state", "gauge", "Workers by state.");
    for ((app, worker), count) in counts {
        text.sample("rota_worker_state", &[("app", &app_label(state, app)), ("state", worker.word())], count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_cumulative_and_exact() {
        let mut text = Text::default();
        text.histogram("x_seconds", &[1, 2, 1_000], &[3, 0, 2, 1], 1_234_567);
        let expected = "x_seconds_bucket{le=\"0.001\"} 3\nx_seconds_bucket{le=\"0.002\"} 3\n\
            x_seconds_bucket{le=\"1\"} 5\nx_seconds_bucket{le=\"+Inf\"} 6\nx_seconds_sum 1.234567\nx_seconds_count 6\n";
        assert_eq!(text.0, expected);
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.sample("x", &[("app", "a\"b\\c\nd")], 1);
        assert_eq!(text.0, "x{app=\"a\\\"b\\\\c\\nd\"} 1\n");
        assert_eq!(seconds(0), "0");
    }
}
