//! How each channel takes a message, and how it says that it has.
//!
//! Forms and signatures are those of the makers' documentation of custom robots: DingTalk, WeCom, Feishu; and of incoming
//! webhooks of Slack.

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderName;
use http::header::AUTHORIZATION;
use rota_core::alert::text::{Names, Text, write};
use rota_core::alert::{Channel, Notice, Rule, fill};
use rota_core::template::{base64, percent_encoded};
use rota_core::time::UnixMs;
use rota_net::mail::{Mail, Server};
use rota_net::message::{Answered, Messenger};
use rota_port::secrets::Vault;
use serde_json::{Value, json};
use sha2::Sha256;

/// What robots take at most, in bytes, with room for what we add.
const WECOM_BYTES_MAX: usize = 2_000;
const TEXT_BYTES_MAX: usize = 16_000;
/// Of an answer that is no success, for people.
const ANSWER_BYTES_MAX: usize = 300;

/// A message to be delivered.
pub(super) struct Message<'m> {
    pub(super) rule: &'m Rule,
    pub(super) notice: &'m Notice,
    pub(super) names: &'m Names,
    /// Unique for the server as long as the message waits.
    pub(super) id: u64,
    pub(super) now: UnixMs,
}

/// Delivers a message; why not, without a secret in it.
pub(super) async fn deliver(messenger: &Messenger, vault: &Vault, message: &Message<'_>) -> Result<(), String> {
    let sent = send(messenger, vault, message).await;
    sent.map_err(|error| vault.redact(&error).into_owned())
}

async fn send(messenger: &Messenger, vault: &Vault, message: &Message<'_>) -> Result<(), String> {
    let Message { rule, notice, names, now, .. } = message;
    let text = write(notice, names, rule.language, rule.text.as_deref());
    let filled = |template: &str| filled(vault, template);
    let mut headers: Vec<(HeaderName, String)> = Vec::new();
    let (url, body) = match &rule.channel {
        Channel::Webhook { url, bearer } => {
            if let Some(bearer) = bearer {
                headers.push((AUTHORIZATION, format!("Bearer {}", filled(bearer)?)));
            }
            (filled(url)?, generic(message, &text))
        }
        Channel::Dingtalk { url, sign } => {
            let mut url = filled(url)?;
            if let Some(secret) = sign {
                let secret = filled(secret)?;
                let signature = base64(hmac(secret.as_bytes(), format!("{}\n{secret}", now.0).as_bytes()));
                let joint = if url.contains('?') { '&' } else { '?' };
                url.push_str(&format!("{joint}timestamp={}&sign={}", now.0, percent_encoded(&signature)));
            }
            (url, json!({"msgtype": "text", "text": {"content": plain(&text, TEXT_BYTES_MAX)}}))
        }
        Channel::Wecom { url } => {
            (filled(url)?, json!({"msgtype": "text", "text": {"content": plain(&text, WECOM_BYTES_MAX)}}))
        }
        Channel::Feishu { url, sign } => {
            let mut body = json!({"msg_type": "text", "content": {"text": plain(&text, TEXT_BYTES_MAX)}});
            if let Some(secret) = sign {
                let seconds = now.0 / 1_000;
                let key = format!("{seconds}\n{}", filled(secret)?);
                body["timestamp"] = json!(seconds.to_string());
                body["sign"] = json!(base64(hmac(key.as_bytes(), b"")));
            }
            (filled(url)?, body)
        }
        Channel::Slack { url } => (filled(url)?, json!({"text": escaped(&plain(&text, TEXT_BYTES_MAX))})),
        Channel::Email { .. } => return mail(messenger, vault, message, text).await,
    };
    let body = serde_json::to_vec(&body).expect("plain data");
    let answer = messenger.post(&url, &headers, body).await.map_err(|error| error.to_string())?;
    judge(&rule.channel, &answer)
}

fn filled(vault: &Vault, template: &str) -> Result<String, String> {
    let value = |name: &str| vault.value(name).map(|value| value.trim().to_owned());
    fill(template, value).ok_or_else(|| format!("a secret of {template} is not set"))
}

async fn mail(messenger: &Messenger, vault: &Vault, message: &Message<'_>, text: Text) -> Result<(), String> {
    let Channel::Email { server, encryption, from, to, user, password } = &message.rule.channel else {
        unreachable!("only mail is mailed");
    };
    let login = match (user, password) {
        (Some(user), Some(password)) => Some((filled(vault, user)?, filled(vault, password)?)),
        (_, _) => None,
    };
    let server = Server { address: filled(vault, server)?, encryption: *encryption, login };
    let mail = Mail {
        from: from.clone(),
        to: to.clone(),
        subject: text.title,
        body: text.body,
        at: message.now,
        id: format!("rota.{}.{}", message.notice.since, message.id),
    };
    messenger.mail(&server, &mail).await.map_err(|error| error.to_string())
}

/// What a webhook gets: the message, and everything that it was made of.
fn generic(message: &Message<'_>, text: &Text) -> Value {
    let Message { notice, names, .. } = message;
    let facts = &notice.facts;
    json!({
        "kind": notice.kind.word(),
        "event": notice.key.event.word(),
        "alert": names.alert,
        "namespace": names.namespace,
        "app": names.app,
        "job": names.job,
        "run": facts.run.map(|run| run.to_string()),
        "slot": Some(&names.slot).filter(|slot| !slot.is_empty()),
        "state": facts.state,
        "why": facts.why,
        "ms": facts.ms,
        "slots": facts.slots,
        "message": Some(&names.message).filter(|message| !message.is_empty()),
        "since": names.since,
        "count": notice.count,
        "others": names.others,
        "others_count": notice.others_count,
        "title": text.title,
        "text": text.body,
    })
}

fn plain(text: &Text, bytes_max: usize) -> String {
    let mut all = format!("{}\n{}", text.title, text.body);
    if all.len() > bytes_max {
        all.truncate(all.floor_char_boundary(bytes_max));
        all.push('…');
    }
    all
}

/// The three characters that mean something to Slack.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Robots answer 200 also when they refuse, and say so in the body.
fn judge(channel: &Channel, answer: &Answered) -> Result<(), String> {
    let said = || {
        let end = answer.body.floor_char_boundary(ANSWER_BYTES_MAX);
        answer.body[..end].trim().replace(['\n', '\r'], " ")
    };
    if !(200..300).contains(&answer.status) {
        let what = if (300..400).contains(&answer.status) { ", and redirects are not followed" } else { "" };
        return Err(format!("it answered with status {}{what}: {}", answer.status, said()));
    }
    let code = match channel {
        Channel::Dingtalk { .. } | Channel::Wecom { .. } => "errcode",
        Channel::Feishu { .. } => "code",
        Channel::Webhook { .. } | Channel::Slack { .. } | Channel::Email { .. } => return Ok(()),
    };
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    // Feishu's older answer has it under another name.
    let code = body.get(code).or_else(|| body.get("StatusCode")).and_then(Value::as_i64);
    if code == Some(0) { Ok(()) } else { Err(format!("it refused the message: {}", said())) }
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn signatures_are_those_of_rfc_4231() {
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&hmac(b"Jefe", b"what do ya want for nothing?")), expected);
        let expected = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        let message = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(&hmac(&[0xaa; 131], message)), expected);
    }

    #[test]
    fn a_robot_that_refuses_with_200_is_heard() {
        let url = String::new;
        let check = |channel: &Channel, status, body: &str| {
            judge(channel, &Answered { status, body: body.to_owned() }).map_err(|error| error.len() > 10)
        };
        let dingtalk = Channel::Dingtalk { url: url(), sign: None };
        assert_eq!(check(&dingtalk, 200, r#"{"errcode":0,"errmsg":"ok"}"#), Ok(()));
        assert_eq!(check(&dingtalk, 200, r#"{"errcode":310000,"errmsg":"sign not match"}"#), Err(true));
        assert_eq!(check(&Channel::Wecom { url: url() }, 200, "ok"), Err(true));
        let feishu = Channel::Feishu { url: url(), sign: None };
        assert_eq!(check(&feishu, 200, r#"{"code":0,"msg":"success"}"#), Ok(()));
        assert_eq!(check(&feishu, 200, r#"{"StatusCode":0,"StatusMessage":"success"}"#), Ok(()));
        assert_eq!(check(&feishu, 200, r#"{"code":19021,"msg":"sign match fail"}"#), Err(true));
        let slack = Channel::Slack { url: url() };
        assert_eq!(check(&slack, 200, "ok"), Ok(()));
        assert_eq!(check(&slack, 404, "no_service"), Err(true));
        assert_eq!(check(&slack, 302, ""), Err(true));
    }
}
