//! What a store does for itself takes nothing away that is needed.

use rota_core::batch::{Row, Run};
use rota_core::time::UnixMs;

use super::Open;
use super::fixture::{Bench, ID, T, attempt, done, first, row, sent, set, success};
use crate::store::Store;

/// Slices of upkeep until nothing waits.
pub(super) fn all(store: &mut dyn Store, now: UnixMs) {
    let is_done = (0..100_000).any(|_| !store.upkeep(now).unwrap());
    assert!(is_done, "upkeep comes to an end");
}

/// Neither what is open, nor what ended lately, nor what is listed, nor what is at the floor or above
/// is swept; and a sweep never takes a part of a run.
pub fn a_sweep_keeps_what_is_needed(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let day_ms = 24 * 3_600_000;
    let listed = bench.skipped(1, job);
    let still_open = bench.run(2, job);
    let young = Run { ended_at: Some(T.plus_ms(40 * day_ms)), ..bench.skipped(3, job) };
    let old = bench.run(4, job);
    let above = bench.skipped(100, job);
    let other = attempt(&old, 1, 1, ID + 5);
    bench.commit(vec![
        row(&listed),
        Row::Listed { run: listed.id, is_open: true },
        row(&still_open),
        row(&young),
        row(&old),
        sent(&first(&old)),
        sent(&other),
        row(&above),
    ]);
    bench.commit(vec![set(&done(&other)), set(&done(&first(&old))), success(&old)]);
    all(&mut *bench.store, T.plus_ms(2 * day_ms));
    bench.store.sweep(T.plus_ms(30 * day_ms), above.id.0).unwrap();
    for kept in [&listed, &still_open, &young, &above] {
        assert_eq!(bench.query.run(kept.id), Ok(Some(kept.clone())));
    }
    let attempts = bench.query.attempts(old.id).unwrap().len();
    let expected = if bench.query.run(old.id).unwrap().is_some() { 2 } else { 0 };
    assert_eq!(attempts, expected);
    let mut bench = bench.reopen(open);
    bench.store.sweep(T.plus_ms(30 * day_ms), u64::MAX).unwrap();
    assert!(bench.query.run(listed.id).unwrap().is_some() && bench.query.run(still_open.id).unwrap().is_some());
}
