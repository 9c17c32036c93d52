//! Laws, over random expressions, zones and instants near changes of the clock.
//!
//! The oracle steps through every minute and knows a DST rule only by its definition; it shares no code with the search.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use proptest::prelude::*;
use rota_cron::{Cron, Dialect, Dst, DstPolicy, Gap, HORIZON, Lang, Overlap, Schedule, UnixMs, Zone};

const ZONES: [&str; 16] = [
    "UTC",
    "Asia/Shanghai",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Havana",
    "America/Ciudad_Juarez",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Antarctica/Troll",
    "Antarctica/Vostok",
    "Antarctica/Casey",
];

/// A field: its text, and the numbers it stands for.
#[derive(Clone, Debug)]
struct Set {
    text: String,
    numbers: BTreeSet<i8>,
}

fn field(min: i8, max: i8) -> impl Strategy<Value = Set> {
    let all = move |step: usize, text: String| Set { text, numbers: (min..=max).step_by(step).collect() };
    prop_oneof![
        3 => Just(all(1, "*".to_owned())),
        2 => (1..=max).prop_map(move |step| all(usize::from(step.unsigned_abs()), format!("*/{step}"))),
        2 => (min..=max).prop_map(|number| Set { text: number.to_string(), numbers: [number].into() }),
        1 => prop::collection::btree_set(min..=max, 1..4).prop_map(|numbers| {
            let texts: Vec<String> = numbers.iter().map(i8::to_string).collect();
            Set { text: texts.join(","), numbers }
        }),
        1 => (min..=max, min..=max, 1..4_usize).prop_map(|(a, b, step)| {
            let (from, to) = (a.min(b), a.max(b));
            Set { text: format!("{from}-{to}/{step}"), numbers: (from..=to).step_by(step).collect() }
        }),
        1 => (min..=max, 1..=max).prop_map(move |(from, step)| {
            let numbers = (from..=max).step_by(usize::from(step.unsigned_abs())).collect();
            Set { text: format!("{from}/{step}"), numbers }
        }),
    ]
}

#[derive(Clone, Debug)]
struct Expr {
    minute: Set,
    hour: Set,
    date: Set,
    month: Set,
    weekday: Set,
}

fn expr() -> impl Strategy<Value = Expr> {
    let every = || Just(Set { text: "*".to_owned(), numbers: (0..=31).collect() });
    let date = prop_oneof![3 => every(), 1 => field(1, 31)];
    let weekday = prop_oneof![3 => every(), 1 => field(0, 6)];
    let month = prop_oneof![4 => every(), 1 => field(1, 12)];
    (field(0, 59), field(0, 23), date, month, weekday).prop_map(|(minute, hour, date, month, weekday)| Expr {
        minute,
        hour,
        date,
        month,
        weekday,
    })
}

impl Expr {
    fn text(&self) -> String {
        let fields = [&self.minute, &self.hour, &self.date, &self.month, &self.weekday];
        fields.map(|field| field.text.as_str()).join(" ")
    }

    fn is_interval(&self) -> bool {
        let is_open = |set: &Set| set.text.starts_with('*') || set.text.contains('/') && !set.text.contains('-');
        is_open(&self.minute) || is_open(&self.hour)
    }

    fn matches(&self, wall: DateTime) -> bool {
        let date = self.date.numbers.contains(&wall.day());
        let weekday = self.weekday.numbers.contains(&wall.weekday().to_sunday_zero_offset());
        let is_star = |set: &Set| set.text.starts_with('*');
        let day = if is_star(&self.date) || is_star(&self.weekday) { date && weekday } else { date || weekday };
        wall.second() == 0
            && self.minute.numbers.contains(&wall.minute())
            && self.hour.numbers.contains(&wall.hour())
            && self.month.numbers.contains(&wall.month())
            && day
    }
}

fn dst() -> impl Strategy<Value = DstPolicy> {
    let gap = prop_oneof![Just(Gap::RunAfter), Just(Gap::Skip)];
    let overlap = prop_oneof![Just(Overlap::First), Just(Overlap::Last), Just(Overlap::Both)];
    prop_oneof![
        2 => Just(DstPolicy::Standard),
        1 => Just(DstPolicy::Quartz),
        3 => (gap, overlap).prop_map(|(gap, overlap)| DstPolicy::Custom(Dst { gap, overlap })),
    ]
}

fn rule(dst: DstPolicy, is_interval: bool) -> Dst {
    match dst {
        DstPolicy::Standard if is_interval => Dst { gap: Gap::Skip, overlap: Overlap::Both },
        DstPolicy::Standard => Dst { gap: Gap::RunAfter, overlap: Overlap::First },
        DstPolicy::Quartz => Dst { gap: Gap::Skip, overlap: Overlap::Last },
        DstPolicy::Custom(dst) => dst,
    }
}

/// All slots in the window, minute by minute.
fn oracle(expr: &Expr, zone: &TimeZone, rule: Dst, window: std::ops::RangeInclusive<i64>) -> BTreeSet<i64> {
    let mut slots = BTreeSet::new();
    let offset = |second: i64| i64::from(zone.to_offset(Timestamp::from_second(second).unwrap()).seconds());
    let mut offset_before = offset(window.start() - 1);
    for second in window {
        let at = Timestamp::from_second(second).unwrap();
        let wall = zone.to_datetime(at);
        if wall.second() == 0 && expr.matches(wall) {
            let belongs = match (zone.to_ambiguous_timestamp(wall).offset(), rule.overlap) {
                (AmbiguousOffset::Fold { .. }, Overlap::First) => {
                    zone.to_ambiguous_timestamp(wall).earlier().unwrap() == at
                }
                (AmbiguousOffset::Fold { .. }, Overlap::Last) => {
                    zone.to_ambiguous_timestamp(wall).later().unwrap() == at
                }
                _ => true,
            };
            if belongs {
                slots.insert(second);
            }
        }
        let (before, after) = (offset_before, offset(second));
        offset_before = after;
        if rule.gap == Gap::RunAfter && after > before {
            let lost = second + before..second + after;
            let mut walls = lost.map(|wall| TimeZone::UTC.to_datetime(Timestamp::from_second(wall).unwrap()));
            if walls.any(|wall| expr.matches(wall)) {
                slots.insert(second);
            }
        }
    }
    slots
}

/// Some change of the zone's clock after 1970, or a day in 2026 if it has none.
fn some_change(zone: &TimeZone, place: usize) -> i64 {
    let first = Timestamp::from_second(20 * 86_400).unwrap();
    let changes: Vec<i64> = zone.following(first).take(140).map(|change| change.timestamp().as_second()).collect();
    changes.get(place % changes.len().max(1)).copied().unwrap_or(1_780_000_000)
}

fn ms(second: i64) -> UnixMs {
    UnixMs(second * 1_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_search_finds_what_a_walk_by_seconds_finds(
        expr in expr(), zone in 0..ZONES.len(), place in 0..140_usize, shift in -36_000..36_000_i64, dst in dst()
    ) {
        let tz = TimeZoneDatabase::bundled().get(ZONES[zone]).unwrap();
        let middle = some_change(&tz, place) + shift;
        let (from, until) = (middle - 30_000, middle + 30_000);
        let zone = Zone::parse(ZONES[zone]).unwrap();
        let schedule = Schedule::cron(&expr.text(), Dialect::Unix, zone, dst).unwrap();
        prop_assert_eq!(schedule.as_cron().unwrap().is_interval(), expr.is_interval());
        let expected: Vec<UnixMs> =
            oracle(&expr, &tz, rule(dst, expr.is_interval()), from + 1..=until).into_iter().map(ms).collect();

        let forward: Vec<UnixMs> = schedule.between(ms(from), ms(until)).collect();
        prop_assert_eq!(&forward, &expected, "{}", schedule);
        let back = std::iter::successors(schedule.last_at_or_before(ms(until)), |t| schedule.prev_before(*t));
        let mut back: Vec<UnixMs> = back.take_while(|t| *t > ms(from)).collect();
        back.reverse();
        prop_assert_eq!(&back, &expected, "{} backwards", schedule);
        let count = u64::try_from(expected.len()).unwrap();
        prop_assert_eq!(schedule.count_between(ms(from), ms(until), u64::MAX), count);
        prop_assert_eq!(schedule.count_between(ms(from), ms(until), 3), count.min(3));
        // The set does not depend on where the question is asked.
        for t in (from..until).step_by(601) {
            let next = expected.iter().find(|slot| **slot > ms(t)).copied();
            prop_assert_eq!(schedule.next_after(ms(t)).filter(|slot| *slot <= ms(until)), next, "{} at {}", schedule, t);
            let prev = expected.iter().rev().find(|slot| **slot < ms(t)).copied();
            prop_assert_eq!(schedule.prev_before(ms(t)).filter(|slot| *slot > ms(from)), prev, "{} at {}", schedule, t);
        }
    }

    /// Field case B021: a schedule that does not advance would fire without end.
    #[test]
    fn next_and_previous_are_strict_and_inverse(
        expr in expr(), zone in 0..ZONES.len(), t in prop_oneof![6 => 0..HORIZON.0, 1 => any::<i64>()], dst in dst(),
        near in any::<bool>(), place in 0..140_usize,
    ) {
        let t = if near { some_change(&TimeZoneDatabase::bundled().get(ZONES[zone]).unwrap(), place) * 1_000 + t % 90_000_000 } else { t };
        let zone = Zone::parse(ZONES[zone]).unwrap();
        let schedule = Schedule::cron(&expr.text(), Dialect::Unix, zone, dst).unwrap();
        let t = UnixMs(t);
        if let Some(next) = schedule.next_after(t) {
            prop_assert!(next > t && next <= HORIZON);
            prop_assert!(schedule.prev_before(next).is_none_or(|prev| prev <= t));
            prop_assert_eq!(schedule.last_at_or_before(next), Some(next));
            // No slot is passed over: asked around each change on the way, the answers are the same.
            let tz = TimeZoneDatabase::bundled().get(schedule.zone().name()).unwrap();
            let start = Timestamp::from_millisecond(t.0.max(0)).unwrap();
            for change in tz.following(start).take(12).map(|change| ms(change.timestamp().as_second())) {
                for u in [change.plus_ms(-1), change].into_iter().filter(|u| *u >= t && *u < next) {
                    prop_assert_eq!(schedule.next_after(u), Some(next), "{} at {}", schedule, u);
                    prop_assert_eq!(schedule.prev_before(u.plus_ms(1)), schedule.prev_before(next), "{} at {}", schedule, u);
                }
            }
        }
        if let Some(prev) = schedule.prev_before(t) {
            prop_assert!(prev < t && prev >= UnixMs(0));
            prop_assert!(schedule.next_after(prev).is_none_or(|next| next >= t));
        }
    }

    #[test]
    fn a_fixed_rate_is_the_multiples_of_its_period(period in 1_000..100_000_000_u64, t in any::<i64>(), span in 0..1_000_000_000_i64) {
        let schedule = Schedule::every(period).unwrap();
        let t = UnixMs(t % (HORIZON.0 * 2));
        if let Some(next) = schedule.next_after(t) {
            prop_assert!(next > t && next.0.unsigned_abs().is_multiple_of(period));
            prop_assert!(schedule.prev_before(next).is_none_or(|prev| prev <= t));
        }
        let counted = schedule.count_between(t, t.plus_ms(span), 5_000);
        let walked = schedule.between(t, t.plus_ms(span)).take(5_000).count();
        prop_assert_eq!(counted, u64::try_from(walked).unwrap());
    }

    #[test]
    fn the_canonical_text_means_the_same(expr in expr()) {
        let cron = Cron::parse(&expr.text(), Dialect::Unix).unwrap();
        prop_assert_eq!(&Cron::parse(cron.text(), Dialect::Unix).unwrap(), &cron);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[0-9A-Za-z*/,?#@() \t-]{0,40}|(([0-9*?LWH/,#-]{1,4}|MON|JAN|FRIL) ){5,7}|\\PC{0,30}") {
        for dialect in [Dialect::Unix, Dialect::Quartz, Dialect::of(&text)] {
            match Cron::parse_hashed(&text, dialect, 7) {
                Err(error) => {
                    prop_assert!(error.position.is_none_or(|position| position <= text.len() && text.is_char_boundary(position)));
                    prop_assert!(!error.message.is_empty() && !error.message.ends_with('.'));
                }
                Ok(cron) => {
                    prop_assert_eq!(&Cron::parse(cron.text(), dialect).unwrap(), &cron);
                    let schedule = Schedule::cron(cron.text(), dialect, Zone::utc(), DstPolicy::Standard).unwrap();
                    prop_assert!(schedule.next_after(UnixMs(0)).is_none_or(|next| next > UnixMs(0)));
                    prop_assert!(!schedule.explain(Lang::En).is_empty() && !schedule.explain(Lang::Zh).is_empty());
                }
            }
        }
        let _ = Zone::parse(&text);
        let _ = UnixMs::parse_rfc3339(&text);
    }
}
