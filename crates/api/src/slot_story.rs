//! What became of an instant of a job, also if no row covers it: then the stored versions, the changes of state, what is
//! live now and the terms of the server explain it, in that order. What nothing explains is a hole, and said to be one.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State as Shared;
use http::Uri;
use rota_core::batch::{Exception, Origin, Run, RunState};
use rota_core::id::{RunId, Version, id_floor};
use rota_core::job::{Definition, Job, JobState};
use rota_core::partition::Held;
use rota_core::time::UnixMs;
use rota_core::why::Why;
use rota_cron::{Kind, Zone};
use rota_port::history::{PAST_MAX, Standing, StateChange};
use rota_wire::rest::{self, StoryLine};

use crate::auth::Reader;
use crate::body::Args;
use crate::downtime;
use crate::duration::human as span;
use crate::held;
use crate::history;
use crate::moment::{self, Moment};
use crate::no_slot;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::state::State;
use crate::story;
use crate::upstream;
use crate::view::{self, Names, human};

/// A row's id may have been taken from its block so long before its slot.
pub(crate) const ID_EARLY_MS: i64 = 600_000;
/// Rows of a job that are looked through for the one that covers an instant.
const LOOKED_THROUGH_MAX: usize = 50_000;
/// A slot that is due for no longer may simply not be decided yet.
const DECIDED_WITHIN_MS: i64 = 5_000;

pub(crate) async fn why(
    _: Reader,
    Shared(state): Shared<Arc<State>>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Answer<rest::SlotStory>, Refusal> {
    let args = Args::read(&uri, &["at"])?;
    let told = state.read(move |state| {
        let job = view::find_job(state, &args.namespace(), &job)?;
        let text = args.text("at").ok_or_else(|| {
            Refusal::invalid("at", "which instant?").hint("for example: ?at=2026-12-01T02:00:00%2B08:00, or ?at=02:00")
        })?;
        let moment = moment::parse("at", text, &view::zone(&job.spec.zone), state.now())?;
        Past::of(state, job)?.tell(moment)
    });
    Ok(Answer(told.await?))
}

/// What is known of a job's past.
struct Past<'s> {
    state: &'s State,
    job: Definition,
    zone: Zone,
    /// Oldest first.
    versions: Vec<Definition>,
    changes: Vec<StateChange>,
    standing: Standing,
}

/// The answer, while it is put together.
struct Told {
    code: &'static str,
    what: String,
    lines: Vec<StoryLine>,
    hints: Vec<String>,
}

impl Told {
    fn new(code: &'static str, what: impl Into<String>) -> Told {
        Told { code, what: what.into(), lines: Vec::new(), hints: Vec::new() }
    }

    fn hint(mut self, hint: impl Into<String>) -> Told {
        self.hints.push(hint.into());
        self
    }
}

/// The version that stood at an instant, compiled, and its slot in the moment that was meant.
struct InForce<'v> {
    definition: &'v Definition,
    job: Option<Job>,
    /// Until when it stood.
    to: Option<UnixMs>,
    slot: Option<UnixMs>,
}

impl<'s> Past<'s> {
    fn of(state: &'s State, job: Definition) -> Result<Past<'s>, Refusal> {
        let oldest = job.version.0.saturating_sub(PAST_MAX - 1).max(1);
        // First how far it is covered, then the rows: so no row that this speaks of can be missed.
        let standing = state.history.standing()?;
        let versions = state.history.job_versions(job.id, Version(oldest))?;
        let changes = history::changes_of(state, &job)?;
        Ok(Past { zone: view::zone(&job.spec.zone), state, versions, changes, standing, job })
    }

    fn tell(&self, moment: Moment) -> Result<rest::SlotStory, Refusal> {
        let in_force = self.in_force(moment);
        let slot = in_force.as_ref().and_then(|in_force| in_force.slot);
        if let Some(run) = self.covering(moment, slot, in_force.as_ref())? {
            return self.covered(moment, &run, in_force.as_ref());
        }
        let told = self.without_row(moment, in_force.as_ref())?;
        let at = slot.unwrap_or(moment.at);
        let (before, after) = in_force.as_ref().map_or((None, None), |in_force| self.neighbours(in_force, at));
        let mut lines = told.lines;
        if let Some(in_force) = &in_force {
            lines.insert(0, self.version_line(in_force));
        }
        for (about, slot) in [("slot before", before), ("slot after", after)] {
            lines.extend(slot.map(|slot| line(about, human(&self.zone, slot))));
        }
        let mut hints = told.hints;
        hints.extend(before.filter(|_| told.code == "no_match").map(|slot| self.why(slot)));
        hints.push(format!("rota job history {}", self.job.name));
        Ok(rest::SlotStory {
            job: self.job.id.0,
            job_name: self.job.name.clone(),
            at: self.zone.format(at),
            code: told.code.to_owned(),
            is_hole: told.code == "hole",
            title: format!("{}, {}: {}", self.job.name, human(&self.zone, at), told.what),
            version: in_force.map(|in_force| in_force.definition.version.0),
            run: None,
            before: before.map(|slot| self.zone.format(slot)),
            after: after.map(|slot| self.zone.format(slot)),
            lines,
            hints,
        })
    }

    fn why(&self, slot: UnixMs) -> String {
        format!("rota why {}@{}", self.job.name, self.zone.format(slot))
    }

    /// The version that stood at a moment. A slot belongs to the version that took effect before it.
    fn in_force(&self, moment: Moment) -> Option<InForce<'_>> {
        let mut found = None;
        for (at, definition) in self.versions.iter().enumerate() {
            if definition.at >= moment.last() {
                break;
            }
            let to = self.versions.get(at + 1).map(|next| next.at);
            let job = definition.compile().ok();
            let slot = job.as_ref().and_then(|job| slot_in(job, moment, definition.at, to));
            // A moment in which an edit fell belongs to the version that has a slot in it.
            let is_better = slot.is_some() || found.as_ref().is_none_or(|known: &InForce<'_>| known.slot.is_none());
            let is_over = to.is_some_and(|to| to < moment.at);
            if is_better && !is_over {
                found = Some(InForce { definition, job, to, slot });
            }
        }
        found
    }

    /// The row that covers a slot, or an armed instant within the moment.
    fn covering(
        &self,
        moment: Moment,
        slot: Option<UnixMs>,
        in_force: Option<&InForce<'_>>,
    ) -> Result<Option<Run>, Refusal> {
        let (first, last) = slot.map_or((moment.at, moment.last()), |slot| (slot, slot));
        let is_armed = in_force
            .and_then(|in_force| in_force.job.as_ref()?.schedule.as_ref())
            .is_some_and(|schedule| matches!(schedule.kind(), Kind::Delay | Kind::Once));
        let mut from = RunId(id_floor(first.plus_ms(-ID_EARLY_MS)));
        let mut looked_through = 0;
        while looked_through < LOOKED_THROUGH_MAX {
            let page = self.state.history.runs_from(self.job.id, from, PAST_MAX)?;
            for run in page.iter().filter(|run| run.origin == Origin::Schedule) {
                let is_exact = slot.is_some() || (is_armed && run.slots == 1 && run.slot >= first);
                if run.slot <= last && run.slot_last >= first && is_exact {
                    return Ok(Some(run.clone()));
                }
                if run.slot > last {
                    return Ok(None);
                }
            }
            looked_through += page.len();
            match page.last() {
                Some(last) if page.len() == PAST_MAX as usize => from = RunId(last.id.0 + 1),
                Some(_) | None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// A row covers it: the row's story, and what the server was doing then.
    fn covered(&self, moment: Moment, run: &Run, in_force: Option<&InForce<'_>>) -> Result<rest::SlotStory, Refusal> {
        let at = in_force.and_then(|in_force| in_force.slot).unwrap_or(moment.at).max(run.slot);
        let attempts = self.state.query.attempts(run.id)?;
        let told = story::tell(self.state, run, &attempts)?;
        let down = downtime::around(&self.state.history.terms()?, at);
        let was_lost = down.is_some() && run.state == RunState::Skipped && run.why == Some(Why::Misfire);
        let mut hints = told.hints;
        hints.insert(0, format!("rota why {}", run.id));
        Ok(rest::SlotStory {
            job: self.job.id.0,
            job_name: self.job.name.clone(),
            at: self.zone.format(at),
            code: if was_lost { "server_down" } else { "covered" }.to_owned(),
            is_hole: false,
            title: told.title,
            version: Some(run.version.0),
            run: Some(told.run),
            before: None,
            after: None,
            lines: told.lines,
            hints,
        })
    }

    /// Why an instant has no row, the most certain reason first.
    fn without_row(&self, moment: Moment, in_force: Option<&InForce<'_>>) -> Result<Told, Refusal> {
        let name = &self.job.name;
        let Some(in_force) = in_force else {
            let first = self.versions.first().map_or(self.job.at, |first| first.at);
            return Ok(Told::new("not_created", format!("not created yet; it was made {}", human(&self.zone, first))));
        };
        if let Some(deleted) = self.changes.iter().find(|c| c.state == JobState::Deleted && c.at < moment.last()) {
            let text = format!("deleted {} by {}{}", human(&self.zone, deleted.at), deleted.by, because(deleted));
            return Ok(Told::new("deleted", text));
        }
        let Some(job) = &in_force.job else {
            let text = format!("v{} cannot be read by this version", in_force.definition.version);
            return Ok(Told::new("unreadable", text));
        };
        let Some(schedule) = &job.schedule else {
            let text = format!("v{} only runs when asked to", in_force.definition.version);
            return Ok(Told::new("not_scheduled", text).hint(format!("rota runs --job {name}")));
        };
        Ok(match in_force.slot {
            Some(slot) if slot > self.state.now() => self.future(slot),
            Some(slot) => self.missing(slot)?,
            None if schedule.kind() == Kind::Delay => {
                let text = "no run was armed for it; it runs some time after the end of the run before";
                self.closed(moment, in_force)
                    .unwrap_or_else(|| Told::new("no_match", text).hint(format!("rota runs --job {name}")))
            }
            None => self.no_slot(moment, in_force, job),
        })
    }

    /// The version that stood then has no slot there.
    fn no_slot(&self, moment: Moment, in_force: &InForce<'_>, job: &Job) -> Told {
        let own = in_force.definition.version;
        let others = self.versions.iter().filter(|other| other.version != own);
        let other =
            others.filter_map(|other| Some((other, slot_in(&other.compile().ok()?, moment, UnixMs(i64::MIN), None)?)));
        // The nearest version whose schedule has a slot there is the one that was expected.
        if let Some((other, slot)) = other.min_by_key(|(other, _)| other.version.0.abs_diff(own.0)) {
            let stood = if other.version < own {
                let next = self.versions.iter().find(|v| v.version.0 == other.version.0 + 1);
                next.map_or_else(String::new, |next| {
                    format!(", was replaced {} by {}", human(&self.zone, next.at), next.by)
                })
            } else {
                format!(", took effect only {}", human(&self.zone, other.at))
            };
            let text = format!("edited: v{own} stood then and has no slot here; v{}, which has{stood}", other.version);
            return Told {
                lines: vec![line("its slot", format!("{} (v{})", human(&self.zone, slot), other.version))],
                ..Told::new("edited", text)
            }
            .hint(format!(
                "rota job diff {} {} {}",
                self.job.name,
                other.version.min(own),
                other.version.max(own)
            ));
        }
        if let Some(told) = self.closed(moment, in_force).or_else(|| self.jittered(moment, job)) {
            return told;
        }
        let has_ended = job.schedule.as_ref().is_some_and(|schedule| schedule.next_after(moment.last()).is_none());
        if has_ended {
            return Told::new("ended", "the schedule had no further slot");
        }
        Told::new("no_match", "no slot of the schedule")
    }

    /// The schedule itself has a slot there; the version's calendar or bounds took it away.
    fn closed(&self, moment: Moment, in_force: &InForce<'_>) -> Option<Told> {
        let (code, text) = no_slot::closed(&self.zone, in_force.definition, moment)?;
        Some(Told::new(code, text).hint(format!("rota job show {}", self.job.name)))
    }

    /// No slot, but where the jitter puts the start of one.
    fn jittered(&self, moment: Moment, job: &Job) -> Option<Told> {
        let (slot, text) = no_slot::jittered(&self.zone, job, moment)?;
        Some(Told::new("jitter", text).hint(self.why(slot)))
    }

    /// A slot to come.
    fn future(&self, slot: UnixMs) -> Told {
        let left = span(slot.since_ms(self.state.now()));
        let text = match self.job.state {
            JobState::Enabled => match self.frozen() {
                Some(reason) => format!("fires in {left}, if what is frozen now is thawed by then ({reason})"),
                None => format!("fires in {left}"),
            },
            JobState::Paused => format!("in {left}, and does not fire as long as the job is paused"),
            JobState::Finished | JobState::Deleted => "the job fires no more".to_owned(),
        };
        Told::new("future", text).hint(format!("rota run {}", self.job.name))
    }

    /// A slot that has passed and should have a row, sooner or later.
    fn missing(&self, slot: UnixMs) -> Result<Told, Refusal> {
        let name = &self.job.name;
        if id_floor(slot.plus_ms(-ID_EARLY_MS)) < self.standing.swept {
            let text = "the ledger no longer holds rows of that time: the retention has dropped them";
            return Ok(Told::new("pruned", text));
        }
        let pause = self.changes.iter().rev().find(|change| change.state == JobState::Paused);
        if self.job.state == JobState::Paused && slot > self.covered_to() {
            let text = match pause {
                Some(pause) => {
                    format!("paused since {} by {}{}", human(&self.zone, pause.at), pause.by, because(pause))
                }
                None => format!("paused since it was made, {}", human(&self.zone, self.job.at)),
            };
            let lines = vec![line("its row", "one row for all slots of the pause comes with its end")];
            return Ok(Told { lines, ..Told::new("paused", text) }.hint(format!("rota job resume {name}")));
        }
        if let Some(held) = held::by_job(self.state).get(&self.job.id).filter(|held| held.slot <= slot) {
            return self.held(slot, held);
        }
        if let Some(reason) = self.frozen() {
            return Ok(Told::new("frozen", format!("frozen: {reason}")).hint("rota thaw"));
        }
        let suspended = self.state.intake.snapshots().iter().find_map(|snapshot| snapshot.suspended);
        if let Some(why) = suspended {
            return Ok(Told::new("suspended", format!("nothing fires: {}", view::spelled(why))));
        }
        if self.state.now().since_ms(slot) <= DECIDED_WITHIN_MS || slot > self.covered_to() {
            let text = format!("due for {}, not decided yet", span(self.state.now().since_ms(slot)));
            return Ok(Told::new("due", text));
        }
        Ok(Told::new("hole", "A HOLE: this slot should have a row, and has none; nothing explains it")
            .hint(format!("rota audit --job {name}")))
    }

    fn held(&self, slot: UnixMs, held: &Held) -> Result<Told, Refusal> {
        let mut told = self.told_of_held(slot, held);
        if held.why == Why::Upstream {
            let lines = upstream::lines(self.state, &self.job.spec, held.slot, &self.zone)?;
            told.lines = lines.into_iter().map(|text| line("upstream", text)).collect();
        }
        Ok(told)
    }

    fn told_of_held(&self, slot: UnixMs, held: &Held) -> Told {
        let since = human(&self.zone, held.since);
        let is_nobody = matches!(held.why, Why::NoWorker | Why::NoWorkerForHandler | Why::NoWorkerForLabels);
        let hint = if held.why == Why::Frozen {
            "rota thaw".to_owned()
        } else if is_nobody {
            "rota workers".to_owned()
        } else {
            format!("rota runs --job {}", self.job.name)
        };
        let code = if held.why == Why::Frozen { "frozen" } else { "held" };
        if held.slot == slot {
            let reason =
                self.frozen().filter(|_| held.why == Why::Frozen).map(|r| format!(": {r}")).unwrap_or_default();
            return Told::new(code, format!("held since {since}: {}{reason}", view::spelled(held.why))).hint(hint);
        }
        let code = if held.why == Why::Frozen { "frozen" } else { "behind_held" };
        let text =
            format!("waits behind {}, held since {since}: {}", human(&self.zone, held.slot), view::spelled(held.why));
        Told::new(code, text).hint(hint)
    }

    /// Who froze the job's app, when and why.
    fn frozen(&self) -> Option<String> {
        let snapshots = self.state.intake.snapshots();
        let partition = self.state.intake.partition(self.job.app)?;
        let own = snapshots.iter().find(|snapshot| snapshot.partition == partition)?;
        let freeze = own.frozen.iter().find(|freeze| freeze.is_for(self.job.app))?;
        Some(format!("\"{}\", by {} since {}", freeze.reason, freeze.by, human(&self.zone, freeze.at)))
    }

    /// Up to where the store says that the job's slots have rows.
    fn covered_to(&self) -> UnixMs {
        let exception = self.standing.exceptions.iter().find(|(job, _)| *job == self.job.id).map(|(_, e)| *e);
        let partition = self.state.intake.partition(self.job.app);
        let mark =
            self.standing.marks.iter().find(|(of, _)| Some(*of) == partition).map_or(UnixMs(0), |(_, mark)| *mark);
        match exception {
            Some(Exception::Covered(to) | Exception::Judged { covered: to, .. }) => to,
            Some(Exception::Armed(at)) => UnixMs(at.0 - 1),
            None => mark,
        }
    }

    /// The slots before and after an instant, of the version that stood then.
    fn neighbours(&self, in_force: &InForce<'_>, at: UnixMs) -> (Option<UnixMs>, Option<UnixMs>) {
        let Some(schedule) = in_force.job.as_ref().and_then(|job| job.schedule.as_ref()) else { return (None, None) };
        if schedule.kind() == Kind::Delay {
            return (None, None);
        }
        let before = schedule.prev_before(at).filter(|slot| *slot > in_force.definition.at);
        let after = schedule.next_after(at).filter(|slot| in_force.to.is_none_or(|to| *slot <= to));
        (before, after)
    }

    fn version_line(&self, in_force: &InForce<'_>) -> StoryLine {
        let definition = in_force.definition;
        let schedule = in_force.job.as_ref().map_or_else(|| "not readable".to_owned(), view::explain);
        let made = if definition.version.0 == 1 { "made" } else { "edited" };
        let text = format!("v{}: {schedule}; {made} by {}", definition.version, definition.by);
        StoryLine { at: Some(self.zone.format(definition.at)), about: "version".to_owned(), text }
    }
}

/// The first slot of a version within a moment.
fn slot_in(job: &Job, moment: Moment, from: UnixMs, to: Option<UnixMs>) -> Option<UnixMs> {
    let schedule = job.schedule.as_ref().filter(|schedule| schedule.kind() != Kind::Delay)?;
    let slot = schedule.next_after(UnixMs(moment.at.0 - 1).max(from))?;
    (slot <= moment.last() && to.is_none_or(|to| slot <= to)).then_some(slot)
}

fn because(change: &StateChange) -> String {
    change.reason.as_deref().map(|reason| format!(": \"{reason}\"")).unwrap_or_default()
}

fn line(about: &str, text: impl Into<String>) -> StoryLine {
    StoryLine { at: None, about: about.to_owned(), text: text.into() }
}

/// What a row's story says of the server at its slot: a downtime, and the database of zones if it was another one.
pub(crate) fn surroundings(names: &Names<'_>, run: &Run, zone: &Zone) -> Result<Vec<StoryLine>, Refusal> {
    let terms = names.state.history.terms()?;
    let mut lines = Vec::new();
    let is_scheduled = run.origin == Origin::Schedule;
    if let Some(down) = downtime::around(&terms, run.slot).filter(|_| is_scheduled) {
        let from = if down.is_exact { "from" } else { "since some time after" };
        let text = format!("down {from} {} until {}", human(zone, down.from), human(zone, down.to));
        lines.push(line("server", text));
    }
    let decided_by = downtime::term_at(&terms, run.at).filter(|term| term.tzdb != rota_cron::tzdb_version());
    lines.extend(decided_by.filter(|_| is_scheduled).map(|term| {
        line("time zones", format!("decided by the database of {}; it is {} now", term.tzdb, rota_cron::tzdb_version()))
    }));
    Ok(lines)
}
