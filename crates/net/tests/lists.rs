//! Several sends in one call, for workers that take them so.

#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, dead_code, reason = "a test that cannot go on panics")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Hands, Inbox, PARTITION, Peer, Reply, SEND_BY, answers, dead_port, dispatch, with_param, worker};
use rota_core::partition::{Input, SendOutcome};
use rota_core::time::Mono;
use rota_core::why::Why;
use rota_core::worker::Registration;
use rota_net::http::{Config, HttpExecutor};
use rota_net::policy::Policy;
use rota_net::tls;
use rota_port::executor::{Executor, Outbound};
use rota_wire::worker as wire;

/// One connection, so that what is submitted together meets in one queue.
const ONE: Config = Config { connections: 1, connections_max: 1, ..Config::NATIVE };

struct Rig {
    executor: HttpExecutor,
    inbox: Inbox,
}

impl Rig {
    fn new(config: Config) -> Rig {
        let (outcomes, inbox) = answers();
        let policy = Arc::new(Policy::new::<&str>(&[], false).unwrap());
        let (tls, clock) = (tls::roots(&[]).unwrap(), Hands::new().clock());
        Rig { executor: HttpExecutor::start(config, policy, tls, clock, outcomes, Arc::default()).unwrap(), inbox }
    }

    /// What becomes of these sends, by attempt.
    fn send(&mut self, sends: impl IntoIterator<Item = Outbound>) -> BTreeMap<u64, SendOutcome> {
        let calls: Vec<_> = sends.into_iter().map(|call| (PARTITION, call)).collect();
        let count = calls.len();
        self.executor.submit(calls);
        let answered = |input| match input {
            Input::Sent { attempt, outcome } => (attempt.0, outcome),
            other => panic!("expected what became of a send: {other:?}"),
        };
        self.inbox.take(count).into_iter().map(answered).collect()
    }
}

fn taking(list_max: u32, url: &str) -> Arc<Registration> {
    Arc::new(Registration { list_max, ..Registration::clone(&worker(1, url)) })
}

fn send(attempt: u64, to: &Arc<Registration>) -> Outbound {
    Outbound::Send(Box::new(dispatch(attempt, to)))
}

/// The attempts that a request carries.
fn attempts(path: &str, body: &str) -> Vec<u64> {
    if path.contains("execute-list") {
        serde_json::from_str::<wire::ExecuteList>(body).unwrap().tasks.iter().map(|task| task.attempt).collect()
    } else {
        vec![serde_json::from_str::<wire::Execute>(body).unwrap().attempt]
    }
}

/// Takes everything.
fn accepting() -> Peer {
    Peer::start(|request| {
        let count = attempts(&request.line, &request.body).len();
        let list = format!(r#"{{"next_beat":8,"accepted":{count}}}"#);
        let one = r#"{"next_beat":8}"#.to_owned();
        Reply::Answer(202, if request.line.contains("execute-list") { list } else { one })
    })
}

#[test]
fn what_waits_together_goes_in_lists_as_long_as_the_worker_takes() {
    let peer = accepting();
    let to = taking(4, &peer.url());
    let outcomes = Rig::new(ONE).send((1..=10).map(|attempt| send(attempt, &to)));
    assert_eq!(outcomes.len(), 10);
    assert!(outcomes.values().all(|outcome| *outcome == SendOutcome::Accepted { next_beat: 8 }), "{outcomes:?}");
    let lists: Vec<Vec<u64>> = (0..3).map(|_| peer.request()).map(|r| attempts(&r.line, &r.body)).collect();
    assert_eq!(lists, [vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![9, 10]]);
}

#[test]
fn a_worker_that_takes_no_lists_gets_none() {
    for list_max in [0, 1] {
        let peer = accepting();
        let to = taking(list_max, &peer.url());
        assert_eq!(Rig::new(ONE).send((1..=3).map(|attempt| send(attempt, &to))).len(), 3);
        let lists: Vec<Vec<u64>> = (0..3).map(|_| peer.request()).map(|r| attempts(&r.line, &r.body)).collect();
        assert_eq!(lists, [[1], [2], [3]]);
    }
}

#[test]
fn long_parameters_go_alone() {
    let peer = accepting();
    let to = taking(100, &peer.url());
    let long = "x".repeat(200 << 10);
    let sends = (1..=4).map(|attempt| {
        let dispatch = dispatch(attempt, &to);
        Outbound::Send(Box::new(if attempt == 3 { dispatch } else { with_param(dispatch, &long) }))
    });
    assert_eq!(Rig::new(ONE).send(sends).len(), 4);
    let lists: Vec<Vec<u64>> = (0..3).map(|_| peer.request()).map(|r| attempts(&r.line, &r.body)).collect();
    assert_eq!(lists, [vec![1], vec![2, 3], vec![4]]);
}

/// What one answer makes of a list of three sends.
fn outcomes_of(status: u16, body: &'static str) -> Vec<SendOutcome> {
    let peer = Peer::answering(status, body);
    let to = taking(3, &peer.url());
    Rig::new(ONE).send((1..=3).map(|attempt| send(attempt, &to))).into_values().collect()
}

#[test]
fn each_send_of_a_list_is_accepted_or_refused_by_itself() {
    let body =
        r#"{"next_beat":9,"accepted":1,"refused":[{"attempt":1,"refused":"full"},{"attempt":3,"refused":"draining"}]}"#;
    let refused = SendOutcome::NotStarted;
    let expected = [refused(Why::RefusedFull), SendOutcome::Accepted { next_beat: 9 }, refused(Why::RefusedDraining)];
    assert_eq!(outcomes_of(202, body), expected);
}

#[test]
fn an_answer_that_does_not_account_for_each_send_leaves_all_in_doubt() {
    for (status, body) in [
        (202, r#"{"next_beat":9,"accepted":2}"#),
        (202, r#"{"next_beat":9,"accepted":4}"#),
        (202, r#"{"next_beat":9}"#),
        (202, r#"{"next_beat":9,"accepted":2,"refused":[{"attempt":7,"refused":"full"}]}"#),
        (
            202,
            r#"{"next_beat":9,"accepted":1,"refused":[{"attempt":1,"refused":"full"},{"attempt":1,"refused":"full"}]}"#,
        ),
        (202, r#"{"next_beat":9,"accepted":2,"refused":[{"attempt":1,"refused":"tired"}]}"#),
        (200, r#"{"next_beat":9,"accepted":3}"#),
        (409, r#"{"refused":"full"}"#),
        (404, r#"{"code":"not_found"}"#),
        (502, ""),
    ] {
        assert_eq!(outcomes_of(status, body), vec![SendOutcome::InDoubt; 3], "{status} {body}");
    }
}

#[test]
fn a_connection_that_breaks_leaves_its_list_in_doubt_and_one_that_was_never_made_proves_that_nothing_started() {
    let peer = Peer::resetting();
    let to = taking(3, &peer.url());
    let outcomes: Vec<_> = Rig::new(ONE).send((1..=3).map(|attempt| send(attempt, &to))).into_values().collect();
    assert_eq!(outcomes, vec![SendOutcome::InDoubt; 3]);
    let to = taking(3, &format!("http://127.0.0.1:{}", dead_port()));
    let outcomes: Vec<_> = Rig::new(ONE).send((1..=3).map(|attempt| send(attempt, &to))).into_values().collect();
    assert_eq!(outcomes, vec![SendOutcome::NotStarted(Why::ConnectFailed); 3]);
}

#[test]
fn what_is_too_late_is_left_out_of_a_list() {
    let peer = accepting();
    let to = taking(4, &peer.url());
    let late = || {
        let mut dispatch = dispatch(2, &to);
        dispatch.send_by = Mono(SEND_BY - 10_000);
        Outbound::Send(Box::new(dispatch))
    };
    let outcomes = Rig::new(ONE).send([send(1, &to), late(), send(3, &to)]);
    assert_eq!(outcomes[&2], SendOutcome::NotStarted(Why::SendDeadline));
    assert_eq!(outcomes[&3], SendOutcome::Accepted { next_beat: 8 });
    let request = peer.request();
    assert_eq!(attempts(&request.line, &request.body), [1, 3]);
}
