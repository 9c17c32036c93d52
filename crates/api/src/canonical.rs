//! A job as the server would store and show it, worked out without asking the server: for whoever compares what is
//! wanted with what is there.

use rota_core::id::{AppId, JobId};
use rota_core::job::JobState;
use rota_core::time::UnixMs;
use rota_wire::error::Error;
use rota_wire::rest::JobSpec;

use crate::refusal::Refusal;
use crate::spec;
use crate::view;

/// A job that the server would accept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Canonical {
    /// What the server would show: durations in their largest unit, nothing that has its default.
    pub spec: JobSpec,
    /// The schedule in words.
    pub schedule: String,
    /// Its next three slots, as if it were enabled; none for what depends on runs.
    pub next_slots: Vec<String>,
    /// Why the job would be refused as a new one, or with a new schedule: it has no slot to come.
    pub never: Option<Error>,
}

/// Reads a job as the create call does, and writes it as the read call does. `server_zone` is the zone of jobs that name
/// none.
pub fn canonical(job: &JobSpec, id: Option<u32>, server_zone: &str, now: UnixMs) -> Result<Canonical, Error> {
    Ok(settle(job, id, server_zone, now)?)
}

fn settle(job: &JobSpec, id: Option<u32>, server_zone: &str, now: UnixMs) -> Result<Canonical, Refusal> {
    let app = spec::app_of(job)?;
    let read = spec::read(job, server_zone)?;
    let id = JobId(id.unwrap_or(0));
    let compiled = spec::compile(&read, id, AppId(0), &job.name, JobState::Enabled)?;
    let state = if job.paused == Some(true) { JobState::Paused } else { JobState::Enabled };
    let slots = spec::next_slots(&compiled, now, 3);
    Ok(Canonical {
        spec: spec::write(&read, &job.name, (&job.namespace, app), state, server_zone),
        schedule: view::explain(&compiled),
        next_slots: slots.into_iter().map(|slot| compiled.body.zone.format(slot)).collect(),
        never: spec::check_slots(&read, &compiled, now).err().map(Error::from),
    })
}
