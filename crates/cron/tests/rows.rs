//! Every row of the data files, against the evaluator. Rows that differ on purpose are in `data/exceptions.tsv`, with
//! the reason; an exception that no longer differs fails too.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use rota_cron::{Dialect, DstPolicy, Schedule, UnixMs, Zone};
use support::cells;

const CASES: &str = include_str!("data/cases.csv");
const RANDOM: &str = include_str!("data/quartz_random.csv");
const XXL: &str = include_str!("data/xxl_vectors.tsv");
const DRIFT: &str = include_str!("data/tzdata_drift.csv");
const EXCEPTIONS: &str = include_str!("data/exceptions.tsv");

/// What a row expects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    Invalid,
    /// These slots; fewer than five mean that there are no more.
    Slots(Vec<UnixMs>),
}

fn instants<'t>(texts: impl Iterator<Item = &'t str>) -> Expected {
    Expected::Slots(texts.map(|text| UnixMs::parse_rfc3339(text).unwrap()).collect())
}

/// The first five slots, or that the row is refused.
fn answer(dialect: Dialect, expr: &str, zone: &str, from: UnixMs, dst: DstPolicy) -> Expected {
    let schedule = Zone::parse(zone).and_then(|zone| Schedule::cron(expr, dialect, zone, dst));
    match schedule {
        Err(_) => Expected::Invalid,
        Ok(schedule) => {
            let first = schedule.next_as_quartz(from);
            Expected::Slots(std::iter::successors(first, |t| schedule.next_after(*t)).take(5).collect())
        }
    }
}

fn show(expected: &Expected) -> String {
    match expected {
        Expected::Invalid => "INVALID".to_owned(),
        Expected::Slots(slots) if slots.is_empty() => "NEVER".to_owned(),
        Expected::Slots(slots) => slots.iter().map(UnixMs::to_string).collect::<Vec<_>>().join(";"),
    }
}

struct Row {
    file: &'static str,
    dialect: Dialect,
    expr: String,
    zone: String,
    from: String,
    dst: DstPolicy,
    expected: Expected,
}

/// Checks all rows and answers how many passed without an exception.
fn check(rows: Vec<Row>) -> usize {
    let mut wrong = Vec::new();
    let mut passed = 0;
    for row in &rows {
        let from = UnixMs::parse_rfc3339(&row.from).unwrap();
        let found = answer(row.dialect, &row.expr, &row.zone, from, row.dst);
        let expected = exception(row).unwrap_or_else(|| row.expected.clone());
        let is_stale = exception(row).as_ref() == Some(&row.expected);
        if found != expected || is_stale {
            let (found, expected) = (show(&found), show(&expected));
            wrong.push(format!(
                "{}\t{}\t{}\t{}\n  want {expected}\n  have {found}",
                row.file, row.expr, row.zone, row.from
            ));
        }
        passed += usize::from(exception(row).is_none());
    }
    assert!(wrong.is_empty(), "{} of {} rows differ:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    passed
}

/// What Rota answers instead: columns file, expression, zone, from, policy, answer, reason.
fn exception(row: &Row) -> Option<Expected> {
    let policy = if row.dst == DstPolicy::Quartz { "quartz" } else { "standard" };
    let mut lines =
        EXCEPTIONS.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect::<Vec<_>>());
    let line =
        lines.find(|line| line[..5] == [row.file, row.expr.as_str(), row.zone.as_str(), row.from.as_str(), policy])?;
    assert!(line[6].len() > 20, "an exception has a reason");
    Some(slots(line[5]))
}

fn slots(text: &str) -> Expected {
    match text {
        "INVALID" => Expected::Invalid,
        "NEVER" => Expected::Slots(Vec::new()),
        slots => instants(slots.split(';')),
    }
}

fn csv(file: &'static str, text: &str, column: usize, dst: impl Fn(Dialect) -> DstPolicy) -> Vec<Row> {
    let rows = text.lines().skip(1).map(cells);
    rows.map(|cells| {
        let dialect = if cells[0] == "unix" { Dialect::Unix } else { Dialect::Quartz };
        let [expr, zone, from] = [&cells[1], &cells[2], &cells[3]].map(String::clone);
        Row { file, dialect, expr, zone, from, dst: dst(dialect), expected: slots(&cells[column]) }
    })
    .collect()
}

/// Unix rows state the default policy, Quartz rows that of Quartz.
fn by_dialect(dialect: Dialect) -> DstPolicy {
    match dialect {
        Dialect::Unix => DstPolicy::Standard,
        Dialect::Quartz => DstPolicy::Quartz,
    }
}

#[test]
fn cases_pass() {
    assert_eq!(check(csv("cases.csv", CASES, 4, by_dialect)), 248 - 1);
}

#[test]
fn cases_pass_under_the_default_policy_too() {
    let mut rows = csv("cases.csv", CASES, 4, |_| DstPolicy::Standard);
    for (row, line) in rows.iter_mut().zip(CASES.lines().skip(1)) {
        if let Some((_, alternative)) = cells(line)[5].split_once("ALT-NO-LOST-TICK=") {
            row.expected = instants(alternative.split(" |").next().unwrap().split_whitespace());
        }
    }
    check(rows);
}

#[test]
fn random_quartz_rows_pass() {
    assert_eq!(check(csv("quartz_random.csv", RANDOM, 4, by_dialect)), 1_980);
}

/// Field case B028: nothing that was computed with an older database is stored, so nothing of it can stay.
#[test]
fn drift_rows_pass_with_the_bundled_database() {
    assert_eq!(rota_cron::tzdb_version(), "2026f");
    assert_eq!(check(csv("tzdata_drift.csv", DRIFT, 5, by_dialect)), 6);
}

/// Expected is G1 (Quartz 2.3). Where G1 cannot list `L` with other days, it is G3, which can.
#[test]
fn xxl_vectors_pass() {
    let rows = XXL.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let wanted = if cells[4] == "=" || cells[4] == "INVALID" { cells[3] } else { cells[4] };
        let expected = match wanted {
            "INVALID" => Expected::Invalid,
            slots => instants(slots.split_whitespace().filter(|slot| *slot != "null")),
        };
        let [expr, zone, from] = [cells[0], cells[1], cells[2]].map(str::to_owned);
        Row { file: "xxl_vectors.tsv", dialect: Dialect::Quartz, expr, zone, from, dst: DstPolicy::Quartz, expected }
    });
    assert_eq!(check(rows.collect()), 2_400);
}
