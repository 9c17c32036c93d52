//! The executor for native workers, against peers that behave in every way a network has to offer.

#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test that cannot go on panics")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use common::{
    Hands, Inbox, PARTITION, Peer, Reply, SEND_BY, Seen, answers, dead_port, dispatch, enquiry, running_clock,
    tls_peer, worker,
};
use rota_core::id::{AttemptId, RunId};
use rota_core::partition::{CancelAnswer, Input, Outcome, ProbeAnswer, Report, SendOutcome};
use rota_core::time::Mono;
use rota_core::why::Why;
use rota_core::worker::Registration;
use rota_net::Clock;
use rota_net::http::{Config, HttpExecutor};
use rota_net::policy::Policy;
use rota_net::tls::{self, CertificateDer};
use rota_port::executor::{Executor, Outbound};
use rota_wire::worker as wire;

struct Rig {
    executor: HttpExecutor,
    inbox: Inbox,
}

impl Rig {
    fn new(config: Config, clock: Clock, roots: &[CertificateDer<'static>]) -> Rig {
        let (outcomes, inbox) = answers();
        let policy = Arc::new(Policy::new::<&str>(&[], false).unwrap());
        let tls = tls::roots(roots).unwrap();
        Rig { executor: HttpExecutor::start(config, policy, tls, clock, outcomes, Arc::default()).unwrap(), inbox }
    }

    /// With the clock standing.
    fn still(config: Config) -> Rig {
        Rig::new(config, Hands::new().clock(), &[])
    }

    fn submit(&self, calls: impl IntoIterator<Item = Outbound>) {
        self.executor.submit(calls.into_iter().map(|call| (PARTITION, call)).collect());
    }

    /// Submits one send and waits for what becomes of it.
    fn send(&mut self, attempt: u64, to: &Arc<Registration>) -> SendOutcome {
        self.submit([send(attempt, to)]);
        outcome(attempt, self.inbox.next())
    }
}

fn send(attempt: u64, to: &Arc<Registration>) -> Outbound {
    Outbound::Send(Box::new(dispatch(attempt, to)))
}
fn probe(attempt: u64, to: &Arc<Registration>) -> Outbound {
    Outbound::Probe(Box::new(enquiry(attempt, Some(to))))
}
fn cancel(attempt: u64, to: &Arc<Registration>) -> Outbound {
    Outbound::Cancel(Box::new(enquiry(attempt, Some(to))))
}

fn outcome(attempt: u64, input: Input) -> SendOutcome {
    match input {
        Input::Sent { attempt: of, outcome } if of == AttemptId(attempt) => outcome,
        other => panic!("expected what became of attempt {attempt}: {other:?}"),
    }
}

/// A reply that waits for the test.
fn gate() -> (Sender<()>, Mutex<Receiver<()>>) {
    let (open, wait) = channel();
    (open, Mutex::new(wait))
}

const ACCEPTED: &str = r#"{"next_beat":8}"#;
const SMALL: Config = Config { connections: 1, connections_max: 1, exchange_ms: 60_000, ..Config::NATIVE };
/// For tests in which nobody answers.
const IMPATIENT: Config = Config { exchange_ms: 150, enquiry_ms: 150, connect_ms: 150, ..Config::NATIVE };

#[test]
fn an_accepted_send_carries_everything_that_the_worker_needs() {
    let peer = Peer::answering(202, ACCEPTED);
    let to = worker(1, &format!("{}/base/", peer.url()));
    let mut rig = Rig::still(Config::NATIVE);
    let mut dispatch = dispatch(41, &to);
    (dispatch.run, dispatch.shard, dispatch.shards, dispatch.no) = (RunId(40), 2, 3, 4);
    dispatch.timeout_ms = Some(500);
    rig.submit([Outbound::Send(Box::new(dispatch))]);
    assert_eq!(outcome(41, rig.inbox.next()), SendOutcome::Accepted { next_beat: 8 });
    let request = peer.request();
    assert_eq!(request.line, "POST /base/internal/tasks/execute HTTP/1.1");
    assert_eq!(request.headers["host"], format!("127.0.0.1:{}", peer.port));
    assert_eq!(request.headers["authorization"], "Bearer secret-of-worker-1");
    assert_eq!(request.headers["content-type"], "application/json");
    let body: wire::Execute = serde_json::from_str(&request.body).unwrap();
    let expected = wire::Execute {
        incarnation: 71,
        epoch: 9,
        attempt: 41,
        run: 40,
        shard: 2,
        shards: 3,
        no: 4,
        idempotency_key: "40/2".to_owned(),
        job: 1_000_000_000,
        job_name: "hello".to_owned(),
        version: 3,
        origin: "schedule".to_owned(),
        slot: "2026-12-01T02:00:00+08:00".to_owned(),
        zone: "Asia/Shanghai".to_owned(),
        handler: "echo".to_owned(),
        param: "hi \"you\"".to_owned(),
        timeout_ms: Some(500),
        traceparent: None,
    };
    assert_eq!(body, expected);
}

#[test]
fn a_parameter_of_the_run_replaces_the_jobs() {
    let peer = Peer::answering(202, ACCEPTED);
    let mut rig = Rig::still(Config::NATIVE);
    let mut dispatch = dispatch(1, &worker(1, &peer.url()));
    dispatch.param = Some("other".into());
    rig.submit([Outbound::Send(Box::new(dispatch))]);
    rig.inbox.next();
    assert_eq!(serde_json::from_str::<wire::Execute>(&peer.request().body).unwrap().param, "other");
}

/// What one answer makes of a send.
fn check_answer(status: u16, body: &str, expected: SendOutcome) {
    let peer = Peer::answering(status, body);
    let mut rig = Rig::still(Config::NATIVE);
    assert_eq!(rig.send(1, &worker(1, &peer.url())), expected, "{status} {body}");
}

#[test]
fn a_typed_refusal_proves_that_nothing_started() {
    for (word, why) in [
        ("foreign_incarnation", Why::RefusedForeignIncarnation),
        ("stale_epoch", Why::RefusedStaleEpoch),
        ("cancelled", Why::RefusedCancelled),
        ("draining", Why::RefusedDraining),
        ("unknown_handler", Why::RefusedUnknownHandler),
        ("full", Why::RefusedFull),
    ] {
        check_answer(409, &format!(r#"{{"refused":"{word}"}}"#), SendOutcome::NotStarted(why));
    }
}

#[test]
fn any_other_answer_is_in_doubt() {
    check_answer(202, "", SendOutcome::InDoubt);
    check_answer(202, "<html>", SendOutcome::InDoubt);
    check_answer(202, r#"{"next_beat":-1}"#, SendOutcome::InDoubt);
    check_answer(200, ACCEPTED, SendOutcome::InDoubt);
    check_answer(409, r#"{"refused":"a_word_of_tomorrow"}"#, SendOutcome::InDoubt);
    check_answer(409, "conflict", SendOutcome::InDoubt);
    check_answer(302, "", SendOutcome::InDoubt);
    check_answer(401, "", SendOutcome::InDoubt);
    check_answer(502, "bad gateway", SendOutcome::InDoubt);
    check_answer(503, r#"{"refused":"full"}"#, SendOutcome::InDoubt);
}

#[test]
fn an_answer_of_more_than_64_kib_is_none() {
    let padded = |bytes: usize| format!(r#"{{"next_beat":8,"pad":"{}"}}"#, "x".repeat(bytes));
    check_answer(202, &padded(60 << 10), SendOutcome::Accepted { next_beat: 8 });
    check_answer(202, &padded(64 << 10), SendOutcome::InDoubt);
    let endless = Peer::start(|_| {
        Reply::Raw(format!("HTTP/1.1 202 x\r\ncontent-length: 9999999999\r\n\r\n{}", "x".repeat(100 << 10)))
    });
    let mut rig = Rig::still(Config::NATIVE);
    assert_eq!(rig.send(1, &worker(1, &endless.url())), SendOutcome::InDoubt);
    endless.request();
    assert_eq!(endless.closed(), 1, "the rest is not waited for");
}

#[test]
fn a_connection_that_breaks_after_the_request_leaves_it_in_doubt_and_nothing_is_sent_twice() {
    for bytes in ["", "HTTP/1.1 202 x\r\ncontent-length: 15\r\n\r\n{\"next", "\0\0 no http \r\n\r\n"] {
        let peer = Peer::start(|_| Reply::Last(bytes.to_owned()));
        let mut rig = Rig::still(Config::NATIVE);
        assert_eq!(rig.send(1, &worker(1, &peer.url())), SendOutcome::InDoubt, "{bytes:?}");
        peer.request();
        assert_eq!(peer.closed(), 1);
        drop(rig);
        assert!(peer.rest().is_empty());
    }
    let mut rig = Rig::still(Config::NATIVE);
    assert_eq!(rig.send(1, &worker(1, &Peer::resetting().url())), SendOutcome::InDoubt);
}

#[test]
fn a_kept_alive_connection_that_closes_as_it_is_used_leaves_the_send_in_doubt() {
    let peer = Peer::start(|request| match request.body.contains("\"attempt\":1,") {
        true => Reply::Answer(202, ACCEPTED.to_owned()),
        false => Reply::Last(String::new()),
    });
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(Config::NATIVE);
    assert_eq!(rig.send(1, &to), SendOutcome::Accepted { next_beat: 8 });
    assert_eq!(rig.send(2, &to), SendOutcome::InDoubt);
    assert_eq!((peer.request().connection, peer.request().connection), (1, 1), "the connection was kept alive");
    assert_eq!(peer.closed(), 1);
    drop(rig);
    assert!(peer.rest().is_empty(), "nothing is sent twice");
}

#[test]
fn a_kept_alive_connection_that_closed_before_is_replaced() {
    // It does not say that it closes.
    let peer =
        Peer::start(|_| Reply::Last(format!("HTTP/1.1 202 x\r\ncontent-length: {}\r\n\r\n{ACCEPTED}", ACCEPTED.len())));
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(Config::NATIVE);
    for attempt in 1..=3 {
        assert_eq!(rig.send(attempt, &to), SendOutcome::Accepted { next_beat: 8 });
        assert_eq!(peer.request().connection, attempt);
        assert_eq!(peer.closed(), attempt, "the close was noticed");
    }
}

#[test]
fn an_answer_that_ends_its_connection_is_followed_by_another_connection() {
    let peer = Peer::start(|_| {
        Reply::Raw(format!(
            "HTTP/1.1 202 x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{ACCEPTED}",
            ACCEPTED.len()
        ))
    });
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(SMALL);
    rig.submit((1..=20).map(|attempt| send(attempt, &to)));
    for input in rig.inbox.take(20) {
        assert!(matches!(input, Input::Sent { outcome: SendOutcome::Accepted { next_beat: 8 }, .. }), "{input:?}");
    }
}

#[test]
fn a_refused_connection_proves_that_nothing_started_for_all_that_wait() {
    let to = worker(1, &format!("http://127.0.0.1:{}", dead_port()));
    let mut rig = Rig::still(Config::NATIVE);
    rig.submit((1..=30).map(|attempt| send(attempt, &to)).chain([probe(1, &to)]));
    let mut failed = BTreeSet::new();
    for input in rig.inbox.take(31) {
        match input {
            Input::Sent { attempt, outcome: SendOutcome::NotStarted(Why::ConnectFailed) } => {
                assert!(failed.insert(attempt))
            }
            Input::Probed { answer: ProbeAnswer::Silent, .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(failed.len(), 30);
    assert_eq!(rig.send(31, &to), SendOutcome::NotStarted(Why::ConnectFailed), "the next one is tried again");
}

#[test]
fn calls_wait_for_the_connection_that_stands_when_no_other_can_be_made() {
    let (open, wait) = gate();
    let peer = Peer::taking_one(move |_| {
        wait.lock().unwrap().recv().unwrap();
        Reply::Answer(202, ACCEPTED.to_owned())
    });
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(Config { exchange_ms: 60_000, ..Config::NATIVE });
    open.send(()).unwrap();
    rig.submit([send(1, &to)]);
    assert_eq!(outcome(1, rig.inbox.next()), SendOutcome::Accepted { next_beat: 8 });
    // One is on its way over the connection, for the others no connection can be made.
    // A probe, which has no connection yet, is answered once that has been found out.
    rig.submit((2..=10).map(|attempt| send(attempt, &to)).chain([probe(1, &to)]));
    assert_eq!(rig.inbox.next(), Input::Probed { attempt: AttemptId(1), answer: ProbeAnswer::Silent });
    (2..=10).for_each(|_| open.send(()).unwrap());
    for input in rig.inbox.take(9) {
        assert!(matches!(input, Input::Sent { outcome: SendOutcome::Accepted { .. }, .. }), "{input:?}");
    }
}

#[test]
fn what_is_ready_together_is_delivered_together() {
    let to = worker(1, &format!("http://127.0.0.1:{}", dead_port()));
    let mut rig = Rig::still(SMALL);
    rig.submit((1..=30).map(|attempt| send(attempt, &to)));
    assert_eq!(rig.inbox.vector().len(), 30);
}

#[test]
fn a_peer_that_accepts_and_never_answers_leaves_its_sends_in_doubt() {
    let peer = Peer::start(|_| Reply::Hold);
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(IMPATIENT);
    rig.submit((1..=8).map(|attempt| send(attempt, &to)).chain([probe(9, &to), cancel(10, &to)]));
    let mut inputs = rig.inbox.take(10);
    inputs.retain(|input| !matches!(input, Input::Sent { outcome: SendOutcome::InDoubt, .. }));
    assert_eq!(inputs.len(), 2);
    for input in inputs {
        match input {
            Input::Probed { attempt: AttemptId(9), answer } => assert_eq!(answer, ProbeAnswer::Silent),
            Input::Cancelled { attempt: AttemptId(10), answer } => assert_eq!(answer, CancelAnswer::Silent),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_handshake_that_hangs_is_a_failed_connect() {
    let peer = Peer::start(|_| Reply::Hold);
    let mut rig = Rig::still(IMPATIENT);
    let to = worker(1, &format!("https://127.0.0.1:{}", peer.port));
    assert_eq!(rig.send(1, &to), SendOutcome::NotStarted(Why::ConnectFailed));
}

/// Field case B060: who answers slowly fills no pool that others need.
#[test]
fn a_black_hole_and_a_slow_worker_hold_up_nobody_else() {
    let (open, wait) = gate();
    let slow = Peer::start(move |_| {
        wait.lock().unwrap().recv().unwrap();
        Reply::Answer(202, ACCEPTED.to_owned())
    });
    let black_hole = Peer::start(|_| Reply::Hold);
    let quick: Vec<Peer> = (0..3).map(|_| Peer::answering(202, ACCEPTED)).collect();
    let mut rig = Rig::still(SMALL);
    let (to_slow, to_black_hole) = (worker(1, &slow.url()), worker(2, &black_hole.url()));
    rig.submit((1..=64).map(|attempt| send(attempt, &to_black_hole)).chain([send(100, &to_slow)]));
    for (n, peer) in (3u32..).zip(&quick) {
        let to = worker(n, &peer.url());
        rig.submit((1..=100).map(|attempt| send(u64::from(n) * 1_000 + attempt, &to)));
    }
    for input in rig.inbox.take(300) {
        let Input::Sent { attempt, outcome } = input else { panic!("{input:?}") };
        assert!(attempt.0 > 3_000, "{attempt} is not of a quick worker");
        assert_eq!(outcome, SendOutcome::Accepted { next_beat: 8 });
    }
    open.send(()).unwrap();
    assert_eq!(outcome(100, rig.inbox.next()), SendOutcome::Accepted { next_beat: 8 });
}

#[test]
fn a_cancel_takes_a_queued_send_back() {
    let peer = Peer::start(|_| Reply::Hold);
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(SMALL);
    rig.submit([send(1, &to), send(2, &to), send(3, &to)]);
    peer.request();
    rig.submit([cancel(2, &to)]);
    let refused = SendOutcome::NotStarted(Why::RefusedCancelled);
    assert_eq!(outcome(2, rig.inbox.next()), refused);
    assert_eq!(rig.inbox.next(), Input::Cancelled { attempt: AttemptId(2), answer: CancelAnswer::NeverSent });
    // Submitted together: the send has had no chance.
    rig.submit([send(4, &to), cancel(4, &to)]);
    assert_eq!(outcome(4, rig.inbox.next()), refused);
    drop(rig);
    assert!(!peer.rest().iter().any(|seen| matches!(seen, Seen::Request(_))), "no other request was sent");
}

#[test]
fn a_cancel_of_what_was_sent_asks_the_worker() {
    let peer = Peer::start(|request| match request.line.contains("execute") {
        true => Reply::Hold,
        false => Reply::Answer(200, r#"{"status":"running","next_beat":3}"#.to_owned()),
    });
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(SMALL);
    rig.submit([send(1, &to)]);
    peer.request();
    rig.submit([cancel(1, &to)]);
    assert_eq!(
        rig.inbox.next(),
        Input::Cancelled { attempt: AttemptId(1), answer: CancelAnswer::Stopping { next_beat: 3 } }
    );
    let request = peer.request();
    assert_eq!(request.line, "POST /internal/tasks/cancel HTTP/1.1");
    let expected = wire::Enquiry { incarnation: 71, epoch: 9, attempt: 1, run: 1, shard: 0, no: 1 };
    assert_eq!(serde_json::from_str::<wire::Enquiry>(&request.body).unwrap(), expected);
}

#[test]
fn probes_and_cancels_pass_a_send_that_hangs() {
    let peer = Peer::start(|request| match request.line.contains("execute") {
        true => Reply::Hold,
        false => Reply::Answer(200, r#"{"status":"running","next_beat":3}"#.to_owned()),
    });
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(SMALL);
    rig.submit((1..=64).map(|attempt| send(attempt, &to)));
    peer.request();
    rig.submit((1..=20).map(|attempt| probe(attempt, &to)));
    let probed: BTreeSet<AttemptId> = rig
        .inbox
        .take(20)
        .into_iter()
        .map(|input| match input {
            Input::Probed { attempt, answer: ProbeAnswer::Running { next_beat: 3 } } => attempt,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(probed.len(), 20);
}

/// What one answer makes of a probe and of a cancel.
fn check_status(status: u16, body: &str, probed: ProbeAnswer, cancelled: CancelAnswer) {
    let peer = Peer::answering(status, body);
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(Config::NATIVE);
    rig.submit([probe(1, &to)]);
    assert_eq!(rig.inbox.next(), Input::Probed { attempt: AttemptId(1), answer: probed }, "{status} {body}");
    rig.submit([cancel(1, &to)]);
    assert_eq!(rig.inbox.next(), Input::Cancelled { attempt: AttemptId(1), answer: cancelled }, "{status} {body}");
}

#[test]
fn every_status_is_understood() {
    let finished = |attempt: u64, outcome: &str| {
        let result = format!(r#"{{"attempt":{attempt},"run":1,"shard":0,"no":1,"outcome":"{outcome}","message":"m"}}"#);
        format!(r#"{{"status":"finished","result":{result}}}"#)
    };
    let report =
        |outcome| Report { attempt: AttemptId(1), run: RunId(1), shard: 0, no: 1, outcome, message: Some("m".into()) };
    check_status(200, r#"{"status":"never_seen"}"#, ProbeAnswer::NeverSeen, CancelAnswer::NeverSeen);
    check_status(
        200,
        r#"{"status":"running","next_beat":5}"#,
        ProbeAnswer::Running { next_beat: 5 },
        CancelAnswer::Stopping { next_beat: 5 },
    );
    check_status(
        200,
        r#"{"status":"foreign_incarnation"}"#,
        ProbeAnswer::ForeignIncarnation,
        CancelAnswer::ForeignIncarnation,
    );
    for (word, outcome) in [
        ("success", Outcome::Success),
        ("failed", Outcome::Failed(Why::HandlerFailed)),
        ("timeout", Outcome::Timeout),
        ("killed", Outcome::Killed),
    ] {
        let (probed, cancelled) = (ProbeAnswer::Finished(report(outcome)), CancelAnswer::Finished(report(outcome)));
        check_status(200, &finished(1, word), probed, cancelled);
    }
    for (status, body) in
        [(200, finished(2, "success").as_str()), (200, "{}"), (404, r#"{"status":"never_seen"}"#), (500, "")]
    {
        check_status(status, body, ProbeAnswer::Silent, CancelAnswer::Silent);
    }
}

/// Field case B081: a message that is too long is cut, and not refused for ever.
#[test]
fn a_long_message_is_cut_where_a_letter_ends() {
    let long = "月".repeat(2_000);
    let result = format!(r#"{{"attempt":1,"run":1,"shard":0,"no":1,"outcome":"success","message":"{long}"}}"#);
    let peer = Peer::answering(200, &format!(r#"{{"status":"finished","result":{result}}}"#));
    let mut rig = Rig::still(Config::NATIVE);
    rig.submit([probe(1, &worker(1, &peer.url()))]);
    let Input::Probed { answer: ProbeAnswer::Finished(report), .. } = rig.inbox.next() else { panic!("no report") };
    assert_eq!(report.message.as_deref(), Some("月".repeat(4_096 / 3).as_str()));
}

#[test]
fn nothing_is_sent_after_its_deadline() {
    let peer = Peer::answering(202, ACCEPTED);
    let to = worker(1, &peer.url());
    let hands = Hands::new();
    let mut rig = Rig::new(Config::NATIVE, hands.clock(), &[]);
    hands.set(SEND_BY - 1);
    assert_eq!(rig.send(1, &to), SendOutcome::Accepted { next_beat: 8 });
    hands.set(SEND_BY);
    assert_eq!(rig.send(2, &to), SendOutcome::NotStarted(Why::SendDeadline));
    drop(rig);
    assert!(peer.request().body.contains("\"attempt\":1,"));
    assert!(!peer.rest().iter().any(|seen| matches!(seen, Seen::Request(_))));
}

#[test]
fn what_waits_behind_a_send_that_hangs_is_answered_at_its_deadline() {
    let peer = Peer::start(|_| Reply::Hold);
    let to = worker(1, &peer.url());
    let hands = Hands::new();
    let mut rig = Rig::new(SMALL, hands.clock(), &[]);
    let mut later = dispatch(3, &to);
    later.send_by = Mono(SEND_BY + 5);
    rig.submit([send(1, &to), send(2, &to), Outbound::Send(Box::new(later))]);
    peer.request();
    hands.set(SEND_BY);
    assert_eq!(outcome(2, rig.inbox.next()), SendOutcome::NotStarted(Why::SendDeadline));
    hands.set(SEND_BY + 5);
    assert_eq!(outcome(3, rig.inbox.next()), SendOutcome::NotStarted(Why::SendDeadline));
}

#[test]
fn slow_answers_are_met_with_more_connections_up_to_the_bound() {
    let peer = Peer::start(|_| Reply::Hold);
    let to = worker(1, &peer.url());
    let config = Config { connections: 2, connections_max: 12, exchange_ms: 60_000, ..Config::NATIVE };
    let rig = Rig::new(config, running_clock(), &[]);
    rig.submit((1..=13).map(|attempt| send(attempt, &to)));
    let connections: BTreeSet<u64> = (0..12).map(|_| peer.request().connection).collect();
    assert_eq!(connections.len(), 12);
    drop(rig);
    let more = peer.rest();
    assert!(!more.iter().any(|seen| matches!(seen, Seen::Request(_))), "{more:?}");
}

/// Field case B118: connections are used again.
#[test]
fn quick_answers_need_few_connections() {
    let peer = Peer::answering(202, ACCEPTED);
    let to = worker(1, &peer.url());
    let mut rig = Rig::still(Config { connections: 3, ..Config::NATIVE });
    rig.submit((1..=500).map(|attempt| send(attempt, &to)));
    let mut answers = BTreeMap::<AttemptId, u32>::new();
    for input in rig.inbox.take(500) {
        let Input::Sent { attempt, outcome: SendOutcome::Accepted { .. } } = input else { panic!("{input:?}") };
        *answers.entry(attempt).or_default() += 1;
    }
    assert!(answers.len() == 500 && answers.values().all(|count| *count == 1), "each is answered once");
    let connections: BTreeSet<u64> = (0..500).map(|_| peer.request().connection).collect();
    assert!(connections.len() <= 3, "{connections:?}");
}

/// Field case B118: none is left open.
#[test]
fn an_idle_connection_is_closed_before_the_peer_would() {
    let peer = Peer::answering(202, ACCEPTED);
    let mut rig = Rig::still(Config { idle_ms: 20, ..Config::NATIVE });
    rig.send(1, &worker(1, &peer.url()));
    peer.request();
    assert_eq!(peer.closed(), 1);
}

#[test]
fn waiting_calls_follow_a_worker_to_its_new_address() {
    let (old, new) = (Peer::start(|_| Reply::Hold), Peer::answering(202, ACCEPTED));
    let (at_old, at_new) = (worker(1, &old.url()), worker(1, &new.url()));
    let mut rig = Rig::still(SMALL);
    rig.submit([send(1, &at_old), send(2, &at_old)]);
    old.request();
    rig.submit([send(3, &at_new)]);
    assert_eq!(outcome(2, rig.inbox.next()), SendOutcome::Accepted { next_beat: 8 });
    assert_eq!(outcome(3, rig.inbox.next()), SendOutcome::Accepted { next_beat: 8 });
}

#[test]
fn a_send_that_hangs_at_an_old_address_is_in_doubt_at_last() {
    let (old, new) = (Peer::start(|_| Reply::Hold), Peer::answering(202, ACCEPTED));
    let mut rig = Rig::still(Config { exchange_ms: 400, ..IMPATIENT });
    rig.submit([send(1, &worker(1, &old.url()))]);
    old.request();
    assert_eq!(rig.send(2, &worker(1, &new.url())), SendOutcome::Accepted { next_beat: 8 });
    assert_eq!(outcome(1, rig.inbox.next()), SendOutcome::InDoubt);
    assert_eq!(old.closed(), 1);
}

#[test]
fn a_new_secret_is_used_at_once() {
    let peer = Peer::answering(202, ACCEPTED);
    let mut rig = Rig::still(Config::NATIVE);
    let to = worker(1, &peer.url());
    rig.send(1, &to);
    let mut renewed = (*to).clone();
    renewed.secret.0 = "another-secret-of-1".to_owned();
    rig.send(2, &Arc::new(renewed));
    assert_eq!(peer.request().headers["authorization"], "Bearer secret-of-worker-1");
    assert_eq!(peer.request().headers["authorization"], "Bearer another-secret-of-1");
}

#[test]
fn addresses_that_are_never_called_are_refused() {
    for url in [
        "http://169.254.169.254/",
        "http://[fe80::1]:9999",
        "http://0.0.0.0:9999",
        "http://[::ffff:169.254.169.254]/",
        "ftp://127.0.0.1",
        "http://user@127.0.0.1",
        "nonsense",
    ] {
        let mut rig = Rig::still(Config::NATIVE);
        assert_eq!(rig.send(1, &worker(1, url)), SendOutcome::NotStarted(Why::RefusedAddress), "{url}");
    }
}

#[test]
fn workers_may_be_reached_over_tls_if_their_authority_is_trusted() {
    let (authority, port) = tls_peer("HTTP/1.1 202 x\r\ncontent-length: 15\r\n\r\n{\"next_beat\":8}");
    let to = worker(1, &format!("https://localhost:{port}"));
    let mut trusting = Rig::new(Config::NATIVE, Hands::new().clock(), &[authority]);
    assert_eq!(trusting.send(1, &to), SendOutcome::Accepted { next_beat: 8 });
    assert_eq!(trusting.send(2, &to), SendOutcome::Accepted { next_beat: 8 });
    let mut wary = Rig::still(Config::NATIVE);
    assert_eq!(wary.send(1, &to), SendOutcome::NotStarted(Why::ConnectFailed));
}

#[test]
fn several_lanes_share_the_workers() {
    let peers: Vec<Peer> = (0..5).map(|_| Peer::answering(202, ACCEPTED)).collect();
    let workers: Vec<_> = (1..).zip(&peers).map(|(id, peer)| worker(id, &peer.url())).collect();
    let mut rig = Rig::still(Config { lanes: 2, ..Config::NATIVE });
    rig.submit((0..100).map(|n| send(n + 1, &workers[usize::try_from(n).unwrap() % 5])));
    let answered: BTreeSet<String> = rig.inbox.take(100).iter().map(|input| format!("{input:?}")).collect();
    assert_eq!(answered.len(), 100);
    assert!(peers.iter().all(|peer| peer.rest().len() >= 20));
}

#[test]
fn a_large_parameter_arrives_whole() {
    let peer = Peer::answering(202, ACCEPTED);
    let mut rig = Rig::still(Config::NATIVE);
    let mut dispatch = dispatch(1, &worker(1, &peer.url()));
    let param = "\u{1}月\"".repeat((1 << 20) / 5);
    dispatch.param = Some(param.as_str().into());
    rig.submit([Outbound::Send(Box::new(dispatch))]);
    assert_eq!(outcome(1, rig.inbox.next()), SendOutcome::Accepted { next_beat: 8 });
    assert!(serde_json::from_str::<wire::Execute>(&peer.request().body).unwrap().param == param);
}

#[test]
fn dropping_the_executor_closes_its_connections() {
    let peer = Peer::start(|_| Reply::Hold);
    let rig = Rig::still(SMALL);
    rig.submit([send(1, &worker(1, &peer.url()))]);
    peer.request();
    drop(rig.executor);
    assert_eq!(peer.closed(), 1);
}
