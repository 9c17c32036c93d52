//! Rows and live state, as answers show them: names instead of ids, times in the job's zone.
//!
//! Everything here may block on reads, and runs inside [`State::read`].

use std::collections::BTreeMap;

use rota_core::batch::{Attempt, AttemptState, Origin, Run, RunState};
use rota_core::id::{AppId, AttemptId, JobId, RunId, Version, WorkerId};
use rota_core::job::{Definition, Job, JobState, Spec};
use rota_core::partition::{Held, Waiting};
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::App;
use rota_cron::{Lang, Zone};
use rota_wire::rest;

use crate::auth::Reader;
use crate::code::Code;
use crate::duration;
use crate::held;
use crate::refusal::Refusal;
use crate::spec;
use crate::state::State;
use crate::when;

/// Runs of more shards than this are listed without their attempts.
const SHARDS_IN_LISTS_MAX: u32 = 16;
/// What a list shows of a message.
const MESSAGE_IN_LISTS_CHARS_MAX: usize = 200;
/// Who runs URL jobs.
const SERVER: &str = "server";

/// One version of a job, as far as its runs show it.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) app: Option<AppId>,
    pub(crate) zone: Zone,
    pub(crate) spec: Option<Spec>,
}

/// Looks names up, each once per answer.
pub(crate) struct Names<'s> {
    pub(crate) state: &'s State,
    jobs: BTreeMap<(JobId, Option<Version>), Known>,
    live: Option<BTreeMap<AttemptId, AttemptState>>,
    waiting: Option<BTreeMap<RunId, Vec<Waiting>>>,
}

impl<'s> Names<'s> {
    pub(crate) fn new(state: &'s State) -> Names<'s> {
        Names { state, jobs: BTreeMap::new(), live: None, waiting: None }
    }

    /// A job, in one version or in the current one.
    pub(crate) fn job(&mut self, job: JobId, version: Option<Version>) -> Result<Known, Refusal> {
        if let Some(known) = self.jobs.get(&(job, version)) {
            return Ok(known.clone());
        }
        let query = &self.state.query;
        let stored = match version {
            Some(version) => query.job_version(job, version)?,
            None => None,
        };
        let found = if stored.is_some() { stored } else { query.job(job)? };
        let known = match found {
            Some(definition) => Known {
                app: Some(definition.app),
                zone: zone(&definition.spec.zone),
                name: definition.name,
                spec: Some(definition.spec),
            },
            None => Known { name: format!("job {job}"), app: None, zone: Zone::utc(), spec: None },
        };
        self.jobs.insert((job, version), known.clone());
        Ok(known)
    }

    pub(crate) fn app(&self, app: AppId) -> Result<String, Refusal> {
        Ok(self.state.app(app)?.map_or_else(|| format!("app {app}"), |app| app.name))
    }

    pub(crate) fn worker(&self, worker: WorkerId) -> Result<String, Refusal> {
        if worker == WorkerId(0) {
            return Ok(SERVER.to_owned());
        }
        Ok(self.state.worker(worker)?.map_or_else(|| format!("worker {worker}"), |worker| worker.name))
    }

    /// The state that an attempt has now: of an open one, memory knows more than its row.
    pub(crate) fn attempt_state(&mut self, attempt: &Attempt) -> AttemptState {
        if attempt.state.is_terminal() {
            return attempt.state;
        }
        let state = self.state;
        let live = self.live.get_or_insert_with(|| {
            let snapshots = state.intake.snapshots();
            snapshots.iter().flat_map(|s| s.attempts.iter().map(|open| (open.attempt, open.state))).collect()
        });
        live.get(&attempt.id).copied().unwrap_or(attempt.state)
    }

    /// The shards of an open run that wait, and why: that is known in memory alone.
    pub(crate) fn waiting(&mut self, run: RunId) -> &[Waiting] {
        let state = self.state;
        let waiting = self.waiting.get_or_insert_with(|| {
            let mut by_run: BTreeMap<RunId, Vec<Waiting>> = BTreeMap::new();
            for waiting in state.intake.snapshots().iter().flat_map(|snapshot| &snapshot.waiting) {
                by_run.entry(waiting.run).or_default().push(*waiting);
            }
            by_run
        });
        waiting.get(&run).map_or(&[], Vec::as_slice)
    }

    /// A run in a list.
    pub(crate) fn listed(&mut self, run: &Run) -> Result<rest::Run, Refusal> {
        let attempts = match run.shards {
            1..=SHARDS_IN_LISTS_MAX => self.state.query.attempts(run.id)?,
            _ => Vec::new(),
        };
        self.run(run, &attempts)
    }

    pub(crate) fn run(&mut self, run: &Run, attempts: &[Attempt]) -> Result<rest::Run, Refusal> {
        let job = self.job(run.job, Some(run.version))?;
        let last = attempts.iter().max_by_key(|attempt| (attempt.at, attempt.id));
        let is_running = run.state == RunState::Dispatched
            && attempts.iter().any(|attempt| self.attempt_state(attempt) == AttemptState::Running);
        let state = if is_running { RunState::Running } else { run.state };
        let is_waiting = run.why.is_none() && !run.state.is_terminal();
        let why = if is_waiting { self.waiting(run.id).first().map(|waiting| waiting.why) } else { run.why };
        let is_scheduled = run.origin == Origin::Schedule;
        Ok(rest::Run {
            run: run.id.to_string(),
            id: run.id.0,
            job: run.job.0,
            app: self.app(run.app)?,
            version: run.version.0,
            origin: run.origin.word().to_owned(),
            slot: job.zone.format(run.slot),
            slot_last: (run.slot_last != run.slot).then(|| job.zone.format(run.slot_last)),
            slots: run.slots,
            state: state.word().to_owned(),
            is_ended: state.is_terminal(),
            why: why.map(|why| why.word().to_owned()),
            shards: run.shards,
            at: job.zone.format(run.at),
            ended_at: run.ended_at.map(|at| job.zone.format(at)),
            late_ms: (is_scheduled && run.shards > 0).then(|| run.at.since_ms(run.slot)),
            took_ms: run.ended_at.filter(|_| run.shards > 0).map(|at| at.since_ms(run.at)),
            worker: last.map(|attempt| self.worker(attempt.worker)).transpose()?,
            tries: attempts.iter().map(|attempt| attempt.no).max().unwrap_or(0),
            tries_max: job.spec.as_ref().map_or(1, |spec| spec.retry.max.saturating_add(1)),
            message: last.and_then(|attempt| attempt.message.as_deref()).map(beginning),
            job_name: job.name,
            rerun_of: match run.origin {
                Origin::Rerun => self.state.history.rerun(run.id)?.map(|rerun| rerun.of.to_string()),
                Origin::Schedule | Origin::Manual | Origin::Api | Origin::Backfill | Origin::Upstream => None,
            },
            backfill: match run.origin {
                Origin::Backfill => self.state.history.backfill_of(run.id)?.map(|backfill| backfill.to_string()),
                Origin::Schedule | Origin::Manual | Origin::Api | Origin::Rerun | Origin::Upstream => None,
            },
            fired_by: match run.origin {
                Origin::Upstream => self.state.history.child(run.id)?.map(|link| link.parent.to_string()),
                Origin::Schedule | Origin::Manual | Origin::Api | Origin::Rerun | Origin::Backfill => None,
            },
            merged_into: if run.state == RunState::Merged {
                self.state.history.merged_into(run.id)?.map(|into| into.to_string())
            } else {
                None
            },
        })
    }

    pub(crate) fn attempt(&mut self, attempt: &Attempt, zone: &Zone) -> Result<rest::Attempt, Refusal> {
        Ok(rest::Attempt {
            id: attempt.id.0,
            shard: attempt.shard,
            no: attempt.no,
            worker: Some(attempt.worker.0).filter(|worker| *worker != 0),
            worker_name: self.worker(attempt.worker)?,
            state: self.attempt_state(attempt).word().to_owned(),
            why: attempt.why.map(|why| why.word().to_owned()),
            at: zone.format(attempt.at),
            ended_at: attempt.ended_at.map(|at| zone.format(at)),
            released_at: attempt.released_at.map(|at| zone.format(at)),
            message: attempt.message.as_deref().map(str::to_owned),
        })
    }
}

/// A shard that waits.
pub(crate) fn waiting(names: &mut Names<'_>, waiting: &Waiting) -> Result<rest::Waiting, Refusal> {
    Ok(rest::Waiting {
        shard: waiting.shard,
        why: waiting.why.word().to_owned(),
        text: waiting.why.text().to_owned(),
        worker: waiting.worker.map(|worker| names.worker(worker)).transpose()?,
        left_ms: waiting.left_ms,
    })
}

/// A stored job, with its slot that waits, if one does.
pub(crate) fn job(
    state: &State,
    reader: Reader,
    definition: &Definition,
    held: Option<&Held>,
) -> Result<rest::Job, Refusal> {
    let app = app_of(state, definition)?;
    let mut written = spec::write(
        &definition.spec,
        &definition.name,
        (&app.namespace, &app.name),
        definition.state,
        &state.settings.timezone,
    );
    if !reader.sees_secrets {
        spec::hide_secrets(&mut written);
    }
    let compiled = definition.compile().ok();
    let slots = compiled.as_ref().map(|job| spec::next_slots(job, state.now(), 3)).unwrap_or_default();
    let zone = zone(&definition.spec.zone);
    Ok(rest::Job {
        id: definition.id.0,
        version: definition.version.0,
        state: state_word(definition.state).to_owned(),
        spec: written,
        dependents: Vec::new(),
        finished: when::finished(&definition.spec, compiled.as_ref(), definition.state, state.now()),
        schedule: compiled.as_ref().map_or_else(|| "not readable by this version of Rota".to_owned(), explain),
        next_slots: slots.into_iter().map(|slot| zone.format(slot)).collect(),
        held: held.map(|held| held::shown(&mut Names::new(state), held)).transpose()?,
        at: zone.format(definition.at),
        by: definition.by.clone(),
        managed_by: definition.managed_by.clone(),
        pause: definition.pause.as_ref().map(|pause| rest::Pause {
            by: pause.by.clone(),
            at: zone.format(pause.at),
            reason: pause.reason.clone(),
        }),
    })
}

/// The app of a stored job.
pub(crate) fn app_of(state: &State, definition: &Definition) -> Result<App, Refusal> {
    state.app(definition.app)?.ok_or_else(|| Refusal::new(Code::AppUnknown, "the job's app is not stored"))
}

/// A schedule in words.
pub(crate) fn explain(job: &Job) -> String {
    let Some(schedule) = &job.schedule else { return "only when asked to".to_owned() };
    let jitter_ms = job.policy.jitter_ms;
    let jitter = (jitter_ms > 0).then(|| format!("; starts up to {} later", duration::print(jitter_ms)));
    schedule.explain(Lang::En) + &jitter.unwrap_or_default()
}

/// A reason's word with its text.
pub(crate) fn spelled(why: Why) -> String {
    format!("{} ({})", why.word(), why.text())
}

/// A job's state in a word.
pub(crate) fn state_word(state: JobState) -> &'static str {
    match state {
        JobState::Enabled => "enabled",
        JobState::Paused => "paused",
        JobState::Finished => "finished",
        JobState::Deleted => "deleted",
    }
}

/// A stored zone; one that this version's database lacks is shown in UTC.
pub(crate) fn zone(name: &str) -> Zone {
    Zone::parse(name).unwrap_or_else(|_| Zone::utc())
}

/// An instant for people: `2026-12-01 02:00:00 +08:00`.
pub(crate) fn human(zone: &Zone, at: UnixMs) -> String {
    let text = zone.format(at);
    let (date, rest) = text.split_once('T').unwrap_or((&text, ""));
    let split = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (time, offset) = rest.split_at(split);
    format!("{date} {time} {}", if offset == "Z" { "+00:00" } else { offset })
}

fn beginning(message: &str) -> String {
    let mut chars = message.chars();
    let mut text: String = chars.by_ref().take(MESSAGE_IN_LISTS_CHARS_MAX).collect();
    if chars.next().is_some() {
        text.push('…');
    }
    text
}

/// The job that a path names, by id or by name. Also a deleted one, if it is named by id.
pub(crate) fn find_job(state: &State, namespace: &str, text: &str) -> Result<Definition, Refusal> {
    if let Ok(id) = text.parse::<u32>()
        && let Some(definition) = state.query.job(JobId(id))?
    {
        return Ok(definition);
    }
    if let Some(definition) = state.query.job_named(namespace, text)? {
        return Ok(definition);
    }
    let shown: String = text.chars().take(100).collect();
    let names: Vec<String> = state.query.jobs(None, JobId(0), 1_000)?.into_iter().map(|job| job.name).collect();
    let hint = crate::nearest::did_you_mean(text, names.iter().map(String::as_str));
    Err(Refusal::new(Code::JobUnknown, format!("there is no job `{shown}` in namespace `{namespace}`"))
        .maybe_hint(hint.or(Some("rota job list shows them".to_owned()))))
}

/// The job that a path names, for commands: one that is deleted takes none.
pub(crate) fn find_living_job(state: &State, namespace: &str, text: &str) -> Result<Definition, Refusal> {
    let definition = find_job(state, namespace, text)?;
    match definition.state {
        JobState::Enabled | JobState::Paused | JobState::Finished => Ok(definition),
        JobState::Deleted => Err(Refusal::from(Why::JobDeleted)),
    }
}

/// The app that an argument names.
pub(crate) fn find_app(state: &State, namespace: &str, name: &str) -> Result<App, Refusal> {
    if let Some(app) = state.find_app(namespace, name)? {
        return Ok(app);
    }
    let shown: String = name.chars().take(100).collect();
    let apps = state.reload_apps()?;
    let names = apps.iter().filter(|app| app.namespace == namespace).map(|app| app.name.as_str());
    let hint = crate::nearest::did_you_mean(name, names);
    Err(Refusal::new(Code::AppUnknown, format!("there is no app `{shown}` in namespace `{namespace}`"))
        .field("app")
        .hint(hint.unwrap_or_else(|| format!("make it: rota app add {shown}"))))
}

/// There is no such run.
pub(crate) fn run_unknown(shown: &str) -> Refusal {
    Refusal::new(Code::RunUnknown, format!("there is no run `{shown}`"))
        .hint("rota runs lists them; old ones are dropped after the retention time")
}

/// The run that a path names: as it was printed, by a unique suffix, or its number (with or without `id:`).
pub(crate) fn find_run(state: &State, text: &str) -> Result<Run, Refusal> {
    let shown: String = text.chars().take(40).collect();
    let unknown = || run_unknown(&shown);
    // A printed id has at most eleven digits, the number behind it more.
    let is_number = text.len() > 11 && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(number) = text.strip_prefix("id:").or(is_number.then_some(text)) {
        let id = number.parse().map_err(|_| Refusal::invalid("run", format!("`{shown}` is not id: and a number")))?;
        return state.query.run(RunId(id))?.ok_or_else(unknown);
    }
    let Some((value, digits)) = RunId::parse_suffix(text) else {
        return Err(Refusal::invalid("run", format!("`{shown}` is not a run")).hint(
            "runs print as r and digits of base 32, without i, l, o and u; a job is asked about at a time: JOB@TIME",
        ));
    };
    if let Some(run) = state.query.run(RunId(value))? {
        return Ok(run);
    }
    match state.query.runs_with_suffix(value, digits)?[..] {
        [] => Err(unknown()),
        [only] => state.query.run(only)?.ok_or_else(unknown),
        [first, second, ..] => {
            Err(Refusal::new(Code::RunAmbiguous, format!("`{shown}` is the end of {first}, {second} and maybe more"))
                .field("run")
                .hint("give more digits"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_instants_with_their_offset() {
        let at = UnixMs::parse_rfc3339("2026-11-30T18:00:00Z").unwrap();
        assert_eq!(human(&zone("Asia/Shanghai"), at), "2026-12-01 02:00:00 +08:00");
        assert_eq!(human(&zone("UTC"), at.plus_ms(5)), "2026-11-30 18:00:00.005 +00:00");
        assert_eq!(human(&zone("America/New_York"), at), "2026-11-30 13:00:00 -05:00");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(beginning("short"), "short");
        assert_eq!(beginning(&"长".repeat(500)).chars().count(), MESSAGE_IN_LISTS_CHARS_MAX + 1);
    }
}
