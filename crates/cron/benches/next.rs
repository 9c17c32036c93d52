//! What one question costs: the next slot of common expressions, beside `croner`, and of dates that never come.
//!
//! `cargo bench -p rota-cron`. The questions lie all over 2026 and 2027, so that neither side answers from a warm cache.

#![expect(clippy::unwrap_used, reason = "a benchmark's own set-up")]

use std::hint::black_box;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use croner::parser::{CronParser, Seconds};
use rota_cron::{Calendar, Dialect, DstPolicy, Schedule, UnixMs, Zone};

/// 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;

fn instants() -> Vec<UnixMs> {
    (0..512).map(|n| UnixMs(START_MS + n * 123_456_789)).collect()
}

fn schedule(expr: &str, zone: &str) -> Schedule {
    Schedule::cron(expr, Dialect::of(expr), Zone::parse(zone).unwrap(), DstPolicy::Standard).unwrap()
}

fn common(c: &mut Criterion) {
    let mut group = c.benchmark_group("next");
    // The second form is what the peer reads where the dialects differ.
    for (name, expr, peer, zone) in [
        ("every_5_minutes_utc", "*/5 * * * *", "*/5 * * * *", "UTC"),
        ("daily_shanghai", "0 2 * * *", "0 2 * * *", "Asia/Shanghai"),
        ("daily_berlin", "30 2 * * *", "30 2 * * *", "Europe/Berlin"),
        ("weekdays_new_york", "0 9 * * 1-5", "0 9 * * 1-5", "America/New_York"),
        ("quartz_last_day_shanghai", "0 37 15 L * ?", "0 37 15 L * *", "Asia/Shanghai"),
        ("quartz_third_friday_utc", "0 0 9 ? * 6#3", "0 0 9 * * 5#3", "UTC"),
        ("leap_day_utc", "0 0 29 2 *", "0 0 29 2 *", "UTC"),
    ] {
        let ours = schedule(expr, zone);
        let at = instants();
        let mut n = 0;
        group.bench_function(BenchmarkId::new("rota", name), |b| {
            b.iter(|| {
                n = (n + 1) % at.len();
                ours.next_after(black_box(at[n]))
            });
        });
        let theirs = CronParser::builder().seconds(Seconds::Optional).build().parse(peer).unwrap();
        let tz: Tz = zone.parse().unwrap();
        let at: Vec<DateTime<Tz>> =
            at.iter().map(|at| DateTime::<Utc>::from_timestamp_millis(at.0).unwrap().with_timezone(&tz)).collect();
        group.bench_function(BenchmarkId::new("croner", name), |b| {
            b.iter(|| {
                n = (n + 1) % at.len();
                theirs.find_next_occurrence(black_box(&at[n]), false).unwrap()
            });
        });
    }
    group.finish();
}

fn calendars(c: &mut Criterion) {
    let mut group = c.benchmark_group("calendar");
    let exclude = ["sat", "sun", "2026-10-01..2026-10-07", "2027-02-06..2027-02-12", "22:00-06:00"];
    let calendar = Calendar::parse(&exclude, &["2026-10-10"]).unwrap();
    let schedule = schedule("*/5 * * * *", "Asia/Shanghai").with_calendar(Some(calendar));
    let at = instants();
    let mut n = 0;
    group.bench_function("working_days_shanghai", |b| {
        b.iter(|| {
            n = (n + 1) % at.len();
            schedule.next_after(black_box(at[n]))
        });
    });
    group.finish();
}

/// Each must be told in less than a millisecond.
fn never(c: &mut Criterion) {
    let mut group = c.benchmark_group("never");
    let closed = Calendar::parse(&["sun-sat"], &[]).unwrap();
    let mondays = Calendar::parse(&["mon"], &[]).unwrap();
    let windows = Calendar::parse(&["01:00-01:30", "02:00-02:30"], &[]).unwrap();
    let daily = |zone: &str| Schedule::every(86_400_000).unwrap().with_zone(Zone::parse(zone).unwrap());
    for (name, schedule) in [
        ("february_30_utc", schedule("0 0 30 2 *", "UTC")),
        ("february_30_berlin", schedule("0 0 30 2 *", "Europe/Berlin")),
        ("quartz_february_30", schedule("0 0 0 30 2 ?", "Asia/Shanghai")),
        ("quartz_31w_in_april", schedule("0 0 0 31W 4 ?", "Europe/Berlin")),
        ("quartz_fifth_friday_of_one_february", schedule("0 0 0 ? 2 6#5 2027", "Europe/Berlin")),
        ("quartz_31_of_short_months", schedule("0 0 0 31 2,4,6,9,11 ?", "America/New_York")),
        ("a_year_that_is_over", schedule("0 0 0 1 1 ? 2020", "Asia/Shanghai")),
        ("every_day_excluded", schedule("* * * * *", "Europe/Berlin").with_calendar(Some(closed.clone()))),
        ("every_slot_excluded", schedule("0 0 * * 1", "Europe/Berlin").with_calendar(Some(mondays))),
        ("a_rate_with_every_day_excluded", Schedule::every(1_000).unwrap().with_calendar(Some(closed))),
        ("a_rate_that_hits_closed_windows_only_utc", daily("+01:00").with_calendar(Some(windows.clone()))),
        ("a_rate_that_hits_closed_windows_only_berlin", daily("Europe/Berlin").with_calendar(Some(windows))),
    ] {
        assert_eq!(schedule.next_after(UnixMs(START_MS)), None, "{name}");
        group.bench_function(name, |b| b.iter(|| schedule.next_after(black_box(UnixMs(START_MS)))));
    }
    group.finish();
}

fn other(c: &mut Criterion) {
    c.bench_function("parse/quartz", |b| b.iter(|| schedule(black_box("0 0/5 9-17 ? * MON-FRI"), "UTC")));
    let daily = schedule("0 2 * * *", "Asia/Shanghai");
    c.bench_function("prev/daily_shanghai", |b| b.iter(|| daily.prev_before(black_box(UnixMs(START_MS)))));
}

criterion_group!(benches, common, calendars, never, other);
criterion_main!(benches);
