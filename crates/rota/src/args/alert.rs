//! `rota alert`.

use clap::{ArgGroup, Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum AlertCommand {
    /// Set an alert: one channel, and what it hears of; jobs name it with --alert
    Set {
        name: String,
        #[command(flatten)]
        fields: Box<AlertFields>,
    },
    /// List alerts, and how their channels fare
    List,
    /// Show an alert
    Show { name: String },
    /// Send a message that says that it is a test
    Test { name: String },
    /// List what is the matter with jobs
    Open,
    /// Say that somebody cares: it is not repeated while it is open
    Ack {
        /// The alert
        name: String,
        /// The job's name or id
        job: String,
        /// What is the matter
        #[arg(value_parser = ["failed", "lost", "missed", "no_worker", "late", "running", "no_success"])]
        event: String,
    },
    /// Remove an alert
    Rm {
        name: String,
        /// Even if a job names it
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Clone, Default, Args)]
#[command(group = ArgGroup::new("channel").required(true)
    .args(["webhook", "dingtalk", "wecom", "feishu", "slack", "mail_server"]))]
pub(crate) struct AlertFields {
    /// A URL that gets a POST of JSON
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// A bearer token of the webhook, as in {{secret.HOOK}}
    #[arg(long, requires = "webhook", value_name = "SECRET")]
    pub(crate) bearer: Option<String>,
    /// The webhook of a robot of DingTalk, as in {{secret.DINGTALK_URL}}
    #[arg(long, value_name = "SECRET")]
    pub(crate) dingtalk: Option<String>,
    /// The webhook of a robot of WeCom, as in {{secret.WECOM_URL}}
    #[arg(long, value_name = "SECRET")]
    pub(crate) wecom: Option<String>,
    /// The webhook of a robot of Feishu, as in {{secret.FEISHU_URL}}
    #[arg(long, value_name = "SECRET")]
    pub(crate) feishu: Option<String>,
    /// An incoming webhook of Slack, as in {{secret.SLACK_URL}}
    #[arg(long, value_name = "SECRET")]
    pub(crate) slack: Option<String>,
    /// What a robot signs with, as in {{secret.SIGN}}
    #[arg(long, conflicts_with_all = ["webhook", "wecom", "slack", "mail_server"], value_name = "SECRET")]
    pub(crate) sign: Option<String>,
    /// An SMTP server, as in smtp.example:587
    #[arg(long, value_name = "HOST:PORT", requires_all = ["mail_from", "mail_to"])]
    pub(crate) mail_server: Option<String>,
    /// How its connection is encrypted [default: starttls]
    #[arg(long, requires = "mail_server", value_parser = ["starttls", "tls", "none"])]
    pub(crate) mail_encryption: Option<String>,
    /// Whom mail is from
    #[arg(long, requires = "mail_server", value_name = "ADDRESS")]
    pub(crate) mail_from: Option<String>,
    /// Whom mail is for; may be given again
    #[arg(long, requires = "mail_server", value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) mail_to: Vec<String>,
    /// Whom to log in as
    #[arg(long, requires_all = ["mail_server", "mail_password"], value_name = "USER")]
    pub(crate) mail_user: Option<String>,
    /// With which password, as in {{secret.SMTP}}
    #[arg(long, requires = "mail_user", value_name = "SECRET")]
    pub(crate) mail_password: Option<String>,
    /// Events, as in failed,lost
    #[arg(long, value_delimiter = ',', value_parser = ["failed", "lost", "missed", "no_worker"])]
    pub(crate) when: Vec<String>,
    /// A start is later than that
    #[arg(long, value_name = "DURATION")]
    pub(crate) late: Option<String>,
    /// A run goes on for longer than that
    #[arg(long, value_name = "DURATION")]
    pub(crate) running: Option<String>,
    /// There was no success for longer than that
    #[arg(long, value_name = "DURATION")]
    pub(crate) no_success: Option<String>,
    /// Tell again of what goes on no more often than that [default: 4h]
    #[arg(long, value_name = "DURATION")]
    pub(crate) repeat: Option<String>,
    /// Messages within a minute; what is more comes in a digest [default: 20]
    #[arg(long, value_name = "COUNT")]
    pub(crate) per_minute: Option<u32>,
    /// The language of messages [default: en]
    #[arg(long, value_parser = ["en", "zh"])]
    pub(crate) language: Option<String>,
    /// A text that replaces ours, as in "{{job}}: {{event}}"
    #[arg(long)]
    pub(crate) text: Option<String>,
}
