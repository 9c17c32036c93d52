//! Dialling back to a worker that registers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Peer, Reply, dead_port};
use rota_net::dial::{DialError, identify};
use rota_net::policy::Policy;
use rota_net::tls;
use rota_wire::worker::Identity;

fn dial(url: &str, within: Duration) -> Result<Identity, DialError> {
    let policy = Arc::new(Policy::new::<&str>(&[], false).unwrap());
    let tls = tls::roots(&[]).unwrap();
    // A server dials from the tasks of its API, which may move between threads.
    fn is_send<F: Future + Send>(future: F) -> F {
        future
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(is_send(identify(url, &policy, &tls, within)))
}

fn check(url: &str, is_expected: fn(&DialError) -> bool, text: &str) {
    let error = dial(url, Duration::from_secs(10)).unwrap_err();
    assert!(is_expected(&error), "{error:?}");
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_worker_says_who_it_is() {
    let peer = Peer::answering(200, r#"{"name":"etl-1","incarnation":77,"more":true}"#);
    let identity = dial(&peer.url(), Duration::from_secs(10)).unwrap();
    assert_eq!(identity, Identity { name: "etl-1".to_owned(), incarnation: 77 });
    let request = peer.request();
    assert_eq!(request.line, "GET /internal/identity HTTP/1.1");
    assert_eq!(request.headers.get("authorization"), None, "who is not known yet gets no secret");
}

#[test]
fn nobody_listens_there() {
    let url = format!("http://127.0.0.1:{}", dead_port());
    let text = format!("{url} refused the connection; set ROTA_ADVERTISE_URL");
    check(&url, |error| matches!(error, DialError::Refused { .. }), &text);
}

#[test]
fn nobody_answers_there() {
    let peer = Peer::start(|_| Reply::Hold);
    let error = dial(&peer.url(), Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, DialError::TimedOut { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("{} did not answer within 50 ms; set ROTA_ADVERTISE_URL", peer.url()));
    peer.request();
    assert_eq!(peer.closed(), 1);
}

#[test]
fn something_else_answers_there() {
    for (reply, problem) in [
        (Reply::Answer(404, String::new()), "/internal/identity answered with status 404"),
        (Reply::Answer(302, String::new()), "/internal/identity answered with status 302"),
        (Reply::Answer(200, "<html>".to_owned()), "/internal/identity answered with something else"),
        (Reply::Answer(200, "x".repeat(100_000)), "/internal/identity answered with something else"),
        (Reply::Last("SSH-2.0-OpenSSH_9.2\r\n".to_owned()), "it does not speak HTTP"),
    ] {
        let peer = Peer::start(move |_| reply.clone());
        let text = format!("{} is not a Rota worker ({problem}); set ROTA_ADVERTISE_URL", peer.url());
        check(&peer.url(), |error| matches!(error, DialError::NotAWorker { .. }), &text);
    }
}

#[test]
fn the_connection_ends_there() {
    let peer = Peer::start(|_| Reply::Last(String::new()));
    let text = format!("no answer from {} (it closed the connection); set ROTA_ADVERTISE_URL", peer.url());
    check(&peer.url(), |error| matches!(error, DialError::Unreachable { .. }), &text);
}

#[test]
fn some_addresses_are_not_dialled() {
    check(
        "http://169.254.169.254",
        |error| matches!(error, DialError::Forbidden { .. }),
        "http://169.254.169.254 is not called: 169.254.169.254 is the address of a cloud metadata service, which is never \
         called; set ROTA_ADVERTISE_URL",
    );
    check(
        "http://0.0.0.0:9999",
        |error| matches!(error, DialError::Forbidden { .. }),
        "http://0.0.0.0:9999 is not called: 0.0.0.0 is not the address of a host; set ROTA_ADVERTISE_URL",
    );
}

#[test]
fn what_is_no_address_is_said_to_be_none() {
    let is_bad = |error: &DialError| matches!(error, DialError::BadUrl(_));
    check(
        "10.0.3.7:9999",
        is_bad,
        "`10.0.3.7:9999` is not an absolute http or https URL; set ROTA_ADVERTISE_URL to http://host:port",
    );
    let is_unresolved = |error: &DialError| matches!(error, DialError::Unresolved { .. });
    check(
        "http://no-such-host.invalid:9999",
        is_unresolved,
        "the host of http://no-such-host.invalid:9999 was not found; set ROTA_ADVERTISE_URL to one that the server can resolve",
    );
}
