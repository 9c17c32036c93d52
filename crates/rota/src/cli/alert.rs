//! `rota alert`.

use rota_wire::rest::{Alarm, AlarmAck, Alert, AlertEmail, AlertRemoved, AlertSpec, AlertTested, Page};
use serde_json::Value;

use super::client::{Client, Path};
use super::out::Out;
use super::shown;
use super::table::{Table, one_line};
use crate::args::{AlertCommand, AlertFields};
use crate::exit::Failure;

pub(crate) async fn run(client: &Client, out: Out, command: AlertCommand) -> Result<(), Failure> {
    match command {
        AlertCommand::Set { name, fields } => {
            let set: Alert = client.put(Path::of(&["alerts", &name]), &spec(*fields)).await?;
            out.show(&set, say_set)
        }
        AlertCommand::List => {
            let page: Page<Alert> = client.get(Path::of(&["alerts"])).await?;
            out.show(&page, |page| list(&page.items))
        }
        AlertCommand::Show { name } => {
            let alert: Alert = client.get(Path::of(&["alerts", &name])).await?;
            out.show(&alert, show)
        }
        AlertCommand::Test { name } => {
            let path = Path::of(&["alerts", &name, "test"]);
            let tested: AlertTested = client.post(path, &serde_json::json!({})).await?;
            out.show(&tested, |tested| format!("{} has taken a test message ({})\n", tested.name, tested.channel))
        }
        AlertCommand::Open => {
            let page: Page<Alarm> = client.get(Path::of(&["alarms"])).await?;
            out.show(&page, |page| alarms(&page.items))
        }
        AlertCommand::Ack { name, job, event } => {
            let ack = AlarmAck { alert: name, job, event };
            let acked: AlarmAck = client.post(Path::of(&["alarms", "acknowledge"]), &ack).await?;
            out.show(&acked, |ack| format!("{} of {} is not repeated while it is open\n", ack.event, ack.job))
        }
        AlertCommand::Rm { name, force } => {
            let path = Path::of(&["alerts", &name]).with("force", force.then_some("true"));
            let removed: AlertRemoved = client.delete(path).await?;
            out.show(&removed, |removed| format!("{} is removed\n", removed.name))
        }
    }
}

fn spec(fields: AlertFields) -> AlertSpec {
    let email = fields.mail_server.map(|server| AlertEmail {
        server,
        encryption: fields.mail_encryption,
        from: fields.mail_from.unwrap_or_default(),
        to: fields.mail_to,
        user: fields.mail_user,
        password: fields.mail_password,
    });
    AlertSpec {
        webhook: fields.webhook,
        bearer: fields.bearer,
        dingtalk: fields.dingtalk,
        wecom: fields.wecom,
        feishu: fields.feishu,
        slack: fields.slack,
        sign: fields.sign,
        email,
        when: fields.when,
        late: fields.late,
        running: fields.running,
        no_success: fields.no_success,
        repeat: fields.repeat,
        per_minute: fields.per_minute,
        language: fields.language,
        text: fields.text,
    }
}

fn say_set(alert: &Alert) -> String {
    let notes: String = alert.warnings.iter().map(|warning| format!("note  {}\n", one_line(warning))).collect();
    let used = match &alert.used_by[..] {
        [] => format!("no job names it yet: rota job edit JOB --alert {}", alert.name),
        jobs => format!("named by {}", jobs.join(", ")),
    };
    format!("{} is set; {used}\n{notes}try   rota alert test {}\n", alert.name, alert.name)
}

/// What the rule hears of.
fn hears(spec: &AlertSpec) -> String {
    let bounds = [("late", &spec.late), ("running", &spec.running), ("no_success", &spec.no_success)];
    let bounds = bounds.into_iter().filter_map(|(word, bound)| Some(format!("{word} {}", bound.as_ref()?)));
    spec.when.iter().cloned().chain(bounds).collect::<Vec<_>>().join(", ")
}

fn channel(spec: &AlertSpec) -> (&'static str, String) {
    let urls = [
        ("webhook", &spec.webhook),
        ("dingtalk", &spec.dingtalk),
        ("wecom", &spec.wecom),
        ("feishu", &spec.feishu),
        ("slack", &spec.slack),
    ];
    let of_url = urls.into_iter().find_map(|(word, url)| Some((word, url.clone()?)));
    of_url.unwrap_or_else(|| ("email", spec.email.as_ref().map(|mail| mail.to.join(", ")).unwrap_or_default()))
}

fn list(alerts: &[Alert]) -> String {
    let mut table = Table::new(&["ALERT", "CHANNEL", "HEARS OF", "OPEN", "WAITING", "LOST", "NAMED BY"]);
    for alert in alerts {
        table.row([
            alert.name.clone(),
            channel(&alert.spec).0.to_owned(),
            hears(&alert.spec),
            alert.open.to_string(),
            alert.waiting.to_string(),
            alert.undelivered.to_string(),
            alert.used_by.join(", "),
        ]);
    }
    table.text()
}

fn show(alert: &Alert) -> String {
    let (word, to) = channel(&alert.spec);
    let Ok(Value::Object(keys)) = serde_json::to_value(&alert.spec) else { unreachable!("a rule is a map") };
    let mut text = format!("{}  {word} {}\n", alert.name, one_line(&to));
    let mut add = |about: &str, fact: &str| {
        if !fact.is_empty() {
            text.push_str(&format!("{about:<11} {}\n", one_line(fact)));
        }
    };
    add("hears of", &hears(&alert.spec));
    for key in ["repeat", "per_minute", "language", "text"] {
        let value = keys.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        add(key, &value.unwrap_or_default());
    }
    add("named by", &alert.used_by.join(", "));
    add("open", &alert.open.to_string());
    add("waiting", &alert.waiting.to_string());
    add("lost", &alert.undelivered.to_string());
    add("last error", alert.last_error.as_deref().unwrap_or_default());
    add("changed", &format!("{} by {}", shown::time(&alert.at), alert.by));
    for warning in &alert.warnings {
        add("note", warning);
    }
    text
}

fn alarms(alarms: &[Alarm]) -> String {
    let mut table = Table::new(&["ALERT", "JOB", "EVENT", "STATE", "SINCE", "RUN", "WHY", "ACKED BY"]);
    for alarm in alarms {
        let state = if alarm.is_open { "open" } else { "over" };
        let or_none = |text: &Option<String>| text.clone().unwrap_or_default();
        table.row([
            alarm.alert.clone(),
            alarm.job.clone(),
            alarm.event.clone(),
            state.to_owned(),
            shown::time(&alarm.since),
            or_none(&alarm.run),
            or_none(&alarm.why),
            or_none(&alarm.acked_by),
        ]);
    }
    table.text()
}
