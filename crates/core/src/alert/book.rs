//! Who is told what, and when: the machine of alerts.
//!
//! It is told what is there and what is over ([`Book::raise`], [`Book::clear`]), and asked, in its turns, for what is to
//! be told. It works on levels: what cannot be told now is told in a later turn, as it is then.
//!
//! Laws, checked below on whatever may happen:
//! - a channel is told that something is over only after it was told that it is there, and never twice in a row;
//! - news of one alarm but its end are at least `repeat_ms` apart, however it flaps;
//! - within a minute a channel gets no more than `per_minute` messages; what is more comes in a digest;
//! - every occurrence is counted in a message: nothing is dropped;
//! - when all is over, the book is empty after a while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Alarm, AlertId, Event, Facts, Key, Kind, Notice, Rule, Told};
use crate::time::UnixMs;

/// Over how long messages are counted.
const MINUTE_MS: i64 = 60_000;
/// How many others a digest lists.
const LISTED_MAX: usize = 20;

/// What limits a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Between two news of one alarm.
    pub repeat_ms: u64,
    /// Messages within a minute.
    pub per_minute: u32,
}

impl Limits {
    /// Those of a rule.
    #[must_use]
    pub fn of(rule: &Rule) -> Limits {
        Limits { repeat_ms: rule.repeat_ms, per_minute: rule.per_minute }
    }
}

/// All alarms, and what their channels know of them.
#[derive(Debug, Default)]
pub struct Book {
    limits: BTreeMap<AlertId, Limits>,
    alarms: BTreeMap<Key, Alarm>,
    /// When each channel got its last messages. A restart forgets it, and a minute later that is no loss.
    sent: BTreeMap<AlertId, VecDeque<UnixMs>>,
    changed: BTreeSet<Key>,
}

impl Book {
    /// A book with the rows that a store has.
    #[must_use]
    pub fn new(alarms: impl IntoIterator<Item = (Key, Alarm)>) -> Book {
        Book { alarms: alarms.into_iter().collect(), ..Book::default() }
    }

    /// The rules that there are. Alarms of others are gone with them.
    pub fn set_limits(&mut self, limits: BTreeMap<AlertId, Limits>) {
        let gone: Vec<Key> = self.alarms.keys().filter(|key| !limits.contains_key(&key.alert)).copied().collect();
        for key in gone {
            self.alarms.remove(&key);
            self.changed.insert(key);
        }
        self.sent.retain(|alert, _| limits.contains_key(alert));
        self.limits = limits;
    }

    /// The alarms, in order of key.
    pub fn alarms(&self) -> impl Iterator<Item = (&Key, &Alarm)> {
        self.alarms.iter()
    }

    /// Whether there is no alarm.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.alarms.is_empty()
    }

    /// An event is there. What is said again of the same run is no new occurrence.
    pub fn raise(&mut self, now: UnixMs, key: Key, facts: Facts) {
        let alarm = self.alarms.entry(key).or_insert_with(|| Alarm {
            since: now.0,
            over: Some(now.0),
            told: Told::Over,
            told_at: None,
            untold: 0,
            acked_by: None,
            facts: Facts::default(),
        });
        // Ends are heard once each; what is live is seen again and again.
        let is_end = matches!(key.event, Event::Failed | Event::Lost | Event::Missed);
        let is_new = alarm.over.is_some() || is_end || facts.run > alarm.facts.run;
        if !is_new {
            return;
        }
        if alarm.over.take().is_some() {
            alarm.since = now.0;
            alarm.acked_by = None;
        }
        alarm.untold += 1;
        alarm.facts = facts;
        self.changed.insert(key);
    }

    /// An event is over.
    pub fn clear(&mut self, now: UnixMs, key: Key) {
        if let Some(alarm) = self.alarms.get_mut(&key)
            && alarm.is_open()
        {
            alarm.over = Some(now.0);
            self.changed.insert(key);
        }
    }

    /// Somebody cares for it: it is not repeated while it is open. False if it is not open.
    pub fn acknowledge(&mut self, key: Key, by: &str) -> bool {
        let Some(alarm) = self.alarms.get_mut(&key).filter(|alarm| alarm.is_open()) else { return false };
        alarm.acked_by = Some(by.to_owned());
        self.changed.insert(key);
        true
    }

    /// What is to be told now. `has_room` says whether a channel can take more than what waits for it already.
    pub fn turn(&mut self, now: UnixMs, has_room: impl Fn(AlertId) -> bool) -> Vec<Notice> {
        let mut due: BTreeMap<AlertId, Vec<(UnixMs, Key, Kind)>> = BTreeMap::new();
        let mut done = Vec::new();
        for (key, alarm) in &self.alarms {
            let Some(limits) = self.limits.get(&key.alert) else { continue };
            match due_kind(alarm, limits, now) {
                Due::Now(kind) => due.entry(key.alert).or_default().push((alarm.since(), *key, kind)),
                Due::Later => {}
                Due::Done => done.push(*key),
            }
        }
        for key in done {
            self.alarms.remove(&key);
            self.changed.insert(key);
        }
        let mut notices = Vec::new();
        for (alert, mut due) in due {
            let budget = if has_room(alert) { self.budget(alert, now) } else { 0 };
            due.sort_unstable();
            let single = if due.len() <= budget { due.len() } else { budget.saturating_sub(1) };
            let rest = due.split_off(single);
            notices.extend(due.into_iter().map(|(_, key, kind)| self.tell(now, key, kind)));
            if budget > single {
                notices.extend(self.digest(now, &rest));
            }
        }
        notices
    }

    /// The rows that are new, or gone, since this was last asked.
    pub fn take_changed(&mut self) -> Vec<(Key, Option<Alarm>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|key| (key, self.alarms.get(&key).cloned())).collect()
    }

    /// How many messages a channel may get now.
    fn budget(&mut self, alert: AlertId, now: UnixMs) -> usize {
        let sent = self.sent.entry(alert).or_default();
        // A clock that was set back makes some of them lie ahead.
        sent.retain(|at| (0..MINUTE_MS).contains(&now.since_ms(*at)));
        let per_minute = self.limits.get(&alert).map_or(0, |limits| limits.per_minute);
        usize::try_from(per_minute).unwrap_or(usize::MAX).saturating_sub(sent.len())
    }

    fn tell(&mut self, now: UnixMs, key: Key, kind: Kind) -> Notice {
        self.sent.entry(key.alert).or_default().push_back(now);
        self.mark(now, key, kind)
    }

    /// One message for many.
    fn digest(&mut self, now: UnixMs, rest: &[(UnixMs, Key, Kind)]) -> Option<Notice> {
        let ((_, key, kind), others) = rest.split_first()?;
        let mut notice = self.tell(now, *key, *kind);
        for (_, key, kind) in others {
            notice.count += self.mark(now, *key, *kind).count;
        }
        notice.others = others.iter().take(LISTED_MAX).map(|(_, key, kind)| (*kind, *key)).collect();
        notice.others_count = others.len() as u64;
        Some(notice)
    }

    fn mark(&mut self, now: UnixMs, key: Key, kind: Kind) -> Notice {
        let alarm = self.alarms.get_mut(&key).expect("what is due is there");
        let count = std::mem::take(&mut alarm.untold);
        match kind {
            Kind::Opened | Kind::Again => (alarm.told, alarm.told_at) = (Told::Open, Some(now.0)),
            Kind::Passed => alarm.told_at = Some(now.0),
            Kind::Resolved | Kind::Test => alarm.told = Told::Over,
        }
        self.changed.insert(key);
        let (facts, since) = (alarm.facts.clone(), alarm.since);
        Notice { kind, key, facts, since, count, others: Vec::new(), others_count: 0 }
    }
}

enum Due {
    Now(Kind),
    Later,
    /// It is over, its channel knows, and nothing new came for so long that it may be forgotten.
    Done,
}

fn due_kind(alarm: &Alarm, limits: &Limits, now: UnixMs) -> Due {
    let repeat_ms = i64::try_from(limits.repeat_ms).unwrap_or(i64::MAX);
    // A clock that was set back must not silence an alarm for as long as it was ahead.
    let has_passed = alarm.told_at.is_none_or(|at| !(0..repeat_ms).contains(&now.since_ms(UnixMs(at))));
    match (alarm.is_open(), alarm.told) {
        (false, Told::Open) => Due::Now(Kind::Resolved),
        (_, _) if !has_passed => Due::Later,
        (true, Told::Over) => Due::Now(Kind::Opened),
        (true, Told::Open) if alarm.acked_by.is_some() => Due::Later,
        (true, Told::Open) => Due::Now(Kind::Again),
        (false, Told::Over) if alarm.untold > 0 => Due::Now(Kind::Passed),
        (false, Told::Over) => Due::Done,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::{JobId, RunId};

    const REPEAT_MS: u64 = 300_000;

    fn key(job: u32, event: Event) -> Key {
        Key { alert: AlertId(1), job: JobId(job), event }
    }

    fn book(per_minute: u32) -> Book {
        let mut book = Book::default();
        book.set_limits(BTreeMap::from([(AlertId(1), Limits { repeat_ms: REPEAT_MS, per_minute })]));
        book
    }

    fn run(id: u64) -> Facts {
        Facts { run: Some(RunId(id)), ..Facts::default() }
    }

    fn told(book: &mut Book, at: i64) -> Vec<String> {
        let word = |notice: &Notice| match notice.others_count {
            0 => format!("{} {} x{}", notice.kind.word(), notice.key.job, notice.count),
            more => format!("{} {} and {more} x{}", notice.kind.word(), notice.key.job, notice.count),
        };
        book.turn(UnixMs(at), |_| true).iter().map(word).collect()
    }

    #[test]
    fn it_opens_once_repeats_and_resolves() {
        let mut book = book(20);
        let failed = key(1, Event::Failed);
        book.raise(UnixMs(0), failed, run(1));
        assert_eq!(told(&mut book, 0), ["opened 1 x1"]);
        for id in 2..=4 {
            book.raise(UnixMs(1_000), failed, run(id));
            assert_eq!(told(&mut book, 1_000), [""; 0]);
        }
        assert_eq!(told(&mut book, 300_000), ["again 1 x3"]);
        assert_eq!(told(&mut book, 600_000), ["again 1 x0"]);
        assert!(book.acknowledge(failed, "admin"));
        assert_eq!(told(&mut book, 900_000), [""; 0]);
        book.clear(UnixMs(900_001), failed);
        assert_eq!(told(&mut book, 900_001), ["resolved 1 x0"]);
        assert!(!book.acknowledge(failed, "admin"));
        assert_eq!(told(&mut book, 2_000_000), [""; 0]);
        assert_eq!(book.alarms().count(), 0);
    }

    #[test]
    fn what_flaps_is_counted_and_told_seldom() {
        let mut book = book(20);
        let failed = key(1, Event::Failed);
        let mut all = Vec::new();
        for second in 0..600_i64 {
            let now = UnixMs(second * 1_000);
            if second % 2 == 0 {
                book.raise(now, failed, run(second.unsigned_abs()))
            } else {
                book.clear(now, failed)
            }
            all.extend(told(&mut book, now.0));
        }
        all.extend(told(&mut book, 900_000));
        assert_eq!(all, ["opened 1 x1", "resolved 1 x0", "opened 1 x150", "resolved 1 x0", "passed 1 x149"]);
    }

    #[test]
    fn a_storm_comes_in_a_digest() {
        let mut book = book(3);
        for job in 1..=1_000 {
            book.raise(UnixMs(0), key(job, Event::Failed), run(u64::from(job)));
        }
        assert_eq!(told(&mut book, 0), ["opened 1 x1", "opened 2 x1", "opened 3 and 997 x998"]);
        for job in 1..=1_000 {
            book.clear(UnixMs(1), key(job, Event::Failed));
        }
        assert_eq!(told(&mut book, 1), [""; 0]);
        assert_eq!(told(&mut book, 60_000), ["resolved 1 x0", "resolved 2 x0", "resolved 3 and 997 x0"]);
    }

    #[test]
    fn what_is_live_is_one_occurrence_for_each_run() {
        let mut book = book(20);
        let late = key(1, Event::Late);
        for second in 0..10 {
            book.raise(UnixMs(second), late, run(5));
            book.raise(UnixMs(second), late, run(4));
        }
        assert_eq!(told(&mut book, 10), ["opened 1 x1"]);
        book.raise(UnixMs(11), late, run(6));
        assert_eq!(told(&mut book, 300_010), ["again 1 x1"]);
    }

    #[test]
    fn a_channel_without_room_hears_it_later() {
        let mut book = book(20);
        book.raise(UnixMs(0), key(1, Event::Failed), run(1));
        assert_eq!(book.turn(UnixMs(0), |_| false), []);
        book.clear(UnixMs(1), key(1, Event::Failed));
        assert_eq!(told(&mut book, 2), ["passed 1 x1"]);
    }

    #[test]
    fn a_clock_that_was_set_back_silences_nothing() {
        let mut book = book(20);
        book.raise(UnixMs(10_000_000_000), key(1, Event::Failed), run(1));
        assert_eq!(told(&mut book, 10_000_000_000), ["opened 1 x1"]);
        assert_eq!(told(&mut book, 1_000), ["again 1 x0"]);
    }

    #[test]
    fn alarms_go_with_their_rule() {
        let mut book = book(20);
        book.raise(UnixMs(0), key(1, Event::Failed), run(1));
        assert_eq!(book.take_changed().len(), 1);
        book.set_limits(BTreeMap::new());
        assert_eq!(book.take_changed(), [(key(1, Event::Failed), None)]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Raise(u32, Event),
        Clear(u32, Event),
        Pass(i64),
        /// The process ends, and another one reads what was written.
        Restart,
        Full,
    }

    fn step() -> impl Strategy<Value = Step> {
        let event = prop_oneof![Just(Event::Failed), Just(Event::Late), Just(Event::NoWorker)];
        let event2 = prop_oneof![Just(Event::Failed), Just(Event::Late), Just(Event::NoWorker)];
        prop_oneof![
            4 => (1..6_u32, event).prop_map(|(job, event)| Step::Raise(job, event)),
            3 => (1..6_u32, event2).prop_map(|(job, event)| Step::Clear(job, event)),
            4 => (1..200_000_i64).prop_map(Step::Pass),
            1 => Just(Step::Restart),
            1 => Just(Step::Full),
        ]
    }

    /// What a channel has heard, and what must be true of it.
    #[derive(Default)]
    struct Heard {
        /// By alarm: whether the channel believes that it is open, and when it last had news but its end.
        alarms: BTreeMap<Key, (bool, Option<i64>)>,
        messages: Vec<i64>,
        counted: u64,
    }

    impl Heard {
        fn hear(&mut self, now: i64, notices: &[Notice]) {
            for notice in notices {
                self.messages.push(now);
                self.counted += notice.count;
                let all = std::iter::once((notice.kind, notice.key)).chain(notice.others.iter().copied());
                assert_eq!(notice.others.len() as u64, notice.others_count, "few enough to be listed");
                for (kind, key) in all {
                    let (is_open, last) = self.alarms.entry(key).or_default();
                    match kind {
                        Kind::Resolved => assert!(std::mem::take(is_open), "{key:?} is over, and was not there"),
                        Kind::Opened => assert!(!std::mem::replace(is_open, true), "{key:?} opened twice"),
                        Kind::Again => assert!(*is_open, "{key:?} goes on, and was not there"),
                        Kind::Passed => assert!(!*is_open, "{key:?} passed, and is there"),
                        Kind::Test => unreachable!("nobody asked for one"),
                    }
                    if kind != Kind::Resolved {
                        let before = last.replace(now);
                        let repeat = i64::try_from(REPEAT_MS).unwrap();
                        assert!(before.is_none_or(|before| now - before >= repeat), "{key:?} twice within {repeat}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn laws_hold_whatever_happens(steps in prop::collection::vec(step(), 1..120), per_minute in 1..5_u32) {
            let mut book = book(per_minute);
            let (mut now, mut raised, mut next_run) = (0, 0, 1);
            let mut stored: BTreeMap<Key, Alarm> = BTreeMap::new();
            let mut heard = Heard::default();
            let mut restarts = Vec::new();
            for step in steps {
                let mut has_room = true;
                match step {
                    Step::Raise(job, event) => {
                        book.raise(UnixMs(now), key(job, event), run(next_run));
                        next_run += 1;
                        raised += 1;
                    }
                    Step::Clear(job, event) => book.clear(UnixMs(now), key(job, event)),
                    Step::Pass(ms) => now += ms,
                    Step::Restart => {
                        let limits = book.limits.clone();
                        book = Book::new(stored.clone());
                        book.set_limits(limits);
                        restarts.push(now);
                    }
                    Step::Full => has_room = false,
                }
                heard.hear(now, &book.turn(UnixMs(now), |_| has_room));
                for (key, alarm) in book.take_changed() {
                    match alarm {
                        Some(alarm) => drop(stored.insert(key, alarm)),
                        None => drop(stored.remove(&key)),
                    }
                }
            }
            let restarts_in = |from: i64| restarts.iter().filter(|at| (from..from + MINUTE_MS).contains(*at)).count();
            for at in &heard.messages {
                let within = heard.messages.iter().filter(|other| (*at..at + MINUTE_MS).contains(*other)).count();
                let most = per_minute as usize * (1 + restarts_in(*at));
                prop_assert!(within <= most, "{within} messages within a minute, and {per_minute} may be");
            }
            // All is over at last.
            for job in 1..6 {
                for event in [Event::Failed, Event::Late, Event::NoWorker] {
                    book.clear(UnixMs(now), key(job, event));
                }
            }
            for _ in 0..40 {
                now += MINUTE_MS;
                heard.hear(now, &book.turn(UnixMs(now), |_| true));
            }
            prop_assert_eq!(book.alarms().count(), 0);
            prop_assert_eq!(heard.counted, raised, "an occurrence is told in no message, or in two");
            prop_assert!(heard.alarms.values().all(|(is_open, _)| !is_open));
        }
    }
}
