//! What narrows a schedule, as users write it: changes of the clocks, calendars, bounds; and why nothing is left of it.

use rota_core::job::{Active, Calendar, Dst, Fold, Gap, Job, JobState, Spec, When};
use rota_core::time::UnixMs;
use rota_cron::Schedule;
use rota_wire::rest;

use crate::refusal::Refusal;
use crate::spec::{word, word_of};

pub(crate) const GAPS: [(&str, Gap); 2] = [("run_after", Gap::RunAfter), ("skip", Gap::Skip)];
pub(crate) const FOLDS: [(&str, Fold); 3] = [("first", Fold::First), ("last", Fold::Last), ("both", Fold::Both)];
const POLICIES: [(&str, Dst); 2] = [("default", Dst::Standard), ("quartz", Dst::Quartz)];

pub(crate) fn read_dst(dst: Option<&rest::Dst>) -> Result<Dst, Refusal> {
    match dst {
        None => Ok(Dst::Standard),
        Some(rest::Dst::Policy(text)) => Ok(word("dst", Some(text), &POLICIES)?.unwrap_or_default()),
        Some(rest::Dst::Rule(rule)) => {
            let gap = word("dst.gap", rule.gap.as_deref(), &GAPS)?;
            let overlap = word("dst.overlap", rule.overlap.as_deref(), &FOLDS)?;
            Ok(if gap.is_none() && overlap.is_none() { Dst::Standard } else { Dst::Rule { gap, overlap } })
        }
    }
}

pub(crate) fn write_dst(dst: Dst) -> Option<rest::Dst> {
    match dst {
        Dst::Standard => None,
        Dst::Quartz => Some(rest::Dst::Policy(word_of(&POLICIES, dst))),
        Dst::Rule { gap, overlap } => Some(rest::Dst::Rule(rest::DstRule {
            gap: gap.map(|gap| word_of(&GAPS, gap)),
            overlap: overlap.map(|overlap| word_of(&FOLDS, overlap)),
        })),
    }
}

pub(crate) fn read_calendar(calendar: Option<&rest::Calendar>) -> Calendar {
    let rest::Calendar { exclude, include } = calendar.cloned().unwrap_or_default();
    Calendar { exclude, include }
}

pub(crate) fn write_calendar(calendar: &Calendar) -> Option<rest::Calendar> {
    let Calendar { exclude, include } = calendar.clone();
    (!calendar.is_empty()).then_some(rest::Calendar { exclude, include })
}

pub(crate) fn read_active(active: Option<&rest::Active>) -> Active {
    let rest::Active { from, until } = active.cloned().unwrap_or_default();
    Active { from, until }
}

pub(crate) fn write_active(active: &Active) -> Option<rest::Active> {
    let Active { from, until } = active.clone();
    (!active.is_empty()).then_some(rest::Active { from, until })
}

/// The key that leaves a schedule without a slot to come, why, and what to look at.
fn nothing_left(spec: &Spec, schedule: &Schedule, now: UnixMs) -> (&'static str, String, &'static str) {
    let until = schedule.active().until.filter(|until| *until <= now);
    if let Some(until) = until {
        let text = format!("it was active until {}", schedule.zone().format(until));
        return ("active.until", text, "give a later date, or leave `until` out");
    }
    let unbounded = schedule.with_active(rota_cron::Active::ALWAYS);
    let is_left = |schedule: &Schedule| match &spec.schedule {
        When::DelayMs(_) => schedule.first_open(now).is_some(),
        When::Cron(_) | When::EveryMs(_) | When::OnceMs(_) | When::Manual => schedule.next_after(now).is_some(),
    };
    if is_left(&unbounded) {
        let text = "it has no slot while it is active".to_owned();
        return ("active", text, "look at `from` and `until` beside the schedule");
    }
    if is_left(&unbounded.with_calendar(None)) {
        let text = "the calendar leaves the schedule no slot".to_owned();
        return (
            "calendar.exclude",
            text,
            "look at the days and times that the schedule names beside those it excludes",
        );
    }
    match &spec.schedule {
        When::Cron(expr) => (
            "cron",
            format!("`{expr}` never comes again"),
            "no date matches all fields at once, for example the 30th of February; look at day and month",
        ),
        When::EveryMs(_) | When::DelayMs(_) | When::OnceMs(_) | When::Manual => {
            ("every", "it has no slot before the year 2200".to_owned(), "a shorter period")
        }
    }
}

/// Refuses a schedule that has no slot to come.
pub(crate) fn never(spec: &Spec, schedule: &Schedule, now: UnixMs) -> Refusal {
    let (field, text, hint) = nothing_left(spec, schedule, now);
    Refusal::invalid(field, text).hint(hint)
}

/// Why a job is finished, for people.
pub(crate) fn finished(spec: &Spec, job: Option<&Job>, state: JobState, now: UnixMs) -> Option<String> {
    let schedule = job.filter(|_| state == JobState::Finished)?.schedule.as_ref()?;
    Some(match &spec.schedule {
        When::OnceMs(at) => format!("its instant was {}", schedule.zone().format(UnixMs(*at))),
        When::Cron(_) | When::EveryMs(_) | When::DelayMs(_) | When::Manual => nothing_left(spec, schedule, now).1,
    })
}
