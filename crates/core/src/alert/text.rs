//! What a message says, in English and in Chinese.

use super::{Event, Facts, Kind, Language, Notice};
use crate::job::Invalid;
use crate::why::Why;

/// The names of what a notice is about, for people.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    /// The namespace.
    pub namespace: String,
    /// The rule.
    pub alert: String,
    /// The app.
    pub app: String,
    /// The job.
    pub job: String,
    /// The jobs of a digest that are listed, with their events, in its order.
    pub others: Vec<String>,
    /// The slot, with its offset.
    pub slot: String,
    /// Since when it is, or was, open.
    pub since: String,
    /// What the run's handler said.
    pub message: String,
}

/// A message: a line to see first, and the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    /// One line.
    pub title: String,
    /// Several.
    pub body: String,
}

/// What a template may name.
const FIELDS: &[&str] = &[
    "kind",
    "event",
    "alert",
    "namespace",
    "app",
    "job",
    "run",
    "slot",
    "state",
    "why",
    "message",
    "since",
    "count",
    "title",
    "text",
];

/// Checks a template of a message.
pub(super) fn check(template: &str) -> Result<(), Invalid> {
    for part in template.split("{{").skip(1) {
        let name = part.split_once("}}").map(|(name, _)| name.trim());
        if name.is_none_or(|name| !FIELDS.contains(&name)) {
            let shown: String = name.unwrap_or(part).chars().take(60).collect();
            let hint = format!("known are {}", FIELDS.join(", "));
            return Err(Invalid {
                field: "text",
                message: format!("`{shown}` is no part of a message"),
                hint: Some(hint),
            });
        }
    }
    Ok(())
}

/// The message of a notice.
#[must_use]
pub fn write(notice: &Notice, names: &Names, language: Language, template: Option<&str>) -> Text {
    let ours = match language {
        Language::En => english(notice, names),
        Language::Zh => chinese(notice, names),
    };
    let Some(template) = template else { return ours };
    let mut body = String::new();
    let mut parts = template.split("{{");
    body.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        body.push_str(&field(name.trim(), notice, names, &ours));
        body.push_str(rest);
    }
    Text { title: ours.title, body }
}

fn field(name: &str, notice: &Notice, names: &Names, ours: &Text) -> String {
    let facts = &notice.facts;
    match name {
        "kind" => notice.kind.word().to_owned(),
        "event" => notice.key.event.word().to_owned(),
        "alert" => names.alert.clone(),
        "namespace" => names.namespace.clone(),
        "app" => names.app.clone(),
        "job" => names.job.clone(),
        "run" => facts.run.map(|run| run.to_string()).unwrap_or_default(),
        "slot" => names.slot.clone(),
        "state" => facts.state.clone().unwrap_or_default(),
        "why" => facts.why.clone().unwrap_or_default(),
        "message" => names.message.clone(),
        "since" => names.since.clone(),
        "count" => notice.count.to_string(),
        "title" => ours.title.clone(),
        "text" => ours.body.clone(),
        // Templates are checked before they are kept.
        _ => String::new(),
    }
}

fn english(notice: &Notice, names: &Names) -> Text {
    let what = match notice.key.event {
        Event::Failed => "failed",
        Event::Lost => "was lost",
        Event::Missed => "missed its slots",
        Event::NoWorker => "has no worker",
        Event::Late => "is late",
        Event::Running => "runs too long",
        Event::NoSuccess => "has had no success for too long",
    };
    let job = &names.job;
    let title = match notice.kind {
        Kind::Opened => format!("{job} {what}"),
        Kind::Again => format!("{job} still {what}"),
        Kind::Resolved => format!("resolved: {job} {what}"),
        Kind::Passed => format!("passed: {job} {what}, and is well again"),
        Kind::Test => format!("a test of {}", names.alert),
    };
    let mut lines = Lines::default();
    if notice.kind == Kind::Test {
        lines.add("alert", &names.alert);
        lines.0.push_str("Somebody tries this channel. Nothing is the matter.\n");
        return Text { title: prefixed(&title), body: lines.0 };
    }
    lines.add("job", &format!("{}/{job} of app {}", names.namespace, names.app));
    lines.facts(&notice.facts, names, ["run", "slot", "state", "why", "late, or lasts", "slots", "message"], Why::text);
    lines.add("since", &names.since);
    if notice.count > 1 {
        lines.add("times", &notice.count.to_string());
    }
    if notice.others_count > 0 {
        lines.add("and more", &format!("{} others, held back to keep to the channel's limit", notice.others_count));
        lines.others(names, notice.others_count, "and others");
    }
    lines.add("alert", &names.alert);
    Text { title: prefixed(&title), body: lines.0 }
}

fn chinese(notice: &Notice, names: &Names) -> Text {
    let what = match notice.key.event {
        Event::Failed => "执行失败",
        Event::Lost => "执行丢失",
        Event::Missed => "错过了调度",
        Event::NoWorker => "没有可用的执行器",
        Event::Late => "启动延迟",
        Event::Running => "运行时间过长",
        Event::NoSuccess => "长时间没有成功",
    };
    let job = &names.job;
    let title = match notice.kind {
        Kind::Opened => format!("任务 {job} {what}"),
        Kind::Again => format!("任务 {job} 仍然{what}"),
        Kind::Resolved => format!("已恢复：任务 {job} {what}"),
        Kind::Passed => format!("曾发生并已恢复：任务 {job} {what}"),
        Kind::Test => format!("告警 {} 测试", names.alert),
    };
    let mut lines = Lines::default();
    if notice.kind == Kind::Test {
        lines.add("告警", &names.alert);
        lines.0.push_str("这是一条测试消息，一切正常。\n");
        return Text { title: prefixed(&title), body: lines.0 };
    }
    lines.add("任务", &format!("{}/{job}（应用 {}）", names.namespace, names.app));
    let labels = ["运行", "计划时间", "状态", "原因", "延迟或持续", "次数", "消息"];
    lines.facts(&notice.facts, names, labels, |why| why.word());
    lines.add("开始于", &names.since);
    if notice.count > 1 {
        lines.add("发生次数", &notice.count.to_string());
    }
    if notice.others_count > 0 {
        lines.add("合并", &format!("另有 {} 条，因频率限制合并发送", notice.others_count));
        lines.others(names, notice.others_count, "等");
    }
    lines.add("告警", &names.alert);
    Text { title: prefixed(&title), body: lines.0 }
}

fn prefixed(title: &str) -> String {
    format!("[Rota] {title}")
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, label: &str, value: &str) {
        if !value.is_empty() {
            self.0.push_str(label);
            self.0.push_str(": ");
            self.0.push_str(value);
            self.0.push('\n');
        }
    }

    fn facts(&mut self, facts: &Facts, names: &Names, labels: [&str; 7], why: impl Fn(Why) -> &'static str) {
        let [run, slot, state, reason, lasts, slots, message] = labels;
        self.add(run, &facts.run.map(|run| run.to_string()).unwrap_or_default());
        self.add(slot, &names.slot);
        self.add(state, facts.state.as_deref().unwrap_or_default());
        if let Some(word) = &facts.why {
            let text = Why::parse(word).map(why).filter(|text| text != word);
            self.add(reason, &text.map_or_else(|| word.clone(), |text| format!("{word}: {text}")));
        }
        self.add(lasts, &facts.ms.map(duration).unwrap_or_default());
        self.add(slots, &facts.slots.filter(|slots| *slots > 1).map(|slots| slots.to_string()).unwrap_or_default());
        self.add(message, &names.message);
    }

    fn others(&mut self, names: &Names, count: u64, more: &str) {
        for other in &names.others {
            self.0.push_str("  ");
            self.0.push_str(other);
            self.0.push('\n');
        }
        if count > names.others.len() as u64 {
            self.0.push_str("  ");
            self.0.push_str(more);
            self.0.push('\n');
        }
    }
}

fn duration(ms: u64) -> String {
    match ms / 1_000 {
        0 => format!("{ms} ms"),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::{AlertId, Key};
    use crate::id::{JobId, RunId};

    fn notice(kind: Kind) -> Notice {
        let facts = Facts {
            run: Some(RunId(1)),
            slot: Some(0),
            state: Some("failed".to_owned()),
            why: Some("handler_failed".to_owned()),
            ..Facts::default()
        };
        let key = Key { alert: AlertId(1), job: JobId(1), event: Event::Failed };
        Notice { kind, key, facts, since: 0, count: 3, others: Vec::new(), others_count: 0 }
    }

    fn names() -> Names {
        Names {
            namespace: "shop".to_owned(),
            alert: "oncall".to_owned(),
            app: "pay".to_owned(),
            job: "settle".to_owned(),
            others: Vec::new(),
            slot: "2026-12-01 02:00:00 +08:00".to_owned(),
            since: "2026-12-01 02:09:12 +08:00".to_owned(),
            message: "500 \"period closed\"".to_owned(),
        }
    }

    #[test]
    fn messages_say_what_when_and_why() {
        let text = write(&notice(Kind::Opened), &names(), Language::En, None);
        assert_eq!(text.title, "[Rota] settle failed");
        let expected = "\
job: shop/settle of app pay
run: r1
slot: 2026-12-01 02:00:00 +08:00
state: failed
why: handler_failed: the handler reported a failure
message: 500 \"period closed\"
since: 2026-12-01 02:09:12 +08:00
times: 3
alert: oncall
";
        assert_eq!(text.body, expected);
        let text = write(&notice(Kind::Resolved), &names(), Language::Zh, None);
        assert_eq!(text.title, "[Rota] 已恢复：任务 settle 执行失败");
        assert!(text.body.contains("任务: shop/settle（应用 pay）\n"), "{}", text.body);
        assert!(text.body.contains("原因: handler_failed\n"), "{}", text.body);
    }

    #[test]
    fn a_digest_names_the_others() {
        let mut notice = notice(Kind::Opened);
        notice.others_count = 30;
        let names = Names { others: vec!["ping failed".to_owned()], ..names() };
        let text = write(&notice, &names, Language::En, None);
        assert!(text.body.contains("and more: 30 others, held back"), "{}", text.body);
        assert!(text.body.contains("  ping failed\n  and others\n"), "{}", text.body);
    }

    #[test]
    fn a_template_replaces_ours() {
        let text = write(&notice(Kind::Again), &names(), Language::En, Some("{{job}} is {{ kind }}: {{why}} ({{x}}"));
        assert_eq!(text.body, "settle is again: handler_failed (");
        assert!(check("{{job}} {{ title }}").is_ok());
        assert!(check("{{job").is_err());
        assert!(check("{{secret.A}}").is_err());
    }
}
