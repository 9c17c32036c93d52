//! Upstream jobs: as users write them, the names behind them, and what becomes of waits in words.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rota_core::batch::{Origin, Run};
use rota_core::child::Note;
use rota_core::id::JobId;
use rota_core::job::{Definition, JobState, Spec, When};
use rota_core::limits::CHILDREN_MAX;
use rota_core::time::UnixMs;
use rota_core::upstream::{Edge, Ended, OnSkip, Period, Verdict};
use rota_cron::Zone;
use rota_port::store::{Reservation, Reserved};
use rota_port::upstream::look;
use rota_wire::rest::{After, AnyUpstream, Upstream, UpstreamEdge};

use crate::code::Code;
use crate::duration;
use crate::refusal::Refusal;
use crate::spec::{word, word_of};
use crate::state::State;
use crate::view::{self, human};

pub(crate) const WHENS: [(&str, Ended); 3] =
    [("success", Ended::Success), ("failure", Ended::Failure), ("completion", Ended::Completion)];
pub(crate) const PERIODS: [(&str, Period); 3] =
    [("same_slot", Period::SameSlot), ("latest", Period::Latest), ("window", Period::Window)];
pub(crate) const ON_SKIPS: [(&str, OnSkip); 2] = [("skip", OnSkip::Skip), ("run", OnSkip::Run)];

/// Dependents that a refusal names.
const NAMED_MAX: u32 = 5;
/// Children of a run that its story names.
const CHILDREN_NAMED_MAX: usize = 20;
/// Jobs of a cycle that a refusal names.
const CYCLE_NAMED_MAX: usize = 20;

/// Reads what a job waits for. The ids behind the names are found by [`resolve`].
pub(crate) fn read(after: Option<&After>, schedule: &When) -> Result<Vec<Edge>, Refusal> {
    let Some(after) = after else { return Ok(Vec::new()) };
    let has_schedule = *schedule != When::Manual;
    match after {
        After::All(all) if all.len() > 1 && !has_schedule => {
            return Err(Refusal::invalid("after", "a job without a schedule does not wait for all of a list").hint(
                "`after: {any: [a, b]}` fires it at each of their ends; with a schedule it waits for all of them",
            ));
        }
        After::Any(_) if has_schedule => {
            return Err(Refusal::invalid("after.any", "a job with a schedule waits for all of its upstream jobs")
                .hint("write a list without `any`, or take the schedule away: then each of their ends fires the job"));
        }
        After::Any(any) if any.any.is_empty() => {
            return Err(
                Refusal::invalid("after.any", "it names no job").hint("name at least one, or leave `after` out")
            );
        }
        After::One(_) | After::All(_) | After::Any(_) => {}
    }
    after.jobs().iter().map(read_edge).collect()
}

fn read_edge(upstream: &Upstream) -> Result<Edge, Refusal> {
    let edge = match upstream {
        Upstream::Name(name) => &UpstreamEdge { job: name.clone(), ..UpstreamEdge::default() },
        Upstream::Edge(edge) => edge,
    };
    rota_core::job::check_name("after", &edge.job)?;
    Ok(Edge {
        job: JobId(0),
        name: edge.job.clone(),
        when: word("after.when", edge.when.as_deref(), &WHENS)?.unwrap_or_default(),
        period: word("after.period", edge.period.as_deref(), &PERIODS)?.unwrap_or_default(),
        on_skip: word("after.on_skip", edge.on_skip.as_deref(), &ON_SKIPS)?.unwrap_or_default(),
        deadline_ms: edge.deadline.as_deref().map(|text| duration::parse("after.deadline", text)).transpose()?,
    })
}

/// Writes it as a user would: what has its default is left out.
pub(crate) fn write(edges: &[Edge], schedule: &When) -> Option<After> {
    match edges {
        [] => None,
        [one] => Some(After::One(write_edge(one))),
        any if *schedule == When::Manual => Some(After::Any(AnyUpstream { any: any.iter().map(write_edge).collect() })),
        all => Some(After::All(all.iter().map(write_edge).collect())),
    }
}

fn write_edge(edge: &Edge) -> Upstream {
    let written = UpstreamEdge {
        job: edge.name.clone(),
        when: (edge.when != Ended::default()).then(|| word_of(&WHENS, edge.when)),
        period: (edge.period != Period::default()).then(|| word_of(&PERIODS, edge.period)),
        on_skip: (edge.on_skip != OnSkip::default()).then(|| word_of(&ON_SKIPS, edge.on_skip)),
        deadline: edge.deadline_ms.map(duration::print),
    };
    let is_bare = written == UpstreamEdge { job: edge.name.clone(), ..UpstreamEdge::default() };
    if is_bare { Upstream::Name(written.job) } else { Upstream::Edge(written) }
}

/// Finds the jobs behind the names.
pub(crate) async fn resolve(state: &Arc<State>, namespace: &str, own: &str, mut spec: Spec) -> Result<Spec, Refusal> {
    if spec.after.is_empty() {
        return Ok(spec);
    }
    let (namespace, own) = (namespace.to_owned(), own.to_owned());
    let is_fired = spec.schedule == When::Manual;
    state
        .read(move |state| {
            for edge in &mut spec.after {
                let found = state.query.job_named(&namespace, &edge.name)?;
                edge.job = found.map(|found| found.id).ok_or_else(|| {
                    Refusal::invalid("after", format!("there is no job `{}` in `{namespace}`", edge.name))
                        .hint("make it first; `rota job list` shows those that there are")
                })?;
                if is_fired {
                    check_fan(state, edge, &own)?;
                }
            }
            Ok(spec)
        })
        .await
}

/// Refuses another child of a job that has as many as it may. Two that are saved at once may both be taken.
fn check_fan(state: &State, edge: &Edge, own: &str) -> Result<(), Refusal> {
    let found = state.query.dependents(edge.job, CHILDREN_MAX + 1)?;
    if found.len() < CHILDREN_MAX as usize {
        return Ok(());
    }
    let is_there = found.iter().map(|job| state.query.job(*job)).collect::<Result<Vec<_>, _>>()?;
    if is_there.into_iter().flatten().any(|job| job.name == own) {
        return Ok(());
    }
    let message = format!("{CHILDREN_MAX} jobs have `{}` upstream, and that is as many as may", edge.name);
    Err(Refusal::invalid("after", message).hint("let one job be fired by it, and the others by that one"))
}

/// Takes the edges of a definition that is about to be asked of a machine, unless they close a cycle. The token gives them
/// back.
pub(crate) async fn take(state: &Arc<State>, definition: &Definition) -> Result<Option<u64>, Refusal> {
    static TOKENS: AtomicU64 = AtomicU64::new(1);
    let upstreams: Vec<JobId> = definition.spec.after.iter().map(|edge| edge.job).collect();
    if upstreams.is_empty() {
        return Ok(None);
    }
    let token = TOKENS.fetch_add(1, Ordering::Relaxed);
    let what = Reservation::Upstreams { job: definition.id, upstreams, token };
    let reserved = state.intake.reserve(what).await?;
    if let Reserved::Cycle(path) = reserved {
        return Err(refuse_cycle(state, path).await);
    }
    if reserved == Reserved::Done { Ok(Some(token)) } else { Err(Refusal::internal(reserved)) }
}

/// Gives edges back whose definition was refused. If this is lost, they count until the job's next version, or the next
/// start.
pub(crate) async fn give_back(state: &Arc<State>, job: JobId, token: Option<u64>) {
    let Some(token) = token else { return };
    if let Err(error) = state.intake.reserve(Reservation::UpstreamsBack { job, token }).await {
        tracing::warn!(job = job.0, %error, "upstreams_not_given_back");
    }
}

async fn refuse_cycle(state: &Arc<State>, path: Vec<JobId>) -> Refusal {
    let named = state.read(move |state| {
        let left_out = path.len().saturating_sub(CYCLE_NAMED_MAX);
        let mut names = Vec::new();
        for (at, job) in path.iter().enumerate() {
            match at {
                // The end, which closes it, is always named.
                at if left_out == 0 || at + 1 < CYCLE_NAMED_MAX || at + 1 == path.len() => {
                    let name = state.query.job(*job)?.map(|job| job.name);
                    names.push(name.unwrap_or_else(|| format!("job {job}")));
                }
                at if at + 1 == CYCLE_NAMED_MAX => names.push(format!("({left_out} more)")),
                _ => {}
            }
        }
        Ok(names.join(" -> "))
    });
    match named.await {
        Ok(named) => Refusal::new(Code::Cycle, format!("the job would wait for itself: {named}"))
            .field("after")
            .hint("each job waits for the next one; take one of these edges away"),
        Err(refusal) => refusal,
    }
}

/// Refuses to delete what other jobs name as upstream.
pub(crate) fn check_unused(state: &State, job: &Definition) -> Result<(), Refusal> {
    let found = state.query.dependents(job.id, NAMED_MAX + 1)?;
    if found.is_empty() {
        return Ok(());
    }
    let mut names = Vec::new();
    for dependent in found.iter().take(NAMED_MAX as usize) {
        names.extend(state.query.job(*dependent)?.map(|job| format!("`{}`", job.name)));
    }
    let more = if found.len() > NAMED_MAX as usize { " and others" } else { "" };
    let message = format!("`{}` is upstream of {}{more}", job.name, names.join(", "));
    Err(Refusal::new(Code::InUse, message).hint("take it out of their `after` first, or delete them first"))
}

/// The names of the jobs that wait for one.
pub(crate) fn dependents(state: &State, job: JobId) -> Result<Vec<String>, Refusal> {
    let mut names = Vec::new();
    for dependent in state.query.dependents(job, rota_core::limits::UPSTREAMS_MAX as u32)? {
        names.extend(state.query.job(dependent)?.map(|job| job.name));
    }
    Ok(names)
}

/// What is known of the upstream jobs of a slot, one line each: which, and what stands between them and the slot.
pub(crate) fn lines(state: &State, spec: &Spec, slot: UnixMs, zone: &Zone) -> Result<Vec<String>, Refusal> {
    if spec.after.is_empty() {
        return Ok(Vec::new());
    }
    let probe = spec.compile(JobId(0), rota_core::id::Version(1), rota_core::id::AppId(0), "probe", JobState::Enabled);
    let previous = probe.ok().and_then(|job| job.schedule).and_then(|schedule| schedule.prev_before(slot));
    let mut lines = Vec::new();
    for edge in &spec.after {
        let found = look(&*state.query, &*state.history, edge, slot, previous, state.now())?;
        lines.push(line(edge, slot, zone, found.verdict, &found.rows));
    }
    Ok(lines)
}

fn line(edge: &Edge, slot: UnixMs, zone: &Zone, verdict: Verdict, rows: &[Run]) -> String {
    let name = &edge.name;
    let told = |run: &Run| {
        let why = run.why.map(|why| format!(" ({})", view::spelled(why))).unwrap_or_default();
        format!("slot {} {}{why}, {}", human(zone, run.slot), run.state.word(), run.id)
    };
    let is_open = |run: &&Run| !run.state.is_terminal();
    let is_bad = |run: &&Run| run.state.is_terminal() && !edge.asks_for(run.state);
    match verdict {
        Verdict::Met => match rows.last() {
            Some(row) => format!("{name}: done; {}", told(row)),
            None => format!("{name}: had no slot, which is no hindrance"),
        },
        Verdict::NotYet => {
            let until = human(zone, edge.deadline(slot));
            match rows.iter().find(is_open) {
                Some(row) => format!("{name}: {}; waits until {until}", told(row)),
                None => format!("{name}: its slot has no run yet; waits until {until}"),
            }
        }
        Verdict::Unmet(why) => match rows.iter().find(is_bad) {
            Some(row) => format!("{name}: {}; {}", told(row), why.text()),
            None => format!("{name}: {}", why.text()),
        },
    }
}

/// Whose end fired a run, and what became of the jobs that its own end fires: what each line is about, and its text.
pub(crate) fn children(state: &State, run: &Run) -> Result<Vec<(&'static str, String)>, Refusal> {
    let mut lines = Vec::new();
    if run.origin == Origin::Upstream
        && let Some(link) = state.history.child(run.id)?
    {
        let parent = state.query.run(link.parent)?;
        let told = match parent {
            Some(parent) => format!("{}, {}, {}", name_of(state, parent.job)?, parent.state.word(), parent.id),
            None => format!("{}, which is no longer kept", link.parent),
        };
        lines.push(("fired by", told));
    }
    for link in state.history.children_of(run.id)?.iter().take(CHILDREN_NAMED_MAX) {
        if let Some(child) = state.query.run(link.run)? {
            let why = child.why.map(|why| format!(" ({})", view::spelled(why))).unwrap_or_default();
            let name = name_of(state, child.job)?;
            lines.push(("fired", format!("{name}: {}{why}, {}", child.state.word(), child.id)));
        }
    }
    for note in state.history.notes_of(run.id)?.iter().take(CHILDREN_NAMED_MAX) {
        lines.push(("fires", format!("{}: {}", name_of(state, note.job)?, standing(state, note)?)));
    }
    Ok(lines)
}

fn name_of(state: &State, job: JobId) -> Result<String, Refusal> {
    Ok(state.query.job(job)?.map_or_else(|| format!("job {job}"), |job| job.name))
}

/// What an end waits for that has fired nothing yet, as far as it can be seen from outside.
fn standing(state: &State, note: &Note) -> Result<String, Refusal> {
    let snapshots = state.intake.snapshots();
    let waiting = snapshots.iter().flat_map(|snapshot| &snapshot.notes).find(|waiting| waiting.app == note.app);
    Ok(match waiting {
        Some(waiting) => format!("not yet, {}", view::spelled(waiting.why)),
        None => "now".to_owned(),
    })
}
