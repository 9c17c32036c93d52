//! Templates are filled in on the way out, and what comes back has no secret in it.

#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a test that cannot go on panics")]

mod common;

use std::sync::Arc;

use common::{
    Hands, Inbox, PARTITION, Peer, answers, dispatch, enquiry, running_clock, url_dispatch, with_param, worker,
};
use rota_core::id::AppId;
use rota_core::limits::MESSAGE_BYTES_MAX;
use rota_core::partition::{Dispatch, Input, Outcome, ProbeAnswer, SendOutcome};
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::{App, Secret};
use rota_net::http::HttpExecutor;
use rota_net::policy::Policy;
use rota_net::tls;
use rota_net::url::{Config, UrlExecutor};
use rota_port::executor::{Executor, Outbound};
use rota_port::secrets::Secrets;
use rota_port::store::StoredSecret;

fn set(secrets: &Secrets, values: &[(&str, &str)]) {
    let stored = values.iter().map(|(name, value)| StoredSecret {
        namespace: "shop".to_owned(),
        name: (*name).to_owned(),
        value: Secret((*value).to_owned()),
        at: UnixMs(0),
        by: "someone".to_owned(),
    });
    assert_eq!(secrets.load(|| Ok::<_, ()>(stored.collect())), Ok(()));
}

fn secrets(values: &[(&str, &str)]) -> Arc<Secrets> {
    let secrets = Secrets::default();
    secrets.put_app(&App {
        id: AppId(1),
        namespace: "shop".to_owned(),
        name: "pay".to_owned(),
        pending_max: 1,
        rates: rota_core::rate::Rates::default(),
    });
    set(&secrets, values);
    Arc::new(secrets)
}

fn urls(secrets: &Arc<Secrets>) -> (UrlExecutor, Inbox) {
    let (outcomes, inbox) = answers();
    let policy = Arc::new(Policy::new(&["127.0.0.1"], false).unwrap());
    let clock = Hands::new().clock();
    let started =
        UrlExecutor::start(Config::DEFAULT, policy, tls::roots(&[]).unwrap(), clock, outcomes, secrets.clone());
    (started.unwrap(), inbox)
}

fn send(executor: &dyn Executor, inbox: &mut Inbox, dispatch: Dispatch) -> SendOutcome {
    executor.submit(vec![(PARTITION, Outbound::Send(Box::new(dispatch)))]);
    match inbox.next() {
        Input::Sent { outcome, .. } => outcome,
        other => panic!("{other:?}"),
    }
}

fn success(text: &str) -> SendOutcome {
    SendOutcome::Finished(Outcome::Success, Some(text.into()))
}

#[test]
fn a_request_carries_the_secret_of_the_moment_and_its_answer_is_clean() {
    let secrets = secrets(&[("PARTNER", "s3cret-one")]);
    let peer = Peer::answering(200, "you are s3cret-one or s3cret-two");
    let (executor, mut inbox) = urls(&secrets);
    let url = format!("{}/{{{{slot|date('%F')}}}}?by={{{{job}}}}", peer.url());
    let headers = [("authorization", "Bearer {{secret.PARTNER}}")];
    let dispatch = |attempt| url_dispatch(attempt, "POST", &url, &headers, "{\"run\":{{run.id}}}");
    assert_eq!(send(&executor, &mut inbox, dispatch(7)), success("you are *** or s3cret-two"));
    let request = peer.request();
    assert_eq!(request.headers["authorization"], "Bearer s3cret-one");
    assert_eq!((request.line.as_str(), request.body.as_str()), ("POST /2026-12-01?by=hello HTTP/1.1", "{\"run\":7}"));
    // Before the next request, whose connection would race with the end of this one.
    assert_eq!(peer.closed(), 1);
    set(&secrets, &[("PARTNER", "s3cret-two")]);
    assert_eq!(send(&executor, &mut inbox, dispatch(8)), success("you are *** or ***"));
    assert_eq!(peer.request().headers["authorization"], "Bearer s3cret-two");
}

#[test]
fn a_request_without_its_secret_is_not_sent() {
    let peer = Peer::answering(200, "ok");
    let (executor, mut inbox) = urls(&secrets(&[("BAD", "line\nbreak"), ("LONG", &"x".repeat(32 << 10))]));
    for (value, why, message) in [
        ("{{secret.PARTNER}}", Why::SecretUnknown, "http.headers.x-key: secret PARTNER is not set in namespace shop"),
        (
            "{{secret.BAD}}",
            Why::TemplateFailed,
            "the request cannot be made: the value of the header x-key has characters that no header can carry",
        ),
        (
            "{{secret.LONG|url|json|base64|base64|base64|base64|base64|base64}}{{secret.LONG|base64|base64|base64|base64|base64|base64|base64|base64}}{{secret.LONG|base64|base64|base64|base64|base64|base64|base64|base64}}{{secret.LONG|base64|base64|base64|base64|base64|base64|base64|base64}}{{secret.LONG|base64|base64|base64|base64|base64|base64|base64|base64}}",
            Why::TemplateFailed,
            "http.headers.x-key: more than 1048576 bytes once its templates are filled in",
        ),
    ] {
        let outcome = send(&executor, &mut inbox, url_dispatch(1, "GET", &peer.url(), &[("x-key", value)], ""));
        assert_eq!(outcome, SendOutcome::Unsendable(why, message.into()));
    }
    let url = format!("{}/{{{{secret.BAD}}}}", peer.url());
    assert_eq!(send(&executor, &mut inbox, url_dispatch(1, "GET", &url, &[], "")), success("ok"));
    assert_eq!(peer.request().line, "GET /line%0Abreak HTTP/1.1");
}

#[test]
fn an_answer_that_is_cut_within_a_secret_shows_nothing_of_it() {
    let body = format!("{}s3cret-one", "x".repeat(MESSAGE_BYTES_MAX - 7));
    let peer = Peer::answering(200, &body);
    let (executor, mut inbox) = urls(&secrets(&[("PARTNER", "s3cret-one")]));
    let SendOutcome::Finished(_, Some(text)) =
        send(&executor, &mut inbox, url_dispatch(1, "GET", &peer.url(), &[], ""))
    else {
        panic!("it is answered")
    };
    assert!(!text.contains("s3cr"), "{}", &text[text.len() - 40..]);
}

#[test]
fn a_worker_is_given_what_its_parameter_says_and_its_results_are_clean() {
    let secrets = secrets(&[("PARTNER", "s3cret-one")]);
    let result = r#"{"attempt":2,"run":2,"shard":0,"no":1,"outcome":"failed","message":"no s3cret-one here"}"#;
    let peer = Peer::start(move |request| match request.line.contains("execute") {
        true => common::Reply::Answer(202, r#"{"next_beat":3}"#.to_owned()),
        false => common::Reply::Answer(200, format!(r#"{{"status":"finished","result":{result}}}"#)),
    });
    let (outcomes, mut inbox) = answers();
    let policy = Arc::new(Policy::new::<&str>(&[], false).unwrap());
    let config = rota_net::http::Config::NATIVE;
    let tls = tls::roots(&[]).unwrap();
    let executor = HttpExecutor::start(config, policy, tls, running_clock(), outcomes, secrets).unwrap();
    let worker = worker(1, &peer.url());
    let filled = with_param(dispatch(2, &worker), "{{shard.index}} of {{shard.total}} {{secret.PARTNER|upper}}");
    assert_eq!(send(&executor, &mut inbox, filled), SendOutcome::Accepted { next_beat: 3 });
    let body: serde_json::Value = serde_json::from_str(&peer.request().body).unwrap();
    assert_eq!(body["param"], "0 of 1 S3CRET-ONE");
    let missing = with_param(dispatch(3, &worker), "{{secret.OTHER}}");
    let unsendable =
        SendOutcome::Unsendable(Why::SecretUnknown, "param: secret OTHER is not set in namespace shop".into());
    assert_eq!(send(&executor, &mut inbox, missing), unsendable);
    executor.submit(vec![(PARTITION, Outbound::Probe(Box::new(enquiry(2, Some(&worker)))))]);
    let Input::Probed { answer: ProbeAnswer::Finished(report), .. } = inbox.next() else { panic!("it has finished") };
    assert_eq!(report.message.as_deref(), Some("no *** here"));
    assert!(!peer.request().line.contains("execute"), "nothing was sent of what could not be filled in");
}
