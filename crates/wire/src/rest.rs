//! Bodies of the REST API under `/api/v1`.
//!
//! | call | takes | answers |
//! |---|---|---|
//! | `GET /apps` | | [`Page`] of [`App`] |
//! | `PUT /apps/{name}` | [`AppPut`] | [`App`] |
//! | `POST /apps/{name}/token` | [`TokenAsk`] | [`TokenMade`] |
//! | `GET /tokens` | | [`Page`] of [`Token`] |
//! | `POST /tokens` | [`TokenNew`] | 201, [`TokenShown`] |
//! | `GET /secrets` | | [`Page`] of [`Secret`] |
//! | `PUT /secrets/{name}` | [`SecretPut`] | [`Secret`] |
//! | `DELETE /secrets/{name}?force=` | | [`SecretRemoved`] |
//! | `GET /jobs?app=&managed_by=&after=&limit=` | | [`Page`] of [`Job`]; `managed_by` may leave pages short, not the list |
//! | `POST /jobs/find` | [`JobsNamed`] | [`Page`] of [`Job`]: the living ones among them |
//! | `POST /jobs/batch` | [`Batch`] | [`BatchDone`] |
//! | `POST /jobs` | [`JobSpec`] | 201, [`JobSaved`] |
//! | `GET /jobs/{job}`, `GET /jobs/{job}/versions/{n}` | | [`Job`] |
//! | `PUT /jobs/{job}?version=` | [`JobSpec`] | [`JobSaved`] |
//! | `DELETE /jobs/{job}?version=`, `POST /jobs/{job}/resume?version=` | | [`JobNow`] |
//! | `POST /jobs/{job}/pause?version=` | [`PauseAsk`] | [`JobNow`] |
//! | `POST /jobs/{job}/trigger` | [`Trigger`] | 201 or, for a repeated `request_id`, 200, [`Triggered`] |
//! | `GET /runs?job=&app=&state=&since=&before=&limit=` | | [`Page`] of [`Run`] |
//! | `GET /runs/{run}` | | [`RunDetail`] |
//! | `GET /runs/{run}/why` | | [`Story`] |
//! | `GET /runs/{run}/logs?shard=&attempt=&from=&bytes=` | | [`LogWindow`] |
//! | `POST /runs/{run}/kill` | | [`Killed`] |
//! | `GET /held?job=&app=` | | [`Page`] of [`Held`], longest first, at most 1,000 |
//! | `GET /workers?app=` | | [`Page`] of [`Worker`] |
//! | `GET /server` | | [`Server`] |
//! | `GET /live` | | [`Live`] |
//! | `POST /server/confirm-clock` | | [`Server`] |
//! | `GET /server/backup?key=&logs=` | | a tar archive, see `rota backup` |
//!
//! Every call takes `?namespace=`, `default` if absent. `{job}` is a name or an id. `{run}` is what was printed
//! (`r…`), or a suffix of it that names one recent run, or `id:` and the decimal number.
//!
//! Times are RFC 3339 with an offset. Durations in a job's specification are text with a unit: `500ms`, `30s`, `5m`,
//! `2h`, `1d`; elsewhere they are milliseconds, and say so in their name. Refusals are [`crate::error::Error`].

mod app;
mod batch;
mod job;
mod run;
mod secret;
mod server;
mod token;
mod when;
#[cfg(feature = "schema")]
pub mod words;

pub use app::{App, AppPut, TokenAsk, TokenMade};
pub use batch::{BATCH_MAX, Batch, BatchDone, Change, Changed, JobsNamed, Op, PauseAsk};
pub use job::{Http, Job, JobNow, JobSaved, JobSpec, Pause, Retry, Route, Shards, Timeout, Trigger, Triggered};
pub use run::{Attempt, Killed, LogWindow, Run, RunDetail, Story, StoryLine, Waiting};
pub use secret::{Secret, SecretPut, SecretRemoved};
pub use server::{Broken, Held, Live, Next, OpenAttempt, Server, Worker};
pub use token::{Token, TokenNew, TokenShown};
pub use when::{Active, Calendar, Dst, DstRule};

use serde::{Deserialize, Serialize};

/// A part of a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Page<T> {
    /// The part.
    pub items: Vec<T>,
    /// What to give as `after` (jobs) or `before` (runs) to read on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
