//! What never comes is told after a bounded number of steps, in both directions; so no test depends on speed.
//!
//! A step is tens of nanoseconds at most (`benches/next.rs` measures the same questions), so this is what keeps the
//! answer "never" below a millisecond.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use rota_cron::{Active, Calendar, Dialect, DstPolicy, HORIZON, Schedule, UnixMs, Zone};

/// Two centuries have 2,760 months. A search looks at each once for its days and once for what is open.
const STEPS_MAX: u64 = 12_000;

const DAY_MS: u64 = 86_400_000;

fn cron(expr: &str, zone: &str) -> Schedule {
    Schedule::cron(expr, Dialect::of(expr), Zone::parse(zone).unwrap(), DstPolicy::Standard).unwrap()
}

fn rate(period_ms: u64, zone: &str) -> Schedule {
    Schedule::every(period_ms).unwrap().with_zone(Zone::parse(zone).unwrap())
}

fn closed(schedule: &Schedule, exclude: &[&str], include: &[&str]) -> Schedule {
    schedule.with_calendar(Some(Calendar::parse(exclude, include).unwrap()))
}

fn counted<T>(ask: impl FnOnce() -> T) -> (T, u64) {
    let before = rota_cron::steps().unwrap();
    let answer = ask();
    (answer, rota_cron::steps().unwrap() - before)
}

fn check_never(schedule: &Schedule) {
    for t in [UnixMs(0), UnixMs(1_767_225_600_000), UnixMs(4_000_000_000_000)] {
        let (next, steps) = counted(|| schedule.next_after(t));
        assert_eq!(next, None, "{schedule} after {t}");
        assert!(steps <= STEPS_MAX, "{schedule} after {t}: {steps} steps");
        let (prev, steps) = counted(|| schedule.prev_before(t));
        assert_eq!(prev, None, "{schedule} before {t}");
        assert!(steps <= STEPS_MAX, "{schedule} before {t}: {steps} steps");
    }
    let (count, steps) = counted(|| schedule.count_between(UnixMs(0), HORIZON, 10));
    assert!(count == 0 && steps <= STEPS_MAX, "{schedule}: {count} slots after {steps} steps");
    let (prev, steps) = counted(|| schedule.prev_before(HORIZON));
    assert!(prev.is_none() && steps <= STEPS_MAX, "{schedule}: {prev:?} after {steps} steps");
}

#[test]
fn a_date_that_does_not_exist_never_comes() {
    for zone in ["UTC", "Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"] {
        for expr in [
            "0 0 0 30 2 ?",
            "0 0 30 2 *",
            "0 0 0 31W 4 ?",
            "0 0 0 31 2,4,6,9,11 ?",
            "0 0 0 L-30 2,4,6,9,11 ?",
            "* * * 30W 2 ?",
            "0 0 0 29 2 ? 2023",
            "0 0 0 29 2 ? 2100",
            "0 0 0 ? 2 6#5 2023",
            "0 0 0 ? 2 MON#5 1999-2003",
        ] {
            check_never(&cron(expr, zone));
        }
    }
}

#[test]
fn a_calendar_that_closes_every_slot_leaves_none() {
    for zone in ["UTC", "Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"] {
        for schedule in [
            closed(&cron("* * * * *", zone), &["sun-sat"], &[]),
            closed(&cron("* * * * * ?", zone), &["01-01..12-31"], &[]),
            closed(&cron("* * * * *", zone), &["00:00-12:00", "12:00-24:00"], &[]),
            closed(&cron("0 0 * * 1", zone), &["mon"], &[]),
            closed(&cron("0 0 25 12 *", zone), &["12-24..12-26"], &[]),
            closed(&cron("0 0 1,15 * *", zone), &["00:00-00:01"], &["2026-10-01..2026-10-07"]),
            closed(&cron("0 0 29 2 *", zone), &["02-29"], &[]),
            closed(&rate(1_000, zone), &["sun-sat"], &[]),
            closed(&rate(DAY_MS, zone), &["sun-sat"], &[]),
            closed(&rate(1_000, zone), &["00:00-24:00"], &["2026-01-01..2199-12-31"]),
            closed(&rate(999_983, zone), &["01-01..12-31"], &[]),
        ] {
            check_never(&schedule);
        }
    }
    // All that a rate hits is closed, though each day is open at other times.
    for (period_ms, exclude) in [
        (DAY_MS, &["00:00-00:01"][..]),
        (DAY_MS / 2, &["11:59-12:01", "00:00-01:00"]),
        (7 * DAY_MS, &["thu"]),
        (7 * DAY_MS / 2, &["thu", "12:00-13:00"]),
        (DAY_MS / 24, &["sun-sat"]),
        (1_000 * DAY_MS, &["00:00-01:00"]),
    ] {
        check_never(&closed(&rate(period_ms, "UTC"), exclude, &[]));
        check_never(
            &closed(&rate(period_ms, "UTC"), exclude, &["2026-10-02", "2026-10-04"]).with_active(Active {
                from: Some(UnixMs::parse_rfc3339("2026-10-09T00:00:00Z").unwrap()),
                until: None,
            }),
        );
    }
    // 00:00 UTC is 01:00 or 02:00 in Berlin, 19:00 or 20:00 in New York, 10:30 or 11:00 on Lord Howe.
    check_never(&closed(&rate(DAY_MS, "Europe/Berlin"), &["01:00-01:30", "02:00-02:30"], &[]));
    check_never(&closed(&rate(DAY_MS, "America/New_York"), &["19:00-19:01", "20:00-20:01"], &[]));
    check_never(&closed(&rate(DAY_MS, "Australia/Lord_Howe"), &["10:00-12:00"], &["2026-01-01..2150-12-31"]));
}

#[test]
fn a_rate_walks_the_same_slots_where_clocks_show_another_year() {
    // The last hours of 2199 in UTC are of 2200 in Apia, and the first of 1970 of 1969 in New York.
    for (zone, edge) in [("Pacific/Apia", HORIZON), ("America/New_York", UnixMs(0))] {
        let schedule = closed(&rate(10_310_600, zone), &["12:00-13:00"], &[]);
        let from = edge.plus_ms(-2 * 86_400_000);
        let until = edge.plus_ms(2 * 86_400_000);
        let forward: Vec<UnixMs> = schedule.between(from, until).collect();
        let mut back: Vec<UnixMs> = std::iter::successors(schedule.prev_before(until), |t| schedule.prev_before(*t))
            .take_while(|t| *t > from)
            .collect();
        back.reverse();
        assert!(forward.len() > 5);
        assert_eq!(forward, back, "{zone}");
    }
}

fn window() -> impl Strategy<Value = String> {
    (0..96_u32, 1..30_u32).prop_map(|(from, length)| {
        let text = |quarter: u32| format!("{:02}:{:02}", quarter / 4, quarter % 4 * 15);
        format!("{}-{}", text(from), text((from + length) % 96))
    })
}

fn weekday() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["mon", "tue-wed", "thu", "fri-sun", "sat", "sun", "mon-fri"]).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// What passes over a barren time passes over no slot: years of a rate are those of its multiples that are open.
    #[test]
    fn a_rate_under_a_calendar_has_all_its_open_multiples(
        period_hours in prop::sample::select(vec![6_u64, 8, 12, 24, 36, 48, 84, 168, 336]),
        shift_ms in prop::sample::select(vec![0_u64, 0, 0, 500, 60_000]),
        zone in prop::sample::select(vec!["UTC", "+05:30", "Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca"]),
        windows in prop::collection::vec(window(), 0..4),
        weekdays in prop::collection::vec(weekday(), 0..3),
        include in prop::collection::vec((2010..2013_u32, 1..13_u32, 1..29_u32), 0..5),
        start in 1_262_304_000_000_i64..1_300_000_000_000,
    ) {
        let bare = rate(period_hours * 3_600_000 + shift_ms, zone);
        let exclude: Vec<String> = windows.into_iter().filter(|window| window[..5] != window[6..]).chain(weekdays).collect();
        let include: Vec<String> = include.iter().map(|(year, month, day)| format!("{year}-{month:02}-{day:02}")).collect();
        let calendar = Calendar::parse(&exclude, &include).unwrap();
        let schedule = bare.with_calendar(Some(calendar.clone()));
        let (from, until) = (UnixMs(start), UnixMs(start).plus_ms(3 * 365 * 86_400_000));
        // One instant alone is open or not; no search passes anything.
        let is_open = |at: &UnixMs| {
            Schedule::once(*at).with_zone(bare.zone().clone()).with_calendar(Some(calendar.clone())).next_after(from).is_some()
        };
        let expected: Vec<UnixMs> = bare.between(from, until).filter(is_open).collect();
        let found: Vec<UnixMs> = schedule.between(from, until).collect();
        prop_assert_eq!(&found, &expected);
        let back = std::iter::successors(schedule.last_at_or_before(until), |t| schedule.prev_before(*t));
        let mut back: Vec<UnixMs> = back.take_while(|t| *t > from).collect();
        back.reverse();
        prop_assert_eq!(&back, &expected);
        for t in [UnixMs(0), from, until, HORIZON] {
            let (_, steps) = counted(|| (schedule.next_after(t), schedule.prev_before(t)));
            prop_assert!(steps <= 2 * STEPS_MAX, "{} at {}: {} steps", schedule, t, steps);
        }
    }
}
