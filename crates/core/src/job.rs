//! What a job is: the specification a user wrote ([`Spec`]), the stored version of it
//! ([`Definition`]), and the compiled form that a machine holds ([`Job`]).

use std::sync::Arc;

use rota_cron::{Schedule, Zone};
use serde::{Deserialize, Serialize};

use crate::id::{AppId, JobId, Version};
use crate::label::Selector;
use crate::limits;
pub use crate::misfire::Misfire;
pub use crate::overlap::Overlap;
pub use crate::retry::Retry;
use crate::route::Routing;
pub use crate::route::{Route, Strategy};
use crate::shards::{Rules, Sharding};
pub use crate::target::Target;
use crate::template::Templates;
use crate::time::UnixMs;
use crate::upstream::{self, Edge};

pub use crate::when::{Active, Calendar, Dst, Fold, Gap};

/// A job's specification, in plain data. Durations are milliseconds here; the edges read `30s`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// When it runs.
    pub schedule: When,
    /// Zone of the schedule: an IANA name or a fixed offset.
    pub zone: String,
    /// What it calls.
    pub target: Target,
    /// How a worker is chosen.
    pub route: Route,
    /// What happens when earlier runs still hold their places.
    pub overlap: Overlap,
    /// What happens after a failure.
    pub retry: Retry,
    /// How long things may take.
    pub timeout: Timeout,
    /// Shards of each run, from 1.
    pub shards: u32,
    /// What an unresolved doubt means; absent: what the target's protocol can promise.
    pub delivery: Option<Delivery>,
    /// How a cron schedule meets a change of the clocks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dst: Dst,
    /// When the schedule has no slots.
    #[serde(default, skip_serializing_if = "Calendar::is_empty")]
    pub calendar: Calendar,
    /// From when until when the schedule has slots.
    #[serde(default, skip_serializing_if = "Active::is_empty")]
    pub active: Active,
    /// Over how many milliseconds the starts of runs are spread; their slots stay what they are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jitter_ms: u64,
    /// What becomes of slots whose time has passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub misfire: Misfire,
    /// The alert rules of its namespace that hear of it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<String>,
    /// What its shards are given, and what they mean for a run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sharding: Sharding,
    /// Upstream jobs that its slots wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Edge>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The trigger of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// A cron expression; five fields are the Unix dialect, six or seven Quartz.
    Cron(String),
    /// Every so many milliseconds, counted from the Unix epoch.
    EveryMs(u64),
    /// So many milliseconds after the end of the run before.
    DelayMs(u64),
    /// Once, at this Unix time in milliseconds.
    OnceMs(i64),
    /// Only by hand or API.
    Manual,
}

/// How long things may take, in milliseconds; absent is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeout {
    /// From the slot to its first dispatch.
    pub start_ms: Option<u64>,
    /// From an attempt's dispatch to its end.
    pub attempt_ms: Option<u64>,
    /// From the moment a run is made to its end, with all its shards and retries.
    #[serde(default)]
    pub run_ms: Option<u64>,
}

/// What an unresolved doubt means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// A new attempt, not charged to the retries.
    AtLeastOnce,
    /// The shard ends `lost` and is never dispatched again.
    AtMostOnce,
}

/// A job's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It fires.
    Enabled,
    /// It does not fire until it is resumed.
    Paused,
    /// It has no further slot.
    Finished,
    /// Gone for ever; its id stays dead.
    Deleted,
}

/// One stored version of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct Definition {
    /// The job.
    pub id: JobId,
    /// Counts from 1.
    pub version: Version,
    /// Its app, which never changes.
    pub app: AppId,
    /// Unique among the living jobs of its namespace.
    pub name: String,
    /// What the user wrote.
    pub spec: Spec,
    /// Its life, as of this version.
    pub state: JobState,
    /// When this version took effect.
    pub at: UnixMs,
    /// Who made it.
    pub by: String,
    /// The job file that manages the job, by its name; none for a job that was made by hand.
    pub managed_by: Option<String>,
    /// Who paused the job, if it is paused now.
    pub pause: Option<Pause>,
}

/// A pause that lasts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Who paused the job.
    pub by: String,
    /// Since when.
    pub at: UnixMs,
    /// Why, as they said it.
    pub reason: Option<String>,
}

/// Names of alert rules are well-formed, and each is there once.
fn check_alerts(alerts: &[String]) -> Result<(), Invalid> {
    if alerts.len() > limits::ALERTS_MAX {
        return Err(invalid("alerts", format!("{} are more than {}", alerts.len(), limits::ALERTS_MAX)));
    }
    for (at, name) in alerts.iter().enumerate() {
        check_name("alerts", name)?;
        if alerts[..at].contains(name) {
            return Err(invalid("alerts", format!("`{name}` is named twice")));
        }
    }
    Ok(())
}

/// Why a specification is refused: the field, what is wrong, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// The field, as the user wrote it.
    pub field: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
}

/// The parts of a job that many jobs have in common, interned by the machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Policy {
    /// How a worker is chosen.
    pub routing: Routing,
    /// Which workers may be chosen.
    pub selector: Selector,
    /// What happens when earlier runs still hold their places.
    pub overlap: Overlap,
    /// What happens after a failure.
    pub retry: Retry,
    /// How long things may take.
    pub timeout: Timeout,
    /// Shards of each run.
    pub shards: u32,
    /// What an unresolved doubt means.
    pub delivery: Delivery,
    /// Over how many milliseconds the starts of its runs are spread.
    pub jitter_ms: u64,
    /// What becomes of slots whose time has passed; none for the default of everything.
    pub misfire: Option<Box<Misfire>>,
    /// How its shards are made and judged.
    pub sharding: Rules,
    /// Upstream jobs that its slots wait for, if there are any.
    pub after: Option<Arc<[Edge]>>,
}

/// The part of a job that is its own: what a dispatch carries.
#[derive(PartialEq, Eq, Debug)]
pub struct Body {
    /// The job's name.
    pub name: String,
    /// The zone of its slots.
    pub zone: Zone,
    /// What it calls, as it was written.
    pub target: Target,
    /// Those of its parts that are templates; none if all of it is meant as it is.
    pub templates: Option<Box<Templates>>,
}

/// A compiled job.
#[derive(Clone, Debug)]
pub struct Job {
    /// The job.
    pub id: JobId,
    /// The version that this was compiled from.
    pub version: Version,
    /// Its app.
    pub app: AppId,
    /// Its life.
    pub state: JobState,
    /// Its schedule; none for jobs that only run by hand.
    pub schedule: Option<Schedule>,
    /// Its policy.
    pub policy: Arc<Policy>,
    /// Its body.
    pub body: Arc<Body>,
    /// Whether it names alerts.
    pub has_alerts: bool,
}

impl Spec {
    /// A specification with the defaults of everything that is not named here.
    #[must_use]
    pub fn new(schedule: When, target: Target) -> Spec {
        Spec {
            schedule,
            zone: "UTC".to_owned(),
            target,
            route: Route::default(),
            overlap: Overlap::default(),
            retry: Retry::default(),
            timeout: Timeout::default(),
            shards: 1,
            delivery: None,
            dst: Dst::default(),
            calendar: Calendar::default(),
            active: Active::default(),
            jitter_ms: 0,
            misfire: Misfire::default(),
            alerts: Vec::new(),
            sharding: Sharding::default(),
            after: Vec::new(),
        }
    }

    /// Whether it has the slots of another: what it fires on is the same, whatever is done then.
    #[must_use]
    pub fn has_slots_of(&self, other: &Spec) -> bool {
        self.schedule == other.schedule
            && self.zone == other.zone
            && self.dst == other.dst
            && self.calendar == other.calendar
            && self.active == other.active
    }

    /// Checks every field and compiles the job.
    pub fn compile(
        &self,
        id: JobId,
        version: Version,
        app: AppId,
        name: &str,
        state: JobState,
    ) -> Result<Job, Invalid> {
        check_job_name(name)?;
        let (schedule, zone) = self.compile_schedule(name)?;
        let selector = Selector::parse(&self.route.labels).map_err(|e| Invalid {
            field: "labels",
            message: e.to_string(),
            hint: Some("for example: disk=ssd, zone in (a|b)".to_owned()),
        })?;
        if self.shards == 0 || self.shards > limits::SHARDS_MAX {
            return Err(invalid("shards", format!("{} is outside 1 to {}", self.shards, limits::SHARDS_MAX)));
        }
        self.retry.check()?;
        self.overlap.check(&self.target)?;
        self.sharding.check(self.shards, &self.target, &self.retry)?;
        let timeout = self.timeout;
        for (field, ms) in [
            ("timeout.start", timeout.start_ms),
            ("timeout.attempt", timeout.attempt_ms),
            ("timeout.run", timeout.run_ms),
        ] {
            if let Some(ms) = ms {
                in_range(field, ms)?;
            }
        }
        if self.jitter_ms > limits::JITTER_MAX_MS {
            return Err(invalid("jitter", format!("longer than {} hours", limits::JITTER_MAX_MS / 3_600_000)));
        }
        self.misfire.check(&self.schedule)?;
        check_alerts(&self.alerts)?;
        let delivery = self.delivery.unwrap_or_else(|| self.target.delivery());
        let templates = Templates::with_params(&self.target, &self.sharding.params)?;
        self.target.check(templates.as_deref())?;
        Ok(Job {
            id,
            version,
            app,
            state,
            schedule,
            policy: Arc::new(Policy {
                routing: self.route.compile()?,
                selector,
                overlap: self.overlap.clone(),
                retry: self.retry,
                timeout: self.timeout,
                shards: self.shards,
                delivery,
                jitter_ms: self.jitter_ms,
                misfire: (self.misfire != Misfire::default()).then(|| Box::new(self.misfire)),
                sharding: self.sharding.rules,
                after: upstream::compile(name, &self.schedule, &self.after)?,
            }),
            body: Arc::new(Body { name: name.to_owned(), zone, target: self.target.clone(), templates }),
            has_alerts: !self.alerts.is_empty(),
        })
    }
}

impl Body {
    /// One that is meant as it is.
    #[must_use]
    pub fn literal(name: String, zone: Zone, target: Target) -> Body {
        Body { name, zone, target, templates: None }
    }
}

impl Definition {
    /// Checks and compiles this version.
    pub fn compile(&self) -> Result<Job, Invalid> {
        self.spec.compile(self.id, self.version, self.app, &self.name, self.state)
    }
}

pub(crate) fn invalid(field: &'static str, message: String) -> Invalid {
    Invalid { field, message, hint: None }
}

pub(crate) fn in_range(field: &'static str, ms: u64) -> Result<(), Invalid> {
    if ms == 0 || ms > limits::DURATION_MAX_MS {
        return Err(Invalid {
            field,
            message: format!("{ms} ms is outside 1 ms to 366 days"),
            hint: Some("durations carry a unit: 500ms, 30s, 5m, 2h, 1d".to_owned()),
        });
    }
    Ok(())
}

/// Checks the name of a namespace, app, job, worker or handler.
pub fn check_name(field: &'static str, name: &str) -> Result<(), Invalid> {
    if name == "." || name == ".." {
        return Err(Invalid {
            field,
            message: format!("`{name}` is not a name: in a path it stands for a place"),
            hint: Some("add a letter or a digit".to_owned()),
        });
    }
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || "-_.@:".contains(c));
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || !is_plain {
        return Err(Invalid {
            field,
            message: format!("`{}` is not a name", name.chars().take(120).collect::<String>()),
            hint: Some(format!("1 to {} bytes of letters, digits and - _ . @ :", limits::NAME_BYTES_MAX)),
        });
    }
    Ok(())
}

/// Checks the name of a job. Where a job is asked for, digits are its id: a name of digits would be another job.
fn check_job_name(name: &str) -> Result<(), Invalid> {
    check_name("name", name)?;
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Invalid {
            field: "name",
            message: format!("`{name}` has digits only, which would be taken for a job's id"),
            hint: Some(format!("put a letter into it, for example job-{name}")),
        });
    }
    Ok(())
}
