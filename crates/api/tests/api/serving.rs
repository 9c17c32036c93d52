//! The accept loop over real sockets.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::world::{ADMIN, READ, World};

const BOUND: Duration = Duration::from_secs(20);

/// Sends a request and reads until its answer has ended with `end`.
async fn ask(stream: &mut TcpStream, request: &[u8], end: &str) -> String {
    timeout(BOUND, stream.write_all(request)).await.unwrap().unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(end.as_bytes()) {
        let read = timeout(BOUND, stream.read_buf(&mut answer)).await.unwrap().unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&answer));
    }
    String::from_utf8(answer).unwrap()
}

/// Waits until the other side has closed.
async fn closed(stream: &mut TcpStream) {
    assert_eq!(timeout(BOUND, stream.read(&mut [0; 16])).await.unwrap().unwrap_or(0), 0);
}

#[tokio::test]
async fn a_full_table_closes_who_has_shown_no_token() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(rota_api::serve_up_to(3, listener, world.state.clone(), shutdown.clone()));
    let beats = format!("GET /api/v1/server HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {READ}\r\n\r\n");
    let live = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";

    let mut known = TcpStream::connect(address).await.unwrap();
    ask(&mut known, beats.as_bytes(), "}").await;
    // Enough that the record of who came is swept more than once.
    let mut strangers = Vec::new();
    for _ in 0..20 {
        let mut stranger = TcpStream::connect(address).await.unwrap();
        ask(&mut stranger, live, "live\n").await;
        strangers.push(stranger);
    }
    for stranger in &mut strangers[..18] {
        closed(stranger).await;
    }
    assert!(ask(&mut known, beats.as_bytes(), "}").await.starts_with("HTTP/1.1 200"), "its place is its own");
    for stranger in &mut strangers[18..] {
        ask(stranger, live, "live\n").await;
    }
    shutdown.cancel();
    timeout(BOUND, tasks.join_next()).await.unwrap().unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_place_that_is_held_with_a_token_is_waited_for() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(rota_api::serve_up_to(1, listener, world.state.clone(), shutdown.clone()));
    let ask_server = format!("GET /api/v1/server HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {READ}\r\n\r\n");

    let mut known = TcpStream::connect(address).await.unwrap();
    ask(&mut known, ask_server.as_bytes(), "}").await;
    let mut next = TcpStream::connect(address).await.unwrap();
    next.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    for _ in 0..10 {
        assert!(ask(&mut known, ask_server.as_bytes(), "}").await.starts_with("HTTP/1.1 200"));
    }
    let early = next.try_read(&mut [0; 16]);
    assert!(early.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{early:?}");
    drop(known);
    assert!(ask(&mut next, b"", "live\n").await.starts_with("HTTP/1.1 200"));
    shutdown.cancel();
    timeout(BOUND, tasks.join_next()).await.unwrap().unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn who_sends_too_much_reads_why() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(rota_api::serve(listener, world.state.clone(), shutdown.clone()));
    let bytes = 12 << 20;
    let head = |more: &str| {
        format!(
            "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\ncontent-length: {bytes}\r\n{more}\r\n"
        )
    };

    let mut stream = TcpStream::connect(address).await.unwrap();
    let whole = [head("").into_bytes(), vec![b' '; bytes]].concat();
    let answer = ask(&mut stream, &whole, "}").await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("too_large"), "{answer}");
    // Whoever asks first need not send it at all.
    let mut stream = TcpStream::connect(address).await.unwrap();
    let answer = ask(&mut stream, head("expect: 100-continue\r\n").as_bytes(), "}").await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    shutdown.cancel();
    timeout(BOUND, tasks.join_next()).await.unwrap().unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn connections_are_kept_and_closed_when_the_server_stops() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(rota_api::serve(listener, world.state.clone(), shutdown.clone()));

    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..2 {
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"live\n") {
            let read = timeout(BOUND, stream.read_buf(&mut answer)).await.unwrap().unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&answer));
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    shutdown.cancel();
    let ended = timeout(BOUND, tasks.join_next()).await.unwrap().unwrap().unwrap();
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(
        timeout(BOUND, stream.read(&mut [0; 16])).await.unwrap().unwrap_or(0),
        0,
        "an idle connection is closed"
    );
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}
