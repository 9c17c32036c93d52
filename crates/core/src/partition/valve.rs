//! Rates: the token buckets of an app, and of groups of its workers; beside them the tokens that the server lends. A dispatch takes a token of each that it meets when
//! its worker is chosen, so whoever finds none waits as for a worker: held, queued, with the reason `rate`.
//!
//! Buckets live in memory and begin a term empty: what was started before it is not known to the millisecond, and no
//! window may have more than its burst and its rate. Whoever waits is woken when the next token is there.

use super::fleet::{AppLive, Fleet, WorkerIx};
use super::pools::PoolIx;
use crate::id::AppId;
use crate::label::Selector;
use crate::rate::{Bucket, Limit, Rates};
use crate::time::Mono;
use crate::why::Why;

/// The buckets of an app.
#[derive(Debug)]
pub(super) struct Valve {
    whole: Option<Bucket>,
    groups: Vec<Group>,
}

/// The bucket of some workers of an app.
#[derive(Debug)]
struct Group {
    text: String,
    selector: Selector,
    bucket: Bucket,
    /// It had no token when that was last looked at: its workers are no candidates.
    is_shut: bool,
}

impl Valve {
    /// The valve of these rates, with what the one before holds; a limit that is new begins with `begin`.
    fn of(rates: &Rates, before: Option<&Valve>, now: Mono, begin: fn(Limit, Mono) -> Bucket) -> Option<Box<Valve>> {
        if rates.is_empty() {
            return None;
        }
        let held = |bucket: Option<&Bucket>, limit: Limit| match bucket {
            Some(bucket) => {
                let mut bucket = *bucket;
                bucket.set_limit(limit, now);
                bucket
            }
            None => begin(limit, now),
        };
        let whole = rates.app.map(|limit| held(before.and_then(|before| before.whole.as_ref()), limit));
        let groups = rates.groups.iter().filter_map(|(text, limit)| {
            let selector = Selector::parse(text).ok()?;
            let known = before.and_then(|before| before.groups.iter().find(|group| group.text == *text));
            let bucket = held(known.map(|group| &group.bucket), *limit);
            Some(Group { text: text.clone(), selector, is_shut: bucket.tokens(now) == 0, bucket })
        });
        Some(Box::new(Valve { whole, groups: groups.collect() }))
    }

    /// Milliseconds until the bucket of the whole app has a token; 0 if it has one.
    pub(super) fn wait_ms(&self, now: Mono) -> u64 {
        self.whole.map_or(0, |bucket| bucket.wait_ms(now))
    }

    /// The tokens of the whole app, and of each group.
    pub(super) fn tokens(&self, now: Mono) -> (Option<u32>, Vec<(String, u32)>) {
        let groups = self.groups.iter().map(|group| (group.text.clone(), group.bucket.tokens(now))).collect();
        (self.whole.map(|bucket| bucket.tokens(now)), groups)
    }

    fn shuts(&self, labels: &crate::label::Labels) -> bool {
        self.groups.iter().any(|group| group.is_shut && group.selector.matches(labels))
    }
}

impl Fleet {
    /// Brings an app's buckets in line with its rates. At the begin of a term they are empty.
    pub(super) fn set_rates(&mut self, id: AppId, now: Mono, is_loading: bool) {
        let Some(live) = self.apps.get_mut(&id) else { return };
        if live.valve.is_none() && live.app.rates.is_empty() {
            return;
        }
        let begin = if is_loading { Bucket::empty } else { Bucket::full };
        live.valve = Valve::of(&live.app.rates, live.valve.as_deref(), now, begin);
        self.seat_valve(id);
        self.wake_groups(id, now);
    }

    /// Says of each worker of an app whether a group of it is shut, and lets its pools look again.
    fn seat_valve(&mut self, id: AppId) {
        let workers = self.apps.get(&id).map(|live| live.workers.clone()).unwrap_or_default();
        for ix in workers {
            self.mark_shut(ix);
            self.seat(ix);
        }
        if let Some(live) = self.apps.get_mut(&id) {
            live.stirred += 1;
        }
    }

    /// Whether a group of a worker is shut.
    pub(super) fn mark_shut(&mut self, ix: WorkerIx) {
        let registration = &self.worker(ix).registration;
        let valve = self.apps.get(&registration.app).and_then(|live| live.valve.as_deref());
        let is_shut = valve.is_some_and(|valve| valve.shuts(&registration.labels));
        self.worker_mut(ix).is_shut = is_shut;
    }

    /// Asks to be woken when shut groups have a token again.
    fn wake_groups(&mut self, id: AppId, now: Mono) {
        let Some(valve) = self.apps.get(&id).and_then(|live| live.valve.as_deref()) else { return };
        let shut = valve.groups.iter().filter(|group| group.is_shut);
        self.rate_wakes.extend(shut.map(|group| (now.plus(group.bucket.wait_ms(now)), id)));
    }

    /// Opens the groups that have a token again.
    pub(super) fn open_groups(&mut self, id: AppId, now: Mono) {
        let Some(valve) = self.apps.get_mut(&id).and_then(|live| live.valve.as_deref_mut()) else { return };
        let mut has_opened = false;
        for group in valve.groups.iter_mut().filter(|group| group.is_shut) {
            if group.bucket.tokens(now) > 0 {
                group.is_shut = false;
                has_opened = true;
            }
        }
        if has_opened {
            self.seat_valve(id);
        }
    }

    /// An app may have a token again: its pools look.
    pub(super) fn token_due(&mut self, id: AppId, now: Mono) {
        self.open_groups(id, now);
        self.wake_groups(id, now);
        if let Some(live) = self.apps.get_mut(&id) {
            live.stirred += 1;
        }
    }

    /// Whether there is a token for a dispatch of an app, whichever worker takes it.
    pub(super) fn token_for(&self, id: AppId, now: Mono) -> Result<(), Why> {
        let valve = self.apps.get(&id).and_then(|live| live.valve.as_deref());
        match valve.is_none_or(|valve| valve.wait_ms(now) == 0) {
            false => Err(Why::Rate),
            true if self.server_tokens == Some(0) => Err(Why::ServerRate),
            true => Ok(()),
        }
    }

    /// The server lends so many tokens for the step that follows.
    pub(super) fn lend_tokens(&mut self, tokens: u32) {
        self.server_tokens = Some(tokens);
        self.wants_token &= tokens == 0;
    }

    /// Refuses a choice of a pool whose app has no token.
    pub(super) fn pass_valve(&mut self, pool: PoolIx, now: Mono) -> Result<(), Why> {
        let id = self.pool(pool).app;
        self.pass_app(id, now).inspect_err(|why| {
            let stirred = self.apps.get(&id).map_or(0, |live| live.stirred);
            self.block(pool, *why, stirred);
        })
    }

    /// Refuses a dispatch of an app that has no token. Whoever waits is woken when there is one.
    pub(super) fn pass_app(&mut self, id: AppId, now: Mono) -> Result<(), Why> {
        if let Some(AppLive { valve: Some(valve), .. }) = self.apps.get(&id) {
            let wait_ms = valve.wait_ms(now);
            if wait_ms > 0 {
                self.rate_wakes.push((now.plus(wait_ms), id));
                return Err(Why::Rate);
            }
            self.open_groups(id, now);
        }
        if self.server_tokens == Some(0) {
            self.wants_token = true;
            return Err(Why::ServerRate);
        }
        Ok(())
    }

    /// A dispatch to this worker takes its tokens.
    pub(super) fn take_tokens(&mut self, ix: WorkerIx, now: Mono) {
        if let Some(tokens) = &mut self.server_tokens {
            *tokens = tokens.checked_sub(1).expect("a dispatch has a token of the server's");
        }
        let live = self.worker(ix);
        let id = live.registration.app;
        if self.apps.get(&id).is_none_or(|app| app.valve.is_none()) {
            return;
        }
        let registration = std::sync::Arc::clone(&live.registration);
        let Some(valve) = self.apps.get_mut(&id).and_then(|live| live.valve.as_deref_mut()) else { return };
        if let Some(bucket) = &mut valve.whole {
            assert!(bucket.tokens(now) > 0, "a dispatch has a token");
            bucket.take(now, 1);
        }
        let mut has_shut = false;
        for group in valve.groups.iter_mut().filter(|group| group.selector.matches(&registration.labels)) {
            assert!(group.bucket.tokens(now) > 0, "a dispatch has a token of each of its groups");
            group.bucket.take(now, 1);
            group.is_shut = group.bucket.tokens(now) == 0;
            has_shut |= group.is_shut;
        }
        if has_shut {
            self.seat_valve(id);
            self.wake_groups(id, now);
        }
    }
}
