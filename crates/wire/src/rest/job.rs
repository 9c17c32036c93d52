//! Jobs as users write them, and what is said about them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::route::Route;
use super::words;

use super::overlap::Overlap;
use super::server::Held;
use super::shards::Shards;
use super::upstream::After;
use super::when::{Active, Calendar, Dst, Misfire};
use crate::worker::default_namespace;

/// A job as a user writes it, in the job file, on the command line and here.
///
/// Exactly one of `cron`, `every`, `delay` and `at`, or none for a job that only runs when asked to;
/// and exactly one of `handler` and `http`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Unique among the living jobs of its namespace.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub name: String,
    /// Tenant boundary.
    #[serde(default = "default_namespace")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub namespace: String,
    /// Its app, which never changes. Needed with `handler`; with `http` absent means `@url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub app: Option<String>,
    /// A cron expression: five fields are Unix, six or seven Quartz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub cron: Option<String>,
    /// A duration, counted from the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub every: Option<String>,
    /// A duration, from the end of a run to the start of the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub delay: Option<String>,
    /// One instant, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub at: Option<String>,
    /// IANA name or fixed offset; the server's if absent, which is `UTC` unless it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub timezone: Option<String>,
    /// How a cron schedule meets a change of the clocks; by default no slot is lost and none is doubled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<Dst>,
    /// When the schedule has no slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<Calendar>,
    /// From when until when the schedule has slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
    /// A duration: each run starts up to so much after its slot, always the same for one slot of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub jitter: Option<String>,
    /// What becomes of slots whose time has passed; absent: the newest stands for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Misfire>,
    /// Upstream jobs: each slot waits until they are done for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// The handler that a worker of the app runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub handler: Option<String>,
    /// What the handler is given: a template, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 1048576))]
    pub param: Option<String>,
    /// The request that a run makes; its response is the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    /// How a worker is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// What happens to a run while earlier ones hold their places; `allow` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// What happens after a failure; nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How long things may take; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// Into how many shards a run is split; one if absent. `broadcast`: one for every eligible worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Shards>,
    /// `at_least_once` or `at_most_once`; absent: what the protocol of the target can promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::Delivery>))]
    pub delivery: Option<String>,
    /// The alert rules of its namespace that hear of it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(max_items = 10))]
    pub alerts: Vec<String>,
    /// Whether it is paused; absent: not for a new job, as it is for an edited one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// A request: exactly one method with its absolute URL. Path and query of the URL, the values of headers and the body
/// are templates. The values of headers do not print.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// URL to `GET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, pattern = "^https?://"))]
    pub get: Option<String>,
    /// URL to `POST` to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, pattern = "^https?://"))]
    pub post: Option<String>,
    /// URL to `PUT` to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, pattern = "^https?://"))]
    pub put: Option<String>,
    /// URL to `PATCH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, pattern = "^https?://"))]
    pub patch: Option<String>,
    /// URL to `DELETE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, pattern = "^https?://"))]
    pub delete: Option<String>,
    /// `Authorization: Bearer …`, for example `{{secret.PARTNER}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1))]
    pub bearer: Option<String>,
    /// Extra headers. Their values are stored encrypted, and shown to the admin token only; anyone else reads `***`,
    /// unless the value is nothing but a secret's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The request's body; at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 1048576))]
    pub body: Option<String>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls = [&self.get, &self.post, &self.put, &self.patch, &self.delete];
        let urls: Vec<&String> = urls.into_iter().flatten().collect();
        let headers: Vec<&String> = self.headers.keys().collect();
        let mut shown = f.debug_struct("Http");
        shown.field("urls", &urls).field("headers", &headers).field("has_bearer", &self.bearer.is_some());
        shown.field("body", &self.body).finish()
    }
}

/// Retries after a failure, a time-out or a loss.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How many, beyond the first attempt.
    #[cfg_attr(feature = "schema", schema(maximum = 100))]
    pub max: u32,
    /// A duration, from the end of an attempt to the first retry; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// `fixed` (if absent): each pause is like the first; `exponential`: each is twice the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
    /// A duration: the longest pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// Whether pauses are drawn from their upper half, so that what failed together does not come back
    /// together; not if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<bool>,
    /// Which ends are tried again: some of `failed`, `timeout` and `lost`; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Vec<String>>,
    /// Whether a retry goes to another worker than those that failed, if another can take it; not if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<bool>,
}

/// How long things may take.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Timeout {
    /// A duration, from the slot to its first dispatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// A duration, from an attempt's dispatch to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// A duration, from the moment a run is made to its end, with all its shards and retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// A stored version of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Job {
    /// Its id, for ever.
    pub id: u32,
    /// The version that this is.
    pub version: u32,
    /// `enabled`, `paused`, `finished` or `deleted`.
    #[cfg_attr(feature = "schema", schema(value_type = words::JobState))]
    pub state: String,
    /// What the user wrote; put it back to change the job.
    pub spec: JobSpec,
    /// Why it is finished, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    /// The schedule in words.
    pub schedule: String,
    /// The next three slots, if it is enabled.
    pub next_slots: Vec<String>,
    /// The slot that waits without a row, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Jobs that have it upstream; only where one job is asked for, at most a hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<String>,
    /// When this version took effect.
    pub at: String,
    /// Who made it: `admin`, or `file NAME` for a job file.
    pub by: String,
    /// The job file that manages it, by its name; absent for a job that was made by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// Who paused it, if it is paused now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}

/// A pause that lasts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pause {
    /// Who paused the job: `admin`, or `file NAME` for a job file.
    pub by: String,
    /// Since when.
    pub at: String,
    /// Why, as they said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A job was made or changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobSaved {
    /// Its id, for ever.
    pub id: u32,
    /// The version that is in force now.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// Its app.
    pub app: String,
    /// `enabled`, `paused` or `finished`.
    #[cfg_attr(feature = "schema", schema(value_type = words::JobState))]
    pub state: String,
    /// The schedule in words.
    pub schedule: String,
    /// Its next slot, as the scheduler has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Its next three slots; only one for jobs whose later slots depend on their runs.
    pub next_slots: Vec<String>,
    /// What should be known, though it is no mistake: a secret that is named and not set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A job was paused, resumed or deleted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobNow {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The state that it has now.
    #[cfg_attr(feature = "schema", schema(value_type = words::JobState))]
    pub state: String,
    /// Its next slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Runs a job now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// In place of the job's parameter (or body, for a URL job), as it is: no template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(max_length = 1048576))]
    pub param: Option<String>,
    /// Unique per job for seven days: the same id with the same body is answered with the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub request_id: Option<String>,
    /// `api` (if absent) or `manual`, for a person at a keyboard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<words::TriggerOrigin>))]
    pub origin: Option<String>,
}

/// The run that a trigger made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Triggered {
    /// As it is printed: `r…`.
    pub run: String,
    /// As a number.
    pub id: u64,
    /// Whether an earlier request with this `request_id` made it.
    pub is_repeated: bool,
    /// `started`: it goes to a worker as soon as one takes it. `queued`: it waits for its place among the runs of its
    /// job. `merged`: another run that waits stands for it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = words::Entry))]
    pub entry: String,
    /// The run that stands for it, if it was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
}
