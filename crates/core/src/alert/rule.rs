//! What a user writes: a channel, and what it hears of.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Event, text};
use crate::job::Invalid;
use crate::limits;
use crate::template::Template;

/// How long a slot waits for a worker before that is an event: a restart of a worker is none.
pub const NO_WORKER_MS: i64 = 30_000;
/// Recipients of one mail.
const RECIPIENTS_MAX: usize = 50;
/// A template of a message.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Messages of one channel within a minute, at most and by default. Robots of DingTalk and WeCom take 20.
const PER_MINUTE: (u32, u32) = (600, 20);
const REPEAT_MS: (u64, u64) = (60_000, 4 * 3_600_000);

/// An alert rule. Durations are milliseconds. Whatever of it is secret is the name of a secret.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Who is told.
    pub channel: Channel,
    /// Of which events that need no bound.
    pub when: BTreeSet<Event>,
    /// How late a start may be.
    #[serde(default)]
    pub late_ms: Option<u64>,
    /// How long a run may take.
    #[serde(default)]
    pub running_ms: Option<u64>,
    /// How long there may be no success.
    #[serde(default)]
    pub no_success_ms: Option<u64>,
    /// How often somebody is told again of what goes on.
    pub repeat_ms: u64,
    /// How many messages within a minute; what is more comes in a digest.
    pub per_minute: u32,
    /// In which language.
    #[serde(default)]
    pub language: Language,
    /// A text with `{{…}}` that replaces ours.
    #[serde(default)]
    pub text: Option<String>,
}

/// The language of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// Chinese.
    Zh,
}

/// Who is told, and how.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Channel {
    /// A POST of JSON.
    Webhook {
        /// Where to.
        url: String,
        /// `Authorization: Bearer …`.
        bearer: Option<String>,
    },
    /// A robot of DingTalk.
    Dingtalk {
        /// Its webhook.
        url: String,
        /// What it signs with.
        sign: Option<String>,
    },
    /// A robot of WeCom.
    Wecom {
        /// Its webhook.
        url: String,
    },
    /// A robot of Feishu, or Lark.
    Feishu {
        /// Its webhook.
        url: String,
        /// What it signs with.
        sign: Option<String>,
    },
    /// An incoming webhook of Slack.
    Slack {
        /// Its address.
        url: String,
    },
    /// Mail.
    Email {
        /// The SMTP server, as `host:port`.
        server: String,
        /// How the connection is encrypted.
        encryption: Encryption,
        /// Whom it is from.
        from: String,
        /// Whom it is for.
        to: Vec<String>,
        /// Whom to log in as.
        user: Option<String>,
        /// With which password.
        password: Option<String>,
    },
}

/// How a connection to a mail server is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    /// After a greeting in plain text; a server that does not offer it gets nothing.
    #[default]
    Starttls,
    /// From the first byte.
    Tls,
    /// Not at all; nobody logs in then.
    None,
}

impl Encryption {
    /// The word that API and job file show.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Encryption::Starttls => "starttls",
            Encryption::Tls => "tls",
            Encryption::None => "none",
        }
    }
}

impl Channel {
    /// The word that API and job file name it by.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Channel::Webhook { .. } => "webhook",
            Channel::Dingtalk { .. } => "dingtalk",
            Channel::Wecom { .. } => "wecom",
            Channel::Feishu { .. } => "feishu",
            Channel::Slack { .. } => "slack",
            Channel::Email { .. } => "email",
        }
    }

    /// Where it is called, if it is called over HTTP.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        match self {
            Channel::Webhook { url, .. }
            | Channel::Dingtalk { url, .. }
            | Channel::Wecom { url }
            | Channel::Feishu { url, .. }
            | Channel::Slack { url } => Some(url),
            Channel::Email { .. } => None,
        }
    }

    /// Every text of it that may name a secret, with its field.
    fn texts(&self) -> Vec<(&'static str, &str)> {
        let mut texts: Vec<(&'static str, &str)> = self.url().map(|url| (self.word(), url)).into_iter().collect();
        match self {
            Channel::Webhook { bearer, .. } => texts.extend(bearer.as_deref().map(|text| ("bearer", text))),
            Channel::Dingtalk { sign, .. } | Channel::Feishu { sign, .. } => {
                texts.extend(sign.as_deref().map(|text| ("sign", text)));
            }
            Channel::Wecom { .. } | Channel::Slack { .. } => {}
            Channel::Email { server, user, password, .. } => {
                texts.push(("email.server", server));
                texts.extend(user.as_deref().map(|text| ("email.user", text)));
                texts.extend(password.as_deref().map(|text| ("email.password", text)));
            }
        }
        texts
    }

    /// The secrets that it names.
    #[must_use]
    pub fn secrets(&self) -> BTreeSet<String> {
        let texts = self.texts();
        let templates = texts.iter().filter_map(|(_, text)| Template::parse(text).ok().flatten());
        templates.flat_map(|template| template.secrets().into_iter().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    fn check(&self) -> Result<(), Invalid> {
        for (field, text) in self.texts() {
            let template = Template::parse(text).map_err(|error| invalid(field, error.to_string(), None))?;
            let is_alone = template.as_ref().is_some_and(Template::is_secret_alone);
            let is_credential = !["webhook", "email.server", "email.user"].contains(&field);
            if is_credential && !is_alone {
                let hint = "keep it as a secret: rota secret set NAME; and write {{secret.NAME}} here";
                return Err(invalid(field, "this lets whoever reads it speak in your name".to_owned(), Some(hint)));
            }
            if let Some(template) = template
                && fill(text, |name| template.secrets().contains(name).then(String::new))
                    .is_none_or(|text| text.contains("{{"))
            {
                return Err(invalid(field, "only secrets can stand here".to_owned(), Some("as in {{secret.NAME}}")));
            }
        }
        if let Channel::Email { server, encryption, from, to, user, password } = self {
            check_mail(server, from, to)?;
            if user.is_some() != password.is_some() {
                return Err(invalid("email", "a user goes with a password".to_owned(), Some("give both, or none")));
            }
            if user.is_some() && *encryption == Encryption::None {
                let hint = Some("set `encryption` to starttls or tls");
                return Err(invalid("email.encryption", "a password would be sent in plain text".to_owned(), hint));
            }
        }
        Ok(())
    }
}

fn check_mail(server: &str, from: &str, to: &[String]) -> Result<(), Invalid> {
    let is_server = server.contains("{{")
        || server.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.contains(['/', '@', ' ']) && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
    if !is_server {
        let hint = Some("for example smtp.example:587");
        return Err(invalid("email.server", format!("`{}` is not host:port", shortened(server)), hint));
    }
    if to.is_empty() || to.len() > RECIPIENTS_MAX {
        return Err(invalid("email.to", format!("{} recipients are outside 1 to {RECIPIENTS_MAX}", to.len()), None));
    }
    for (field, address) in std::iter::once(("email.from", from)).chain(to.iter().map(|to| ("email.to", to.as_str()))) {
        if !is_address(address) {
            let hint = Some("for example ops@shop.example, without a name");
            return Err(invalid(field, format!("`{}` is not an address", shortened(address)), hint));
        }
    }
    Ok(())
}

/// What can stand between the angle brackets of a mail's envelope (RFC 5321, 4.1.2), without quoted parts.
fn is_address(text: &str) -> bool {
    let is_plain = |part: &str| {
        !part.is_empty() && part.chars().all(|c| !c.is_control() && !c.is_whitespace() && !"<>()[],;:\\\"@".contains(c))
    };
    text.len() <= 254 && text.rsplit_once('@').is_some_and(|(local, host)| is_plain(local) && is_plain(host))
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

impl Rule {
    /// A rule with the defaults of everything but its channel.
    #[must_use]
    pub fn new(channel: Channel) -> Rule {
        Rule {
            channel,
            when: BTreeSet::new(),
            late_ms: None,
            running_ms: None,
            no_success_ms: None,
            repeat_ms: REPEAT_MS.1,
            per_minute: PER_MINUTE.1,
            language: Language::En,
            text: None,
        }
    }

    /// Whether it hears of an event.
    #[must_use]
    pub fn hears(&self, event: Event) -> bool {
        match event {
            Event::Failed | Event::Lost | Event::Missed | Event::NoWorker => self.when.contains(&event),
            Event::Late => self.late_ms.is_some(),
            Event::Running => self.running_ms.is_some(),
            Event::NoSuccess => self.no_success_ms.is_some(),
        }
    }

    /// Checks every field.
    pub fn check(&self) -> Result<(), Invalid> {
        self.channel.check()?;
        if let Some(event) = self.when.iter().find(|event| !event.is_named()) {
            let hint = format!("write a bound of its own instead, as in {}: 5m", event.word());
            return Err(invalid("when", format!("`{}` needs a bound", event.word()), Some(&hint)));
        }
        let bounds = [("late", self.late_ms), ("running", self.running_ms), ("no_success", self.no_success_ms)];
        if self.when.is_empty() && bounds.iter().all(|(_, bound)| bound.is_none()) {
            let hint = Some("name events, as in when: [failed, lost], or a bound, as in late: 5m");
            return Err(invalid("when", "it hears of nothing".to_owned(), hint));
        }
        for (field, bound) in bounds {
            if bound.is_some_and(|ms| !(1_000..=limits::DURATION_MAX_MS).contains(&ms)) {
                return Err(invalid(field, "it is not between a second and 366 days".to_owned(), None));
            }
        }
        if !(REPEAT_MS.0..=limits::DURATION_MAX_MS).contains(&self.repeat_ms) {
            return Err(invalid("repeat", "it is not between a minute and 366 days".to_owned(), None));
        }
        if self.per_minute == 0 || self.per_minute > PER_MINUTE.0 {
            return Err(invalid("per_minute", format!("{} is outside 1 to {}", self.per_minute, PER_MINUTE.0), None));
        }
        match &self.text {
            Some(text) if text.len() > TEXT_BYTES_MAX => {
                Err(invalid("text", format!("it is longer than {TEXT_BYTES_MAX} bytes"), None))
            }
            Some(text) => text::check(text),
            None => Ok(()),
        }
    }
}

/// A text with its secrets filled in; none if one of them is not set, or if it cannot be read.
#[must_use]
pub fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let Some(template) = Template::parse(text).ok()? else { return Some(text.to_owned()) };
    let mut filled = template.to_string();
    for name in template.secrets() {
        filled = filled.replace(&format!("{{{{secret.{name}}}}}"), &value(name)?);
    }
    Some(filled)
}

pub(super) fn invalid(field: &'static str, message: String, hint: Option<&str>) -> Invalid {
    Invalid { field, message, hint: hint.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(channel: Channel) -> Rule {
        Rule { when: BTreeSet::from([Event::Failed]), ..Rule::new(channel) }
    }

    fn webhook(url: &str) -> Channel {
        Channel::Webhook { url: url.to_owned(), bearer: None }
    }

    fn mail(change: impl FnOnce(&mut String, &mut Vec<String>, &mut Option<String>, &mut Encryption)) -> Channel {
        let (mut server, mut to, mut user) = ("smtp.example:587".to_owned(), vec!["a@b.example".to_owned()], None);
        let mut encryption = Encryption::Starttls;
        change(&mut server, &mut to, &mut user, &mut encryption);
        let password = user.as_ref().map(|_| "{{secret.P}}".to_owned());
        Channel::Email { server, encryption, from: "rota@b.example".to_owned(), to, user, password }
    }

    #[test]
    fn what_is_wrong_is_named_by_its_field() {
        let good = rule(webhook("http://a/"));
        let field = |rule: &Rule| rule.check().err().map(|error| error.field);
        assert_eq!(field(&good), None);
        assert_eq!(field(&rule(webhook("{{secret.URL}}"))), None);
        assert_eq!(field(&rule(webhook("http://a/{{slot}}"))), Some("webhook"));
        assert_eq!(field(&rule(webhook("http://a/{{secret.A|base64}}"))), Some("webhook"));
        assert_eq!(field(&rule(Channel::Slack { url: "https://hooks.example/T/secret".to_owned() })), Some("slack"));
        let feishu = |sign: &str| Channel::Feishu { url: "{{secret.U}}".to_owned(), sign: Some(sign.to_owned()) };
        assert_eq!(field(&rule(feishu("plain"))), Some("sign"));
        assert_eq!(field(&rule(feishu("{{secret.S}}"))), None);
        assert_eq!(field(&Rule::new(webhook("http://a/"))), Some("when"));
        assert_eq!(field(&Rule { when: BTreeSet::from([Event::Late]), ..good.clone() }), Some("when"));
        assert_eq!(field(&Rule { late_ms: Some(10), ..good.clone() }), Some("late"));
        assert_eq!(field(&Rule { repeat_ms: 10, ..good.clone() }), Some("repeat"));
        assert_eq!(field(&Rule { per_minute: 0, ..good.clone() }), Some("per_minute"));
        assert_eq!(field(&Rule { text: Some("{{jbo}}".to_owned()), ..good }), Some("text"));
        assert_eq!(field(&rule(mail(|_, _, _, _| {}))), None);
        assert_eq!(field(&rule(mail(|server, _, _, _| *server = "smtp.example".to_owned()))), Some("email.server"));
        assert_eq!(field(&rule(mail(|_, to, _, _| to.clear()))), Some("email.to"));
        assert_eq!(field(&rule(mail(|_, to, _, _| to.push("a@b>\r\nRCPT".to_owned())))), Some("email.to"));
        let plain = mail(|_, _, user, encryption| (*user, *encryption) = (Some("u".to_owned()), Encryption::None));
        assert_eq!(field(&rule(plain)), Some("email.encryption"));
    }

    #[test]
    fn secrets_are_filled_in() {
        let value = |name: &str| (name == "A").then(|| "x y".to_owned());
        assert_eq!(fill("http://h/{{ secret.A }}/b", value).as_deref(), Some("http://h/x y/b"));
        assert_eq!(fill("{{secret.B}}", value), None);
        assert_eq!(fill("plain", value).as_deref(), Some("plain"));
        assert_eq!(webhook("http://{{secret.A}}/{{secret.B}}").secrets().len(), 2);
    }

    #[test]
    fn rules_read_back() {
        let rule = rule(mail(|_, _, user, _| *user = Some("u".to_owned())));
        let text = serde_json::to_string(&rule).unwrap();
        assert_eq!(serde_json::from_str::<Rule>(&text).unwrap(), rule);
    }
}
