//! The API, asked over a connection per call: a story kills servers, and nothing may hang on to a dead one.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(60);

/// Whom to ask, and as whom.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// A whole answer.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    /// Its body.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Api {
    /// The same server, asked with another token.
    pub(crate) fn with_token(&self, token: &str) -> Api {
        Api { token: token.to_owned(), ..self.clone() }
    }

    /// One call; an error if the answer did not arrive whole.
    pub(crate) fn call(&self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.call_with("", method, path, body)
    }

    /// One call with more lines in its head, each with its end.
    pub(crate) fn call_with(&self, head: &str, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let mut stream = TcpStream::connect_timeout(&self.address, CONNECT)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\nconnection: close\r\n{head}\r\n",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        // A server may refuse a body before it has read all of it.
        let written = stream.write_all(body);
        let mut received = Vec::new();
        let read = stream.read_to_end(&mut received);
        match parse(&received) {
            Some(answer) => Ok(answer),
            None => Err(written.and(read.map(drop)).err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// A call with a JSON body that must go well.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.call(method, path, body.to_string().as_bytes());
        let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        assert!((200..300).contains(&answer.status), "{method} {path} {body}: {answer:?}");
        if answer.text.is_empty() { Value::Null } else { answer.json() }
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.call("GET", path, b"").unwrap_or_else(|error| panic!("GET {path}: {error}"));
        assert_eq!(answer.status, 200, "GET {path}: {answer:?}");
        answer.json()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", path, body)
    }

    /// A call that must be refused with this status and code, and say why; its refusal.
    pub(crate) fn refused(&self, method: &str, path: &str, body: &[u8], status: u16, code: &str) -> Value {
        let answer = self.call(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let shown: String = String::from_utf8_lossy(body).chars().take(200).collect();
        assert_eq!(answer.status, status, "{method} {path} {shown}: {answer:?}");
        let refusal = answer.json();
        assert_eq!(refusal["code"], code, "{shown}: {refusal}");
        assert!(refusal["message"].as_str().is_some_and(|text| !text.is_empty()), "{shown}: {refusal}");
        refusal
    }

    /// A new run of a job: its printed id.
    pub(crate) fn trigger(&self, job: &str) -> String {
        let made = self.post(&format!("/api/v1/jobs/{job}/trigger"), &serde_json::json!({}));
        made["run"].as_str().expect("a run has an id").to_owned()
    }

    /// A run with its attempts.
    pub(crate) fn run(&self, run: &str) -> Value {
        self.get(&format!("/api/v1/runs/{run}"))
    }
}

fn parse(received: &[u8]) -> Option<Answer> {
    let end = received.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&received[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &received[end + 4..];
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let is_whole = length.unwrap_or(0) == body.len();
    is_whole.then(|| Some(Answer { status, text: String::from_utf8(body.to_vec()).ok()? }))?
}
