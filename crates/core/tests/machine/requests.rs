//! Triggers and kills.

use std::collections::BTreeMap;

use rota_core::batch::{Origin, Row, RunState};
use rota_core::id::{AttemptId, RunId};
use rota_core::job::{JobState, Overlap, When};
use rota_core::partition::{Answer, CancelAnswer, Config, Input, Outcome};
use rota_core::why::Why;
use rota_port::store::{Outcome as Committed, Store};

use super::rig::{P0, Rig, echo, results};

#[test]
fn a_trigger_is_answered_once_its_run_is_durable() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.holds_commits = true;
    let reply = rig.reply();
    rig.step(Input::Trigger {
        job,
        param: Some("mine".into()),
        request_id: None,
        origin: Origin::Api,
        parent: None,
        reply,
    });
    assert!(rig.answers.is_empty());
    rig.release_commits();
    let Some(Answer::Triggered(run)) = rig.answers.remove(&reply) else { panic!("it is answered") };
    assert_eq!(rig.run(run).param.as_deref(), Some("mine"));
    assert_eq!(rig.take_send().param.as_deref(), Some("mine"));
}

#[test]
fn a_trigger_ignores_a_pause_and_obeys_overlap_and_the_cap() {
    let mut rig = Rig::new();
    let mut spec = echo(When::EveryMs(10_000));
    spec.overlap = Overlap::SKIP;
    let skip = rig.job("skip", spec);
    rig.set_state(skip, JobState::Paused);
    assert!(matches!(rig.trigger(skip), Answer::Triggered(_)));
    assert_eq!(rig.trigger(skip), Answer::Refused(Why::Overlap));
    let mut wide = echo(When::Manual);
    wide.shards = 999;
    let wide = rig.job("wide", wide);
    assert!(matches!(rig.trigger(wide), Answer::Triggered(_)));
    assert_eq!(rig.trigger(wide), Answer::Refused(Why::PendingFull));
}

#[test]
fn a_kill_before_the_commit_sends_nothing() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.holds_commits = true;
    let reply = rig.reply();
    rig.step(Input::Trigger { job, param: None, request_id: None, origin: Origin::Api, parent: None, reply });
    let is_run = |row: &&Row| matches!(row, Row::Run(_));
    let Some(Row::Run(row)) = rig.held.iter().flat_map(|batch| &batch.rows).find(is_run) else { panic!("a run") };
    let run = row.id;
    let reply = rig.reply();
    rig.step(Input::Kill { run, shard: None, reply });
    rig.release_commits();
    assert!(rig.sends.is_empty());
    assert_eq!(rig.run(run).state, RunState::Killed);
    assert_eq!(rig.answers.remove(&reply), Some(Answer::Killing));
}

/// Field case B076: what is terminal stays so.
#[test]
fn a_kill_is_final_whatever_the_worker_says_later() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
    let send = rig.take_send();
    rig.accept(send.attempt);
    assert_eq!(rig.kill(run), Answer::Killing);
    assert_eq!(rig.cancels.len(), 1);
    assert_eq!(rig.run(run).state, RunState::Running, "stopping until it is confirmed");
    rig.step(Input::Cancelled { attempt: send.attempt, answer: CancelAnswer::Stopping { next_beat: 9 } });
    rig.restart(1_000);
    assert_eq!(rig.cancels.len(), 1, "the kill outlives a restart");
    rig.report(&send, Outcome::Success);
    assert_eq!(rig.run(run).state, RunState::Killed);
    assert_eq!(rig.kill(run), Answer::Refused(Why::RunUnknown));
    assert_eq!(rig.kill(RunId(7)), Answer::Refused(Why::RunUnknown));
}

#[test]
fn a_kill_outlives_the_listing_of_its_run_and_a_restart() {
    let mut rig = Rig::with(Config { send_credits: 1, ..Config::NATIVE });
    rig.worker(1);
    let mut spec = echo(When::Manual);
    spec.shards = 2;
    let job = rig.job("job", spec);
    let Answer::Triggered(run) = rig.trigger(job) else { panic!("it is triggered") };
    let send = rig.take_send();
    assert_eq!(rig.kill(run), Answer::Killing);
    rig.silence(2_000);
    assert_eq!(rig.store.with(|state| state.listed().len()), 1);
    assert_eq!(rig.run(run).why, Some(Why::KilledByUser));
    rig.restart(100);
    rig.worker(2);
    assert!(rig.sends.is_empty(), "sent after a durable kill: {:?}", rig.sends);
    rig.accept(send.attempt);
    rig.report(&send, Outcome::Success);
    assert_eq!(rig.run(run).state, RunState::Killed);
}

#[test]
fn a_result_of_an_unknown_attempt_is_answered_only_by_the_owner() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let mut send = rig.take_send();
    rig.report(&send, Outcome::Success);
    // Another server owns the partition, and made an attempt that this one never heard of.
    rig.store.claim(&[P0]).unwrap();
    send.attempt = AttemptId(send.attempt.0 + 1_000_000);
    rig.holds_commits = true;
    let reply = rig.reply();
    rig.step(results(&send, Outcome::Success, None, reply));
    assert_eq!(rig.answers, BTreeMap::new());
    let outcome = rig.store.commit(&rig.held).unwrap();
    assert!(matches!(outcome[..], [Committed::Fenced { .. }]), "{outcome:?}");
}

/// Field case B083: the same result again is acknowledged, and changes nothing.
#[test]
fn a_result_that_was_kept_before_is_acknowledged_again() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.trigger(job);
    let send = rig.take_send();
    rig.report(&send, Outcome::Success);
    rig.restart(100);
    assert_eq!(rig.report(&send, Outcome::Success), Answer::Acknowledged(vec![send.attempt]));
}
