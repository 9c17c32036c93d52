//! Messages on their way: one at a time for each channel, in order, again with growing delays, for a day.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rota_core::alert::text::Names;
use rota_core::alert::{AlertId, Notice};
use rota_core::time::UnixMs;
use rota_cron::Zone;
use rota_engine::clock::Clock;
use rota_net::message::Messenger;
use rota_port::alerts::{StoredAlert, StoredNotice, Tried};
use rota_port::secrets::Secrets;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::channel::{self, Message};
use super::counts::Counts;

/// The delays between tries.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));
/// What was not delivered for so long is given up, counted and logged.
const GIVEN_UP_MS: i64 = 24 * 3_600_000;

/// What waits for one channel.
#[derive(Default)]
struct Line {
    waiting: VecDeque<StoredNotice>,
    is_sending: bool,
    /// Not before this.
    not_before: Option<Instant>,
}

pub(super) struct Deliveries {
    messenger: Messenger,
    secrets: Arc<Secrets>,
    clock: Clock,
    lines: BTreeMap<AlertId, Line>,
    tasks: JoinSet<(AlertId, &'static str, Result<(), String>)>,
    tried: Vec<(u64, Tried)>,
    counts: Arc<Counts>,
}

impl Deliveries {
    pub(super) fn new(messenger: Messenger, secrets: Arc<Secrets>, clock: Clock, counts: Arc<Counts>) -> Deliveries {
        let (lines, tasks, tried) = (BTreeMap::new(), JoinSet::new(), Vec::new());
        Deliveries { messenger, secrets, clock, lines, tasks, tried, counts }
    }

    /// What the process before left.
    pub(super) fn load(&mut self, notices: Vec<StoredNotice>) {
        self.add(notices);
    }

    pub(super) fn add(&mut self, notices: Vec<StoredNotice>) {
        for notice in notices {
            self.lines.entry(notice.notice.key.alert).or_default().waiting.push_back(notice);
        }
    }

    /// Forgets channels that are gone, with what waited for them.
    pub(super) fn retain(&mut self, is_there: impl Fn(AlertId) -> bool) {
        self.lines.retain(|alert, line| is_there(*alert) || line.is_sending);
        for (_, line) in self.lines.iter_mut().filter(|(alert, _)| !is_there(**alert)) {
            line.waiting.truncate(1);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.tried.is_empty()
    }

    pub(super) fn counts(&self) -> BTreeMap<AlertId, usize> {
        self.lines.iter().map(|(alert, line)| (*alert, line.waiting.len())).collect()
    }

    pub(super) fn take_tried(&mut self) -> Vec<(u64, Tried)> {
        std::mem::take(&mut self.tried)
    }

    /// The first message of each channel that may be sent now.
    pub(super) fn ready(&self) -> Vec<StoredNotice> {
        let now = Instant::now();
        let free = self.lines.values().filter(|line| !line.is_sending && line.not_before.is_none_or(|at| at <= now));
        free.filter_map(|line| line.waiting.front().cloned()).collect()
    }

    pub(super) fn send(&mut self, alert: Arc<StoredAlert>, stored: StoredNotice, names: Names) {
        let Some(line) = self.lines.get_mut(&alert.id) else { return };
        line.is_sending = true;
        let (messenger, now) = (self.messenger.clone(), self.clock.now().wall);
        let vault = self.secrets.in_namespace(&alert.namespace);
        self.tasks.spawn_local(async move {
            let names = Names { message: vault.redact(&names.message).into_owned(), ..names };
            let (rule, notice, id) = (&alert.rule, &stored.notice, stored.id);
            let message = Message { rule, notice, names: &names, id, now };
            (alert.id, rule.channel.word(), channel::deliver(&messenger, &vault, &message).await)
        });
    }

    /// Waits until a delivery has ended; for ever if none is under way.
    pub(super) async fn landed(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok((alert, channel, outcome))) => self.land(alert, channel, outcome),
            Some(Err(error)) => tracing::error!(%error, "alert_delivery_panicked"),
            None => std::future::pending().await,
        }
    }

    fn land(&mut self, alert: AlertId, channel: &'static str, outcome: Result<(), String>) {
        let wall = self.clock.now().wall;
        self.counts.change(|counts| {
            let of = if outcome.is_ok() { &mut counts.sent } else { &mut counts.failed };
            *of.entry(channel).or_default() += 1;
        });
        let Some(line) = self.lines.get_mut(&alert) else { return };
        line.is_sending = false;
        line.not_before = None;
        let Some(mut first) = line.waiting.pop_front() else { return };
        let tried = match outcome {
            Ok(()) => Tried::Delivered,
            Err(error) if wall.since_ms(first.at) >= GIVEN_UP_MS => {
                tracing::error!(alert = alert.0, error, "alert_given_up");
                self.counts.change(|counts| *counts.given_up.entry(channel).or_default() += 1);
                Tried::GivenUp { error }
            }
            Err(error) => {
                tracing::warn!(alert = alert.0, tries = first.tries + 1, error, "alert_not_delivered");
                let delay = BACKOFF.0.saturating_mul(1 << first.tries.min(16)).min(BACKOFF.1);
                line.not_before = Some(Instant::now() + delay);
                let next_at = wall.plus_ms(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
                first.tries += 1;
                let id = first.id;
                line.waiting.push_front(first);
                self.tried.push((id, Tried::Again { next_at, error }));
                return;
            }
        };
        if line.waiting.is_empty() {
            self.lines.remove(&alert);
        }
        self.tried.push((first.id, tried));
    }
}

/// A job for people: its name, namespace, app and zone.
pub(super) type About = (String, String, String, String);

/// The names of what a notice is about.
pub(super) fn names_of(
    alert: &StoredAlert,
    notice: &Notice,
    about: Option<About>,
    others: Vec<String>,
    message: String,
) -> Names {
    let (job, namespace, app, zone) =
        about.unwrap_or_else(|| (notice.key.job.to_string(), alert.namespace.clone(), String::new(), "UTC".to_owned()));
    let zone = Zone::parse(&zone).unwrap_or_else(|_| Zone::utc());
    let time = |at: i64| zone.format(UnixMs(at));
    Names {
        namespace,
        alert: alert.name.clone(),
        app,
        job,
        others,
        slot: notice.facts.slot.map(time).unwrap_or_default(),
        since: time(notice.since),
        message,
    }
}
