//! Alerts, as a thread: it reads what has become durable and what is live, lets [`rota_core::alert`] decide, makes that
//! durable, and then delivers messages.
//!
//! Invariants: nothing here is waited for by machines or by the writer; a message is a row before it is sent, and stays
//! one until its channel has taken it or a day has passed; an end is judged once, since what follows from it is written
//! in the transaction that takes it away. A message may be delivered twice, if the process dies in between.
//!
//! While no job names a rule, a look costs one load twice a second.

mod channel;
mod counts;
mod deliver;
mod jobs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rota_api::{AlertCounts, Herald};
use rota_core::alert::book::{Book, Limits};
use rota_core::alert::judge::{self, Verdict};
use rota_core::alert::{AlertId, Channel, Event, Facts, Key, Kind, Notice, fill};
use rota_core::batch::{Run, RunState};
use rota_core::id::{JobId, RunId};
use rota_core::job::JobState;
use rota_core::time::UnixMs;
use rota_engine::clock::Clock;
use rota_net::message::Messenger;
use rota_port::alerts::{StoredAlert, StoredNotice, Watch, Work};
use rota_port::history::History;
use rota_port::intake::{Intake, Waiting};
use rota_port::query::Query;
use rota_port::secrets::Secrets;
use rota_port::store::{Error, Reservation};
use tokio::sync::{mpsc, oneshot};

use self::counts::Counts;
use self::deliver::{Deliveries, names_of};
use self::jobs::{Lives, Reader, Rules, Watched, hears};

/// Between two looks at what has ended; what is live is looked at less often.
const LOOK: Duration = Duration::from_millis(500);
const LOOKS_A_LIVE: u32 = 4;
/// Between two tries to write to a store that is not available.
const RETRY: Duration = Duration::from_secs(1);
/// Ends that are judged in one transaction.
const ENDS_MAX: u32 = 500;
/// Commands that may wait; whoever sends more waits.
const COMMANDS_MAX: usize = 64;
/// Messages that wait for a channel; above that, what is to be told waits in the book, as it is then.
const WAITING_MAX: usize = 20;

/// What alerts need of the rest of a server.
pub(crate) struct Parts {
    pub(crate) query: Arc<dyn Query>,
    pub(crate) history: Arc<dyn History>,
    pub(crate) intake: Arc<dyn Intake>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) messenger: Messenger,
    pub(crate) clock: Clock,
}

enum Command {
    /// Rules were changed.
    Changed,
    Acknowledge {
        key: Key,
        by: String,
        done: oneshot::Sender<bool>,
    },
}

/// The way to the thread. It ends when the last of these is gone.
pub(crate) struct Alerts {
    commands: mpsc::Sender<Command>,
    messenger: Messenger,
    secrets: Arc<Secrets>,
    clock: Clock,
    counts: Arc<Counts>,
}

impl Alerts {
    /// Starts the thread.
    pub(crate) fn start(parts: Parts) -> std::io::Result<Alerts> {
        let (commands, waiting) = mpsc::channel(COMMANDS_MAX);
        let (messenger, secrets, clock) = (parts.messenger.clone(), Arc::clone(&parts.secrets), parts.clock);
        let counts: Arc<Counts> = Arc::default();
        let counted = Arc::clone(&counts);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("alerts".to_owned()).spawn(move || {
            let tasks = tokio::task::LocalSet::new();
            runtime.block_on(tasks.run_until(Desk::new(parts, counted).run(waiting)));
        })?;
        Ok(Alerts { commands, messenger, secrets, clock, counts })
    }
}

impl Herald for Alerts {
    fn check(&self, namespace: &str, channel: &Channel) -> Result<(), String> {
        let vault = self.secrets.in_namespace(namespace);
        let value = |name: &str| vault.value(name).map(|value| value.trim().to_owned());
        let checked = match channel {
            Channel::Email { server, .. } => fill(server, value).map(|server| self.messenger.check_server(&server)),
            Channel::Webhook { .. }
            | Channel::Dingtalk { .. }
            | Channel::Wecom { .. }
            | Channel::Feishu { .. }
            | Channel::Slack { .. } => {
                let url = channel.url().unwrap_or_default();
                fill(url, value).map(|url| self.messenger.check(&url))
            }
        };
        // What is not set yet is judged when it is used.
        checked.unwrap_or(Ok(())).map_err(|error| vault.redact(&error.to_string()).into_owned())
    }

    fn changed(&self) -> Waiting<()> {
        let commands = self.commands.clone();
        Box::pin(async move {
            // It has ended only if the server has.
            let _ended = commands.send(Command::Changed).await;
        })
    }

    fn acknowledge(&self, key: Key, by: &str) -> Waiting<bool> {
        let (commands, by) = (self.commands.clone(), by.to_owned());
        Box::pin(async move {
            let (done, answer) = oneshot::channel();
            let sent = commands.send(Command::Acknowledge { key, by, done }).await;
            sent.is_ok() && answer.await.unwrap_or(false)
        })
    }

    fn counts(&self) -> AlertCounts {
        self.counts.read()
    }

    fn test(&self, alert: StoredAlert) -> Waiting<Result<(), String>> {
        let (messenger, now) = (self.messenger.clone(), self.clock.now().wall);
        let vault = self.secrets.in_namespace(&alert.namespace);
        Box::pin(async move {
            let key = Key { alert: alert.id, job: JobId(0), event: Event::Failed };
            let (facts, others) = (Facts::default(), Vec::new());
            let notice = Notice { kind: Kind::Test, key, facts, since: now.0, count: 0, others, others_count: 0 };
            let names = names_of(&alert, &notice, None, Vec::new(), String::new());
            let (rule, notice, names) = (&alert.rule, &notice, &names);
            let message = channel::Message { rule, notice, names, id: 0, now };
            channel::deliver(&messenger, &vault, &message).await
        })
    }
}

/// A run that has ended, if it is still there, and its job if that is not watched any more.
type End = (RunId, Option<(Run, Option<Watched>)>);

/// What the thread holds.
struct Desk {
    parts: Parts,
    reader: Reader,
    rules: Rules,
    jobs: BTreeMap<JobId, Watched>,
    book: Book,
    deliveries: Deliveries,
    counts: Arc<Counts>,
    next_notice: u64,
    looks: u32,
    /// Rules, alarms and messages are read once the store answers.
    is_loaded: bool,
    is_changed: bool,
    /// Written, but for the answer; nothing else is decided before that.
    work: Option<(Work, Vec<oneshot::Sender<bool>>)>,
}

impl Desk {
    fn new(parts: Parts, counts: Arc<Counts>) -> Desk {
        let reader = Reader::new(Arc::clone(&parts.query), Arc::clone(&parts.history));
        let (messenger, secrets) = (parts.messenger.clone(), Arc::clone(&parts.secrets));
        let deliveries = Deliveries::new(messenger, secrets, parts.clock, Arc::clone(&counts));
        Desk {
            parts,
            reader,
            rules: Rules::default(),
            jobs: BTreeMap::new(),
            book: Book::default(),
            deliveries,
            counts,
            next_notice: 1,
            looks: 0,
            is_loaded: false,
            is_changed: true,
            work: None,
        }
    }

    /// Until nobody is left who could send a command.
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut acks = Vec::new();
        loop {
            let pause = if self.work.is_some() || !self.is_loaded { RETRY } else { LOOK };
            tokio::select! {
                // Commands first; all of them can be dropped and lose nothing.
                biased;
                command = commands.recv() => match command {
                    None => return,
                    Some(Command::Changed) => self.is_changed = true,
                    Some(Command::Acknowledge { key, by, done }) => acks.push((key, by, done)),
                },
                () = self.deliveries.landed() => {}
                () = tokio::time::sleep(pause) => {}
            }
            if let Err(error) = self.pass(&mut acks).await {
                tracing::warn!(%error, "alerts_wait_for_the_store");
            }
            let open = self.book.alarms().filter(|(_, alarm)| alarm.is_open()).count() as u64;
            let waiting = self.deliveries.counts().values().sum::<usize>() as u64;
            self.counts.change(|counts| (counts.open, counts.waiting) = (open, waiting));
        }
    }

    async fn pass(&mut self, acks: &mut Vec<(Key, String, oneshot::Sender<bool>)>) -> Result<(), Error> {
        self.write().await?;
        self.load()?;
        if self.is_idle() && acks.is_empty() {
            return Ok(());
        }
        let now = self.parts.clock.now().wall;
        self.read_jobs()?;
        let ends = self.read_ends()?;
        // From here on nothing fails: what is decided is decided once.
        let mut work = Work { tried: self.deliveries.take_tried(), ..Work::default() };
        let mut answers = Vec::new();
        for (key, by, done) in acks.drain(..) {
            if self.book.acknowledge(key, &by) {
                answers.push(done);
            } else {
                // Whoever asked may have gone.
                let _gone = done.send(false);
            }
        }
        work.heard = self.judge_ends(now, ends);
        self.judge_live(now);
        let waiting = self.deliveries.counts();
        let has_room = |alert: AlertId| waiting.get(&alert).is_none_or(|count| *count < WAITING_MAX);
        for notice in self.book.turn(now, has_room) {
            self.counts.change(|counts| counts.suppressed += notice.count.saturating_sub(1));
            let (id, at) = (self.next_notice, now);
            self.next_notice += 1;
            work.notices.push(StoredNotice { id, at, notice, tries: 0, next_at: at, error: None });
        }
        work.alarms = self.book.take_changed();
        if !work.is_empty() || !answers.is_empty() {
            self.work = Some((work, answers));
            self.write().await?;
        }
        self.deliver();
        Ok(())
    }

    /// Whether nothing can have happened that somebody wants to hear of.
    fn is_idle(&self) -> bool {
        self.parts.watch.is_idle() && self.jobs.is_empty() && self.book.is_empty() && self.deliveries.is_empty()
    }

    /// Reads the rules anew if they were changed, and at first what was left by the process before.
    fn load(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_changed) {
            return Ok(());
        }
        let loaded = self.read_rules();
        self.is_changed |= loaded.is_err();
        loaded
    }

    fn read_rules(&mut self) -> Result<(), Error> {
        self.rules = Rules::new(self.parts.query.alerts()?);
        if !self.is_loaded {
            let (alarms, notices) = (self.parts.query.alarms()?, self.parts.query.notices()?);
            self.book = Book::new(alarms);
            self.next_notice = notices.last().map_or(1, |notice| notice.id + 1);
            self.deliveries.load(notices);
            self.is_loaded = true;
        }
        self.book.set_limits(self.rules.by_id.iter().map(|(id, alert)| (*id, Limits::of(&alert.rule))).collect());
        self.deliveries.retain(|alert| self.rules.by_id.contains_key(&alert));
        // A rule may have begun to ask for what was not read so far.
        for job in self.jobs.values_mut().filter(|job| job.success_since.is_none()) {
            job.success_since = self.reader.success_since(&job.definition)?;
        }
        Ok(())
    }

    /// Makes durable what was decided; only then may it be acted on.
    async fn write(&mut self) -> Result<(), Error> {
        let Some((work, _)) = &self.work else { return Ok(()) };
        self.parts.intake.reserve(Reservation::AlertWork(Box::new(work.clone()))).await?;
        let (work, answers) = self.work.take().expect("it was there");
        self.deliveries.add(work.notices);
        for done in answers {
            let _gone = done.send(true);
        }
        Ok(())
    }

    /// Reads jobs that were changed. What a job that names no rule any more had open is over.
    fn read_jobs(&mut self) -> Result<(), Error> {
        for id in self.parts.watch.take_changed() {
            let read = self.reader.job(id)?;
            let is_watched =
                |job: &Watched| job.definition.state != JobState::Deleted && !job.definition.spec.alerts.is_empty();
            match read.filter(is_watched) {
                Some(mut job) => {
                    if hears(&self.rules, &job, Event::NoSuccess) {
                        job.success_since = self.reader.success_since(&job.definition)?;
                    }
                    self.jobs.insert(id, job);
                }
                None => drop(self.jobs.remove(&id)),
            }
        }
        Ok(())
    }

    /// The runs that have ended since the last look. Rows that the retention has dropped are of no interest.
    fn read_ends(&mut self) -> Result<Vec<End>, Error> {
        let ends = self.parts.query.alert_ends(ENDS_MAX)?;
        let mut read = Vec::with_capacity(ends.len());
        for id in ends {
            let Some(run) = self.parts.query.run(id)? else {
                read.push((id, None));
                continue;
            };
            let job = if self.jobs.contains_key(&run.job) { None } else { self.reader.job(run.job)? };
            read.push((id, Some((run, job))));
        }
        Ok(read)
    }

    fn judge_ends(&mut self, now: UnixMs, ends: Vec<End>) -> Vec<RunId> {
        let mut heard = Vec::with_capacity(ends.len());
        for (id, end) in ends {
            heard.push(id);
            let Some((run, unwatched)) = end else { continue };
            if run.state == RunState::Success
                && let Some(job) = self.jobs.get_mut(&run.job)
                && job.definition.state == JobState::Enabled
            {
                job.success_since = job.success_since.max(run.ended_at);
            }
            let Some(job) = self.jobs.get(&run.job).or(unwatched.as_ref()) else { continue };
            for alert in self.rules.of(job) {
                let verdicts = judge::ended(&alert.rule, &run, job.definition.spec.jitter_ms);
                note(&mut self.book, now, alert.id, run.job, verdicts);
            }
        }
        heard
    }

    /// Judges what is live, now and then, and ends what nobody asks for any more.
    fn judge_live(&mut self, now: UnixMs) {
        self.looks += 1;
        if !self.looks.is_multiple_of(LOOKS_A_LIVE) {
            return;
        }
        let snapshots = self.parts.intake.snapshots();
        let is_watched = |job: JobId| self.jobs.contains_key(&job);
        if let Some(mut lives) = Lives::of(&snapshots, &self.parts.watch, is_watched) {
            for (id, job) in &self.jobs {
                let live = lives.take(job);
                for alert in self.rules.of(job) {
                    note(&mut self.book, now, alert.id, *id, judge::live(&alert.rule, &live, now));
                }
            }
        }
        let is_asked_for = |key: &Key| {
            let rules = self.jobs.get(&key.job).into_iter().flat_map(|job| self.rules.of(job));
            rules.into_iter().any(|alert| alert.id == key.alert && alert.rule.hears(key.event))
        };
        let over: BTreeSet<Key> = self.book.alarms().map(|(key, _)| *key).filter(|key| !is_asked_for(key)).collect();
        for key in over {
            self.book.clear(now, key);
        }
    }

    /// Sends what waits and whose channel is free.
    fn deliver(&mut self) {
        for stored in self.deliveries.ready() {
            let Some(alert) = self.rules.by_id.get(&stored.notice.key.alert) else { continue };
            let mut job = |id: JobId| match self.jobs.get(&id) {
                Some(job) => Some((job.definition.name.clone(), job.namespace.clone(), job.app.clone(), zone(job))),
                None => self.reader.job(id).ok().flatten().map(|job| {
                    let zone = zone(&job);
                    (job.definition.name, job.namespace, job.app, zone)
                }),
            };
            let notice = &stored.notice;
            let about = job(notice.key.job);
            let others = notice.others.iter().map(|(kind, key)| {
                let name = job(key.job).map_or_else(|| key.job.to_string(), |(name, ..)| name);
                format!("{name}: {} ({})", key.event.word(), kind.word())
            });
            let others: Vec<String> = others.collect();
            let said = notice.facts.run.and_then(|run| self.parts.query.attempts(run).ok());
            let said = said.and_then(|attempts| attempts.last().and_then(|attempt| attempt.message.clone()));
            let names = names_of(alert, notice, about, others, said.as_deref().unwrap_or_default().to_owned());
            self.deliveries.send(Arc::clone(alert), stored, names);
        }
    }
}

fn zone(job: &Watched) -> String {
    job.definition.spec.zone.clone()
}

fn note(book: &mut Book, now: UnixMs, alert: AlertId, job: JobId, verdicts: Vec<Verdict>) {
    for verdict in verdicts {
        match verdict {
            Verdict::Raise(event, facts) => book.raise(now, Key { alert, job, event }, facts),
            Verdict::Clear(event) => book.clear(now, Key { alert, job, event }),
        }
    }
}
