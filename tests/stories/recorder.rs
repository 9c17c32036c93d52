//! A partner's server for URL jobs: answers 200, and remembers what it was asked.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Requests by method and idempotency key.
type Seen = Arc<Mutex<BTreeMap<(String, String), u32>>>;

pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    seen: Seen,
}

impl Recorder {
    pub(crate) fn start() -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let seen = Seen::default();
        let shared = Arc::clone(&seen);
        // It ends with the test's process, which is all that it serves.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || drop(converse(stream, &seen)));
            }
        });
        Recorder { address, seen }
    }

    /// How often each method was asked with each key.
    pub(crate) fn seen(&self) -> BTreeMap<(String, String), u32> {
        self.seen.lock().expect("nobody panics with it").clone()
    }
}

fn converse(stream: TcpStream, seen: &Seen) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let (mut method, mut key, mut length) = (String::new(), String::new(), 0_u64);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if method.is_empty() {
                method = line.split(' ').next().unwrap_or_default().to_owned();
            } else if let Some((name, value)) = line.split_once(':') {
                match name.to_ascii_lowercase().as_str() {
                    "idempotency-key" => key = value.trim().to_owned(),
                    "content-length" => length = value.trim().parse().unwrap_or(0),
                    _ => {}
                }
            }
        }
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        *seen.lock().expect("nobody panics with it").entry((method, key)).or_default() += 1;
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
    }
}
