//! Bodies of the REST API under `/api/v1`.
//!
//! | call | takes | answers |
//! |---|---|---|
//! | `GET /apps` | | [`Page`] of [`App`] |
//! | `GET /apps/{name}` | | [`App`] |
//! | `PUT /apps/{name}` | [`AppPut`] | [`App`] |
//! | `POST /apps/{name}/token` | [`TokenAsk`] | [`TokenMade`] |
//! | `GET /tokens` | | [`Page`] of [`Token`] |
//! | `POST /tokens` | [`TokenNew`] | 201, [`TokenShown`] |
//! | `GET /secrets` | | [`Page`] of [`Secret`] |
//! | `PUT /secrets/{name}` | [`SecretPut`] | [`Secret`] |
//! | `DELETE /secrets/{name}?force=` | | [`SecretRemoved`] |
//! | `GET /alerts` | | [`Page`] of [`Alert`] |
//! | `GET /alerts/{name}` | | [`Alert`] |
//! | `PUT /alerts/{name}` | [`AlertSpec`] | [`Alert`] |
//! | `DELETE /alerts/{name}?force=` | | [`AlertRemoved`] |
//! | `POST /alerts/{name}/test` | | [`AlertTested`] |
//! | `GET /alarms` | | [`Page`] of [`Alarm`] |
//! | `POST /alarms/acknowledge` | [`AlarmAck`] | [`AlarmAck`] |
//! | `GET /jobs?app=&managed_by=&after=&limit=` | | [`Page`] of [`Job`]; `managed_by` may leave pages short, not the list |
//! | `POST /jobs/find` | [`JobsNamed`] | [`Page`] of [`Job`]: the living ones among them |
//! | `POST /jobs/batch` | [`Batch`] | [`BatchDone`] |
//! | `POST /jobs` | [`JobSpec`] | 201, [`JobSaved`] |
//! | `GET /jobs/{job}`, `GET /jobs/{job}/versions/{n}` | | [`Job`] |
//! | `PUT /jobs/{job}?version=` | [`JobSpec`] | [`JobSaved`] |
//! | `DELETE /jobs/{job}?version=`, `POST /jobs/{job}/pause`, `/resume` | [`Reason`] | [`JobNow`] |
//! | `GET /jobs/{job}/history?before=&limit=` | | [`Page`] of [`JobEvent`], newest first |
//! | `GET /jobs/{job}/diff?from=&to=` | | [`JobDiff`] |
//! | `GET /jobs/{job}/why?at=` | | [`SlotStory`] |
//! | `POST /jobs/{job}/trigger` | [`Trigger`] | 201 or, for a repeated `request_id`, 200, [`Triggered`] |
//! | `POST /jobs/{job}/backfills/preview` | [`BackfillAsk`] | [`BackfillPlan`] |
//! | `POST /jobs/{job}/backfills` | [`BackfillAsk`] | 201 or, for a repeated `request_id`, 200, [`Backfill`] |
//! | `GET /backfills?job=&open=&after=&limit=` | | [`Page`] of [`Backfill`], newest first |
//! | `GET /backfills/{backfill}` | | [`Backfill`] |
//! | `POST /backfills/{backfill}/cancel` | [`BackfillCancel`] | [`Backfill`] |
//! | `GET /runs?job=&app=&state=&backfill=&since=&after=&limit=` | | [`Page`] of [`Run`] |
//! | `GET /runs/{run}` | | [`RunDetail`] |
//! | `GET /runs/{run}/attempts?shard=` | | [`Page`] of [`Attempt`] |
//! | `GET /runs/{run}/why` | | [`Story`] |
//! | `GET /runs/{run}/logs?shard=&attempt=&from=&bytes=` | | [`LogWindow`] |
//! | `GET /runs/{run}/logs?follow&shard=&attempt=` | | events: [`LogPart`], [`Followed`], [`StreamEnd`] |
//! | `GET /runs/stream?job=&app=&state=` | | events: [`Run`], [`Dropped`], [`StreamEnd`] |
//! | `POST /runs/{run}/kill` | | [`Killed`] |
//! | `POST /runs/{run}/rerun` | [`RerunAsk`] | 201 or, for a repeated `request_id`, 200, [`Rerun`] |
//! | `GET /audit?since=&until=&job=&app=` | | one [`AuditLine`] per line (`application/x-ndjson`) |
//! | `GET /top?by=&since=&app=&limit=` | | [`Top`] |
//! | `GET /held?job=&app=` | | [`Page`] of [`Held`], longest first, at most 1,000 |
//! | `GET /workers?app=` | | [`Page`] of [`Worker`] |
//! | `GET /server` | | [`Server`] |
//! | `POST /freeze` | [`FreezeAsk`] | [`FrozenNow`] |
//! | `POST /thaw` | [`ThawAsk`] | [`FrozenNow`] |
//! | `GET /live` | | [`Live`] |
//! | `POST /server/confirm-clock` | | [`Server`] |
//! | `GET /server/backup?key=&logs=` | | a tar archive, see `rota backup` |
//!
//! Every call takes `?namespace=`, `default` if absent. `{job}` is a name or an id. `{run}` is what was printed
//! (`r…`), or a suffix of it that names one recent run, or `id:` and the decimal number.
//!
//! Lists take `?limit=&after=`. Jobs and apps carry an `ETag`; what changes them heeds `If-Match`.
//!
//! Times are RFC 3339 with an offset. Durations in a job's specification are text with a unit: `500ms`, `30s`, `5m`,
//! `2h`, `1d`; elsewhere they are milliseconds, and say so in their name. Refusals are [`crate::error::Error`].

mod alert;
mod app;
mod backfill;
mod batch;
mod job;
mod overlap;
mod past;
mod route;
mod run;
mod secret;
mod server;
mod shards;
mod stream;
mod token;
mod upstream;
mod when;
#[cfg(feature = "schema")]
pub mod words;

pub use alert::{Alarm, AlarmAck, Alert, AlertEmail, AlertRemoved, AlertSpec, AlertTested};
pub use app::{App, AppPut, AppRate, TokenAsk, TokenMade, Valve};
pub use backfill::{Backfill, BackfillAsk, BackfillCancel, BackfillPlan};
pub use batch::{BATCH_MAX, Batch, BatchDone, Changed, JobChange, JobsNamed, Op};
pub use job::{Http, Job, JobNow, JobSaved, JobSpec, Pause, Retry, Timeout, Trigger, Triggered};
pub use overlap::{Overlap, OverlapRule};
pub use past::{
    AuditFinding, AuditLine, AuditSummary, Change, FreezeAsk, Frozen, FrozenNow, JobDiff, JobEvent, LastFailure,
    Reason, Rerun, RerunAsk, SlotStory, Spread, ThawAsk, Top, TopJob,
};
pub use route::Route;
pub use run::{Attempt, Killed, LogWindow, Run, RunDetail, Story, StoryLine, Waiting};
pub use secret::{Secret, SecretPut, SecretRemoved};
pub use server::{Broken, Held, Live, Next, OpenAttempt, Server, Worker};
pub use shards::{Portion, Quorum, Shards, Split, Success};
pub use stream::{Dropped, Followed, LogPart, StreamEnd};
pub use token::{Token, TokenNew, TokenShown};
pub use upstream::{After, AnyUpstream, Upstream, UpstreamEdge};
pub use when::{Active, Calendar, Dst, DstRule, Misfire};

use serde::{Deserialize, Serialize};

/// A part of a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The part.
    pub items: Vec<T>,
    /// What to give as `after` to read on; absent at the end. What comes behind it may be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
