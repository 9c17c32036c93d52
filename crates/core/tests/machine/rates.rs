//! Rates: what waits for a token, when it goes on, and what is refused.

use rota_core::batch::Origin;
use rota_core::job::{Retry, When};
use rota_core::partition::{Answer, Input, Outcome};
use rota_core::rate::{Limit, Rate, Rates};
use rota_core::why::Why;
use rota_port::store::{Reservation, Reserved, Store};

use super::rig::{Rig, echo};

fn limit(count: u32, per_ms: u64, burst: u32) -> Limit {
    Limit { rate: Rate { count, per_ms }, burst: Some(burst) }
}

fn set(rig: &mut Rig, rates: Rates) {
    let (namespace, name) = ("default".to_owned(), "etl".to_owned());
    let what = Reservation::App { namespace, name, pending_max: None, rates: Some(rates) };
    let Ok(Reserved::App(app)) = rig.store.reserve(&what) else { panic!("the app is there") };
    rig.step(Input::App(app));
}

/// What the machine asks for after a turn: how long it may sleep.
fn sends(rig: &mut Rig) -> usize {
    let sent = rig.sends.len();
    rig.do_all();
    sent
}

#[test]
fn slots_wait_for_tokens_and_go_on_in_the_millisecond_of_the_next() {
    let mut rig = Rig::new();
    rig.worker(1);
    set(&mut rig, Rates { app: Some(limit(2, 1_000, 2)), ..Rates::default() });
    rig.jobs("tick", 5, |_| echo(When::EveryMs(60_000)));
    rig.pass(60_000);
    assert_eq!(sends(&mut rig), 2);
    let snapshot = rig.snapshot();
    assert_eq!(snapshot.held.iter().map(|held| held.why).collect::<Vec<_>>(), [Why::Rate; 3]);
    assert_eq!(snapshot.valves[0].tokens, Some(0));
    rig.advance(499);
    rig.step(Input::Turn);
    assert_eq!(sends(&mut rig), 0);
    rig.advance(1);
    rig.step(Input::Turn);
    assert_eq!(sends(&mut rig), 1);
    rig.silence(1_000);
    assert_eq!((sends(&mut rig), rig.snapshot().held.len()), (2, 0));
    assert!(rig.runs().iter().all(|run| run.slots == 1 && run.shards == 1), "nothing was skipped");
}

#[test]
fn a_trigger_is_refused_without_a_token_and_a_retry_waits() {
    let mut rig = Rig::new();
    rig.worker(1);
    set(&mut rig, Rates { app: Some(limit(1, 10_000, 1)), ..Rates::default() });
    let job = rig.job("job", echo(When::Manual));
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    assert_eq!(rig.trigger(job), Answer::Refused(Why::Rate));
    rig.pass(10_000);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
}

#[test]
fn a_term_begins_with_empty_buckets() {
    let mut rig = Rig::new();
    rig.worker(1);
    set(&mut rig, Rates { app: Some(limit(1, 10_000, 5)), ..Rates::default() });
    let job = rig.job("job", echo(When::Manual));
    rig.restart(1_000);
    assert_eq!(rig.trigger(job), Answer::Refused(Why::Rate), "five more would be a second burst");
    rig.pass(10_000);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
}

#[test]
fn a_group_without_a_token_leaves_the_work_to_others() {
    let mut rig = Rig::new();
    rig.worker(1);
    rig.worker(2);
    let mut labelled = rig.registration(1, 2);
    labelled.labels = [("zone".to_owned(), "a".to_owned())].into();
    let gone = rota_core::partition::Holder::Gone(rota_core::id::Incarnation(1));
    rig.register(labelled, gone);
    set(&mut rig, Rates { groups: [("zone=a".to_owned(), limit(1, 10_000, 1))].into(), ..Rates::default() });
    let job = rig.job("job", echo(When::Manual));
    for _ in 0..6 {
        assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    }
    let to = |rig: &Rig, id: u32| rig.sends.iter().filter(|send| send.worker.as_ref().unwrap().id.0 == id).count();
    assert_eq!((to(&rig, 1), to(&rig, 2)), (1, 5));
    let mut spec = echo(When::Manual);
    spec.route.labels = "zone=a".to_owned();
    let only = rig.job("only", spec);
    let answer = rig.answer(|reply| Input::Trigger {
        job: only,
        param: None,
        request_id: None,
        origin: Origin::Api,
        parent: None,
        reply,
    });
    assert!(matches!(answer, Answer::Triggered(_)), "{answer:?}");
    assert_eq!((to(&rig, 1), rig.snapshot().waiting[0].why), (1, Why::Rate));
    rig.pass(10_000);
    assert_eq!(to(&rig, 1), 2);
}

#[test]
fn each_shard_of_a_broadcast_takes_a_token_and_says_that_it_waits_for_one() {
    let mut rig = Rig::new();
    rig.workers(3);
    set(&mut rig, Rates { app: Some(limit(1, 1_000, 1)), ..Rates::default() });
    let mut spec = echo(When::Manual);
    spec.sharding.rules.is_broadcast = true;
    let job = rig.job("all", spec);
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    for left in [2, 1, 0] {
        assert_eq!(sends(&mut rig), 1);
        let waiting: Vec<Why> = rig.snapshot().waiting.iter().map(|waiting| waiting.why).collect();
        assert_eq!(waiting, vec![Why::Rate; left]);
        rig.advance(1_000);
        rig.step(Input::Turn);
    }
}

#[test]
fn a_retry_elsewhere_takes_a_token() {
    let mut rig = Rig::new();
    rig.workers(2);
    let mut spec = echo(When::Manual);
    spec.retry = Retry { max: 1, elsewhere: true, ..Retry::default() };
    let job = rig.job("job", spec);
    set(&mut rig, Rates { app: Some(limit(1, 5_000, 1)), ..Rates::default() });
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    let first = rig.take_send();
    rig.accept(first.attempt);
    rig.report(&first, Outcome::Failed(Why::HandlerFailed));
    assert_eq!((rig.sends.len(), rig.snapshot().waiting[0].why), (0, Why::Rate));
    rig.pass(5_000);
    assert_ne!(rig.take_send().worker.unwrap().id, first.worker.unwrap().id);
}

#[test]
fn what_waits_for_the_servers_rate_says_so_and_goes_on_with_what_is_lent() {
    let mut rig = Rig::new();
    rig.worker(1);
    let job = rig.job("job", echo(When::Manual));
    rig.jobs("tick", 3, |_| echo(When::EveryMs(60_000)));
    rig.step(Input::Tokens(0));
    assert_eq!(rig.trigger(job), Answer::Refused(Why::ServerRate));
    assert_eq!(rig.machine.server_tokens(), (0, false), "what is refused does not wait");
    rig.pass(60_000);
    assert_eq!((sends(&mut rig), rig.machine.server_tokens()), (0, (0, true)));
    assert_eq!(rig.snapshot().held.iter().map(|held| held.why).collect::<Vec<_>>(), [Why::ServerRate; 3]);
    rig.step(Input::Tokens(2));
    rig.step(Input::Turn);
    assert_eq!((sends(&mut rig), rig.machine.server_tokens()), (2, (0, true)));
    rig.step(Input::Tokens(0));
    rig.step(Input::Turn);
    assert_eq!(sends(&mut rig), 0);
    // Far beyond what is late enough for a misfire, which is not judged on lateness of our own making.
    rig.pass(600_000);
    rig.step(Input::Tokens(4));
    rig.step(Input::Turn);
    assert_eq!((sends(&mut rig), rig.machine.server_tokens()), (4, (0, true)));
    assert!(rig.runs().iter().all(|run| run.why != Some(Why::Misfire)), "{:?}", rig.runs());
}

#[test]
fn an_app_without_a_token_of_its_own_takes_none_of_the_servers() {
    let mut rig = Rig::new();
    rig.worker(1);
    set(&mut rig, Rates { app: Some(limit(1, 10_000, 1)), ..Rates::default() });
    let job = rig.job("job", echo(When::Manual));
    rig.step(Input::Tokens(3));
    assert!(matches!(rig.trigger(job), Answer::Triggered(_)));
    assert_eq!(rig.trigger(job), Answer::Refused(Why::Rate), "the nearer reason is said");
    assert_eq!(rig.machine.server_tokens(), (2, false));
}

#[test]
fn a_rate_that_is_taken_away_lets_everything_go_on() {
    let mut rig = Rig::new();
    rig.worker(1);
    set(&mut rig, Rates { app: Some(limit(1, 3_600_000, 1)), ..Rates::default() });
    rig.jobs("tick", 3, |_| echo(When::EveryMs(60_000)));
    rig.pass(60_000);
    assert_eq!(sends(&mut rig), 1);
    set(&mut rig, Rates::default());
    assert_eq!(sends(&mut rig), 2);
}
