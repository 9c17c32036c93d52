//! The executor for URL jobs.

#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test that cannot go on panics")]

mod common;

use std::sync::Arc;

use common::{
    Hands, Inbox, PARTITION, Peer, Reply, SEND_BY, Seen, answers, dead_port, enquiry, tls_peer, url_dispatch,
};
use rota_core::id::{AttemptId, RunId};
use rota_core::limits::MESSAGE_BYTES_MAX;
use rota_core::partition::{CancelAnswer, Dispatch, Input, Outcome, ProbeAnswer, SendOutcome};
use rota_core::why::Why;
use rota_net::policy::Policy;
use rota_net::tls::{self, CertificateDer};
use rota_net::url::{Config, UrlExecutor};
use rota_port::executor::{Executor, Outbound};

struct Rig {
    executor: UrlExecutor,
    inbox: Inbox,
    hands: Hands,
}

impl Rig {
    fn new(allow: &[&str], roots: &[CertificateDer<'static>]) -> Rig {
        let (outcomes, inbox) = answers();
        let hands = Hands::new();
        let policy = Arc::new(Policy::new(allow, false).unwrap());
        let config = Config { connect_ms: 10_000, ..Config::DEFAULT };
        let executor =
            UrlExecutor::start(config, policy, tls::roots(roots).unwrap(), hands.clock(), outcomes, Arc::default())
                .unwrap();
        Rig { executor, inbox, hands }
    }

    fn local() -> Rig {
        Rig::new(&["127.0.0.1", "localhost"], &[])
    }

    fn submit(&self, calls: impl IntoIterator<Item = Outbound>) {
        self.executor.submit(calls.into_iter().map(|call| (PARTITION, call)).collect());
    }

    fn send(&mut self, dispatch: Dispatch) -> SendOutcome {
        let attempt = dispatch.attempt;
        self.submit([Outbound::Send(Box::new(dispatch))]);
        match self.inbox.next() {
            Input::Sent { attempt: of, outcome } if of == attempt => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn get(&mut self, url: &str) -> SendOutcome {
        self.send(url_dispatch(1, "GET", url, &[], ""))
    }
}

fn success(text: &str) -> SendOutcome {
    SendOutcome::Finished(Outcome::Success, (!text.is_empty()).then(|| text.into()))
}
fn failed(text: &str) -> SendOutcome {
    SendOutcome::Finished(Outcome::Failed(Why::HttpStatus), Some(text.into()))
}

#[test]
fn the_request_is_what_the_job_says_with_a_key_that_all_attempts_share() {
    let peer = Peer::answering(201, "done");
    let mut rig = Rig::local();
    let url = format!("{}/ping?who=rota#frag", peer.url());
    let mut dispatch = url_dispatch(9, "POST", &url, &[("X-Team", "ops"), ("content-type", "text/csv")], "a,b");
    (dispatch.run, dispatch.shard) = (RunId(7), 2);
    assert_eq!(rig.send(dispatch), success("done"));
    let request = peer.request();
    assert_eq!((request.line.as_str(), request.body.as_str()), ("POST /ping?who=rota HTTP/1.1", "a,b"));
    for (name, value) in [
        ("host", format!("127.0.0.1:{}", peer.port).as_str()),
        ("idempotency-key", "7/2"),
        ("x-team", "ops"),
        ("content-type", "text/csv"),
        ("connection", "close"),
    ] {
        assert_eq!(request.headers[name], value, "{name}");
    }
    assert!(request.headers["user-agent"].starts_with("rota/"));
    assert_eq!(peer.closed(), 1, "each request has a connection of its own");
    let mut dispatch = url_dispatch(10, "PUT", &url, &[], "a,b");
    dispatch.param = Some("c,d".into());
    assert_eq!(rig.send(dispatch), success("done"));
    assert_eq!(peer.request().body, "c,d", "a parameter of the run replaces the body");
}

/// What one response makes of a run.
fn check(response: &str, expected: SendOutcome) {
    let response = response.to_owned();
    let peer = Peer::start(move |_| Reply::Last(response.clone()));
    assert_eq!(Rig::local().get(&peer.url()), expected);
}

#[test]
fn the_response_is_the_result() {
    check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", success("ok"));
    check("HTTP/1.1 204 No Content\r\n\r\n", success(""));
    check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", success("abc"));
    check("HTTP/1.0 200 OK\r\n\r\nuntil the end", success("until the end"));
    check("HTTP/1.1 503 Busy\r\ncontent-length: 5\r\n\r\nlater", failed("status 503: later"));
    check("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", failed("status 404"));
    check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", success("ok"));
}

#[test]
fn redirects_are_not_followed() {
    let target = Peer::answering(200, "secret");
    let to = format!("HTTP/1.1 302 x\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", target.url());
    check(&to, failed("status 302, redirects are not followed"));
    assert!(target.rest().is_empty());
}

#[test]
fn a_long_response_is_cut_where_a_letter_ends_and_read_to_its_end() {
    let peer = Peer::answering(200, &"月".repeat(100_000));
    let mut rig = Rig::local();
    let SendOutcome::Finished(Outcome::Success, Some(text)) = rig.get(&peer.url()) else { panic!("no success") };
    assert!(
        text.ends_with("月 … (cut)") && text.len() <= MESSAGE_BYTES_MAX && text.len() > MESSAGE_BYTES_MAX - 4,
        "{text}"
    );
    let peer = Peer::answering(500, &"x".repeat(MESSAGE_BYTES_MAX));
    let SendOutcome::Finished(_, Some(text)) = rig.get(&peer.url()) else { panic!("no failure") };
    assert!(
        text.starts_with("status 500: xxx") && text.ends_with("… (cut)") && text.len() <= MESSAGE_BYTES_MAX,
        "{text}"
    );
}

#[test]
fn a_response_that_breaks_off_is_in_doubt_whatever_its_status() {
    check("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhalf", SendOutcome::InDoubt);
    check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n", SendOutcome::InDoubt);
    check("", SendOutcome::InDoubt);
    check("no http\r\n\r\n", SendOutcome::InDoubt);
    assert_eq!(Rig::local().get(&Peer::resetting().url()), SendOutcome::InDoubt);
}

#[test]
fn an_endless_response_ends_at_its_bound() {
    let peer = Peer::start(|_| Reply::Raw(format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(2 << 20))));
    let SendOutcome::Finished(Outcome::Success, Some(text)) = Rig::local().get(&peer.url()) else {
        panic!("no success")
    };
    assert!(text.ends_with("(cut)"));
    peer.request();
    assert_eq!(peer.closed(), 1);
}

#[test]
fn a_response_that_takes_longer_than_the_job_allows_is_in_doubt() {
    let peer = Peer::start(|_| Reply::Hold);
    let mut dispatch = url_dispatch(1, "GET", &peer.url(), &[], "");
    dispatch.timeout_ms = Some(50);
    assert_eq!(Rig::local().send(dispatch), SendOutcome::InDoubt);
    peer.request();
    assert_eq!(peer.closed(), 1);
}

#[test]
fn without_a_connection_nothing_has_started() {
    let mut rig = Rig::local();
    let failed = SendOutcome::NotStarted(Why::ConnectFailed);
    assert_eq!(rig.get(&format!("http://127.0.0.1:{}/", dead_port())), failed);
    assert_eq!(rig.get(&format!("https://127.0.0.1:{}/", Peer::resetting().port)), failed, "it speaks no TLS");
    let peer = Peer::answering(200, "ok");
    rig.hands.set(SEND_BY);
    assert_eq!(rig.get(&peer.url()), SendOutcome::NotStarted(Why::SendDeadline));
    assert!(!peer.rest().iter().any(|seen| matches!(seen, Seen::Request(_))));
}

#[test]
fn only_listed_hosts_are_called() {
    let peer = Peer::answering(200, "ok");
    let refused = SendOutcome::NotStarted(Why::RefusedAddress);
    let mut rig = Rig::new(&["partner.example", &format!("127.0.0.1:{}", peer.port)], &[]);
    assert_eq!(rig.get(&peer.url()), success("ok"));
    assert_eq!(rig.get(&format!("http://localhost:{}/", peer.port)), refused);
    assert_eq!(rig.get(&format!("http://127.0.0.1:{}/", dead_port())), refused);
    assert_eq!(rig.get("http://unlisted.example/"), refused);
    let mut rig = Rig::new(&["169.254.169.254", "[fe80::1]", "0.0.0.0"], &[]);
    for url in ["http://169.254.169.254/latest/meta-data", "http://[fe80::1]/", "http://0.0.0.0/"] {
        assert_eq!(rig.get(url), refused, "{url}");
    }
}

#[test]
fn https_asks_for_a_certificate_that_is_trusted() {
    let (authority, port) = tls_peer("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let url = format!("https://localhost:{port}/");
    assert_eq!(Rig::new(&["localhost"], std::slice::from_ref(&authority)).get(&url), success("ok"));
    assert_eq!(Rig::local().get(&url), SendOutcome::NotStarted(Why::ConnectFailed));
    let other_name = format!("https://127.0.0.1:{port}/");
    let mut rig = Rig::new(&["127.0.0.1"], &[authority]);
    assert_eq!(rig.get(&other_name), SendOutcome::NotStarted(Why::ConnectFailed));
}

#[test]
fn a_request_that_cannot_be_made_fails_and_says_why() {
    let peer = Peer::answering(200, "ok");
    let mut rig = Rig::local();
    for (headers, url, problem) in [
        (("bad name", "x"), peer.url(), "`bad name` is not the name of a header"),
        (("x", "a\nb"), peer.url(), "the value of the header x"),
        (("Host", "other"), peer.url(), "the header host is set by Rota"),
        (("Content-Length", "7"), peer.url(), "the header content-length is set by Rota"),
        (("x", "y"), "http://127.0.0.1/a b".to_owned(), "percent-encoded"),
        (("x", "y"), "http://a@127.0.0.1/".to_owned(), "user name"),
    ] {
        let outcome = rig.send(url_dispatch(1, "GET", &url, &[headers], ""));
        let SendOutcome::Unsendable(Why::TemplateFailed, text) = &outcome else { panic!("{outcome:?}") };
        assert!(text.contains(problem), "{text}");
    }
    assert!(peer.rest().is_empty());
}

#[test]
fn a_cancel_drops_the_exchange() {
    let peer = Peer::start(|_| Reply::Hold);
    let mut rig = Rig::local();
    rig.submit([Outbound::Send(Box::new(url_dispatch(1, "POST", &peer.url(), &[], "")))]);
    peer.request();
    rig.submit([Outbound::Cancel(Box::new(enquiry(1, None)))]);
    assert_eq!(
        rig.inbox.next(),
        Input::Cancelled { attempt: AttemptId(1), answer: CancelAnswer::Stopping { next_beat: u64::MAX } }
    );
    let killed = SendOutcome::Finished(Outcome::Killed, None);
    assert_eq!(rig.inbox.next(), Input::Sent { attempt: AttemptId(1), outcome: killed });
    assert_eq!(peer.closed(), 1);
    rig.submit([Outbound::Cancel(Box::new(enquiry(1, None)))]);
    assert_eq!(rig.inbox.next(), Input::Cancelled { attempt: AttemptId(1), answer: CancelAnswer::Silent });
}

#[test]
fn a_cancel_before_the_first_byte_proves_that_nothing_started() {
    // It accepts, but never shakes hands.
    let peer = Peer::start(|_| Reply::Hold);
    let url = format!("https://127.0.0.1:{}", peer.port);
    let mut rig = Rig::local();
    rig.submit([
        Outbound::Send(Box::new(url_dispatch(1, "POST", &url, &[], ""))),
        Outbound::Cancel(Box::new(enquiry(1, None))),
    ]);
    assert_eq!(rig.inbox.next(), Input::Cancelled { attempt: AttemptId(1), answer: CancelAnswer::NeverSent });
    let refused = SendOutcome::NotStarted(Why::RefusedCancelled);
    assert_eq!(rig.inbox.next(), Input::Sent { attempt: AttemptId(1), outcome: refused });
}

#[test]
fn nobody_can_be_asked_about_a_request() {
    let mut rig = Rig::local();
    rig.submit([Outbound::Probe(Box::new(enquiry(1, None)))]);
    assert_eq!(rig.inbox.next(), Input::Probed { attempt: AttemptId(1), answer: ProbeAnswer::Silent });
}

#[test]
fn a_request_that_hangs_holds_up_no_other() {
    let (hanging, peer) = (Peer::start(|_| Reply::Hold), Peer::answering(200, "ok"));
    let mut rig = Rig::local();
    rig.submit((1..=64).map(|attempt| Outbound::Send(Box::new(url_dispatch(attempt, "GET", &hanging.url(), &[], "")))));
    assert_eq!(rig.send(url_dispatch(100, "GET", &peer.url(), &[], "")), success("ok"));
}
