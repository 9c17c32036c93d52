//! The accept loop over real sockets.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::world::World;

const BOUND: Duration = Duration::from_secs(20);

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
