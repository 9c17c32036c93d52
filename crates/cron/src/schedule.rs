//! A schedule: the one value that a job holds, and the questions it answers.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::calendar::Calendar;
use crate::cron::{Cron, Dialect};
use crate::dst::{Dst, DstPolicy};
use crate::error::{Error, ErrorCode};
use crate::explain::{self, Lang};
use crate::open::{Active, Open};
use crate::rate::Rate;
use crate::slots::Search;
use crate::time::{HORIZON, UnixMs};
use crate::zone::Zone;

/// The shortest period or delay: a second. What must run more often is no job but a loop.
pub const PERIOD_MIN_MS: u64 = 1_000;
/// The longest period or delay: a thousand days.
pub const PERIOD_MAX_MS: u64 = 1_000 * 86_400_000;

/// When a job is due. Immutable; a clone is one pointer; equal, ordered and hashed by [`Schedule::text`] and its calendar.
#[derive(Clone, Debug)]
pub struct Schedule(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    text: Box<str>,
    zone: Zone,
    spec: Spec,
    /// Boxed because few schedules have any.
    limits: Option<Box<Limits>>,
}

#[derive(Debug)]
struct Limits {
    calendar: Option<Calendar>,
    active: Active,
}

#[derive(Clone, Debug)]
enum Spec {
    Cron { cron: Cron, dst: DstPolicy },
    Every { period_ms: i64 },
    Delay { delay_ms: i64 },
    Once { at: UnixMs },
}

/// The kinds of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A cron expression in a zone.
    Cron,
    /// A fixed rate: multiples of a period, counted from the Unix epoch.
    Every,
    /// A fixed delay after the end of the previous run; it has no slots of its own.
    Delay,
    /// One instant.
    Once,
}

impl Schedule {
    /// An expression in a zone.
    pub fn cron(expr: &str, dialect: Dialect, zone: Zone, dst: DstPolicy) -> Result<Self, Error> {
        Ok(Self::of_cron(Cron::parse(expr, dialect)?, zone, dst))
    }

    /// An expression that may have `H`, drawn from the seed (of the job's name, say).
    pub fn cron_hashed(expr: &str, dialect: Dialect, zone: Zone, dst: DstPolicy, seed: u64) -> Result<Self, Error> {
        Ok(Self::of_cron(Cron::parse_hashed(expr, dialect, seed)?, zone, dst))
    }

    /// A parsed expression in a zone.
    pub fn of_cron(cron: Cron, zone: Zone, dst: DstPolicy) -> Self {
        Self::new(zone, Spec::Cron { cron, dst })
    }

    /// A fixed rate. Slots are the multiples of the period since the Unix epoch, so they do not depend on when a server
    /// was started or a job saved. From [`PERIOD_MIN_MS`] to [`PERIOD_MAX_MS`].
    pub fn every(period_ms: u64) -> Result<Self, Error> {
        Ok(Self::new(Zone::utc(), Spec::Every { period_ms: bounded_ms(period_ms, "period")? }))
    }

    /// A fixed delay after the end of the previous run, within the same bounds. It has no slots of its own.
    pub fn delay(delay_ms: u64) -> Result<Self, Error> {
        Ok(Self::new(Zone::utc(), Spec::Delay { delay_ms: bounded_ms(delay_ms, "delay")? }))
    }

    /// One instant.
    pub fn once(at: UnixMs) -> Self {
        Self::new(Zone::utc(), Spec::Once { at })
    }

    /// The same schedule in another zone. For all but cron, the zone is that of its calendar, and for display.
    #[must_use]
    pub fn with_zone(&self, zone: Zone) -> Self {
        Self::limited(zone, self.0.spec.clone(), self.calendar().cloned(), self.active())
    }

    /// The same schedule without the slots that the calendar closes, read in its zone.
    #[must_use]
    pub fn with_calendar(&self, calendar: Option<Calendar>) -> Self {
        let calendar = calendar.filter(|calendar| !calendar.is_empty());
        Self::limited(self.0.zone.clone(), self.0.spec.clone(), calendar, self.active())
    }

    /// The same schedule with only those of its slots that lie within these bounds.
    #[must_use]
    pub fn with_active(&self, active: Active) -> Self {
        Self::limited(self.0.zone.clone(), self.0.spec.clone(), self.calendar().cloned(), active)
    }

    fn new(zone: Zone, spec: Spec) -> Self {
        Self::limited(zone, spec, None, Active::ALWAYS)
    }

    fn limited(zone: Zone, spec: Spec, calendar: Option<Calendar>, active: Active) -> Self {
        let text = canonical(&spec, &zone, active).into();
        let is_limited = calendar.is_some() || active != Active::ALWAYS;
        let limits = is_limited.then(|| Box::new(Limits { calendar, active }));
        Self(Arc::new(Inner { text, zone, spec, limits }))
    }

    /// The kind of this schedule.
    pub fn kind(&self) -> Kind {
        match &self.0.spec {
            Spec::Cron { .. } => Kind::Cron,
            Spec::Every { .. } => Kind::Every,
            Spec::Delay { .. } => Kind::Delay,
            Spec::Once { .. } => Kind::Once,
        }
    }

    /// The zone in which it is read and shown.
    pub fn zone(&self) -> &Zone {
        &self.0.zone
    }

    /// The expression, of a cron schedule.
    pub fn as_cron(&self) -> Option<&Cron> {
        match &self.0.spec {
            Spec::Cron { cron, .. } => Some(cron),
            Spec::Every { .. } | Spec::Delay { .. } | Spec::Once { .. } => None,
        }
    }

    /// The DST policy, of a cron schedule.
    pub fn dst(&self) -> Option<DstPolicy> {
        match &self.0.spec {
            Spec::Cron { dst, .. } => Some(*dst),
            Spec::Every { .. } | Spec::Delay { .. } | Spec::Once { .. } => None,
        }
    }

    /// What it leaves out.
    pub fn calendar(&self) -> Option<&Calendar> {
        self.0.limits.as_ref()?.calendar.as_ref()
    }

    /// From when until when it has slots.
    pub fn active(&self) -> Active {
        self.0.limits.as_ref().map_or(Active::ALWAYS, |limits| limits.active)
    }

    /// The first instant at or after `at` that calendar and bounds leave open; where a job whose instants are no slots,
    /// one with a fixed delay, may run next.
    pub fn first_open(&self, at: UnixMs) -> Option<UnixMs> {
        let at = at.max(self.active().first());
        let found = self.open().map_or(Some(at), |open| open.first_from(at));
        found.filter(|found| *found <= self.active().last().min(HORIZON))
    }

    fn open(&self) -> Option<Open<'_>> {
        self.calendar().map(|calendar| Open { calendar, zone: &self.0.zone })
    }

    /// The period, of a fixed rate.
    pub fn period_ms(&self) -> Option<u64> {
        match &self.0.spec {
            Spec::Every { period_ms } => Some(period_ms.unsigned_abs()),
            Spec::Cron { .. } | Spec::Delay { .. } | Spec::Once { .. } => None,
        }
    }

    /// The delay, of a fixed delay.
    pub fn delay_ms(&self) -> Option<u64> {
        match &self.0.spec {
            Spec::Delay { delay_ms } => Some(delay_ms.unsigned_abs()),
            Spec::Cron { .. } | Spec::Every { .. } | Spec::Once { .. } => None,
        }
    }

    /// The first slot strictly after `t`; `None` if there is none up to [`HORIZON`], and always for a fixed delay.
    pub fn next_after(&self, t: UnixMs) -> Option<UnixMs> {
        let t = t.max(self.active().first().plus_ms(-1));
        let found = match &self.0.spec {
            Spec::Cron { cron, dst } => {
                let second = t.0.div_euclid(1_000).saturating_add(1);
                self.search(cron, *dst).next(second).map(|second| UnixMs(second * 1_000))
            }
            Spec::Every { period_ms } => self.rate(*period_ms).next(t),
            Spec::Delay { .. } => None,
            Spec::Once { at } => Some(*at).filter(|at| *at > t && self.open().is_none_or(|open| open.is_open(*at))),
        };
        debug_assert!(found.is_none_or(|found| found > t), "a schedule advances");
        found.filter(|found| *found <= self.active().last())
    }

    /// The last slot strictly before `t`.
    pub fn prev_before(&self, t: UnixMs) -> Option<UnixMs> {
        let t = t.min(self.active().last().plus_ms(1));
        let found = match &self.0.spec {
            Spec::Cron { cron, dst } => {
                let second = t.0.saturating_sub(1).div_euclid(1_000);
                self.search(cron, *dst).prev(second).map(|second| UnixMs(second * 1_000))
            }
            Spec::Every { period_ms } => self.rate(*period_ms).prev(t.plus_ms(-1)),
            Spec::Delay { .. } => None,
            Spec::Once { at } => Some(*at).filter(|at| *at < t && self.open().is_none_or(|open| open.is_open(*at))),
        };
        debug_assert!(found.is_none_or(|found| found < t), "a schedule goes back");
        found.filter(|found| *found >= self.active().first())
    }

    /// The last slot at or before `t`.
    pub fn last_at_or_before(&self, t: UnixMs) -> Option<UnixMs> {
        match t {
            // Nothing lies that late, and there is no instant after it to ask before.
            UnixMs(i64::MAX) => self.prev_before(t),
            _ => self.prev_before(t.plus_ms(1)),
        }
    }

    /// What Quartz itself answers when asked at `t`, for checking a migration.
    ///
    /// It is [`Schedule::next_after`], with one exception: asked during the first pass of an overlap, Quartz loses the
    /// part of the second pass whose wall times are behind it. Its answer depends on when it is asked; a set of slots
    /// must not, or a restart in that hour would lose slots that the ledger waits for. Other policies have none.
    pub fn next_as_quartz(&self, t: UnixMs) -> Option<UnixMs> {
        match &self.0.spec {
            Spec::Cron { cron, dst: DstPolicy::Quartz } if (0..=HORIZON.0).contains(&t.0) => {
                let second = t.0.div_euclid(1_000);
                let search = self.search(cron, DstPolicy::Quartz);
                self.next_after(UnixMs(search.same_wall_in_second_pass(second) * 1_000))
            }
            Spec::Cron { .. } | Spec::Every { .. } | Spec::Delay { .. } | Spec::Once { .. } => self.next_after(t),
        }
    }

    /// The slots after `after_excl` up to and including `until_incl`, in order.
    pub fn between(&self, after_excl: UnixMs, until_incl: UnixMs) -> Slots<'_> {
        Slots { schedule: self, after: after_excl, until: until_incl }
    }

    /// How many slots lie after `after_excl` up to and including `until_incl`, but at most `limit`.
    /// Constant time for a fixed rate without a calendar, else one search a slot.
    pub fn count_between(&self, after_excl: UnixMs, until_incl: UnixMs, limit: u64) -> u64 {
        match &self.0.spec {
            Spec::Every { period_ms } if self.calendar().is_none() => {
                let after_excl = after_excl.max(self.active().first().plus_ms(-1));
                let until_incl = until_incl.min(self.active().last());
                // Slot k is k periods after the epoch, so the number of slots before an instant is its quotient.
                let slots_until = |t: UnixMs| t.0.clamp(-1, HORIZON.0).div_euclid(*period_ms);
                let count = slots_until(until_incl).saturating_sub(slots_until(after_excl));
                u64::try_from(count).unwrap_or(0).min(limit)
            }
            Spec::Cron { .. } | Spec::Every { .. } | Spec::Delay { .. } | Spec::Once { .. } => {
                let slots = self.between(after_excl, until_incl);
                (1..=limit).zip(slots).last().map_or(0, |(count, _)| count)
            }
        }
    }

    /// The schedule in words.
    pub fn explain(&self, lang: Lang) -> String {
        let own = match &self.0.spec {
            Spec::Cron { cron, dst } => explain::cron(cron, *dst, &self.0.zone, lang),
            Spec::Every { period_ms } => explain::every(*period_ms, lang),
            Spec::Delay { delay_ms } => explain::delay(*delay_ms, lang),
            Spec::Once { at } => explain::once(&self.0.zone.format(*at), lang),
        };
        own + &explain::limits(self.calendar(), self.active(), &self.0.zone, lang)
    }

    /// The canonical text: equal schedules have equal texts. It leaves the calendar out.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The canonical text, such as `cron(quartz, "0 0 2 * * ?", Asia/Shanghai, dst=standard)` or `every(30000ms, UTC)`.
    pub fn to_text(&self) -> String {
        self.0.text.to_string()
    }

    fn rate(&self, period_ms: i64) -> Rate<'_> {
        Rate { period_ms, open: self.open() }
    }

    fn search<'s>(&'s self, cron: &'s Cron, dst: DstPolicy) -> Search<'s> {
        let calendar = self.calendar();
        Search { wall: cron.wall(), calendar, zone: &self.0.zone, dst: dst.rule(cron.is_interval()) }
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.text() == other.text() && self.calendar() == other.calendar())
    }
}

impl Eq for Schedule {}

impl PartialOrd for Schedule {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Schedule {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text().cmp(other.text()).then_with(|| self.calendar().cmp(&other.calendar()))
    }
}

impl Hash for Schedule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The slots of a span, in order; see [`Schedule::between`].
#[derive(Clone, Debug)]
pub struct Slots<'s> {
    schedule: &'s Schedule,
    after: UnixMs,
    until: UnixMs,
}

impl Iterator for Slots<'_> {
    type Item = UnixMs;

    fn next(&mut self) -> Option<UnixMs> {
        let found = self.schedule.next_after(self.after).filter(|found| *found <= self.until)?;
        self.after = found;
        Some(found)
    }
}

fn bounded_ms(ms: u64, what: &str) -> Result<i64, Error> {
    let inside =
        Some(ms).filter(|ms| (PERIOD_MIN_MS..=PERIOD_MAX_MS).contains(ms)).and_then(|ms| i64::try_from(ms).ok());
    inside.ok_or_else(|| {
        Error::new(ErrorCode::BadPeriod, format!("{what} of {ms} ms is out of range, expected 1 second to 1000 days"))
    })
}

fn canonical(spec: &Spec, zone: &Zone, active: Active) -> String {
    let zone = zone.name();
    let mut text = match spec {
        Spec::Cron { cron, dst } => {
            let dst = match dst {
                DstPolicy::Standard => "standard".to_owned(),
                DstPolicy::Quartz => "quartz".to_owned(),
                DstPolicy::Custom(Dst { gap, overlap }) => format!("{}+{}", gap.as_str(), overlap.as_str()),
            };
            format!("cron({}, \"{}\", {zone}, dst={dst})", cron.dialect().as_str(), cron.text())
        }
        Spec::Every { period_ms } => format!("every({period_ms}ms, {zone})"),
        Spec::Delay { delay_ms } => format!("delay({delay_ms}ms, {zone})"),
        Spec::Once { at } => format!("once({at}, {zone})"),
    };
    for (word, bound) in [("from", active.from), ("until", active.until)] {
        if let Some(bound) = bound {
            text.push_str(&format!(" {word} {bound}"));
        }
    }
    text
}
