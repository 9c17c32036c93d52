//! Backfills: each slot of a range has one run, whatever stands in the way, and nothing else notices.

use rota_core::backfill::{self, Backfill, End};
use rota_core::batch::{Origin, Row, RunState};
use rota_core::freeze::Missed;
use rota_core::id::{BackfillId, Block, JobId, RunId, Version};
use rota_core::job::{JobState, Overlap, Spec, Timeout, When};
use rota_core::misfire::Pace;
use rota_core::overlap::Mode;
use rota_core::partition::{Answer, BackfillOrder, Input, Outcome};
use rota_core::restore::{self, Since};
use rota_core::time::UnixMs;
use rota_core::upstream::{Edge, Ended, OnSkip, Period};
use rota_core::why::Why;
use rota_port::store::Store;

use super::rig::{P0, Rig, START, echo};

const A_SECOND: Pace = Pace { runs: 1, per_ms: 1_000 };
const HOUR: i64 = 3_600_000;

/// Seconds before or after the start.
fn at(seconds: i64) -> UnixMs {
    UnixMs(START + seconds * 1_000)
}

impl Rig {
    fn order(&self, job: JobId, (from, to): (i64, i64), pace: Pace) -> BackfillOrder {
        let current = self.store.with(|state| state.jobs()[&job].last().cloned()).unwrap();
        let schedule = current.compile().unwrap().schedule;
        let total =
            schedule.map_or(1, |schedule| schedule.between(at(from).plus_ms(-1), at(to).plus_ms(-1)).count() as u64);
        BackfillOrder {
            job,
            version: current.version,
            from: at(from),
            to: at(to),
            total,
            pace,
            parallel: None,
            by: "ann".into(),
            reason: None,
            request_id: None,
        }
    }

    fn backfill(&mut self, order: BackfillOrder) -> BackfillId {
        let answer = self.try_backfill(order);
        let Answer::Backfilling(id) = answer else { panic!("{answer:?}") };
        id
    }

    fn try_backfill(&mut self, order: BackfillOrder) -> Answer {
        self.answer(|reply| Input::Backfill { order: Box::new(order), reply })
    }

    fn cancel(&mut self, backfill: BackfillId, kills: bool) -> Answer {
        self.answer(|reply| Input::CancelBackfill { backfill, kills, by: "eve".into(), reply })
    }

    /// The worker beats again after a restart.
    fn worker_again(&mut self) {
        self.pass(1);
    }

    fn row(&self, id: BackfillId) -> Backfill {
        self.store.with(|state| state.backfills().find(|backfill| backfill.id == id).cloned()).unwrap()
    }

    /// The slots that a backfill has rows for, in seconds since the start, in the order in which they were made.
    fn made(&self, id: BackfillId) -> Vec<i64> {
        self.store.with(|state| {
            let runs = state.backfill_runs().iter().filter(|(_, of)| **of == id).map(|(run, _)| &state.runs()[run]);
            let runs = runs.inspect(|run| assert_eq!((run.origin, run.slots), (Origin::Backfill, 1)));
            runs.map(|run| (run.slot.0 - START) / 1_000).collect()
        })
    }

    /// Why the only backfill makes no run now.
    fn waits(&self) -> Option<Why> {
        let backfills = self.snapshot().backfills;
        assert_eq!(backfills.len(), 1);
        backfills[0].waits
    }
}

#[test]
fn each_slot_of_the_range_runs_once_at_the_pace_and_shows_its_date() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let id = rig.backfill(rig.order(job, (-60, -20), A_SECOND));
    assert_eq!(rig.made(id), [-60], "the first at once");
    assert_eq!((rig.row(id).next, rig.row(id).made, rig.row(id).total), (Some(at(-50)), 1, 4));
    assert_eq!(rig.waits(), Some(Why::Pace));
    rig.silence(999);
    assert_eq!(rig.made(id), [-60]);
    rig.silence(1);
    assert_eq!(rig.made(id), [-60, -50]);
    assert_eq!(rig.sends[1].slot, at(-50), "what is sent carries the slot of the past");
    rig.silence(5_000);
    assert_eq!(rig.made(id), [-60, -50, -40, -30], "and not the end of the range");
    assert_eq!(rig.row(id).end, None, "its runs are open");
    rig.do_all();
    assert_eq!(rig.row(id).end, Some(End::Done { at: rig.now.wall }));
    assert_eq!((rig.row(id).next, rig.row(id).made), (None, 4));
    assert_eq!(rig.snapshot().backfills, []);
    rig.pass(20_000);
    rig.do_all();
    let scheduled: Vec<_> = rig.runs().into_iter().filter(|run| run.origin == Origin::Schedule).collect();
    assert_eq!(scheduled.iter().map(|run| run.slot).collect::<Vec<_>>(), [at(10), at(20)]);
    assert_eq!(rig.snapshot().lateness.iter().sum::<u64>(), 2, "a run of the past is not late by years");
    rig.check_ledger();
}

#[test]
fn asking_again_makes_another_backfill_with_rows_of_its_own() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let order = rig.order(job, (-30, 0), Pace::DEFAULT);
    let ids = [rig.backfill(order.clone()), rig.backfill(order)];
    assert_ne!(ids[0], ids[1]);
    rig.silence(2_000);
    rig.do_all();
    assert_eq!(ids.map(|id| rig.made(id)), [vec![-30, -20, -10], vec![-30, -20, -10]]);
}

#[test]
fn a_crash_anywhere_loses_no_slot_and_doubles_none() {
    for durable in 0..4 {
        let mut rig = Rig::new();
        rig.worker(1);
        let job = rig.job("tick", echo(When::EveryMs(10_000)));
        let id = rig.backfill(rig.order(job, (-100, 0), Pace { runs: 10, per_ms: 1_000 }));
        rig.silence(200);
        assert_eq!(rig.row(id).made, 2);
        rig.holds_commits = true;
        rig.silence(5_000);
        assert_eq!(rig.row(id).made, 2, "nothing is durable meanwhile");
        rig.crash(durable);
        // Two batches at most were on their way, and the new term may make a run at once.
        let made = 2 + durable.min(2) as u64;
        assert!((made..=made + 1).contains(&rig.row(id).made), "{made}: {:?}", rig.row(id));
        rig.worker_again();
        rig.pass(70_000);
        rig.do_all();
        let mut slots = rig.made(id);
        slots.dedup();
        assert_eq!(slots, (-10..0).map(|n| n * 10).collect::<Vec<_>>(), "{durable} batches were durable");
        assert_eq!(rig.made(id).len(), 10);
        rig.check_ledger();
    }
}

/// B035: a backfill obeys the overlap policy, and loses nothing to it.
#[test]
fn b035_a_backfill_waits_for_its_jobs_place() {
    for mode in [Mode::Skip, Mode::Queue, Mode::CancelRunning, Mode::CancelAndWait, Mode::Merge] {
        let mut rig = Rig::new();
        rig.worker(1);
        let job = rig.job("tick", Spec { overlap: Overlap::of(mode), ..echo(When::EveryMs(HOUR.cast_unsigned())) });
        let id = rig.backfill(rig.order(job, (-6 * 3_600, 0), Pace::DEFAULT));
        for n in 1..=6 {
            rig.silence(10_000);
            assert_eq!((rig.sends.len(), rig.made(id).len()), (1, n), "{mode:?}: one at a time");
            assert_eq!(rig.waits(), Some(Why::Overlap).filter(|_| n < 6), "{mode:?}");
            let send = rig.take_send();
            rig.accept(send.attempt);
            rig.report(&send, Outcome::Success);
        }
        assert!(rig.row(id).end.is_some());
        assert!(rig.runs().iter().all(|run| run.state == RunState::Success), "{mode:?}: none was skipped or cancelled");
    }
}

#[test]
fn places_of_a_job_are_shared_with_its_own_slots() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", Spec { overlap: Overlap::of(Mode::Queue), ..echo(When::EveryMs(10_000)) });
    rig.pass(10_000);
    let own = rig.take_send();
    let id = rig.backfill(rig.order(job, (-30, 0), Pace::DEFAULT));
    rig.pass(10_000);
    assert_eq!((rig.made(id), rig.waits()), (vec![], Some(Why::Overlap)));
    rig.accept(own.attempt);
    rig.report(&own, Outcome::Success);
    assert_eq!(rig.take_send().slot, at(20), "the slot that waits comes first");
    assert_eq!(rig.made(id), [0; 0]);
}

#[test]
fn a_slow_pace_goes_on_over_restarts() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let id = rig.backfill(rig.order(job, (-50, 0), Pace { runs: 1, per_ms: 60_000 }));
    for _ in 0..3 {
        rig.restart(20_000);
        rig.worker_again();
    }
    assert_eq!(rig.made(id), [-50, -40], "a term counts from the run before it");
    rig.restart(59_000);
    assert_eq!(rig.made(id), [-50, -40], "and brings nothing too early");
}

#[test]
fn so_many_are_open_at_once() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let order = BackfillOrder { parallel: Some(2), ..rig.order(job, (-50, 0), Pace::DEFAULT) };
    let id = rig.backfill(order);
    rig.silence(5_000);
    assert_eq!((rig.made(id), rig.waits()), (vec![-50, -40], Some(Why::Parallel)));
    rig.restart(0);
    rig.worker_again();
    rig.pass(5_000);
    assert_eq!((rig.made(id), rig.waits()), (vec![-50, -40], Some(Why::Parallel)), "also in the next term");
}

#[test]
fn it_waits_for_a_worker_without_a_row() {
    let mut rig = Rig::new();
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let id = rig.backfill(rig.order(job, (-50, 0), Pace::DEFAULT));
    rig.silence(4_000);
    assert_eq!((rig.made(id), rig.waits()), (vec![], Some(Why::NoWorker)));
    rig.worker(1);
    assert_eq!(rig.made(id), [-50]);
}

#[test]
fn a_pause_does_not_concern_it_and_a_freeze_holds_it() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.set_state(job, JobState::Paused);
    let id = rig.backfill(rig.order(job, (-50, 0), A_SECOND));
    rig.silence(1_000);
    assert_eq!(rig.made(id), [-50, -40]);
    rig.answer(|reply| Input::Freeze { app: None, by: "ann".into(), reason: "fire".into(), reply });
    rig.silence(3_000);
    assert_eq!((rig.made(id), rig.waits()), (vec![-50, -40], Some(Why::Frozen)));
    rig.answer(|reply| Input::Thaw { app: None, by: "ann".into(), missed: Missed::Skip, reply });
    assert_eq!(rig.made(id), [-50, -40, -30], "and no more than its pace afterwards");
    rig.silence(2_000);
    assert_eq!(rig.made(id).len(), 5);
}

#[test]
fn nothing_of_the_past_is_late_jittered_or_waits_for_others() {
    let mut rig = Rig::new();
    let upstream = rig.job("first", echo(When::EveryMs(10_000)));
    let edge = Edge {
        job: upstream,
        name: "first".to_owned(),
        when: Ended::Success,
        period: Period::SameSlot,
        on_skip: OnSkip::Skip,
        deadline_ms: None,
    };
    let timeout = Timeout { start_ms: Some(1_000), ..Timeout::default() };
    let spec = Spec { after: vec![edge], jitter_ms: 60_000, timeout, ..echo(When::EveryMs(10_000)) };
    let job = rig.job("second", spec);
    rig.worker(1);
    let id = rig.backfill(rig.order(job, (-30, 0), A_SECOND));
    rig.silence(3_000);
    assert_eq!(rig.made(id), [-30, -20, -10]);
    rig.do_all();
    assert!(rig.runs().iter().filter(|run| run.job == job).all(|run| run.state == RunState::Success));
    assert_eq!(rig.row(id).end.map(|end| end.at()), Some(rig.now.wall));
}

#[test]
fn an_edit_changes_nothing_of_what_was_asked_for() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let id = rig.backfill(rig.order(job, (-40, 0), A_SECOND));
    let answer = rig.edit(job, 1, echo(When::EveryMs(7_000)));
    assert!(matches!(answer, Answer::Defined { .. }), "{answer:?}");
    rig.silence(1_000);
    rig.restart(0);
    rig.worker_again();
    rig.pass(3_000);
    assert_eq!(rig.made(id), [-40, -30, -20, -10]);
    assert!(rig.runs().iter().filter(|run| run.origin == Origin::Backfill).all(|run| run.version == Version(1)));
    let stale = BackfillOrder { version: Version(1), ..rig.order(job, (-40, 0), A_SECOND) };
    assert_eq!(rig.try_backfill(stale), Answer::Refused(Why::VersionConflict));
}

#[test]
fn with_its_job_it_is_gone() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let id = rig.backfill(rig.order(job, (-40, 0), A_SECOND));
    rig.set_state(job, JobState::Deleted);
    let (at, why) = (rig.now.wall, Why::Deleted);
    assert_eq!(rig.row(id).end, Some(End::Cancelled { at, by: "test".into(), why }));
    rig.silence(5_000);
    assert_eq!(rig.made(id), [-40]);
    assert_eq!(rig.cancel(id, false), Answer::Refused(Why::BackfillUnknown));
}

#[test]
fn a_cancel_is_final_and_its_runs_go_on_or_are_killed() {
    for kills in [false, true] {
        let mut rig = Rig::new();
        rig.worker(1);
        let job = rig.job("tick", echo(When::EveryMs(10_000)));
        let id = rig.backfill(rig.order(job, (-40, 0), A_SECOND));
        rig.silence(1_000);
        assert_eq!(rig.cancel(id, kills), Answer::BackfillCancelled { open: 2 });
        let (at, why) = (rig.now.wall, Why::CancelledByUser);
        assert_eq!(rig.row(id).end, Some(End::Cancelled { at, by: "eve".into(), why }));
        assert_eq!(rig.row(id).next, Some(self::at(-20)), "it says how far it came");
        assert_eq!(rig.cancels.len(), if kills { 2 } else { 0 });
        rig.restart(3_000);
        assert_eq!(rig.made(id), [-40, -30]);
        assert_eq!(rig.cancel(id, kills), Answer::Refused(Why::BackfillUnknown));
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut rig = Rig::new();
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let by_hand = rig.job("by-hand", echo(When::Manual));
    let delayed = rig.job("delayed", echo(When::DelayMs(10_000)));
    let good = rig.order(job, (-40, 0), A_SECOND);
    for (order, why) in [
        (BackfillOrder { job: JobId(7), ..good.clone() }, Why::JobUnknown),
        (BackfillOrder { job: by_hand, ..good.clone() }, Why::Invalid),
        (BackfillOrder { job: delayed, ..good.clone() }, Why::Invalid),
        (BackfillOrder { to: at(1), ..good.clone() }, Why::Invalid),
        (BackfillOrder { from: at(-5), ..good.clone() }, Why::Invalid),
        (BackfillOrder { total: 1_000_001, ..good.clone() }, Why::Invalid),
        (BackfillOrder { version: Version(2), ..good.clone() }, Why::VersionConflict),
    ] {
        let before = rig.batches();
        assert_eq!(rig.try_backfill(order.clone()), Answer::Refused(why), "{order:?}");
        assert_eq!(rig.batches(), before);
    }
    for _ in 0..rota_core::limits::BACKFILLS_OF_JOB_MAX {
        rig.backfill(good.clone());
    }
    assert_eq!(rig.try_backfill(good), Answer::Refused(Why::TooManyBackfills));
}

#[test]
fn what_is_scheduled_comes_first() {
    let mut rig = Rig::with(rota_core::partition::Config { send_credits: 1, ..rota_core::partition::Config::NATIVE });
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    rig.pass(10_000);
    let id = rig.backfill(rig.order(job, (-40, 0), Pace::DEFAULT));
    rig.pass(10_000);
    assert_eq!((rig.made(id), rig.waits()), (vec![], Some(Why::NoCredit)), "the slot of second 10 has the only credit");
    let first = rig.take_send();
    rig.accept(first.attempt);
    assert_eq!(rig.take_send().slot, at(20), "the held slot takes it before any of the past");
    assert_eq!(rig.made(id), [0; 0]);
}

#[test]
fn a_restored_backfill_does_not_go_on() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let id = rig.backfill(rig.order(job, (-40, 0), A_SECOND));
    rig.advance(5_000);
    let loaded = rig.store.claim(&[P0]).unwrap().remove(0);
    let first = rig.store.reserve_ids(rota_core::id::id_floor(rig.now.wall), 10).unwrap();
    let mut ids = Block::new(first, first + 10);
    let (rows, _) = restore::rows(&loaded, Since::Skip, "restored", rig.now.wall, &mut ids);
    rig.write_behind_its_back(rows);
    rig.restart(0);
    let (at, why) = (rig.now.wall, Why::Restored);
    assert_eq!(rig.row(id).end, Some(End::Cancelled { at, by: "restore".into(), why }));
    assert_eq!(rig.snapshot().backfills, []);
}

#[test]
fn a_version_that_cannot_be_compiled_waits_for_a_binary_that_can() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let id = rig.backfill(rig.order(job, (-40, 0), A_SECOND));
    let broken = Spec { zone: "Mars/Olympus".to_owned(), ..echo(When::Cron("* * * * *".to_owned())) };
    let mut definition = rig.definition(job, "tick", broken);
    definition.version = Version(2);
    let mut row = rig.row(id);
    row.version = Version(2);
    rig.write_behind_its_back(vec![Row::Definition(Box::new(definition)), Row::Backfill(Box::new(row))]);
    rig.restart(5_000);
    assert_eq!((rig.made(id), rig.waits()), (vec![-40], Some(Why::Invalid)));
    assert_eq!(rig.cancel(id, true), Answer::BackfillCancelled { open: 1 });
}

#[test]
fn a_request_is_answered_with_its_backfill() {
    let mut rig = Rig::new();
    let job = rig.job("tick", echo(When::EveryMs(10_000)));
    let body_hash = [7; 32];
    let reservation =
        rota_port::store::Reservation::Request { job, request_id: "a".to_owned(), body_hash, at: rig.now.wall };
    rig.store.reserve(&reservation).unwrap();
    let id = rig.backfill(BackfillOrder { request_id: Some("a".into()), ..rig.order(job, (-40, 0), A_SECOND) });
    let answered = rota_port::store::Reserved::Answered(Some(RunId(id.0)));
    assert_eq!(rig.store.reserve(&reservation), Ok(answered));
}

#[test]
fn a_fast_pace_is_kept_by_whoever_looks_now_and_then() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("tick", echo(When::EveryMs(1_000)));
    let id = rig.backfill(rig.order(job, (-1_000, 0), Pace { runs: 500, per_ms: 1_000 }));
    for _ in 0..20 {
        rig.advance(50);
        rig.step(Input::Turn);
        rig.do_all();
    }
    assert_eq!(rig.made(id).len(), 501, "half a thousand in a second");
    assert_eq!(backfill::takes_ms(1_000, Pace { runs: 500, per_ms: 1_000 }), 1_998);
}
