//! Named calendars: written once at the top of a file, and put in the place of their names in jobs.
//!
//! A server knows no names. What it stores with a job are the days themselves, so that a version of a job means the same
//! for ever; whoever changes a calendar sees in the plan which jobs that changes.

use std::collections::BTreeMap;

use rota_cron::text::nearest;
use rota_wire::rest;

use super::mistake::Mistake;
use super::node::{Key, Mark, Node, Value};
use super::reader::read;

/// The key under which a job's own calendar refers to named ones.
pub(crate) const USE: &str = "use";
const HINT: &str = "for example: calendar: workdays, or calendar: {use: workdays, exclude: [12-24]}";

/// The calendars of all files of a call, by name.
#[derive(Default)]
pub(crate) struct Calendars(BTreeMap<String, Named>);

struct Named {
    calendar: rest::Calendar,
    /// The file that has it, as it is named in messages.
    file: String,
}

impl Calendars {
    /// Takes those of a file in.
    pub(crate) fn read(&mut self, file: &str, entries: &[(Key, Node)]) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        for (key, node) in entries {
            let mut note =
                |mistake: Mistake| mistakes.push(mistake.under(&key.text, key.mark).under("calendars", key.mark));
            if let Some(other) = self.0.get(&key.text) {
                note(Mistake::new(key.mark, format!("{} has a calendar of this name, too", other.file)));
                continue;
            }
            match read::<rest::Calendar>(node).and_then(|calendar| checked(calendar, node)) {
                Ok(calendar) => {
                    self.0.insert(key.text.clone(), Named { calendar, file: file.to_owned() });
                }
                Err(mistake) => note(mistake),
            }
        }
        mistakes
    }

    /// Puts days in the place of names, if a job's keys have any.
    pub(crate) fn resolve(&self, entries: &mut [(Key, Node)]) -> Result<(), Mistake> {
        let Some((key, node)) = entries.iter_mut().find(|(key, _)| key.text == "calendar") else { return Ok(()) };
        if let Some(resolved) = self.resolved(node).map_err(|mistake| mistake.under("calendar", key.mark))? {
            *node = resolved;
        }
        Ok(())
    }

    fn resolved(&self, node: &Node) -> Result<Option<Node>, Mistake> {
        let (named, own) = match &node.value {
            Value::Text(_) | Value::List(_) => (self.named(node)?, rest::Calendar::default()),
            Value::Map(entries) => {
                let Some((key, used)) = entries.iter().find(|(key, _)| key.text == USE) else { return Ok(None) };
                let named = self.named(used).map_err(|mistake| mistake.under(USE, key.mark))?;
                let own = entries.iter().filter(|(key, _)| key.text != USE).cloned().collect();
                (named, read(&Node { mark: node.mark, value: Value::Map(own) })?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Fraction(_) => return Ok(None),
        };
        let mut all = rest::Calendar::default();
        for calendar in named.into_iter().chain([&own]) {
            all.exclude.extend(calendar.exclude.iter().cloned());
            all.include.extend(calendar.include.iter().cloned());
        }
        let list = |word: &str, days: Vec<String>| {
            let days = days.into_iter().map(|day| Node { mark: node.mark, value: Value::Text(day) }).collect();
            (Key { mark: node.mark, text: word.to_owned() }, Node { mark: node.mark, value: Value::List(days) })
        };
        let entries = vec![list("exclude", all.exclude), list("include", all.include)];
        Ok(Some(Node { mark: node.mark, value: Value::Map(entries) }))
    }

    /// The calendars that a name, or a list of names, stands for.
    fn named(&self, node: &Node) -> Result<Vec<&rest::Calendar>, Mistake> {
        match &node.value {
            Value::Text(name) => self.find(name, node.mark).map(|calendar| vec![calendar]),
            Value::List(names) => names
                .iter()
                .map(|name| match &name.value {
                    Value::Text(text) => self.find(text, name.mark),
                    Value::Null
                    | Value::Bool(_)
                    | Value::Number(_)
                    | Value::Fraction(_)
                    | Value::List(_)
                    | Value::Map(_) => {
                        let message = format!("expected the name of a calendar, found {}", name.kind());
                        Err(Mistake::new(name.mark, message).hint(HINT))
                    }
                })
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Fraction(_) | Value::Map(_) => {
                let message = format!("expected the name of a calendar, or a list of names, found {}", node.kind());
                Err(Mistake::new(node.mark, message).hint(HINT))
            }
        }
    }

    fn find(&self, name: &str, mark: Mark) -> Result<&rest::Calendar, Mistake> {
        if let Some(named) = self.0.get(name) {
            return Ok(&named.calendar);
        }
        let is_day = rota_cron::Calendar::parse(&[name], &[]).is_ok();
        let hint = match nearest(name, self.0.keys().map(String::as_str)) {
            _ if is_day => "days stand in a list of their own: calendar: {exclude: [sat, sun]}".to_owned(),
            Some(meant) => format!("did you mean `{meant}`?"),
            None if self.0.is_empty() => {
                "write it at the top of a file: calendars: {workdays: {exclude: [sat, sun]}}".to_owned()
            }
            None => format!("known are {}", self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
        };
        Err(Mistake::new(mark, format!("there is no calendar `{}`", super::node::beginning(name))).hint(hint))
    }
}

/// The calendar, if a server would take it.
fn checked(calendar: rest::Calendar, node: &Node) -> Result<rest::Calendar, Mistake> {
    let Err(error) = rota_cron::Calendar::parse(&calendar.exclude, &calendar.include) else { return Ok(calendar) };
    let list = node.entries().and_then(|entries| {
        let (word, place) = error.item?;
        let (key, list) = entries.iter().find(|(key, _)| key.text == word)?;
        let Value::List(items) = &list.value else { return None };
        Some((key, items.get(place)?.mark))
    });
    let mark = list.map_or(node.mark, |(_, mark)| mark);
    let mistake = Mistake::new(mark, error.to_string()).maybe_hint(error.hint);
    Err(match list {
        Some((key, _)) => mistake.under(&key.text, key.mark),
        None => mistake,
    })
}
