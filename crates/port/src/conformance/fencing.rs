//! A batch applies once, in order, and only in its own term.

use rota_core::batch::{Batch, Row};
use rota_core::id::{AppId, Epoch, JobId, Seq};

use super::Open;
use super::fixture::{Bench, ID, T, app_elsewhere, definition, done, first, row, sent, set, success};
use crate::store::Outcome;

/// Neither a lower nor a higher epoch than the stored one lets a batch through.
pub fn a_stale_epoch_is_fenced(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let good = bench.batch(vec![row(&bench.run(1, job))]);
    for epoch in [bench.epoch.0 - 1, bench.epoch.0 + 1] {
        let stale = Batch { epoch: Epoch(epoch), ..good.clone() };
        assert_eq!(bench.store.commit(&[stale]), Ok(vec![Outcome::Fenced { stored: bench.seq }]));
        assert_eq!(bench.query.run(bench.run(1, job).id), Ok(None));
    }
    bench.apply(good);
}

/// After a claim, the owner before writes nothing more; the new one goes on where it stopped.
pub fn a_claim_fences_the_term_before(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let late = bench.batch(vec![row(&bench.run(1, job))]);
    let before = bench.epoch;
    let loaded = bench.claim();
    assert_eq!((loaded.epoch, loaded.seq), (Epoch(before.0 + 1), Seq(late.seq.0 - 1)));
    assert_eq!(bench.store.commit(&[late]), Ok(vec![Outcome::Fenced { stored: loaded.seq }]));
    bench.commit(vec![row(&bench.run(1, job))]);
}

/// A batch that is durable already changes nothing, and says so.
pub fn the_same_batch_twice_changes_nothing(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let run = bench.run(1, job);
    let batch = bench.batch(vec![row(&run), sent(&first(&run))]);
    bench.apply(batch.clone());
    bench.commit(vec![set(&done(&first(&run))), success(&run)]);
    let before = (bench.query.run(run.id).unwrap(), bench.query.attempts(run.id).unwrap());
    assert_eq!(bench.store.commit(&[batch]), Ok(vec![Outcome::Repeated]));
    assert_eq!((bench.query.run(run.id).unwrap(), bench.query.attempts(run.id).unwrap()), before);
}

/// A batch whose predecessor is missing is refused, and what is stored is named.
pub fn a_hole_in_the_sequence_is_fenced(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let next = bench.batch(vec![row(&bench.run(1, job))]);
    let early = Batch { seq: Seq(next.seq.0 + 1), ..next.clone() };
    assert_eq!(bench.store.commit(&[early]), Ok(vec![Outcome::Fenced { stored: bench.seq }]));
    assert_eq!(bench.query.run(bench.run(1, job).id), Ok(None));
    bench.apply(next);
}

/// Two partitions in one commit, one of which belongs to another term: the other's rows are durable.
pub fn one_fenced_batch_leaves_the_others(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let (other_app, other) = app_elsewhere(&mut *bench.store, bench.partition);
    let claimed = bench.store.claim(&[other]).unwrap().remove(0);
    let mine = bench.batch(vec![row(&bench.run(1, job))]);
    let name = definition(JobId(JobId::FIRST.0 + 77), 1, other_app, "elsewhere");
    let theirs = Batch {
        partition: other,
        epoch: Epoch(claimed.epoch.0 - 1),
        seq: Seq(claimed.seq.0 + 1),
        rows: vec![Row::Definition(Box::new(name.clone()))],
        ..mine.clone()
    };
    let outcomes = bench.store.commit(&[theirs.clone(), mine]).unwrap();
    assert_eq!(outcomes, [Outcome::Fenced { stored: claimed.seq }, Outcome::Applied]);
    assert_eq!(bench.query.job(name.id), Ok(None));
    assert!(bench.query.run(bench.run(1, job).id).unwrap().is_some());
    let outcomes = bench.store.commit(&[Batch { epoch: claimed.epoch, ..theirs }]).unwrap();
    assert_eq!(outcomes, [Outcome::Applied]);
}

/// Whoever does not know whether a batch was applied sends it again, with what follows.
pub fn a_lost_reply_is_answered_by_sending_again(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let (one, two) = (bench.run(1, job), bench.run(2, job));
    let lost = bench.batch(vec![row(&one)]);
    bench.apply(lost.clone());
    let next = bench.batch(vec![row(&two)]);
    assert_eq!(bench.store.commit(&[lost, next]), Ok(vec![Outcome::Repeated, Outcome::Applied]));
    assert_eq!((bench.query.run(one.id), bench.query.run(two.id)), (Ok(Some(one)), Ok(Some(two))));
}

/// A commit may hold several batches of a partition; one that is fenced fences those after it.
pub fn batches_of_one_partition_apply_in_order(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let run = bench.run(1, job);
    let one = bench.batch(vec![row(&run)]);
    let two = Batch { seq: Seq(one.seq.0 + 1), rows: vec![success(&run)], ..one.clone() };
    let four = Batch { seq: Seq(one.seq.0 + 3), rows: vec![], ..one.clone() };
    let five = Batch { seq: Seq(one.seq.0 + 4), ..four.clone() };
    let fenced = Outcome::Fenced { stored: two.seq };
    let outcomes = bench.store.commit(&[one, two, four, five]).unwrap();
    assert_eq!(outcomes, [Outcome::Applied, Outcome::Applied, fenced, fenced]);
    assert!(bench.query.run(run.id).unwrap().is_some_and(|run| run.state.is_terminal()));
}

/// Ids are never used twice.
pub fn a_run_cannot_be_inserted_twice(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    bench.commit(vec![row(&bench.run(1, job))]);
    bench.refuse(vec![row(&bench.run(1, job))]);
}

/// A change names a row that exists.
pub fn a_run_that_is_not_there_cannot_be_set(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let run = bench.run(1, JobId::FIRST);
    bench.refuse(vec![success(&run)]);
}

/// A change names an attempt that exists; its run alone is not enough.
pub fn an_attempt_that_is_not_there_cannot_be_set(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let job = bench.job("settle");
    let run = bench.run(1, job);
    bench.commit(vec![row(&run)]);
    bench.refuse(vec![set(&done(&first(&run))), success(&run)]);
}

/// An attempt belongs to a run that exists.
pub fn an_attempt_needs_its_run(open: Open<'_>) {
    let mut bench = Bench::open(open);
    let run = bench.run(1, JobId::FIRST);
    bench.refuse(vec![sent(&super::fixture::attempt(&run, 1, 1, ID + 2))]);
}

/// What is covered stays covered.
pub fn the_mark_never_goes_back(open: Open<'_>) {
    let mut bench = Bench::open(open);
    bench.commit(vec![]);
    let back = Batch { mark: T.plus_ms(-1), ..bench.batch(vec![]) };
    let refused = bench.store.commit(&[back]);
    assert!(matches!(refused, Err(crate::store::Error::Corrupt(_))), "{refused:?}");
}

/// A job belongs to an app that exists.
pub fn a_definition_needs_its_app(open: Open<'_>) {
    let mut bench = Bench::open(open);
    bench.refuse(vec![Row::Definition(Box::new(definition(JobId::FIRST, 1, AppId(1_000), "orphan")))]);
}
