//! An alert rule as users write it, to and from what the core keeps.

use std::collections::BTreeSet;

use rota_core::alert::{Channel, Encryption, Event, Language, Rule};
use rota_wire::error::Error;
use rota_wire::rest;

use crate::duration;
use crate::nearest::did_you_mean;
use crate::refusal::Refusal;
use crate::spec::{word, word_of};

const ENCRYPTIONS: [(&str, Encryption); 3] =
    [("starttls", Encryption::Starttls), ("tls", Encryption::Tls), ("none", Encryption::None)];
const LANGUAGES: [(&str, Language); 2] = [("en", Language::En), ("zh", Language::Zh)];

/// Reads what a user wrote, and checks it.
pub(crate) fn read(spec: &rest::AlertSpec) -> Result<Rule, Refusal> {
    let duration = |field: &str, text: &Option<String>| text.as_deref().map(|t| duration::parse(field, t)).transpose();
    let mut rule = Rule::new(channel(spec)?);
    rule.when = spec.when.iter().map(|word| event(word)).collect::<Result<BTreeSet<Event>, Refusal>>()?;
    rule.late_ms = duration("late", &spec.late)?;
    rule.running_ms = duration("running", &spec.running)?;
    rule.no_success_ms = duration("no_success", &spec.no_success)?;
    if let Some(ms) = duration("repeat", &spec.repeat)? {
        rule.repeat_ms = ms;
    }
    if let Some(count) = spec.per_minute {
        rule.per_minute = count;
    }
    rule.language = word("language", spec.language.as_deref(), &LANGUAGES)?.unwrap_or_default();
    rule.text = spec.text.clone();
    rule.check()?;
    Ok(rule)
}

/// An event by its word.
pub(crate) fn event(text: &str) -> Result<Event, Refusal> {
    Event::parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        let words: Vec<&str> = Event::ALL.iter().map(|event| event.word()).collect();
        let hint = did_you_mean(&shown, words.iter().copied()).unwrap_or(format!("known are {}", words.join(", ")));
        Refusal::invalid("when", format!("`{shown}` is no event")).hint(hint)
    })
}

fn channel(spec: &rest::AlertSpec) -> Result<Channel, Refusal> {
    let urls = [
        ("webhook", &spec.webhook),
        ("dingtalk", &spec.dingtalk),
        ("wecom", &spec.wecom),
        ("feishu", &spec.feishu),
        ("slack", &spec.slack),
    ];
    let given: Vec<(&str, &String)> = urls.iter().filter_map(|(word, url)| Some((*word, url.as_ref()?))).collect();
    let misplaced = |field: &str, of: &str| Err(Refusal::invalid(field, format!("this belongs to {of}")));
    let channel = match (&given[..], &spec.email) {
        ([(word, url)], None) => {
            let (url, sign) = ((*url).clone(), spec.sign.clone());
            match *word {
                "webhook" => Channel::Webhook { url, bearer: spec.bearer.clone() },
                "dingtalk" => Channel::Dingtalk { url, sign },
                "wecom" => Channel::Wecom { url },
                "feishu" => Channel::Feishu { url, sign },
                _ => Channel::Slack { url },
            }
        }
        ([], Some(mail)) => Channel::Email {
            server: mail.server.clone(),
            encryption: word("email.encryption", mail.encryption.as_deref(), &ENCRYPTIONS)?.unwrap_or_default(),
            from: mail.from.clone(),
            to: mail.to.clone(),
            user: mail.user.clone(),
            password: mail.password.clone(),
        },
        (_, _) => {
            return Err(Refusal::invalid("webhook", "an alert has one channel").hint(
                "give one of webhook, dingtalk, wecom, feishu, slack and email; make another alert for another",
            ));
        }
    };
    if spec.sign.is_some() && !matches!(channel, Channel::Dingtalk { .. } | Channel::Feishu { .. }) {
        return misplaced("sign", "dingtalk and feishu");
    }
    if spec.bearer.is_some() && !matches!(channel, Channel::Webhook { .. }) {
        return misplaced("bearer", "webhook");
    }
    Ok(channel)
}

/// Writes a rule as a user would: what has its default is left out.
pub(crate) fn write(rule: &Rule) -> rest::AlertSpec {
    let default = Rule::new(rule.channel.clone());
    let mut spec = rest::AlertSpec {
        when: rule.when.iter().map(|event| event.word().to_owned()).collect(),
        late: rule.late_ms.map(duration::print),
        running: rule.running_ms.map(duration::print),
        no_success: rule.no_success_ms.map(duration::print),
        repeat: (rule.repeat_ms != default.repeat_ms).then(|| duration::print(rule.repeat_ms)),
        per_minute: (rule.per_minute != default.per_minute).then_some(rule.per_minute),
        language: (rule.language != Language::En).then(|| word_of(&LANGUAGES, rule.language)),
        text: rule.text.clone(),
        ..rest::AlertSpec::default()
    };
    match rule.channel.clone() {
        Channel::Webhook { url, bearer } => (spec.webhook, spec.bearer) = (Some(url), bearer),
        Channel::Dingtalk { url, sign } => (spec.dingtalk, spec.sign) = (Some(url), sign),
        Channel::Wecom { url } => spec.wecom = Some(url),
        Channel::Feishu { url, sign } => (spec.feishu, spec.sign) = (Some(url), sign),
        Channel::Slack { url } => spec.slack = Some(url),
        Channel::Email { server, encryption, from, to, user, password } => {
            let encryption = (encryption != Encryption::Starttls).then(|| word_of(&ENCRYPTIONS, encryption));
            spec.email = Some(rest::AlertEmail { server, encryption, from, to, user, password });
        }
    }
    spec
}

/// A rule as a server would show it once it were set; what is wrong with it, if something is. Without a server, so
/// that a job file can be planned.
pub fn canonical_alert(spec: &rest::AlertSpec) -> Result<rest::AlertSpec, Error> {
    read(spec).map(|rule| write(&rule)).map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: serde_json::Value) -> rest::AlertSpec {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn rules_are_written_as_they_were_read() {
        for json in [
            serde_json::json!({"feishu": "{{secret.U}}", "sign": "{{secret.S}}", "when": ["failed", "lost"], "late": "5m"}),
            serde_json::json!({"webhook": "http://a/", "no_success": "1d", "repeat": "1h", "per_minute": 5}),
            serde_json::json!({"slack": "{{secret.U}}", "when": ["missed"], "language": "zh", "text": "{{job}}"}),
            serde_json::json!({"email": {"server": "smtp.example:465", "encryption": "tls", "from": "a@b", "to": ["c@d"]},
                "running": "90m"}),
        ] {
            let read = spec(json.clone());
            assert_eq!(serde_json::to_value(canonical_alert(&read).unwrap()).unwrap(), json);
        }
    }

    #[test]
    fn mistakes_name_their_field() {
        let field = |json| canonical_alert(&spec(json)).unwrap_err().field;
        let check = |json, expected: &str| assert_eq!(field(json).as_deref(), Some(expected));
        check(serde_json::json!({"when": ["failed"]}), "webhook");
        check(serde_json::json!({"webhook": "http://a/", "wecom": "{{secret.A}}", "when": ["failed"]}), "webhook");
        check(serde_json::json!({"webhook": "http://a/", "sign": "{{secret.A}}", "when": ["failed"]}), "sign");
        check(serde_json::json!({"webhook": "http://a/", "when": ["faild"]}), "when");
        check(serde_json::json!({"webhook": "http://a/", "late": "5"}), "late");
        check(serde_json::json!({"slack": "https://hooks.example/T/B", "when": ["failed"]}), "slack");
    }
}
