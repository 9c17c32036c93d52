//! Handing a mail to a server: SMTP (RFC 5321) with STARTTLS (RFC 3207) and AUTH (RFC 4954), and the mail's own form
//! (RFC 5322, RFC 2045, RFC 2047).
//!
//! It speaks on a connection that the address policy has let pass.

use std::fmt::Write as _;

use rota_core::template::base64;
use rota_core::time::UnixMs;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::connect::{Connector, Stream};
use crate::endpoint::Endpoint;
use crate::message::{NotDelivered, unconnected};

/// A line of an answer, and how many an answer may have.
const LINE_BYTES_MAX: u64 = 1_024;
const LINES_MAX: usize = 100;

pub use rota_core::alert::Encryption;

/// A mail server, and whom to log in as. It has no `Debug`: it holds a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// `host:port`.
    pub address: String,
    /// How the connection is encrypted.
    pub encryption: Encryption,
    /// User and password.
    pub login: Option<(String, String)>,
}

/// A mail in plain text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// An address.
    pub from: String,
    /// Addresses.
    pub to: Vec<String>,
    /// One line.
    pub subject: String,
    /// The text.
    pub body: String,
    /// When it was written.
    pub at: UnixMs,
    /// The part of its id before the host, unique for the sender.
    pub id: String,
}

/// One conversation.
struct Talk {
    stream: BufReader<Stream>,
    host: String,
}

impl Talk {
    fn fail(&self, what: &str) -> NotDelivered {
        NotDelivered(format!("{} {what}", self.host))
    }

    /// Sends a line, and reads the answer, whose code must be this.
    async fn ask(&mut self, line: &str, code: &str, what: &str) -> Result<Vec<String>, NotDelivered> {
        let sent = self.stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).await;
        sent.map_err(|error| self.fail(&format!("broke off at {what}: {error}")))?;
        self.expect(code, what).await
    }

    /// Reads an answer of one or more lines: `250-…` goes on, `250 …` is the last (RFC 5321, 4.2.1).
    async fn expect(&mut self, code: &str, what: &str) -> Result<Vec<String>, NotDelivered> {
        let mut lines = Vec::new();
        while lines.len() < LINES_MAX {
            let mut line = Vec::new();
            let read = (&mut self.stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
            read.map_err(|error| self.fail(&format!("broke off at {what}: {error}")))?;
            if !line.ends_with(b"\n") {
                return Err(self.fail(&format!("gave no whole answer to {what}")));
            }
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if !text.starts_with(code) {
                return Err(self.fail(&format!("refused {what}: {text}")));
            }
            let is_last = text.as_bytes().get(3) != Some(&b'-');
            lines.push(text.get(4..).unwrap_or_default().to_ascii_uppercase());
            if is_last {
                return Ok(lines);
            }
        }
        Err(self.fail(&format!("gave too long an answer to {what}")))
    }

    async fn hello(&mut self) -> Result<Vec<String>, NotDelivered> {
        self.ask("EHLO rota", "250", "EHLO").await
    }

    async fn log_in(&mut self, offered: &[String], user: &str, password: &str) -> Result<(), NotDelivered> {
        let ways = offered.iter().find_map(|line| line.strip_prefix("AUTH ")).unwrap_or_default();
        if ways.split(' ').any(|way| way == "PLAIN") {
            let line = format!("AUTH PLAIN {}", base64(format!("\0{user}\0{password}")));
            return self.ask(&line, "235", "the login").await.map(drop);
        }
        if ways.split(' ').any(|way| way == "LOGIN") {
            self.ask("AUTH LOGIN", "334", "the login").await?;
            self.ask(&base64(user), "334", "the user").await?;
            return self.ask(&base64(password), "235", "the login").await.map(drop);
        }
        Err(self.fail("offers no login by PLAIN or LOGIN"))
    }
}

pub(crate) async fn send(
    connector: &Connector,
    to: &Endpoint,
    server: &Server,
    mail: &Mail,
) -> Result<(), NotDelivered> {
    let to = Endpoint { is_tls: server.encryption == Encryption::Tls, ..to.clone() };
    let stream = connector.connect(&to).await.map_err(|error| unconnected(&to, &error))?;
    let mut talk = Talk { stream: BufReader::new(stream), host: to.host.clone() };
    talk.expect("220", "the connection").await?;
    let mut offered = talk.hello().await?;
    if server.encryption == Encryption::Starttls {
        if !offered.iter().any(|line| line == "STARTTLS") {
            return Err(talk.fail("does not offer STARTTLS, and without it nothing is sent"));
        }
        talk.ask("STARTTLS", "220", "STARTTLS").await?;
        // What came in plain text behind the answer is not from whom the certificate names.
        if !talk.stream.buffer().is_empty() {
            return Err(talk.fail("went on in plain text after STARTTLS"));
        }
        let Stream::Plain(tcp) = talk.stream.into_inner() else { unreachable!("it was not encrypted") };
        let stream = connector.encrypt(&to.host, tcp).await.map_err(|error| unconnected(&to, &error))?;
        talk = Talk { stream: BufReader::new(stream), host: to.host.clone() };
        offered = talk.hello().await?;
    }
    if let Some((user, password)) = &server.login {
        talk.log_in(&offered, user, password).await?;
    }
    talk.ask(&format!("MAIL FROM:<{}>", mail.from), "250", "the sender").await?;
    for recipient in &mail.to {
        talk.ask(&format!("RCPT TO:<{recipient}>"), "25", "a recipient").await?;
    }
    talk.ask("DATA", "354", "DATA").await?;
    // Its last line ends with the line end that `ask` writes.
    talk.ask(&format!("{}.", write(mail)), "250", "the mail").await?;
    // It is delivered; how they part is nobody's concern.
    let _parted = talk.ask("QUIT", "221", "QUIT").await;
    Ok(())
}

/// The mail as it is sent. No line of it begins with a dot: headers begin with their names, the body is base 64.
fn write(mail: &Mail) -> String {
    let host = mail.from.rsplit_once('@').map_or("rota", |(_, host)| host);
    let mut text = String::new();
    let headers = [
        ("Date", date(mail.at)),
        ("From", mail.from.clone()),
        ("To", mail.to.join(",\r\n ")),
        ("Subject", encoded(&mail.subject)),
        ("Message-ID", format!("<{}@{host}>", mail.id)),
        ("Auto-Submitted", "auto-generated".to_owned()),
        ("MIME-Version", "1.0".to_owned()),
        ("Content-Type", "text/plain; charset=utf-8".to_owned()),
        ("Content-Transfer-Encoding", "base64".to_owned()),
    ];
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").expect("a string takes all");
    }
    text.push_str("\r\n");
    let body = base64(mail.body.replace("\r\n", "\n").replace('\n', "\r\n"));
    for line in body.as_bytes().chunks(76) {
        text.push_str(std::str::from_utf8(line).expect("base 64 is ASCII"));
        text.push_str("\r\n");
    }
    text
}

/// A header's text as encoded words (RFC 2047), each of whole characters and at most 75 bytes long.
fn encoded(text: &str) -> String {
    const WORD_BYTES_MAX: usize = 39;
    let mut words: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, more) = rest.split_at(rest.floor_char_boundary(WORD_BYTES_MAX));
        words.push(format!("=?utf-8?B?{}?=", base64(word)));
        rest = more;
    }
    words.join("\r\n ")
}

/// A date as mails have it: `Tue, 01 Dec 2026 02:00:00 +0000`.
fn date(at: UnixMs) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // 1970-01-01 was a Thursday.
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let text = at.to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let weekday = usize::try_from(at.0.div_euclid(86_400_000).rem_euclid(7)).expect("below 7");
    let month = part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?)).unwrap_or(&"Jan");
    format!("{}, {} {month} {} {} +0000", DAYS[weekday], part(8..10), part(0..4), part(11..19))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_has_its_form() {
        let mail = Mail {
            from: "rota@shop.example".to_owned(),
            to: vec!["a@shop.example".to_owned(), "b@shop.example".to_owned()],
            subject: "[Rota] 任务 settle 执行失败，这是一个相当长的标题，超过一个编码字".to_owned(),
            body: ".\na line\n".to_owned(),
            at: UnixMs(1_796_061_600_000),
            id: "7".to_owned(),
        };
        let text = write(&mail);
        assert!(text.starts_with("Date: Mon, 30 Nov 2026 18:00:00 +0000\r\nFrom: rota@shop.example\r\n"), "{text}");
        assert!(text.contains("To: a@shop.example,\r\n b@shop.example\r\n"));
        assert!(text.contains("Message-ID: <7@shop.example>\r\n"));
        assert!(text.ends_with("\r\n\r\nLg0KYSBsaW5lDQo=\r\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 76 && !line.starts_with('.')), "{text}");
        assert_eq!(text.matches("=?utf-8?B?").count(), 3);
    }
}
