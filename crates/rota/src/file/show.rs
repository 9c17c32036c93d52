//! A plan as people read it.

use super::diff::KeyChange;
use super::node::beginning;
use super::plan::{Does, Plan, Step};
use crate::cli::shown;
use crate::cli::table::{grouped, one_line};

/// Steps of a kind that are printed, unless all are asked for.
const SHOWN_MAX: usize = 100;

/// How a plan is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Style {
    pub(crate) is_colored: bool,
    /// Every step, also of thousands.
    pub(crate) is_whole: bool,
}

impl Style {
    fn paint(self, does: Does, text: &str) -> String {
        let code = match does {
            Does::Create | Does::Resume => "32",
            Does::Edit | Does::Adopt | Does::Pause => "33",
            Does::Delete | Does::Refuse => "31",
            Does::Leave | Does::Nothing => "2",
        };
        if self.is_colored { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The whole plan, with a summary as its last line.
pub(crate) fn text(plan: &Plan, style: Style) -> String {
    let mut text = String::new();
    for step in &plan.alerts {
        let head = format!("{} {:<7} alert {}", sign(step.does), step.does.word(), step.alert);
        text.push_str(&format!("{}\n", style.paint(step.does, &head)));
        step.changes.iter().for_each(|change| text.push_str(&line(change)));
    }
    for step in &plan.apps {
        let head = format!("{} {:<7} app {}", sign(step.does), step.does.word(), step.app);
        text.push_str(&format!("{}\n", style.paint(step.does, &head)));
        step.changes.iter().for_each(|change| text.push_str(&line(change)));
    }
    let mut shown: std::collections::BTreeMap<Does, usize> = std::collections::BTreeMap::new();
    for step in &plan.jobs {
        if step.does == Does::Nothing && step.note.is_none() {
            continue;
        }
        let count = shown.entry(step.does).or_default();
        *count += 1;
        if style.is_whole || *count <= SHOWN_MAX {
            text.push_str(&of_job(step, style, &plan.year));
        }
    }
    for (does, count) in shown.into_iter().filter(|(_, count)| !style.is_whole && *count > SHOWN_MAX) {
        text.push_str(&format!(
            "… and {} more to {}; --all shows them\n",
            grouped((count - SHOWN_MAX) as u64),
            does.word()
        ));
    }
    text.push_str(&summary(plan));
    text
}

fn sign(does: Does) -> char {
    match does {
        Does::Create => '+',
        Does::Edit | Does::Adopt | Does::Pause | Does::Resume => '~',
        Does::Delete => '-',
        Does::Refuse => '!',
        Does::Leave | Does::Nothing => '=',
    }
}

fn of_job(step: &Step, style: Style, year: &str) -> String {
    let word = if step.does == Does::Nothing { "" } else { step.does.word() };
    let mut text = style.paint(step.does, &format!("{} {word:<7} {}", sign(step.does), one_line(&step.job)));
    if let Some(drift) = &step.drift {
        text.push_str(&format!("  drift: changed by {} at {}", drift.by, shown::time(&drift.at)));
    }
    if let Some(note) = &step.note {
        text.push_str(&format!("  {}", one_line(note)));
    }
    text.push('\n');
    if let Some(error) = &step.error {
        text.push_str(&format!("    {} ({})\n", error.message, error.code));
        if let Some(hint) = &error.hint {
            text.push_str(&format!("    {hint}\n"));
        }
    }
    step.changes.iter().for_each(|change| text.push_str(&line(change)));
    if step.slots_before != step.slots_after {
        let (before, after) = (slots(&step.slots_before, year), slots(&step.slots_after, year));
        text.push_str(&format!("    {:<16} {before} -> {after}\n", "next"));
    } else if !matches!(step.does, Does::Nothing | Does::Leave | Does::Refuse) && !step.slots_after.is_empty() {
        text.push_str(&format!("    {:<16} {}\n", "next", slots(&step.slots_after, year)));
    }
    text
}

/// Slots with the offset said once, and the year of those that are not of this year:
/// `12-30 02:00:00, 12-31 02:00:00, 2027-01-01 02:00:00 +08:00`.
fn slots(slots: &[String], year: &str) -> String {
    if slots.is_empty() {
        return "none".to_owned();
    }
    let time = |slot: &String| if slot.starts_with(year) { shown::time(slot) } else { shown::moment_of(slot) };
    let times: Vec<String> = slots.iter().map(time).collect();
    let offset = |time: &str| time.rsplit_once(' ').map(|(_, offset)| offset.to_owned());
    let first = offset(&times[0]);
    if first.is_some() && times.iter().all(|time| offset(time) == first) {
        let bare: Vec<&str> = times.iter().filter_map(|time| Some(time.rsplit_once(' ')?.0)).collect();
        return format!("{} {}", bare.join(", "), first.unwrap_or_default());
    }
    times.join(", ")
}

fn line(change: &KeyChange) -> String {
    let value = |value: &Option<serde_json::Value>| match value {
        None => "none".to_owned(),
        Some(serde_json::Value::String(text)) => beginning(text),
        Some(other) => beginning(&other.to_string()),
    };
    let key = &change.key;
    match (&change.before, &change.after) {
        (None, after) => format!("    {key:<16} {}\n", value(after)),
        (before, after) if before == after => format!("    {key:<16} changed\n"),
        (before, after) => format!("    {key:<16} {} -> {}\n", value(before), value(after)),
    }
}

/// `2 to create, 1 to edit, 1 refused; 3 unchanged`.
pub(crate) fn summary(plan: &Plan) -> String {
    let said = [
        (Does::Create, "to create"),
        (Does::Edit, "to edit"),
        (Does::Adopt, "to adopt"),
        (Does::Pause, "to pause"),
        (Does::Resume, "to resume"),
        (Does::Delete, "to delete"),
        (Does::Refuse, "refused"),
    ];
    let of = |(does, words): (Does, &str)| {
        let count = plan.count(does);
        (count > 0).then(|| format!("{} {words}", grouped(count as u64)))
    };
    let mut parts: Vec<String> = said.into_iter().filter_map(of).collect();
    if !plan.alerts.is_empty() {
        let end = if plan.alerts.len() == 1 { "" } else { "s" };
        parts.insert(0, format!("{} alert{end}", plan.alerts.len()));
    }
    if !plan.apps.is_empty() {
        parts.insert(0, format!("{} app{}", plan.apps.len(), if plan.apps.len() == 1 { "" } else { "s" }));
    }
    let same = plan.count(Does::Nothing);
    let left = plan.count(Does::Leave);
    let mut text = if parts.is_empty() { "nothing to do".to_owned() } else { parts.join(", ") };
    text.push_str(&format!("; {} unchanged", grouped(same as u64)));
    if left > 0 {
        text.push_str(&format!(", {} not in the file", grouped(left as u64)));
    }
    text.push('\n');
    text
}
