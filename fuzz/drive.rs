// What the fuzz target does with its input. A test of `rota-cron` does the same with the corpus and with inputs of its
// own, so that every build does without a fuzzer what the fuzzer does for longer.
//
// The input: a byte of flags, eight of an instant, then lines: the expression, the zone, and what a calendar excludes
// (a line that starts with `+` is included).

use rota_cron::{Active, Calendar, Cron, Dialect, Dst, DstPolicy, Gap, HORIZON, Lang, Overlap, Schedule, UnixMs, Zone};

/// Steps that one answer may take: it walks at most the months of two centuries, some times over.
const STEPS_MAX: u64 = 60_000;
const ZONES: [&str; 6] =
    ["UTC", "Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia"];

/// Reads a schedule, asks it everything, and checks what must be true of the answers.
pub(crate) fn drive(data: &[u8]) {
    let Some((flags, rest)) = data.split_first() else { return };
    let Some((instant, text)) = rest.split_first_chunk::<8>() else { return };
    let at = UnixMs(i64::from_le_bytes(*instant));
    // Most instants shall be such as there can be.
    let at = if flags & 1 == 0 { UnixMs(at.0.rem_euclid(HORIZON.0)) } else { at };
    let text = String::from_utf8_lossy(text);
    let mut lines = text.split('\n');
    let expr = lines.next().unwrap_or_default();
    let zone_text = lines.next().unwrap_or_default();
    let (include, exclude): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('+'));
    let include: Vec<&str> = include.iter().map(|line| line.trim_start_matches('+')).collect();

    let zone = match Zone::parse(zone_text) {
        Ok(zone) => {
            assert_eq!(Zone::parse(zone.name()).as_ref(), Ok(&zone), "a zone's name reads back");
            zone
        }
        Err(error) => {
            check_error(&error, zone_text);
            Zone::parse(ZONES[zone_text.len() % ZONES.len()]).expect("it is in the database")
        }
    };
    let calendar = match Calendar::parse(&exclude, &include) {
        Ok(calendar) => Some(calendar),
        Err(error) => {
            assert!(!error.message.is_empty());
            None
        }
    };
    let _ = UnixMs::parse_rfc3339(expr).map(|at| UnixMs::parse_rfc3339(&at.to_string()));
    for dialect in [Dialect::Unix, Dialect::Quartz] {
        match Cron::parse_hashed(expr, dialect, u64::from(*flags)) {
            Err(error) => check_error(&error, expr),
            Ok(cron) => {
                assert_eq!(Cron::parse(cron.text(), dialect).as_ref(), Ok(&cron), "the canonical text reads back");
                let schedule = Schedule::of_cron(cron, zone.clone(), policy(*flags));
                check(&schedule.with_calendar(calendar.clone()).with_active(active(*flags, at)), at, STEPS_MAX);
            }
        }
    }
    let period_ms = 1_000 + u64::from_le_bytes(*instant) % 200_000_000;
    let rate = Schedule::every(period_ms).expect("within bounds").with_zone(zone.clone());
    check(&rate.with_calendar(calendar.clone()).with_active(active(*flags, at)), at, STEPS_MAX);
    let delay = Schedule::delay(period_ms).expect("within bounds").with_zone(zone).with_calendar(calendar);
    assert!(bounded(STEPS_MAX, || delay.first_open(at)).is_none_or(|found| found >= at));
}

fn check_error(error: &rota_cron::Error, text: &str) {
    assert!(!error.message.is_empty());
    assert!(error.position.is_none_or(|position| text.is_char_boundary(position)), "{error:?} in {text:?}");
}

fn policy(flags: u8) -> DstPolicy {
    let gap = if flags & 2 == 0 { Gap::Skip } else { Gap::RunAfter };
    let rule = |overlap| DstPolicy::Custom(Dst { gap, overlap });
    match flags >> 2 & 7 {
        0..3 => DstPolicy::Standard,
        3 | 4 => DstPolicy::Quartz,
        5 => rule(Overlap::First),
        6 => rule(Overlap::Last),
        _ => rule(Overlap::Both),
    }
}

fn active(flags: u8, at: UnixMs) -> Active {
    match flags >> 5 {
        0..6 => Active::ALWAYS,
        6 => Active { from: Some(at.plus_ms(90_000_000)), until: None },
        _ => Active { from: None, until: Some(at.plus_ms(90_000_000)) },
    }
}

fn check(schedule: &Schedule, at: UnixMs, steps_max: u64) {
    assert!(!schedule.explain(Lang::En).is_empty() && !schedule.explain(Lang::Zh).is_empty());
    let mut t = at;
    for _ in 0..4 {
        let Some(next) = bounded(steps_max, || schedule.next_after(t)) else { break };
        assert!(next > t && next <= HORIZON, "{schedule}: {next} after {t}");
        let prev = bounded(steps_max, || schedule.prev_before(next));
        assert!(prev.is_none_or(|prev| prev <= t), "{schedule}: {prev:?} lies between {t} and {next}");
        assert_eq!(bounded(steps_max, || schedule.last_at_or_before(next)), Some(next), "{schedule}");
        assert!(schedule.active().until.is_none_or(|until| next <= until));
        t = next;
    }
    if let Some(prev) = bounded(steps_max, || schedule.prev_before(at)) {
        assert!(prev < at, "{schedule}: {prev} before {at}");
        let next = bounded(steps_max, || schedule.next_after(prev));
        assert!(next.is_none_or(|next| next >= at), "{schedule}: {next:?} after {prev}, asked before {at}");
    }
    if let Some(as_quartz) = bounded(steps_max, || schedule.next_as_quartz(at)) {
        assert!(as_quartz > at);
        assert_eq!(schedule.last_at_or_before(as_quartz), Some(as_quartz), "{schedule}: Quartz's slots are slots");
    }
    assert!(bounded(8 * steps_max, || schedule.count_between(at, HORIZON, 3)) <= 3);
}

/// Asks, and counts what it takes.
fn bounded<T>(steps_max: u64, ask: impl FnOnce() -> T) -> T {
    let before = rota_cron::steps();
    let answer = ask();
    if let (Some(before), Some(after)) = (before, rota_cron::steps()) {
        assert!(after - before <= steps_max, "an answer took {} steps", after - before);
    }
    answer
}
