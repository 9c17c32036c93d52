//! Cases from the field that are more than a row of the data files; the numbers are those of the case list.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rota_cron::{Cron, Dialect, Dst, DstPolicy, Gap, HORIZON, Overlap, Schedule, UnixMs, Zone};
use support::cells;

fn at(text: &str) -> UnixMs {
    UnixMs::parse_rfc3339(text).unwrap()
}

fn schedule(expr: &str, zone: &str, dst: DstPolicy) -> Schedule {
    Schedule::cron(expr, Dialect::of(expr), Zone::parse(zone).unwrap(), dst).unwrap()
}

fn custom(gap: Gap, overlap: Overlap) -> DstPolicy {
    DstPolicy::Custom(Dst { gap, overlap })
}

/// Checks the slots of a span, shown in the schedule's zone.
fn check(schedule: &Schedule, after: &str, until: &str, expected: &[&str]) {
    let found: Vec<String> = schedule.between(at(after), at(until)).map(|slot| schedule.zone().format(slot)).collect();
    assert_eq!(found, expected, "{schedule}");
}

/// Checks the first slots after an instant, in UTC.
fn check_next(expr: &str, zone: &str, after: &str, expected: &[&str]) {
    let schedule = schedule(expr, zone, DstPolicy::Standard);
    let mut t = at(after);
    for slot in expected {
        let next = schedule.next_after(t);
        assert_eq!(next.map(|next| next.to_string()), Some(at(slot).to_string()), "{expr} after {t}");
        t = next.unwrap();
    }
}

fn is_refused(expr: &str) -> bool {
    Schedule::cron(expr, Dialect::of(expr), Zone::utc(), DstPolicy::Standard).is_err()
}

#[test]
fn b001_the_last_day_of_a_month_is_its_own() {
    let ends =
        ["2025-09-30", "2025-10-31", "2025-11-30", "2025-12-31", "2026-01-31"].map(|day| format!("{day}T07:37:00Z"));
    let ends: Vec<&str> = ends.iter().map(String::as_str).collect();
    check_next("0 37 15 L * ?", "Asia/Shanghai", "2025-08-31T07:37:00Z", &ends);
    let februaries = ["2023-02-28T12:00:00Z", "2024-02-29T12:00:00Z", "2025-02-28T12:00:00Z"];
    check_next("0 0 12 L 2 ?", "UTC", "2023-01-01T00:00:00Z", &februaries);
}

#[test]
fn b002_to_b004_the_nearest_weekday_stays_in_its_month_and_has_all_its_times() {
    let fourths = ["2025-05-05T05:00:00Z", "2025-06-04T05:00:00Z", "2025-07-04T05:00:00Z"];
    check_next("0 0 5 4W * ?", "UTC", "2025-04-17T00:00:00Z", &fourths);
    check_next("0 0 5 1W 2 ?", "UTC", "2025-01-31T00:00:00Z", &["2025-02-03T05:00:00Z"]);
    let hours = ["2025-05-30T00:00:00Z", "2025-05-30T06:00:00Z", "2025-05-30T12:00:00Z", "2025-05-30T18:00:00Z"];
    check_next("0 0 */6 LW 5 ?", "UTC", "2025-05-20T13:10:00Z", &hours);
    let halves = ["2025-02-03T08:00:00Z", "2025-02-03T08:30:00Z", "2025-02-03T09:00:00Z", "2025-02-03T09:30:00Z"];
    check_next("0 */30 8-9 1W 2,3 ?", "UTC", "2025-01-15T00:00:00Z", &halves);
    let thirty_firsts = ["2025-01-31T09:00:00Z", "2025-03-31T09:00:00Z", "2025-05-30T09:00:00Z"];
    check_next("0 0 9 31W * ?", "UTC", "2025-01-01T00:00:00Z", &thirty_firsts);
    check_next("0 0 9 29W 2 ?", "UTC", "2025-01-01T00:00:00Z", &["2028-02-29T09:00:00Z", "2032-02-27T09:00:00Z"]);
}

#[test]
fn b005_and_b012_what_is_not_understood_is_refused_and_never_half_obeyed() {
    if !is_refused("0 0 0 1,L * ?") {
        let days = ["2025-01-31T00:00:00Z", "2025-02-01T00:00:00Z", "2025-02-28T00:00:00Z", "2025-03-01T00:00:00Z"];
        check_next("0 0 0 1,L * ?", "UTC", "2025-01-01T00:00:00Z", &days);
    }
    let slips = [
        "0, 0 0 * * ?",
        "0 0,,5 0 * * ?",
        "0 1-5-9 0 * * ?",
        "** 0 0 * * ?",
        "0.5 0 0 * * ?",
        "*/0 * * * * ?",
        "0 0 0 * * ? 20x5",
        "0 0 0 15W-20 * ?",
        "0 0 0 ? * 6LW",
    ];
    for slip in slips {
        assert!(is_refused(slip), "{slip}");
    }
}

#[test]
fn b007_b008_and_b011_weekdays_days_and_steps_mean_what_their_dialect_says() {
    for sunday in ["0", "7", "SUN"] {
        check_next(&format!("0 7 * * {sunday}"), "UTC", "2026-05-09T12:00:00Z", &["2026-05-10T07:00:00Z"]);
    }
    check_next("0 7 * * 1-5", "Asia/Taipei", "2026-05-09T12:00:00Z", &["2026-05-10T23:00:00Z"]);
    let either =
        ["2024-02-05", "2024-02-12", "2024-02-19", "2024-02-26", "2024-02-29"].map(|day| format!("{day}T00:00:00Z"));
    let either: Vec<&str> = either.iter().map(String::as_str).collect();
    check_next("0 0 29 2 1", "UTC", "2023-05-05T00:00:00Z", &either);
    assert!(is_refused("0 0 0 1 * 2") && is_refused("0 0 0 ? * ?"));
    let steps = ["2025-03-01T00:05:00Z", "2025-03-01T00:20:00Z", "2025-03-01T00:35:00Z", "2025-03-01T00:50:00Z"];
    check_next("0 5/15 * * * ?", "UTC", "2025-03-01T00:00:00Z", &steps);
    let uneven = ["2025-03-01T10:45:00Z", "2025-03-01T11:00:00Z", "2025-03-01T11:45:00Z"];
    check_next("0 0/45 * * * ?", "UTC", "2025-03-01T10:00:00Z", &uneven);
}

#[test]
fn b015_an_interval_has_no_silent_hour() {
    let often = schedule("0/15 * * * * ?", "Europe/Berlin", DstPolicy::Standard);
    let (from, until) = (at("2025-10-25T22:00:00Z"), at("2025-10-26T02:00:00Z"));
    assert_eq!(often.count_between(from, until, u64::MAX), 960);
    let slots: Vec<UnixMs> = often.between(from, until).collect();
    assert!(slots.windows(2).all(|pair| pair[1].since_ms(pair[0]) == 15_000));
}

#[test]
fn b015_quartz_answers_differently_in_the_first_pass_but_its_slots_are_one_set() {
    let often = schedule("0/15 * * * * ?", "Europe/Berlin", DstPolicy::Quartz);
    let asked = at("2025-10-26T00:59:30Z");
    assert_eq!(often.next_as_quartz(asked), Some(at("2025-10-26T01:59:45Z")));
    assert_eq!(often.next_after(asked), Some(at("2025-10-26T01:00:00Z")));
    // Asked before the overlap, both say the same: the first pass has no slots.
    let before = at("2025-10-25T23:59:45Z");
    assert_eq!(often.next_as_quartz(before), Some(at("2025-10-26T01:00:00Z")));
    assert_eq!(often.next_after(before), Some(at("2025-10-26T01:00:00Z")));
}

#[test]
fn b016_and_b017_each_policy_at_a_gap_and_an_overlap() {
    let (gap, overlap) =
        (("2025-03-29T12:00:00Z", "2025-03-31T12:00:00Z"), ("2025-10-25T12:00:00Z", "2025-10-27T12:00:00Z"));
    let (lost, once) = (["2025-03-31T02:30:00+02:00"], ["2025-03-30T03:00:00+02:00", "2025-03-31T02:30:00+02:00"]);
    let (first, last, next) = ("2025-10-26T02:30:00+02:00", "2025-10-26T02:30:00+01:00", "2025-10-27T02:30:00+01:00");
    for (dst, in_gap, in_overlap) in [
        (DstPolicy::Standard, &once[..], &[first, next][..]),
        (DstPolicy::Quartz, &lost[..], &[last, next][..]),
        (custom(Gap::Skip, Overlap::Both), &lost[..], &[first, last, next][..]),
        (custom(Gap::RunAfter, Overlap::Last), &once[..], &[last, next][..]),
    ] {
        let daily = schedule("30 2 * * *", "Europe/Berlin", dst);
        check(&daily, gap.0, gap.1, in_gap);
        check(&daily, overlap.0, overlap.1, in_overlap);
    }
    // Several times lost in one gap are made up for once.
    let thrice = schedule("0,20,40 2 * * *", "Europe/Berlin", DstPolicy::Standard);
    check(&thrice, "2025-03-29T12:00:00Z", "2025-03-30T12:00:00Z", &["2025-03-30T03:00:00+02:00"]);
    // A slot that is made up for and a slot that is due at the same instant are one.
    let both = schedule("30 2,3 * * *", "Europe/Berlin", DstPolicy::Standard);
    check(
        &both,
        "2025-03-29T12:00:00Z",
        "2025-03-30T12:00:00Z",
        &["2025-03-30T03:00:00+02:00", "2025-03-30T03:30:00+02:00"],
    );
    let merged = schedule("0 2,3 * * *", "Europe/Berlin", DstPolicy::Standard);
    check(&merged, "2025-03-29T12:00:00Z", "2025-03-30T12:00:00Z", &["2025-03-30T03:00:00+02:00"]);
}

#[test]
fn b020_every_row_advances_a_thousand_times() {
    for line in include_str!("data/cases.csv").lines().skip(1) {
        let cells = cells(line);
        let dialect = if cells[0] == "unix" { Dialect::Unix } else { Dialect::Quartz };
        for dst in [DstPolicy::Standard, DstPolicy::Quartz, custom(Gap::RunAfter, Overlap::Both)] {
            let Ok(zone) = Zone::parse(&cells[2]) else { continue };
            let Ok(schedule) = Schedule::cron(&cells[1], dialect, zone, dst) else { continue };
            let mut t = at(&cells[3]);
            for _ in 0..1_000 {
                let Some(next) = schedule.next_after(t) else { break };
                assert!(next > t, "{schedule} at {t}");
                assert!(schedule.prev_before(next).is_none_or(|prev| prev <= t), "{schedule} at {t}");
                t = next;
            }
        }
    }
}

#[test]
fn b020_the_previous_slot_of_a_second_pass_may_be_later_on_the_wall() {
    for overlap in [Overlap::First, Overlap::Both] {
        let yearly = schedule("50 2 26 10 *", "Europe/Berlin", custom(Gap::Skip, overlap));
        assert_eq!(yearly.prev_before(at("2025-10-26T01:10:00Z")), Some(at("2025-10-26T00:50:00Z")));
    }
    let yearly = schedule("10 2 26 10 *", "Europe/Berlin", custom(Gap::Skip, Overlap::Last));
    assert_eq!(yearly.next_after(at("2025-10-26T00:50:00Z")), Some(at("2025-10-26T01:10:00Z")));
}

#[test]
fn b023_a_time_that_is_always_in_a_gap_is_never_or_always_after_it() {
    // The last Sunday of March, 02:30: Berlin has never had it since 1996.
    let skipped = schedule("0 30 2 ? 3 1L", "Europe/Berlin", DstPolicy::Quartz);
    assert_eq!(skipped.next_after(at("2026-01-01T00:00:00Z")), None);
    let made_up = schedule("0 30 2 ? 3 1L", "Europe/Berlin", DstPolicy::Standard);
    check(
        &made_up,
        "2025-01-01T00:00:00Z",
        "2026-12-31T00:00:00Z",
        &["2025-03-30T03:00:00+02:00", "2026-03-29T03:00:00+02:00"],
    );
}

#[test]
fn b024_and_b029_times_are_shown_in_the_zone_with_their_offset() {
    let daily = schedule("0 30 0 * * ?", "Asia/Shanghai", DstPolicy::Standard);
    check(&daily, "2020-09-02T00:00:00Z", "2020-09-03T00:00:00Z", &["2020-09-03T00:30:00+08:00"]);
    let fixed = schedule("0 30 0 * * ?", "UTC+8", DstPolicy::Standard);
    check(&fixed, "2020-09-02T00:00:00Z", "2020-09-03T00:00:00Z", &["2020-09-03T00:30:00+08:00"]);
}

#[test]
fn impossible_dates_and_the_ends_of_time_answer_none() {
    for expr in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 0 31W 4 ?", "0 0 0 29 2 ? 2025", "0 0 0 1 1 ? 1970"] {
        let never = schedule(expr, "America/New_York", DstPolicy::Standard);
        assert_eq!(never.next_after(at("2026-01-01T00:00:00Z")), None, "{expr}");
    }
    for zone in ["UTC", "Pacific/Kiritimati", "America/Los_Angeles"] {
        let minutely = schedule("* * * * *", zone, DstPolicy::Standard);
        assert_eq!(minutely.next_after(HORIZON), None);
        assert_eq!(minutely.next_after(UnixMs(i64::MAX)), None);
        assert_eq!(minutely.prev_before(UnixMs(0)), None);
        assert_eq!(minutely.prev_before(UnixMs(i64::MIN)), None);
        assert!(minutely.next_after(UnixMs(i64::MIN)).is_some_and(|first| first < at("1970-01-03T00:00:00Z")));
        let last = minutely.last_at_or_before(UnixMs(i64::MAX)).unwrap();
        assert!(last > at("2199-12-30T00:00:00Z") && last <= HORIZON);
        assert_eq!(minutely.next_after(last), None);
    }
}

#[test]
fn other_kinds_have_their_slots() {
    let rate = Schedule::every(300_000).unwrap();
    check(&rate, "2026-01-01T00:04:59.999Z", "2026-01-01T00:10:00Z", &["2026-01-01T00:05:00Z", "2026-01-01T00:10:00Z"]);
    assert_eq!(rate.next_after(UnixMs(-5)), Some(UnixMs(0)));
    assert_eq!(rate.count_between(UnixMs(-1), HORIZON, u64::MAX), HORIZON.0.unsigned_abs() / 300_000 + 1);
    let once = Schedule::once(at("2026-01-01T00:00:00.250Z"));
    check(&once, "2025-01-01T00:00:00Z", "2026-01-01T00:00:00.250Z", &["2026-01-01T00:00:00.250Z"]);
    check(&once, "2026-01-01T00:00:00.250Z", "2027-01-01T00:00:00Z", &[]);
    let delay = Schedule::delay(60_000).unwrap();
    assert_eq!((delay.next_after(UnixMs(0)), delay.delay_ms()), (None, Some(60_000)));
}

#[test]
fn schedules_are_small_and_equal_by_text() {
    assert_eq!(size_of::<Schedule>(), size_of::<usize>());
    let named = schedule("0 0 0 ? * MON-FRI", "asia/shanghai", DstPolicy::Standard);
    let numbered = schedule(" 0 0  0 ? * 2-6", "Asia/Shanghai", DstPolicy::Standard);
    assert_eq!(named, numbered);
    assert_eq!(named.to_text(), "cron(quartz, \"0 0 0 ? * 2-6\", Asia/Shanghai, dst=standard)");
    assert_ne!(named, named.with_zone(Zone::utc()));
    assert_eq!(schedule("@daily", "UTC", DstPolicy::Quartz).text(), "cron(unix, \"0 0 * * *\", UTC, dst=quartz)");
    assert_eq!(Schedule::every(1_000).unwrap().text(), "every(1000ms, UTC)");
}

#[test]
fn hashed_fields_are_spread_and_stable() {
    let hash = |expr, seed| Cron::parse_hashed(expr, Dialect::of(expr), seed).unwrap().text().to_owned();
    assert_eq!(hash("H H * * *", 1), hash("H H * * *", 1));
    assert!((0..50).any(|seed| hash("H H * * *", seed) != hash("H H * * *", 0)));
    for seed in 0..500 {
        let text = hash("H(0-29)/10 H(2-4) H H H", seed);
        let fields: Vec<&str> = text.split(' ').collect();
        let number = |text: &str| text.split(['-', '/']).next().unwrap().parse::<u8>().unwrap();
        assert!(number(fields[0]) < 10 && fields[0].ends_with("-29/10"), "{text}");
        assert!((2..=4).contains(&number(fields[1])), "{text}");
        assert!((1..=28).contains(&number(fields[2])) && (1..=12).contains(&number(fields[3])), "{text}");
        assert!(number(fields[4]) <= 6, "{text}");
        assert!(number(&hash("H/15 * * * *", seed)) < 15);
        let quartz = hash("H H H ? * H", seed);
        assert!((1..=7).contains(&number(quartz.rsplit(' ').next().unwrap())), "{quartz}");
    }
}
