//! Alerts: rules that tell people what is the matter with jobs, and what they have told.

use serde::{Deserialize, Serialize};

/// A rule: one channel, and what it hears of. Whatever of it is secret is the name of a secret, as in
/// `{{secret.NAME}}`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AlertSpec {
    /// A URL that gets a POST of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub webhook: Option<String>,
    /// `Authorization: Bearer …` of the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub bearer: Option<String>,
    /// The webhook of a robot of DingTalk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub dingtalk: Option<String>,
    /// The webhook of a robot of WeCom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub wecom: Option<String>,
    /// The webhook of a robot of Feishu, or Lark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub feishu: Option<String>,
    /// An incoming webhook of Slack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub slack: Option<String>,
    /// What a robot of DingTalk or Feishu signs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub sign: Option<String>,
    /// Mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<AlertEmail>,
    /// Some of `failed`, `lost`, `missed`, `no_worker`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<String>,
    /// A duration: a start, or a slot that waits, is later than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub late: Option<String>,
    /// A duration: a run goes on for longer than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub running: Option<String>,
    /// A duration: there was no success for longer than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub no_success: Option<String>,
    /// A duration: what goes on is told again no more often than that; four hours if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub repeat: Option<String>,
    /// Messages within a minute; what is more comes in a digest. 20 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 600))]
    pub per_minute: Option<u32>,
    /// `en` or `zh`; English if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^(en|zh)$"))]
    pub language: Option<String>,
    /// A text that replaces ours, with `{{job}}`, `{{event}}`, `{{why}}` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 4096))]
    pub text: Option<String>,
}

/// A channel of mail.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AlertEmail {
    /// The SMTP server, as `host:port`.
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub server: String,
    /// `starttls`, `tls` or `none`; `starttls` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(pattern = "^(starttls|tls|none)$"))]
    pub encryption: Option<String>,
    /// Whom it is from: an address.
    #[cfg_attr(feature = "schema", schema(min_length = 3))]
    pub from: String,
    /// Whom it is for: addresses.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 50))]
    pub to: Vec<String>,
    /// Whom to log in as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub user: Option<String>,
    /// With which password: the name of a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub password: Option<String>,
}

/// A rule as it is kept, and how it fares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Alert {
    /// Its name in its namespace.
    pub name: String,
    /// What was written.
    pub spec: AlertSpec,
    /// When it was set.
    pub at: String,
    /// Who set it.
    pub by: String,
    /// Jobs that name it.
    pub used_by: Vec<String>,
    /// Alarms that are open.
    pub open: u64,
    /// Messages that wait to be delivered.
    pub waiting: u64,
    /// Messages that could not be delivered within a day, and were given up.
    pub undelivered: u64,
    /// Why a delivery failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What should be known, though it is no mistake: a secret that is named and not set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A rule was removed, with its alarms and messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AlertRemoved {
    /// Its name.
    pub name: String,
    /// Jobs that still name it, and that nobody hears of by it any more.
    pub used_by: Vec<String>,
}

/// A channel took a test message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AlertTested {
    /// The rule.
    pub name: String,
    /// Its channel.
    pub channel: String,
}

/// What is, or was, the matter with a job, for one rule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Alarm {
    /// The rule.
    pub alert: String,
    /// The job's name.
    pub job: String,
    /// What is the matter.
    #[cfg_attr(feature = "schema", schema(pattern = "^(failed|lost|missed|no_worker|late|running|no_success)$"))]
    pub event: String,
    /// Whether it is open.
    pub is_open: bool,
    /// Since when it is, or was.
    pub since: String,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// When the channel was last told that it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<String>,
    /// Occurrences that the channel has not been told of yet.
    pub untold: u64,
    /// Who cares for it; it is not repeated then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_by: Option<String>,
    /// The run that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Which alarm somebody cares for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AlarmAck {
    /// The rule.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub alert: String,
    /// A job's name or id.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub job: String,
    /// What is the matter.
    #[cfg_attr(feature = "schema", schema(pattern = "^(failed|lost|missed|no_worker|late|running|no_success)$"))]
    pub event: String,
}
