//! A run's log as a stream: what its attempts print, as they print it, until the run has ended and all is sent.
//!
//! Shards are read side by side, the attempts of a shard one after another: the next begins when the log of the one
//! before is closed, or its lines have had time to arrive. An event's id says how far every shard was read, so that a
//! stream which begins behind it leaves nothing out and repeats nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use rota_core::batch::Attempt;
use rota_core::id::RunId;
use rota_core::time::UnixMs;
use rota_port::logs::LogKey;
use rota_wire::rest;

use crate::endpoint::{Arg, Shape};
use crate::refusal::Refusal;
use crate::state::State;
use crate::stream::{End, Sink};
use crate::view::{self, Names};

/// Where a stream goes on that broke off.
pub(crate) const LAST_EVENT_ID: Arg =
    Arg::new("Last-Event-ID", Shape::Text, "the id of the last event that was read, to go on behind it");

/// Between two looks at a log that grows, and at one that has not grown for a while.
const LOOK: Duration = Duration::from_millis(200);
const LOOK_SELDOM: Duration = Duration::from_secs(1);
const QUIET_LOOKS: u32 = 25;
/// What one look reads.
const LOOK_BYTES: usize = 64 << 10;
/// How long lines may lag behind the end of an attempt that has printed something, and of one that has not.
const LAG_MS: i64 = 2_000;
const LAG_SILENT_MS: i64 = 200;

/// How far a shard was read: in which attempt's log, and from which byte on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Place {
    no: u32,
    next: u64,
}

/// How far every shard was read that has been read at all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Places(BTreeMap<u32, Place>);

impl Places {
    /// From the id of the last event, if a client gives one.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Places, Refusal> {
        let Some(given) = headers.get("last-event-id") else { return Ok(Places::default()) };
        let text = given.to_str().unwrap_or("?").trim();
        if text.is_empty() {
            return Ok(Places::default());
        }
        let read = |part: &str| {
            let mut numbers = part.split('.');
            let shard = numbers.next()?.parse().ok()?;
            let place = Place { no: numbers.next()?.parse().ok()?, next: numbers.next()?.parse().ok()? };
            numbers.next().is_none().then_some((shard, place))
        };
        text.split('_').map(read).collect::<Option<_>>().map(Places).ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            Refusal::invalid(LAST_EVENT_ID.name, format!("`{shown}` is no id of an event of this stream"))
                .hint("give the id of the last event back as it is, or leave it out to begin at the beginning")
        })
    }

    fn id(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(shard, place)| format!("{shard}.{}.{}", place.no, place.next)).collect();
        parts.join("_")
    }
}

/// What is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) run: RunId,
    pub(crate) shard: Option<u32>,
    pub(crate) attempt: Option<u32>,
}

/// What one look found.
struct Look {
    run: rest::Run,
    waiting: Option<rest::Waiting>,
    parts: Vec<(rest::LogPart, String)>,
    places: Places,
    /// Whether there is more to read at once.
    has_more: bool,
    /// Whether the run has ended and all was read.
    is_done: bool,
}

/// Sends what a run's attempts print until it has ended.
pub(crate) async fn follow(state: Arc<State>, wanted: Wanted, places: Places, mut sink: Sink) -> End {
    match tell(&state, wanted, places, &mut sink).await {
        Ok(()) => End::Ended,
        Err(end) => end,
    }
}

async fn tell(state: &Arc<State>, wanted: Wanted, mut places: Places, sink: &mut Sink) -> Result<(), End> {
    let mut told: Option<rest::Followed> = None;
    let mut seen_waiting: Option<String> = None;
    let mut quiet_looks = 0;
    loop {
        let from = places.clone();
        let look = state.read(move |state| look(state, wanted, from)).await?;
        places = look.places;
        quiet_looks = if look.parts.is_empty() { quiet_looks + 1 } else { 0 };
        for (part, id) in &look.parts {
            sink.send("log", Some(id), part).await?;
        }
        // A reason counts once it has lasted from one look to the next.
        let why = look.waiting.as_ref().map(|waiting| waiting.why.clone());
        let has_lasted = why.is_some() && why == seen_waiting;
        seen_waiting = why;
        let now = rest::Followed { run: look.run, waiting: look.waiting.filter(|_| has_lasted) };
        let is_told = told.as_ref().is_some_and(|told| is_same(told, &now));
        if !is_told {
            sink.send("run", None, &now).await?;
            quiet_looks = 0;
            told = Some(now);
        }
        if look.is_done {
            return Ok(());
        }
        if !look.has_more {
            sink.pause(if quiet_looks > QUIET_LOOKS { LOOK_SELDOM } else { LOOK }).await?;
        }
    }
}

/// Whether nothing happened in between; that time passed is nothing.
fn is_same(told: &rest::Followed, now: &rest::Followed) -> bool {
    let why = |followed: &rest::Followed| followed.waiting.as_ref().map(|waiting| waiting.why.clone());
    told.run == now.run && why(told) == why(now)
}

fn look(state: &State, wanted: Wanted, mut places: Places) -> Result<Look, Refusal> {
    let run = state.query.run(wanted.run)?.ok_or_else(|| view::run_unknown(&wanted.run.to_string()))?;
    // The run before its attempts, and those before their logs: so the last look at a log comes after its end.
    let attempts = state.query.attempts(run.id)?;
    let mut names = Names::new(state);
    let shown = names.run(&run, &attempts)?;
    let waiting = names.waiting(run.id).first().copied();
    let waiting = waiting.map(|waiting| view::waiting(&mut names, &waiting)).transpose()?;
    let mut by_shard: BTreeMap<u32, Vec<&Attempt>> = BTreeMap::new();
    for attempt in &attempts {
        let is_wanted =
            wanted.shard.is_none_or(|shard| shard == attempt.shard) && wanted.attempt.is_none_or(|no| no == attempt.no);
        if is_wanted {
            by_shard.entry(attempt.shard).or_default().push(attempt);
        }
    }
    let mut reading = Reading { state, now: state.now(), parts: Vec::new(), bytes_left: LOOK_BYTES };
    let mut is_read = true;
    for attempts in by_shard.values() {
        is_read &= reading.shard(attempts, &mut places)?;
    }
    let has_more = reading.bytes_left == 0;
    Ok(Look {
        is_done: is_read && !has_more && shown.is_ended,
        run: shown,
        waiting,
        parts: reading.parts,
        places,
        has_more,
    })
}

struct Reading<'s> {
    state: &'s State,
    now: UnixMs,
    parts: Vec<(rest::LogPart, String)>,
    bytes_left: usize,
}

impl Reading<'_> {
    /// Reads on in the logs of a shard's attempts, which are in order; whether all that is to come was read.
    fn shard(&mut self, attempts: &[&Attempt], places: &mut Places) -> Result<bool, Refusal> {
        let first = attempts.first().map_or(1, |attempt| attempt.no);
        let shard = attempts.first().map_or(0, |attempt| attempt.shard);
        let mut place = places.0.get(&shard).copied().unwrap_or(Place { no: first, next: 0 });
        let begin = place.no;
        for attempt in attempts.iter().filter(|attempt| attempt.no >= begin) {
            if attempt.no != place.no {
                place = Place { no: attempt.no, next: 0 };
            }
            if !self.attempt(attempt, &mut place, places)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads on in one log; whether all that is to come was read.
    fn attempt(&mut self, attempt: &Attempt, place: &mut Place, places: &mut Places) -> Result<bool, Refusal> {
        let key = LogKey { run: attempt.run, shard: attempt.shard, no: attempt.no };
        loop {
            if self.bytes_left == 0 {
                return Ok(false);
            }
            let bytes = u32::try_from(self.bytes_left).unwrap_or(u32::MAX);
            let window = self.state.logs.read(key, place.next, bytes)?;
            if window.next <= place.next {
                return Ok(window.is_closed || self.has_lagged(attempt, place.next));
            }
            self.bytes_left = self.bytes_left.saturating_sub(window.text.len());
            let part = rest::LogPart { shard: attempt.shard, attempt: attempt.no, from: place.next, text: window.text };
            place.next = window.next;
            places.0.insert(attempt.shard, *place);
            self.parts.push((part, places.id()));
            // What is left of a look may be less than the next line: then the next look is for it.
            if window.next < window.len {
                self.bytes_left = 0;
            }
        }
    }

    /// Whether an attempt ended so long ago that no more lines are on their way.
    fn has_lagged(&self, attempt: &Attempt, next: u64) -> bool {
        let lag_ms = if next == 0 { LAG_SILENT_MS } else { LAG_MS };
        attempt.ended_at.is_some_and(|ended| self.now.since_ms(ended) >= lag_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: &str) -> Result<Places, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert("last-event-id", http::HeaderValue::from_str(id).unwrap());
        Places::read(&headers)
    }

    #[test]
    fn an_id_is_read_back_and_nothing_else_is() {
        let places = Places(BTreeMap::from([(0, Place { no: 2, next: 17 }), (7, Place { no: 1, next: 1 << 40 })]));
        assert_eq!(places.id(), "0.2.17_7.1.1099511627776");
        assert_eq!(read(&places.id()), Ok(places));
        assert_eq!(read(" "), Ok(Places::default()));
        assert_eq!(Places::read(&HeaderMap::new()), Ok(Places::default()));
        for odd in ["x", "1.2", "1.2.3.4", "1.2.3_", "-1.2.3", "1.2.99999999999999999999999"] {
            assert_eq!(read(odd).unwrap_err().field.as_deref(), Some("Last-Event-ID"), "{odd}");
        }
    }
}
