//! The ledger as the API shows it, and what must hold of it.

use rota_wire::rest::{Page, Run};

use crate::api::Api;
use crate::clock::parse_ms;

/// All rows that a query names, oldest first.
pub(crate) fn rows(api: &Api, query: &str) -> Vec<Run> {
    let mut rows: Vec<Run> = Vec::new();
    let mut before = String::new();
    loop {
        let page = api.get(&format!("/api/v1/runs?limit=1000&{query}{before}"));
        let page: Page<Run> = serde_json::from_value(page).expect("a page of runs");
        rows.extend(page.items);
        match page.next {
            Some(next) => before = format!("&after={next}"),
            None => break,
        }
    }
    rows.sort_by_key(|row| row.id);
    assert!(rows.windows(2).all(|two| two[0].id < two[1].id), "{query}: a run is listed twice");
    rows
}

/// The first and the last slot of a row.
pub(crate) fn span_ms(row: &Run) -> (i64, i64) {
    let first = parse_ms(&row.slot);
    (first, row.slot_last.as_deref().map_or(first, parse_ms))
}

/// Checks that each slot from `first_ms` to `until_ms` is covered by exactly one of the rows of origin `schedule`.
/// Slots are the multiples of `every_ms`.
pub(crate) fn check_covered(rows: &[Run], every_ms: i64, first_ms: i64, until_ms: i64) {
    let mut spans: Vec<(i64, i64, &Run)> = Vec::new();
    for row in rows.iter().filter(|row| row.origin == "schedule") {
        let (first, last) = span_ms(row);
        assert!(first % every_ms == 0 && last % every_ms == 0, "not its slots: {row:?}");
        assert_eq!(i64::try_from(row.slots).unwrap(), (last - first) / every_ms + 1, "miscounted: {row:?}");
        spans.push((first, last, row));
    }
    spans.sort_by_key(|(first, ..)| *first);
    let mut expected = first_ms;
    for (first, last, row) in spans {
        assert!(first >= expected, "a slot is covered twice, before {expected}: {row:?}");
        assert!(first <= expected, "no row for the slots from {expected} to {first}, the row before is {row:?}");
        expected = last + every_ms;
    }
    assert!(expected > until_ms, "no row for the slots from {expected} to {until_ms}");
}

/// What is not over: counted by the machines, and run by run by the store, with the word of the machines on each.
pub(crate) fn unsettled(api: &Api) -> Vec<String> {
    let server = api.get("/api/v1/server");
    let mut found: Vec<String> = ["runs_open", "attempts_open", "in_doubt", "held"]
        .iter()
        .filter(|what| server[**what] != 0)
        .map(|what| format!("{what}: {}", server[*what]))
        .collect();
    for state in ["pending", "dispatched", "running"] {
        let page = api.get(&format!("/api/v1/runs?limit=1000&state={state}"));
        let runs = page["items"].as_array().expect("a list");
        found.extend(
            runs.iter()
                .take(10)
                .map(|run| api.get(&format!("/api/v1/runs/{}", run["run"].as_str().unwrap())).to_string()),
        );
        found.extend(runs.get(10).map(|_| format!("and {} more that are {state}", runs.len() - 10)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u64, first_s: u32, last_s: u32) -> Run {
        let slot = |second: u32| format!("2026-12-01T02:00:{second:02}Z");
        serde_json::from_value(serde_json::json!({
            "run": format!("r{id}"), "id": id, "job": 1, "job_name": "j", "app": "a", "version": 1,
            "origin": "schedule", "slot": slot(first_s), "slot_last": slot(last_s), "slots": last_s - first_s + 1,
            "state": "success", "is_ended": true, "shards": 1, "at": slot(last_s), "tries": 1, "tries_max": 1
        }))
        .unwrap()
    }

    fn check(rows: &[Run]) {
        check_covered(rows, 1_000, parse_ms("2026-12-01T02:00:01Z"), parse_ms("2026-12-01T02:00:06Z"));
    }

    #[test]
    fn rows_and_ranges_cover() {
        check(&[row(2, 2, 5), row(1, 1, 1), row(3, 6, 6)]);
    }

    #[test]
    #[should_panic(expected = "no row for the slots from")]
    fn a_hole_is_seen() {
        check(&[row(1, 1, 2), row(2, 4, 6)]);
    }

    #[test]
    #[should_panic(expected = "covered twice")]
    fn a_slot_that_is_covered_twice_is_seen() {
        check(&[row(1, 1, 3), row(2, 3, 6)]);
    }

    #[test]
    #[should_panic(expected = "no row for the slots from")]
    fn an_early_end_is_seen() {
        check(&[row(1, 1, 5)]);
    }
}
