//! What happened to a run, in words: what its row and its attempts say, and nothing that they do not.

use std::collections::BTreeMap;

use rota_core::batch::{Attempt, AttemptState, Origin, Run, RunState};
use rota_core::id::WorkerId;
use rota_core::job::{Definition, Delivery, Job, JobState, Overlap, Spec, Target};
use rota_core::overlap::Mode;
use rota_core::partition::Waiting;
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_core::worker::WorkerState;
use rota_cron::{Kind, Zone};
use rota_wire::rest::{Story, StoryLine};

use crate::backfill;
use crate::duration::human;
use crate::held;
use crate::refusal::Refusal;
use crate::route;
use crate::shard_story;
use crate::slot_story;
use crate::spec;
use crate::state::State;
use crate::upstream;
use crate::view::{self, Known, Names};
use crate::when;

/// Reruns that a story names.
const RERUNS_MAX: usize = 10;
/// Attempts that a story tells one by one.
const ATTEMPTS_MAX: usize = 100;

/// Tells the story of a run.
pub(crate) fn tell(state: &State, run: &Run, attempts: &[Attempt]) -> Result<Story, Refusal> {
    let mut names = Names::new(state);
    let job = names.job(run.job, Some(run.version))?;
    let shown = names.run(run, attempts)?;
    let mut lines = Lines { zone: job.zone.clone(), lines: Vec::new() };
    lines.origin(run);
    lines.reruns(state, run)?;
    if run.origin == Origin::Backfill
        && let Some(text) = backfill::line(state, run.id, &job.zone)?
    {
        lines.say(None, "backfill", text);
    }
    lines.trace(state, run)?;
    if run.shards == 0 {
        lines.not_run(state, run)?;
    }
    lines.upstreams(state, run, job.spec.as_ref())?;
    lines.children(state, run)?;
    lines.passed(&mut names, run, attempts, job.spec.as_ref())?;
    for line in slot_story::surroundings(&names, run, &job.zone)? {
        lines.say(None, line.about, line.text);
    }
    for (at, about, text) in shard_story::lines(&mut names, run, attempts, job.spec.as_ref())? {
        lines.say(at, about, text);
    }
    lines.tries(&mut names, run, attempts, job.spec.as_ref())?;
    lines.end(run, attempts, job.spec.as_ref());
    let current = state.query.job(run.job)?;
    if let Some(current) = &current {
        lines.next_slot(state, run, current);
    }
    let is_living = current.is_some_and(|current| current.state != JobState::Deleted);
    let hints = hints(run, &shown.run, &job.name, is_living);
    Ok(Story { title: title(run, &job, &shown.state), lines: lines.finish(), hints, run: shown })
}

fn title(run: &Run, job: &Known, state: &str) -> String {
    let slot = view::human(&job.zone, run.slot);
    let what = match (run.origin, run.slots) {
        (Origin::Schedule, 0 | 1) => format!("slot {slot}"),
        (Origin::Schedule, slots) => format!("{slots} slots {slot} to {}", view::human(&job.zone, run.slot_last)),
        (Origin::Manual | Origin::Api, _) => format!("triggered {slot}"),
        (Origin::Rerun, _) => format!("rerun of slot {slot}"),
        (Origin::Backfill, _) => format!("backfill of slot {slot}"),
        (Origin::Upstream, _) => format!("fired with slot {slot}"),
    };
    let why = run.why.map(|why| format!(", {}", view::spelled(why))).unwrap_or_default();
    format!("{}, {what}, v{}: {}{why}", job.name, run.version, state.to_uppercase())
}

fn hints(run: &Run, printed: &str, job: &str, is_living: bool) -> Vec<String> {
    let mut hints = Vec::new();
    if run.shards > 0 {
        hints.push(format!("rota logs {printed}"));
    }
    if !run.state.is_terminal() {
        hints.push(format!("rota kill {printed}"));
    } else if run.why == Some(Why::SecretUnknown) {
        hints.push("rota secret list".to_owned());
        hints.push("rota secret set NAME".to_owned());
    } else if run.state != RunState::Success && is_living {
        if run.shards > 0 {
            hints.push(format!("rota rerun {printed}"));
        }
        hints.push(format!("rota run {job}"));
    }
    hints
}

/// What an overlap policy asks for.
fn overlap(overlap: &Overlap) -> String {
    let places = overlap.places();
    let at_once = if places == 1 { "one at a time".to_owned() } else { format!("{places} at once") };
    let mut text = match overlap.mode {
        Mode::Allow if overlap.is_free() => return "overlap: allowed".to_owned(),
        Mode::Allow => format!("overlap: allowed, {at_once}"),
        Mode::Skip => "overlap: no earlier run held its place".to_owned(),
        Mode::Queue => format!("overlap: queue, {at_once}"),
        Mode::CancelRunning => "overlap: cancels what runs".to_owned(),
        Mode::CancelAndWait => "overlap: cancels what runs, and waits for its end".to_owned(),
        Mode::Merge => format!("overlap: merge, {at_once}"),
    };
    if let Some(key) = &overlap.key {
        text.push_str(&format!(", by `{key}`"));
    }
    text
}

struct Lines {
    zone: Zone,
    /// Each with its instant; those without one come after all that have one.
    lines: Vec<(UnixMs, StoryLine)>,
}

impl Lines {
    fn say(&mut self, at: Option<UnixMs>, about: impl Into<String>, text: impl Into<String>) {
        let line = StoryLine { at: at.map(|at| self.zone.format(at)), about: about.into(), text: text.into() };
        self.lines.push((at.unwrap_or(UnixMs(i64::MAX)), line));
    }

    fn finish(mut self) -> Vec<StoryLine> {
        self.lines.sort_by_key(|(at, _)| *at);
        self.lines.into_iter().map(|(_, line)| line).collect()
    }

    fn origin(&mut self, run: &Run) {
        let own = if run.param.is_some() { ", with a parameter of its own" } else { "" };
        match run.origin {
            Origin::Schedule => {
                let late = run.at.since_ms(run.slot_last);
                let text =
                    if late > 0 { format!("decided {} after the slot", human(late)) } else { "on time".to_owned() };
                self.say(Some(run.at), "due", text);
            }
            Origin::Manual => self.say(Some(run.at), "triggered", format!("by hand{own}")),
            Origin::Api => self.say(Some(run.at), "triggered", format!("through the API{own}")),
            Origin::Rerun => self.say(Some(run.at), "triggered", format!("as a rerun{own}")),
            Origin::Backfill => self.say(Some(run.at), "triggered", "by a backfill, in its turn".to_owned()),
            Origin::Upstream => self.say(Some(run.at), "fired", "by the end of an upstream job's run"),
        }
    }

    /// The trace within which it was asked for.
    fn trace(&mut self, state: &State, run: &Run) -> Result<(), Refusal> {
        if run.origin != Origin::Schedule
            && let Some(parent) = state.history.trace_parent(run.id)?
        {
            self.say(Some(run.at), "trace", format!("{}, below span {}", parent.trace(), parent.span()));
        }
        Ok(())
    }

    /// What it repeats, and what repeats it.
    fn reruns(&mut self, state: &State, run: &Run) -> Result<(), Refusal> {
        if run.origin == Origin::Rerun
            && let Some(rerun) = state.history.rerun(run.id)?
        {
            let left_out = match rerun.reused.len() {
                0 => String::new(),
                1 => format!("; shard {} had succeeded and is not run again", rerun.reused[0]),
                some => format!("; {some} shards had succeeded and are not run again"),
            };
            let text = format!("{}, with its version, slot and parameter{left_out}", rerun.of);
            self.say(None, "repeats", text);
        }
        let repeated: Vec<String> =
            state.history.reruns_of(run.id)?.iter().rev().take(RERUNS_MAX).map(ToString::to_string).collect();
        if !repeated.is_empty() {
            self.say(None, "rerun as", repeated.join(", "));
        }
        Ok(())
    }

    /// What a slot waited for.
    fn upstreams(&mut self, state: &State, run: &Run, spec: Option<&Spec>) -> Result<(), Refusal> {
        let Some(spec) = spec.filter(|_| run.origin == Origin::Schedule && run.slots == 1) else { return Ok(()) };
        for text in upstream::lines(state, spec, run.slot, &self.zone)? {
            self.say(None, "upstream", text);
        }
        Ok(())
    }

    /// Whose end fired it, and what its own end has fired, or is about to.
    fn children(&mut self, state: &State, run: &Run) -> Result<(), Refusal> {
        for (about, text) in upstream::children(state, run)? {
            self.say(None, about, text);
        }
        Ok(())
    }

    /// What stood in the way, as far as it is still known: the rules, and the pool as it is now.
    fn passed(
        &mut self,
        names: &mut Names<'_>,
        run: &Run,
        attempts: &[Attempt],
        spec: Option<&Spec>,
    ) -> Result<(), Refusal> {
        let Some(spec) = spec.filter(|_| run.shards > 0) else { return Ok(()) };
        let overlap = overlap(&spec.overlap);
        let cap = names.state.app(run.app)?.map(|app| format!("; cap: {} shards of {}", app.pending_max, app.name));
        self.say(Some(run.at), "gate", format!("{overlap}{}", cap.unwrap_or_default()));
        let Target::Handler { name, .. } = &spec.target else { return Ok(()) };
        if spec.sharding.rules.is_broadcast {
            return Ok(());
        }
        let Some(first) = attempts.iter().min_by_key(|attempt| (attempt.at, attempt.shard, attempt.no)) else {
            return Ok(());
        };
        let snapshots = names.state.intake.snapshots();
        let able = snapshots.iter().flat_map(|snapshot| &snapshot.workers).filter(|worker| {
            worker.app == run.app && worker.state == WorkerState::Online && worker.handlers.binary_search(name).is_ok()
        });
        let strategy = route::in_words(spec.route.strategy);
        let chosen = names.worker(first.worker)?;
        let text = format!("{chosen}, by {strategy}; {} online offer `{name}` now", able.count());
        self.say(Some(first.at), "route", text);
        Ok(())
    }

    /// A row without a dispatch: why there is none.
    fn not_run(&mut self, state: &State, run: &Run) -> Result<(), Refusal> {
        let why = run.why.map_or_else(|| "no reason is stored".to_owned(), view::spelled);
        let count = if run.slots > 1 { format!("{} slots ", run.slots) } else { String::new() };
        self.say(Some(run.at), "gate", format!("{count}{}: {why}", run.state.word()));
        if run.state == RunState::Merged
            && let Some(into) = state.history.merged_into(run.id)?
        {
            self.say(None, "merged", format!("into {into}"));
        }
        Ok(())
    }

    fn tries(
        &mut self,
        names: &mut Names<'_>,
        run: &Run,
        attempts: &[Attempt],
        spec: Option<&Spec>,
    ) -> Result<(), Refusal> {
        if run.shards > 0 && attempts.is_empty() {
            let text = if run.state.is_terminal() { "never dispatched" } else { "admitted, not dispatched yet" };
            self.say(None, "route", text);
        }
        let mut told: Vec<&Attempt> = attempts.iter().collect();
        told.sort_by_key(|attempt| (attempt.at, attempt.shard, attempt.no));
        for attempt in told.iter().take(ATTEMPTS_MAX) {
            let before = attempts.iter().find(|other| other.shard == attempt.shard && other.no + 1 == attempt.no);
            let whereabouts = shard_story::whereabouts(attempt, attempts, spec);
            self.attempt(names, run, attempt, (before, whereabouts), spec)?;
        }
        let waiting = names.waiting(run.id).to_vec();
        self.waits(names, run, &waiting)?;
        if told.len() > ATTEMPTS_MAX {
            self.say(None, "tries", format!("and {} more", told.len() - ATTEMPTS_MAX));
        }
        Ok(())
    }

    /// What its shards wait for, those with the same reason in one line.
    fn waits(&mut self, names: &mut Names<'_>, run: &Run, waiting: &[Waiting]) -> Result<(), Refusal> {
        let mut by_why: BTreeMap<(Why, Option<WorkerId>), Vec<&Waiting>> = BTreeMap::new();
        for shard in waiting {
            by_why.entry((shard.why, shard.worker)).or_default().push(shard);
        }
        for ((why, worker), shards) in by_why {
            let about = match shards[..] {
                _ if run.shards == 1 => "waits".to_owned(),
                [only] => format!("shard {} waits", only.shard),
                _ => format!("{} shards wait", shards.len()),
            };
            let text = match shards.iter().filter_map(|shard| shard.left_ms).min() {
                Some(ms) => format!("again in {} ({why})", human(i64::try_from(ms).unwrap_or(i64::MAX))),
                None => view::spelled(why),
            };
            let whom = worker.map(|worker| names.worker(worker)).transpose()?;
            self.say(None, about, whom.map_or_else(|| text.clone(), |whom| format!("for {whom}: {text}")));
        }
        Ok(())
    }

    fn attempt(
        &mut self,
        names: &mut Names<'_>,
        run: &Run,
        attempt: &Attempt,
        (before, whereabouts): (Option<&Attempt>, &str),
        spec: Option<&Spec>,
    ) -> Result<(), Refusal> {
        let about = if run.shards > 1 {
            format!("shard {} try {}", attempt.shard, attempt.no)
        } else {
            format!("try {}", attempt.no)
        };
        let worker = names.worker(attempt.worker)?;
        let after = before.and_then(|before| before.ended_at).map_or_else(String::new, |ended| {
            format!(", {} after try {} ended", human(attempt.at.since_ms(ended)), attempt.no - 1)
        });
        let uncharged = match before.map(|before| before.state) {
            Some(AttemptState::NotStarted) => "; the try before did not start and is not charged to the retries",
            Some(AttemptState::Lost) if before.and_then(|b| b.why) == Some(Why::InDoubt) => {
                "; the doubt about the try before is not charged to the retries"
            }
            _ => "",
        };
        self.say(Some(attempt.at), about.clone(), format!("dispatched to {worker}{after}{uncharged}{whereabouts}"));
        let state = names.attempt_state(attempt);
        match attempt.ended_at {
            Some(ended) => {
                let took = human(ended.since_ms(attempt.at));
                self.say(Some(ended), about.clone(), format!("{} after {took}{}", spoken(state), because(attempt)));
                self.release(attempt, ended, about);
            }
            None => {
                let limit = spec.and_then(|spec| spec.timeout.attempt_ms);
                let limit = limit.map(|ms| format!(", at most {}", human(i64::try_from(ms).unwrap_or(i64::MAX))));
                let text = format!("{} now{}", spoken(state), limit.unwrap_or_default());
                self.say(None, about, text);
            }
        }
        Ok(())
    }

    fn release(&mut self, attempt: &Attempt, ended: UnixMs, about: String) {
        match attempt.released_at {
            Some(released) if released > ended => {
                let text = format!("its place on the worker was free {} later", human(released.since_ms(ended)));
                self.say(Some(released), about, text);
            }
            Some(_) => {}
            None if attempt.state == AttemptState::NotStarted => {}
            None => self.say(None, about, "it still holds its place: its code may still run"),
        }
    }

    /// Why there is no further try.
    fn end(&mut self, run: &Run, attempts: &[Attempt], spec: Option<&Spec>) {
        if run.shards == 0 || !run.state.is_terminal() || run.state == RunState::Success {
            return;
        }
        let retries = spec.map_or(0, |spec| spec.retry.max);
        let may_doubt = spec.map(|spec| spec.delivery.unwrap_or_else(|| spec.target.delivery()));
        let text = match (run.state, run.why) {
            (RunState::Killed, why) => view::spelled(why.unwrap_or(Why::KilledByUser)),
            (RunState::Lost, Some(Why::InDoubt)) if may_doubt == Some(Delivery::AtMostOnce) => {
                "nothing could say whether it ran, and delivery is at_most_once".to_owned()
            }
            (
                _,
                Some(
                    why @ (Why::Deleted | Why::JobDeleted | Why::AttemptsSpent | Why::RunTimeout | Why::DispatchFailed),
                ),
            ) => view::spelled(why),
            (_, Some(why @ (Why::StartDeadline | Why::SendDeadline))) if attempts.is_empty() => view::spelled(why),
            (RunState::Lost, why) if shard_story::not_reassigned(why, spec).is_some() => {
                shard_story::not_reassigned(why, spec).unwrap_or_default()
            }
            _ if retries == 0 => "retry.max is 0".to_owned(),
            (state, _) if spec.is_some_and(|spec| !spec.retry.when.includes(state)) => {
                format!("{} is not in retry.when", state.word())
            }
            _ if retries == 1 => "its only retry is spent".to_owned(),
            _ => format!("its {retries} retries are spent"),
        };
        self.say(None, "not retried", text);
    }

    /// The schedule in words, and what comes next by it.
    fn next_slot(&mut self, state: &State, run: &Run, current: &Definition) {
        let compiled = match current.compile() {
            Ok(compiled) => compiled,
            Err(invalid) => {
                return self.say(None, "next slot", format!("none: the stored job cannot be read: {invalid}"));
            }
        };
        if current.version != run.version {
            self.say(None, "edited", format!("the job is at v{} now", current.version));
        }
        if compiled.schedule.is_some() {
            self.say(None, "schedule", view::explain(&compiled));
        }
        if let Some(held) = held::by_job(state).get(&current.id) {
            let slot = view::human(&compiled.body.zone, held.slot);
            return self.say(None, "next slot", format!("{slot}, held: {}", view::spelled(held.why)));
        }
        let text = match current.state {
            JobState::Deleted => "none: the job is deleted".to_owned(),
            JobState::Paused => "none: the job is paused".to_owned(),
            JobState::Finished => {
                let reason = when::finished(&current.spec, Some(&compiled), current.state, state.now());
                format!("none: the job is finished{}", reason.map(|text| format!(", {text}")).unwrap_or_default())
            }
            JobState::Enabled => next(state, &compiled),
        };
        self.say(None, "next slot", text);
    }
}

/// The next slot of a job that fires.
fn next(state: &State, job: &Job) -> String {
    let snapshots = state.intake.snapshots();
    let mut armed = snapshots.iter().flat_map(|snapshot| &snapshot.next);
    let armed = armed.find(|(id, _)| *id == job.id).map(|(_, slot)| *slot);
    let slot = armed.or_else(|| spec::next_slots(job, state.now(), 1).first().copied());
    match (slot, &job.schedule) {
        (Some(slot), _) => view::human(&job.body.zone, slot),
        (None, None) => "none: it only runs when asked to".to_owned(),
        (None, Some(schedule)) if schedule.kind() == Kind::Delay => "after the end of the open run".to_owned(),
        (None, Some(_)) => "none: the schedule has ended".to_owned(),
    }
}

fn because(attempt: &Attempt) -> String {
    let why = attempt.why.map(|why| format!(": {}", view::spelled(why))).unwrap_or_default();
    let said = attempt.message.as_deref().map(str::trim).filter(|message| !message.is_empty());
    let said = said.map(|message| format!("; said \"{}\"", message.chars().take(200).collect::<String>()));
    format!("{why}{}", said.unwrap_or_default())
}

/// A state's word as it stands in a sentence.
fn spoken(state: AttemptState) -> String {
    state.word().replace('_', " ")
}
