//! Calendars and bounds: the set of slots is that of the schedule without what they close, however it is asked for.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use rota_cron::{Active, Calendar, Dialect, Dst, DstPolicy, Gap, Overlap, Schedule, UnixMs, Zone};

fn at(text: &str) -> UnixMs {
    UnixMs::parse_rfc3339(text).unwrap()
}

fn cron(expr: &str, zone: &str, exclude: &[&str], include: &[&str]) -> Schedule {
    let zone = Zone::parse(zone).unwrap();
    let schedule = Schedule::cron(expr, Dialect::of(expr), zone, DstPolicy::Standard).unwrap();
    schedule.with_calendar(Some(Calendar::parse(exclude, include).unwrap()))
}

fn check(schedule: &Schedule, from: &str, expected: &[&str]) {
    let from = at(from);
    let found: Vec<String> = std::iter::successors(schedule.next_after(from), |t| schedule.next_after(*t))
        .take(expected.len())
        .map(|slot| schedule.zone().format(slot))
        .collect();
    assert_eq!(found, expected);
    let last = at(expected.last().unwrap());
    let back = std::iter::successors(schedule.last_at_or_before(last), |t| schedule.prev_before(*t));
    let mut back: Vec<String> = back.take_while(|t| *t > from).map(|slot| schedule.zone().format(slot)).collect();
    back.reverse();
    assert_eq!(back, expected, "backwards");
    assert_eq!(schedule.count_between(from, last, u64::MAX), u64::try_from(expected.len()).unwrap());
}

#[test]
fn an_extra_working_day_wins_over_weekend_and_holiday() {
    // China, October 2026: a week off, paid for with a Saturday and a Sunday.
    let exclude = ["sat", "sun", "2026-10-01..2026-10-07"];
    let schedule = cron("0 9 * * *", "Asia/Shanghai", &exclude, &["2026-09-20", "2026-10-10"]);
    check(
        &schedule,
        "2026-09-18T12:00:00+08:00",
        &[
            "2026-09-20T09:00:00+08:00",
            "2026-09-21T09:00:00+08:00",
            "2026-09-22T09:00:00+08:00",
            "2026-09-23T09:00:00+08:00",
            "2026-09-24T09:00:00+08:00",
            "2026-09-25T09:00:00+08:00",
            "2026-09-28T09:00:00+08:00",
            "2026-09-29T09:00:00+08:00",
            "2026-09-30T09:00:00+08:00",
            "2026-10-08T09:00:00+08:00",
            "2026-10-09T09:00:00+08:00",
            "2026-10-10T09:00:00+08:00",
            "2026-10-12T09:00:00+08:00",
        ],
    );
}

#[test]
fn a_window_over_midnight_is_that_of_the_zone() {
    let schedule = cron("0 */4 * * *", "Europe/Berlin", &["22:00-06:00"], &[]);
    let day = ["08:00:00", "12:00:00", "16:00:00", "20:00:00"];
    let expected: Vec<String> = [("2026-10-24", "+02:00"), ("2026-10-25", "+01:00")]
        .iter()
        .flat_map(|(date, offset)| day.iter().map(move |time| format!("{date}T{time}{offset}")))
        .collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(&schedule, "2026-10-23T20:00:00Z", &expected);
    // The end of a window is open, its start is not.
    check(&cron("0 * * * *", "UTC", &["01:00-23:00"], &[]), "2026-01-01T00:00:00Z", &["2026-01-01T23:00:00Z"]);
}

#[test]
fn a_closed_slot_in_a_gap_is_not_made_up_for() {
    // 02:30 does not exist on the 29th; its slot would be at 03:00.
    let daily = |exclude: &[&str]| cron("30 2 * * *", "Europe/Berlin", exclude, &[]);
    let next = |exclude: &[&str]| {
        let schedule = daily(exclude);
        schedule.zone().format(schedule.next_after(at("2026-03-28T12:00:00Z")).unwrap())
    };
    assert_eq!(next(&[]), "2026-03-29T03:00:00+02:00");
    assert_eq!(next(&["2026-03-29"]), "2026-03-30T02:30:00+02:00");
    assert_eq!(next(&["03:00-03:30"]), "2026-03-30T02:30:00+02:00");
    assert_eq!(daily(&["02:00-03:00"]).next_after(at("2026-03-28T12:00:00Z")), None);
}

#[test]
fn a_fixed_rate_keeps_its_beat_between_what_is_closed() {
    let every = Schedule::every(7 * 3_600_000).unwrap().with_zone(Zone::parse("+08:00").unwrap());
    let calendar = Calendar::parse(&["sun", "22:00-06:00"], &["2026-11-29"]).unwrap();
    let schedule = every.with_calendar(Some(calendar));
    check(
        &schedule,
        "2026-11-28T00:00:00+08:00",
        &[
            "2026-11-28T09:00:00+08:00",
            "2026-11-28T16:00:00+08:00",
            "2026-11-29T06:00:00+08:00",
            "2026-11-29T13:00:00+08:00",
            "2026-11-29T20:00:00+08:00",
            "2026-11-30T10:00:00+08:00",
        ],
    );
}

#[test]
fn a_calendar_that_closes_everything_has_no_slot() {
    let zone = || Zone::parse("America/New_York").unwrap();
    for exclude in [
        ["sun-sat", "01-01"],
        ["01-01..12-31", "sun"],
        ["00:00-24:00", "sun"],
        ["12:00-11:00", "11:00-12:00"],
        ["01-01..06-30", "07-01..12-31"],
    ] {
        let calendar = Calendar::parse(&exclude, &[]).unwrap();
        let dst = DstPolicy::Standard;
        for schedule in [
            Schedule::cron("* * * * * ?", Dialect::Quartz, zone(), dst).unwrap(),
            Schedule::cron("0 0 1 1 *", Dialect::Unix, zone(), dst).unwrap(),
            Schedule::every(1_000).unwrap().with_zone(zone()),
            Schedule::delay(1_000).unwrap().with_zone(zone()),
        ] {
            let schedule = schedule.with_calendar(Some(calendar.clone()));
            assert_eq!(schedule.next_after(UnixMs(0)), None, "{schedule} {exclude:?}");
            assert_eq!(schedule.prev_before(UnixMs(i64::MAX)), None, "{schedule} {exclude:?}");
            assert_eq!(schedule.first_open(at("2026-01-01T00:00:00Z")), None, "{schedule} {exclude:?}");
        }
    }
    // Slots that never meet an open day, though there are such days.
    let mondays = cron("0 0 * * 1", "America/New_York", &["mon"], &[]);
    assert_eq!(mondays.next_after(at("2026-01-01T00:00:00Z")), None);
    let only = cron("0 0 * * 1", "America/New_York", &["mon"], &["2031-06-02", "2031-06-03"]);
    check(&only, "2026-01-01T00:00:00Z", &["2031-06-02T00:00:00-04:00"]);
    assert_eq!(only.next_after(at("2031-06-02T04:00:00Z")), None);
}

#[test]
fn bounds_hold_with_both_ends_in() {
    let zone = Zone::parse("Asia/Shanghai").unwrap();
    let active = Active { from: zone.day_start("2026-12-01").ok(), until: Some(at("2026-12-02T02:00:00+08:00")) };
    let daily = Schedule::cron("0 0,2 * * *", Dialect::Unix, zone.clone(), DstPolicy::Standard).unwrap();
    let schedule = daily.with_active(active);
    check(
        &schedule,
        "1970-01-01T00:00:00Z",
        &[
            "2026-12-01T00:00:00+08:00",
            "2026-12-01T02:00:00+08:00",
            "2026-12-02T00:00:00+08:00",
            "2026-12-02T02:00:00+08:00",
        ],
    );
    assert_eq!(schedule.next_after(at("2026-12-02T02:00:00+08:00")), None);
    assert_eq!(schedule.prev_before(at("2026-12-01T00:00:00+08:00")), None);
    assert_eq!(schedule.count_between(UnixMs(i64::MIN), UnixMs(i64::MAX), u64::MAX), 4);
    assert_ne!(schedule, daily);
    assert_eq!(schedule.with_active(Active::ALWAYS), daily);
    let rate = Schedule::every(60_000).unwrap().with_active(active);
    assert_eq!(rate.count_between(UnixMs(0), UnixMs(i64::MAX), u64::MAX), 26 * 60 + 1);
    assert_eq!(rate.first_open(UnixMs(0)), active.from);
    assert_eq!(rate.first_open(at("2026-12-02T02:00:00.001+08:00")), None);
}

#[test]
fn equal_calendars_make_equal_schedules() {
    let one = cron("0 9 * * *", "UTC", &["sat", "sun"], &[]);
    let other = cron("0 9 * * *", "UTC", &["sat-sun"], &[]);
    assert_eq!(one, other);
    assert_ne!(one, cron("0 9 * * *", "UTC", &["sat"], &[]));
    assert_eq!(cron("0 9 * * *", "UTC", &[], &["2026-01-01"]), cron("0 9 * * *", "UTC", &[], &[]));
    assert_eq!(one.calendar(), other.calendar());
}

const ZONES: [&str; 5] = ["UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia"];

fn item() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..7_usize, 0..7_usize).prop_map(|(from, to)| {
            let names = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
            format!("{}-{}", names[from], names[to])
        }),
        (1..13_u8, 1..29_u8, 1..13_u8, 1..29_u8).prop_map(|(m, d, n, e)| format!("{m:02}-{d:02}..{n:02}-{e:02}")),
        (1..13_u8, 1..29_u8).prop_map(|(m, d)| format!("{m:02}-{d:02}")),
        (0..1_440_u32, 0..1_440_u32).prop_filter_map("a window has a length", |(from, to)| {
            (from != to).then(|| format!("{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60))
        }),
        day().prop_map(|day| day),
    ]
}

fn day() -> impl Strategy<Value = String> {
    (2009..2013_u16, 1..13_u8, 1..29_u8).prop_map(|(y, m, d)| format!("{y}-{m:02}-{d:02}"))
}

/// Whether an instant is open, told from its text alone.
fn is_open(exclude: &[String], include: &[String], zone: &Zone, at: UnixMs) -> bool {
    let text = zone.format(at);
    let (date, clock) = (&text[..10], &text[11..16]);
    let weekday = {
        let second = at.0.div_euclid(1_000) + i64::from(zone.offset_at(at));
        usize::try_from((second.div_euclid(86_400) + 4).rem_euclid(7)).unwrap()
    };
    let names = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let place = |name: &str| names.iter().position(|known| *known == name).unwrap();
    let mut is_day_closed = false;
    let mut is_time_closed = false;
    for item in exclude {
        if item.contains(':') {
            let (from, to) = item.split_once('-').unwrap();
            is_time_closed |= if from < to { from <= clock && clock < to } else { from <= clock || clock < to };
        } else if item.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let (from, to) = item.split_once('-').unwrap();
            is_day_closed |= (weekday + 7 - place(from)) % 7 <= (place(to) + 7 - place(from)) % 7;
        } else if item.len() == 10 {
            is_day_closed |= item == date;
        } else {
            let (from, to) = item.split_once("..").unwrap_or((item, item));
            let day = &date[5..];
            is_day_closed |= if from <= to { from <= day && day <= to } else { from <= day || day <= to };
        }
    }
    (!is_day_closed || include.iter().any(|day| day == date)) && !is_time_closed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    /// Under `skip`, no slot stands for another instant: the slots are exactly the open ones of the bare schedule.
    #[test]
    fn a_calendar_takes_exactly_the_closed_slots_away(
        expr in prop_oneof![Just("*/7 * * * *"), Just("30 2 * * *"), Just("0 0 1,15 * 1-5"), Just("15 */6 * * *")],
        rate in prop_oneof![Just(None), (1..50_u64).prop_map(|n| Some(n * 1_234_567))],
        zone in 0..ZONES.len(),
        exclude in prop::collection::vec(item(), 0..5),
        include in prop::collection::vec(day(), 0..4),
        from in 1_240_000_000_i64..1_350_000_000,
        overlap in prop_oneof![Just(Overlap::First), Just(Overlap::Last), Just(Overlap::Both)],
    ) {
        let zone = Zone::parse(ZONES[zone]).unwrap();
        let dst = DstPolicy::Custom(Dst { gap: Gap::Skip, overlap });
        let bare = match rate {
            None => Schedule::cron(expr, Dialect::Unix, zone.clone(), dst).unwrap(),
            Some(period_ms) => Schedule::every(period_ms).unwrap().with_zone(zone.clone()),
        };
        let schedule = bare.with_calendar(Some(Calendar::parse(&exclude, &include).unwrap()));
        let from = UnixMs(from * 1_000);
        let until = from.plus_ms(20 * 86_400_000);
        let open = |slot: &UnixMs| is_open(&exclude, &include, &zone, *slot);
        let expected: Vec<UnixMs> = bare.between(from, until).filter(open).collect();
        let found: Vec<UnixMs> = schedule.between(from, until).collect();
        prop_assert_eq!(&found, &expected);
        let back = std::iter::successors(schedule.last_at_or_before(until), |t| schedule.prev_before(*t));
        let mut back: Vec<UnixMs> = back.take_while(|t| *t > from).collect();
        back.reverse();
        prop_assert_eq!(&back, &expected);
        let counted = schedule.count_between(from, until, u64::MAX);
        prop_assert_eq!(counted, u64::try_from(expected.len()).unwrap());
        let first = schedule.first_open(from);
        prop_assert!(first.is_none_or(|first| first >= from && open(&first) && (first == from || !open(&from))));
        let until = first.unwrap_or(until);
        let between = (1..200).map(|n| from.plus_ms((until.0 - from.0) * n / 200)).filter(|t| *t < until);
        prop_assert!(between.into_iter().all(|t| !open(&t)));
    }

    /// Under the default, what stands for a gap may not be closed either.
    #[test]
    fn no_slot_is_at_a_closed_instant(
        zone in 0..ZONES.len(),
        exclude in prop::collection::vec(item(), 0..4),
        include in prop::collection::vec(day(), 0..3),
        from in 1_240_000_000_i64..1_350_000_000,
    ) {
        let zone = Zone::parse(ZONES[zone]).unwrap();
        let bare = Schedule::cron("30 0,1,2 * * *", Dialect::Unix, zone.clone(), DstPolicy::Standard).unwrap();
        let schedule = bare.with_calendar(Some(Calendar::parse(&exclude, &include).unwrap()));
        let from = UnixMs(from * 1_000);
        let until = from.plus_ms(200 * 86_400_000);
        let found: Vec<UnixMs> = schedule.between(from, until).collect();
        for slot in &found {
            prop_assert!(is_open(&exclude, &include, &zone, *slot), "{}", zone.format(*slot));
            prop_assert_eq!(bare.last_at_or_before(*slot), Some(*slot), "{}", zone.format(*slot));
        }
        let back = std::iter::successors(schedule.last_at_or_before(until), |t| schedule.prev_before(*t));
        let mut back: Vec<UnixMs> = back.take_while(|t| *t > from).collect();
        back.reverse();
        prop_assert_eq!(&back, &found);
    }
}
