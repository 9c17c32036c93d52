//! A whole server without a network: its threads, on the reference store.

mod bench;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bench::{BOUND, Door, Gate, Server, within};
use rota_core::batch::{AttemptState, Origin, RunState};
use rota_core::id::{Incarnation, PartitionId, WorkerId, partition_of};
use rota_core::job::{Spec, Target, When};
use rota_core::label::Labels;
use rota_core::partition::{Answer, Holder, Input, Outcome, Report};
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::{Protocol, Registration, Secret, WorkerState};
use rota_engine::clock::Clock;
use rota_engine::{Config, Engine, Error, Failure};
use rota_port::intake::{Intake, Refused};
use rota_port::memory::MemoryStore;
use rota_port::store::{self, Reservation, Reserved, Store};

/// Looks at a future once.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    poll_fn(|cx| Poll::Ready(pin!(&mut *future).poll(cx).is_pending())).await
}

#[tokio::test]
async fn a_job_fires_and_ends_well() {
    let server = Server::start(&MemoryStore::new(4));
    let (job, _) = server.job("app", When::EveryMs(1_000)).await;
    server.url.wait(|sends| sends.len() >= 2);
    server.gate.wait(|_, state| state.runs().values().filter(|run| run.state == RunState::Success).count() >= 2);
    server.gate.rows.with(|state| {
        let slots: Vec<i64> = state.runs().values().map(|run| run.slot.0).collect();
        assert!(slots.windows(2).all(|pair| pair[1] > pair[0]), "{slots:?}");
        assert!(state.runs().values().all(|run| run.job == job && run.origin == Origin::Schedule));
    });
    server.stop().unwrap();
}

#[tokio::test]
async fn a_trigger_is_answered_and_sent_after_its_commit() {
    let server = Server::start(&MemoryStore::new(4));
    let job = server.job("app", When::Manual).await;
    let tried = server.gate.tried();
    server.gate.set(Door::Shut);
    let mut answer = Box::pin(server.triggering(job));
    server.gate.wait(|seen, _| seen.tried > tried);
    assert!(is_pending(&mut answer).await);
    assert_eq!(server.url.sends(), []);
    server.gate.set(Door::Open);
    let Ok(Answer::Triggered(run)) = within(answer).await else { panic!("it was refused") };
    assert!(server.gate.rows.with(|state| state.runs().contains_key(&run)), "it is durable when it is answered");
    assert_eq!(server.url.wait(|sends| !sends.is_empty()), [run]);
    server.stop().unwrap();
}

/// Field case B043: what is not durable is not sent, however long the store takes; nothing is sent twice.
#[tokio::test]
async fn an_unavailable_store_stops_everything_and_then_nothing_is_lost() {
    let server = Server::start(&MemoryStore::new(4));
    let (one, other) = (server.job("app", When::Manual).await, server.job("other", When::Manual).await);
    let tried = server.gate.tried();
    server.gate.set(Door::Away);
    let waiting = [server.triggering(one), server.triggering(other)];
    server.gate.wait(|seen, _| seen.tried >= tried + 3);
    let health = server.handle.health();
    assert_eq!(health.store.as_deref(), Some("the disk is full"));
    assert_eq!(server.url.sends(), [], "nothing is sent before it is durable");
    server.gate.set(Door::Open);
    for answer in waiting {
        assert!(matches!(within(answer).await, Ok(Answer::Triggered(_))));
    }
    server.url.wait(|sends| sends.len() == 2);
    let after = server.handle.health();
    assert_eq!(after.store, None);
    assert!(after.commits.iter().sum::<u64>() > health.commits.iter().sum::<u64>(), "commits are measured");
    server.stop().unwrap();
}

#[tokio::test]
async fn a_worker_gets_runs_and_its_results_are_acknowledged_once_durable() {
    let server = Server::start(&MemoryStore::new(4));
    let target = Target::Handler { name: "echo".into(), param: "hi".into() };
    let job = server.job_on("fleet", Spec::new(When::Manual, target)).await;
    let (worker, incarnation) = register(&server, "fleet").await;
    let run = server.trigger(job).await;
    server.http.wait(|sends| sends == [run]);
    let send = server.http.last_send();
    assert_eq!(send.worker.as_ref().map(|to| (to.id, to.incarnation)), Some((worker, incarnation)));
    let report = Report {
        attempt: send.attempt,
        run,
        shard: send.shard,
        no: send.no,
        outcome: Outcome::Success,
        message: Some("done".into()),
    };
    let answer = server.ask(job.1, move |reply| Input::Results { worker, incarnation, reports: vec![report], reply });
    assert_eq!(answer.await, Ok(Answer::Acknowledged(vec![send.attempt])));
    server.gate.rows.with(|state| {
        assert_eq!(state.runs()[&run].state, RunState::Success);
        let attempts: Vec<_> = state.attempts_of(run).map(|attempt| (attempt.state, attempt.worker)).collect();
        assert_eq!(attempts, [(AttemptState::Success, worker)]);
    });
    assert_eq!(server.url.sends(), [], "each call goes to the executor of its protocol");
    server.stop().unwrap();
}

async fn register(server: &Server, app: &str) -> (WorkerId, Incarnation) {
    let (app, partition) = server.app(app).await;
    let what = Reservation::WorkerName { app, name: "worker-1".into() };
    let Ok(Reserved::Worker(id)) = within(server.handle.reserve(what)).await else { panic!("no id") };
    let registration = Box::new(Registration {
        id,
        app,
        name: "worker-1".into(),
        incarnation: Incarnation(77),
        url: "http://127.0.0.1:1".into(),
        protocol: Protocol::Http,
        handlers: vec!["echo".into()],
        labels: Labels::default(),
        capacity: 0,
        list_max: 0,
        secret: Secret::default(),
        at: UnixMs(0),
    });
    let make = move |reply| Input::Register { registration, is_reachable: true, holder: Holder::None, reply };
    assert_eq!(server.ask(partition, make).await, Ok(Answer::Registered(WorkerState::Online)));
    (id, Incarnation(77))
}

#[tokio::test]
async fn an_app_is_in_its_machine_when_its_reservation_is_answered() {
    let rows = MemoryStore::new(64);
    let server = Server::start(&rows);
    for n in 0..20 {
        // Each definition is refused by a machine that does not know the app.
        let name = format!("app-{n}");
        let (_, partition) = server.job(&name, When::Manual).await;
        assert_eq!(partition, partition_of("default", &name, 64));
    }
    server.stop().unwrap();
    let server = Server::start(&rows);
    for n in 0..20 {
        let (app, partition) = server.app(&format!("app-{n}")).await;
        assert_eq!(server.handle.partition(app), Some(partition), "known from the start");
    }
    server.stop().unwrap();
}

#[tokio::test]
async fn ids_are_unique_and_grow_over_partitions_and_restarts() {
    let rows = MemoryStore::new(8);
    let mut before = 0;
    let mut seen = BTreeSet::new();
    for _ in 0..2 {
        let server = Server::start(&rows);
        let mut last = [before; 8];
        for n in 0..40 {
            let job = match rows.with(|state| state.jobs().keys().nth(n).copied()) {
                Some(job) => {
                    let app = rows.with(|state| state.jobs()[&job][0].app);
                    (job, server.handle.partition(app).unwrap())
                }
                None => server.job(&format!("app-{n}"), When::Manual).await,
            };
            for _ in 0..3 {
                let run = server.trigger(job).await.0;
                assert!(seen.insert(run), "{run} twice");
                let place = &mut last[usize::from(job.1.0)];
                assert!(run > *place, "{run} after {place}");
                *place = run;
            }
        }
        before = last.into_iter().max().unwrap();
        server.stop().unwrap();
    }
    assert_eq!(seen.len(), 240);
}

#[tokio::test]
async fn without_ids_requests_wait_and_beats_are_heard() {
    // One reserve is 128 blocks, so the last machines of 140 find none.
    let gate = Gate::new(&MemoryStore::new(140));
    gate.give_reserves(1);
    let server = Server::start_gated(gate, Config::NATIVE, false);
    let app = (0..).map(|n| format!("app-{n}")).find(|app| partition_of("default", app, 140).0 >= 128).unwrap();
    server.gate.wait(|seen, _| seen.reserves >= 2);
    let spec = Spec::new(When::Manual, Target::Handler { name: "echo".into(), param: String::new() });
    let (id, partition, definition) = server.definition(&app, spec).await;
    let make = move |reply| Input::Define { definition, expected: None, reply };
    let mut defined = server.handle.ask(partition, Box::new(make));
    let (worker, incarnation) = (WorkerId(5), Incarnation(7));
    let drained = server.ask(partition, move |reply| Input::Drain { worker, incarnation, reply }).await;
    assert_eq!(drained, Ok(Answer::Refused(Why::WorkerUnknown)), "it is answered after the definition was taken");
    assert!(is_pending(&mut defined).await);
    server.gate.set(Door::Open);
    assert!(matches!(within(defined).await, Ok(Answer::Defined { job, .. }) if job == id));
    server.stop().unwrap();
}

#[tokio::test]
async fn a_stop_makes_durable_what_was_asked_and_closes_the_store() {
    let server = Server::start(&MemoryStore::new(4));
    let jobs = [server.job("a", When::Manual).await, server.job("b", When::Manual).await];
    server.gate.set(Door::Shut);
    // As many as the two hosts have credits for, or fewer.
    let waiting: Vec<_> = (0..100).map(|n| server.triggering(jobs[n % 2])).collect();
    let (gate, handle, engine, url) = (server.gate, server.handle, server.engine, server.url);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(move || engine.stop(BOUND));
        // The stop waits for the commit that stands at the door.
        gate.set(Door::Open);
        stopping.join().unwrap().unwrap();
    });
    assert!(gate.is_closed(), "the store's lock is given back");
    for answer in waiting {
        let Ok(Answer::Triggered(run)) = within(answer).await else { panic!("it was taken before the stop") };
        assert!(gate.rows.with(|state| state.runs().contains_key(&run)));
        assert!(url.sends().contains(&run), "what is durable is sent");
    }
    let late = handle.ask(jobs[0].1, Box::new(|reply| Input::Kill { run: Default::default(), shard: None, reply }));
    assert_eq!(within(late).await, Err(Refused::Stopped));
    let name = Reservation::App { namespace: "default".into(), name: "late".into(), pending_max: None, rates: None };
    assert!(matches!(within(handle.reserve(name)).await, Err(store::Error::Unavailable(_))));
}

#[tokio::test]
async fn a_stop_without_a_store_gives_up_in_time() {
    let server = Server::start(&MemoryStore::new(4));
    let job = server.job("app", When::Manual).await;
    let tried = server.gate.tried();
    server.gate.set(Door::Away);
    let answer = server.triggering(job);
    server.gate.wait(|seen, _| seen.tried > tried);
    server.engine.stop(std::time::Duration::from_millis(20)).unwrap();
    assert!(server.gate.is_closed());
    assert_eq!(within(answer).await, Err(Refused::Stopped), "it was never durable, so it is not answered");
    assert_eq!(server.url.sends(), []);
}

/// Field cases B038 and B042: whoever was away and comes back with what it knew may write nothing.
#[tokio::test]
async fn a_second_owner_fences_the_first() {
    let rows = MemoryStore::new(4);
    let server = Server::start(&rows);
    let (job, partition) = server.job("app", When::Manual).await;
    let other = server.job("elsewhere", When::Manual).await;
    assert_ne!(partition, other.1);
    rows.clone().claim(&[partition]).unwrap();
    let failed = server.engine.failed();
    assert_eq!(within(server.triggering((job, partition))).await, Err(Refused::Stopped));
    assert!(matches!(within(failed).await, Failure::Fenced { partition: of, .. } if of == partition));
    assert_eq!(within(server.triggering((job, partition))).await, Err(Refused::Stopped), "its machine is gone");
    server.trigger(other).await;
    assert_eq!(server.url.wait(|sends| !sends.is_empty()).len(), 1, "the others go on");
    server.stop().unwrap();
}

#[tokio::test]
async fn a_lost_reply_ends_the_server() {
    let server = Server::start(&MemoryStore::new(4));
    let job = server.job("app", When::Manual).await;
    server.gate.set(Door::Deaf);
    assert_eq!(within(server.triggering(job)).await, Err(Refused::Stopped));
    let failure = within(server.engine.failed()).await;
    assert_eq!(failure, Failure::Store(store::Error::Unknown("the line went dead".into())));
    assert_eq!(within(server.triggering(job)).await, Err(Refused::Stopped));
    assert_eq!(server.url.sends(), [], "nothing rests on what may not be durable");
    server.stop().unwrap();
}

/// Field case B061: no thread dies in silence.
#[tokio::test]
async fn a_panic_ends_the_server_loudly() {
    let server = Server::start_with(&MemoryStore::new(4), Config::NATIVE, true);
    let job = server.job("app", When::Manual).await;
    let answer = server.triggering(job);
    assert_eq!(within(server.engine.failed()).await, Failure::Panicked("machines"));
    // Whether it was answered before the panic or not: nobody waits for ever.
    let _answered = within(answer).await;
    assert_eq!(within(server.triggering(job)).await, Err(Refused::Stopped));
    server.engine.stop(BOUND).unwrap();
    assert!(server.gate.is_closed());
}

fn four_at_a_time() -> Config {
    let machine = rota_core::partition::Config { pending_max: 4, ..Config::NATIVE.machine };
    Config { machine, ..Config::NATIVE }
}

#[tokio::test]
async fn all_machines_share_the_servers_cap() {
    let server = Server::start_with(&MemoryStore::new(4), four_at_a_time(), false);
    let (one, other) = (server.job("app", When::Manual).await, server.job("elsewhere", When::Manual).await);
    assert_ne!(one.1, other.1);
    server.gate.set(Door::Shut);
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(server.triggering(one));
    }
    let full = Ok(Answer::Refused(Why::PendingFull));
    assert_eq!(within(server.triggering(one)).await, full);
    assert_eq!(within(server.triggering(other)).await, full, "another machine is at the cap too");
    server.gate.set(Door::Open);
    for answer in waiting {
        assert!(matches!(within(answer).await, Ok(Answer::Triggered(_))));
    }
    server.trigger(other).await;
    server.stop().unwrap();
}

#[tokio::test]
async fn what_machines_publish_can_be_seen() {
    let server = Server::start(&MemoryStore::new(4));
    let (_, partition) = server.job("app", When::Manual).await;
    server.trigger(server.job("app-2", When::Manual).await).await;
    assert!(server.handle.snapshots().iter().all(|snapshot| snapshot.partition.0 < 4));
    assert_eq!(server.handle.health().store, None);
    assert_eq!(server.handle.partition(Default::default()), None, "no app has the number zero");
    let outside = server.ask(PartitionId(4), |reply| Input::Kill { run: Default::default(), shard: None, reply });
    assert_eq!(outside.await, Err(Refused::Stopped));
    assert!(partition.0 < 4);
    server.stop().unwrap();
}

#[test]
fn a_server_without_an_executor_for_every_protocol_does_not_start() {
    let rows = MemoryStore::new(1);
    let reads = Arc::new(rows.clone());
    let started = Engine::start(Config::NATIVE, Box::new(rows), reads, Clock::start(), |_| Vec::new());
    assert!(matches!(started.err(), Some(Error::NoExecutor("http"))));
}
