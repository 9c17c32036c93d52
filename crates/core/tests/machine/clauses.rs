//! What is promised of attempts, runs and their release, and of time, sentence by sentence: which test holds what. Tests
//! that are not named by their file are below.
//!
//! | of attempts, runs, release | held by |
//! |---|---|
//! | a run is terminal only after its last attempt is | `a_run_is_terminal_only_after_its_last_attempt` |
//! | an attempt ends once, and is released separately | `attempts::a_time_out_that_is_not_confirmed_ends_and_keeps_its_place` |
//! | … by its result | `overlap::a_place_is_kept_until_the_attempt_is_released` |
//! | … by a later beat without it | `attempts::a_kill_of_a_doubt_is_confirmed_by_absence` |
//! | … by proof that its process is gone | `workers::the_end_of_one_incarnation_proves_nothing_about_those_before_it` |
//! | … after `release_after`, as `presumed_gone` | `a_worker_that_ignores_cancels_keeps_the_place_until_it_is_presumed_gone` |
//! | overlap, load and capacity count what is unreleased | the same, `overlap::a_place_is_kept_until_the_attempt_is_released` |
//! | what is not confirmed stays `stopping` | `shards::a_kill_that_nobody_confirms_stays_stopping_and_is_asked_again` |
//! | a retry in backoff keeps the place | `overlap::a_retry_in_backoff_keeps_the_place` |
//! | the first final result wins, a late one is kept | `attempts::a_late_failure_is_kept_on_its_attempt` |
//! | a late success settles an open shard, and cancels its successors | `attempts::a_late_success_stops_its_successor` |
//! | … unless it was killed, or the run is terminal | `shards::a_late_success_does_not_revive_a_killed_shard`, `requests::a_kill_is_final_whatever_the_worker_says_later` |
//! | absence counts only in beats after the acceptance | `attempts::absence_counts_only_in_beats_composed_after_the_acceptance` |
//! | silence counts from the start of the term at the earliest | `a_server_that_was_away_for_longer_than_the_dead_time_loses_nobody_before_it` |
//! | nothing is sent for what is killed | `requests::a_kill_before_the_commit_sends_nothing` |
//! | … nor to another incarnation than the row's | `workers::a_send_goes_only_to_the_incarnation_that_its_row_names` |
//! | a name whose holder beats is refused | `attempts::another_incarnation_takes_over_only_from_one_that_is_gone` |
//! | only a failed connect or a typed refusal proves "not started" | `attempts::a_failed_connect_moves_the_shard_to_another_worker_at_once`, `attempts::an_unresolved_doubt_means_what_the_delivery_says` |
//! | the defaults | `the_defaults_are_as_promised` |
//!
//! | of time | held by |
//! |---|---|
//! | slots are nominal, before jitter | `narrow::a_jittered_slot_starts_so_long_after_itself_and_stays_nominal` |
//! | scheduled rows only above the mark, which never goes back | `mark`, `random::any_order_of_operations_and_crashes_covers_each_slot_once` |
//! | reruns link to their run | `freeze::a_rerun_keeps_version_slot_and_shards_and_leaves_out_what_succeeded` |
//! | misfire is judged once | `misfire::a_held_slot_keeps_its_verdict_over_a_restart`, `misfire::a_verdict_outlives_restarts` |
//! | … not on lateness of our own valve | `misfire::what_our_own_valve_held_is_no_misfire` |
//! | then only `start_deadline` ends a wait | `slots::a_start_deadline_ends_a_wait` |
//! | every wait has a reason | `pools::a_waiting_run_says_what_it_waits_for`, `pools::held_slots_say_what_they_wait_for_now` |
//! | a jump of the clock suspends firing until it is stable | `clock::a_jump_of_the_wall_clock_fires_nothing_until_it_is_stable` |
//! | … of more than a day, until an operator confirms | `clock::a_jump_of_more_than_a_day_waits_for_an_operator` |
//! | started with a clock behind, no slot fires again | `clock::a_clock_behind_the_mark_is_said_and_fires_nothing_again` |
//! | fixed-delay and one-shot jobs lie outside the mark | `clock::a_fixed_delay_job_does_not_wait_for_the_mark`, `edits::a_paused_one_shot_job_that_is_edited_after_its_time_is_covered_once` |
//! | a trigger ignores pause and misfire, obeys overlap and the cap | `requests::a_trigger_ignores_a_pause_and_obeys_overlap_and_the_cap` |
//! | … ignores the window | `a_trigger_ignores_calendar_and_bounds` |
//! | … obeys the rate | `rates::a_trigger_is_refused_without_a_token_and_a_retry_waits` |
//! | … is refused while frozen | `freeze::nothing_starts_while_it_is_frozen_and_one_row_covers_what_was_missed` |
//! | an edit: the old version covers up to it, the new one after | `edits::an_edit_splits_the_slots_between_the_versions` |
//! | runs keep the version that made them | `an_open_run_and_its_retries_keep_the_version_that_made_them` |
//! | a pause leaves what is open alone | `a_pause_leaves_open_runs_and_their_retries_alone` |
//! | a resumption starts at now, with one `paused` range | `edits::a_pause_is_covered_by_one_row` |
//! | a deletion: waiting slots are `discarded` | `edits::a_deleted_job_discards_what_waits_and_never_fires_again` |
//! | … no retries, open attempts are followed to their end | `a_deletion_follows_open_attempts_to_their_end_and_tries_none_again` |
//! | … the id stays dead | the same |
//! | time-outs: queue | `slots::a_start_deadline_ends_a_wait`, `retries::what_no_worker_would_start_ends_as_dispatch_failed` |
//! | … attempt | `a_worker_that_ignores_cancels_keeps_the_place_until_it_is_presumed_gone`, `restart::a_time_out_is_not_prolonged_by_a_restart` |
//! | … whole run | `retries::a_run_that_takes_too_long_in_all_is_stopped_and_not_tried_again`, `retries::an_overdue_run_is_not_prolonged_by_a_restart` |

use rota_core::batch::{AttemptState, RunState};
use rota_core::id::{RunId, Version};
use rota_core::job::{JobState, Overlap, Retry, Spec, When};
use rota_core::limits::Timing;
use rota_core::partition::{Answer, CancelAnswer, Dispatch, Input, Outcome};
use rota_core::why::Why;

use super::rig::{Rig, echo, results, story};

fn states(rig: &Rig, run: RunId) -> Vec<(AttemptState, Option<Why>)> {
    rig.attempts(run).iter().map(|attempt| (attempt.state, attempt.why)).collect()
}

fn retried(schedule: When) -> Spec {
    Spec { retry: Retry { max: 2, delay_ms: 1_000, ..Retry::default() }, ..echo(schedule) }
}

fn trigger(rig: &mut Rig, spec: Spec, name: &str) -> Dispatch {
    let job = rig.job(name, spec);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    let send = rig.take_send();
    rig.accept(send.attempt);
    send
}

#[test]
fn the_defaults_are_as_promised() {
    let seconds = |ms: u64| ms / 1_000;
    let Timing { beat_ms, dead_ms, send_ms, doubt_ms, probe_ms: _, kill_grace_ms, release_after_ms } = Timing::NATIVE;
    assert_eq!([beat_ms, dead_ms, send_ms, doubt_ms, kill_grace_ms].map(seconds), [5, 15, 10, 60, 10]);
    assert_eq!((seconds(release_after_ms), echo(When::Manual).retry.max), (600, 0));
}

#[test]
fn a_run_is_terminal_only_after_its_last_attempt() {
    let mut rig = Rig::new();
    rig.workers(2);
    let job = rig.job("job", Spec { shards: 2, ..echo(When::Manual) });
    rig.trigger(job);
    let sends = std::mem::take(&mut rig.sends);
    sends.iter().for_each(|send| rig.accept(send.attempt));
    rig.report(&sends[0], Outcome::Failed(Why::HandlerFailed));
    let run = sends[0].run;
    rig.pass(60_000);
    assert!(!rig.run(run).state.is_terminal(), "one shard has failed, and the other may still run");
    rig.report(&sends[1], Outcome::Success);
    assert_eq!(rig.run(run).state, RunState::Failed);
}

/// The server is away for a minute. Meanwhile one run goes on, one ends, and the worker of one dies.
#[test]
fn a_server_that_was_away_for_longer_than_the_dead_time_loses_nobody_before_it() {
    let mut rig = Rig::new();
    rig.workers(3);
    let mut sends = Vec::new();
    for name in ["goes_on", "ends", "dies"] {
        let send = trigger(&mut rig, retried(When::Manual), name);
        sends.push(send);
    }
    let of = |id: u32| sends.iter().find(|send| send.worker.as_ref().unwrap().id.0 == id).expect("one each").clone();
    let (goes_on, ends, dies) = (of(1), of(2), of(3));
    let running = [(1, vec![goes_on.attempt]), (2, vec![])];
    rig.restart(60_000);
    // A worker says again what was not acknowledged; its server has been away.
    let reply = rig.reply();
    rig.step(results(&ends, Outcome::Success, None, reply));
    assert_eq!(rig.answers.remove(&reply), Some(Answer::Acknowledged(vec![ends.attempt])));
    for second in 1..=14_u64 {
        rig.silence(1_000);
        if second.is_multiple_of(4) {
            for (id, running) in &running {
                rig.beat(rota_core::id::WorkerId(*id), 5_000 + second, running);
            }
        }
        assert_ne!(states(&rig, dies.run)[0].0, AttemptState::Lost, "after {second} s of the new term");
    }
    assert!(rig.sends.is_empty(), "nothing is sent a second time");
    for second in 15..80_u64 {
        rig.silence(1_000);
        for (id, running) in &running {
            rig.beat(rota_core::id::WorkerId(*id), 5_000 + second, running);
        }
    }
    let (state, why) = states(&rig, dies.run)[0];
    assert_eq!(state, AttemptState::Lost, "{why:?}");
    let again = rig.take_send();
    assert_eq!((again.run, again.no), (dies.run, 2), "what died is tried again, and nothing else");
    rig.accept(again.attempt);
    rig.report(&again, Outcome::Success);
    rig.report(&goes_on, Outcome::Success);
    for send in [&goes_on, &ends, &dies] {
        assert_eq!(rig.run(send.run).state, RunState::Success);
    }
    assert_eq!((rig.attempts(goes_on.run).len(), rig.attempts(ends.run).len()), (1, 1));
}

#[test]
fn a_worker_that_ignores_cancels_keeps_the_place_until_it_is_presumed_gone() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let mut spec = echo(When::EveryMs(60_000));
    (spec.timeout.attempt_ms, spec.overlap) = (Some(20_000), Overlap::SKIP);
    let job = rig.job("job", spec);
    rig.pass(60_000);
    let send = rig.take_send();
    rig.accept(send.attempt);
    let own = [send.attempt];
    rig.pass_beating(19_000, worker, &own);
    assert!(rig.cancels.is_empty());
    rig.pass_beating(1_000, worker, &own);
    assert_eq!(states(&rig, send.run), [(AttemptState::Stopping, Some(Why::AttemptTimeout))]);
    for enquiry in std::mem::take(&mut rig.cancels) {
        rig.step(Input::Cancelled { attempt: enquiry.attempt, answer: CancelAnswer::Silent });
    }
    rig.pass_beating(9_000, worker, &own);
    assert!(!rig.run(send.run).state.is_terminal(), "the grace is not over");
    rig.pass_beating(1_000, worker, &own);
    assert_eq!(rig.run(send.run).state, RunState::Timeout, "the server decides, though the worker does not cooperate");
    // It is still named in every beat: for ten minutes its place is not given away, then it is.
    rig.pass_beating(590_000, worker, &own);
    assert_eq!(rig.snapshot().workers[0].load, 1);
    assert!(rig.sends.is_empty());
    let skipped = rig.runs().into_iter().filter(|run| run.why == Some(Why::Overlap));
    assert!(skipped.map(|run| run.slots).sum::<u64>() >= 9, "{:?}", story(&rig.runs()));
    rig.pass_beating(75_000, worker, &own);
    assert!(rig.attempts(send.run)[0].released_at.is_some());
    assert_eq!(rig.take_send().job, job, "the next slot has the place");
    // Whatever it still says changes nothing.
    rig.report(&send, Outcome::Success);
    assert_eq!(rig.run(send.run).state, RunState::Timeout);
}

#[test]
fn a_trigger_ignores_calendar_and_bounds() {
    let mut rig = Rig::new();
    rig.worker(1);
    let mut spec = echo(When::EveryMs(10_000));
    spec.calendar.exclude = vec!["00:00:00-23:59:00".to_owned()];
    spec.active.from = Some("2027-01-01T00:00:00Z".to_owned());
    let job = rig.job("tick", spec);
    rig.pass(30_000);
    assert!(rig.runs().is_empty());
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
}

#[test]
fn an_open_run_and_its_retries_keep_the_version_that_made_them() {
    for is_restarted in [false, true] {
        let mut rig = Rig::new();
        rig.worker(1);
        let job = rig.job("job", retried(When::Manual));
        rig.trigger(job);
        let first = rig.take_send();
        rig.accept(first.attempt);
        let mut other = echo(When::Manual);
        other.target = rota_core::job::Target::Handler { name: "echo".into(), param: "another".into() };
        assert!(matches!(rig.edit(job, 1, other), Answer::Defined { .. }));
        if is_restarted {
            rig.restart(1_000);
        }
        rig.report(&first, Outcome::Failed(Why::HandlerFailed));
        rig.pass(2_000);
        let second = rig.take_send();
        assert_eq!((second.run, second.no, second.version), (first.run, 2, Version(1)));
        assert_eq!(second.body.target, first.body.target, "the retry, and its policy, are those of the old version");
        rig.accept(second.attempt);
        rig.report(&second, Outcome::Success);
        assert_eq!((rig.run(first.run).state, rig.run(first.run).version), (RunState::Success, Version(1)));
        rig.trigger(job);
        assert_eq!(rig.take_send().version, Version(2));
    }
}

#[test]
fn a_pause_leaves_open_runs_and_their_retries_alone() {
    let mut rig = Rig::new();
    let worker = rig.worker(1);
    let job = rig.job("tick", retried(When::EveryMs(10_000)));
    rig.pass(10_000);
    let first = rig.take_send();
    rig.accept(first.attempt);
    rig.set_state(job, JobState::Paused);
    rig.pass_beating(20_000, worker, &[first.attempt]);
    assert!(rig.cancels.is_empty());
    rig.report(&first, Outcome::Failed(Why::HandlerFailed));
    rig.pass(2_000);
    let second = rig.take_send();
    assert_eq!((second.run, second.no), (first.run, 2));
    rig.accept(second.attempt);
    rig.report(&second, Outcome::Success);
    rig.pass(20_000);
    rig.set_state(job, JobState::Enabled);
    rig.pass(8_000);
    assert_eq!(story(&rig.runs()), ["10 success", "20..50 x4 skipped/paused", "60 dispatched"]);
}

#[test]
fn a_deletion_follows_open_attempts_to_their_end_and_tries_none_again() {
    for (outcome, state) in
        [(Outcome::Success, RunState::Success), (Outcome::Failed(Why::HandlerFailed), RunState::Failed)]
    {
        for is_restarted in [false, true] {
            let mut rig = Rig::new();
            let worker = rig.worker(1);
            let job = rig.job("tick", retried(When::EveryMs(10_000)));
            rig.pass(10_000);
            let send = rig.take_send();
            rig.accept(send.attempt);
            rig.set_state(job, JobState::Deleted);
            if is_restarted {
                rig.restart(1_000);
            }
            rig.pass_beating(10_000, worker, &[send.attempt]);
            assert!(rig.cancels.is_empty(), "what runs is followed, not stopped");
            rig.report(&send, outcome);
            rig.pass(30_000);
            assert_eq!(rig.run(send.run).state, state);
            assert!(rig.sends.is_empty(), "neither a retry nor a slot: {:?}", rig.sends);
            // Its id stays dead: nothing of it is taken any more.
            assert_eq!(rig.trigger(job), Answer::Refused(Why::JobUnknown));
            assert_eq!(rig.edit(job, 1, echo(When::Manual)), Answer::Refused(Why::JobUnknown));
            assert_eq!(rig.set_state(job, JobState::Enabled), Answer::Refused(Why::JobUnknown));
            assert_eq!(rig.runs().len(), 1);
        }
    }
}
