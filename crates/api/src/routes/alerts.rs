//! Alert rules, and their alarms.

use rota_wire::rest;
use serde_json::json;

use crate::alerts;
use crate::code::Code;
use crate::endpoint::{Arg, Endpoint, Opens, Shape, body, delete, get, page, post, put};

const FORCE: Arg = Arg::new("force", Shape::Word(&["true", "false"]), "`true` removes it even if a job names it");

pub(super) fn entries() -> Vec<Endpoint> {
    vec![
        get("list_alerts", "/alerts", alerts::list)
            .says("Lists the alert rules of a namespace, with the jobs that name them and how their channels fare.")
            .opens(Opens::Readers)
            .answers(200, "the rules", page::<rest::Alert>()),
        get("get_alert", "/alerts/{name}", alerts::get)
            .says("Shows an alert rule.")
            .opens(Opens::Readers)
            .refuses(&[Code::AlertUnknown])
            .answers(200, "the rule", body::<rest::Alert>()),
        put("put_alert", "/alerts/{name}", alerts::put)
            .says("Sets an alert rule. Jobs that name it are heard of by it from then on.")
            .opens(Opens::Admins)
            .takes::<rest::AlertSpec>(
                json!({"feishu": "{{secret.FEISHU_URL}}", "when": ["failed", "lost"], "late": "5m"}),
            )
            .answers(200, "the rule", body::<rest::Alert>()),
        delete("delete_alert", "/alerts/{name}", alerts::delete)
            .says("Removes an alert rule with its alarms, unless a job names it.")
            .opens(Opens::Admins)
            .args(&[FORCE])
            .refuses(&[Code::AlertUnknown, Code::AlertInUse])
            .answers(200, "the rule is removed", body::<rest::AlertRemoved>()),
        post("test_alert", "/alerts/{name}/test", alerts::test)
            .says("Sends a message that says that it is a test, and waits until the channel has taken it.")
            .opens(Opens::Admins)
            .refuses(&[Code::AlertUnknown, Code::NotDelivered])
            .answers(200, "the channel has taken it", body::<rest::AlertTested>()),
        get("list_alarms", "/alarms", alerts::alarms)
            .says("Lists what is the matter with jobs: open alarms first, then those that were over lately.")
            .opens(Opens::Readers)
            .answers(200, "the alarms", page::<rest::Alarm>()),
        post("acknowledge_alarm", "/alarms/acknowledge", alerts::acknowledge)
            .says("Says that somebody cares for an alarm: it is not repeated while it is open.")
            .opens(Opens::Admins)
            .takes::<rest::AlarmAck>(json!({"alert": "oncall", "job": "settle", "event": "failed"}))
            .refuses(&[Code::AlertUnknown, Code::JobUnknown, Code::AlarmUnknown])
            .answers(200, "it is not repeated", body::<rest::AlarmAck>()),
    ]
}
