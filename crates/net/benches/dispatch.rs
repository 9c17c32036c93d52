//! How many sends a second one lane carries to eight workers, and what each costs it.
//!
//! The workers share one thread, so that on two cores each side has one. 64 sends are open for each worker
//! (its send credits); every answer is followed by another send, in vectors as they come.
//!
//! `cargo bench -p rota-net --bench dispatch`; without `--bench`, as tests run it, a short round.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, reason = "a benchmark that cannot go on panics")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use common::{PARTITION, dispatch, running_clock, worker};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rota_core::partition::{Dispatch, Input, SendOutcome};
use rota_core::time::Mono;
use rota_core::worker::Registration;
use rota_net::http::{Config, HttpExecutor};
use rota_net::policy::Policy;
use rota_port::executor::{Executor, Outbound};
use tokio::task::JoinSet;

const WORKERS: u32 = 8;
const OPEN_PER_WORKER: u64 = 64;

fn main() {
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let duration = if is_bench { Duration::from_secs(8) } else { Duration::from_millis(200) };
    for list_max in [1, 128] {
        run(duration, list_max);
    }
}

/// Sends for so long, at most so many in one call.
fn run(duration: Duration, list_max: u32) {
    let taking = |(id, address)| {
        Arc::new(Registration { list_max, ..Registration::clone(&worker(id, &format!("http://{address}"))) })
    };
    let workers: Vec<Arc<Registration>> = (1..).zip(serve()).map(taking).collect();
    let (outcomes, mut inbox) = common::answers();
    let policy = Arc::new(Policy::new::<&str>(&[], false).unwrap());
    let tls = rota_net::tls::roots(&[]).unwrap();
    let executor = HttpExecutor::start(Config::NATIVE, policy, tls, running_clock(), outcomes, Arc::default()).unwrap();

    let send = |attempt: u64| {
        let mut dispatch: Dispatch = dispatch(attempt, &workers[usize::try_from(attempt).unwrap() % workers.len()]);
        dispatch.send_by = Mono(u64::MAX);
        (PARTITION, Outbound::Send(Box::new(dispatch)))
    };
    let mut next = u64::from(WORKERS) * OPEN_PER_WORKER;
    executor.submit((0..next).map(send).collect());
    let start = tokio::time::Instant::now();
    let (mut answered, mut vectors) = (0u64, 0u64);
    while start.elapsed() < duration {
        let inputs = inbox.vector();
        vectors += 1;
        answered += inputs.len() as u64;
        // Whatever worker answered gets the next one: attempts are spread by their number.
        let calls = inputs.into_iter().map(|input| match input {
            Input::Sent { attempt, outcome: SendOutcome::Accepted { .. } } => {
                next += 1;
                let worker = attempt.0 % u64::from(WORKERS);
                send((next * u64::from(WORKERS)) + worker)
            }
            other => panic!("{other:?}"),
        });
        executor.submit(calls.collect());
    }
    let elapsed = start.elapsed();
    let rate = answered as f64 / elapsed.as_secs_f64();
    let lane_us = lane_cpu().as_micros() as f64 / answered as f64;
    println!(
        "dispatch, up to {list_max} in a call: {rate:.0} sends/s, {lane_us:.1} us of lane CPU each, {:.1} answers a vector",
        answered as f64 / vectors as f64
    );
}

/// The processor time of the lane's thread so far, at the kernel's 10 ms.
fn lane_cpu() -> Duration {
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        if let Some((_, rest)) = stat.split_once("(lane-http-0)") {
            let fields: Vec<&str> = rest.split_whitespace().collect();
            let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
            return Duration::from_millis(ticks * 10);
        }
    }
    Duration::ZERO
}

/// Workers that accept everything, on one thread of their own.
fn serve() -> Vec<SocketAddr> {
    let (addresses, started) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(accept(&addresses));
    });
    started.iter().take(WORKERS as usize).collect()
}

async fn accept(addresses: &Sender<SocketAddr>) {
    let mut tasks = JoinSet::new();
    for _ in 0..WORKERS {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.send(listener.local_addr().unwrap()).unwrap();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                connections.spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service_fn(answer)),
                );
            }
        });
    }
    tasks.join_next().await;
}

async fn answer(request: http::Request<Incoming>) -> Result<http::Response<Full<Bytes>>, Infallible> {
    let is_list = request.uri().path().ends_with("execute-list");
    let asked = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = if is_list {
        let accepted = asked.windows(10).filter(|letters| letters == b"\"attempt\":").count();
        Bytes::from(format!(r#"{{"next_beat":8,"accepted":{accepted}}}"#))
    } else {
        Bytes::from_static(br#"{"next_beat":8}"#)
    };
    let body = Full::new(body);
    Ok(http::Response::builder().status(202).body(body).expect("a constant"))
}
